// SPDX-License-Identifier: GPL-2.0
/*
 * From an address of a region to memory: over blocks of each size, from any
 * offset; first by arithmetic on regions whose blocks are numbers, then on
 * registered memory of a process.
 */
#include <linux/mm.h>
#include <linux/mman.h>
#include <linux/uaccess.h>
#include "fixture.h"

#define MAX_BLOCKS	64

/* --- arithmetic --- */

struct layout {
	const char	*name;
	u8		block_shift;
	u64		offset;
	u64		length;
	u64		iova;
};

static const struct layout layouts[] = {
	{ "one page", 12, 0, 4096, 0x7000 },
	{ "one byte", 12, 0, 1, 0x7000 },
	{ "the last byte of a page", 12, 4095, 1, 0x7fff },
	{ "pages", 12, 0, 16 * 4096, 0x7f0000000000 },
	{ "pages, begun within", 12, 123, 16 * 4096, 0x7f000000007b },
	{ "pages, begun and ended within", 12, 4095, 3 * 4096 + 2, 0x7f0000000fff },
	{ "pages, of an iova that lies otherwise", 12, 0x345, 9 * 4096 + 1, 0x1001 },
	{ "pages, zero-based, begun within", 12, 0xabc, 9 * 4096, 0 },
	{ "pages, to the end of the address space", 12, 1, 8 * 4096 - 1, U64_MAX - 8 * 4096 + 1 },
	{ "2 MiB", 21, 0, SZ_2M, 0x40000000 },
	{ "2 MiB blocks", 21, 0, 8ULL * SZ_2M, 0x40000000 },
	{ "2 MiB blocks, begun within", 21, SZ_2M - 1, 3ULL * SZ_2M, 0x401fffff },
	{ "2 MiB blocks, of an iova that lies otherwise", 21, 0x12345, 3ULL * SZ_2M + 7, 5 },
	{ "1 GiB blocks", 30, SZ_1G - 3, 3ULL * SZ_1G, 0x100000000 },
};

/* Block @i of a layout: no two next to each other, in no order. */
static u64 block_address(const struct layout *layout, u32 i)
{
	return (u64)(1 + (i * 37) % MAX_BLOCKS) << (layout->block_shift + 1);
}

/* Byte @at of a layout, counted block by block. */
static u64 byte_address(const struct layout *layout, u64 at)
{
	u64 in_first = (1ULL << layout->block_shift) - layout->offset;
	u32 i;

	if (at < in_first)
		return block_address(layout, 0) + layout->offset + at;
	at -= in_first;
	for (i = 1; at >= 1ULL << layout->block_shift; i++)
		at -= 1ULL << layout->block_shift;
	return block_address(layout, i) + at;
}

static void check_walk(struct kunit *test, const struct layout *layout, struct ziw_mr *mr, u64 from)
{
	u64 at = from, block = 1ULL << layout->block_shift;
	u32 pieces = 0;

	while (at < layout->length) {
		u32 left = min_t(u64, layout->length - at, U32_MAX), n = left;
		u64 va = (uintptr_t)ziw_mr_range(mr, layout->iova + at, &n);

		KUNIT_ASSERT_GT(test, n, 0);
		KUNIT_ASSERT_LE(test, n, left);
		KUNIT_EXPECT_EQ_MSG(test, va, byte_address(layout, at), "%s, byte %#llx",
				    layout->name, at);
		/* All of the piece lies in one block, and it ends with the block or the access. */
		KUNIT_EXPECT_EQ_MSG(test, va + n - 1, byte_address(layout, at + n - 1),
				    "%s, byte %#llx", layout->name, at + n - 1);
		KUNIT_EXPECT_TRUE_MSG(test, n == left || (va + n) % block == 0, "%s, byte %#llx",
				      layout->name, at);
		at += n;
		KUNIT_ASSERT_LE(test, ++pieces, MAX_BLOCKS);
	}
}

