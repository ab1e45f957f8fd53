// SPDX-License-Identifier: GPL-2.0
/* iw_cm's operations: the front end by which rdma_cm uses connections. */
#include <net/ip.h>
#include <net/ipv6.h>
#include <net/tcp.h>
#include "conn.h"
#include "inspect.h"

/* --- QP references, as iw_cm asks for them --- */

void ziw_qp_add_ref(struct ib_qp *ibqp)
{
	ziw_qp_get(to_ziw_qp(ibqp));
}

void ziw_qp_rem_ref(struct ib_qp *ibqp)
{
	ziw_qp_put(to_ziw_qp(ibqp));
}

/**
 * ziw_get_qp - find a QP by its number
 * @ibdev: device
 * @qpn: number
 *
 * Return: the QP, without a reference, or NULL.
 */
struct ib_qp *ziw_get_qp(struct ib_device *ibdev, int qpn)
{
	struct ziw_qp *qp = xa_load(&to_ziw_dev(ibdev)->qps, qpn);

	return qp ? &qp->ibqp : NULL;
}

static struct ziw_qp *find_qp(struct ziw_dev *dev, u32 qpn)
{
	struct ziw_qp *qp;

	/* destroy_qp takes it out of the table before it drops its reference. */
	xa_lock(&dev->qps);
	qp = xa_load(&dev->qps, qpn);
	if (qp && !refcount_inc_not_zero(&qp->ref))
		qp = NULL;
	xa_unlock(&dev->qps);
	return qp;
}

/* --- events --- */

static void fill_addresses(struct ziw_conn *conn, struct iw_cm_event *event)
{
	ziw_llp_addresses(conn->sk, &event->local_addr, &event->remote_addr);
}

/* What the peer said, for events that carry it. Private data is copied by iw_cm. */
static void fill_peer(struct ziw_conn *conn, struct iw_cm_event *event)
{
	const struct ziw_mpa_frame *frame = &conn->frame;

	event->private_data_len = frame->pd_len;
	event->private_data = (void *)ziw_conn_private_data(conn);
	/* As the peer gave them: rdma_cm makes its initiator depth of our IRD. */
	if (frame->enhanced) {
		event->ird = min_t(u16, frame->ird, U8_MAX);
		event->ord = min_t(u16, frame->ord, U8_MAX);
	} else {
		event->ird = ZIW_MAX_IRD;
		event->ord = ZIW_MAX_ORD;
	}
}

/*
 * A request is named to iw_cm by a number, not by its address: iw_cm may drop
 * it without a word, and the connection may end before it is answered. The
 * table holds a reference, which goes to who takes the entry out. No number comes
 * again soon: iw_cm may still have it.
 */
static int name_request(struct ziw_conn *conn, struct iw_cm_event *event)
{
	int err;

	ziw_conn_get(conn);
	err = xa_alloc_cyclic(&conn->dev->requests, &conn->request_id, conn,
			      XA_LIMIT(1, U32_MAX), &conn->dev->next_request, GFP_KERNEL);
	if (err < 0) {
		conn->request_id = 0;
		ziw_conn_put(conn);
		return err;
	}
	event->provider_data = (void *)(uintptr_t)conn->request_id;
	return 0;
}

static struct ziw_conn *take_request(struct iw_cm_id *cm_id)
{
	struct ziw_dev *dev = to_ziw_dev(cm_id->device);
	struct ziw_conn *conn;

	conn = xa_erase(&dev->requests, (uintptr_t)cm_id->provider_data);
	cm_id->provider_data = NULL;
	return conn;
}

/**
 * ziw_cm_forget_request - the request can be answered no longer
 * @conn: connection; conn->mutex held
 *
 * Context: process.
 */
void ziw_cm_forget_request(struct ziw_conn *conn)
{
	u32 id = conn->request_id;

	conn->request_id = 0;
	if (id && xa_cmpxchg(&conn->dev->requests, id, conn, NULL, GFP_KERNEL) == conn)
		ziw_conn_put(conn);
}

