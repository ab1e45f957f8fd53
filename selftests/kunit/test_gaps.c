// SPDX-License-Identifier: GPL-2.0
/* Fast registration of pieces of any length, IB_MR_TYPE_SG_GAPS. */
#include <linux/scatterlist.h>
#include "fixture.h"

#define MAX_PIECES	16
#define MEMORY_ORDER	4
#define MEMORY		(PAGE_SIZE << MEMORY_ORDER)

/* Where the pieces of a list lie in the memory of a test. */
struct piece {
	u32	at;
	u32	len;
};

/**
 * struct list - memory and a list of pieces of it, mapped for the device
 * @ibdev: device
 * @va: MEMORY bytes
 * @sg: the list
 * @num: its length
 * @from: for each byte of the list from the first piece on, where it lies in @va
 * @bytes: of all pieces
 */
struct list {
	struct ib_device	*ibdev;
	u8			*va;
	struct scatterlist	sg[MAX_PIECES];
	int			num;
	u32			*from;
	u32			bytes;
};

static void unmap_action(void *data)
{
	struct list *list = data;

	ib_dma_unmap_sg(list->ibdev, list->sg, list->num, DMA_BIDIRECTIONAL);
}

static struct list *list_make(struct kunit *test, const struct piece *pieces, int num)
{
	struct list *list = kunit_kzalloc(test, sizeof(*list), GFP_KERNEL);
	u32 i, at = 0;

	KUNIT_ASSERT_NOT_NULL(test, list);
	list->ibdev = fixture_device(test);
	list->va = page_address(fixture_pages(test, MEMORY_ORDER));
	list->num = num;
	sg_init_table(list->sg, num);
	for (i = 0; i < num; i++) {
		sg_set_buf(&list->sg[i], list->va + pieces[i].at, pieces[i].len);
		list->bytes += pieces[i].len;
	}
	list->from = kunit_kcalloc(test, max(list->bytes, 1U), sizeof(*list->from), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, list->from);
	for (i = 0; i < num; i++) {
		u32 n;

		for (n = 0; n < pieces[i].len; n++)
			list->from[at++] = pieces[i].at + n;
	}
	KUNIT_ASSERT_EQ(test, ib_dma_map_sg(list->ibdev, list->sg, num, DMA_BIDIRECTIONAL), num);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, unmap_action, list), 0);
	return list;
}

static void dereg_action(void *data)
{
	ib_dereg_mr(data);
}

static struct ziw_mr *gaps_mr(struct kunit *test, struct ib_pd *pd, u32 pieces)
{
	struct ib_mr *ibmr = ib_alloc_mr(pd, IB_MR_TYPE_SG_GAPS, pieces);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ibmr);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, dereg_action, ibmr), 0);
	return to_ziw_mr(ibmr);
}

/**
 * struct place - where a list's bytes are looked for
 * @list: list
 * @skip: its bytes before the access
 */
struct place {
	const struct list	*list;
	u32			skip;
};

static bool in_place(const u8 *va, u32 at, const void *data)
{
	const struct place *place = data;

	return va == place->list->va + place->list->from[place->skip + at];
}

/* Bytes of an access that do not lie where the list has them from @skip on. */
static u32 count_wrong(struct kunit *test, const struct list *list, struct ziw_mr *mr, u64 iova,
		       u32 len, u32 skip)
{
	const struct place place = { list, skip };

	return fixture_count_wrong(test, mr, iova, len, in_place, &place);
}

static const struct piece odd[] = {
	{ 100, 1 }, { 5000, 4096 }, { 0, 100 }, { 12288, 8192 }, { 4095, 2 }, { 30000, 0 },
	{ 200, 3 }, { 100, 1 }, { 40000, 20000 }, { 9999, 1 }, { 8191, 1 },
};

