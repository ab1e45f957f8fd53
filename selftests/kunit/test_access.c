// SPDX-License-Identifier: GPL-2.0
/* Whether an STag allows an access: rights, bounds, wrap-around, PD, key. */
#include "fixture.h"

/* A region of the table below: [BASE, BASE + LEN). */
#define BASE	0x10000ULL
#define LEN	0x3001ULL

static void access_rights(struct kunit *test)
{
	static const int rights[] = {
		IB_ACCESS_LOCAL_WRITE, IB_ACCESS_REMOTE_READ, IB_ACCESS_REMOTE_WRITE,
		IB_ACCESS_REMOTE_ATOMIC,
	};
	struct ib_pd *pd = fixture_pd(test);
	unsigned int held, wanted, i;

	for (held = 0; held < BIT(ARRAY_SIZE(rights)); held++) {
		struct ziw_mr *mr;
		int has = 0;

		for (i = 0; i < ARRAY_SIZE(rights); i++)
			has |= held & BIT(i) ? rights[i] : 0;
		mr = fixture_mr(test, pd, BASE, LEN, has);
		for (wanted = 0; wanted < BIT(ARRAY_SIZE(rights)); wanted++) {
			int wants = 0;

			for (i = 0; i < ARRAY_SIZE(rights); i++)
				wants |= wanted & BIT(i) ? rights[i] : 0;
			KUNIT_EXPECT_EQ_MSG(test, fixture_check(pd, mr->stag, wants, BASE, 1),
					    wanted & ~held ? ZIW_MR_ACCESS : ZIW_MR_OK,
					    "has %#x, wants %#x", has, wants);
		}
	}
}

static void access_bounds(struct kunit *test)
{
	static const struct {
		u64			addr;
		u32			len;
		enum ziw_mr_error	result;
	} rows[] = {
		{ BASE, 0, ZIW_MR_OK },
		{ BASE, 1, ZIW_MR_OK },
		{ BASE, LEN, ZIW_MR_OK },
		{ BASE, LEN + 1, ZIW_MR_BOUNDS },
		{ BASE, 0xffffffff, ZIW_MR_BOUNDS },
		{ BASE + 1, LEN - 1, ZIW_MR_OK },
		{ BASE + 1, LEN, ZIW_MR_BOUNDS },
		{ BASE + LEN - 1, 1, ZIW_MR_OK },
		{ BASE + LEN - 1, 2, ZIW_MR_BOUNDS },
		{ BASE + LEN, 0, ZIW_MR_OK },
		{ BASE + LEN, 1, ZIW_MR_BOUNDS },
		{ BASE + LEN + 1, 0, ZIW_MR_BOUNDS },
		{ BASE - 1, 0, ZIW_MR_BOUNDS },
		{ BASE - 1, 1, ZIW_MR_BOUNDS },
		{ BASE - 1, 2, ZIW_MR_BOUNDS },
		{ BASE - 1, LEN + 2, ZIW_MR_BOUNDS },
		{ 0, 0, ZIW_MR_BOUNDS },
		{ 0, 1, ZIW_MR_BOUNDS },
		{ BASE | 1ULL << 32, 1, ZIW_MR_BOUNDS },
		{ BASE | 1ULL << 63, 1, ZIW_MR_BOUNDS },
	};
	struct ib_pd *pd = fixture_pd(test);
	struct ziw_mr *mr = fixture_mr(test, pd, BASE, LEN, ALL_ACCESS);
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++)
		KUNIT_EXPECT_EQ_MSG(test,
				    fixture_check(pd, mr->stag, IB_ACCESS_REMOTE_WRITE,
						  rows[i].addr, rows[i].len),
				    rows[i].result, "%#llx, %#x bytes", rows[i].addr, rows[i].len);
}

/* The last byte of the address space belongs to no region: an end of 2^64 is a wrap. */
static void access_wrap(struct kunit *test)
{
	static const struct {
		u64			addr;
		u32			len;
		enum ziw_mr_error	result;
	} rows[] = {
		{ U64_MAX, 0, ZIW_MR_OK },
		{ U64_MAX, 1, ZIW_MR_TO_WRAP },
		{ U64_MAX, 0xffffffff, ZIW_MR_TO_WRAP },
		{ U64_MAX - 1, 1, ZIW_MR_OK },
		{ U64_MAX - 1, 2, ZIW_MR_TO_WRAP },
		{ U64_MAX - 0xfff, 0xfff, ZIW_MR_OK },
		{ U64_MAX - 0xfff, 0x1000, ZIW_MR_TO_WRAP },
		{ U64_MAX - 0x1000, 1, ZIW_MR_BOUNDS },
	};
	struct ib_pd *pd = fixture_pd(test);
	struct ziw_mr *top = fixture_mr(test, pd, U64_MAX - 0xfff, 0xfff, ALL_ACCESS);
	struct ziw_mr *low = fixture_mr(test, pd, 0, LEN, ALL_ACCESS);
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++)
		KUNIT_EXPECT_EQ_MSG(test,
				    fixture_check(pd, top->stag, IB_ACCESS_REMOTE_WRITE,
						  rows[i].addr, rows[i].len),
				    rows[i].result, "%#llx, %#x bytes", rows[i].addr, rows[i].len);
	/* What would come out inside of this region by overflow does not. */
	KUNIT_EXPECT_EQ(test, fixture_check(pd, low->stag, 0, U64_MAX, 2), ZIW_MR_TO_WRAP);
	KUNIT_EXPECT_EQ(test, fixture_check(pd, low->stag, 0, U64_MAX - 1, 1), ZIW_MR_BOUNDS);
}

