// SPDX-License-Identifier: GPL-2.0
/*
 * The doorbell of an SQ: what was posted is sent in the caller's context; or by a work
 * item, together with what is posted until that runs; or by one that looks at the ring
 * all the time, so that nobody has to ring.
 */
#include <linux/sched/clock.h>
#include <linux/sched/prio.h>
#include "conn.h"

/*
 * The poller makes room for other work items so often: where memory is short one thread
 * may have to run them all.
 */
#define POLL_TURN_NS	(2 * NSEC_PER_MSEC)

/* How long a stream is remembered, in sends. */
#define STREAM_MOST	(8 * ZIW_SENDS_PER_MESSAGE)

/* The spinlock of the socket, which a user may own all the same. */
static void conn_lock(struct ziw_conn *conn)
	__acquires(&conn->sk->sk_lock.slock)
{
	local_bh_disable();
	bh_lock_sock(conn->sk);
}

static void conn_unlock(struct ziw_conn *conn)
	__releases(&conn->sk->sk_lock.slock)
{
	bh_unlock_sock(conn->sk);
	local_bh_enable();
}

static void conn_send(struct ziw_conn *conn)
{
	conn_lock(conn);
	ziw_tx_run(conn);
	conn_unlock(conn);
}

/**
 * ziw_conn_retry_work - what ziw_conn_retry() queues
 * @work: the connection's
 */
void ziw_conn_retry_work(struct work_struct *work)
{
	struct ziw_conn *conn = container_of(to_delayed_work(work), struct ziw_conn, retry);

	conn_send(conn);
	ziw_conn_put(conn);
}

/* --- collecting --- */

/* So many were posted; socket lock. */
static void count_sends(struct ziw_conn *conn, u32 n)
{
	conn->tx.streak = min(conn->tx.streak + n, STREAM_MOST);
}

/**
 * ziw_conn_collect_work - send what was collected
 * @work: the connection's
 */
void ziw_conn_collect_work(struct work_struct *work)
{
	struct ziw_conn *conn = container_of(work, struct ziw_conn, collect);
	struct ziw_qp *qp;
	u32 next;

	conn_lock(conn);
	/* Who owns the socket may be about to detach the connection: then it is sent later. */
	qp = sock_owned_by_user(conn->sk) ? NULL : conn->qp;
	next = qp ? qp->sq.next : 0;
	ziw_tx_run(conn);
	/* Without this each would have rung. */
	if (qp)
		count_sends(conn, qp->sq.next - next);
	conn_unlock(conn);
	ziw_conn_put(conn);
}

/* The ring asks for no doorbell from now on. Socket lock. Return: false if it has to. */
static bool ring_unasked(struct ziw_conn *conn)
{
	struct ziw_qp *qp = conn->qp;
	bool open = false;

	if (!qp)
		return false;
	spin_lock(&qp->lock);
	/* In other states doorbells are for others. */
	if (qp->state == ZIW_QP_RTS) {
		ziw_ring_busy(&qp->sq.ring);
		conn->tx.idle = false;
		open = true;
	}
	spin_unlock(&qp->lock);
	return open;
}

/*
 * Whether a doorbell can wait for more to send. A poster that keeps several on their way
 * does not wait for this one; unless it answers its peer, where a delay delays both.
 */
static bool may_collect(struct ziw_conn *conn, u32 busy)
{
	u32 least = ziw_param(conn->dev, ZIW_PARAM_COLLECT);

	count_sends(conn, 1);
	return least && busy >= least && conn->tx.streak > ZIW_SENDS_PER_MESSAGE;
}

/*
 * Leave it to a work item, which has a reference: what is posted until that runs goes to
 * TCP with it, in few large packets, and needs no doorbell. Return: false if it cannot.
 */
static bool collect(struct ziw_conn *conn)
{
	if (!ring_unasked(conn))
		return false;
	if (kref_get_unless_zero(&conn->ref) &&
	    !queue_work(ziw_send_wq, &conn->collect))
		ziw_conn_put(conn);
	return true;
}

/* --- polling --- */

/*
 * Have the device's poller look at the connection's SQ from now on. Socket lock; the socket
 * is not owned, so that the connection keeps its QP.
 */
static void poll_begin(struct ziw_conn *conn, u32 usecs)
{
	struct ziw_poller *poller = &conn->dev->poller;

	if (conn->tx.polled || !ring_unasked(conn) || !kref_get_unless_zero(&conn->ref))
		return;
	conn->tx.polled = true;
	/* With this its ring stays, too. */
	ziw_qp_get(conn->qp);
	conn->polled.qp = conn->qp;
	conn->polled.prod = READ_ONCE(conn->qp->sq.ring.hdr->prod);
	conn->polled.until = local_clock() + usecs * NSEC_PER_USEC;
	spin_lock(&poller->lock);
	list_add_tail(&conn->polled.entry, &poller->added);
	spin_unlock(&poller->lock);
	queue_work(ziw_send_wq, &poller->work);
}