static void gaps_map(struct kunit *test)
{
	static const struct {
		int	num;
		u32	offset;		/* given to ib_map_mr_sg() */
	} rows[] = {
		{ 1, 0 }, { 2, 0 }, { 2, 1 }, { 3, 0 }, { ARRAY_SIZE(odd), 0 },
		{ ARRAY_SIZE(odd), 1 },
	};
	struct ib_pd *pd = fixture_pd(test);
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct list *list = list_make(test, odd, rows[i].num);
		struct ziw_mr *mr = gaps_mr(test, pd, ARRAY_SIZE(odd));
		u32 offset = rows[i].offset, len = list->bytes - offset, at, n;

		KUNIT_EXPECT_EQ_MSG(test, ib_map_mr_sg(&mr->ibmr, list->sg, list->num, &offset,
						       PAGE_SIZE), list->num, "row %d", i);
		KUNIT_EXPECT_EQ(test, offset, 0);
		KUNIT_EXPECT_EQ_MSG(test, mr->ibmr.length, len, "row %d", i);
		KUNIT_EXPECT_EQ(test, fixture_register(mr, mr->stag, ALL_ACCESS), 0);
		KUNIT_EXPECT_EQ_MSG(test, count_wrong(test, list, mr, mr->iova, len,
						      rows[i].offset), 0, "row %d", i);
		/* Of any begin and end. */
		for (at = 0; at < len; at += 1 + at / 7) {
			n = min(len - at, 1 + at % 9000);
			KUNIT_EXPECT_EQ_MSG(test, count_wrong(test, list, mr, mr->iova + at, n,
							      rows[i].offset + at), 0,
					    "row %d, %u bytes from %u", i, n, at);
		}
		KUNIT_EXPECT_EQ(test, fixture_check(pd, mr->stag, 0, mr->iova, len + 1),
				ZIW_MR_BOUNDS);
		KUNIT_EXPECT_EQ(test, fixture_check(pd, mr->stag, 0, mr->iova + len, 1),
				ZIW_MR_BOUNDS);
	}
}

static void gaps_iova(struct kunit *test)
{
	static const struct { u64 iova; int access; u64 first; } rows[] = {
		{ 0x5041, ALL_ACCESS, 0x5041 },
		{ U64_MAX - 40000, ALL_ACCESS, U64_MAX - 40000 },
		{ 0x5041, ALL_ACCESS | IB_ZERO_BASED, 0 },
	};
	struct ib_pd *pd = fixture_pd(test);
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct list *list = list_make(test, odd, ARRAY_SIZE(odd));
		struct ziw_mr *mr = gaps_mr(test, pd, MAX_PIECES);

		KUNIT_EXPECT_EQ(test, ib_map_mr_sg(&mr->ibmr, list->sg, list->num, NULL,
						   PAGE_SIZE), list->num);
		mr->ibmr.iova = rows[i].iova;
		KUNIT_EXPECT_EQ(test, fixture_register(mr, mr->stag, rows[i].access), 0);
		KUNIT_EXPECT_EQ_MSG(test, count_wrong(test, list, mr, rows[i].first, list->bytes,
						      0), 0, "row %d", i);
	}
}

static void gaps_too_many(struct kunit *test)
{
	struct ib_pd *pd = fixture_pd(test);
	struct list *list = list_make(test, odd, ARRAY_SIZE(odd));
	struct ziw_mr *mr = gaps_mr(test, pd, 3);
	u32 first = odd[0].len + odd[1].len + odd[2].len;
	u64 iova;

	KUNIT_EXPECT_EQ(test, ib_map_mr_sg(&mr->ibmr, list->sg, list->num, NULL, PAGE_SIZE), 3);
	KUNIT_EXPECT_EQ(test, mr->ibmr.length, first);
	/* The rest is for the next region; this one begins anew each time. */
	KUNIT_EXPECT_EQ(test, ib_map_mr_sg(&mr->ibmr, list->sg + 3, 2, NULL, PAGE_SIZE), 2);
	KUNIT_EXPECT_EQ(test, fixture_register(mr, mr->stag, ALL_ACCESS), 0);
	KUNIT_EXPECT_EQ(test, count_wrong(test, list, mr, mr->iova, odd[3].len + odd[4].len,
					  first), 0);
	/* A peer may be writing through it: what is mapped now is for the next registration. */
	iova = mr->iova;
	KUNIT_EXPECT_EQ(test, ib_map_mr_sg(&mr->ibmr, list->sg, 1, NULL, PAGE_SIZE), 1);
	KUNIT_EXPECT_EQ(test, count_wrong(test, list, mr, iova, odd[3].len + odd[4].len, first), 0);
	KUNIT_EXPECT_EQ(test, fixture_invalidate(mr, true), 0);
	KUNIT_EXPECT_EQ(test, fixture_register(mr, mr->stag, ALL_ACCESS), 0);
	KUNIT_EXPECT_EQ(test, count_wrong(test, list, mr, mr->iova, odd[0].len, 0), 0);
}

