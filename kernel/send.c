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
#include "inspect.h"
#include "trace.h"
#include "tx.h"

/* Between tries, when memory is short or the socket owned: an interval no user notices. */
#define TX_RETRY_JIFFIES	1

/*
 * FPDUs and local operations at a time: bottom halves are off for so long, and a program
 * may post as fast as they are done.
 */
#define TX_BUDGET	2048

/* What is worth a fragment of its own: a page, or of a larger one as much. */
#define PAYLOAD_UNIT	SZ_4K

/* Enough that the peer handles one while the next ones come. */
#define LARGE_FPDUS_PER_WINDOW	4

/**
 * ziw_tx_max_payload - most payload of one FPDU
 * @conn: connection; socket lock held
 * @tagged: by which model
 *
 * An FPDU fits a TCP segment (RFC 5044, 5.1), except where both ends are ziw: there
 * its cost counts, and who receives waits for all of it in any case. It is whole
 * pages then, and several are on their way in the window that the peer has offered.
 *
 * Return: bytes.
 */
u32 ziw_tx_max_payload(const struct ziw_conn *conn, bool tagged)
{
	u32 most = ziw_param(conn->dev, ZIW_PARAM_MAX_FPDU);
	u32 header = tagged ? DDP_TAGGED_LEN : DDP_UNTAGGED_LEN;
	u32 mulpdu = ziw_mpa_mulpdu(ziw_llp_emss(conn->sk), conn->tx.batch.markers);
	u32 payload = mulpdu - header, large;

	/* One that no window holds would never be whole at the other end. */
	if (most)
		return min(most, max(mulpdu, ziw_llp_window(conn->sk) / 2)) - header;
	large = min(conn->tx.peer_ulpdu, ziw_llp_window(conn->sk) / LARGE_FPDUS_PER_WINDOW);
	if (large < header + PAYLOAD_UNIT)
		return payload;
	return max_t(u32, payload, round_down(large - header, PAYLOAD_UNIT));
}
EXPORT_SYMBOL_IF_KUNIT(ziw_tx_max_payload);

/* Of so many TCP sends some, even if more follows: on 6.1 it may keep what one skb holds. */
#define MORE_BYTES		(2 * GSO_LEGACY_MAX_SIZE)

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
	trace_ziw_terminate(qp, true, term->code);
	ziw_stat_term(conn->dev, true, term->code);
	ziw_because(conn, ZIW_WHY_TERM_SENT, term->code);
	qp->vendor_err = term->code;
	conn->tx.term = *term;
	conn->tx.terminate = true;
	conn->rx.failed = true;
	tx_drop_wqe(conn);
	/* It may have to wait for the peer's window, but not for ever. */
	ziw_conn_kick(conn);
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

/**
 * ziw_tx_build_short - add one FPDU whose ULPDU is a header and a few bytes
 * @conn: connection; socket lock and qp->lock held
 * @hdr: DDP header
 * @data: payload
 * @len: bytes
 *
 * Return: ZIW_TX_BUILT, or ZIW_TX_FULL or ZIW_TX_NOMEM and nothing was added.
 */
enum ziw_tx_result ziw_tx_build_short(struct ziw_conn *conn,
				      const struct ziw_ddp_hdr *hdr,
				      const void *data, unsigned int len)
{
	struct ziw_batch *batch = &conn->tx.batch;
	struct ziw_fpdu fpdu;

	if (!ziw_batch_has_room(batch, len, 1))
		return ZIW_TX_FULL;
	if (ziw_fpdu_begin(&fpdu, batch, conn->crc, hdr, len))
		return ZIW_TX_NOMEM;
	if (ziw_fpdu_add(&fpdu, data, len) || ziw_fpdu_end(&fpdu)) {
		ziw_fpdu_cancel(&fpdu);
		return ZIW_TX_NOMEM;
	}
	trace_ziw_send(conn->qp, hdr, len);
	return ZIW_TX_BUILT;
}

