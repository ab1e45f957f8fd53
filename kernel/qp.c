// SPDX-License-Identifier: GPL-2.0
/* Queue pairs: their states, their end, and the verbs that are not posting. */
#include <linux/vmalloc.h>
#include "conn.h"
#include "inspect.h"
#include "trace.h"

/* --- states --- */

#define ST(state) BIT(ZIW_QP_##state)

/* For each state those that may follow. */
static const u8 qp_next_states[ZIW_QP_NUM_STATES] = {
	[ZIW_QP_RESET]		= ST(RESET) | ST(INIT) | ST(ERROR),
	[ZIW_QP_INIT]		= ST(RESET) | ST(INIT) | ST(RTR) | ST(RTS) | ST(ERROR),
	[ZIW_QP_RTR]		= ST(RESET) | ST(RTR) | ST(RTS) | ST(ERROR),
	[ZIW_QP_RTS]		= ST(RTS) | ST(CLOSING) | ST(TERMINATE) | ST(ERROR),
	[ZIW_QP_CLOSING]	= ST(CLOSING) | ST(TERMINATE) | ST(ERROR),
	[ZIW_QP_TERMINATE]	= ST(TERMINATE) | ST(ERROR),
	[ZIW_QP_ERROR]		= ST(ERROR) | ST(RESET),
};

static const enum ib_qp_state qp_ib_states[ZIW_QP_NUM_STATES] = {
	/* iWARP has Idle instead, which verbs of RNICs call so. */
	[ZIW_QP_RESET]		= IB_QPS_INIT,
	[ZIW_QP_INIT]		= IB_QPS_INIT,
	[ZIW_QP_RTR]		= IB_QPS_RTR,
	[ZIW_QP_RTS]		= IB_QPS_RTS,
	[ZIW_QP_CLOSING]	= IB_QPS_SQD,
	[ZIW_QP_TERMINATE]	= IB_QPS_ERR,
	[ZIW_QP_ERROR]		= IB_QPS_ERR,
};

static const char *const qp_state_names[ZIW_QP_NUM_STATES] = {
	[ZIW_QP_RESET]		= "RESET",
	[ZIW_QP_INIT]		= "INIT",
	[ZIW_QP_RTR]		= "RTR",
	[ZIW_QP_RTS]		= "RTS",
	[ZIW_QP_CLOSING]	= "CLOSING",
	[ZIW_QP_TERMINATE]	= "TERMINATE",
	[ZIW_QP_ERROR]		= "ERROR",
};

/**
 * ziw_qp_state_name - for log lines
 * @state: a state
 *
 * Return: its name.
 */
const char *ziw_qp_state_name(enum ziw_qp_state state)
{
	return qp_state_names[state];
}

/**
 * ziw_qp_move - change the state, if the change is legal
 * @qp: queue pair; qp->lock held
 * @to: new state
 *
 * Return: whether it was. An illegal one leaves the state as it is.
 */
bool ziw_qp_move(struct ziw_qp *qp, enum ziw_qp_state to)
{
	lockdep_assert_held(&qp->lock);
	if (!(qp_next_states[qp->state] & BIT(to))) {
		trace_ziw_qp_state(qp, to, false);
		ibdev_dbg(&qp->dev->ibdev, "QP %u: no way from %s to %s\n",
			  qp->ibqp.qp_num, ziw_qp_state_name(qp->state),
			  ziw_qp_state_name(to));
		return false;
	}
	if (qp->state != to) {
		trace_ziw_qp_state(qp, to, true);
		ibdev_dbg(&qp->dev->ibdev, "QP %u: %s to %s\n", qp->ibqp.qp_num,
			  ziw_qp_state_name(qp->state), ziw_qp_state_name(to));
	}
	WRITE_ONCE(qp->state, to);
	return true;
}
EXPORT_SYMBOL_IF_KUNIT(ziw_qp_move);

/* --- references --- */

