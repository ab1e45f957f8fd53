// SPDX-License-Identifier: GPL-2.0
/* QP states: what may follow what, by the driver's own function and by ib_modify_qp(). */
#include "fixture.h"

static const char *const names[] = {
	[ZIW_QP_RESET] = "RESET", [ZIW_QP_INIT] = "INIT", [ZIW_QP_RTR] = "RTR",
	[ZIW_QP_RTS] = "RTS", [ZIW_QP_CLOSING] = "CLOSING", [ZIW_QP_TERMINATE] = "TERMINATE",
	[ZIW_QP_ERROR] = "ERROR",
};

static void set_state(struct ziw_qp *qp, enum ziw_qp_state state)
{
	spin_lock_bh(&qp->lock);
	WRITE_ONCE(qp->state, state);
	spin_unlock_bh(&qp->lock);
}

/*
 * Without a connection: RESET to RTR and back, as verbs have it. With one: RTS,
 * from there by a graceful close or a Terminate, or at once, to ERROR, and never
 * back. Only ERROR leads to RESET then.
 */
static void state_move(struct kunit *test)
{
	static const char *const legal[ZIW_QP_NUM_STATES] = {
		/*                  to: RESET INIT RTR RTS CLOSING TERMINATE ERROR */
		[ZIW_QP_RESET]		= "yy----y",
		[ZIW_QP_INIT]		= "yyyy--y",
		[ZIW_QP_RTR]		= "y-yy--y",
		[ZIW_QP_RTS]		= "---yyyy",
		[ZIW_QP_CLOSING]	= "----yyy",
		[ZIW_QP_TERMINATE]	= "-----yy",
		[ZIW_QP_ERROR]		= "y-----y",
	};
	struct ziw_qp *qp = to_ziw_qp(fixture_plain_qp(test, 1, 1)->ibqp);
	enum ziw_qp_state from, to;

	for (from = 0; from < ZIW_QP_NUM_STATES; from++)
		for (to = 0; to < ZIW_QP_NUM_STATES; to++) {
			bool is_legal = legal[from][to] == 'y', moved;

			set_state(qp, from);
			spin_lock_bh(&qp->lock);
			moved = ziw_qp_move(qp, to);
			spin_unlock_bh(&qp->lock);
			KUNIT_EXPECT_EQ_MSG(test, moved, is_legal, "%s to %s", names[from],
					    names[to]);
			KUNIT_EXPECT_EQ_MSG(test, qp->state, is_legal ? to : from, "%s to %s",
					    names[from], names[to]);
		}
	set_state(qp, ZIW_QP_RESET);
}

/*
 * What ib_modify_qp() makes of each state, where there is no connection. RTS
 * comes with one only. SQD is a graceful close, and nothing is left to do where
 * the connection has ended.
 */
static void state_modify(struct kunit *test)
{
#define ST(state) ZIW_QP_##state
#define NO -1
	static const int result[ZIW_QP_NUM_STATES][IB_QPS_ERR + 1] = {
		/*               RESET      INIT      RTR      RTS      SQD            SQE ERR */
		[ST(RESET)]	= { ST(RESET), ST(INIT), NO, NO, NO, NO, ST(ERROR) },
		[ST(INIT)]	= { ST(RESET), ST(INIT), ST(RTR), NO, NO, NO, ST(ERROR) },
		[ST(RTR)]	= { ST(RESET), NO, ST(RTR), NO, NO, NO, ST(ERROR) },
		[ST(RTS)]	= { ST(RESET), NO, NO, ST(RTS), ST(RTS), NO, ST(ERROR) },
		[ST(CLOSING)]	= { ST(RESET), NO, NO, NO, ST(CLOSING), NO, ST(ERROR) },
		[ST(TERMINATE)]	= { ST(RESET), NO, NO, NO, ST(TERMINATE), NO, ST(ERROR) },
		[ST(ERROR)]	= { ST(RESET), NO, NO, NO, ST(ERROR), NO, ST(ERROR) },
	};
#undef ST
	struct ziw_qp *qp = to_ziw_qp(fixture_plain_qp(test, 1, 1)->ibqp);
	enum ziw_qp_state from;
	enum ib_qp_state to;

	for (from = 0; from < ZIW_QP_NUM_STATES; from++)
		for (to = IB_QPS_RESET; to <= IB_QPS_ERR; to++) {
			struct ib_qp_attr attr = { .qp_state = to };
			int want = result[from][to], err;

			set_state(qp, from);
			err = ib_modify_qp(&qp->ibqp, &attr, IB_QP_STATE);
			KUNIT_EXPECT_EQ_MSG(test, err, want == NO ? -EINVAL : 0, "%s, asked for %d",
					    names[from], to);
			KUNIT_EXPECT_EQ_MSG(test, qp->state, want == NO ? from : want,
					    "%s, asked for %d", names[from], to);
		}
#undef NO
	set_state(qp, ZIW_QP_RESET);
}