static enum ziw_tx_result tx_build_terminate(struct ziw_conn *conn)
{
	const struct ziw_ddp_hdr hdr = {
		.last	= true,
		.opcode	= RDMAP_TERMINATE,
		.qn	= DDP_QN_TERMINATE,
		.msn	= 1,
	};
	struct ziw_tx *tx = &conn->tx;
	u8 buf[TERM_MAX_LEN];
	enum ziw_tx_result ret;

	if (tx->terminated)
		return ZIW_TX_WAIT;
	ret = ziw_tx_build_short(conn, &hdr, buf, ziw_terminate_encode(buf, &tx->term));
	if (ret == ZIW_TX_BUILT)
		tx->terminated = true;
	return ret;
}

/* --- WQEs --- */

/**
 * ziw_tx_add_region - add payload from a region
 * @fpdu: begun
 * @mr: from ziw_mr_get(), for what is asked for here
 * @addr: address in it
 * @len: bytes
 * @splice: reference the pages rather than copy
 * @spliced: as in ziw_fpdu_splice(); not looked at unless @splice
 *
 * Return: 0, -ENOMEM, or -EFAULT if there is no memory at the address.
 */
int ziw_tx_add_region(struct ziw_fpdu *fpdu, const struct ziw_mr *mr, u64 addr,
		      u32 len, bool splice, bool *spliced)
{
	fpdu->kernel = mr->type == ZIW_MR_DMA || mr->type == ZIW_MR_FAST;
	while (len) {
		u32 n = len;
		void *va = ziw_mr_range(mr, addr, &n);
		int err;

		if (!va)
			return -EFAULT;
		/* A region with gaps may have more pieces than a batch. */
		err = splice && !mr->starts ? ziw_fpdu_splice(fpdu, va, n, spliced) :
					      ziw_fpdu_add(fpdu, va, n);
		if (err)
			return err;
		addr += n;
		len -= n;
	}
	return 0;
}

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
	const struct ziw_bind bind = {
		.window	= hdr->ex,
		.key	= hdr->rkey,
		.region	= hdr->swap,
		.addr	= hdr->remote_addr,
		.length	= hdr->compare_add,
		.access	= hdr->compare_add_mask,
	};

	switch (hdr->opcode) {
	case ZIW_OP_REG_MR:
		return ziw_mr_fast_register((struct ib_mr *)(uintptr_t)hdr->remote_addr,
					    hdr->rkey, hdr->ex);
	case ZIW_OP_BIND_MW:
		return ziw_window_bind(qp, &bind);
	default:
		return ziw_mr_invalidate_by(qp, hdr->ex, false);
	}
}

static void tx_count(struct ziw_conn *conn)
{
	struct ziw_batch *batch = &conn->tx.batch;

	if (!batch->fpdus)
		return;
	ziw_stat_add(conn->dev, ZIW_STAT_TX_FPDUS, batch->fpdus);
	ziw_stat_add(conn->dev, ZIW_STAT_TX_BYTES, batch->payload);
	ziw_stat_add(conn->dev, ZIW_STAT_TX_ZERO_COPY_BYTES, batch->in_place);
	batch->fpdus = 0;
	batch->payload = 0;
	batch->in_place = 0;
}

static bool tx_orq_full(const struct ziw_conn *conn)
{
	return conn->orq_head - conn->orq_tail >= conn->orq_size;
}

static enum ib_wc_status wc_of_wqe_error(enum ziw_wqe_error err)
{
	switch (err) {
	case ZIW_WQE_OK:
		return IB_WC_SUCCESS;
	case ZIW_WQE_BAD_LENGTH:
		return IB_WC_LOC_LEN_ERR;
	default:
		return IB_WC_LOC_QP_OP_ERR;
	}
}