void ziw_qp_get(struct ziw_qp *qp)
{
	refcount_inc(&qp->ref);
}

void ziw_qp_put(struct ziw_qp *qp)
{
	if (refcount_dec_and_test(&qp->ref))
		complete(&qp->freed);
}

/* --- asynchronous events --- */

static void qp_event_work(struct work_struct *work)
{
	struct ziw_qp *qp = container_of(work, struct ziw_qp, event_work);
	struct ib_event event = {
		.device		= qp->ibqp.device,
		.element.qp	= &qp->ibqp,
	};
	unsigned int bit;

	for_each_set_bit(bit, &qp->events, BITS_PER_LONG) {
		clear_bit(bit, &qp->events);
		event.event = bit;
		if (qp->ibqp.event_handler)
			qp->ibqp.event_handler(&event, qp->ibqp.qp_context);
	}
}

/**
 * ziw_qp_event - report an asynchronous event of the QP
 * @qp: queue pair
 * @event: which
 *
 * Handlers may sleep and may call verbs, so they run from a work item.
 *
 * Context: any.
 */
void ziw_qp_event(struct ziw_qp *qp, enum ib_event_type event)
{
	set_bit(event, &qp->events);
	queue_work(ziw_wq, &qp->event_work);
}

/**
 * ziw_qp_fail - bring the QP to the error state for a local reason
 * @qp: queue pair; qp->lock held
 * @event: asynchronous event to report
 *
 * Context: bottom halves off.
 */
void ziw_qp_fail(struct ziw_qp *qp, enum ib_event_type event)
{
	struct ziw_conn *conn;

	if (qp->state == ZIW_QP_ERROR || !ziw_qp_move(qp, ZIW_QP_ERROR))
		return;
	ziw_qp_event(qp, event);
	conn = rcu_dereference_protected(qp->conn, lockdep_is_held(&qp->lock));
	if (conn)
		ziw_conn_abort(conn);
	else
		queue_work(ziw_wq, &qp->flush_work);
}

/* --- completions --- */

static void cq_overflowed(struct ziw_qp *qp)
{
	struct ziw_conn *conn;

	conn = rcu_dereference_protected(qp->conn, lockdep_is_held(&qp->lock));
	if (conn)
		ziw_because(conn, ZIW_WHY_CQ_OVERFLOW, 0);
	ziw_qp_fail(qp, IB_EVENT_QP_FATAL);
}

/* qp->lock held. */
static void push_cqe(struct ziw_qp *qp, struct ziw_cq *cq, struct ziw_cqe *cqe)
{
	if (qp->dying)
		return;
	if (cqe->status != IB_WC_SUCCESS)
		cqe->vendor_err = qp->vendor_err;
	if (!ziw_cq_push(cq, cqe, &qp->ibqp))
		cq_overflowed(qp);
}

/**
 * ziw_qp_complete_recv - add the CQE of a receive
 * @qp: queue pair; qp->lock held
 * @cqe: what to say
 *
 * Context: bottom halves off.
 */
void ziw_qp_complete_recv(struct ziw_qp *qp, struct ziw_cqe *cqe)
{
	/* Nobody takes the next one before this one has completed. */
	if (!qp->srq)
		cqe->wq_cons = READ_ONCE(qp->rq.ring.index);
	push_cqe(qp, ziw_recv_cq(qp), cqe);
}
EXPORT_SYMBOL_IF_KUNIT(ziw_qp_complete_recv);

/* The slot has been given back already. */
static void complete_send(struct ziw_qp *qp, const struct ziw_sq_track *track,
			  enum ib_wc_status status)
{
	struct ziw_cqe cqe = {
		.wr_id		= track->wr_id,
		.opcode		= track->opcode,
		.status		= status,
		.byte_len	= track->byte_len,
		.wq_cons	= qp->sq.ring.index,
	};

