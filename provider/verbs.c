// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The verbs that make, change, ask about and destroy objects.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ziw.h"

/*
 * Our response behind the core's. DECLARE_DRV_CMD() names the fields of a
 * structure a second time where a script of rdma-core has seen its header;
 * here it has not, and drv_payload is what is used.
 */
#define _STRUCT_ziw_create_cq_resp	struct {}
#define _STRUCT_ziw_create_srq_resp	struct {}
#define _STRUCT_ziw_create_qp_req	struct {}
#define _STRUCT_ziw_create_qp_resp	struct {}

DECLARE_DRV_CMD(ziw_cmd_create_cq, IB_USER_VERBS_EX_CMD_CREATE_CQ,
		empty, ziw_create_cq_resp);
DECLARE_DRV_CMD(ziw_cmd_resize_cq, IB_USER_VERBS_CMD_RESIZE_CQ,
		empty, ziw_create_cq_resp);
DECLARE_DRV_CMD(ziw_cmd_create_srq, IB_USER_VERBS_CMD_CREATE_SRQ,
		empty, ziw_create_srq_resp);
DECLARE_DRV_CMD(ziw_cmd_create_qp, IB_USER_VERBS_CMD_CREATE_QP,
		ziw_create_qp_req, ziw_create_qp_resp);

static int ziw_query_device_ex(struct ibv_context *ibctx,
			       const struct ibv_query_device_ex_input *input,
			       struct ibv_device_attr_ex *attr,
			       size_t attr_size)
{
	struct ib_uverbs_ex_query_device_resp resp;
	size_t resp_size = sizeof(resp);
	uint64_t version;
	int ret;

	ret = ibv_cmd_query_device_any(ibctx, input, attr, attr_size,
				       &resp, &resp_size);
	if (ret)
		return ret;

	version = resp.base.fw_ver;
	snprintf(attr->orig_attr.fw_ver, sizeof(attr->orig_attr.fw_ver),
		 "%u.%u.%u", (unsigned int)(version >> 32),
		 (unsigned int)(version >> 16) & 0xffff,
		 (unsigned int)version & 0xffff);
	return 0;
}

static int ziw_query_port(struct ibv_context *ibctx, uint8_t port,
			  struct ibv_port_attr *attr)
{
	struct ibv_query_port cmd;

	return ibv_cmd_query_port(ibctx, port, attr, &cmd, sizeof(cmd));
}

/* The clock of the completions' timestamps; all of it is in tv_nsec. */
static int ziw_query_rt_values(struct ibv_context *ibctx,
			       struct ibv_values_ex *values)
{
	struct timespec now;
	uint32_t mask = 0;

	/* A 32-bit program's tv_nsec holds a few seconds. */
	if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK &&
	    sizeof(values->raw_clock.tv_nsec) >= sizeof(uint64_t)) {
		if (clock_gettime(CLOCK_MONOTONIC, &now))
			return errno;
		values->raw_clock.tv_sec = 0;
		values->raw_clock.tv_nsec =
			now.tv_sec * 1000000000 + now.tv_nsec;
		mask |= IBV_VALUES_MASK_RAW_CLOCK;
	}
	values->comp_mask = mask;
	return 0;
}

static struct ibv_mr *ziw_reg_mr(struct ibv_pd *ibpd, void *addr,
				 size_t length, uint64_t iova, int access)
{
	struct ib_uverbs_reg_mr_resp resp;
	struct ibv_reg_mr cmd;
	struct verbs_mr *vmr;
	int ret;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;

	ret = ibv_cmd_reg_mr(ibpd, addr, length, iova, access, vmr,
			     &cmd, sizeof(cmd), &resp, sizeof(resp));
	if (ret) {
		free(vmr);
		errno = ret;
		return NULL;
	}
	return &vmr->ibv_mr;
}

#ifdef ZIW_DMABUF_DRIVER_ATTRS
#define ziw_cmd_reg_dmabuf_mr(pd, offset, length, iova, fd, access, vmr) \
	ibv_cmd_reg_dmabuf_mr(pd, offset, length, iova, fd, access, vmr, NULL)
