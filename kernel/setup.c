// SPDX-License-Identifier: GPL-2.0
/*
 * Setup of a connection: the MPA negotiation (RFC 5044, 7.1; RFC 6581), on
 * either side, up to the stream. All of it runs under conn->mutex.
 */
#include <linux/net.h>
#include <net/tcp.h>
#include "conn.h"
#include "inspect.h"

/* Seconds that a ULP may take to answer a connect request, as other CMs allow. */
#define REQUEST_TIMEOUT	60

/* --- frames --- */

/**
 * ziw_conn_send_frame - send a setup frame
 * @conn: connection; conn->mutex held
 * @frame: what to say
 * @private_data: frame->pd_len bytes
 *
 * Context: process.
 * Return: 0 or a negative error. The frame is far smaller than any send
 * buffer, so that part of it being sent means that the connection is broken.
 */
int ziw_conn_send_frame(struct ziw_conn *conn, const struct ziw_mpa_frame *frame,
			const void *private_data)
{
	u8 buf[MPA_HDR_LEN + MPA_ENHANCED_LEN + ZIW_MAX_CM_PRIVATE];
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	struct kvec iov = { .iov_base = buf };
	int n;

	iov.iov_len = ziw_mpa_encode(buf, frame, private_data);
	n = kernel_sendmsg(conn->sock, &msg, &iov, 1, iov.iov_len);
	/* There is room, so what could be tried again is an allocation. */
	if (n == -EAGAIN)
		return -ENOMEM;
	if (n < 0)
		return n;
	return n == iov.iov_len ? 0 : -ECONNRESET;
}

/*
 * A Terminate Message on a connection that no QP was attached to, so that no
 * engine sends it: the first FPDU, and the last.
 */
static void send_lone_terminate(struct ziw_conn *conn, u16 code)
{
	const struct ziw_terminate term = { .code = code };
	const struct ziw_ddp_hdr hdr = {
		.last	= true,
		.opcode	= RDMAP_TERMINATE,
		.qn	= DDP_QN_TERMINATE,
		.msn	= 1,
	};
	u8 buf[MPA_MARKER_SIZE + MPA_LEN_SIZE + DDP_UNTAGGED_LEN + TERM_HDR_LEN +
	       MPA_CRC_SIZE];
	struct msghdr msg = { .msg_flags = MSG_DONTWAIT | MSG_NOSIGNAL };
	struct kvec iov = { .iov_base = buf };
	unsigned int len = 0, ulpdu;
	__le32 crc = 0;

	if (conn->tx.batch.markers) {
		ziw_mpa_marker_encode(buf, 0);
		len = MPA_MARKER_SIZE;
	}
	ulpdu = ziw_ddp_encode(buf + len + MPA_LEN_SIZE, &hdr);
	ulpdu += ziw_terminate_encode(buf + len + MPA_LEN_SIZE + ulpdu, &term);
	put_unaligned_be16(ulpdu, buf + len);
	/* Length field and ULPDU are a multiple of four octets: no pad. */
	len += MPA_LEN_SIZE + ulpdu;
	if (conn->crc)
		crc = cpu_to_le32(~crc32c(~0U, buf, len));
	memcpy(buf + len, &crc, sizeof(crc));
	iov.iov_len = len + MPA_CRC_SIZE;
	ibdev_warn_ratelimited(&conn->dev->ibdev, "sending Terminate 0x%04x: %s\n", code,
			       ziw_terminate_name(code));
	ziw_stat_term(conn->dev, true, code);
	ziw_because(conn, ZIW_WHY_TERM_SENT, code);
	kernel_sendmsg(conn->sock, &msg, &iov, 1, iov.iov_len);
}

/**
 * ziw_conn_private_data - the ULP's part of the private data received
 * @conn: connection with a whole frame
 *
 * Return: conn->frame.pd_len bytes.
 */
const u8 *ziw_conn_private_data(const struct ziw_conn *conn)
{
	return conn->setup->frame + MPA_HDR_LEN + (conn->frame.enhanced ? MPA_ENHANCED_LEN : 0);
}

/**
 * ziw_conn_frame_whole - whether all that the peer's frame announced has come
 * @conn: connection; conn->mutex held
 *
 * Return: true if it has, and the private data is there.
 */
bool ziw_conn_frame_whole(const struct ziw_conn *conn)
{
	const u8 *end = ziw_conn_private_data(conn) + conn->frame.pd_len;

	return conn->setup->frame + conn->setup_len == end;
}

/*
 * Receive exactly the peer's frame: what follows is the stream's. Return: 1 when
 * it is whole, 0 when more has to come, or a negative error.
 */