/* Number the messages of a WQE. Immediate Data has a number of its own (RFC 7306, 6.3). */
static void tx_number_wqe(struct ziw_conn *conn, struct ziw_tx_wqe *wqe)
{
	u8 opcode = wqe->wr.hdr.opcode;

	wqe->imm_due = ziw_wqe_has_imm(opcode);
	if (wqe->imm_due)
		wqe->imm_msn = conn->tx.msn_send++;
	if (ziw_wqe_is_send(opcode))
		wqe->msn = conn->tx.msn_send++;
	else if (ziw_wqe_is_request(opcode))
		wqe->msn = conn->tx.msn_read++;
	else
		wqe->msn = wqe->imm_msn;
}

/* Take up the next WQE. */
static enum ziw_tx_result tx_load_wqe(struct ziw_conn *conn)
{
	struct ziw_tx_wqe *wqe = &conn->tx.wqe;
	struct ziw_sq_wqe *hdr = &wqe->wr.hdr;
	struct ziw_qp *qp = conn->qp;
	struct ziw_sq *sq = &qp->sq;
	struct ziw_sq_track *track;
	enum ib_wc_status status;

	if (!ziw_sq_ready(qp))
		return ZIW_TX_IDLE;
	status = wc_of_wqe_error(ziw_wqe_load(ziw_ring_slot(&sq->ring, sq->next),
					      &sq->limits, &wqe->wr));

	/* RFC 5040, 5.5 leaves the fence to the ULP's request: reads first. */
	if (hdr->flags & ZIW_WQE_FENCE && conn->orq_head != conn->orq_tail)
		return ZIW_TX_WAIT;
	if (ziw_wqe_is_request(hdr->opcode) && conn->ord && tx_orq_full(conn))
		return ZIW_TX_WAIT;

	ziw_stat_inc(conn->dev, ZIW_STAT_SQ_WQES);
	trace_ziw_post(qp, sq->next, &wqe->wr);
	wqe->index = sq->next++;
	wqe->sent = 0;
	wqe->sge_index = 0;
	wqe->sge_off = 0;
	wqe->spliced = false;
	wqe->payload_done = false;
	track = &sq->track[wqe->index & sq->ring.mask];
	memset(track, 0, sizeof(*track));
	track->wr_id = hdr->wr_id;
	track->opcode = ziw_wqe_cqe_opcode(hdr->opcode);
	if (hdr->flags & ZIW_WQE_SIGNALED)
		track->flags |= ZIW_SQ_SIGNALED;

	/* A stream set up without outbound reads can never carry this one. */
	if (status == IB_WC_SUCCESS && ziw_wqe_is_request(hdr->opcode) && !conn->ord)
		status = IB_WC_LOC_QP_OP_ERR;
	if (status != IB_WC_SUCCESS) {
		tx_fail_wqe(conn, wqe->index, status);
		return ZIW_TX_BUILT;
	}
	if (ziw_wqe_is_local(hdr->opcode)) {
		if (tx_local_op(conn, hdr))
			tx_fail_wqe(conn, wqe->index, IB_WC_MW_BIND_ERR);
		else
			track->flags |= ZIW_SQ_SENT;
		return ZIW_TX_BUILT;
	}
	tx_number_wqe(conn, wqe);
	track->msn = wqe->msn;
	/*
	 * Referenced pages cost a fragment each, and a buffer of TCP holds few:
	 * where a segment takes less than a page, copying is cheaper.
	 */
	wqe->zero_copy = !(hdr->flags & ZIW_WQE_INLINE) &&
			 wqe->wr.total >= ziw_param(conn->dev, ZIW_PARAM_COPY_THRESHOLD) &&
			 ziw_tx_max_payload(conn, true) + DDP_TAGGED_LEN + MPA_LEN_SIZE +
				MPA_CRC_SIZE >= PAYLOAD_UNIT;
	wqe->active = true;
	return ZIW_TX_BUILT;
}

static enum ib_wc_status wc_of_mr_error(int err)
{
	return err == -EFAULT ? IB_WC_LOC_PROT_ERR : IB_WC_SUCCESS;
}

