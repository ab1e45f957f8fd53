// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* When the slots of send and receive queues are free again: with the poll of the completion, so
 * that programs that post until a queue is full never overflow a completion queue of the same size.
 */
#include <atomic>
#include <deque>

#include "fixture.h"

namespace {

constexpr unsigned room = 16;

class SlotTest : public VerbsTest {
protected:
	/* All queues, those of completions included, are of the same size. */
	static PairConfig equal()
	{
		PairConfig config;

		config.a.send_wr = config.a.recv_wr = config.b.send_wr = config.b.recv_wr = room;
		config.a.cq_entries = config.b.cq_entries = room;
		return config;
	}

	void start(const PairConfig &config = equal())
	{
		pair = connected(config);
		here.emplace(a.pd(), 4096);
		there.emplace(b.pd(), 4096);
	}

	Work write(uint64_t id)
	{
		return write_work(id, {here->sge(0, 8)}, there->address(), there->rkey());
	}

	/* Post Writes until the queue is full. Returns how many it took. */
	unsigned fill_send(bool signaled = true)
	{
		unsigned taken = 0;
		int rc = 0;

		while (taken < 4 * room) {
			auto work = write(sent);
			rc = pair.a->post(signaled ? work : work.unsignaled());
			if (rc)
				break;
			sent++;
			taken++;
		}
		EXPECT_EQ(rc, ENOMEM);
		return taken;
	}

	unsigned fill_recv()
	{
		unsigned taken = 0;
		int rc = 0;

		while (taken < 4 * room && !(rc = pair.b->post_recv(received))) {
			received++;
			taken++;
		}
		EXPECT_EQ(rc, ENOMEM);
		return taken;
	}

	ibv_cq_ex *extended_cq(unsigned entries, uint32_t flags = 0)
	{
		ibv_cq_init_attr_ex attr{};

		attr.cqe = entries;
		attr.wc_flags = IBV_WC_STANDARD_FLAGS;
		attr.comp_mask = flags ? unsigned(IBV_CQ_INIT_ATTR_MASK_FLAGS) : 0;
		attr.flags = flags;
		return verbs::check(ibv_create_cq_ex(a.context(), &attr), "ibv_create_cq_ex");
	}

	/* Let what was posted be carried out, and its completions wait. */
	static void settle() { std::this_thread::sleep_for(moment); }

	void expect_no_overflow()
	{
		for (auto *end : {pair.a.get(), pair.b.get()})
			for (auto *cq : {end->send_cq(), end->recv_cq()})
				EXPECT_FALSE(end->host().async_event(cq, verbs::milliseconds(0)));
	}

