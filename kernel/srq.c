// SPDX-License-Identifier: GPL-2.0
/* Receive queues: those of QPs and the shared ones. */
#include "ziw.h"

static u32 rq_entries(u32 max_wr)
{
	return roundup_pow_of_two(max(max_wr, 1U));
}

static u32 rq_stride(u32 max_sge)
{
	return ALIGN(sizeof(struct ziw_rq_wqe) + max(max_sge, 1U) * sizeof(struct ziw_sge), 32);
}

static void rq_setup(struct ziw_rq *rq, u32 max_sge)
{
	spin_lock_init(&rq->lock);
	rq->max_sge = max(max_sge, 1U);
}

/**
 * ziw_rq_init - make a receive queue with memory of its own
 * @dev: device
 * @rq: to initialise
 * @max_wr: work requests it has to hold
 * @max_sge: of one
 * @udata: of the command, NULL for a kernel consumer
 * @info: filled, for the provider
 *
 * Context: process.
 * Return: 0 or -ENOMEM.
 */
int ziw_rq_init(struct ziw_dev *dev, struct ziw_rq *rq, u32 max_wr, u32 max_sge,
		struct ib_udata *udata, struct ziw_ring_info *info)
{
	rq_setup(rq, max_sge);
	return ziw_ring_alloc(dev, &rq->ring, rq_entries(max_wr), rq_stride(max_sge), 0,
			      udata, info);
}

/**
 * ziw_rq_bytes - memory of a receive queue behind an SQ
 * @max_wr: work requests it has to hold
 * @max_sge: of one
 *
 * Return: bytes.
 */
size_t ziw_rq_bytes(u32 max_wr, u32 max_sge)
{
	return ziw_ring_bytes(rq_entries(max_wr), rq_stride(max_sge));
}

/**
 * ziw_rq_init_behind - make a receive queue behind an SQ
 * @rq: to initialise; its memory goes with the SQ's
 * @sq: ring of the SQ, with ziw_rq_bytes() behind it
 * @max_wr: work requests it has to hold
 * @max_sge: of one
 * @sq_info: of the SQ
 * @info: filled, if the SQ is mapped
 */
void ziw_rq_init_behind(struct ziw_rq *rq, const struct ziw_ring *sq, u32 max_wr,
			u32 max_sge, const struct ziw_ring_info *sq_info,
			struct ziw_ring_info *info)
{
	rq_setup(rq, max_sge);
	ziw_ring_behind(&rq->ring, sq, rq_entries(max_wr), rq_stride(max_sge), sq_info, info);
}

/**
 * ziw_rq_destroy - free what ziw_rq_init() made
 * @rq: receive queue
 */
void ziw_rq_destroy(struct ziw_rq *rq)
{
	ziw_ring_free(&rq->ring);
}

/**
 * ziw_rq_post - add one work request of a kernel consumer
 * @rq: receive queue
 * @wr: work request
 *
 * Context: any. Takes rq->lock.
 * Return: 0; -ENOMEM if the queue is full, -EINVAL if there are too many SGEs.
 */
int ziw_rq_post(struct ziw_rq *rq, const struct ib_recv_wr *wr)
{
	struct ziw_rq_wqe *wqe;
	unsigned long irq;
	int i, ret = 0;

	if (wr->num_sge < 0 || wr->num_sge > rq->max_sge)
		return -EINVAL;

	spin_lock_irqsave(&rq->lock, irq);
	if (!ziw_ring_has_room(&rq->ring)) {
		ret = -ENOMEM;
		goto out;
	}
	wqe = ziw_ring_slot(&rq->ring, rq->ring.post);
	wqe->wr_id = wr->wr_id;
	wqe->num_sge = wr->num_sge;
	for (i = 0; i < wr->num_sge; i++) {
		wqe->sge[i].addr = wr->sg_list[i].addr;
		wqe->sge[i].length = wr->sg_list[i].length;
		wqe->sge[i].lkey = wr->sg_list[i].lkey;
	}
	ziw_ring_publish(&rq->ring);
out:
	spin_unlock_irqrestore(&rq->lock, irq);
	return ret;
}

