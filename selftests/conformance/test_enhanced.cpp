// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* RFC 6581: enhanced connection setup. */
#include "device.h"

namespace {

using Rfc6581_6 = Conformance;
using Rfc6581_9 = Conformance;
using Rfc6581_9_1 = Conformance;
using Rfc6581_9_2 = Conformance;
using Rfc6581_10 = Conformance;

Enhanced client_server(uint16_t ird = 8, uint16_t ord = 8)
{
	return {.ird = ird, .ord = ord};
}

Enhanced peer_to_peer(bool send, bool write, bool read)
{
	return {.peer_to_peer = true,
		.rtr_send = send,
		.rtr_write = write,
		.rtr_read = read,
		.ird = 8,
		.ord = 8};
}

bool any_rtr(const Enhanced &words)
{
	return words.rtr_send || words.rtr_write || words.rtr_read;
}

/* What the device is asked to be by its ULP. */
ConnectParameters resources(uint8_t ird, uint8_t ord)
{
	ConnectParameters parameters;

	parameters.responder_resources = ird;
	parameters.initiator_depth = ord;
	return parameters;
}

class Enhancing : public Conformance {
protected:
	/* Whether the device asks for enhanced setup, which it need not. */
	bool asks(const ConnectParameters &parameters = {})
	{
		accept_tcp(parameters);
		return !HasFatalFailure() && asked.enhanced;
	}