/*
 * How many of @n bytes of the WQE's payload lie next to each other in one region. Kernel
 * consumers name each page by itself, and many of them follow each other.
 */
static u32 tx_piece(const struct ziw_tx_wqe *wqe, u32 n)
{
	const struct ziw_sge *sge = &wqe->wr.sge[wqe->sge_index];
	const struct ziw_sge *end = &wqe->wr.sge[wqe->wr.hdr.num_sge];
	u32 piece = min(n, sge->length - wqe->sge_off);

	for (sge++; piece < n && sge < end; sge++) {
		if (sge->lkey != sge[-1].lkey || sge->addr != sge[-1].addr + sge[-1].length)
			break;
		piece += min(n - piece, sge->length);
	}
	return piece;
}

static void tx_sge_advance(struct ziw_tx_wqe *wqe, u32 piece)
{
	wqe->sge_off += piece;
	while (wqe->sge_index < wqe->wr.hdr.num_sge &&
	       wqe->sge_off >= wqe->wr.sge[wqe->sge_index].length) {
		wqe->sge_off -= wqe->wr.sge[wqe->sge_index].length;
		wqe->sge_index++;
	}
}

/* Add @n bytes of the WQE's payload, which may come from several regions. */
static int tx_add_payload(struct ziw_conn *conn, struct ziw_fpdu *fpdu, u32 n)
{
	struct ziw_tx_wqe *wqe = &conn->tx.wqe;
	struct ziw_qp *qp = conn->qp;

	if (wqe->wr.hdr.flags & ZIW_WQE_INLINE) {
		const struct ziw_sq_wqe *slot = ziw_ring_slot(&qp->sq.ring, wqe->index);

		return ziw_fpdu_add(fpdu, (const u8 *)slot->sge + wqe->sent, n);
	}

	while (n) {
		const struct ziw_sge *sge = &wqe->wr.sge[wqe->sge_index];
		u32 piece = tx_piece(wqe, n);
		enum ziw_mr_error mr_err;
		struct ziw_mr *mr;
		int err;

		if (!piece) {
			tx_sge_advance(wqe, 0);
			continue;
		}
		mr = ziw_mr_get(qp->ibqp.pd, sge->lkey, ziw_qp_is_kernel(qp), 0,
				sge->addr + wqe->sge_off, piece, &mr_err);
		if (!mr && mr_err == ZIW_MR_FAULT &&
		    ziw_fault_wait(&conn->tx_fault, false, sge->lkey, 0,
				   sge->addr + wqe->sge_off, piece))
			return -EAGAIN;
		if (!mr)
			return -EFAULT;
		err = ziw_tx_add_region(fpdu, mr, sge->addr + wqe->sge_off, piece,
					wqe->zero_copy, &wqe->spliced);
		ziw_mr_put(mr);
		if (err)
			return err;
		tx_sge_advance(wqe, piece);
		n -= piece;
	}
	return 0;
}

static void tx_wqe_header(const struct ziw_tx_wqe *wqe, bool last,
			  struct ziw_ddp_hdr *hdr)
{
	bool solicited = wqe->wr.hdr.flags & ZIW_WQE_SOLICITED;

	memset(hdr, 0, sizeof(*hdr));
	hdr->last = last;
	if (ziw_wqe_is_write(wqe->wr.hdr.opcode)) {
		hdr->tagged = true;
		hdr->opcode = RDMAP_WRITE;
		hdr->stag = wqe->wr.hdr.rkey;
		hdr->to = wqe->wr.hdr.remote_addr + wqe->sent;
		return;
	}
	hdr->qn = DDP_QN_SEND;
	hdr->msn = wqe->msn;
	hdr->mo = wqe->sent;
	if (wqe->wr.hdr.opcode == ZIW_OP_SEND_INV) {
		hdr->opcode = solicited ? RDMAP_SEND_SE_INV : RDMAP_SEND_INV;
		hdr->inv_stag = wqe->wr.hdr.ex;
	} else {
		hdr->opcode = solicited ? RDMAP_SEND_SE : RDMAP_SEND;
	}
}

