// SPDX-License-Identifier: GPL-2.0
/*
 * Posting. A kernel consumer's work requests become WQEs in a ring of the same
 * layout as the provider's, so that one transmit engine reads both. The
 * provider writes its ring itself and comes here for the doorbell only.
 */
#include "conn.h"
#include "inspect.h"

static const u8 kernel_opcodes[] = {
	[IB_WR_RDMA_WRITE]			= ZIW_OP_WRITE,
	[IB_WR_RDMA_WRITE_WITH_IMM]		= ZIW_OP_WRITE_IMM,
	[IB_WR_SEND]				= ZIW_OP_SEND,
	[IB_WR_SEND_WITH_IMM]			= ZIW_OP_SEND_IMM,
	[IB_WR_RDMA_READ]			= ZIW_OP_READ,
	[IB_WR_ATOMIC_CMP_AND_SWP]		= ZIW_OP_CMP_SWAP,
	[IB_WR_ATOMIC_FETCH_AND_ADD]		= ZIW_OP_FETCH_ADD,
	[IB_WR_MASKED_ATOMIC_CMP_AND_SWP]	= ZIW_OP_CMP_SWAP,
	[IB_WR_MASKED_ATOMIC_FETCH_AND_ADD]	= ZIW_OP_FETCH_ADD,
	[IB_WR_SEND_WITH_INV]			= ZIW_OP_SEND_INV,
	[IB_WR_RDMA_READ_WITH_INV]		= ZIW_OP_READ_INV,
	[IB_WR_LOCAL_INV]			= ZIW_OP_LOCAL_INV,
	[IB_WR_REG_MR]				= ZIW_OP_REG_MR,
};

static bool opcode_known(enum ib_wr_opcode opcode)
{
	/* IB_WR_RDMA_WRITE is 0 and has an entry of its own value, not 0. */
	return opcode < ARRAY_SIZE(kernel_opcodes) &&
	       (kernel_opcodes[opcode] != ZIW_OP_SEND || opcode == IB_WR_SEND);
}

static int fill_inline(struct ziw_sq *sq, struct ziw_sq_wqe *wqe,
		       const struct ib_send_wr *wr)
{
	u8 *to = (u8 *)wqe->sge;
	u32 len = 0;
	int i;

	if (wr->num_sge < 0)
		return -EINVAL;
	for (i = 0; i < wr->num_sge; i++) {
		if (wr->sg_list[i].length > sq->limits.max_inline - len)
			return -EINVAL;
		memcpy(to + len, (void *)(uintptr_t)wr->sg_list[i].addr,
		       wr->sg_list[i].length);
		len += wr->sg_list[i].length;
	}
	wqe->num_sge = 0;
	wqe->inline_len = len;
	wqe->flags |= ZIW_WQE_INLINE;
	return 0;
}

static int fill_sges(struct ziw_sq *sq, struct ziw_sq_wqe *wqe,
		     const struct ib_send_wr *wr)
{
	int i;

	if (wr->num_sge < 0 || wr->num_sge > sq->limits.max_sge)
		return -EINVAL;
	wqe->num_sge = wr->num_sge;
	for (i = 0; i < wr->num_sge; i++) {
		wqe->sge[i].addr = wr->sg_list[i].addr;
		wqe->sge[i].length = wr->sg_list[i].length;
		wqe->sge[i].lkey = wr->sg_list[i].lkey;
	}
	return 0;
}

static void fill_atomic(struct ziw_sq_wqe *wqe, const struct ib_atomic_wr *wr)
{
	wqe->remote_addr = wr->remote_addr;
	wqe->rkey = wr->rkey;
	wqe->compare_add = wr->compare_add;
	wqe->swap = wr->swap;
	if (wr->wr.opcode == IB_WR_MASKED_ATOMIC_CMP_AND_SWP ||
	    wr->wr.opcode == IB_WR_MASKED_ATOMIC_FETCH_AND_ADD) {
		wqe->flags |= ZIW_WQE_MASKED;
		wqe->compare_add_mask = wr->compare_add_mask;
		wqe->swap_mask = wr->swap_mask;
	}
}