static void state_query(struct kunit *test)
{
	static const enum ib_qp_state shown[ZIW_QP_NUM_STATES] = {
		[ZIW_QP_RESET]		= IB_QPS_INIT,
		[ZIW_QP_INIT]		= IB_QPS_INIT,
		[ZIW_QP_RTR]		= IB_QPS_RTR,
		[ZIW_QP_RTS]		= IB_QPS_RTS,
		[ZIW_QP_CLOSING]	= IB_QPS_SQD,
		[ZIW_QP_TERMINATE]	= IB_QPS_ERR,
		[ZIW_QP_ERROR]		= IB_QPS_ERR,
	};
	struct ziw_qp *qp = to_ziw_qp(fixture_plain_qp(test, 3, 5)->ibqp);
	struct ib_qp_init_attr init;
	enum ziw_qp_state state;
	struct ib_qp_attr attr;

	for (state = 0; state < ZIW_QP_NUM_STATES; state++) {
		set_state(qp, state);
		KUNIT_ASSERT_EQ(test, ib_query_qp(&qp->ibqp, &attr, IB_QP_STATE, &init), 0);
		KUNIT_EXPECT_EQ_MSG(test, attr.qp_state, shown[state], "%s", names[state]);
		KUNIT_EXPECT_EQ_MSG(test, attr.cur_qp_state, shown[state], "%s", names[state]);
		KUNIT_EXPECT_EQ_MSG(test, attr.sq_draining, state == ZIW_QP_CLOSING, "%s",
				    names[state]);
	}
	set_state(qp, ZIW_QP_RESET);
	KUNIT_EXPECT_EQ(test, init.cap.max_send_wr, 4);
	KUNIT_EXPECT_EQ(test, init.cap.max_recv_wr, 8);
	KUNIT_EXPECT_EQ(test, init.cap.max_send_sge, 15);
	KUNIT_EXPECT_EQ(test, init.cap.max_recv_sge, 4);
	KUNIT_EXPECT_GE(test, init.cap.max_inline_data, 64);
	KUNIT_EXPECT_EQ(test, init.qp_type, IB_QPT_RC);
}

static void state_attributes(struct kunit *test)
{
	static const struct { int mask; struct ib_qp_attr attr; int err; } rows[] = {
		{ IB_QP_ACCESS_FLAGS, { .qp_access_flags = ALL_REMOTE }, 0 },
		{ IB_QP_MAX_QP_RD_ATOMIC, { .max_rd_atomic = ZIW_MAX_ORD }, 0 },
		{ IB_QP_MAX_QP_RD_ATOMIC, { .max_rd_atomic = ZIW_MAX_ORD + 1 }, -EINVAL },
		{ IB_QP_MAX_DEST_RD_ATOMIC, { .max_dest_rd_atomic = ZIW_MAX_IRD }, 0 },
		{ IB_QP_MAX_DEST_RD_ATOMIC, { .max_dest_rd_atomic = ZIW_MAX_IRD + 1 }, -EINVAL },
		{ IB_QP_RATE_LIMIT, {}, -EOPNOTSUPP },
	};
	struct ib_qp *ibqp = fixture_plain_qp(test, 1, 1)->ibqp;
	struct ib_qp_init_attr init;
	struct ib_qp_attr attr;
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		attr = rows[i].attr;
		/* Past ib_modify_qp(), which may have limits of its own. */
		KUNIT_EXPECT_EQ_MSG(test,
				    ibqp->device->ops.modify_qp(ibqp, &attr, rows[i].mask, NULL),
				    rows[i].err, "row %d", i);
	}
	KUNIT_ASSERT_EQ(test, ib_query_qp(ibqp, &attr, 0, &init), 0);
	KUNIT_EXPECT_EQ(test, attr.qp_access_flags, ALL_REMOTE);
	KUNIT_EXPECT_EQ(test, attr.max_rd_atomic, ZIW_MAX_ORD);
	KUNIT_EXPECT_EQ(test, attr.max_dest_rd_atomic, ZIW_MAX_IRD);
}

