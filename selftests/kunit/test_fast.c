// SPDX-License-Identifier: GPL-2.0
/* Fast registration: ib_map_mr_sg(), IB_WR_REG_MR, and the ways to invalidate. */
#include <linux/scatterlist.h>
#include "fixture.h"

#define PAGES	8

/* A list of pages of a test's own, mapped for the device. */
struct pages {
	struct ib_device	*ibdev;
	struct scatterlist	sg[PAGES];
	struct page		*page[PAGES];
	int			num;
};

static void unmap_action(void *data)
{
	struct pages *p = data;

	ib_dma_unmap_sg(p->ibdev, p->sg, p->num, DMA_BIDIRECTIONAL);
}

/* Each byte tells its number in the page and which page it is. */
static u8 pattern(int page, int i)
{
	return page * 31 + i;
}

static struct pages *pages_make(struct kunit *test, int num)
{
	struct pages *p = kunit_kzalloc(test, sizeof(*p), GFP_KERNEL);
	int i, j;

	KUNIT_ASSERT_NOT_NULL(test, p);
	p->ibdev = fixture_device(test);
	p->num = num;
	sg_init_table(p->sg, num);
	for (i = 0; i < num; i++) {
		p->page[i] = fixture_pages(test, 0);
		for (j = 0; j < PAGE_SIZE; j++)
			((u8 *)page_address(p->page[i]))[j] = pattern(i, j);
		sg_set_page(&p->sg[i], p->page[i], PAGE_SIZE, 0);
	}
	return p;
}

static void pages_map(struct kunit *test, struct pages *p)
{
	KUNIT_ASSERT_EQ(test, ib_dma_map_sg(p->ibdev, p->sg, p->num, DMA_BIDIRECTIONAL), p->num);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, unmap_action, p), 0);
}

static bool has_pattern(const u8 *va, u32 at, const void *data)
{
	u32 offset = *(const u32 *)data + at;

	return *va == pattern(offset / PAGE_SIZE, offset % PAGE_SIZE);
}

/* Bytes of the region that are not those of the list from @offset on. */
static u32 count_wrong(struct kunit *test, struct ziw_mr *mr, u64 iova, u32 len, u32 offset)
{
	return fixture_count_wrong(test, mr, iova, len, has_pattern, &offset);
}

static void fast_map(struct kunit *test)
{
	static const struct {
		u32	first_off;	/* in the first page */
		u32	last_len;	/* of the last page */
		u32	sg_offset;	/* given to ib_map_mr_sg() */
		int	num;
	} rows[] = {
		{ 0, PAGE_SIZE, 0, 1 },
		{ 0, 1, 0, 1 },
		{ 0, PAGE_SIZE, 0, PAGES },
		{ 100, PAGE_SIZE, 0, PAGES },
		{ 0, 100, 0, PAGES },
		{ 4095, 1, 0, 2 },
		{ 0, PAGE_SIZE, 7, 3 },
		{ 9, 11, 7, 3 },
	};
	struct ib_pd *pd = fixture_pd(test);
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ziw_mr *mr = fixture_fast_mr(test, pd, PAGES);
		struct pages *p = pages_make(test, rows[i].num);
		u32 offset = rows[i].sg_offset, len, skipped;

		p->sg[0].offset += rows[i].first_off;
		p->sg[0].length -= rows[i].first_off;
		p->sg[p->num - 1].length -= PAGE_SIZE - rows[i].last_len;
		skipped = rows[i].first_off + rows[i].sg_offset;
		len = (p->num - 1) * PAGE_SIZE + rows[i].last_len - skipped;
		pages_map(test, p);

		KUNIT_EXPECT_EQ_MSG(test,
				    ib_map_mr_sg(&mr->ibmr, p->sg, p->num, &offset, PAGE_SIZE),
				    p->num, "row %d", i);
		KUNIT_EXPECT_EQ_MSG(test, mr->ibmr.length, len, "row %d", i);
		KUNIT_EXPECT_EQ(test, fixture_register(mr, mr->stag, ALL_ACCESS), 0);
		KUNIT_EXPECT_EQ_MSG(test, count_wrong(test, mr, mr->ibmr.iova, len, skipped), 0,
				    "row %d", i);
		KUNIT_EXPECT_EQ(test, fixture_check(pd, mr->stag, 0, mr->ibmr.iova, len + 1),
				ZIW_MR_BOUNDS);
	}
}

