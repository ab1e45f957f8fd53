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
 *
 * The table of an explicit region is one part. That of an implicit one, all the
 * address space, is an xarray of parts, made by whoever brings the first page of one
 * in. A part is as large as the page table that the process has of the same
 * addresses, and goes when that does: with munmap(). It is nothing but a cache, so that
 * where there are too many, one in use may go as well.
 */
#include <linux/memcontrol.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/xarray.h>
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

/* A part of an implicit region: its table is a page. 2 MiB on x86-64. */
#define PART_PAGES	(PAGE_SIZE / sizeof(unsigned long))

/*
 * Parts of an implicit region. Their tables take 1/64 of the host's memory at most, and
 * cover at least eight times as much as it has. An access needs two.
 */
#define MIN_PARTS	64
#define MEMORY_SHARE	64

/**
 * struct odp_part - the table of a range of addresses of a region
 * @ref: one of the region's, while it is in; one of each fault that fills it; one
 *       while @emptied is in a list
 * @odp: what it is a part of, which outlives it
 * @notifier: of the range
 * @start: first address, of a page
 * @nr_pages: in @pages
 * @pages: the table; guarded by mr->lock
 * @in: the region's; nothing is added otherwise. Guarded by mr->lock
 * @emptied: in odp->emptied
 */
struct odp_part {
	struct kref			ref;
	struct ziw_odp			*odp;
	struct mmu_interval_notifier	notifier;
	unsigned long			start;
	unsigned long			nr_pages;
	unsigned long			*pages;
	bool				in;
	struct list_head		emptied;
};

/**
 * struct ziw_odp - the pages of a region
 * @ref: one of the region, one of each fault under way
 * @mr: region; its memory is freed after this
 * @mm: whose addresses they are; the structure is referenced, the memory is not
 * @whole: of an explicit region: its only part
 * @parts: of an implicit region: address by the size of a part -> odp_part; guarded by
 *         mr->lock, like what follows
 * @nr_parts: in @parts
 * @hand: from where on the next part is looked for that has to make room
 * @emptied: parts whose addresses the process has given up
 * @reap: takes those out; has no reference
 */
