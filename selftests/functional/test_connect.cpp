// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Connecting, refusing, and all the ways in which it does not work out. */
#include <algorithm>

#include "fixture.h"
#include "wire.h"

namespace {

/* Events that must not keep anyone waiting: the answer is there at once. */
constexpr verbs::milliseconds quickly{3000};
/* Where only silence tells: TCP's and MPA's own time-outs. */
constexpr verbs::milliseconds patiently{150000};

std::vector<uint8_t> some_data(std::size_t length, uint8_t first)
{
	std::vector<uint8_t> data(length);

	for (auto &byte : data)
		byte = first++;
	return data;
}

class ConnectTest : public VerbsTest {
protected:
	/* A port of this host that nobody listens on. */
	static Address nobody(Host &host, Family family = Family::ipv4)
	{
		Listener gone(host, family);
		return gone.address();
	}

	static void expect_works(Pair &pair)
	{
		synchronize(*pair.a, *pair.b);
		synchronize(*pair.b, *pair.a);
	}
};

class FamilyTest : public ConnectTest,
		   public testing::WithParamInterface<std::tuple<Family, bool>> {};

TEST_P(FamilyTest, Connects)
{
	auto [family, wildcard] = GetParam();
	Listener listener(b, family, 8, wildcard);
	PairConfig config;

	config.active.family = family;
	auto pair = connect(a, listener, config);
	expect_works(pair);
	/* And each knows the other's address. */
	auto *peer = rdma_get_peer_addr(pair.b->id());
	EXPECT_EQ(peer->sa_family, family == Family::ipv4 ? AF_INET : AF_INET6);
	auto own = a.address(family);
	if (family == Family::ipv4) {
		EXPECT_EQ(reinterpret_cast<sockaddr_in *>(peer)->sin_addr.s_addr,
			  reinterpret_cast<sockaddr_in *>(own.get())->sin_addr.s_addr);
	} else {
		EXPECT_EQ(std::memcmp(&reinterpret_cast<sockaddr_in6 *>(peer)->sin6_addr,
				      &reinterpret_cast<sockaddr_in6 *>(own.get())->sin6_addr, 16),
			  0);
	}
	EXPECT_EQ(rdma_get_dst_port(pair.a->id()), rdma_get_src_port(pair.b->id()));
	EXPECT_EQ(rdma_get_src_port(pair.a->id()), rdma_get_dst_port(pair.b->id()));
}

std::string family_name(const testing::TestParamInfo<std::tuple<Family, bool>> &info)
{
	static const char *names[] = {"Ipv4", "Ipv6", "LinkLocal"};

	return std::string(names[int(std::get<0>(info.param))]) +
	       (std::get<1>(info.param) ? "Wildcard" : "Specific");
}

INSTANTIATE_TEST_SUITE_P(Connect, FamilyTest,
			 testing::Combine(testing::Values(Family::ipv4, Family::ipv6,
							  Family::link_local),
					  testing::Bool()),
			 family_name);

TEST_F(ConnectTest, IpV6WildcardTakesIpV4)
{
	Listener listener(b, Family::ipv6, 8, true);
	auto address = b.address(Family::ipv4);
	auto v6 = listener.address();

	address.set_port(ntohs(reinterpret_cast<sockaddr_in6 *>(v6.get())->sin6_port));
	auto end = resolve(a, address);
	start_connect(*end);
	auto other = listener.endpoint(listener.request());
	accept(*other);
	end->event(RDMA_CM_EVENT_ESTABLISHED);
}

class PrivateData : public ConnectTest, public testing::WithParamInterface<std::size_t> {};

TEST_P(PrivateData, BothWays)
{
	auto request = some_data(GetParam(), 1), answer = some_data(GetParam(), 100);
	Listener listener(b, default_family());
	ConnectParameters active, passive;
	auto end = resolve(a, listener.address());

	active.private_data = request;
	passive.private_data = answer;
	start_connect(*end, active);
	auto event = listener.request();
	EXPECT_EQ(event.private_data, request);
	auto other = listener.endpoint(std::move(event));
	accept(*other, passive);
	EXPECT_EQ(end->event(RDMA_CM_EVENT_ESTABLISHED).private_data, answer);
	other->event(RDMA_CM_EVENT_ESTABLISHED);
}

TEST_P(PrivateData, WithAReject)
{
	auto reason = some_data(GetParam(), 7);
	Listener listener(b, default_family());
	auto end = resolve(a, listener.address());

	start_connect(*end);
	auto event = listener.request();
	verbs::check(rdma_reject(event.request.get(), reason.data(),
				 static_cast<uint8_t>(reason.size())),
		     "rdma_reject");
	auto rejected = end->event(RDMA_CM_EVENT_REJECTED);
	EXPECT_EQ(rejected.private_data, reason);
	EXPECT_EQ(rejected.status, -ECONNREFUSED);
	EXPECT_NE(end->state(), IBV_QPS_RTS);
}

/* What Linux's CM carries is 255 bytes at most. */
INSTANTIATE_TEST_SUITE_P(Connect, PrivateData,
			 testing::Values(std::size_t(0), std::size_t(1), std::size_t(56),
					 std::size_t(196), std::size_t(251), std::size_t(255)),
			 testing::PrintToStringParamName());

TEST_F(ConnectTest, ReadDepthsAreAgreed)
{
	Listener listener(b, default_family());
	ConnectParameters active, passive;
	auto end = resolve(a, listener.address());

	active.initiator_depth = 7;
	active.responder_resources = 5;
	start_connect(*end, active);
	auto request = listener.request();
	/* As the passive side sees it: it answers 7 Reads and may have 5 of its own. */
	EXPECT_EQ(request.responder_resources, 7);
	EXPECT_EQ(request.initiator_depth, 5);
	auto other = listener.endpoint(std::move(request));
	passive.responder_resources = 7;
	passive.initiator_depth = 3;
	accept(*other, passive);
	auto established = end->event(RDMA_CM_EVENT_ESTABLISHED);
	other->event(RDMA_CM_EVENT_ESTABLISHED);
	EXPECT_EQ(end->query(IBV_QP_MAX_QP_RD_ATOMIC).max_rd_atomic, 7);
	EXPECT_EQ(other->query(IBV_QP_MAX_QP_RD_ATOMIC).max_rd_atomic, 3);
	EXPECT_GE(end->query(IBV_QP_MAX_DEST_RD_ATOMIC).max_dest_rd_atomic, 3);
	EXPECT_EQ(other->query(IBV_QP_MAX_DEST_RD_ATOMIC).max_dest_rd_atomic, 7);
}

TEST_F(ConnectTest, NobodyListens)
{
	for (auto family : {Family::ipv4, Family::ipv6, Family::link_local}) {
		auto end = resolve(a, nobody(b, family));
		start_connect(*end);
		auto event = next_event(end->channel(), quickly);
		ASSERT_TRUE(event) << "no event";
		EXPECT_TRUE(event->type == RDMA_CM_EVENT_REJECTED ||
			    event->type == RDMA_CM_EVENT_UNREACHABLE ||
			    event->type == RDMA_CM_EVENT_CONNECT_ERROR)
			<< event->text();
		EXPECT_EQ(event->status, -ECONNREFUSED) << event->text();
		EXPECT_NE(end->state(), IBV_QPS_RTS);
	}
}

TEST_F(ConnectTest, NoSuchHost)
{
	auto channel = a.make_channel();
	auto id = a.make_id(channel.get());
	auto address = b.address(Family::ipv4);

	/* The neighbour does not answer: address resolution says so. */
	reinterpret_cast<sockaddr_in *>(address.get())->sin_addr.s_addr ^= htonl(0x40);
	address.set_port(1234);
	verbs::check(rdma_resolve_addr(id.get(), nullptr, address.get(), 2000),
		     "rdma_resolve_addr");
	auto event = next_event(channel.get(), soon);
	ASSERT_TRUE(event);
	EXPECT_EQ(event->type, RDMA_CM_EVENT_ADDR_ERROR) << event->text();
}

/* What a rejected end can do next: nothing hangs, and the QP is flushed. */
TEST_F(ConnectTest, RejectedEndIsFlushed)
{
	Listener listener(b, default_family());
	auto end = resolve(a, listener.address());

	ASSERT_EQ(end->post_recv(1), 0);
	start_connect(*end);
	auto event = listener.request();
	verbs::check(rdma_reject(event.request.get(), nullptr, 0), "rdma_reject");
	end->event(RDMA_CM_EVENT_REJECTED);
	ibv_qp_attr attr{};
	attr.qp_state = IBV_QPS_ERR;
	verbs::check(ibv_modify_qp(end->qp(), &attr, IBV_QP_STATE), "ibv_modify_qp");
	EXPECT_EQ(end->wait_recv()[0].status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(ConnectTest, RequestNeverAnswered)
{
	Listener listener(b, default_family());
	auto end = resolve(a, listener.address());

	start_connect(*end);
	{
		auto event = listener.request();
		/* The id goes without accept or reject: that is a rejection. */
	}
	auto event = next_event(end->channel(), soon);
	ASSERT_TRUE(event);
	EXPECT_TRUE(event->type == RDMA_CM_EVENT_REJECTED ||
		    event->type == RDMA_CM_EVENT_CONNECT_ERROR)
		<< event->text();
}

/* The active side gives up while the passive one thinks. */
TEST_F(ConnectTest, ActiveSideGoesBeforeTheAccept)
{
	Listener listener(b, default_family());
	auto end = resolve(a, listener.address());

	start_connect(*end);
	auto other = listener.endpoint(listener.request());
	end.reset();
	auto p = ConnectParameters().get();
	/* Either the accept fails, or the connection ends right after it. */
	if (!rdma_accept(other->id(), &p)) {
		for (;;) {
			auto event = next_event(other->channel(), soon);
			ASSERT_TRUE(event) << "no event";
			if (event->type == RDMA_CM_EVENT_ESTABLISHED)
				continue;
			EXPECT_TRUE(event->type == RDMA_CM_EVENT_DISCONNECTED ||
				    event->type == RDMA_CM_EVENT_CONNECT_ERROR ||
				    event->type == RDMA_CM_EVENT_REJECTED)
				<< event->text();
			break;
		}
	}
	auto pair = connected();
	expect_works(pair);
}

TEST_F(ConnectTest, ListenerGoesWithRequestsPending)
{
	std::vector<std::unique_ptr<Endpoint>> ends;
	{
		Listener listener(b, default_family());
		for (unsigned i = 0; i < 4; i++) {
			ends.push_back(resolve(a, listener.address()));
			start_connect(*ends.back());
		}
		std::this_thread::sleep_for(moment);
	}
	for (auto &end : ends) {
		auto event = next_event(end->channel(), soon);
		ASSERT_TRUE(event) << "no event";
		EXPECT_NE(event->type, RDMA_CM_EVENT_ESTABLISHED);
	}
}

TEST_F(ConnectTest, PortInUse)
{
	Listener listener(b, Family::ipv4);
	auto channel = b.make_channel();
	auto id = b.make_id(channel.get());
	auto address = listener.address();

	EXPECT_TRUE(rdma_bind_addr(id.get(), address.get()) || rdma_listen(id.get(), 1));
}

/* More than the backlog at once: those that are not taken are refused or wait, and none hangs. */
TEST_F(ConnectTest, Backlog)
{
	constexpr unsigned backlog = 2, count = 12;
	Listener listener(b, default_family(), backlog);
	std::vector<std::unique_ptr<Endpoint>> ends, others;

	for (unsigned i = 0; i < count; i++) {
		ends.push_back(resolve(a, listener.address()));
		start_connect(*ends.back());
	}
	/* While nobody reads the events, no more than the backlog (and one, as in TCP) are let in.
	 */
	std::this_thread::sleep_for(verbs::milliseconds(1000));
	unsigned requests = 0;
	while (auto event = next_event(listener.channel(), moment)) {
		ASSERT_EQ(event->type, RDMA_CM_EVENT_CONNECT_REQUEST);
		requests++;
		others.push_back(listener.endpoint(std::move(*event)));
	}
	EXPECT_GE(requests, 1u);
	if (a.is_ziw()) {
		EXPECT_LE(requests, backlog + 1);
	}
	for (auto &other : others)
		accept(*other);
	/* Now each of the rest either gets in, or is told that it does not. */
	unsigned established = 0, refused = 0;
	verbs::eventually(patiently, [&] {
		while (auto event = next_event(listener.channel(), verbs::milliseconds(0))) {
			others.push_back(listener.endpoint(std::move(*event)));
			accept(*others.back());
		}
		established = refused = 0;
		for (auto &end : ends) {
			/* Told first, as its state may change right after a look at that. */
			bool told = verbs::readable(end->channel()->fd, verbs::milliseconds(0));

			if (end->state() == IBV_QPS_RTS)
				established++;
			else if (told)
				refused++;
		}
		return established + refused == count;
	});
	EXPECT_EQ(established + refused, count)
		<< established << " established, " << refused << " refused";
	EXPECT_GE(established, requests);
}

/* Programs that connect several queue pairs tell them apart by that. */
TEST_F(ConnectTest, RequestsComeInTheOrderOfTheConnects)
{
	constexpr uint8_t count = 16;
	Listener listener(b, default_family());

	if (!a.is_ziw())
		GTEST_SKIP() << "only asked of ziw";
	for (unsigned round = 0; round < rounds(20); round++) {
		std::vector<std::unique_ptr<Endpoint>> ends, others;

		for (uint8_t i = 0; i < count; i++)
			ends.push_back(resolve(a, listener.address()));
		for (uint8_t i = 0; i < count; i++) {
			ConnectParameters parameters;

			parameters.private_data = {i};
			start_connect(*ends[i], parameters);
		}
		for (uint8_t i = 0; i < count; i++) {
			auto event = listener.request();

			EXPECT_EQ(event.private_data.at(0), i) << "in round " << round;
			others.push_back(listener.endpoint(std::move(event)));
		}
		for (auto &other : others)
			accept(*other);
		for (auto &end : ends)
			end->event(RDMA_CM_EVENT_ESTABLISHED);
	}
}

TEST_F(ConnectTest, ManyInARow)
{
	Listener listener(b, default_family());

	for (unsigned i = 0; i < rounds(50); i++) {
		auto pair = connect(a, listener);
		synchronize(*pair.a, *pair.b);
		if (i % 3 == 0)
			verbs::check(rdma_disconnect(pair.a->id()), "rdma_disconnect");
		else if (i % 3 == 1)
			verbs::check(rdma_disconnect(pair.b->id()), "rdma_disconnect");
	}
}

TEST_F(ConnectTest, BothDisconnectAtOnce)
{
	for (unsigned i = 0; i < rounds(20); i++) {
		auto pair = connected();
		std::thread other([&] { rdma_disconnect(pair.b->id()); });
		rdma_disconnect(pair.a->id());
		other.join();
		pair.a->event(RDMA_CM_EVENT_DISCONNECTED);
		pair.b->event(RDMA_CM_EVENT_DISCONNECTED);
	}
}

TEST_F(ConnectTest, TypeOfService)
{
	Listener listener(b, Family::ipv4);
	auto end = resolve(a, listener.address());
	uint8_t tos = 0x68;

	if (!a.is_ziw())
		GTEST_SKIP() << "only asked of ziw";
	verbs::check(
		rdma_set_option(end->id(), RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof(tos)),
		"rdma_set_option");
	/* A packet with this TOS is counted by a filter on its way out. */
	a.shell("nft add table inet ziwtest && nft 'add chain inet ziwtest out { type filter hook "
		"output "
		"priority 0; }' && nft add rule inet ziwtest out ip dscp 26 counter");
	start_connect(*end);
	auto other = listener.endpoint(listener.request());
	accept(*other);
	end->event(RDMA_CM_EVENT_ESTABLISHED);
	EXPECT_NO_THROW(a.shell("nft list table inet ziwtest | grep -q 'packets [1-9]'"));
	a.shell("nft delete table inet ziwtest");
}

/* Against peers that are plain TCP sockets. */
class StrangerTest : public ConnectTest {
protected:
	void SetUp() override
	{
		if (!a.is_ziw())
			GTEST_SKIP() << "asks for more than " << driver_type() << " does";
	}

	/* a connects to it with QP `end`; the request frame as it came. */
	Wire incoming(WireListener &listener, const ConnectParameters &parameters = {})
	{
		end = resolve(a, listener.address());
		start_connect(*end, parameters);
		auto wire = listener.accept();
		if (!wire)
			throw verbs::Timeout("no TCP connection");
		return std::move(*wire);
	}

	void expect_failure(verbs::milliseconds timeout = soon)
	{
		auto event = next_event(end->channel(), timeout);
		ASSERT_TRUE(event) << "no event";
		EXPECT_TRUE(event->type == RDMA_CM_EVENT_CONNECT_ERROR ||
			    event->type == RDMA_CM_EVENT_UNREACHABLE ||
			    event->type == RDMA_CM_EVENT_REJECTED)
			<< event->text();
		EXPECT_NE(event->status, 0);
		EXPECT_NE(end->state(), IBV_QPS_RTS);
	}

	MpaFrame accepting(const MpaFrame &request)
	{
		MpaFrame reply = request;
		reply.reply = true;
		reply.flags &= MpaFrame::crc | MpaFrame::enhanced;
		if (request.flags & MpaFrame::enhanced)
			reply.private_data.resize(4);
		else
			reply.private_data.clear();
		return reply;
	}

	MpaFrame rejecting(const MpaFrame &request)
	{
		auto reply = accepting(request);
		reply.flags |= MpaFrame::reject;
		return reply;
	}

	/* The listener of b takes one more connection, and nothing else came out of it. */
	void expect_listening(Listener &listener)
	{
		auto pair = connect(a, listener);
		expect_works(pair);
		EXPECT_FALSE(next_event(listener.channel(), verbs::milliseconds(0)));
	}

	std::unique_ptr<Endpoint> end;
};

TEST_F(StrangerTest, RequestFrameIsWellFormed)
{
	WireListener listener(b);
	ConnectParameters parameters;

	parameters.private_data = some_data(100, 3);
	parameters.initiator_depth = 9;
	parameters.responder_resources = 4;
	auto wire = incoming(listener, parameters);
	auto request = wire.receive_frame();
	ASSERT_TRUE(request);
	EXPECT_FALSE(request->reply);
	EXPECT_TRUE(request->flags & MpaFrame::crc) << "CRC is on by default";
	EXPECT_FALSE(request->flags & (MpaFrame::reject | 0x0f));
	std::size_t skip = 0;
	if (request->flags & MpaFrame::enhanced) {
		EXPECT_EQ(request->revision, 2);
		auto ird = get16(request->private_data, 0), ord = get16(request->private_data, 2);
		EXPECT_EQ(ird & 0x3fff, 4u);
		EXPECT_EQ(ord & 0x3fff, 9u);
		if (ird & MpaFrame::peer_to_peer) {
			EXPECT_TRUE(ird & MpaFrame::rtr_send ||
				    ord & (MpaFrame::rtr_write | MpaFrame::rtr_read));
		} else {
			EXPECT_FALSE(ird & MpaFrame::rtr_send ||
				     ord & (MpaFrame::rtr_write | MpaFrame::rtr_read));
		}
		skip = 4;
	} else {
		EXPECT_EQ(request->revision, 1);
	}
	EXPECT_EQ(Bytes(request->private_data.begin() + static_cast<long>(skip),
			request->private_data.end()),
		  parameters.private_data);
	/* Nothing more before the reply. */
	EXPECT_FALSE(wire.receive(1, moment));
	auto reply = accepting(*request);
	put32(reply.private_data, 0x01020304);
	if (skip)
		std::copy(request->private_data.begin(), request->private_data.begin() + 4,
			  reply.private_data.begin());
	wire.trickle(reply.encode());
	EXPECT_EQ(end->event(RDMA_CM_EVENT_ESTABLISHED).private_data, Bytes({1, 2, 3, 4}));
	EXPECT_EQ(end->state(), IBV_QPS_RTS);
}

TEST_F(StrangerTest, AcceptsAndStaysSilent)
{
	WireListener listener(b);
	auto wire = incoming(listener);

	EXPECT_TRUE(wire.receive_frame());
	expect_failure(patiently);
	EXPECT_TRUE(wire.ends());
}

TEST_F(StrangerTest, AnswersWithNoise)
{
	for (unsigned i = 0; i < rounds(20); i++) {
		WireListener listener(b);
		auto wire = incoming(listener);
		wire.receive_frame();
		Bytes noise(1 + random() % 200);
		for (auto &byte : noise)
			byte = static_cast<uint8_t>(random());
		noise.resize(200, 0x55);
		wire.send(noise);
		expect_failure();
		EXPECT_TRUE(wire.ends());
	}
}

TEST_F(StrangerTest, AnswersWithARequest)
{
	WireListener listener(b);
	auto wire = incoming(listener);
	auto request = wire.receive_frame();
	ASSERT_TRUE(request);
	wire.send(request->encode());
	expect_failure();
}

TEST_F(StrangerTest, AnswersWithAReject)
{
	WireListener listener(b);
	auto wire = incoming(listener);
	auto request = wire.receive_frame();
	ASSERT_TRUE(request);
	auto reply = rejecting(*request);
	put32(reply.private_data, 0xabcdef01);
	wire.send(reply.encode());
	auto event = end->event(RDMA_CM_EVENT_REJECTED);
	EXPECT_EQ(event.private_data, Bytes({0xab, 0xcd, 0xef, 1}));
	EXPECT_EQ(event.status, -ECONNREFUSED);
}

/* RFC 5044, 7.1.1 allows 512 bytes; what iw_cm cannot carry is not cut short. */
TEST_F(StrangerTest, RejectsWithMoreThanFits)
{
	for (std::size_t more : {256, 300, 500}) {
		WireListener listener(b);
		auto wire = incoming(listener);
		auto request = wire.receive_frame();
		ASSERT_TRUE(request);
		auto reply = rejecting(*request);
		reply.private_data.resize(reply.private_data.size() + more);
		wire.send(reply.encode());
		auto event = next_event(end->channel(), soon);
		ASSERT_TRUE(event) << "no event";
		EXPECT_EQ(event->type, RDMA_CM_EVENT_REJECTED) << event->text();
		EXPECT_TRUE(event->private_data.empty()) << event->private_data.size();
	}
}

/* What was announced and never came is no private data, whatever is in its place. */
TEST_F(StrangerTest, BreaksOffWithinAReject)
{
	for (std::size_t short_by : {200u, 100u, 1u}) {
		WireListener listener(b);
		auto wire = incoming(listener);
		auto request = wire.receive_frame();
		ASSERT_TRUE(request);
		auto reply = rejecting(*request);
		reply.private_data.resize(reply.private_data.size() + 200, 0x11);
		auto bytes = reply.encode();
		bytes.resize(bytes.size() - short_by);
		wire.send(bytes);
		wire.finish();
		EXPECT_EQ(end->event(RDMA_CM_EVENT_REJECTED).private_data, Bytes());
	}
}

/* RFC 6581, 10: a peer of revision 1 closes on an enhanced request; it is asked again, unenhanced.
 */
class OldPeer : public StrangerTest, public testing::WithParamInterface<bool> {};

TEST_P(OldPeer, IsAskedInRevisionOne)
{
	WireListener listener(b);
	ConnectParameters parameters;

	parameters.private_data = some_data(200, 9);
	auto wire = incoming(listener, parameters);
	auto request = wire.receive_frame();
	ASSERT_TRUE(request);
	if (request->revision == 1)
		GTEST_SKIP() << "it asked in revision 1";
	if (GetParam())
		wire.reset();
	else
		wire.finish();
	auto again = listener.accept();
	ASSERT_TRUE(again) << "no second connection";
	request = again->receive_frame();
	ASSERT_TRUE(request);
	EXPECT_EQ(request->revision, 1);
	EXPECT_FALSE(request->flags & MpaFrame::enhanced);
	EXPECT_EQ(request->private_data, parameters.private_data);
	again->send(accepting(*request).encode());
	end->event(RDMA_CM_EVENT_ESTABLISHED);
	ASSERT_EQ(end->post(send_work(1, {})), 0);
	auto segment = again->receive_segment();
	ASSERT_TRUE(segment);
	EXPECT_EQ(segment->opcode, op_send);
	again->send(Segment::send(1, {}));
	ASSERT_EQ(end->post(send_work(2, {})), 0);
	EXPECT_TRUE(again->receive_segment());
}

INSTANTIATE_TEST_SUITE_P(Connect, OldPeer, testing::Bool(), [](const auto &reset) {
	return std::string(reset.param ? "ThatResets" : "ThatCloses");
});

TEST_F(StrangerTest, HasMorePrivateDataThanItSends)
{
	WireListener listener(b);
	auto wire = incoming(listener);
	auto request = wire.receive_frame();
	ASSERT_TRUE(request);
	auto bytes = accepting(*request).encode();
	bytes[18] = 0xff;
	bytes[19] = 0xff;
	wire.send(bytes);
	expect_failure();
	EXPECT_TRUE(wire.ends());
}

TEST_F(StrangerTest, ClosesInsteadOfAnAnswer)
{
	for (bool reset : {false, true}) {
		WireListener listener(b);
		auto wire = incoming(listener);
		wire.receive_frame();
		if (reset)
			wire.reset();
		else
			wire.finish();
		/* It may try revision 1 then. */
		if (auto again = listener.accept(verbs::milliseconds(2000))) {
			again->receive_frame();
			if (reset)
				again->reset();
			else
				again->finish();
			expect_failure();
			continue;
		}
		expect_failure();
	}
}

TEST_F(StrangerTest, ClosesRightAfterTheReply)
{
	WireListener listener(b);
	auto wire = incoming(listener);
	auto request = wire.receive_frame();
	ASSERT_TRUE(request);
	auto reply = accepting(*request);
	if (reply.private_data.size() >= 4)
		std::copy(request->private_data.begin(), request->private_data.begin() + 4,
			  reply.private_data.begin());
	wire.send(reply.encode());
	wire.reset();
	auto event = next_event(end->channel(), soon);
	ASSERT_TRUE(event);
	if (event->type == RDMA_CM_EVENT_ESTABLISHED)
		event = next_event(end->channel(), soon);
	ASSERT_TRUE(event);
	EXPECT_NE(event->type, RDMA_CM_EVENT_ESTABLISHED);
	EXPECT_NE(end->state(), IBV_QPS_RTS);
}

TEST_F(StrangerTest, AsksWithNoise)
{
	Listener listener(b);

	for (unsigned i = 0; i < rounds(20); i++) {
		Wire wire(a, listener.address());
		Bytes noise(200);
		for (auto &byte : noise)
			byte = static_cast<uint8_t>(random());
		wire.send(noise);
		EXPECT_TRUE(wire.ends());
	}
	expect_listening(listener);
}

TEST_F(StrangerTest, AsksWithAReply)
{
	Listener listener(b);
	Wire wire(a, listener.address());
	MpaFrame frame;

	frame.reply = true;
	wire.send(frame.encode());
	EXPECT_TRUE(wire.ends());
	expect_listening(listener);
}

TEST_F(StrangerTest, AsksInAnUnknownRevision)
{
	Listener listener(b);

	for (uint8_t revision : {0, 3, 255}) {
		Wire wire(a, listener.address());
		MpaFrame frame;
		frame.revision = revision;
		wire.send(frame.encode());
		EXPECT_TRUE(wire.ends()) << unsigned(revision);
	}
	expect_listening(listener);
}

/* More than Linux's CM can carry, but legal: refused with a reply that says so. */
TEST_F(StrangerTest, AsksWith512BytesOfPrivateData)
{
	Listener listener(b);

	for (std::size_t length : {256, 511, 512}) {
		Wire wire(a, listener.address());
		MpaFrame frame;
		frame.private_data = some_data(length, 0);
		wire.send(frame.encode());
		auto reply = wire.receive_frame();
		ASSERT_TRUE(reply) << "no reply to " << length;
		EXPECT_TRUE(reply->reply);
		EXPECT_TRUE(reply->flags & MpaFrame::reject);
		EXPECT_TRUE(wire.ends());
	}
	expect_listening(listener);
}

TEST_F(StrangerTest, AsksWithMoreThan512Bytes)
{
	Listener listener(b);

	for (std::size_t length : {513, 65535}) {
		Wire wire(a, listener.address());
		MpaFrame frame;
		frame.private_data.resize(length);
		try {
			wire.send(frame.encode());
		} catch (const verbs::Error &) {
			/* Closed already. */
		}
		EXPECT_TRUE(wire.ends()) << length;
	}
	expect_listening(listener);
}

TEST_F(StrangerTest, AsksEnhancedWithoutTheData)
{
	Listener listener(b);
	Wire wire(a, listener.address());
	MpaFrame frame;

	frame.revision = 2;
	frame.flags |= MpaFrame::enhanced;
	frame.private_data = {1, 2};
	wire.send(frame.encode());
	EXPECT_TRUE(wire.ends());
	expect_listening(listener);
}

TEST_F(StrangerTest, AsksByteByByte)
{
	Listener listener(b);
	Wire wire(a, listener.address());
	MpaFrame frame;

	frame.private_data = some_data(20, 5);
	wire.trickle(frame.encode());
	auto request = listener.request();
	EXPECT_EQ(request.private_data, frame.private_data);
	end = listener.endpoint(std::move(request));
	accept(*end);
	EXPECT_TRUE(wire.receive_frame());
}

TEST_F(StrangerTest, SpeaksBeforeTheReply)
{
	Listener listener(b);
	Wire wire(a, listener.address());
	auto bytes = MpaFrame().encode();
	auto early = Wire::fpdu(Segment::send(1, {'x'}).encode());

	bytes.insert(bytes.end(), early.begin(), early.end());
	wire.send(bytes);
	/* Taken or closed, as long as nothing else comes of it. */
	if (auto event = next_event(listener.channel(), moment); event && event->request) {
		end = listener.endpoint(std::move(*event));
		auto p = ConnectParameters().get();
		if (!rdma_accept(end->id(), &p))
			wire.receive_frame();
	}
	wire.reset();
	expect_listening(listener);
}

/* Some connect and say nothing: they keep nobody else out, and are thrown out in time. */
TEST_F(StrangerTest, SilentOnesDoNotFillTheBacklog)
{
	Listener listener(b, Family::ipv4, 4);
	std::vector<Wire> silent;

	for (unsigned i = 0; i < 4; i++)
		silent.emplace_back(a, listener.address());
	expect_listening(listener);
	EXPECT_TRUE(silent[0].ends(patiently));
	for (auto &wire : silent)
		EXPECT_TRUE(wire.ends());
	expect_listening(listener);
}

/*
 * ziw has 128 of them wait for each listen, or the backlog if that is more; who comes then waits in
 * TCP's queue, and TCP does not call for it a second time.
 */
TEST_F(StrangerTest, WhoWaitsBehindSilentOnesIsLetInWhenTheyGo)
{
	if (!a.is_ziw())
		GTEST_SKIP() << "a limit of ziw";
	Listener listener(b);
	std::vector<Wire> silent;

	for (unsigned i = 0; i < 128; i++)
		silent.emplace_back(a, listener.address());
	Wire wire(a, listener.address());
	wire.send(MpaFrame().encode());
	EXPECT_FALSE(next_event(listener.channel(), moment)) << "nobody had to wait";
	silent.clear();
	end = listener.endpoint(listener.request());
	accept(*end);
	EXPECT_TRUE(wire.receive_frame());
}

/* RFC 6581, 9.2: each of the three ready-to-receive messages. */
class Rtr : public StrangerTest, public testing::WithParamInterface<int> {};

TEST_P(Rtr, IsAccepted)
{
	Listener listener(b);
	Wire wire(a, listener.address());
	MpaFrame frame;
	auto kind = GetParam();

	frame.revision = 2;
	frame.flags |= MpaFrame::enhanced;
	put16(frame.private_data,
	      MpaFrame::peer_to_peer | (kind == 0 ? MpaFrame::rtr_send : 0) | 4);
	put16(frame.private_data, (kind == 1   ? MpaFrame::rtr_write
				   : kind == 2 ? MpaFrame::rtr_read
					       : 0) |
					  4);
	put16(frame.private_data, 0xcafe);
	wire.send(frame.encode());
	auto request = listener.request();
	EXPECT_EQ(request.private_data, Bytes({0xca, 0xfe}));
	end = listener.endpoint(std::move(request));
	ASSERT_EQ(end->post_recv(1), 0);
	accept(*end);
	auto reply = wire.receive_frame();
	ASSERT_TRUE(reply);
	EXPECT_EQ(reply->revision, 2);
	EXPECT_TRUE(reply->flags & MpaFrame::enhanced);
	ASSERT_GE(reply->private_data.size(), 4u);
	auto ird = get16(reply->private_data, 0), ord = get16(reply->private_data, 2);
	EXPECT_TRUE(ird & MpaFrame::peer_to_peer);
	EXPECT_TRUE(kind == 0   ? ird & MpaFrame::rtr_send
		    : kind == 1 ? ord & MpaFrame::rtr_write
				: ord & MpaFrame::rtr_read)
		<< "does not offer what was asked for";
	auto rtr = kind == 0   ? Segment::send(1, {})
		   : kind == 1 ? Segment::write(0, 0, {})
			       : Segment::read_request(1, 0, 0, 0, 0, 0);
	wire.send(rtr);
	end->event(RDMA_CM_EVENT_ESTABLISHED);
	if (kind == 2) {
		auto answer = wire.receive_segment();
		ASSERT_TRUE(answer);
		EXPECT_EQ(answer->opcode, op_read_response);
		EXPECT_EQ(answer->payload.size(), 0u);
		EXPECT_TRUE(answer->last);
	}
	/* The RTR consumed no receive: now the responder may speak, and the next Send is the first.
	 */
	ASSERT_EQ(end->post(send_work(2, {})), 0);
	auto spoken = wire.receive_segment();
	ASSERT_TRUE(spoken);
	EXPECT_EQ(spoken->opcode, op_send);
	ibv_wc wc;
	if (kind != 0) {
		EXPECT_EQ(ibv_poll_cq(end->recv_cq(), 1, &wc), 0);
		wire.send(Segment::send(1, {}));
		EXPECT_COMPLETED(end->wait_recv()[0], 1, IBV_WC_RECV);
	}
}

std::string rtr_name(const testing::TestParamInfo<int> &info)
{
	static const char *names[] = {"Send", "Write", "Read"};

	return names[info.param];
}

INSTANTIATE_TEST_SUITE_P(Connect, Rtr, testing::Values(0, 1, 2), rtr_name);

} // namespace