static void fast_iova(struct kunit *test)
{
	static const struct { u64 iova; int access; u64 first; } rows[] = {
		{ 0x5040, ALL_ACCESS, 0x5040 },
		{ 0xabcdef0123456040, ALL_ACCESS, 0xabcdef0123456040 },
		{ 0x5040, ALL_ACCESS | IB_ZERO_BASED, 0 },
	};
	struct ib_pd *pd = fixture_pd(test);
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ziw_mr *mr = fixture_fast_mr(test, pd, PAGES);
		struct pages *p = pages_make(test, 2);
		u32 in_page = 0x40;

		p->sg[0].offset = in_page;
		p->sg[0].length -= in_page;
		pages_map(test, p);
		KUNIT_EXPECT_EQ(test, ib_map_mr_sg(&mr->ibmr, p->sg, 2, NULL, PAGE_SIZE), 2);
		/* As xprtrdma does: other pages in the address, the same place in the page. */
		mr->ibmr.iova = rows[i].iova;
		KUNIT_EXPECT_EQ(test, fixture_register(mr, mr->stag, rows[i].access), 0);
		KUNIT_EXPECT_EQ_MSG(test,
				    count_wrong(test, mr, rows[i].first,
						2 * PAGE_SIZE - in_page, in_page),
				    0, "row %d", i);
	}
}

static void fast_large_pages(struct kunit *test)
{
	struct ib_pd *pd = fixture_pd(test);
	struct ziw_mr *mr = fixture_fast_mr(test, pd, 4);
	struct page *page = fixture_pages(test, 3);
	u8 *va = page_address(page);
	struct scatterlist sg[2];
	u32 i, wrong = 0;

	/* Two blocks of 16 KiB, in the other order. */
	for (i = 0; i < 2 * SZ_16K; i++)
		va[i] = pattern((i / PAGE_SIZE + 4) % 8, i % PAGE_SIZE);
	sg_init_table(sg, 2);
	sg_set_page(&sg[0], page + 4, SZ_16K, 0);
	sg_set_page(&sg[1], page, SZ_16K, 0);
	KUNIT_ASSERT_EQ(test, ib_dma_map_sg(pd->device, sg, 2, DMA_BIDIRECTIONAL), 2);
	KUNIT_EXPECT_EQ(test, ib_map_mr_sg(&mr->ibmr, sg, 2, NULL, SZ_16K), 2);
	KUNIT_EXPECT_EQ(test, fixture_register(mr, mr->stag, ALL_ACCESS), 0);
	KUNIT_EXPECT_EQ(test, mr->nr_blocks, 2);
	KUNIT_EXPECT_EQ(test, mr->block_shift, 14);
	wrong = count_wrong(test, mr, mr->ibmr.iova, 2 * SZ_16K, 0);
	ib_dma_unmap_sg(pd->device, sg, 2, DMA_BIDIRECTIONAL);
	KUNIT_EXPECT_EQ(test, wrong, 0);
}

static void fast_limits(struct kunit *test)
{
	static const struct { enum ib_mr_type type; u32 pages; long err; } rows[] = {
		{ IB_MR_TYPE_MEM_REG, 0, -EINVAL },
		{ IB_MR_TYPE_MEM_REG, 1, 0 },
		{ IB_MR_TYPE_MEM_REG, ZIW_MAX_FRMR_PAGES, 0 },
		{ IB_MR_TYPE_MEM_REG, ZIW_MAX_FRMR_PAGES + 1, -EINVAL },
		{ IB_MR_TYPE_MEM_REG, U32_MAX, -EINVAL },
		{ IB_MR_TYPE_SG_GAPS, 0, -EINVAL },
		{ IB_MR_TYPE_SG_GAPS, ZIW_MAX_FRMR_PAGES, 0 },
		{ IB_MR_TYPE_SG_GAPS, ZIW_MAX_FRMR_PAGES + 1, -EINVAL },
		{ IB_MR_TYPE_DMA, 1, -EOPNOTSUPP },
	};
	struct ib_pd *pd = fixture_pd(test);
	int i;

	KUNIT_EXPECT_EQ(test, pd->device->attrs.max_fast_reg_page_list_len, ZIW_MAX_FRMR_PAGES);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ib_mr *ibmr = ib_alloc_mr(pd, rows[i].type, rows[i].pages);

		KUNIT_EXPECT_EQ_MSG(test, PTR_ERR_OR_ZERO(ibmr), rows[i].err, "row %d", i);
		if (!IS_ERR(ibmr))
			ib_dereg_mr(ibmr);
	}
}

