// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Posting call by call: ibv_wr_start(), then for each work request a builder
 * and a setter, then ibv_wr_complete() or ibv_wr_abort().
 *
 * Slots are filled in place and are nobody's until wr_complete publishes them
 * all, so there is nothing to undo. The first mistake is kept for wr_complete;
 * what is called after it does nothing.
 */
#include <errno.h>
#include <string.h>

#include "ziw.h"

#define ZIW_WR_OPS	(IBV_QP_EX_WITH_RDMA_WRITE | \
			 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | \
			 IBV_QP_EX_WITH_SEND | \
			 IBV_QP_EX_WITH_SEND_WITH_IMM | \
			 IBV_QP_EX_WITH_RDMA_READ | \
			 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | \
			 IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | \
			 IBV_QP_EX_WITH_LOCAL_INV | \
			 IBV_QP_EX_WITH_BIND_MW | \
			 IBV_QP_EX_WITH_SEND_WITH_INV)

/*
 * Whether data is inline is the setter's to say; programs that have a use for both
 * interfaces leave the flag there all the same.
 */
#define ZIW_WR_FLAGS	(IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED | \
			 IBV_SEND_INLINE)

static void ziw_wr_fail(struct ziw_qp *qp, int err)
{
	if (!qp->wr_err)
		qp->wr_err = err;
	qp->wqe = NULL;
}

static void ziw_wr_start(struct ibv_qp_ex *ibqp)
{
	struct ziw_qp *qp = to_ziw_qp_ex(ibqp);

	ziw_lock(&qp->sq.lock);
	qp->wqe = NULL;
	qp->wr_prod = qp->sq.ring.prod;
	/* Other states are the kernel's to judge, as in ziw_post_send(). */
	qp->wr_err = ibqp->qp_base.state == IBV_QPS_RESET ? EINVAL : 0;
}

static int ziw_wr_complete(struct ibv_qp_ex *ibqp)
{
	struct ziw_qp *qp = to_ziw_qp_ex(ibqp);
	struct ziw_ring *ring = &qp->sq.ring;
	uint32_t busy = ziw_sq_busy(qp);
	bool posted;
	int ret;

	ret = qp->wr_err;
	posted = !ret && qp->wr_prod != ring->prod;
	if (posted)
		ziw_ring_publish(ring, qp->wr_prod);
	ziw_unlock(&qp->sq.lock);

	if (posted && ziw_ring_need_doorbell(ring))
		ret = ziw_doorbell_send(&ibqp->qp_base, busy);
	return ret;
}

static void ziw_wr_abort(struct ibv_qp_ex *ibqp)
{
	ziw_unlock(&to_ziw_qp_ex(ibqp)->sq.lock);
}

/* --- builders --- */

/* The next slot, without data; NULL after a mistake. */
static struct ziw_sq_wqe *ziw_wr_new(struct ibv_qp_ex *ibqp, uint8_t opcode)
{
	struct ziw_qp *qp = to_ziw_qp_ex(ibqp);
	struct ziw_sq_wqe *wqe;

	if (qp->wr_err)
		return NULL;
	if (ibqp->wr_flags & ~ZIW_WR_FLAGS) {
		ziw_wr_fail(qp, EOPNOTSUPP);
		return NULL;
	}
	if (ziw_wq_full(&qp->sq, qp->wr_prod)) {
		ziw_wr_fail(qp, ENOMEM);
		return NULL;
	}

	wqe = ziw_ring_slot(&qp->sq.ring, qp->wr_prod++);
	memset(wqe, 0, sizeof(*wqe));
	wqe->wr_id = ibqp->wr_id;
	wqe->opcode = opcode;
	if (qp->sig_all || (ibqp->wr_flags & IBV_SEND_SIGNALED))
		wqe->flags |= ZIW_WQE_SIGNALED;
	if (ibqp->wr_flags & IBV_SEND_SOLICITED)
		wqe->flags |= ZIW_WQE_SOLICITED;
	if (ibqp->wr_flags & IBV_SEND_FENCE)
		wqe->flags |= ZIW_WQE_FENCE;
	qp->wqe = wqe;
	return wqe;
}

static void ziw_wr_new_send(struct ibv_qp_ex *ibqp, uint8_t opcode, uint32_t ex)
{
	struct ziw_sq_wqe *wqe = ziw_wr_new(ibqp, opcode);

	if (wqe)
		wqe->ex = ex;
}

static void ziw_wr_new_rdma(struct ibv_qp_ex *ibqp, uint8_t opcode,
			    uint32_t rkey, uint64_t remote_addr, uint32_t ex)
{
	struct ziw_sq_wqe *wqe = ziw_wr_new(ibqp, opcode);

	if (!wqe)
		return;
	wqe->rkey = rkey;
	wqe->remote_addr = remote_addr;
	wqe->ex = ex;
}