#else
#define ziw_cmd_reg_dmabuf_mr ibv_cmd_reg_dmabuf_mr
#endif

static struct ibv_mr *ziw_reg_dmabuf_mr(struct ibv_pd *ibpd, uint64_t offset,
					size_t length, uint64_t iova, int fd,
					int access)
{
	struct verbs_mr *vmr;
	int ret;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;

	ret = ziw_cmd_reg_dmabuf_mr(ibpd, offset, length, iova, fd, access, vmr);
	if (ret) {
		free(vmr);
		errno = ret;
		return NULL;
	}
	return &vmr->ibv_mr;
}

static struct ibv_mr *ziw_import_mr(struct ibv_pd *ibpd, uint32_t handle)
{
	struct verbs_mr *vmr;
	int ret;

	vmr = calloc(1, sizeof(*vmr));
	if (!vmr)
		return NULL;

	ret = ibv_cmd_query_mr(ibpd, vmr, handle);
	if (ret) {
		free(vmr);
		errno = ret;
		return NULL;
	}
	return &vmr->ibv_mr;
}

/* The region itself is its exporter's to end. */
static void ziw_unimport_mr(struct ibv_mr *ibmr)
{
	free(container_of(ibmr, struct verbs_mr, ibv_mr));
}

static int ziw_advise_mr(struct ibv_pd *ibpd, enum ibv_advise_mr_advice advice,
			 uint32_t flags, struct ibv_sge *sg_list,
			 uint32_t num_sges)
{
	return ibv_cmd_advise_mr(ibpd, advice, flags, sg_list, num_sges);
}

static int ziw_dereg_mr(struct verbs_mr *vmr)
{
	int ret;

	ret = ibv_cmd_dereg_mr(vmr);
	if (ret)
		return ret;

	free(vmr);
	return 0;
}

/* The keys stay: the kernel changes what they name. */
static int ziw_rereg_mr(struct verbs_mr *vmr, int flags, struct ibv_pd *ibpd,
			void *addr, size_t length, int access)
{
	struct ib_uverbs_rereg_mr_resp resp;
	struct ibv_rereg_mr cmd;

	return ibv_cmd_rereg_mr(vmr, flags, addr, length, (uintptr_t)addr,
				access, ibpd, &cmd, sizeof(cmd),
				&resp, sizeof(resp));
}

static struct ibv_mw *ziw_alloc_mw(struct ibv_pd *ibpd, enum ibv_mw_type type)
{
	struct ib_uverbs_alloc_mw_resp resp;
	struct ibv_alloc_mw cmd;
	struct ibv_mw *mw;
	int ret;

	mw = calloc(1, sizeof(*mw));
	if (!mw)
		return NULL;

	ret = ibv_cmd_alloc_mw(ibpd, type, mw, &cmd, sizeof(cmd),
			       &resp, sizeof(resp));
	if (ret) {
		free(mw);
		errno = ret;
		return NULL;
	}
	return mw;
}

static int ziw_dealloc_mw(struct ibv_mw *mw)
{
	int ret;

	ret = ibv_cmd_dealloc_mw(mw);
	if (ret)
		return ret;

	free(mw);
	return 0;
}

static struct ziw_cq *ziw_make_cq(struct ibv_context *ibctx,
				  const struct ibv_cq_init_attr_ex *attr,
				  bool shared)
{
	struct ziw_cmd_create_cq_resp resp = {};
	struct ibv_create_cq_ex cmd = {};
	struct ziw_cq *cq;
	int ret;

	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return NULL;

	ret = ibv_cmd_create_cq_ex(ibctx, attr, &cq->vcq, &cmd, sizeof(cmd),
				   &resp.ibv_resp, sizeof(resp), 0);
	if (ret)
		goto err_free;

	ret = ziw_ring_map(&cq->ring, ibctx->cmd_fd, &resp.drv_payload.cq,
			   sizeof(struct ziw_cqe));
	if (ret)
		goto err_destroy;

	ziw_lock_init(&cq->lock, shared);
	ziw_lock_init(&cq->arm_lock, shared);
	return cq;

err_destroy:
	ibv_cmd_destroy_cq(&cq->vcq.cq);
err_free:
	free(cq);
	errno = ret;
	return NULL;
}