/* One FPDU of a Send or a Write. */
static enum ziw_tx_result tx_build_segment(struct ziw_conn *conn)
{
	struct ziw_tx *tx = &conn->tx;
	struct ziw_tx_wqe *wqe = &tx->wqe;
	u32 sge_index = wqe->sge_index, sge_off = wqe->sge_off;
	u32 left = wqe->wr.total - wqe->sent;
	u32 n = min(left, ziw_tx_max_payload(conn, ziw_wqe_is_write(wqe->wr.hdr.opcode)));
	struct ziw_ddp_hdr hdr;
	struct ziw_fpdu fpdu;
	int err;

	if (!ziw_batch_has_room(&tx->batch, n, wqe->wr.hdr.num_sge - sge_index + 1))
		return ZIW_TX_FULL;
	tx_wqe_header(wqe, n == left, &hdr);
	if (ziw_fpdu_begin(&fpdu, &tx->batch, conn->crc, &hdr, n))
		return ZIW_TX_NOMEM;
	err = tx_add_payload(conn, &fpdu, n);
	if (!err)
		err = ziw_fpdu_end(&fpdu);
	if (err) {
		ziw_fpdu_cancel(&fpdu);
		wqe->sge_index = sge_index;
		wqe->sge_off = sge_off;
		if (err == -ENOMEM)
			return ZIW_TX_NOMEM;
		if (err == -EAGAIN)
			return ZIW_TX_WAIT;
		tx_fail_wqe(conn, wqe->index, wc_of_mr_error(err));
		return ZIW_TX_BUILT;
	}
	trace_ziw_send(conn->qp, &hdr, n);
	wqe->sent += n;
	wqe->payload_done = hdr.last;
	if (hdr.last && !wqe->imm_due)
		tx_wqe_sent(conn);
	return ZIW_TX_BUILT;
}

/* Immediate Data, RFC 7306 section 6: it completes the Write before it. */
static enum ziw_tx_result tx_build_imm(struct ziw_conn *conn)
{
	struct ziw_tx_wqe *wqe = &conn->tx.wqe;
	bool write = ziw_wqe_is_write(wqe->wr.hdr.opcode);
	bool solicited = write && wqe->wr.hdr.flags & ZIW_WQE_SOLICITED;
	const struct ziw_ddp_hdr hdr = {
		.last	= true,
		.opcode	= solicited ? RDMAP_IMM_SE : RDMAP_IMM,
		.qn	= DDP_QN_SEND,
		.msn	= wqe->imm_msn,
	};
	const struct ziw_imm imm = {
		.data	= wqe->wr.hdr.ex,
		.kind	= write ? ZIW_IMM_ALONE :
			  ziw_imm_with_send(wqe->wr.hdr.ex, wqe->imm_msn),
	};
	u8 buf[RDMAP_IMM_LEN];
	enum ziw_tx_result ret;

	ziw_imm_encode(buf, &imm);
	ret = ziw_tx_build_short(conn, &hdr, buf, sizeof(buf));
	if (ret != ZIW_TX_BUILT)
		return ret;
	wqe->imm_due = false;
	if (wqe->payload_done)
		tx_wqe_sent(conn);
	return ZIW_TX_BUILT;
}

/**
 * ziw_orq_token - what names an outstanding request: the Data Sink STag of a
 * read, the Request Identifier of an atomic
 * @msn: MSN of the request
 *
 * No region's STag: the peer gets no right to write anywhere, and a response is
 * accepted only for the oldest request outstanding.
 *
 * Return: the token; never 0.
 */
u32 ziw_orq_token(u32 msn)
{
	return msn << 8 | 0x5a;
}