/**
 * ziw_cm_request - show a connect request to the ULP
 * @conn: connection with a Request Frame; conn->mutex held
 *
 * Context: process.
 * Return: 0, and iw_cm will accept or reject, unless it forgets; or a negative
 * error: it has no room for more requests, or the listener has gone.
 */
int ziw_cm_request(struct ziw_conn *conn)
{
	struct iw_cm_event event = { .event = IW_CM_EVENT_CONNECT_REQUEST };
	struct iw_cm_id *cm_id;
	int err;

	err = name_request(conn, &event);
	if (err)
		return err;
	fill_addresses(conn, &event);
	fill_peer(conn, &event);
	err = -ECONNABORTED;
	cm_id = ziw_listen_cm_id(conn->listen);
	if (cm_id) {
		err = cm_id->event_handler(cm_id, &event);
		cm_id->rem_ref(cm_id);
	}
	if (err)
		ziw_cm_forget_request(conn);
	ziw_listen_put(conn->listen);
	conn->listen = NULL;
	return err;
}

/*
 * The QP that is to be attached; if it goes to the error state it ends the setup.
 * There is one setup at a time, or that would find only one of them; @before is
 * the one that this one replaces. Return: whether it is the one.
 */
static bool remember_qp(struct ziw_conn *conn, struct ziw_qp *qp,
			const struct ziw_conn *before)
{
	bool ok;

	spin_lock_bh(&qp->lock);
	ok = !qp->setup || qp->setup == before;
	if (ok) {
		conn->want_qp = qp;
		qp->setup = conn;
		if (qp->state == ZIW_QP_ERROR)
			ziw_conn_abort(conn);
	}
	spin_unlock_bh(&qp->lock);
	return ok;
}

static void forget_qp(struct ziw_conn *conn)
{
	struct ziw_qp *qp = conn->want_qp;

	if (!qp)
		return;
	conn->want_qp = NULL;
	spin_lock_bh(&qp->lock);
	if (qp->setup == conn)
		qp->setup = NULL;
	spin_unlock_bh(&qp->lock);
	ziw_qp_put(qp);
}

/* Private data is what iw_cm may lack memory for; without the event it would wait forever. */
static void cm_event(struct ziw_conn *conn, struct iw_cm_event *event)
{
	if (conn->cm_id->event_handler(conn->cm_id, event) && event->private_data_len) {
		event->private_data_len = 0;
		conn->cm_id->event_handler(conn->cm_id, event);
	}
}

static void cm_drop(struct ziw_conn *conn)
{
	conn->cm_id->rem_ref(conn->cm_id);
	conn->cm_id = NULL;
}

/**
 * ziw_cm_reply - tell the initiator's ULP how its connect ended
 * @conn: connection; conn->mutex held
 * @status: 0, or a negative error: -ECONNREFUSED, -ECONNRESET, -ETIMEDOUT...
 *
 * Context: process.
 */
void ziw_cm_reply(struct ziw_conn *conn, int status)
{
	struct iw_cm_event event = {
		.event	= IW_CM_EVENT_CONNECT_REPLY,
		.status	= status,
	};

	if (!conn->cm_id)
		return;
	/* What the ULP can act on is: refused, timed out, or failed. */
	if (status == -EPIPE || status == -ECONNABORTED)
		event.status = -ECONNRESET;
	fill_addresses(conn, &event);
	/* A reject may have broken off, be waited for in vain, or say more than iw_cm can carry. */
	if (!status || (conn->frame.reject && ziw_conn_frame_whole(conn) &&
			conn->frame.pd_len <= ZIW_MAX_CM_PRIVATE))
		fill_peer(conn, &event);
	cm_event(conn, &event);
	if (status)
		cm_drop(conn);
	forget_qp(conn);
}

/**
 * ziw_cm_closed - tell the ULP that the connection is gone
 * @conn: connection; conn->mutex held
 *
 * Context: process.
 */
void ziw_cm_closed(struct ziw_conn *conn)
{
	struct iw_cm_event event = { .event = IW_CM_EVENT_CLOSE };

	if (conn->listen)
		ziw_listen_put(conn->listen);
	conn->listen = NULL;
	forget_qp(conn);
	if (!conn->cm_id)
		return;
	fill_addresses(conn, &event);
	cm_event(conn, &event);
	cm_drop(conn);
}