static void pages_walk(struct kunit *test)
{
	u64 *blocks = kunit_kcalloc(test, MAX_BLOCKS, sizeof(*blocks), GFP_KERNEL);
	int i, j;

	KUNIT_ASSERT_NOT_NULL(test, blocks);
	for (i = 0; i < ARRAY_SIZE(layouts); i++) {
		const struct layout *layout = &layouts[i];
		struct ziw_mr mr = {
			.type		= ZIW_MR_USER,
			.iova		= layout->iova,
			.length		= layout->length,
			.offset		= layout->offset,
			.blocks		= blocks,
			.block_shift	= layout->block_shift,
		};
		u64 block = 1ULL << layout->block_shift;
		const u64 starts[] = { 0, 1, 4095, 4096, 4097, block - 1, block, block + 1,
				       layout->length / 2, layout->length - 1 };

		for (j = 0; j < MAX_BLOCKS; j++)
			blocks[j] = block_address(layout, j);
		for (j = 0; j < ARRAY_SIZE(starts); j++)
			check_walk(test, layout, &mr, starts[j]);
	}
}

static void pages_short(struct kunit *test)
{
	u64 blocks[] = { 0x10000, 0x30000, 0x20000 };
	struct ziw_mr mr = {
		.type		= ZIW_MR_USER,
		.iova		= 0x100,
		.length		= 2 * 4096,
		.offset		= 0x100,
		.blocks		= blocks,
		.block_shift	= 12,
	};
	static const struct { u64 addr; u32 want, get; uintptr_t va; } rows[] = {
		{ 0x100, 1, 1, 0x10100 },
		{ 0xffe, 1, 1, 0x10ffe },
		{ 0xffe, 2, 2, 0x10ffe },
		{ 0xffe, 3, 2, 0x10ffe },
		{ 0xffe, 0xffffffff, 2, 0x10ffe },
		{ 0x1000, 4095, 4095, 0x30000 },
		{ 0x1000, 4096, 4096, 0x30000 },
		{ 0x1000, 4097, 4096, 0x30000 },
		{ 0x20ff, 1, 1, 0x200ff },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		u32 n = rows[i].want;

		KUNIT_EXPECT_EQ_MSG(test, (uintptr_t)ziw_mr_range(&mr, rows[i].addr, &n),
				    rows[i].va, "%#llx", rows[i].addr);
		KUNIT_EXPECT_EQ_MSG(test, n, rows[i].get, "%#llx, %u bytes", rows[i].addr,
				    rows[i].want);
	}
}

/* A peer may name any address of a region of all memory; only what is memory has one. */
static void pages_dma(struct kunit *test)
{
	struct page *page = fixture_pages(test, 1);
	u8 *va = page_address(page);
	struct ziw_mr mr = { .type = ZIW_MR_DMA, .valid = true };
	static const u64 nowhere[] = { 0, 1, 4096, 0x800000000000, U64_MAX - 4096 };
	u32 n = 100;
	int i;

	KUNIT_EXPECT_PTR_EQ(test, ziw_mr_range(&mr, (uintptr_t)va + 5, &n), (void *)(va + 5));
	KUNIT_EXPECT_EQ(test, n, 100);
	n = 2 * PAGE_SIZE;
	KUNIT_EXPECT_PTR_EQ(test, ziw_mr_range(&mr, (uintptr_t)va + 5, &n), (void *)(va + 5));
	KUNIT_EXPECT_EQ(test, n, PAGE_SIZE - 5);
	for (i = 0; i < ARRAY_SIZE(nowhere); i++) {
		n = 1;
		KUNIT_EXPECT_NULL_MSG(test, ziw_mr_range(&mr, nowhere[i], &n), "%#llx", nowhere[i]);
	}
}

/* --- memory of a process --- */

static u8 pattern(u64 i)
{
	return (i * 7 + (i >> 8) * 13 + (i >> 16)) & 0xff;
}

static void write_pattern(struct kunit *test, unsigned long at, u8 *buf, size_t len)
{
	size_t i;

	for (i = 0; i < len; i++)
		buf[i] = pattern(i);
	KUNIT_ASSERT_EQ(test, copy_to_user((void __user *)at, buf, len), 0);
}

