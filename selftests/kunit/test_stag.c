// SPDX-License-Identifier: GPL-2.0
/* The table of STags: what they name, for how long, and who holds it meanwhile. */
#include <linux/kthread.h>
#include <linux/sort.h>
#include "fixture.h"

#define MANY		500
#define ROUNDS		500
#define READERS		3

static int compare(const void *a, const void *b)
{
	u32 x = *(const u32 *)a, y = *(const u32 *)b;

	return x < y ? -1 : x > y;
}

static void stag_unique(struct kunit *test)
{
	u32 *index = kunit_kcalloc(test, MANY, sizeof(*index), GFP_KERNEL);
	struct ib_pd *pd = fixture_pd(test);
	int i, next = 0;

	KUNIT_ASSERT_NOT_NULL(test, index);
	for (i = 0; i < MANY; i++) {
		struct ziw_mr *mr = fixture_fast_mr(test, pd, 1);

		KUNIT_EXPECT_EQ(test, mr->ibmr.lkey, mr->stag);
		KUNIT_EXPECT_EQ(test, mr->ibmr.rkey, mr->stag);
		index[i] = mr->stag >> 8;
	}
	/* RFC 5042, 6.3.1: not to be guessed, so not one after the other. */
	for (i = 1; i < MANY; i++)
		next += index[i] == index[i - 1] + 1;
	KUNIT_EXPECT_LT(test, next, 5);

	sort(index, MANY, sizeof(*index), compare, NULL);
	KUNIT_EXPECT_NE(test, index[0], 0);
	for (i = 1; i < MANY; i++)
		KUNIT_EXPECT_NE(test, index[i], index[i - 1]);
}

static void stag_gone(struct kunit *test)
{
	struct ib_pd *pd = fixture_pd(test);
	struct ib_mr *ibmr = ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, 1);
	struct ziw_mr *mr;
	u32 stag;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ibmr);
	mr = to_ziw_mr(ibmr);
	stag = mr->stag;
	ibmr->page_size = PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, fixture_register(mr, stag, ALL_ACCESS), 0);
	KUNIT_EXPECT_EQ(test, fixture_check(pd, stag, 0, 0, 0), ZIW_MR_OK);
	ib_dereg_mr(ibmr);
	KUNIT_EXPECT_EQ(test, fixture_check(pd, stag, 0, 0, 0), ZIW_MR_INVALID_STAG);
	rcu_barrier();
	KUNIT_EXPECT_EQ(test, fixture_check(pd, stag, 0, 0, 0), ZIW_MR_INVALID_STAG);
}

static void stag_reuse(struct kunit *test)
{
	struct ib_pd *pd = fixture_pd(test);
	struct ziw_mr *mr = fixture_mr(test, pd, 0, 1, ALL_ACCESS);
	u32 index = mr->stag & ~0xffU, first = mr->stag, old, i;

	/* Each key once, and the first again. */
	for (i = 0; i < 256; i++) {
		old = mr->stag;
		KUNIT_EXPECT_EQ(test, fixture_invalidate(mr, false), 0);
		KUNIT_EXPECT_EQ(test, fixture_check(pd, old, 0, 0, 1), ZIW_MR_INVALID_STAG);
		KUNIT_EXPECT_EQ(test, fixture_register(mr, ib_inc_rkey(old), ALL_ACCESS), 0);
		KUNIT_EXPECT_EQ(test, fixture_check(pd, old, 0, 0, 1), ZIW_MR_INVALID_STAG);
		KUNIT_EXPECT_EQ(test, fixture_check(pd, mr->stag, 0, 0, 1), ZIW_MR_OK);
		KUNIT_EXPECT_EQ(test, mr->stag & ~0xffU, index);
	}
	KUNIT_EXPECT_EQ(test, mr->stag, first);
}

