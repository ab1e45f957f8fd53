// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Completion queues and their events, shared receive queues, full queues, QP states and flushing.
 */
#include <atomic>
#include <set>

#include "fixture.h"

namespace {

class CqTest : public VerbsTest {
protected:
	void SetUp() override { pair = connected(); }

	/* Whether an event came; it is acknowledged. */
	static bool has_event(ibv_comp_channel *channel, verbs::milliseconds timeout)
	{
		ibv_cq *cq;
		void *context;

		if (!verbs::readable(channel->fd, timeout))
			return false;
		verbs::check(ibv_get_cq_event(channel, &cq, &context), "ibv_get_cq_event");
		ibv_ack_cq_events(cq, 1);
		return true;
	}

	void send(unsigned flags = 0) { ASSERT_EQ(pair.a->post(send_work(1, {}).flags(flags)), 0); }

	Pair pair;
};

TEST_F(CqTest, NoEventUnlessArmed)
{
	ASSERT_EQ(pair.b->post_recv(1), 0);
	send(IBV_SEND_SOLICITED);
	pair.b->wait_recv();
	EXPECT_FALSE(has_event(pair.b->recv_channel(), moment));
}

TEST_F(CqTest, ArmedForNextCompletion)
{
	for (unsigned i = 0; i < 4; i++)
		ASSERT_EQ(pair.b->post_recv(i), 0);
	ASSERT_EQ(ibv_req_notify_cq(pair.b->recv_cq(), 0), 0);
	EXPECT_FALSE(has_event(pair.b->recv_channel(), moment));
	send();
	EXPECT_TRUE(has_event(pair.b->recv_channel(), soon));
	pair.b->wait_recv();
	/* One event for one arming. */
	send();
	pair.b->wait_recv();
	EXPECT_FALSE(has_event(pair.b->recv_channel(), moment));
	ASSERT_EQ(ibv_req_notify_cq(pair.b->recv_cq(), 0), 0);
	send();
	EXPECT_TRUE(has_event(pair.b->recv_channel(), soon));
	pair.b->wait_recv();
}

TEST_F(CqTest, ArmedForSolicitedOnly)
{
	for (unsigned i = 0; i < 4; i++)
		ASSERT_EQ(pair.b->post_recv(i), 0);
	ASSERT_EQ(ibv_req_notify_cq(pair.b->recv_cq(), 1), 0);
	send();
	pair.b->wait_recv();
	EXPECT_FALSE(has_event(pair.b->recv_channel(), moment));
	send(IBV_SEND_SOLICITED);
	EXPECT_TRUE(has_event(pair.b->recv_channel(), soon));
	pair.b->wait_recv();
	/* Armed for solicited, then for all: all wins. */
	ASSERT_EQ(ibv_req_notify_cq(pair.b->recv_cq(), 1), 0);
	ASSERT_EQ(ibv_req_notify_cq(pair.b->recv_cq(), 0), 0);
	send();
	EXPECT_TRUE(has_event(pair.b->recv_channel(), soon));
	pair.b->wait_recv();
}

/* Verbs: a completion in error wakes one who waits for solicited ones only. */
TEST_F(CqTest, ErrorCountsAsSolicited)
{
	ASSERT_EQ(pair.b->post_recv(1), 0);
	ASSERT_EQ(ibv_req_notify_cq(pair.b->recv_cq(), 1), 0);
	verbs::check(rdma_disconnect(pair.a->id()), "rdma_disconnect");
	EXPECT_TRUE(has_event(pair.b->recv_channel(), soon));
	EXPECT_EQ(pair.b->wait_recv()[0].status, IBV_WC_WR_FLUSH_ERR);
}

TEST_F(CqTest, SendSideEvents)
{
	ASSERT_EQ(pair.b->post_recv(1), 0);
	ASSERT_EQ(ibv_req_notify_cq(pair.a->send_cq(), 0), 0);
	send();
	EXPECT_TRUE(has_event(pair.a->send_channel(), soon));
	pair.a->wait_send();
	pair.b->wait_recv();
}

/* The classic loop: arm, poll once more, sleep. No completion may be slept through. */
TEST_F(CqTest, NoWakeupIsLost)
{
	auto total = rounds(1000);
	std::atomic<unsigned> received{0};
	std::atomic<bool> stop{false};

	for (unsigned i = 0; i < 60; i++)
		ASSERT_EQ(pair.b->post_recv(i), 0);
	std::thread sender([&] {
		for (unsigned i = 0; i < total && !stop; i++) {
			if (pair.a->post(send_work(i, {})))
				break;
			pair.a->wait_send();
			while (i + 1 - received > 50 && !stop)
				std::this_thread::yield();
		}
	});
	bool lost = false;
	while (received < total && !lost) {
		ibv_wc wc;
		ASSERT_EQ(ibv_req_notify_cq(pair.b->recv_cq(), 0), 0);
		while (ibv_poll_cq(pair.b->recv_cq(), 1, &wc) == 1) {
			received++;
			if (pair.b->post_recv(0))
				lost = true;
		}
		if (received < total)
			lost = !has_event(pair.b->recv_channel(), soon);
	}
	stop = true;
	sender.join();
	EXPECT_FALSE(lost);
	EXPECT_EQ(received, total);
}

TEST_F(CqTest, OverflowIsReported)
{
	PairConfig config;
	config.b.cq_entries = 4;
	config.b.recv_wr = 2000;
	config.a.send_wr = 2000;
	config.a.cq_entries = 2000;
	auto small = connected(config);
	auto room = static_cast<unsigned>(small.b->recv_cq()->cqe);
	auto count = std::min(room + 10, 1900u);

	ASSERT_GT(count, room) << "the queue is much larger than asked for";
	for (unsigned i = 0; i < count; i++) {
		ASSERT_EQ(small.b->post_recv(i), 0);
		ASSERT_EQ(small.a->post(send_work(i, {})), 0);
	}
	auto event = b.async_event(small.b->recv_cq(), soon);
	ASSERT_TRUE(event) << "no async event";
	EXPECT_EQ(event->type, IBV_EVENT_CQ_ERR);
	/* Neither end hangs: both QPs end. */
	EXPECT_TRUE(small.b->reaches(IBV_QPS_ERR));
	EXPECT_TRUE(small.a->reaches(IBV_QPS_ERR));
	/* What was complete before can still be read, in order. */
	auto kept = small.b->wait_recv(1);
	EXPECT_EQ(kept[0].wr_id, 0u);
	/* Another pair goes on. */
	synchronize(*pair.a, *pair.b);
	synchronize(*pair.b, *pair.a);
}

TEST_F(CqTest, OneQueueForManyQueuePairs)
{
	std::vector<Pair> pairs;
	Listener listener(b, default_family());
	std::set<uint32_t> numbers;

	PairConfig config;
	config.b.cq = pair.b->recv_cq();
	for (unsigned i = 0; i < 8; i++)
		pairs.push_back(connect(a, listener, config));
	for (auto &p : pairs) {
		ASSERT_EQ(p.b->post_recv(p.b->qp()->qp_num), 0);
		ASSERT_EQ(p.a->post(send_work(1, {})), 0);
	}
	for (auto &wc : wait_cq(config.b.cq, pairs.size())) {
		EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
		EXPECT_EQ(wc.wr_id, wc.qp_num);
		EXPECT_TRUE(numbers.insert(wc.qp_num).second) << "the same QP number twice";
	}
	/* A send and a receive of one QP in the same queue. */
	ASSERT_EQ(pairs[0].b->post(send_work(5, {})), 0);
	EXPECT_COMPLETED(wait_cq(config.b.cq, 1)[0], 5, IBV_WC_SEND);
	/* One that dies leaves the queue to the others. */
	pairs.erase(pairs.begin() + 3);
	ASSERT_EQ(pairs[3].b->post_recv(6), 0);
	ASSERT_EQ(pairs[3].a->post(send_work(6, {})), 0);
	EXPECT_COMPLETED(wait_cq(config.b.cq, 1)[0], 6, IBV_WC_RECV);
}

class FullTest : public VerbsTest {};

TEST_F(FullTest, ReceiveQueue)
{
	PairConfig config;
	config.b.recv_wr = 16;
	auto pair = connected(config);
	ibv_qp_init_attr init{};
	pair.b->query(IBV_QP_CAP, &init);
	auto room = init.cap.max_recv_wr;

	ASSERT_GE(room, 16u);
	for (unsigned i = 0; i < room; i++)
		ASSERT_EQ(pair.b->post_recv(i), 0) << i << " of " << room;
	EXPECT_EQ(pair.b->post_recv(room), ENOMEM);
	for (unsigned i = 0; i < room; i++) {
		ASSERT_EQ(pair.a->post(send_work(i, {})), 0);
		pair.a->wait_send();
		EXPECT_COMPLETED(pair.b->wait_recv()[0], i, IBV_WC_RECV);
	}
	EXPECT_EQ(pair.b->post_recv(0), 0);
}

TEST_F(FullTest, SendQueue)
{
	PairConfig config;
	config.a.send_wr = 16;
	auto pair = connected(config);
	ibv_qp_init_attr init{};
	pair.a->query(IBV_QP_CAP, &init);
	auto room = init.cap.max_send_wr;
	/* One Read of much keeps what is behind it in the queue while more is posted. */
	Region here(a.pd(), 16 << 20), there(b.pd(), 16 << 20);
	unsigned taken = 0;
	int rc = 0;

	ASSERT_GE(room, 16u);
	{
		/* Nothing of it goes out while the path is down, so nothing completes. */
		Impairment stop(a, "loss 100%");
		while (taken < 4 * room &&
		       !(rc = pair.a->post(read_work(taken, {here.sge(0, 1000)}, there.address(),
						     there.rkey()))))
			taken++;
		EXPECT_EQ(rc, ENOMEM);
		EXPECT_EQ(taken, room);
	}
	for (unsigned i = 0; i < taken; i++)
		EXPECT_COMPLETED(pair.a->wait_send()[0], i, IBV_WC_RDMA_READ);
	ASSERT_EQ(pair.a->post(read_work(77, {here.sge()}, there.address(), there.rkey())), 0);
	EXPECT_COMPLETED(pair.a->wait_send()[0], 77, IBV_WC_RDMA_READ);
}

/* Programs keep the queue exactly full: one completion seen is one more that may be posted. */
TEST_F(FullTest, SlotIsFreeWhenItsCompletionIsSeen)
{
	PairConfig config;
	config.a.send_wr = config.b.send_wr = 16;
	config.active.responder_resources = config.active.initiator_depth = 64;
	config.passive = config.active;
	auto pair = connected(config);
	Region here(a.pd(), 65536), there(b.pd(), 65536);
	std::string failure[2];

	/* Both ways at once, so that completions come on another CPU than the one that polls. */
	auto run = [&](Endpoint &end, Region &local, Region &remote, std::string &why) {
		ibv_qp_init_attr init{};
		end.query(IBV_QP_CAP, &init);
		auto room = init.cap.max_send_wr;
		auto total = rounds(2000);
		unsigned posted = 0, done = 0;
		auto deadline = verbs::Clock::now() + verbs::milliseconds(60000);
		while (done < total && why.empty()) {
			for (; posted - done < room && why.empty(); posted++)
				if (int rc = end.post(read_work(posted, {local.sge()},
								remote.address(), remote.rkey())))
					why = std::to_string(posted - done) + " of " +
					      std::to_string(room) +
					      " slots in use, post: " + std::strerror(rc);
			ibv_wc wc;
			while (ibv_poll_cq(end.send_cq(), 1, &wc) == 1) {
				if (wc.status != IBV_WC_SUCCESS)
					why = ibv_wc_status_str(wc.status);
				done++;
				if (!why.empty() || posted - done < room)
					break;
			}
			if (verbs::Clock::now() > deadline)
				why = "took too long";
		}
		if (why.empty())
			end.wait_send(posted - done);
	};
	std::thread other([&] { run(*pair.b, there, here, failure[1]); });
	run(*pair.a, here, there, failure[0]);
	other.join();
	EXPECT_EQ(failure[0], "");
	EXPECT_EQ(failure[1], "");
}

/* The same of receives, which are posted anew by the one who polls them. */
TEST_F(FullTest, ReceiveSlotIsFreeWhenItsCompletionIsSeen)
{
	PairConfig config;
	config.b.recv_wr = 16;
	auto pair = connected(config);
	ibv_qp_init_attr init{};
	pair.b->query(IBV_QP_CAP, &init);
	auto room = init.cap.max_recv_wr;

	for (unsigned i = 0; i < room; i++)
		ASSERT_EQ(pair.b->post_recv(i), 0);
	for (unsigned i = 0; i < rounds(3000); i++) {
		ASSERT_EQ(pair.a->post(send_work(i, {})), 0);
		EXPECT_EQ(pair.b->wait_recv()[0].status, IBV_WC_SUCCESS);
		ASSERT_EQ(pair.b->post_recv(i), 0) << i;
		pair.a->wait_send();
	}
}

TEST_F(FullTest, BatchIsTakenUpToTheBadOne)
{
	auto pair = connected();
	std::vector<Work> works;
	std::size_t bad = 99;

	for (uint64_t i = 0; i < 6; i++) {
		ASSERT_EQ(pair.b->post_recv(i), 0);
		works.push_back(send_work(i, {}));
	}
	works[4].sges.resize(a.max_sge() + 1);
	EXPECT_EQ(pair.a->post(works, &bad), EINVAL);
	EXPECT_EQ(bad, 4u);
	auto done = pair.a->wait_send(4);
	pair.b->wait_recv(4);
	ibv_wc wc;
	EXPECT_EQ(ibv_poll_cq(pair.a->send_cq(), 1, &wc), 0);
}

TEST_F(FullTest, RefusedPosts)
{
	auto pair = connected();
	Region here(a.pd(), 4096);
	auto unknown = send_work(1, {});

	unknown.wr.opcode = static_cast<ibv_wr_opcode>(200);
	EXPECT_NE(pair.a->post(unknown), 0);
	EXPECT_NE(pair.a->post(send_work(1, {here.sge(0, pair.a->max_inline() + 1)})
				       .flags(IBV_SEND_INLINE)),
		  0);
	std::vector<ibv_sge> many(b.max_sge() + 1);
	EXPECT_NE(pair.b->post_recv(1, many), 0);
	synchronize(*pair.a, *pair.b);
}

class SrqTest : public VerbsTest {
protected:
	void SetUp() override
	{
		ibv_srq_init_attr init{};
		init.attr.max_wr = 64;
		init.attr.max_sge = 4;
		srq.reset(ibv_create_srq(b.pd(), &init));
		if (!srq)
			verbs::fail("ibv_create_srq");
		b.discard_async_events(srq.get());
		capacity = init.attr.max_wr;
	}

