// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* RFC 5040: the RDMAP messages, what each does, in which order, and what is wrong with it. */
#include "device.h"

namespace {

using Rfc5040_4_1 = Conformance;
using Rfc5040_4_4 = Conformance;
using Rfc5040_5_1 = Conformance;
using Rfc5040_5_2_1 = Conformance;
using Rfc5040_5_2_2 = Conformance;
using Rfc5040_5_3 = Conformance;
using Rfc5040_5_5 = Conformance;
using Rfc5040_6_1 = Conformance;

/* --- 4.1: the control field --- */

TEST_F(Rfc5040_4_1, OpcodesTagsAndQueuesSentAreRight)
{
	/* Each is checked against the table in figure 4 as it comes. */
	respond_and_begin();
	ASSERT_EQ(end->post(send_work(1, {region->sge(0, 10)})), 0);
	ASSERT_EQ(end->post(send_work(2, {region->sge(0, 10)}).flags(IBV_SEND_SOLICITED)), 0);
	ASSERT_EQ(end->post(send_invalidate_work(3, {region->sge(0, 10)}, 0x12345678)), 0);
	ASSERT_EQ(end->post(send_invalidate_work(4, {region->sge(0, 10)}, 0x9abcdef0)
				    .flags(IBV_SEND_SOLICITED)),
		  0);
	ASSERT_EQ(end->post(write_work(5, {region->sge(0, 10)}, 1, 2)), 0);
	ASSERT_EQ(end->post(read_work(6, {region->sge(0, 10)}, 3, 4)), 0);
	peer->expect(Opcode::send);
	peer->expect(Opcode::send_se);
	EXPECT_EQ(peer->expect(Opcode::send_invalidate).invalidate, 0x12345678u);
	EXPECT_EQ(peer->expect(Opcode::send_se_invalidate).invalidate, 0x9abcdef0u);
	peer->expect(Opcode::write);
	peer->expect(Opcode::read_request);
}

TEST_F(Rfc5040_4_1, ReservedBitsAreNotLookedAt)
{
	respond_and_begin();
	for (uint8_t bits : {1, 2, 3}) {
		auto write = Segment::write(region->rkey(), region->address());
		write.rdmap_reserved = bits;
		peer->send(write);
		auto send = Segment::send(next_send++);
		send.rdmap_reserved = bits;
		expect_receive(send, 0);
		ReadRequest read{1, 2, 3, region->rkey(), region->address()};
		auto request = read.segment(next_request++);
		request.rdmap_reserved = bits;
		peer->send(request);
		peer->expect_message(Opcode::read_response);
	}
}

TEST_F(Rfc5040_4_1, InvalidateStagIsIgnoredWhereItHasNoMeaning)
{
	respond_and_begin();
	auto send = Segment::send(next_send++);
	send.invalidate = region->rkey();
	expect_receive(send, 0);
	send = Segment::untagged(Opcode::send_se, next_send++, {});
	send.invalidate = region->rkey();
	expect_receive(send, 0);
	ReadRequest read{1, 2, 3, region->rkey(), region->address()};
	auto request = read.segment(next_request++);
	request.invalidate = region->rkey();
	peer->send(request);
	peer->expect_message(Opcode::read_response);
	/* The region is as valid as before. */
	expect_alive();
	auto terminate = Terminate(0x0207).segment();
	terminate.invalidate = 0xffffffff;
	peer->send(terminate);
	expect_closed();
}

/* --- 4.4: the Read Request --- */

TEST_F(Rfc5040_4_4, ReadRequestSentHasTheFormat)
{
	respond_and_begin();
	ASSERT_EQ(end->post(read_work(1, {region->sge(8, 5000)}, 0x123456789abcdef0, 0xfedcba98)),
		  0);
	auto request = peer->expect(Opcode::read_request);
	ASSERT_EQ(request.payload.size(), ReadRequest::length);
	auto read = ReadRequest::decode(request.payload);
	EXPECT_EQ(read.size, 5000u);
	EXPECT_EQ(read.source_stag, 0xfedcba98u);
	EXPECT_EQ(read.source_to, 0x123456789abcdef0u);
}

TEST_F(Rfc5040_4_4, SinkIsCopiedToTheResponse)
{
	respond_and_begin();
	for (uint64_t to : {uint64_t(0), uint64_t(1), uint64_t(0x123456789abcdef1)}) {
		for (uint32_t stag : {0u, 1u, 0xffffffffu, 0xdeadbeefu}) {
			ReadRequest read{stag, to, 3000, region->rkey(), region->address(1)};
			peer->send(read.segment(next_request++));
			auto response = peer->expect_message(Opcode::read_response);
			EXPECT_EQ(response.stag, stag);
			EXPECT_EQ(response.to, to);
			EXPECT_EQ(response.payload, region_bytes(1, 3000));
		}
	}
}

TEST_F(Rfc5040_4_4, SourceMayBeginAnywhere)
{
	untouched = false;
	region->fill(5);
	respond_and_begin();
	for (std::size_t offset : {0, 1, 3, 4095, 4097}) {
		ReadRequest read{1, 0, 100, region->rkey(), region->address(offset)};
		peer->send(read.segment(next_request++));
		EXPECT_EQ(peer->expect_message(Opcode::read_response).payload,
			  region_bytes(offset, 100));
	}
}

/* --- 5.1: RDMA Write --- */

TEST_F(Rfc5040_5_1, WriteIsNotDeliveredToTheUlp)
{
	ibv_wc wc;

	respond_and_begin();
	post_receives(2);
	untouched = false;
	peer->send(Segment::write(region->rkey(), region->address(100), text("data")));
	expect_alive();
	EXPECT_EQ(region_bytes(100, 4), text("data"));
	EXPECT_EQ(ibv_poll_cq(end->recv_cq(), 1, &wc), 0);
}

TEST_F(Rfc5040_5_1, WriteMayTargetAPartOfTheBuffer)
{
	respond_and_begin();
	untouched = false;
	region->fill(6);
	auto before = region_bytes(0, size);
	peer->send(Segment::write(region->rkey(), region->address(5000), pattern(3000, 8)));
	expect_alive();
	auto wanted = before;
	auto data = pattern(3000, 8);
	std::copy(data.begin(), data.end(), wanted.begin() + 5000);
	EXPECT_EQ(differs(region->data(), wanted.data(), size), "");
}

TEST_F(Rfc5040_5_1, WritesAreIssuedInTheOrderOfTheirSubmission)
{
	respond_and_begin();
	for (uint64_t i = 0; i < 20; i++)
		ASSERT_EQ(end->post(write_work(i, {region->sge(0, 100 * i)}, 1000 - i, 7)), 0);
	for (uint64_t i = 0; i < 20; i++)
		EXPECT_EQ(peer->expect_message(Opcode::write).to, 1000 - i);
}

TEST_F(Rfc5040_5_1, WriteGathersToOneBuffer)
{
	std::vector<ibv_sge> sges{region->sge(0, 1000), region->sge(3000, 1), region->sge(9, 999)};
	Bytes wanted = region_bytes(0, 1000);

	respond_and_begin();
	append(wanted, region_bytes(3000, 1));
	append(wanted, region_bytes(9, 999));
	ASSERT_EQ(end->post(write_work(1, sges, 50, 60)), 0);
	auto write = peer->expect_message(Opcode::write);
	EXPECT_EQ(write.stag, 60u);
	EXPECT_EQ(write.payload, wanted);
}

TEST_F(Rfc5040_5_1, ZeroLengthWriteIsSent)
{
	respond_and_begin();
	ASSERT_EQ(end->post(write_work(1, {}, 50, 60)), 0);
	auto write = peer->expect(Opcode::write);
	EXPECT_TRUE(write.payload.empty());
	EXPECT_COMPLETED(end->wait_send(1, patience())[0], 1, IBV_WC_RDMA_WRITE);
}

TEST_F(Rfc5040_5_1, ZeroLengthWriteIsTaken)
{
	respond_and_begin();
	peer->send(Segment::write(region->rkey(), region->address()));
	expect_alive();
}

/* --- 5.2: RDMA Read --- */

TEST_F(Rfc5040_5_2_1, EachRequestIsAnsweredByOneResponse)
{
	respond_and_begin();
	untouched = false;
	region->fill(9);
	for (uint32_t length : {1u, 100u, 1424u, 1425u, 10000u, 40000u}) {
		ReadRequest read{1, 0, length, region->rkey(), region->address()};
		peer->send(read.segment(next_request++));
		EXPECT_EQ(peer->expect_message(Opcode::read_response).payload,
			  region_bytes(0, length));
	}
	EXPECT_FALSE(peer->next(moment));
}

TEST_F(Rfc5040_5_2_1, RequestIsNotDeliveredToTheUlp)
{
	ibv_wc wc;

	respond_and_begin();
	post_receives(2);
	expect_alive();
	EXPECT_EQ(ibv_poll_cq(end->recv_cq(), 1, &wc), 0);
	EXPECT_EQ(ibv_poll_cq(end->send_cq(), 1, &wc), 0);
}

TEST_F(Rfc5040_5_2_1, RequestsAreProcessedInTheirOrder)
{
	Bytes all;

	respond_and_begin();
	for (uint32_t i = 1; i <= 8; i++) {
		ReadRequest read{i, i, i * 700, region->rkey(), region->address()};
		append(all, peer->encode(read.segment(i)));
	}
	peer->send_bytes(all);
	for (uint32_t i = 1; i <= 8; i++) {
		auto response = peer->expect_message(Opcode::read_response);
		EXPECT_EQ(response.stag, i);
		EXPECT_EQ(response.payload.size(), i * 700);
	}
}

TEST_F(Rfc5040_5_2_1, RequestsAreSentInTheOrderOfTheirSubmission)
{
	respond_and_begin();
	for (uint64_t i = 1; i <= 4; i++)
		ASSERT_EQ(end->post(read_work(i, {region->sge(0, i)}, 1000 * i, 7)), 0);
	for (uint64_t i = 1; i <= 4; i++) {
		auto read = ReadRequest::decode(peer->expect(Opcode::read_request).payload);
		EXPECT_EQ(read.source_to, 1000 * i);
		EXPECT_EQ(read.size, i);
		untouched = false;
		peer->send(Segment::read_response(read.sink_stag, read.sink_to, pattern(i, i)));
	}
	auto completions = end->wait_send(4, patience());
	for (uint64_t i = 1; i <= 4; i++)
		EXPECT_COMPLETED(completions[i - 1], i, IBV_WC_RDMA_READ);
}

TEST_F(Rfc5040_5_2_1, ZeroLengthRequestIsSent)
{
	respond_and_begin();
	ASSERT_EQ(end->post(read_work(1, {}, 0x1000, 7)), 0);
	auto read = ReadRequest::decode(peer->expect(Opcode::read_request).payload);
	EXPECT_EQ(read.size, 0u);
	peer->send(Segment::read_response(read.sink_stag, read.sink_to));
	EXPECT_COMPLETED(end->wait_send(1, patience())[0], 1, IBV_WC_RDMA_READ);
}

TEST_F(Rfc5040_5_2_1, ZeroLengthRequestIsAnsweredWithoutASourceCheck)
{
	respond_and_begin();
	ReadRequest requests[] = {{1, 2, 0, region->rkey(), region->address()},
				  {3, 4, 0, 0, 0},
				  {5, 6, 0, 0xffffffff, UINT64_MAX},
				  {7, 8, 0, region->rkey() ^ 0xff00, region->address(size) + 5}};
	for (auto &read : requests) {
		peer->send(read.segment(next_request++));
		auto response = peer->expect(Opcode::read_response);
		EXPECT_TRUE(response.payload.empty());
		EXPECT_TRUE(response.last);
		EXPECT_EQ(response.stag, read.sink_stag);
		EXPECT_EQ(response.to, read.sink_to);
	}
	expect_alive();
}

TEST_F(Rfc5040_5_2_1, RequestMayTargetAPartOfTheBuffer)
{
	respond_and_begin();
	ReadRequest read{1, 0, 10, region->rkey(), region->address(size - 10)};
	peer->send(read.segment(next_request++));
	EXPECT_EQ(peer->expect_message(Opcode::read_response).payload, region_bytes(size - 10, 10));
}

TEST_F(Rfc5040_5_2_2, ResponseOfSeveralSegmentsIsPlaced)
{
	auto data = pattern(9000, 14);

	respond_and_begin();
	ASSERT_EQ(end->post(read_work(1, {region->sge(100, 9000)}, 5, 6)), 0);
	auto read = ReadRequest::decode(peer->expect(Opcode::read_request).payload);
	untouched = false;
	for (std::size_t at = 0; at < data.size(); at += 1000) {
		auto segment = Segment::read_response(read.sink_stag, read.sink_to + at,
						      wire::copy(wire::part(data, at, 1000)));
		segment.last = at + 1000 == data.size();
		peer->send(segment);
	}
	EXPECT_COMPLETED(end->wait_send(1, patience())[0], 1, IBV_WC_RDMA_READ);
	EXPECT_EQ(region_bytes(100, 9000), data);
}

TEST_F(Rfc5040_5_2_2, ResponseThatIsTooShortIsNoSuccess)
{
	respond_and_begin();
	ASSERT_EQ(end->post(read_work(1, {region->sge(0, 100)}, 5, 6)), 0);
	auto read = ReadRequest::decode(peer->expect(Opcode::read_request).payload);
	untouched = false;
	peer->send(Segment::read_response(read.sink_stag, read.sink_to, pattern(99)));
	peer->expect_terminate();
	peer->finish();
	EXPECT_NE(end->wait_send(1, patience())[0].status, IBV_WC_SUCCESS);
	expect_closed();
}

TEST_F(Rfc5040_5_2_2, ResponseToNothingIsRefused)
{
	refuses(Segment::read_response(region->rkey(), region->address(), text("bad")),
		{0x0206, 0x1100}, About::anything);
}

TEST_F(Rfc5040_5_2_2, ReadQueueHoldsWhatWasNegotiated)
{
	ConnectParameters parameters;
	Region large(b.pd(), 1 << 20);
	Bytes all;

	parameters.responder_resources = parameters.initiator_depth = 8;
	respond_and_begin(enhanced_request({.ird = 8, .ord = 8}), parameters);
	ASSERT_FALSE(HasFatalFailure());
	ASSERT_TRUE(replied.enhanced);
	auto count = std::min<uint32_t>(replied.enhanced->ird, 16);
	ASSERT_GE(count, 1u);
	/* All at once, the first too large to be answered before the last has come. */
	for (uint32_t i = 1; i <= count; i++) {
		ReadRequest read{i, 0, i == 1 ? 1u << 20 : 1u, large.rkey(), large.address()};
		append(all, peer->encode(read.segment(i)));
	}
	peer->send_bytes(all);
	for (uint32_t i = 1; i <= count; i++)
		EXPECT_EQ(peer->expect_message(Opcode::read_response).stag, i);
}

TEST_F(Rfc5040_5_2_2, SeveralSinksNeedSeveralResponses)
{
	respond_and_begin();
	ASSERT_EQ(end->post(read_work(1, {region->sge(0, 100)}, 5, 6)), 0);
	ASSERT_EQ(end->post(read_work(2, {region->sge(200, 100)}, 7, 8)), 0);
	std::vector<ReadRequest> reads;
	for (int i = 0; i < 2; i++)
		reads.push_back(ReadRequest::decode(peer->expect(Opcode::read_request).payload));
	untouched = false;
	for (uint64_t i = 0; i < 2; i++)
		peer->send(Segment::read_response(reads[i].sink_stag, reads[i].sink_to,
						  pattern(100, i)));
	end->wait_send(2, patience());
	EXPECT_EQ(region_bytes(0, 100), pattern(100, 0));
	EXPECT_EQ(region_bytes(200, 100), pattern(100, 1));
}

/* --- 5.3: Send --- */

TEST_F(Rfc5040_5_3, EachSendConsumesOneBuffer)
{
	respond_and_begin();
	post_receives(6, 100);
	untouched = false;
	for (uint32_t i = 1; i <= 6; i++)
		peer->send(Segment::send(i, pattern(i == 3 ? 0 : i, i)));
	auto completions = end->wait_recv(6, patience());
	for (uint32_t i = 0; i < 6; i++) {
		EXPECT_COMPLETED(completions[i], i, IBV_WC_RECV);
		EXPECT_EQ(completions[i].byte_len, i == 2 ? 0 : i + 1);
	}
}

TEST_F(Rfc5040_5_3, ZeroLengthSendConsumesABuffer)
{
	respond_and_begin();
	expect_receive(Segment::send(1), 0);
	auto bad = Segment::send(2);
	/* And so there is none for the next. */
	peer->send(bad);
	expect_about(expect_terminate({0x1202}), bad);
}

TEST_F(Rfc5040_5_3, SendMayBeAsLongAsItsBuffer)
{
	respond_and_begin();
	untouched = false;
	expect_receive(Segment::send(1, pattern(size)), size);
	EXPECT_EQ(region_bytes(0, size), pattern(size));
}

TEST_F(Rfc5040_5_3, SendsAreIssuedInTheOrderOfTheirSubmission)
{
	respond_and_begin();
	for (uint64_t i = 0; i < 20; i++)
		ASSERT_EQ(end->post(send_work(i, {region->sge(0, 10 + i)})), 0);
	for (uint64_t i = 0; i < 20; i++)
		EXPECT_EQ(peer->expect_message(Opcode::send).payload.size(), 10 + i);
}

TEST_F(Rfc5040_5_3, SolicitedEventWakesTheUlp)
{
	respond_and_begin();
	post_receives(4);
	untouched = false;
	ASSERT_EQ(ibv_req_notify_cq(end->recv_cq(), 1), 0);
	peer->send(Segment::send(1, text("x")));
	EXPECT_FALSE(verbs::readable(end->recv_channel()->fd, moment)) << "a plain Send did";
	peer->send(Segment::untagged(Opcode::send_se, 2, text("y")));
	ASSERT_TRUE(verbs::readable(end->recv_channel()->fd, patience()));
	ibv_cq *cq;
	void *context;
	ASSERT_EQ(ibv_get_cq_event(end->recv_channel(), &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	EXPECT_EQ(end->wait_recv(2, patience()).size(), 2u);
}

TEST_F(Rfc5040_5_3, SendWithInvalidateNamesAnStag)
{
	respond_and_begin();
	ASSERT_EQ(end->post(send_invalidate_work(1, {region->sge(0, 5000)}, 0xabcdef01)), 0);
	/* In each of its segments: the rules that are checked see to it. */
	auto send = peer->expect_message(Opcode::send_invalidate);
	EXPECT_EQ(send.invalidate, 0xabcdef01u);
	EXPECT_EQ(send.payload, region_bytes(0, 5000));
}

TEST_F(Rfc5040_5_3, UnassociatedStagCannotBeInvalidated)
{
	verbs::Pd other(verbs::check(ibv_alloc_pd(b.context()), "ibv_alloc_pd"));
	Region theirs(other.get(), 4096);

	for (auto opcode : {Opcode::send_invalidate, Opcode::send_se_invalidate}) {
		auto bad = Segment::untagged(opcode, 1, {});
		bad.invalidate = theirs.rkey();
		peer.reset();
		end.reset();
		refuses(bad, {0x0109, 0x0209});
	}
}

TEST_F(Rfc5040_5_3, UnknownStagCannotBeInvalidated)
{
	for (auto opcode : {Opcode::send_invalidate, Opcode::send_se_invalidate}) {
		auto bad = Segment::untagged(opcode, 1, {});
		bad.invalidate = region->rkey() ^ 0xffff00;
		peer.reset();
		end.reset();
		refuses(bad, {0x0100, 0x0109, 0x0209});
	}
}

/* A memory region that is registered for good is shared by all streams of its domain. */
TEST_F(Rfc5040_5_3, SharedStagCannotBeInvalidated)
{
	auto bad = Segment::untagged(Opcode::send_invalidate, 1, {});

	bad.invalidate = region->rkey();
	refuses(bad, {0x0109, 0x0209});
}

/* --- 5.5: order and completion --- */

TEST_F(Rfc5040_5_5, SendIsCompleteOnlyWhenAllOfItIsWithTcp)
{
	/* More than the socket buffers hold: the peer reads nothing. */
	Region large(b.pd(), 64 << 20);
	ibv_wc wc;

	respond_and_begin();
	expect_alive();
	ASSERT_EQ(end->post(send_work(1, {large.sge()})), 0);
	std::this_thread::sleep_for(milliseconds(500));
	EXPECT_EQ(ibv_poll_cq(end->send_cq(), 1, &wc), 0);
	peer->expect_message(Opcode::send, milliseconds(30000));
	EXPECT_COMPLETED(end->wait_send(1, patience())[0], 1, IBV_WC_SEND);
}

TEST_F(Rfc5040_5_5, ReadIsCompleteOnlyWithItsResponse)
{
	ibv_wc wc;

	respond_and_begin();
	ASSERT_EQ(end->post(read_work(1, {region->sge(0, 10)}, 5, 6)), 0);
	auto read = ReadRequest::decode(peer->expect(Opcode::read_request).payload);
	std::this_thread::sleep_for(moment);
	EXPECT_EQ(ibv_poll_cq(end->send_cq(), 1, &wc), 0);
	untouched = false;
	auto first = Segment::read_response(read.sink_stag, read.sink_to, pattern(5));
	first.last = false;
	peer->send(first);
	std::this_thread::sleep_for(moment);
	EXPECT_EQ(ibv_poll_cq(end->send_cq(), 1, &wc), 0) << "before its last segment";
	peer->send(Segment::read_response(read.sink_stag, read.sink_to + 5, pattern(5, 2)));
	EXPECT_COMPLETED(end->wait_send(1, patience())[0], 1, IBV_WC_RDMA_READ);
}

TEST_F(Rfc5040_5_5, OperationsAreCompletedInOrder)
{
	ibv_wc wc;

	respond_and_begin();
	ASSERT_EQ(end->post(read_work(1, {region->sge(0, 10)}, 5, 6)), 0);
	ASSERT_EQ(end->post(send_work(2, {region->sge(0, 10)})), 0);
	ASSERT_EQ(end->post(write_work(3, {region->sge(0, 10)}, 5, 6)), 0);
	auto read = ReadRequest::decode(peer->expect(Opcode::read_request).payload);
	peer->expect(Opcode::send);
	peer->expect(Opcode::write);
	std::this_thread::sleep_for(moment);
	EXPECT_EQ(ibv_poll_cq(end->send_cq(), 1, &wc), 0) << "overtook a Read";
	untouched = false;
	peer->send(Segment::read_response(read.sink_stag, read.sink_to, pattern(10)));
	auto completions = end->wait_send(3, patience());
	for (uint64_t i = 0; i < 3; i++)
		EXPECT_EQ(completions[i].wr_id, i + 1);
}

TEST_F(Rfc5040_5_5, FencedOperationWaitsForReads)
{
	respond_and_begin();
	ASSERT_EQ(end->post(read_work(1, {region->sge(0, 10)}, 5, 6)), 0);
	ASSERT_EQ(end->post(send_work(2, {region->sge(0, 10)}).flags(IBV_SEND_FENCE)), 0);
	auto read = ReadRequest::decode(peer->expect(Opcode::read_request).payload);
	EXPECT_FALSE(peer->next(moment)) << "did not wait";
	untouched = false;
	peer->send(Segment::read_response(read.sink_stag, read.sink_to, pattern(10)));
	/* What was read is what is sent. */
	EXPECT_EQ(peer->expect(Opcode::send).payload, pattern(10));
}

TEST_F(Rfc5040_5_5, ReadSeesTheWritesBeforeIt)
{
	respond_and_begin();
	untouched = false;
	for (uint32_t i = 1; i <= 30; i++) {
		auto data = pattern(8000, i);
		auto all = peer->encode(Segment::write(region->rkey(), region->address(10), data));
		ReadRequest read{1, 0, 8000, region->rkey(), region->address(10)};
		append(all, peer->encode(read.segment(i)));
		peer->send_bytes(all);
		EXPECT_EQ(peer->expect_message(Opcode::read_response).payload, data);
	}
}

TEST_F(Rfc5040_5_5, ReadSeesTheSendsBeforeIt)
{
	respond_and_begin();
	untouched = false;
	for (uint32_t i = 1; i <= 30; i++) {
		auto data = pattern(8000, i);
		ASSERT_EQ(end->post_recv(i, {region->sge()}), 0);
		auto all = peer->encode(Segment::send(i, data));
		ReadRequest read{1, 0, 8000, region->rkey(), region->address()};
		append(all, peer->encode(read.segment(i)));
		peer->send_bytes(all);
		EXPECT_EQ(peer->expect_message(Opcode::read_response).payload, data);
	}
}

TEST_F(Rfc5040_5_5, ResponsesAreInTheOrderOfTheRequests)
{
	Bytes all;
	std::vector<uint32_t> lengths{40000, 1, 0, 20000, 7};

	respond_and_begin();
	for (uint32_t i = 0; i < lengths.size(); i++) {
		ReadRequest read{i + 1, 0, lengths[i], region->rkey(), region->address()};
		append(all, peer->encode(read.segment(i + 1)));
	}
	peer->send_bytes(all);
	for (uint32_t i = 0; i < lengths.size(); i++) {
		auto response = peer->expect_message(Opcode::read_response);
		EXPECT_EQ(response.stag, i + 1);
		EXPECT_EQ(response.payload.size(), lengths[i]);
	}
}

TEST_F(Rfc5040_5_5, SendMayCompleteBeforeAnEarlierReadIsAnswered)
{
	/* It MAY: it must not be lost, nor the response. */
	Region large(b.pd(), 8 << 20);
	respond_and_begin();
	ASSERT_EQ(end->post_recv(1), 0);
	ReadRequest read{1, 0, 8 << 20, large.rkey(), large.address()};
	auto all = peer->encode(read.segment(1));
	append(all, peer->encode(Segment::send(1)));
	peer->send_bytes(all);
	auto response = peer->expect_message(Opcode::read_response, milliseconds(20000));
	EXPECT_EQ(response.payload.size(), large.size());
	EXPECT_COMPLETED(end->wait_recv(1, patience())[0], 1, IBV_WC_RECV);
}

/* --- 6.1: limits --- */

TEST_F(Rfc5040_6_1, ReadsOutstandingAreNotMoreThanNegotiated)
{
	for (uint16_t ird : {1, 2, 5}) {
		SCOPED_TRACE(ird);
		std::vector<ReadRequest> open;
		next_request = 1;
		peer.reset();
		end.reset();
		respond_and_begin(enhanced_request({.ird = ird, .ord = 1}));
		ASSERT_FALSE(HasFatalFailure());
		for (uint64_t i = 0; i < 12; i++)
			ASSERT_EQ(end->post(read_work(i, {region->sge(i * 10, 10)}, i, 1)), 0);
		untouched = false;
		for (uint64_t answered = 0; answered < 12; answered++) {
			while (auto segment = peer->next(milliseconds(50))) {
				ASSERT_EQ(segment->opcode, Opcode::read_request);
				open.push_back(ReadRequest::decode(segment->payload));
			}
			EXPECT_LE(open.size() - answered, ird);
			ASSERT_GT(open.size(), answered);
			auto &read = open[answered];
			peer->send(Segment::read_response(read.sink_stag, read.sink_to,
							  pattern(10, answered)));
		}
		end->wait_send(12, patience());
	}
}

TEST_F(Rfc5040_6_1, OnlyRdmaMessagesAreSent)
{
	/* Every octet of a long mixed run is part of a valid FPDU. */
	respond_and_begin();
	for (uint64_t i = 0; i < 60; i++) {
		auto sge = region->sge(0, random() % 5000);
		ASSERT_EQ(end->post(i % 2 ? send_work(i, {sge}) : write_work(i, {sge}, i, 1)), 0);
	}
	for (uint64_t i = 0; i < 60; i++)
		peer->expect_message(i % 2 ? Opcode::send : Opcode::write);
	EXPECT_FALSE(peer->next(moment));
}

} // namespace
