// SPDX-License-Identifier: GPL-2.0
/*
 * Memory: registration, the STag table, the access check and the address walk.
 *
 * The index of an STag is chosen at random, so that a peer cannot guess the
 * STags of other regions (RFC 5042, 6.3.1).
 */
#include <linux/random.h>
#include <linux/rculist.h>
#include <rdma/ib_umem.h>
#include "odp.h"

#define STAG_MAX_INDEX	0xffffff

#define REMOTE_ACCESS	(IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE | \
			 IB_ACCESS_REMOTE_ATOMIC)
#define KNOWN_ACCESS	(IB_ACCESS_LOCAL_WRITE | REMOTE_ACCESS | IB_ACCESS_MW_BIND | \
			 IB_ZERO_BASED | IB_ACCESS_OPTIONAL)

/* --- lookup, in any context with bottom halves off --- */

/**
 * ziw_mr_lookup - the entry of the STag table that an STag names, whatever its key
 * @dev: device
 * @stag: STag
 *
 * Most have a slot to themselves: an xarray with indices at random is four nodes deep.
 *
 * Context: RCU held.
 * Return: the entry, or NULL.
 */
struct ziw_mr *ziw_mr_lookup(struct ziw_dev *dev, u32 stag)
{
	u32 index = ziw_stag_index(stag);
	struct ziw_mr *mr = READ_ONCE(dev->mr_slots[index % ZIW_MR_SLOTS]);

	return mr && mr->index == index ? mr : xa_load(&dev->mrs, index);
}

/* @qp: of a remote access; windows are for such only. */
static enum ziw_mr_error mr_allows(const struct ziw_mr *mr, const struct ib_pd *pd,
				   const struct ziw_qp *qp, u32 stag, int access,
				   u64 addr, u32 len)
{
	if (!mr->valid || mr->stag != stag || (!qp && ziw_mr_is_window(mr)))
		return ZIW_MR_INVALID_STAG;
	if (mr->ibmr.pd != pd ||
	    (mr->type == ZIW_MR_WINDOW2 && mr->owner != qp->serial))
		return ZIW_MR_NOT_ASSOCIATED;
	if ((mr->access & access) != access)
		return ZIW_MR_ACCESS;
	if (addr + len < addr)
		return ZIW_MR_TO_WRAP;
	if (mr->type == ZIW_MR_DMA)
		return ZIW_MR_OK;
	if (addr < mr->iova || addr - mr->iova > mr->length ||
	    len > mr->length - (addr - mr->iova))
		return ZIW_MR_BOUNDS;
	return ZIW_MR_OK;
}

/* What the local DMA key names: all memory, for kernel consumers only. */
static struct ziw_mr local_dma = {
	.type	= ZIW_MR_DMA,
	.lock	= __RW_LOCK_UNLOCKED(local_dma.lock),
	.valid	= true,
};

/**
 * ziw_mr_find - take a region if an access is allowed, be its pages there or not
 * @pd: protection domain
 * @qp: queue pair, if the access is the peer's
 * @stag: as it names the region
 * @access: enum ib_access_flags that it must have
 * @addr: first address
 * @len: bytes
 * @err: why not
 *
 * Context: as ziw_mr_get().
 * Return: the region, or NULL.
 */
struct ziw_mr *ziw_mr_find(struct ib_pd *pd, const struct ziw_qp *qp, u32 stag,
			   int access, u64 addr, u32 len, enum ziw_mr_error *err)
{
	struct ziw_dev *dev = to_ziw_dev(pd->device);
	struct ziw_mr *mr;

	rcu_read_lock();
	mr = ziw_mr_lookup(dev, stag);
	if (!mr) {
		rcu_read_unlock();
		*err = ZIW_MR_INVALID_STAG;
		return NULL;
	}
	/* RCU keeps the memory until the lock tells whether the STag is still valid. */
	read_lock(&mr->lock);
	*err = mr_allows(mr, pd, qp, stag, access, addr, len);
	if (*err != ZIW_MR_OK) {
		read_unlock(&mr->lock);
		mr = NULL;
	} else {
		/* It stays held, for ziw_mr_put(); sparse cannot follow that. */
		__release(&mr->lock);
	}
	rcu_read_unlock();
	return mr;
}

