// SPDX-License-Identifier: GPL-2.0
/* Receive queues, of a QP and shared: posting, taking, hostile rings, the limit of an SRQ. */
#include "fixture.h"

#define RECVS	4
#define SGES	3

static struct ziw_qp *qp_make(struct kunit *test)
{
	const struct ib_qp_init_attr init = {
		.cap = { .max_recv_wr = RECVS, .max_recv_sge = SGES },
	};

	return to_ziw_qp(fixture_qp(test, NULL, &init)->ibqp);
}

/* A QP's queue and a shared one behave alike; each of these is checked on both. */
static void for_both(struct kunit *test, void (*check)(struct kunit *, struct ziw_rq *))
{
	check(test, &qp_make(test)->rq);
	check(test, &to_ziw_srq(fixture_srq(test, RECVS, SGES, 0)->ibsrq)->rq);
}

static int post(struct ziw_rq *rq, struct ziw_qp *qp, const struct ib_recv_wr *wr,
		const struct ib_recv_wr **bad)
{
	struct ziw_srq *srq = container_of(rq, struct ziw_srq, rq);

	return qp ? ib_post_recv(&qp->ibqp, wr, bad) : ib_post_srq_recv(&srq->ibsrq, wr, bad);
}

static struct ziw_rqe *rqe_make(struct kunit *test)
{
	struct ziw_rqe *rqe = kunit_kzalloc(test, sizeof(*rqe), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, rqe);
	return rqe;
}

static void check_order(struct kunit *test, struct ziw_rq *rq, struct ziw_qp *qp)
{
	struct ib_sge sge[SGES] = {
		{ .addr = 0x1000, .length = 1, .lkey = 5 },
		{ .addr = U64_MAX, .length = U32_MAX, .lkey = U32_MAX },
		{ .addr = 3, .length = U32_MAX, .lkey = 0 },
	};
	const struct ib_recv_wr *bad = NULL;
	struct ziw_rqe *rqe = rqe_make(test);
	u64 in = 0, out = 0, length;
	int round, i;

	for (round = 0; round < 4 * RECVS; round++) {
		struct ib_recv_wr wr = { .sg_list = sge };

		for (i = 0; i <= round % RECVS; i++) {
			wr.wr_id = in;
			wr.num_sge = in++ % (SGES + 1);
			KUNIT_EXPECT_EQ(test, post(rq, qp, &wr, &bad), 0);
		}
		while (ziw_rq_get(rq, rqe) == 0) {
			KUNIT_EXPECT_EQ(test, rqe->wr_id, out);
			KUNIT_ASSERT_EQ(test, rqe->num_sge, out++ % (SGES + 1));
			for (i = 0, length = 0; i < rqe->num_sge; i++) {
				KUNIT_EXPECT_EQ(test, rqe->sge[i].addr, sge[i].addr);
				KUNIT_EXPECT_EQ(test, rqe->sge[i].length, sge[i].length);
				KUNIT_EXPECT_EQ(test, rqe->sge[i].lkey, sge[i].lkey);
				length += sge[i].length;
			}
			KUNIT_EXPECT_EQ(test, rqe->length, length);
		}
		KUNIT_EXPECT_EQ(test, ziw_rq_get(rq, rqe), -ENOENT);
	}
	KUNIT_EXPECT_EQ(test, in, out);
}

static void recv_order(struct kunit *test)
{
	struct ziw_qp *qp = qp_make(test);

	check_order(test, &qp->rq, qp);
	check_order(test, &to_ziw_srq(fixture_srq(test, RECVS, SGES, 0)->ibsrq)->rq, NULL);
}