	if (status == IB_WC_SUCCESS && !(track->flags & ZIW_SQ_SIGNALED))
		return;
	if (track->flags & ZIW_SQ_MASKED)
		cqe.flags |= ZIW_CQE_MASKED;
	push_cqe(qp, ziw_send_cq(qp), &cqe);
}

/**
 * ziw_sq_retire - complete, in order, the WQEs that are done
 * @qp: queue pair; qp->lock held
 *
 * A WQE that is done stays until all before it are (RFC 5040, 5.5).
 *
 * Context: bottom halves off.
 */
void ziw_sq_retire(struct ziw_qp *qp)
{
	struct ziw_ring *ring = &qp->sq.ring;
	u32 cons = ring->index;

	while (cons != qp->sq.next) {
		const struct ziw_sq_track *track = &qp->sq.track[cons & ring->mask];

		if (!ziw_sq_done(track))
			break;
		/* Who sees the CQE may count on the slot. */
		ziw_ring_consume(ring, ++cons);
		complete_send(qp, track, track->status);
	}
}
EXPORT_SYMBOL_IF_KUNIT(ziw_sq_retire);

static void flush_sq(struct ziw_qp *qp, unsigned int budget)
{
	struct ziw_sq *sq = &qp->sq;
	struct ziw_ring *ring = &sq->ring;
	bool failed = false;

	/*
	 * Taken up already: what is done, or has failed, keeps its status; but
	 * after the first that is neither nothing succeeds any more.
	 */
	while (ring->index != sq->next) {
		const struct ziw_sq_track *track = &sq->track[ring->index & ring->mask];
		enum ib_wc_status status = track->status;

		if (status == IB_WC_SUCCESS && (failed || !ziw_sq_done(track)))
			status = IB_WC_WR_FLUSH_ERR;
		failed |= status != IB_WC_SUCCESS;
		ziw_ring_consume(ring, ring->index + 1);
		complete_send(qp, track, status);
	}
	for (; budget && ziw_ring_filled(ring, sq->next); budget--) {
		const struct ziw_sq_wqe *wqe = ziw_ring_slot(ring, sq->next);
		struct ziw_sq_track track = {
			.wr_id	= READ_ONCE(wqe->wr_id),
			.opcode	= ziw_wqe_cqe_opcode(READ_ONCE(wqe->opcode)),
		};

		sq->next++;
		ziw_ring_consume(ring, sq->next);
		complete_send(qp, &track, IB_WC_WR_FLUSH_ERR);
	}
	sq->acked = sq->next;
}

static void flush_rq(struct ziw_qp *qp, unsigned int budget)
{
	struct ziw_rqe rqe;

	for (; budget && ziw_rq_get(&qp->rq, &rqe) != -ENOENT; budget--) {
		struct ziw_cqe cqe = {
			.wr_id	= rqe.wr_id,
			.opcode	= ZIW_OP_RECV,
			.status	= IB_WC_WR_FLUSH_ERR,
		};

		ziw_qp_complete_recv(qp, &cqe);
	}
}

/**
 * ziw_qp_flush - complete all work requests with a flush error
 * @qp: queue pair
 *
 * The only place that flushes. It does nothing until the QP is in the error
 * state and its connection is gone: a buffer whose pages TCP may still send is
 * not given back (design.md, "A completion means it").
 *
 * Context: process, or softirq without the socket lock.
 */
void ziw_qp_flush(struct ziw_qp *qp)
{
	bool more = false;

	spin_lock_bh(&qp->lock);
	if (qp->state == ZIW_QP_ERROR && !rcu_access_pointer(qp->conn)) {
		flush_sq(qp, qp->sq.ring.mask + 1);
		more = ziw_ring_idle(&qp->sq.ring, qp->sq.next);
		if (!qp->srq) {
			flush_rq(qp, qp->rq.ring.mask + 1);
			more |= ziw_ring_idle(&qp->rq.ring, qp->rq.ring.index);
		}
	}
	spin_unlock_bh(&qp->lock);
	/* A consumer that goes on posting does not keep this CPU to itself. */
	if (more)
		queue_work(ziw_wq, &qp->flush_work);
}