static int recv_frame(struct ziw_conn *conn)
{
	struct msghdr msg = {};
	unsigned int want;
	struct kvec iov;
	int n;

	for (;;) {
		want = MPA_HDR_LEN;
		if (conn->setup_len >= MPA_HDR_LEN)
			want += conn->frame.pd_len;
		if (conn->setup_len == want)
			break;
		iov.iov_base = conn->setup->frame + conn->setup_len;
		iov.iov_len = want - conn->setup_len;
		n = kernel_recvmsg(conn->sock, &msg, &iov, 1, iov.iov_len, MSG_DONTWAIT);
		if (n == -EAGAIN)
			return 0;
		if (n <= 0)
			return n ? n : -ECONNRESET;
		conn->setup_len += n;
		if (conn->setup_len == MPA_HDR_LEN) {
			n = ziw_mpa_decode_header(conn->setup->frame, &conn->frame);
			if (n)
				return n;
			if (conn->frame.reply != conn->initiator)
				return -EPROTO;
		}
	}
	if (conn->frame.enhanced) {
		n = ziw_mpa_decode_enhanced(conn->setup->frame + MPA_HDR_LEN, &conn->frame);
		if (n)
			return n;
	}
	return 1;
}

/* --- initiator --- */

static void setup_failed(struct ziw_conn *conn, int err)
{
	ziw_stat_inc(conn->dev, ZIW_STAT_CONNECT_FAILURES);
	if (err == -ETIMEDOUT)
		ziw_because(conn, ZIW_WHY_SETUP_TIMEOUT, 0);
	else if (conn->frame.reject)
		ziw_because(conn, ZIW_WHY_REJECTED, 0);
	else
		ziw_because(conn, ZIW_WHY_SETUP_FAILED, -err);
	ziw_cm_reply(conn, err);
	ziw_conn_finish(conn);
}

static int send_request(struct ziw_conn *conn)
{
	const struct ziw_dev *dev = conn->dev;
	struct ziw_mpa_frame frame = {
		.rev		= conn->rev,
		.markers	= ziw_param(dev, ZIW_PARAM_MARKERS),
		.crc		= ziw_param(dev, ZIW_PARAM_CRC) != ZIW_CRC_OFF,
		.pd_len		= conn->pd_len,
	};

	/* What was asked for holds, even if the parameters change before the reply. */
	conn->crc = frame.crc;
	conn->rx.markers = frame.markers;

	if (conn->rev == 2) {
		frame.enhanced = true;
		frame.rtr = ziw_param(dev, ZIW_PARAM_RTR);
		frame.p2p = frame.rtr;
		/* The response to an RTR read needs a place to wait. */
		if (frame.rtr == ZIW_RTR_READ)
			conn->want_ord = max(conn->want_ord, 1U);
		else if (!conn->want_ord)
			frame.rtr &= ~ZIW_RTR_READ;
		conn->want_rtr = frame.rtr;
		frame.ird = conn->want_ird;
		frame.ord = conn->want_ord;
	}
	return ziw_conn_send_frame(conn, &frame, conn->setup->pd);
}

static void step_connecting(struct ziw_conn *conn)
{
	u8 tcp_state = READ_ONCE(conn->sk->sk_state);
	int err = sock_error(conn->sk);

	if (!err && tcp_state == TCP_SYN_SENT)
		return;
	if (!err && tcp_state != TCP_ESTABLISHED && tcp_state != TCP_CLOSE_WAIT)
		err = -ECONNREFUSED;
	if (!err)
		err = send_request(conn);
	if (err) {
		setup_failed(conn, err);
		return;
	}
	WRITE_ONCE(conn->state, ZIW_CONN_REQ_SENT);
	ziw_conn_kick(conn);
}

/* Take IRD and ORD from an enhanced reply, RFC 6581 section 9.1. */
static u16 adopt_reply(struct ziw_conn *conn)
{
	const struct ziw_mpa_frame *frame = &conn->frame;
	u8 rtr;

	conn->ird = conn->want_ird;
	conn->ord = conn->want_ord;
	if (!frame->enhanced)
		return 0;
	if (frame->ird != MPA_ORD_NONE)
		conn->ord = min_t(u32, conn->ord, frame->ird);
	if (frame->ord != MPA_ORD_NONE) {
		if (frame->ord > ZIW_MAX_IRD)
			return TERM_MPA_IRD;
		conn->ird = max_t(u32, conn->ird, frame->ord);
	}
	if (!frame->p2p)
		return 0;
	rtr = frame->rtr & conn->want_rtr;
	if (!conn->ord)
		rtr &= ~ZIW_RTR_READ;
	if (rtr & ZIW_RTR_WRITE)
		conn->tx.rtr = ZIW_RTR_WRITE;
	else if (rtr & ZIW_RTR_READ)
		conn->tx.rtr = ZIW_RTR_READ;
	else if (rtr & ZIW_RTR_SEND)
		conn->tx.rtr = ZIW_RTR_SEND;
	else
		return TERM_MPA_NO_RTR;
	return 0;
}

