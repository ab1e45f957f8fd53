// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The completion queue: polling through either interface, and arming.
 */
#include <errno.h>
#include <time.h>

#include "ziw.h"

/*
 * Written over the opcode of an entry that nobody shall see any more. The
 * entry is ours to write to: the kernel does so again only after cons has
 * moved past it.
 */
#define ZIW_CQE_FORGOTTEN	0xff

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
static const struct ziw_cqe *ziw_cq_next(struct ziw_ring *ring, uint32_t *cons)
{
	const struct ziw_cqe *cqe;

	for (;; (*cons)++) {
		if (*cons == ring->prod) {
			ring->prod = ziw_load_acquire(&ring->hdr->prod);
			if (*cons == ring->prod)
				return NULL;
		}
		cqe = ziw_ring_slot(ring, *cons);
		if (cqe->opcode != ZIW_CQE_FORGOTTEN)
			return cqe;
	}
}

/* Give the kernel back the slots before @cons. */
static void ziw_cq_release(struct ziw_ring *ring, uint32_t cons)
{
	if (cons == ring->cons)
		return;

	ring->cons = cons;
	ziw_store_release(&ring->hdr->cons, cons);
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
	const struct ziw_cqe *cqe;
	uint32_t cons;
	int n;

	ziw_lock(&cq->lock);
	cons = cq->ring.cons;
	for (n = 0; n < num_entries; n++, cons++) {
		cqe = ziw_cq_next(&cq->ring, &cons);
		if (!cqe)
			break;
		ziw_fill_wc(&wc[n], cqe);
	}
	ziw_cq_release(&cq->ring, cons);
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
	ziw_lock(&cq->lock);
	__atomic_fetch_or(&cq->ring.hdr->flags,
			  solicited_only ? ZIW_CQ_ARM_SOLICITED :
					   ZIW_CQ_ARM_NEXT,
			  __ATOMIC_SEQ_CST);
	ziw_unlock(&cq->lock);
	ziw_full_barrier();
	return 0;
}

/*
 * ziw_cq_forget - drop what a QP left behind
 *
 * After a QP is destroyed or reset its owner frees what wr_id refers to. The
 * kernel must add no entry for @qpn any more.
 */
void ziw_cq_forget(struct ziw_cq *cq, uint32_t qpn)
{
	struct ziw_cqe *cqe;
	uint32_t i;

	ziw_lock(&cq->lock);
	cq->ring.prod = ziw_load_acquire(&cq->ring.hdr->prod);
	for (i = cq->ring.cons; i != cq->ring.prod; i++) {
		cqe = ziw_ring_slot(&cq->ring, i);
		if (cqe->qpn == qpn)
			cqe->opcode = ZIW_CQE_FORGOTTEN;
	}
	ziw_unlock(&cq->lock);
}

/*
 * The extended interface. The lock is taken by a start_poll that finds an
 * entry and given back by end_poll, which is also what frees the slots of the
 * batch: cq->cqe stays readable until then.
 */
static int ziw_show_next(struct ziw_cq *cq)
{
	cq->cqe = ziw_cq_next(&cq->ring, &cq->next);
	if (!cq->cqe)
		return ENOENT;

	cq->next++;
	cq->vcq.cq_ex.wr_id = cq->cqe->wr_id;
	cq->vcq.cq_ex.status = cq->cqe->status;
	return 0;
}

static void ziw_end_poll(struct ibv_cq_ex *ibcq)
{
	struct ziw_cq *cq = to_ziw_cq_ex(ibcq);

	ziw_cq_release(&cq->ring, cq->next);
	ziw_unlock(&cq->lock);
}

static int ziw_start_poll(struct ibv_cq_ex *ibcq, struct ibv_poll_cq_attr *attr)
{
	struct ziw_cq *cq = to_ziw_cq_ex(ibcq);
	int ret;

	if (attr->comp_mask)
		return EINVAL;

	ziw_lock(&cq->lock);
	cq->next = cq->ring.cons;
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
	return ziw_wc_opcode(to_ziw_cq_ex(ibcq)->cqe);
}

static uint32_t ziw_read_vendor_err(struct ibv_cq_ex *ibcq)
{
	return to_ziw_cq_ex(ibcq)->cqe->vendor_err;
}

static uint32_t ziw_read_byte_len(struct ibv_cq_ex *ibcq)
{
	return to_ziw_cq_ex(ibcq)->cqe->byte_len;
}

/* Also what ibv_wc_read_invalidated_rkey() calls. */
static __be32 ziw_read_imm_data(struct ibv_cq_ex *ibcq)
{
	return (__be32 __force)to_ziw_cq_ex(ibcq)->cqe->ex;
}

static uint32_t ziw_read_qp_num(struct ibv_cq_ex *ibcq)
{
	return to_ziw_cq_ex(ibcq)->cqe->qpn;
}

static unsigned int ziw_read_wc_flags(struct ibv_cq_ex *ibcq)
{
	return ziw_wc_flags(to_ziw_cq_ex(ibcq)->cqe);
}

static uint64_t ziw_read_completion_ts(struct ibv_cq_ex *ibcq)
{
	return to_ziw_cq_ex(ibcq)->cqe->timestamp;
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
		       to_ziw_cq_ex(ibcq)->cqe->timestamp;

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