struct ziw_odp {
	struct kref		ref;
	struct ziw_mr		*mr;
	struct mm_struct	*mm;
	struct odp_part		*whole;
	struct xarray		parts;
	unsigned long		nr_parts;
	unsigned long		hand;
	struct list_head	emptied;
	struct work_struct	reap;
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

/* Likewise, in the part. */
static unsigned long part_index(const struct ziw_odp *odp, unsigned long index)
{
	return odp->whole ? index : index % PART_PAGES;
}

/* The part that a page is in, or NULL. mr->lock held. */
static struct odp_part *odp_part(struct ziw_odp *odp, unsigned long index)
{
	return odp->whole ?: xa_load(&odp->parts, index / PART_PAGES);
}

static bool part_empty(const struct odp_part *part)
{
	return !memchr_inv(part->pages, 0, part->nr_pages * sizeof(*part->pages));
}

/* --- the process takes pages away --- */

static void invalidate_chunk(struct odp_part *part, unsigned long first, unsigned long last,
			     unsigned long seq)
{
	struct ziw_mr *mr = part->odp->mr;
	unsigned long i;

	write_lock_bh(&mr->lock);
	mmu_interval_set_seq(&part->notifier, seq);
	/* Another invalidation may be about to tell of a page that was written. */
	for (i = first; i <= last; i++)
		part->pages[i] = part->pages[i] & (ODP_WRITE | ODP_DIRTY) ?
				 (part->pages[i] & PAGE_MASK) | ODP_DIRTY : 0;
	write_unlock_bh(&mr->lock);
}

/* There is no memory in a range of addresses any more. A notifier cannot be removed by itself. */
static void part_unmapped(struct odp_part *part)
{
	struct ziw_odp *odp = part->odp;

	write_lock_bh(&odp->mr->lock);
	/* After deregistration odp_release() takes them all, and the queue may be at its end. */
	if (odp->mr->valid && !odp->whole && part->in && list_empty(&part->emptied) &&
	    part_empty(part)) {
		kref_get(&part->ref);
		list_add_tail(&part->emptied, &odp->emptied);
		queue_work(ziw_fault_wq, &odp->reap);
	}
	write_unlock_bh(&odp->mr->lock);
}

/*
 * Tell of a page that may have been written. Invalidations run side by side: when another
 * has told of it and cleared its entry, that one may have returned, and the page be gone.
 */
static void tell_dirty(struct odp_part *part, unsigned long index)
{
	struct ziw_mr *mr = part->odp->mr;
	struct page *page = NULL;

	if (!(READ_ONCE(part->pages[index]) & ODP_DIRTY))
		return;
	write_lock_bh(&mr->lock);
	if (part->pages[index] & ODP_DIRTY) {
		page = entry_page(part->pages[index]);
		get_page(page);
	}
	write_unlock_bh(&mr->lock);
	if (!page)
		return;
	set_page_dirty(page);
	write_lock_bh(&mr->lock);
	part->pages[index] = 0;
	write_unlock_bh(&mr->lock);
	put_page(page);
}

static bool odp_invalidate(struct mmu_interval_notifier *notifier,
			   const struct mmu_notifier_range *range, unsigned long seq)
{
	struct odp_part *part = container_of(notifier, struct odp_part, notifier);
	unsigned long end = part->start + (part->nr_pages << PAGE_SHIFT);
	unsigned long first, last, i;

	/* To tell a file system of dirty pages may sleep. */
	if (!mmu_notifier_range_blockable(range))
		return false;
	first = (max(range->start, part->start) - part->start) >> PAGE_SHIFT;
	last = (min(range->end, end) - 1 - part->start) >> PAGE_SHIFT;

	for (i = first; i <= last; i += CHUNK)
		invalidate_chunk(part, i, min(last, i + CHUNK - 1), seq);

	/* Until the last of those at work returns no entry is made. */
	for (i = first; i <= last; i++)
		tell_dirty(part, i);
	if (range->event == MMU_NOTIFY_UNMAP || range->event == MMU_NOTIFY_RELEASE)
		part_unmapped(part);
	return true;
}

static const struct mmu_interval_notifier_ops odp_notifier_ops = {
	.invalidate = odp_invalidate,
};

/* --- parts come and go --- */

/* Empty the table, and tell of what may have been written. Nothing is added any more. */
static void part_forget(struct odp_part *part)
{
	struct ziw_mr *mr = part->odp->mr;
	unsigned long i, entry;
	struct page *page;

	for (i = 0; i < part->nr_pages; i++) {
		if (!READ_ONCE(part->pages[i]))
			continue;
		page = NULL;
		write_lock_bh(&mr->lock);
		entry = part->pages[i];
		if (entry & ODP_WRITE) {
			/* Without the lock nothing else keeps it. */
			page = entry_page(entry);
			get_page(page);
		}
		if (!(entry & ODP_DIRTY))
			part->pages[i] = 0;
		write_unlock_bh(&mr->lock);
		if (page) {
			set_page_dirty_lock(page);
			put_page(page);
		}
		cond_resched();
	}
}

static void part_release(struct kref *ref)
{
	struct odp_part *part = container_of(ref, struct odp_part, ref);

	part_forget(part);
	mmu_interval_notifier_remove(&part->notifier);
	kvfree(part->pages);
	kfree(part);
}

static void part_put(struct odp_part *part)
{
	kref_put(&part->ref, part_release);
}

/* The process's memory is there. Return: a part with a reference, or an ERR_PTR. */
static struct odp_part *part_make(struct ziw_odp *odp, unsigned long start,
				  unsigned long nr_pages)
{
	struct odp_part *part;
	int err = -ENOMEM;

	part = kzalloc(sizeof(*part), GFP_KERNEL_ACCOUNT);
	if (!part)
		return ERR_PTR(-ENOMEM);
	kref_init(&part->ref);
	INIT_LIST_HEAD(&part->emptied);
	part->odp = odp;
	part->start = start;
	part->nr_pages = nr_pages;
	part->pages = kvcalloc(nr_pages, sizeof(*part->pages),
			       GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!part->pages)
		goto err_part;
	err = mmu_interval_notifier_insert(&part->notifier, odp->mm, start,
					   nr_pages << PAGE_SHIFT, &odp_notifier_ops);
	if (err)
		goto err_pages;
	return part;

err_pages:
	kvfree(part->pages);
err_part:
	kfree(part);
	return ERR_PTR(err);
}

/* The region's reference is the caller's then. mr->lock held for writing. */
static void part_unlink(struct odp_part *part)
{
	struct ziw_odp *odp = part->odp;

	lockdep_assert_held_write(&odp->mr->lock);
	part->in = false;
	xa_erase_bh(&odp->parts, (part->start >> PAGE_SHIFT) / PART_PAGES);
	odp->nr_parts--;
}

/* Take a part out if there is no page in it. Its caller has a reference. */
static void part_discard(struct odp_part *part)
{
	struct ziw_odp *odp = part->odp;
	bool out;

	write_lock_bh(&odp->mr->lock);
	out = !odp->whole && part->in && part_empty(part);
	if (out)
		part_unlink(part);
	write_unlock_bh(&odp->mr->lock);
	if (out)
		part_put(part);
}

static void odp_reap(struct ziw_odp *odp)
{
	struct odp_part *part;

	do {
		write_lock_bh(&odp->mr->lock);
		part = list_first_entry_or_null(&odp->emptied, struct odp_part, emptied);
		if (part)
			list_del_init(&part->emptied);
		write_unlock_bh(&odp->mr->lock);
		if (part) {
			part_discard(part);
			part_put(part);
		}
		cond_resched();
	} while (part);
}

static void reap_work(struct work_struct *work)
{
	odp_reap(container_of(work, struct ziw_odp, reap));
}

/* Take a part out if there are more than @most, and it is not @keep. Return: whether there were. */
static bool odp_evict(struct ziw_odp *odp, unsigned long most, const struct odp_part *keep)
{
	struct odp_part *part, *out = NULL;
	bool found;

	write_lock_bh(&odp->mr->lock);
	found = odp->nr_parts > most;
	if (found) {
		part = xa_find(&odp->parts, &odp->hand, ULONG_MAX, XA_PRESENT);
		if (!part) {
			odp->hand = 0;
			part = xa_find(&odp->parts, &odp->hand, ULONG_MAX, XA_PRESENT);
		}
		odp->hand++;
		if (part != keep) {
			part_unlink(part);
			out = part;
		}
	}
	write_unlock_bh(&odp->mr->lock);
	if (out)
		part_put(out);
	cond_resched();
	return found;
}

/* The part that a page is in, with a reference, or NULL. */
static struct odp_part *part_find(struct ziw_odp *odp, unsigned long index)
{
	struct odp_part *part;