static void qp_flush_work(struct work_struct *work)
{
	ziw_qp_flush(container_of(work, struct ziw_qp, flush_work));
}

/* --- verbs --- */

static int check_caps(const struct ib_qp_init_attr *init)
{
	const struct ib_qp_cap *cap = &init->cap;

	if (cap->max_send_wr > ZIW_MAX_WR || cap->max_send_sge > ZIW_MAX_SGE ||
	    cap->max_inline_data > ZIW_MAX_INLINE)
		return -EINVAL;
	if (!init->srq &&
	    (cap->max_recv_wr > ZIW_MAX_WR || cap->max_recv_sge > ZIW_MAX_SGE))
		return -EINVAL;
	return 0;
}

/*
 * The RDMA core cuts what a kernel consumer reads and writes into work requests by the
 * number of SGEs that the queue pair has: with so many pages each is one large FPDU.
 */
#define KERNEL_SGE	15

/* @behind: bytes for the RQ, in the same memory. */
static int sq_init(struct ziw_dev *dev, struct ziw_qp *qp, struct ib_qp_cap *cap,
		   size_t behind, struct ib_udata *udata, struct ziw_ring_info *info)
{
	struct ziw_sq *sq = &qp->sq;
	u32 entries = roundup_pow_of_two(max(cap->max_send_wr, 1U));
	u32 body;
	int err;

	spin_lock_init(&sq->post_lock);
	sq->limits.max_sge = max(cap->max_send_sge, udata ? 1U : KERNEL_SGE);
	body = max_t(u32, sq->limits.max_sge * sizeof(struct ziw_sge), cap->max_inline_data);
	body = ALIGN(body, 32);
	sq->limits.max_inline = min_t(u32, body, ZIW_MAX_INLINE);
	sq->limits.kernel = !udata;

	sq->track = kvcalloc(entries, sizeof(*sq->track), GFP_KERNEL);
	if (!sq->track)
		return -ENOMEM;
	err = ziw_ring_alloc(dev, &sq->ring, entries,
			     sizeof(struct ziw_sq_wqe) + body, behind, udata, info);
	if (err) {
		kvfree(sq->track);
		return err;
	}
	sq->ring.hdr->flags = ZIW_RING_NEED_DOORBELL;

	cap->max_send_wr = entries;
	cap->max_send_sge = sq->limits.max_sge;
	cap->max_inline_data = sq->limits.max_inline;
	return 0;
}

static void sq_destroy(struct ziw_sq *sq)
{
	ziw_ring_free(&sq->ring);
	kvfree(sq->track);
}

/**
 * ziw_create_qp - verb: create an RC queue pair
 * @ibqp: allocated by the RDMA core
 * @init: attributes; the capacities are raised to what is granted
 * @udata: of the command, NULL for a kernel consumer
 *
 * Context: process.
 * Return: 0; -EINVAL for capacities beyond query_device's, -EOPNOTSUPP for
 * another type or flags, -ENOMEM.
 */
int ziw_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init,
		  struct ib_udata *udata)
{
	struct ziw_dev *dev = to_ziw_dev(ibqp->device);
	struct ziw_create_qp_resp resp = {};
	struct ziw_qp *qp = to_ziw_qp(ibqp);
	struct ziw_create_qp_req req = {};
	static atomic64_t serial;
	static u32 next_qpn;
	size_t rq_bytes = 0;
	u32 qpn;
	int err;

	if (init->qp_type != IB_QPT_RC || init->create_flags)
		return -EOPNOTSUPP;
	err = check_caps(init);
	if (err)
		return err;
	if (udata) {
		if (udata->inlen < sizeof(req) || udata->outlen < sizeof(resp))
			return -EINVAL;
		err = ib_copy_from_udata(&req, udata, sizeof(req));
		if (err)
			return err;
	}
	if (!ziw_take(&dev->nr_qp, ZIW_MAX_QP))
		return -ENOMEM;

