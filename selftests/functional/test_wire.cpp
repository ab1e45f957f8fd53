// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * What goes over the wire, and what comes from it, against a peer that is a plain TCP socket. Each
 * malformed segment must end the connection with the Terminate that the RFCs name for it, and must
 * place nothing.
 */
#include <functional>

#include "fixture.h"
#include "wire.h"

namespace {

Bytes text(const std::string &s)
{
	return Bytes(s.begin(), s.end());
}

class WireTest : public VerbsTest {
protected:
	static constexpr std::size_t size = 20000;

	void SetUp() override
	{
		if (!a.is_ziw())
			GTEST_SKIP() << "asks for more than " << driver_type() << " does";
		region.emplace(b.pd(), size);
		region->clear();
	}

	/* b's QP, connected to a bare socket on host a. */
	void establish(const MpaFrame &request = {}, const ConnectParameters &parameters = {},
		       const QpConfig &config = {})
	{
		Listener listener(b);

		wire.emplace(a, listener.address());
		wire->send(request.encode());
		end = listener.endpoint(listener.request(), config);
		accept(*end, parameters);
		auto frame = wire->receive_frame();
		ASSERT_TRUE(frame) << "no MPA reply";
		reply = *frame;
		EXPECT_TRUE(reply.reply);
	}

	/* Nothing happened to the region; one Terminate, of this code, and then the end. */
	void expect_terminate(uint32_t code, uint32_t also = 0)
	{
		auto got = wire->receive_terminate();
		ASSERT_TRUE(got) << "no Terminate";
		EXPECT_TRUE(got->terminate_code() == code ||
			    (also && got->terminate_code() == also))
			<< std::hex << "Terminate " << got->terminate_code() << ", expected "
			<< code;
		EXPECT_EQ(got->queue, 2u);
		EXPECT_EQ(got->sequence, 1u);
		EXPECT_EQ(got->message_offset, 0u);
		EXPECT_TRUE(got->last);
		EXPECT_FALSE(got->tagged);
		terminate = *got;
		EXPECT_FALSE(wire->receive_fpdu(moment)) << "something after the Terminate";
		/* Who got a Terminate closes; the other one then does, too. */
		wire->finish();
		EXPECT_TRUE(wire->ends());
		EXPECT_TRUE(end->reaches(IBV_QPS_ERR));
		EXPECT_EQ(region->harmed(), "");
	}

	/* The DDP header of what was refused comes back in the Terminate (RFC 5040, 4.8). */
	void expect_header_of(const Segment &refused)
	{
		EXPECT_EQ(terminate.header_control() & 6, 6u) << "M and D must be set";
		auto ulpdu = refused.encode();
		auto length = refused.tagged ? 14u : 18u;
		ASSERT_GE(terminate.payload.size(), 6 + length);
		EXPECT_EQ(get16(terminate.payload, 4), ulpdu.size());
		EXPECT_EQ(Bytes(terminate.payload.begin() + 6,
				terminate.payload.begin() + 6 + length),
			  Bytes(ulpdu.begin(), ulpdu.begin() + length));
	}

