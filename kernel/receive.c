// SPDX-License-Identifier: GPL-2.0
/*
 * The receive engine: FPDUs are checked where TCP queued them, then placed
 * with one copy. An FPDU is looked at when all of it is there and its CRC
 * matches; until then not a byte of it has any effect.
 *
 * It runs under the socket lock, mostly in softirq; it never sleeps.
 */
#include "rx_queue.h"
#include "conn.h"

/* From so many bytes on the peer may be waiting for our acknowledgment. */
#define PROMPT_ACK_BYTES	4096

/**
 * struct rx_fpdu - the FPDU at hand
 * @conn: connection
 * @hdr: decoded DDP header
 * @raw: the header as received, for a Terminate Message
 * @ulpdu: length of the ULPDU
 * @payload: bytes after the DDP header
 * @data: where they begin
 */
struct rx_fpdu {
	struct ziw_conn		*conn;
	struct ziw_ddp_hdr	hdr;
	u8			raw[DDP_MAX_LEN];
	u32			ulpdu;
	u32			payload;
	struct ziw_cursor	data;
};

/* --- faults --- */

static void rx_terminate(struct ziw_conn *conn, const struct ziw_terminate *term,
			 enum ib_event_type event)
{
	struct ziw_qp *qp = conn->qp;

	spin_lock(&qp->lock);
	if (qp->state == ZIW_QP_RTS || qp->state == ZIW_QP_CLOSING)
		ziw_qp_event(qp, event);
	ziw_tx_terminate(conn, term);
	spin_unlock(&qp->lock);
	conn->rx.failed = true;
}

/* The peer did wrong. DDP's and RDMAP's errors name the segment that did it. */
static void rx_fault(struct rx_fpdu *fpdu, u16 code, const u8 *read_req)
{
	struct ziw_terminate term = {
		.code		= code,
		.has_ddp	= true,
		.seg_len	= fpdu->ulpdu,
	};
	enum ib_event_type event = IB_EVENT_QP_REQ_ERR;

	memcpy(term.ddp, fpdu->raw, sizeof(term.ddp));
	if (read_req) {
		memcpy(term.read, read_req, sizeof(term.read));
		term.has_rdmap = true;
	}
	if (code >> 8 == 0x01 || code >> 8 == 0x11)
		event = IB_EVENT_QP_ACCESS_ERR;
	rx_terminate(fpdu->conn, &term, event);
}

/* Our side did wrong; the peer learns no more than that (RFC 5040, figure 10). */
static void rx_local_fault(struct ziw_conn *conn, u16 code)
{
	const struct ziw_terminate term = { .code = code };

	rx_terminate(conn, &term, IB_EVENT_QP_FATAL);
}

static u16 term_of_write_error(enum ziw_mr_error err)
{
	switch (err) {
	case ZIW_MR_NOT_ASSOCIATED:
		return TERM_DDP_TAGGED_NOT_ASSOCIATED;
	case ZIW_MR_ACCESS:
		return TERM_RDMAP_PROT_ACCESS;
	case ZIW_MR_TO_WRAP:
		return TERM_DDP_TAGGED_TO_WRAP;
	case ZIW_MR_BOUNDS:
		return TERM_DDP_TAGGED_BOUNDS;
	default:
		return TERM_DDP_TAGGED_INVALID_STAG;
	}
}

static u16 term_of_read_check(enum ziw_mr_error err)
{
	switch (err) {
	case ZIW_MR_NOT_ASSOCIATED:
		return TERM_RDMAP_PROT_NOT_ASSOCIATED;
	case ZIW_MR_ACCESS:
		return TERM_RDMAP_PROT_ACCESS;
	case ZIW_MR_TO_WRAP:
		return TERM_RDMAP_PROT_TO_WRAP;
	case ZIW_MR_BOUNDS:
		return TERM_RDMAP_PROT_BOUNDS;
	default:
		return TERM_RDMAP_PROT_INVALID_STAG;
	}
}

