// SPDX-License-Identifier: GPL-2.0
/*
 * What an FPDU that was received does: placement, requests, completions, and the
 * Terminate Message where it may not do that. Runs under the socket lock, mostly in
 * softirq; it never sleeps.
 */
#include "inspect.h"
#include "rx.h"
#include "trace.h"

/* --- faults --- */

/**
 * ziw_rx_terminate - end the stream for what was received
 * @conn: connection; socket lock held
 * @term: what to tell the peer
 * @event: what to tell the consumer
 *
 * Context: bottom halves off.
 */
void ziw_rx_terminate(struct ziw_conn *conn, const struct ziw_terminate *term,
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
static void rx_fault(struct ziw_rx_fpdu *fpdu, u16 code, const u8 *read_req)
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
	ziw_rx_terminate(fpdu->conn, &term, event);
}

/**
 * ziw_rx_local_fault - end the stream because our side did wrong
 * @conn: connection; socket lock held
 * @code: all that the peer learns (RFC 5040, figure 10)
 *
 * Context: bottom halves off.
 */
void ziw_rx_local_fault(struct ziw_conn *conn, u16 code)
{
	const struct ziw_terminate term = { .code = code };

	ziw_rx_terminate(conn, &term, IB_EVENT_QP_FATAL);
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
	case ZIW_MR_FAULT:
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

/* Likewise, from a buffer. */
static bool place_buffer(const u8 *data, const struct ziw_mr *mr, u64 addr, u32 len)
{
	while (len) {
		u32 n = len;
		void *va = ziw_mr_range(mr, addr, &n);

		if (!va)
			return false;
		memcpy(va, data, n);
		data += n;
		addr += n;
		len -= n;
	}
	return true;
}

/*
 * Where in the SGEs a message goes on. RFC 5041, 5.3: the segments of one should
 * come in order, but need not.
 */
static void sink_seek(const struct ziw_rqe *rqe, struct ziw_sink *sink, u32 offset)
{
	sink->sge_index = 0;
	while (sink->sge_index < rqe->num_sge &&
	       offset >= rqe->sge[sink->sge_index].length)
		offset -= rqe->sge[sink->sge_index++].length;
	sink->sge_off = offset;
}

/*
 * Copy @len bytes into the SGEs of a work request, from where the last copy
 * ended: the stream's at @cursor, or else those at @buf. Where pages are missing, the
 * place is that of the beginning again.
 */
static bool place_sges(struct ziw_conn *conn, const struct ziw_rqe *rqe,
		       struct ziw_sink *sink, struct ziw_cursor *cursor,
		       const u8 *buf, u32 len)
{
	const struct ziw_sink begin = *sink;
	struct ziw_qp *qp = conn->qp;

	while (len) {
		const struct ziw_sge *sge = &rqe->sge[sink->sge_index];
		enum ziw_mr_error mr_err;
		struct ziw_mr *mr;
		u32 piece;
		u64 addr;
		bool ok;

		if (sink->sge_index >= rqe->num_sge)
			return false;
		addr = sge->addr + sink->sge_off;
		piece = min(len, sge->length - sink->sge_off);
		if (!piece) {
			sink->sge_index++;
			sink->sge_off = 0;
			continue;
		}
		mr = ziw_mr_get(qp->ibqp.pd, sge->lkey, ziw_qp_is_kernel(qp),
				IB_ACCESS_LOCAL_WRITE, addr, piece, &mr_err);
		if (!mr) {
			if (mr_err == ZIW_MR_FAULT)
				ziw_fault_wait(&conn->rx_fault, false, sge->lkey,
					       IB_ACCESS_LOCAL_WRITE, addr, piece);
			*sink = begin;
			return false;
		}
		if (cursor) {
			ok = place_region(cursor, mr, addr, piece);
		} else {
			ok = place_buffer(buf, mr, addr, piece);
			buf += piece;
		}
		ziw_mr_put(mr);
		if (!ok)
			return false;
		trace_ziw_place(qp, sge->lkey, addr, piece);
		sink->sge_off += piece;
		len -= piece;
	}
	return true;
}

/* What modify_qp allows the peer, whatever the regions allow. An RTR is no access. */
static bool qp_allows(const struct ziw_conn *conn, int access, u32 len)
{
	return READ_ONCE(conn->qp->attr.qp_access_flags) & access ||
	       (conn->rx.want_rtr && !len);
}

/* The header that is all of a message's payload: not a byte more or less. */
static bool rx_take_header(struct ziw_rx_fpdu *fpdu, u8 *buf, u32 len)
{
	if (fpdu->payload > len) {
		rx_fault(fpdu, TERM_DDP_UNTAGGED_TOO_LONG, NULL);
		return false;
	}
	if (fpdu->payload < len || !ziw_cursor_copy(&fpdu->data, buf, len)) {
		rx_fault(fpdu, TERM_RDMAP_OP_UNSPECIFIED, NULL);
		return false;
	}
	return true;
}

/* --- RDMA Write, RFC 5040 section 5.1 --- */

/* Immediate Data that comes next tells the length of the Write. */
static void write_placed(struct ziw_rx_fpdu *fpdu)
{
	struct ziw_rx *rx = &fpdu->conn->rx;

	if (rx->write_last)
		rx->write_len = 0;
	rx->write_len += fpdu->payload;
	rx->write_last = fpdu->hdr.last;
}

/* Return: whether it was a ziw's hello, which is no message. */
static bool rx_hello(struct ziw_rx_fpdu *fpdu)
{
	struct ziw_conn *conn = fpdu->conn;
	struct ziw_hello hello;

	ziw_hello_decode(&fpdu->hdr, &hello);
	if (conn->initiator ? hello.kind != ZIW_HELLO_ANSWER :
			      hello.kind != ZIW_HELLO_ASK || !conn->rx.want_rtr)
		return false;
	conn->tx.peer_ulpdu = min_t(u32, hello.max_ulpdu, MPA_MAX_MULPDU);
	conn->tx.hello = !conn->initiator;
	return true;
}

static void rx_write(struct ziw_rx_fpdu *fpdu)
{
	enum ziw_mr_error mr_err = ZIW_MR_BOUNDS;
	struct ziw_mr *mr;
	bool ok;

	if (!fpdu->payload && rx_hello(fpdu))
		return;
	if (!qp_allows(fpdu->conn, IB_ACCESS_REMOTE_WRITE, fpdu->payload)) {
		rx_fault(fpdu, TERM_RDMAP_PROT_ACCESS, NULL);
		return;
	}
	/* RFC 5041, 7.1: of a zero-length segment STag and TO are not checked. */
	if (!fpdu->payload) {
		write_placed(fpdu);
		return;
	}
	mr = ziw_mr_get_remote(fpdu->conn->qp, fpdu->hdr.stag, IB_ACCESS_REMOTE_WRITE,
			       fpdu->hdr.to, fpdu->payload, &mr_err);
	if (mr) {
		ok = place_region(&fpdu->data, mr, fpdu->hdr.to, fpdu->payload);
		ziw_mr_put(mr);
		if (ok) {
			trace_ziw_place(fpdu->conn->qp, fpdu->hdr.stag, fpdu->hdr.to,
					fpdu->payload);
			write_placed(fpdu);
			return;
		}
	} else if (mr_err == ZIW_MR_FAULT &&
		   ziw_fault_wait(&fpdu->conn->rx_fault, true, fpdu->hdr.stag,
				  IB_ACCESS_REMOTE_WRITE, fpdu->hdr.to, fpdu->payload)) {
		return;
	}
	rx_fault(fpdu, term_of_write_error(mr_err), NULL);
}

/* --- responses: RDMA Read, RFC 5040 section 5.2.2; Atomic, RFC 7306 section 5.2.2 --- */

/* The sink of the oldest request, from its WQE: a copy that is checked per access. */
static void load_sink(struct ziw_conn *conn, const struct ziw_orq_entry *entry)
{
	struct ziw_rqe *sink = &conn->rx.rqe_read;
	struct ziw_sq *sq = &conn->qp->sq;

	sink->num_sge = 0;
	if (entry->kind != ZIW_ORQ_RTR)
		ziw_wqe_sink(ziw_ring_slot(&sq->ring, entry->sq_index), &sq->limits, sink);
	memset(&conn->rx.read_sink, 0, sizeof(conn->rx.read_sink));
	conn->rx.read_to = 0;
	conn->rx.read_got = 0;
	conn->rx.read_loaded = true;
}

/* The oldest request outstanding, if it is of the kind that @fpdu answers. */
static const struct ziw_orq_entry *oldest_request(struct ziw_rx_fpdu *fpdu, bool atomic)
{
	struct ziw_conn *conn = fpdu->conn;
	const struct ziw_orq_entry *entry = ziw_orq_slot(conn, conn->orq_tail);
	bool is_atomic = entry->kind == ZIW_ORQ_ATOMIC;

	if (conn->orq_head == conn->orq_tail || is_atomic != atomic) {
		rx_fault(fpdu, TERM_RDMAP_OP_OPCODE, NULL);
		return NULL;
	}
	if (!conn->rx.read_loaded)
		load_sink(conn, entry);
	return entry;
}

static void request_done(struct ziw_conn *conn, const struct ziw_orq_entry *entry,
			 enum ib_wc_status status)
{
	struct ziw_qp *qp = conn->qp;
	struct ziw_sq_track *track;

	spin_lock(&qp->lock);
	if (entry->kind != ZIW_ORQ_RTR) {
		track = &qp->sq.track[entry->sq_index & qp->sq.ring.mask];
		track->flags &= ~ZIW_SQ_WAIT_RESPONSE;
		track->status = status;
		if (status == IB_WC_SUCCESS && track->opcode == ZIW_OP_READ_INV) {
			const struct ziw_sq_wqe *slot;

			slot = ziw_ring_slot(&qp->sq.ring, entry->sq_index);
			if (ziw_mr_invalidate_by(qp, slot->ex, false))
				track->status = IB_WC_MW_BIND_ERR;
		}
	}
	conn->orq_tail++;
	conn->rx.read_loaded = false;
	if (status == IB_WC_SUCCESS)
		ziw_tx_reap(conn);
	spin_unlock(&qp->lock);
}

/* There is no room for it on our side. */
static void sink_failed(struct ziw_conn *conn, const struct ziw_orq_entry *entry)
{
	request_done(conn, entry, IB_WC_LOC_PROT_ERR);
	ziw_rx_local_fault(conn, TERM_RDMAP_CATASTROPHIC);
}

static void rx_read_response(struct ziw_rx_fpdu *fpdu)
{
	const struct ziw_orq_entry *entry = oldest_request(fpdu, false);
	struct ziw_conn *conn = fpdu->conn;
	struct ziw_rx *rx = &conn->rx;

	if (!entry)
		return;
	if (fpdu->hdr.stag != entry->token) {
		rx_fault(fpdu, TERM_DDP_TAGGED_INVALID_STAG, NULL);
		return;
	}
	/* All there is when the last segment came, which ends where the read does. */
	if (fpdu->hdr.to > entry->size || fpdu->payload > entry->size - fpdu->hdr.to ||
	    (fpdu->hdr.last && (fpdu->hdr.to + fpdu->payload != entry->size ||
				rx->read_got + fpdu->payload != entry->size))) {
		rx_fault(fpdu, TERM_DDP_TAGGED_BOUNDS, NULL);
		return;
	}
	if (fpdu->hdr.to != rx->read_to)
		sink_seek(&rx->rqe_read, &rx->read_sink, fpdu->hdr.to);
	if (!place_sges(conn, &rx->rqe_read, &rx->read_sink, &fpdu->data, NULL,
			fpdu->payload)) {
		if (!conn->rx_fault.pending)
			sink_failed(conn, entry);
		return;
	}
	rx->read_to = fpdu->hdr.to + fpdu->payload;
	rx->read_got += fpdu->payload;
	if (fpdu->hdr.last)
		request_done(conn, entry, IB_WC_SUCCESS);
}

static void rx_atomic_response(struct ziw_rx_fpdu *fpdu)
{
	const struct ziw_orq_entry *entry = oldest_request(fpdu, true);
	struct ziw_conn *conn = fpdu->conn;
	struct ziw_rx *rx = &conn->rx;
	u8 buf[RDMAP_ATOMIC_RESP_LEN];
	struct ziw_atomic_resp resp;

	if (!entry || !rx_take_header(fpdu, buf, sizeof(buf)))
		return;
	ziw_atomic_resp_decode(buf, &resp);
	if (resp.id != entry->token) {
		rx_fault(fpdu, TERM_RDMAP_OP_UNSPECIFIED, NULL);
		return;
	}
	if (place_sges(conn, &rx->rqe_read, &rx->read_sink, NULL,
		       (const u8 *)&resp.value, sizeof(resp.value))) {
		rx->msn[DDP_QN_ATOMIC_RESP]++;
		request_done(conn, entry, IB_WC_SUCCESS);
	} else if (!conn->rx_fault.pending) {
		sink_failed(conn, entry);
	}
}

/* --- requests: RDMA Read, RFC 5040 section 5.2.1; Atomic, RFC 7306 section 5.2.1 --- */

/* A place among the requests to be answered; what does not fit breaks the IRD. */
static struct ziw_irq_entry *irq_claim(struct ziw_rx_fpdu *fpdu)
{
	struct ziw_conn *conn = fpdu->conn;
	struct ziw_irq_entry **block, *entry;

	if (conn->irq_head - conn->irq_tail >= conn->ird) {
		rx_fault(fpdu, TERM_DDP_UNTAGGED_NO_BUFFER, NULL);
		return NULL;
	}
	block = ziw_irq_block(conn, conn->irq_head);
	if (!*block)
		*block = kcalloc(ZIW_IRQ_BLOCK, sizeof(**block),
				 sk_gfp_mask(conn->sk, GFP_ATOMIC | __GFP_NOWARN));
	if (!*block) {
		ziw_rx_local_fault(conn, TERM_RDMAP_CATASTROPHIC);
		return NULL;
	}
	entry = ziw_irq_slot(conn, conn->irq_head);
	entry->msn = fpdu->hdr.msn;
	entry->done = false;
	return entry;
}

static void irq_add(struct ziw_rx_fpdu *fpdu)
{
	fpdu->conn->irq_head++;
	fpdu->conn->rx.msn[DDP_QN_READ_REQ]++;
}

static void rx_read_request(struct ziw_rx_fpdu *fpdu)
{
	struct ziw_conn *conn = fpdu->conn;
	struct ziw_irq_entry *entry;
	struct ziw_read_req req;
	u8 buf[RDMAP_READ_REQ_LEN];
	enum ziw_mr_error err;

	if (!rx_take_header(fpdu, buf, sizeof(buf)))
		return;
	entry = irq_claim(fpdu);
	if (!entry)
		return;
	ziw_read_req_decode(buf, &req);
	if (!qp_allows(conn, IB_ACCESS_REMOTE_READ, req.size)) {
		rx_fault(fpdu, TERM_RDMAP_PROT_ACCESS, buf);
		return;
	}
	if (req.size) {
		err = ziw_mr_check(conn->qp, req.source_stag, IB_ACCESS_REMOTE_READ,
				   req.source_to, req.size);
		if (err != ZIW_MR_OK) {
			rx_fault(fpdu, term_of_read_check(err), buf);
			return;
		}
	}
	entry->is_atomic = false;
	entry->read = req;
	irq_add(fpdu);
}

/* STag and address are looked at when its turn comes, in the transmit engine. */
static void rx_atomic_request(struct ziw_rx_fpdu *fpdu)
{
	struct ziw_conn *conn = fpdu->conn;
	struct ziw_irq_entry *entry;
	struct ziw_atomic_req req;
	u8 buf[RDMAP_ATOMIC_REQ_LEN];

	if (!rx_take_header(fpdu, buf, sizeof(buf)))
		return;
	entry = irq_claim(fpdu);
	if (!entry)
		return;
	ziw_atomic_req_decode(buf, &req);
	if (!ziw_atomic_known(req.op)) {
		rx_fault(fpdu, TERM_RDMAP_OP_OPCODE, NULL);
		return;
	}
	if (!qp_allows(conn, IB_ACCESS_REMOTE_ATOMIC, sizeof(u64))) {
		rx_fault(fpdu, TERM_RDMAP_PROT_ACCESS, NULL);
		return;
	}
	entry->is_atomic = true;
	entry->atomic = req;
	irq_add(fpdu);
}

/* --- Send, RFC 5040 section 5.3 --- */

static void recv_done(struct ziw_conn *conn, struct ziw_cqe *cqe)
{
	struct ziw_qp *qp = conn->qp;

	conn->rx.have_rqe = false;
	cqe->wr_id = conn->rx.rqe.wr_id;
	spin_lock(&qp->lock);
	ziw_qp_complete_recv(qp, cqe);
	spin_unlock(&qp->lock);
}

static void recv_failed(struct ziw_conn *conn, enum ib_wc_status status)
{
	struct ziw_cqe cqe = { .opcode = ZIW_OP_RECV, .status = status };

	recv_done(conn, &cqe);
}

/* Take a receive WQE for a new message. */
static bool rx_take_rqe(struct ziw_rx_fpdu *fpdu)
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
		ziw_rx_local_fault(conn, TERM_RDMAP_CATASTROPHIC);
		recv_failed(conn, IB_WC_LOC_QP_OP_ERR);
		return false;
	}
	trace_ziw_take_recv(qp, &rx->rqe);
	memset(&rx->sink, 0, sizeof(rx->sink));
	rx->have_rqe = true;
	rx->mo = 0;
	rx->got = 0;
	return true;
}

