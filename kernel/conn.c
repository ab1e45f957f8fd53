// SPDX-License-Identifier: GPL-2.0
/*
 * The connection: its state machine, the way into the stream, and every way out
 * of it. setup.c has what comes before.
 *
 * TCP's callbacks only say that something happened; the state machine runs in
 * a work item, under conn->mutex. A connection leaves its QP and the CM in
 * ziw_conn_finish() and nowhere else.
 */
#include <linux/net.h>
#include <net/tcp.h>
#include "conn.h"
#include "inspect.h"

/* RFC 5041, 4.3. A test of what comes after 2^32 - 1 starts close to it. */
#if IS_ENABLED(CONFIG_KUNIT)
static unsigned int first_msn = 1;
module_param(first_msn, uint, 0644);
MODULE_PARM_DESC(first_msn, "first MSN of each untagged queue, for tests (1)");
#else
#define first_msn	1
#endif

/* Their size is just beyond one of kmalloc's. */
static struct kmem_cache *conn_cache;

/**
 * ziw_conn_cache_init - where connections come from
 *
 * Context: process, before any.
 * Return: 0 or -ENOMEM.
 */
int ziw_conn_cache_init(void)
{
	conn_cache = KMEM_CACHE(ziw_conn, SLAB_HWCACHE_ALIGN);
	return conn_cache ? 0 : -ENOMEM;
}

/**
 * ziw_conn_cache_exit - all of them were freed, after RCU
 *
 * Context: process.
 */
void ziw_conn_cache_exit(void)
{
	kmem_cache_destroy(conn_cache);
}

/* After so many retransmissions of the same the peer is away: more than half a second. */
#define SILENT_RETRANSMITS	2

/* --- references, work, timer --- */

/* Places for requests of both sides, as far as they were made. */
static void free_requests(struct ziw_conn *conn)
{
	u32 i;

	if (conn->irq)
		for (i = 0; i < ziw_irq_slots(conn) / ZIW_IRQ_BLOCK; i++)
			kfree(conn->irq[i]);
	kfree(conn->irq);
	kvfree(conn->orq);
}

static int alloc_requests(struct ziw_conn *conn, u32 sq_slots)
{
	struct ziw_irq_entry **first;

	conn->orq_size = min(conn->ord, sq_slots);
	conn->orq = kvcalloc(ziw_orq_slots(conn), sizeof(*conn->orq), GFP_KERNEL);
	conn->irq = kcalloc(ziw_irq_slots(conn) / ZIW_IRQ_BLOCK, sizeof(*conn->irq),
			    GFP_KERNEL);
	if (!conn->irq || !conn->orq)
		return -ENOMEM;
	/* Most peers never need another. */
	first = ziw_irq_block(conn, conn->irq_head);
	*first = kcalloc(ZIW_IRQ_BLOCK, sizeof(**first), GFP_KERNEL);
	return *first ? 0 : -ENOMEM;
}

static void conn_free_rcu(struct rcu_head *rcu)
{
	struct ziw_conn *conn = container_of(rcu, struct ziw_conn, rcu);

	sock_put(conn->sk);
	free_requests(conn);
	kfree(conn->setup);
	kmem_cache_free(conn_cache, conn);
	ziw_live_add(ZIW_LIVE_CONN, -1);
}

static void conn_release(struct kref *ref)
{
	struct ziw_conn *conn = container_of(ref, struct ziw_conn, ref);

	/* Lock-free readers of qp->conn and sk_user_data may still look at it. */
	call_rcu(&conn->rcu, conn_free_rcu);
}

void ziw_conn_get(struct ziw_conn *conn)
{
	kref_get(&conn->ref);
}

void ziw_conn_put(struct ziw_conn *conn)
{
	kref_put(&conn->ref, conn_release);
}

/**
 * ziw_conn_kick - have the state machine look
 * @conn: connection; a reference, the socket lock or RCU held
 *
 * Context: any.
 */
void ziw_conn_kick(struct ziw_conn *conn)
{
	enum ziw_conn_state state = READ_ONCE(conn->state);
	/* Which of the two does the step does not matter, only in which order it is done. */
	bool setup = state == ZIW_CONN_CONNECTING || state == ZIW_CONN_REQ_WAIT;

	if (kref_get_unless_zero(&conn->ref) &&
	    !queue_work(setup ? ziw_setup_wq : ziw_wq,
			setup ? &conn->setup_work : &conn->work))
		ziw_conn_put(conn);
}