/* --- connect --- */

static int addr_len(const struct sockaddr_storage *addr)
{
	return addr->ss_family == AF_INET ? sizeof(struct sockaddr_in) :
	       sizeof(struct sockaddr_in6);
}

static int bind_local(struct socket *sock, const struct sockaddr_storage *addr)
{
	struct sockaddr_storage local = *addr;
	int err;

	sock_set_reuseaddr(sock->sk);
	err = kernel_bind(sock, ziw_sockaddr(&local), addr_len(&local));
	if (err != -EADDRINUSE)
		return err;
	/*
	 * rdma_cm picks a port without knowing which ones TCP uses. The ULP
	 * learns from the event which port it is in the end.
	 */
	((struct sockaddr_in *)&local)->sin_port = 0;
	return kernel_bind(sock, ziw_sockaddr(&local), addr_len(&local));
}

static void set_tos(struct socket *sock, const struct iw_cm_id *cm_id)
{
	struct sock *sk = sock->sk;

	if (!cm_id->tos_set)
		return;
	if (sk->sk_family == AF_INET) {
		ip_sock_set_tos(sk, cm_id->tos);
	} else {
		lock_sock(sk);
		inet6_sk(sk)->tclass = cm_id->tos;
		release_sock(sk);
		sock_set_priority(sk, rt_tos2priority(cm_id->tos));
	}
}

/**
 * struct offer - what a Request Frame will say
 * @rev: MPA revision
 * @ird: IRD that the ULP asked for
 * @ord: ORD that the ULP asked for
 * @pd_len: bytes of @pd, at most ZIW_MAX_CM_PRIVATE
 * @pd: private data
 * @before: connection that is to be replaced, or NULL
 */
struct offer {
	u8			rev;
	u32			ird;
	u32			ord;
	u8			pd_len;
	const void		*pd;
	const struct ziw_conn	*before;
};

/* Begin to connect. On success the connection has taken over @qp's reference. */
static int start_connect(struct ziw_dev *dev, struct iw_cm_id *cm_id,
			 struct ziw_qp *qp, const struct offer *offer)
{
	struct sockaddr_storage *remote = &cm_id->m_remote_addr;
	struct ziw_conn *conn;
	struct socket *sock;
	int err;

	/* The device, and so the namespace, waits for a socket in the making too. */
	if (!ziw_dev_conn_get(dev))
		return -ENODEV;
	err = ziw_llp_create(dev, remote->ss_family, &sock);
	if (err)
		goto out;
	set_tos(sock, cm_id);
	err = bind_local(sock, &cm_id->m_local_addr);
	if (err)
		goto err_sock;
	conn = ziw_conn_alloc(dev, sock, true);
	if (IS_ERR(conn)) {
		err = PTR_ERR(conn);
		goto err_sock;
	}

	conn->rev = offer->rev;
	conn->want_ird = offer->ird;
	conn->want_ord = offer->ord;
	conn->pd_len = offer->pd_len;
	memcpy(conn->setup->pd, offer->pd, offer->pd_len);
	ziw_llp_install(conn->sk, conn);
	err = kernel_connect(sock, ziw_sockaddr(remote), addr_len(remote), O_NONBLOCK);
	if (err == -EINPROGRESS)
		err = 0;
	if (!err && !remember_qp(conn, qp, offer->before))
		err = -EINVAL;
	if (err) {
		ziw_conn_finish(conn);
	} else {
		conn->cm_id = cm_id;
		cm_id->add_ref(cm_id);
		ziw_stat_inc(dev, ZIW_STAT_CONNECTS);
		ziw_conn_start_timer(conn, ziw_param(dev, ZIW_PARAM_SETUP_TIMEOUT));
		ziw_conn_kick(conn);
	}
	mutex_unlock(&conn->mutex);
	ziw_conn_put(conn);
	goto out;

err_sock:
	sock_release(sock);
out:
	ziw_dev_conn_put(dev);
	return err;
}