static struct ibv_cq *ziw_create_cq(struct ibv_context *ibctx, int cqe,
				    struct ibv_comp_channel *channel,
				    int comp_vector)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cqe,
		.channel = channel,
		.comp_vector = comp_vector,
	};
	struct ziw_cq *cq;

	cq = ziw_make_cq(ibctx, &attr, true);
	return cq ? &cq->vcq.cq : NULL;
}

static struct ibv_cq_ex *ziw_create_cq_ex(struct ibv_context *ibctx,
					  struct ibv_cq_init_attr_ex *attr)
{
	/* Each entry has a timestamp: the kernel need not hear of wc_flags. */
	struct ibv_cq_init_attr_ex plain = {
		.cqe = attr->cqe,
		.channel = attr->channel,
		.comp_vector = attr->comp_vector,
	};
	struct ibv_pd *pd = NULL;
	struct ziw_cq *cq;
	uint32_t flags = 0;

	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD)
		pd = attr->parent_domain;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS)
		flags = attr->flags;
	if (!check_comp_mask(attr->comp_mask, IBV_CQ_INIT_ATTR_MASK_FLAGS |
					      IBV_CQ_INIT_ATTR_MASK_PD) ||
	    !check_comp_mask(flags, IBV_CREATE_CQ_ATTR_SINGLE_THREADED |
				    IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) ||
	    !check_comp_mask(attr->wc_flags,
			     IBV_WC_STANDARD_FLAGS |
			     IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
			     IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (pd && !to_ziw_pd(pd)->parent_of) {
		errno = EINVAL;
		return NULL;
	}

	if (flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN) {
		plain.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
		plain.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	}
	cq = ziw_make_cq(ibctx, &plain,
			 !(flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) &&
				 (!pd || ziw_pd_shared(pd)));
	if (!cq)
		return NULL;

	if (pd) {
		cq->pd = to_ziw_pd(pd);
		ziw_pd_get(pd);
	}
	cq->ignore_overrun = flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	ziw_cq_fill_ex(cq);
	return &cq->vcq.cq_ex;
}

/*
 * The kernel moves what was not polled to a new ring. Nobody may poll the old one
 * meanwhile, nor map it away from under a poll: the lock sees to both. A queue made
 * without locking is its owner's to keep still.
 */
static int ziw_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct ziw_cmd_resize_cq_resp resp = {};
	struct ziw_cq *cq = to_ziw_cq(ibcq);
	struct ziw_ring ring = {};
	struct ibv_resize_cq cmd;
	int ret;

	ziw_lock(&cq->lock);
	ziw_lock(&cq->arm_lock);
	ret = ibv_cmd_resize_cq(ibcq, cqe, &cmd, sizeof(cmd), &resp.ibv_resp,
				sizeof(resp));
	if (!ret)
		ret = ziw_ring_map(&ring, ibcq->context->cmd_fd,
				   &resp.drv_payload.cq, sizeof(struct ziw_cqe));
	if (!ret) {
		ziw_ring_unmap(&cq->ring);
		cq->ring = ring;
	}
	ziw_unlock(&cq->arm_lock);
	ziw_unlock(&cq->lock);
	return ret;
}

static int ziw_modify_cq(struct ibv_cq *ibcq, struct ibv_modify_cq_attr *attr)
{
	struct ibv_modify_cq cmd = {};

	if (!check_comp_mask(attr->attr_mask, IBV_CQ_ATTR_MODERATE))
		return EOPNOTSUPP;

	return ibv_cmd_modify_cq(ibcq, attr, &cmd, sizeof(cmd));
}