static bool rx_remote_invalidate(struct ziw_rx_fpdu *fpdu)
{
	struct ziw_conn *conn = fpdu->conn;
	int err = ziw_mr_invalidate_by(conn->qp, fpdu->hdr.inv_stag, true);

	if (!err)
		return true;
	rx_fault(fpdu, err == -EPERM ? TERM_RDMAP_PROT_CANNOT_INV :
		 TERM_RDMAP_PROT_INVALID_STAG, NULL);
	return false;
}

static void rx_send(struct ziw_rx_fpdu *fpdu)
{
	struct ziw_conn *conn = fpdu->conn;
	struct ziw_rx *rx = &conn->rx;
	struct ziw_cqe cqe = { .opcode = ZIW_OP_RECV, .status = IB_WC_SUCCESS };
	u64 room;

	/* An empty Send that is the RTR indication is not the ULP's. */
	if (rx->want_rtr & ZIW_RTR_SEND && !fpdu->payload && fpdu->hdr.last &&
	    fpdu->hdr.opcode == RDMAP_SEND && !fpdu->hdr.mo) {
		rx->msn[DDP_QN_SEND]++;
		return;
	}
	if (!rx->have_rqe && !rx_take_rqe(fpdu))
		return;
	room = min_t(u64, rx->rqe.length, ZIW_MAX_MSG);
	/* A last segment tells the length; less than that came where one is missing. */
	if (fpdu->hdr.mo > room ||
	    (fpdu->hdr.last && rx->got != fpdu->hdr.mo)) {
		rx_fault(fpdu, TERM_DDP_UNTAGGED_MO, NULL);
		recv_failed(conn, IB_WC_WR_FLUSH_ERR);
		return;
	}
	if (fpdu->payload > room - fpdu->hdr.mo) {
		rx_fault(fpdu, TERM_DDP_UNTAGGED_TOO_LONG, NULL);
		recv_failed(conn, IB_WC_LOC_LEN_ERR);
		return;
	}
	if (fpdu->hdr.mo != rx->mo)
		sink_seek(&rx->rqe, &rx->sink, fpdu->hdr.mo);
	if (!place_sges(conn, &rx->rqe, &rx->sink, &fpdu->data, NULL, fpdu->payload)) {
		if (conn->rx_fault.pending)
			return;
		ziw_rx_local_fault(conn, TERM_RDMAP_CATASTROPHIC);
		recv_failed(conn, IB_WC_LOC_PROT_ERR);
		return;
	}
	rx->mo = fpdu->hdr.mo + fpdu->payload;
	rx->got += fpdu->payload;
	if (!fpdu->hdr.last)
		return;

	if (ziw_rdmap_invalidates(fpdu->hdr.opcode)) {
		if (!rx_remote_invalidate(fpdu)) {
			recv_failed(conn, IB_WC_WR_FLUSH_ERR);
			return;
		}
		cqe.flags |= ZIW_CQE_WITH_INV;
		cqe.ex = fpdu->hdr.inv_stag;
	} else if (rx->have_imm) {
		cqe.flags |= ZIW_CQE_WITH_IMM;
		cqe.ex = rx->imm;
	}
	rx->have_imm = false;
	if (ziw_rdmap_solicits(fpdu->hdr.opcode))
		cqe.flags |= ZIW_CQE_SOLICITED;
	cqe.byte_len = rx->mo;
	rx->msn[DDP_QN_SEND]++;
	recv_done(conn, &cqe);
}