	int post(uint64_t id, std::vector<ibv_sge> sges = {})
	{
		ibv_recv_wr wr{}, *bad;
		wr.wr_id = id;
		wr.sg_list = sges.data();
		wr.num_sge = static_cast<int>(sges.size());
		return ibv_post_srq_recv(srq.get(), &wr, &bad);
	}

	Pair sharing()
	{
		PairConfig config;
		config.b.srq = srq.get();
		return connected(config);
	}

	verbs::Srq srq;
	unsigned capacity = 0;
};

TEST_F(SrqTest, SharedByQueuePairs)
{
	constexpr std::size_t slot = 3000, count = 48;
	Region from(a.pd(), slot), to(b.pd(), slot * count);
	std::vector<Pair> pairs;

	from.fill(5);
	for (unsigned i = 0; i < 4; i++)
		pairs.push_back(sharing());
	for (std::size_t i = 0; i < count; i++)
		ASSERT_EQ(post(i, to.sges({{i * slot, 1000}, {i * slot + 1000, 2000}})), 0);
	for (std::size_t i = 0; i < count; i++) {
		auto &pair = pairs[random() % pairs.size()];
		auto length = random() % slot;
		ASSERT_EQ(pair.a->post(send_work(i, {from.sge(0, length)})), 0);
		EXPECT_COMPLETED(pair.a->wait_send()[0], i, IBV_WC_SEND);
		auto wc = pair.b->wait_recv()[0];
		EXPECT_COMPLETED(wc, i, IBV_WC_RECV);
		EXPECT_EQ(wc.byte_len, length);
		EXPECT_EQ(wc.qp_num, pair.b->qp()->qp_num);
		EXPECT_EQ(differs(to.data() + i * slot, from.data(), length), "");
	}
	EXPECT_EQ(to.harmed(), "");
}

TEST_F(SrqTest, LimitEvent)
{
	auto pair = sharing();
	ibv_srq_attr attr{};

	for (unsigned i = 0; i < 10; i++)
		ASSERT_EQ(post(i), 0);
	attr.srq_limit = 8;
	ASSERT_EQ(ibv_modify_srq(srq.get(), &attr, IBV_SRQ_LIMIT), 0);
	ASSERT_EQ(ibv_query_srq(srq.get(), &attr), 0);
	EXPECT_EQ(attr.srq_limit, 8u);
	EXPECT_GE(attr.max_wr, 64u);
	EXPECT_GE(attr.max_sge, 4u);
	auto send = [&] {
		ASSERT_EQ(pair.a->post(send_work(1, {})), 0);
		pair.a->wait_send();
		pair.b->wait_recv();
	};
	send();
	send();
	EXPECT_FALSE(b.async_event(srq.get(), moment)) << "8 are left, that is not below the limit";
	send();
	auto event = b.async_event(srq.get(), soon);
	ASSERT_TRUE(event);
	EXPECT_EQ(event->type, IBV_EVENT_SRQ_LIMIT_REACHED);
	/* Once: the limit is disarmed by its event. */
	send();
	EXPECT_FALSE(b.async_event(srq.get(), moment));
	ASSERT_EQ(ibv_query_srq(srq.get(), &attr), 0);
	EXPECT_EQ(attr.srq_limit, 0u);
}

TEST_F(SrqTest, Full)
{
	for (unsigned i = 0; i < capacity; i++)
		ASSERT_EQ(post(i), 0) << i << " of " << capacity;
	EXPECT_EQ(post(capacity), ENOMEM);
	auto pair = sharing();
	ASSERT_EQ(pair.a->post(send_work(1, {})), 0);
	EXPECT_COMPLETED(pair.b->wait_recv()[0], 0, IBV_WC_RECV);
	EXPECT_EQ(post(capacity), 0);
}

TEST_F(SrqTest, PostToAQueuePairWithSrqIsRefused)
{
	auto pair = sharing();

	EXPECT_NE(pair.b->post_recv(1), 0);
}

/* What a dead QP did not use stays for the others. */
TEST_F(SrqTest, OutlivesItsQueuePairs)
{
	for (unsigned i = 0; i < 4; i++)
		ASSERT_EQ(post(i), 0);
	{
		auto pair = sharing();
		ASSERT_EQ(pair.a->post(send_work(1, {})), 0);
		EXPECT_COMPLETED(pair.b->wait_recv()[0], 0, IBV_WC_RECV);
		verbs::check(rdma_disconnect(pair.a->id()), "rdma_disconnect");
		pair.b->event(RDMA_CM_EVENT_DISCONNECTED);
		ibv_wc wc;
		EXPECT_EQ(ibv_poll_cq(pair.b->recv_cq(), 1, &wc), 0)
			<< "an SRQ's receives are not flushed";
	}
	auto pair = sharing();
	for (unsigned i = 1; i < 4; i++) {
		ASSERT_EQ(pair.a->post(send_work(i, {})), 0);
		EXPECT_COMPLETED(pair.b->wait_recv()[0], i, IBV_WC_RECV);
	}
}

TEST_F(SrqTest, InUseIsNotDestroyed)
{
	auto pair = sharing();

	if (!ibv_destroy_srq(srq.get())) {
		(void)srq.release();
		FAIL() << "destroyed under a queue pair";
	}
}

/* What ib_drain_qp and others wait for before they reuse the buffers of an SRQ. */
TEST_F(SrqTest, LastWqeReachedIsReported)
{
	auto pair = sharing();

	for (unsigned i = 0; i < 4; i++)
		ASSERT_EQ(post(i), 0);
	verbs::check(rdma_disconnect(pair.a->id()), "rdma_disconnect");
	pair.b->event(RDMA_CM_EVENT_DISCONNECTED);
	ibv_qp_attr attr{};
	attr.qp_state = IBV_QPS_ERR;
	verbs::check(ibv_modify_qp(pair.b->qp(), &attr, IBV_QP_STATE), "ibv_modify_qp");
	auto event = pair.b->async_event();
	ASSERT_TRUE(event);
	EXPECT_EQ(event->type, IBV_EVENT_QP_LAST_WQE_REACHED);
}

class StateTest : public VerbsTest {
protected:
	static void expect_all_flushed(const std::vector<ibv_wc> &wcs, uint64_t first)
	{
		for (auto &wc : wcs) {
			EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR) << ibv_wc_status_str(wc.status);
			EXPECT_EQ(wc.wr_id, first++) << "flushed out of order";
		}
	}