/* --- placement --- */

/* Copy into a region that ziw_mr_get() allowed. */
static bool place_region(struct ziw_cursor *data, const struct ziw_mr *mr, u64 addr,
			 u32 len)
{
	while (len) {
		u32 n = len;
		void *va = ziw_mr_range(mr, addr, &n);

		if (!va || !ziw_cursor_copy(data, va, n))
			return false;
		addr += n;
		len -= n;
	}
	return true;
}

/* Copy into the SGEs of a work request, from where the last copy ended. */
static bool place_sges(struct rx_fpdu *fpdu, const struct ziw_rqe *rqe,
		       struct ziw_sink *sink)
{
	struct ziw_qp *qp = fpdu->conn->qp;
	u32 left = fpdu->payload;

	while (left) {
		const struct ziw_sge *sge = &rqe->sge[sink->sge_index];
		enum ziw_mr_error mr_err;
		struct ziw_mr *mr;
		u32 piece;
		bool ok;

		if (sink->sge_index >= rqe->num_sge)
			return false;
		piece = min(left, sge->length - sink->sge_off);
		if (!piece) {
			sink->sge_index++;
			sink->sge_off = 0;
			continue;
		}
		mr = ziw_mr_get(qp->ibqp.pd, sge->lkey, ziw_qp_is_kernel(qp),
				IB_ACCESS_LOCAL_WRITE, sge->addr + sink->sge_off,
				piece, &mr_err);
		if (!mr)
			return false;
		ok = place_region(&fpdu->data, mr, sge->addr + sink->sge_off, piece);
		ziw_mr_put(mr);
		if (!ok)
			return false;
		sink->sge_off += piece;
		left -= piece;
	}
	return true;
}

/* What modify_qp allows the peer, whatever the regions allow. An RTR is no access. */
static bool qp_allows(const struct ziw_conn *conn, int access, u32 len)
{
	return READ_ONCE(conn->qp->attr.qp_access_flags) & access ||
	       (conn->rx.want_rtr && !len);
}

/* --- RDMA Write, RFC 5040 section 5.1 --- */

static void rx_write(struct rx_fpdu *fpdu)
{
	enum ziw_mr_error mr_err = ZIW_MR_BOUNDS;
	struct ziw_mr *mr;
	bool ok;

	if (!qp_allows(fpdu->conn, IB_ACCESS_REMOTE_WRITE, fpdu->payload)) {
		rx_fault(fpdu, TERM_RDMAP_PROT_ACCESS, NULL);
		return;
	}
	/* RFC 5041, 7.1: of a zero-length segment STag and TO are not checked. */
	if (!fpdu->payload)
		return;
	mr = ziw_mr_get(fpdu->conn->qp->ibqp.pd, fpdu->hdr.stag, false,
			IB_ACCESS_REMOTE_WRITE, fpdu->hdr.to, fpdu->payload, &mr_err);
	if (mr) {
		ok = place_region(&fpdu->data, mr, fpdu->hdr.to, fpdu->payload);
		ziw_mr_put(mr);
		if (ok)
			return;
	}
	rx_fault(fpdu, term_of_write_error(mr_err), NULL);
}

/* --- RDMA Read Response, RFC 5040 section 5.2.2 --- */

/* The sink of the oldest read, from its WQE: a copy that is checked per access. */
static void load_read_sink(struct ziw_conn *conn, const struct ziw_orq_entry *entry)
{
	struct ziw_rqe *sink = &conn->rx.rqe_read;
	struct ziw_sq *sq = &conn->qp->sq;
	const struct ziw_sq_wqe *slot;

	sink->num_sge = 0;
	if (!entry->rtr) {
		slot = ziw_ring_slot(&sq->ring, entry->sq_index);
		sink->num_sge = min_t(u32, READ_ONCE(slot->num_sge), sq->max_sge);
		ziw_ring_copy(sink->sge, slot->sge, sink->num_sge * sizeof(sink->sge[0]));
	}
	memset(&conn->rx.read_sink, 0, sizeof(conn->rx.read_sink));
	conn->rx.read_got = 0;
	conn->rx.read_loaded = true;
}