	read_lock_bh(&odp->mr->lock);
	part = odp_part(odp, index);
	if (part)
		kref_get(&part->ref);
	read_unlock_bh(&odp->mr->lock);
	return part;
}

/* Likewise, of a new part. Return: NULL if somebody else was faster, or an ERR_PTR. */
static struct odp_part *part_add(struct ziw_odp *odp, unsigned long index)
{
	unsigned long key = index / PART_PAGES, most;
	struct odp_part *part, *ret = NULL;
	int err;

	part = part_make(odp, (key * PART_PAGES) << PAGE_SHIFT, PART_PAGES);
	if (IS_ERR(part))
		return part;
	err = xa_reserve_bh(&odp->parts, key, GFP_KERNEL);

	write_lock_bh(&odp->mr->lock);
	/* What was reserved is there, unless another part came and went meanwhile. */
	if (!err && !odp_part(odp, index))
		err = xa_err(xa_store_bh(&odp->parts, key, part, GFP_ATOMIC));
	else if (!err)
		err = -EBUSY;
	if (!err) {
		kref_get(&part->ref);
		part->in = true;
		odp->nr_parts++;
		ret = part;
	}
	write_unlock_bh(&odp->mr->lock);

	if (!ret) {
		part_put(part);
		return err == -EBUSY ? NULL : ERR_PTR(err);
	}
	most = max_t(unsigned long, MIN_PARTS, totalram_pages() / MEMORY_SHARE);
	while (odp_evict(odp, most, part))
		;
	return part;
}

/* Likewise, of a part that may be new. Return: the part, or an ERR_PTR. */
static struct odp_part *part_get(struct ziw_odp *odp, unsigned long index)
{
	struct mem_cgroup *memcg, *old;
	struct odp_part *part;