static void step_req_sent(struct ziw_conn *conn)
{
	struct ziw_terminate term = {};
	struct ziw_qp *qp = conn->want_qp;
	int ret = recv_frame(conn);

	if (!ret)
		return;
	/* A peer of revision 1 closes on a request that it does not know (RFC 6581, 10). */
	if (ret < 0 && !conn->setup_len && conn->rev == 2 && ret == -ECONNRESET) {
		/* The new connection may need the same port. */
		ziw_conn_release_socket(conn, true);
		if (ziw_cm_fallback(conn))
			ziw_cm_reply(conn, ret);
		return;
	}
	if (ret > 0 && conn->frame.reject)
		ret = -ECONNREFUSED;
	if (ret > 0 && conn->frame.pd_len > ZIW_MAX_CM_PRIVATE)
		ret = -EMSGSIZE;
	if (ret < 0) {
		setup_failed(conn, ret);
		return;
	}

	conn->crc |= conn->frame.crc;
	conn->tx.batch.markers = conn->frame.markers;
	term.code = adopt_reply(conn);
	conn->tx.open = true;
	ziw_conn_stop_timer(conn);
	ret = ziw_conn_attach(conn, qp);
	if (ret) {
		/* RFC 6581, 9.3 */
		send_lone_terminate(conn, TERM_MPA_CATASTROPHIC);
		setup_failed(conn, ret);
		return;
	}
	if (term.code) {
		lock_sock(conn->sk);
		spin_lock_bh(&qp->lock);
		ziw_tx_terminate(conn, &term);
		spin_unlock_bh(&qp->lock);
		release_sock(conn->sk);
		ziw_cm_reply(conn, -ECONNREFUSED);
	} else {
		ziw_cm_reply(conn, 0);
	}
	ziw_conn_stream_start(conn);
}

/* --- responder --- */

/**
 * ziw_conn_refuse - answer a Request Frame that cannot be accepted, and end
 * @conn: connection in ZIW_CONN_REQ_WAIT or ZIW_CONN_REQ_SEEN; conn->mutex held
 *
 * To close without an answer would have an initiator of revision 2 try again
 * with revision 1.
 *
 * Context: process.
 */
void ziw_conn_refuse(struct ziw_conn *conn)
{
	const struct ziw_mpa_frame frame = {
		.reply		= true,
		.rev		= conn->frame.rev,
		.reject		= true,
		.crc		= conn->frame.crc,
		.enhanced	= conn->frame.enhanced,
		.p2p		= conn->frame.p2p,
		.rtr		= conn->frame.p2p ? ZIW_RTR_ALL : 0,
	};

	ziw_stat_inc(conn->dev, ZIW_STAT_REFUSALS);
	ziw_because(conn, ZIW_WHY_SETUP_FAILED, 0);
	ziw_conn_send_frame(conn, &frame, NULL);
	ziw_conn_finish(conn);
}

static void step_req_wait(struct ziw_conn *conn)
{
	int ret = recv_frame(conn);

	if (!ret)
		return;
	if (ret < 0) {
		ziw_because(conn, ZIW_WHY_SETUP_FAILED, -ret);
		ziw_conn_finish(conn);
		return;
	}
	ziw_conn_stop_timer(conn);
	if (conn->frame.pd_len > ZIW_MAX_CM_PRIVATE) {
		ibdev_dbg(&conn->dev->ibdev,
			  "refused: %u bytes of private data, the CM carries %u\n",
			  conn->frame.pd_len, ZIW_MAX_CM_PRIVATE);
		ziw_conn_refuse(conn);
		return;
	}
	WRITE_ONCE(conn->state, ZIW_CONN_REQ_SEEN);
	/* iw_cm forgets requests whose listen ends before it has shown them. */
	ziw_conn_start_timer(conn, REQUEST_TIMEOUT);
	if (ziw_cm_request(conn))
		ziw_conn_refuse(conn);
	else
		/* The peer may have closed right behind its request. */
		ziw_conn_kick(conn);
}

/**
 * ziw_setup_step - do what can be done of the setup
 * @conn: connection up to ZIW_CONN_REQ_WAIT; conn->mutex held
 * @aborted: it is to end
 * @timeout: it took too long
 *
 * Context: process.
 */
void ziw_setup_step(struct ziw_conn *conn, bool aborted, bool timeout)
{
	if (conn->state == ZIW_CONN_REQ_WAIT) {
		if (timeout)
			ziw_because(conn, ZIW_WHY_SETUP_TIMEOUT, 0);
		if (aborted || timeout)
			ziw_conn_finish(conn);
		else
			step_req_wait(conn);
	} else if (aborted || timeout) {
		setup_failed(conn, aborted ? -ECONNABORTED : -ETIMEDOUT);
	} else if (conn->state == ZIW_CONN_CONNECTING) {
		step_connecting(conn);
	} else {
		step_req_sent(conn);
	}
}
