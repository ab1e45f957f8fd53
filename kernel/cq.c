// SPDX-License-Identifier: GPL-2.0
/* Completion queues. */
#include <linux/ktime.h>
#include "inspect.h"
#include "trace.h"

static bool cq_is_kernel(const struct ziw_cq *cq)
{
	return !cq->ring.mmap;
}

static void cq_notify(struct ziw_cq *cq)
{
	ziw_stat_inc(to_ziw_dev(cq->ibcq.device), ZIW_STAT_CQ_EVENTS);
	if (cq_is_kernel(cq))
		tasklet_schedule(&cq->notify);
	else if (cq->ibcq.comp_handler)
		/* Takes a lock of its own and wakes the reader; never calls back. */
		cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
}

static void cq_notify_tasklet(struct tasklet_struct *t)
{
	struct ziw_cq *cq = from_tasklet(cq, t, notify);

	if (cq->ibcq.comp_handler)
		cq->ibcq.comp_handler(&cq->ibcq, cq->ibcq.cq_context);
}

/* Tell who waits. cq->lock held. */
static void cq_fire(struct ziw_cq *cq)
{
	lockdep_assert_held(&cq->lock);
	cq->mod_pending = 0;
	xchg(&cq->ring.hdr->flags, 0);
	cq_notify(cq);
}

/* An event is due: at once, or when more have come or time has passed. cq->lock held. */
static void cq_event(struct ziw_cq *cq)
{
	if (!cq->mod_count || ++cq->mod_pending >= cq->mod_count)
		cq_fire(cq);
	else if (cq->mod_pending == 1)
		hrtimer_start(&cq->mod_timer, ns_to_ktime(cq->mod_period * NSEC_PER_USEC),
			      HRTIMER_MODE_REL_SOFT);
}

static enum hrtimer_restart cq_mod_timer(struct hrtimer *timer)
{
	struct ziw_cq *cq = container_of(timer, struct ziw_cq, mod_timer);
	unsigned long irq;

	spin_lock_irqsave(&cq->lock, irq);
	if (cq->mod_pending && READ_ONCE(cq->ring.hdr->flags))
		cq_fire(cq);
	cq->mod_pending = 0;
	spin_unlock_irqrestore(&cq->lock, irq);
	return HRTIMER_NORESTART;
}

static void cq_overflow_work(struct work_struct *work)
{
	struct ziw_cq *cq = container_of(work, struct ziw_cq, overflow_work);
	struct ib_event event = {
		.device		= cq->ibcq.device,
		.element.cq	= &cq->ibcq,
		.event		= IB_EVENT_CQ_ERR,
	};

	ibdev_warn_ratelimited(cq->ibcq.device,
			       "CQ of %d entries overflowed: create it with room for all work requests that complete to it\n",
			       cq->ibcq.cqe);
	if (cq->ibcq.event_handler)
		cq->ibcq.event_handler(&event, cq->ibcq.cq_context);
}

/**
 * ziw_cq_push - add a CQE and wake who waits for it
 * @cq: completion queue
 * @cqe: what to say; the QP and the timestamp are filled in here
 * @qp: of the work request
 *
 * Context: any. Takes cq->lock.
 * Return: false if the CQ has overflowed: the CQE is lost, the consumer gets
 * IB_EVENT_CQ_ERR, and the caller has to bring its QP to the error state. Of a CQ
 * that ignores overruns the CQE is lost, and that is all.
 */
bool ziw_cq_push(struct ziw_cq *cq, struct ziw_cqe *cqe, struct ib_qp *qp)
{
	struct ziw_ring *ring = &cq->ring;
	unsigned long irq;
	u32 armed, cons;

	cqe->qpn = qp->qp_num;
	cqe->timestamp = ktime_get_ns();
	cqe->qp = cq_is_kernel(cq) ? (uintptr_t)qp : to_ziw_qp(qp)->handle;

	spin_lock_irqsave(&cq->lock, irq);
	/*
	 * Pairs with the consumer's release after its last use of the slot. One
	 * that lies about cons only overwrites CQEs of its own.
	 */
	cons = smp_load_acquire(&ring->hdr->cons);
	if (cq->overflowed || ring->index - cons > ring->mask) {
		if (!cq->overflowed && !cq->ignore_overrun) {
			cq->overflowed = true;
			queue_work(ziw_wq, &cq->overflow_work);
		}
		spin_unlock_irqrestore(&cq->lock, irq);
		trace_ziw_complete(cq, cqe, false);
		return cq->ignore_overrun;
	}
	/* Before anybody can poll it. */
	trace_ziw_complete(cq, cqe, true);
	memcpy(ziw_ring_slot(ring, ring->index), cqe, sizeof(*cqe));
	ring->index++;
	/* Pairs with the consumer's acquire. */
	smp_store_release(&ring->hdr->prod, ring->index);

	/* Pairs with the consumer's barrier between its arm and its last poll. */
	smp_mb();
	armed = READ_ONCE(ring->hdr->flags);
	if (armed & ZIW_CQ_ARM_NEXT ||
	    (armed & ZIW_CQ_ARM_SOLICITED &&
	     (cqe->flags & ZIW_CQE_SOLICITED || cqe->status != IB_WC_SUCCESS)))
		cq_event(cq);
	spin_unlock_irqrestore(&cq->lock, irq);
	return true;
}
EXPORT_SYMBOL_IF_KUNIT(ziw_cq_push);