static void state_refused(struct kunit *test)
{
	struct ib_qp *ibqp = fixture_plain_qp(test, 1, 1)->ibqp;
	struct ib_qp_attr attr = {
		.qp_state	= IB_QPS_RTR,
		.qp_access_flags = ALL_REMOTE,
		.max_rd_atomic	= 5,
	};
	struct ib_qp_init_attr init;

	KUNIT_EXPECT_EQ(test,
			ib_modify_qp(ibqp, &attr,
				     IB_QP_STATE | IB_QP_ACCESS_FLAGS | IB_QP_MAX_QP_RD_ATOMIC),
			-EINVAL);
	KUNIT_ASSERT_EQ(test, ib_query_qp(ibqp, &attr, 0, &init), 0);
	KUNIT_EXPECT_EQ(test, attr.qp_access_flags, 0);
	KUNIT_EXPECT_EQ(test, attr.max_rd_atomic, 0);
}

static void state_create(struct kunit *test)
{
	static const struct { struct ib_qp_init_attr init; long err; } rows[] = {
		{ { .qp_type = IB_QPT_RC }, 0 },
		{ { .qp_type = IB_QPT_UD }, -EOPNOTSUPP },
		{ { .qp_type = IB_QPT_UC }, -EOPNOTSUPP },
		{ { .qp_type = IB_QPT_RC, .create_flags = IB_QP_CREATE_SCATTER_FCS }, -EOPNOTSUPP },
		{ { .qp_type = IB_QPT_RC, .cap.max_send_wr = ZIW_MAX_WR }, 0 },
		{ { .qp_type = IB_QPT_RC, .cap.max_send_wr = ZIW_MAX_WR + 1 }, -EINVAL },
		{ { .qp_type = IB_QPT_RC, .cap.max_recv_wr = ZIW_MAX_WR }, 0 },
		{ { .qp_type = IB_QPT_RC, .cap.max_recv_wr = ZIW_MAX_WR + 1 }, -EINVAL },
		{ { .qp_type = IB_QPT_RC, .cap.max_send_sge = ZIW_MAX_SGE }, 0 },
		{ { .qp_type = IB_QPT_RC, .cap.max_send_sge = ZIW_MAX_SGE + 1 }, -EINVAL },
		{ { .qp_type = IB_QPT_RC, .cap.max_recv_sge = ZIW_MAX_SGE }, 0 },
		{ { .qp_type = IB_QPT_RC, .cap.max_recv_sge = ZIW_MAX_SGE + 1 }, -EINVAL },
		{ { .qp_type = IB_QPT_RC, .cap.max_inline_data = ZIW_MAX_INLINE }, 0 },
		{ { .qp_type = IB_QPT_RC, .cap.max_inline_data = ZIW_MAX_INLINE + 1 }, -EINVAL },
		{ { .qp_type = IB_QPT_RC, .cap.max_send_wr = U32_MAX }, -EINVAL },
	};
	struct fixture_cq *cq = fixture_cq(test, 1);
	struct ib_pd *pd = fixture_pd(test);
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ib_qp_init_attr init = rows[i].init;
		struct ib_qp *ibqp;

		init.send_cq = cq->ibcq;
		init.recv_cq = cq->ibcq;
		ibqp = ib_create_qp(pd, &init);
		KUNIT_EXPECT_EQ_MSG(test, PTR_ERR_OR_ZERO(ibqp), rows[i].err, "row %d", i);
		if (!IS_ERR(ibqp)) {
			/* What was granted is at least what was asked for, and never nothing. */
			KUNIT_EXPECT_GE(test, init.cap.max_send_wr,
					max(rows[i].init.cap.max_send_wr, 1U));
			KUNIT_EXPECT_GE(test, init.cap.max_recv_sge,
					max(rows[i].init.cap.max_recv_sge, 1U));
			KUNIT_EXPECT_GE(test, init.cap.max_inline_data,
					rows[i].init.cap.max_inline_data);
			ib_destroy_qp(ibqp);
		}
	}
}

static struct kunit_case cases[] = {
	PROPERTY(state_move,
		 "each of the 49 transitions is made if legal, else refused without effect"),
	PROPERTY(state_modify,
		 "modify_qp makes of each state what verbs allow, without a connection"),
	PROPERTY(state_query,
		 "query_qp shows each state as verbs know it, and the capacities granted"),
	PROPERTY(state_attributes, "attributes are kept up to the device's limits"),
	PROPERTY(state_refused, "a transition that is refused changes no attribute either"),
	PROPERTY(state_create, "a QP is created up to the device's limits, and of one type"),
	{}
};

struct kunit_suite ziw_state_suite = {
	.name		= "qp-state",
	.test_cases	= cases,
};