	qp->dev = dev;
	qp->ctx = rdma_udata_to_drv_context(udata, struct ziw_ucontext, ibuc);
	qp->handle = req.handle;
	refcount_set(&qp->ref, 1);
	init_completion(&qp->freed);
	spin_lock_init(&qp->lock);
	init_waitqueue_head(&qp->detached);
	INIT_WORK(&qp->event_work, qp_event_work);
	INIT_WORK(&qp->flush_work, qp_flush_work);
	qp->state = ZIW_QP_RESET;
	qp->serial = atomic64_inc_return(&serial);
	qp->sig_all = init->sq_sig_type == IB_SIGNAL_ALL_WR;
	qp->srq = init->srq ? to_ziw_srq(init->srq) : NULL;

	if (!qp->srq)
		rq_bytes = ziw_rq_bytes(init->cap.max_recv_wr, init->cap.max_recv_sge);
	err = sq_init(dev, qp, &init->cap, rq_bytes, udata, &resp.sq);
	if (err)
		goto err_count;
	if (qp->srq) {
		init->cap.max_recv_wr = 0;
		init->cap.max_recv_sge = 0;
	} else {
		ziw_rq_init_behind(&qp->rq, &qp->sq.ring, init->cap.max_recv_wr,
				   init->cap.max_recv_sge, &resp.sq, &resp.rq);
		init->cap.max_recv_wr = qp->rq.ring.mask + 1;
		init->cap.max_recv_sge = qp->rq.max_sge;
	}
	qp->attr.cap = init->cap;

	/*
	 * 0 and 1 are special QPs elsewhere, and 24 bits is what verbs carry.
	 * Until nothing can fail any more the number is taken, but names no QP.
	 */
	err = xa_alloc_cyclic(&dev->qps, &qpn, NULL, XA_LIMIT(2, 0xffffff),
			      &next_qpn, GFP_KERNEL);
	if (err < 0)
		goto err_sq;
	ibqp->qp_num = qpn;

	if (udata) {
		resp.qpn = qpn;
		resp.max_inline = qp->sq.limits.max_inline;
		err = ib_copy_to_udata(udata, &resp, sizeof(resp));
		if (err)
			goto err_xa;
	}
	xa_store(&dev->qps, qpn, qp, GFP_KERNEL);
	return 0;

err_xa:
	xa_erase(&dev->qps, qpn);
err_sq:
	sq_destroy(&qp->sq);
err_count:
	atomic_dec(&dev->nr_qp);
	return err;
}

/* Bring the QP to the error state, in process context. */
static int qp_to_error(struct ziw_qp *qp)
{
	struct ziw_conn *conn;
	bool moved, again;

	spin_lock_bh(&qp->lock);
	again = qp->state == ZIW_QP_ERROR;
	moved = ziw_qp_move(qp, ZIW_QP_ERROR);
	conn = rcu_dereference_protected(qp->conn, lockdep_is_held(&qp->lock));
	/* With a connection it is due when that has ended; ib_drain_qp() waits for it. */
	if (moved && !again && !conn && qp->srq)
		ziw_qp_event(qp, IB_EVENT_QP_LAST_WQE_REACHED);
	if (moved && conn) {
		ziw_because(conn, ZIW_WHY_OWNER_ERROR, 0);
		ziw_conn_abort(conn);
	}
	if (moved && qp->setup) {
		ziw_because(qp->setup, ZIW_WHY_OWNER_ERROR, 0);
		ziw_conn_abort(qp->setup);
	}
	spin_unlock_bh(&qp->lock);
	if (!moved)
		return -EINVAL;
	ziw_qp_flush(qp);
	return 0;
}

