// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The completion queue: polling through either interface, and arming.
 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "ziw.h"

static const uint8_t ziw_wc_opcodes[] = {
	[ZIW_OP_SEND]		= IBV_WC_SEND,
	[ZIW_OP_SEND_INV]	= IBV_WC_SEND,
	[ZIW_OP_SEND_IMM]	= IBV_WC_SEND,
	[ZIW_OP_WRITE]		= IBV_WC_RDMA_WRITE,
	[ZIW_OP_WRITE_IMM]	= IBV_WC_RDMA_WRITE,
	[ZIW_OP_READ]		= IBV_WC_RDMA_READ,
	[ZIW_OP_READ_INV]	= IBV_WC_RDMA_READ,
	[ZIW_OP_FETCH_ADD]	= IBV_WC_FETCH_ADD,
	[ZIW_OP_CMP_SWAP]	= IBV_WC_COMP_SWAP,
	[ZIW_OP_LOCAL_INV]	= IBV_WC_LOCAL_INV,
	[ZIW_OP_BIND_MW]	= IBV_WC_BIND_MW,
	[ZIW_OP_RECV]		= IBV_WC_RECV,
	[ZIW_OP_RECV_IMM]	= IBV_WC_RECV_RDMA_WITH_IMM,
};

static_assert(IBV_WC_RECV_RDMA_WITH_IMM <= UINT8_MAX,
	      "verbs opcodes fit the table");

static enum ibv_wc_opcode ziw_wc_opcode(const struct ziw_cqe *cqe)
{
	if (cqe->opcode >= sizeof(ziw_wc_opcodes))
		return IBV_WC_DRIVER1;
	return ziw_wc_opcodes[cqe->opcode];
}

static unsigned int ziw_wc_flags(const struct ziw_cqe *cqe)
{
	unsigned int flags = 0;

	if (cqe->flags & ZIW_CQE_WITH_IMM)
		flags |= IBV_WC_WITH_IMM;
	if (cqe->flags & ZIW_CQE_WITH_INV)
		flags |= IBV_WC_WITH_INV;
	return flags;
}

/*
 * The next entry to show, or NULL. The shared index is looked at again before
 * a poll comes back with less than was asked for: an application may take
 * that for "empty" and go to sleep on the event it armed before.
 */
static const struct ziw_cqe *ziw_cq_next(struct ziw_ring *ring, uint32_t cons)
{
	if (cons == ring->prod) {
		ring->prod = ziw_load_acquire(&ring->hdr->prod);
		if (cons == ring->prod)
			return NULL;
	}
	return ziw_ring_slot(ring, cons);
}

/* The queue whose slots @cqe frees. Its QP is there: see ziw_cq_forget(). */
static struct ziw_wq *ziw_cqe_wq(const struct ziw_cqe *cqe)
{
	struct ziw_qp *qp = (struct ziw_qp *)(uintptr_t)cqe->qp;

	return cqe->opcode < ZIW_OP_RECV ? &qp->sq : &qp->rq;
}

/*
 * Give the kernel back the slots before @cons. After it, and not before, the slots
 * of @wq (NULL: of none) up to @wq_cons may be posted to again: what is posted then
 * has an entry to complete to.
 */
static void ziw_cq_release(struct ziw_ring *ring, uint32_t cons,
			   struct ziw_wq *wq, uint32_t wq_cons)
{
	if (cons != ring->cons) {
		ring->cons = cons;
		ziw_store_release(&ring->hdr->cons, cons);
	}
	if (wq)
		ziw_store_release(&wq->polled, wq_cons);
}

