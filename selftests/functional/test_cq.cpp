// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Completion queues that change: their size, and how many completions an event waits for. */
#include <poll.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "fixture.h"

namespace {

class CqChangeTest : public VerbsTest {
protected:
	void SetUp() override
	{
		pair = connected();
		here.emplace(a.pd(), 64);
		there.emplace(b.pd(), 64);
	}

	/* count sends from a to b with ids from first on; b has completed them by the end. */
	void send(uint64_t first, unsigned count)
	{
		for (uint64_t id = first; id < first + count; id++) {
			ASSERT_EQ(pair.b->post_recv(id, {there->sge()}), 0);
			ASSERT_EQ(pair.a->post(send_work(id, {here->sge()})), 0);
		}
		/* Its response comes after b has dealt with what was before it. */
		ASSERT_EQ(pair.a->post(read_work(first, {here->sge(0, 1)}, there->address(),
						 there->rkey())),
			  0);
		pair.a->wait_send(count + 1);
	}

	/* Whether an event comes in time; takes it. */
	bool event(int milliseconds)
	{
		pollfd fd{pair.b->recv_channel()->fd, POLLIN, 0};
		ibv_cq *cq;
		void *context;

		if (poll(&fd, 1, milliseconds) <= 0)
			return false;
		EXPECT_EQ(ibv_get_cq_event(pair.b->recv_channel(), &cq, &context), 0);
		ibv_ack_cq_events(cq, 1);
		return true;
	}

	void moderate(uint16_t count, uint16_t period)
	{
		ibv_modify_cq_attr attr{};

		attr.attr_mask = IBV_CQ_ATTR_MODERATE;
		attr.moderate = {count, period};
		ASSERT_EQ(ibv_modify_cq(pair.b->recv_cq(), &attr), 0);
	}

	Pair pair;
	std::optional<Region> here, there;
};

/* What waits to be polled stays, in order; the queue grows and shrinks. */
TEST_F(CqChangeTest, ResizeKeepsWhatWaits)
{
	auto *cq = pair.b->recv_cq();
	uint64_t next = 0, polled = 0;

	for (int size : {512, 64, 2000, 33, 1024}) {
		send(next, 30);
		next += 30;
		ASSERT_EQ(ibv_resize_cq(cq, size), 0);
		EXPECT_GE(cq->cqe, size);
		send(next, 3);
		next += 3;
		for (auto &wc : pair.b->wait_recv(33))
			EXPECT_COMPLETED(wc, polled++, IBV_WC_RECV);
	}
}

TEST_F(CqChangeTest, NoSmallerThanWhatWaits)
{
	auto *cq = pair.b->recv_cq();
	int before = cq->cqe;

	send(0, 40);
	EXPECT_EQ(ibv_resize_cq(cq, 16), EINVAL);
	EXPECT_EQ(cq->cqe, before);
	auto got = pair.b->wait_recv(40);
	for (uint64_t id = 0; id < 40; id++)
		EXPECT_COMPLETED(got[id], id, IBV_WC_RECV);
	EXPECT_EQ(ibv_resize_cq(cq, 0), EINVAL);
	EXPECT_EQ(ibv_resize_cq(cq, 1 << 30), EINVAL);
}

/* An event that was asked for before the resize still comes. */
TEST_F(CqChangeTest, ResizeKeepsTheArm)
{
	ASSERT_EQ(ibv_req_notify_cq(pair.b->recv_cq(), 0), 0);
	ASSERT_EQ(ibv_resize_cq(pair.b->recv_cq(), 1000), 0);
	send(0, 1);
	EXPECT_TRUE(event(5000));
	pair.b->wait_recv();
}

/* `rdma resource` looks at a queue that changes. */
TEST_F(CqChangeTest, ResizedWhileItIsShown)
{
	if (!b.is_ziw())
		GTEST_SKIP() << "asks for more than " << driver_type() << " does";
	std::atomic<bool> stop{false};
	std::thread changer([&] {
		for (unsigned i = 0; !stop; i++)
			ibv_resize_cq(pair.b->recv_cq(), i % 2 ? 128 : 4000);
	});

	for (unsigned i = 0; i < rounds(10); i++)
		EXPECT_EQ(::shell("rdma -dd resource show cq > /dev/null"), 0);
	stop = true;
	changer.join();
}

/* Completions come and are polled by another thread while the queue changes: none is lost. */
TEST_F(CqChangeTest, ResizeUnderTraffic)
{
	const unsigned total = rounds(3000);
	std::atomic<bool> stop{false};
	std::atomic<unsigned> bad{0}, sizes{0};
	std::thread changer([&] {
		while (!stop) {
			if (ibv_resize_cq(pair.b->recv_cq(), sizes % 2 ? 128 : 4000))
				bad++;
			sizes++;
			/* The lock is held for most of a resize, and a machine may have one CPU. */
			std::this_thread::sleep_for(std::chrono::milliseconds(5));
		}
	});
	uint64_t next = 0;

	try {
		for (unsigned done = 0; done < total; done += 32) {
			send(done, 32);
			for (auto &wc : pair.b->wait_recv(32))
				if (wc.status != IBV_WC_SUCCESS || wc.wr_id != next++)
					bad++;
		}
	} catch (const std::exception &e) {
		ADD_FAILURE() << e.what();
	}
	stop = true;
	changer.join();
	EXPECT_EQ(bad, 0u);
	EXPECT_GT(sizes, 0u);
}

TEST_F(CqChangeTest, EventWaitsForTheCount)
{
	moderate(4, 65000);
	ASSERT_EQ(ibv_req_notify_cq(pair.b->recv_cq(), 0), 0);
	auto begin = verbs::Clock::now();
	send(0, 3);
	bool early = event(20);
	/* On a slow machine the time may be up before all are there. */
	if (verbs::Clock::now() - begin < std::chrono::milliseconds(65)) {
		EXPECT_FALSE(early);
	}
	if (early)
		return;
	send(3, 1);
	EXPECT_TRUE(event(5000));
	pair.b->wait_recv(4);
}

TEST_F(CqChangeTest, EventWaitsForTheTime)
{
	moderate(1000, 20000);
	ASSERT_EQ(ibv_req_notify_cq(pair.b->recv_cq(), 0), 0);
	auto begin = verbs::Clock::now();
	send(0, 1);
	EXPECT_TRUE(event(5000));
	EXPECT_GE(verbs::Clock::now() - begin, std::chrono::milliseconds(20));
	pair.b->wait_recv(1);
	/* Without a limit, at once again. */
	moderate(0, 0);
	ASSERT_EQ(ibv_req_notify_cq(pair.b->recv_cq(), 0), 0);
	send(1, 1);
	EXPECT_TRUE(event(5000));
	pair.b->wait_recv(1);
}

TEST_F(CqChangeTest, EventThatWaitsComesWhenTheLimitGoes)
{
	moderate(1000, 65000);
	ASSERT_EQ(ibv_req_notify_cq(pair.b->recv_cq(), 0), 0);
	send(0, 1);
	/* If the machine was too slow it has come by the time, which is not wrong either. */
	pair.b->wait_recv(1);
	moderate(0, 0);
	EXPECT_TRUE(event(5000));
}

TEST_F(CqChangeTest, ModerationIsAnnounced)
{
	ibv_device_attr_ex attr{};

	ASSERT_EQ(ibv_query_device_ex(a.context(), nullptr, &attr), 0);
	EXPECT_EQ(attr.cq_mod_caps.max_cq_count, 0xffff);
	EXPECT_EQ(attr.cq_mod_caps.max_cq_period, 0xffff);
}

} // namespace