/**
 * ziw_connect - iw_cm: connect
 * @cm_id: with addresses
 * @param: QP, IRD, ORD, private data
 *
 * Context: process.
 * Return: 0, and a CONNECT_REPLY event follows; or a negative error: -EINVAL
 * for an unknown QP or too much private data, or what TCP says.
 */
int ziw_connect(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param)
{
	struct ziw_dev *dev = to_ziw_dev(cm_id->device);
	const struct offer offer = {
		.rev	= ziw_param(dev, ZIW_PARAM_MPA_REV),
		.ird	= min_t(u32, param->ird, ZIW_MAX_IRD),
		.ord	= min_t(u32, param->ord, ZIW_MAX_ORD),
		.pd_len	= param->private_data_len,
		.pd	= param->private_data,
	};
	struct ziw_qp *qp;
	int err;

	if (param->private_data_len > ZIW_MAX_CM_PRIVATE)
		return -EINVAL;
	if (cm_id->m_remote_addr.ss_family != AF_INET &&
	    cm_id->m_remote_addr.ss_family != AF_INET6)
		return -EAFNOSUPPORT;
	qp = find_qp(dev, param->qpn);
	if (!qp)
		return -EINVAL;
	err = start_connect(dev, cm_id, qp, &offer);
	if (err)
		ziw_qp_put(qp);
	return err;
}

/**
 * ziw_cm_fallback - connect once more, with MPA revision 1
 * @conn: connection that the peer closed on our Request Frame; conn->mutex held
 *
 * Context: process.
 * Return: 0, and the new connection has taken over the CM's end; or a negative
 * error.
 */
int ziw_cm_fallback(struct ziw_conn *conn)
{
	const struct offer offer = {
		.rev	= 1,
		.ird	= conn->want_ird,
		.ord	= conn->want_ord,
		.pd_len	= conn->pd_len,
		.pd	= conn->setup->pd,
		.before	= conn,
	};
	int err;

	/* Each connection has a reference of its own. */
	ziw_qp_get(conn->want_qp);
	err = start_connect(conn->dev, conn->cm_id, conn->want_qp, &offer);
	if (err) {
		ziw_qp_put(conn->want_qp);
		return err;
	}
	forget_qp(conn);
	cm_drop(conn);
	return 0;
}

/* --- accept, reject --- */

/* What to answer, and what holds for the stream; RFC 6581 section 9.1. */
static void choose_reply(struct ziw_conn *conn, const struct iw_cm_conn_param *param,
			 struct ziw_mpa_frame *reply)
{
	const struct ziw_mpa_frame *request = &conn->frame;
	const struct ziw_dev *dev = conn->dev;
	/* None is about requests: one that wants an RTR gets an offer. */
	u8 rtr = ziw_param(dev, ZIW_PARAM_RTR) ? : ZIW_RTR_ALL;

	conn->crc = request->crc ||
		    ziw_param(dev, ZIW_PARAM_CRC) == ZIW_CRC_REQUIRED;
	conn->tx.batch.markers = request->markers;
	conn->rx.markers = ziw_param(dev, ZIW_PARAM_MARKERS);
	conn->ird = min_t(u32, param->ird, ZIW_MAX_IRD);
	conn->ord = min_t(u32, param->ord, ZIW_MAX_ORD);
	reply->reply = true;
	reply->rev = request->rev;
	reply->crc = conn->crc;
	reply->markers = conn->rx.markers;
	reply->pd_len = param->private_data_len;
	if (!request->enhanced)
		return;

	reply->enhanced = true;
	reply->p2p = request->p2p;
	if (request->p2p) {
		/* With none in common the initiator ends it (RFC 6581, 9.2). */
		reply->rtr = request->rtr & rtr ? : rtr;
		conn->rx.want_rtr = reply->rtr;
		/* The RTR read needs a place in our IRD. */
		if (reply->rtr & ZIW_RTR_READ)
			conn->ird = max(conn->ird, 1U);
	}
	if (request->ird != MPA_ORD_NONE)
		conn->ord = min_t(u32, conn->ord, request->ird);
	reply->ird = request->ord == MPA_ORD_NONE ? MPA_ORD_NONE : conn->ird;
	reply->ord = request->ird == MPA_ORD_NONE ? MPA_ORD_NONE : conn->ord;
}