static const enum ib_wc_opcode wc_opcodes[] = {
	[ZIW_OP_SEND]		= IB_WC_SEND,
	[ZIW_OP_SEND_INV]	= IB_WC_SEND,
	[ZIW_OP_SEND_IMM]	= IB_WC_SEND,
	[ZIW_OP_WRITE]		= IB_WC_RDMA_WRITE,
	[ZIW_OP_WRITE_IMM]	= IB_WC_RDMA_WRITE,
	[ZIW_OP_READ]		= IB_WC_RDMA_READ,
	[ZIW_OP_READ_INV]	= IB_WC_RDMA_READ,
	[ZIW_OP_FETCH_ADD]	= IB_WC_FETCH_ADD,
	[ZIW_OP_CMP_SWAP]	= IB_WC_COMP_SWAP,
	[ZIW_OP_LOCAL_INV]	= IB_WC_LOCAL_INV,
	[ZIW_OP_BIND_MW]	= IB_WC_SEND,
	[ZIW_OP_REG_MR]		= IB_WC_REG_MR,
	[ZIW_OP_RECV]		= IB_WC_RECV,
	[ZIW_OP_RECV_IMM]	= IB_WC_RECV_RDMA_WITH_IMM,
};

static void cqe_to_wc(const struct ziw_cqe *cqe, struct ib_wc *wc)
{
	memset(wc, 0, sizeof(*wc));
	wc->wr_id = cqe->wr_id;
	wc->status = cqe->status;
	wc->opcode = wc_opcodes[cqe->opcode];
	if (cqe->flags & ZIW_CQE_MASKED)
		wc->opcode = cqe->opcode == ZIW_OP_CMP_SWAP ? IB_WC_MASKED_COMP_SWAP :
							      IB_WC_MASKED_FETCH_ADD;
	wc->vendor_err = cqe->vendor_err;
	wc->byte_len = cqe->byte_len;
	wc->qp = (struct ib_qp *)(uintptr_t)cqe->qp;
	if (cqe->flags & ZIW_CQE_WITH_INV) {
		wc->wc_flags |= IB_WC_WITH_INVALIDATE;
		wc->ex.invalidate_rkey = cqe->ex;
	} else if (cqe->flags & ZIW_CQE_WITH_IMM) {
		wc->wc_flags |= IB_WC_WITH_IMM;
		wc->ex.imm_data = (__force __be32)cqe->ex;
	}
}

/**
 * ziw_poll_cq - verb: take completions, for kernel consumers
 * @ibcq: completion queue
 * @num: at most so many
 * @wc: filled
 *
 * Context: any.
 * Return: how many were taken.
 */
int ziw_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc)
{
	struct ziw_cq *cq = to_ziw_cq(ibcq);
	struct ziw_ring *ring = &cq->ring;
	unsigned long irq;
	u32 cons;
	int n;

	spin_lock_irqsave(&cq->lock, irq);
	cons = ring->hdr->cons;
	for (n = 0; n < num && cons != ring->index; n++)
		cqe_to_wc(ziw_ring_slot(ring, cons++), &wc[n]);
	WRITE_ONCE(ring->hdr->cons, cons);
	spin_unlock_irqrestore(&cq->lock, irq);
	return n;
}

/**
 * ziw_cq_forget - drop what a queue pair left behind
 * @cq: completion queue; nothing is done for a program's
 * @qp: queue pair, which adds nothing any more
 *
 * What others have there closes up.
 *
 * Context: any.
 */
