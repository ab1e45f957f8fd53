// SPDX-License-Identifier: GPL-2.0
/* Completion queues: order, overflow, and when the handler is called. */
#include "fixture.h"

#define ENTRIES	4

/* A CQ, and the QP that completions name. */
static struct fixture_cq *cq_make(struct kunit *test, struct ib_qp *ibqp)
{
	memset(ibqp, 0, sizeof(*ibqp));
	ibqp->qp_num = 77;
	return fixture_cq(test, ENTRIES);
}

static bool push(struct fixture_cq *cq, struct ib_qp *ibqp, u64 wr_id, u8 status, u16 flags)
{
	struct ziw_cqe cqe = {
		.wr_id	= wr_id,
		.opcode	= ZIW_OP_RECV,
		.status	= status,
		.flags	= flags,
	};

	return ziw_cq_push(to_ziw_cq(cq->ibcq), &cqe, ibqp);
}

/* The handler runs from a tasklet; afterwards it has run if it was to. */
static int handler_calls(struct fixture_cq *cq)
{
	tasklet_kill(&to_ziw_cq(cq->ibcq)->notify);
	return atomic_xchg(&cq->completions, 0);
}

static void cq_order(struct kunit *test)
{
	struct ib_wc wc[ENTRIES + 1];
	u64 pushed = 0, polled = 0;
	struct fixture_cq *cq;
	struct ib_qp ibqp;
	int round, n, i;

	cq = cq_make(test, &ibqp);
	/* From just before the end of the index's range. */
	to_ziw_cq(cq->ibcq)->ring.index = -6;
	to_ziw_cq(cq->ibcq)->ring.hdr->prod = -6;
	to_ziw_cq(cq->ibcq)->ring.hdr->cons = -6;
	KUNIT_EXPECT_EQ(test, ib_poll_cq(cq->ibcq, 1, wc), 0);
	for (round = 0; round < 5 * ENTRIES; round++) {
		for (i = 0; i <= round % ENTRIES; i++)
			KUNIT_EXPECT_TRUE(test, push(cq, &ibqp, pushed++, IB_WC_SUCCESS, 0));
		while ((n = ib_poll_cq(cq->ibcq, 1 + round % 3, wc)) > 0)
			for (i = 0; i < n; i++) {
				KUNIT_EXPECT_EQ(test, wc[i].wr_id, polled++);
				KUNIT_EXPECT_PTR_EQ(test, wc[i].qp, &ibqp);
			}
		KUNIT_EXPECT_EQ(test, n, 0);
	}
	KUNIT_EXPECT_EQ(test, polled, pushed);
}

static void cq_content(struct kunit *test)
{
	static const struct {
		struct ziw_cqe		cqe;
		enum ib_wc_opcode	opcode;
		int			flags;
	} rows[] = {
		{ { .opcode = ZIW_OP_SEND }, IB_WC_SEND },
		{ { .opcode = ZIW_OP_SEND_INV }, IB_WC_SEND },
		{ { .opcode = ZIW_OP_WRITE }, IB_WC_RDMA_WRITE },
		{ { .opcode = ZIW_OP_READ, .byte_len = 99 }, IB_WC_RDMA_READ },
		{ { .opcode = ZIW_OP_READ_INV }, IB_WC_RDMA_READ },
		{ { .opcode = ZIW_OP_SEND_IMM }, IB_WC_SEND },
		{ { .opcode = ZIW_OP_WRITE_IMM }, IB_WC_RDMA_WRITE },
		{ { .opcode = ZIW_OP_FETCH_ADD, .byte_len = 8 }, IB_WC_FETCH_ADD },
		{ { .opcode = ZIW_OP_CMP_SWAP, .byte_len = 8 }, IB_WC_COMP_SWAP },
		{ { .opcode = ZIW_OP_FETCH_ADD, .flags = ZIW_CQE_MASKED }, IB_WC_MASKED_FETCH_ADD },
		{ { .opcode = ZIW_OP_CMP_SWAP, .flags = ZIW_CQE_MASKED }, IB_WC_MASKED_COMP_SWAP },
		{ { .opcode = ZIW_OP_LOCAL_INV }, IB_WC_LOCAL_INV },
		{ { .opcode = ZIW_OP_REG_MR }, IB_WC_REG_MR },
		{ { .opcode = ZIW_OP_RECV, .byte_len = U32_MAX }, IB_WC_RECV },
		{ { .opcode = ZIW_OP_RECV, .flags = ZIW_CQE_WITH_INV, .ex = 0xabcdef01 },
		  IB_WC_RECV, IB_WC_WITH_INVALIDATE },
		{ { .opcode = ZIW_OP_RECV, .flags = ZIW_CQE_WITH_IMM, .ex = 0x12345678 },
		  IB_WC_RECV, IB_WC_WITH_IMM },
		{ { .opcode = ZIW_OP_RECV_IMM, .flags = ZIW_CQE_WITH_IMM, .ex = 0x12345678 },
		  IB_WC_RECV_RDMA_WITH_IMM, IB_WC_WITH_IMM },
		{ { .opcode = ZIW_OP_RECV, .flags = ZIW_CQE_SOLICITED }, IB_WC_RECV },
		{ { .opcode = ZIW_OP_SEND, .status = IB_WC_LOC_PROT_ERR, .vendor_err = 0x1234 },
		  IB_WC_SEND },
	};
	struct fixture_cq *cq;
	struct ib_qp ibqp;
	struct ib_wc wc;
	int i;

	cq = cq_make(test, &ibqp);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ziw_cqe cqe = rows[i].cqe;

		memset(&wc, 0xff, sizeof(wc));
		cqe.wr_id = 1000 + i;
		KUNIT_EXPECT_TRUE(test, ziw_cq_push(to_ziw_cq(cq->ibcq), &cqe, &ibqp));
		KUNIT_ASSERT_EQ(test, ib_poll_cq(cq->ibcq, 1, &wc), 1);
		KUNIT_EXPECT_EQ(test, wc.wr_id, 1000 + i);
		KUNIT_EXPECT_EQ_MSG(test, wc.opcode, rows[i].opcode, "row %d", i);
		KUNIT_EXPECT_EQ_MSG(test, wc.status, rows[i].cqe.status, "row %d", i);
		KUNIT_EXPECT_EQ_MSG(test, wc.byte_len, rows[i].cqe.byte_len, "row %d", i);
		KUNIT_EXPECT_EQ_MSG(test, wc.vendor_err, rows[i].cqe.vendor_err, "row %d", i);
		KUNIT_EXPECT_EQ_MSG(test, wc.wc_flags, rows[i].flags, "row %d", i);
		KUNIT_EXPECT_EQ_MSG(test, wc.ex.invalidate_rkey, rows[i].cqe.ex, "row %d", i);
		KUNIT_EXPECT_PTR_EQ(test, wc.qp, &ibqp);
	}
}

