// SPDX-License-Identifier: GPL-2.0
/* Posting by kernel consumers: what becomes of a send work request in the ring. */
#include "fixture.h"

#define SENDS	4
#define SGES	4
/* A kernel consumer gets as many as make a large FPDU. */
#define GRANTED_SGES	15
#define INLINE	64

/* A QP in INIT: what is posted stays in the ring. */
static struct ziw_qp *qp_make(struct kunit *test, enum ib_sig_type sig_type)
{
	const struct ib_qp_init_attr init = {
		.cap = {
			.max_send_wr	= SENDS,
			.max_send_sge	= SGES,
			.max_inline_data = INLINE,
		},
		.sq_sig_type = sig_type,
	};
	struct ib_qp_attr attr = { .qp_state = IB_QPS_INIT };
	struct ib_qp *ibqp = fixture_qp(test, NULL, &init)->ibqp;

	KUNIT_ASSERT_EQ(test, ib_modify_qp(ibqp, &attr, IB_QP_STATE), 0);
	return to_ziw_qp(ibqp);
}

/* The oldest request, consumed; what it says can be read until the ring comes around. */
static const struct ziw_sq_wqe *take(struct ziw_qp *qp)
{
	struct ziw_ring *ring = &qp->sq.ring;
	const struct ziw_sq_wqe *wqe = ziw_ring_slot(ring, ring->index);

	if (!ziw_ring_filled(ring, ring->index))
		return NULL;
	spin_lock_bh(&qp->lock);
	qp->sq.next++;
	ziw_ring_consume(ring, ring->index + 1);
	spin_unlock_bh(&qp->lock);
	return wqe;
}

/* Every kind of request has the fields of all of them, so that one can stand for any. */
static union any_wr {
	struct ib_send_wr	wr;
	struct ib_rdma_wr	rdma;
	struct ib_reg_wr	reg;
	struct ib_atomic_wr	atomic;
	struct ib_ud_wr		ud;
} any;

static void post_opcodes(struct kunit *test)
{
	static const struct { enum ib_wr_opcode wr; u8 wqe; } rows[] = {
		{ IB_WR_SEND, ZIW_OP_SEND },
		{ IB_WR_SEND_WITH_INV, ZIW_OP_SEND_INV },
		{ IB_WR_SEND_WITH_IMM, ZIW_OP_SEND_IMM },
		{ IB_WR_RDMA_WRITE, ZIW_OP_WRITE },
		{ IB_WR_RDMA_WRITE_WITH_IMM, ZIW_OP_WRITE_IMM },
		{ IB_WR_RDMA_READ, ZIW_OP_READ },
		{ IB_WR_ATOMIC_CMP_AND_SWP, ZIW_OP_CMP_SWAP },
		{ IB_WR_ATOMIC_FETCH_AND_ADD, ZIW_OP_FETCH_ADD },
		{ IB_WR_MASKED_ATOMIC_CMP_AND_SWP, ZIW_OP_CMP_SWAP },
		{ IB_WR_MASKED_ATOMIC_FETCH_AND_ADD, ZIW_OP_FETCH_ADD },
		{ IB_WR_RDMA_READ_WITH_INV, ZIW_OP_READ_INV },
		{ IB_WR_LOCAL_INV, ZIW_OP_LOCAL_INV },
		{ IB_WR_REG_MR, ZIW_OP_REG_MR },
	};
	struct ziw_qp *qp = qp_make(test, IB_SIGNAL_REQ_WR);
	int opcode, i;

	for (opcode = 0; opcode <= 0x100; opcode++) {
		const struct ib_send_wr *bad = NULL;
		const struct ziw_sq_wqe *wqe;
		int want = -1, err;

		for (i = 0; i < ARRAY_SIZE(rows); i++)
			if (rows[i].wr == opcode)
				want = rows[i].wqe;
		memset(&any, 0, sizeof(any));
		any.wr.opcode = opcode;
		err = ib_post_send(&qp->ibqp, &any.wr, &bad);
		wqe = take(qp);
		KUNIT_EXPECT_EQ_MSG(test, err, want < 0 ? -EOPNOTSUPP : 0, "opcode %#x", opcode);
		KUNIT_EXPECT_PTR_EQ_MSG(test, bad, want < 0 ? &any.wr : NULL, "opcode %#x", opcode);
		KUNIT_EXPECT_EQ_MSG(test, !wqe, want < 0, "opcode %#x", opcode);
		if (wqe)
			KUNIT_EXPECT_EQ_MSG(test, wqe->opcode, want, "opcode %#x", opcode);
	}
}

