// SPDX-License-Identifier: GPL-2.0
/*
 * The transmit engine: WQEs and read responses are cut into FPDUs, gathered in
 * a batch, and handed to TCP in one call.
 *
 * It runs wherever there is cause: in the caller of the doorbell or of
 * post_send, and in softirq when an acknowledgment makes room or data asks for
 * an answer. It always holds the socket's spinlock, with bottom halves off and
 * the socket not owned by a user, and qp->lock inside it; it never sleeps.
 */
#include <linux/random.h>
#include <net/tcp.h>
#include "batch.h"

enum tx_result {
	TX_BUILT,	/* an FPDU was added to the batch, or a WQE was done without */
	TX_FULL,	/* the batch has to go first */
	TX_WAIT,	/* something else has to happen first */
	TX_IDLE,	/* nothing to send */
	TX_NOMEM,	/* no memory: try again later */
};

/* ns between tries when memory is short: an interval no user notices */
#define TX_RETRY_JIFFIES	1

static u32 tx_max_payload(const struct ziw_conn *conn, bool tagged)
{
	u32 mulpdu = ziw_max_fpdu ? : ziw_mpa_mulpdu(ziw_llp_emss(conn->sk));

	return mulpdu - (tagged ? DDP_TAGGED_LEN : DDP_UNTAGGED_LEN);
}

/* --- Terminate --- */

/*
 * The current WQE is not cut any further. Pages of it that TCP has, or that
 * wait in the batch, hold back its completion like those of a whole one.
 */
static void tx_drop_wqe(struct ziw_conn *conn)
{
	struct ziw_tx_wqe *wqe = &conn->tx.wqe;
	struct ziw_sq *sq = &conn->qp->sq;
	struct ziw_sq_track *track = &sq->track[wqe->index & sq->ring.mask];

	if (wqe->active && wqe->spliced) {
		track->flags |= ZIW_SQ_WAIT_ACK;
		track->end_seq = ziw_llp_next(conn->sk) + conn->tx.batch.bytes;
	}
	wqe->active = false;
}

/**
 * ziw_tx_terminate - end the stream with a Terminate Message
 * @conn: connection; socket lock and qp->lock held
 * @term: what to say; the first one counts (RFC 5040, 7.1)
 *
 * The transmit engine sends it when it runs next.
 *
 * Context: bottom halves off.
 */
void ziw_tx_terminate(struct ziw_conn *conn, const struct ziw_terminate *term)
{
	struct ziw_qp *qp = conn->qp;

	if (conn->tx.terminate || !ziw_qp_move(qp, ZIW_QP_TERMINATE))
		return;
	ibdev_warn_ratelimited(&conn->dev->ibdev,
			       "QP %u: sending Terminate 0x%04x: %s\n",
			       qp->ibqp.qp_num, term->code,
			       ziw_terminate_name(term->code));
	qp->vendor_err = term->code;
	conn->tx.term = *term;
	conn->tx.terminate = true;
	conn->rx.failed = true;
	tx_drop_wqe(conn);
}

/* A WQE of ours cannot be carried out: it fails, and the stream with it. */
static void tx_fail_wqe(struct ziw_conn *conn, u32 index, enum ib_wc_status status)
{
	static const struct ziw_terminate term = { .code = TERM_RDMAP_CATASTROPHIC };
	struct ziw_qp *qp = conn->qp;
	struct ziw_sq_track *track = &qp->sq.track[index & qp->sq.ring.mask];

	tx_drop_wqe(conn);
	track->flags |= ZIW_SQ_SENT;
	track->status = status;
	ziw_tx_terminate(conn, &term);
	ziw_qp_event(qp, IB_EVENT_QP_FATAL);
}

static enum tx_result tx_build_terminate(struct ziw_conn *conn)
{
	const struct ziw_ddp_hdr hdr = {
		.last	= true,
		.opcode	= RDMAP_TERMINATE,
		.qn	= DDP_QN_TERMINATE,
		.msn	= 1,
	};
	struct ziw_tx *tx = &conn->tx;
	u8 buf[TERM_MAX_LEN];
	struct ziw_fpdu fpdu;
	unsigned int len;

