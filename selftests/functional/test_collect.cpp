// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Sends that the kernel collects (parameter "collect"): all go, in order, whatever comes between.
 */
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <thread>

#include "fixture.h"

namespace {

constexpr unsigned depth = 64;
constexpr std::size_t size = 128;

class CollectTest : public VerbsTest {
protected:
	void SetUp() override
	{
		if (!a.is_ziw())
			GTEST_SKIP() << "ziw's own";
	}

	std::string file(const std::string &name) const
	{
		return "/sys/class/infiniband/" + a.device() + "/" + name;
	}

	/* All posted before one completion is looked at. */
	void post_stream(Endpoint &end, Region &from, unsigned messages)
	{
		for (unsigned i = 0; i < messages; i++)
			ASSERT_EQ(end.post(send_work(i, {from.sge(i * size, size)})), 0);
	}

	void post_receives(Endpoint &end, Region &to)
	{
		for (unsigned i = 0; i < depth; i++)
			ASSERT_EQ(end.post_recv(i, {to.sge(i * size, size)}), 0);
	}

	/* Messages of a to b, one call each. */
	void stream(Pair &pair, Region &from, Region &to, uint64_t seed)
	{
		fill_pattern(from.data(), depth * size, seed);
		post_receives(*pair.b, to);
		post_stream(*pair.a, from, depth);
		auto received = pair.b->wait_recv(depth);
		for (unsigned i = 0; i < depth; i++)
			EXPECT_COMPLETED(received[i], i, IBV_WC_RECV);
		EXPECT_EQ(differs_from_pattern(to.data(), depth * size, seed), "");
		auto sent = pair.a->wait_send(depth);
		for (unsigned i = 0; i < depth; i++)
			EXPECT_COMPLETED(sent[i], i, IBV_WC_SEND);
	}
};

TEST_F(CollectTest, StreamGoesWithFewDoorbells)
{
	auto pair = connected();
	Region from(a.pd(), depth * size), to(b.pd(), depth * size);

	for (unsigned least : {1u, 2u, 127u}) {
		Setting collect(file("ziw/collect"), std::to_string(least));
		auto rung = a.counter("sq_doorbells");
		auto avoided = a.counter("sq_doorbells_avoided");
		auto n = rounds(20);
		for (unsigned i = 0; i < n; i++)
			stream(pair, from, to, least << 16 | i);
		if (least == 127)
			continue;
		EXPECT_LT(a.counter("sq_doorbells") - rung, uint64_t{n} * depth);
		EXPECT_GT(a.counter("sq_doorbells_avoided"), avoided);
	}
}

TEST_F(CollectTest, OffEachIsSentByItsDoorbell)
{
	Setting collect(file("ziw/collect"), "0");
	auto pair = connected();
	Region from(a.pd(), depth * size), to(b.pd(), depth * size);

	for (unsigned i = 0; i < rounds(20); i++)
		stream(pair, from, to, i);
}

/* A thread of real-time priority may poll without end: it is not made to wait for others. */
TEST_F(CollectTest, RealTimeSendsAtOnce)
{
	Setting poll(file("ziw/doorbell_poll"), "0");
	auto pair = connected();
	Region from(a.pd(), depth * size), to(b.pd(), depth * size);
	sched_param priority{}, normal{};
	priority.sched_priority = 1;

	auto rung = a.counter("sq_doorbells");
	ASSERT_EQ(sched_setscheduler(0, SCHED_FIFO, &priority), 0);
	for (unsigned i = 0; i < rounds(20); i++)
		stream(pair, from, to, i);
	ASSERT_EQ(sched_setscheduler(0, SCHED_OTHER, &normal), 0);
	EXPECT_GT(a.counter("sq_doorbells") - rung, uint64_t{rounds(20)} * depth / 2);
}

/* The last work request completes although nobody posts or polls after it. */
TEST_F(CollectTest, LastOfAStreamWaitsForNobody)
{
	auto pair = connected();
	Region from(a.pd(), depth * size), to(b.pd(), depth * size);

	for (unsigned n = 1; n <= depth; n += 7) {
		post_receives(*pair.b, to);
		post_stream(*pair.a, from, n);
		pair.b->wait_recv(n);
		pair.a->wait_send(n);
		/* What is left of the receives. */
		for (unsigned i = n; i < depth; i++)
			ASSERT_EQ(pair.a->post(send_work(i, {from.sge(0, 1)})), 0);
		pair.b->wait_recv(depth - n);
		pair.a->wait_send(depth - n);
	}
}

/* One that polls leaves nothing of its CPU to the work item, which may have no other. */
TEST_F(CollectTest, RealTimeProgramDoesNotWaitForTheWorkItem)
{
	constexpr unsigned messages = 40;
	Setting cpus("/sys/devices/virtual/workqueue/ziw-send/cpumask", "1");
	Setting unlimited("/proc/sys/kernel/sched_rt_runtime_us", "-1");
	/* The poller is one, too. */
	Setting poll(file("ziw/doorbell_poll"), "0");
	auto pair = connected();
	Region from(a.pd(), size), to(b.pd(), size);
	unsigned done = 0;

	std::thread([&] {
		sched_param priority{};
		cpu_set_t first;

		CPU_ZERO(&first);
		CPU_SET(0, &first);
		priority.sched_priority = 1;
		ASSERT_EQ(pthread_setaffinity_np(pthread_self(), sizeof(first), &first), 0);
		ASSERT_EQ(pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority), 0);
		for (unsigned i = 0; i < messages; i++)
			ASSERT_EQ(
				pair.a->post(write_work(i, {from.sge()}, to.address(), to.rkey())),
				0);
		/* Nobody of lower priority runs for longer than that. */
		auto end = std::chrono::steady_clock::now() + verbs::milliseconds(500);
		while (done < messages && std::chrono::steady_clock::now() < end) {
			ibv_wc wc;
			done += static_cast<unsigned>(ibv_poll_cq(pair.a->send_cq(), 1, &wc));
		}
	}).join();
	EXPECT_EQ(done, messages);
	pair.a->wait_send(messages - done);
}