	part = part_find(odp, index);
	if (part)
		return part;
	/* It counts as the process's, like its page tables. */
	memcg = get_mem_cgroup_from_mm(odp->mm);
	old = set_active_memcg(memcg);
	do {
		part = part_add(odp, index);
		if (!part)
			part = part_find(odp, index);
	} while (!part);
	set_active_memcg(old);
	mem_cgroup_put(memcg);
	return part;
}

static void odp_release(struct kref *ref)
{
	struct ziw_odp *odp = container_of(ref, struct ziw_odp, ref);
	struct ziw_mr *mr = odp->mr;

	if (odp->whole)
		part_put(odp->whole);
	else
		while (odp_evict(odp, 0, NULL))
			;
	/* Nobody adds to its list since the region is not valid any more. */
	cancel_work_sync(&odp->reap);
	odp_reap(odp);
	xa_destroy(&odp->parts);
	mmdrop(odp->mm);
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
	const struct odp_part *part;

	if (!len)
		return true;
	last = odp_index(mr, addr + len - 1);
	for (i = odp_index(mr, addr); i <= last; i++) {
		part = odp_part(mr->odp, i);
		if (!part || (part->pages[part_index(mr->odp, i)] & want) != want)
			return false;
	}
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
	unsigned long index = off >> PAGE_SHIFT, entry;

	entry = odp_part(mr->odp, index)->pages[part_index(mr->odp, index)];
	*len = min_t(u64, *len, PAGE_SIZE - offset_in_page(off));
	return (void *)(entry & PAGE_MASK) + offset_in_page(off);
}

static void part_set(struct odp_part *part, unsigned long index, struct page *page,
		     unsigned long flags)
{
	unsigned long entry = (unsigned long)page_address(page) | flags, *was = &part->pages[index];

	/* That it may not be written to any more the notifier would have told. */
	if (!((*was ^ entry) & PAGE_MASK))
		entry |= *was & ODP_WRITE;
	*was = entry;
}

/*
 * Some pages of a part, from its page @index on, at most BATCH. Return: how many; 0 if the
 * part is out of use meanwhile; or a negative error.
 */
static long part_bring_some(struct odp_part *part, unsigned long index, unsigned long num,
			    bool write)
{
	unsigned long seq, flags = ODP_PRESENT | (write ? ODP_WRITE : 0);
	unsigned long addr = part->start + (index << PAGE_SHIFT);
	struct ziw_odp *odp = part->odp;
	struct page *pages[BATCH];
	bool again, in;
	int locked = 1;
	long n, i;

	num = min3(num, part->nr_pages - index, (unsigned long)BATCH);
	do {
		seq = mmu_interval_read_begin(&part->notifier);
		locked = 1;
		mmap_read_lock(odp->mm);
		n = ziw_get_user_pages_remote(odp->mm, addr, num, write ? FOLL_WRITE : 0,
					      pages, &locked);
		if (locked)
			mmap_read_unlock(odp->mm);
		if (n <= 0)
			return n ? n : -EFAULT;

		/* The reference only lasts until the notifier answers for the page. */
		write_lock_bh(&odp->mr->lock);
		in = part->in;
		again = in && mmu_interval_read_retry(&part->notifier, seq);
		for (i = 0; i < n && in && !again; i++)
			part_set(part, index + i, pages[i], flags);
		write_unlock_bh(&odp->mr->lock);
		for (i = 0; i < n; i++)
			put_page(pages[i]);
		cond_resched();
	} while (again);
	return in ? n : 0;
}

/* Likewise, from page @index of the region on. */
static long odp_bring_some(struct ziw_odp *odp, unsigned long index, unsigned long num,
			   bool write)
{
	struct odp_part *part = part_get(odp, index);
	long n;

	if (IS_ERR(part))
		return PTR_ERR(part);
	n = part_bring_some(part, part_index(odp, index), num, write);
	if (n < 0)
		part_discard(part);
	part_put(part);
	return n;
}

/**
 * ziw_odp_bring - bring pages in
 * @odp: pages of a region, with a reference
 * @addr: address in the region
 * @len: bytes, all of them of the region
 * @write: they are to be written to
 *
 * They may be away again when this returns.
 *
 * Context: process.
 * Return: 0, or a negative error if there is no such memory.
 */
int ziw_odp_bring(struct ziw_odp *odp, u64 addr, u64 len, bool write)
{
	unsigned long i, last, end;
	long n = 0;

	if (!len)
		return 0;
	i = odp_index(odp->mr, addr);
	last = odp_index(odp->mr, addr + len - 1);
	/* Beyond the process's addresses there may be pages of the kernel's to get. */
	end = odp->whole ? odp->whole->nr_pages : odp->mm->task_size >> PAGE_SHIFT;
	if (last >= end || i > last)
		return -EFAULT;
	/* The process may have gone, its context be another's that imported it. */
	if (!mmget_not_zero(odp->mm))
		return -EFAULT;
	for (; i <= last; i += n) {
		n = odp_bring_some(odp, i, last - i + 1, write);
		if (n < 0)
			break;
		if (fatal_signal_pending(current)) {
			n = -EINTR;
			break;
		}
	}
	/* It may be the last one, and what ends with the process wait for us. */
	mmput_async(odp->mm);
	return n < 0 ? n : 0;
}

static struct ziw_odp *odp_alloc(void)
{
	struct ziw_odp *odp = kzalloc(sizeof(*odp), GFP_KERNEL_ACCOUNT);