static int ziw_destroy_cq(struct ibv_cq *ibcq)
{
	struct ziw_cq *cq = to_ziw_cq(ibcq);
	int ret;

	ret = ibv_cmd_destroy_cq(ibcq);
	if (ret)
		return ret;

	if (cq->pd)
		ziw_pd_put(&cq->pd->ibv_pd);
	ziw_lock_destroy(&cq->arm_lock);
	ziw_lock_destroy(&cq->lock);
	ziw_ring_unmap(&cq->ring);
	free(cq);
	return 0;
}

/* @cq: that it completes to; NULL: an SRQ. Returns 0 or an errno value. */
static int ziw_wq_map(struct ziw_wq *wq, int cmd_fd,
		      const struct ziw_ring_info *info, size_t wqe_size,
		      uint32_t max_sge, bool shared, struct ibv_cq *cq)
{
	int ret;

	if (max_sge > ZIW_MAX_SGE)
		return EPROTO;

	ret = ziw_ring_map(&wq->ring, cmd_fd, info,
			   wqe_size + max_sge * sizeof(struct ziw_sge));
	if (ret)
		return ret;

	wq->max_sge = max_sge;
	wq->freed = cq && !to_ziw_cq(cq)->ignore_overrun ? &wq->polled :
							   &wq->ring.hdr->cons;
	ziw_lock_init(&wq->lock, shared);
	return 0;
}

static void ziw_wq_unmap(struct ziw_wq *wq)
{
	if (!wq->ring.hdr)
		return;

	ziw_lock_destroy(&wq->lock);
	ziw_ring_unmap(&wq->ring);
}

static struct ibv_srq *ziw_create_srq(struct ibv_pd *ibpd,
				      struct ibv_srq_init_attr *attr)
{
	struct ziw_cmd_create_srq_resp resp = {};
	struct ibv_create_srq cmd = {};
	struct ziw_srq *srq;
	int ret;

	srq = calloc(1, sizeof(*srq));
	if (!srq)
		return NULL;

	ret = ibv_cmd_create_srq(ibpd, &srq->ibv_srq, attr, &cmd, sizeof(cmd),
				 &resp.ibv_resp, sizeof(resp));
	if (ret)
		goto err_free;

	ret = ziw_wq_map(&srq->rq, ibpd->context->cmd_fd, &resp.drv_payload.rq,
			 sizeof(struct ziw_rq_wqe), attr->attr.max_sge,
			 ziw_pd_shared(ibpd), NULL);
	if (ret)
		goto err_destroy;
	ziw_pd_get(ibpd);
	return &srq->ibv_srq;

err_destroy:
	ibv_cmd_destroy_srq(&srq->ibv_srq);
err_free:
	free(srq);
	errno = ret;
	return NULL;
}

static int ziw_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr,
			  int attr_mask)
{
	struct ibv_modify_srq cmd = {};

	/* A mapped ring keeps its size. */
	if (attr_mask & IBV_SRQ_MAX_WR)
		return EOPNOTSUPP;

	return ibv_cmd_modify_srq(ibsrq, attr, attr_mask, &cmd, sizeof(cmd));
}

static int ziw_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
	struct ibv_query_srq cmd = {};

	return ibv_cmd_query_srq(ibsrq, attr, &cmd, sizeof(cmd));
}

static int ziw_destroy_srq(struct ibv_srq *ibsrq)
{
	struct ziw_srq *srq = to_ziw_srq(ibsrq);
	int ret;

	ret = ibv_cmd_destroy_srq(ibsrq);
	if (ret)
		return ret;

	ziw_pd_put(ibsrq->pd);
	ziw_wq_unmap(&srq->rq);
	free(srq);
	return 0;
}

