// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* RFC 5044, 7.1: the frames that begin a connection. */
#include "device.h"

namespace {

using Rfc5044_7_1_1 = Conformance;
using Rfc5044_7_1_2 = Conformance;

/* Time in which a phase of setup must have ended; the parameter's, or the largest default. */
milliseconds setup_limit()
{
	return Parameter::exists("setup_timeout") ? milliseconds(8000) : milliseconds(40000);
}

std::optional<Parameter> short_setup()
{
	if (!Parameter::exists("setup_timeout"))
		return std::nullopt;
	return std::optional<Parameter>(std::in_place, "setup_timeout", "1");
}

/* --- the device responds --- */

TEST_F(Rfc5044_7_1_1, ReplyHasTheFixedKey)
{
	/* receive_frame() takes no other; nor would reply be set. */
	respond();
	EXPECT_TRUE(replied.reply);
}

TEST_F(Rfc5044_7_1_1, RequestWithAnotherKeyIsRefused)
{
	for (std::size_t at : {0, 3, 7, 9, 10, 15}) {
		SCOPED_TRACE(at);
		auto frame = request();
		frame.key = MpaFrame::request_key();
		(*frame.key)[at] ^= 0x20;
		connect();
		peer->send_frame(frame);
		expect_refused();
	}
}

TEST_F(Rfc5044_7_1_1, ReplyInsteadOfARequestIsRefused)
{
	auto frame = request();

	frame.reply = true;
	connect();
	peer->send_frame(frame);
	expect_refused();
}

TEST_F(Rfc5044_7_1_1, ReservedBitsOfARequestAreNotLookedAt)
{
	for (uint8_t bit : {0x01, 0x02, 0x04, 0x08}) {
		SCOPED_TRACE(int(bit));
		peer.reset();
		respond(request(MpaFrame::c | bit));
		ASSERT_FALSE(HasFatalFailure());
	}
}

TEST_F(Rfc5044_7_1_1, RejectBitOfARequestIsNotLookedAt)
{
	respond(request(MpaFrame::c | MpaFrame::r));
}

TEST_F(Rfc5044_7_1_1, ReservedBitsOfAReplyAreZero)
{
	respond();
	EXPECT_EQ(replied.flags & 0x1f, 0);
}

TEST_F(Rfc5044_7_1_1, RevisionOfTheReplyToOneIsOne)
{
	respond();
	EXPECT_EQ(replied.revision, 1);
}

TEST_F(Rfc5044_7_1_1, RequestOfAnUnknownRevisionIsRefused)
{
	for (uint8_t revision : {0, 3, 4, 127, 255}) {
		SCOPED_TRACE(int(revision));
		auto frame = request();
		frame.revision = revision;
		connect();
		peer->send_frame(frame);
		expect_refused();
	}
}

TEST_F(Rfc5044_7_1_1, PrivateDataOfARequestReachesTheUlp)
{
	for (std::size_t length : {0, 1, 3, 56, 128, 255}) {
		SCOPED_TRACE(length);
		connect();
		peer->send_frame(request(MpaFrame::c, pattern(length, length + 1)));
		auto event = listener->request(patience());
		event.private_data.resize(std::max(event.private_data.size(), length));
		EXPECT_EQ(Bytes(event.private_data.begin(),
				event.private_data.begin() + static_cast<long>(length)),
			  pattern(length, length + 1));
	}
}

/* Linux's CM carries 255 octets: what is longer must be refused, not cut off. */
TEST_F(Rfc5044_7_1_2, LongPrivateDataIsNeverCutOff)
{
	for (std::size_t length : {256, 257, 300, 511, 512}) {
		SCOPED_TRACE(length);
		connect();
		peer->send_frame(request(MpaFrame::c, pattern(length)));
		auto event = next_event(listener->channel(), milliseconds(1000));
		if (event) {
			EXPECT_EQ(event->private_data, pattern(length));
			continue;
		}
		peer->expect_end();
	}
}

TEST_F(Rfc5044_7_1_1, PrivateDataOfMoreThan512OctetsIsRefused)
{
	for (std::size_t length : {513, 516, 1024, 65535}) {
		SCOPED_TRACE(length);
		connect();
		try {
			peer->send_frame(request(MpaFrame::c, pattern(length)));
		} catch (const wire::SystemError &) {
			/* It may be closed as soon as its length is known. */
		}
		expect_refused();
	}
}

TEST_F(Rfc5044_7_1_1, PrivateDataShorterThanAnnouncedIsRefused)
{
	auto frame = request(MpaFrame::c, pattern(50));

	frame.length = 51;
	connect();
	peer->send_frame(frame);
	peer->finish();
	expect_refused();
}

TEST_F(Rfc5044_7_1_1, PrivateDataOfTheAcceptIsInTheReply)
{
	for (std::size_t length : {0, 1, 100, 196}) {
		SCOPED_TRACE(length);
		ConnectParameters parameters;
		parameters.private_data = pattern(length, 7);
		peer.reset();
		respond(request(), parameters);
		EXPECT_EQ(replied.private_data, pattern(length, 7));
	}
}

TEST_F(Rfc5044_7_1_2, FrameThatEndsEarlyIsRefused)
{
	auto whole = request(MpaFrame::c, pattern(4)).encode();

	for (std::size_t length : {0, 1, 15, 16, 17, 19, 20, 23}) {
		SCOPED_TRACE(length);
		connect();
		peer->send_bytes(wire::View(whole).first(length));
		peer->finish();
		expect_refused();
	}
}

TEST_F(Rfc5044_7_1_2, FrameInPiecesIsTaken)
{
	auto frame = request(MpaFrame::c, pattern(20));

	connect();
	peer->trickle(frame.encode());
	end = listener->endpoint(listener->request(patience()));
	accept(*end);
	replied = peer->receive_frame();
	peer->start(frame, replied);
	expect_alive();
}

TEST_F(Rfc5044_7_1_2, RejectIsSaidInTheReply)
{
	connect();
	peer->send_frame(request());
	auto event = listener->request(patience());
	auto reason = pattern(17, 3);
	ASSERT_EQ(rdma_reject(event.request.get(), reason.data(), 17), 0);
	replied = peer->receive_frame();
	EXPECT_TRUE(replied.reply);
	EXPECT_TRUE(replied.rejected());
	EXPECT_EQ(replied.private_data, reason);
	EXPECT_EQ(replied.flags & 0x0f, 0);
	EXPECT_EQ(replied.revision, 1);
}

TEST_F(Rfc5044_7_1_2, AcceptIsSaidInTheReply)
{
	respond();
	EXPECT_FALSE(replied.rejected());
	expect_alive();
}

TEST_F(Rfc5044_7_1_2, ResponderSendsNothingBeforeTheFirstFpdu)
{
	/* The marker that may be due comes no earlier. */
	for (uint8_t flags : {MpaFrame::c, uint8_t(MpaFrame::c | MpaFrame::m)}) {
		SCOPED_TRACE(int(flags));
		peer.reset();
		respond(request(flags));
		ASSERT_FALSE(HasFatalFailure());
		if (end->post(send_work(1, {region->sge(0, 5)})))
			FAIL() << "nothing could be posted";
		EXPECT_TRUE(peer->socket().receive(1, moment).empty()) << "spoke first";
		peer->send(Segment::write(region->rkey(), region->address()));
		EXPECT_EQ(peer->expect(Opcode::send).payload, region_bytes(0, 5));
	}
}

TEST_F(Rfc5044_7_1_2, ResponderSendsNothingAfterAnInvalidFirstFpdu)
{
	FpduFaults faults;

	respond();
	ASSERT_EQ(end->post(send_work(1, {region->sge(0, 5)})), 0);
	faults.crc = FpduFaults::Crc::wrong;
	peer->send(Segment::write(region->rkey(), region->address()), faults);
	/* Its fault may be told, but nothing of the ULP's goes. */
	while (auto segment = peer->next(moment))
		EXPECT_EQ(segment->opcode, Opcode::terminate);
	peer->finish();
	expect_closed();
}

TEST_F(Rfc5044_7_1_2, ResponderDoesNotWaitForARequestForever)
{
	auto shorter = short_setup();

	connect();
	peer->expect_end(setup_limit());
	EXPECT_FALSE(next_event(listener->channel(), moment));
}

TEST_F(Rfc5044_7_1_2, ResponderDoesNotWaitForTheRestOfAFrameForever)
{
	auto shorter = short_setup();
	auto whole = request(MpaFrame::c, pattern(4)).encode();

	connect();
	peer->send_bytes(wire::View(whole).first(21));
	peer->expect_end(setup_limit());
	EXPECT_FALSE(next_event(listener->channel(), moment));
}

/* --- the device initiates --- */

TEST_F(Rfc5044_7_1_1, RequestHasTheFixedKeyAndAKnownRevision)
{
	accept_tcp();
	/* receive_frame() takes no other key. */
	EXPECT_FALSE(asked.reply);
	EXPECT_TRUE(asked.revision == 1 || asked.revision == 2) << int(asked.revision);
}

TEST_F(Rfc5044_7_1_1, ReservedBitsOfARequestAreZero)
{
	accept_tcp();
	EXPECT_EQ(asked.flags & 0x0f, 0);
	EXPECT_FALSE(asked.rejected());
	if (asked.revision == 1) {
		EXPECT_EQ(asked.flags & MpaFrame::s, 0);
	}
}

TEST_F(Rfc5044_7_1_1, PrivateDataOfTheConnectIsInTheRequest)
{
	for (std::size_t length : {0, 1, 100, 196}) {
		SCOPED_TRACE(length);
		ConnectParameters parameters;
		parameters.private_data = pattern(length, 9);
		accept_tcp(parameters);
		EXPECT_EQ(asked.private_data, pattern(length, 9));
	}
}

TEST_F(Rfc5044_7_1_1, PrivateDataOfTheReplyReachesTheUlp)
{
	for (std::size_t length : {0, 1, 100, 255}) {
		SCOPED_TRACE(length);
		accept_tcp();
		auto reply = reply_to(asked);
		reply.private_data = pattern(length, 11);
		answer(reply);
		auto event = end->event(RDMA_CM_EVENT_ESTABLISHED, patience());
		event.private_data.resize(std::max(event.private_data.size(), length));
		EXPECT_EQ(Bytes(event.private_data.begin(),
				event.private_data.begin() + static_cast<long>(length)),
			  pattern(length, 11));
	}
}

TEST_F(Rfc5044_7_1_1, ReplyWithAnotherKeyEndsTheSetup)
{
	for (std::size_t at : {0, 7, 9, 10, 15}) {
		SCOPED_TRACE(at);
		accept_tcp();
		auto reply = reply_to(asked);
		reply.key = MpaFrame::reply_key();
		(*reply.key)[at] ^= 0x20;
		peer->send_frame(reply);
		peer->expect_end();
		expect_setup_failure();
	}
}

TEST_F(Rfc5044_7_1_2, RequestInsteadOfAReplyEndsTheSetup)
{
	accept_tcp();
	auto reply = reply_to(asked);
	reply.reply = false;
	peer->send_frame(reply);
	peer->expect_end();
	expect_setup_failure();
}

TEST_F(Rfc5044_7_1_1, ReplyOfAnUnknownRevisionEndsTheSetup)
{
	for (uint8_t revision : {0, 3, 255}) {
		SCOPED_TRACE(int(revision));
		accept_tcp();
		auto reply = reply_to(asked);
		reply.revision = revision;
		peer->send_frame(reply);
		peer->expect_end();
		expect_setup_failure();
	}
}

TEST_F(Rfc5044_7_1_1, ReservedBitsOfAReplyAreNotLookedAt)
{
	for (uint8_t bit : {0x01, 0x02, 0x04, 0x08}) {
		SCOPED_TRACE(int(bit));
		accept_tcp();
		auto reply = reply_to(asked);
		reply.flags |= bit;
		answer(reply);
		end->event(RDMA_CM_EVENT_ESTABLISHED, patience());
		take_rtr();
	}
}

TEST_F(Rfc5044_7_1_1, ReplyWithMoreThan512OctetsEndsTheSetup)
{
	for (std::size_t length : {513, 65535}) {
		SCOPED_TRACE(length);
		accept_tcp();
		auto reply = reply_to(asked);
		reply.private_data = pattern(length);
		reply.length = static_cast<uint16_t>(length);
		try {
			peer->send_frame(reply);
		} catch (const wire::SystemError &) {
		}
		peer->expect_end();
		expect_setup_failure();
	}
}

TEST_F(Rfc5044_7_1_1, ReplyShorterThanAnnouncedEndsTheSetup)
{
	accept_tcp();
	auto reply = reply_to(asked);
	reply.private_data = pattern(30);
	auto bytes = reply.encode();
	bytes.pop_back();
	peer->send_bytes(bytes);
	peer->finish();
	peer->expect_end();
	expect_setup_failure();
}

TEST_F(Rfc5044_7_1_2, LongPrivateDataOfAReplyIsNeverCutOff)
{
	for (std::size_t length : {256, 300, 508}) {
		SCOPED_TRACE(length);
		accept_tcp();
		auto reply = reply_to(asked);
		reply.private_data = pattern(length);
		answer(reply);
		auto event = next_event(end->channel(), patience());
		ASSERT_TRUE(event);
		if (event->type == RDMA_CM_EVENT_ESTABLISHED) {
			EXPECT_EQ(event->private_data, pattern(length));
		}
	}
}

TEST_F(Rfc5044_7_1_2, ReplyInPiecesIsTaken)
{
	accept_tcp();
	auto reply = reply_to(asked);
	reply.private_data = pattern(20);
	peer->trickle(reply.encode());
	peer->start(reply, asked);
	end->event(RDMA_CM_EVENT_ESTABLISHED, patience());
	take_rtr();
}

TEST_F(Rfc5044_7_1_2, RejectReachesTheUlp)
{
	accept_tcp();
	auto reply = reply_to(asked);
	reply.flags |= MpaFrame::r;
	reply.private_data = pattern(33, 2);
	answer(reply);
	auto event = expect_setup_failure();
	EXPECT_EQ(event.type, RDMA_CM_EVENT_REJECTED);
	event.private_data.resize(std::max<std::size_t>(event.private_data.size(), 33));
	EXPECT_EQ(Bytes(event.private_data.begin(), event.private_data.begin() + 33),
		  pattern(33, 2));
	EXPECT_FALSE(peer->next(moment)) << "an FPDU after a reject";
}

TEST_F(Rfc5044_7_1_2, InitiatorSendsNothingBeforeTheReply)
{
	accept_tcp();
	/* It may refuse to take it now, but it must not send it. */
	end->post(send_work(1, {region->sge(0, 5)}));
	EXPECT_TRUE(peer->socket().receive(1, moment).empty());
}

TEST_F(Rfc5044_7_1_2, InitiatorSendsFpdusAfterTheReply)
{
	initiate();
	ASSERT_FALSE(HasFatalFailure());
	ASSERT_EQ(end->post(send_work(1, {region->sge(0, 5)})), 0);
	EXPECT_EQ(peer->expect(Opcode::send).payload, region_bytes(0, 5));
}

TEST_F(Rfc5044_7_1_2, InitiatorTakesFpdusAfterTheReply)
{
	initiate();
	ASSERT_FALSE(HasFatalFailure());
	ASSERT_EQ(end->post_recv(1), 0);
	peer->send(Segment::send(1));
	EXPECT_COMPLETED(end->wait_recv(1, patience())[0], 1, IBV_WC_RECV);
}

TEST_F(Rfc5044_7_1_2, InitiatorDoesNotWaitForAReplyForever)
{
	auto shorter = short_setup();

	accept_tcp();
	peer->expect_end(setup_limit());
	expect_setup_failure();
}

} // namespace