static void expect_sges(struct kunit *test, const struct ziw_sq_wqe *wqe, const struct ib_sge *sge,
			int num)
{
	int i;

	KUNIT_ASSERT_EQ(test, wqe->num_sge, num);
	KUNIT_EXPECT_EQ(test, wqe->inline_len, 0);
	for (i = 0; i < num; i++) {
		KUNIT_EXPECT_EQ(test, wqe->sge[i].addr, sge[i].addr);
		KUNIT_EXPECT_EQ(test, wqe->sge[i].length, sge[i].length);
		KUNIT_EXPECT_EQ(test, wqe->sge[i].lkey, sge[i].lkey);
	}
}

static void post_content(struct kunit *test)
{
	static const struct { enum ib_wr_opcode opcode; bool rdma, ex; } rows[] = {
		{ IB_WR_SEND, false, false },
		{ IB_WR_SEND_WITH_INV, false, true },
		{ IB_WR_SEND_WITH_IMM, false, true },
		{ IB_WR_RDMA_WRITE, true, false },
		{ IB_WR_RDMA_WRITE_WITH_IMM, true, true },
		{ IB_WR_RDMA_READ, true, false },
		{ IB_WR_RDMA_READ_WITH_INV, true, false },
	};
	struct ib_sge sge[SGES] = {
		{ .addr = 0x1000, .length = 1, .lkey = 0x11111111 },
		{ .addr = U64_MAX, .length = U32_MAX, .lkey = 0 },
		{ .addr = 0, .length = 0, .lkey = 0x33333333 },
		{ .addr = 0x123456789abcdef0, .length = 0x80000000, .lkey = U32_MAX },
	};
	struct ziw_qp *qp = qp_make(test, IB_SIGNAL_REQ_WR);
	const struct ziw_sq_wqe *wqe;
	int i, num;

	for (i = 0; i < ARRAY_SIZE(rows); i++)
		for (num = 0; num <= SGES; num++) {
			memset(&any, 0, sizeof(any));
			any.wr.opcode = rows[i].opcode;
			any.wr.wr_id = 0xfedcba9876543210;
			any.wr.sg_list = sge;
			any.wr.num_sge = num;
			/* Also the STag, by its union. */
			any.wr.ex.imm_data = (__force __be32)0x66778899;
			if (rows[i].rdma) {
				any.rdma.remote_addr = 0xaabbccddeeff0011;
				any.rdma.rkey = 0x22334455;
			}
			KUNIT_ASSERT_EQ(test, ib_post_send(&qp->ibqp, &any.wr, NULL), 0);
			wqe = take(qp);
			KUNIT_ASSERT_NOT_NULL(test, wqe);
			KUNIT_EXPECT_EQ(test, wqe->wr_id, 0xfedcba9876543210);
			KUNIT_EXPECT_EQ(test, wqe->flags, 0);
			KUNIT_EXPECT_EQ(test, wqe->remote_addr,
					rows[i].rdma ? 0xaabbccddeeff0011 : 0);
			KUNIT_EXPECT_EQ(test, wqe->rkey, rows[i].rdma ? 0x22334455 : 0);
			/* A Read with Invalidate invalidates where it puts the data. */
			if (rows[i].opcode == IB_WR_RDMA_READ_WITH_INV)
				KUNIT_EXPECT_EQ(test, wqe->ex, num ? sge[0].lkey : 0);
			else
				KUNIT_EXPECT_EQ(test, wqe->ex, rows[i].ex ? 0x66778899 : 0);
			expect_sges(test, wqe, sge, num);
		}
}