/* Two accesses may be under way at a time; an invalidation waits for the lock that both hold. */
static void stag_held(struct kunit *test)
{
	struct ib_pd *pd = fixture_pd(test);
	struct ziw_mr *mr = fixture_mr(test, pd, 0, 1, ALL_ACCESS), *got;
	int before, during, refused, after;
	enum ziw_mr_error err;

	local_bh_disable();
	before = lockdep_is_held(&mr->lock);
	got = ziw_mr_get(pd, mr->stag, false, 0, 0, 1, &err);
	during = lockdep_is_held_type(&mr->lock, 1);
	if (got)
		ziw_mr_put(got);
	after = lockdep_is_held(&mr->lock);
	got = got == mr ? ziw_mr_get(pd, mr->stag, false, 0, 0, 2, &err) : mr;
	refused = lockdep_is_held(&mr->lock);
	local_bh_enable();

	KUNIT_EXPECT_EQ(test, before, LOCK_STATE_NOT_HELD);
	KUNIT_EXPECT_EQ(test, during, LOCK_STATE_HELD);
	KUNIT_EXPECT_EQ(test, after, LOCK_STATE_NOT_HELD);
	KUNIT_EXPECT_NULL(test, got);
	KUNIT_EXPECT_EQ(test, refused, LOCK_STATE_NOT_HELD);
}

/* Who found a region by its STag under RCU may still take its lock and look. */
static void stag_rcu(struct kunit *test)
{
	struct ib_pd *pd = fixture_pd(test);
	struct ziw_dev *dev = to_ziw_dev(pd->device);
	struct ziw_mr *mr, *found;
	bool valid = true;
	struct ib_mr *ibmr;
	s64 before, during;
	u32 stag = 0;

	/* The driver's own calls: the RDMA core's may sleep, here they must not. */
	ibmr = pd->device->ops.alloc_mr(pd, IB_MR_TYPE_MEM_REG, 1);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ibmr);
	mr = to_ziw_mr(ibmr);
	ibmr->page_size = PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, fixture_register(mr, mr->stag, ALL_ACCESS), 0);
	rcu_barrier();
	before = atomic64_read(&ziw_live[ZIW_LIVE_MR]);

	rcu_read_lock();
	found = xa_load(&dev->mrs, mr->stag >> 8);
	pd->device->ops.dereg_mr(ibmr, NULL);
	during = atomic64_read(&ziw_live[ZIW_LIVE_MR]);
	if (found) {
		read_lock_bh(&found->lock);
		valid = found->valid;
		stag = found->stag;
		read_unlock_bh(&found->lock);
	}
	rcu_read_unlock();

	KUNIT_EXPECT_PTR_EQ(test, found, mr);
	KUNIT_EXPECT_NE(test, stag, 0);
	KUNIT_EXPECT_FALSE(test, valid);
	KUNIT_EXPECT_EQ(test, during, before);
	rcu_barrier();
	KUNIT_EXPECT_EQ(test, atomic64_read(&ziw_live[ZIW_LIVE_MR]), before - 1);
}

/*
 * Readers that use what is the current STag, while it changes:
 * an access that ziw_mr_get() allows is over before the invalidation of its STag returns.
 */
struct race {
	struct ib_pd	*pd;
	u32		stag;		/* the one to use */
	u32		closed;		/* the last one whose invalidation has returned */
	atomic_t	allowed;
	atomic_t	refused;
	atomic_t	late;		/* allowed, although it was closed */
	atomic_t	tries;
	wait_queue_head_t tried;	/* woken by each */
	atomic64_t	data;		/* the region */
};

static int reader(void *context)
{
	struct race *race = context;

	while (!kthread_should_stop()) {
		u32 stag = READ_ONCE(race->stag), len = sizeof(race->data);
		u64 addr = (uintptr_t)&race->data;
		enum ziw_mr_error err;
		struct ziw_mr *mr;

		local_bh_disable();
		mr = ziw_mr_get(race->pd, stag, false, IB_ACCESS_REMOTE_WRITE, addr, len, &err);
		if (mr) {
			atomic64_inc(ziw_mr_range(mr, addr, &len));
			if (READ_ONCE(race->closed) == stag)
				atomic_inc(&race->late);
			ziw_mr_put(mr);
			atomic_inc(&race->allowed);
		} else {
			atomic_inc(&race->refused);
		}
		local_bh_enable();
		atomic_inc(&race->tries);
		wake_up(&race->tried);
	}
	return 0;
}

static void await_try(struct race *race)
{
	int before = atomic_read(&race->tries);

	wait_event(race->tried, atomic_read(&race->tries) != before);
}