static enum ziw_tx_result tx_add_read_request(struct ziw_conn *conn, u32 msn,
					      u32 size, u32 rkey, u64 addr)
{
	const struct ziw_ddp_hdr hdr = {
		.last	= true,
		.opcode	= RDMAP_READ_REQ,
		.qn	= DDP_QN_READ_REQ,
		.msn	= msn,
	};
	const struct ziw_read_req req = {
		.sink_stag	= ziw_orq_token(msn),
		.size		= size,
		.source_stag	= rkey,
		.source_to	= addr,
	};
	u8 buf[RDMAP_READ_REQ_LEN];

	ziw_read_req_encode(buf, &req);
	return ziw_tx_build_short(conn, &hdr, buf, sizeof(buf));
}

/* RFC 7306, 5.2.1; what an operation does not use is set as said there. */
static enum ziw_tx_result tx_add_atomic_request(struct ziw_conn *conn,
						const struct ziw_tx_wqe *wqe)
{
	const struct ziw_sq_wqe *wr = &wqe->wr.hdr;
	bool masked = wr->flags & ZIW_WQE_MASKED;
	const struct ziw_ddp_hdr hdr = {
		.last	= true,
		.opcode	= RDMAP_ATOMIC_REQ,
		.qn	= DDP_QN_READ_REQ,
		.msn	= wqe->msn,
	};
	struct ziw_atomic_req req = {
		.id		= ziw_orq_token(wqe->msn),
		.stag		= wr->rkey,
		.to		= wr->remote_addr,
		.compare_mask	= U64_MAX,
	};
	u8 buf[RDMAP_ATOMIC_REQ_LEN];

	if (wr->opcode == ZIW_OP_FETCH_ADD) {
		req.op = ATOMIC_FETCH_ADD;
		req.data = wr->compare_add;
		req.mask = masked ? wr->compare_add_mask : 0;
	} else {
		req.op = ATOMIC_CMP_SWAP;
		req.data = wr->swap;
		req.mask = masked ? wr->swap_mask : U64_MAX;
		req.compare = wr->compare_add;
		if (masked)
			req.compare_mask = wr->compare_add_mask;
	}
	ziw_atomic_req_encode(buf, &req);
	return ziw_tx_build_short(conn, &hdr, buf, sizeof(buf));
}

static void orq_add(struct ziw_conn *conn, enum ziw_orq_kind kind, u32 msn, u32 size,
		    u32 sq_index)
{
	struct ziw_orq_entry *entry = ziw_orq_slot(conn, conn->orq_head);

	entry->kind = kind;
	entry->sq_index = sq_index;
	entry->size = size;
	entry->token = ziw_orq_token(msn);
	conn->orq_head++;
}

/* A read or an atomic: one FPDU. */
static enum ziw_tx_result tx_build_request(struct ziw_conn *conn)
{
	struct ziw_tx_wqe *wqe = &conn->tx.wqe;
	struct ziw_sq *sq = &conn->qp->sq;
	struct ziw_sq_track *track = &sq->track[wqe->index & sq->ring.mask];
	bool atomic = ziw_wqe_is_atomic(wqe->wr.hdr.opcode);
	enum ziw_tx_result ret;

	if (atomic)
		ret = tx_add_atomic_request(conn, wqe);
	else
		ret = tx_add_read_request(conn, wqe->msn, wqe->wr.total,
					  wqe->wr.hdr.rkey, wqe->wr.hdr.remote_addr);
	if (ret != ZIW_TX_BUILT)
		return ret;
	track->flags |= ZIW_SQ_WAIT_RESPONSE;
	if (atomic && wqe->wr.hdr.flags & ZIW_WQE_MASKED)
		track->flags |= ZIW_SQ_MASKED;
	track->byte_len = wqe->wr.total;
	orq_add(conn, atomic ? ZIW_ORQ_ATOMIC : ZIW_ORQ_READ, wqe->msn, wqe->wr.total,
		wqe->index);
	tx_wqe_sent(conn);
	return ZIW_TX_BUILT;
}

