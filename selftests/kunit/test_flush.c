// SPDX-License-Identifier: GPL-2.0
/* How work requests end without a connection: in order, once each, flushed or forgotten. */
#include "fixture.h"

#define SENDS	4
#define RECVS	4

static int modify(struct ib_qp *ibqp, enum ib_qp_state state)
{
	struct ib_qp_attr attr = { .qp_state = state };

	return ib_modify_qp(ibqp, &attr, IB_QP_STATE);
}

static int post_send(struct ib_qp *ibqp, u64 wr_id)
{
	struct ib_send_wr wr = { .wr_id = wr_id, .opcode = IB_WR_SEND };

	return ib_post_send(ibqp, &wr, NULL);
}

static int post_recv(struct ib_qp *ibqp, u64 wr_id)
{
	struct ib_recv_wr wr = { .wr_id = wr_id };

	return ib_post_recv(ibqp, &wr, NULL);
}

/* A QP in INIT whose queues are full, with CQs for sends and receives. */
static struct fixture_qp *full_qp(struct kunit *test, struct fixture_cq **scq,
				  struct fixture_cq **rcq)
{
	struct ib_qp_init_attr init = {
		.cap = { .max_send_wr = SENDS, .max_recv_wr = RECVS },
		.sq_sig_type = IB_SIGNAL_REQ_WR,
	};
	struct fixture_qp *qp;
	int i;

	*scq = fixture_cq(test, 2 * SENDS);
	*rcq = fixture_cq(test, 2 * RECVS);
	init.send_cq = (*scq)->ibcq;
	init.recv_cq = (*rcq)->ibcq;
	qp = fixture_qp(test, NULL, &init);
	KUNIT_ASSERT_EQ(test, modify(qp->ibqp, IB_QPS_INIT), 0);
	for (i = 0; i < SENDS; i++)
		KUNIT_ASSERT_EQ(test, post_send(qp->ibqp, i), 0);
	for (i = 0; i < RECVS; i++)
		KUNIT_ASSERT_EQ(test, post_recv(qp->ibqp, 100 + i), 0);
	return qp;
}

static void expect_flushed(struct kunit *test, struct fixture_cq *cq, struct ib_qp *ibqp, u64 first,
			   int num)
{
	struct ib_wc wc;
	int i;

	for (i = 0; i < num; i++) {
		KUNIT_ASSERT_EQ(test, ib_poll_cq(cq->ibcq, 1, &wc), 1);
		KUNIT_EXPECT_EQ(test, wc.wr_id, first + i);
		KUNIT_EXPECT_EQ(test, wc.status, IB_WC_WR_FLUSH_ERR);
		KUNIT_EXPECT_PTR_EQ(test, wc.qp, ibqp);
	}
	KUNIT_EXPECT_EQ(test, ib_poll_cq(cq->ibcq, 1, &wc), 0);
}

static void flush_all(struct kunit *test)
{
	struct fixture_cq *scq, *rcq;
	struct fixture_qp *qp = full_qp(test, &scq, &rcq);

	/* Not signalled: what fails completes all the same. */
	KUNIT_EXPECT_EQ(test, modify(qp->ibqp, IB_QPS_ERR), 0);
	expect_flushed(test, scq, qp->ibqp, 0, SENDS);
	expect_flushed(test, rcq, qp->ibqp, 100, RECVS);
	KUNIT_EXPECT_EQ(test, modify(qp->ibqp, IB_QPS_ERR), 0);
	expect_flushed(test, scq, qp->ibqp, 0, 0);
	expect_flushed(test, rcq, qp->ibqp, 100, 0);
}

/* The owner of a CQ that is shared goes on to poll it when a QP and what it refers to are gone. */
static void flush_destroyed(struct kunit *test)
{
	struct fixture_cq *scq, *rcq;
	struct fixture_qp *other = full_qp(test, &scq, &rcq);
	struct ib_qp_init_attr init = {
		.cap = { .max_send_wr = SENDS, .max_recv_wr = RECVS },
		.send_cq = scq->ibcq,
		.recv_cq = rcq->ibcq,
		.sq_sig_type = IB_SIGNAL_REQ_WR,
		.qp_type = IB_QPT_RC,
	};
	struct ib_qp *ibqp;
	int round, i;

	/* Flushed before it is destroyed, or by that. */
	for (round = 0; round < 2; round++) {
		ibqp = ib_create_qp(other->ibqp->pd, &init);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ibqp);
		KUNIT_EXPECT_EQ(test, modify(ibqp, IB_QPS_INIT), 0);
		for (i = 0; i < SENDS; i++)
			KUNIT_EXPECT_EQ(test, post_send(ibqp, 50 + i), 0);
		for (i = 0; i < RECVS; i++)
			KUNIT_EXPECT_EQ(test, post_recv(ibqp, 150 + i), 0);
		if (!round) {
			KUNIT_EXPECT_EQ(test, modify(ibqp, IB_QPS_ERR), 0);
			KUNIT_EXPECT_EQ(test, modify(other->ibqp, IB_QPS_ERR), 0);
		}
		ib_destroy_qp(ibqp);
		expect_flushed(test, scq, other->ibqp, 0, round ? 0 : SENDS);
		expect_flushed(test, rcq, other->ibqp, 100, round ? 0 : RECVS);
	}
	KUNIT_EXPECT_EQ(test, atomic_read(&scq->errors), 0);
}