/* Each work request completes once, whether it was sent or flushed. */
TEST_F(CollectTest, ErrorAndDisconnectUnderAStream)
{
	for (unsigned round = 0; round < rounds(60); round++) {
		auto pair = connected();
		Region from(a.pd(), depth * size), to(b.pd(), depth * size);

		post_receives(*pair.b, to);
		auto some = static_cast<unsigned>(random() % depth) + 1;
		post_stream(*pair.a, from, some);
		if (round % 3 == 0) {
			ibv_qp_attr attr{};
			attr.qp_state = IBV_QPS_ERR;
			EXPECT_EQ(ibv_modify_qp(pair.a->qp(), &attr, IBV_QP_STATE), 0);
		} else if (round % 3 == 1) {
			EXPECT_EQ(rdma_disconnect(pair.a->id()), 0);
		} else {
			EXPECT_EQ(rdma_disconnect(pair.b->id()), 0);
		}
		/* Some are posted to what has ended already. */
		unsigned after = depth - some;
		post_stream(*pair.a, from, after);
		auto all = pair.a->wait_send(depth);
		bool flushed = false;
		for (auto &wc : all) {
			/* None succeeds after one that did not. */
			EXPECT_FALSE(flushed && wc.status == IBV_WC_SUCCESS);
			flushed |= wc.status != IBV_WC_SUCCESS;
		}
	}
}

/* Gone before anybody saw a completion. */
TEST_F(CollectTest, DestroyedUnderAStream)
{
	for (unsigned round = 0; round < rounds(60); round++) {
		auto pair = connected();
		Region from(a.pd(), depth * size), to(b.pd(), depth * size);

		post_receives(*pair.b, to);
		post_stream(*pair.a, from, depth);
		if (round % 2)
			pair.b.reset();
		pair.a.reset();
	}
}

/* One at a time, so that each would need its doorbell. */
TEST_F(CollectTest, PolledNobodyRings)
{
	auto pair = connected();
	Region from(a.pd(), depth * size), to(b.pd(), depth * size);
	auto one_by_one = [&](unsigned messages) {
		for (unsigned i = 0; i < messages; i++) {
			ASSERT_EQ(pair.b->post_recv(i, {to.sge(0, size)}), 0);
			ASSERT_EQ(pair.a->post(send_work(i, {from.sge(0, size)})), 0);
			EXPECT_COMPLETED(pair.b->wait_recv()[0], i, IBV_WC_RECV);
			EXPECT_COMPLETED(pair.a->wait_send()[0], i, IBV_WC_SEND);
		}
	};
	auto n = rounds(100);
	{
		Setting poll(file("ziw/doorbell_poll"), "1000000");
		auto rung = a.counter("sq_doorbells");
		one_by_one(n);
		stream(pair, from, to, 1);
		/* Others of this host may ring meanwhile: none does so often. */
		EXPECT_LT(a.counter("sq_doorbells") - rung, n / 2 + 8);
	}
	/* It ends, and doorbells are asked for. */
	one_by_one(3);
	std::this_thread::sleep_for(verbs::milliseconds(20));
	one_by_one(3);
}

