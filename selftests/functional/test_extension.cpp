// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* RFC 7306: immediate data with Sends and Writes, and atomics. */
#include <arpa/inet.h>
#include <poll.h>

#include <atomic>
#include <thread>

#include "fixture.h"

namespace {

constexpr int all_rights = Region::all | IBV_ACCESS_REMOTE_ATOMIC;

Work with_imm(Work work, uint32_t imm)
{
	work.wr.opcode =
		work.wr.opcode == IBV_WR_SEND ? IBV_WR_SEND_WITH_IMM : IBV_WR_RDMA_WRITE_WITH_IMM;
	work.wr.imm_data = htonl(imm);
	return work;
}

Work atomic_work(ibv_wr_opcode opcode, uint64_t id, std::vector<ibv_sge> sges, uint64_t address,
		 uint32_t rkey, uint64_t compare_add, uint64_t swap = 0)
{
	Work work = read_work(id, std::move(sges), address, rkey);

	work.wr.opcode = opcode;
	work.wr.wr.atomic.remote_addr = address;
	work.wr.wr.atomic.rkey = rkey;
	work.wr.wr.atomic.compare_add = compare_add;
	work.wr.wr.atomic.swap = swap;
	return work;
}

uint64_t *word(const Region &region, std::size_t index = 0)
{
	return reinterpret_cast<uint64_t *>(region.data()) + index;
}

class ImmediateTest : public VerbsTest {
protected:
	void SetUp() override
	{
		PairConfig config;

		config.a.max_inline = a.max_inline();
		pair = connected(config);
		pair.a->host().discard_async_events();
	}