static void access_zero_length(struct kunit *test)
{
	struct ib_pd *pd = fixture_pd(test);
	struct ziw_mr *mr = fixture_mr(test, pd, BASE, 0, ALL_ACCESS);

	KUNIT_EXPECT_EQ(test, fixture_check(pd, mr->stag, 0, BASE, 0), ZIW_MR_OK);
	KUNIT_EXPECT_EQ(test, fixture_check(pd, mr->stag, 0, BASE, 1), ZIW_MR_BOUNDS);
	KUNIT_EXPECT_EQ(test, fixture_check(pd, mr->stag, 0, BASE + 1, 0), ZIW_MR_BOUNDS);
}

static void access_pd(struct kunit *test)
{
	struct ib_pd *mine = fixture_pd(test), *other = fixture_pd(test);
	struct ziw_mr *mr = fixture_mr(test, mine, BASE, LEN, ALL_ACCESS);

	KUNIT_EXPECT_EQ(test, fixture_check(mine, mr->stag, 0, BASE, 1), ZIW_MR_OK);
	KUNIT_EXPECT_EQ(test, fixture_check(other, mr->stag, 0, BASE, 1), ZIW_MR_NOT_ASSOCIATED);
	/* Not even that it has the rights is told. */
	KUNIT_EXPECT_EQ(test, fixture_check(other, mr->stag, ALL_ACCESS, 0, 1),
			ZIW_MR_NOT_ASSOCIATED);
}

static void access_key(struct kunit *test)
{
	struct ib_pd *pd = fixture_pd(test);
	struct ziw_mr *mr = fixture_mr(test, pd, BASE, LEN, ALL_ACCESS);
	u32 index = mr->stag & ~0xffU, key;

	for (key = 0; key < 256; key++)
		KUNIT_EXPECT_EQ_MSG(test, fixture_check(pd, index | key, 0, BASE, 1),
				    (index | key) == mr->stag ? ZIW_MR_OK : ZIW_MR_INVALID_STAG,
				    "key %#x of STag %#x", key, mr->stag);
}

static void access_not_valid(struct kunit *test)
{
	struct ib_pd *pd = fixture_pd(test);
	struct ziw_mr *mr = fixture_fast_mr(test, pd, 1);

	KUNIT_EXPECT_EQ(test, fixture_check(pd, mr->stag, 0, 0, 0), ZIW_MR_INVALID_STAG);
	KUNIT_EXPECT_EQ(test, fixture_check(pd, 0, 0, 0, 0), ZIW_MR_INVALID_STAG);
	KUNIT_EXPECT_EQ(test, fixture_check(pd, 0xff, 0, 0, 0), ZIW_MR_INVALID_STAG);
	KUNIT_EXPECT_EQ(test, fixture_check(pd, mr->stag ^ 0x80000000, 0, 0, 0),
			ZIW_MR_INVALID_STAG);
}

static void access_zero_based(struct kunit *test)
{
	struct ib_pd *pd = fixture_pd(test);
	struct ziw_mr *mr = fixture_mr(test, pd, BASE, LEN, ALL_ACCESS | IB_ZERO_BASED);

	KUNIT_EXPECT_EQ(test, fixture_check(pd, mr->stag, 0, 0, LEN), ZIW_MR_OK);
	KUNIT_EXPECT_EQ(test, fixture_check(pd, mr->stag, 0, 1, LEN), ZIW_MR_BOUNDS);
	KUNIT_EXPECT_EQ(test, fixture_check(pd, mr->stag, 0, BASE, 1), ZIW_MR_BOUNDS);
}

