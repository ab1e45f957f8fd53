// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Posting call by call: ibv_wr_start() to ibv_wr_complete() or ibv_wr_abort(). */
#include <arpa/inet.h>

#include <atomic>
#include <thread>

#include "fixture.h"

namespace {

constexpr uint64_t all_ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
			     IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
			     IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
			     IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV |
			     IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_SEND_WITH_INV;

class WrTest : public VerbsTest {
protected:
	static constexpr std::size_t size = 8192;
	static constexpr int access = Region::all | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;

	void SetUp() override
	{
		PairConfig config;

		config.a.send_ops = config.b.send_ops = all_ops;
		config.a.send_wr = 16;
		/* A slot is free before its completion is polled: room for all of a test. */
		config.a.cq_entries = 16384;
		config.a.max_inline = a.max_inline();
		pair = connected(config);
		qp = pair.a->qp_ex();
		here.emplace(a.pd(), size, access);
		there.emplace(b.pd(), size, access);
		here->fill(1);
		there->clear();
	}

	void next(uint64_t id, unsigned flags = IBV_SEND_SIGNALED)
	{
		qp->wr_id = id;
		qp->wr_flags = flags;
	}

	void set(std::size_t offset, std::size_t length)
	{
		ibv_wr_set_sge(qp, here->lkey(), here->address(offset),
			       static_cast<uint32_t>(length));
	}

	/* Of a QP with the CQs of the pair's a. */
	ibv_qp_init_attr_ex attributes(uint32_t send_wr)
	{
		ibv_qp_init_attr_ex attr{};

		attr.qp_type = IBV_QPT_RC;
		attr.pd = a.pd();
		attr.send_cq = pair.a->send_cq();
		attr.recv_cq = pair.a->recv_cq();
		attr.cap = {send_wr, 1, 1, 1, 0};
		attr.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		return attr;
	}

	/* Nothing was posted: the next completion is that of what is posted now. */
	void expect_untouched()
	{
		synchronize(*pair.a, *pair.b);
		EXPECT_EQ(there->touched(), "");
	}