/* Likewise, for an access that is made now. */
static struct ziw_mr *mr_find_present(struct ib_pd *pd, const struct ziw_qp *qp, u32 stag,
				      int access, u64 addr, u32 len,
				      enum ziw_mr_error *err)
{
	struct ziw_mr *mr = ziw_mr_find(pd, qp, stag, access, addr, len, err);

	if (!mr || !mr->odp || ziw_odp_present(mr, addr, len, access & ZIW_WRITE_ACCESS))
		return mr;
	ziw_mr_put(mr);
	*err = ZIW_MR_FAULT;
	return NULL;
}

/**
 * ziw_mr_get - take a region for a local access, if the access is allowed
 * @pd: of the QP
 * @stag: as the WQE names it
 * @kernel: the QP is a kernel consumer's: STag 0 is the local DMA key
 * @access: enum ib_access_flags that it must have; 0 to read
 * @addr: first address
 * @len: bytes
 * @err: why not; ZIW_MR_FAULT: nothing but pages is missing, see ziw_fault_wait()
 *
 * Context: bottom halves off. What is returned must be given to ziw_mr_put()
 * before they are on again; until then nobody can invalidate it.
 * Return: the region, or NULL.
 */
struct ziw_mr *ziw_mr_get(struct ib_pd *pd, u32 stag, bool kernel, int access,
			  u64 addr, u32 len, enum ziw_mr_error *err)
{
	if (!stag && kernel)
		return &local_dma;
	return mr_find_present(pd, NULL, stag, access, addr, len, err);
}
EXPORT_SYMBOL_IF_KUNIT(ziw_mr_get);

/**
 * ziw_mr_get_remote - take a region or window for an access of the peer, if the
 * access is allowed
 * @qp: queue pair
 * @stag: as the peer names it
 * @access: enum ib_access_flags that it must have
 * @addr: first address
 * @len: bytes
 * @err: why not
 *
 * Context: as ziw_mr_get().
 * Return: the region, or NULL.
 */
struct ziw_mr *ziw_mr_get_remote(struct ziw_qp *qp, u32 stag, int access, u64 addr,
				 u32 len, enum ziw_mr_error *err)
{
	return mr_find_present(qp->ibqp.pd, qp, stag, access, addr, len, err);
}
EXPORT_SYMBOL_IF_KUNIT(ziw_mr_get_remote);

/**
 * ziw_mr_put - end an access
 * @mr: from ziw_mr_get()
 */
void ziw_mr_put(struct ziw_mr *mr)
{
	if (mr == &local_dma)
		return;
	__acquire(&mr->lock);
	read_unlock(&mr->lock);
}
EXPORT_SYMBOL_IF_KUNIT(ziw_mr_put);

/* Where byte @off of a region lies whose pieces have any length. */
static void *gaps_range(const struct ziw_mr *mr, u64 off, u32 *len)
{
	u32 low = 0, high = mr->nr_blocks, mid;

	/* The last piece that does not begin behind it. */
	while (high - low > 1) {
		mid = low + (high - low) / 2;
		if (mr->starts[mid] <= off)
			low = mid;
		else
			high = mid;
	}
	*len = min_t(u64, *len, mr->starts[low + 1] - off);
	return (void *)(uintptr_t)(mr->blocks[low] + off - mr->starts[low]);
}

/**
 * ziw_mr_range - where an address of a region lies in kernel memory
 * @mr: from ziw_mr_get() or ziw_mr_get_remote(), which checked the address
 * @addr: address in the region
 * @len: bytes wanted; reduced to what is contiguous from there
 *
 * Return: the kernel address, or NULL if a DMA region has no memory there.
 */