/* A region of all memory has no bounds, but all the rest. */
static void access_dma(struct kunit *test)
{
	struct ib_pd *pd = fixture_pd(test), *other = fixture_pd(test);
	struct ib_mr *ibmr = pd->device->ops.get_dma_mr(pd, IB_ACCESS_REMOTE_READ);
	u32 stag;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ibmr);
	stag = ibmr->rkey;
	KUNIT_EXPECT_EQ(test, fixture_check(pd, stag, IB_ACCESS_REMOTE_READ, 0, 1), ZIW_MR_OK);
	KUNIT_EXPECT_EQ(test, fixture_check(pd, stag, IB_ACCESS_REMOTE_READ, U64_MAX - 1, 1),
			ZIW_MR_OK);
	KUNIT_EXPECT_EQ(test, fixture_check(pd, stag, IB_ACCESS_REMOTE_READ, U64_MAX, 1),
			ZIW_MR_TO_WRAP);
	KUNIT_EXPECT_EQ(test, fixture_check(pd, stag, IB_ACCESS_REMOTE_WRITE, 0, 1),
			ZIW_MR_ACCESS);
	KUNIT_EXPECT_EQ(test, fixture_check(other, stag, 0, 0, 1), ZIW_MR_NOT_ASSOCIATED);
	KUNIT_EXPECT_EQ(test, fixture_check(pd, stag ^ 1, 0, 0, 1), ZIW_MR_INVALID_STAG);
	pd->device->ops.dereg_mr(ibmr, NULL);
}

/* STag 0 is all memory for a kernel consumer's own SGEs, and nothing for anybody else. */
static void access_local_dma(struct kunit *test)
{
	struct ib_pd *pd = fixture_pd(test);
	enum ziw_mr_error err = ZIW_MR_OK;
	struct ziw_mr *mr;
	u64 data = 0;
	u32 len = sizeof(data);

	local_bh_disable();
	mr = ziw_mr_get(pd, 0, true, IB_ACCESS_LOCAL_WRITE, (uintptr_t)&data, len, &err);
	if (mr) {
		void *at = ziw_mr_range(mr, (uintptr_t)&data, &len);

		ziw_mr_put(mr);
		local_bh_enable();
		KUNIT_EXPECT_PTR_EQ(test, at, (void *)&data);
		KUNIT_EXPECT_EQ(test, len, sizeof(data));
		local_bh_disable();
	}
	local_bh_enable();
	KUNIT_EXPECT_NOT_NULL(test, mr);

	local_bh_disable();
	mr = ziw_mr_get(pd, 0, false, 0, (uintptr_t)&data, len, &err);
	local_bh_enable();
	KUNIT_EXPECT_NULL(test, mr);
	KUNIT_EXPECT_EQ(test, err, ZIW_MR_INVALID_STAG);
}

/* --- atomics --- */

/* On @at of a region over @page; returns what ziw_mr_atomic() did. */
static enum ziw_mr_error atomic(struct ziw_mr *mr, struct ib_pd *pd, u64 at, u8 op, u64 data,
				u64 compare, u64 *before)
{
	const struct ziw_atomic_req req = {
		.op		= op,
		.stag		= mr->stag,
		.to		= at,
		.data		= data,
		.mask		= op == ATOMIC_CMP_SWAP ? U64_MAX : 0,
		.compare	= compare,
		.compare_mask	= U64_MAX,
	};

	return fixture_atomic(pd, &req, before);
}

static struct ziw_mr *mr_of(struct kunit *test, struct ib_pd *pd, struct page *page, u64 iova,
			    u64 length, int access)
{
	struct ziw_mr *mr = fixture_mr(test, pd, iova, length, access);

	mr->blocks[0] = (uintptr_t)page_address(page);
	return mr;
}

static void access_atomic(struct kunit *test)
{
	struct page *page = fixture_pages(test, 0);
	struct ib_pd *pd = fixture_pd(test);
	/* The region begins within its page, where its address says. */
	struct ziw_mr *mr = mr_of(test, pd, page, 0x7008, 16, IB_ACCESS_REMOTE_ATOMIC);
	u64 *word = page_address(page) + 8, before = 0;

	word[0] = 100;
	KUNIT_EXPECT_EQ(test, atomic(mr, pd, 0x7008, ATOMIC_FETCH_ADD, 5, 0, &before), ZIW_MR_OK);
	KUNIT_EXPECT_EQ(test, before, 100);
	KUNIT_EXPECT_EQ(test, word[0], 105);
	KUNIT_EXPECT_EQ(test, atomic(mr, pd, 0x7008, ATOMIC_FETCH_ADD, -106, 0, &before),
			ZIW_MR_OK);
	KUNIT_EXPECT_EQ(test, word[0], U64_MAX);
	KUNIT_EXPECT_EQ(test, atomic(mr, pd, 0x7010, ATOMIC_CMP_SWAP, 7, 1, &before), ZIW_MR_OK);
	KUNIT_EXPECT_EQ(test, before, 0);
	KUNIT_EXPECT_EQ(test, word[1], 0);
	KUNIT_EXPECT_EQ(test, atomic(mr, pd, 0x7010, ATOMIC_CMP_SWAP, 7, 0, &before), ZIW_MR_OK);
	KUNIT_EXPECT_EQ(test, before, 0);
	KUNIT_EXPECT_EQ(test, word[1], 7);
	/* Nothing around them. */
	KUNIT_EXPECT_EQ(test, word[-1], 0);
	KUNIT_EXPECT_EQ(test, word[2], 0);
}

