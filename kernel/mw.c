// SPDX-License-Identifier: GPL-2.0
/*
 * Memory windows: STags that give a peer part of a region, bound and unbound by
 * work requests.
 *
 * A window has an entry in the STag table like a region. While it is bound it
 * counts in its region, which can then neither be deregistered nor changed: who
 * holds the window's lock may use the region's memory without the region's lock.
 * Windows of type 2 belong to the queue pair that bound them.
 */
#include <rdma/ib_umem.h>
#include "ziw.h"

#define WINDOW_ACCESS	(IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE | \
			 IB_ACCESS_REMOTE_ATOMIC | IB_ZERO_BASED)

/**
 * ziw_window_unbind - the window gives no access any more
 * @window: of type ZIW_MR_WINDOW1 or ZIW_MR_WINDOW2; its lock held for writing
 */
void ziw_window_unbind(struct ziw_mr *window)
{
	lockdep_assert_held_write(&window->lock);
	if (window->region)
		atomic_dec(&window->region->windows);
	window->region = NULL;
	window->valid = false;
}

/**
 * ziw_alloc_mw - verb: allocate a memory window
 * @ibmw: allocated by the RDMA core, with PD and type
 * @udata: not used
 *
 * Context: process.
 * Return: 0, -EOPNOTSUPP for an unknown type, -ENOMEM.
 */
int ziw_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata)
{
	struct ziw_mw *mw = to_ziw_mw(ibmw);
	struct ziw_mr *window;

	if (ibmw->type != IB_MW_TYPE_1 && ibmw->type != IB_MW_TYPE_2)
		return -EOPNOTSUPP;
	window = ziw_mr_alloc(ibmw->pd, ibmw->type == IB_MW_TYPE_1 ? ZIW_MR_WINDOW1 :
								     ZIW_MR_WINDOW2, 0);
	if (IS_ERR(window))
		return PTR_ERR(window);
	mw->window = window;
	ibmw->rkey = window->stag;
	return 0;
}

/**
 * ziw_dealloc_mw - verb: end a memory window
 * @ibmw: memory window, bound or not
 *
 * Context: process.
 * Return: 0.
 */
int ziw_dealloc_mw(struct ib_mw *ibmw)
{
	struct ziw_mr *window = to_ziw_mw(ibmw)->window;

	write_lock_bh(&window->lock);
	ziw_window_unbind(window);
	/* A bind may have found it already: it is in no protection domain any more. */
	window->ibmr.pd = NULL;
	write_unlock_bh(&window->lock);
	ziw_mr_retire(window);
	return 0;
}

/* Whether @region allows a window of @bind on it. Its lock is held for reading. */
static bool region_allows(const struct ziw_mr *region, const struct ib_pd *pd,
			  const struct ziw_bind *bind)
{
	int remote = bind->access & (IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC);
	u64 off = bind->addr - region->iova;

	if (!region->valid || region->type != ZIW_MR_USER ||
	    region->stag != bind->region || region->ibmr.pd != pd)
		return false;
	if (!(region->access & IB_ACCESS_MW_BIND) ||
	    (remote && !(region->access & IB_ACCESS_LOCAL_WRITE)))
		return false;
	return bind->addr >= region->iova && off <= region->length &&
	       bind->length <= region->length - off;
}

static int bind_locked(struct ziw_qp *qp, struct ziw_mr *window,
		       struct ziw_mr *region, const struct ziw_bind *bind)
{
	struct ib_pd *pd = qp->ibqp.pd;
	bool type2 = window->type == ZIW_MR_WINDOW2;
	bool ok;

	/* Its index is what names a window here; the key is for the peer to know. */
	if (window->ibmr.pd != pd)
		return -EINVAL;
	/* One of type 2 has to be invalidated before it is bound anew. */
	if (type2 && window->valid)
		return -EINVAL;
	if (!bind->length) {
		ziw_window_unbind(window);
		window->stag = bind->key;
		return 0;
	}
	if (!region)
		return -EINVAL;

	read_lock(&region->lock);
	ok = region_allows(region, pd, bind);
	if (ok)
		atomic_inc(&region->windows);
	read_unlock(&region->lock);
	if (!ok)
		return -EINVAL;

	ziw_window_unbind(window);
	window->region = region;
	window->stag = bind->key;
	window->access = bind->access;
	window->base = bind->addr;
	window->iova = bind->access & IB_ZERO_BASED ? 0 : bind->addr;
	window->length = bind->length;
	window->owner = type2 ? qp->serial : 0;
	window->valid = true;
	return 0;
}

/**
 * ziw_window_bind - carry out a bind
 * @qp: queue pair that it was posted to
 * @bind: what the work request says
 *
 * Context: bottom halves off.
 * Return: 0; -EINVAL if the window, the region or the rights do not allow it.
 */
int ziw_window_bind(struct ziw_qp *qp, const struct ziw_bind *bind)
{
	struct ziw_dev *dev = qp->dev;
	struct ziw_mr *window, *region;
	int err = -EINVAL;

	if (ziw_stag_index(bind->key) != ziw_stag_index(bind->window) ||
	    bind->access & ~WINDOW_ACCESS)
		return err;
	rcu_read_lock();
	window = ziw_mr_lookup(dev, bind->window);
	region = ziw_mr_lookup(dev, bind->region);
	/*
	 * A window's lock is held when a region's is taken, so the latter must not
	 * be another window's: two binds could name each other's.
	 */
	if (region && ziw_mr_is_window(region))
		region = NULL;
	if (window && ziw_mr_is_window(window)) {
		write_lock(&window->lock);
		err = bind_locked(qp, window, region, bind);
		write_unlock(&window->lock);
	}
	rcu_read_unlock();
	return err;
}
EXPORT_SYMBOL_IF_KUNIT(ziw_window_bind);