/* --- Immediate Data, RFC 7306 section 6 --- */

static void rx_imm(struct ziw_rx_fpdu *fpdu)
{
	struct ziw_conn *conn = fpdu->conn;
	struct ziw_rx *rx = &conn->rx;
	struct ziw_cqe cqe = {
		.opcode		= ZIW_OP_RECV_IMM,
		.status		= IB_WC_SUCCESS,
		.flags		= ZIW_CQE_WITH_IMM,
		.byte_len	= rx->write_last ? rx->write_len : 0,
	};
	u8 buf[RDMAP_IMM_LEN];
	struct ziw_imm imm;

	/* A message of its own: not in the middle of a Send, and in one segment. */
	if (rx->have_rqe || rx->have_imm) {
		rx_fault(fpdu, TERM_RDMAP_OP_OPCODE, NULL);
		return;
	}
	if (fpdu->hdr.mo || !fpdu->hdr.last) {
		rx_fault(fpdu, TERM_DDP_UNTAGGED_MO, NULL);
		return;
	}
	if (!rx_take_header(fpdu, buf, sizeof(buf)))
		return;
	ziw_imm_decode(buf, &imm);
	if (imm.kind == ziw_imm_with_send(imm.data, fpdu->hdr.msn)) {
		rx->have_imm = true;
		rx->imm = imm.data;
		rx->msn[DDP_QN_SEND]++;
		return;
	}
	if (!rx_take_rqe(fpdu))
		return;
	cqe.ex = imm.data;
	if (ziw_rdmap_solicits(fpdu->hdr.opcode))
		cqe.flags |= ZIW_CQE_SOLICITED;
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

/* Whether a message of queue 0 is the WQE's. Immediate Data goes before its Send. */
static bool sent_as(const struct ziw_sq_track *track, u32 msn)
{
	if (track->opcode == ZIW_OP_SEND_IMM && track->msn - 1 == msn)
		return true;
	return (ziw_wqe_is_send(track->opcode) || track->opcode == ZIW_OP_WRITE_IMM) &&
	       track->msn == msn;
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
			match = ziw_wqe_is_write(track->opcode);
		else if (hdr.qn == DDP_QN_READ_REQ)
			match = track->flags & ZIW_SQ_WAIT_RESPONSE &&
				track->msn == hdr.msn;
		else
			match = sent_as(track, hdr.msn);
		if (match && !ziw_sq_done(track)) {
			/* It completes with the flush: TCP may have pages of it. */
			track->status = wc_of_term(term->code);
			return;
		}
	}
}