static void read_done(struct ziw_conn *conn, const struct ziw_orq_entry *entry,
		      enum ib_wc_status status)
{
	struct ziw_qp *qp = conn->qp;
	struct ziw_sq_track *track;

	spin_lock(&qp->lock);
	if (!entry->rtr) {
		track = &qp->sq.track[entry->sq_index & qp->sq.ring.mask];
		track->flags &= ~ZIW_SQ_WAIT_READ;
		track->status = status;
		if (status == IB_WC_SUCCESS && track->opcode == ZIW_OP_READ_INV) {
			const struct ziw_sq_wqe *slot;

			slot = ziw_ring_slot(&qp->sq.ring, entry->sq_index);
			if (ziw_mr_invalidate(qp->ibqp.pd, conn->dev, slot->ex, false))
				track->status = IB_WC_MW_BIND_ERR;
		}
	}
	conn->orq_tail++;
	conn->rx.read_loaded = false;
	if (status == IB_WC_SUCCESS)
		ziw_tx_reap(conn);
	spin_unlock(&qp->lock);
}

static void rx_read_response(struct rx_fpdu *fpdu)
{
	struct ziw_conn *conn = fpdu->conn;
	struct ziw_rx *rx = &conn->rx;
	const struct ziw_orq_entry *entry;

	if (conn->orq_head == conn->orq_tail) {
		rx_fault(fpdu, TERM_RDMAP_OP_OPCODE, NULL);
		return;
	}
	entry = ziw_orq_slot(conn, conn->orq_tail);
	if (!rx->read_loaded)
		load_read_sink(conn, entry);
	if (fpdu->hdr.stag != entry->stag) {
		rx_fault(fpdu, TERM_DDP_TAGGED_INVALID_STAG, NULL);
		return;
	}
	if (fpdu->hdr.to != rx->read_got || fpdu->payload > entry->size - rx->read_got ||
	    (fpdu->hdr.last && rx->read_got + fpdu->payload != entry->size)) {
		rx_fault(fpdu, TERM_DDP_TAGGED_BOUNDS, NULL);
		return;
	}
	if (!place_sges(fpdu, &rx->rqe_read, &rx->read_sink)) {
		read_done(conn, entry, IB_WC_LOC_PROT_ERR);
		rx_local_fault(conn, TERM_RDMAP_CATASTROPHIC);
		return;
	}
	rx->read_got += fpdu->payload;
	if (fpdu->hdr.last)
		read_done(conn, entry, IB_WC_SUCCESS);
}

/* --- RDMA Read Request, RFC 5040 section 5.2.1 --- */

static void rx_read_request(struct rx_fpdu *fpdu)
{
	struct ziw_conn *conn = fpdu->conn;
	struct ziw_irq_entry *entry;
	struct ziw_read_req req;
	u8 buf[RDMAP_READ_REQ_LEN];
	enum ziw_mr_error err;

	if (fpdu->payload > sizeof(buf)) {
		rx_fault(fpdu, TERM_DDP_UNTAGGED_TOO_LONG, NULL);
		return;
	}
	if (fpdu->payload < sizeof(buf) ||
	    !ziw_cursor_copy(&fpdu->data, buf, sizeof(buf))) {
		rx_fault(fpdu, TERM_RDMAP_OP_UNSPECIFIED, NULL);
		return;
	}
	if (conn->irq_head - conn->irq_tail >= conn->ird) {
		rx_fault(fpdu, TERM_DDP_UNTAGGED_NO_BUFFER, NULL);
		return;
	}
	ziw_read_req_decode(buf, &req);
	if (!qp_allows(conn, IB_ACCESS_REMOTE_READ, req.size)) {
		rx_fault(fpdu, TERM_RDMAP_PROT_ACCESS, buf);
		return;
	}
	if (req.size) {
		err = ziw_mr_check(conn->qp->ibqp.pd, req.source_stag,
				   IB_ACCESS_REMOTE_READ, req.source_to, req.size);
		if (err != ZIW_MR_OK) {
			rx_fault(fpdu, term_of_read_check(err), buf);
			return;
		}
	}
	entry = ziw_irq_slot(conn, conn->irq_head);
	entry->req = req;
	entry->msn = fpdu->hdr.msn;
	conn->irq_head++;
	conn->rx.msn[DDP_QN_READ_REQ]++;
}

