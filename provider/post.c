// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Posting: verbs work requests become slots of the SQ, RQ or SRQ.
 *
 * What only the kernel can know, such as whether an STag is good, it finds
 * out when it takes the slot up, and reports in the completion. What shows in
 * the work request itself is refused here.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>

#include <ccan/array_size.h>

#include "ziw.h"

/* What of struct ibv_send_wr an operation uses. */
#define ZIW_USES_SGE	0x1
#define ZIW_USES_INLINE	0x2
#define ZIW_USES_REMOTE	0x4
#define ZIW_USES_STAG	0x8
#define ZIW_USES_IMM	0x10
#define ZIW_USES_ATOMIC	0x20
#define ZIW_USES_WINDOW	0x40
#define ZIW_OFFERED	0x80

struct ziw_send_op {
	uint8_t	opcode;
	uint8_t	uses;
};

static const struct ziw_send_op ziw_send_ops[] = {
	[IBV_WR_SEND] = {
		ZIW_OP_SEND,
		ZIW_OFFERED | ZIW_USES_SGE | ZIW_USES_INLINE,
	},
	[IBV_WR_SEND_WITH_INV] = {
		ZIW_OP_SEND_INV,
		ZIW_OFFERED | ZIW_USES_SGE | ZIW_USES_INLINE | ZIW_USES_STAG,
	},
	[IBV_WR_SEND_WITH_IMM] = {
		ZIW_OP_SEND_IMM,
		ZIW_OFFERED | ZIW_USES_SGE | ZIW_USES_INLINE | ZIW_USES_IMM,
	},
	[IBV_WR_RDMA_WRITE] = {
		ZIW_OP_WRITE,
		ZIW_OFFERED | ZIW_USES_SGE | ZIW_USES_INLINE | ZIW_USES_REMOTE,
	},
	[IBV_WR_RDMA_WRITE_WITH_IMM] = {
		ZIW_OP_WRITE_IMM,
		ZIW_OFFERED | ZIW_USES_SGE | ZIW_USES_INLINE | ZIW_USES_REMOTE |
			ZIW_USES_IMM,
	},
	[IBV_WR_RDMA_READ] = {
		ZIW_OP_READ,
		ZIW_OFFERED | ZIW_USES_SGE | ZIW_USES_REMOTE,
	},
	[IBV_WR_ATOMIC_CMP_AND_SWP] = {
		ZIW_OP_CMP_SWAP,
		ZIW_OFFERED | ZIW_USES_SGE | ZIW_USES_ATOMIC,
	},
	[IBV_WR_ATOMIC_FETCH_AND_ADD] = {
		ZIW_OP_FETCH_ADD,
		ZIW_OFFERED | ZIW_USES_SGE | ZIW_USES_ATOMIC,
	},
	[IBV_WR_BIND_MW] = {
		ZIW_OP_BIND_MW,
		ZIW_OFFERED | ZIW_USES_WINDOW,
	},
	[IBV_WR_LOCAL_INV] = {
		ZIW_OP_LOCAL_INV,
		ZIW_OFFERED | ZIW_USES_STAG,
	},
};

#define ZIW_SEND_FLAGS	(IBV_SEND_FENCE | IBV_SEND_SIGNALED | \
			 IBV_SEND_SOLICITED | IBV_SEND_INLINE)

/*
 * Room for one more? What others write is looked at only when our copy says no.
 * Where that is what was polled, the kernel's last use of the slot came before the
 * CQE, which came before the poll's release.
 */
bool ziw_wq_full(struct ziw_wq *wq, uint32_t prod)
{
	struct ziw_ring *ring = &wq->ring;

	if (prod - ring->cons < ring->entries)
		return false;

	ring->cons = ziw_load_acquire(wq->freed);
	return prod - ring->cons >= ring->entries;
}

/* Show the kernel the slots up to @prod. */
void ziw_ring_publish(struct ziw_ring *ring, uint32_t prod)
{
	ring->prod = prod;
	ziw_store_release(&ring->hdr->prod, prod);
}

/*
 * Must the kernel be told of what was just published? The barrier pairs with
 * the one between the kernel's store of the flag and its last look at prod.
 */