	if (tx->terminated)
		return TX_WAIT;
	if (!ziw_batch_has_room(&tx->batch, TERM_MAX_LEN, 1))
		return TX_FULL;
	len = ziw_terminate_encode(buf, &tx->term);
	if (ziw_fpdu_begin(&fpdu, &tx->batch, conn->crc, &hdr, len))
		return TX_NOMEM;
	if (ziw_fpdu_add(&fpdu, buf, len) || ziw_fpdu_end(&fpdu)) {
		ziw_fpdu_cancel(&fpdu);
		return TX_NOMEM;
	}
	tx->terminated = true;
	return TX_BUILT;
}

/* --- read responses --- */

static u16 term_of_read_error(enum ziw_mr_error err)
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

static void tx_fail_response(struct ziw_conn *conn, enum ziw_mr_error err)
{
	struct ziw_irq_entry *entry = ziw_irq_slot(conn, conn->irq_tail);
	const struct ziw_ddp_hdr hdr = {
		.last	= true,
		.opcode	= RDMAP_READ_REQ,
		.qn	= DDP_QN_READ_REQ,
		.msn	= entry->msn,
	};
	struct ziw_terminate term = {
		.code		= term_of_read_error(err),
		.has_ddp	= true,
		.has_rdmap	= true,
		.seg_len	= DDP_UNTAGGED_LEN + RDMAP_READ_REQ_LEN,
	};
	struct ziw_read_req req = entry->req;

	/* RFC 5040, 4.8: brought up to where the operation was. */
	req.sink_to += conn->tx.resp_sent;
	req.source_to += conn->tx.resp_sent;
	req.size -= conn->tx.resp_sent;
	ziw_ddp_encode(term.ddp, &hdr);
	ziw_read_req_encode(term.read, &req);
	ziw_tx_terminate(conn, &term);
	ziw_qp_event(conn->qp, IB_EVENT_QP_ACCESS_ERR);
}

/*
 * Response payload is copied, never referenced: the local host may rightly
 * write to memory that a peer reads, and what TCP sends again has to be what
 * the CRC was computed over.
 */
static int tx_add_region(struct ziw_fpdu *fpdu, const struct ziw_mr *mr, u64 addr,
			 u32 len, bool splice, bool *spliced)
{
	while (len) {
		u32 n = len;
		void *va = ziw_mr_range(mr, addr, &n);
		int err;

		if (!va)
			return -EFAULT;
		err = splice ? ziw_fpdu_splice(fpdu, va, n, spliced) :
			       ziw_fpdu_add(fpdu, va, n);
		if (err)
			return err;
		addr += n;
		len -= n;
	}
	return 0;
}

static enum tx_result tx_build_response(struct ziw_conn *conn)
{
	struct ziw_read_req *req = &ziw_irq_slot(conn, conn->irq_tail)->req;
	struct ziw_tx *tx = &conn->tx;
	u32 left = req->size - tx->resp_sent;
	u32 n = min(left, tx_max_payload(conn, true));
	struct ziw_ddp_hdr hdr = {
		.tagged	= true,
		.last	= n == left,
		.opcode	= RDMAP_READ_RESP,
		.stag	= req->sink_stag,
		.to	= req->sink_to + tx->resp_sent,
	};
	enum ziw_mr_error mr_err = ZIW_MR_BOUNDS;
	struct ziw_mr *mr = NULL;
	struct ziw_fpdu fpdu;
	int err = 0;

	if (!ziw_batch_has_room(&tx->batch, n, 1))
		return TX_FULL;
	if (ziw_fpdu_begin(&fpdu, &tx->batch, conn->crc, &hdr, n))
		return TX_NOMEM;
	if (n) {
		mr = ziw_mr_get(conn->qp->ibqp.pd, req->source_stag, false,
				IB_ACCESS_REMOTE_READ,
				req->source_to + tx->resp_sent, n, &mr_err);
		if (mr) {
			err = tx_add_region(&fpdu, mr, req->source_to + tx->resp_sent,
					    n, false, NULL);
			ziw_mr_put(mr);
		} else {
			err = -EFAULT;
		}
	}
	if (!err)
		err = ziw_fpdu_end(&fpdu);
	if (err) {
		ziw_fpdu_cancel(&fpdu);
		if (err == -ENOMEM)
			return TX_NOMEM;
		tx_fail_response(conn, mr_err);
		return TX_BUILT;
	}

