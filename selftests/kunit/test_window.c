// SPDX-License-Identifier: GPL-2.0
/* Memory windows: what may be bound to what, whose it is, and what it keeps alive. */
#include <linux/mman.h>
#include <linux/uaccess.h>
#include "fixture.h"

#define SIZE	(4 * PAGE_SIZE)
#define IOVA	0x123450000000ULL

/**
 * struct window_bench - a region, and QPs that bind windows to it
 * @pd: of what follows
 * @qp: binds
 * @second: another one
 * @at: memory of the process, SIZE bytes
 * @region: of these, at IOVA, with all rights
 */
struct window_bench {
	struct ib_pd	*pd;
	struct ziw_qp	*qp;
	struct ziw_qp	*second;
	unsigned long	at;
	struct ziw_mr	*region;
};

static void dereg_action(void *ibmr)
{
	ib_dereg_mr(ibmr);
}

static struct ziw_mr *region_make(struct kunit *test, struct ib_pd *pd, unsigned long at,
				  int access)
{
	struct ib_mr *ibmr = ib_reg_user_mr(pd, at, SIZE, IOVA, access);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ibmr);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, dereg_action, ibmr), 0);
	return to_ziw_mr(ibmr);
}

static struct window_bench *bench_make(struct kunit *test)
{
	struct window_bench *bench = kunit_kzalloc(test, sizeof(*bench), GFP_KERNEL);
	const struct ib_qp_init_attr init = { .cap = { .max_send_wr = 1 } };

	KUNIT_ASSERT_NOT_NULL(test, bench);
	bench->pd = fixture_pd(test);
	bench->qp = to_ziw_qp(fixture_qp(test, bench->pd, &init)->ibqp);
	bench->second = to_ziw_qp(fixture_qp(test, bench->pd, &init)->ibqp);
	bench->at = fixture_map(test, SIZE, MAP_PRIVATE);
	bench->region = region_make(test, bench->pd, bench->at, ALL_ACCESS | IB_ACCESS_MW_BIND);
	return bench;
}

static void dealloc_action(void *data)
{
	struct ib_mw *ibmw = data;

	ibmw->device->ops.dealloc_mw(ibmw);
	kfree(ibmw);
}

/* The kernel's verbs have no call for windows, only the device has. */
static struct ziw_mr *window_make(struct kunit *test, struct ib_pd *pd, enum ib_mw_type type)
{
	struct ib_mw *ibmw = rdma_zalloc_drv_obj(pd->device, ib_mw);
	int err;

	KUNIT_ASSERT_NOT_NULL(test, ibmw);
	ibmw->device = pd->device;
	ibmw->pd = pd;
	ibmw->type = type;
	err = pd->device->ops.alloc_mw(ibmw, NULL);
	if (err)
		kfree(ibmw);
	KUNIT_ASSERT_EQ(test, err, 0);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, dealloc_action, ibmw), 0);
	return to_ziw_mw(ibmw)->window;
}

static int bind(struct ziw_qp *qp, struct ziw_mr *window, struct ziw_mr *region, u64 addr,
		u64 length, u32 access)
{
	const struct ziw_bind bind = {
		.window	= window->stag,
		.key	= ib_inc_rkey(window->stag),
		.region	= region->stag,
		.addr	= addr,
		.length	= length,
		.access	= access,
	};
	int err;

	local_bh_disable();
	err = ziw_window_bind(qp, &bind);
	local_bh_enable();
	return err;
}

static enum ziw_mr_error check(struct ziw_qp *qp, u32 stag, int access, u64 addr, u32 len)
{
	enum ziw_mr_error err;

	local_bh_disable();
	err = ziw_mr_check(qp, stag, access, addr, len);
	local_bh_enable();
	return err;
}

static int invalidate(struct ziw_qp *qp, u32 stag)
{
	int err;

	local_bh_disable();
	err = ziw_mr_invalidate_by(qp, stag, true);
	local_bh_enable();
	return err;
}