static void flush_later(struct kunit *test)
{
	struct fixture_cq *scq, *rcq;
	struct fixture_qp *qp = full_qp(test, &scq, &rcq);
	int i;

	KUNIT_EXPECT_EQ(test, modify(qp->ibqp, IB_QPS_ERR), 0);
	expect_flushed(test, scq, qp->ibqp, 0, SENDS);
	expect_flushed(test, rcq, qp->ibqp, 100, RECVS);
	for (i = 0; i < 3 * SENDS; i++) {
		KUNIT_EXPECT_EQ(test, post_send(qp->ibqp, 1000 + i), 0);
		fixture_settle();
		expect_flushed(test, scq, qp->ibqp, 1000 + i, 1);
		KUNIT_EXPECT_EQ(test, post_recv(qp->ibqp, 2000 + i), 0);
		fixture_settle();
		expect_flushed(test, rcq, qp->ibqp, 2000 + i, 1);
	}
}

static void flush_reset(struct kunit *test)
{
	struct fixture_cq *scq, *rcq;
	struct fixture_qp *qp = full_qp(test, &scq, &rcq);
	int i;

	KUNIT_EXPECT_EQ(test, modify(qp->ibqp, IB_QPS_ERR), 0);
	expect_flushed(test, scq, qp->ibqp, 0, SENDS);
	expect_flushed(test, rcq, qp->ibqp, 100, RECVS);
	KUNIT_EXPECT_EQ(test, modify(qp->ibqp, IB_QPS_RESET), 0);

	/* As new: both queues take what they hold, nobody flushes it. */
	KUNIT_EXPECT_EQ(test, modify(qp->ibqp, IB_QPS_INIT), 0);
	for (i = 0; i < SENDS; i++)
		KUNIT_EXPECT_EQ(test, post_send(qp->ibqp, 10 + i), 0);
	KUNIT_EXPECT_EQ(test, post_send(qp->ibqp, 99), -ENOMEM);
	for (i = 0; i < RECVS; i++)
		KUNIT_EXPECT_EQ(test, post_recv(qp->ibqp, 110 + i), 0);
	KUNIT_EXPECT_EQ(test, post_recv(qp->ibqp, 99), -ENOMEM);
	fixture_settle();
	expect_flushed(test, scq, qp->ibqp, 0, 0);
	expect_flushed(test, rcq, qp->ibqp, 0, 0);
	KUNIT_EXPECT_EQ(test, modify(qp->ibqp, IB_QPS_ERR), 0);
	expect_flushed(test, scq, qp->ibqp, 10, SENDS);
	expect_flushed(test, rcq, qp->ibqp, 110, RECVS);
}

static void flush_wait(struct kunit *test)
{
	static const enum ziw_qp_state states[] = {
		ZIW_QP_RESET, ZIW_QP_INIT, ZIW_QP_RTR, ZIW_QP_RTS, ZIW_QP_CLOSING, ZIW_QP_TERMINATE,
	};
	struct fixture_cq *scq, *rcq;
	struct fixture_qp *fixture = full_qp(test, &scq, &rcq);
	struct ziw_qp *qp = to_ziw_qp(fixture->ibqp);
	int i;

	for (i = 0; i < ARRAY_SIZE(states); i++) {
		spin_lock_bh(&qp->lock);
		qp->state = states[i];
		spin_unlock_bh(&qp->lock);
		queue_work(ziw_wq, &qp->flush_work);
		fixture_settle();
		expect_flushed(test, scq, fixture->ibqp, 0, 0);
		expect_flushed(test, rcq, fixture->ibqp, 0, 0);
	}
}