/* What the device reads is what the process wrote, and the reverse. */
static void check_user_mr(struct kunit *test, struct ib_pd *pd, unsigned long base, size_t size,
			  unsigned long start, size_t len, u64 iova, int access, u8 shift)
{
	struct ib_mr *ibmr = ib_reg_user_mr(pd, start, len, iova, access);
	u64 first = access & IB_ZERO_BASED ? 0 : iova;
	size_t at = 0, i, wrong = 0;
	struct ziw_mr *mr, *got;
	u8 *buf = kunit_kzalloc(test, size, GFP_KERNEL);
	enum ziw_mr_error err;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ibmr);
	KUNIT_ASSERT_NOT_NULL(test, buf);
	mr = to_ziw_mr(ibmr);
	if (shift)
		KUNIT_EXPECT_EQ(test, mr->block_shift, shift);
	write_pattern(test, base, buf, size);
	local_bh_disable();
	got = ziw_mr_get(pd, ibmr->rkey, false, access & ALL_REMOTE, first, len, &err);
	while (got && at < len) {
		u32 n = len - at;
		u8 *va = ziw_mr_range(got, first + at, &n);

		for (i = 0; i < n; i++, at++) {
			wrong += va[i] != pattern(start - base + at);
			va[i] = ~va[i];
		}
	}
	if (got)
		ziw_mr_put(got);
	local_bh_enable();
	KUNIT_EXPECT_PTR_EQ(test, got, mr);
	KUNIT_EXPECT_EQ(test, at, len);
	KUNIT_EXPECT_EQ_MSG(test, wrong, 0, "%zu of %zu bytes from %#lx", wrong, len, start);

	wrong = copy_from_user(buf, (void __user *)base, size);
	for (i = 0; i < size; i++) {
		bool inside = base + i >= start && base + i < start + len;

		wrong += buf[i] != (inside ? (u8)~pattern(i) : pattern(i));
	}
	kunit_kfree(test, buf);
	KUNIT_EXPECT_EQ_MSG(test, wrong, 0, "%zu of %zu bytes around %#lx", wrong, size, start);
	KUNIT_EXPECT_EQ(test, fixture_check(pd, ibmr->rkey, 0, first + len, 1), ZIW_MR_BOUNDS);
	if (first)
		KUNIT_EXPECT_EQ(test, fixture_check(pd, ibmr->rkey, 0, first - 1, 1),
				ZIW_MR_BOUNDS);
	KUNIT_EXPECT_EQ(test, ib_dereg_mr(ibmr), 0);
}

static void pages_user_small(struct kunit *test)
{
	static const struct { size_t off, len; } rows[] = {
		{ 0, PAGE_SIZE }, { 0, 1 }, { 1, 1 }, { PAGE_SIZE - 1, 2 }, { 0, 8 * PAGE_SIZE },
		{ 1, 8 * PAGE_SIZE - 1 }, { PAGE_SIZE - 1, PAGE_SIZE + 2 }, { 513, 5 * PAGE_SIZE },
	};
	const size_t size = 8 * PAGE_SIZE;
	struct ib_pd *pd = fixture_pd(test);
	unsigned long base = fixture_map(test, size, MAP_PRIVATE), i;

	/* Touched every third first, so that the pages lie in no order. */
	for (i = 0; i < 8; i++)
		KUNIT_ASSERT_EQ(test, put_user(1, (u8 __user *)base + i * 3 % 8 * PAGE_SIZE), 0);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		unsigned long start = base + rows[i].off;

		check_user_mr(test, pd, base, size, start, rows[i].len, start, ALL_ACCESS, 0);
		check_user_mr(test, pd, base, size, start, rows[i].len, 0x123456789abcd, ALL_ACCESS,
			      0);
		check_user_mr(test, pd, base, size, start, rows[i].len, start,
			      ALL_ACCESS | IB_ZERO_BASED, 0);
	}
}

/*
 * Map pages that lie next to each other, as those of a huge page: this kernel
 * has none. Returns the address, a multiple of 2 MiB.
 */
static unsigned long map_contiguous(struct kunit *test, struct page *pages, size_t size)
{
	unsigned long at = ALIGN(fixture_map(test, size + SZ_2M, MAP_SHARED), SZ_2M);
	struct vm_area_struct *vma;
	int err = 0;
	size_t i;

	mmap_write_lock(current->mm);
	vma = find_vma(current->mm, at);
	for (i = 0; !err && i < size / PAGE_SIZE; i++)
		err = vm_insert_page(vma, at + i * PAGE_SIZE, pages + i);
	mmap_write_unlock(current->mm);
	KUNIT_ASSERT_EQ(test, err, 0);
	return at;
}