	tx->resp_sent += n;
	if (hdr.last) {
		tx->resp_sent = 0;
		conn->irq_tail++;
		tx->prefer_response = false;
	}
	return TX_BUILT;
}

/* --- WQEs --- */

/* The WQE is sent as far as TCP is concerned; @end is where its bytes end. */
static void tx_wqe_sent(struct ziw_conn *conn)
{
	struct ziw_tx_wqe *wqe = &conn->tx.wqe;
	struct ziw_sq *sq = &conn->qp->sq;
	struct ziw_sq_track *track = &sq->track[wqe->index & sq->ring.mask];

	track->flags |= ZIW_SQ_SENT;
	if (wqe->spliced) {
		track->flags |= ZIW_SQ_WAIT_ACK;
		track->end_seq = ziw_llp_next(conn->sk) + conn->tx.batch.bytes;
	}
	wqe->active = false;
	conn->tx.prefer_response = true;
}

/* What the engine carries out by itself, with nothing to send. */
static int tx_local_op(struct ziw_conn *conn, const struct ziw_sq_wqe *hdr)
{
	struct ziw_qp *qp = conn->qp;

	if (hdr->opcode == ZIW_OP_REG_MR)
		return ziw_mr_fast_register((struct ib_mr *)(uintptr_t)hdr->remote_addr,
					    hdr->rkey, hdr->ex);
	return ziw_mr_invalidate(qp->ibqp.pd, conn->dev, hdr->ex, false);
}

static bool tx_opcode_ok(const struct ziw_qp *qp, u8 opcode)
{
	switch (opcode) {
	case ZIW_OP_SEND:
	case ZIW_OP_SEND_INV:
	case ZIW_OP_WRITE:
	case ZIW_OP_READ:
	case ZIW_OP_LOCAL_INV:
		return true;
	case ZIW_OP_READ_INV:
	case ZIW_OP_REG_MR:
		return ziw_qp_is_kernel(qp);
	default:
		return false;
	}
}

/* Copy the WQE from the ring and check it; the copy is what counts from then on. */
static enum ib_wc_status tx_copy_wqe(struct ziw_qp *qp, struct ziw_tx_wqe *wqe,
				     const struct ziw_sq_wqe *slot)
{
	struct ziw_sq_wqe *hdr = &wqe->hdr;
	u64 total = 0;
	u32 i;

	if (!tx_opcode_ok(qp, hdr->opcode))
		return IB_WC_LOC_QP_OP_ERR;
	if (hdr->flags & ZIW_WQE_INLINE) {
		if (hdr->inline_len > qp->sq.max_inline || hdr->opcode == ZIW_OP_READ ||
		    hdr->opcode == ZIW_OP_READ_INV)
			return IB_WC_LOC_QP_OP_ERR;
		total = hdr->inline_len;
	} else {
		if (hdr->num_sge > qp->sq.max_sge)
			return IB_WC_LOC_QP_OP_ERR;
		ziw_ring_copy(wqe->sge, slot->sge, hdr->num_sge * sizeof(wqe->sge[0]));
		for (i = 0; i < hdr->num_sge; i++)
			total += wqe->sge[i].length;
	}
	if (total > ZIW_MAX_MSG)
		return IB_WC_LOC_LEN_ERR;
	wqe->total = total;
	return IB_WC_SUCCESS;
}

static bool tx_orq_full(const struct ziw_conn *conn)
{
	return conn->orq_head - conn->orq_tail >= conn->ord;
}

static bool is_read(u8 opcode)
{
	return opcode == ZIW_OP_READ || opcode == ZIW_OP_READ_INV;
}

/* Take up the next WQE. */
static enum tx_result tx_load_wqe(struct ziw_conn *conn)
{
	struct ziw_tx_wqe *wqe = &conn->tx.wqe;
	struct ziw_qp *qp = conn->qp;
	struct ziw_sq *sq = &qp->sq;
	const struct ziw_sq_wqe *slot;
	struct ziw_sq_track *track;
	enum ib_wc_status status;

	if (!ziw_ring_filled(&sq->ring, sq->next))
		return TX_IDLE;
	slot = ziw_ring_slot(&sq->ring, sq->next);
	ziw_ring_copy(&wqe->hdr, slot, sizeof(wqe->hdr));