/* RFC 5041, 6.2.1 */
static void flush_closing(struct kunit *test)
{
	struct fixture_cq *scq, *rcq;
	struct ziw_qp *qp = to_ziw_qp(full_qp(test, &scq, &rcq)->ibqp);
	u32 before, ready[SENDS + 1], all;

	spin_lock_bh(&qp->lock);
	all = ziw_sq_ready(qp);
	for (before = 0; before <= SENDS; before++) {
		qp->state = ZIW_QP_CLOSING;
		qp->sq.stop = qp->sq.next + before;
		ready[before] = ziw_sq_ready(qp);
		qp->state = ZIW_QP_INIT;
	}
	spin_unlock_bh(&qp->lock);
	KUNIT_EXPECT_EQ(test, all, SENDS);
	for (before = 0; before <= SENDS; before++)
		KUNIT_EXPECT_EQ(test, ready[before], before);
}

/* The transmit engine's marks, on requests that it has taken up. */
static void mark(struct ziw_qp *qp, u32 index, u8 flags, u8 status)
{
	struct ziw_sq_track *track = &qp->sq.track[index & qp->sq.ring.mask];

	memset(track, 0, sizeof(*track));
	track->wr_id = index;
	track->opcode = ZIW_OP_SEND;
	track->flags = flags | ZIW_SQ_SIGNALED;
	track->status = status;
	qp->sq.next = index + 1;
}

static void retire(struct ziw_qp *qp)
{
	spin_lock_bh(&qp->lock);
	ziw_sq_retire(qp);
	spin_unlock_bh(&qp->lock);
}

static void flush_retire(struct kunit *test)
{
	struct fixture_cq *scq, *rcq;
	struct fixture_qp *fixture = full_qp(test, &scq, &rcq);
	struct ziw_qp *qp = to_ziw_qp(fixture->ibqp);
	struct ib_wc wc[SENDS];
	int i;

	mark(qp, 0, ZIW_SQ_SENT | ZIW_SQ_WAIT_ACK, IB_WC_SUCCESS);
	mark(qp, 1, ZIW_SQ_SENT, IB_WC_SUCCESS);
	mark(qp, 2, ZIW_SQ_SENT | ZIW_SQ_WAIT_RESPONSE, IB_WC_SUCCESS);
	mark(qp, 3, 0, IB_WC_SUCCESS);
	retire(qp);
	KUNIT_EXPECT_EQ(test, ib_poll_cq(scq->ibcq, SENDS, wc), 0);
	KUNIT_EXPECT_EQ(test, post_send(fixture->ibqp, 4), -ENOMEM);

	qp->sq.track[0].flags &= ~ZIW_SQ_WAIT_ACK;
	retire(qp);
	KUNIT_EXPECT_EQ(test, ib_poll_cq(scq->ibcq, SENDS, wc), 2);
	for (i = 0; i < 2; i++) {
		KUNIT_EXPECT_EQ(test, wc[i].wr_id, i);
		KUNIT_EXPECT_EQ(test, wc[i].status, IB_WC_SUCCESS);
	}
	/* Who saw two completions may post two. */
	KUNIT_EXPECT_EQ(test, post_send(fixture->ibqp, 4), 0);
	KUNIT_EXPECT_EQ(test, post_send(fixture->ibqp, 5), 0);
	KUNIT_EXPECT_EQ(test, post_send(fixture->ibqp, 6), -ENOMEM);
	retire(qp);
	KUNIT_EXPECT_EQ(test, ib_poll_cq(scq->ibcq, SENDS, wc), 0);
}

static void flush_taken_up(struct kunit *test)
{
	static const struct { u8 flags, status, result; } rows[SENDS] = {
		{ ZIW_SQ_SENT, IB_WC_SUCCESS, IB_WC_SUCCESS },
		{ ZIW_SQ_SENT | ZIW_SQ_WAIT_ACK, IB_WC_SUCCESS, IB_WC_WR_FLUSH_ERR },
		{ ZIW_SQ_SENT, IB_WC_SUCCESS, IB_WC_WR_FLUSH_ERR },
		{ ZIW_SQ_SENT, IB_WC_LOC_PROT_ERR, IB_WC_LOC_PROT_ERR },
	};
	struct fixture_cq *scq, *rcq;
	struct fixture_qp *fixture = full_qp(test, &scq, &rcq);
	struct ziw_qp *qp = to_ziw_qp(fixture->ibqp);
	struct ib_wc wc[SENDS];
	int i;

	for (i = 0; i < SENDS; i++)
		mark(qp, i, rows[i].flags, rows[i].status);
	qp->vendor_err = 0x1203;
	KUNIT_EXPECT_EQ(test, modify(fixture->ibqp, IB_QPS_ERR), 0);
	KUNIT_ASSERT_EQ(test, ib_poll_cq(scq->ibcq, SENDS, wc), SENDS);
	for (i = 0; i < SENDS; i++) {
		KUNIT_EXPECT_EQ(test, wc[i].wr_id, i);
		KUNIT_EXPECT_EQ_MSG(test, wc[i].status, rows[i].result, "row %d", i);
		KUNIT_EXPECT_EQ_MSG(test, wc[i].vendor_err,
				    rows[i].result == IB_WC_SUCCESS ? 0 : 0x1203, "row %d", i);
	}
}