/**
 * ziw_conn_abort - end the connection without waiting for anything
 * @conn: as for ziw_conn_kick()
 *
 * Context: any.
 */
void ziw_conn_abort(struct ziw_conn *conn)
{
	set_bit(ZIW_CONN_ABORT, &conn->flags);
	ziw_conn_kick(conn);
}

/**
 * ziw_conn_retry - run the transmit engine later, from a work item
 * @conn: as for ziw_conn_kick()
 * @delay: jiffies; if not 0, the socket lock is held
 *
 * Context: any.
 */
void ziw_conn_retry(struct ziw_conn *conn, unsigned long delay)
{
	/* ziw_conn_release_socket() counts on it: there is none when the stream has ended. */
	if (!test_bit(ZIW_CONN_IN_STREAM, &conn->flags))
		return;
	if (!kref_get_unless_zero(&conn->ref))
		return;
	/* One that is to come later comes at once, then. */
	if (delay ? !queue_delayed_work(ziw_wq, &conn->retry, delay) :
		    mod_delayed_work(ziw_wq, &conn->retry, 0))
		ziw_conn_put(conn);
}

/**
 * ziw_conn_start_timer - limit how long the present phase may take
 * @conn: connection; conn->mutex held
 * @seconds: from now
 */
void ziw_conn_start_timer(struct ziw_conn *conn, unsigned int seconds)
{
	clear_bit(ZIW_CONN_TIMEOUT, &conn->flags);
	ziw_conn_get(conn);
	if (mod_delayed_work(ziw_wq, &conn->timer, seconds * HZ))
		ziw_conn_put(conn);
}

/**
 * ziw_conn_stop_timer - the present phase has no limit any more
 * @conn: connection; conn->mutex held
 */
void ziw_conn_stop_timer(struct ziw_conn *conn)
{
	/* The timer's work takes no lock. */
	if (cancel_delayed_work_sync(&conn->timer))
		ziw_conn_put(conn);
	clear_bit(ZIW_CONN_TIMEOUT, &conn->flags);
}

static void conn_timer_work(struct work_struct *work)
{
	struct ziw_conn *conn = container_of(to_delayed_work(work), struct ziw_conn,
					     timer);

	set_bit(ZIW_CONN_TIMEOUT, &conn->flags);
	ziw_conn_kick(conn);
	ziw_conn_put(conn);
}

/* --- into the stream --- */

/**
 * ziw_conn_attach - give the connection to a QP, whose stream begins
 * @conn: connection; conn->mutex held; crc, ird, ord, rx.want_rtr, and markers in
 *        both directions are set
 * @qp: queue pair; on success a reference goes to the connection
 *
 * Context: process.
 * Return: 0; -EINVAL if the QP is not in a state to be connected, -ENOMEM.
 */
int ziw_conn_attach(struct ziw_conn *conn, struct ziw_qp *qp)
{
	struct sock *sk = conn->sk;
	int err;

	err = alloc_requests(conn, qp->sq.ring.mask + 1);
	if (err)
		return err;
	err = -EINVAL;

	conn->tx.msn_send = first_msn;
	conn->tx.msn_read = first_msn;
	conn->tx.msn_atomic = first_msn;
	conn->rx.msn[DDP_QN_SEND] = first_msn;
	conn->rx.msn[DDP_QN_READ_REQ] = first_msn;
	conn->rx.msn[DDP_QN_TERMINATE] = 1;
	conn->rx.msn[DDP_QN_ATOMIC_RESP] = first_msn;

	lock_sock(sk);
	if (conn->initiator && ziw_qp_is_kernel(qp))
		ziw_llp_use_reserves(sk);
	spin_lock_bh(&qp->lock);
	if (!rcu_access_pointer(qp->conn) && qp->state < ZIW_QP_RTS &&
	    ziw_qp_move(qp, ZIW_QP_RTS)) {
		qp->attr.max_rd_atomic = conn->ord;
		qp->attr.max_dest_rd_atomic = conn->ird;
		/*
		 * rdma_cm sets none on an iWARP QP that is to connect. From
		 * here on the regions decide, until modify_qp says otherwise.
		 */
		qp->attr.qp_access_flags = IB_ACCESS_REMOTE_WRITE |
					   IB_ACCESS_REMOTE_READ |
					   IB_ACCESS_REMOTE_ATOMIC;
		/* All of the setup was taken off, and no more. */
		conn->rx.marker_seq = tcp_sk(sk)->copied_seq;
		/* Has TCP call sk_write_space at the end of each packet. */
		set_bit(SOCK_NOSPACE, &conn->sock->flags);
		ziw_llp_no_fast_path(sk);
		conn->qp = qp;
		rcu_assign_pointer(qp->conn, conn);
		set_bit(ZIW_CONN_IN_STREAM, &conn->flags);
		err = 0;
	}
	spin_unlock_bh(&qp->lock);
	release_sock(sk);
	if (err)
		return err;

	WRITE_ONCE(conn->state, ZIW_CONN_STREAMING);
	ziw_qp_get(qp);
	return 0;
}