	void set_state(Endpoint &end, ibv_qp_state state)
	{
		ibv_qp_attr attr{};
		attr.qp_state = state;
		verbs::check(ibv_modify_qp(end.qp(), &attr, IBV_QP_STATE), "ibv_modify_qp");
	}
};

TEST_F(StateTest, ThroughAConnectionsLife)
{
	Listener listener(b, default_family());
	PairConfig config;
	auto active = resolve(a, listener.address());

	EXPECT_EQ(active->state(), IBV_QPS_INIT);
	ASSERT_EQ(active->post_recv(1), 0) << "receives may be posted before the connection is";
	start_connect(*active);
	auto passive = listener.endpoint(listener.request());
	EXPECT_EQ(passive->state(), IBV_QPS_INIT);
	ASSERT_EQ(passive->post_recv(2), 0);
	accept(*passive);
	active->event(RDMA_CM_EVENT_ESTABLISHED);
	passive->event(RDMA_CM_EVENT_ESTABLISHED);
	EXPECT_EQ(active->state(), IBV_QPS_RTS);
	EXPECT_EQ(passive->state(), IBV_QPS_RTS);

	ibv_qp_init_attr init{};
	auto attr = active->query(IBV_QP_STATE | IBV_QP_CAP | IBV_QP_ACCESS_FLAGS | IBV_QP_PATH_MTU,
				  &init);
	EXPECT_GE(init.cap.max_send_wr, 64u);
	EXPECT_GE(init.cap.max_recv_wr, 64u);
	EXPECT_EQ(init.cap.max_send_sge, a.max_sge());
	EXPECT_EQ(init.qp_type, IBV_QPT_RC);
	EXPECT_EQ(init.send_cq, active->send_cq());
	EXPECT_EQ(attr.cap.max_send_wr, init.cap.max_send_wr);

	ASSERT_EQ(active->post(send_work(3, {})), 0);
	EXPECT_COMPLETED(passive->wait_recv()[0], 2, IBV_WC_RECV);
	ASSERT_EQ(passive->post(send_work(4, {})), 0);
	EXPECT_COMPLETED(active->wait_recv()[0], 1, IBV_WC_RECV);
	verbs::check(rdma_disconnect(active->id()), "rdma_disconnect");
	active->event(RDMA_CM_EVENT_DISCONNECTED);
	passive->event(RDMA_CM_EVENT_DISCONNECTED);
	EXPECT_NE(active->state(), IBV_QPS_RTS);
	EXPECT_NE(passive->state(), IBV_QPS_RTS);
}