static void window_bounds(struct kunit *test)
{
	static const struct { u64 addr, length; int err; } rows[] = {
		{ IOVA, 1, 0 },
		{ IOVA, SIZE, 0 },
		{ IOVA, SIZE + 1, -EINVAL },
		{ IOVA + 1, SIZE, -EINVAL },
		{ IOVA + SIZE - 1, 1, 0 },
		{ IOVA + SIZE, 1, -EINVAL },
		{ IOVA - 1, 1, -EINVAL },
		{ IOVA - 1, SIZE, -EINVAL },
		{ IOVA, U64_MAX, -EINVAL },
		{ IOVA + 1, U64_MAX, -EINVAL },
		{ IOVA + 1, U64_MAX - IOVA, -EINVAL },
		{ 0, 1, -EINVAL },
		{ U64_MAX, 1, -EINVAL },
	};
	struct window_bench *bench = bench_make(test);
	int i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ziw_mr *window = window_make(test, bench->pd, IB_MW_TYPE_1);
		u64 end = rows[i].addr + rows[i].length;

		KUNIT_EXPECT_EQ_MSG(test, bind(bench->qp, window, bench->region, rows[i].addr,
					       rows[i].length, ALL_REMOTE),
				    rows[i].err, "row %d", i);
		KUNIT_EXPECT_EQ_MSG(test, check(bench->qp, window->stag, IB_ACCESS_REMOTE_WRITE,
						rows[i].addr, 1),
				    rows[i].err ? ZIW_MR_INVALID_STAG : ZIW_MR_OK, "row %d", i);
		if (rows[i].err)
			continue;
		KUNIT_EXPECT_EQ_MSG(test, check(bench->qp, window->stag, 0, end - 1, 1), ZIW_MR_OK,
				    "row %d", i);
		KUNIT_EXPECT_EQ_MSG(test, check(bench->qp, window->stag, 0, end, 1), ZIW_MR_BOUNDS,
				    "row %d", i);
		KUNIT_EXPECT_EQ_MSG(test, check(bench->qp, window->stag, 0, rows[i].addr - 1, 1),
				    ZIW_MR_BOUNDS, "row %d", i);
	}
}

static void window_rights(struct kunit *test)
{
	static const int bits[] = {
		IB_ACCESS_REMOTE_READ, IB_ACCESS_REMOTE_WRITE, IB_ACCESS_REMOTE_ATOMIC,
	};
	static const struct { int region, window, err; } rows[] = {
		/* The region lends what it does not give itself. */
		{ IB_ACCESS_MW_BIND, IB_ACCESS_REMOTE_READ, 0 },
		{ IB_ACCESS_MW_BIND, IB_ACCESS_REMOTE_WRITE, -EINVAL },
		{ IB_ACCESS_MW_BIND, IB_ACCESS_REMOTE_ATOMIC, -EINVAL },
		{ IB_ACCESS_MW_BIND | IB_ACCESS_LOCAL_WRITE, ALL_REMOTE, 0 },
		{ ALL_ACCESS, IB_ACCESS_REMOTE_READ, -EINVAL },
		{ IB_ACCESS_MW_BIND | ALL_ACCESS, ALL_ACCESS, -EINVAL },
		{ IB_ACCESS_MW_BIND | ALL_ACCESS, IB_ACCESS_MW_BIND, -EINVAL },
		{ IB_ACCESS_MW_BIND | ALL_ACCESS, 0x80000000, -EINVAL },
	};
	struct window_bench *bench = bench_make(test);
	struct ziw_mr *window;
	int i, has, wants;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		struct ziw_mr *region = region_make(test, bench->pd, bench->at, rows[i].region);

		window = window_make(test, bench->pd, IB_MW_TYPE_1);
		KUNIT_EXPECT_EQ_MSG(test, bind(bench->qp, window, region, IOVA, 1, rows[i].window),
				    rows[i].err, "row %d", i);
	}
	window = window_make(test, bench->pd, IB_MW_TYPE_1);
	for (i = 0; i < 64; i++) {
		int j, held = i & 7, wanted = i >> 3;

		for (j = 0, has = 0, wants = 0; j < ARRAY_SIZE(bits); j++) {
			has |= held & BIT(j) ? bits[j] : 0;
			wants |= wanted & BIT(j) ? bits[j] : 0;
		}
		KUNIT_EXPECT_EQ(test, bind(bench->qp, window, bench->region, IOVA, 1, has), 0);
		KUNIT_EXPECT_EQ_MSG(test, check(bench->qp, window->stag, wants, IOVA, 1),
				    wanted & ~held ? ZIW_MR_ACCESS : ZIW_MR_OK,
				    "has %#x, wants %#x", has, wants);
	}
}