	/* RFC 5040, 5.5 leaves the fence to the ULP's request: reads first. */
	if (wqe->hdr.flags & ZIW_WQE_FENCE && conn->orq_head != conn->orq_tail)
		return TX_WAIT;
	if (is_read(wqe->hdr.opcode) && conn->ord && tx_orq_full(conn))
		return TX_WAIT;

	wqe->index = sq->next++;
	wqe->sent = 0;
	wqe->sge_index = 0;
	wqe->sge_off = 0;
	wqe->spliced = false;
	track = &sq->track[wqe->index & sq->ring.mask];
	memset(track, 0, sizeof(*track));
	track->wr_id = wqe->hdr.wr_id;
	track->opcode = min_t(u8, wqe->hdr.opcode, ZIW_OP_REG_MR);
	if (wqe->hdr.flags & ZIW_WQE_SIGNALED)
		track->flags |= ZIW_SQ_SIGNALED;

	status = tx_copy_wqe(qp, wqe, slot);
	/* A stream set up without outbound reads can never carry this one. */
	if (status == IB_WC_SUCCESS && is_read(wqe->hdr.opcode) && !conn->ord)
		status = IB_WC_LOC_QP_OP_ERR;
	if (status != IB_WC_SUCCESS) {
		tx_fail_wqe(conn, wqe->index, status);
		return TX_BUILT;
	}
	if (wqe->hdr.opcode == ZIW_OP_LOCAL_INV || wqe->hdr.opcode == ZIW_OP_REG_MR) {
		if (tx_local_op(conn, &wqe->hdr))
			tx_fail_wqe(conn, wqe->index, IB_WC_MW_BIND_ERR);
		else
			track->flags |= ZIW_SQ_SENT;
		return TX_BUILT;
	}
	if (wqe->hdr.opcode == ZIW_OP_SEND || wqe->hdr.opcode == ZIW_OP_SEND_INV)
		wqe->msn = conn->tx.msn_send++;
	else if (is_read(wqe->hdr.opcode))
		wqe->msn = conn->tx.msn_read++;
	track->msn = wqe->msn;
	/*
	 * Referenced pages cost a fragment each, and a buffer of TCP holds few:
	 * where a segment takes less than a page, copying is cheaper.
	 */
	wqe->zero_copy = !(wqe->hdr.flags & ZIW_WQE_INLINE) &&
			 wqe->total >= ziw_copy_threshold &&
			 (ziw_llp_emss(conn->sk) >= PAGE_SIZE || ziw_max_fpdu > PAGE_SIZE);
	wqe->active = true;
	return TX_BUILT;
}

static enum ib_wc_status wc_of_mr_error(int err)
{
	return err == -EFAULT ? IB_WC_LOC_PROT_ERR : IB_WC_SUCCESS;
}

/* Add @n bytes of the WQE's payload, which may come from several regions. */
static int tx_add_payload(struct ziw_conn *conn, struct ziw_fpdu *fpdu, u32 n)
{
	struct ziw_tx_wqe *wqe = &conn->tx.wqe;
	struct ziw_qp *qp = conn->qp;

	if (wqe->hdr.flags & ZIW_WQE_INLINE) {
		const struct ziw_sq_wqe *slot = ziw_ring_slot(&qp->sq.ring, wqe->index);

		return ziw_fpdu_add(fpdu, (const u8 *)slot->sge + wqe->sent, n);
	}

	while (n) {
		const struct ziw_sge *sge = &wqe->sge[wqe->sge_index];
		u32 piece = min(n, sge->length - wqe->sge_off);
		enum ziw_mr_error mr_err;
		struct ziw_mr *mr;
		int err;

		if (!piece) {
			wqe->sge_index++;
			wqe->sge_off = 0;
			continue;
		}
		mr = ziw_mr_get(qp->ibqp.pd, sge->lkey, ziw_qp_is_kernel(qp), 0,
				sge->addr + wqe->sge_off, piece, &mr_err);
		if (!mr)
			return -EFAULT;
		err = tx_add_region(fpdu, mr, sge->addr + wqe->sge_off, piece,
				    wqe->zero_copy, &wqe->spliced);
		ziw_mr_put(mr);
		if (err)
			return err;
		wqe->sge_off += piece;
		n -= piece;
	}
	return 0;
}