TEST_F(StateTest, DisconnectFlushesReceivesInOrder)
{
	for (bool by_a : {true, false}) {
		auto pair = connected();
		auto &one = by_a ? *pair.a : *pair.b, &other = by_a ? *pair.b : *pair.a;

		for (uint64_t i = 0; i < 20; i++) {
			ASSERT_EQ(one.post_recv(i), 0);
			ASSERT_EQ(other.post_recv(100 + i), 0);
		}
		verbs::check(rdma_disconnect(one.id()), "rdma_disconnect");
		expect_all_flushed(one.wait_recv(20), 0);
		expect_all_flushed(other.wait_recv(20), 100);
		one.event(RDMA_CM_EVENT_DISCONNECTED);
		other.event(RDMA_CM_EVENT_DISCONNECTED);
	}
}

/* All that was sent before a disconnect arrives before it. */
TEST_F(StateTest, DisconnectLosesNothing)
{
	constexpr std::size_t size = 400000;
	Region from(a.pd(), size), to(b.pd(), size);

	from.fill(1);
	for (unsigned i = 0; i < rounds(10); i++) {
		auto pair = connected();
		to.clear();
		ASSERT_EQ(pair.b->post_recv(1, {to.sge()}), 0);
		ASSERT_EQ(pair.a->post(send_work(1, {from.sge()})), 0);
		EXPECT_COMPLETED(pair.a->wait_send()[0], 1, IBV_WC_SEND);
		verbs::check(rdma_disconnect(pair.a->id()), "rdma_disconnect");
		EXPECT_COMPLETED(pair.b->wait_recv()[0], 1, IBV_WC_RECV);
		pair.b->event(RDMA_CM_EVENT_DISCONNECTED);
		EXPECT_EQ(differs_from_pattern(to.data(), size, 1), "");
	}
}

