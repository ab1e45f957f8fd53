// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * A completion means it: a buffer that is overwritten the moment its work request completed never
 * changes what the peer receives. TCP may still have to send those bytes again, so packets get
 * lost.
 */
#include <atomic>
#include <thread>

#include "fixture.h"

namespace {

/* A payload is known to be done by its own completion, or by that of what was posted after it. */
enum class Signal { payload, tail };

class ReuseTest : public VerbsTest,
		  public testing::WithParamInterface<std::tuple<ibv_wr_opcode, Signal>> {
protected:
	/* The payload in `source` goes to `sink`, and then a Send that tells the peer. */
	void post(Pair &pair, uint64_t id, ibv_sge source, Region &sink, std::size_t at)
	{
		auto [opcode, signal] = GetParam();
		std::vector<Work> works;

		if (opcode == IBV_WR_SEND) {
			ASSERT_EQ(pair.b->post_recv(id, {sink.sge(at, source.length)}), 0);
			works.push_back(send_work(id, {source}));
		} else {
			works.push_back(write_work(id, {source}, sink.address(at), sink.rkey()));
		}
		ASSERT_EQ(pair.b->post_recv(id), 0);
		works.push_back(send_work(id, {}));
		works[signal == Signal::payload ? 1 : 0].unsignaled();
		ASSERT_EQ(pair.a->post(works), 0);
	}

	void expect_sent(Pair &pair, uint64_t id)
	{
		auto wc = pair.a->wait_send(1, verbs::milliseconds(60000))[0];
		ASSERT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
		ASSERT_EQ(wc.wr_id, id);
	}

	void expect_received(Pair &pair, uint64_t id)
	{
		auto count = std::get<0>(GetParam()) == IBV_WR_SEND ? 2u : 1u;

		for (auto &wc : pair.b->wait_recv(count, verbs::milliseconds(60000))) {
			ASSERT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
			ASSERT_EQ(wc.wr_id, id);
		}
	}
};

class BothWaysTest : public VerbsTest {
protected:
	void SetUp() override
	{
		if (!steer(3))
			GTEST_SKIP() << "the kernel has one CPU, or no RPS";
	}
	void TearDown() override { steer(0); }

private:
	/* In a namespace /sys has its interfaces for who was begun there. */
	bool steer(unsigned cpus)
	{
		int rc = 0;

		for (auto *host : {&a, &b})
			rc |= ::shell("ip netns exec " + host->ns() + " sh -c 'echo " +
				      std::to_string(cpus) + " 2> /dev/null > /sys/class/net/" +
				      host->netdev() + "/queues/rx-0/rps_cpus' 2> /dev/null");
		return rc == 0;
	}
};

TEST_P(ReuseTest, OverwrittenAtOnce)
{
	constexpr std::size_t size = 1 << 20;
	/* Messages under way at once, each with a buffer of its own. */
	constexpr unsigned window = 4;
	/* One of the four shows it in full length; their payloads go out in the same way. */
	auto full = GetParam() == std::tuple(IBV_WR_RDMA_WRITE, Signal::payload);
	auto total = rounds(full ? 1000 : 200);
	auto pair = connected();
	Region source(a.pd(), size * window), sink(b.pd(), size * window);
	/* Without segmentation offload each packet may be lost, not just each batch. */
	a.shell("ethtool -K " + a.netdev() + " tso off gso off > /dev/null");
	{
		Impairment at_a(a, "loss 1%"), at_b(b, "loss 1%");

		for (unsigned first = 0; first < total && !HasFailure(); first += window) {
			for (unsigned i = 0; i < window; i++) {
				fill_pattern(source.data() + i * size, size, first + i);
				post(pair, first + i, source.sge(i * size, size), sink, i * size);
			}
			for (unsigned i = 0; i < window; i++) {
				expect_sent(pair, first + i);
				std::memset(source.data() + i * size, 0xa5, size);
			}
			for (unsigned i = 0; i < window; i++) {
				expect_received(pair, first + i);
				EXPECT_EQ(differs_from_pattern(sink.data() + i * size, size,
							       first + i),
					  "")
					<< "message " << first + i;
			}
		}
	}
	a.shell("ethtool -K " + a.netdev() + " tso on gso on > /dev/null");
	EXPECT_EQ(source.harmed() + sink.harmed(), "");
}

/*
 * Nothing is lost, but on one machine the receiver may still be copying from the very pages that
 * the sender's TCP got acknowledged: that is no completion either.
 */
TEST_P(ReuseTest, OverwrittenWithoutLoss)
{
	constexpr std::size_t size = 200000;
	auto pair = connected();
	Region source(a.pd(), size), sink(b.pd(), size);
	auto deadline = verbs::Clock::now() + verbs::milliseconds(60000);

	for (unsigned id = 0; id < rounds(2000) && !HasFailure(); id++) {
		ASSERT_LT(verbs::Clock::now(), deadline);
		fill_pattern(source.data(), size, id);
		post(pair, id, source.sge(), sink, 0);
		/* No yielding: the other CPU is the receiver's. */
		ibv_wc wc;
		while (!ibv_poll_cq(pair.a->send_cq(), 1, &wc))
			ASSERT_LT(verbs::Clock::now(), deadline);
		std::memset(source.data(), 0xa5, size);
		ASSERT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
		expect_received(pair, id);
		ASSERT_EQ(differs_from_pattern(sink.data(), size, id), "") << "message " << id;
	}
}

/*
 * Both ends send, and packets go from one CPU to another (RPS): what acknowledges a segment may be
 * handled while its data is copied.
 */
TEST_F(BothWaysTest, OverwrittenAtOnce)
{
	constexpr std::size_t size = 200000;
	auto pair = connected();
	auto deadline = verbs::Clock::now() + verbs::milliseconds(60000);
	std::atomic<bool> failed{false};
	auto one_way = [&](Endpoint &from, Endpoint &to, uint64_t seed) {
		Region source(from.host().pd(), size), sink(to.host().pd(), size);
		for (uint64_t id = 0; id < rounds(500) && !failed; id++) {
			std::vector<Work> works{
				write_work(id, {source.sge()}, sink.address(), sink.rkey()),
				send_work(id, {}).unsignaled()};
			ibv_wc sent{}, received{};
			fill_pattern(source.data(), size, seed + id);
			if (to.post_recv(id) || from.post(works))
				throw std::runtime_error("cannot post");
			while (!ibv_poll_cq(from.send_cq(), 1, &sent) &&
			       verbs::Clock::now() < deadline)
				;
			std::memset(source.data(), 0xa5, size);
			while (!ibv_poll_cq(to.recv_cq(), 1, &received) &&
			       verbs::Clock::now() < deadline)
				;
			auto differs = differs_from_pattern(sink.data(), size, seed + id);
			if (sent.status || received.status || differs != "") {
				failed = true;
				ADD_FAILURE()
					<< "message " << id << ": "
					<< ibv_wc_status_str(sent.status) << ", "
					<< ibv_wc_status_str(received.status) << ", " << differs;
			}
			failed = failed || verbs::Clock::now() >= deadline;
		}
	};

	std::thread back([&] { one_way(*pair.b, *pair.a, 1ull << 32); });
	one_way(*pair.a, *pair.b, 0);
	back.join();
	EXPECT_LT(verbs::Clock::now(), deadline);
}

TEST_P(ReuseTest, SmallOnesOverwrittenAtOnce)
{
	constexpr std::size_t small = 1000, slots = 30;
	auto pair = connected();
	Region source(a.pd(), small * slots), sink(b.pd(), small * slots);
	Impairment at_a(a, "loss 2%");

	for (unsigned round = 0; round < rounds(50) && !HasFailure(); round++) {
		for (std::size_t i = 0; i < slots; i++) {
			auto at = i * small, id = round * slots + i;
			fill_pattern(source.data() + at, small, id);
			post(pair, id, source.sge(at, small), sink, at);
			expect_sent(pair, id);
			std::memset(source.data() + at, 0xa5, small);
		}
		for (std::size_t i = 0; i < slots; i++) {
			auto id = round * slots + i;
			expect_received(pair, id);
			ASSERT_EQ(differs_from_pattern(sink.data() + i * small, small, id), "");
		}
	}
}

std::string reuse_name(const testing::TestParamInfo<std::tuple<ibv_wr_opcode, Signal>> &info)
{
	return std::string(std::get<0>(info.param) == IBV_WR_SEND ? "Send" : "Write") +
	       (std::get<1>(info.param) == Signal::payload ? "" : "SignaledByNext");
}

INSTANTIATE_TEST_SUITE_P(Reuse, ReuseTest,
			 testing::Combine(testing::Values(IBV_WR_RDMA_WRITE, IBV_WR_SEND),
					  testing::Values(Signal::payload, Signal::tail)),
			 reuse_name);

} // namespace