/* An STag of another kind, or of nothing, in either place; and one window in both. */
static void window_what(struct kunit *test)
{
	struct window_bench *bench = bench_make(test);
	struct ib_pd *other = fixture_pd(test);
	struct ziw_mr *window = window_make(test, bench->pd, IB_MW_TYPE_1);
	struct ziw_mr *bound = window_make(test, bench->pd, IB_MW_TYPE_1);
	int all = ALL_ACCESS | IB_ACCESS_MW_BIND, i;
	struct ziw_mr *fast = fixture_mr(test, bench->pd, IOVA, SIZE, all);
	struct ziw_mr *elsewhere = region_make(test, other, bench->at, all);
	struct ziw_mr nothing = { .stag = bench->region->stag ^ 0x80000000 };
	struct ziw_mr stale = { .stag = bench->region->stag ^ 1 };
	struct ziw_mr *const regions[] = { window, bound, fast, elsewhere, &nothing, &stale };
	struct ziw_mr *const windows[] = { bench->region, fast, &nothing };
	struct ziw_mr *foreign = window_make(test, other, IB_MW_TYPE_1);

	KUNIT_EXPECT_EQ(test, bind(bench->qp, bound, bench->region, IOVA, 1, 0), 0);
	for (i = 0; i < ARRAY_SIZE(regions); i++)
		KUNIT_EXPECT_EQ_MSG(test, bind(bench->qp, window, regions[i], IOVA, 1, 0), -EINVAL,
				    "region %d", i);
	for (i = 0; i < ARRAY_SIZE(windows); i++)
		KUNIT_EXPECT_EQ_MSG(test, bind(bench->qp, windows[i], bench->region, IOVA, 1, 0),
				    -EINVAL, "window %d", i);
	KUNIT_EXPECT_EQ(test, bind(bench->qp, foreign, bench->region, IOVA, 1, 0), -EINVAL);
	KUNIT_EXPECT_FALSE(test, window->valid);
	KUNIT_EXPECT_EQ(test, atomic_read(&bench->region->windows), 1);
}

static void window_key(struct kunit *test)
{
	struct window_bench *bench = bench_make(test);
	struct ziw_mr *window = window_make(test, bench->pd, IB_MW_TYPE_1);
	struct ziw_bind wrong = {
		.window = window->stag, .key = window->stag ^ 0x100, .region = bench->region->stag,
		.addr = IOVA, .length = 1,
	};
	u32 old = window->stag;
	int err;

	local_bh_disable();
	err = ziw_window_bind(bench->qp, &wrong);
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, err, -EINVAL);
	KUNIT_EXPECT_EQ(test, window->stag, old);

	KUNIT_EXPECT_EQ(test, bind(bench->qp, window, bench->region, IOVA, 1, 0), 0);
	KUNIT_EXPECT_EQ(test, window->stag, ib_inc_rkey(old));
	KUNIT_EXPECT_EQ(test, check(bench->qp, old, 0, IOVA, 1), ZIW_MR_INVALID_STAG);
	old = window->stag;
	KUNIT_EXPECT_EQ(test, bind(bench->qp, window, bench->region, IOVA, 1, 0), 0);
	KUNIT_EXPECT_EQ(test, check(bench->qp, old, 0, IOVA, 1), ZIW_MR_INVALID_STAG);
	KUNIT_EXPECT_EQ(test, check(bench->qp, window->stag, 0, IOVA, 1), ZIW_MR_OK);
}

