// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* RFC 7306: immediate data. */
#include "extensions.h"

namespace {

using Rfc7306_1_1 = Extensions;
using Rfc7306_6_3 = Extensions;
using Rfc7306_8_1 = Extensions;
using Rfc7306_8_2 = Extensions;

/* --- 6.3: immediate data --- */

TEST_F(Rfc7306_6_3, ImmediateIsDeliveredAndConsumesABuffer)
{
	respond_and_begin();
	ASSERT_EQ(end->post_recv(1, {region->sge(0, 100)}), 0);
	ASSERT_EQ(end->post_recv(2, {region->sge(100, 100)}), 0);
	untouched = false;
	peer->send(immediate(1, 0x0102030405060708));
	peer->send(Segment::send(2, text("next")));
	auto completions = end->wait_recv(2, patience());
	EXPECT_COMPLETED(completions[0], 1, IBV_WC_RECV_RDMA_WITH_IMM);
	EXPECT_TRUE(completions[0].wc_flags & IBV_WC_WITH_IMM);
	EXPECT_COMPLETED(completions[1], 2, IBV_WC_RECV);
	EXPECT_EQ(region_bytes(100, 4), text("next"));
}

TEST_F(Rfc7306_6_3, EveryImmediateConsumesABuffer)
{
	/* Whatever its eight octets are: they are the ULP's. */
	uint64_t values[] = {0,          1,
			     all_ones,   0x00000001ffffffff,
			     random(),   0x123456787a697753,
			     0x7a697753, 0x8000000000000000};
	uint32_t number = 0;

	respond_and_begin();
	for (auto value : values) {
		SCOPED_TRACE(testing::Message() << std::hex << value);
		ASSERT_EQ(end->post_recv(++number), 0);
		peer->send(immediate(number, value));
		auto wc = end->wait_recv(1, patience())[0];
		EXPECT_COMPLETED(wc, number, IBV_WC_RECV_RDMA_WITH_IMM);
	}
}

TEST_F(Rfc7306_6_3, ImmediateIsDeliveredAfterTheWriteBeforeIt)
{
	respond_and_begin();
	untouched = false;
	for (uint32_t i = 1; i <= 20; i++) {
		auto data = pattern(3000, i);
		ASSERT_EQ(end->post_recv(i), 0);
		auto all = peer->encode(Segment::write(region->rkey(), region->address(), data));
		append(all, peer->encode(immediate(i, uint64_t(i) << 32)));
		peer->send_bytes(all);
		auto wc = end->wait_recv(1, patience())[0];
		EXPECT_COMPLETED(wc, i, IBV_WC_RECV_RDMA_WITH_IMM);
		EXPECT_EQ(region_bytes(0, data.size()), data);
	}
}

TEST_F(Rfc7306_6_3, ImmediatesAndSendsAreDeliveredInOrder)
{
	Bytes all;

	respond_and_begin();
	for (uint32_t i = 1; i <= 10; i++)
		ASSERT_EQ(end->post_recv(i, {region->sge()}), 0);
	for (uint32_t i = 1; i <= 10; i++)
		append(all,
		       peer->encode(i % 2 ? immediate(i, uint64_t(i) << 32) : Segment::send(i)));
	peer->send_bytes(all);
	auto completions = end->wait_recv(10, patience());
	for (uint32_t i = 1; i <= 10; i++)
		EXPECT_COMPLETED(completions[i - 1], i,
				 i % 2 ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
}

TEST_F(Rfc7306_6_3, SolicitedImmediateWakesTheUlp)
{
	respond_and_begin();
	post_receives(4);
	ASSERT_EQ(ibv_req_notify_cq(end->recv_cq(), 1), 0);
	peer->send(immediate(1, 1));
	EXPECT_FALSE(verbs::readable(end->recv_channel()->fd, moment)) << "a plain one did";
	peer->send(immediate(2, 2, Opcode::immediate_se));
	ASSERT_TRUE(verbs::readable(end->recv_channel()->fd, patience()));
	ibv_cq *cq;
	void *context;
	ASSERT_EQ(ibv_get_cq_event(end->recv_channel(), &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	EXPECT_EQ(end->wait_recv(2, patience()).size(), 2u);
}

TEST_F(Rfc7306_6_3, ImmediateMustHaveEightOctets)
{
	for (auto opcode : {Opcode::immediate, Opcode::immediate_se}) {
		for (std::size_t length : {0, 4, 7, 9, 16}) {
			SCOPED_TRACE(length);
			auto bad = Segment::untagged(opcode, 1, pattern(length));
			peer.reset();
			end.reset();
			refuses(bad, {0x0206, 0x0207, 0x02ff, 0x1205}, About::anything);
		}
	}
}

TEST_F(Rfc7306_6_3, ImmediateNeedsABuffer)
{
	respond_and_begin();
	auto bad = immediate(1, 1);
	peer->send(bad);
	expect_about(expect_terminate({0x1202}), bad);
}

TEST_F(Rfc7306_6_3, WriteWithImmediateIsAWriteThenAnImmediate)
{
	respond_and_begin();
	for (uint32_t i = 1; i <= 5; i++) {
		auto work = with_immediate(write_work(i, {region->sge(0, 3000)}, 77, 78),
					   0x01020300 + i);
		if (i % 2)
			work.flags(IBV_SEND_SOLICITED);
		ASSERT_EQ(end->post(work), 0);
		auto write = peer->expect_message(Opcode::write);
		EXPECT_EQ(write.to, 77u);
		EXPECT_EQ(write.payload, region_bytes(0, 3000));
		auto segment = peer->expect(i % 2 ? Opcode::immediate_se : Opcode::immediate);
		EXPECT_EQ(segment.qn, 0u);
		EXPECT_EQ(segment.msn, i);
		ASSERT_EQ(segment.payload.size(), 8u);
		/* Where in the eight octets the verbs' four are is the device's to say. */
		auto octets = wire::hex(segment.payload);
		EXPECT_NE(octets.find("0102030" + std::to_string(i)), std::string::npos) << octets;
		EXPECT_COMPLETED(end->wait_send(1, patience())[0], i, IBV_WC_RDMA_WRITE);
	}
}

TEST_F(Rfc7306_6_3, ZeroLengthWriteWithImmediateIsSent)
{
	respond_and_begin();
	ASSERT_EQ(end->post(with_immediate(write_work(1, {}, 77, 78), 0x0a0b0c0d)), 0);
	auto first = peer->next();
	ASSERT_TRUE(first);
	/* The Write of nothing may be left out. */
	if (first->opcode == Opcode::write)
		first = peer->expect(Opcode::immediate);
	EXPECT_EQ(first->opcode, Opcode::immediate);
	EXPECT_NE(wire::hex(first->payload).find("0a0b0c0d"), std::string::npos);
}

TEST_F(Rfc7306_6_3, ImmediatesAreIssuedInTheOrderOfTheirSubmission)
{
	respond_and_begin();
	for (uint32_t i = 1; i <= 12; i++) {
		auto sge = region->sge(0, 100);
		ASSERT_EQ(end->post(i % 2 ? with_immediate(write_work(i, {sge}, i, 1), i)
					  : send_work(i, {sge})),
			  0);
	}
	for (uint32_t i = 1; i <= 12; i++) {
		if (i % 2) {
			EXPECT_EQ(peer->expect(Opcode::write).to, i);
			EXPECT_EQ(peer->expect(Opcode::immediate).msn, i);
		} else {
			EXPECT_EQ(peer->expect(Opcode::send).msn, i);
		}
	}
}

TEST_F(Rfc7306_6_3, SendWithImmediateIsMadeOfWellFormedMessages)
{
	respond_and_begin();
	ASSERT_EQ(end->post(with_immediate(send_work(1, {region->sge(0, 3000)}), 0x0a0b0c0d)), 0);
	bool send = false, data = false;
	while (!send || !data) {
		auto segment = peer->next();
		ASSERT_TRUE(segment) << "not all of it came";
		if (wire::is_immediate(segment->opcode))
			data = wire::hex(segment->payload).find("0a0b0c0d") != std::string::npos;
		else if (segment->last)
			send = segment->opcode == Opcode::send;
	}
	EXPECT_COMPLETED(end->wait_send(1, patience())[0], 1, IBV_WC_SEND);
}

/* --- 8, 1.1: errors --- */

TEST_F(Rfc7306_8_1, LocalErrorIsSentWithoutHeaders)
{
	NEEDS_ATOMICS();
	auto sge = region->sge(0, 8);

	sge.lkey ^= 0xff00;
	respond_and_begin();
	expect_alive();
	ASSERT_EQ(end->post(with_immediate(write_work(1, {sge}, 5, 6), 7)), 0);
	auto terminate = peer->expect_terminate();
	EXPECT_EQ(terminate.code >> 8, 0);
	expect_no_headers(terminate);
	peer->finish();
	expect_closed();
}

TEST_F(Rfc7306_8_2, DdpFieldsAreValidated)
{
	auto wrong_queue = immediate(1, 1), of_the_past = immediate(0, 1);

	wrong_queue.qn = 3;
	for (auto &bad : {wrong_queue, of_the_past}) {
		SCOPED_TRACE(wire::describe(bad));
		peer.reset();
		end.reset();
		refuses(bad, {0x0206, 0x1201, 0x1203}, About::anything);
	}
}

TEST_F(Rfc7306_1_1, PeerWithoutImmediatesIsACleanError)
{
	respond_and_begin();
	expect_alive();
	ASSERT_EQ(end->post(with_immediate(write_work(1, {region->sge(0, 8)}, 5, 6), 7)), 0);
	peer->expect(Opcode::write);
	auto segment = peer->expect(Opcode::immediate);
	Terminate terminate(0x0206);
	terminate.m = terminate.d = true;
	terminate.segment_length = static_cast<uint16_t>(segment.encode().size());
	terminate.ddp_header = segment.header();
	peer->send(terminate.segment());
	EXPECT_TRUE(end->async_event(patience()));
	expect_closed();
}

} // namespace