void *ziw_mr_range(const struct ziw_mr *mr, u64 addr, u32 *len)
{
	u64 off, block, start, n, *at, *last;

	if (mr->type == ZIW_MR_DMA) {
		void *va = (void *)(uintptr_t)addr;

		/*
		 * The ULP is trusted with its own addresses, but a peer that
		 * was given a DMA region's STag names any it likes.
		 */
		if (mr != &local_dma) {
			if (!virt_addr_valid(va))
				return NULL;
			*len = min_t(u32, *len, PAGE_SIZE - offset_in_page(va));
		}
		return va;
	}

	if (ziw_mr_is_window(mr)) {
		addr = addr - mr->iova + mr->base;
		mr = mr->region;
	}
	if (mr->odp)
		return ziw_odp_range(mr, addr, len);
	if (mr->starts)
		return gaps_range(mr, addr - mr->iova, len);
	block = 1ULL << mr->block_shift;
	off = addr - mr->iova + mr->offset;
	at = &mr->blocks[off >> mr->block_shift];
	last = &mr->blocks[mr->nr_blocks - 1];
	start = *at + (off & (block - 1));
	/* Blocks that lie next to each other are one piece. */
	for (n = block - (off & (block - 1)); n < *len && at < last && at[1] == *at + block; at++)
		n += block;
	*len = min_t(u64, *len, n);
	return (void *)(uintptr_t)start;
}
EXPORT_SYMBOL_IF_KUNIT(ziw_mr_range);

/**
 * ziw_mr_check - ask about an access of the peer without making it
 * @qp: queue pair
 * @stag: as the peer names it
 * @access: enum ib_access_flags that it must have
 * @addr: first address
 * @len: bytes
 *
 * Context: bottom halves off.
 * Return: ZIW_MR_OK, or why not.
 */
enum ziw_mr_error ziw_mr_check(struct ziw_qp *qp, u32 stag, int access, u64 addr,
			       u32 len)
{
	enum ziw_mr_error err;
	struct ziw_mr *mr = ziw_mr_find(qp->ibqp.pd, qp, stag, access, addr, len, &err);

	if (!mr)
		return err;
	ziw_mr_put(mr);
	return ZIW_MR_OK;
}
EXPORT_SYMBOL_IF_KUNIT(ziw_mr_check);

/**
 * ziw_mr_atomic - carry out an Atomic Operation
 * @qp: queue pair
 * @req: with a known operation
 * @value: filled: what was in memory before
 *
 * Atomic against every other access to the eight bytes, this host's included.
 *
 * Context: bottom halves off.
 * Return: ZIW_MR_OK; or why not, and the memory is as it was.
 */
enum ziw_mr_error ziw_mr_atomic(struct ziw_qp *qp, const struct ziw_atomic_req *req,
				u64 *value)
{
	enum ziw_mr_error err;
	u32 len = sizeof(u64);
	struct ziw_mr *mr;
	u64 *va, old;

	mr = ziw_mr_get_remote(qp, req->stag, IB_ACCESS_REMOTE_ATOMIC, req->to, len,
			       &err);
	if (!mr)
		return err;
	va = ziw_mr_range(mr, req->to, &len);
	if (!va) {
		err = ZIW_MR_BOUNDS;
	} else if (len < sizeof(u64) || !IS_ALIGNED((unsigned long)va, sizeof(u64))) {
		/*
		 * RFC 7306, 5.1: it is the memory that has to be aligned, not the TO; and a
		 * piece of a region with gaps may end anywhere.
		 */
		err = ZIW_MR_ALIGNMENT;
	} else {
		old = READ_ONCE(*va);
		do {
			*value = old;
			old = cmpxchg64(va, old, ziw_atomic_result(req, old));
		} while (old != *value);
	}
	ziw_mr_put(mr);
	return err;
}
EXPORT_SYMBOL_IF_KUNIT(ziw_mr_atomic);

/* Whether @mr can be invalidated. Its lock is held. */
static bool mr_may_invalidate(const struct ziw_mr *mr, const struct ib_pd *pd,
			      const struct ziw_qp *qp, bool remote)
{
	if (mr->ibmr.pd != pd)
		return false;
	if (mr->type == ZIW_MR_WINDOW2)
		return qp && mr->owner == qp->serial;
	return mr->type == ZIW_MR_FAST && (!remote || mr->access & REMOTE_ACCESS);
}