	Pair pair;
};

/* One receive per message, with data and immediate data, at sizes where segmentation changes. */
TEST_F(ImmediateTest, SendTakesOneReceive)
{
	for (std::size_t size : {0u, 1u, 7u, 8u, 64u, 1400u, 4096u, 65537u, 300000u}) {
		SCOPED_TRACE(size);
		Region here(a.pd(), std::max<std::size_t>(size, 1));
		Region there(b.pd(), std::max<std::size_t>(size, 1));

		here.fill(size);
		for (uint64_t id = 0; id < 3; id++)
			ASSERT_EQ(pair.b->post_recv(100 + id, {there.sge(0, size)}), 0);
		/* Between two that have none. */
		ASSERT_EQ(pair.a->post(send_work(1, {here.sge(0, size)})), 0);
		ASSERT_EQ(pair.a->post(with_imm(send_work(2, {here.sge(0, size)}), 0x01020304)), 0);
		ASSERT_EQ(pair.a->post(send_work(3, {here.sge(0, size)})), 0);
		auto sent = pair.a->wait_send(3);
		auto received = pair.b->wait_recv(3);
		for (uint64_t i = 0; i < 3; i++) {
			EXPECT_COMPLETED(sent[i], i + 1, IBV_WC_SEND);
			EXPECT_COMPLETED(received[i], 100 + i, IBV_WC_RECV);
			EXPECT_EQ(received[i].byte_len, size);
			EXPECT_EQ(received[i].wc_flags & IBV_WC_WITH_IMM,
				  i == 1 ? unsigned{IBV_WC_WITH_IMM} : 0u);
		}
		EXPECT_EQ(ntohl(received[1].imm_data), 0x01020304u);
		EXPECT_EQ(size ? differs_from_pattern(there.data(), size, size) : "", "");
	}
}

TEST_F(ImmediateTest, InlineSend)
{
	Region here(a.pd(), 64), there(b.pd(), 64);

	here.fill(1);
	ASSERT_EQ(pair.b->post_recv(9, {there.sge()}), 0);
	ASSERT_EQ(pair.a->post(
			  with_imm(send_work(1, {here.sge()}), 0xffffffff).flags(IBV_SEND_INLINE)),
		  0);
	EXPECT_COMPLETED(pair.a->wait_send()[0], 1, IBV_WC_SEND);
	auto wc = pair.b->wait_recv()[0];
	EXPECT_COMPLETED(wc, 9, IBV_WC_RECV);
	EXPECT_EQ(ntohl(wc.imm_data), 0xffffffffu);
	EXPECT_EQ(differs_from_pattern(there.data(), there.size(), 1), "");
}

/* The receive completes after the Write is placed, tells its length, and touches no memory itself.
 */
TEST_F(ImmediateTest, WriteTellsItsLength)
{
	for (std::size_t size : {0u, 1u, 8u, 1400u, 4096u, 65537u, 300000u}) {
		SCOPED_TRACE(size);
		Region here(a.pd(), std::max<std::size_t>(size, 1));
		Region there(b.pd(), std::max<std::size_t>(size, 1));
		Region unused(b.pd(), 100);

		here.fill(size);
		ASSERT_EQ(pair.b->post_recv(7, {unused.sge()}), 0);
		/* An ordinary Write before it, whose length is not to be counted. */
		ASSERT_EQ(pair.a->post(write_work(1, {here.sge(0, size)}, there.address(),
						  there.rkey())),
			  0);
		ASSERT_EQ(pair.a->post(with_imm(
				  write_work(2, {here.sge(0, size)}, there.address(), there.rkey()),
				  0xcafe)),
			  0);
		auto sent = pair.a->wait_send(2);
		EXPECT_COMPLETED(sent[1], 2, IBV_WC_RDMA_WRITE);
		auto wc = pair.b->wait_recv()[0];
		EXPECT_COMPLETED(wc, 7, IBV_WC_RECV_RDMA_WITH_IMM);
		EXPECT_EQ(wc.byte_len, size);
		EXPECT_EQ(wc.wc_flags & IBV_WC_WITH_IMM, unsigned{IBV_WC_WITH_IMM});
		EXPECT_EQ(ntohl(wc.imm_data), 0xcafeu);
		EXPECT_EQ(unused.touched(), "");
		EXPECT_EQ(size ? differs_from_pattern(there.data(), size, size) : "", "");
	}
}

/* A receive without a buffer will do for the immediate data of a Write. */
TEST_F(ImmediateTest, WriteNeedsNoBuffer)
{
	Region here(a.pd(), 64), there(b.pd(), 64);

	ASSERT_EQ(pair.b->post_recv(7), 0);
	ASSERT_EQ(pair.a->post(
			  with_imm(write_work(2, {here.sge()}, there.address(), there.rkey()), 1)),
		  0);
	EXPECT_COMPLETED(pair.b->wait_recv()[0], 7, IBV_WC_RECV_RDMA_WITH_IMM);
}

TEST_F(ImmediateTest, SolicitedEvent)
{
	Region here(a.pd(), 64), there(b.pd(), 64);
	auto quiet = [&] {
		pollfd fd{pair.b->recv_channel()->fd, POLLIN, 0};

		return ::poll(&fd, 1, 50) == 0;
	};

	for (bool write : {false, true}) {
		for (bool solicited : {false, true}) {
			auto work =
				write ? write_work(1, {here.sge()}, there.address(), there.rkey())
				      : send_work(1, {here.sge()});

			work = with_imm(work, 5);
			if (solicited)
				work.flags(IBV_SEND_SOLICITED);
			ASSERT_EQ(ibv_req_notify_cq(pair.b->recv_cq(), 1), 0);
			ASSERT_EQ(pair.b->post_recv(7, {there.sge()}), 0);
			ASSERT_EQ(pair.a->post(work), 0);
			pair.b->wait_recv();
			EXPECT_EQ(quiet(), !solicited) << "write " << write;
			if (solicited) {
				ibv_cq *cq;
				void *context;

				ASSERT_EQ(ibv_get_cq_event(pair.b->recv_channel(), &cq, &context),
					  0);
				ibv_ack_cq_events(cq, 1);
			}
		}
	}
}

/* Without a receive the connection ends, as for a Send. */
TEST_F(ImmediateTest, WithoutReceive)
{
	Region here(a.pd(), 64), there(b.pd(), 64);

	ASSERT_EQ(pair.a->post(
			  with_imm(write_work(2, {here.sge()}, there.address(), there.rkey()), 1)),
		  0);
	EXPECT_TRUE(pair.a->reaches(IBV_QPS_ERR));
	EXPECT_TRUE(pair.b->reaches(IBV_QPS_ERR));
}

class AtomicTest : public VerbsTest {
protected:
	static constexpr ibv_wr_opcode add = IBV_WR_ATOMIC_FETCH_AND_ADD;
	static constexpr ibv_wr_opcode swap = IBV_WR_ATOMIC_CMP_AND_SWP;

	void SetUp() override
	{
		a.discard_async_events();
		b.discard_async_events();
		pair = connected();
		here.emplace(a.pd(), 64);
		there.emplace(b.pd(), 64, all_rights);
	}