static void tx_wqe_header(const struct ziw_tx_wqe *wqe, bool last,
			  struct ziw_ddp_hdr *hdr)
{
	bool solicited = wqe->hdr.flags & ZIW_WQE_SOLICITED;

	memset(hdr, 0, sizeof(*hdr));
	hdr->last = last;
	if (wqe->hdr.opcode == ZIW_OP_WRITE) {
		hdr->tagged = true;
		hdr->opcode = RDMAP_WRITE;
		hdr->stag = wqe->hdr.rkey;
		hdr->to = wqe->hdr.remote_addr + wqe->sent;
		return;
	}
	hdr->qn = DDP_QN_SEND;
	hdr->msn = wqe->msn;
	hdr->mo = wqe->sent;
	if (wqe->hdr.opcode == ZIW_OP_SEND_INV) {
		hdr->opcode = solicited ? RDMAP_SEND_SE_INV : RDMAP_SEND_INV;
		hdr->inv_stag = wqe->hdr.ex;
	} else {
		hdr->opcode = solicited ? RDMAP_SEND_SE : RDMAP_SEND;
	}
}

/* One FPDU of a Send or a Write. */
static enum tx_result tx_build_segment(struct ziw_conn *conn)
{
	struct ziw_tx *tx = &conn->tx;
	struct ziw_tx_wqe *wqe = &tx->wqe;
	u32 sge_index = wqe->sge_index, sge_off = wqe->sge_off;
	u32 left = wqe->total - wqe->sent;
	u32 n = min(left, tx_max_payload(conn, wqe->hdr.opcode == ZIW_OP_WRITE));
	struct ziw_ddp_hdr hdr;
	struct ziw_fpdu fpdu;
	int err;

	if (!ziw_batch_has_room(&tx->batch, n, wqe->hdr.num_sge - sge_index + 1))
		return TX_FULL;
	tx_wqe_header(wqe, n == left, &hdr);
	if (ziw_fpdu_begin(&fpdu, &tx->batch, conn->crc, &hdr, n))
		return TX_NOMEM;
	err = tx_add_payload(conn, &fpdu, n);
	if (!err)
		err = ziw_fpdu_end(&fpdu);
	if (err) {
		ziw_fpdu_cancel(&fpdu);
		wqe->sge_index = sge_index;
		wqe->sge_off = sge_off;
		if (err == -ENOMEM)
			return TX_NOMEM;
		tx_fail_wqe(conn, wqe->index, wc_of_mr_error(err));
		return TX_BUILT;
	}
	wqe->sent += n;
	if (hdr.last)
		tx_wqe_sent(conn);
	return TX_BUILT;
}

/**
 * ziw_orq_stag - the Data Sink STag that names an outstanding read
 * @msn: MSN of the Read Request
 *
 * A token, not a region's STag: the peer gets no right to write anywhere, and
 * a response is accepted only for the oldest read outstanding.
 *
 * Return: the token; never 0.
 */
u32 ziw_orq_stag(u32 msn)
{
	return msn << 8 | 0x5a;
}

static enum tx_result tx_add_read_request(struct ziw_conn *conn, u32 msn, u32 size,
					  u32 rkey, u64 addr)
{
	const struct ziw_ddp_hdr hdr = {
		.last	= true,
		.opcode	= RDMAP_READ_REQ,
		.qn	= DDP_QN_READ_REQ,
		.msn	= msn,
	};
	const struct ziw_read_req req = {
		.sink_stag	= ziw_orq_stag(msn),
		.size		= size,
		.source_stag	= rkey,
		.source_to	= addr,
	};
	struct ziw_tx *tx = &conn->tx;
	u8 buf[RDMAP_READ_REQ_LEN];
	struct ziw_fpdu fpdu;

	if (!ziw_batch_has_room(&tx->batch, RDMAP_READ_REQ_LEN, 1))
		return TX_FULL;
	ziw_read_req_encode(buf, &req);
	if (ziw_fpdu_begin(&fpdu, &tx->batch, conn->crc, &hdr, sizeof(buf)))
		return TX_NOMEM;
	if (ziw_fpdu_add(&fpdu, buf, sizeof(buf)) || ziw_fpdu_end(&fpdu)) {
		ziw_fpdu_cancel(&fpdu);
		return TX_NOMEM;
	}
	return TX_BUILT;
}