/**
 * ziw_conn_stream_start - have the engines look at what is there already
 * @conn: connection, attached; conn->mutex held
 *
 * What came before the attachment, the peer's FIN included, and what was
 * posted before it, would wait for a call that does not come.
 *
 * Context: process.
 */
void ziw_conn_stream_start(struct ziw_conn *conn)
{
	struct sock *sk = conn->sk;

	kfree(conn->setup);
	conn->setup = NULL;
	lock_sock(sk);
	local_bh_disable();
	ziw_rx_run(conn);
	local_bh_enable();
	release_sock(sk);
	ziw_tx_kick(conn->qp, 0);
}

/* --- out of it --- */

static bool sk_is_closed(const struct sock *sk)
{
	u8 state = READ_ONCE(sk->sk_state);

	return state == TCP_CLOSE || state == TCP_TIME_WAIT;
}

/* The receive WQE that a message has begun to fill was taken off its queue. */
static void flush_partial_recv(struct ziw_conn *conn, struct ziw_qp *qp)
{
	struct ziw_cqe cqe = {
		.wr_id	= conn->rx.rqe.wr_id,
		.opcode	= ZIW_OP_RECV,
		.status	= IB_WC_WR_FLUSH_ERR,
	};

	if (conn->rx.have_rqe)
		ziw_qp_complete_recv(qp, &cqe);
	conn->rx.have_rqe = false;
}

/* Whether TCP holds pages that a flush would give back. */
static bool pages_outstanding(struct ziw_conn *conn)
{
	const struct ziw_sq *sq = &conn->qp->sq;
	u32 i, una = ziw_llp_acked(conn->sk);

	for (i = sq->acked; i != sq->next; i++) {
		const struct ziw_sq_track *track = &sq->track[i & sq->ring.mask];

		if (track->flags & ZIW_SQ_WAIT_ACK && before(una, track->end_seq))
			return true;
	}
	return false;
}

/*
 * Whether TCP holds what must not arrive any more. An owner that has given up may go on to
 * do the same by another connection: a write that a storage target carries out after that,
 * because this one's command or data came late, is carried out over newer data. So the
 * kernel's consumers leave nothing; and of a program's nothing goes to a peer that has not
 * answered for long. Socket lock.
 */
static bool comes_too_late(const struct ziw_conn *conn)
{
	const struct sock *sk = conn->sk;
	u32 left = ziw_llp_next(sk) - ziw_llp_acked(sk);

	/* A FIN does no harm. */
	if ((1 << sk->sk_state) & (TCPF_FIN_WAIT1 | TCPF_CLOSING | TCPF_LAST_ACK))
		left--;
	return left && (ziw_qp_is_kernel(conn->qp) ||
			inet_csk(sk)->icsk_retransmits >= SILENT_RETRANSMITS);
}

/* The socket and the QP part. Return: whether the connection has to be reset. */
static bool stream_stop(struct ziw_conn *conn)
{
	struct ziw_qp *qp = conn->qp;
	bool abort;

	lock_sock(conn->sk);
	clear_bit(ZIW_CONN_IN_STREAM, &conn->flags);
	spin_lock_bh(&qp->lock);
	ziw_tx_reap(conn);
	if (qp->state != ZIW_QP_ERROR)
		ziw_qp_move(qp, ZIW_QP_ERROR);
	/* A spliced WQE that is not all with TCP yet counts as well. */
	abort = pages_outstanding(conn) || conn->tx.batch.bytes || conn->tx.wqe.active ||
		comes_too_late(conn);
	ziw_batch_drop(&conn->tx.batch);
	conn->qp = NULL;
	spin_unlock_bh(&qp->lock);
	release_sock(conn->sk);
	return abort;
}