static void start_readers(struct task_struct **threads, struct race *race)
{
	int i;

	init_waitqueue_head(&race->tried);
	for (i = 0; i < READERS; i++)
		threads[i] = kthread_run(reader, race, "ziw-kunit/%d", i);
}

/* An assertion before this would leave the threads behind. */
static void stop_readers(struct kunit *test, struct task_struct **threads)
{
	int i;

	for (i = 0; i < READERS; i++) {
		KUNIT_EXPECT_NOT_ERR_OR_NULL(test, threads[i]);
		if (!IS_ERR(threads[i]))
			kthread_stop(threads[i]);
	}
}

static void stag_race_invalidate(struct kunit *test)
{
	struct race *race = kunit_kzalloc(test, sizeof(*race), GFP_KERNEL);
	struct task_struct *threads[READERS];
	int i, failed = 0;
	struct ziw_mr *mr;

	KUNIT_ASSERT_NOT_NULL(test, race);
	race->pd = fixture_pd(test);
	mr = fixture_mr(test, race->pd, (uintptr_t)&race->data, sizeof(race->data), ALL_ACCESS);
	mr->blocks[0] = (uintptr_t)&race->data & PAGE_MASK;
	race->stag = mr->stag;
	start_readers(threads, race);
	for (i = 0; i < ROUNDS; i++) {
		u32 stag = mr->stag;

		await_try(race);
		failed += fixture_invalidate(mr, i & 1) != 0;
		WRITE_ONCE(race->closed, stag);
		await_try(race);
		failed += fixture_register(mr, ib_inc_rkey(stag), ALL_ACCESS) != 0;
		WRITE_ONCE(race->stag, mr->stag);
	}
	stop_readers(test, threads);

	KUNIT_EXPECT_EQ(test, failed, 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&race->late), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&race->allowed), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&race->refused), 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&race->data), atomic_read(&race->allowed));
}

static void stag_race_dereg(struct kunit *test)
{
	struct race *race = kunit_kzalloc(test, sizeof(*race), GFP_KERNEL);
	struct task_struct *threads[READERS];
	int i, failed = 0;

	KUNIT_ASSERT_NOT_NULL(test, race);
	race->pd = fixture_pd(test);
	start_readers(threads, race);
	for (i = 0; i < ROUNDS; i++) {
		struct ib_mr *ibmr = ib_alloc_mr(race->pd, IB_MR_TYPE_MEM_REG, 1);
		struct ziw_mr *mr;

		if (IS_ERR(ibmr)) {
			failed++;
			break;
		}
		mr = to_ziw_mr(ibmr);
		mr->blocks[0] = (uintptr_t)&race->data & PAGE_MASK;
		ibmr->iova = (uintptr_t)&race->data;
		ibmr->length = sizeof(race->data);
		ibmr->page_size = PAGE_SIZE;
		failed += fixture_register(mr, mr->stag, ALL_ACCESS) != 0;
		WRITE_ONCE(race->stag, mr->stag);
		await_try(race);
		ib_dereg_mr(ibmr);
		WRITE_ONCE(race->closed, race->stag);
		await_try(race);
	}
	stop_readers(test, threads);

	KUNIT_EXPECT_EQ(test, failed, 0);
	KUNIT_EXPECT_EQ(test, atomic_read(&race->late), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&race->allowed), 0);
	KUNIT_EXPECT_GT(test, atomic_read(&race->refused), 0);
	KUNIT_EXPECT_EQ(test, atomic64_read(&race->data), atomic_read(&race->allowed));
}

static struct kunit_case cases[] = {
	PROPERTY(stag_unique, "each region has an index of its own, at random, never 0"),
	PROPERTY(stag_gone, "the STag of a region that ended names nothing"),
	PROPERTY(stag_reuse,
		 "registered with the next key, an STag is valid and the one before is not"),
	PROPERTY(stag_held,
		 "an access holds the region's lock for reading, a refused one does not"),
	PROPERTY(stag_rcu, "a region outlives its deregistration for who found it under RCU"),
	PROPERTY(stag_race_invalidate,
		 "no access is allowed after its STag's invalidation has returned"),
	PROPERTY(stag_race_dereg,
		 "no access is allowed after its region's deregistration has returned"),
	{}
};

struct kunit_suite ziw_stag_suite = {
	.name		= "stag",
	.test_cases	= cases,
};