static int accept_locked(struct ziw_conn *conn, struct iw_cm_id *cm_id,
			 struct ziw_qp *qp, const struct iw_cm_conn_param *param)
{
	struct iw_cm_event event = { .event = IW_CM_EVENT_ESTABLISHED };
	struct ziw_mpa_frame reply = {};
	int err;

	if (conn->state != ZIW_CONN_REQ_SEEN)
		return -ECONNRESET;
	ziw_conn_stop_timer(conn);
	choose_reply(conn, param, &reply);
	/* In stream before the reply: the peer's first FPDU may follow at once. */
	err = ziw_conn_attach(conn, qp);
	if (err)
		return err;
	conn->cm_id = cm_id;
	cm_id->add_ref(cm_id);
	err = ziw_conn_send_frame(conn, &reply, param->private_data);
	if (err) {
		cm_drop(conn);
		return err;
	}
	ziw_stat_inc(conn->dev, ZIW_STAT_ACCEPTS);
	event.ird = conn->ord;
	event.ord = conn->ird;
	fill_addresses(conn, &event);
	cm_event(conn, &event);
	if (reply.p2p)
		ziw_conn_start_timer(conn, ziw_param(conn->dev,
						     ZIW_PARAM_SETUP_TIMEOUT));
	return 0;
}

/**
 * ziw_accept - iw_cm: accept a connect request
 * @cm_id: with provider_data from the event
 * @param: QP, IRD, ORD, private data
 *
 * Context: process.
 * Return: 0; -ECONNRESET if the peer has gone meanwhile; -EINVAL for an unknown
 * QP, one in the wrong state, or too much private data; -ENOMEM.
 */
int ziw_accept(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param)
{
	struct ziw_dev *dev = to_ziw_dev(cm_id->device);
	struct ziw_conn *conn = take_request(cm_id);
	struct ziw_qp *qp;
	int err = -EINVAL;

	if (!conn)
		return -ECONNRESET;
	qp = find_qp(dev, param->qpn);

	mutex_lock(&conn->mutex);
	if (qp && param->private_data_len <= ZIW_MAX_CM_PRIVATE)
		err = accept_locked(conn, cm_id, qp, param);
	if (!err)
		ziw_conn_stream_start(conn);
	else if (conn->state == ZIW_CONN_REQ_SEEN)
		ziw_conn_refuse(conn);
	else
		ziw_conn_finish(conn);
	mutex_unlock(&conn->mutex);

	if (qp)
		ziw_qp_put(qp);
	ziw_conn_put(conn);
	return err;
}

/**
 * ziw_reject - iw_cm: refuse a connect request
 * @cm_id: with provider_data from the event
 * @pdata: private data
 * @pd_len: bytes
 *
 * Context: process.
 * Return: 0, or -ECONNRESET if the peer has gone meanwhile.
 */
int ziw_reject(struct iw_cm_id *cm_id, const void *pdata, u8 pd_len)
{
	struct ziw_conn *conn = take_request(cm_id);
	int err = -ECONNRESET;

	if (!conn)
		return err;
	mutex_lock(&conn->mutex);
	if (conn->state == ZIW_CONN_REQ_SEEN) {
		const struct ziw_mpa_frame *request = &conn->frame;
		const struct ziw_mpa_frame reply = {
			.reply		= true,
			.rev		= request->rev,
			.reject		= true,
			.crc		= request->crc,
			.enhanced	= request->enhanced,
			.p2p		= request->p2p,
			.rtr		= request->p2p ? ZIW_RTR_ALL : 0,
			.pd_len		= pd_len,
		};

		err = ziw_conn_send_frame(conn, &reply, pdata);
		ziw_stat_inc(conn->dev, ZIW_STAT_REFUSALS);
		ziw_because(conn, ZIW_WHY_REJECTED, 0);
		ziw_conn_finish(conn);
	}
	mutex_unlock(&conn->mutex);
	ziw_conn_put(conn);
	return err;
}
