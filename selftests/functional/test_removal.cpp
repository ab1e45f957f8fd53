// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * What happens to the living when something disappears in the midst of traffic: the peer's process,
 * the RDMA device, the network interface, the namespace, the link. Each on a topology of its own,
 *
 *	namespace ar  ziwar on var ---- veth ---- vbr with ziwbr  namespace br
 *
 * while a pair of queue pairs on the common one shows that nothing else is disturbed.
 */
#include <atomic>

#include "fixture.h"
#include "peer.h"

namespace {

class RemovalTest : public VerbsTest {
protected:
	void SetUp() override
	{
		witness = connected();
		topology.emplace("r");
	}

	void TearDown() override
	{
		if (HasFatalFailure())
			return;
		synchronize(*witness.a, *witness.b);
		synchronize(*witness.b, *witness.a);
	}

	/* Writes, reads and sends without end until the QP is in error; then all is flushed. */
	static void pump(Endpoint &end, Region &local, uint64_t address, uint32_t rkey,
			 std::atomic<uint64_t> &done)
	{
		constexpr unsigned window = 16;
		uint64_t posted = 0, completed = 0;

		for (bool failed = false; !failed || completed < posted;) {
			while (!failed && posted - completed < window) {
				std::vector<ibv_sge> sges{local.sge()};
				auto work = posted % 2 ? write_work(posted, sges, address, rkey)
						       : read_work(posted, sges, address, rkey);
				if (end.post(work)) {
					failed = true;
					break;
				}
				posted++;
			}
			ibv_wc wc;
			int n = ibv_poll_cq(end.send_cq(), 1, &wc);
			if (n < 0)
				break;
			if (!n) {
				if (failed && gone(end))
					break;
				std::this_thread::yield();
				continue;
			}
			completed++;
			if (wc.status == IBV_WC_SUCCESS)
				done++;
			else
				failed = true;
		}
	}

	/* Whether the device under it is gone, so that its queues are dead memory. */
	static bool gone(Endpoint &end)
	{
		ibv_qp_attr attr;
		ibv_qp_init_attr init;

		return ibv_query_qp(end.qp(), &attr, IBV_QP_STATE, &init) != 0;
	}

	static void expect_disconnected(Endpoint &end, verbs::milliseconds timeout = soon)
	{
		auto event = next_event(end.channel(), timeout);
		ASSERT_TRUE(event) << "no cm event";
		EXPECT_EQ(event->type, RDMA_CM_EVENT_DISCONNECTED) << event->text();
		EXPECT_TRUE(end.reaches(IBV_QPS_ERR));
	}