bool ziw_ring_need_doorbell(const struct ziw_ring *ring)
{
	ziw_full_barrier();
	return __atomic_load_n(&ring->hdr->flags, __ATOMIC_RELAXED) &
	       ZIW_RING_NEED_DOORBELL;
}

/* For the doorbell: what was posted so far and was not seen to complete. SQ lock held. */
uint32_t ziw_sq_busy(const struct ziw_qp *qp)
{
	uint32_t busy = qp->sq.ring.prod - ziw_load_acquire(qp->sq.freed);

	return busy < ZIW_DOORBELL_BUSY_MAX ? busy : ZIW_DOORBELL_BUSY_MAX;
}

/* Negative: there is no file to ring on. */
static int ziw_doorbell_file(const struct ibv_qp *ibqp, uint32_t what)
{
	int fd = to_ziw_context(ibqp->context)->doorbell_fd;

	if (fd < 0)
		return -1;
	if (ioctl(fd, ZIW_IOC_DOORBELL, (unsigned long)(ibqp->qp_num | what)))
		return errno;
	return 0;
}

/*
 * The kernel allocates for the commands, but what is in the ring cannot be
 * taken back: to fail for want of memory would have the caller post it twice.
 */
int ziw_doorbell_send(struct ibv_qp *ibqp, uint32_t busy)
{
	int ret = ziw_doorbell_file(ibqp, busy << ZIW_DOORBELL_BUSY_SHIFT);
	struct ibv_send_wr *none;

	if (ret >= 0)
		return ret;
	while ((ret = ibv_cmd_post_send(ibqp, NULL, &none)) == ENOMEM)
		sched_yield();
	return ret;
}

static int ziw_doorbell_recv(struct ibv_qp *ibqp)
{
	int ret = ziw_doorbell_file(ibqp, ZIW_DOORBELL_RECV);
	struct ibv_recv_wr *none;

	if (ret >= 0)
		return ret;
	while ((ret = ibv_cmd_post_recv(ibqp, NULL, &none)) == ENOMEM)
		sched_yield();
	return ret;
}

static int ziw_fill_inline(struct ziw_sq_wqe *wqe, uint32_t max,
			   const struct ibv_send_wr *wr)
{
	uint8_t *to = (uint8_t *)wqe->sge;
	uint32_t total = 0;
	int i;

	for (i = 0; i < wr->num_sge; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		if (sge->length > max - total)
			return EINVAL;
		/* With nothing to copy, addr may be anything, NULL too. */
		if (sge->length)
			memcpy(to + total, (void *)(uintptr_t)sge->addr,
			       sge->length);
		total += sge->length;
	}
	wqe->num_sge = 0;
	wqe->inline_len = total;
	return 0;
}

static int ziw_fill_sges(struct ziw_sq_wqe *wqe, int max,
			 const struct ibv_send_wr *wr)
{
	if (wr->num_sge > max)
		return EINVAL;

	if (wr->num_sge)
		memcpy(wqe->sge, wr->sg_list,
		       wr->num_sge * sizeof(wr->sg_list[0]));
	wqe->num_sge = wr->num_sge;
	wqe->inline_len = 0;
	return 0;
}

void ziw_fill_bind(struct ziw_sq_wqe *wqe, const struct ibv_mw *mw,
		   uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	wqe->ex = mw->rkey;
	wqe->rkey = rkey;
	wqe->remote_addr = info->addr;
	wqe->compare_add = info->length;
	wqe->swap = info->mr ? info->mr->lkey : 0;
	wqe->compare_add_mask = info->mw_access_flags;
}

/*
 * The slot is nobody's until prod moves past it, so a WR refused halfway
 * leaves no trace. The fields this leaves alone are read for no operation
 * offered here, and the kernel made them zero.
 */