void ziw_cq_forget(struct ziw_cq *cq, const struct ib_qp *qp)
{
	struct ziw_ring *ring = &cq->ring;
	unsigned long irq;
	u32 i, to;

	if (!cq_is_kernel(cq))
		return;
	spin_lock_irqsave(&cq->lock, irq);
	to = ring->index;
	for (i = ring->index; i != ring->hdr->cons; i--) {
		const struct ziw_cqe *cqe = ziw_ring_slot(ring, i - 1);

		if (cqe->qp == (uintptr_t)qp)
			continue;
		to--;
		if (to != i - 1)
			memcpy(ziw_ring_slot(ring, to), cqe, sizeof(*cqe));
	}
	WRITE_ONCE(ring->hdr->cons, to);
	spin_unlock_irqrestore(&cq->lock, irq);
}

/**
 * ziw_req_notify_cq - verb: arm the CQ, for kernel consumers
 * @ibcq: completion queue
 * @flags: IB_CQ_SOLICITED or IB_CQ_NEXT_COMP, IB_CQ_REPORT_MISSED_EVENTS
 *
 * Context: any.
 * Return: 1 if missed events were asked for and CQEs wait, else 0.
 */
int ziw_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags)
{
	struct ziw_cq *cq = to_ziw_cq(ibcq);
	struct ziw_ring *ring = &cq->ring;
	unsigned long irq;
	int ret = 0;

	spin_lock_irqsave(&cq->lock, irq);
	if ((flags & IB_CQ_SOLICITED_MASK) == IB_CQ_SOLICITED)
		ring->hdr->flags |= ZIW_CQ_ARM_SOLICITED;
	else
		ring->hdr->flags |= ZIW_CQ_ARM_NEXT;
	if (flags & IB_CQ_REPORT_MISSED_EVENTS &&
	    READ_ONCE(ring->hdr->cons) != ring->index)
		ret = 1;
	spin_unlock_irqrestore(&cq->lock, irq);
	return ret;
}

/**
 * ziw_create_cq - verb: create a CQ
 * @ibcq: allocated by the RDMA core
 * @attr: at most ZIW_MAX_CQE entries; IB_UVERBS_CQ_FLAGS_*
 * @attrs: of the command, NULL for a kernel consumer
 *
 * Context: process.
 * Return: 0; -EINVAL, -EOPNOTSUPP or -ENOMEM.
 */
int ziw_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		  struct ziw_cq_attrs *attrs)
{
	struct ib_udata *data = ziw_cq_udata(attrs);
	struct ziw_dev *dev = to_ziw_dev(ibcq->device);
	struct ziw_create_cq_resp resp = {};
	struct ziw_cq *cq = to_ziw_cq(ibcq);
	int err;

	/* A CQE carries a timestamp of CLOCK_MONOTONIC whether asked for or not. */
	if (attr->flags & ~(IB_UVERBS_CQ_FLAGS_TIMESTAMP_COMPLETION |
			    IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN))
		return -EOPNOTSUPP;
	if (!attr->cqe || attr->cqe > ZIW_MAX_CQE)
		return -EINVAL;
	if (data && data->outlen < sizeof(resp))
		return -EINVAL;
	if (!ziw_take(&dev->nr_cq, ZIW_MAX_CQ))
		return -ENOMEM;

	spin_lock_init(&cq->lock);
	cq->ignore_overrun = attr->flags & IB_UVERBS_CQ_FLAGS_IGNORE_OVERRUN;
	ziw_hrtimer_setup(&cq->mod_timer, cq_mod_timer);
	tasklet_setup(&cq->notify, cq_notify_tasklet);
	INIT_WORK(&cq->overflow_work, cq_overflow_work);
	err = ziw_ring_alloc(dev, &cq->ring, roundup_pow_of_two(attr->cqe),
			     sizeof(struct ziw_cqe), 0, data, &resp.cq);
	if (err)
		goto err_count;
	ibcq->cqe = cq->ring.mask + 1;

	if (data) {
		err = ib_copy_to_udata(data, &resp, sizeof(resp));
		if (err)
			goto err_ring;
	}
	return 0;

err_ring:
	ziw_ring_free(&cq->ring);
err_count:
	atomic_dec(&dev->nr_cq);
	return err;
}