static void post_atomics(struct kunit *test)
{
	static const struct { enum ib_wr_opcode opcode; bool masked; } rows[] = {
		{ IB_WR_ATOMIC_CMP_AND_SWP, false },
		{ IB_WR_ATOMIC_FETCH_AND_ADD, false },
		{ IB_WR_MASKED_ATOMIC_CMP_AND_SWP, true },
		{ IB_WR_MASKED_ATOMIC_FETCH_AND_ADD, true },
	};
	struct ib_sge sge = { .addr = 0x2000, .length = 8, .lkey = 0x11111111 };
	struct ziw_qp *qp = qp_make(test, IB_SIGNAL_REQ_WR);
	const struct ziw_sq_wqe *wqe;
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		memset(&any, 0, sizeof(any));
		any.wr.opcode = rows[i].opcode;
		any.wr.sg_list = &sge;
		any.wr.num_sge = 1;
		/* What comes back cannot be inline. */
		any.wr.send_flags = IB_SEND_INLINE;
		any.atomic.remote_addr = 0xaabbccddeeff0018;
		any.atomic.rkey = 0x22334455;
		any.atomic.compare_add = 0x0101010101010101;
		any.atomic.swap = 0x0202020202020202;
		any.atomic.compare_add_mask = 0x0303030303030303;
		any.atomic.swap_mask = 0x0404040404040404;
		KUNIT_ASSERT_EQ(test, ib_post_send(&qp->ibqp, &any.wr, NULL), 0);
		wqe = take(qp);
		KUNIT_ASSERT_NOT_NULL(test, wqe);
		KUNIT_EXPECT_EQ_MSG(test, wqe->flags, rows[i].masked ? ZIW_WQE_MASKED : 0, "row %d",
				    i);
		KUNIT_EXPECT_EQ(test, wqe->remote_addr, 0xaabbccddeeff0018);
		KUNIT_EXPECT_EQ(test, wqe->rkey, 0x22334455);
		KUNIT_EXPECT_EQ(test, wqe->compare_add, 0x0101010101010101);
		KUNIT_EXPECT_EQ(test, wqe->swap, 0x0202020202020202);
		KUNIT_EXPECT_EQ(test, wqe->compare_add_mask,
				rows[i].masked ? 0x0303030303030303 : 0);
		KUNIT_EXPECT_EQ(test, wqe->swap_mask, rows[i].masked ? 0x0404040404040404 : 0);
		expect_sges(test, wqe, &sge, 1);
	}
}

static void post_local(struct kunit *test)
{
	struct ziw_qp *qp = qp_make(test, IB_SIGNAL_REQ_WR);
	struct ziw_mr *mr = fixture_fast_mr(test, qp->ibqp.pd, 1);
	const struct ziw_sq_wqe *wqe;

	memset(&any, 0, sizeof(any));
	any.reg.wr.opcode = IB_WR_REG_MR;
	any.reg.mr = &mr->ibmr;
	any.reg.key = 0x87654321;
	any.reg.access = ALL_ACCESS;
	KUNIT_ASSERT_EQ(test, ib_post_send(&qp->ibqp, &any.wr, NULL), 0);
	wqe = take(qp);
	KUNIT_ASSERT_NOT_NULL(test, wqe);
	KUNIT_EXPECT_EQ(test, wqe->remote_addr, (uintptr_t)&mr->ibmr);
	KUNIT_EXPECT_EQ(test, wqe->rkey, 0x87654321);
	KUNIT_EXPECT_EQ(test, wqe->ex, ALL_ACCESS);
	KUNIT_EXPECT_EQ(test, wqe->num_sge, 0);

	memset(&any, 0, sizeof(any));
	any.wr.opcode = IB_WR_LOCAL_INV;
	any.wr.ex.invalidate_rkey = 0x13572468;
	KUNIT_ASSERT_EQ(test, ib_post_send(&qp->ibqp, &any.wr, NULL), 0);
	wqe = take(qp);
	KUNIT_ASSERT_NOT_NULL(test, wqe);
	KUNIT_EXPECT_EQ(test, wqe->ex, 0x13572468);
	KUNIT_EXPECT_EQ(test, wqe->num_sge, 0);
}

