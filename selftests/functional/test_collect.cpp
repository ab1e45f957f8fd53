// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Sends that the kernel collects (parameter "collect"): all go, in order, whatever comes between.
 */
#include <fstream>

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

	uint64_t counter(const std::string &name) const
	{
		uint64_t value = 0;
		std::ifstream(file("ports/1/hw_counters/" + name)) >> value;
		return value;
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
		auto rung = counter("sq_doorbells");
		auto avoided = counter("sq_doorbells_avoided");
		auto n = rounds(20);
		for (unsigned i = 0; i < n; i++)
			stream(pair, from, to, least << 16 | i);
		if (least == 127)
			continue;
		EXPECT_LT(counter("sq_doorbells") - rung, uint64_t{n} * depth);
		EXPECT_GT(counter("sq_doorbells_avoided"), avoided);
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

} // namespace