static int mr_invalidate(struct ib_pd *pd, const struct ziw_qp *qp, u32 stag, bool remote)
{
	struct ziw_dev *dev = to_ziw_dev(pd->device);
	struct ziw_mr *mr;
	int ret = 0;

	rcu_read_lock();
	mr = ziw_mr_lookup(dev, stag);
	if (!mr) {
		rcu_read_unlock();
		return -EINVAL;
	}
	write_lock(&mr->lock);
	if (!mr->valid || mr->stag != stag)
		ret = -EINVAL;
	else if (!mr_may_invalidate(mr, pd, qp, remote))
		ret = -EPERM;
	else if (ziw_mr_is_window(mr))
		ziw_window_unbind(mr);
	else
		ziw_mr_set_valid(mr, false);
	write_unlock(&mr->lock);
	rcu_read_unlock();
	return ret;
}

/**
 * ziw_mr_invalidate - make a region's STag invalid until it is registered anew
 * @pd: of the QP that asks
 * @stag: STag
 * @remote: the peer asks: the region must allow it some access
 *
 * Waits, without sleeping, for accesses under way.
 *
 * Context: bottom halves off.
 * Return: 0; -EINVAL if there is no such valid STag; -EPERM if it cannot be
 * invalidated: another PD's, or of a kind that is deregistered instead.
 */
int ziw_mr_invalidate(struct ib_pd *pd, u32 stag, bool remote)
{
	return mr_invalidate(pd, NULL, stag, remote);
}
EXPORT_SYMBOL_IF_KUNIT(ziw_mr_invalidate);

/**
 * ziw_mr_invalidate_by - likewise, of a region or of a window of type 2
 * @qp: queue pair that asks
 * @stag: STag
 * @remote: the peer asks
 *
 * Context: bottom halves off.
 * Return: as ziw_mr_invalidate().
 */
int ziw_mr_invalidate_by(struct ziw_qp *qp, u32 stag, bool remote)
{
	return mr_invalidate(qp->ibqp.pd, qp, stag, remote);
}
EXPORT_SYMBOL_IF_KUNIT(ziw_mr_invalidate_by);

/* --- registration, process context --- */

/* A window's lock is held while its region's is taken. */
static struct lock_class_key window_lock_key;

/**
 * ziw_mr_alloc - make an entry of the STag table, not yet valid
 * @pd: protection domain
 * @type: of the entry
 * @max_blocks: to allocate room for
 *
 * Context: process.
 * Return: the entry, or an ERR_PTR: -ENOMEM.
 */
struct ziw_mr *ziw_mr_alloc(struct ib_pd *pd, enum ziw_mr_type type,
			    u32 max_blocks)
{
	struct ziw_dev *dev = to_ziw_dev(pd->device);
	struct ziw_mr *mr;
	u32 index;
	int err;

	if (!ziw_take(&dev->nr_mr, ZIW_MAX_MR))
		return ERR_PTR(-ENOMEM);
	mr = kzalloc(sizeof(*mr), GFP_KERNEL);
	if (!mr) {
		err = -ENOMEM;
		goto err_count;
	}
	mr->dev = dev;
	mr->type = type;
	mr->max_blocks = max_blocks;
	mr->ibmr.pd = pd;
	rwlock_init(&mr->lock);
	if (ziw_mr_is_window(mr))
		lockdep_set_class(&mr->lock, &window_lock_key);
	if (max_blocks) {
		mr->blocks = kvcalloc(max_blocks, sizeof(*mr->blocks), GFP_KERNEL);
		if (!mr->blocks) {
			err = -ENOMEM;
			goto err_free;
		}
	}
	if (type == ZIW_MR_FAST) {
		mr->next_blocks = kvcalloc(max_blocks, sizeof(*mr->next_blocks), GFP_KERNEL);
		if (!mr->next_blocks) {
			err = -ENOMEM;
			goto err_blocks;
		}
	}

	/* Index 0 would let STag 0 exist, which names the local DMA region. */
	do {
		index = get_random_u32() & STAG_MAX_INDEX;
		err = index ? xa_insert(&dev->mrs, index, mr, GFP_KERNEL) : -EBUSY;
	} while (err == -EBUSY);
	if (err)
		goto err_next_blocks;

	mr->index = index;
	mr->stag = index << ZIW_STAG_KEY_BITS | (get_random_u32() & 0xff);
	mr->ibmr.lkey = mr->stag;
	mr->ibmr.rkey = mr->stag;
	/* Its barrier: whoever finds the entry there finds it whole. */
	cmpxchg(&dev->mr_slots[index % ZIW_MR_SLOTS], NULL, mr);
	ziw_live_add(ZIW_LIVE_MR, 1);
	return mr;

err_next_blocks:
	kvfree(mr->next_blocks);
err_blocks:
	kvfree(mr->blocks);
err_free:
	kfree(mr);
err_count:
	atomic_dec(&dev->nr_mr);
	return ERR_PTR(err);
}

