// SPDX-License-Identifier: GPL-2.0
/*
 * Page fragments for what the transmit engine writes itself: headers, pads,
 * CRCs, and payload that is copied. One page block per CPU, used up from the
 * front; each fragment holds a reference to its page, so a block lives until
 * TCP has let go of the last of it.
 */
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include "batch.h"

#define ARENA_ORDER	3

struct arena {
	struct page	*page;
	unsigned int	off;
	unsigned int	size;
};

static DEFINE_PER_CPU(struct arena, arenas);

static bool arena_refill(struct arena *arena)
{
	struct page *page;
	unsigned int order = ARENA_ORDER;

	page = alloc_pages(GFP_ATOMIC | __GFP_COMP | __GFP_NOWARN | __GFP_NORETRY,
			   order);
	if (!page) {
		order = 0;
		page = alloc_page(GFP_ATOMIC | __GFP_NOWARN);
		if (!page)
			return false;
	}
	if (arena->page)
		put_page(arena->page);
	arena->page = page;
	arena->off = 0;
	arena->size = PAGE_SIZE << order;
	return true;
}

/**
 * ziw_arena_get - room to write in
 * @min: bytes that must be in one piece, at most PAGE_SIZE
 * @want: bytes that would be useful, at least @min
 * @len: set to the size of what is returned, between the two
 * @page: set to its page; the caller takes a reference for each fragment
 * @off: set to its offset in that page
 *
 * Context: bottom halves off, until ziw_arena_commit() at least.
 * Return: its address, or NULL if there is no memory.
 */
void *ziw_arena_get(unsigned int min, unsigned int want, unsigned int *len,
		    struct page **page, unsigned int *off)
{
	struct arena *arena = this_cpu_ptr(&arenas);

	if (arena->size - arena->off < min && !arena_refill(arena))
		return NULL;
	*len = min(want, arena->size - arena->off);
	*page = arena->page;
	*off = arena->off;
	return page_address(arena->page) + arena->off;
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
 * ziw_arena_exit - let go of every CPU's block
 *
 * Context: process, when nothing transmits any more.
 */
void ziw_arena_exit(void)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct arena *arena = per_cpu_ptr(&arenas, cpu);

		if (arena->page)
			put_page(arena->page);
		memset(arena, 0, sizeof(*arena));
	}
}