static void orq_add(struct ziw_conn *conn, u32 msn, u32 size, u32 sq_index, bool rtr)
{
	struct ziw_orq_entry *entry = ziw_orq_slot(conn, conn->orq_head);

	entry->sq_index = sq_index;
	entry->rtr = rtr;
	entry->size = size;
	entry->stag = ziw_orq_stag(msn);
	conn->orq_head++;
}

static enum tx_result tx_build_read(struct ziw_conn *conn)
{
	struct ziw_tx_wqe *wqe = &conn->tx.wqe;
	struct ziw_sq *sq = &conn->qp->sq;
	struct ziw_sq_track *track = &sq->track[wqe->index & sq->ring.mask];
	enum tx_result ret;

	ret = tx_add_read_request(conn, wqe->msn, wqe->total, wqe->hdr.rkey,
				  wqe->hdr.remote_addr);
	if (ret != TX_BUILT)
		return ret;
	track->flags |= ZIW_SQ_WAIT_READ;
	track->byte_len = wqe->total;
	orq_add(conn, wqe->msn, wqe->total, wqe->index, false);
	tx_wqe_sent(conn);
	return TX_BUILT;
}

/* The initiator's sign that it is ready, RFC 6581 section 5. */
static enum tx_result tx_build_rtr(struct ziw_conn *conn)
{
	struct ziw_tx *tx = &conn->tx;
	struct ziw_ddp_hdr hdr = { .last = true };
	struct ziw_fpdu fpdu;

	if (tx->rtr == ZIW_RTR_READ) {
		u32 msn = tx->msn_read;
		enum tx_result ret = tx_add_read_request(conn, msn, 0, 0, 0);

		if (ret == TX_BUILT) {
			orq_add(conn, msn, 0, 0, true);
			tx->msn_read++;
			tx->rtr = 0;
		}
		return ret;
	}

	if (tx->rtr == ZIW_RTR_WRITE) {
		hdr.tagged = true;
		hdr.opcode = RDMAP_WRITE;
	} else {
		hdr.opcode = RDMAP_SEND;
		hdr.qn = DDP_QN_SEND;
		hdr.msn = tx->msn_send;
	}
	if (!ziw_batch_has_room(&tx->batch, 0, 1))
		return TX_FULL;
	if (ziw_fpdu_begin(&fpdu, &tx->batch, conn->crc, &hdr, 0))
		return TX_NOMEM;
	if (ziw_fpdu_end(&fpdu)) {
		ziw_fpdu_cancel(&fpdu);
		return TX_NOMEM;
	}
	if (tx->rtr == ZIW_RTR_SEND)
		tx->msn_send++;
	tx->rtr = 0;
	return TX_BUILT;
}

/* Add one FPDU of whoever's turn it is. Messages are not interleaved. */
static enum tx_result tx_build(struct ziw_conn *conn)
{
	struct ziw_tx *tx = &conn->tx;
	struct ziw_qp *qp = conn->qp;
	bool responses = conn->irq_head != conn->irq_tail;
	enum tx_result ret;

	if (qp->state == ZIW_QP_TERMINATE)
		return tx_build_terminate(conn);
	if (qp->state != ZIW_QP_RTS && qp->state != ZIW_QP_CLOSING)
		return TX_WAIT;
	if (!tx->open)
		return TX_WAIT;
	if (tx->rtr)
		return tx_build_rtr(conn);

	if (responses && (tx->resp_sent || (tx->prefer_response && !tx->wqe.active)))
		return tx_build_response(conn);
	if (!tx->wqe.active) {
		ret = tx_load_wqe(conn);
		if ((ret == TX_IDLE || ret == TX_WAIT) && responses)
			return tx_build_response(conn);
		return ret;
	}
	return is_read(tx->wqe.hdr.opcode) ? tx_build_read(conn) : tx_build_segment(conn);
}

/**
 * ziw_tx_reap - complete what the peer has acknowledged
 * @conn: connection; socket lock and qp->lock held
 *
 * Context: bottom halves off.
 */