static void flush_overflow(struct kunit *test)
{
	struct ib_qp_init_attr init = { .cap = { .max_send_wr = SENDS, .max_recv_wr = 1 } };
	struct fixture_cq *scq = fixture_cq(test, 1);
	struct fixture_qp *fixture;
	struct ziw_cqe cqe = { .wr_id = 5, .opcode = ZIW_OP_RECV };
	struct ziw_qp *qp;
	int i;

	init.send_cq = scq->ibcq;
	fixture = fixture_qp(test, NULL, &init);
	qp = to_ziw_qp(fixture->ibqp);
	KUNIT_ASSERT_EQ(test, modify(fixture->ibqp, IB_QPS_INIT), 0);
	for (i = 0; i < 2; i++) {
		spin_lock_bh(&qp->lock);
		ziw_qp_complete_recv(qp, &cqe);
		spin_unlock_bh(&qp->lock);
		KUNIT_EXPECT_EQ(test, qp->state, i ? ZIW_QP_ERROR : ZIW_QP_INIT);
	}
	fixture_settle();
	KUNIT_EXPECT_EQ(test, atomic_read(&scq->errors), 1);
	KUNIT_EXPECT_EQ(test, atomic_read(&fixture->events[IB_EVENT_QP_FATAL]), 1);
}

static void flush_srq(struct kunit *test)
{
	struct fixture_srq *srq = fixture_srq(test, RECVS, 1, 0);
	struct ib_recv_wr wr = { .wr_id = 1 };
	struct ib_qp_init_attr init = { .srq = srq->ibsrq };
	struct fixture_qp *qp = fixture_qp(test, NULL, &init);
	struct ziw_rqe *rqe = kunit_kzalloc(test, sizeof(*rqe), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, rqe);
	KUNIT_EXPECT_EQ(test, ib_post_srq_recv(srq->ibsrq, &wr, NULL), 0);
	KUNIT_EXPECT_EQ(test, ib_post_recv(qp->ibqp, &wr, NULL), -EINVAL);
	KUNIT_EXPECT_EQ(test, modify(qp->ibqp, IB_QPS_INIT), 0);
	KUNIT_EXPECT_EQ(test, modify(qp->ibqp, IB_QPS_ERR), 0);
	KUNIT_EXPECT_EQ(test, modify(qp->ibqp, IB_QPS_ERR), 0);
	fixture_settle();
	KUNIT_EXPECT_EQ(test, atomic_read(&qp->events[IB_EVENT_QP_LAST_WQE_REACHED]), 1);
	/* The others' receives stay. */
	KUNIT_EXPECT_EQ(test, ziw_srq_get(to_ziw_srq(srq->ibsrq), rqe), 0);
	KUNIT_EXPECT_EQ(test, rqe->wr_id, 1);
}

static struct kunit_case cases[] = {
	PROPERTY(flush_all, "ERR completes every posted request once, in order, signalled or not"),
	PROPERTY(flush_destroyed,
		 "a QP that is destroyed leaves nothing in a shared CQ, and others lose nothing"),
	PROPERTY(flush_later, "what is posted in ERR is flushed too"),
	PROPERTY(flush_reset, "after RESET the queues are as new"),
	PROPERTY(flush_wait, "nothing is flushed in any state but ERR"),
	PROPERTY(flush_closing, "in a graceful close only what was posted before it is sent"),
	PROPERTY(flush_retire,
		 "requests complete in order, whichever is done first, and free their slots"),
	PROPERTY(flush_taken_up,
		 "once one is flushed nothing succeeds; what failed keeps its status"),
	PROPERTY(flush_overflow, "a CQ that overflows brings its QP to ERR, with one event"),
	PROPERTY(flush_srq,
		 "a QP with an SRQ reports its last receive once, and leaves the SRQ alone"),
	{}
};

struct kunit_suite ziw_flush_suite = {
	.name		= "flush",
	.test_cases	= cases,
};