/* Let a region's STag be used. */
static void mr_publish(struct ziw_mr *mr)
{
	write_lock_bh(&mr->lock);
	ziw_mr_set_valid(mr, true);
	write_unlock_bh(&mr->lock);
}

/**
 * ziw_mr_publish_memory - let the STag of registered memory be used
 * @mr: region that has its memory
 * @virt_addr: address by which it is named
 * @length: bytes
 * @access: enum ib_access_flags
 *
 * Context: process.
 * Return: the region.
 */
struct ib_mr *ziw_mr_publish_memory(struct ziw_mr *mr, u64 virt_addr, u64 length, int access)
{
	mr->iova = access & IB_ZERO_BASED ? 0 : virt_addr;
	mr->length = length;
	mr->access = access;
	mr_publish(mr);
	return &mr->ibmr;
}

static s64 pinned_bytes(struct ib_umem *umem)
{
	return (s64)ib_umem_num_pages(umem) << PAGE_SHIFT;
}

static void mr_free_rcu(struct rcu_head *rcu)
{
	struct ziw_mr *mr = container_of(rcu, struct ziw_mr, rcu);

	kvfree(mr->next_starts);
	kvfree(mr->next_blocks);
	kvfree(mr->starts);
	kvfree(mr->blocks);
	kfree(mr);
	ziw_live_add(ZIW_LIVE_MR, -1);
}

/**
 * ziw_mr_free - free the memory of a region
 * @mr: region; out of the STag table
 */
void ziw_mr_free(struct ziw_mr *mr)
{
	call_rcu(&mr->rcu, mr_free_rcu);
}

/**
 * ziw_mr_retire - free an entry of the STag table
 * @mr: entry, not valid any more; nothing looks at its memory
 *
 * Context: process.
 */
void ziw_mr_retire(struct ziw_mr *mr)
{
	/* If the slot is its own; like the xarray, before the grace period that frees it. */
	cmpxchg(&mr->dev->mr_slots[mr->index % ZIW_MR_SLOTS], mr, NULL);
	xa_erase(&mr->dev->mrs, mr->index);
	atomic_dec(&mr->dev->nr_mr);
	if (mr->odp)
		ziw_odp_put(mr->odp);
	else
		ziw_mr_free(mr);
}

/**
 * ziw_dereg_mr - verb: end a region
 * @ibmr: region
 * @udata: not used
 *
 * When this returns nothing of the device touches the memory any more.
 *
 * Context: process.
 * Return: 0, or -EBUSY while memory windows are bound to it.
 */
int ziw_dereg_mr(struct ib_mr *ibmr, struct ib_udata *udata)
{
	struct ziw_mr *mr = to_ziw_mr(ibmr);
	bool busy;

	write_lock_bh(&mr->lock);
	/* Binding counts under this lock. */
	busy = atomic_read(&mr->windows);
	if (!busy)
		ziw_mr_set_valid(mr, false);
	write_unlock_bh(&mr->lock);
	if (busy)
		return -EBUSY;
	if (mr->umem) {
		atomic64_sub(pinned_bytes(mr->umem), &mr->dev->pinned_bytes);
		ib_umem_release(mr->umem);
	}
	if (mr->dmabuf)
		ziw_dmabuf_release(mr->dmabuf);
	ziw_mr_retire(mr);
	return 0;
}