/* The owner frees what its completions refer to. A program's are its provider's to forget. */
static void forget_completions(struct ziw_qp *qp)
{
	ziw_cq_forget(ziw_send_cq(qp), &qp->ibqp);
	if (ziw_recv_cq(qp) != ziw_send_cq(qp))
		ziw_cq_forget(ziw_recv_cq(qp), &qp->ibqp);
}

/* Forget all work requests without completing them, as RESET does. */
static int qp_to_reset(struct ziw_qp *qp)
{
	int err = 0;

	if (READ_ONCE(qp->state) != ZIW_QP_RESET) {
		err = qp_to_error(qp);
		if (err)
			return err;
	}
	wait_event(qp->detached, !rcu_access_pointer(qp->conn));

	spin_lock_bh(&qp->lock);
	/* Others may have brought it to life again, or even to the next error. */
	if (!rcu_access_pointer(qp->conn) && ziw_qp_move(qp, ZIW_QP_RESET)) {
		qp->sq.next += ziw_ring_filled(&qp->sq.ring, qp->sq.next);
		qp->sq.acked = qp->sq.next;
		ziw_ring_consume(&qp->sq.ring, qp->sq.next);
		qp->vendor_err = 0;
		if (!qp->srq) {
			ziw_rq_forget(&qp->rq);
			ziw_ring_busy(&qp->rq.ring);
		}
	} else {
		err = -EINVAL;
	}
	spin_unlock_bh(&qp->lock);
	return err;
}

static int qp_move_to(struct ziw_qp *qp, enum ziw_qp_state to)
{
	bool moved;

	spin_lock_bh(&qp->lock);
	moved = ziw_qp_move(qp, to);
	spin_unlock_bh(&qp->lock);
	return moved ? 0 : -EINVAL;
}

/* iw_cm's way to ask for a graceful close. */
static int qp_to_closing(struct ziw_qp *qp)
{
	struct ziw_conn *conn;
	int err = 0;

	spin_lock_bh(&qp->lock);
	conn = rcu_dereference_protected(qp->conn, lockdep_is_held(&qp->lock));
	if (qp->state == ZIW_QP_RTS && conn) {
		qp->sq.stop = qp->sq.next +
			      ziw_ring_filled(&qp->sq.ring, qp->sq.next);
		ziw_qp_move(qp, ZIW_QP_CLOSING);
		ziw_because(conn, ZIW_WHY_OWNER_CLOSED, 0);
		ziw_conn_kick(conn);
	} else if (qp->state < ZIW_QP_RTS) {
		err = -EINVAL;
	}
	spin_unlock_bh(&qp->lock);
	return err;
}

static void store_attrs(struct ziw_qp *qp, const struct ib_qp_attr *attr, int mask)
{
	spin_lock_bh(&qp->lock);
	if (mask & IB_QP_ACCESS_FLAGS)
		WRITE_ONCE(qp->attr.qp_access_flags, attr->qp_access_flags);
	if (mask & IB_QP_MAX_QP_RD_ATOMIC)
		qp->attr.max_rd_atomic = attr->max_rd_atomic;
	if (mask & IB_QP_MAX_DEST_RD_ATOMIC)
		qp->attr.max_dest_rd_atomic = attr->max_dest_rd_atomic;
	spin_unlock_bh(&qp->lock);
}

static int qp_change_state(struct ziw_qp *qp, enum ib_qp_state to)
{
	switch (to) {
	case IB_QPS_RESET:
		return qp_to_reset(qp);
	case IB_QPS_INIT:
		return qp_move_to(qp, ZIW_QP_INIT);
	case IB_QPS_RTR:
		return qp_move_to(qp, ZIW_QP_RTR);
	case IB_QPS_RTS:
		return READ_ONCE(qp->state) == ZIW_QP_RTS ? 0 : -EINVAL;
	case IB_QPS_SQD:
		return qp_to_closing(qp);
	case IB_QPS_ERR:
		return qp_to_error(qp);
	default:
		return -EINVAL;
	}
}