TEST_F(StateTest, ErrorStateFlushesBothQueues)
{
	auto pair = connected();
	Region here(a.pd(), 1 << 20), there(b.pd(), 1 << 20);

	{
		/* Nothing gets through, so nothing is done in time. */
		Impairment stop(a, "loss 100%");
		for (uint64_t i = 0; i < 10; i++)
			ASSERT_EQ(pair.a->post_recv(i), 0);
		for (uint64_t i = 0; i < 10; i++)
			ASSERT_EQ(pair.a->post(i % 2 ? write_work(i, {here.sge()}, there.address(),
								  there.rkey())
						     : read_work(i, {here.sge()}, there.address(),
								 there.rkey())),
				  0);
		set_state(*pair.a, IBV_QPS_ERR);
		EXPECT_EQ(pair.a->state(), IBV_QPS_ERR);
		expect_all_flushed(pair.a->wait_recv(10), 0);
		expect_all_flushed(pair.a->wait_send(10), 0);
		pair.a->event(RDMA_CM_EVENT_DISCONNECTED);
	}
}

/* The same in the midst of traffic: done ones first, then flushed ones, never a good one again. */
TEST_F(StateTest, ErrorStateUnderLoad)
{
	Region here(a.pd(), 1 << 20), there(b.pd(), 1 << 20);

	for (unsigned round = 0; round < rounds(10); round++) {
		auto pair = connected();
		for (uint64_t i = 0; i < 10; i++)
			ASSERT_EQ(pair.a->post(read_work(i, {here.sge()}, there.address(),
							 there.rkey())),
				  0);
		std::this_thread::sleep_for(verbs::milliseconds(random() % 20));
		set_state(*pair.a, IBV_QPS_ERR);
		uint64_t id = 0;
		bool flushed = false;
		for (auto &wc : pair.a->wait_send(10)) {
			EXPECT_EQ(wc.wr_id, id++);
			if (wc.status == IBV_WC_SUCCESS) {
				EXPECT_FALSE(flushed);
			} else {
				EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR)
					<< ibv_wc_status_str(wc.status);
				flushed = true;
			}
		}
		pair.b->event(RDMA_CM_EVENT_DISCONNECTED);
	}
}