static int rq_get_locked(struct ziw_rq *rq, struct ziw_rqe *rqe)
{
	struct ziw_ring *ring = &rq->ring;
	bool ok;

	lockdep_assert_held(&rq->lock);
	if (!ziw_ring_filled(ring, ring->index))
		return -ENOENT;
	ok = ziw_rqe_load(ziw_ring_slot(ring, ring->index), rq->max_sge, rqe);
	ziw_ring_consume(ring, ring->index + 1);
	return ok ? 0 : -EINVAL;
}

/**
 * ziw_rq_get - take the oldest work request
 * @rq: receive queue
 * @rqe: filled
 *
 * Context: any. Takes rq->lock.
 * Return: 0; -ENOENT if none waits; -EINVAL if it is malformed, with the wr_id
 * for the CQE in @rqe.
 */
int ziw_rq_get(struct ziw_rq *rq, struct ziw_rqe *rqe)
{
	unsigned long irq;
	int ret;

	spin_lock_irqsave(&rq->lock, irq);
	ret = rq_get_locked(rq, rqe);
	spin_unlock_irqrestore(&rq->lock, irq);
	return ret;
}
EXPORT_SYMBOL_IF_KUNIT(ziw_rq_get);

/**
 * ziw_rq_forget - drop the work requests that wait
 * @rq: receive queue
 *
 * Not those that are posted meanwhile: whoever goes on posting cannot keep this
 * CPU here.
 *
 * Context: any. Takes rq->lock.
 */
void ziw_rq_forget(struct ziw_rq *rq)
{
	struct ziw_ring *ring = &rq->ring;
	unsigned long irq;

	spin_lock_irqsave(&rq->lock, irq);
	ziw_ring_consume(ring, ring->index + ziw_ring_filled(ring, ring->index));
	spin_unlock_irqrestore(&rq->lock, irq);
}

/*
 * The event is due when fewer wait than the limit says, also if that was so when
 * the limit was armed: what is taken next may be the last. rq.lock held.
 */
static void srq_watch_limit(struct ziw_srq *srq)
{
	struct ziw_rq *rq = &srq->rq;

	lockdep_assert_held(&rq->lock);
	if (srq->limit && ziw_ring_filled(&rq->ring, rq->ring.index) < srq->limit) {
		srq->limit = 0;
		queue_work(ziw_wq, &srq->limit_work);
	}
}

/**
 * ziw_srq_get - take the oldest work request and watch the limit
 * @srq: shared receive queue
 * @rqe: filled
 *
 * Context: any. Takes srq->rq.lock.
 * Return: as ziw_rq_get().
 */
int ziw_srq_get(struct ziw_srq *srq, struct ziw_rqe *rqe)
{
	struct ziw_rq *rq = &srq->rq;
	unsigned long irq;
	int ret;

	spin_lock_irqsave(&rq->lock, irq);
	ret = rq_get_locked(rq, rqe);
	srq_watch_limit(srq);
	spin_unlock_irqrestore(&rq->lock, irq);
	return ret;
}
EXPORT_SYMBOL_IF_KUNIT(ziw_srq_get);

static void srq_limit_work(struct work_struct *work)
{
	struct ziw_srq *srq = container_of(work, struct ziw_srq, limit_work);
	struct ib_event event = {
		.device		= srq->ibsrq.device,
		.element.srq	= &srq->ibsrq,
		.event		= IB_EVENT_SRQ_LIMIT_REACHED,
	};

	if (srq->ibsrq.event_handler)
		srq->ibsrq.event_handler(&event, srq->ibsrq.srq_context);
}

/**
 * ziw_create_srq - verb: create a shared receive queue
 * @ibsrq: allocated by the RDMA core
 * @init: attributes; max_wr and max_sge are raised to what is granted
 * @udata: of the command, NULL for a kernel consumer
 *
 * Context: process.
 * Return: 0; -EINVAL, -EOPNOTSUPP or -ENOMEM.
 */
int ziw_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *init,
		   struct ib_udata *udata)
{
	struct ziw_dev *dev = to_ziw_dev(ibsrq->device);
	struct ziw_create_srq_resp resp = {};
	struct ziw_srq *srq = to_ziw_srq(ibsrq);
	struct ib_srq_attr *attr = &init->attr;
	int err;

