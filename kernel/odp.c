// SPDX-License-Identifier: GPL-2.0
/*
 * On-demand paging: regions whose pages are not pinned.
 *
 * A region has a table of the pages that are known to be where its addresses say.
 * The kernel tells when that ends, before it does anything else with them
 * (mmu_interval_notifier); the entry is removed with mr->lock held for writing, so
 * nobody is copying then. While mr->lock is held for reading, a page in the table is
 * mapped in the process, and needs no reference.
 *
 * What is not in the table cannot be brought in where the engines run. The engine
 * stops where it is, a work item brings the pages in, and it goes on from there: the
 * FPDU at hand is looked at as if for the first time, whatever part of it was placed.
 */
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include "conn.h"
#include "inspect.h"
#include "odp.h"

/* Apart from ziw_wq: it may take a file system, or a process, to bring in a page. */
struct workqueue_struct *ziw_fault_wq;

#if IS_ENABLED(CONFIG_MMU_NOTIFIER)

/* In the low bits of an entry, whose others are the page's kernel address. */
#define ODP_PRESENT	0x1
#define ODP_WRITE	0x2	/* may be written to, and perhaps was */
#define ODP_DIRTY	0x4	/* not present any more; was writable */

/* Entries removed with the lock held: some microseconds. */
#define CHUNK		4096

/* Pages brought in at a time, while the next ones are still away. */
#define BATCH		16

/**
 * struct ziw_odp - the pages of a region
 * @ref: one of the region, one of each fault under way
 * @mr: region; its memory is freed after this
 * @notifier: of the range of addresses
 * @start: first address, of a page
 * @nr_pages: in @pages
 * @pages: the table; guarded by mr->lock
 */
struct ziw_odp {
	struct kref			ref;
	struct ziw_mr			*mr;
	struct mmu_interval_notifier	notifier;
	unsigned long			start;
	unsigned long			nr_pages;
	unsigned long			*pages;
};

static struct page *entry_page(unsigned long entry)
{
	return virt_to_page((void *)(entry & PAGE_MASK));
}

/* Index of the page that holds an address of the region. */
static unsigned long odp_index(const struct ziw_mr *mr, u64 addr)
{
	return (addr - mr->iova + mr->offset) >> PAGE_SHIFT;
}

static void invalidate_chunk(struct ziw_odp *odp, unsigned long first, unsigned long last,
			     unsigned long seq)
{
	unsigned long i;

	write_lock_bh(&odp->mr->lock);
	mmu_interval_set_seq(&odp->notifier, seq);
	/* Another invalidation may be about to tell of a page that was written. */
	for (i = first; i <= last; i++)
		odp->pages[i] = odp->pages[i] & (ODP_WRITE | ODP_DIRTY) ?
				(odp->pages[i] & PAGE_MASK) | ODP_DIRTY : 0;
	write_unlock_bh(&odp->mr->lock);
}

static bool odp_invalidate(struct mmu_interval_notifier *notifier,
			   const struct mmu_notifier_range *range, unsigned long seq)
{
	struct ziw_odp *odp = container_of(notifier, struct ziw_odp, notifier);
	unsigned long end = odp->start + (odp->nr_pages << PAGE_SHIFT);
	unsigned long first, last, i;

	/* To tell a file system of dirty pages may sleep. */
	if (!mmu_notifier_range_blockable(range))
		return false;
	first = (max(range->start, odp->start) - odp->start) >> PAGE_SHIFT;
	last = (min(range->end, end) - 1 - odp->start) >> PAGE_SHIFT;

	for (i = first; i <= last; i += CHUNK)
		invalidate_chunk(odp, i, min(last, i + CHUNK - 1), seq);

	/* Until this returns the pages stay mapped, and no entry is made. */
	for (i = first; i <= last; i++) {
		unsigned long entry = READ_ONCE(odp->pages[i]);

		if (entry & ODP_DIRTY) {
			set_page_dirty(entry_page(entry));
			WRITE_ONCE(odp->pages[i], 0);
		}
	}
	return true;
}

static const struct mmu_interval_notifier_ops odp_notifier_ops = {
	.invalidate = odp_invalidate,
};

