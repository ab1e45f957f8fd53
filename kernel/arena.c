// SPDX-License-Identifier: GPL-2.0
/*
 * Page fragments for what the transmit engine writes itself: headers, pads,
 * CRCs, and payload that is copied. Each CPU has a few page blocks, which take
 * turns. One is used up from the front; each fragment holds a reference to its
 * page, so nothing is written to a block again before TCP has let go of the
 * last of it. Kernels that clear what they allocate make a new block dear.
 */
#include <linux/gfp.h>
#include <linux/local_lock.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include "batch.h"

#define ARENA_ORDER	get_order(SZ_32K)
#define ARENA_SIZE	(PAGE_SIZE << ARENA_ORDER)
/* With small pages 1 MiB, if so much is on its way. */
#define ARENA_BLOCKS	32

/**
 * struct arena - one CPU's blocks; bottom halves off
 * @lock: guards the rest, where that is not enough
 * @block: pages, one reference to each
 * @size: bytes of each
 * @num: how many there are
 * @current_block: the one in use
 * @off: how far it is used
 */
struct arena {
	local_lock_t	lock;
	struct page	*block[ARENA_BLOCKS];
	unsigned int	size[ARENA_BLOCKS];
	unsigned int	num;
	unsigned int	current_block;
	unsigned int	off;
};

static DEFINE_PER_CPU(struct arena, arenas) = { .lock = INIT_LOCAL_LOCK(lock) };

static struct page *arena_alloc(unsigned int *size)
{
	struct page *page;

	*size = ARENA_SIZE;
	page = alloc_pages(GFP_ATOMIC | __GFP_COMP | __GFP_NOWARN | __GFP_NORETRY,
			   ARENA_ORDER);
	if (!page) {
		*size = PAGE_SIZE;
		/* A small one is not kept: of the reserves no more is taken than is on its way. */
		page = alloc_page(GFP_ATOMIC | __GFP_NOWARN |
				  (sk_memalloc_socks() ? __GFP_MEMALLOC : 0));
	}
	return page;
}

/*
 * Go on with the oldest block. If TCP still holds it there is one block more from
 * now on, as long as there may be; then a new one takes its place. So there are as
 * many as were on their way at a time, and not more.
 */
static bool arena_refill(struct arena *arena)
{
	unsigned int next = arena->num ? (arena->current_block + 1) % arena->num : 0;
	/* Whoever had a reference has read what it meant to before it was put. */
	bool idle = arena->num && page_ref_count(arena->block[next]) == 1;
	unsigned int size;
	struct page *page;

	/* A block made when memory was short is small, and not kept. */
	if (!idle || arena->size[next] < ARENA_SIZE) {
		page = arena_alloc(&size);
		if (!page)
			return false;
		if (!idle && arena->num < ARENA_BLOCKS) {
			/* Behind the one that is in use, before the oldest. */
			next = arena->num ? arena->current_block + 1 : 0;
			memmove(&arena->block[next + 1], &arena->block[next],
				(arena->num - next) * sizeof(arena->block[0]));
			memmove(&arena->size[next + 1], &arena->size[next],
				(arena->num - next) * sizeof(arena->size[0]));
			arena->num++;
		} else {
			put_page(arena->block[next]);
		}
		arena->block[next] = page;
		arena->size[next] = size;
	}
	arena->current_block = next;
	arena->off = 0;
	return true;
}

/**
 * ziw_arena_lock - nobody else uses this CPU's arena
 *
 * Inside qp->lock, outside mr->lock.
 *
 * Context: bottom halves off.
 */
void ziw_arena_lock(void)
{
	ziw_local_lock_bh(&arenas.lock);
}

/**
 * ziw_arena_unlock - after ziw_arena_lock()
 */
void ziw_arena_unlock(void)
{
	ziw_local_unlock_bh(&arenas.lock);
}

/**
 * ziw_arena_get - room to write in
 * @min: bytes that must be in one piece, at most PAGE_SIZE
 * @want: bytes that would be useful, at least @min
 * @len: set to the size of what is returned, between the two
 * @page: set to its page; the caller takes a reference for each fragment
 * @off: set to its offset in that page
 *
 * Context: bottom halves off, and ziw_arena_lock(), until ziw_arena_commit() at least.
 * Return: its address, or NULL if there is no memory.
 */
void *ziw_arena_get(unsigned int min, unsigned int want, unsigned int *len,
		    struct page **page, unsigned int *off)
{
	struct arena *arena = this_cpu_ptr(&arenas);

	if (arena->size[arena->current_block] - arena->off < min && !arena_refill(arena))
		return NULL;
	*len = min(want, arena->size[arena->current_block] - arena->off);
	*page = arena->block[arena->current_block];
	*off = arena->off;
	return page_address(*page) + arena->off;
}
EXPORT_SYMBOL_IF_KUNIT(ziw_arena_get);

/**
 * ziw_arena_commit - keep what was written
 * @len: bytes, from the front of what ziw_arena_get() gave
 */
void ziw_arena_commit(unsigned int len)
{
	this_cpu_ptr(&arenas)->off += len;
}
EXPORT_SYMBOL_IF_KUNIT(ziw_arena_commit);

/**
 * ziw_arena_exit - let go of every CPU's blocks
 *
 * Context: process, when nothing transmits any more.
 */
void ziw_arena_exit(void)
{
	unsigned int block;
	int cpu;

	for_each_possible_cpu(cpu) {
		struct arena *arena = per_cpu_ptr(&arenas, cpu);

		for (block = 0; block < arena->num; block++)
			put_page(arena->block[block]);
		memset(arena->size, 0, sizeof(arena->size));
		arena->num = 0;
		arena->current_block = 0;
		arena->off = 0;
	}
}