/* Move what was not polled to @to, which takes the ring's place. cq->lock held. */
static bool cq_move(struct ziw_cq *cq, struct ziw_ring *to)
{
	struct ziw_ring *from = &cq->ring;
	u32 cons = READ_ONCE(from->hdr->cons);
	u32 num = from->index - cons;
	struct ziw_ring old = *from;
	u32 i;

	lockdep_assert_held(&cq->lock);
	/* More than there is room for, or a consumer that lies about cons. */
	if (num > from->mask + 1 || num > to->mask + 1)
		return false;
	for (i = cons; i != from->index; i++)
		memcpy(ziw_ring_slot(to, i), ziw_ring_slot(from, i),
		       sizeof(struct ziw_cqe));
	to->index = from->index;
	to->hdr->cons = cons;
	to->hdr->flags = READ_ONCE(from->hdr->flags);
	/* Pairs with the consumer's acquire. */
	smp_store_release(&to->hdr->prod, to->index);
	*from = *to;
	*to = old;
	return true;
}

/**
 * ziw_resize_cq - verb: change the number of entries
 * @ibcq: completion queue
 * @entries: at least so many, at most ZIW_MAX_CQE
 * @udata: of the command, NULL for a kernel consumer
 *
 * What was not polled yet stays. A user-space consumer must not poll until it
 * has mapped the new ring.
 *
 * Context: process.
 * Return: 0; -EINVAL if that is out of range, or less than wait to be polled;
 * -ENOMEM.
 */
int ziw_resize_cq(struct ib_cq *ibcq, ziw_cqe_count entries, struct ib_udata *udata)
{
	struct ziw_dev *dev = to_ziw_dev(ibcq->device);
	struct ziw_create_cq_resp resp = {};
	struct ziw_cq *cq = to_ziw_cq(ibcq);
	struct ziw_ring ring;
	int err;

	if (entries < 1 || entries > ZIW_MAX_CQE || (udata && udata->outlen < sizeof(resp)))
		return -EINVAL;
	err = ziw_ring_alloc(dev, &ring, roundup_pow_of_two(entries),
			     sizeof(struct ziw_cqe), 0, udata, &resp.cq);
	if (err)
		return err;
	/* Before the change, since nothing may fail after it. */
	if (udata)
		err = ib_copy_to_udata(udata, &resp, sizeof(resp));
	if (!err) {
		spin_lock_irq(&cq->lock);
		if (!cq_move(cq, &ring))
			err = -EINVAL;
		spin_unlock_irq(&cq->lock);
	}
	if (!err)
		ibcq->cqe = cq->ring.mask + 1;
	/* The old one, or the new one that is not wanted. */
	ziw_ring_free(&ring);
	return err;
}

/**
 * ziw_modify_cq - verb: have events wait for more completions
 * @ibcq: completion queue
 * @count: an event comes with this many completions
 * @period: or so many microseconds after the first; with either 0 events do not
 *          wait
 *
 * Context: process.
 * Return: 0.
 */
int ziw_modify_cq(struct ib_cq *ibcq, u16 count, u16 period)
{
	struct ziw_cq *cq = to_ziw_cq(ibcq);

	spin_lock_irq(&cq->lock);
	cq->mod_count = count && period ? count : 0;
	cq->mod_period = period;
	/* Nobody waits for a limit that no longer holds. */
	if (cq->mod_pending && READ_ONCE(cq->ring.hdr->flags))
		cq_fire(cq);
	cq->mod_pending = 0;
	spin_unlock_irq(&cq->lock);
	return 0;
}

/**
 * ziw_pre_destroy_cq - verb: the CQ calls its handler no more
 * @ibcq: completion queue, of no QP any more
 *
 * A kernel consumer's queues a work item of the RDMA core, which cancels that next.
 *
 * Context: process.
 * Return: 0.
 */
int ziw_pre_destroy_cq(struct ib_cq *ibcq)
{
	struct ziw_cq *cq = to_ziw_cq(ibcq);

	hrtimer_cancel(&cq->mod_timer);
	tasklet_kill(&cq->notify);
	return 0;
}

/**
 * ziw_destroy_cq - verb: end a CQ that no QP uses any more
 * @ibcq: completion queue
 * @udata: not used
 *
 * Context: process.
 * Return: 0.
 */
int ziw_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata)
{
	struct ziw_cq *cq = to_ziw_cq(ibcq);

	/* The RDMA core does so before, but for a program's. */
	ziw_pre_destroy_cq(ibcq);
	cancel_work_sync(&cq->overflow_work);
	ziw_ring_free(&cq->ring);
	atomic_dec(&to_ziw_dev(ibcq->device)->nr_cq);
	return 0;
}