static void post_flags(struct kunit *test)
{
	static const struct { int send, wqe; } flags[] = {
		{ IB_SEND_SIGNALED, ZIW_WQE_SIGNALED },
		{ IB_SEND_SOLICITED, ZIW_WQE_SOLICITED },
		{ IB_SEND_FENCE, ZIW_WQE_FENCE },
		{ IB_SEND_INLINE, ZIW_WQE_INLINE },
	};
	struct ziw_qp *qps[] = {
		qp_make(test, IB_SIGNAL_REQ_WR), qp_make(test, IB_SIGNAL_ALL_WR),
	};
	int all, set, i;

	for (all = 0; all < 2; all++)
		for (set = 0; set < BIT(ARRAY_SIZE(flags)); set++) {
			struct ib_send_wr wr = { .opcode = IB_WR_SEND };
			int want = all ? ZIW_WQE_SIGNALED : 0;
			const struct ziw_sq_wqe *wqe;

			for (i = 0; i < ARRAY_SIZE(flags); i++)
				if (set & BIT(i)) {
					wr.send_flags |= flags[i].send;
					want |= flags[i].wqe;
				}
			KUNIT_ASSERT_EQ(test, ib_post_send(&qps[all]->ibqp, &wr, NULL), 0);
			wqe = take(qps[all]);
			KUNIT_ASSERT_NOT_NULL(test, wqe);
			KUNIT_EXPECT_EQ_MSG(test, wqe->flags, want, "flags %#x, all signalled: %d",
					    wr.send_flags, all);
		}
}

static void post_sge_count(struct kunit *test)
{
	static const struct { enum ib_wr_opcode opcode; int flags, num, err; } rows[] = {
		{ IB_WR_SEND, 0, GRANTED_SGES, 0 },
		{ IB_WR_SEND, 0, GRANTED_SGES + 1, -EINVAL },
		{ IB_WR_SEND, 0, 256, -EINVAL },
		{ IB_WR_SEND, 0, 65536, -EINVAL },
		{ IB_WR_SEND, 0, -1, -EINVAL },
		{ IB_WR_SEND, 0, INT_MIN, -EINVAL },
		{ IB_WR_SEND, IB_SEND_INLINE, -1, -EINVAL },
		{ IB_WR_RDMA_WRITE, 0, GRANTED_SGES + 1, -EINVAL },
		{ IB_WR_RDMA_WRITE, 0, -1, -EINVAL },
		{ IB_WR_RDMA_READ, 0, GRANTED_SGES, 0 },
		{ IB_WR_RDMA_READ, 0, GRANTED_SGES + 1, -EINVAL },
		{ IB_WR_RDMA_READ, IB_SEND_INLINE, GRANTED_SGES + 1, -EINVAL },
		{ IB_WR_RDMA_READ, 0, -1, -EINVAL },
	};
	static struct ib_sge sge[GRANTED_SGES + 1];
	struct ziw_qp *qp = qp_make(test, IB_SIGNAL_REQ_WR);
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		const struct ib_send_wr *bad = NULL;

		memset(&any, 0, sizeof(any));
		any.wr.opcode = rows[i].opcode;
		any.wr.send_flags = rows[i].flags;
		any.wr.num_sge = rows[i].num;
		any.wr.sg_list = sge;
		KUNIT_EXPECT_EQ_MSG(test, ib_post_send(&qp->ibqp, &any.wr, &bad), rows[i].err,
				    "row %d", i);
		KUNIT_EXPECT_PTR_EQ_MSG(test, bad, rows[i].err ? &any.wr : NULL, "row %d", i);
		KUNIT_EXPECT_EQ_MSG(test, !take(qp), !!rows[i].err, "row %d", i);
	}
}