	Work work(ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap_with = 0,
		  std::size_t offset = 0)
	{
		return atomic_work(opcode, 1, {here->sge(0, 8)}, there->address(offset),
				   there->rkey(), compare_add, swap_with);
	}

	/* One operation. Returns what it brought back. */
	uint64_t run(ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap_with = 0)
	{
		EXPECT_EQ(pair.a->post(work(opcode, compare_add, swap_with)), 0);
		auto wc = pair.a->wait_send()[0];
		EXPECT_COMPLETED(wc, 1, opcode == add ? IBV_WC_FETCH_ADD : IBV_WC_COMP_SWAP);
		EXPECT_EQ(wc.byte_len, 8u);
		return *word(*here);
	}

	void expect_refused(const Work &bad)
	{
		auto before = *word(*there);

		ASSERT_EQ(pair.a->post(bad), 0);
		auto wc = pair.a->wait_send()[0];
		EXPECT_NE(wc.status, IBV_WC_SUCCESS);
		EXPECT_NE(wc.status, IBV_WC_WR_FLUSH_ERR) << "the work request itself is to blame";
		EXPECT_TRUE(pair.a->reaches(IBV_QPS_ERR));
		EXPECT_TRUE(pair.b->reaches(IBV_QPS_ERR));
		EXPECT_EQ(*word(*there), before);
	}

