// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Peers that let the kernel wait, and programs that keep it busy: neither has an end in sight. */
#include <sys/ioctl.h>

#include <algorithm>
#include <atomic>
#include <fstream>
#include <future>
#include <thread>

#include "abi.h"
#include "fixture.h"
#include "wire.h"

namespace {

class GreedyTest : public VerbsTest {
protected:
	void SetUp() override
	{
		if (!a.is_ziw())
			GTEST_SKIP() << "asks for more than " << driver_type() << " does";
	}

	static std::string parameter(const Host &host, const std::string &name)
	{
		return "/sys/class/infiniband/" + host.device() + "/ziw/" + name;
	}
};

/*
 * TCP gives a socket that waits for the peer's FIN to a timer, when it is closed: but a kernel's
 * socket has no timer after that, and so it would wait for ever.
 */
TEST_F(GreedyTest, PeerNeverCloses)
{
	Setting fin_timeout("/proc/sys/net/ipv4/tcp_fin_timeout", "120", b.ns());
	Setting user_timeout(parameter(b, "user_timeout"), "10");
	Listener listener(b);
	Wire wire(a, listener.address());
	auto port =
		ntohs(reinterpret_cast<const sockaddr_in *>(listener.address().get())->sin_port);
	auto none = "! ss -Hnt state fin-wait-2 sport = :" + std::to_string(port) + " | grep -q .";

	wire.send(Bytes(200, 0x5a));
	EXPECT_TRUE(wire.ends());
	EXPECT_TRUE(verbs::eventually(2 * soon, [&] {
		InNamespace in(b.ns());
		return ::shell(none) == 0;
	}));
}

/* What waits to be sent waits for a peer that takes a little now and then; and with it a Terminate.
 */
TEST_F(GreedyTest, PeerHardlyReads)
{
	constexpr unsigned messages = 16;
	constexpr std::size_t size = 1 << 20;
	Setting close_timeout(parameter(b, "close_timeout"), "2");
	Listener listener(b);
	Wire wire(a, listener.address());
	Region region(b.pd(), size);

	wire.send(MpaFrame().encode());
	auto end = listener.endpoint(listener.request());
	accept(*end);
	ASSERT_TRUE(wire.receive_frame());
	wire.send(Segment::write(0x12345600, 0, {}));
	end->event(RDMA_CM_EVENT_ESTABLISHED);
	for (unsigned i = 0; i < messages; i++)
		ASSERT_EQ(end->post(send_work(i, {region.sge()})), 0);
	/* To a region that is not there. */
	wire.send(Segment::write(0x12345600, 0, {1}));

	std::atomic<bool> stop{false};
	std::thread reader([&] {
		while (!stop && wire.receive(8192, moment))
			std::this_thread::sleep_for(moment);
	});
	EXPECT_TRUE(next_event(end->channel(), verbs::milliseconds(15000)));
	stop = true;
	reader.join();
	EXPECT_EQ(end->state(), IBV_QPS_ERR);
}

/* Ticks of all CPUs: idle, and all. */
std::pair<uint64_t, uint64_t> ticks()
{
	std::ifstream stat("/proc/stat");
	std::string cpu;
	uint64_t value, idle = 0, all = 0;

	stat >> cpu;
	for (int i = 0; i < 8 && stat >> value; i++) {
		all += value;
		/* Waiting for a disk is idle, too. */
		if (i == 3 || i == 4)
			idle += value;
	}
	return {idle, all};
}

/* The Terminate is sent, and our FIN: there is nothing to do but to wait for the peer's. */
TEST_F(GreedyTest, PeerDoesNotCloseAfterATerminate)
{
	Listener listener(b);
	Wire wire(a, listener.address());

	wire.send(MpaFrame().encode());
	auto end = listener.endpoint(listener.request());
	accept(*end);
	ASSERT_TRUE(wire.receive_frame());
	wire.send(Segment::write(0x12345600, 0, {1}));
	ASSERT_TRUE(wire.receive_terminate());
	end->event(RDMA_CM_EVENT_ESTABLISHED);
	auto before = ticks();
	std::this_thread::sleep_for(std::chrono::seconds(2));
	auto after = ticks();
	EXPECT_FALSE(next_event(end->channel(), verbs::milliseconds(0))) << "it did not wait";
	EXPECT_GT(4 * (after.first - before.first), 3 * (after.second - before.second))
		<< "idle for " << after.first - before.first << " ticks of "
		<< after.second - before.second;
}

/* The number by which the first was known to iw_cm must not be the second one's. */
TEST_F(GreedyTest, RequestThatIsGoneIsNotTheNextOne)
{
	Listener listener(b);
	MpaFrame frame;

	frame.private_data = {'g', 'o', 'n', 'e'};
	Wire gone(a, listener.address());
	gone.send(frame.encode());
	auto first = listener.request();
	gone.finish();
	ASSERT_TRUE(gone.ends());

	frame.private_data = {'h', 'e', 'r', 'e'};
	Wire here(a, listener.address());
	here.send(frame.encode());
	auto second = listener.request();
	EXPECT_EQ(second.private_data, frame.private_data);

	auto end = listener.endpoint(std::move(first));
	auto parameters = ConnectParameters().get();
	EXPECT_NE(rdma_accept(end->id(), &parameters), 0);
	EXPECT_FALSE(here.receive_frame(moment)) << "the answer to the first";
	auto other = listener.endpoint(std::move(second));
	accept(*other);
	EXPECT_TRUE(here.receive_frame());
}

/*
 * A Send that was copied completes before it is acknowledged. Its sender has given up on a peer
 * that does not answer, and may do the same by another connection.
 */
TEST_F(GreedyTest, WhatWasGivenUpDoesNotComeLater)
{
	auto pair = connected();
	Region from(a.pd(), 64), to(b.pd(), 64);

	ASSERT_EQ(pair.b->post_recv(1, {to.sge()}), 0);
	{
		Impairment cut(a, "loss 100%");
		ASSERT_EQ(pair.a->post(send_work(2, {from.sge()})), 0);
		EXPECT_COMPLETED(pair.a->wait_send()[0], 2, IBV_WC_SEND);
		std::this_thread::sleep_for(std::chrono::milliseconds(1500));
		pair.a.reset();
	}
	/* TCP would send it again before that, each time after twice as long. */
	std::this_thread::sleep_for(std::chrono::seconds(5));
	ibv_wc wc;
	EXPECT_TRUE(!ibv_poll_cq(pair.b->recv_cq(), 1, &wc) || wc.status != IBV_WC_SUCCESS);
}

/* --- a program that goes on posting --- */

/* The header of an SQ, which its queue pair's mapping begins with. */
ziw_ring_hdr *new_ring(const std::vector<uintptr_t> &before, uint32_t prod)
{
	for (auto at : ring_mappings()) {
		auto *hdr = reinterpret_cast<ziw_ring_hdr *>(at);
		if (std::find(before.begin(), before.end(), at) == before.end() &&
		    hdr->prod == prod)
			return hdr;
	}
	throw std::runtime_error("no mapping has the indices of the queue");
}

/* Operations without traffic: no window ever fills, and each is done as soon as it is looked at. */
TEST_F(GreedyTest, LocalOperationsWithoutEnd)
{
	constexpr unsigned entries = 4096;
	auto before = ring_mappings();
	PairConfig config;
	config.a.send_wr = entries;
	auto pair = connected(config);
	verbs::Mw window(verbs::check(ibv_alloc_mw(a.pd(), IBV_MW_TYPE_1), "ibv_alloc_mw"));
	ibv_mw_bind unbind{};
	ibv_qp_init_attr init{};

	pair.a->query(IBV_QP_CAP, &init);
	ASSERT_EQ(init.cap.max_send_wr, entries);
	for (unsigned i = 0; i < entries; i++)
		ASSERT_EQ(ibv_bind_mw(pair.a->qp(), window.get(), &unbind), 0);
	auto *ring = new_ring(before, entries);
	ASSERT_TRUE(verbs::eventually(
		soon, [&] { return __atomic_load_n(&ring->cons, __ATOMIC_ACQUIRE) == entries; }));

	/* The same ones again and again, as fast as they are done. */
	std::atomic<bool> stop{false}, returned{true};
	std::thread poster([&] {
		while (!stop)
			__atomic_store_n(&ring->prod,
					 __atomic_load_n(&ring->cons, __ATOMIC_ACQUIRE) + entries,
					 __ATOMIC_RELEASE);
	});
	for (unsigned i = 0; i < rounds(10) && returned; i++) {
		returned = false;
		std::thread ringer([&] {
			for (int fd : doorbells())
				ioctl(fd, ZIW_IOC_DOORBELL,
				      static_cast<unsigned long>(pair.a->qp()->qp_num));
			returned = true;
		});
		/* Nothing else runs meanwhile: the poster may have the only other CPU. */
		std::this_thread::sleep_for(moment);
		EXPECT_TRUE(returned) << "still in the doorbell";
		stop = !returned;
		ringer.join();
	}
	auto ended = std::async(std::launch::async, [&] {
		ibv_qp_attr attr{};
		attr.qp_state = IBV_QPS_ERR;
		return ibv_modify_qp(pair.a->qp(), &attr, IBV_QP_STATE);
	});
	EXPECT_EQ(ended.wait_for(soon), std::future_status::ready);
	stop = true;
	poster.join();
	EXPECT_EQ(ended.get(), 0);
	EXPECT_GE(__atomic_load_n(&ring->cons, __ATOMIC_ACQUIRE), 2 * entries);
}

} // namespace
