// SPDX-License-Identifier: GPL-2.0
/* The responder's half of the transmit engine: answers to reads and atomics. */
#include "trace.h"
#include "tx.h"

static u16 term_of_mr_error(enum ziw_mr_error err)
{
	switch (err) {
	case ZIW_MR_NOT_ASSOCIATED:
		return TERM_RDMAP_PROT_NOT_ASSOCIATED;
	case ZIW_MR_ACCESS:
		return TERM_RDMAP_PROT_ACCESS;
	case ZIW_MR_TO_WRAP:
		return TERM_RDMAP_PROT_TO_WRAP;
	case ZIW_MR_BOUNDS:
	case ZIW_MR_FAULT:
		return TERM_RDMAP_PROT_BOUNDS;
	case ZIW_MR_ALIGNMENT:
		/* RFC 7306, 8.2 */
		return TERM_RDMAP_OP_CATASTROPHIC;
	default:
		return TERM_RDMAP_PROT_INVALID_STAG;
	}
}

static void tx_fail_response(struct ziw_conn *conn, enum ziw_mr_error err)
{
	struct ziw_irq_entry *entry = ziw_irq_slot(conn, conn->irq_tail);
	const struct ziw_ddp_hdr hdr = {
		.last	= true,
		.opcode	= entry->is_atomic ? RDMAP_ATOMIC_REQ : RDMAP_READ_REQ,
		.qn	= DDP_QN_READ_REQ,
		.msn	= entry->msn,
	};
	struct ziw_terminate term = {
		.code		= term_of_mr_error(err),
		.has_ddp	= true,
		.seg_len	= DDP_UNTAGGED_LEN,
	};

	ziw_ddp_encode(term.ddp, &hdr);
	if (entry->is_atomic) {
		/* RFC 7306, 8.1: its own header is not part of the Terminate. */
		term.seg_len += RDMAP_ATOMIC_REQ_LEN;
	} else {
		struct ziw_read_req req = entry->read;

		/* RFC 5040, 4.8: brought up to where the operation was. */
		req.sink_to += conn->tx.resp_sent;
		req.source_to += conn->tx.resp_sent;
		req.size -= conn->tx.resp_sent;
		term.has_rdmap = true;
		term.seg_len += RDMAP_READ_REQ_LEN;
		ziw_read_req_encode(term.read, &req);
	}
	ziw_tx_terminate(conn, &term);
	ziw_qp_event(conn->qp, IB_EVENT_QP_ACCESS_ERR);
}

static void tx_response_sent(struct ziw_conn *conn)
{
	conn->tx.resp_sent = 0;
	conn->irq_tail++;
	conn->tx.prefer_response = false;
}

/*
 * Response payload is copied, never referenced: the local host may rightly
 * write to memory that a peer reads, and what TCP sends again has to be what
 * the CRC was computed over.
 */
static enum ziw_tx_result tx_build_read_response(struct ziw_conn *conn)
{
	struct ziw_read_req *req = &ziw_irq_slot(conn, conn->irq_tail)->read;
	struct ziw_tx *tx = &conn->tx;
	u32 left = req->size - tx->resp_sent;
	u32 n = min(left, ziw_tx_max_payload(conn, true));
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
		return ZIW_TX_FULL;
	if (ziw_fpdu_begin(&fpdu, &tx->batch, conn->crc, &hdr, n))
		return ZIW_TX_NOMEM;
	if (n) {
		mr = ziw_mr_get_remote(conn->qp, req->source_stag, IB_ACCESS_REMOTE_READ,
				       req->source_to + tx->resp_sent, n, &mr_err);
		if (mr) {
			err = ziw_tx_add_region(&fpdu, mr,
						req->source_to + tx->resp_sent,
						n, false, NULL);
			ziw_mr_put(mr);
		} else if (mr_err == ZIW_MR_FAULT &&
			   ziw_fault_wait(&conn->tx_fault, true, req->source_stag,
					  IB_ACCESS_REMOTE_READ,
					  req->source_to + tx->resp_sent, n)) {
			err = -EAGAIN;
		} else {
			err = -EFAULT;
		}
	}
	if (!err)
		err = ziw_fpdu_end(&fpdu);
	if (err) {
		ziw_fpdu_cancel(&fpdu);
		if (err == -ENOMEM)
			return ZIW_TX_NOMEM;
		if (err == -EAGAIN)
			return ZIW_TX_WAIT;
		tx_fail_response(conn, mr_err);
		return ZIW_TX_BUILT;
	}

	trace_ziw_send(conn->qp, &hdr, n);
	tx->resp_sent += n;
	if (hdr.last)
		tx_response_sent(conn);
	return ZIW_TX_BUILT;
}

/*
 * The operation is carried out here, in its turn among the reads: RFC 7306, 5.4
 * and 7. That happens once, however often its response finds no memory.
 */
static enum ziw_tx_result tx_build_atomic_response(struct ziw_conn *conn)
{
	struct ziw_irq_entry *entry = ziw_irq_slot(conn, conn->irq_tail);
	const struct ziw_ddp_hdr hdr = {
		.last	= true,
		.opcode	= RDMAP_ATOMIC_RESP,
		.qn	= DDP_QN_ATOMIC_RESP,
		.msn	= conn->tx.msn_atomic,
	};
	struct ziw_atomic_resp resp = { .id = entry->atomic.id };
	u8 buf[RDMAP_ATOMIC_RESP_LEN];
	enum ziw_mr_error mr_err;
	enum ziw_tx_result ret;
	u64 value;

	if (!entry->done) {
		mr_err = ziw_mr_atomic(conn->qp, &entry->atomic, &value);
		if (mr_err == ZIW_MR_FAULT &&
		    ziw_fault_wait(&conn->tx_fault, true, entry->atomic.stag,
				   IB_ACCESS_REMOTE_ATOMIC, entry->atomic.to, sizeof(u64)))
			return ZIW_TX_WAIT;
		if (mr_err != ZIW_MR_OK) {
			tx_fail_response(conn, mr_err);
			return ZIW_TX_BUILT;
		}
		entry->done = true;
		entry->atomic.data = value;
	}
	resp.value = entry->atomic.data;
	ziw_atomic_resp_encode(buf, &resp);
	ret = ziw_tx_build_short(conn, &hdr, buf, sizeof(buf));
	if (ret == ZIW_TX_BUILT) {
		conn->tx.msn_atomic++;
		tx_response_sent(conn);
	}
	return ret;
}

/**
 * ziw_tx_build_response - add an FPDU of the oldest response that is due
 * @conn: connection; socket lock and qp->lock held; conn->irq is not empty
 *
 * Context: bottom halves off.
 * Return: ZIW_TX_BUILT, also where the stream ends instead; ZIW_TX_FULL, ZIW_TX_NOMEM.
 */
enum ziw_tx_result ziw_tx_build_response(struct ziw_conn *conn)
{
	if (ziw_irq_slot(conn, conn->irq_tail)->is_atomic)
		return tx_build_atomic_response(conn);
	return tx_build_read_response(conn);
}