static void check_full(struct kunit *test, struct ziw_rq *rq, struct ziw_qp *qp)
{
	struct ib_recv_wr wr[RECVS + 2] = {};
	const struct ib_recv_wr *bad = NULL;
	struct ziw_rqe *rqe = rqe_make(test);
	int i;

	for (i = 0; i < ARRAY_SIZE(wr); i++) {
		wr[i].wr_id = i;
		wr[i].next = i + 1 < ARRAY_SIZE(wr) ? &wr[i + 1] : NULL;
	}
	KUNIT_EXPECT_EQ(test, post(rq, qp, wr, &bad), -ENOMEM);
	KUNIT_EXPECT_PTR_EQ(test, bad, &wr[RECVS]);
	KUNIT_EXPECT_EQ(test, ziw_rq_get(rq, rqe), 0);
	KUNIT_EXPECT_EQ(test, post(rq, qp, &wr[RECVS + 1], &bad), 0);
	KUNIT_EXPECT_EQ(test, post(rq, qp, &wr[RECVS + 1], &bad), -ENOMEM);
	for (i = 1; i < RECVS; i++) {
		KUNIT_EXPECT_EQ(test, ziw_rq_get(rq, rqe), 0);
		KUNIT_EXPECT_EQ(test, rqe->wr_id, i);
	}
	KUNIT_EXPECT_EQ(test, ziw_rq_get(rq, rqe), 0);
	KUNIT_EXPECT_EQ(test, rqe->wr_id, RECVS + 1);
}

static void recv_full(struct kunit *test)
{
	struct ziw_qp *qp = qp_make(test);

	check_full(test, &qp->rq, qp);
	check_full(test, &to_ziw_srq(fixture_srq(test, RECVS, SGES, 0)->ibsrq)->rq, NULL);
}

static void check_sge_count(struct kunit *test, struct ziw_rq *rq, struct ziw_qp *qp)
{
	static const int counts[] = { SGES + 1, 256, INT_MAX, -1, INT_MIN };
	static struct ib_sge sge[SGES + 1];
	int i;

	for (i = 0; i < ARRAY_SIZE(counts); i++) {
		struct ib_recv_wr wr = { .sg_list = sge, .num_sge = counts[i] };
		const struct ib_recv_wr *bad = NULL;

		KUNIT_EXPECT_EQ_MSG(test, post(rq, qp, &wr, &bad), -EINVAL, "%d SGEs", counts[i]);
		KUNIT_EXPECT_PTR_EQ(test, bad, &wr);
		KUNIT_EXPECT_EQ(test, ziw_ring_filled(&rq->ring, rq->ring.index), 0);
	}
}

static void recv_sge_count(struct kunit *test)
{
	struct ziw_qp *qp = qp_make(test);

	check_sge_count(test, &qp->rq, qp);
	check_sge_count(test, &to_ziw_srq(fixture_srq(test, RECVS, SGES, 0)->ibsrq)->rq, NULL);
}

/* What user space writes into a slot: any number of SGEs, and all of each of them. */
static void check_hostile_slot(struct kunit *test, struct ziw_rq *rq)
{
	static const struct { u32 num_sge; int result; } rows[] = {
		{ 0, 0 }, { 1, 0 }, { SGES, 0 }, { SGES + 1, -EINVAL }, { ZIW_MAX_SGE, -EINVAL },
		{ ZIW_MAX_SGE + 1, -EINVAL }, { 0x7fffffff, -EINVAL }, { 0x80000000, -EINVAL },
		{ 0x10000000, -EINVAL }, { U32_MAX, -EINVAL },
	};
	struct ziw_rqe *rqe = rqe_make(test);
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ziw_rq_wqe *wqe = ziw_ring_slot(&rq->ring, rq->ring.post);

		memset(wqe, 0xff, rq->ring.stride);
		wqe->wr_id = 500 + i;
		wqe->num_sge = rows[i].num_sge;
		ziw_ring_publish(&rq->ring);
		memset(rqe, 0x55, sizeof(*rqe));
		KUNIT_EXPECT_EQ_MSG(test, ziw_rq_get(rq, rqe), rows[i].result, "%#x SGEs",
				    rows[i].num_sge);
		KUNIT_EXPECT_EQ(test, rqe->wr_id, 500 + i);
		/* A malformed one is consumed, so that it is not met again, and has no memory. */
		KUNIT_EXPECT_EQ(test, rqe->num_sge, rows[i].result ? 0 : rows[i].num_sge);
		KUNIT_EXPECT_EQ(test, rqe->length, rqe->num_sge * (u64)U32_MAX);
		KUNIT_EXPECT_EQ(test, ziw_rq_get(rq, rqe), -ENOENT);
	}
}