TEST_F(CollectTest, PollingThatEndsBetweenMessages)
{
	Setting poll(file("ziw/doorbell_poll"), "50");
	auto pair = connected();
	Region from(a.pd(), depth * size), to(b.pd(), depth * size);

	for (unsigned i = 0; i < rounds(300); i++) {
		ASSERT_EQ(pair.b->post_recv(i, {to.sge(0, size)}), 0);
		std::this_thread::sleep_for(std::chrono::microseconds(random() % 200));
		ASSERT_EQ(pair.a->post(send_work(i, {from.sge(0, size)})), 0);
		EXPECT_COMPLETED(pair.b->wait_recv()[0], i, IBV_WC_RECV);
		EXPECT_COMPLETED(pair.a->wait_send()[0], i, IBV_WC_SEND);
	}
}

/* Several at a time; each goes while it is polled. */
TEST_F(CollectTest, GoneWhilePolled)
{
	Setting poll(file("ziw/doorbell_poll"), "1000000");

	for (unsigned round = 0; round < rounds(12); round++) {
		Region from(a.pd(), depth * size), to(b.pd(), depth * size);
		std::vector<Pair> pairs;

		for (unsigned i = 0; i < 4; i++) {
			pairs.push_back(connected());
			post_receives(*pairs.back().b, to);
			post_stream(*pairs.back().a, from, depth);
		}
		EXPECT_EQ(rdma_disconnect(pairs[0].a->id()), 0);
		pairs[1].a.reset();
		pairs[2].b.reset();
		pairs[3].a->wait_send(depth);
		pairs[0].a->wait_send(depth);
	}
}

/* It is detached by the peer's end, while its own side has it connected and rings. */
TEST_F(CollectTest, PeerEndsUnderDoorbells)
{
	Setting poll(file("ziw/doorbell_poll"), "1");

	for (unsigned round = 0; round < rounds(60); round++) {
		auto pair = connected();
		Region from(a.pd(), size), to(b.pd(), size);
		std::atomic<bool> over{false};
		std::thread poster([&] {
			for (uint64_t i = 0; !over; i++)
				/* Whatever it says: the queue is full now and then, and flushed. */
				if (pair.a->post(
					    write_work(i, {from.sge()}, to.address(), to.rkey())))
					pair.a->wait_send(1);
		});
		std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
		pair.b.reset();
		EXPECT_TRUE(pair.a->reaches(IBV_QPS_ERR));
		over = true;
		poster.join();
	}
}

/*
 * To remove a function tracer takes until each task has slept, or has said that it is not
 * in the middle of something.
 */
TEST_F(CollectTest, PollingHoldsUpNoTracer)
{
	const std::string instance = "/sys/kernel/tracing/instances/ziw";

	(void)::shell("[ -e /sys/kernel/tracing/instances ] || "
		      "mount -t tracefs t /sys/kernel/tracing");
	if (::shell("mkdir " + instance + " && [ -e " + instance +
		    "/set_ftrace_filter ] && "
		    "echo do_nanosleep > " +
		    instance + "/set_ftrace_filter")) {
		(void)::shell("rmdir " + instance);
		GTEST_SKIP() << "no function tracer";
	}
	Setting poll(file("ziw/doorbell_poll"), "1000000");
	auto pair = connected();
	Region from(a.pd(), size), to(b.pd(), size);
	std::atomic<bool> over{false};
	std::thread poster([&] {
		auto end = std::chrono::steady_clock::now() + 3 * soon;
		for (uint64_t i = 0; !over && std::chrono::steady_clock::now() < end; i++) {
			EXPECT_EQ(
				pair.a->post(write_work(i, {from.sge()}, to.address(), to.rkey())),
				0);
			pair.a->wait_send();
			std::this_thread::sleep_for(verbs::milliseconds(10));
		}
	});
	auto begin = std::chrono::steady_clock::now();
	EXPECT_EQ(::shell("cd " + instance +
			  " && "
			  "echo function > current_tracer && sleep 0.1 && "
			  "echo nop > current_tracer"),
		  0);
	EXPECT_LT(std::chrono::steady_clock::now() - begin, 2 * soon);
	over = true;
	poster.join();
	EXPECT_EQ(::shell("rmdir " + instance), 0);
}

TEST_F(CollectTest, DeviceGoneWhilePolled)
{
	Topology topology("p");
	Host here(topology.a()), there(topology.b());
	/* For the life of the device. */
	ASSERT_EQ(::shell("echo 1000000 > /sys/class/infiniband/" + here.device() +
			  "/ziw/doorbell_poll"),
		  0);
	auto pair = connect(here, there);
	Region from(here.pd(), depth * size), to(there.pd(), depth * size);

	stream(pair, from, to, 1);
	EXPECT_EQ(::shell("rdma link delete " + here.device()), 0);
	EXPECT_TRUE(pair.b->reaches(IBV_QPS_ERR));
}

} // namespace