static void fast_too_many(struct kunit *test)
{
	struct ib_pd *pd = fixture_pd(test);
	struct ziw_mr *mr = fixture_fast_mr(test, pd, 3);
	struct pages *p = pages_make(test, 5);

	pages_map(test, p);
	KUNIT_EXPECT_EQ(test, ib_map_mr_sg(&mr->ibmr, p->sg, 5, NULL, PAGE_SIZE), 3);
	KUNIT_EXPECT_EQ(test, mr->ibmr.length, 3 * PAGE_SIZE);
	KUNIT_EXPECT_EQ(test, mr->nr_next, 3);
	/* The rest is for the next region; this one begins anew each time. */
	KUNIT_EXPECT_EQ(test, ib_map_mr_sg(&mr->ibmr, p->sg + 3, 2, NULL, PAGE_SIZE), 2);
	KUNIT_EXPECT_EQ(test, mr->nr_next, 2);
	KUNIT_EXPECT_EQ(test, fixture_register(mr, mr->stag, ALL_ACCESS), 0);
	KUNIT_EXPECT_EQ(test, mr->nr_blocks, 2);
	KUNIT_EXPECT_EQ(test, count_wrong(test, mr, mr->ibmr.iova, 2 * PAGE_SIZE, 3 * PAGE_SIZE),
			0);
}

static void fast_gap(struct kunit *test)
{
	struct ib_pd *pd = fixture_pd(test);
	struct ziw_mr *mr = fixture_fast_mr(test, pd, PAGES);
	struct pages *p = pages_make(test, 3);

	p->sg[1].length -= 1;
	pages_map(test, p);
	KUNIT_EXPECT_EQ(test, ib_map_mr_sg(&mr->ibmr, p->sg, 3, NULL, PAGE_SIZE), 2);
	KUNIT_EXPECT_EQ(test, mr->ibmr.length, 2 * PAGE_SIZE - 1);
	KUNIT_EXPECT_EQ(test, ib_map_mr_sg(&mr->ibmr, p->sg, 0, NULL, PAGE_SIZE), -EINVAL);
}

/* A peer may be writing through it: its pages stay until it is invalidated and registered. */
static void fast_busy(struct kunit *test)
{
	struct ib_pd *pd = fixture_pd(test);
	struct ziw_mr *mr = fixture_fast_mr(test, pd, PAGES);
	struct pages *p = pages_make(test, 3);
	u64 iova;

	pages_map(test, p);
	KUNIT_EXPECT_EQ(test, ib_map_mr_sg(&mr->ibmr, p->sg, 2, NULL, PAGE_SIZE), 2);
	iova = mr->ibmr.iova;
	KUNIT_EXPECT_EQ(test, fixture_register(mr, mr->stag, ALL_ACCESS), 0);
	KUNIT_EXPECT_EQ(test, ib_map_mr_sg(&mr->ibmr, p->sg + 2, 1, NULL, PAGE_SIZE), 1);
	KUNIT_EXPECT_EQ(test, mr->nr_blocks, 2);
	KUNIT_EXPECT_EQ(test, count_wrong(test, mr, iova, 2 * PAGE_SIZE, 0), 0);
	KUNIT_EXPECT_EQ(test, fixture_register(mr, mr->stag, ALL_ACCESS), -EINVAL);
	KUNIT_EXPECT_EQ(test, count_wrong(test, mr, iova, 2 * PAGE_SIZE, 0), 0);
	KUNIT_EXPECT_EQ(test, fixture_invalidate(mr, false), 0);
	KUNIT_EXPECT_EQ(test, fixture_register(mr, mr->stag, ALL_ACCESS), 0);
	KUNIT_EXPECT_EQ(test, count_wrong(test, mr, mr->ibmr.iova, PAGE_SIZE, 2 * PAGE_SIZE), 0);
	/* Once more without mapping: with the same pages. */
	KUNIT_EXPECT_EQ(test, fixture_invalidate(mr, false), 0);
	KUNIT_EXPECT_EQ(test, fixture_register(mr, mr->stag, ALL_ACCESS), 0);
	KUNIT_EXPECT_EQ(test, count_wrong(test, mr, mr->ibmr.iova, PAGE_SIZE, 2 * PAGE_SIZE), 0);
}