	Pair pair;
	std::optional<Region> here, there;
	/* Ids of what was posted. */
	uint64_t sent = 0, received = 0;
};

TEST_F(SlotTest, SendQueueIsFullUntilCompletionsArePolled)
{
	uint64_t polled = 0;

	start();
	ASSERT_EQ(pair.a->send_cq()->cqe, static_cast<int>(room));
	EXPECT_EQ(fill_send(), room);
	settle();
	EXPECT_EQ(fill_send(), 0u) << "they are done, but nobody has polled";
	for (unsigned take : {1u, 3u, room - 4, room, 2u}) {
		for (auto &wc : pair.a->wait_send(take))
			EXPECT_COMPLETED(wc, polled++, IBV_WC_RDMA_WRITE);
		EXPECT_EQ(fill_send(), take);
		settle();
	}
	pair.a->wait_send(room);
	expect_no_overflow();
}

TEST_F(SlotTest, ReceiveQueueIsFullUntilCompletionsArePolled)
{
	uint64_t polled = 0, id = 0;

	start();
	auto send = [&](unsigned count) {
		for (unsigned i = 0; i < count; i++) {
			ASSERT_EQ(pair.a->post(send_work(id++, {})), 0);
			pair.a->wait_send();
		}
		settle();
	};
	EXPECT_EQ(fill_recv(), room);
	send(room);
	EXPECT_EQ(fill_recv(), 0u) << "they are done, but nobody has polled";
	for (unsigned take : {1u, 3u, room - 4}) {
		for (auto &wc : pair.b->wait_recv(take))
			EXPECT_COMPLETED(wc, polled++, IBV_WC_RECV);
		EXPECT_EQ(fill_recv(), take);
		send(take);
	}
	pair.b->wait_recv(room);
	expect_no_overflow();
}

/* Those that are not signaled are freed by the next completion of their queue, and not before. */
TEST_F(SlotTest, UnsignaledOnesAreFreedByTheNextCompletion)
{
	start();
	for (unsigned i = 0; i < 3; i++) {
		for (unsigned n = 0; n + 1 < room; n++)
			ASSERT_EQ(pair.a->post(write(n).unsignaled()), 0);
		ASSERT_EQ(pair.a->post(write(100 + i)), 0);
		settle();
		EXPECT_EQ(pair.a->post(write(0)), ENOMEM);
		EXPECT_COMPLETED(pair.a->wait_send()[0], 100 + i, IBV_WC_RDMA_WRITE);
	}
	/* Those behind the completion are not. */
	for (unsigned n = 0; n < room; n++)
		ASSERT_EQ(pair.a->post(n == 4 ? write(n) : write(n).unsignaled()), 0);
	EXPECT_COMPLETED(pair.a->wait_send()[0], 4, IBV_WC_RDMA_WRITE);
	settle();
	for (unsigned n = 0; n < 5; n++)
		EXPECT_EQ(pair.a->post(write(n)), 0) << n;
	EXPECT_EQ(pair.a->post(write(5)), ENOMEM);
	pair.a->wait_send(5);
	expect_no_overflow();
}

/* One who has seen a completion in the extended interface may post in its place before the end of
 * the batch. */
TEST_F(SlotTest, ExtendedPollFreesWhatItShows)
{
	ibv_poll_cq_attr none{};
	auto config = equal();
	auto *cq = extended_cq(room);
	verbs::Cq owner(ibv_cq_ex_to_cq(cq));
	config.a.cq = owner.get();
	start(config);
	EXPECT_EQ(fill_send(), room);
	settle();
	EXPECT_EQ(fill_send(), 0u);
	ASSERT_EQ(ibv_start_poll(cq, &none), 0);
	for (unsigned i = 0; i < 5 * room; i++) {
		if (i) {
			ASSERT_TRUE(verbs::eventually(soon, [&] { return !ibv_next_poll(cq); }));
		}
		EXPECT_EQ(cq->wr_id, i);
		EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
		ASSERT_EQ(pair.a->post(write(sent++)), 0) << i;
		EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RDMA_WRITE);
	}
	ibv_end_poll(cq);
	wait_cq(owner.get(), room);
	expect_no_overflow();
	pair.a.reset();
}

/* What was posted to a queue pair that is in error is flushed at once; that also waits for the
 * poll. */
TEST_F(SlotTest, FlushedOnesWaitForThePollToo)
{
	ibv_qp_attr attr{};

	start();
	/* The last of these has a completion, of success or of the flush; the others perhaps. */
	EXPECT_EQ(fill_recv(), room);
	attr.qp_state = IBV_QPS_ERR;
	for (auto *end : {pair.a.get(), pair.b.get()}) {
		verbs::check(ibv_modify_qp(end->qp(), &attr, IBV_QP_STATE), "ibv_modify_qp");
		ASSERT_TRUE(end->reaches(IBV_QPS_ERR));
	}
	for (auto &wc : pair.b->wait_recv(room))
		EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
	for (unsigned i = 0; i < 5; i++) {
		EXPECT_EQ(fill_send(i % 2), room);
		EXPECT_EQ(fill_recv(), room);
		settle();
		EXPECT_EQ(fill_send(i % 2), 0u);
		EXPECT_EQ(fill_recv(), 0u);
		for (auto &wc : pair.a->wait_send(room))
			EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
		for (auto &wc : pair.b->wait_recv(room))
			EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
	}
	expect_no_overflow();
}