	std::optional<Topology> topology;
	Pair witness;
};

class KilledPeer : public RemovalTest, public testing::WithParamInterface<const char *> {};

TEST_P(KilledPeer, InMidTransfer)
{
	Host here(topology->b());
	Region region(here.pd(), 256 << 10);
	std::string role = GetParam();

	region.fill(7);
	for (unsigned i = 0; i < rounds(5); i++) {
		Listener listener(here);
		Peer peer(role, topology->a(), listener.address());
		auto end = accept_peer(listener, region);
		for (uint64_t n = 0; n < 60; n++)
			ASSERT_EQ(end->post_recv(n, {region.sge()}), 0);
		/* Some of it has arrived, and all of the rest is under way. */
		if (role == "send")
			end->wait_recv(20);
		std::this_thread::sleep_for(verbs::milliseconds(100 + random() % 100));
		peer.kill();
		expect_disconnected(*end);
		/* Every receive comes back: first what still arrived, then flushed ones. */
		uint64_t n = role == "send" ? 20 : 0;
		bool flushed = role != "send";
		for (auto &wc : end->wait_recv(60 - n)) {
			EXPECT_EQ(wc.wr_id, n++);
			flushed |= wc.status != IBV_WC_SUCCESS;
			EXPECT_EQ(wc.status, flushed ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS)
				<< ibv_wc_status_str(wc.status);
		}
		EXPECT_EQ(region.harmed(), "");
	}
}

INSTANTIATE_TEST_SUITE_P(Removal, KilledPeer, testing::Values("write", "read", "send", "idle"),
			 [](const auto &role) { return std::string(role.param); });

/* This side pumps, the one that is killed only has its memory used. */
TEST_F(RemovalTest, KilledTarget)
{
	Host here(topology->b());
	Region region(here.pd(), 256 << 10);
	Listener listener(here);
	Peer peer("idle", topology->a(), listener.address());
	auto end = accept_peer(listener, region);
	bool error = false;
	uint64_t good = 0;

	/* Eight receives of 256 KiB wait there: more than that many Sends end it, the kill should
	 * come first. */
	for (uint64_t i = 0; i < 4; i++)
		ASSERT_EQ(end->post(send_work(i, {region.sge()})), 0);
	for (auto &wc : end->wait_send(4))
		good += wc.status == IBV_WC_SUCCESS;
	EXPECT_EQ(good, 4u);
	peer.kill();
	for (uint64_t i = 0; i < 4; i++)
		if (end->post(send_work(i, {region.sge()})))
			error = true;
	for (auto &wc : end->wait_send(4))
		error |= wc.status != IBV_WC_SUCCESS;
	EXPECT_TRUE(error);
	expect_disconnected(*end);
}

class GoneTest : public RemovalTest {
protected:
	/* remove: a shell command that makes the device of host b go away, or those of both hosts.
	 */
	void run(const std::string &remove, bool both)
	{
		Host here(topology->a()), there(topology->b());
		Region local(here.pd(), 100000), remote(there.pd(), 100000);
		auto pair = connect(here, there);
		std::atomic<uint64_t> done_a{0}, done_b{0};

		for (uint64_t i = 0; i < 10; i++) {
			ASSERT_EQ(pair.a->post_recv(i, {local.sge()}), 0);
			ASSERT_EQ(pair.b->post_recv(i, {remote.sge()}), 0);
		}
		std::thread pump_a(
			[&] { pump(*pair.a, local, remote.address(), remote.rkey(), done_a); });
		std::thread pump_b(
			[&] { pump(*pair.b, remote, local.address(), local.rkey(), done_b); });
		EXPECT_TRUE(verbs::eventually(soon, [&] { return done_a > 20 && done_b > 20; }));
		auto start = verbs::Clock::now();
		EXPECT_EQ(shell(remove), 0) << remove;
		auto took = std::chrono::duration_cast<verbs::milliseconds>(verbs::Clock::now() -
									    start);
		EXPECT_LT(took.count(), 10000) << "'" << remove << "' waits for those who use it";
		pump_b.join();
		pump_a.join();
		expect_removed(*pair.b);
		if (both) {
			expect_removed(*pair.a);
		} else {
			expect_disconnected(*pair.a);
			EXPECT_EQ(pair.a->wait_recv(10).back().status, IBV_WC_WR_FLUSH_ERR);
		}
		/* What is left of it in this process can be put away. */
		EXPECT_EQ(local.harmed() + remote.harmed(), "");
	}