static void fast_register(struct kunit *test)
{
	struct ib_pd *pd = fixture_pd(test);
	struct ziw_mr *mr = fixture_mr(test, pd, 0x1000, 0x1000, IB_ACCESS_REMOTE_READ);
	u32 stag = mr->stag;

	/* While it is valid, with the same key or another. */
	KUNIT_EXPECT_EQ(test, fixture_register(mr, stag, ALL_ACCESS), -EINVAL);
	KUNIT_EXPECT_EQ(test, fixture_register(mr, ib_inc_rkey(stag), ALL_ACCESS), -EINVAL);
	KUNIT_EXPECT_EQ(test, mr->stag, stag);
	KUNIT_EXPECT_EQ(test, fixture_check(pd, stag, IB_ACCESS_REMOTE_WRITE, 0x1000, 1),
			ZIW_MR_ACCESS);

	/* With another index. */
	KUNIT_EXPECT_EQ(test, fixture_invalidate(mr, false), 0);
	KUNIT_EXPECT_EQ(test, fixture_register(mr, stag + 0x100, ALL_ACCESS), -EINVAL);
	KUNIT_EXPECT_EQ(test, fixture_register(mr, stag ^ 0x80000000, ALL_ACCESS), -EINVAL);
	KUNIT_EXPECT_FALSE(test, mr->valid);

	/* Rights are those of this registration, not of the one before. */
	KUNIT_EXPECT_EQ(test, fixture_register(mr, stag ^ 0xff, IB_ACCESS_REMOTE_WRITE), 0);
	KUNIT_EXPECT_EQ(test, fixture_check(pd, stag ^ 0xff, IB_ACCESS_REMOTE_WRITE, 0x1000, 1),
			ZIW_MR_OK);
	KUNIT_EXPECT_EQ(test, fixture_check(pd, stag ^ 0xff, IB_ACCESS_REMOTE_READ, 0x1000, 1),
			ZIW_MR_ACCESS);
}

static void fast_without_pages(struct kunit *test)
{
	struct ib_pd *pd = fixture_pd(test);
	struct ziw_mr *mr = fixture_fast_mr(test, pd, 1);

	fixture_register(mr, mr->stag, ALL_ACCESS);
	KUNIT_EXPECT_NE(test, fixture_check(pd, mr->stag, 0, 0, 1), ZIW_MR_OK);
	KUNIT_EXPECT_NE(test, fixture_check(pd, mr->stag, 0, 1, 1), ZIW_MR_OK);
}

static void fast_other_kind(struct kunit *test)
{
	struct ib_pd *pd = fixture_pd(test);
	struct ib_mr *ibmr = pd->device->ops.get_dma_mr(pd, ALL_ACCESS);
	struct ziw_mr *mr;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ibmr);
	mr = to_ziw_mr(ibmr);
	KUNIT_EXPECT_EQ(test, fixture_register(mr, mr->stag, ALL_ACCESS), -EINVAL);
	KUNIT_EXPECT_EQ(test, fixture_invalidate(mr, false), -EPERM);
	KUNIT_EXPECT_EQ(test, fixture_invalidate(mr, true), -EPERM);
	KUNIT_EXPECT_TRUE(test, mr->valid);
	pd->device->ops.dereg_mr(ibmr, NULL);
}