/**
 * ziw_get_dma_mr - verb: a region of all kernel memory
 * @pd: protection domain
 * @access: enum ib_access_flags
 *
 * Context: process.
 * Return: the region, or an ERR_PTR.
 */
struct ib_mr *ziw_get_dma_mr(struct ib_pd *pd, int access)
{
	struct ziw_mr *mr = ziw_mr_alloc(pd, ZIW_MR_DMA, 0);

	if (IS_ERR(mr))
		return ERR_CAST(mr);
	mr->access = access;
	mr_publish(mr);
	return &mr->ibmr;
}

/**
 * struct user_memory - pinned memory of a process, as a region has it
 * @umem: the pages
 * @blocks: their kernel addresses
 * @nr_blocks: in @blocks
 * @block_shift: log2 of the block size
 * @offset: where in the first block the memory begins
 */
struct user_memory {
	struct ib_umem	*umem;
	u64		*blocks;
	u32		nr_blocks;
	u8		block_shift;
	u64		offset;
};

static int fill_blocks(struct user_memory *mem, unsigned long block_size)
{
	u32 num = ib_umem_num_dma_blocks(mem->umem, block_size);
	struct ib_block_iter iter;

	mem->blocks = kvcalloc(num, sizeof(*mem->blocks), GFP_KERNEL);
	if (!mem->blocks)
		return -ENOMEM;
	rdma_umem_for_each_dma_block(mem->umem, &iter, block_size) {
		if (mem->nr_blocks == num)
			return -EFAULT;
		mem->blocks[mem->nr_blocks++] = rdma_block_iter_dma_address(&iter);
	}
	return mem->nr_blocks == num ? 0 : -EFAULT;
}

static void unpin(struct user_memory *mem)
{
	kvfree(mem->blocks);
	ib_umem_release(mem->umem);
}

static int pin(struct user_memory *mem, struct ib_device *ibdev, u64 start, u64 length,
	       int access)
{
	unsigned long block_size;
	int err = -EINVAL;

	memset(mem, 0, sizeof(*mem));
	mem->umem = ziw_umem_get(ibdev, start, length, access);
	if (IS_ERR(mem->umem))
		return PTR_ERR(mem->umem);

	/* Blocks as large as the memory is contiguous. */
	block_size = ib_umem_find_best_pgsz(mem->umem, GENMASK_ULL(30, PAGE_SHIFT), start);
	if (block_size)
		err = fill_blocks(mem, block_size);
	if (err) {
		unpin(mem);
		return err;
	}
	mem->block_shift = ilog2(block_size);
	mem->offset = start & (block_size - 1);
	return 0;
}

/* Give @mem to the region; what it had comes back in its place. mr->lock held. */
static void swap_memory(struct ziw_mr *mr, struct user_memory *mem)
{
	struct user_memory old = {
		.umem	= mr->umem,
		.blocks	= mr->blocks,
	};

	mr->umem = mem->umem;
	mr->blocks = mem->blocks;
	mr->nr_blocks = mem->nr_blocks;
	mr->max_blocks = mem->nr_blocks;
	mr->block_shift = mem->block_shift;
	mr->offset = mem->offset;
	*mem = old;
}

/**
 * ziw_mr_check_registration - whether memory can be registered so
 * @length: bytes
 * @virt_addr: address by which it is named
 * @access: enum ib_access_flags
 * @dmah: DMA handle, NULL for none
 *
 * Return: 0; -EOPNOTSUPP for access flags that ziw does not know and for a DMA
 * handle, -EINVAL for addresses that wrap.
 */
int ziw_mr_check_registration(u64 length, u64 virt_addr, int access,
			      const struct ib_dmah *dmah)
{
	if (dmah || access & ~KNOWN_ACCESS)
		return -EOPNOTSUPP;
	return virt_addr + length < virt_addr ? -EINVAL : 0;
}

/**
 * ziw_reg_user_mr - verb: register memory of a process
 * @pd: protection domain
 * @start: address in the process
 * @length: bytes
 * @virt_addr: address by which work requests and peers name @start
 * @access: enum ib_access_flags
 * @udata: of the command
 *
 * Context: process.
 * Return: the region, or an ERR_PTR: -EOPNOTSUPP for access flags that ziw
 * does not know, else what pinning the memory gave.
 */