static int fill_wqe(struct ziw_qp *qp, struct ziw_sq_wqe *wqe,
		    const struct ib_send_wr *wr)
{
	if (!opcode_known(wr->opcode))
		return -EOPNOTSUPP;

	memset(wqe, 0, sizeof(*wqe));
	wqe->wr_id = wr->wr_id;
	wqe->opcode = kernel_opcodes[wr->opcode];
	if (qp->sig_all || wr->send_flags & IB_SEND_SIGNALED)
		wqe->flags |= ZIW_WQE_SIGNALED;
	if (wr->send_flags & IB_SEND_SOLICITED)
		wqe->flags |= ZIW_WQE_SOLICITED;
	if (wr->send_flags & IB_SEND_FENCE)
		wqe->flags |= ZIW_WQE_FENCE;

	switch (wr->opcode) {
	case IB_WR_REG_MR:
		wqe->remote_addr = (uintptr_t)reg_wr(wr)->mr;
		wqe->rkey = reg_wr(wr)->key;
		wqe->ex = reg_wr(wr)->access;
		return 0;
	case IB_WR_LOCAL_INV:
		wqe->ex = wr->ex.invalidate_rkey;
		return 0;
	case IB_WR_RDMA_WRITE_WITH_IMM:
		wqe->ex = (__force u32)wr->ex.imm_data;
		fallthrough;
	case IB_WR_RDMA_WRITE:
	case IB_WR_RDMA_READ:
	case IB_WR_RDMA_READ_WITH_INV:
		wqe->remote_addr = rdma_wr(wr)->remote_addr;
		wqe->rkey = rdma_wr(wr)->rkey;
		break;
	case IB_WR_SEND_WITH_IMM:
		wqe->ex = (__force u32)wr->ex.imm_data;
		break;
	case IB_WR_SEND_WITH_INV:
		wqe->ex = wr->ex.invalidate_rkey;
		break;
	case IB_WR_ATOMIC_CMP_AND_SWP:
	case IB_WR_ATOMIC_FETCH_AND_ADD:
	case IB_WR_MASKED_ATOMIC_CMP_AND_SWP:
	case IB_WR_MASKED_ATOMIC_FETCH_AND_ADD:
		fill_atomic(wqe, atomic_wr(wr));
		break;
	default:
		break;
	}
	/* It invalidates its sink, whatever key the caller had when it filled this in. */
	if (wr->opcode == IB_WR_RDMA_READ_WITH_INV && wr->num_sge)
		wqe->ex = wr->sg_list[0].lkey;
	/* What comes back cannot be inline. */
	if (wr->send_flags & IB_SEND_INLINE && !ziw_wqe_is_request(wqe->opcode))
		return fill_inline(&qp->sq, wqe, wr);
	return fill_sges(&qp->sq, wqe, wr);
}

static int post_one(struct ziw_qp *qp, const struct ib_send_wr *wr)
{
	struct ziw_ring *ring = &qp->sq.ring;
	int err;

	if (!ziw_ring_has_room(ring))
		return -ENOMEM;
	err = fill_wqe(qp, ziw_ring_slot(ring, ring->post), wr);
	if (err)
		return err;
	ziw_ring_publish(ring);
	return 0;
}

/**
 * ziw_ring_sq - the doorbell of an SQ
 * @qp: queue pair
 * @busy: WQEs posted before that its owner has not seen complete
 *
 * Context: any.
 */
void ziw_ring_sq(struct ziw_qp *qp, u32 busy)
{
	ziw_stat_inc(qp->dev, ZIW_STAT_SQ_DOORBELLS);
	ziw_tx_kick(qp, busy);
}

/**
 * ziw_ring_rq - the doorbell of an RQ
 * @qp: queue pair without SRQ
 *
 * Only a QP in the error state asks for this: to flush, elsewhere.
 *
 * Context: any.
 */
void ziw_ring_rq(struct ziw_qp *qp)
{
	queue_work(ziw_wq, &qp->flush_work);
}

/**
 * ziw_post_send - verb: post send work requests, or ring the doorbell
 * @ibqp: queue pair
 * @wr: list of work requests of a kernel consumer; NULL: a doorbell
 * @bad_wr: the first that was not posted
 *
 * Context: any.
 * Return: 0; -ENOMEM if the queue is full, -EINVAL for a malformed request or
 * a QP that is not connected, -EOPNOTSUPP for an unknown operation.
 */
int ziw_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		  const struct ib_send_wr **bad_wr)
{
	struct ziw_qp *qp = to_ziw_qp(ibqp);
	struct ziw_ring *ring = &qp->sq.ring;
	unsigned long irq;
	int err = 0;
	u32 busy;

	if (!wr) {
		ziw_ring_sq(qp, 0);
		return 0;
	}
	if (!ziw_qp_is_kernel(qp) || READ_ONCE(qp->state) == ZIW_QP_RESET) {
		*bad_wr = wr;
		return -EINVAL;
	}

	spin_lock_irqsave(&qp->sq.post_lock, irq);
	busy = ring->post - READ_ONCE(ring->hdr->cons);
	for (; wr; wr = wr->next) {
		err = post_one(qp, wr);
		if (err) {
			*bad_wr = wr;
			break;
		}
	}
	spin_unlock_irqrestore(&qp->sq.post_lock, irq);

	if (ziw_ring_needs_doorbell(ring))
		ziw_ring_sq(qp, busy);
	return err;
}

/**
 * ziw_post_recv - verb: post receive work requests, or ring the doorbell
 * @ibqp: queue pair
 * @wr: list of work requests of a kernel consumer; NULL: a doorbell
 * @bad_wr: the first that was not posted
 *
 * Context: any.
 * Return: 0; -ENOMEM if the queue is full, -EINVAL for a malformed request or
 * a QP with an SRQ.
 */
int ziw_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		  const struct ib_recv_wr **bad_wr)
{
	struct ziw_qp *qp = to_ziw_qp(ibqp);
	int err = 0;

	if (qp->srq || (wr && !ziw_qp_is_kernel(qp))) {
		*bad_wr = wr;
		return -EINVAL;
	}
	for (; wr; wr = wr->next) {
		err = ziw_rq_post(&qp->rq, wr);
		if (err) {
			*bad_wr = wr;
			break;
		}
	}
	if (ziw_ring_needs_doorbell(&qp->rq.ring))
		ziw_ring_rq(qp);
	return err;
}