/* Empty the table, and tell of what may have been written. */
static void odp_forget(struct ziw_odp *odp)
{
	unsigned long i, entry;
	struct page *page;

	for (i = 0; i < odp->nr_pages; i++) {
		if (!READ_ONCE(odp->pages[i]))
			continue;
		page = NULL;
		write_lock_bh(&odp->mr->lock);
		entry = odp->pages[i];
		if (entry & ODP_WRITE) {
			/* Without the lock nothing else keeps it. */
			page = entry_page(entry);
			get_page(page);
		}
		if (!(entry & ODP_DIRTY))
			odp->pages[i] = 0;
		write_unlock_bh(&odp->mr->lock);
		if (page) {
			set_page_dirty_lock(page);
			put_page(page);
		}
		cond_resched();
	}
}

static void odp_release(struct kref *ref)
{
	struct ziw_odp *odp = container_of(ref, struct ziw_odp, ref);
	struct ziw_mr *mr = odp->mr;

	odp_forget(odp);
	mmu_interval_notifier_remove(&odp->notifier);
	kvfree(odp->pages);
	kfree(odp);
	ziw_mr_free(mr);
}

/**
 * ziw_odp_get - keep the table
 * @odp: of a region that was just found
 *
 * Context: any.
 */
void ziw_odp_get(struct ziw_odp *odp)
{
	kref_get(&odp->ref);
}

/**
 * ziw_odp_put - let go of it; the last one frees the region
 * @odp: pages of a region
 *
 * Context: process.
 */
void ziw_odp_put(struct ziw_odp *odp)
{
	kref_put(&odp->ref, odp_release);
}

/**
 * ziw_odp_present - whether all pages of an access are there
 * @mr: region, from a lookup
 * @addr: first address
 * @len: bytes
 * @write: they are to be written to
 *
 * Context: mr->lock held; what is said holds until it is given up.
 * Return: true if they are.
 */
bool ziw_odp_present(const struct ziw_mr *mr, u64 addr, u32 len, bool write)
{
	unsigned long want = ODP_PRESENT | (write ? ODP_WRITE : 0), i, last;

	if (!len)
		return true;
	last = odp_index(mr, addr + len - 1);
	for (i = odp_index(mr, addr); i <= last; i++)
		if ((mr->odp->pages[i] & want) != want)
			return false;
	return true;
}

/**
 * ziw_odp_range - where an address lies, see ziw_mr_range()
 * @mr: region; ziw_odp_present() was true
 * @addr: address in it
 * @len: bytes wanted; reduced to what is in the page
 *
 * Context: mr->lock held.
 * Return: the kernel address.
 */
void *ziw_odp_range(const struct ziw_mr *mr, u64 addr, u32 *len)
{
	u64 off = addr - mr->iova + mr->offset;
	unsigned long entry = mr->odp->pages[off >> PAGE_SHIFT];

	*len = min_t(u64, *len, PAGE_SIZE - offset_in_page(off));
	return (void *)(entry & PAGE_MASK) + offset_in_page(off);
}

/* Some pages, at most BATCH. Return: how many, or a negative error. */
static long odp_bring_some(struct ziw_odp *odp, struct mm_struct *mm, unsigned long index,
			   unsigned long num, bool write)
{
	unsigned long seq, flags = ODP_PRESENT | (write ? ODP_WRITE : 0);
	struct page *pages[BATCH];
	int locked = 1;
	long n, i;
	bool again;

	num = min_t(unsigned long, num, BATCH);
	do {
		seq = mmu_interval_read_begin(&odp->notifier);
		locked = 1;
		mmap_read_lock(mm);
		n = ziw_get_user_pages_remote(mm, odp->start + (index << PAGE_SHIFT), num,
					      write ? FOLL_WRITE : 0, pages, &locked);
		if (locked)
			mmap_read_unlock(mm);
		if (n <= 0)
			return n ? n : -EFAULT;

		/* The reference only lasts until the notifier answers for the page. */
		write_lock_bh(&odp->mr->lock);
		again = mmu_interval_read_retry(&odp->notifier, seq);
		for (i = 0; i < n && !again; i++)
			odp->pages[index + i] = (unsigned long)page_address(pages[i]) | flags;
		write_unlock_bh(&odp->mr->lock);
		for (i = 0; i < n; i++)
			put_page(pages[i]);
		cond_resched();
	} while (again);
	return n;
}