static void post_inline(struct kunit *test)
{
	struct ziw_qp *qp = qp_make(test, IB_SIGNAL_REQ_WR);
	u32 max = qp->sq.limits.max_inline;
	const struct { u32 len[SGES]; int num; int err; } rows[] = {
		{ { 0 }, 0, 0 },
		{ { 0 }, 1, 0 },
		{ { 1 }, 1, 0 },
		{ { max }, 1, 0 },
		{ { max + 1 }, 1, -EINVAL },
		{ { 1, 2, 3, 4 }, 4, 0 },
		{ { max - 3, 0, 1, 2 }, 4, 0 },
		{ { max - 3, 0, 1, 3 }, 4, -EINVAL },
		{ { max, 1 }, 2, -EINVAL },
		{ { U32_MAX }, 1, -EINVAL },
		{ { 8, U32_MAX }, 2, -EINVAL },
		{ { 8, U32_MAX - 7 }, 2, -EINVAL },
	};
	u8 *data = kunit_kzalloc(test, SGES * (max + 1), GFP_KERNEL);
	int i, j;

	KUNIT_ASSERT_NOT_NULL(test, data);
	KUNIT_EXPECT_GE(test, max, INLINE);
	get_random_bytes(data, SGES * (max + 1));
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ib_sge sge[SGES] = {};
		struct ib_send_wr wr = {
			.opcode		= IB_WR_SEND,
			.send_flags	= IB_SEND_INLINE,
			.sg_list	= sge,
			.num_sge	= rows[i].num,
		};
		const struct ziw_sq_wqe *wqe;
		u32 at = 0;

		/* The lkey is not looked at. */
		for (j = 0; j < rows[i].num; j++) {
			sge[j].addr = (uintptr_t)data + j * (max + 1);
			sge[j].length = rows[i].len[j];
			sge[j].lkey = 0xdead;
		}
		KUNIT_EXPECT_EQ_MSG(test, ib_post_send(&qp->ibqp, &wr, NULL), rows[i].err,
				    "row %d", i);
		wqe = take(qp);
		KUNIT_EXPECT_EQ_MSG(test, !wqe, !!rows[i].err, "row %d", i);
		if (!wqe)
			continue;
		for (j = 0; j < rows[i].num; j++) {
			KUNIT_EXPECT_MEMEQ_MSG(test, (u8 *)wqe->sge + at, data + j * (max + 1),
					       rows[i].len[j], "row %d, piece %d", i, j);
			at += rows[i].len[j];
		}
		KUNIT_EXPECT_EQ_MSG(test, wqe->inline_len, at, "row %d", i);
		KUNIT_EXPECT_EQ(test, wqe->num_sge, 0);
	}
}

static void post_inline_read(struct kunit *test)
{
	struct ib_sge sge = { .addr = 0x1000, .length = 5, .lkey = 7 };
	struct ziw_qp *qp = qp_make(test, IB_SIGNAL_REQ_WR);
	const struct ziw_sq_wqe *wqe;

	memset(&any, 0, sizeof(any));
	any.wr.opcode = IB_WR_RDMA_READ;
	any.wr.send_flags = IB_SEND_INLINE;
	any.wr.sg_list = &sge;
	any.wr.num_sge = 1;
	KUNIT_ASSERT_EQ(test, ib_post_send(&qp->ibqp, &any.wr, NULL), 0);
	wqe = take(qp);
	KUNIT_ASSERT_NOT_NULL(test, wqe);
	KUNIT_EXPECT_EQ(test, wqe->flags & ZIW_WQE_INLINE, 0);
	expect_sges(test, wqe, &sge, 1);
}