	std::optional<Region> region;
	std::optional<Wire> wire;
	std::unique_ptr<Endpoint> end;
	MpaFrame reply;
	Segment terminate;
};

TEST_F(WireTest, CrcIsThatOfTheRfc)
{
	/* RFC 3720, B.4, to which RFC 5044 refers. */
	Bytes zeros(32), ones(32, 0xff);

	EXPECT_EQ(crc32c(zeros.data(), 32), 0x8a9136aau);
	EXPECT_EQ(crc32c(ones.data(), 32), 0x62a8ab43u);
}

TEST_F(WireTest, SendBothWays)
{
	establish();
	EXPECT_TRUE(reply.flags & MpaFrame::crc);
	EXPECT_FALSE(reply.flags & (MpaFrame::markers | MpaFrame::reject | MpaFrame::enhanced));
	EXPECT_EQ(reply.revision, 1);
	ASSERT_EQ(end->post_recv(1, {region->sge()}), 0);
	wire->send(Segment::send(1, text("hello")));
	auto wc = end->wait_recv()[0];
	EXPECT_COMPLETED(wc, 1, IBV_WC_RECV);
	EXPECT_EQ(wc.byte_len, 5u);
	EXPECT_EQ(std::memcmp(region->data(), "hello", 5), 0);
	end->event(RDMA_CM_EVENT_ESTABLISHED);
	ASSERT_EQ(end->post(send_work(2, {region->sge(0, 5)})), 0);
	auto got = wire->receive_segment();
	ASSERT_TRUE(got);
	EXPECT_EQ(got->opcode, op_send);
	EXPECT_EQ(got->sequence, 1u);
	EXPECT_EQ(got->queue, 0u);
	EXPECT_EQ(got->message_offset, 0u);
	EXPECT_EQ(got->payload, text("hello"));
	EXPECT_TRUE(got->last);
	EXPECT_EQ(got->ddp_version, 1);
	EXPECT_EQ(got->rdmap_version, 1);
	EXPECT_COMPLETED(end->wait_send()[0], 2, IBV_WC_SEND);
}

/* RFC 5044, 7.1.2, rule 4: no FPDU from the responder before the initiator's first. */
TEST_F(WireTest, ResponderWaitsForTheFirstFpdu)
{
	establish();
	if (end->post(send_work(1, {region->sge(0, 5)})) == 0) {
		EXPECT_FALSE(wire->receive_fpdu(moment)) << "spoke first";
	}
	ASSERT_EQ(end->post_recv(2, {region->sge()}), 0);
	wire->send(Segment::send(1, text("x")));
	EXPECT_COMPLETED(end->wait_recv()[0], 2, IBV_WC_RECV);
	EXPECT_TRUE(wire->receive_fpdu());
}

TEST_F(WireTest, SegmentsOfTcpMayCutAnywhere)
{
	establish();
	ASSERT_EQ(end->post_recv(1, {region->sge(0, 100)}), 0);
	ASSERT_EQ(end->post_recv(2, {region->sge(100, 100)}), 0);
	ASSERT_EQ(end->post_recv(3, {region->sge(200, 100)}), 0);
	wire->trickle(Wire::fpdu(Segment::send(1, text("byte by byte")).encode()));
	EXPECT_COMPLETED(end->wait_recv()[0], 1, IBV_WC_RECV);
	/* Several FPDUs in one go, the last one cut within its CRC. */
	auto bytes = Wire::fpdu(Segment::send(2, text("second")).encode());
	auto third = Wire::fpdu(Segment::send(3, text("third")).encode());
	bytes.insert(bytes.end(), third.begin(), third.end() - 2);
	wire->send(bytes);
	EXPECT_COMPLETED(end->wait_recv()[0], 2, IBV_WC_RECV);
	std::this_thread::sleep_for(moment);
	wire->send(Bytes(third.end() - 2, third.end()));
	EXPECT_COMPLETED(end->wait_recv()[0], 3, IBV_WC_RECV);
	EXPECT_EQ(std::memcmp(region->data(), "byte by byte", 12), 0);
	EXPECT_EQ(std::memcmp(region->data() + 100, "second", 6), 0);
	EXPECT_EQ(std::memcmp(region->data() + 200, "third", 5), 0);
}

TEST_F(WireTest, LargestFpdu)
{
	establish();
	Bytes payload(65535 - 18);
	fill_pattern(payload.data(), payload.size(), 5);
	Region large(b.pd(), payload.size());
	ASSERT_EQ(end->post_recv(1, {large.sge()}), 0);
	wire->send(Segment::send(1, payload));
	auto wc = end->wait_recv()[0];
	EXPECT_COMPLETED(wc, 1, IBV_WC_RECV);
	EXPECT_EQ(wc.byte_len, payload.size());
	EXPECT_EQ(differs_from_pattern(large.data(), payload.size(), 5), "");
}

TEST_F(WireTest, MessageOfManySegments)
{
	establish();
	Bytes data(5000);
	fill_pattern(data.data(), data.size(), 6);
	ASSERT_EQ(end->post_recv(1, {region->sge()}), 0);
	for (std::size_t at = 0; at < data.size(); at += 1000) {
		auto s = Segment::send(1, Bytes(data.begin() + static_cast<long>(at),
						data.begin() + static_cast<long>(at) + 1000));
		s.message_offset = static_cast<uint32_t>(at);
		s.last = at + 1000 == data.size();
		wire->send(s);
		/* A Write between the segments of a Send is legal. */
		wire->send(Segment::write(region->rkey(), region->address(10000 + at), text("w")));
	}
	auto wc = end->wait_recv()[0];
	EXPECT_COMPLETED(wc, 1, IBV_WC_RECV);
	EXPECT_EQ(wc.byte_len, data.size());
	EXPECT_EQ(differs_from_pattern(region->data(), data.size(), 6), "");
	EXPECT_EQ(region->data()[14000], 'w');
}

TEST_F(WireTest, ReadIsAnswered)
{
	establish();
	region->fill(8);
	wire->send(Segment::read_request(1, 0xabcd, 0x1234567800, 5000, region->rkey(),
					 region->address(10)));
	Bytes got;
	for (bool last = false; !last;) {
		auto s = wire->receive_segment();
		ASSERT_TRUE(s);
		ASSERT_EQ(s->opcode, op_read_response);
		EXPECT_TRUE(s->tagged);
		EXPECT_EQ(s->stag, 0xabcdu);
		EXPECT_EQ(s->offset, 0x1234567800u + got.size());
		got.insert(got.end(), s->payload.begin(), s->payload.end());
		last = s->last;
		ASSERT_LE(got.size(), 5000u);
	}
	EXPECT_EQ(got.size(), 5000u);
	EXPECT_EQ(differs(got.data(), region->data() + 10, 5000), "");
}

TEST_F(WireTest, SolicitedSendWakes)
{
	establish();
	ASSERT_EQ(end->post_recv(1), 0);
	ASSERT_EQ(ibv_req_notify_cq(end->recv_cq(), 1), 0);
	auto s = Segment::send(1, {});
	s.opcode = op_send_solicited;
	wire->send(s);
	EXPECT_TRUE(verbs::readable(end->recv_channel()->fd, soon));
	ibv_cq *cq;
	void *context;
	ASSERT_EQ(ibv_get_cq_event(end->recv_channel(), &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	EXPECT_COMPLETED(end->wait_recv()[0], 1, IBV_WC_RECV);
}

/* The responder prefers CRC: then both use it, whatever the initiator asked for (RFC 5044, 7.1.1).
 */
TEST_F(WireTest, CrcIsUsedIfOneSideWantsIt)
{
	MpaFrame request;
	request.flags = 0;
	establish(request);
	EXPECT_TRUE(reply.flags & MpaFrame::crc);
	ASSERT_EQ(end->post_recv(1, {region->sge()}), 0);
	wire->send(Wire::fpdu(Segment::send(1, text("bad")).encode(), false));
	expect_terminate(0x2002);
}

/* Verify, then place: not a byte of a bad FPDU reaches the memory. */
TEST_F(WireTest, BadCrcPlacesNothing)
{
	establish();
	Bytes payload(10000, 'x');
	wire->send(Wire::fpdu(Segment::write(region->rkey(), region->address(), payload).encode(),
			      false));
	expect_terminate(0x2002);
	EXPECT_EQ(region->touched(), "");
}

TEST_F(WireTest, DataAfterABadOneIsIgnored)
{
	establish();
	auto bytes = Wire::fpdu(
		Segment::write(region->rkey() ^ 1, region->address(), text("bad")).encode());
	auto good = Wire::fpdu(
		Segment::write(region->rkey(), region->address(), text("good")).encode());
	bytes.insert(bytes.end(), good.begin(), good.end());
	wire->send(bytes);
	expect_terminate(0x1100);
	EXPECT_EQ(region->touched(), "");
}

/* More Reads at once than the IRD: there is no buffer for them (RFC 5041, 7.2, of queue 1). */
TEST_F(WireTest, IrdExceeded)
{
	MpaFrame request;
	ConnectParameters parameters;
	Region large(b.pd(), 8 << 20);

	request.revision = 2;
	request.flags |= MpaFrame::enhanced;
	put16(request.private_data, 2);
	put16(request.private_data, 2);
	parameters.responder_resources = parameters.initiator_depth = 2;
	establish(request, parameters);
	EXPECT_EQ(get16(reply.private_data, 0) & 0x3fff, 2u) << "the IRD that was granted";
	/* Each too large to be answered before the next comes. */
	Bytes all;
	for (uint32_t i = 1; i <= 4; i++) {
		auto one = Wire::fpdu(
			Segment::read_request(i, 1, 0, 8 << 20, large.rkey(), large.address())
				.encode());
		all.insert(all.end(), one.begin(), one.end());
	}
	wire->send(all);
	expect_terminate(0x1202, 0x1203);
}

/* With no place for a request of either side. */
TEST_F(WireTest, NoReadsNegotiated)
{
	ConnectParameters none;

	none.responder_resources = 0;
	none.initiator_depth = 0;
	establish({}, none);
	auto response = Segment::write(0x15a, 0, {});
	response.opcode = op_read_response;
	wire->send(response);
	expect_terminate(0x0206);

	establish({}, none);
	wire->send(Segment::read_request(1, 1, 0, 0, region->rkey(), region->address()));
	expect_terminate(0x1202);

	establish({}, none);
	wire->send(Segment::write(region->rkey(), region->address(), {}));
	ASSERT_EQ(end->post(read_work(1, {region->sge(0, 8)}, 0, 0)), 0);
	EXPECT_EQ(end->wait_send()[0].status, IBV_WC_LOC_QP_OP_ERR);
}

TEST_F(WireTest, TerminateIsTaken)
{
	establish();
	ASSERT_EQ(end->post_recv(1, {region->sge()}), 0);
	ASSERT_EQ(end->post_recv(2, {region->sge()}), 0);
	wire->send(Segment::send(1, text("x")));
	EXPECT_COMPLETED(end->wait_recv()[0], 1, IBV_WC_RECV);
	wire->send(Segment::terminate(0x0207));
	auto wc = end->wait_recv()[0];
	EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
	EXPECT_EQ(wc.vendor_err, 0x0207u);
	EXPECT_TRUE(end->reaches(IBV_QPS_ERR));
	EXPECT_TRUE(end->async_event());
	EXPECT_TRUE(wire->ends());
}

/* A peer that does not close after a Terminate is not waited for without end. */
TEST_F(WireTest, TerminatedPeerStaysOpen)
{
	establish();
	wire->send(Segment::write(region->rkey() ^ 1, region->address(), text("bad")));
	ASSERT_TRUE(wire->receive_terminate());
	EXPECT_TRUE(wire->ends(verbs::milliseconds(30000)));
	EXPECT_TRUE(end->reaches(IBV_QPS_ERR));
}

/* RFC 5040, 7.1, case 1. */
TEST_F(WireTest, LocalFaultIsToldToThePeer)
{
	establish();
	ASSERT_EQ(end->post_recv(1, {region->sge()}), 0);
	wire->send(Segment::send(1, text("x")));
	EXPECT_COMPLETED(end->wait_recv()[0], 1, IBV_WC_RECV);
	auto sge = region->sge(0, 100);
	sge.lkey ^= 1;
	ASSERT_EQ(end->post(send_work(2, {sge})), 0);
	auto got = wire->receive_terminate();
	ASSERT_TRUE(got);
	EXPECT_EQ(got->terminate_code() >> 8, 0u) << std::hex << got->terminate_code();
	EXPECT_EQ(got->header_control(), 0u);
	EXPECT_EQ(end->wait_send()[0].status, IBV_WC_LOC_PROT_ERR);
}

TEST_F(WireTest, PeerCloses)
{
	establish();
	ASSERT_EQ(end->post_recv(1), 0);
	ASSERT_EQ(end->post_recv(2), 0);
	wire->send(Segment::send(1, {}));
	EXPECT_COMPLETED(end->wait_recv()[0], 1, IBV_WC_RECV);
	end->event(RDMA_CM_EVENT_ESTABLISHED);
	wire->finish();
	end->event(RDMA_CM_EVENT_DISCONNECTED);
	EXPECT_EQ(end->wait_recv()[0].status, IBV_WC_WR_FLUSH_ERR);
	EXPECT_TRUE(wire->ends());
}

TEST_F(WireTest, PeerClosesWithinAnFpdu)
{
	establish();
	wire->send(Segment::write(region->rkey(), region->address(), {}));
	end->event(RDMA_CM_EVENT_ESTABLISHED);
	auto bytes = Wire::fpdu(
		Segment::write(region->rkey(), region->address(), text("never whole")).encode());
	bytes.resize(bytes.size() - 1);
	wire->send(bytes);
	wire->finish();
	end->event(RDMA_CM_EVENT_DISCONNECTED);
	EXPECT_TRUE(end->reaches(IBV_QPS_ERR));
	EXPECT_EQ(region->touched(), "");
}

TEST_F(WireTest, PeerResets)
{
	establish();
	ASSERT_EQ(end->post_recv(1), 0);
	ASSERT_EQ(end->post_recv(2), 0);
	wire->send(Segment::send(1, {}));
	EXPECT_COMPLETED(end->wait_recv()[0], 1, IBV_WC_RECV);
	end->event(RDMA_CM_EVENT_ESTABLISHED);
	wire->reset();
	end->event(RDMA_CM_EVENT_DISCONNECTED);
	EXPECT_EQ(end->wait_recv()[0].status, IBV_WC_WR_FLUSH_ERR);
	EXPECT_TRUE(end->reaches(IBV_QPS_ERR));
}

/* One fault of a segment, and the code that names it. */
struct Fault {
	const char *name;
	std::function<void(Segment &, const Region &)> make;
	uint32_t code, also;
	bool header = true;
};

void PrintTo(const Fault &fault, std::ostream *out)
{
	*out << fault.name;
}

class Malformed : public WireTest, public testing::WithParamInterface<Fault> {};

TEST_P(Malformed, IsTerminated)
{
	auto &fault = GetParam();
	auto bad = Segment::write(region->rkey(), region->address(), text("must not be placed"));

	establish();
	for (unsigned i = 0; i < 4; i++)
		ASSERT_EQ(end->post_recv(i, {region->sge(i * 1000, 1000)}), 0);
	/* A good one first, so that the fault is not one of the start-up. */
	wire->send(Segment::write(region->rkey(), region->address(), {}));
	fault.make(bad, *region);
	wire->send(bad);
	expect_terminate(fault.code, fault.also);
	EXPECT_EQ(region->touched(), "");
	if (fault.header && !HasFailure())
		expect_header_of(bad);
	/* Which it was is known here too, and all receives are given back. */
	for (auto &wc : end->wait_recv(4)) {
		EXPECT_NE(wc.status, IBV_WC_SUCCESS);
		EXPECT_TRUE(wc.vendor_err == fault.code ||
			    (fault.also && wc.vendor_err == fault.also))
			<< std::hex << wc.vendor_err;
	}
}

void untagged(Segment &s, uint32_t queue, RdmapOpcode opcode)
{
	s.tagged = false;
	s.queue = queue;
	s.opcode = opcode;
}

const Fault faults[] = {
	{"WriteUnknownStag", [](Segment &s, const Region &) { s.stag ^= 0xffff00; }, 0x1100, 0},
	{"WriteBounds", [](Segment &s, const Region &r) { s.offset = r.address(r.size() - 1); },
	 0x1101, 0},
	{"WriteWrap", [](Segment &s, const Region &) { s.offset = UINT64_MAX - 3; }, 0x1103,
	 0x1101},
	{"WriteDdpVersion", [](Segment &s, const Region &) { s.ddp_version = 2; }, 0x1104, 0,
	 false},
	{"WriteRdmapVersion", [](Segment &s, const Region &) { s.rdmap_version = 2; }, 0x0205, 0,
	 false},
	{"TaggedUnknownOpcode", [](Segment &s, const Region &) { s.opcode = RdmapOpcode(15); },
	 0x0206, 0, false},
	{"TaggedSend", [](Segment &s, const Region &) { s.opcode = op_send; }, 0x0206, 0, false},
	{"UnexpectedReadResponse", [](Segment &s, const Region &) { s.opcode = op_read_response; },
	 0x0206, 0x1100, false},
	{"UntaggedUnknownOpcode",
	 [](Segment &s, const Region &) { untagged(s, 0, RdmapOpcode(13)); }, 0x0206, 0, false},
	{"UntaggedWrite", [](Segment &s, const Region &) { untagged(s, 0, op_write); }, 0x0206, 0,
	 false},
	{"UnknownQueue", [](Segment &s, const Region &) { untagged(s, 7, op_send); }, 0x1201, 0},
	{"SendDdpVersion",
	 [](Segment &s, const Region &) {
		 untagged(s, 0, op_send);
		 s.ddp_version = 0;
	 },
	 0x1206, 0, false},
	{"SendSequenceOfTheFuture",
	 [](Segment &s, const Region &) {
		 untagged(s, 0, op_send);
		 s.sequence = 3;
	 },
	 0x1203, 0},
	{"SendSequenceOfThePast",
	 [](Segment &s, const Region &) {
		 untagged(s, 0, op_send);
		 s.sequence = 0;
	 },
	 0x1203, 0},
	{"SendOffset",
	 [](Segment &s, const Region &) {
		 untagged(s, 0, op_send);
		 s.message_offset = 5;
	 },
	 0x1204, 0},
	{"SendTooLong",
	 [](Segment &s, const Region &) {
		 untagged(s, 0, op_send);
		 s.payload.resize(1001);
	 },
	 0x1205, 0},
	{"SendOnTheReadQueue", [](Segment &s, const Region &) { untagged(s, 1, op_send); }, 0x0206,
	 0x1201, false},
	{"ReadRequestOnTheSendQueue",
	 [](Segment &s, const Region &r) {
		 s = Segment::read_request(1, 1, 0, 10, r.rkey(), r.address());
		 s.queue = 0;
	 },
	 0x0206, 0x1201, false},
	{"ReadRequestTooShort",
	 [](Segment &s, const Region &r) {
		 s = Segment::read_request(1, 1, 0, 10, r.rkey(), r.address());
		 s.payload.resize(20);
	 },
	 0x0207, 0x02ff, false},
	{"ReadRequestTooLong",
	 [](Segment &s, const Region &r) {
		 s = Segment::read_request(1, 1, 0, 10, r.rkey(), r.address());
		 s.payload.resize(40);
	 },
	 0x1205, 0, false},
	{"ReadRequestSequence",
	 [](Segment &s, const Region &r) {
		 s = Segment::read_request(3, 1, 0, 10, r.rkey(), r.address());
	 },
	 0x1203, 0},
	{"ReadUnknownStag",
	 [](Segment &s, const Region &r) {
		 s = Segment::read_request(1, 1, 0, 10, r.rkey() ^ 0xff00, r.address());
	 },
	 0x0100, 0},
	{"ReadBounds",
	 [](Segment &s, const Region &r) {
		 s = Segment::read_request(1, 1, 0, 10, r.rkey(), r.address(r.size() - 9));
	 },
	 0x0101, 0},
	{"ReadSizeOfGigabytes",
	 [](Segment &s, const Region &r) {
		 s = Segment::read_request(1, 1, 0, ~0u, r.rkey(), r.address());
	 },
	 0x0101, 0},
	{"ReadWrap",
	 [](Segment &s, const Region &r) {
		 s = Segment::read_request(1, 1, 0, 10, r.rkey(), UINT64_MAX - 4);
	 },
	 0x0104, 0x0101},
	{"InvalidateOfAPlainRegion",
	 [](Segment &s, const Region &r) {
		 untagged(s, 0, op_send_invalidate);
		 s.invalidate = r.rkey();
		 s.payload.clear();
	 },
	 0x0109, 0},
	{"InvalidateOfAnUnknownStag",
	 [](Segment &s, const Region &r) {
		 untagged(s, 0, op_send_solicited_invalidate);
		 s.invalidate = r.rkey() ^ 0xffff00;
		 s.payload.clear();
	 },
	 0x0100, 0x0109},
};

INSTANTIATE_TEST_SUITE_P(Wire, Malformed, testing::ValuesIn(faults),
			 [](const auto &fault) { return std::string(fault.param.name); });

/* A ULPDU too short for any header. */
TEST_F(WireTest, RuntUlpdus)
{
	for (std::size_t length : {0, 1, 2, 13, 17}) {
		SCOPED_TRACE(length);
		establish();
		wire->send(Segment::write(region->rkey(), region->address(), {}));
		auto ulpdu = Segment::send(1, {}).encode();
		ulpdu.resize(length);
		wire->send(Wire::fpdu(ulpdu));
		EXPECT_TRUE(wire->ends());
		EXPECT_TRUE(end->reaches(IBV_QPS_ERR));
		EXPECT_EQ(region->touched(), "");
	}
}

/* Whatever bytes come, the connection ends and nothing else does. */
TEST_F(WireTest, NoiseInsteadOfFpdus)
{
	auto witness = connected();

	for (unsigned i = 0; i < rounds(50); i++) {
		establish();
		Bytes noise(1 + random() % 3000);
		for (auto &byte : noise)
			byte = static_cast<uint8_t>(random());
		try {
			wire->send(noise);
		} catch (const verbs::Error &) {
			/* It may have been closed already. */
		}
		if (i % 2)
			wire->finish();
		else
			wire->reset();
		EXPECT_TRUE(end->reaches(IBV_QPS_ERR));
		EXPECT_EQ(region->touched(), "");
	}
	synchronize(*witness.a, *witness.b);
	synchronize(*witness.b, *witness.a);
}

} // namespace