static void qp_detach(struct ziw_conn *conn, struct ziw_qp *qp)
{
	spin_lock_bh(&qp->lock);
	flush_partial_recv(conn, qp);
	RCU_INIT_POINTER(qp->conn, NULL);
	spin_unlock_bh(&qp->lock);
	ziw_qp_flush(qp);
	if (qp->srq)
		ziw_qp_event(qp, IB_EVENT_QP_LAST_WQE_REACHED);
	wake_up_all(&qp->detached);
	ziw_qp_put(qp);
}

/*
 * Whether a kernel socket would be left without timers (tcp_close()) while it waits for
 * the peer: if what it waits for does not come, nobody frees it. One that waits for a FIN
 * gets a small socket in its place, with a timer, unless it is to wait long.
 */
static bool sk_waits(const struct sock *sk)
{
	u8 state = READ_ONCE(sk->sk_state);

	if (state == TCP_FIN_WAIT2)
		return tcp_fin_time(sk) > TCP_TIMEWAIT_LEN;
	return (1 << state) & ~(TCPF_CLOSE | TCPF_SYN_SENT | TCPF_TIME_WAIT);
}

/**
 * ziw_conn_release_socket - the connection is no more
 * @conn: connection; conn->mutex held
 * @abort: reset it, whatever was not delivered
 *
 * Context: process.
 */
void ziw_conn_release_socket(struct ziw_conn *conn, bool abort)
{
	struct ziw_dev *dev = conn->dev;

	abort |= sk_waits(conn->sk);
	WRITE_ONCE(conn->state, ZIW_CONN_DEAD);
	ziw_conn_stop_timer(conn);
	ziw_llp_remove(conn->sk);
	/* With the socket lock taken since the stream ended, nobody begins another. */
	if (cancel_delayed_work(&conn->retry))
		ziw_conn_put(conn);
	ziw_llp_release(conn->sock, abort);
	ziw_llp_forget_routes(conn->sk);
	conn->sock = NULL;

	spin_lock_bh(&dev->conns_lock);
	ziw_stat_tcp(conn);
	list_del(&conn->entry);
	spin_unlock_bh(&dev->conns_lock);
	ziw_dev_conn_put(dev);
	ziw_conn_put(conn);
}

/* Whether there is anything left for TCP to deliver, and time for it. */
static bool may_linger(struct ziw_conn *conn)
{
	return conn->state != ZIW_CONN_CONNECTING &&
	       !(conn->state < ZIW_CONN_STREAMING &&
		 test_bit(ZIW_CONN_TIMEOUT, &conn->flags)) &&
	       !READ_ONCE(conn->dev->dying) && !sk_is_closed(conn->sk);
}

/*
 * TCP stops to retransmit when a kernel socket is released, so it is kept until
 * the peer has all that was sent, our FIN included. Nobody waits for that.
 */
static void linger(struct ziw_conn *conn)
{
	kernel_sock_shutdown(conn->sock, SHUT_WR);
	WRITE_ONCE(conn->state, ZIW_CONN_LINGERING);
	ziw_conn_start_timer(conn, ziw_param(conn->dev, ZIW_PARAM_USER_TIMEOUT));
	ziw_conn_kick(conn);
}

/**
 * ziw_conn_finish - end the connection
 * @conn: connection; conn->mutex held
 *
 * The QP's work requests are flushed, and the CM is told. If TCP holds pages of
 * the application, or what must not arrive late, the connection is reset first, so that
 * it lets go of them; else it goes on to deliver what was completed already.
 *
 * Context: process.
 */