/* Returns 0 or an errno value. */
static int ziw_map_qp(struct ziw_qp *qp, int cmd_fd,
		      const struct ziw_create_qp_resp *resp,
		      const struct ibv_qp_init_attr_ex *attr)
{
	bool shared = ziw_pd_shared(attr->pd);
	int ret;

	ret = ziw_wq_map(&qp->sq, cmd_fd, &resp->sq, sizeof(struct ziw_sq_wqe),
			 attr->cap.max_send_sge, shared, attr->send_cq);
	if (ret)
		return ret;

	if (resp->max_inline > ZIW_MAX_INLINE ||
	    resp->max_inline > qp->sq.ring.stride - sizeof(struct ziw_sq_wqe)) {
		ret = EPROTO;
		goto err_unmap;
	}
	qp->sq.max_inline = resp->max_inline;

	if (!resp->rq.mmap_size)
		return 0;

	ret = ziw_wq_map(&qp->rq, cmd_fd, &resp->rq, sizeof(struct ziw_rq_wqe),
			 attr->cap.max_recv_sge, shared, attr->recv_cq);
	if (ret)
		goto err_unmap;
	return 0;

err_unmap:
	ziw_wq_unmap(&qp->sq);
	return ret;
}

static struct ibv_qp *ziw_create_qp_ex(struct ibv_context *ibctx,
				       struct ibv_qp_init_attr_ex *attr)
{
	struct ziw_cmd_create_qp_resp resp = {};
	struct ziw_cmd_create_qp cmd = {};
	uint32_t comp_mask = attr->comp_mask;
	uint64_t send_ops = 0;
	struct ziw_qp *qp;
	int ret;

