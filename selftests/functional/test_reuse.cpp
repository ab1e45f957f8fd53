// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * A completion means it: a buffer that is overwritten the moment its work request completed never
 * changes what the peer receives. TCP may still have to send those bytes again, so packets get lost.
 */
#include "fixture.h"

namespace {

class ReuseTest : public VerbsTest, public testing::WithParamInterface<ibv_wr_opcode> {
protected:
	static constexpr std::size_t size = 1 << 20;
	/* Messages under way at once, each with a buffer of its own. */
	static constexpr unsigned window = 4;
};

TEST_P(ReuseTest, OverwrittenAtOnce)
{
	auto opcode = GetParam();
	auto total = rounds(1000);
	auto pair = connected();
	Region source(a.pd(), size * window), sink(b.pd(), size * window);
	/* Without segmentation offload each packet may be lost, not just each batch. */
	a.shell("ethtool -K " + a.netdev() + " tso off gso off > /dev/null");
	{
		Impairment at_a(a, "loss 1%"), at_b(b, "loss 1%");

		for (unsigned first = 0; first < total && !HasFailure(); first += window) {
			for (unsigned i = 0; i < window; i++) {
				auto at = i * size;
				fill_pattern(source.data() + at, size, first + i);
				ASSERT_EQ(pair.b->post_recv(first + i, opcode == IBV_WR_SEND
									       ? std::vector<ibv_sge>{sink.sge(at, size)}
									       : std::vector<ibv_sge>{}),
					  0);
				ASSERT_EQ(pair.a->post(opcode == IBV_WR_SEND
							       ? send_work(first + i, {source.sge(at, size)})
							       : write_work(first + i, {source.sge(at, size)},
									    sink.address(at), sink.rkey())),
					  0);
				if (opcode == IBV_WR_RDMA_WRITE) {
					ASSERT_EQ(pair.a->post(send_work(first + i, {}).unsignaled()), 0);
				}
			}
			for (unsigned i = 0; i < window; i++) {
				auto wc = pair.a->wait_send(1, verbs::milliseconds(60000))[0];
				ASSERT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
				ASSERT_EQ(wc.wr_id, first + i);
				std::memset(source.data() + i * size, 0xa5, size);
			}
			for (unsigned i = 0; i < window; i++) {
				auto wc = pair.b->wait_recv(1, verbs::milliseconds(60000))[0];
				ASSERT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
				ASSERT_EQ(wc.wr_id, first + i);
				EXPECT_EQ(differs_from_pattern(sink.data() + i * size, size, first + i), "")
					<< "message " << first + i;
			}
		}
	}
	a.shell("ethtool -K " + a.netdev() + " tso on gso on > /dev/null");
	EXPECT_EQ(source.harmed() + sink.harmed(), "");
}

TEST_P(ReuseTest, SmallOnesOverwrittenAtOnce)
{
	auto opcode = GetParam();
	auto pair = connected();
	constexpr std::size_t small = 1000, slots = 32;
	Region source(a.pd(), small * slots), sink(b.pd(), small * slots);
	Impairment at_a(a, "loss 2%");

	for (unsigned round = 0; round < rounds(50) && !HasFailure(); round++) {
		for (std::size_t i = 0; i < slots; i++) {
			auto at = i * small;
			auto id = round * slots + i;
			fill_pattern(source.data() + at, small, id);
			ASSERT_EQ(pair.b->post_recv(id, opcode == IBV_WR_SEND ? std::vector<ibv_sge>{sink.sge(at, small)}
									      : std::vector<ibv_sge>{}),
				  0);
			ASSERT_EQ(pair.a->post(opcode == IBV_WR_SEND
						       ? send_work(id, {source.sge(at, small)})
						       : write_work(id, {source.sge(at, small)}, sink.address(at),
								    sink.rkey())),
				  0);
			auto wc = pair.a->wait_send()[0];
			ASSERT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
			std::memset(source.data() + at, 0xa5, small);
			if (opcode == IBV_WR_RDMA_WRITE) {
				ASSERT_EQ(pair.a->post(send_work(id, {}).unsignaled()), 0);
			}
		}
		for (std::size_t i = 0; i < slots; i++) {
			auto wc = pair.b->wait_recv()[0];
			ASSERT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
			ASSERT_EQ(differs_from_pattern(sink.data() + i * small, small, round * slots + i), "");
		}
	}
}

std::string opcode_name(const testing::TestParamInfo<ibv_wr_opcode> &info)
{
	return info.param == IBV_WR_SEND ? "Send" : "Write";
}

INSTANTIATE_TEST_SUITE_P(Reuse, ReuseTest, testing::Values(IBV_WR_RDMA_WRITE, IBV_WR_SEND), opcode_name);

} // namespace