/* RFC 5040's STags are of a stream or of a PD: type 2 is the former, type 1 the latter. */
static void window_owner(struct kunit *test)
{
	struct window_bench *bench = bench_make(test);
	struct ziw_mr *one = window_make(test, bench->pd, IB_MW_TYPE_1);
	struct ziw_mr *two = window_make(test, bench->pd, IB_MW_TYPE_2);

	KUNIT_EXPECT_EQ(test, bind(bench->qp, one, bench->region, IOVA, 1, 0), 0);
	KUNIT_EXPECT_EQ(test, bind(bench->qp, two, bench->region, IOVA, 1, 0), 0);
	KUNIT_EXPECT_EQ(test, check(bench->qp, one->stag, 0, IOVA, 1), ZIW_MR_OK);
	KUNIT_EXPECT_EQ(test, check(bench->second, one->stag, 0, IOVA, 1), ZIW_MR_OK);
	KUNIT_EXPECT_EQ(test, check(bench->qp, two->stag, 0, IOVA, 1), ZIW_MR_OK);
	KUNIT_EXPECT_EQ(test, check(bench->second, two->stag, 0, IOVA, 1), ZIW_MR_NOT_ASSOCIATED);

	/* Type 1 is bound anew at any time and never invalidated; type 2 the reverse. */
	KUNIT_EXPECT_EQ(test, bind(bench->second, one, bench->region, IOVA, 2, 0), 0);
	KUNIT_EXPECT_EQ(test, bind(bench->qp, two, bench->region, IOVA, 2, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, invalidate(bench->qp, one->stag), -EPERM);
	KUNIT_EXPECT_EQ(test, invalidate(bench->second, two->stag), -EPERM);
	KUNIT_EXPECT_EQ(test, invalidate(bench->qp, two->stag), 0);
	KUNIT_EXPECT_EQ(test, check(bench->qp, two->stag, 0, IOVA, 1), ZIW_MR_INVALID_STAG);
	KUNIT_EXPECT_EQ(test, bind(bench->second, two, bench->region, IOVA, 2, 0), 0);
	KUNIT_EXPECT_EQ(test, check(bench->second, two->stag, 0, IOVA, 1), ZIW_MR_OK);
}

static void window_holds(struct kunit *test)
{
	struct window_bench *bench = bench_make(test);
	struct ib_device *ibdev = bench->pd->device;
	struct ib_mr *ibmr = &bench->region->ibmr;
	struct ziw_mr *one = window_make(test, bench->pd, IB_MW_TYPE_1);
	struct ziw_mr *two = window_make(test, bench->pd, IB_MW_TYPE_2);
	struct ib_mr *again;

	KUNIT_EXPECT_EQ(test, bind(bench->qp, one, bench->region, IOVA, 1, 0), 0);
	KUNIT_EXPECT_EQ(test, bind(bench->qp, one, bench->region, IOVA, 1, 0), 0);
	KUNIT_EXPECT_EQ(test, bind(bench->qp, two, bench->region, IOVA, 1, 0), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&bench->region->windows), 2);
	KUNIT_EXPECT_EQ(test, ibdev->ops.dereg_mr(ibmr, NULL), -EBUSY);
	again = ibdev->ops.rereg_user_mr(ibmr, IB_MR_REREG_ACCESS, 0, 0, 0, 0, bench->pd, NULL);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(again), -EBUSY);
	KUNIT_EXPECT_TRUE(test, bench->region->valid);

	/* Zero bytes unbind; what did not succeed changed nothing. */
	KUNIT_EXPECT_EQ(test, bind(bench->qp, one, bench->region, IOVA, SIZE + 1, 0), -EINVAL);
	KUNIT_EXPECT_EQ(test, check(bench->qp, one->stag, 0, IOVA, 1), ZIW_MR_OK);
	KUNIT_EXPECT_EQ(test, atomic_read(&bench->region->windows), 2);
	KUNIT_EXPECT_EQ(test, bind(bench->qp, one, bench->region, 0, 0, 0), 0);
	KUNIT_EXPECT_EQ(test, check(bench->qp, one->stag, 0, IOVA, 1), ZIW_MR_INVALID_STAG);
	KUNIT_EXPECT_EQ(test, invalidate(bench->qp, two->stag), 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&bench->region->windows), 0);
	again = ibdev->ops.rereg_user_mr(ibmr, IB_MR_REREG_ACCESS, 0, 0, 0, ALL_REMOTE |
					 IB_ACCESS_LOCAL_WRITE, bench->pd, NULL);
	KUNIT_EXPECT_EQ(test, PTR_ERR_OR_ZERO(again), 0);
}