static void access_atomic_refused(struct kunit *test)
{
	static const struct { u64 at; enum ziw_mr_error result; } rows[] = {
		{ 0x7000, ZIW_MR_BOUNDS }, { 0x7001, ZIW_MR_BOUNDS }, { 0x7018, ZIW_MR_BOUNDS },
		{ 0x7009, ZIW_MR_ALIGNMENT }, { 0x700c, ZIW_MR_ALIGNMENT },
		{ 0x7010, ZIW_MR_OK }, { 0x7011, ZIW_MR_BOUNDS }, { U64_MAX - 6, ZIW_MR_TO_WRAP },
	};
	static const int too_little[] = {
		0, IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE,
	};
	struct page *page = fixture_pages(test, 0);
	struct ib_pd *pd = fixture_pd(test), *other = fixture_pd(test);
	struct ziw_mr *mr = mr_of(test, pd, page, 0x7008, 16, IB_ACCESS_REMOTE_ATOMIC);
	struct ziw_mr *odd = mr_of(test, pd, page, 0x7004, 16, IB_ACCESS_REMOTE_ATOMIC);
	u64 before = 0;
	int i;

	/* Nothing is added, so that the memory shows what was not refused by mistake. */
	for (i = 0; i < ARRAY_SIZE(rows); i++)
		KUNIT_EXPECT_EQ_MSG(test,
				    atomic(mr, pd, rows[i].at, ATOMIC_FETCH_ADD,
					   rows[i].result != ZIW_MR_OK, 0, &before),
				    rows[i].result, "%#llx", rows[i].at);
	for (i = 0; i < ARRAY_SIZE(too_little); i++) {
		struct ziw_mr *weak = mr_of(test, pd, page, 0x7008, 16, too_little[i]);

		KUNIT_EXPECT_EQ(test, atomic(weak, pd, 0x7008, ATOMIC_FETCH_ADD, 1, 0, &before),
				ZIW_MR_ACCESS);
	}
	KUNIT_EXPECT_EQ(test, atomic(mr, other, 0x7008, ATOMIC_FETCH_ADD, 1, 0, &before),
			ZIW_MR_NOT_ASSOCIATED);
	/* RFC 7306, 5.1: the memory is to be aligned, not the TO. */
	odd->iova = 0x7001;
	KUNIT_EXPECT_EQ(test, atomic(odd, pd, 0x7001, ATOMIC_FETCH_ADD, 1, 0, &before),
			ZIW_MR_ALIGNMENT);
	KUNIT_EXPECT_EQ(test, atomic(odd, pd, 0x7005, ATOMIC_FETCH_ADD, 0, 0, &before), ZIW_MR_OK);
	KUNIT_EXPECT_NULL(test, memchr_inv(page_address(page), 0, PAGE_SIZE));
}

static struct kunit_case cases[] = {
	PROPERTY(access_rights, "an access needs each right it asks for: all 256 combinations"),
	PROPERTY(access_bounds, "an access lies within the region, zero bytes included"),
	PROPERTY(access_wrap,
		 "an access whose end is beyond 2^64 is a wrap, wherever the region is"),
	PROPERTY(access_zero_length, "a region of zero bytes allows zero bytes at its address"),
	PROPERTY(access_pd, "a region is nothing to another PD"),
	PROPERTY(access_key, "only one of the 256 keys of an index is valid"),
	PROPERTY(access_not_valid, "an STag that was never made valid allows nothing"),
	PROPERTY(access_zero_based, "a zero-based region begins at 0"),
	PROPERTY(access_dma, "a region of all memory checks rights, PD, key and wrap"),
	PROPERTY(access_local_dma,
		 "STag 0 is the local DMA key for a kernel consumer, and invalid else"),
	PROPERTY(access_atomic, "an atomic changes its eight bytes and returns what was there"),
	PROPERTY(access_atomic_refused,
		 "an atomic needs its right, bounds and aligned memory, or changes nothing"),
	{}
};

struct kunit_suite ziw_access_suite = {
	.name		= "access",
	.test_cases	= cases,
};