static void recv_hostile_slot(struct kunit *test)
{
	for_both(test, check_hostile_slot);
}

static void check_hostile_index(struct kunit *test, struct ziw_rq *rq)
{
	static const struct { u32 ahead; int got; } rows[] = {
		{ 0, 0 }, { 1, 1 }, { RECVS, RECVS }, { RECVS + 1, 0 }, { 2 * RECVS, 0 },
		{ 0x7fffffff, 0 }, { 0x80000000, 0 }, { U32_MAX, 0 },
	};
	struct ziw_rqe *rqe = rqe_make(test);
	int i, got;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		rq->ring.hdr->prod = rq->ring.index + rows[i].ahead;
		rq->ring.hdr->cons = 0xaaaaaaaa;
		for (got = 0; got <= RECVS && ziw_rq_get(rq, rqe) != -ENOENT; got++)
			;
		KUNIT_EXPECT_EQ_MSG(test, got, rows[i].got, "prod %#x ahead", rows[i].ahead);
		rq->ring.hdr->prod = rq->ring.index;
	}
}

static void recv_hostile_index(struct kunit *test)
{
	for_both(test, check_hostile_index);
}

/* --- the limit --- */

static int limits(struct fixture_srq *srq)
{
	fixture_settle();
	return atomic_xchg(&srq->limits, 0);
}

static int set_limit(struct fixture_srq *srq, u32 limit)
{
	struct ib_srq_attr attr = { .srq_limit = limit };

	return ib_modify_srq(srq->ibsrq, &attr, IB_SRQ_LIMIT);
}

static void post_many(struct kunit *test, struct fixture_srq *srq, int num)
{
	struct ib_recv_wr wr = {};

	while (num--)
		KUNIT_ASSERT_EQ(test, ib_post_srq_recv(srq->ibsrq, &wr, NULL), 0);
}

static void recv_limit(struct kunit *test)
{
	struct ziw_rqe *rqe = rqe_make(test);
	u32 limit, left;

	for (limit = 0; limit <= 8; limit++) {
		struct fixture_srq *srq = fixture_srq(test, 8, 1, 0);

		post_many(test, srq, 8);
		KUNIT_EXPECT_EQ(test, set_limit(srq, limit), 0);
		KUNIT_EXPECT_EQ(test, limits(srq), 0);
		/* Once, when fewer than the limit wait; then it is disarmed. */
		for (left = 8; left--;) {
			struct ib_srq_attr attr;

			KUNIT_EXPECT_EQ(test, ziw_srq_get(to_ziw_srq(srq->ibsrq), rqe), 0);
			KUNIT_EXPECT_EQ_MSG(test, limits(srq), limit && left == limit - 1,
					    "limit %u, %u left", limit, left);
			KUNIT_EXPECT_EQ(test, ib_query_srq(srq->ibsrq, &attr), 0);
			KUNIT_EXPECT_EQ_MSG(test, attr.srq_limit, left < limit ? 0 : limit,
					    "limit %u, %u left", limit, left);
		}
		KUNIT_EXPECT_EQ(test, ziw_srq_get(to_ziw_srq(srq->ibsrq), rqe), -ENOENT);
		KUNIT_EXPECT_EQ(test, limits(srq), 0);
	}
}

static void recv_limit_again(struct kunit *test)
{
	struct fixture_srq *srq = fixture_srq(test, 8, 1, 3);
	struct ziw_srq *zsrq = to_ziw_srq(srq->ibsrq);
	struct ziw_rqe *rqe = rqe_make(test);
	int round;

	for (round = 0; round < 3; round++) {
		post_many(test, srq, 3);
		KUNIT_EXPECT_EQ(test, set_limit(srq, 3), 0);
		KUNIT_EXPECT_EQ(test, limits(srq), 0);
		KUNIT_EXPECT_EQ(test, ziw_srq_get(zsrq, rqe), 0);
		KUNIT_EXPECT_EQ(test, limits(srq), 1);
		KUNIT_EXPECT_EQ(test, ziw_srq_get(zsrq, rqe), 0);
		KUNIT_EXPECT_EQ(test, ziw_srq_get(zsrq, rqe), 0);
		KUNIT_EXPECT_EQ(test, limits(srq), 0);
		/* Too late: there may be nothing more to take. */
		KUNIT_EXPECT_EQ(test, set_limit(srq, 3), 0);
		KUNIT_EXPECT_EQ(test, limits(srq), 1);
	}
	post_many(test, srq, 3);
	KUNIT_EXPECT_EQ(test, set_limit(srq, 0), 0);
	KUNIT_EXPECT_EQ(test, ziw_srq_get(zsrq, rqe), 0);
	KUNIT_EXPECT_EQ(test, limits(srq), 0);
}