static enum ziw_tx_result tx_build_hello(struct ziw_conn *conn, enum ziw_hello_kind kind)
{
	const struct ziw_hello hello = { .kind = kind, .max_ulpdu = MPA_MAX_MULPDU };
	struct ziw_ddp_hdr hdr = {
		.last	= true,
		.tagged	= true,
		.opcode	= RDMAP_WRITE,
	};

	ziw_hello_encode(&hdr, &hello);
	return ziw_tx_build_short(conn, &hdr, NULL, 0);
}

/* The initiator's sign that it is ready, RFC 6581 section 5. */
static enum ziw_tx_result tx_build_rtr(struct ziw_conn *conn)
{
	struct ziw_tx *tx = &conn->tx;
	struct ziw_ddp_hdr hdr = { .last = true };
	enum ziw_tx_result ret;

	switch (tx->rtr) {
	case ZIW_RTR_READ:
		ret = tx_add_read_request(conn, tx->msn_read, 0, 0, 0);
		if (ret == ZIW_TX_BUILT)
			orq_add(conn, ZIW_ORQ_RTR, tx->msn_read++, 0, 0);
		break;
	case ZIW_RTR_WRITE:
		ret = tx_build_hello(conn, ZIW_HELLO_ASK);
		break;
	default:
		hdr.opcode = RDMAP_SEND;
		hdr.qn = DDP_QN_SEND;
		hdr.msn = tx->msn_send;
		ret = ziw_tx_build_short(conn, &hdr, NULL, 0);
		if (ret == ZIW_TX_BUILT)
			tx->msn_send++;
	}
	if (ret == ZIW_TX_BUILT)
		tx->rtr = 0;
	return ret;
}

static enum ziw_tx_result tx_build_wqe(struct ziw_conn *conn)
{
	const struct ziw_tx_wqe *wqe = &conn->tx.wqe;
	u8 opcode = wqe->wr.hdr.opcode;

	if (ziw_wqe_is_request(opcode))
		return tx_build_request(conn);
	if (wqe->imm_due && (wqe->payload_done || ziw_wqe_is_send(opcode)))
		return tx_build_imm(conn);
	return tx_build_segment(conn);
}

/* Add one FPDU of whoever's turn it is. Messages are not interleaved. */
static enum ziw_tx_result tx_build(struct ziw_conn *conn)
{
	struct ziw_tx *tx = &conn->tx;
	struct ziw_qp *qp = conn->qp;
	bool responses = conn->irq_head != conn->irq_tail;
	enum ziw_tx_result ret;

	if (qp->state == ZIW_QP_TERMINATE)
		return tx_build_terminate(conn);
	if (qp->state != ZIW_QP_RTS && qp->state != ZIW_QP_CLOSING)
		return ZIW_TX_WAIT;
	if (!tx->open || conn->tx_fault.pending)
		return ZIW_TX_WAIT;
	if (tx->rtr)
		return tx_build_rtr(conn);
	if (tx->hello) {
		ret = tx_build_hello(conn, ZIW_HELLO_ANSWER);
		tx->hello = ret != ZIW_TX_BUILT;
		return ret;
	}

