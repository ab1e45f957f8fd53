// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Memory fails under traffic: it goes on or ends with an error, and what arrives is right. */
#include "faults.h"

namespace {

constexpr verbs::milliseconds bounded{30000};

class DataFaultTest : public VerbsTest {
protected:
	static constexpr std::size_t size = 100000;

	DataFaultTest() : from(a.pd(), size), to(b.pd(), size) {}

	/* One Write, one Send, one Read, of a pattern of its own. False: the connection has ended.
	 */
	bool round(Pair &pair, uint64_t seed)
	{
		from.fill(seed);
		to.clear();
		if (!complete(*pair.a, write_work(1, {from.sge()}, to.address(), to.rkey())))
			return false;
		/* What comes after a Write says that it has been placed. */
		EXPECT_EQ(pair.b->post_recv(2, {}), 0);
		if (!complete(*pair.a, send_work(2, {})) || !received(*pair.b))
			return false;
		EXPECT_EQ(differs_from_pattern(to.data(), size, seed), "")
			<< "Write, seed " << seed;

		to.clear();
		EXPECT_EQ(pair.b->post_recv(3, {to.sge()}), 0);
		if (!complete(*pair.a, send_work(3, {from.sge()})) || !received(*pair.b))
			return false;
		EXPECT_EQ(differs_from_pattern(to.data(), size, seed), "") << "Send, seed " << seed;

		to.fill(seed + 1);
		from.clear();
		if (!complete(*pair.a, read_work(4, {from.sge()}, to.address(), to.rkey())))
			return false;
		EXPECT_EQ(differs_from_pattern(from.data(), size, seed + 1), "")
			<< "Read, seed " << seed;
		return true;
	}

	Region from, to;

private:
	/* What is posted is done once: a post that fails would be made again. */
	static bool complete(Endpoint &end, Work work)
	{
		auto id = work.wr.wr_id;

		EXPECT_EQ(end.post(std::move(work)), 0);
		auto wc = end.wait_send(1, bounded)[0];
		EXPECT_EQ(wc.wr_id, id);
		return wc.status == IBV_WC_SUCCESS;
	}
	static bool received(Endpoint &end)
	{
		return end.wait_recv(1, bounded)[0].status == IBV_WC_SUCCESS;
	}
};

/* Each allocation of the call that posts. */
TEST_F(DataFaultTest, Post)
{
	auto pair = connected();
	NoCopyFaults filter;

	for (unsigned n = 1;; n++) {
		from.fill(n);
		to.clear();
		ASSERT_EQ(pair.b->post_recv(n, {to.sge()}), 0);
		NthFault fault(n);
		int rc = pair.a->post(send_work(n, {from.sge()}));
		bool met = fault.disarm();
		ASSERT_EQ(rc, 0) << "fault " << n;
		EXPECT_EQ(pair.a->wait_send(1, bounded)[0].status, IBV_WC_SUCCESS) << "fault " << n;
		EXPECT_EQ(pair.b->wait_recv(1, bounded)[0].status, IBV_WC_SUCCESS) << "fault " << n;
		EXPECT_EQ(differs_from_pattern(to.data(), size, n), "") << "fault " << n;
		if (!met) {
			std::printf("# post: %u allocations\n", n - 1);
			break;
		}
	}
	ibv_wc more;
	EXPECT_EQ(ibv_poll_cq(pair.a->send_cq(), 1, &more), 0) << "something was sent twice";
}

/* Allocations of ziw, and of TCP on its behalf. */
TEST_F(DataFaultTest, BelowZiwAtRandom)
{
	for (unsigned percent : {1, 10, 40}) {
		auto pair = connected();
		unsigned ended = 0, count = rounds(30);
		BelowZiw filter;
		RandomFaults faults(percent);

		for (unsigned i = 0; i < count; i++)
			if (!round(pair, random())) {
				ended++;
				break;
			}
		std::printf("# %u %%: %s\n", percent,
			    ended ? "the connection ended" : "the connection stood it");
	}
	auto pair = connected();
	EXPECT_TRUE(round(pair, 1));
}

/* Every page and object of the kernel, but few: the network's own packets are lost as well. */
TEST_F(DataFaultTest, EverywhereAtRandom)
{
	auto pair = connected();
	unsigned i, count = rounds(30);
	{
		RandomFaults faults(1);
		for (i = 0; i < count; i++)
			if (!round(pair, random()))
				break;
	}
	std::printf("# %u of %u rounds under faults everywhere\n", i, count);
	auto fresh = connected();
	EXPECT_TRUE(round(fresh, 1));
}

} // namespace