static void ziw_wr_send(struct ibv_qp_ex *ibqp)
{
	ziw_wr_new_send(ibqp, ZIW_OP_SEND, 0);
}

static void ziw_wr_send_imm(struct ibv_qp_ex *ibqp, __be32 imm_data)
{
	ziw_wr_new_send(ibqp, ZIW_OP_SEND_IMM, (uint32_t __force)imm_data);
}

static void ziw_wr_send_inv(struct ibv_qp_ex *ibqp, uint32_t invalidate_rkey)
{
	ziw_wr_new_send(ibqp, ZIW_OP_SEND_INV, invalidate_rkey);
}

static void ziw_wr_rdma_write(struct ibv_qp_ex *ibqp, uint32_t rkey,
			      uint64_t remote_addr)
{
	ziw_wr_new_rdma(ibqp, ZIW_OP_WRITE, rkey, remote_addr, 0);
}

static void ziw_wr_rdma_write_imm(struct ibv_qp_ex *ibqp, uint32_t rkey,
				  uint64_t remote_addr, __be32 imm_data)
{
	ziw_wr_new_rdma(ibqp, ZIW_OP_WRITE_IMM, rkey, remote_addr,
			(uint32_t __force)imm_data);
}

static void ziw_wr_rdma_read(struct ibv_qp_ex *ibqp, uint32_t rkey,
			     uint64_t remote_addr)
{
	ziw_wr_new_rdma(ibqp, ZIW_OP_READ, rkey, remote_addr, 0);
}

static void ziw_wr_new_atomic(struct ibv_qp_ex *ibqp, uint8_t opcode,
			      uint32_t rkey, uint64_t remote_addr,
			      uint64_t compare_add, uint64_t swap)
{
	struct ziw_sq_wqe *wqe = ziw_wr_new(ibqp, opcode);

	if (!wqe)
		return;
	wqe->rkey = rkey;
	wqe->remote_addr = remote_addr;
	wqe->compare_add = compare_add;
	wqe->swap = swap;
}

static void ziw_wr_atomic_cmp_swp(struct ibv_qp_ex *ibqp, uint32_t rkey,
				  uint64_t remote_addr, uint64_t compare,
				  uint64_t swap)
{
	ziw_wr_new_atomic(ibqp, ZIW_OP_CMP_SWAP, rkey, remote_addr, compare,
			  swap);
}

static void ziw_wr_atomic_fetch_add(struct ibv_qp_ex *ibqp, uint32_t rkey,
				    uint64_t remote_addr, uint64_t add)
{
	ziw_wr_new_atomic(ibqp, ZIW_OP_FETCH_ADD, rkey, remote_addr, add, 0);
}

/* These take no data. */
static void ziw_wr_local_inv(struct ibv_qp_ex *ibqp, uint32_t invalidate_rkey)
{
	ziw_wr_new_send(ibqp, ZIW_OP_LOCAL_INV, invalidate_rkey);
	to_ziw_qp_ex(ibqp)->wqe = NULL;
}

static void ziw_wr_bind_mw(struct ibv_qp_ex *ibqp, struct ibv_mw *mw,
			   uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct ziw_qp *qp = to_ziw_qp_ex(ibqp);
	struct ziw_sq_wqe *wqe;

	if (mw->type != IBV_MW_TYPE_2) {
		ziw_wr_fail(qp, EINVAL);
		return;
	}
	wqe = ziw_wr_new(ibqp, ZIW_OP_BIND_MW);
	if (wqe)
		ziw_fill_bind(wqe, mw, rkey, info);
	qp->wqe = NULL;
}

static void ziw_wr_send_tso(struct ibv_qp_ex *ibqp, void *hdr, uint16_t hdr_sz,
			    uint16_t mss)
{
	ziw_wr_fail(to_ziw_qp_ex(ibqp), EOPNOTSUPP);
}

/* --- setters --- */

/* The slot to put data in; NULL after a mistake, or if its operation takes none. */
static struct ziw_sq_wqe *ziw_wr_current(struct ziw_qp *qp)
{
	if (!qp->wqe)
		ziw_wr_fail(qp, EINVAL);
	return qp->wqe;
}