static void ziw_fill_wc(struct ibv_wc *wc, const struct ziw_cqe *cqe)
{
	wc->wr_id = cqe->wr_id;
	wc->status = cqe->status;
	wc->opcode = ziw_wc_opcode(cqe);
	wc->vendor_err = cqe->vendor_err;
	wc->byte_len = cqe->byte_len;
	/* Immediate data is in this union too, and in network byte order. */
	wc->invalidated_rkey = cqe->ex;
	wc->qp_num = cqe->qpn;
	wc->src_qp = 0;
	wc->wc_flags = ziw_wc_flags(cqe);
	wc->pkey_index = 0;
	wc->slid = 0;
	wc->sl = 0;
	wc->dlid_path_bits = 0;
}

int ziw_poll_cq(struct ibv_cq *ibcq, int num_entries, struct ibv_wc *wc)
{
	struct ziw_cq *cq = to_ziw_cq(ibcq);
	struct ziw_wq *wq = NULL, *last;
	const struct ziw_cqe *cqe;
	uint32_t wq_cons = 0;
	uint32_t cons;
	int n;

	ziw_lock(&cq->lock);
	cons = cq->ring.cons;
	for (n = 0; n < num_entries; n++, cons++) {
		cqe = ziw_cq_next(&cq->ring, cons);
		if (!cqe)
			break;
		ziw_fill_wc(&wc[n], cqe);
		/* The last completion of a queue frees for those before it. */
		last = wq;
		wq = ziw_cqe_wq(cqe);
		if (last && last != wq)
			ziw_cq_release(&cq->ring, cons, last, wq_cons);
		wq_cons = cqe->wq_cons;
	}
	ziw_cq_release(&cq->ring, cons, wq, wq_cons);
	ziw_unlock(&cq->lock);
	return n;
}

/*
 * The barrier makes the arm visible before the application's next poll looks
 * at prod; it pairs with the kernel's between prod and its look at the arm.
 */
int ziw_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct ziw_cq *cq = to_ziw_cq(ibcq);

	/* A resize puts another ring in the place of this one. */
	ziw_lock(&cq->arm_lock);
	__atomic_fetch_or(&cq->ring.hdr->flags,
			  solicited_only ? ZIW_CQ_ARM_SOLICITED :
					   ZIW_CQ_ARM_NEXT,
			  __ATOMIC_SEQ_CST);
	ziw_unlock(&cq->arm_lock);
	ziw_full_barrier();
	return 0;
}

/*
 * ziw_cq_forget - drop what a QP left behind
 *
 * After a QP is destroyed or reset its owner frees what wr_id refers to, and we the
 * QP that the entries name. The kernel must add no entry for @qpn any more.
 *
 * What others have there closes up: the slots between cons and prod are ours to write
 * to. So nothing is left that takes up room until somebody polls.
 */
void ziw_cq_forget(struct ziw_cq *cq, uint32_t qpn)
{
	struct ziw_ring *ring = &cq->ring;
	const struct ziw_cqe *cqe;
	uint32_t i, to;

	ziw_lock(&cq->lock);
	ring->prod = ziw_load_acquire(&ring->hdr->prod);
	to = ring->prod;
	for (i = ring->prod; i != ring->cons; i--) {
		cqe = ziw_ring_slot(ring, i - 1);
		if (cqe->qpn == qpn)
			continue;
		to--;
		if (to != i - 1)
			memcpy(ziw_ring_slot(ring, to), cqe, sizeof(*cqe));
	}
	ziw_cq_release(ring, to, NULL, 0);
	ziw_unlock(&cq->lock);
}

/*
 * The extended interface. The lock is taken by a start_poll that finds an
 * entry and given back by end_poll. The entry shown is a copy: whoever sees it may
 * post in its place at once, and for that its slot has to be free.
 */
static int ziw_show_next(struct ziw_cq *cq)
{
	struct ziw_ring *ring = &cq->ring;
	const struct ziw_cqe *cqe = ziw_cq_next(ring, ring->cons);

	if (!cqe)
		return ENOENT;

	cq->cqe = *cqe;
	ziw_cq_release(ring, ring->cons + 1, ziw_cqe_wq(&cq->cqe), cq->cqe.wq_cons);
	cq->vcq.cq_ex.wr_id = cq->cqe.wr_id;
	cq->vcq.cq_ex.status = cq->cqe.status;
	return 0;
}

