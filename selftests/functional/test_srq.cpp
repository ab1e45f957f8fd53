// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The slots of a shared receive queue under traffic: each post is used once, none is lost, and none
 * overwrites one that waits, whichever queue pairs take them and however these end.
 */
#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "fixture.h"

namespace {

constexpr unsigned room = 16;

class SrqSlotTest : public VerbsTest {
protected:
	void SetUp() override
	{
		ibv_srq_init_attr init{};
		init.attr = {room, 1, 0};
		srq.reset(verbs::check(ibv_create_srq(b.pd(), &init), "ibv_create_srq"));
		ASSERT_EQ(init.attr.max_wr, room);
		b.discard_async_events(srq.get());
	}

	int post(uint64_t id, ibv_sge sge)
	{
		ibv_recv_wr wr{}, *bad;
		wr.wr_id = id;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		return ibv_post_srq_recv(srq.get(), &wr, &bad);
	}

	/* Post 8 bytes for each id from `id` on until there is no room. Returns how many. */
	unsigned fill(uint64_t id, const Region &to)
	{
		unsigned taken = 0;
		int rc = 0;

		while (taken < 4 * room && !(rc = post(id, to.sge(id * 8, 8)))) {
			taken++;
			id++;
		}
		EXPECT_EQ(rc, ENOMEM);
		return taken;
	}

	Pair sharing(int cq_entries = 256)
	{
		PairConfig config;
		config.b.srq = srq.get();
		config.b.cq_entries = cq_entries;
		return connected(config);
	}

	int modify(uint32_t limit, uint32_t max_wr, int mask)
	{
		ibv_srq_attr attr{};
		attr.srq_limit = limit;
		attr.max_wr = max_wr;
		return ibv_modify_srq(srq.get(), &attr, mask);
	}

	ibv_srq_attr query()
	{
		ibv_srq_attr attr{};
		EXPECT_EQ(ibv_query_srq(srq.get(), &attr), 0);
		return attr;
	}

	void send(Pair &pair, uint64_t value)
	{
		std::memcpy(word.data(), &value, sizeof(value));
		ASSERT_EQ(pair.a->post(send_work(value, {word.sge(0, 8)})), 0);
		EXPECT_COMPLETED(pair.a->wait_send()[0], value, IBV_WC_SEND);
	}

	/* The first pair is in the middle of a message, and ends so; what of the queue it had not
	 * taken is the second one's. */
	void end_in_the_middle(bool destroy);

	Region word{a.pd(), 8};
	verbs::Srq srq;
};

/*
 * One thread posts until there is no room. Two send, never more than was posted: they draw tickets,
 * which go into the messages. Two poll, each the completion queue of its queue pair.
 */
class Traffic {
public:
	Traffic(ibv_srq *srq, Region &from, Region &to, unsigned total)
		: srq_(srq), from_(from), to_(to), total_(total)
	{
		for (uint64_t ticket = 0; ticket < total; ticket++)
			std::memcpy(from.data() + ticket * 8, &ticket, sizeof(ticket));
	}

	void post()
	{
		for (unsigned id = 0, batch = 1; id < total_ && running(); batch = batch % 5 + 1) {
			auto taken = post_list(id, std::min(batch, total_ - id));
			id += taken;
			/* So many have left the queue, if each post had a slot of its own. */
			if (id > room && drawn_ < id - room)
				fail("posted " + std::to_string(id) + " of which at most " +
				     std::to_string(drawn_) + " were taken");
			posted_ = id;
			if (!taken)
				std::this_thread::yield();
		}
	}

	void send(Endpoint &end)
	{
		unsigned waiting = 0, ticket;
		ibv_wc wcs[16];

		while (running() && draw(ticket)) {
			auto work = send_work(ticket, {from_.sge(ticket * 8, 8)});
			while (end.post(work) && running())
				std::this_thread::yield();
			for (waiting++; waiting > 32 && running();)
				waiting -= poll(end.send_cq(), wcs, 16);
		}
	}

	void receive(Endpoint &end, std::vector<uint64_t> &ids)
	{
		ibv_wc wcs[4];

		while (received_ < total_ && running()) {
			auto n = poll(end.recv_cq(), wcs, 4);
			for (unsigned i = 0; i < n; i++)
				ids.push_back(wcs[i].wr_id);
			received_ += n;
		}
	}

	std::string failure() const { return failure_; }
	unsigned full() const { return full_; }

private:
	bool running()
	{
		if (verbs::Clock::now() > deadline_)
			fail("took too long: posted " + std::to_string(posted_) + ", drawn " +
			     std::to_string(drawn_) + ", received " + std::to_string(received_));
		return !failed_;
	}

	void fail(const std::string &why)
	{
		if (!failed_.exchange(true))
			failure_ = why;
	}