TEST_F(StateTest, PostsAfterTheErrorAreFlushed)
{
	auto pair = connected();

	set_state(*pair.a, IBV_QPS_ERR);
	for (uint64_t i = 0; i < 5; i++) {
		ASSERT_EQ(pair.a->post(send_work(i, {}).unsignaled()), 0);
		ASSERT_EQ(pair.a->post_recv(i), 0);
	}
	/* Unsignaled ones too: in error each is reported. */
	expect_all_flushed(pair.a->wait_send(5), 0);
	expect_all_flushed(pair.a->wait_recv(5), 0);
	/* And on the side that was only told. */
	pair.b->event(RDMA_CM_EVENT_DISCONNECTED);
	ASSERT_TRUE(pair.b->reaches(IBV_QPS_ERR));
	for (uint64_t i = 0; i < 5; i++) {
		ASSERT_EQ(pair.b->post(send_work(i, {})), 0);
		ASSERT_EQ(pair.b->post_recv(i), 0);
	}
	expect_all_flushed(pair.b->wait_send(5), 0);
	expect_all_flushed(pair.b->wait_recv(5), 0);
}

/* As ib_drain_qp does: a marker behind all others, flushed last. */
TEST_F(StateTest, DrainMarkerComesLast)
{
	PairConfig config;
	config.a.send_wr = config.a.recv_wr = 64;
	auto pair = connected(config);
	Region here(a.pd(), 1 << 20), there(b.pd(), 1 << 20);
	constexpr uint64_t marker = 1000;

	auto stop = std::make_optional<Impairment>(a, "loss 100%");
	for (uint64_t i = 0; i < 40; i++) {
		/* The Read cannot be done, so what is behind it is not reported as done either. */
		auto work = i ? write_work(i, {here.sge()}, there.address(), there.rkey())
			      : read_work(i, {here.sge()}, there.address(), there.rkey());
		ASSERT_EQ(pair.a->post(work.unsignaled()), 0);
		ASSERT_EQ(pair.a->post_recv(i), 0);
	}
	set_state(*pair.a, IBV_QPS_ERR);
	ASSERT_EQ(pair.a->post(send_work(marker, {})), 0);
	ASSERT_EQ(pair.a->post_recv(marker), 0);
	for (uint64_t i = 0; i < 40; i++) {
		ASSERT_EQ(pair.a->wait_send()[0].wr_id, i);
		ASSERT_EQ(pair.a->wait_recv()[0].wr_id, i);
	}
	ASSERT_EQ(pair.a->wait_send()[0].wr_id, marker);
	ASSERT_EQ(pair.a->wait_recv()[0].wr_id, marker);
	ibv_wc wc;
	std::this_thread::sleep_for(moment);
	EXPECT_EQ(ibv_poll_cq(pair.a->send_cq(), 1, &wc), 0);
	EXPECT_EQ(ibv_poll_cq(pair.a->recv_cq(), 1, &wc), 0);
	/* Nothing uses the memory any more: a freed buffer must be safe. */
	here.deregister();
}