struct ib_mr *ziw_reg_user_mr(struct ib_pd *pd, u64 start, u64 length,
			      u64 virt_addr, int access, ZIW_DMAH_ARG
			      struct ib_udata *udata)
{
	struct user_memory mem;
	struct ziw_mr *mr;
	int err;

	err = ziw_mr_check_registration(length, virt_addr, access & ~IB_ACCESS_ON_DEMAND,
					ZIW_DMAH);
	if (err)
		return ERR_PTR(err);
	if (access & IB_ACCESS_ON_DEMAND)
		return ziw_odp_register(pd, start, length, virt_addr, access);
	err = pin(&mem, pd->device, start, length, access);
	if (err)
		return ERR_PTR(err);
	mr = ziw_mr_alloc(pd, ZIW_MR_USER, 0);
	if (IS_ERR(mr)) {
		unpin(&mem);
		return ERR_CAST(mr);
	}
	atomic64_add(pinned_bytes(mem.umem), &mr->dev->pinned_bytes);
	swap_memory(mr, &mem);
	return ziw_mr_publish_memory(mr, virt_addr, length, access);
}

/* Whether the pages have to be pinned anew for rights that they lack so far. */
static bool needs_writable(const struct ziw_mr *mr, int access)
{
	return ib_access_writable(access) && !mr->umem->writable;
}

/**
 * ziw_rereg_user_mr - verb: change a region
 * @ibmr: region
 * @flags: IB_MR_REREG_*: what to change
 * @start: as in ziw_reg_user_mr(), with IB_MR_REREG_TRANS
 * @length: likewise
 * @virt_addr: likewise
 * @access: with IB_MR_REREG_ACCESS
 * @pd: with IB_MR_REREG_PD
 * @udata: not used
 *
 * Not for a dma-buf. The STag stays. An access of the peer sees the region as it
 * was or as it becomes; on error it is as it was.
 *
 * Context: process.
 * Return: NULL, or an ERR_PTR: -EBUSY while memory windows are bound to it, -EINVAL if it
 * is the memory of another process and would have to be pinned anew, else as
 * ziw_reg_user_mr().
 */
struct ib_mr *ziw_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length,
				u64 virt_addr, int access, struct ib_pd *pd,
				struct ib_udata *udata)
{
	struct ziw_mr *mr = to_ziw_mr(ibmr);
	bool translate = flags & IB_MR_REREG_TRANS;
	struct user_memory mem = {};
	s64 bytes;
	int err;

	if (!mr->umem || flags & ~IB_MR_REREG_SUPPORTED)
		return ERR_PTR(-EOPNOTSUPP);
	/* The RDMA core lets one caller at a time change or end a region. */
	if (!(flags & IB_MR_REREG_ACCESS))
		access = mr->access;
	if (!translate) {
		start = mr->umem->address;
		length = mr->length;
		virt_addr = mr->iova;
	}
	err = ziw_mr_check_registration(length, virt_addr, access, NULL);
	if (!err && (translate || needs_writable(mr, access))) {
		/* In a process that has imported the region, something else is at its address. */
		if (translate || mr->umem->owning_mm == current->mm)
			err = pin(&mem, ibmr->device, start, length, access);
		else
			err = -EINVAL;
	}
	if (err)
		return ERR_PTR(err);
	bytes = mem.umem ? pinned_bytes(mem.umem) - pinned_bytes(mr->umem) : 0;

	write_lock_bh(&mr->lock);
	if (atomic_read(&mr->windows)) {
		err = -EBUSY;
	} else {
		if (mem.umem)
			swap_memory(mr, &mem);
		mr->iova = access & IB_ZERO_BASED ? 0 : virt_addr;
		mr->length = length;
		mr->access = access;
		if (flags & IB_MR_REREG_PD)
			mr->ibmr.pd = pd;
	}
	write_unlock_bh(&mr->lock);
	if (!err)
		atomic64_add(bytes, &mr->dev->pinned_bytes);
	if (mem.umem)
		unpin(&mem);
	return err ? ERR_PTR(err) : NULL;
}