/* --- Send, RFC 5040 section 5.3 --- */

static void recv_done(struct ziw_conn *conn, struct ziw_cqe *cqe)
{
	struct ziw_qp *qp = conn->qp;

	conn->rx.have_rqe = false;
	cqe->wr_id = conn->rx.rqe.wr_id;
	cqe->opcode = ZIW_OP_RECV;
	spin_lock(&qp->lock);
	ziw_qp_complete_recv(qp, cqe);
	spin_unlock(&qp->lock);
}

static void recv_failed(struct ziw_conn *conn, enum ib_wc_status status)
{
	struct ziw_cqe cqe = { .status = status };

	recv_done(conn, &cqe);
}

/* Take a receive WQE for a new message. */
static bool rx_take_rqe(struct rx_fpdu *fpdu)
{
	struct ziw_conn *conn = fpdu->conn;
	struct ziw_qp *qp = conn->qp;
	struct ziw_rx *rx = &conn->rx;
	int err;

	err = qp->srq ? ziw_srq_get(qp->srq, &rx->rqe) : ziw_rq_get(&qp->rq, &rx->rqe);
	if (err == -ENOENT) {
		rx_fault(fpdu, TERM_DDP_UNTAGGED_NO_BUFFER, NULL);
		return false;
	}
	if (err) {
		rx_local_fault(conn, TERM_RDMAP_CATASTROPHIC);
		recv_failed(conn, IB_WC_LOC_QP_OP_ERR);
		return false;
	}
	memset(&rx->sink, 0, sizeof(rx->sink));
	rx->have_rqe = true;
	rx->mo = 0;
	return true;
}

static bool rx_remote_invalidate(struct rx_fpdu *fpdu)
{
	struct ziw_conn *conn = fpdu->conn;
	int err = ziw_mr_invalidate(conn->qp->ibqp.pd, conn->dev,
				    fpdu->hdr.inv_stag, true);

	if (!err)
		return true;
	rx_fault(fpdu, err == -EPERM ? TERM_RDMAP_PROT_CANNOT_INV :
		 TERM_RDMAP_PROT_INVALID_STAG, NULL);
	return false;
}

static void rx_send(struct rx_fpdu *fpdu)
{
	struct ziw_conn *conn = fpdu->conn;
	struct ziw_rx *rx = &conn->rx;
	struct ziw_cqe cqe = { .status = IB_WC_SUCCESS };

	/* An empty Send that is the RTR indication is not the ULP's. */
	if (rx->want_rtr & ZIW_RTR_SEND && !fpdu->payload && fpdu->hdr.last &&
	    fpdu->hdr.opcode == RDMAP_SEND && !fpdu->hdr.mo) {
		rx->msn[DDP_QN_SEND]++;
		return;
	}
	if (!rx->have_rqe && !rx_take_rqe(fpdu))
		return;
	if (fpdu->hdr.mo != rx->mo) {
		rx_fault(fpdu, TERM_DDP_UNTAGGED_MO, NULL);
		recv_failed(conn, IB_WC_WR_FLUSH_ERR);
		return;
	}
	if (fpdu->payload > min_t(u64, rx->rqe.length, ZIW_MAX_MSG) - rx->mo) {
		rx_fault(fpdu, TERM_DDP_UNTAGGED_TOO_LONG, NULL);
		recv_failed(conn, IB_WC_LOC_LEN_ERR);
		return;
	}
	if (!place_sges(fpdu, &rx->rqe, &rx->sink)) {
		rx_local_fault(conn, TERM_RDMAP_CATASTROPHIC);
		recv_failed(conn, IB_WC_LOC_PROT_ERR);
		return;
	}
	rx->mo += fpdu->payload;
	if (!fpdu->hdr.last)
		return;

	if (ziw_rdmap_invalidates(fpdu->hdr.opcode)) {
		if (!rx_remote_invalidate(fpdu)) {
			recv_failed(conn, IB_WC_WR_FLUSH_ERR);
			return;
		}
		cqe.flags |= ZIW_CQE_WITH_INV;
		cqe.ex = fpdu->hdr.inv_stag;
	}
	if (ziw_rdmap_solicits(fpdu->hdr.opcode))
		cqe.flags |= ZIW_CQE_SOLICITED;
	cqe.byte_len = rx->mo;
	rx->msn[DDP_QN_SEND]++;
	recv_done(conn, &cqe);
}