static void ziw_end_poll(struct ibv_cq_ex *ibcq)
{
	ziw_unlock(&to_ziw_cq_ex(ibcq)->lock);
}

static int ziw_start_poll(struct ibv_cq_ex *ibcq, struct ibv_poll_cq_attr *attr)
{
	struct ziw_cq *cq = to_ziw_cq_ex(ibcq);
	int ret;

	if (attr->comp_mask)
		return EINVAL;

	ziw_lock(&cq->lock);
	ret = ziw_show_next(cq);
	if (ret)
		ziw_end_poll(ibcq);
	return ret;
}

static int ziw_next_poll(struct ibv_cq_ex *ibcq)
{
	return ziw_show_next(to_ziw_cq_ex(ibcq));
}

static enum ibv_wc_opcode ziw_read_opcode(struct ibv_cq_ex *ibcq)
{
	return ziw_wc_opcode(&to_ziw_cq_ex(ibcq)->cqe);
}

static uint32_t ziw_read_vendor_err(struct ibv_cq_ex *ibcq)
{
	return to_ziw_cq_ex(ibcq)->cqe.vendor_err;
}

static uint32_t ziw_read_byte_len(struct ibv_cq_ex *ibcq)
{
	return to_ziw_cq_ex(ibcq)->cqe.byte_len;
}

/* Also what ibv_wc_read_invalidated_rkey() calls. */
static __be32 ziw_read_imm_data(struct ibv_cq_ex *ibcq)
{
	return (__be32 __force)to_ziw_cq_ex(ibcq)->cqe.ex;
}

static uint32_t ziw_read_qp_num(struct ibv_cq_ex *ibcq)
{
	return to_ziw_cq_ex(ibcq)->cqe.qpn;
}

static unsigned int ziw_read_wc_flags(struct ibv_cq_ex *ibcq)
{
	return ziw_wc_flags(&to_ziw_cq_ex(ibcq)->cqe);
}

static uint64_t ziw_read_completion_ts(struct ibv_cq_ex *ibcq)
{
	return to_ziw_cq_ex(ibcq)->cqe.timestamp;
}

static uint64_t ziw_now_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* By what the two clocks are apart now: an adjustment counts for the past, too. */
static uint64_t ziw_read_wallclock(struct ibv_cq_ex *ibcq)
{
	uint64_t age = ziw_now_ns(CLOCK_MONOTONIC) -
		       to_ziw_cq_ex(ibcq)->cqe.timestamp;

	return ziw_now_ns(CLOCK_REALTIME) - age;
}

/* Addresses of InfiniBand, which iWARP has not. */
static uint32_t ziw_read_no_u32(struct ibv_cq_ex *ibcq)
{
	return 0;
}

static uint8_t ziw_read_no_u8(struct ibv_cq_ex *ibcq)
{
	return 0;
}

void ziw_cq_fill_ex(struct ziw_cq *cq)
{
	struct ibv_cq_ex *ex = &cq->vcq.cq_ex;

	ex->start_poll = ziw_start_poll;
	ex->next_poll = ziw_next_poll;
	ex->end_poll = ziw_end_poll;
	ex->read_opcode = ziw_read_opcode;
	ex->read_vendor_err = ziw_read_vendor_err;
	ex->read_byte_len = ziw_read_byte_len;
	ex->read_imm_data = ziw_read_imm_data;
	ex->read_qp_num = ziw_read_qp_num;
	ex->read_src_qp = ziw_read_no_u32;
	ex->read_wc_flags = ziw_read_wc_flags;
	ex->read_slid = ziw_read_no_u32;
	ex->read_sl = ziw_read_no_u8;
	ex->read_dlid_path_bits = ziw_read_no_u8;
	ex->read_completion_ts = ziw_read_completion_ts;
	ex->read_completion_wallclock_ns = ziw_read_wallclock;
}