	if (init->srq_type != IB_SRQT_BASIC)
		return -EOPNOTSUPP;
	if (!attr->max_wr || attr->max_wr > ZIW_MAX_WR ||
	    attr->max_sge > ZIW_MAX_SGE || attr->srq_limit > attr->max_wr)
		return -EINVAL;
	if (udata && udata->outlen < sizeof(resp))
		return -EINVAL;
	if (!ziw_take(&dev->nr_srq, ZIW_MAX_SRQ))
		return -ENOMEM;

	err = ziw_rq_init(dev, &srq->rq, attr->max_wr, attr->max_sge, udata,
			  &resp.rq);
	if (err)
		goto err_count;
	srq->limit = attr->srq_limit;
	INIT_WORK(&srq->limit_work, srq_limit_work);
	attr->max_wr = srq->rq.ring.mask + 1;
	attr->max_sge = srq->rq.max_sge;

	if (udata) {
		err = ib_copy_to_udata(udata, &resp, sizeof(resp));
		if (err)
			goto err_rq;
	}
	return 0;

err_rq:
	ziw_rq_destroy(&srq->rq);
err_count:
	atomic_dec(&dev->nr_srq);
	return err;
}

/**
 * ziw_modify_srq - verb: arm the limit
 * @ibsrq: shared receive queue
 * @attr: srq_limit; 0 disarms
 * @mask: IB_SRQ_LIMIT; a resize is not offered
 * @udata: not used
 *
 * Context: process.
 * Return: 0; -EOPNOTSUPP for anything but the limit; -EINVAL for one above the
 * queue's size.
 */
int ziw_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		   enum ib_srq_attr_mask mask, struct ib_udata *udata)
{
	struct ziw_srq *srq = to_ziw_srq(ibsrq);

	if (mask & ~IB_SRQ_LIMIT)
		return -EOPNOTSUPP;
	if (mask & IB_SRQ_LIMIT) {
		if (attr->srq_limit > srq->rq.ring.mask + 1)
			return -EINVAL;
		spin_lock_irq(&srq->rq.lock);
		srq->limit = attr->srq_limit;
		srq_watch_limit(srq);
		spin_unlock_irq(&srq->rq.lock);
	}
	return 0;
}

/**
 * ziw_query_srq - verb: attributes of a shared receive queue
 * @ibsrq: shared receive queue
 * @attr: filled
 *
 * Context: process.
 * Return: 0.
 */
int ziw_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr)
{
	struct ziw_srq *srq = to_ziw_srq(ibsrq);

	spin_lock_irq(&srq->rq.lock);
	attr->srq_limit = srq->limit;
	spin_unlock_irq(&srq->rq.lock);
	attr->max_wr = srq->rq.ring.mask + 1;
	attr->max_sge = srq->rq.max_sge;
	return 0;
}

/**
 * ziw_destroy_srq - verb: end a shared receive queue that no QP uses any more
 * @ibsrq: shared receive queue
 * @udata: not used
 *
 * Context: process.
 * Return: 0.
 */
int ziw_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata)
{
	struct ziw_srq *srq = to_ziw_srq(ibsrq);

	cancel_work_sync(&srq->limit_work);
	ziw_rq_destroy(&srq->rq);
	atomic_dec(&to_ziw_dev(ibsrq->device)->nr_srq);
	return 0;
}

/**
 * ziw_post_srq_recv - verb: post receive work requests, for kernel consumers
 * @ibsrq: shared receive queue
 * @wr: list of work requests; NULL for a doorbell, which an SRQ does not need
 * @bad_wr: the first that was not posted
 *
 * Context: any.
 * Return: 0; -ENOMEM or -EINVAL as ziw_rq_post().
 */
int ziw_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		      const struct ib_recv_wr **bad_wr)
{
	struct ziw_srq *srq = to_ziw_srq(ibsrq);
	int ret;

	/* What user space hands to the kernel is in its ring already. */
	if (srq->rq.ring.mmap && wr) {
		*bad_wr = wr;
		return -EINVAL;
	}
	for (; wr; wr = wr->next) {
		ret = ziw_rq_post(&srq->rq, wr);
		if (ret) {
			*bad_wr = wr;
			return ret;
		}
	}
	return 0;
}