TEST_F(StateTest, PostingOutOfState)
{
	Listener listener(b, default_family());
	auto end = resolve(a, listener.address());

	/* In INIT receives are kept; a send is refused, or waits for the connection, but is never
	 * lost. */
	bool taken = end->post(send_work(1, {})) == 0;
	EXPECT_EQ(end->post_recv(1), 0);
	start_connect(*end);
	auto other = listener.endpoint(listener.request());
	ASSERT_EQ(other->post_recv(1), 0);
	accept(*other);
	end->event(RDMA_CM_EVENT_ESTABLISHED);
	if (taken) {
		EXPECT_COMPLETED(end->wait_send()[0], 1, IBV_WC_SEND);
		EXPECT_COMPLETED(other->wait_recv()[0], 1, IBV_WC_RECV);
	}
}

TEST_F(StateTest, IllegalTransitionsAreRefused)
{
	auto pair = connected();
	ibv_qp_attr attr{};

	attr.qp_state = IBV_QPS_INIT;
	attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	attr.port_num = 1;
	EXPECT_NE(
		ibv_modify_qp(pair.a->qp(), &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	synchronize(*pair.a, *pair.b);
}

/* A QP destroyed under load takes nothing with it. */
TEST_F(StateTest, DestroyedWhileBusy)
{
	auto other = connected();
	Region here(a.pd(), 4 << 20), there(b.pd(), 4 << 20);

	for (unsigned i = 0; i < rounds(20); i++) {
		auto pair = connected();
		for (uint64_t n = 0; n < 20; n++) {
			ASSERT_EQ(pair.a->post(write_work(n, {here.sge()}, there.address(),
							  there.rkey())),
				  0);
			ASSERT_EQ(pair.b->post(
					  read_work(n, {there.sge()}, here.address(), here.rkey())),
				  0);
		}
		if (i % 2)
			pair.a.reset();
		else
			pair.b.reset();
	}
	synchronize(*other.a, *other.b);
	synchronize(*other.b, *other.a);
	EXPECT_EQ(here.harmed() + there.harmed(), "");
}

} // namespace