/* Back to doorbells, after a last look. */
static void poll_end(struct ziw_conn *conn)
{
	list_del(&conn->polled.entry);
	conn_lock(conn);
	conn->tx.polled = false;
	ziw_tx_run(conn);
	conn_unlock(conn);
}

/* Return: false if it has to be polled no longer. */
static bool poll_one(struct ziw_conn *conn, u32 usecs)
{
	struct ziw_qp *qp = conn->polled.qp;
	u32 prod = READ_ONCE(qp->sq.ring.hdr->prod);
	u64 now = local_clock();

	/* It may have ended, and have been connected anew, since the last look. */
	if (READ_ONCE(qp->state) != ZIW_QP_RTS || rcu_access_pointer(qp->conn) != conn)
		return false;
	if (prod != conn->polled.prod) {
		conn->polled.prod = prod;
		conn->polled.until = now + usecs * NSEC_PER_USEC;
		conn_send(conn);
		return true;
	}
	return (s64)(conn->polled.until - now) > 0;
}

/* Look at each SQ that was rung for lately. */
static void poller_work(struct work_struct *work)
{
	struct ziw_poller *poller = container_of(work, struct ziw_poller, work);
	struct ziw_dev *dev = container_of(poller, struct ziw_dev, poller);
	u64 end = local_clock() + POLL_TURN_NS;
	struct ziw_conn *conn, *next;
	struct ziw_qp *qp;

	do {
		u32 usecs = ziw_param(dev, ZIW_PARAM_POLL);

		/* What is added after this look has queued the work item once more. */
		if (!list_empty_careful(&poller->added)) {
			spin_lock_bh(&poller->lock);
			list_splice_tail_init(&poller->added, &poller->list);
			spin_unlock_bh(&poller->lock);
		}
		list_for_each_entry_safe(conn, next, &poller->list, polled.entry) {
			if (poll_one(conn, usecs))
				continue;
			qp = conn->polled.qp;
			poll_end(conn);
			ziw_conn_put(conn);
			/* The last thing: after this the device may go. */
			ziw_qp_put(qp);
		}
		cpu_relax();
		/* Tracers wait until each task has slept, which this one does not. */
		cond_resched_tasks_rcu_qs();
	} while (!list_empty(&poller->list) && (s64)(end - local_clock()) > 0);
	/* There is a queue pair, and with it the device. */
	if (!list_empty(&poller->list))
		queue_work(ziw_send_wq, &poller->work);
}

/**
 * ziw_poller_init - a device's poller, at rest
 * @poller: of a new device
 */
void ziw_poller_init(struct ziw_poller *poller)
{
	spin_lock_init(&poller->lock);
	INIT_LIST_HEAD(&poller->added);
	INIT_LIST_HEAD(&poller->list);
	INIT_WORK(&poller->work, poller_work);
}

/**
 * ziw_poller_exit - the device has no queue pair any more
 * @poller: of the device
 *
 * Context: process.
 */
void ziw_poller_exit(struct ziw_poller *poller)
{
	cancel_work_sync(&poller->work);
}

/* --- the doorbell --- */

/*
 * Whether a work item sends what was posted, and not the caller; it may go on from there,
 * too. A task of real-time priority that polls could keep one from ever running.
 */
static bool leave(struct ziw_conn *conn, u32 busy)
{
	u32 usecs = ziw_param(conn->dev, ZIW_PARAM_POLL);

	if (current->prio < MAX_RT_PRIO)
		return false;
	if (!usecs)
		return may_collect(conn, busy) && collect(conn);
	poll_begin(conn, usecs);
	return false;
}

/**
 * ziw_tx_kick - the doorbell: send what was posted
 * @qp: queue pair
 * @busy: WQEs posted before that its owner has not seen complete
 *
 * Context: any.
 */
void ziw_tx_kick(struct ziw_qp *qp, u32 busy)
{
	struct ziw_conn *conn;

	/* Keeps the connection, which is freed after RCU. */
	rcu_read_lock();
	conn = rcu_dereference(qp->conn);
	if (!conn) {
		/* Without a connection, only a QP in the error state has to act. */
		if (READ_ONCE(qp->state) == ZIW_QP_ERROR)
			queue_work(ziw_wq, &qp->flush_work);
		goto out;
	}
	/* TCP cannot send with interrupts off. */
	if (irqs_disabled() || in_hardirq()) {
		ziw_conn_retry(conn, 0);
		goto out;
	}

	conn_lock(conn);
	/* Who owns the socket may be about to detach the connection: nothing is begun then. */
	if (sock_owned_by_user(conn->sk) || !leave(conn, busy))
		ziw_tx_run(conn);
	conn_unlock(conn);
out:
	rcu_read_unlock();
}