static void pages_user_large(struct kunit *test)
{
	static const struct { size_t off, len; } rows[] = {
		{ 0, SZ_4M }, { SZ_2M, SZ_2M }, { 1, SZ_4M - 1 }, { SZ_2M - 1, 2 },
		{ 0x12345, SZ_2M + 0x777 },
	};
	struct page *pages = fixture_pages(test, get_order(SZ_4M));
	struct ib_pd *pd = fixture_pd(test);
	unsigned long base, i;

	KUNIT_ASSERT_TRUE(test, IS_ALIGNED((uintptr_t)page_address(pages), SZ_2M));
	base = map_contiguous(test, pages, SZ_4M);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		unsigned long start = base + rows[i].off;

		check_user_mr(test, pd, base, SZ_4M, start, rows[i].len, start, ALL_ACCESS, 0);
		check_user_mr(test, pd, base, SZ_4M, start, rows[i].len, 0x1001, ALL_ACCESS, 0);
	}
}

static void pages_user_block(struct kunit *test)
{
	struct page *pages = fixture_pages(test, get_order(SZ_4M));
	struct ib_pd *pd = fixture_pd(test);
	unsigned long base = map_contiguous(test, pages, SZ_4M);
	static const size_t offsets[] = { 0, 1, SZ_2M - 1 };
	struct ib_mr *ibmr;
	int i;

	for (i = 0; i < ARRAY_SIZE(offsets); i++) {
		ibmr = ib_reg_user_mr(pd, base + offsets[i], SZ_4M - offsets[i], 0, ALL_ACCESS);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ibmr);
		KUNIT_EXPECT_GE(test, to_ziw_mr(ibmr)->block_shift, 21);
		KUNIT_EXPECT_LE(test, to_ziw_mr(ibmr)->nr_blocks, 2);
		ib_dereg_mr(ibmr);
	}
}

static void pages_user_refused(struct kunit *test)
{
	struct ib_pd *pd = fixture_pd(test);
	unsigned long base = fixture_map(test, PAGE_SIZE, MAP_PRIVATE);
	static const struct { s64 off; u64 len, iova; int access; long err; } rows[] = {
		{ 0, 0, 0, 0, -EINVAL },
		{ 0, 4096, U64_MAX - 4094, 0, -EINVAL },
		{ 0, U64_MAX - 4096, 0, 0, -EINVAL },
		{ 0, 4096, 0, IB_ACCESS_HUGETLB, -EOPNOTSUPP },
		{ 0, 4096, 0, IB_ACCESS_FLUSH_GLOBAL, -EOPNOTSUPP },
		{ -0x100000, 4096, 0, 0, -EFAULT },
	};
	struct ib_mr *ibmr;
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		ibmr = ib_reg_user_mr(pd, base + rows[i].off, rows[i].len, rows[i].iova,
				      rows[i].access);
		KUNIT_EXPECT_EQ_MSG(test, PTR_ERR_OR_ZERO(ibmr), rows[i].err, "row %d", i);
		if (!IS_ERR(ibmr))
			ib_dereg_mr(ibmr);
	}
}

static struct kunit_case cases[] = {
	PROPERTY(pages_walk,
		 "a walk meets each byte where its block has it, 4 KiB to 1 GiB blocks"),
	PROPERTY(pages_short, "a walk stops at the end of the block or of what is wanted"),
	PROPERTY(pages_dma, "a region of all memory has no address where there is no memory"),
	PROPERTY(pages_user_small,
		 "registered pages hold what the process wrote, at any offset and iova"),
	PROPERTY(pages_user_large, "registered 2 MiB blocks hold what the process wrote"),
	PROPERTY(pages_user_block, "memory contiguous over 2 MiB is walked in blocks of 2 MiB"),
	PROPERTY(pages_user_refused,
		 "a registration of nothing, beyond the end or of no memory is refused"),
	{}
};

struct kunit_suite ziw_pages_suite = {
	.name		= "pages",
	.test_cases	= cases,
};