static void cq_overflow(struct kunit *test)
{
	struct ib_wc wc[2 * ENTRIES];
	struct fixture_cq *cq;
	struct ib_qp ibqp;
	int i;

	cq = cq_make(test, &ibqp);
	for (i = 0; i < ENTRIES; i++)
		KUNIT_EXPECT_TRUE(test, push(cq, &ibqp, i, IB_WC_SUCCESS, 0));
	fixture_settle();
	KUNIT_EXPECT_EQ(test, atomic_read(&cq->errors), 0);

	/* Lost, and so is all that follows: after a gap nothing can be relied on. */
	KUNIT_EXPECT_FALSE(test, push(cq, &ibqp, 100, IB_WC_SUCCESS, 0));
	KUNIT_EXPECT_FALSE(test, push(cq, &ibqp, 101, IB_WC_SUCCESS, 0));
	KUNIT_ASSERT_EQ(test, ib_poll_cq(cq->ibcq, ARRAY_SIZE(wc), wc), ENTRIES);
	for (i = 0; i < ENTRIES; i++)
		KUNIT_EXPECT_EQ(test, wc[i].wr_id, i);
	KUNIT_EXPECT_FALSE(test, push(cq, &ibqp, 102, IB_WC_SUCCESS, 0));
	KUNIT_EXPECT_EQ(test, ib_poll_cq(cq->ibcq, ARRAY_SIZE(wc), wc), 0);
	fixture_settle();
	KUNIT_EXPECT_EQ(test, atomic_read(&cq->errors), 1);
}

/* User space writes cons. Whatever it says, CQEs go into slots of the ring. */
static void cq_lie(struct kunit *test)
{
	static const struct { u32 cons; bool ok; } rows[] = {
		{ 0, true }, { 7, true }, { 7 - (ENTRIES - 1), true }, { 7 - ENTRIES, false },
		{ 8, false }, { 7 + ENTRIES, false }, { 0x80000007, false }, { 0xffffffff, false },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct fixture_cq *cq;
		struct ib_qp ibqp;
		struct ziw_cq *zcq;
		u32 prod;

		cq = cq_make(test, &ibqp);
		zcq = to_ziw_cq(cq->ibcq);
		prod = rows[i].cons ? 7 : 0;
		zcq->ring.index = prod;
		zcq->ring.hdr->prod = prod;
		zcq->ring.hdr->cons = rows[i].cons;
		KUNIT_EXPECT_EQ_MSG(test, push(cq, &ibqp, 1, IB_WC_SUCCESS, 0), rows[i].ok,
				    "prod %u, cons %#x", prod, rows[i].cons);
		KUNIT_EXPECT_EQ(test, zcq->ring.hdr->prod, prod + rows[i].ok);
	}
}