/**
 * ziw_modify_qp - verb: change the state or attributes
 * @ibqp: queue pair
 * @attr: what to set
 * @mask: enum ib_qp_attr_mask
 * @udata: not used
 *
 * RTS comes with a connection, by way of the CM; to ask for it without one is
 * refused. SQD starts a graceful close, ERR an abortive one. What fails changes
 * nothing.
 *
 * Context: process.
 * Return: 0; -EINVAL for an illegal transition or a value beyond
 * query_device's limits, -EOPNOTSUPP for attributes that are not known.
 */
int ziw_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		  struct ib_udata *udata)
{
	struct ziw_qp *qp = to_ziw_qp(ibqp);
	int err;

	if (mask & ~IB_QP_ATTR_STANDARD_BITS)
		return -EOPNOTSUPP;
	if ((mask & IB_QP_MAX_QP_RD_ATOMIC && attr->max_rd_atomic > ZIW_MAX_ORD) ||
	    (mask & IB_QP_MAX_DEST_RD_ATOMIC &&
	     attr->max_dest_rd_atomic > ZIW_MAX_IRD))
		return -EINVAL;
	if (mask & IB_QP_STATE) {
		err = qp_change_state(qp, attr->qp_state);
		if (err)
			return err;
	}
	store_attrs(qp, attr, mask);
	return 0;
}

/**
 * ziw_query_qp - verb: state and attributes
 * @ibqp: queue pair
 * @attr: filled
 * @mask: not looked at: all is given
 * @init: filled
 *
 * Context: process.
 * Return: 0.
 */
int ziw_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		 struct ib_qp_init_attr *init)
{
	struct ziw_qp *qp = to_ziw_qp(ibqp);

	spin_lock_bh(&qp->lock);
	*attr = qp->attr;
	attr->qp_state = qp_ib_states[qp->state];
	attr->sq_draining = qp->state == ZIW_QP_CLOSING;
	spin_unlock_bh(&qp->lock);
	attr->cur_qp_state = attr->qp_state;
	attr->path_mtu = ib_mtu_int_to_enum(READ_ONCE(qp->dev->netdev->mtu));
	attr->port_num = 1;

	init->event_handler = ibqp->event_handler;
	init->qp_context = ibqp->qp_context;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->srq = ibqp->srq;
	init->cap = attr->cap;
	init->qp_type = ibqp->qp_type;
	init->sq_sig_type = qp->sig_all ? IB_SIGNAL_ALL_WR : IB_SIGNAL_REQ_WR;
	return 0;
}

/**
 * ziw_destroy_qp - verb: end a queue pair
 * @ibqp: queue pair
 * @udata: not used
 *
 * Waits until its connection, if it has one, is gone. What a kernel consumer has not polled
 * by then is in its CQs no longer, and what it has posted is not flushed: consumers share CQs.
 *
 * Context: process.
 * Return: 0.
 */
int ziw_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata)
{
	struct ziw_qp *qp = to_ziw_qp(ibqp);
	struct ziw_dev *dev = qp->dev;

	/*
	 * New references come from the table, so it leaves that first. iw_cm
	 * takes one from what iw_get_qp gave it, with interrupts off in between.
	 */
	xa_erase(&dev->qps, ibqp->qp_num);
	synchronize_rcu_expedited();
	spin_lock_bh(&qp->lock);
	/* A program whose device goes is told by what is flushed, and may wait for it. */
	qp->dying = ziw_qp_is_kernel(qp);
	spin_unlock_bh(&qp->lock);
	qp_to_error(qp);
	ziw_qp_put(qp);
	wait_for_completion(&qp->freed);
	forget_completions(qp);
	cancel_work_sync(&qp->flush_work);
	cancel_work_sync(&qp->event_work);

	/* The RQ is in the SQ's memory. */
	sq_destroy(&qp->sq);
	atomic_dec(&dev->nr_qp);
	return 0;
}