	if (!odp)
		return NULL;
	kref_init(&odp->ref);
	xa_init_flags(&odp->parts, XA_FLAGS_LOCK_BH | XA_FLAGS_ACCOUNT);
	INIT_LIST_HEAD(&odp->emptied);
	INIT_WORK(&odp->reap, reap_work);
	odp->mm = current->mm;
	mmgrab(odp->mm);
	return odp;
}

/* Whether there is an address behind the pages of the memory, and memory. */
static bool is_range(u64 start, u64 length)
{
	return length && start + length >= start && PAGE_ALIGN(start + length) >= start;
}

/**
 * ziw_odp_register - verb: register memory of a process that comes and goes
 * @pd: protection domain
 * @start: address in the process
 * @length: bytes; U64_MAX from address 0 on: all the address space, an implicit region
 * @virt_addr: address by which work requests and peers name @start
 * @access: enum ib_access_flags
 *
 * Memory windows are not for such a region: an access by one holds its own lock only.
 *
 * Context: process.
 * Return: the region, or an ERR_PTR: -EOPNOTSUPP for windows, -EINVAL for no memory,
 * for what does not fit the address space, and for all of it by other addresses than
 * its own; -ENOMEM.
 */
struct ib_mr *ziw_odp_register(struct ib_pd *pd, u64 start, u64 length, u64 virt_addr,
			       int access)
{
	bool implicit = !start && length == U64_MAX;
	struct odp_part *whole;
	struct ziw_odp *odp;
	struct ziw_mr *mr;
	u64 first;
	int err;

	if (access & IB_ACCESS_MW_BIND)
		return ERR_PTR(-EOPNOTSUPP);
	/* As what brings pages in takes it. By another one no notifier would hear of them. */
	start = untagged_addr(start);
	first = start & PAGE_MASK;
	if (implicit ? virt_addr :
		       !is_range(start, length) || start + length > current->mm->task_size)
		return ERR_PTR(-EINVAL);
	odp = odp_alloc();
	if (!odp)
		return ERR_PTR(-ENOMEM);
	mr = ziw_mr_alloc(pd, ZIW_MR_ODP, 0);
	if (IS_ERR(mr)) {
		err = PTR_ERR(mr);
		goto err_odp;
	}
	odp->mr = mr;
	if (!implicit) {
		whole = part_make(odp, first, (PAGE_ALIGN(start + length) - first) >> PAGE_SHIFT);
		if (IS_ERR(whole)) {
			err = PTR_ERR(whole);
			goto err_mr;
		}
		whole->in = true;
		odp->whole = whole;
		mr->offset = start - first;
	}
	mr->odp = odp;
	return ziw_mr_publish_memory(mr, virt_addr, length, access);

err_mr:
	ziw_mr_retire(mr);
err_odp:
	mmdrop(odp->mm);
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