static void cq_own_index(struct kunit *test)
{
	struct fixture_cq *cq;
	struct ziw_cq *zcq;
	struct ib_qp ibqp;

	cq = cq_make(test, &ibqp);
	zcq = to_ziw_cq(cq->ibcq);
	zcq->ring.hdr->prod = 0x55555555;
	KUNIT_EXPECT_TRUE(test, push(cq, &ibqp, 1, IB_WC_SUCCESS, 0));
	KUNIT_EXPECT_EQ(test, zcq->ring.hdr->prod, 1);
	KUNIT_EXPECT_EQ(test, ((struct ziw_cqe *)ziw_ring_slot(&zcq->ring, 0))->wr_id, 1);
}

static void cq_armed(struct kunit *test)
{
	enum { NOT_ARMED = 0, SOLICITED = IB_CQ_SOLICITED, NEXT = IB_CQ_NEXT_COMP };
	static const struct { int arm; u8 status; u16 flags; int calls; } rows[] = {
		{ NOT_ARMED, IB_WC_SUCCESS, 0, 0 },
		{ NOT_ARMED, IB_WC_SUCCESS, ZIW_CQE_SOLICITED, 0 },
		{ NOT_ARMED, IB_WC_WR_FLUSH_ERR, 0, 0 },
		{ SOLICITED, IB_WC_SUCCESS, 0, 0 },
		{ SOLICITED, IB_WC_SUCCESS, ZIW_CQE_WITH_INV, 0 },
		{ SOLICITED, IB_WC_SUCCESS, ZIW_CQE_SOLICITED, 1 },
		{ SOLICITED, IB_WC_SUCCESS, ZIW_CQE_SOLICITED | ZIW_CQE_WITH_INV, 1 },
		{ SOLICITED, IB_WC_WR_FLUSH_ERR, 0, 1 },
		{ SOLICITED, IB_WC_LOC_PROT_ERR, 0, 1 },
		{ NEXT, IB_WC_SUCCESS, 0, 1 },
		{ NEXT, IB_WC_SUCCESS, ZIW_CQE_SOLICITED, 1 },
		{ NEXT, IB_WC_WR_FLUSH_ERR, 0, 1 },
	};
	struct fixture_cq *cq;
	struct ib_qp ibqp;
	struct ib_wc wc;
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		cq = cq_make(test, &ibqp);
		if (rows[i].arm)
			KUNIT_EXPECT_EQ(test, ib_req_notify_cq(cq->ibcq, rows[i].arm), 0);
		KUNIT_EXPECT_EQ(test, handler_calls(cq), 0);
		KUNIT_EXPECT_TRUE(test, push(cq, &ibqp, 1, rows[i].status, rows[i].flags));
		KUNIT_EXPECT_EQ_MSG(test, handler_calls(cq), rows[i].calls,
				    "arm %d, status %d, flags %#x", rows[i].arm, rows[i].status,
				    rows[i].flags);
		KUNIT_EXPECT_EQ(test, ib_poll_cq(cq->ibcq, 1, &wc), 1);
	}
}

static void cq_once(struct kunit *test)
{
	struct fixture_cq *cq;
	struct ib_qp ibqp;
	int i;

	cq = cq_make(test, &ibqp);
	ib_req_notify_cq(cq->ibcq, IB_CQ_NEXT_COMP);
	for (i = 0; i < 3; i++) {
		KUNIT_EXPECT_TRUE(test, push(cq, &ibqp, i, IB_WC_SUCCESS, ZIW_CQE_SOLICITED));
		KUNIT_EXPECT_EQ(test, handler_calls(cq), !i);
	}
	/* What is there already is not what comes next. */
	ib_req_notify_cq(cq->ibcq, IB_CQ_NEXT_COMP);
	KUNIT_EXPECT_EQ(test, handler_calls(cq), 0);
	KUNIT_EXPECT_TRUE(test, push(cq, &ibqp, i, IB_WC_SUCCESS, 0));
	KUNIT_EXPECT_EQ(test, handler_calls(cq), 1);
}

static void cq_rearm(struct kunit *test)
{
	static const struct { int first, second; int calls; } rows[] = {
		{ IB_CQ_SOLICITED, IB_CQ_SOLICITED, 0 },
		{ IB_CQ_SOLICITED, IB_CQ_NEXT_COMP, 1 },
		{ IB_CQ_NEXT_COMP, IB_CQ_SOLICITED, 1 },
		{ IB_CQ_NEXT_COMP, IB_CQ_NEXT_COMP, 1 },
	};
	struct fixture_cq *cq;
	struct ib_qp ibqp;
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		cq = cq_make(test, &ibqp);
		ib_req_notify_cq(cq->ibcq, rows[i].first);
		ib_req_notify_cq(cq->ibcq, rows[i].second);
		push(cq, &ibqp, 1, IB_WC_SUCCESS, 0);
		KUNIT_EXPECT_EQ_MSG(test, handler_calls(cq), rows[i].calls, "%d, then %d",
				    rows[i].first, rows[i].second);
		/* Nothing of the two is left. */
		push(cq, &ibqp, 2, IB_WC_SUCCESS, ZIW_CQE_SOLICITED);
		KUNIT_EXPECT_EQ_MSG(test, handler_calls(cq), !rows[i].calls, "%d, then %d",
				    rows[i].first, rows[i].second);
		push(cq, &ibqp, 3, IB_WC_SUCCESS, ZIW_CQE_SOLICITED);
		KUNIT_EXPECT_EQ(test, handler_calls(cq), 0);
	}
}