	/* Returns how many of `count` receives there was room for. */
	unsigned post_list(unsigned id, unsigned count)
	{
		ibv_recv_wr wrs[5]{}, *bad = nullptr;
		ibv_sge sges[5];

		for (unsigned i = 0; i < count; i++) {
			sges[i] = to_.sge((id + i) * std::size_t(8), 8);
			wrs[i].wr_id = id + i;
			wrs[i].sg_list = &sges[i];
			wrs[i].num_sge = 1;
			wrs[i].next = i + 1 < count ? &wrs[i + 1] : nullptr;
		}
		int rc = ibv_post_srq_recv(srq_, wrs, &bad);
		if (!rc)
			return count;
		if (rc != ENOMEM || bad < wrs || bad >= wrs + count)
			fail("ibv_post_srq_recv: " + std::to_string(rc));
		full_++;
		return static_cast<unsigned>(bad - wrs);
	}

	bool draw(unsigned &ticket)
	{
		ticket = drawn_;
		for (;;) {
			if (ticket >= total_ || !running())
				return false;
			if (ticket >= posted_) {
				std::this_thread::yield();
				ticket = drawn_;
			} else if (drawn_.compare_exchange_weak(ticket, ticket + 1)) {
				return true;
			}
		}
	}

	unsigned poll(ibv_cq *cq, ibv_wc *wcs, int most)
	{
		int n = ibv_poll_cq(cq, most, wcs);

		for (int i = 0; i < n; i++)
			if (wcs[i].status != IBV_WC_SUCCESS)
				fail(ibv_wc_status_str(wcs[i].status));
		if (n <= 0)
			std::this_thread::yield();
		return static_cast<unsigned>(std::max(n, 0));
	}