void ziw_tx_reap(struct ziw_conn *conn)
{
	struct ziw_qp *qp = conn->qp;
	struct ziw_sq *sq = &qp->sq;
	u32 una = ziw_llp_acked(conn->sk);

	for (; sq->acked != sq->next; sq->acked++) {
		struct ziw_sq_track *track = &sq->track[sq->acked & sq->ring.mask];

		if (!(track->flags & ZIW_SQ_SENT))
			break;
		if (track->flags & ZIW_SQ_WAIT_ACK && before(una, track->end_seq))
			break;
		track->flags &= ~ZIW_SQ_WAIT_ACK;
	}
	ziw_sq_retire(qp);
}

/* Give the batch to TCP. Return: whether all of it was taken. */
static bool tx_push(struct ziw_conn *conn)
{
	struct ziw_tx *tx = &conn->tx;
	int err;

	if (!tx->batch.bytes)
		return true;
	err = ziw_llp_send(conn->sk, &tx->batch, tx->wqe.active || tx->resp_sent);
	if (!err)
		return true;
	if (err == -EAGAIN) {
		/* Nothing in flight: no acknowledgment will call us back. */
		if (tcp_rtx_and_write_queues_empty(conn->sk))
			ziw_conn_retry(conn, TX_RETRY_JIFFIES);
		return false;
	}
	ibdev_dbg(&conn->dev->ibdev, "QP %u: TCP does not send: %pe\n",
		  conn->qp->ibqp.qp_num, ERR_PTR(err));
	tx->failed = true;
	ziw_conn_abort(conn);
	return false;
}

/* Build and push until there is nothing to do. Return: look once more. */
static bool tx_work(struct ziw_conn *conn)
{
	struct ziw_tx *tx = &conn->tx;
	struct ziw_qp *qp = conn->qp;
	enum tx_result ret = TX_BUILT;

	ziw_ring_busy(&qp->sq.ring);
	if (!tx_push(conn))
		return false;
	while (!tx->failed) {
		ret = tx_build(conn);
		if (ret == TX_BUILT)
			continue;
		if (!tx_push(conn) || ret != TX_FULL)
			break;
	}
	ziw_tx_reap(conn);

	if (ret == TX_NOMEM)
		ziw_conn_retry(conn, TX_RETRY_JIFFIES);
	if (ret == TX_IDLE && !tx->batch.bytes)
		return ziw_ring_idle(&qp->sq.ring, qp->sq.next);
	return false;
}

/**
 * ziw_tx_run - send what there is to send
 * @conn: connection; socket spinlock held, not owned by a user
 *
 * Context: bottom halves off.
 */
void ziw_tx_run(struct ziw_conn *conn)
{
	struct ziw_tx *tx = &conn->tx;
	struct ziw_qp *qp = conn->qp;
	bool more;

	if (!qp)
		return;
	/* TCP calls back from inside a send that found no memory. */
	if (tx->running)
		return;

	tx->running = true;
	spin_lock(&qp->lock);
	ziw_tx_reap(conn);
	do {
		more = tx_work(conn);
	} while (more);

	if (conn->sk->sk_socket &&
	    (tx->batch.bytes || qp->sq.acked != qp->sq.next))
		/* Has TCP call sk_write_space on each acknowledgment. */
		set_bit(SOCK_NOSPACE, &conn->sk->sk_socket->flags);
	if ((tx->terminated && !tx->batch.bytes) ||
	    (qp->state == ZIW_QP_CLOSING && qp->sq.ring.index == qp->sq.next &&
	     !tx->batch.bytes))
		ziw_conn_kick(conn);
	spin_unlock(&qp->lock);
	tx->running = false;
}

/**
 * ziw_tx_kick - the doorbell: send what was posted, in the caller's context
 * @qp: queue pair
 *
 * Context: any.
 */
void ziw_tx_kick(struct ziw_qp *qp)
{
	struct ziw_conn *conn;
	struct sock *sk;

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

	sk = conn->sk;
	local_bh_disable();
	bh_lock_sock(sk);
	if (!sock_owned_by_user(sk))
		ziw_tx_run(conn);
	else
		ziw_conn_retry(conn, TX_RETRY_JIFFIES);
	bh_unlock_sock(sk);
	local_bh_enable();
out:
	rcu_read_unlock();
}