	Pair pair;
	std::optional<Region> here, there;
};

TEST_F(AtomicTest, IsAnnounced)
{
	ibv_device_attr attr{};

	ASSERT_EQ(ibv_query_device(a.context(), &attr), 0);
	EXPECT_EQ(attr.atomic_cap, IBV_ATOMIC_GLOB);
}

TEST_F(AtomicTest, FetchAdd)
{
	*word(*there) = 40;
	EXPECT_EQ(run(add, 2), 40u);
	EXPECT_EQ(run(add, 0), 42u);
	EXPECT_EQ(run(add, ~uint64_t{0}), 42u);
	EXPECT_EQ(*word(*there), 41u);
	*word(*there) = ~uint64_t{0};
	EXPECT_EQ(run(add, 1), ~uint64_t{0});
	EXPECT_EQ(*word(*there), 0u);
	*word(*there) = 0x0102030405060708;
	EXPECT_EQ(run(add, 0x1000000000000000), 0x0102030405060708u);
	EXPECT_EQ(*word(*there), 0x1102030405060708u);
}

TEST_F(AtomicTest, CompareSwap)
{
	*word(*there) = 5;
	EXPECT_EQ(run(swap, 6, 7), 5u);
	EXPECT_EQ(*word(*there), 5u);
	EXPECT_EQ(run(swap, 5, 7), 5u);
	EXPECT_EQ(*word(*there), 7u);
	EXPECT_EQ(run(swap, 7, ~uint64_t{0}), 7u);
	EXPECT_EQ(*word(*there), ~uint64_t{0});
}

/* The eight bytes may come back in pieces, and a longer buffer keeps the rest. */
TEST_F(AtomicTest, ResultInPieces)
{
	*word(*there) = 0x1122334455667788;
	std::memset(here->data(), 0xc5, 64);
	auto w = work(add, 1);
	w.sges = {here->sge(0, 3), here->sge(16, 1), here->sge(32, 20)};
	ASSERT_EQ(pair.a->post(w), 0);
	EXPECT_COMPLETED(pair.a->wait_send()[0], 1, IBV_WC_FETCH_ADD);
	unsigned char got[8];
	std::memcpy(got, here->data(), 3);
	got[3] = here->data()[16];
	std::memcpy(got + 4, here->data() + 32, 4);
	EXPECT_EQ(std::memcmp(got, "\x88\x77\x66\x55\x44\x33\x22\x11", 8), 0);
	EXPECT_EQ(here->data()[36], 0xc5);
}

TEST_F(AtomicTest, UnalignedIsRefused)
{
	for (std::size_t offset : {1u, 2u, 4u, 7u}) {
		SCOPED_TRACE(offset);
		pair = connected();
		expect_refused(work(add, 1, 0, offset));
	}
}

/* It is the memory that has to be aligned, not the address by which the peer names it. */
TEST_F(AtomicTest, AlignmentIsOfTheMemory)
{
	Region region(b.pd(), 64, all_rights | IBV_ACCESS_ZERO_BASED, 3);
	auto w = work(add, 1);

	std::memset(region.data(), 0, region.size());
	w.wr.wr.atomic.remote_addr = 5;
	w.wr.wr.atomic.rkey = region.rkey();
	ASSERT_EQ(pair.a->post(w), 0);
	EXPECT_COMPLETED(pair.a->wait_send()[0], 1, IBV_WC_FETCH_ADD);
	EXPECT_EQ(region.data()[5], 1);
	w.wr.wr.atomic.remote_addr = 8;
	expect_refused(w);
}

TEST_F(AtomicTest, NeedsTheRight)
{
	Region plain(b.pd(), 64);
	auto w = work(add, 1);

	w.wr.wr.atomic.remote_addr = plain.address();
	w.wr.wr.atomic.rkey = plain.rkey();
	expect_refused(w);
	EXPECT_EQ(plain.touched(), "");
}

TEST_F(AtomicTest, StaysInTheRegion)
{
	expect_refused(work(add, 1, 0, 64));
	pair = connected();
	auto w = work(swap, 1, 2);
	w.wr.wr.atomic.rkey ^= 1;
	expect_refused(w);
}

TEST_F(AtomicTest, SinkTooSmall)
{
	auto w = work(add, 1);

	*word(*there) = 3;
	w.sges = {here->sge(0, 7)};
	ASSERT_EQ(pair.a->post(w), 0);
	EXPECT_EQ(pair.a->wait_send()[0].status, IBV_WC_LOC_LEN_ERR);
	EXPECT_EQ(*word(*there), 3u);
}

TEST_F(AtomicTest, InlineIsRefused)
{
	EXPECT_EQ(pair.a->post(work(add, 1).flags(IBV_SEND_INLINE)), EINVAL);
}

/* Reads and atomics are answered in the order they were posted, and share the depth. */
TEST_F(AtomicTest, InOrderWithReads)
{
	Region values(a.pd(), 8 * 200);

	*word(*there) = 1000;
	for (uint64_t i = 0; i < 60; i += 2) {
		ASSERT_EQ(pair.a->post(read_work(i, {values.sge(8 * i, 8)}, there->address(),
						 there->rkey())),
			  0);
		ASSERT_EQ(pair.a->post(atomic_work(add, i + 1, {values.sge(8 * i + 8, 8)},
						   there->address(), there->rkey(), 1)),
			  0);
	}
	auto done = pair.a->wait_send(60);
	for (uint64_t i = 0; i < 60; i++) {
		EXPECT_COMPLETED(done[i], i, i % 2 ? IBV_WC_FETCH_ADD : IBV_WC_RDMA_READ);
		EXPECT_EQ(*word(values, i), 1000 + i / 2) << i;
	}
	EXPECT_EQ(*word(*there), 1030u);
}

/* Eight queue pairs from two hosts, and this host's own processor, at one counter. */
TEST_F(AtomicTest, ManyIncrementOneCounter)
{
	constexpr unsigned qps = 8;
	const unsigned each = rounds(100000);
	constexpr unsigned depth = 16;
	std::vector<Pair> pairs;
	std::vector<std::thread> threads;
	std::atomic<unsigned> bad{0};

	*word(*there) = 0;
	for (unsigned q = 0; q < qps; q++) {
		PairConfig config;

		config.active.family = default_family();
		/* The counter is b's: half of the peers are a, half are b itself. */
		pairs.push_back(q % 2 ? connect(b, b, config) : connect(a, b, config));
	}
	auto increment = [&](Endpoint &end) {
		Region result(end.host().pd(), 8 * depth);
		unsigned posted = 0, completed = 0;

		while (completed < each) {
			for (; posted < each && posted - completed < depth; posted++)
				if (end.post(atomic_work(add, posted,
							 {result.sge(8 * (posted % depth), 8)},
							 there->address(), there->rkey(), 1)))
					bad++;
			for (auto &wc : end.wait_send())
				if (wc.status != IBV_WC_SUCCESS || wc.wr_id != completed++)
					bad++;
			if (bad)
				return;
		}
	};
	for (auto &p : pairs)
		threads.emplace_back([&] { increment(*p.a); });
	std::atomic_ref<uint64_t> counter(*word(*there));
	for (unsigned i = 0; i < each; i++)
		counter.fetch_add(1);
	for (auto &t : threads)
		t.join();
	EXPECT_EQ(bad, 0u);
	EXPECT_EQ(*word(*there), uint64_t{qps + 1} * each);
}

} // namespace
