// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* RFC 5040, 4.8, 5.4, 6.2, 7 and 8: Terminate Messages, sent and received. */
#include "device.h"

namespace {

using Rfc5040_4_1 = Conformance;
using Rfc5040_4_8 = Conformance;
using Rfc5040_5_4 = Conformance;
using Rfc5040_6_2_1 = Conformance;
using Rfc5040_7_1 = Conformance;
using Rfc5040_7_2 = Conformance;
using Rfc5040_8_1_1 = Conformance;

/* --- versions and opcodes --- */

TEST_F(Rfc5040_7_2, VersionMustBeOne)
{
	for (uint8_t version : {0, 2, 3}) {
		for (bool is_tagged : {false, true}) {
			SCOPED_TRACE(testing::Message() << int(version) << is_tagged);
			auto bad = is_tagged ? Segment::write(region->rkey(), region->address(),
							      text("bad"))
					     : Segment::send(1, text("bad"));
			bad.rdmap_version = version;
			peer.reset();
			end.reset();
			refuses(bad, {0x0205});
		}
	}
}

TEST_F(Rfc5040_7_2, ReservedOpcodeIsUnexpected)
{
	for (unsigned opcode : {12u, 13u, 14u, 15u}) {
		for (bool is_tagged : {false, true}) {
			SCOPED_TRACE(testing::Message() << opcode << is_tagged);
			auto bad = is_tagged ? Segment::write(region->rkey(), region->address(),
							      text("bad"))
					     : Segment::send(1, text("bad"));
			bad.opcode = static_cast<Opcode>(opcode);
			peer.reset();
			end.reset();
			refuses(bad, {0x0206});
		}
	}
}

TEST_F(Rfc5040_4_1, UntaggedOpcodeInATaggedSegmentIsUnexpected)
{
	for (auto opcode : {Opcode::send, Opcode::send_invalidate, Opcode::send_se,
			    Opcode::read_request, Opcode::terminate}) {
		SCOPED_TRACE(wire::name(opcode));
		auto bad = Segment::write(region->rkey(), region->address(), text("bad"));
		bad.opcode = opcode;
		peer.reset();
		end.reset();
		refuses(bad, {0x0206});
	}
}

TEST_F(Rfc5040_4_1, TaggedOpcodeInAnUntaggedSegmentIsUnexpected)
{
	for (auto opcode : {Opcode::write, Opcode::read_response}) {
		SCOPED_TRACE(wire::name(opcode));
		auto bad = Segment::send(1, text("bad"));
		bad.opcode = opcode;
		peer.reset();
		end.reset();
		refuses(bad, {0x0206});
	}
}

TEST_F(Rfc5040_4_1, OpcodeOnAnotherOnesQueueIsUnexpected)
{
	ReadRequest read{1, 0, 8, region->rkey(), region->address()};
	auto send_on_1 = Segment::send(1, text("bad"));
	auto send_on_2 = send_on_1;
	auto read_on_0 = read.segment(1);
	auto terminate_on_0 = Terminate(0x0207).segment();

	send_on_1.qn = 1;
	send_on_2.qn = 2;
	read_on_0.qn = 0;
	terminate_on_0.qn = 0;
	for (auto &bad : {send_on_1, send_on_2, read_on_0, terminate_on_0}) {
		SCOPED_TRACE(wire::describe(bad));
		peer.reset();
		end.reset();
		refuses(bad, {0x0206, 0x1201}, About::anything);
	}
}

/* --- 7.2: Read Requests --- */

TEST_F(Rfc5040_7_2, ReadSourceStagMustBeValid)
{
	for (uint32_t stag : {region->rkey() ^ 0xff00, region->rkey() ^ 1, 0u}) {
		SCOPED_TRACE(stag);
		ReadRequest read{1, 0, 8, stag, region->address()};
		peer.reset();
		end.reset();
		refuses(read.segment(1), {0x0100}, About::header_and_request);
	}
}

TEST_F(Rfc5040_7_2, ReadSourceMustBeAssociated)
{
	verbs::Pd other(verbs::check(ibv_alloc_pd(b.context()), "ibv_alloc_pd"));
	Region theirs(other.get(), 4096);
	ReadRequest read{1, 0, 8, theirs.rkey(), theirs.address()};

	refuses(read.segment(1), {0x0103}, About::header_and_request);
}

TEST_F(Rfc5040_7_2, ReadSourceMustBeReadable)
{
	Region write_only(b.pd(), 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	ReadRequest read{1, 0, 8, write_only.rkey(), write_only.address()};

	refuses(read.segment(1), {0x0102}, About::header_and_request);
}

TEST_F(Rfc5040_7_2, ReadSourceOffsetMustBeInTheBuffer)
{
	for (auto offset : {region->address() - 1, region->address(size), uint64_t(0)}) {
		SCOPED_TRACE(offset);
		ReadRequest read{1, 0, 8, region->rkey(), offset};
		peer.reset();
		end.reset();
		refuses(read.segment(1), {0x0101}, About::header_and_request);
	}
}

TEST_F(Rfc5040_7_2, ReadSourceMustEndInTheBuffer)
{
	ReadRequest beyond[] = {{1, 0, 9, region->rkey(), region->address(size - 8)},
				{1, 0, size + 1, region->rkey(), region->address()},
				{1, 0, 0xffffffff, region->rkey(), region->address()}};

	for (auto &read : beyond) {
		SCOPED_TRACE(read.size);
		peer.reset();
		end.reset();
		refuses(read.segment(1), {0x0101}, About::header_and_request);
	}
}

TEST_F(Rfc5040_7_2, ReadSourceMustNotWrap)
{
	ReadRequest read{1, 0, 8, region->rkey(), UINT64_MAX - 3};

	refuses(read.segment(1), {0x0104}, About::header_and_request);
}

TEST_F(Rfc5040_7_2, ReadRequestMustHaveItsWholeHeader)
{
	ReadRequest read{1, 0, 8, region->rkey(), region->address()};
	auto bad = read.segment(1);

	/* No code says this. */
	bad.payload.resize(27);
	refuses(bad, {0x0207, 0x02ff}, About::anything);
}

TEST_F(Rfc5040_7_2, ReadRequestMustHaveNoPayload)
{
	ReadRequest read{1, 0, 8, region->rkey(), region->address()};
	auto bad = read.segment(1);

	bad.payload.resize(29);
	refuses(bad, {0x0207, 0x02ff, 0x1205}, About::anything);
}

TEST_F(Rfc5040_7_2, InvalidateStagMustBeValid)
{
	auto bad = Segment::untagged(Opcode::send_invalidate, 1, text("data"));

	/* Its payload may have been placed. */
	untouched = false;
	bad.invalidate = region->rkey() ^ 0xffff00;
	refuses(bad, {0x0100, 0x0109, 0x0209});
}

/* --- 4.8: the Terminate Message sent --- */

TEST_F(Rfc5040_4_8, TerminateSentHasTheFormat)
{
	respond_and_begin();
	auto bad = Segment::write(region->rkey() ^ 0xff00, region->address(), text("bad"));
	peer->send(bad);
	auto segment = peer->expect(Opcode::terminate);
	auto terminate = Terminate::decode(segment.payload);
	EXPECT_EQ(terminate.layer(), 1u);
	EXPECT_EQ(terminate.type(), 1u);
	EXPECT_EQ(terminate.code & 0xff, 0);
	EXPECT_EQ(terminate.reserved, 0);
	EXPECT_TRUE(terminate.more.empty());
	expect_about(terminate, bad);
	EXPECT_FALSE(terminate.r);
}

TEST_F(Rfc5040_4_8, SegmentLengthIsOfTheWholeSegment)
{
	for (std::size_t length : {1, 2, 3, 1000, 30000}) {
		SCOPED_TRACE(length);
		peer.reset();
		end.reset();
		respond_and_begin();
		ASSERT_FALSE(HasFatalFailure());
		auto bad =
			Segment::write(region->rkey() ^ 0xff00, region->address(), pattern(length));
		peer->send(bad);
		expect_about(expect_terminate({0x1100}), bad);
	}
}

TEST_F(Rfc5040_4_8, ReadInProgressIsTerminatedWithWhereItStands)
{
	/* A source that goes away while it is read. */
	auto source = std::make_unique<Region>(b.pd(), 64 << 20);
	ReadRequest read{0x77, 0x1000, 64 << 20, source->rkey(), source->address()};
	auto request = read.segment(1);

	respond_and_begin();
	peer->send(request);
	std::size_t got = peer->expect(Opcode::read_response).payload.size();
	source->deregister();
	std::optional<Segment> segment;
	while ((segment = peer->next(patience())) && segment->opcode == Opcode::read_response)
		got += segment->payload.size();
	if (got == 64 << 20)
		GTEST_SKIP() << "all was read before the region was gone";
	ASSERT_TRUE(segment) << "neither the rest nor a Terminate";
	ASSERT_EQ(segment->opcode, Opcode::terminate);
	auto terminate = Terminate::decode(segment->payload);
	EXPECT_EQ(terminate.code, 0x0100) << wire::terminate_name(terminate.code);
	EXPECT_TRUE(terminate.d);
	EXPECT_EQ(wire::hex(terminate.ddp_header), wire::hex(request.header()));
	ASSERT_TRUE(terminate.r);
	auto now = ReadRequest::decode(terminate.rdma_header);
	EXPECT_EQ(now.sink_stag, read.sink_stag);
	EXPECT_EQ(now.source_stag, read.source_stag);
	EXPECT_EQ(now.sink_to, read.sink_to + got);
	EXPECT_EQ(now.source_to, read.source_to + got);
	EXPECT_EQ(now.size, read.size - got);
	peer->finish();
	expect_closed();
}

TEST_F(Rfc5040_4_8, ReservedBitsReceivedAreIgnored)
{
	respond_and_begin();
	post_receives(1);
	Terminate terminate(0x0207);
	terminate.reserved = 0x1fff;
	peer->send(terminate.segment());
	EXPECT_NE(end->wait_recv(1, patience())[0].status, IBV_WC_SUCCESS);
	expect_closed();
}

/* --- 5.4: Terminate as a message --- */

TEST_F(Rfc5040_5_4, TerminateSentIsOnQueueTwo)
{
	respond_and_begin();
	peer->send(Segment::write(0xff00, region->address(), text("bad")));
	auto segment = peer->expect(Opcode::terminate);
	EXPECT_FALSE(segment.tagged);
	EXPECT_EQ(segment.qn, 2u);
	EXPECT_EQ(segment.msn, 1u);
	EXPECT_EQ(segment.mo, 0u);
	EXPECT_TRUE(segment.last);
}

TEST_F(Rfc5040_5_4, NothingIsSentAfterATerminate)
{
	respond_and_begin();
	for (uint64_t i = 0; i < 8; i++)
		ASSERT_EQ(end->post(read_work(i, {region->sge(0, 10)}, 1, 1)), 0);
	peer->send(Segment::write(0xff00, region->address(), text("bad")));
	peer->expect_terminate();
	/* The ULP does not know yet. */
	for (uint64_t i = 0; i < 8; i++)
		end->post(send_work(i, {region->sge(0, 10)}));
	EXPECT_FALSE(peer->next(moment));
	peer->finish();
	expect_closed();
}

TEST_F(Rfc5040_5_4, TerminateReceivedIsToldToTheUlp)
{
	for (uint16_t code : {0x0000, 0x0102, 0x0207, 0x1101, 0x1202, 0x2002, 0x2006}) {
		SCOPED_TRACE(code);
		peer.reset();
		end.reset();
		respond_and_begin();
		ASSERT_FALSE(HasFatalFailure());
		post_receives(2);
		ASSERT_EQ(end->post(read_work(1, {region->sge(0, 10)}, 1, 1)), 0);
		peer->expect(Opcode::read_request);
		peer->send(Terminate(code).segment());
		EXPECT_TRUE(end->async_event(patience())) << "no asynchronous event";
		EXPECT_NE(end->wait_send(1, patience())[0].status, IBV_WC_SUCCESS);
		for (auto &wc : end->wait_recv(2, patience()))
			EXPECT_NE(wc.status, IBV_WC_SUCCESS);
		expect_closed();
	}
}

TEST_F(Rfc5040_5_4, TerminateWithHeadersIsTaken)
{
	ReadRequest read{1, 2, 3, 4, 5};
	auto request = read.segment(1);
	Terminate terminate(0x0101);

	terminate.m = terminate.d = terminate.r = true;
	terminate.segment_length = static_cast<uint16_t>(request.encode().size());
	terminate.ddp_header = request.header();
	terminate.rdma_header = request.payload;
	respond_and_begin();
	ASSERT_EQ(end->post(read_work(1, {region->sge(0, 10)}, 1, 1)), 0);
	peer->expect(Opcode::read_request);
	peer->send(terminate.segment());
	auto wc = end->wait_send(1, patience())[0];
	/* A Read that the peer refused for its rights or bounds. */
	EXPECT_EQ(wc.status, IBV_WC_REM_ACCESS_ERR) << ibv_wc_status_str(wc.status);
	expect_closed();
}

TEST_F(Rfc5040_5_4, TerminateConsumesNoReceive)
{
	respond_and_begin();
	/* Its buffer is one that is always there. */
	peer->send(Terminate(0x0207).segment());
	EXPECT_TRUE(end->async_event(patience()));
	expect_closed();
}

TEST_F(Rfc5040_5_4, InvalidTerminateEndsTheStreamToo)
{
	auto cut_off = Terminate(0x0207).segment(), second = cut_off, lying = cut_off;

	cut_off.payload.resize(1);
	second.msn = 2;
	lying.payload[2] = 0xe0;
	for (auto &bad : {cut_off, second, lying}) {
		SCOPED_TRACE(wire::describe(bad));
		peer.reset();
		end.reset();
		respond_and_begin();
		ASSERT_FALSE(HasFatalFailure());
		post_receives(2);
		peer->send(bad);
		peer->finish();
		expect_closed();
		for (auto &wc : end->wait_recv(2, patience()))
			EXPECT_NE(wc.status, IBV_WC_SUCCESS);
	}
}

/* --- 6.2.1, 7.1 --- */

TEST_F(Rfc5040_6_2_1, TerminateIsFollowedByAGracefulClose)
{
	respond_and_begin();
	peer->send(Segment::write(0xff00, region->address(), text("bad")));
	peer->expect_terminate();
	peer->finish();
	EXPECT_EQ(peer->expect_end(), End::fin);
}

TEST_F(Rfc5040_6_2_1, TerminateIsNotLostBehindUnreadData)
{
	/* What still comes must not make TCP reset the connection under the Terminate. */
	Bytes more;

	respond_and_begin();
	for (int i = 0; i < 50; i++)
		append(more, peer->encode(Segment::write(region->rkey(), region->address(),
							 pattern(1000))));
	auto all = peer->encode(Segment::write(0xff00, region->address(), text("bad")));
	append(all, more);
	peer->send_bytes(all);
	EXPECT_EQ(peer->expect_terminate().code, 0x1100);
	peer->finish();
	EXPECT_EQ(peer->expect_end(), End::fin);
}

TEST_F(Rfc5040_6_2_1, WhatIsOutstandingAtATerminateIsInError)
{
	respond_and_begin();
	for (uint64_t i = 0; i < 3; i++)
		ASSERT_EQ(end->post(read_work(i, {region->sge(0, 10)}, 1, 1)), 0);
	for (int i = 0; i < 3; i++)
		peer->expect(Opcode::read_request);
	peer->send(Terminate(0x0207).segment());
	for (auto &wc : end->wait_send(3, patience()))
		EXPECT_NE(wc.status, IBV_WC_SUCCESS);
	expect_closed();
}

TEST_F(Rfc5040_6_2_1, PeerThatDoesNotCloseIsNotWaitedForForever)
{
	std::optional<Parameter> shorter;

	if (Parameter::exists("close_timeout"))
		shorter.emplace("close_timeout", "1");
	respond_and_begin();
	peer->send(Segment::write(0xff00, region->address(), text("bad")));
	peer->expect_terminate();
	peer->expect_end(milliseconds(40000));
	expect_qp_error();
}

TEST_F(Rfc5040_7_1, LocalErrorIsSentWithoutHeaders)
{
	auto sge = region->sge(0, 100);

	respond_and_begin();
	expect_alive();
	sge.lkey ^= 0xff00;
	ASSERT_EQ(end->post(send_work(1, {sge})), 0);
	EXPECT_NE(end->wait_send(1, patience())[0].status, IBV_WC_SUCCESS);
	auto terminate = peer->expect_terminate();
	EXPECT_EQ(terminate.layer(), 0u);
	EXPECT_EQ(terminate.type(), 0u);
	expect_no_headers(terminate);
	peer->finish();
	expect_closed();
}

TEST_F(Rfc5040_7_1, LocalErrorOfEachOperationIsSent)
{
	auto sge = region->sge(0, 100);

	sge.lkey ^= 0xff00;
	for (auto &work : {send_work(1, {sge}), write_work(1, {sge}, 1, 1),
			   read_work(1, {sge}, 1, 1), send_invalidate_work(1, {sge}, 5)}) {
		SCOPED_TRACE(work.wr.opcode);
		peer.reset();
		end.reset();
		next_request = 1;
		respond_and_begin();
		ASSERT_FALSE(HasFatalFailure());
		expect_alive();
		ASSERT_EQ(end->post(work), 0);
		if (work.wr.opcode == IBV_WR_RDMA_READ) {
			/* Where the sink is looked at only when there is something for it. */
			auto first = peer->next();
			ASSERT_TRUE(first);
			if (first->opcode == Opcode::read_request) {
				auto read = ReadRequest::decode(first->payload);
				peer->send(Segment::read_response(read.sink_stag, read.sink_to,
								  pattern(100)));
			} else {
				ASSERT_EQ(first->opcode, Opcode::terminate);
				continue;
			}
		}
		auto terminate = peer->expect_terminate();
		EXPECT_EQ(terminate.code >> 8, 0);
		expect_no_headers(terminate);
		peer->finish();
		expect_closed();
	}
}

TEST_F(Rfc5040_7_1, FirstOfSeveralErrorsIsTold)
{
	Bytes all;
	auto first = Segment::write(0xff00, region->address(), text("first"));

	respond_and_begin();
	all = peer->encode(first);
	append(all, peer->encode(Segment::send(7, text("second"))));
	append(all, peer->encode(Segment::write(region->rkey(), 0, text("third"))));
	peer->send_bytes(all);
	expect_about(expect_terminate({0x1100}), first);
}

TEST_F(Rfc5040_7_1, ErrorOfAReadRequestIsToldAfterTheResponsesBeforeIt)
{
	ReadRequest good{1, 0, 20000, region->rkey(), region->address()};
	ReadRequest bad{2, 0, 8, 0xff00, region->address()};
	Bytes all;

	respond_and_begin();
	all = peer->encode(good.segment(1));
	append(all, peer->encode(bad.segment(2)));
	peer->send_bytes(all);
	auto terminate = expect_terminate({0x0100});
	expect_about(terminate, bad.segment(2));
	EXPECT_EQ(wire::hex(terminate.rdma_header), wire::hex(bad.encode()));
}

/* --- 8.1.1 --- */

TEST_F(Rfc5040_8_1_1, StagsAreHardToPredict)
{
	std::vector<uint32_t> stags;
	unsigned close = 0;

	for (int i = 0; i < 64; i++)
		stags.push_back(Region(b.pd(), 4096).rkey());
	for (std::size_t i = 1; i < stags.size(); i++)
		close += stags[i] - stags[i - 1] < 0x200 || stags[i - 1] - stags[i] < 0x200;
	/* By chance one in four million. */
	EXPECT_LE(close, 2u) << "one region's STag gives away the next one's";
}

TEST_F(Rfc5040_8_1_1, StagOfAnotherDomainIsNeitherReadNorWritten)
{
	verbs::Pd other(verbs::check(ibv_alloc_pd(b.context()), "ibv_alloc_pd"));
	Region theirs(other.get(), 4096);
	ReadRequest read{1, 0, 8, theirs.rkey(), theirs.address()};

	refuses(read.segment(1), {0x0103}, About::header_and_request);
	peer.reset();
	end.reset();
	refuses(Segment::write(theirs.rkey(), theirs.address(), text("bad")), {0x1102});
	EXPECT_EQ(theirs.touched(), "");
}

TEST_F(Rfc5040_8_1_1, OverflowOfACqHarmsNoOtherStream)
{
	QpConfig small;

	small.cq_entries = 1;
	small.send_wr = small.recv_wr = 64;
	respond_and_begin(request(), {}, small);
	ASSERT_FALSE(HasFatalFailure());
	auto other_peer = std::move(*peer);
	auto other_end = std::move(end);
	peer.reset();
	respond_and_begin();
	ASSERT_FALSE(HasFatalFailure());
	untouched = false;
	for (unsigned i = 0; i < 64; i++)
		ASSERT_EQ(other_end->post_recv(i), 0);
	try {
		for (uint32_t i = 1; i <= 64; i++)
			other_peer.send(Segment::send(i));
	} catch (const wire::SystemError &) {
	}
	for (int i = 0; i < 5; i++)
		expect_alive();
	expect_receive(Segment::send(1), 0);
}

} // namespace