	static void expect_removed(Endpoint &end)
	{
		auto event = next_event(end.channel(), soon);
		ASSERT_TRUE(event) << "no cm event at the side whose device went";
		if (event->type == RDMA_CM_EVENT_DISCONNECTED)
			event = next_event(end.channel(), soon);
		ASSERT_TRUE(event) << "no removal after the disconnect";
		EXPECT_EQ(event->type, RDMA_CM_EVENT_DEVICE_REMOVAL) << event->text();
		EXPECT_TRUE(end.host().async_event(IBV_EVENT_DEVICE_FATAL, soon));
		/* Verbs of a device that is not there any more fail, they do not hang. */
		ibv_port_attr unused;
		EXPECT_NE(ibv_query_port(end.host().context(), 1, &unused), 0);
	}
};

TEST_F(GoneTest, DeviceDeletedInMidTransfer)
{
	run("rdma link delete " + driver_type() + "br", false);
}

/* A veth goes with its peer. */
TEST_F(GoneTest, InterfaceDeletedInMidTransfer)
{
	run("nsenter --net=/run/netns/br ip link delete vbr", true);
}

TEST_F(GoneTest, DeviceDeletedOnBothSides)
{
	Host here(topology->a()), there(topology->b());
	std::vector<Pair> pairs;

	for (unsigned i = 0; i < 8; i++) {
		pairs.push_back(connect(here, there));
		for (uint64_t n = 0; n < 8; n++) {
			ASSERT_EQ(pairs.back().a->post_recv(n), 0);
			ASSERT_EQ(pairs.back().b->post_recv(n), 0);
		}
	}
	EXPECT_EQ(shell("rdma link delete " + driver_type() + "ar"), 0);
	EXPECT_EQ(shell("rdma link delete " + driver_type() + "br"), 0);
}

TEST_F(GoneTest, DeletedAndMadeAnewUnderTheSameName)
{
	auto name = driver_type() + "br";

	for (unsigned i = 0; i < rounds(5); i++) {
		Host here(topology->a());
		{
			Host there(topology->b());
			auto pair = connect(here, there);
			synchronize(*pair.a, *pair.b);
			EXPECT_EQ(shell("rdma link delete " + name), 0);
			EXPECT_EQ(shell("nsenter --net=/run/netns/br rdma link add " + name +
					" type " + driver_type() + " netdev vbr"),
				  0);
		}
		Host again(topology->b());
		auto pair = connect(here, again);
		synchronize(*pair.a, *pair.b);
		synchronize(*pair.b, *pair.a);
	}
}

/*
 * A namespace ends when its last user does. The name is taken away while a process inside is busy,
 * then that process is killed: the rest must go by itself, the veth's other end with it.
 */
TEST_F(RemovalTest, NamespaceDeletedInMidTransfer)
{
	Host here(topology->b());
	Region region(here.pd(), 256 << 10);

	for (auto role : {"write", "read"}) {
		Listener listener(here);
		Peer peer(role, topology->a(), listener.address());
		auto end = accept_peer(listener, region);
		ASSERT_EQ(end->post_recv(1, {region.sge()}), 0);
		std::this_thread::sleep_for(verbs::milliseconds(200));
		if (role == std::string("write")) {
			/* Once with all its own ids gone first, while the namespace lives. */
			peer.kill();
			expect_disconnected(*end);
			continue;
		}
		EXPECT_EQ(shell("ip netns delete " + topology->ns_a()), 0);
		std::this_thread::sleep_for(verbs::milliseconds(200));
		peer.kill();
		EXPECT_TRUE(verbs::eventually(verbs::milliseconds(30000), [&] {
			return shell("ip -n br link show vbr > /dev/null 2>&1") != 0;
		})) << "the namespace lives on";
		/* With its interface the device here went, too. */
		auto event = next_event(end->channel(), soon);
		ASSERT_TRUE(event);
		EXPECT_TRUE(event->type == RDMA_CM_EVENT_DISCONNECTED ||
			    event->type == RDMA_CM_EVENT_DEVICE_REMOVAL)
			<< event->text();
		EXPECT_EQ(region.harmed(), "");
	}
}

/* Both names go, both processes' ends of the connection with them. */
TEST_F(RemovalTest, BothNamespacesDeletedWithConnectionsOpen)
{
	{
		Host here(topology->a()), there(topology->b());
		Region local(here.pd(), 1 << 20), remote(there.pd(), 1 << 20);
		auto pair = connect(here, there);

		for (uint64_t i = 0; i < 16; i++)
			ASSERT_EQ(pair.a->post(write_work(i, {local.sge()}, remote.address(),
							  remote.rkey())),
				  0);
		EXPECT_EQ(shell("ip netns delete ar; ip netns delete br"), 0);
	}
	EXPECT_TRUE(verbs::eventually(verbs::milliseconds(30000), [&] {
		return shell("rdma link show | grep -qE '" + driver_type() + "(ar|br)'") != 0;
	})) << "the devices live on";
}

TEST_F(RemovalTest, LinkDownAndUp)
{
	Host here(topology->a()), there(topology->b());
	Region local(here.pd(), 1 << 20), remote(there.pd(), 1 << 20);
	auto pair = connect(here, there);
	ibv_port_attr port;

	local.fill(3);
	ASSERT_EQ(ibv_query_port(there.context(), 1, &port), 0);
	EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
	there.shell("ip link set vbr down");
	EXPECT_TRUE(there.async_event(IBV_EVENT_PORT_ERR, soon)) << "no port event";
	ASSERT_EQ(ibv_query_port(there.context(), 1, &port), 0);
	EXPECT_EQ(port.state, IBV_PORT_DOWN);
	ASSERT_EQ(pair.a->post(write_work(1, {local.sge()}, remote.address(), remote.rkey())), 0);
	std::this_thread::sleep_for(verbs::milliseconds(500));
	/* IPv6 addresses go with the link, IPv4's stay. */
	there.shell("ip link set vbr up");
	EXPECT_TRUE(there.async_event(IBV_EVENT_PORT_ACTIVE, soon)) << "no port event";
	ASSERT_EQ(ibv_query_port(there.context(), 1, &port), 0);
	EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
	/* TCP bridges the gap. */
	auto wc = pair.a->wait_send(1, verbs::milliseconds(60000))[0];
	EXPECT_COMPLETED(wc, 1, IBV_WC_RDMA_WRITE);
	synchronize(*pair.a, *pair.b);
	EXPECT_EQ(differs_from_pattern(remote.data(), remote.size(), 3), "");
}

TEST_F(RemovalTest, MtuChangesUnderTraffic)
{
	Host here(topology->a()), there(topology->b());
	Region local(here.pd(), 1 << 20), remote(there.pd(), 1 << 20);
	auto pair = connect(here, there);

	for (auto mtu : {"9000", "1280", "1500", "576", "65535", "1500"}) {
		SCOPED_TRACE(mtu);
		local.fill(random());
		here.shell(std::string("ip link set var mtu ") + mtu);
		there.shell(std::string("ip link set vbr mtu ") + mtu);
		ASSERT_EQ(
			pair.a->post(write_work(1, {local.sge()}, remote.address(), remote.rkey())),
			0);
		EXPECT_COMPLETED(pair.a->wait_send()[0], 1, IBV_WC_RDMA_WRITE);
		synchronize(*pair.a, *pair.b);
		EXPECT_EQ(differs(remote.data(), local.data(), local.size()), "");
	}
}

/* The peer's machine vanishes without a word: TCP's own time-outs end the connection. */
TEST_F(RemovalTest, SilentPeer)
{
	Host here(topology->a()), there(topology->b());
	Region local(here.pd(), 1 << 20), remote(there.pd(), 1 << 20);
	auto pair = connect(here, there);
	Impairment at_a(here, "loss 100%"), at_b(there, "loss 100%");

	if (!here.is_ziw())
		GTEST_SKIP() << "takes as long as TCP's default";
	/* More than TCP buffers: the first may be copied and done, the last can be neither. */
	constexpr uint64_t count = 32;
	for (uint64_t n = 0; n < count; n++)
		ASSERT_EQ(
			pair.a->post(write_work(n, {local.sge()}, remote.address(), remote.rkey())),
			0);
	auto done = pair.a->wait_send(count, verbs::milliseconds(150000));
	for (uint64_t n = 0; n < count; n++)
		EXPECT_EQ(done[n].wr_id, n);
	EXPECT_EQ(done.back().status, IBV_WC_WR_FLUSH_ERR) << ibv_wc_status_str(done.back().status);
	expect_disconnected(*pair.a);
	/* The other side has nothing to send: keepalive finds it out. */
	expect_disconnected(*pair.b, verbs::milliseconds(150000));
}

} // namespace