static void ziw_wr_set_sge_list(struct ibv_qp_ex *ibqp, size_t num_sge,
				const struct ibv_sge *sg_list)
{
	struct ziw_qp *qp = to_ziw_qp_ex(ibqp);
	struct ziw_sq_wqe *wqe = ziw_wr_current(qp);

	if (!wqe)
		return;
	if (num_sge > qp->sq.max_sge) {
		ziw_wr_fail(qp, EINVAL);
		return;
	}
	if (num_sge)
		memcpy(wqe->sge, sg_list, num_sge * sizeof(sg_list[0]));
	wqe->num_sge = num_sge;
	wqe->inline_len = 0;
	wqe->flags &= ~ZIW_WQE_INLINE;
}

static void ziw_wr_set_sge(struct ibv_qp_ex *ibqp, uint32_t lkey, uint64_t addr,
			   uint32_t length)
{
	struct ibv_sge sge = {
		.addr = addr,
		.length = length,
		.lkey = lkey,
	};

	ziw_wr_set_sge_list(ibqp, 1, &sge);
}

static void ziw_wr_set_inline_data_list(struct ibv_qp_ex *ibqp, size_t num_buf,
					const struct ibv_data_buf *buf_list)
{
	struct ziw_qp *qp = to_ziw_qp_ex(ibqp);
	struct ziw_sq_wqe *wqe = ziw_wr_current(qp);
	size_t total = 0;
	uint8_t *to;
	size_t i;

	if (!wqe)
		return;
	/* What comes back cannot be inline. */
	if (wqe->opcode == ZIW_OP_READ || wqe->opcode == ZIW_OP_FETCH_ADD ||
	    wqe->opcode == ZIW_OP_CMP_SWAP) {
		ziw_wr_fail(qp, EINVAL);
		return;
	}
	to = (uint8_t *)wqe->sge;
	for (i = 0; i < num_buf; i++) {
		if (buf_list[i].length > qp->sq.max_inline - total) {
			ziw_wr_fail(qp, EINVAL);
			return;
		}
		/* With nothing to copy, addr may be anything, NULL too. */
		if (buf_list[i].length)
			memcpy(to + total, buf_list[i].addr,
			       buf_list[i].length);
		total += buf_list[i].length;
	}
	wqe->num_sge = 0;
	wqe->inline_len = total;
	wqe->flags |= ZIW_WQE_INLINE;
}

static void ziw_wr_set_inline_data(struct ibv_qp_ex *ibqp, void *addr,
				   size_t length)
{
	struct ibv_data_buf buf = {
		.addr = addr,
		.length = length,
	};

	ziw_wr_set_inline_data_list(ibqp, 1, &buf);
}

static void ziw_wr_set_ud_addr(struct ibv_qp_ex *ibqp, struct ibv_ah *ah,
			       uint32_t remote_qpn, uint32_t remote_qkey)
{
	ziw_wr_fail(to_ziw_qp_ex(ibqp), EOPNOTSUPP);
}

static void ziw_wr_set_xrc_srqn(struct ibv_qp_ex *ibqp, uint32_t remote_srqn)
{
	ziw_wr_fail(to_ziw_qp_ex(ibqp), EOPNOTSUPP);
}

/* Are all of @ops, enum ibv_qp_create_send_ops_flags, there? */
bool ziw_qp_offers(uint64_t ops)
{
	return !(ops & ~(uint64_t)ZIW_WR_OPS);
}

/* Make the QP one for ibv_wr_*(). */
void ziw_qp_fill_ex(struct ziw_qp *qp)
{
	struct ibv_qp_ex *ex = &qp->vqp.qp_ex;

	ex->wr_atomic_cmp_swp = ziw_wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = ziw_wr_atomic_fetch_add;
	ex->wr_bind_mw = ziw_wr_bind_mw;
	ex->wr_local_inv = ziw_wr_local_inv;
	ex->wr_rdma_read = ziw_wr_rdma_read;
	ex->wr_rdma_write = ziw_wr_rdma_write;
	ex->wr_rdma_write_imm = ziw_wr_rdma_write_imm;
	ex->wr_send = ziw_wr_send;
	ex->wr_send_imm = ziw_wr_send_imm;
	ex->wr_send_inv = ziw_wr_send_inv;
	ex->wr_send_tso = ziw_wr_send_tso;
	ex->wr_set_ud_addr = ziw_wr_set_ud_addr;
	ex->wr_set_xrc_srqn = ziw_wr_set_xrc_srqn;
	ex->wr_set_inline_data = ziw_wr_set_inline_data;
	ex->wr_set_inline_data_list = ziw_wr_set_inline_data_list;
	ex->wr_set_sge = ziw_wr_set_sge;
	ex->wr_set_sge_list = ziw_wr_set_sge_list;
	ex->wr_start = ziw_wr_start;
	ex->wr_complete = ziw_wr_complete;
	ex->wr_abort = ziw_wr_abort;
	qp->vqp.comp_mask |= VERBS_QP_EX;
}