/* --- Terminate, RFC 5040 section 4.8 --- */

static enum ib_wc_status wc_of_term(u16 code)
{
	switch (code >> 8) {
	case 0x01:
	case 0x11:
		return IB_WC_REM_ACCESS_ERR;
	case 0x12:
		return code == TERM_DDP_UNTAGGED_NO_BUFFER ?
		       IB_WC_RNR_RETRY_EXC_ERR : IB_WC_REM_INV_REQ_ERR;
	default:
		return IB_WC_REM_OP_ERR;
	}
}

/* The WQE whose message the peer names gets the blame; the rest is flushed. */
static void blame_wqe(struct ziw_qp *qp, const struct ziw_terminate *term)
{
	struct ziw_sq *sq = &qp->sq;
	struct ziw_ddp_hdr hdr;
	u32 i;

	if (!term->has_ddp || ziw_ddp_decode(term->ddp, DDP_MAX_LEN, &hdr) < 0)
		return;
	for (i = sq->ring.index; i != sq->next; i++) {
		struct ziw_sq_track *track = &sq->track[i & sq->ring.mask];
		bool match;

		if (hdr.tagged)
			match = track->opcode == ZIW_OP_WRITE;
		else if (hdr.qn == DDP_QN_READ_REQ)
			match = track->flags & ZIW_SQ_WAIT_READ && track->msn == hdr.msn;
		else
			match = (track->opcode == ZIW_OP_SEND ||
				 track->opcode == ZIW_OP_SEND_INV) &&
				track->msn == hdr.msn;
		if (match && !ziw_sq_done(track)) {
			/* It completes with the flush: TCP may have pages of it. */
			track->status = wc_of_term(term->code);
			return;
		}
	}
}

static void rx_terminate_message(struct rx_fpdu *fpdu)
{
	struct ziw_conn *conn = fpdu->conn;
	struct ziw_qp *qp = conn->qp;
	struct ziw_terminate term;
	u8 buf[TERM_MAX_LEN];
	u32 len = min_t(u32, fpdu->payload, sizeof(buf));

	conn->rx.failed = true;
	memset(&term, 0, sizeof(term));
	if (!ziw_cursor_copy(&fpdu->data, buf, len) ||
	    ziw_terminate_decode(buf, len, &term))
		term.code = TERM_RDMAP_OP_UNSPECIFIED;
	ibdev_warn_ratelimited(&conn->dev->ibdev,
			       "QP %u: received Terminate 0x%04x: %s\n",
			       qp->ibqp.qp_num, term.code,
			       ziw_terminate_name(term.code));

	spin_lock(&qp->lock);
	qp->vendor_err = term.code;
	blame_wqe(qp, &term);
	/* No answer to a Terminate (RFC 5040, 5.4): the stream just ends. */
	ziw_qp_fail(qp, IB_EVENT_QP_FATAL);
	spin_unlock(&qp->lock);
}