	ibv_srq *srq_;
	Region &from_, &to_;
	unsigned total_, full_ = 0;
	std::atomic<unsigned> posted_{0}, drawn_{0}, received_{0};
	std::atomic<bool> failed_{false};
	std::string failure_;
	verbs::Clock::time_point deadline_ = verbs::Clock::now() + verbs::milliseconds(60000);
};

TEST_F(SrqSlotTest, KeptFullUnderTrafficOfTwoQueuePairs)
{
	const auto total = rounds(4000);
	Region from(a.pd(), total * std::size_t(8)), to(b.pd(), total * std::size_t(8));
	Pair pairs[] = {sharing(static_cast<int>(total)), sharing(static_cast<int>(total))};
	std::vector<uint64_t> ids[2], tickets;
	Traffic traffic(srq.get(), from, to, total);

	{
		std::vector<std::jthread> threads;
		for (unsigned i = 0; i < 2; i++) {
			threads.emplace_back([&, i] { traffic.receive(*pairs[i].b, ids[i]); });
			threads.emplace_back([&, i] { traffic.send(*pairs[i].a); });
		}
		threads.emplace_back([&] { traffic.post(); });
	}
	ASSERT_EQ(traffic.failure(), "");
	EXPECT_GT(traffic.full(), 0u) << "the queue was never full";
	for (auto &of_one : ids) {
		EXPECT_FALSE(of_one.empty()) << "a queue pair had no traffic";
		EXPECT_TRUE(std::is_sorted(of_one.begin(), of_one.end())) << "not in their order";
	}
	ids[0].insert(ids[0].end(), ids[1].begin(), ids[1].end());
	std::sort(ids[0].begin(), ids[0].end());
	ASSERT_EQ(ids[0].size(), total);
	for (unsigned i = 0; i < total; i++) {
		uint64_t ticket;
		ASSERT_EQ(ids[0][i], i) << "a receive completed twice, or never";
		std::memcpy(&ticket, to.data() + i * std::size_t(8), sizeof(ticket));
		tickets.push_back(ticket);
	}
	std::sort(tickets.begin(), tickets.end());
	for (unsigned i = 0; i < total; i++)
		ASSERT_EQ(tickets[i], i) << "two messages in one receive";
	EXPECT_EQ(to.harmed(), "");
	EXPECT_EQ(fill(0, to), room) << "all slots are free again";
}

void SrqSlotTest::end_in_the_middle(bool destroy)
{
	constexpr std::size_t large = 1 << 20;
	Region from(a.pd(), large), whole(b.pd(), large), to(b.pd(), 8 * 4 * room);
	Pair ending = sharing(), staying = sharing();
	uint64_t next = 1;

	from.fill(7);
	whole.data()[0] = static_cast<unsigned char>(~from.data()[0]);
	ASSERT_EQ(post(0, whole.sge()), 0);
	EXPECT_EQ(fill(1, to), room - 1);
	{
		/* A second for the whole of it. */
		Impairment slow(a, "rate 8mbit");
		ASSERT_EQ(ending.a->post(send_work(0, {from.sge()})), 0);
		volatile auto *first = whole.data();
		ASSERT_TRUE(verbs::eventually(soon, [&] { return *first == from.data()[0]; }));
		if (destroy) {
			ending.b.reset();
		} else {
			ibv_qp_attr attr{};
			attr.qp_state = IBV_QPS_ERR;
			verbs::check(ibv_modify_qp(ending.b->qp(), &attr, IBV_QP_STATE),
				     "ibv_modify_qp");
			auto event = ending.b->async_event();
			ASSERT_TRUE(event);
			EXPECT_EQ(event->type, IBV_EVENT_QP_LAST_WQE_REACHED);
			/* Its one receive, and nobody else's. */
			auto wc = ending.b->wait_recv()[0];
			EXPECT_EQ(wc.wr_id, 0u);
			EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
			EXPECT_EQ(ibv_poll_cq(ending.b->recv_cq(), 1, &wc), 0);
		}
	}
	EXPECT_EQ(fill(room, to), 1u) << "the slot of the receive that was in progress";
	for (; next <= room; next++) {
		send(staying, next);
		EXPECT_COMPLETED(staying.b->wait_recv()[0], next, IBV_WC_RECV);
		EXPECT_EQ(std::memcmp(to.data() + next * 8, &next, 8), 0);
	}
	EXPECT_EQ(fill(next, to), room);
}

TEST_F(SrqSlotTest, ErrorInTheMiddleOfAReceiveFlushesThatOneOnly)
{
	end_in_the_middle(false);
}

TEST_F(SrqSlotTest, DestructionInTheMiddleOfAReceiveTakesThatOneOnly)
{
	end_in_the_middle(true);
}

/* Who refills the queue and arms again may be too late: nothing that comes later says so before the
 * queue is empty. */
TEST_F(SrqSlotTest, LimitArmedTooLateIsReportedAtOnce)
{
	Region to(b.pd(), 8 * 4 * room);

	for (uint64_t id = 0; id < 4; id++)
		ASSERT_EQ(post(id, to.sge(id * 8, 8)), 0);
	ASSERT_EQ(modify(4, 0, IBV_SRQ_LIMIT), 0);
	EXPECT_FALSE(b.async_event(srq.get(), moment)) << "4 wait, that is not below the limit";
	EXPECT_EQ(query().srq_limit, 4u);
	ASSERT_EQ(modify(5, 0, IBV_SRQ_LIMIT), 0);
	auto event = b.async_event(srq.get(), soon);
	ASSERT_TRUE(event);
	EXPECT_EQ(event->type, IBV_EVENT_SRQ_LIMIT_REACHED);
	EXPECT_EQ(query().srq_limit, 0u);
	EXPECT_FALSE(b.async_event(srq.get(), moment));
	/* Disarmed, it is not reported. */
	ASSERT_EQ(modify(4, 0, IBV_SRQ_LIMIT), 0);
	ASSERT_EQ(modify(0, 0, IBV_SRQ_LIMIT), 0);
	auto pair = sharing();
	send(pair, 0);
	EXPECT_COMPLETED(pair.b->wait_recv()[0], 0, IBV_WC_RECV);
	EXPECT_FALSE(b.async_event(srq.get(), moment));
}

/* Each time the number falls below, with a queue that is refilled in between. */
TEST_F(SrqSlotTest, LimitIsReportedEachTimeItIsReached)
{
	Region to(b.pd(), 8 * 1024);
	auto pair = sharing();
	uint64_t posted = 0, sent = 0;

	for (unsigned i = 0; i < 10; i++) {
		posted += fill(posted, to);
		ASSERT_EQ(posted, sent + room);
		ASSERT_EQ(modify(room / 2, 0, IBV_SRQ_LIMIT), 0);
		for (unsigned n = 0; n < room / 2; n++)
			send(pair, sent++);
		EXPECT_EQ(query().srq_limit, room / 2);
		send(pair, sent++);
		auto event = b.async_event(srq.get(), soon);
		ASSERT_TRUE(event) << i;
		EXPECT_EQ(event->type, IBV_EVENT_SRQ_LIMIT_REACHED);
		EXPECT_EQ(query().srq_limit, 0u);
	}
	auto wcs = pair.b->wait_recv(sent);
	for (uint64_t id = 0; id < sent; id++)
		EXPECT_COMPLETED(wcs[id], id, IBV_WC_RECV);
}

TEST_F(SrqSlotTest, ModifyTakesWhatItCanDo)
{
	constexpr int unknown = 1 << 2;

	EXPECT_EQ(modify(room + 1, 0, IBV_SRQ_LIMIT), EINVAL) << "never below it";
	EXPECT_EQ(modify(0, 2 * room, IBV_SRQ_MAX_WR), EOPNOTSUPP);
	EXPECT_EQ(modify(1, 2 * room, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), EOPNOTSUPP);
	EXPECT_EQ(modify(1, 0, IBV_SRQ_LIMIT | unknown), EOPNOTSUPP);
	EXPECT_EQ(query().srq_limit, 0u) << "what fails changes nothing";
	EXPECT_EQ(query().max_wr, room);
	EXPECT_FALSE(b.attributes().device_cap_flags & IBV_DEVICE_SRQ_RESIZE);

	Region to(b.pd(), 8 * 4 * room);
	EXPECT_EQ(fill(0, to), room);
	EXPECT_EQ(modify(room, 0, IBV_SRQ_LIMIT), 0) << "full: the limit may be all of it";
	EXPECT_EQ(query().srq_limit, room);
	EXPECT_FALSE(b.async_event(srq.get(), moment));
}

} // namespace