/**
 * ziw_odp_bring - bring pages in
 * @odp: pages of a region, with a reference
 * @addr: address in the region
 * @len: bytes; what is beyond the region is left out
 * @write: they are to be written to
 *
 * They may be away again when this returns.
 *
 * Context: process.
 * Return: 0, or a negative error if there is no such memory.
 */
int ziw_odp_bring(struct ziw_odp *odp, u64 addr, u64 len, bool write)
{
	struct mm_struct *mm = odp->notifier.mm;
	unsigned long i, last;
	long n = 0;

	if (!len)
		return 0;
	i = odp_index(odp->mr, addr);
	last = odp_index(odp->mr, addr + len - 1);
	if (last >= odp->nr_pages || i > last)
		return -EFAULT;
	/* The process may have gone, its context be another's that imported it. */
	if (!mmget_not_zero(mm))
		return -EFAULT;
	for (; i <= last; i += n) {
		n = odp_bring_some(odp, mm, i, last - i + 1, write);
		if (n < 0)
			break;
		if (fatal_signal_pending(current)) {
			n = -EINTR;
			break;
		}
	}
	/* It may be the last one, and what ends with the process wait for us. */
	mmput_async(mm);
	return n < 0 ? n : 0;
}

/**
 * ziw_odp_register - verb: register memory of a process that comes and goes
 * @pd: protection domain
 * @start: address in the process
 * @length: bytes
 * @virt_addr: address by which work requests and peers name @start
 * @access: enum ib_access_flags
 *
 * Memory windows are not for such a region: an access by one holds its own lock only.
 *
 * Context: process.
 * Return: the region, or an ERR_PTR: -EOPNOTSUPP for windows and for all of the
 * address space, -EINVAL for none of it, -ENOMEM.
 */
struct ib_mr *ziw_odp_register(struct ib_pd *pd, u64 start, u64 length, u64 virt_addr,
			       int access)
{
	struct ziw_odp *odp;
	struct ziw_mr *mr;
	int err = -ENOMEM;

	if (access & IB_ACCESS_MW_BIND || length == U64_MAX)
		return ERR_PTR(-EOPNOTSUPP);
	if (!length || start + length < start || PAGE_ALIGN(start + length) < start)
		return ERR_PTR(-EINVAL);
	odp = kzalloc(sizeof(*odp), GFP_KERNEL_ACCOUNT);
	if (!odp)
		return ERR_PTR(-ENOMEM);
	kref_init(&odp->ref);
	odp->start = start & PAGE_MASK;
	odp->nr_pages = (PAGE_ALIGN(start + length) - odp->start) >> PAGE_SHIFT;
	odp->pages = kvcalloc(odp->nr_pages, sizeof(*odp->pages),
			      GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!odp->pages)
		goto err_odp;
	mr = ziw_mr_alloc(pd, ZIW_MR_ODP, 0);
	if (IS_ERR(mr)) {
		err = PTR_ERR(mr);
		goto err_pages;
	}
	odp->mr = mr;
	mr->offset = start & ~PAGE_MASK;
	err = mmu_interval_notifier_insert(&odp->notifier, current->mm, odp->start,
					   odp->nr_pages << PAGE_SHIFT, &odp_notifier_ops);
	if (err)
		goto err_mr;
	mr->odp = odp;
	return ziw_mr_publish_memory(mr, virt_addr, length, access);

err_mr:
	ziw_mr_retire(mr);
err_pages:
	kvfree(odp->pages);
err_odp:
	kfree(odp);
	return ERR_PTR(err);
}

#endif

/* --- asked for by the program --- */

static int advise_one(struct ib_pd *pd, const struct ib_sge *sge, int access, bool bring)
{
	struct ziw_odp *odp = NULL;
	enum ziw_mr_error err;
	struct ziw_mr *mr;
	int ret = 0;

	local_bh_disable();
	mr = ziw_mr_find(pd, NULL, sge->lkey, access, sge->addr, sge->length, &err);
	if (mr) {
		odp = mr->odp;
		if (odp)
			ziw_odp_get(odp);
		ziw_mr_put(mr);
	}
	local_bh_enable();
	if (odp) {
		if (bring)
			ret = ziw_odp_bring(odp, sge->addr, sge->length, access);
		ziw_odp_put(odp);
	}
	if (mr)
		return ret;
	return err == ZIW_MR_NOT_ASSOCIATED || err == ZIW_MR_ACCESS ? -EPERM : -EFAULT;
}