/* Eight bytes at an aligned address, of which the region has but the first four there. */
static void gaps_atomic(struct kunit *test)
{
	static const struct piece pieces[] = { { 0, 12 }, { 4096, 12 } };
	struct ib_pd *pd = fixture_pd(test);
	struct list *list = list_make(test, pieces, 2);
	struct ziw_mr *mr = gaps_mr(test, pd, 2);
	struct ziw_atomic_req req = { .op = ATOMIC_FETCH_ADD, .data = 1 };
	u64 before;

	KUNIT_EXPECT_EQ(test, ib_map_mr_sg(&mr->ibmr, list->sg, 2, NULL, PAGE_SIZE), 2);
	KUNIT_EXPECT_EQ(test, fixture_register(mr, mr->stag, IB_ACCESS_LOCAL_WRITE |
					       IB_ACCESS_REMOTE_ATOMIC), 0);
	memset(list->va, 0xff, 16);
	req.stag = mr->stag;
	req.to = mr->iova + 8;
	KUNIT_EXPECT_EQ(test, fixture_atomic(pd, &req, &before), ZIW_MR_ALIGNMENT);
	KUNIT_EXPECT_TRUE(test, !memchr_inv(list->va, 0xff, 16));
	req.to = mr->iova;
	KUNIT_EXPECT_EQ(test, fixture_atomic(pd, &req, &before), ZIW_MR_OK);
	KUNIT_EXPECT_EQ(test, before, U64_MAX);
	KUNIT_EXPECT_TRUE(test, !memchr_inv(list->va, 0, 8));
}

static void gaps_refused(struct kunit *test)
{
	struct ib_pd *pd = fixture_pd(test);
	struct list *list = list_make(test, odd, ARRAY_SIZE(odd));
	struct ziw_mr *mr = gaps_mr(test, pd, 3);
	u32 offset = odd[0].len + 1;

	KUNIT_EXPECT_EQ(test, ib_map_mr_sg(&mr->ibmr, list->sg, 0, NULL, PAGE_SIZE), -EINVAL);
	KUNIT_EXPECT_EQ(test, ib_map_mr_sg(&mr->ibmr, list->sg, 2, &offset, PAGE_SIZE), -EINVAL);
	/* It has no memory yet, so it allows no access. */
	fixture_register(mr, mr->stag, ALL_ACCESS);
	KUNIT_EXPECT_NE(test, fixture_check(pd, mr->stag, 0, mr->iova, 1), ZIW_MR_OK);
}

/* Storage drivers look here for what they may hand over. */
static void gaps_announced(struct kunit *test)
{
	KUNIT_EXPECT_TRUE(test, fixture_device(test)->attrs.kernel_cap_flags & IBK_SG_GAPS_REG);
}

static struct kunit_case cases[] = {
	PROPERTY(gaps_map, "the region holds the bytes of the pieces, from any byte to any other"),
	PROPERTY(gaps_iova, "an iova set after mapping, or zero-based, names the same bytes"),
	PROPERTY(gaps_too_many,
		 "mapping stops where the region is full, begins anew, also while it is valid"),
	PROPERTY(gaps_atomic, "an atomic stays in its piece"),
	PROPERTY(gaps_refused, "a list without pieces, or an offset behind the first, is refused"),
	PROPERTY(gaps_announced, "the device announces it"),
	{}
};

struct kunit_suite ziw_gaps_suite = {
	.name		= "fast-registration-gaps",
	.test_cases	= cases,
};
