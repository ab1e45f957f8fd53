// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* RFC 5041: DDP segments, their placement and delivery, and what is wrong with them. */
#include "device.h"

namespace {

using Rfc5041_4_1 = Conformance;
using Rfc5041_4_2 = Conformance;
using Rfc5041_4_3 = Conformance;
using Rfc5041_4_4 = Conformance;
using Rfc5041_5_2 = Conformance;
using Rfc5041_5_3 = Conformance;
using Rfc5041_5_4 = Conformance;
using Rfc5041_6_2_1 = Conformance;
using Rfc5041_6_2_2 = Conformance;
using Rfc5041_7_1 = Conformance;
using Rfc5041_8_2 = Conformance;
using Rfc5041_8_3_1 = Conformance;

/* The pieces of a message, each of `each` octets but the last. */
std::vector<Segment> pieces(const Segment &whole, std::size_t each)
{
	std::vector<Segment> all;

	for (std::size_t at = 0; at < whole.payload.size(); at += each) {
		auto count = std::min(each, whole.payload.size() - at);
		auto piece = whole;
		piece.payload = wire::copy(wire::part(whole.payload, at, count));
		piece.to += at;
		piece.mo += static_cast<uint32_t>(at);
		piece.last = at + count == whole.payload.size();
		all.push_back(piece);
	}
	return all;
}

/* --- 4: headers --- */

TEST_F(Rfc5041_4_1, HeadersSentAreRight)
{
	/* Reserved bits, versions, flags and numbers are checked in each segment that comes. */
	respond_and_begin();
	ASSERT_EQ(end->post(send_work(1, {region->sge(0, 30000)})), 0);
	ASSERT_EQ(end->post(write_work(2, {region->sge(0, 30000)}, 0x1000, 0x2000)), 0);
	ASSERT_EQ(end->post(read_work(3, {region->sge(0, 100)}, 0x1000, 0x2000)), 0);
	peer->expect_message(Opcode::send);
	peer->expect_message(Opcode::write);
	peer->expect(Opcode::read_request);
}

TEST_F(Rfc5041_4_1, ReservedBitsAreNotLookedAt)
{
	respond_and_begin();
	untouched = false;
	for (uint8_t bit : {1, 2, 4, 8}) {
		auto write = Segment::write(region->rkey(), region->address(bit), text("x"));
		write.ddp_reserved = bit;
		peer->send(write);
		auto send = Segment::send(next_send++);
		send.ddp_reserved = bit;
		expect_receive(send, 0);
		EXPECT_EQ(region_bytes(bit, 1), text("x"));
	}
}

TEST_F(Rfc5041_4_1, LastFlagIsOnTheLastSegmentOnly)
{
	respond_and_begin();
	ASSERT_EQ(end->post(write_work(1, {region->sge(0, 10000)}, 0, 1)), 0);
	std::size_t got = 0;
	for (bool last = false; !last;) {
		auto segment = peer->expect(Opcode::write);
		got += segment.payload.size();
		last = segment.last;
		EXPECT_EQ(last, got == 10000);
	}
	EXPECT_FALSE(peer->next(moment));
}

TEST_F(Rfc5041_4_1, MessageIsDeliveredWithItsLastSegmentOnly)
{
	auto parts = pieces(Segment::send(1, pattern(100)), 40);

	respond_and_begin();
	ASSERT_EQ(end->post_recv(1, {region->sge()}), 0);
	untouched = false;
	for (auto &segment : parts) {
		ibv_wc wc;
		std::this_thread::sleep_for(milliseconds(30));
		EXPECT_EQ(ibv_poll_cq(end->recv_cq(), 1, &wc), 0);
		peer->send(segment);
	}
	auto wc = end->wait_recv(1, patience())[0];
	EXPECT_COMPLETED(wc, 1, IBV_WC_RECV);
	EXPECT_EQ(wc.byte_len, 100u);
	EXPECT_EQ(region_bytes(0, 100), pattern(100));
}

TEST_F(Rfc5041_4_1, TaggedVersionMustBeOne)
{
	for (uint8_t version : {0, 2, 3}) {
		auto bad = Segment::write(region->rkey(), region->address(), text("bad"));
		bad.ddp_version = version;
		peer.reset();
		end.reset();
		refuses(bad, {0x1104});
	}
}

TEST_F(Rfc5041_4_1, UntaggedVersionMustBeOne)
{
	for (uint8_t version : {0, 2, 3}) {
		auto bad = Segment::send(1, text("bad"));
		bad.ddp_version = version;
		peer.reset();
		end.reset();
		refuses(bad, {0x1206});
	}
}

TEST_F(Rfc5041_4_1, VersionMustNotChangeWithinAMessage)
{
	auto parts = pieces(Segment::send(1, pattern(100)), 50);

	untouched = false;
	respond_and_begin();
	post_receives(4);
	peer->send(parts[0]);
	parts[1].ddp_version = 2;
	refuses(parts[1], {0x1206});
}

TEST_F(Rfc5041_4_2, StagAndOffsetSentAreTheUlps)
{
	respond_and_begin();
	ASSERT_EQ(end->post(write_work(1, {region->sge(0, 5000)}, 0xfedcba9876543210, 0x89abcdef)),
		  0);
	auto got = peer->expect_message(Opcode::write);
	EXPECT_EQ(got.stag, 0x89abcdefu);
	EXPECT_EQ(got.to, 0xfedcba9876543210u);
	EXPECT_EQ(got.payload, region_bytes(0, 5000));
}

TEST_F(Rfc5041_4_2, OffsetsMayBeginAnywhere)
{
	respond_and_begin();
	untouched = false;
	for (std::size_t offset : {0, 1, 2, 3, 5, 4095, 4097, 8191}) {
		auto data = pattern(50, offset);
		peer->send(Segment::write(region->rkey(), region->address(offset), data));
		expect_alive();
		EXPECT_EQ(region_bytes(offset, 50), data);
	}
}

TEST_F(Rfc5041_4_3, SequenceNumbersSentBeginWithOneAndGoUpByOne)
{
	respond_and_begin();
	for (uint32_t i = 1; i <= 40; i++) {
		ASSERT_EQ(end->post(send_work(i, {region->sge(0, i * 100)})), 0);
		EXPECT_EQ(peer->expect_message(Opcode::send).msn, i);
		EXPECT_COMPLETED(end->wait_send(1, patience())[0], i, IBV_WC_SEND);
	}
}

TEST_F(Rfc5041_4_3, EachQueueHasItsOwnSequenceNumbers)
{
	respond_and_begin();
	for (uint32_t i = 1; i <= 5; i++) {
		ASSERT_EQ(end->post(send_work(i, {region->sge(0, 1)})), 0);
		ASSERT_EQ(end->post(read_work(i, {region->sge(0, 1)}, 1, 1)), 0);
		auto send = peer->expect(Opcode::send);
		auto read = peer->expect(Opcode::read_request);
		EXPECT_EQ(send.qn, 0u);
		EXPECT_EQ(send.msn, i);
		EXPECT_EQ(read.qn, 1u);
		EXPECT_EQ(read.msn, i);
	}
}

TEST_F(Rfc5041_4_3, SequenceNumbersOfQueuesAreIndependentOnReceipt)
{
	respond_and_begin();
	for (uint32_t i = 1; i <= 5; i++) {
		expect_alive();
		expect_alive();
		expect_receive(Segment::send(i), 0);
	}
}

TEST_F(Rfc5041_4_3, RsvdUlpOfUntaggedSegmentsIsOpaque)
{
	respond_and_begin();
	/* RFC 5040, 4.1: the Invalidate STag of a plain Send is ignored. */
	auto send = Segment::send(1);
	send.invalidate = 0xffffffff;
	expect_receive(send, 0);
}

TEST_F(Rfc5041_4_4, UlpduWithoutAWholeHeaderIsRefused)
{
	for (std::size_t length : {0, 1, 2, 13, 17}) {
		SCOPED_TRACE(length);
		peer.reset();
		end.reset();
		respond_and_begin();
		ASSERT_FALSE(HasFatalFailure());
		post_receives(2);
		auto ulpdu = Segment::send(1).encode();
		ulpdu.resize(length);
		peer->send_bytes(peer->encode_ulpdu(ulpdu));
		/* No code says this. */
		while (auto segment = peer->next(moment))
			EXPECT_EQ(segment->opcode, Opcode::terminate);
		peer->finish();
		expect_closed();
		for (auto &wc : end->wait_recv(2, patience()))
			EXPECT_NE(wc.status, IBV_WC_SUCCESS);
	}
}

/* --- 5.2: segmentation --- */

TEST_F(Rfc5041_5_2, LongMessagesAreSegmentedWithoutAGap)
{
	respond_and_begin();
	untouched = false;
	region->fill(3);
	for (std::size_t length : {1, 1400, 1424, 1425, 1426, 2848, 40000}) {
		ASSERT_EQ(end->post(send_work(1, {region->sge(0, length)})), 0);
		EXPECT_EQ(peer->expect_message(Opcode::send).payload, region_bytes(0, length));
		ASSERT_EQ(end->post(write_work(1, {region->sge(0, length)}, 77, 78)), 0);
		auto write = peer->expect_message(Opcode::write);
		EXPECT_EQ(write.to, 77u);
		EXPECT_EQ(write.payload, region_bytes(0, length));
	}
}

TEST_F(Rfc5041_5_2, SegmentsOfAnySizeArePlaced)
{
	respond_and_begin();
	untouched = false;
	for (std::size_t each : {1, 7, 100, 999, 4096}) {
		auto data = pattern(std::min<std::size_t>(each * 9, 20000), each);
		auto send = Segment::send(next_send++, data);
		ASSERT_EQ(end->post_recv(each, {region->sge()}), 0);
		for (auto &segment : pieces(send, each))
			peer->send(segment);
		EXPECT_COMPLETED(end->wait_recv(1, patience())[0], each, IBV_WC_RECV);
		EXPECT_EQ(region_bytes(0, data.size()), data);
		auto write = Segment::write(region->rkey(), region->address(20000), data);
		for (auto &segment : pieces(write, each))
			peer->send(segment);
		expect_alive();
		EXPECT_EQ(region_bytes(20000, data.size()), data);
	}
}

TEST_F(Rfc5041_5_2, TaggedSegmentsMayComeInAnyOrderOfOffsets)
{
	auto data = pattern(1000, 12);

	respond_and_begin();
	untouched = false;
	auto parts = pieces(Segment::write(region->rkey(), region->address(), data), 100);
	/* In increasing order they only should be (5.3); the last one stays the last. */
	std::reverse(parts.begin(), parts.end() - 1);
	for (auto &segment : parts)
		peer->send(segment);
	expect_alive();
	EXPECT_EQ(region_bytes(0, data.size()), data);
}

TEST_F(Rfc5041_5_2, UntaggedSegmentsMayComeInAnyOrderOfOffsets)
{
	auto data = pattern(1000, 13);

	respond_and_begin();
	ASSERT_EQ(end->post_recv(1, {region->sge()}), 0);
	untouched = false;
	auto parts = pieces(Segment::send(1, data), 100);
	std::reverse(parts.begin(), parts.end() - 1);
	for (auto &segment : parts)
		peer->send(segment);
	auto wc = end->wait_recv(1, patience())[0];
	EXPECT_COMPLETED(wc, 1, IBV_WC_RECV);
	EXPECT_EQ(wc.byte_len, 1000u);
	EXPECT_EQ(region_bytes(0, data.size()), data);
}

TEST_F(Rfc5041_5_2, ZeroLengthMessagesSentAreOneSegment)
{
	respond_and_begin();
	ASSERT_EQ(end->post(send_work(1, {})), 0);
	ASSERT_EQ(end->post(write_work(2, {}, 5, 6)), 0);
	auto send = peer->expect(Opcode::send);
	EXPECT_TRUE(send.last && send.payload.empty());
	auto write = peer->expect(Opcode::write);
	EXPECT_TRUE(write.last && write.payload.empty());
	EXPECT_FALSE(peer->next(moment));
}

TEST_F(Rfc5041_5_2, StagOfAZeroLengthTaggedMessageIsNotChecked)
{
	respond_and_begin();
	peer->send(Segment::write(0, 0));
	peer->send(Segment::write(0xffffffff, UINT64_MAX));
	peer->send(Segment::write(region->rkey() ^ 0xffff00, region->address()));
	peer->send(Segment::write(region->rkey(), region->address(size) + 1));
	expect_alive();
}

/* --- 5.3, 5.4: order and delivery --- */

TEST_F(Rfc5041_5_3, MessagesAreSentInTheOrderOfTheirSubmission)
{
	std::vector<Work> works;

	respond_and_begin();
	for (uint64_t i = 0; i < 30; i++)
		works.push_back(i % 3 ? write_work(i, {region->sge(0, 3000)}, i, 1)
				      : send_work(i, {region->sge(0, 3000 + i)}));
	ASSERT_EQ(end->post(works), 0);
	for (uint64_t i = 0; i < 30; i++) {
		if (i % 3)
			EXPECT_EQ(peer->expect_message(Opcode::write).to, i);
		else
			EXPECT_EQ(peer->expect_message(Opcode::send).payload.size(), 3000 + i);
	}
}

TEST_F(Rfc5041_5_3, MessagesAreDeliveredInOrderAndOnce)
{
	Bytes all;
	ibv_wc wc;

	respond_and_begin();
	post_receives(40, 64);
	untouched = false;
	for (uint32_t i = 1; i <= 40; i++)
		for (auto &segment : pieces(Segment::send(i, pattern(60, i)), i % 30 + 1))
			append(all, peer->encode(segment));
	peer->send_bytes(all);
	auto completions = end->wait_recv(40, patience());
	for (uint32_t i = 0; i < 40; i++) {
		EXPECT_COMPLETED(completions[i], i, IBV_WC_RECV);
		EXPECT_EQ(region_bytes(i * 64, 60), pattern(60, i + 1));
	}
	EXPECT_EQ(ibv_poll_cq(end->recv_cq(), 1, &wc), 0);
}

TEST_F(Rfc5041_5_4, LengthDeliveredIsTheMessages)
{
	respond_and_begin();
	untouched = false;
	for (unsigned length : {0u, 1u, 2u, 1000u, 39999u, 40000u}) {
		auto data = pattern(length);
		ASSERT_EQ(end->post_recv(length, {region->sge()}), 0);
		for (auto &segment : pieces(Segment::send(next_send, data), 700))
			peer->send(segment);
		if (!length)
			peer->send(Segment::send(next_send));
		next_send++;
		auto wc = end->wait_recv(1, patience())[0];
		EXPECT_COMPLETED(wc, length, IBV_WC_RECV);
		EXPECT_EQ(wc.byte_len, length);
	}
}

TEST_F(Rfc5041_5_4, MessageWithAGapIsNotDelivered)
{
	auto parts = pieces(Segment::send(1, pattern(300)), 100);

	respond_and_begin();
	ASSERT_EQ(end->post_recv(1, {region->sge()}), 0);
	untouched = false;
	peer->send(parts[0]);
	peer->send(parts[2]);
	/* Not all of its segments were placed. */
	auto wc = end->wait_recv(1, patience())[0];
	EXPECT_NE(wc.status, IBV_WC_SUCCESS);
	peer->finish();
	expect_closed();
}

TEST_F(Rfc5041_5_4, SendIsDeliveredAfterTheWritesBeforeIt)
{
	respond_and_begin();
	untouched = false;
	for (uint32_t i = 1; i <= 20; i++) {
		auto data = pattern(20000, i);
		ASSERT_EQ(end->post_recv(i), 0);
		Bytes all;
		for (auto &segment :
		     pieces(Segment::write(region->rkey(), region->address(), data), 1400))
			append(all, peer->encode(segment));
		append(all, peer->encode(Segment::send(i)));
		peer->send_bytes(all);
		EXPECT_COMPLETED(end->wait_recv(1, patience())[0], i, IBV_WC_RECV);
		EXPECT_EQ(region_bytes(0, data.size()), data);
	}
}

/* --- 6.2: teardown --- */

TEST_F(Rfc5041_6_2_1, AllThatWasPostedGoesBeforeAGracefulClose)
{
	respond_and_begin();
	expect_alive();
	end->event(RDMA_CM_EVENT_ESTABLISHED, patience());
	for (uint64_t i = 0; i < 30; i++)
		ASSERT_EQ(end->post(send_work(i, {region->sge(0, 10000)})), 0);
	ASSERT_EQ(rdma_disconnect(end->id()), 0);
	for (uint64_t i = 0; i < 30; i++)
		EXPECT_EQ(peer->expect_message(Opcode::send).payload, region_bytes(0, 10000));
	EXPECT_EQ(peer->expect_end(), End::fin);
	peer->finish();
	expect_qp_error();
}

TEST_F(Rfc5041_6_2_1, NothingCanBeSentAfterAGracefulClose)
{
	respond_and_begin();
	expect_alive();
	end->event(RDMA_CM_EVENT_ESTABLISHED, patience());
	ASSERT_EQ(rdma_disconnect(end->id()), 0);
	bool posted = end->post(send_work(1, {region->sge(0, 10)})) == 0;
	EXPECT_FALSE(peer->next(patience())) << "a message after the close";
	EXPECT_EQ(peer->socket().end(), End::fin);
	peer->finish();
	if (posted) {
		EXPECT_NE(end->wait_send(1, patience())[0].status, IBV_WC_SUCCESS);
	}
	expect_qp_error();
}

TEST_F(Rfc5041_6_2_2, LossOfTheConnectionFailsWhatIsOutstanding)
{
	respond_and_begin();
	post_receives(3);
	expect_alive();
	ASSERT_EQ(end->post(read_work(1, {region->sge(0, 10)}, 1, 1)), 0);
	peer->expect(Opcode::read_request);
	peer->reset();
	EXPECT_NE(end->wait_send(1, patience())[0].status, IBV_WC_SUCCESS);
	for (auto &wc : end->wait_recv(3, patience()))
		EXPECT_NE(wc.status, IBV_WC_SUCCESS);
	expect_qp_error();
}

TEST_F(Rfc5041_6_2_2, StreamStaysUpUntilTheErrorIsTold)
{
	respond_and_begin();
	peer->send(Segment::write(region->rkey() ^ 0xff00, region->address(), text("bad")));
	peer->expect_terminate();
	/* The half that goes out works still: the ULP's Terminate came whole. */
	peer->finish();
	EXPECT_EQ(peer->expect_end(), End::fin);
}

/* --- 7.1: errors of untagged segments --- */

TEST_F(Rfc5041_7_1, QueueMustBeValid)
{
	for (uint32_t queue : {4u, 5u, 7u, 0x100u, 0x80000000u, 0xffffffffu}) {
		SCOPED_TRACE(queue);
		auto bad = Segment::send(1, text("bad"));
		bad.qn = queue;
		peer.reset();
		end.reset();
		refuses(bad, {0x1201});
	}
}

TEST_F(Rfc5041_7_1, SendNeedsABuffer)
{
	auto bad = Segment::send(1, text("bad"));

	respond_and_begin();
	peer->send(bad);
	expect_about(expect_terminate({0x1202}), bad);
}

TEST_F(Rfc5041_7_1, ReadRequestNeedsABuffer)
{
	/* More at once than the IRD: too large to be answered before the last one comes. */
	Region large(b.pd(), 8 << 20);
	ConnectParameters parameters;
	Bytes all;

	parameters.responder_resources = parameters.initiator_depth = 2;
	respond_and_begin(enhanced_request({.ird = 2, .ord = 2}), parameters);
	ASSERT_FALSE(HasFatalFailure());
	ASSERT_EQ(replied.enhanced->ird, 2);
	ReadRequest read{1, 0, 8 << 20, large.rkey(), large.address()};
	for (uint32_t i = 1; i <= 4; i++)
		append(all, peer->encode(read.segment(i)));
	peer->send_bytes(all);
	auto terminate = expect_terminate({0x1202});
	expect_about(terminate, read.segment(3));
	EXPECT_FALSE(terminate.r);
}

TEST_F(Rfc5041_7_1, SequenceNumberMustNotBeOfTheFuture)
{
	refuses(Segment::send(2, text("bad")), {0x1203, 0x1202});
	peer.reset();
	end.reset();
	refuses(Segment::send(0x80000001, text("bad")), {0x1203, 0x1202});
}

TEST_F(Rfc5041_7_1, SequenceNumberMustNotBeOfThePast)
{
	refuses(Segment::send(0, text("bad")), {0x1203});
	peer.reset();
	end.reset();
	respond_and_begin();
	ASSERT_FALSE(HasFatalFailure());
	expect_receive(Segment::send(1), 0);
	expect_receive(Segment::send(2), 0);
	post_receives(4);
	refuses(Segment::send(2, text("again")), {0x1203});
}

TEST_F(Rfc5041_7_1, SequenceNumberOfAReadRequestMustBeTheNext)
{
	ReadRequest read{1, 0, 8, region->rkey(), region->address()};

	for (uint32_t msn : {0u, 2u, 1000u}) {
		SCOPED_TRACE(msn);
		peer.reset();
		end.reset();
		refuses(read.segment(msn), {0x1203, 0x1202});
	}
}

TEST_F(Rfc5041_7_1, MessageOffsetMustBeInTheBuffer)
{
	for (uint32_t offset : {1001u, 0x7fffffffu, 0xffffffffu}) {
		SCOPED_TRACE(offset);
		auto bad = Segment::send(1, text("bad"));
		bad.mo = offset;
		peer.reset();
		end.reset();
		refuses(bad, {0x1204});
	}
}

TEST_F(Rfc5041_7_1, MessageMustFitItsBuffer)
{
	refuses(Segment::send(1, pattern(1001)), {0x1205});
}

TEST_F(Rfc5041_7_1, MessageOfSegmentsMustFitItsBuffer)
{
	auto bad = Segment::send(1, pattern(200));

	respond_and_begin();
	post_receives(4);
	untouched = false;
	auto first = Segment::send(1, pattern(900));
	first.last = false;
	peer->send(first);
	bad.mo = 900;
	refuses(bad, {0x1205});
	EXPECT_EQ(region_bytes(1000, 100), Bytes(100, region->data()[1500]))
		<< "placed behind its buffer";
}

/* --- 7.1: errors of tagged segments --- */

TEST_F(Rfc5041_7_1, StagMustBeValid)
{
	for (uint32_t change : {0x100u, 0xffff00u, 0x80000000u, 0x01u}) {
		SCOPED_TRACE(change);
		peer.reset();
		end.reset();
		refuses(Segment::write(region->rkey() ^ change, region->address(), text("bad")),
			{0x1100});
	}
}

TEST_F(Rfc5041_7_1, StagZeroIsNoBuffer)
{
	refuses(Segment::write(0, region->address(), text("bad")), {0x1100});
}

TEST_F(Rfc5041_7_1, StagMustStillBeValid)
{
	Region gone(b.pd(), 4096);
	auto bad = Segment::write(gone.rkey(), gone.address(), text("bad"));

	gone.deregister();
	refuses(bad, {0x1100});
	EXPECT_EQ(gone.touched(), "");
}

TEST_F(Rfc5041_7_1, StagMustBeForWriting)
{
	Region read_only(b.pd(), 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);

	/* 5041 has no code of its own for rights: no buffer that allows placement, or RDMAP's. */
	refuses(Segment::write(read_only.rkey(), read_only.address(), text("bad")),
		{0x0102, 0x1100}, About::anything);
	EXPECT_EQ(read_only.touched(), "");
}

TEST_F(Rfc5041_7_1, OffsetMustBeInTheBuffer)
{
	for (auto offset :
	     {region->address() - 1, region->address(size), uint64_t(0), UINT64_MAX - 1000}) {
		SCOPED_TRACE(offset);
		peer.reset();
		end.reset();
		refuses(Segment::write(region->rkey(), offset, text("bad")), {0x1101});
	}
}

TEST_F(Rfc5041_7_1, SegmentMustEndInTheBuffer)
{
	refuses(Segment::write(region->rkey(), region->address(size - 2), text("bad")), {0x1101});
}

TEST_F(Rfc5041_7_1, OffsetMustNotWrap)
{
	refuses(Segment::write(region->rkey(), UINT64_MAX - 1, text("bad")), {0x1103});
}

TEST_F(Rfc5041_7_1, ReadResponseMustHaveAValidStag)
{
	respond_and_begin();
	post_receives(4);
	ASSERT_EQ(end->post(read_work(1, {region->sge(0, 100)}, 5, 6)), 0);
	auto read = ReadRequest::decode(peer->expect(Opcode::read_request).payload);
	refuses(Segment::read_response(read.sink_stag ^ 0xff00, read.sink_to, pattern(100)),
		{0x1100});
	EXPECT_NE(end->wait_send(1, patience())[0].status, IBV_WC_SUCCESS);
}

TEST_F(Rfc5041_7_1, ReadResponseMustStayInItsBuffer)
{
	respond_and_begin();
	post_receives(4);
	ASSERT_EQ(end->post(read_work(1, {region->sge(0, 100)}, 5, 6)), 0);
	auto read = ReadRequest::decode(peer->expect(Opcode::read_request).payload);
	/* Whatever of it is placed must be in the sink. */
	untouched = false;
	peer->send(Segment::read_response(read.sink_stag, read.sink_to, pattern(101)));
	expect_terminate({0x1101});
	EXPECT_NE(end->wait_send(1, patience())[0].status, IBV_WC_SUCCESS);
	EXPECT_EQ(region_bytes(100, 100), Bytes(100, region->data()[1500]));
}

/* Of several segments each must, not only that which ends the message. */
TEST_F(Rfc5041_7_1, EachSegmentOfAReadResponseMustStayInItsBuffer)
{
	for (auto offset : {0u, 60u, 100u}) {
		SCOPED_TRACE(offset);
		peer.reset();
		end.reset();
		respond_and_begin();
		ASSERT_EQ(end->post(read_work(1, {region->sge(0, 100)}, 5, 6)), 0);
		auto read = ReadRequest::decode(peer->expect(Opcode::read_request).payload);
		auto segment = Segment::read_response(read.sink_stag, read.sink_to + offset,
						      pattern(101 - offset));
		segment.last = false;
		untouched = false;
		peer->send(segment);
		expect_terminate({0x1101});
		EXPECT_NE(end->wait_send(1, patience())[0].status, IBV_WC_SUCCESS);
		EXPECT_EQ(region_bytes(100, 100), Bytes(100, region->data()[1500]));
	}
}

TEST_F(Rfc5041_7_1, SegmentsAfterAnErrorAreDropped)
{
	Bytes all;

	respond_and_begin();
	post_receives(4);
	all = peer->encode(Segment::write(region->rkey() ^ 0xff00, region->address(), text("bad")));
	append(all, peer->encode(Segment::write(region->rkey(), region->address(), text("good"))));
	append(all, peer->encode(Segment::send(1, text("good"))));
	peer->send_bytes(all);
	expect_terminate({0x1100});
	for (auto &wc : end->wait_recv(4, patience()))
		EXPECT_NE(wc.status, IBV_WC_SUCCESS);
}

TEST_F(Rfc5041_7_1, ErrorIsToldToTheUlp)
{
	respond_and_begin();
	peer->send(Segment::write(region->rkey() ^ 0xff00, region->address(), text("bad")));
	peer->expect_terminate();
	EXPECT_TRUE(end->async_event(patience())) << "no asynchronous event";
	expect_qp_error();
}

/* --- 8: what an STag protects --- */

TEST_F(Rfc5041_8_2, StagOfAnotherDomainIsRefused)
{
	verbs::Pd other(verbs::check(ibv_alloc_pd(b.context()), "ibv_alloc_pd"));
	Region theirs(other.get(), 4096);

	refuses(Segment::write(theirs.rkey(), theirs.address(), text("bad")), {0x1102});
	EXPECT_EQ(theirs.touched(), "");
}

TEST_F(Rfc5041_8_3_1, NothingIsWrittenAfterTheRightWasRevoked)
{
	Region revoked(b.pd(), 4096);
	auto bad = Segment::write(revoked.rkey(), revoked.address(), text("bad"));

	respond_and_begin();
	post_receives(4);
	peer->send(Segment::write(revoked.rkey(), revoked.address(), text("good")));
	expect_alive();
	revoked.deregister();
	revoked.clear();
	refuses(bad, {0x1100});
	EXPECT_EQ(revoked.touched(), "");
}

} // namespace