static void post_full(struct kunit *test)
{
	struct ziw_qp *qp = qp_make(test, IB_SIGNAL_REQ_WR);
	struct ib_send_wr wr[SENDS + 2] = {};
	const struct ib_send_wr *bad = NULL;
	const struct ziw_sq_wqe *wqe;
	int round, i;

	for (i = 0; i < ARRAY_SIZE(wr); i++) {
		wr[i].opcode = IB_WR_SEND;
		wr[i].wr_id = i;
		wr[i].next = i + 1 < ARRAY_SIZE(wr) ? &wr[i + 1] : NULL;
	}
	/* Each round begins at another slot. */
	for (round = 0; round < 2 * SENDS; round++) {
		KUNIT_EXPECT_EQ(test, ib_post_send(&qp->ibqp, wr, &bad), -ENOMEM);
		KUNIT_EXPECT_PTR_EQ(test, bad, &wr[SENDS]);
		KUNIT_EXPECT_EQ(test, ib_post_send(&qp->ibqp, &wr[SENDS + 1], &bad), -ENOMEM);
		KUNIT_EXPECT_PTR_EQ(test, bad, &wr[SENDS + 1]);
		for (i = 0; i < SENDS; i++) {
			wqe = take(qp);
			KUNIT_ASSERT_NOT_NULL(test, wqe);
			KUNIT_EXPECT_EQ(test, wqe->wr_id, i);
			KUNIT_EXPECT_EQ(test, ib_post_send(&qp->ibqp, &wr[SENDS + 1], &bad), 0);
		}
		for (i = 0; i < SENDS; i++)
			KUNIT_ASSERT_NOT_NULL(test, take(qp));
		KUNIT_EXPECT_NULL(test, take(qp));
		KUNIT_EXPECT_EQ(test, ib_post_send(&qp->ibqp, &wr[SENDS + 1], &bad), 0);
		KUNIT_ASSERT_NOT_NULL(test, take(qp));
	}
}

static void post_list(struct kunit *test)
{
	struct ziw_qp *qp = qp_make(test, IB_SIGNAL_REQ_WR);
	struct ib_send_wr wr[3] = {
		{ .opcode = IB_WR_SEND, .wr_id = 0, .next = &wr[1] },
		{ .opcode = IB_WR_LSO, .wr_id = 1, .next = &wr[2] },
		{ .opcode = IB_WR_SEND, .wr_id = 2 },
	};
	const struct ib_send_wr *bad = NULL;

	/* Those before the bad one are posted, those after it are not. */
	KUNIT_EXPECT_EQ(test, ib_post_send(&qp->ibqp, wr, &bad), -EOPNOTSUPP);
	KUNIT_EXPECT_PTR_EQ(test, bad, &wr[1]);
	KUNIT_EXPECT_EQ(test, ziw_ring_filled(&qp->sq.ring, 0), 1);
}

static void post_reset(struct kunit *test)
{
	struct ziw_qp *qp = to_ziw_qp(fixture_plain_qp(test, 1, 1)->ibqp);
	struct ib_send_wr wr = { .opcode = IB_WR_SEND };
	const struct ib_send_wr *bad = NULL;

	KUNIT_EXPECT_EQ(test, ib_post_send(&qp->ibqp, &wr, &bad), -EINVAL);
	KUNIT_EXPECT_PTR_EQ(test, bad, &wr);
	KUNIT_EXPECT_EQ(test, ziw_ring_filled(&qp->sq.ring, 0), 0);
}

static struct kunit_case cases[] = {
	PROPERTY(post_opcodes, "each operation becomes its WQE, each other one is refused"),
	PROPERTY(post_content,
		 "a WQE has the addresses, keys and SGEs of its request, and nothing else"),
	PROPERTY(post_atomics, "an atomic has its operands, and masks only if it is a masked one"),
	PROPERTY(post_local, "REG_MR and LOCAL_INV have what they name, and no SGEs"),
	PROPERTY(post_flags,
		 "all combinations of flags arrive; all are signalled if the QP says so"),
	PROPERTY(post_sge_count, "a count of SGEs that is negative or too large is refused"),
	PROPERTY(post_inline, "inline data is copied up to max_inline, from any number of pieces"),
	PROPERTY(post_inline_read, "a Read has SGEs even if inline is asked for"),
	PROPERTY(post_full, "a full queue refuses, and takes one for each that is consumed"),
	PROPERTY(post_list, "a list is posted up to the first bad request"),
	PROPERTY(post_reset, "a QP in RESET takes nothing"),
	{}
};

struct kunit_suite ziw_post_suite = {
	.name		= "post",
	.test_cases	= cases,
};