	Pair pair;
	ibv_qp_ex *qp = nullptr;
	std::optional<Region> here, there;
};

TEST_F(WrTest, EachOperationInOneBatch)
{
	ASSERT_NE(qp, nullptr);
	for (uint64_t id = 0; id < 3; id++)
		ASSERT_EQ(pair.b->post_recv(id, {there->sge(0, 100)}), 0);

	ibv_wr_start(qp);
	next(1);
	ibv_wr_rdma_write(qp, there->rkey(), there->address(1000));
	set(1000, 3000);
	next(2);
	ibv_wr_rdma_write_imm(qp, there->rkey(), there->address(4000), htonl(0x1234));
	set(4000, 96);
	next(3);
	ibv_wr_send(qp);
	set(0, 100);
	next(4);
	ibv_wr_send_imm(qp, htonl(0x5678));
	set(0, 50);
	next(5);
	ibv_wr_rdma_read(qp, there->rkey(), there->address(1000));
	set(5000, 200);
	next(6, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
	ibv_wr_rdma_write(qp, there->rkey(), there->address(6000));
	set(5000, 200);
	ASSERT_EQ(ibv_wr_complete(qp), 0);

	const ibv_wc_opcode opcodes[] = {IBV_WC_RDMA_WRITE, IBV_WC_RDMA_WRITE, IBV_WC_SEND,
					 IBV_WC_SEND,       IBV_WC_RDMA_READ,  IBV_WC_RDMA_WRITE};
	auto sent = pair.a->wait_send(6);
	for (unsigned i = 0; i < 6; i++)
		EXPECT_COMPLETED(sent[i], i + 1, opcodes[i]);
	auto got = pair.b->wait_recv(3);
	EXPECT_COMPLETED(got[0], 0, IBV_WC_RECV_RDMA_WITH_IMM);
	EXPECT_EQ(got[0].imm_data, htonl(0x1234));
	EXPECT_COMPLETED(got[1], 1, IBV_WC_RECV);
	EXPECT_EQ(got[1].byte_len, 100u);
	EXPECT_COMPLETED(got[2], 2, IBV_WC_RECV);
	EXPECT_EQ(got[2].imm_data, htonl(0x5678));
	EXPECT_EQ(got[2].byte_len, 50u);
	synchronize(*pair.a, *pair.b);
	EXPECT_EQ(differs_from_pattern(there->data() + 1000, 3096, 1, 1000), "");
	EXPECT_EQ(differs_from_pattern(there->data(), 100, 1), "");
	EXPECT_EQ(differs_from_pattern(here->data() + 5000, 200, 1, 1000), "");
	EXPECT_EQ(differs_from_pattern(there->data() + 6000, 200, 1, 1000), "");
}

TEST_F(WrTest, Atomics)
{
	auto *target = reinterpret_cast<uint64_t *>(there->data());
	auto *result = reinterpret_cast<uint64_t *>(here->data());

	*target = 40;
	ibv_wr_start(qp);
	next(1);
	ibv_wr_atomic_fetch_add(qp, there->rkey(), there->address(), 2);
	set(0, 8);
	next(2);
	ibv_wr_atomic_cmp_swp(qp, there->rkey(), there->address(), 42, 7);
	set(8, 8);
	ASSERT_EQ(ibv_wr_complete(qp), 0);
	auto sent = pair.a->wait_send(2);
	EXPECT_COMPLETED(sent[0], 1, IBV_WC_FETCH_ADD);
	EXPECT_COMPLETED(sent[1], 2, IBV_WC_COMP_SWAP);
	EXPECT_EQ(result[0], 40u);
	EXPECT_EQ(result[1], 42u);
	EXPECT_EQ(*target, 7u);
}

TEST_F(WrTest, BindsAndInvalidatesWindows)
{
	verbs::Mw mw(verbs::check(ibv_alloc_mw(a.pd(), IBV_MW_TYPE_2), "ibv_alloc_mw"));
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	ibv_mw_bind_info info{here->mr(), here->address(100), 1000, IBV_ACCESS_REMOTE_WRITE};

	ibv_wr_start(qp);
	next(1);
	ibv_wr_bind_mw(qp, mw.get(), rkey, &info);
	ASSERT_EQ(ibv_wr_complete(qp), 0);
	EXPECT_COMPLETED(pair.a->wait_send()[0], 1, IBV_WC_BIND_MW);

	/* The peer writes through it, and invalidates it; then it is bound and invalidated here. */
	there->fill(2);
	ASSERT_EQ(pair.a->post_recv(7), 0);
	auto *peer = pair.b->qp_ex();
	ibv_wr_start(peer);
	peer->wr_id = 2;
	peer->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(peer, rkey, here->address(100));
	ibv_wr_set_sge(peer, there->lkey(), there->address(), 1000);
	peer->wr_id = 3;
	ibv_wr_send_inv(peer, rkey);
	ASSERT_EQ(ibv_wr_complete(peer), 0);
	EXPECT_EQ(pair.b->wait_send(2)[1].status, IBV_WC_SUCCESS);
	auto wc = pair.a->wait_recv()[0];
	EXPECT_COMPLETED(wc, 7, IBV_WC_RECV);
	EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_INV);
	EXPECT_EQ(wc.invalidated_rkey, rkey);
	EXPECT_EQ(differs_from_pattern(here->data() + 100, 1000, 2), "");

	rkey = ibv_inc_rkey(rkey);
	ibv_wr_start(qp);
	next(4);
	ibv_wr_bind_mw(qp, mw.get(), rkey, &info);
	next(5);
	ibv_wr_local_inv(qp, rkey);
	ASSERT_EQ(ibv_wr_complete(qp), 0);
	auto sent = pair.a->wait_send(2);
	EXPECT_COMPLETED(sent[0], 4, IBV_WC_BIND_MW);
	EXPECT_COMPLETED(sent[1], 5, IBV_WC_LOCAL_INV);
}

TEST_F(WrTest, ListsAndInlineData)
{
	ibv_sge list[] = {here->sge(10, 20), here->sge(100, 30), here->sge(1000, 40)};
	unsigned char one[] = "one", two[] = "two and three";
	ibv_data_buf bufs[] = {{one, 3}, {nullptr, 0}, {two, 13}};

	ASSERT_EQ(pair.b->post_recv(1, {there->sge(0, 1000)}), 0);
	ASSERT_EQ(pair.b->post_recv(2, {there->sge(1000, 1000)}), 0);
	ASSERT_EQ(pair.b->post_recv(3, {there->sge(2000, 1000)}), 0);
	ASSERT_EQ(pair.b->post_recv(4), 0);
	ibv_wr_start(qp);
	next(1);
	ibv_wr_send(qp);
	ibv_wr_set_sge_list(qp, 3, list);
	next(2);
	ibv_wr_send(qp);
	ibv_wr_set_inline_data_list(qp, 3, bufs);
	next(3);
	ibv_wr_send(qp);
	ibv_wr_set_inline_data(qp, two, 13);
	next(4);
	ibv_wr_send(qp);
	/* Inline means that the buffer is free as soon as the call returns. */
	std::memset(two, 'x', sizeof(two));
	ASSERT_EQ(ibv_wr_complete(qp), 0);
	pair.a->wait_send(4);
	auto got = pair.b->wait_recv(4);
	EXPECT_EQ(got[0].byte_len, 90u);
	EXPECT_EQ(differs_from_pattern(there->data(), 20, 1, 10), "");
	EXPECT_EQ(differs_from_pattern(there->data() + 20, 30, 1, 100), "");
	EXPECT_EQ(differs_from_pattern(there->data() + 50, 40, 1, 1000), "");
	EXPECT_EQ(got[1].byte_len, 16u);
	EXPECT_EQ(std::memcmp(there->data() + 1000, "onetwo and three", 16), 0);
	EXPECT_EQ(got[2].byte_len, 13u);
	EXPECT_EQ(std::memcmp(there->data() + 2000, "two and three", 13), 0);
	EXPECT_EQ(got[3].byte_len, 0u);
}

/* Programs that know both interfaces carry their flags over. */
TEST_F(WrTest, InlineFlagSaysNothing)
{
	for (uint64_t id : {0, 1})
		ASSERT_EQ(pair.b->post_recv(id, {there->sge(id * 100, 100)}), 0);
	ibv_wr_start(qp);
	next(0, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
	ibv_wr_send(qp);
	set(0, 50);
	next(1, IBV_SEND_SIGNALED | IBV_SEND_INLINE);
	ibv_wr_send(qp);
	ibv_wr_set_inline_data(qp, here->data() + 50, 50);
	ASSERT_EQ(ibv_wr_complete(qp), 0);
	pair.a->wait_send(2);
	for (auto &wc : pair.b->wait_recv(2))
		EXPECT_EQ(wc.byte_len, 50u);
	EXPECT_EQ(std::memcmp(there->data(), here->data(), 50), 0);
	EXPECT_EQ(std::memcmp(there->data() + 100, here->data() + 50, 50), 0);
}

TEST_F(WrTest, AbortLeavesNothing)
{
	for (unsigned round = 0; round < 3; round++) {
		ibv_wr_start(qp);
		/* As many as there are slots, so that each of them was written to. */
		for (uint64_t id = 0; id < 16; id++) {
			next(id);
			ibv_wr_rdma_write(qp, there->rkey(), there->address());
			set(0, 100);
		}
		ibv_wr_abort(qp);
		expect_untouched();
	}
}

TEST_F(WrTest, MistakesShowAtTheEndAndPostNothing)
{
	verbs::Mw type1(verbs::check(ibv_alloc_mw(a.pd(), IBV_MW_TYPE_1), "ibv_alloc_mw"));
	ibv_mw_bind_info info{here->mr(), here->address(), 100, IBV_ACCESS_REMOTE_READ};
	std::vector<unsigned char> large(pair.a->max_inline() + 1);
	std::vector<ibv_sge> many(a.max_sge() + 1, here->sge(0, 1));
	struct {
		const char *what;
		int error;
		std::function<void()> make;
	} mistakes[] = {
		{"too much inline data", EINVAL,
		 [&] {
			 ibv_wr_send(qp);
			 ibv_wr_set_inline_data(qp, large.data(), large.size());
		 }},
		{"inline data in all", EINVAL,
		 [&] {
			 ibv_data_buf bufs[] = {{large.data(), large.size() - 1},
						{large.data(), 1}};
			 ibv_wr_send(qp);
			 ibv_wr_set_inline_data_list(qp, 2, bufs);
		 }},
		{"a length that wraps", EINVAL,
		 [&] {
			 ibv_data_buf bufs[] = {{large.data(), 1}, {large.data(), SIZE_MAX}};
			 ibv_wr_send(qp);
			 ibv_wr_set_inline_data_list(qp, 2, bufs);
		 }},
		{"too many entries", EINVAL,
		 [&] {
			 ibv_wr_send(qp);
			 ibv_wr_set_sge_list(qp, many.size(), many.data());
		 }},
		{"an inline read", EINVAL,
		 [&] {
			 ibv_wr_rdma_read(qp, there->rkey(), there->address());
			 ibv_wr_set_inline_data(qp, large.data(), 1);
		 }},
		{"data for an invalidation", EINVAL,
		 [&] {
			 ibv_wr_local_inv(qp, 0x1234);
			 set(0, 1);
		 }},
		{"a window of type 1", EINVAL,
		 [&] { ibv_wr_bind_mw(qp, type1.get(), ibv_inc_rkey(type1->rkey), &info); }},
		{"an unknown flag", EOPNOTSUPP,
		 [&] {
			 next(1, IBV_SEND_SIGNALED | IBV_SEND_IP_CSUM);
			 ibv_wr_send(qp);
		 }},
		{"segmentation offload", EOPNOTSUPP,
		 [&] { ibv_wr_send_tso(qp, large.data(), 10, 100); }},
		{"an address handle", EOPNOTSUPP,
		 [&] {
			 ibv_wr_send(qp);
			 ibv_wr_set_ud_addr(qp, nullptr, 1, 1);
		 }},
		{"a full queue", ENOMEM,
		 [&] {
			 for (unsigned i = 0; i < 16; i++) {
				 ibv_wr_rdma_write(qp, there->rkey(), there->address());
				 set(0, 1);
			 }
		 }},
	};

	for (auto &mistake : mistakes) {
		SCOPED_TRACE(mistake.what);
		ibv_wr_start(qp);
		next(1);
		ibv_wr_rdma_write(qp, there->rkey(), there->address());
		set(0, 100);
		mistake.make();
		/* What comes after it does no harm, nor does it good. */
		next(2);
		ibv_wr_rdma_write(qp, there->rkey(), there->address());
		set(0, 100);
		EXPECT_EQ(ibv_wr_complete(qp), mistake.error);
		expect_untouched();
	}

	ibv_wr_start(qp);
	set(0, 1);
	EXPECT_EQ(ibv_wr_complete(qp), EINVAL) << "data without an operation";
	ibv_wr_start(qp);
	EXPECT_EQ(ibv_wr_complete(qp), 0) << "nothing is no mistake";
	expect_untouched();
}

/* Threads that post in either way to one queue take turns, batch by batch. */
TEST_F(WrTest, ThreadsTakeTurns)
{
	const unsigned each = rounds(200);
	std::atomic<bool> stop{false};
	unsigned left = 0;
	auto batch = [&](uint64_t first) {
		for (unsigned i = 0; i < each && !stop; i++) {
			int rc;
			do {
				ibv_wr_start(qp);
				for (uint64_t part = 0; part < 3; part++) {
					next(first + part);
					ibv_wr_rdma_write(qp, there->rkey(), there->address());
					set(0, 10);
				}
				rc = ibv_wr_complete(qp);
				if (rc)
					std::this_thread::yield();
			} while (rc == ENOMEM && !stop);
			EXPECT_EQ(rc, 0);
		}
	};
	std::thread one(batch, 10), two(batch, 20), three([&] {
		for (unsigned i = 0; i < each && !stop; i++) {
			int rc;
			do {
				rc = pair.a->post(write_work(30, {here->sge(0, 10)},
							     there->address(), there->rkey()));
				if (rc)
					std::this_thread::yield();
			} while (rc == ENOMEM && !stop);
			EXPECT_EQ(rc, 0);
		}
	});

	try {
		for (left = 7 * each; left;) {
			auto wc = pair.a->wait_send()[0];
			left--;
			EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
			if (wc.wr_id == 30)
				continue;
			ASSERT_EQ(wc.wr_id % 10, 0u);
			auto first = wc.wr_id;
			for (uint64_t part = 1; part < 3; part++, left--)
				ASSERT_EQ(pair.a->wait_send()[0].wr_id, first + part);
		}
	} catch (const std::exception &e) {
		ADD_FAILURE() << e.what() << ", " << left << " left";
	}
	stop = true;
	one.join();
	two.join();
	three.join();
}

TEST_F(WrTest, OnlyWhatIsOfferedCanBeAskedFor)
{
	auto attr = attributes(1);

	for (auto op : {IBV_QP_EX_WITH_TSO, IBV_QP_EX_WITH_FLUSH, IBV_QP_EX_WITH_ATOMIC_WRITE}) {
		attr.send_ops_flags = IBV_QP_EX_WITH_SEND | op;
		errno = 0;
		EXPECT_EQ(ibv_create_qp_ex(a.context(), &attr), nullptr);
		EXPECT_EQ(errno, EOPNOTSUPP);
	}
	/* A QP that was not made for it has no such interface. */
	auto plain = connected();
	EXPECT_EQ(plain.a->qp_ex(), nullptr);
}

TEST_F(WrTest, NoneInReset)
{
	auto attr = attributes(4);

	attr.send_ops_flags = IBV_QP_EX_WITH_SEND;
	std::unique_ptr<ibv_qp, verbs::Destroy<ibv_destroy_qp>> fresh(
		verbs::check(ibv_create_qp_ex(a.context(), &attr), "ibv_create_qp_ex"));
	auto *ex = ibv_qp_to_qp_ex(fresh.get());
	ASSERT_NE(ex, nullptr);
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(ex);
	EXPECT_EQ(ibv_wr_complete(ex), EINVAL);
}

} // namespace