static void recv_srq_limits(struct kunit *test)
{
	static const struct { struct ib_srq_init_attr init; long err; } rows[] = {
		{ { .attr = { .max_wr = 0 } }, -EINVAL },
		{ { .attr = { .max_wr = 1 } }, 0 },
		{ { .attr = { .max_wr = ZIW_MAX_WR, .max_sge = 1 } }, 0 },
		{ { .attr = { .max_wr = ZIW_MAX_WR + 1, .max_sge = 1 } }, -EINVAL },
		{ { .attr = { .max_wr = 1, .max_sge = ZIW_MAX_SGE } }, 0 },
		{ { .attr = { .max_wr = 1, .max_sge = ZIW_MAX_SGE + 1 } }, -EINVAL },
		{ { .attr = { .max_wr = 4, .srq_limit = 4 } }, 0 },
		{ { .attr = { .max_wr = 4, .srq_limit = 5 } }, -EINVAL },
		{ { .attr = { .max_wr = 1 }, .srq_type = IB_SRQT_TM }, -EOPNOTSUPP },
	};
	struct fixture_srq *srq = fixture_srq(test, 8, 1, 0);
	struct ib_srq_attr attr = { .max_wr = 16 };
	struct ib_pd *pd = fixture_pd(test);
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ib_srq_init_attr init = rows[i].init;
		struct ib_srq *ibsrq;

		/* One with tags completes to a CQ of its own. */
		if (init.srq_type == IB_SRQT_TM)
			init.ext.cq = fixture_cq(test, 1)->ibcq;
		ibsrq = ib_create_srq(pd, &init);
		KUNIT_EXPECT_EQ_MSG(test, PTR_ERR_OR_ZERO(ibsrq), rows[i].err, "row %d", i);
		if (!IS_ERR(ibsrq))
			ib_destroy_srq(ibsrq);
	}
	post_many(test, srq, 8);
	KUNIT_EXPECT_EQ(test, set_limit(srq, 8), 0);
	KUNIT_EXPECT_EQ(test, set_limit(srq, 9), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_modify_srq(srq->ibsrq, &attr, IB_SRQ_MAX_WR), -EOPNOTSUPP);
	KUNIT_ASSERT_EQ(test, ib_query_srq(srq->ibsrq, &attr), 0);
	KUNIT_EXPECT_EQ(test, attr.srq_limit, 8);
	KUNIT_EXPECT_EQ(test, attr.max_wr, 8);
}

static struct kunit_case cases[] = {
	PROPERTY(recv_order, "receives come out as posted, once and in order, across the wrap"),
	PROPERTY(recv_full, "a full queue refuses, and takes one for each that is taken"),
	PROPERTY(recv_sge_count, "a count of SGEs that is negative or too large is refused"),
	PROPERTY(recv_hostile_slot,
		 "a slot with too many SGEs is consumed, reported, and has no memory"),
	PROPERTY(recv_hostile_index, "a producer index beyond the ring gives no receive"),
	PROPERTY(recv_limit, "the limit is reported once, when fewer than it wait"),
	PROPERTY(recv_limit_again, "the limit works again when armed again, and not when disarmed"),
	PROPERTY(recv_srq_limits,
		 "an SRQ is created up to the device's limits, and is not resized"),
	{}
};

struct kunit_suite ziw_recv_suite = {
	.name		= "receive-queue",
	.test_cases	= cases,
};