/**
 * ziw_advise_mr - verb: have memory present before it is used
 * @pd: protection domain
 * @advice: to read or to write
 * @flags: IB_UVERBS_ADVISE_MR_FLAG_FLUSH: now
 * @sg_list: the memory
 * @num_sge: entries
 * @attrs: not used
 *
 * That is for regions that are paged; of others there is nothing to do but to check.
 *
 * Context: process.
 * Return: 0; -EFAULT for an STag or a range that does not exist, -EPERM if it is
 * not allowed, -EINVAL for unknown flags, -EOPNOTSUPP for an unknown advice.
 */
int ziw_advise_mr(struct ib_pd *pd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
		  struct ib_sge *sg_list, u32 num_sge,
		  struct uverbs_attr_bundle *attrs)
{
	bool write = advice == IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	int err = 0;
	u32 i;

	if (!write && advice != IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH &&
	    advice != IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return -EOPNOTSUPP;
	if (flags & ~IB_UVERBS_ADVISE_MR_FLAG_FLUSH)
		return -EINVAL;
	for (i = 0; i < num_sge && !err; i++)
		err = advise_one(pd, &sg_list[i], write ? IB_ACCESS_LOCAL_WRITE : 0,
				 advice != IB_UVERBS_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT);
	return err;
}

/* --- engines that wait --- */

static void fault_work(struct work_struct *work)
{
	struct ziw_fault *fault = container_of(work, struct ziw_fault, work);
	struct ziw_conn *conn = fault->conn;
	int err;

	err = ziw_odp_bring(fault->odp, fault->addr, fault->len, fault->write);
	ziw_odp_put(fault->odp);

	lock_sock(conn->sk);
	fault->pending = false;
	fault->failed = err;
	/* The connection may have ended meanwhile; then neither engine does anything. */
	if (fault == &conn->rx_fault && conn->qp) {
		local_bh_disable();
		ziw_rx_run(conn);
		local_bh_enable();
	}
	release_sock(conn->sk);
	ziw_conn_retry(conn, 0);
	ziw_conn_put(conn);
}

/**
 * ziw_fault_init - for a new connection
 * @fault: of one of its engines
 * @conn: connection
 */
void ziw_fault_init(struct ziw_fault *fault, struct ziw_conn *conn)
{
	INIT_WORK(&fault->work, fault_work);
	fault->conn = conn;
}

/**
 * ziw_fault_wait - an access met ZIW_MR_FAULT: have its pages brought in
 * @fault: of the engine; not pending
 * @remote: the access is the peer's
 * @stag: as it names the region
 * @access: enum ib_access_flags that it needs
 * @addr: first address
 * @len: bytes
 *
 * Context: bottom halves off, socket lock held, the connection attached.
 * Return: true if the engine has to stop until it is called again, which is after
 * this; false if there is no memory.
 */
bool ziw_fault_wait(struct ziw_fault *fault, bool remote, u32 stag, int access, u64 addr,
		    u32 len)
{
	struct ziw_qp *qp = fault->conn->qp;
	enum ziw_mr_error err;
	struct ziw_mr *mr;

	if (fault->failed && fault->addr == addr && fault->len == len) {
		fault->failed = false;
		return false;
	}
	mr = ziw_mr_find(qp->ibqp.pd, remote ? qp : NULL, stag, access, addr, len, &err);
	if (!mr)
		return false;
	if (!mr->odp) {
		ziw_mr_put(mr);
		return false;
	}
	fault->odp = mr->odp;
	ziw_odp_get(fault->odp);
	ziw_mr_put(mr);
	fault->addr = addr;
	fault->len = len;
	fault->write = access & ZIW_WRITE_ACCESS;
	fault->failed = false;
	fault->pending = true;
	ziw_stat_inc(qp->dev, ZIW_STAT_ODP_FAULTS);
	/* Attached, so it has the socket's reference. */
	ziw_conn_get(fault->conn);
	queue_work(ziw_fault_wq, &fault->work);
	return true;
}