	/* How many Reads the device has outstanding at most; none is answered. */
	std::size_t reads_at_once()
	{
		std::size_t count = 0;

		for (uint64_t i = 0; i < 20; i++)
			end->post(read_work(i, {region->sge(0, 1)}, i, 1));
		while (peer->next(moment))
			count++;
		return count;
	}
};

using Rfc6581_9_1_initiator = Enhancing;

/* --- 6, 10: which frames --- */

TEST_F(Rfc6581_6, RequestsOfRevisionOneAreTakenStill)
{
	respond();
	EXPECT_EQ(replied.revision, 1);
	expect_alive();
}

TEST_F(Rfc6581_10, UnenhancedRequestHasAnUnenhancedReply)
{
	for (uint8_t revision : {1, 2}) {
		SCOPED_TRACE(int(revision));
		auto frame = request(MpaFrame::c, pattern(30));
		ConnectParameters parameters;
		frame.revision = revision;
		parameters.private_data = pattern(20, 4);
		peer.reset();
		respond(frame, parameters);
		ASSERT_FALSE(HasFatalFailure());
		EXPECT_FALSE(replied.flags & MpaFrame::s);
		EXPECT_EQ(replied.private_data, pattern(20, 4));
	}
}

TEST_F(Rfc6581_10, EnhancedRequestHasAnEnhancedReply)
{
	respond(enhanced_request(client_server()));
	EXPECT_TRUE(replied.flags & MpaFrame::s);
	EXPECT_TRUE(replied.enhanced);
	EXPECT_GE(replied.revision, 2);
}

TEST_F(Rfc6581_10, EnhancedRequestHasAnEnhancedReject)
{
	connect();
	peer->send_frame(enhanced_request(client_server()));
	auto event = listener->request(patience());
	auto reason = pattern(11, 3);
	ASSERT_EQ(rdma_reject(event.request.get(), reason.data(), 11), 0);
	replied = peer->receive_frame();
	EXPECT_TRUE(replied.rejected());
	EXPECT_TRUE(replied.enhanced);
	EXPECT_EQ(replied.private_data, reason);
}

TEST_F(Rfc6581_6, BitSOfARequestOfRevisionOneIsReserved)
{
	Bytes data;

	/* What looks like the words is the ULP's. */
	wire::put32(data, client_server().encode());
	auto frame = request(MpaFrame::c | MpaFrame::s, data);
	connect();
	peer->send_frame(frame);
	auto event = listener->request(patience());
	ASSERT_GE(event.private_data.size(), 4u);
	EXPECT_EQ(Bytes(event.private_data.begin(), event.private_data.begin() + 4), data);
	end = listener->endpoint(std::move(event));
	accept(*end);
	replied = peer->receive_frame();
	EXPECT_EQ(replied.revision, 1);
	EXPECT_FALSE(replied.flags & MpaFrame::s);
}

TEST_F(Rfc6581_6, ReservedBitsAreNotLookedAt)
{
	for (uint8_t bit : {0x01, 0x02, 0x04, 0x08}) {
		auto frame = enhanced_request(client_server());
		frame.flags |= bit;
		peer.reset();
		respond(frame);
		ASSERT_FALSE(HasFatalFailure());
		EXPECT_EQ(replied.flags & 0x0f, 0);
	}
}

TEST_F(Rfc6581_6, PrivateDataMustBeginWithTheWords)
{
	for (std::size_t length : {0, 1, 3}) {
		SCOPED_TRACE(length);
		auto frame = request(MpaFrame::c | MpaFrame::s, pattern(length));
		frame.revision = 2;
		connect();
		peer->send_frame(frame);
		expect_refused();
	}
}

TEST_F(Rfc6581_9, PrivateDataFollowsTheWords)
{
	for (std::size_t length : {0, 1, 100, 250}) {
		SCOPED_TRACE(length);
		ConnectParameters parameters;
		parameters.private_data = pattern(std::min<std::size_t>(length, 190), 6);
		connect();
		asked = enhanced_request(client_server(), pattern(length, 5));
		peer->send_frame(asked);
		auto event = listener->request(patience());
		ASSERT_GE(event.private_data.size(), length);
		EXPECT_EQ(Bytes(event.private_data.begin(),
				event.private_data.begin() + static_cast<long>(length)),
			  pattern(length, 5));
		end = listener->endpoint(std::move(event));
		accept(*end, parameters);
		replied = peer->receive_frame();
		ASSERT_TRUE(replied.enhanced);
		EXPECT_EQ(replied.private_data, parameters.private_data);
	}
}

TEST_F(Rfc6581_9, WordsSentAreInNetworkByteOrder)
{
	/* As bits on the wire: IRD in octets 20 and 21, ORD in 22 and 23. */
	connect();
	auto frame = enhanced_request(client_server(3, 5)).encode();
	EXPECT_EQ(wire::hex(wire::part(frame, 20, 4)), "00030005");
	peer->send_bytes(frame);
	end = listener->endpoint(listener->request(patience()));
	accept(*end, resources(5, 3));
	auto reply = peer->receive_frame();
	ASSERT_TRUE(reply.enhanced);
	EXPECT_EQ(wire::hex(wire::part(reply.encode(), 20, 4)), "00050003");
}

TEST_F(Rfc6581_6, RequestSentWithWordsIsOfRevisionTwo)
{
	accept_tcp();
	if (!asked.enhanced)
		GTEST_SKIP() << "the device asks for no enhanced setup";
	EXPECT_GE(asked.revision, 2);
	EXPECT_TRUE(asked.flags & MpaFrame::s);
}

TEST_F(Rfc6581_10, UnenhancedRequestIsOfRevisionOne)
{
	if (lacks_parameter("mpa_rev"))
		GTEST_SKIP() << "this device's revision cannot be set";
	Parameter revision("mpa_rev", "1");

	accept_tcp();
	EXPECT_EQ(asked.revision, 1);
	EXPECT_FALSE(asked.flags & MpaFrame::s);
	answer(reply_to(asked));
	end->event(RDMA_CM_EVENT_ESTABLISHED, patience());
	ASSERT_EQ(end->post(send_work(1, {region->sge(0, 5)})), 0);
	EXPECT_EQ(peer->expect(Opcode::send).payload, region_bytes(0, 5));
}

TEST_F(Rfc6581_10, RevisionOneIsTriedWhereEnhancedSetupIsRefused)
{
	accept_tcp();
	if (!asked.enhanced)
		GTEST_SKIP() << "the device asks for no enhanced setup";
	/* As who knows no more than RFC 5044. It MAY try: then this must work. */
	peer->close();
	wire::Socket again;
	try {
		again = tcp_listener.accept(patience());
	} catch (const wire::Unexpected &) {
		expect_setup_failure();
		return;
	}
	peer.emplace(std::move(again));
	asked = peer->receive_frame();
	EXPECT_EQ(asked.revision, 1);
	EXPECT_FALSE(asked.enhanced);
	answer(reply_to(asked));
	end->event(RDMA_CM_EVENT_ESTABLISHED, patience());
	expect_alive();
}

/* --- 9.1: IRD and ORD, the device responds --- */

TEST_F(Rfc6581_9_1, ResponderOrdIsAtMostTheInitiatorIrd)
{
	for (uint16_t ird : {0, 1, 2, 7, 16, 64, 1000, 0x3ffe}) {
		SCOPED_TRACE(ird);
		peer.reset();
		respond(enhanced_request(client_server(ird, 4)), resources(16, 16));
		ASSERT_FALSE(HasFatalFailure());
		ASSERT_TRUE(replied.enhanced);
		EXPECT_LE(replied.enhanced->ord, ird);
	}
}

TEST_F(Rfc6581_9_1, ResponderIrdIsWhatItSupports)
{
	/* Of what was asked for, and not more than the ULP gives. */
	for (uint16_t ord : {1, 2, 7, 16}) {
		SCOPED_TRACE(ord);
		peer.reset();
		respond(enhanced_request(client_server(4, ord)),
			resources(static_cast<uint8_t>(ord), 4));
		ASSERT_FALSE(HasFatalFailure());
		ASSERT_TRUE(replied.enhanced);
		EXPECT_GE(replied.enhanced->ird, ord);
		EXPECT_NE(replied.enhanced->ird, Enhanced::none);
	}
}

TEST_F(Rfc6581_9_1, ResponderSendsNoMoreReadsThanTheInitiatorTakes)
{
	for (uint16_t ird : {1, 3}) {
		SCOPED_TRACE(ird);
		std::size_t count = 0;
		peer.reset();
		end.reset();
		respond_and_begin(enhanced_request(client_server(ird, 4)), resources(16, 16));
		ASSERT_FALSE(HasFatalFailure());
		for (uint64_t i = 0; i < 20; i++)
			ASSERT_EQ(end->post(read_work(i, {region->sge(0, 1)}, i, 1)), 0);
		while (peer->next(moment))
			count++;
		EXPECT_EQ(count, std::min(ird, replied.enhanced->ord));
	}
}

TEST_F(Rfc6581_9_1, ResponderSendsNoReadToAnInitiatorThatTakesNone)
{
	respond_and_begin(enhanced_request(client_server(0, 4)), resources(16, 16));
	EXPECT_EQ(replied.enhanced->ord, 0);
	end->post(read_work(1, {region->sge(0, 1)}, 1, 1));
	/* A work request that can never be done may be its ULP's fault. */
	while (auto segment = peer->next(moment))
		EXPECT_EQ(segment->opcode, Opcode::terminate) << wire::describe(*segment);
}

TEST_F(Rfc6581_9_1, WordsOfTheRequestReachTheUlp)
{
	connect();
	peer->send_frame(enhanced_request(client_server(5, 3)));
	auto event = listener->request(patience());
	/* The CM shows them from the other side: its IRD serves the peer's ORD. */
	EXPECT_EQ(event.responder_resources, 3);
	EXPECT_EQ(event.initiator_depth, 5);
}

TEST_F(Rfc6581_9_1, InitiatorOrdOfAllOnesIsReturned)
{
	respond_and_begin(enhanced_request(client_server(4, Enhanced::none)), resources(5, 4));
	ASSERT_FALSE(HasFatalFailure());
	EXPECT_EQ(replied.enhanced->ird, Enhanced::none);
	EXPECT_LE(replied.enhanced->ord, 4);
	/* Its IRD is as the ULP said: five Reads at once. */
	Bytes all;
	for (uint32_t i = 1; i <= 5; i++) {
		ReadRequest read{i, 0, 8, region->rkey(), region->address()};
		append(all, peer->encode(read.segment(i)));
	}
	peer->send_bytes(all);
	for (uint32_t i = 1; i <= 5; i++)
		EXPECT_EQ(peer->expect(Opcode::read_response).stag, i);
}

TEST_F(Rfc6581_9_1, InitiatorIrdOfAllOnesIsReturned)
{
	respond_and_begin(enhanced_request(client_server(Enhanced::none, 4)), resources(5, 6));
	ASSERT_FALSE(HasFatalFailure());
	EXPECT_EQ(replied.enhanced->ord, Enhanced::none);
	EXPECT_NE(replied.enhanced->ird, Enhanced::none);
	/* Its ORD is as the ULP said. */
	std::size_t count = 0;
	for (uint64_t i = 0; i < 20; i++)
		ASSERT_EQ(end->post(read_work(i, {region->sge(0, 1)}, i, 1)), 0);
	while (peer->next(moment))
		count++;
	EXPECT_EQ(count, 6u);
}

/* --- 9.1: IRD and ORD, the device initiates --- */

TEST_F(Rfc6581_9_1_initiator, RequestSentHasTheUlpsNumbers)
{
	if (!asks(resources(3, 5)))
		GTEST_SKIP() << "the device asks for no enhanced setup";
	EXPECT_EQ(asked.enhanced->ird, 3);
	EXPECT_EQ(asked.enhanced->ord, 5);
}

TEST_F(Rfc6581_9_1_initiator, InitiatorOrdIsAtMostTheResponderIrd)
{
	if (!asks(resources(8, 8)))
		GTEST_SKIP() << "the device asks for no enhanced setup";
	auto reply = reply_to(asked);
	reply.enhanced->ird = 2;
	/* Without a Read as RTR, which would be one of them. */
	reply.enhanced->rtr_read = false;
	answer(reply);
	end->event(RDMA_CM_EVENT_ESTABLISHED, patience());
	take_rtr();
	EXPECT_EQ(reads_at_once(), 2u);
}

TEST_F(Rfc6581_9_1_initiator, InitiatorOrdStaysWhereTheResponderIrdIsAllOnes)
{
	if (!asks(resources(8, 5)))
		GTEST_SKIP() << "the device asks for no enhanced setup";
	auto reply = reply_to(asked);
	reply.enhanced->ird = Enhanced::none;
	reply.enhanced->rtr_read = false;
	answer(reply);
	end->event(RDMA_CM_EVENT_ESTABLISHED, patience());
	take_rtr();
	EXPECT_EQ(reads_at_once(), 5u);
}

TEST_F(Rfc6581_9_1_initiator, InitiatorIrdIsAtLeastTheResponderOrd)
{
	Region large(b.pd(), 1 << 20);
	Bytes all;

	if (!asks(resources(4, 4)))
		GTEST_SKIP() << "the device asks for no enhanced setup";
	answer(reply_to(asked));
	ASSERT_EQ(replied.enhanced->ord, 4);
	end->event(RDMA_CM_EVENT_ESTABLISHED, patience());
	take_rtr();
	for (uint32_t i = 1; i <= 4; i++) {
		ReadRequest read{i, 0, i == 1 ? 1u << 20 : 1u, large.rkey(), large.address()};
		append(all, peer->encode(read.segment(i)));
	}
	peer->send_bytes(all);
	for (uint32_t i = 1; i <= 4; i++)
		EXPECT_EQ(peer->expect_message(Opcode::read_response).stag, i);
}

TEST_F(Rfc6581_9_1_initiator, InitiatorIrdStaysWhereTheResponderOrdIsAllOnes)
{
	if (!asks(resources(4, 4)))
		GTEST_SKIP() << "the device asks for no enhanced setup";
	auto reply = reply_to(asked);
	reply.enhanced->ord = Enhanced::none;
	answer(reply);
	end->event(RDMA_CM_EVENT_ESTABLISHED, patience());
	take_rtr();
	for (uint32_t i = 1; i <= 4; i++) {
		ReadRequest read{i, 0, 1, region->rkey(), region->address()};
		peer->send(read.segment(i));
	}
	for (uint32_t i = 1; i <= 4; i++)
		EXPECT_EQ(peer->expect_message(Opcode::read_response).stag, i);
}

TEST_F(Rfc6581_9_1_initiator, InitiatorThatLacksTheIrdTerminates)
{
	if (!asks(resources(4, 4)))
		GTEST_SKIP() << "the device asks for no enhanced setup";
	auto reply = reply_to(asked);
	/* More than any resources; a responder must not do this (9.1). */
	reply.enhanced->ord = 0x3ffe;
	answer(reply);
	auto terminate = peer->expect_terminate();
	EXPECT_EQ(terminate.code, 0x2006) << wire::terminate_name(terminate.code);
	expect_no_headers(terminate);
	peer->finish();
	peer->expect_end();
	expect_setup_failure();
}

TEST_F(Rfc6581_9_1_initiator, WordsOfTheReplyReachTheUlp)
{
	if (!asks(resources(8, 8)))
		GTEST_SKIP() << "the device asks for no enhanced setup";
	auto reply = reply_to(asked);
	reply.enhanced->ird = 3;
	reply.enhanced->ord = 5;
	answer(reply);
	auto event = end->event(RDMA_CM_EVENT_ESTABLISHED, patience());
	EXPECT_EQ(event.responder_resources, 5);
	EXPECT_EQ(event.initiator_depth, 3);
	take_rtr();
}

TEST_F(Rfc6581_9_1_initiator, PrivateDataOfARejectReachesTheUlp)
{
	if (!asks(resources(8, 8)))
		GTEST_SKIP() << "the device asks for no enhanced setup";
	auto reply = reply_to(asked);
	reply.flags |= MpaFrame::r;
	reply.private_data = pattern(9, 9);
	answer(reply);
	auto event = expect_setup_failure();
	EXPECT_EQ(event.type, RDMA_CM_EVENT_REJECTED);
	ASSERT_GE(event.private_data.size(), 9u);
	EXPECT_EQ(Bytes(event.private_data.begin(), event.private_data.begin() + 9), pattern(9, 9));
}

/* --- 9.2: RTR, the device responds --- */

TEST_F(Rfc6581_9_2, PeerToPeerIsAgreedTo)
{
	respond(enhanced_request(peer_to_peer(true, true, true)));
	ASSERT_TRUE(replied.enhanced);
	EXPECT_TRUE(replied.enhanced->peer_to_peer);
	EXPECT_TRUE(any_rtr(*replied.enhanced));
}

TEST_F(Rfc6581_9_2, ClientServerIsAgreedTo)
{
	respond(enhanced_request(client_server()));
	EXPECT_FALSE(replied.enhanced->peer_to_peer);
	EXPECT_FALSE(any_rtr(*replied.enhanced));
}

TEST_F(Rfc6581_9_2, RtrFlagsWithoutPeerToPeerAreIgnored)
{
	auto words = peer_to_peer(true, true, true);

	words.peer_to_peer = false;
	respond(enhanced_request(words));
	EXPECT_FALSE(replied.enhanced->peer_to_peer);
	EXPECT_FALSE(any_rtr(*replied.enhanced));
	/* No RTR is waited for. */
	peer->send(Segment::write(region->rkey(), region->address()));
	expect_alive();
}

TEST_F(Rfc6581_9_2, RtrOfferedIsOneThatWasAskedFor)
{
	for (unsigned asked_for = 1; asked_for < 8; asked_for++) {
		SCOPED_TRACE(asked_for);
		auto words = peer_to_peer(asked_for & 1, asked_for & 2, asked_for & 4);
		peer.reset();
		respond(enhanced_request(words));
		ASSERT_FALSE(HasFatalFailure());
		auto &got = *replied.enhanced;
		/* It supports all, or none of these would be set. */
		EXPECT_TRUE((got.rtr_send && words.rtr_send) ||
			    (got.rtr_write && words.rtr_write) || (got.rtr_read && words.rtr_read));
	}
}

TEST_F(Rfc6581_9_2, SomeRtrIsOfferedWhereNoneWasAskedFor)
{
	respond(enhanced_request(peer_to_peer(false, false, false)));
	EXPECT_TRUE(replied.enhanced->peer_to_peer);
	EXPECT_TRUE(any_rtr(*replied.enhanced));
}

TEST_F(Rfc6581_9_2, SomeRtrIsOfferedWhereNoneSuits)
{
	if (lacks_parameter("rtr"))
		GTEST_SKIP() << "this device's RTR types cannot be set";
	Parameter rtr("rtr", "write");

	respond(enhanced_request(peer_to_peer(true, false, false)));
	EXPECT_TRUE(replied.enhanced->rtr_write);
	EXPECT_FALSE(replied.enhanced->rtr_send);
}

TEST_F(Rfc6581_9_2, SomeRtrIsOfferedWhereTheDeviceItselfAsksForNone)
{
	if (lacks_parameter("rtr"))
		GTEST_SKIP() << "this device's RTR types cannot be set";
	Parameter rtr("rtr", "none");

	respond(enhanced_request(peer_to_peer(true, false, false)));
	EXPECT_TRUE(replied.enhanced->peer_to_peer);
	EXPECT_TRUE(replied.enhanced->rtr_send);
}

TEST_F(Rfc6581_9_2, ResponderWaitsForTheRtr)
{
	respond(enhanced_request(peer_to_peer(true, true, true)));
	ASSERT_EQ(end->post(send_work(1, {region->sge(0, 5)})), 0);
	EXPECT_TRUE(peer->socket().receive(1, moment).empty()) << "spoke first";
	peer->send(Segment::write(region->rkey(), region->address()));
	EXPECT_EQ(peer->expect(Opcode::send).payload, region_bytes(0, 5));
}

TEST_F(Rfc6581_9_2, WriteAsRtrOpensTheStream)
{
	respond(enhanced_request(peer_to_peer(false, true, false)));
	ASSERT_TRUE(replied.enhanced->rtr_write);
	peer->send(Segment::write(0, 0));
	ASSERT_EQ(end->post(send_work(1, {region->sge(0, 5)})), 0);
	peer->expect(Opcode::send);
	expect_alive();
}

TEST_F(Rfc6581_9_2, ReadAsRtrOpensTheStream)
{
	respond(enhanced_request(peer_to_peer(false, false, true)));
	ASSERT_TRUE(replied.enhanced->rtr_read);
	peer->send(ReadRequest{1, 2, 0, 0, 0}.segment(next_request++));
	EXPECT_TRUE(peer->expect(Opcode::read_response).payload.empty());
	ASSERT_EQ(end->post(send_work(1, {region->sge(0, 5)})), 0);
	peer->expect(Opcode::send);
	expect_alive();
}

TEST_F(Rfc6581_9_2, SendAsRtrOpensTheStreamAndTakesNoReceive)
{
	respond(enhanced_request(peer_to_peer(true, false, false)));
	ASSERT_TRUE(replied.enhanced->rtr_send);
	peer->send(Segment::send(1));
	ASSERT_EQ(end->post(send_work(1, {region->sge(0, 5)})), 0);
	peer->expect(Opcode::send);
	/* It is the provider's: the ULP's first receive is for the next Send. */
	expect_receive(Segment::send(2), 0);
}

TEST_F(Rfc6581_9_2, ReadAsRtrNeedsNoUlpIrd)
{
	respond(enhanced_request({.peer_to_peer = true, .rtr_read = true, .ird = 0, .ord = 0}),
		resources(0, 0));
	ASSERT_TRUE(replied.enhanced->rtr_read);
	EXPECT_GE(replied.enhanced->ird, 1);
	peer->send(ReadRequest{1, 2, 0, 0, 0}.segment(1));
	EXPECT_TRUE(peer->expect(Opcode::read_response).payload.empty());
}

/* --- 9.2: RTR, the device initiates --- */

using Rfc6581_9_2_initiator = Enhancing;
using Rfc6581_5 = Enhancing;

TEST_F(Rfc6581_9_2_initiator, RtrFlagsSentFitTheModel)
{
	if (!asks())
		GTEST_SKIP() << "the device asks for no enhanced setup";
	EXPECT_EQ(any_rtr(*asked.enhanced), asked.enhanced->peer_to_peer);
}

TEST_F(Rfc6581_9_2_initiator, RtrIsOneThatWasAgreedOn)
{
	struct {
		bool send, write, read;
	} offers[] = {{true, false, false},
		      {false, true, false},
		      {false, false, true},
		      {true, true, true}};
	for (auto &[send, write, read] : offers) {
		SCOPED_TRACE(testing::Message() << send << write << read);
		next_request = next_send = 1;
		if (!asks() || !asked.enhanced->peer_to_peer)
			GTEST_SKIP() << "the device asks for no RTR";
		if ((send && !asked.enhanced->rtr_send) || (write && !asked.enhanced->rtr_write) ||
		    (read && !asked.enhanced->rtr_read))
			continue;
		auto reply = reply_to(asked);
		reply.enhanced->rtr_send = send;
		reply.enhanced->rtr_write = write;
		reply.enhanced->rtr_read = read;
		answer(reply);
		auto rtr = peer->next();
		ASSERT_TRUE(rtr) << "no RTR";
		EXPECT_TRUE((send && rtr->opcode == Opcode::send) ||
			    (write && rtr->opcode == Opcode::write) ||
			    (read && rtr->opcode == Opcode::read_request))
			<< wire::describe(*rtr);
		if (rtr->opcode == Opcode::read_request) {
			auto sink = ReadRequest::decode(rtr->payload);
			EXPECT_EQ(sink.size, 0u);
			peer->send(Segment::read_response(sink.sink_stag, sink.sink_to));
		} else {
			EXPECT_TRUE(rtr->payload.empty());
		}
		end->event(RDMA_CM_EVENT_ESTABLISHED, patience());
		/* Of no WR of the ULP's, which sees nothing of it. */
		ibv_wc wc;
		EXPECT_EQ(ibv_poll_cq(end->send_cq(), 1, &wc), 0);
		ASSERT_EQ(end->post(send_work(1, {region->sge(0, 5)})), 0);
		peer->expect(Opcode::send);
		expect_alive();
		EXPECT_EQ(peer->take_broken_rules(), std::vector<std::string>());
	}
}

TEST_F(Rfc6581_5, NothingIsSentBeforeTheRtr)
{
	if (!asks() || !asked.enhanced->peer_to_peer)
		GTEST_SKIP() << "the device asks for no RTR";
	/* Posted before the connection is there, if the device lets one. */
	bool early = !end->post(send_work(1, {region->sge(0, 5)}));
	answer(reply_to(asked));
	auto rtr = peer->next();
	ASSERT_TRUE(rtr);
	EXPECT_TRUE(rtr->opcode == Opcode::read_request ||
		    (rtr->payload.empty() && rtr->opcode != Opcode::terminate))
		<< wire::describe(*rtr);
	if (rtr->opcode == Opcode::read_request) {
		auto sink = ReadRequest::decode(rtr->payload);
		peer->send(Segment::read_response(sink.sink_stag, sink.sink_to));
	}
	end->event(RDMA_CM_EVENT_ESTABLISHED, patience());
	if (early) {
		EXPECT_EQ(peer->expect(Opcode::send).payload, region_bytes(0, 5));
	}
}

TEST_F(Rfc6581_9_2_initiator, InitiatorWithoutAMatchingRtrTerminates)
{
	if (!asks() || !asked.enhanced->peer_to_peer)
		GTEST_SKIP() << "the device asks for no RTR";
	auto reply = reply_to(asked);
	reply.enhanced->rtr_send = reply.enhanced->rtr_write = reply.enhanced->rtr_read = false;
	answer(reply);
	auto terminate = peer->expect_terminate();
	EXPECT_EQ(terminate.code, 0x2007) << wire::terminate_name(terminate.code);
	expect_no_headers(terminate);
	peer->finish();
	peer->expect_end();
	expect_setup_failure();
}

TEST_F(Rfc6581_9_2_initiator, InitiatorGeneratesNoRtrThatItsPolicyRulesOut)
{
	if (lacks_parameter("rtr"))
		GTEST_SKIP() << "this device's RTR types cannot be set";
	Parameter rtr("rtr", "send");

	if (!asks() || !asked.enhanced->peer_to_peer)
		GTEST_SKIP() << "the device asks for no RTR";
	EXPECT_TRUE(asked.enhanced->rtr_send);
	EXPECT_FALSE(asked.enhanced->rtr_write || asked.enhanced->rtr_read);
	auto reply = reply_to(asked);
	reply.enhanced->rtr_send = false;
	reply.enhanced->rtr_write = true;
	answer(reply);
	auto terminate = peer->expect_terminate();
	EXPECT_EQ(terminate.code, 0x2007) << wire::terminate_name(terminate.code);
	peer->finish();
	expect_setup_failure();
}

TEST_F(Rfc6581_9_2_initiator, ClientServerIsAskedForWhereThePolicyIsNoRtr)
{
	if (lacks_parameter("rtr"))
		GTEST_SKIP() << "this device's RTR types cannot be set";
	Parameter rtr("rtr", "none");

	ASSERT_TRUE(asks(resources(3, 5)));
	ASSERT_TRUE(asked.enhanced);
	EXPECT_FALSE(asked.enhanced->peer_to_peer);
	EXPECT_FALSE(any_rtr(*asked.enhanced));
	EXPECT_EQ(asked.enhanced->ird, 3);
	EXPECT_EQ(asked.enhanced->ord, 5);
	answer(reply_to(asked));
	end->event(RDMA_CM_EVENT_ESTABLISHED, patience());
	/* The first FPDU is the ULP's. */
	EXPECT_FALSE(peer->next(moment));
	ASSERT_EQ(end->post(send_work(1, {region->sge(0, 5)})), 0);
	EXPECT_EQ(peer->expect(Opcode::send).payload.size(), 5u);
	expect_alive();
}

/* --- 8, 9.3: errors --- */

using Rfc6581_8 = Enhancing;

TEST_F(Rfc6581_8, TerminatesOfSetupAreOfTheLowerLayer)
{
	if (!asks(resources(4, 4)))
		GTEST_SKIP() << "the device asks for no enhanced setup";
	auto reply = reply_to(asked);
	reply.enhanced->ord = 0x3ffe;
	answer(reply);
	auto segment = peer->expect(Opcode::terminate);
	EXPECT_EQ(segment.qn, 2u);
	EXPECT_EQ(segment.msn, 1u);
	auto terminate = Terminate::decode(segment.payload);
	EXPECT_EQ(terminate.layer(), 2u);
	EXPECT_EQ(terminate.type(), 0u);
	peer->finish();
	expect_setup_failure();
}

TEST_F(Rfc6581_8, TerminateInsteadOfAnRtrEndsTheSetup)
{
	for (uint16_t code : {0x2005, 0x2006, 0x2007}) {
		SCOPED_TRACE(code);
		peer.reset();
		end.reset();
		respond(enhanced_request(peer_to_peer(true, true, true)));
		ASSERT_FALSE(HasFatalFailure());
		post_receives(1);
		peer->send(Terminate(code).segment());
		EXPECT_NE(end->wait_recv(1, patience())[0].status, IBV_WC_SUCCESS);
		expect_closed();
	}
}

using Rfc6581_9_3 = Conformance;

TEST_F(Rfc6581_9_3, LocalErrorIsToldBeforeTheEnd)
{
	/* A QP that has a connection already cannot have this one. */
	respond_and_begin();
	ASSERT_FALSE(HasFatalFailure());
	auto first = std::move(*peer);
	connect();
	peer->send_frame(enhanced_request(client_server()));
	auto event = listener->request(patience());
	auto parameters = ConnectParameters().get();
	parameters.qp_num = end->qp()->qp_num;
	EXPECT_NE(rdma_accept(event.request.get(), &parameters), 0);
	/* Without an accept there is no stream for a Terminate: a reject says as much. */
	replied = peer->receive_frame();
	if (!replied.rejected()) {
		peer->start(enhanced_request(client_server()), replied);
		EXPECT_EQ(peer->expect_terminate().code, 0x2005);
	}
	peer->expect_end();
}

} // namespace