static void window_memory(struct kunit *test)
{
	static const struct { u64 off; int access; u64 first; } rows[] = {
		{ 0, 0, IOVA },
		{ 1234, 0, IOVA + 1234 },
		{ PAGE_SIZE - 1, 0, IOVA + PAGE_SIZE - 1 },
		{ 1234, IB_ZERO_BASED, 0 },
		{ 3 * PAGE_SIZE + 7, IB_ZERO_BASED, 0 },
	};
	struct window_bench *bench = bench_make(test);
	struct ziw_mr *window = window_make(test, bench->pd, IB_MW_TYPE_1);
	u64 i, at;

	for (i = 0; i < SIZE / sizeof(u64); i++)
		KUNIT_ASSERT_EQ(test, put_user(i, (u64 __user *)bench->at + i), 0);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		u32 length = SIZE - rows[i].off, wrong = 0;
		enum ziw_mr_error err;
		struct ziw_mr *got;

		KUNIT_ASSERT_EQ(test, bind(bench->qp, window, bench->region, IOVA + rows[i].off,
					   length, IB_ACCESS_REMOTE_READ | rows[i].access),
				0);
		local_bh_disable();
		got = ziw_mr_get_remote(bench->qp, window->stag, IB_ACCESS_REMOTE_READ,
					rows[i].first, length, &err);
		for (at = 0; got && at < length; at++) {
			u64 byte = rows[i].off + at, word = byte / sizeof(u64);
			u32 n = 1;
			u8 *va = ziw_mr_range(got, rows[i].first + at, &n);

			wrong += *va != ((u8 *)&word)[byte % sizeof(u64)];
		}
		if (got)
			ziw_mr_put(got);
		local_bh_enable();
		KUNIT_EXPECT_PTR_EQ(test, got, window);
		KUNIT_EXPECT_EQ_MSG(test, wrong, 0, "row %llu", i);
	}
}

/* A window is for peers: nobody's own SGE names it. */
static void window_local(struct kunit *test)
{
	struct window_bench *bench = bench_make(test);
	struct ziw_mr *window = window_make(test, bench->pd, IB_MW_TYPE_1), *got;
	enum ziw_mr_error err = ZIW_MR_OK;

	KUNIT_EXPECT_EQ(test, bind(bench->qp, window, bench->region, IOVA, 1, ALL_REMOTE), 0);
	local_bh_disable();
	got = ziw_mr_get(bench->pd, window->stag, false, 0, IOVA, 1, &err);
	if (got)
		ziw_mr_put(got);
	local_bh_enable();
	KUNIT_EXPECT_NULL(test, got);
	KUNIT_EXPECT_EQ(test, err, ZIW_MR_INVALID_STAG);
}

static struct kunit_case cases[] = {
	PROPERTY(window_bounds, "a window lies within its region, and gives nothing around it"),
	PROPERTY(window_rights,
		 "a window gives the rights it is bound with, which its region allows"),
	PROPERTY(window_what,
		 "only a window is bound, to a region of a process, both of the QP's PD"),
	PROPERTY(window_key, "each bind gives the window its new key, of the same index"),
	PROPERTY(window_owner,
		 "type 1 is the PD's and bound anew; type 2 is the QP's and invalidated"),
	PROPERTY(window_holds, "a region stays as it is while windows are bound to it"),
	PROPERTY(window_memory, "a window's addresses are those of its region, or begin at 0"),
	PROPERTY(window_local, "a window gives no local access"),
	{}
};

struct kunit_suite ziw_window_suite = {
	.name		= "window",
	.test_cases	= cases,
};