/* --- dispatch --- */

static void rx_tagged(struct rx_fpdu *fpdu)
{
	switch (fpdu->hdr.opcode) {
	case RDMAP_WRITE:
		rx_write(fpdu);
		break;
	case RDMAP_READ_RESP:
		rx_read_response(fpdu);
		break;
	default:
		rx_fault(fpdu, TERM_RDMAP_OP_OPCODE, NULL);
	}
}

static bool opcode_fits_queue(const struct ziw_ddp_hdr *hdr)
{
	switch (hdr->qn) {
	case DDP_QN_SEND:
		return ziw_rdmap_is_send(hdr->opcode);
	case DDP_QN_READ_REQ:
		return hdr->opcode == RDMAP_READ_REQ;
	default:
		return hdr->opcode == RDMAP_TERMINATE;
	}
}

static void rx_untagged(struct rx_fpdu *fpdu)
{
	const struct ziw_ddp_hdr *hdr = &fpdu->hdr;

	if (hdr->qn > DDP_QN_TERMINATE) {
		rx_fault(fpdu, TERM_DDP_UNTAGGED_QN, NULL);
	} else if (!opcode_fits_queue(hdr)) {
		rx_fault(fpdu, TERM_RDMAP_OP_OPCODE, NULL);
	} else if (hdr->msn != fpdu->conn->rx.msn[hdr->qn]) {
		rx_fault(fpdu, TERM_DDP_UNTAGGED_MSN_RANGE, NULL);
	} else if (hdr->qn == DDP_QN_SEND) {
		rx_send(fpdu);
	} else if (hdr->mo || !hdr->last) {
		/* Both fit in one segment of any size that DDP allows. */
		rx_fault(fpdu, TERM_DDP_UNTAGGED_MO, NULL);
	} else if (hdr->qn == DDP_QN_READ_REQ) {
		rx_read_request(fpdu);
	} else {
		rx_terminate_message(fpdu);
	}
}

static void rx_dispatch(struct rx_fpdu *fpdu)
{
	const struct ziw_ddp_hdr *hdr = &fpdu->hdr;

	if (hdr->ddp_version != DDP_VERSION)
		rx_fault(fpdu, hdr->tagged ? TERM_DDP_TAGGED_VERSION :
			 TERM_DDP_UNTAGGED_VERSION, NULL);
	else if (hdr->rdmap_version != RDMAP_VERSION)
		rx_fault(fpdu, TERM_RDMAP_OP_VERSION, NULL);
	else if (hdr->tagged)
		rx_tagged(fpdu);
	else
		rx_untagged(fpdu);
}

/* A queue that does not hold the bytes it announced: not the peer's fault. */
static int rx_broken(struct ziw_conn *conn)
{
	rx_local_fault(conn, TERM_DDP_CATASTROPHIC);
	return -EFAULT;
}

/*
 * Look at the FPDU at @cur. Return: its length when it was handled; 0 if it is
 * not all there yet; negative when the stream has ended.
 */