void ziw_conn_finish(struct ziw_conn *conn)
{
	struct ziw_qp *qp = conn->qp;
	bool stay, abort = false;

	if (conn->state >= ZIW_CONN_LINGERING)
		return;
	ziw_remember_end(conn);
	if (qp)
		abort = stream_stop(conn);
	/* While the device is sure to be there. */
	ziw_cm_forget_request(conn);
	stay = !abort && may_linger(conn);
	if (!stay)
		ziw_conn_release_socket(conn, abort);
	if (qp)
		qp_detach(conn, qp);
	ziw_cm_closed(conn);
	if (stay)
		linger(conn);
}

static void step_lingering(struct ziw_conn *conn)
{
	struct sock *sk = conn->sk;
	int unread;

	if (READ_ONCE(conn->dev->dying) || sk_is_closed(sk) ||
	    test_bit(ZIW_CONN_TIMEOUT, &conn->flags)) {
		ziw_conn_release_socket(conn, false);
		return;
	}
	/* To be released on unread data would be to reset the connection. */
	lock_sock(sk);
	unread = tcp_inq(sk);
	if (unread > 0)
		tcp_read_done(sk, unread);
	release_sock(sk);
}

/* Send our FIN after what TCP still has; from then on nothing is sent. */
static void half_close(struct ziw_conn *conn)
{
	lock_sock(conn->sk);
	conn->tx.failed = true;
	release_sock(conn->sk);
	kernel_sock_shutdown(conn->sock, SHUT_WR);
	WRITE_ONCE(conn->state, ZIW_CONN_CLOSING);
	ziw_conn_start_timer(conn, ziw_param(conn->dev, ZIW_PARAM_CLOSE_TIMEOUT));
}

/* Whether the SQ is drained, and all the peer asked for is answered. */
static bool drained(struct ziw_conn *conn)
{
	struct ziw_qp *qp = conn->qp;
	bool ret;

	lock_sock(conn->sk);
	spin_lock_bh(&qp->lock);
	ret = qp->sq.ring.index == qp->sq.next && !conn->tx.batch.bytes &&
	      !ziw_sq_ready(qp) &&
	      conn->irq_head == conn->irq_tail && conn->orq_head == conn->orq_tail;
	spin_unlock_bh(&qp->lock);
	release_sock(conn->sk);
	return ret;
}

static bool terminate_sent(struct ziw_conn *conn)
{
	bool ret;

	lock_sock(conn->sk);
	ret = conn->tx.terminated && !conn->tx.batch.bytes;
	release_sock(conn->sk);
	return ret;
}

static bool timer_pending_or_due(struct ziw_conn *conn)
{
	return delayed_work_pending(&conn->timer) ||
	       test_bit(ZIW_CONN_TIMEOUT, &conn->flags);
}

static void step_streaming(struct ziw_conn *conn)
{
	enum ziw_qp_state state = READ_ONCE(conn->qp->state);
	bool done;

	if (state == ZIW_QP_RTS) {
		/* The only limit on an open stream is the wait for a peer's RTR. */
		if (READ_ONCE(conn->tx.open))
			ziw_conn_stop_timer(conn);
		if (test_bit(ZIW_CONN_PEER_CLOSED, &conn->flags))
			ziw_because(conn, ZIW_WHY_PEER_CLOSED, 0);
		else if (test_bit(ZIW_CONN_TIMEOUT, &conn->flags))
			ziw_because(conn, ZIW_WHY_SETUP_TIMEOUT, 0);
		else
			return;
		ziw_conn_finish(conn);
		return;
	}
	if (state != ZIW_QP_CLOSING && state != ZIW_QP_TERMINATE) {
		ziw_conn_finish(conn);
		return;
	}
	done = state == ZIW_QP_CLOSING ? drained(conn) : terminate_sent(conn);
	if (done)
		half_close(conn);
	else if (!timer_pending_or_due(conn))
		ziw_conn_start_timer(conn, ziw_param(conn->dev, ZIW_PARAM_CLOSE_TIMEOUT));
	else if (test_bit(ZIW_CONN_TIMEOUT, &conn->flags))
		ziw_conn_finish(conn);
	else
		return;
	/* The peer may have closed long before us. */
	if (conn->state != ZIW_CONN_DEAD && test_bit(ZIW_CONN_PEER_CLOSED, &conn->flags))
		ziw_conn_finish(conn);
}

/* --- the state machine --- */