static void rx_terminate_message(struct ziw_rx_fpdu *fpdu)
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

	trace_ziw_terminate(qp, false, term.code);
	ziw_stat_term(conn->dev, false, term.code);
	ziw_because(conn, ZIW_WHY_TERM_RECEIVED, term.code);

	spin_lock(&qp->lock);
	qp->vendor_err = term.code;
	blame_wqe(qp, &term);
	/* No answer to a Terminate (RFC 5040, 5.4): the stream just ends. */
	ziw_qp_fail(qp, IB_EVENT_QP_FATAL);
	spin_unlock(&qp->lock);
}

/* --- dispatch --- */

static void rx_tagged(struct ziw_rx_fpdu *fpdu)
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
		return ziw_rdmap_is_send(hdr->opcode) || ziw_rdmap_is_imm(hdr->opcode);
	case DDP_QN_READ_REQ:
		return hdr->opcode == RDMAP_READ_REQ || hdr->opcode == RDMAP_ATOMIC_REQ;
	case DDP_QN_ATOMIC_RESP:
		return hdr->opcode == RDMAP_ATOMIC_RESP;
	default:
		return hdr->opcode == RDMAP_TERMINATE;
	}
}

static void rx_untagged(struct ziw_rx_fpdu *fpdu)
{
	const struct ziw_ddp_hdr *hdr = &fpdu->hdr;
	struct ziw_rx *rx = &fpdu->conn->rx;

	if (hdr->qn >= DDP_QN_NUM) {
		rx_fault(fpdu, TERM_DDP_UNTAGGED_QN, NULL);
	} else if (!opcode_fits_queue(hdr)) {
		rx_fault(fpdu, TERM_RDMAP_OP_OPCODE, NULL);
	} else if (hdr->msn != rx->msn[hdr->qn]) {
		rx_fault(fpdu, TERM_DDP_UNTAGGED_MSN_RANGE, NULL);
	} else if (ziw_rdmap_is_imm(hdr->opcode)) {
		rx_imm(fpdu);
		rx->write_last = false;
	} else if (hdr->qn == DDP_QN_SEND) {
		rx->write_last = false;
		rx_send(fpdu);
	} else if (hdr->mo || !hdr->last) {
		/* Each fits in one segment of any size that DDP allows. */
		rx_fault(fpdu, TERM_DDP_UNTAGGED_MO, NULL);
	} else if (hdr->opcode == RDMAP_READ_REQ) {
		rx_read_request(fpdu);
	} else if (hdr->opcode == RDMAP_ATOMIC_REQ) {
		rx_atomic_request(fpdu);
	} else if (hdr->opcode == RDMAP_ATOMIC_RESP) {
		rx_atomic_response(fpdu);
	} else {
		rx_terminate_message(fpdu);
	}
}

/**
 * ziw_rx_dispatch - carry out a DDP Segment
 * @fpdu: whole, checked against its CRC, and decoded
 *
 * Context: bottom halves off, socket lock held.
 */
void ziw_rx_dispatch(struct ziw_rx_fpdu *fpdu)
{
	const struct ziw_ddp_hdr *hdr = &fpdu->hdr;

	trace_ziw_receive(fpdu->conn->qp, hdr, fpdu->payload);
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