	if (responses && (tx->resp_sent || (tx->prefer_response && !tx->wqe.active)))
		return ziw_tx_build_response(conn);
	if (!tx->wqe.active) {
		ret = tx_load_wqe(conn);
		if ((ret == ZIW_TX_IDLE || ret == ZIW_TX_WAIT) && responses)
			return ziw_tx_build_response(conn);
		return ret;
	}
	return tx_build_wqe(conn);
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

/*
 * Give the batch to TCP. If @more follows at once it may keep a segment that is not full
 * until it is called again, or the peer has acknowledged what went before. Return: whether
 * all of the batch was taken.
 */
static bool tx_push(struct ziw_conn *conn, bool more)
{
	struct ziw_tx *tx = &conn->tx;
	int err;

	if (!tx->batch.bytes)
		return true;
	/* What follows may meet a missing page: what was kept then goes on an acknowledgment. */
	more &= tx->batch.bytes >= MORE_BYTES || !tcp_rtx_queue_empty(conn->sk);
	err = ziw_llp_send(conn->sk, &tx->batch, more);
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
	/* What the socket's error says is more to the point, where there is one. */
	if (!READ_ONCE(conn->sk->sk_err))
		ziw_because(conn, ZIW_WHY_TCP, -err);
	ziw_conn_abort(conn);
	return false;
}

/* Build and push until there is nothing to do, or no budget. Return: look once more. */
static bool tx_work(struct ziw_conn *conn, u32 *budget)
{
	struct ziw_tx *tx = &conn->tx;
	struct ziw_qp *qp = conn->qp;
	enum ziw_tx_result ret = ZIW_TX_WAIT;

	ziw_ring_busy(&qp->sq.ring);
	if (!tx_push(conn, (tx->wqe.active || tx->resp_sent) && !conn->tx_fault.pending))
		return false;
	while (!tx->failed) {
		ret = tx_build(conn);
		if (ret == ZIW_TX_BUILT && --*budget)
			continue;
		/* What else there is to send waits, and nobody knows how long. */
		if (!tx_push(conn, ret == ZIW_TX_FULL) || ret != ZIW_TX_FULL)
			break;
	}
	ziw_tx_reap(conn);

	if (ret == ZIW_TX_NOMEM)
		ziw_conn_retry(conn, TX_RETRY_JIFFIES);
	if (ret == ZIW_TX_BUILT)
		return true;
	if (ret != ZIW_TX_IDLE || tx->batch.bytes)
		return false;
	/* Where somebody looks at the ring all the time, nobody has to ring. */
	if (tx->polled)
		tx->idle = !ziw_sq_ready(qp);
	else
		tx->idle = !(ziw_ring_idle(&qp->sq.ring, qp->sq.next) && ziw_sq_ready(qp));
	return !tx->idle;
}

/**
 * ziw_tx_due - whether the transmit engine may have something to do
 * @conn: connection in stream; socket lock held
 *
 * Context: any.
 * Return: false if there is no need to run it for what was received.
 */
bool ziw_tx_due(const struct ziw_conn *conn)
{
	const struct ziw_tx *tx = &conn->tx;
	const struct ziw_qp *qp = conn->qp;

	return !tx->idle || tx->hello || conn->irq_head != conn->irq_tail ||
	       qp->sq.acked != qp->sq.next || READ_ONCE(qp->state) != ZIW_QP_RTS;
}

/**
 * ziw_tx_run - send what there is to send; a little later, if a user owns the socket
 * @conn: connection; socket lock held
 *
 * Context: bottom halves off.
 */
void ziw_tx_run(struct ziw_conn *conn)
{
	struct ziw_tx *tx = &conn->tx;
	struct ziw_qp *qp = conn->qp;
	u32 budget = TX_BUDGET;
	bool more;

	if (!qp)
		return;
	if (sock_owned_by_user(conn->sk)) {
		ziw_conn_retry(conn, TX_RETRY_JIFFIES);
		return;
	}
	/* TCP calls back from inside a send that found no memory. */
	if (tx->running)
		return;

	tx->running = true;
	tx->idle = false;
	spin_lock(&qp->lock);
	ziw_tx_reap(conn);
	do {
		more = tx_work(conn, &budget);
	} while (more && budget && --budget);
	if (more)
		ziw_conn_retry(conn, 0);
	tx_count(conn);

	if ((tx->terminated && !tx->batch.bytes) ||
	    (qp->state == ZIW_QP_CLOSING && qp->sq.ring.index == qp->sq.next &&
	     !tx->batch.bytes))
		ziw_conn_kick(conn);
	spin_unlock(&qp->lock);
	tx->running = false;
}