static int ziw_fill_send(struct ziw_qp *qp, struct ziw_sq_wqe *wqe,
			 const struct ibv_send_wr *wr)
{
	const struct ziw_send_op *op;
	unsigned int send_flags = wr->send_flags;
	uint16_t flags = 0;
	int ret;

	if ((unsigned int)wr->opcode >= ARRAY_SIZE(ziw_send_ops))
		return EOPNOTSUPP;
	op = &ziw_send_ops[wr->opcode];
	if (!(op->uses & ZIW_OFFERED) || (send_flags & ~ZIW_SEND_FLAGS))
		return EOPNOTSUPP;
	if (wr->num_sge < 0)
		return EINVAL;

	if (qp->sig_all || (send_flags & IBV_SEND_SIGNALED))
		flags |= ZIW_WQE_SIGNALED;
	if (send_flags & IBV_SEND_SOLICITED)
		flags |= ZIW_WQE_SOLICITED;
	if (send_flags & IBV_SEND_FENCE)
		flags |= ZIW_WQE_FENCE;

	if (!(op->uses & ZIW_USES_SGE)) {
		wqe->num_sge = 0;
		wqe->inline_len = 0;
	} else if (send_flags & IBV_SEND_INLINE) {
		if (!(op->uses & ZIW_USES_INLINE))
			return EINVAL;
		ret = ziw_fill_inline(wqe, qp->sq.max_inline, wr);
		if (ret)
			return ret;
		flags |= ZIW_WQE_INLINE;
	} else {
		ret = ziw_fill_sges(wqe, qp->sq.max_sge, wr);
		if (ret)
			return ret;
	}

	wqe->wr_id = wr->wr_id;
	wqe->opcode = op->opcode;
	wqe->flags = flags;
	/* The immediate data is in a union with it: the same four bytes. */
	wqe->ex = op->uses & (ZIW_USES_STAG | ZIW_USES_IMM) ?
		wr->invalidate_rkey : 0;
	if (op->uses & ZIW_USES_REMOTE) {
		wqe->rkey = wr->wr.rdma.rkey;
		wqe->remote_addr = wr->wr.rdma.remote_addr;
	} else if (op->uses & ZIW_USES_ATOMIC) {
		wqe->rkey = wr->wr.atomic.rkey;
		wqe->remote_addr = wr->wr.atomic.remote_addr;
		wqe->compare_add = wr->wr.atomic.compare_add;
		wqe->swap = wr->wr.atomic.swap;
	} else if (op->uses & ZIW_USES_WINDOW) {
		/* Type 1 has a verb of its own, which chooses the key. */
		if (wr->bind_mw.mw->type != IBV_MW_TYPE_2)
			return EINVAL;
		ziw_fill_bind(wqe, wr->bind_mw.mw, wr->bind_mw.rkey,
			      &wr->bind_mw.bind_info);
	} else {
		wqe->rkey = 0;
		wqe->remote_addr = 0;
	}
	return 0;
}

/*
 * The doorbell is rung without the lock: the kernel may send a batch within
 * the call, and other threads can go on posting meanwhile. If it fails, the
 * device is gone and none of the list will be executed: it is refused whole.
 */
int ziw_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
		  struct ibv_send_wr **bad_wr)
{
	struct ziw_qp *qp = to_ziw_qp(ibqp);
	struct ziw_ring *ring = &qp->sq.ring;
	struct ibv_send_wr *first = wr;
	uint32_t prod, busy;
	int ret = 0;
	int err;

	/*
	 * Other states are the kernel's to judge: rdma_cm brings an iWARP QP
	 * to RTS without telling us.
	 */
	if (ibqp->state == IBV_QPS_RESET) {
		*bad_wr = wr;
		return EINVAL;
	}

	ziw_lock(&qp->sq.lock);
	busy = ziw_sq_busy(qp);
	for (prod = ring->prod; wr; wr = wr->next, prod++) {
		if (ziw_wq_full(&qp->sq, prod))
			ret = ENOMEM;
		else
			ret = ziw_fill_send(qp, ziw_ring_slot(ring, prod), wr);
		if (ret) {
			*bad_wr = wr;
			break;
		}
	}
	if (prod != ring->prod)
		ziw_ring_publish(ring, prod);
	ziw_unlock(&qp->sq.lock);

	if (wr != first && ziw_ring_need_doorbell(ring)) {
		err = ziw_doorbell_send(ibqp, busy);
		if (err) {
			*bad_wr = first;
			return err;
		}
	}
	return ret;
}