/* The completions that waited are gone with a reset, and all slots are free. */
TEST_F(SlotTest, ResetFreesAll)
{
	ibv_qp_attr attr{};

	start();
	EXPECT_EQ(fill_send(), room);
	EXPECT_EQ(fill_recv(), room);
	settle();
	for (auto *end : {pair.a.get(), pair.b.get()}) {
		attr.qp_state = IBV_QPS_ERR;
		verbs::check(ibv_modify_qp(end->qp(), &attr, IBV_QP_STATE), "ibv_modify_qp");
		attr.qp_state = IBV_QPS_RESET;
		verbs::check(ibv_modify_qp(end->qp(), &attr, IBV_QP_STATE), "ibv_modify_qp");
		attr.qp_state = IBV_QPS_ERR;
		verbs::check(ibv_modify_qp(end->qp(), &attr, IBV_QP_STATE), "ibv_modify_qp");
	}
	for (unsigned i = 0; i < 2; i++) {
		EXPECT_EQ(fill_send(), room);
		EXPECT_EQ(fill_recv(), room);
		EXPECT_EQ(pair.a->wait_send(room)[0].wr_id, sent - room);
		EXPECT_EQ(pair.b->wait_recv(room)[0].wr_id, received - room);
	}
	expect_no_overflow();
}

/* Completions that a queue drops take no slots with them. */
TEST_F(SlotTest, LostCompletionsTakeNoSlots)
{
	auto config = equal();
	auto *cq = extended_cq(4, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN);
	verbs::Cq owner(ibv_cq_ex_to_cq(cq));
	config.a.cq = owner.get();
	start(config);
	for (unsigned i = 0; i < 10 * room; i++)
		EXPECT_TRUE(verbs::eventually(soon, [&] { return !pair.a->post(write(i)); })) << i;
	for (unsigned i = 0; i < 4; i++)
		EXPECT_COMPLETED(wait_cq(owner.get(), 1)[0], i, IBV_WC_RDMA_WRITE);
	pair.a.reset();
}

/* Both ends at once: one thread posts until there is no room, another polls a queue of that size.
 */
TEST_F(SlotTest, PostingUntilFullNeverOverflows)
{
	auto total = rounds(4000);
	auto config = equal();
	std::deque<verbs::Cq> queues;
	std::atomic<bool> stop{false};
	std::string failure[2];

	for (auto *end : {&config.a, &config.b}) {
		auto *context = end == &config.a ? a.context() : b.context();
		auto *cq = verbs::check(ibv_create_cq(context, room, nullptr, nullptr, 0),
					"ibv_create_cq");
		ASSERT_EQ(cq->cqe, static_cast<int>(room));
		end->cq = queues.emplace_back(cq).get();
	}
	start(config);
	auto poster = [&](Endpoint &end, Region &local, Region &remote) {
		uint64_t id = 0;
		while (!stop) {
			auto work =
				write_work(id, {local.sge(0, 8)}, remote.address(), remote.rkey());
			if (id % 3)
				work.unsignaled();
			if (end.post(work))
				std::this_thread::yield();
			else
				id++;
		}
	};
	auto poller = [&](Endpoint &end, std::string &why) {
		ibv_wc wcs[3];
		unsigned done = 0;
		auto deadline = verbs::Clock::now() + verbs::milliseconds(60000);
		while (done < total && why.empty() && !stop) {
			int n = ibv_poll_cq(end.send_cq(), 3, wcs);
			for (int i = 0; i < n; i++)
				if (wcs[i].status != IBV_WC_SUCCESS)
					why = ibv_wc_status_str(wcs[i].status);
			done += static_cast<unsigned>(n);
			if (!n)
				std::this_thread::yield();
			if (verbs::Clock::now() > deadline)
				why = "took too long: " + std::to_string(done);
		}
	};
	std::thread threads[] = {
		std::thread([&] { poster(*pair.a, *here, *there); }),
		std::thread([&] { poster(*pair.b, *there, *here); }),
	};
	std::thread other([&] { poller(*pair.b, failure[1]); });
	poller(*pair.a, failure[0]);
	other.join();
	stop = true;
	for (auto &thread : threads)
		thread.join();
	EXPECT_EQ(failure[0], "");
	EXPECT_EQ(failure[1], "");
	expect_no_overflow();
	pair.a.reset();
	pair.b.reset();
}

} // namespace