	if (attr->qp_type != IBV_QPT_RC ||
	    !check_comp_mask(comp_mask, IBV_QP_INIT_ATTR_PD |
					IBV_QP_INIT_ATTR_CREATE_FLAGS |
					IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) ||
	    ((comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) &&
	     attr->create_flags)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (!attr->send_cq || !attr->recv_cq ||
	    !(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		errno = EINVAL;
		return NULL;
	}
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		send_ops = attr->send_ops_flags;
	if (!ziw_qp_offers(send_ops)) {
		errno = EOPNOTSUPP;
		return NULL;
	}

	qp = calloc(1, sizeof(*qp));
	if (!qp)
		return NULL;

	/* The command knows no creation flags, and none was given. */
	attr->comp_mask &= ~IBV_QP_INIT_ATTR_CREATE_FLAGS;
	cmd.drv_payload.handle = (uintptr_t)qp;
	ret = ibv_cmd_create_qp_ex(ibctx, &qp->vqp, attr, &cmd.ibv_cmd, sizeof(cmd),
				   &resp.ibv_resp, sizeof(resp));
	attr->comp_mask = comp_mask;
	if (ret)
		goto err_free;

	ret = ziw_map_qp(qp, ibctx->cmd_fd, &resp.drv_payload, attr);
	if (ret)
		goto err_destroy;
	ziw_pd_get(attr->pd);

	qp->sig_all = attr->sq_sig_all;
	/* Not before the command, which takes the object as it makes it. */
	if (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
		ziw_qp_fill_ex(qp);
	return &qp->vqp.qp;

err_destroy:
	ibv_cmd_destroy_qp(&qp->vqp.qp);
err_free:
	free(qp);
	errno = ret;
	return NULL;
}

static struct ibv_qp *ziw_create_qp(struct ibv_pd *ibpd,
				    struct ibv_qp_init_attr *attr)
{
	struct ibv_qp_init_attr_ex attr_ex = {
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.cap = attr->cap,
		.qp_type = attr->qp_type,
		.sq_sig_all = attr->sq_sig_all,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = ibpd,
	};
	struct ibv_qp *ibqp;

	ibqp = ziw_create_qp_ex(ibpd->context, &attr_ex);
	if (ibqp)
		attr->cap = attr_ex.cap;
	return ibqp;
}

static int ziw_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr,
			int attr_mask, struct ibv_qp_init_attr *init_attr)
{
	struct ibv_query_qp cmd = {};

	return ibv_cmd_query_qp(ibqp, attr, attr_mask, init_attr,
				&cmd, sizeof(cmd));
}

static void ziw_forget_completions(struct ibv_qp *ibqp)
{
	ziw_cq_forget(to_ziw_cq(ibqp->send_cq), ibqp->qp_num);
	if (ibqp->recv_cq != ibqp->send_cq)
		ziw_cq_forget(to_ziw_cq(ibqp->recv_cq), ibqp->qp_num);
}

/* A QP in RESET has no work requests, and none of its completions is left. */
static void ziw_reset_wq(struct ziw_wq *wq)
{
	if (!wq->ring.hdr)
		return;

	ziw_lock(&wq->lock);
	ziw_ring_resync(&wq->ring);
	wq->polled = wq->ring.cons;
	ziw_unlock(&wq->lock);
}

/* libibverbs keeps ibqp->state once this has succeeded. */
static int ziw_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr,
			 int attr_mask)
{
	struct ziw_qp *qp = to_ziw_qp(ibqp);
	struct ibv_modify_qp cmd = {};
	int ret;

	ret = ibv_cmd_modify_qp(ibqp, attr, attr_mask, &cmd, sizeof(cmd));
	if (ret)
		return ret;

	if ((attr_mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET) {
		ziw_forget_completions(ibqp);
		ziw_reset_wq(&qp->sq);
		ziw_reset_wq(&qp->rq);
	}
	return 0;
}

static int ziw_destroy_qp(struct ibv_qp *ibqp)
{
	struct ziw_qp *qp = to_ziw_qp(ibqp);
	int ret;

	ret = ibv_cmd_destroy_qp(ibqp);
	if (ret)
		return ret;

	ziw_forget_completions(ibqp);
	ziw_pd_put(ibqp->pd);
	ziw_wq_unmap(&qp->rq);
	ziw_wq_unmap(&qp->sq);
	free(qp);
	return 0;
}

/* These events mean that the kernel has moved the QP already. */
static void ziw_async_event(struct ibv_context *ibctx,
			    struct ibv_async_event *event)
{
	switch (event->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		event->element.qp->state = IBV_QPS_ERR;
		break;
	default:
		break;
	}
}

static void ziw_free_context(struct ibv_context *ibctx)
{
	struct ziw_context *ctx = to_ziw_context(ibctx);

	if (ctx->doorbell_fd >= 0)
		close(ctx->doorbell_fd);
	verbs_uninit_context(&ctx->vctx);
	free(ctx);
}

const struct verbs_context_ops ziw_context_ops = {
	.advise_mr = ziw_advise_mr,
	.alloc_mw = ziw_alloc_mw,
	.alloc_parent_domain = ziw_alloc_parent_domain,
	.alloc_pd = ziw_alloc_pd,
	.alloc_td = ziw_alloc_td,
	.async_event = ziw_async_event,
	.bind_mw = ziw_bind_mw,
	.create_cq = ziw_create_cq,
	.create_cq_ex = ziw_create_cq_ex,
	.create_qp = ziw_create_qp,
	.create_qp_ex = ziw_create_qp_ex,
	.create_srq = ziw_create_srq,
	.dealloc_pd = ziw_dealloc_pd,
	.dealloc_mw = ziw_dealloc_mw,
	.dealloc_td = ziw_dealloc_td,
	.dereg_mr = ziw_dereg_mr,
	.destroy_cq = ziw_destroy_cq,
	.destroy_qp = ziw_destroy_qp,
	.destroy_srq = ziw_destroy_srq,
	.free_context = ziw_free_context,
	.import_mr = ziw_import_mr,
	.import_pd = ziw_import_pd,
	.modify_cq = ziw_modify_cq,
	.modify_qp = ziw_modify_qp,
	.modify_srq = ziw_modify_srq,
	.poll_cq = ziw_poll_cq,
	.post_recv = ziw_post_recv,
	.post_send = ziw_post_send,
	.post_srq_recv = ziw_post_srq_recv,
	.query_device_ex = ziw_query_device_ex,
	.query_port = ziw_query_port,
	.query_qp = ziw_query_qp,
	.query_rt_values = ziw_query_rt_values,
	.query_srq = ziw_query_srq,
	.reg_dmabuf_mr = ziw_reg_dmabuf_mr,
	.reg_mr = ziw_reg_mr,
	.req_notify_cq = ziw_req_notify_cq,
	.rereg_mr = ziw_rereg_mr,
	.resize_cq = ziw_resize_cq,
	.unimport_mr = ziw_unimport_mr,
	.unimport_pd = ziw_unimport_pd,
};