/*
 * The verb for windows of type 1: a work request that the caller does not see.
 * The key changes with each bind, so that who had the old one has no access.
 */
int ziw_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
	struct ziw_qp *qp = to_ziw_qp(ibqp);
	struct ziw_ring *ring = &qp->sq.ring;
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	struct ziw_sq_wqe *wqe;
	int ret = 0;

	if (mw->type != IBV_MW_TYPE_1 || ibqp->state == IBV_QPS_RESET)
		return EINVAL;
	if (bind->send_flags & ~(IBV_SEND_SIGNALED | IBV_SEND_FENCE))
		return EOPNOTSUPP;

	ziw_lock(&qp->sq.lock);
	if (ziw_wq_full(&qp->sq, ring->prod)) {
		ret = ENOMEM;
	} else {
		wqe = ziw_ring_slot(ring, ring->prod);
		wqe->wr_id = bind->wr_id;
		wqe->opcode = ZIW_OP_BIND_MW;
		wqe->num_sge = 0;
		wqe->inline_len = 0;
		wqe->flags = 0;
		if (qp->sig_all || (bind->send_flags & IBV_SEND_SIGNALED))
			wqe->flags |= ZIW_WQE_SIGNALED;
		if (bind->send_flags & IBV_SEND_FENCE)
			wqe->flags |= ZIW_WQE_FENCE;
		ziw_fill_bind(wqe, mw, rkey, &bind->bind_info);
		ziw_ring_publish(ring, ring->prod + 1);
		mw->rkey = rkey;
	}
	ziw_unlock(&qp->sq.lock);

	if (!ret && ziw_ring_need_doorbell(ring))
		ret = ziw_doorbell_send(ibqp, 0);
	return ret;
}

static int ziw_fill_recv(struct ziw_wq *wq, struct ziw_rq_wqe *wqe,
			 const struct ibv_recv_wr *wr)
{
	if (wr->num_sge < 0 || wr->num_sge > wq->max_sge)
		return EINVAL;

	wqe->wr_id = wr->wr_id;
	wqe->num_sge = wr->num_sge;
	if (wr->num_sge)
		memcpy(wqe->sge, wr->sg_list,
		       wr->num_sge * sizeof(wr->sg_list[0]));
	return 0;
}

/* Fill and publish slots of an RQ or SRQ. *bad_wr is set on error only. */
static int ziw_fill_recvs(struct ziw_wq *wq, struct ibv_recv_wr *wr,
			  struct ibv_recv_wr **bad_wr)
{
	struct ziw_ring *ring = &wq->ring;
	uint32_t prod;
	int ret = 0;

	ziw_lock(&wq->lock);
	for (prod = ring->prod; wr; wr = wr->next, prod++) {
		if (ziw_wq_full(wq, prod))
			ret = ENOMEM;
		else
			ret = ziw_fill_recv(wq, ziw_ring_slot(ring, prod), wr);
		if (ret) {
			*bad_wr = wr;
			break;
		}
	}
	if (prod != ring->prod)
		ziw_ring_publish(ring, prod);
	ziw_unlock(&wq->lock);
	return ret;
}

int ziw_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
		  struct ibv_recv_wr **bad_wr)
{
	struct ziw_qp *qp = to_ziw_qp(ibqp);
	int ret;
	int err;

	if (ibqp->state == IBV_QPS_RESET || !qp->rq.ring.hdr) {
		*bad_wr = wr;
		return EINVAL;
	}

	ret = ziw_fill_recvs(&qp->rq, wr, bad_wr);

	/* Set in the error state only, where the kernel flushes each slot. */
	if (ziw_ring_need_doorbell(&qp->rq.ring)) {
		err = ziw_doorbell_recv(ibqp);
		if (err) {
			*bad_wr = wr;
			return err;
		}
	}
	return ret;
}

int ziw_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr,
		      struct ibv_recv_wr **bad_wr)
{
	return ziw_fill_recvs(&to_ziw_srq(ibsrq)->rq, wr, bad_wr);
}