static void conn_step(struct ziw_conn *conn)
{
	bool aborted = test_bit(ZIW_CONN_ABORT, &conn->flags);
	bool timeout = test_bit(ZIW_CONN_TIMEOUT, &conn->flags);

	switch (conn->state) {
	case ZIW_CONN_CONNECTING:
	case ZIW_CONN_REQ_SENT:
	case ZIW_CONN_REQ_WAIT:
		ziw_setup_step(conn, aborted, timeout);
		break;
	case ZIW_CONN_REQ_SEEN:
		/* Accepting or rejecting it will find it gone. */
		if (timeout)
			ziw_because(conn, ZIW_WHY_SETUP_TIMEOUT, 0);
		if (aborted || timeout || sk_is_closed(conn->sk) ||
		    READ_ONCE(conn->sk->sk_state) == TCP_CLOSE_WAIT)
			ziw_conn_finish(conn);
		break;
	case ZIW_CONN_STREAMING:
		if (aborted || sk_is_closed(conn->sk))
			ziw_conn_finish(conn);
		else
			step_streaming(conn);
		break;
	case ZIW_CONN_CLOSING:
		if (aborted || timeout || sk_is_closed(conn->sk) ||
		    test_bit(ZIW_CONN_PEER_CLOSED, &conn->flags))
			ziw_conn_finish(conn);
		break;
	case ZIW_CONN_LINGERING:
		step_lingering(conn);
		break;
	case ZIW_CONN_DEAD:
		break;
	}
}

/* The reference is the work item's. */
static void conn_run(struct ziw_conn *conn)
{
	mutex_lock(&conn->mutex);
	conn_step(conn);
	mutex_unlock(&conn->mutex);
	ziw_conn_put(conn);
}

static void conn_work(struct work_struct *work)
{
	conn_run(container_of(work, struct ziw_conn, work));
}

static void conn_setup_work(struct work_struct *work)
{
	conn_run(container_of(work, struct ziw_conn, setup_work));
}

/**
 * ziw_conn_alloc - make a connection around a socket
 * @dev: device
 * @sock: socket; the connection's from now on, if it is made
 * @initiator: we connect
 *
 * Context: process.
 * Return: the connection, with its mutex held, so that nobody ends it before the caller is
 * done, and with one reference for the socket and one for the caller; or an ERR_PTR:
 * -ENODEV if the device is going away, -ENOMEM.
 */
struct ziw_conn *ziw_conn_alloc(struct ziw_dev *dev, struct socket *sock,
				bool initiator)
{
	struct ziw_conn *conn;
	int err;

	conn = kmem_cache_zalloc(conn_cache, GFP_KERNEL);
	if (!conn)
		return ERR_PTR(-ENOMEM);
	conn->setup = kmalloc(sizeof(*conn->setup), GFP_KERNEL);
	if (!conn->setup || !ziw_dev_conn_get(dev)) {
		err = conn->setup ? -ENODEV : -ENOMEM;
		kfree(conn->setup);
		kmem_cache_free(conn_cache, conn);
		return ERR_PTR(err);
	}
	kref_init(&conn->ref);
	ziw_conn_get(conn);
	conn->dev = dev;
	conn->sock = sock;
	conn->sk = sock->sk;
	sock_hold(conn->sk);
	mutex_init(&conn->mutex);
	conn->initiator = initiator;
	conn->state = initiator ? ZIW_CONN_CONNECTING : ZIW_CONN_REQ_WAIT;
	INIT_WORK(&conn->work, conn_work);
	INIT_WORK(&conn->setup_work, conn_setup_work);
	INIT_DELAYED_WORK(&conn->timer, conn_timer_work);
	INIT_DELAYED_WORK(&conn->retry, ziw_conn_retry_work);
	INIT_WORK(&conn->collect, ziw_conn_collect_work);
	ziw_fault_init(&conn->tx_fault, conn);
	ziw_fault_init(&conn->rx_fault, conn);
	ziw_live_add(ZIW_LIVE_CONN, 1);

	/* A fallback holds the mutex of the connection that it replaces. */
	mutex_lock_nested(&conn->mutex, SINGLE_DEPTH_NESTING);
	spin_lock_bh(&dev->conns_lock);
	list_add(&conn->entry, &dev->conns);
	if (dev->dying)
		ziw_conn_abort(conn);
	spin_unlock_bh(&dev->conns_lock);
	return conn;
}