static int rx_one(struct ziw_conn *conn, const struct ziw_cursor *start)
{
	struct rx_fpdu fpdu = { .conn = conn };
	struct ziw_cursor cur = *start;
	u32 fpdu_len, crc = ~0U, got;
	u8 buf[MPA_LEN_SIZE + DDP_MAX_LEN];
	__le32 wire_crc;
	int hdr_len;

	if (cur.avail < MPA_LEN_SIZE)
		return 0;
	if (!ziw_cursor_copy(&cur, buf, MPA_LEN_SIZE))
		return rx_broken(conn);
	fpdu.ulpdu = get_unaligned_be16(buf);
	fpdu_len = ziw_mpa_fpdu_len(fpdu.ulpdu);
	if (start->avail < fpdu_len)
		return 0;

	if (conn->crc) {
		struct ziw_cursor c = *start;

		if (!ziw_cursor_crc(&c, fpdu_len - MPA_CRC_SIZE, &crc) ||
		    !ziw_cursor_copy(&c, &wire_crc, sizeof(wire_crc)))
			return rx_broken(conn);
		if (wire_crc != cpu_to_le32(~crc)) {
			/* RFC 5040, figure 10: an LLP error names no header. */
			const struct ziw_terminate term = { .code = TERM_MPA_CRC };

			rx_terminate(conn, &term, IB_EVENT_QP_FATAL);
			return -EPROTO;
		}
	}

	got = min_t(u32, fpdu.ulpdu, DDP_MAX_LEN);
	if (!ziw_cursor_copy(&cur, buf, got))
		return rx_broken(conn);
	memcpy(fpdu.raw, buf, got);
	hdr_len = ziw_ddp_decode(buf, fpdu.ulpdu, &fpdu.hdr);
	if (hdr_len < 0) {
		rx_local_fault(conn, TERM_DDP_CATASTROPHIC);
		return -EPROTO;
	}
	fpdu.payload = fpdu.ulpdu - hdr_len;
	fpdu.data = *start;
	if (!ziw_cursor_skip(&fpdu.data, MPA_LEN_SIZE + hdr_len))
		return rx_broken(conn);
	rx_dispatch(&fpdu);
	if (conn->rx.failed)
		return -EPROTO;

	/* The initiator has spoken: a responder may send from now on. */
	conn->tx.open = true;
	conn->rx.want_rtr = 0;
	conn->rx.unacked += fpdu.payload;
	if (fpdu.hdr.last && conn->rx.unacked >= PROMPT_ACK_BYTES) {
		conn->rx.unacked = 0;
		inet_csk(conn->sk)->icsk_ack.pending |= ICSK_ACK_NOW;
	}
	return fpdu_len;
}

/* Handle every whole FPDU in the queue. Return: bytes to take off it. */
static u32 rx_burst(struct ziw_conn *conn)
{
	struct ziw_cursor cur;
	u32 used = 0;
	int n;

	ziw_cursor_init(&cur, conn->sk);
	while (cur.avail) {
		n = rx_one(conn, &cur);
		if (n <= 0)
			break;
		used += n;
		if (!ziw_cursor_skip(&cur, n))
			break;
	}
	return used;
}

/**
 * ziw_rx_run - handle what has arrived
 * @conn: connection in stream; socket lock held
 *
 * Context: bottom halves off.
 */
void ziw_rx_run(struct ziw_conn *conn)
{
	struct sock *sk = conn->sk;
	enum ziw_qp_state state;
	u32 used;

	if (!conn->qp)
		return;
	state = READ_ONCE(conn->qp->state);
	if (state != ZIW_QP_RTS && state != ZIW_QP_CLOSING)
		conn->rx.failed = true;

	if (!conn->rx.failed) {
		used = rx_burst(conn);
		if (used)
			tcp_read_done(sk, used);
	}
	/*
	 * After an error nothing is delivered (RFC 5044, 8), but it is taken
	 * off: a socket closed on unread data resets the connection, and our
	 * Terminate with it.
	 */
	if (conn->rx.failed) {
		used = tcp_inq(sk);
		if (used)
			tcp_read_done(sk, used);
	}

	/*
	 * On its fast path TCP acknowledges a segment before it calls here. The
	 * sender may be on this host, and may reuse pages that the segment
	 * still refers to as soon as it has the acknowledgment: so each segment
	 * takes the other path, where the acknowledgment follows the call.
	 */
	tcp_sk(sk)->pred_flags = 0;

	if (sk->sk_shutdown & RCV_SHUTDOWN) {
		set_bit(ZIW_CONN_PEER_CLOSED, &conn->flags);
		ziw_conn_kick(conn);
	}
	/* Responses, or what waited for a read or for the initiator. */
	if (!sock_owned_by_user(sk))
		ziw_tx_run(conn);
	else
		ziw_conn_retry(conn, 1);
}