static void fast_invalidate(struct kunit *test)
{
	static const struct { int access; bool remote; int err; } rows[] = {
		{ 0, false, 0 },
		{ 0, true, -EPERM },
		{ IB_ACCESS_LOCAL_WRITE, false, 0 },
		{ IB_ACCESS_LOCAL_WRITE, true, -EPERM },
		{ IB_ACCESS_REMOTE_READ, false, 0 },
		{ IB_ACCESS_REMOTE_READ, true, 0 },
		{ IB_ACCESS_REMOTE_WRITE, true, 0 },
		{ IB_ACCESS_REMOTE_ATOMIC, true, 0 },
		{ ALL_ACCESS, true, 0 },
	};
	struct ib_pd *pd = fixture_pd(test);
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ziw_mr *mr = fixture_mr(test, pd, 0, 1, rows[i].access);

		KUNIT_EXPECT_EQ_MSG(test, fixture_invalidate(mr, rows[i].remote), rows[i].err,
				    "access %#x, remote %d", rows[i].access, rows[i].remote);
		KUNIT_EXPECT_EQ_MSG(test, fixture_check(pd, mr->stag, 0, 0, 1),
				    rows[i].err ? ZIW_MR_OK : ZIW_MR_INVALID_STAG,
				    "access %#x, remote %d", rows[i].access, rows[i].remote);
	}
}

static void fast_invalidate_wrong(struct kunit *test)
{
	struct ib_pd *pd = fixture_pd(test), *other = fixture_pd(test);
	struct ziw_mr *mr = fixture_mr(test, pd, 0, 1, ALL_ACCESS);
	const struct { struct ib_pd *pd; u32 stag; int err; } rows[] = {
		{ other, mr->stag, -EPERM },
		{ other, mr->stag ^ 1, -EINVAL },
		{ pd, mr->stag ^ 1, -EINVAL },
		{ pd, mr->stag ^ 0x100, -EINVAL },
		{ pd, 0, -EINVAL },
	};
	int i, err;

	for (i = 0; i < 2 * ARRAY_SIZE(rows); i++) {
		local_bh_disable();
		err = ziw_mr_invalidate(rows[i / 2].pd, rows[i / 2].stag, i & 1);
		local_bh_enable();
		KUNIT_EXPECT_EQ_MSG(test, err, rows[i / 2].err, "row %d, remote %d", i / 2, i & 1);
		KUNIT_EXPECT_EQ(test, fixture_check(pd, mr->stag, 0, 0, 1), ZIW_MR_OK);
	}
	KUNIT_EXPECT_EQ(test, fixture_invalidate(mr, true), 0);
	KUNIT_EXPECT_EQ(test, fixture_invalidate(mr, true), -EINVAL);
	KUNIT_EXPECT_EQ(test, fixture_invalidate(mr, false), -EINVAL);
}

static struct kunit_case cases[] = {
	PROPERTY(fast_map, "the region holds the bytes of the list, from any offset to any end"),
	PROPERTY(fast_iova, "an iova set after mapping, or zero-based, names the same bytes"),
	PROPERTY(fast_large_pages, "pages larger than PAGE_SIZE make one block each"),
	PROPERTY(fast_limits,
		 "a region has 1 to max_fast_reg_page_list_len pages, of a kind that there is"),
	PROPERTY(fast_too_many,
		 "mapping stops where the region is full, and begins anew the next time"),
	PROPERTY(fast_gap, "mapping stops at a gap"),
	PROPERTY(fast_busy,
		 "a region that is mapped while valid keeps its pages until the next REG_MR"),
	PROPERTY(fast_register, "REG_MR changes the key and the rights of an invalid region only"),
	PROPERTY(fast_without_pages, "REG_MR of a region without pages allows no access"),
	PROPERTY(fast_other_kind,
		 "only a region for fast registration is registered or invalidated"),
	PROPERTY(fast_invalidate, "a peer invalidates only what it was given a right to"),
	PROPERTY(fast_invalidate_wrong,
		 "an invalidation needs the right PD and STag, and is done once"),
	{}
};

struct kunit_suite ziw_fast_suite = {
	.name		= "fast-registration",
	.test_cases	= cases,
};