static void cq_missed(struct kunit *test)
{
	enum ib_cq_notify_flags missed = IB_CQ_NEXT_COMP | IB_CQ_REPORT_MISSED_EVENTS;
	struct fixture_cq *cq;
	struct ib_qp ibqp;
	struct ib_wc wc;

	cq = cq_make(test, &ibqp);
	KUNIT_EXPECT_EQ(test, ib_req_notify_cq(cq->ibcq, missed), 0);
	push(cq, &ibqp, 1, IB_WC_SUCCESS, 0);
	KUNIT_EXPECT_EQ(test, handler_calls(cq), 1);
	KUNIT_EXPECT_EQ(test, ib_req_notify_cq(cq->ibcq, IB_CQ_NEXT_COMP), 0);
	KUNIT_EXPECT_EQ(test, ib_req_notify_cq(cq->ibcq, missed), 1);
	KUNIT_EXPECT_EQ(test,
			ib_req_notify_cq(cq->ibcq, IB_CQ_SOLICITED | IB_CQ_REPORT_MISSED_EVENTS),
			1);
	KUNIT_EXPECT_EQ(test, ib_poll_cq(cq->ibcq, 1, &wc), 1);
	KUNIT_EXPECT_EQ(test, ib_req_notify_cq(cq->ibcq, missed), 0);
	/* It is armed all the same. */
	push(cq, &ibqp, 2, IB_WC_SUCCESS, 0);
	KUNIT_EXPECT_EQ(test, handler_calls(cq), 1);
}

static void cq_limits(struct kunit *test)
{
	static const struct { struct ib_cq_init_attr attr; long err; int cqe; } rows[] = {
		{ { .cqe = 0 }, -EINVAL },
		{ { .cqe = 1 }, 0, 1 },
		{ { .cqe = 5 }, 0, 8 },
		{ { .cqe = ZIW_MAX_CQE }, 0, ZIW_MAX_CQE },
		{ { .cqe = ZIW_MAX_CQE + 1 }, -EINVAL },
		{ { .cqe = UINT_MAX }, -EINVAL },
		{ { .cqe = 1, .flags = IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION }, 0, 1 },
		{ { .cqe = 1, .flags = IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN }, 0, 1 },
		{ { .cqe = 1, .flags = 1 << 10 }, -EOPNOTSUPP },
	};
	struct ib_device *ibdev = fixture_device(test);
	int i;

	KUNIT_EXPECT_EQ(test, ibdev->attrs.max_cqe, ZIW_MAX_CQE);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ib_cq *ibcq = ib_create_cq(ibdev, NULL, NULL, NULL, &rows[i].attr);

		KUNIT_EXPECT_EQ_MSG(test, PTR_ERR_OR_ZERO(ibcq), rows[i].err, "row %d", i);
		if (!IS_ERR(ibcq)) {
			KUNIT_EXPECT_EQ_MSG(test, ibcq->cqe, rows[i].cqe, "row %d", i);
			ib_destroy_cq(ibcq);
		}
	}
}

static struct kunit_case cases[] = {
	PROPERTY(cq_order, "completions come out once and in order, across the wrap"),
	PROPERTY(cq_content, "a completion says what the CQE said"),
	PROPERTY(cq_overflow, "one CQE too many is an error, reported once, and ends the CQ"),
	PROPERTY(cq_lie,
		 "a consumer index that lies gets an overflow, or its own CQEs overwritten"),
	PROPERTY(cq_own_index, "the producer goes by its own index, not by the shared one"),
	PROPERTY(cq_armed, "the handler is called for what the CQ was armed for"),
	PROPERTY(cq_once, "an arm is used up by one call, and is not for what was there before"),
	PROPERTY(cq_rearm, "of two arms the wider one counts, and both are used up"),
	PROPERTY(cq_missed, "missed events are reported where CQEs wait, and only if asked for"),
	PROPERTY(cq_limits, "a CQ has 1 to max_cqe entries, and no flags that are not known"),
	{}
};

struct kunit_suite ziw_cq_suite = {
	.name		= "cq",
	.test_cases	= cases,
};
