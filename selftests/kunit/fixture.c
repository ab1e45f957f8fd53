// SPDX-License-Identifier: GPL-2.0
/* The objects that tests are made with, and the module around the tests. */
#include <linux/mman.h>
#include <linux/module.h>
#include "fixture.h"

MODULE_DESCRIPTION("KUnit tests of ziw");
MODULE_LICENSE("GPL");
MODULE_IMPORT_NS(EXPORTED_FOR_KUNIT_TESTING);

static char *device = "ziwk";
module_param(device, charp, 0444);
MODULE_PARM_DESC(device, "name of the ziw device that the tests use (default ziwk)");

/* How a test frees what it was given. */
KUNIT_DEFINE_ACTION_WRAPPER(put_device_action, ib_device_put, struct ib_device *);
KUNIT_DEFINE_ACTION_WRAPPER(dealloc_pd_action, ib_dealloc_pd, struct ib_pd *);
KUNIT_DEFINE_ACTION_WRAPPER(destroy_cq_action, ib_destroy_cq, struct ib_cq *);
KUNIT_DEFINE_ACTION_WRAPPER(destroy_qp_action, ib_destroy_qp, struct ib_qp *);
KUNIT_DEFINE_ACTION_WRAPPER(destroy_srq_action, ib_destroy_srq, struct ib_srq *);
KUNIT_DEFINE_ACTION_WRAPPER(dereg_mr_action, ib_dereg_mr, struct ib_mr *);

struct fixture_page_block {
	struct page	*page;
	unsigned int	order;
};

static void free_pages_action(void *data)
{
	struct fixture_page_block *block = data;

	__free_pages(block->page, block->order);
}

static void defer(struct kunit *test, kunit_action_t *action, void *object)
{
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, action, object), 0);
}

/**
 * fixture_device - the ziw device that selftests/kunit/run made
 * @test: test
 *
 * Return: the device, held until the test ends.
 */
struct ib_device *fixture_device(struct kunit *test)
{
	struct ib_device *ibdev = ib_device_get_by_name(device, ZIW_RDMA_DRIVER_ID);

	KUNIT_ASSERT_NOT_NULL_MSG(test, ibdev, "there is no ziw device '%s'", device);
	defer(test, put_device_action, ibdev);
	return ibdev;
}

struct ib_pd *fixture_pd(struct kunit *test)
{
	struct ib_pd *pd = ib_alloc_pd(fixture_device(test), 0);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, pd);
	defer(test, dealloc_pd_action, pd);
	return pd;
}

static void count_completion(struct ib_cq *ibcq, void *context)
{
	struct fixture_cq *cq = context;

	atomic_inc(&cq->completions);
}

static void count_cq_event(struct ib_event *event, void *context)
{
	struct fixture_cq *cq = context;

	if (event->event == IB_EVENT_CQ_ERR)
		atomic_inc(&cq->errors);
}

/**
 * fixture_cq - a CQ of a kernel consumer
 * @test: test
 * @entries: CQEs, rounded up to a power of two by ziw
 *
 * Return: the CQ.
 */
struct fixture_cq *fixture_cq(struct kunit *test, unsigned int entries)
{
	struct fixture_cq *cq = kunit_kzalloc(test, sizeof(*cq), GFP_KERNEL);
	struct ib_cq_init_attr attr = { .cqe = entries };

	KUNIT_ASSERT_NOT_NULL(test, cq);
	cq->ibcq = ib_create_cq(fixture_device(test), count_completion, count_cq_event,
				cq, &attr);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, cq->ibcq);
	defer(test, destroy_cq_action, cq->ibcq);
	return cq;
}

static void count_qp_event(struct ib_event *event, void *context)
{
	struct fixture_qp *qp = context;

	if (event->event < ARRAY_SIZE(qp->events))
		atomic_inc(&qp->events[event->event]);
}

/**
 * fixture_qp - a QP of a kernel consumer
 * @test: test
 * @pd: protection domain; NULL: that of the SRQ, or one of its own
 * @init: what it is to be; with no CQs it gets one with room for everything
 *
 * Return: the QP, in RESET.
 */
struct fixture_qp *fixture_qp(struct kunit *test, struct ib_pd *pd,
			      const struct ib_qp_init_attr *init)
{
	struct fixture_qp *qp = kunit_kzalloc(test, sizeof(*qp), GFP_KERNEL);
	struct ib_qp_init_attr attr = *init;

	KUNIT_ASSERT_NOT_NULL(test, qp);
	if (!pd)
		pd = init->srq ? init->srq->pd : fixture_pd(test);
	attr.qp_type = IB_QPT_RC;
	attr.event_handler = count_qp_event;
	attr.qp_context = qp;
	if (!attr.send_cq)
		attr.send_cq = fixture_cq(test, 256)->ibcq;
	if (!attr.recv_cq)
		attr.recv_cq = attr.send_cq;
	qp->ibqp = ib_create_qp(pd, &attr);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, qp->ibqp);
	defer(test, destroy_qp_action, qp->ibqp);
	return qp;
}

struct fixture_qp *fixture_plain_qp(struct kunit *test, u32 max_send_wr, u32 max_recv_wr)
{
	const struct ib_qp_init_attr init = {
		.cap = {
			.max_send_wr	= max_send_wr,
			.max_recv_wr	= max_recv_wr,
			.max_send_sge	= 4,
			.max_recv_sge	= 4,
			.max_inline_data = 64,
		},
	};

	return fixture_qp(test, NULL, &init);
}

static void count_srq_event(struct ib_event *event, void *context)
{
	struct fixture_srq *srq = context;

	if (event->event == IB_EVENT_SRQ_LIMIT_REACHED)
		atomic_inc(&srq->limits);
}

struct fixture_srq *fixture_srq(struct kunit *test, u32 max_wr, u32 max_sge, u32 limit)
{
	struct fixture_srq *srq = kunit_kzalloc(test, sizeof(*srq), GFP_KERNEL);
	struct ib_srq_init_attr init = {
		.event_handler	= count_srq_event,
		.attr		= { .max_wr = max_wr, .max_sge = max_sge, .srq_limit = limit },
		.srq_type	= IB_SRQT_BASIC,
	};

	KUNIT_ASSERT_NOT_NULL(test, srq);
	init.srq_context = srq;
	srq->ibsrq = ib_create_srq(fixture_pd(test), &init);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, srq->ibsrq);
	defer(test, destroy_srq_action, srq->ibsrq);
	return srq;
}

/**
 * fixture_fast_mr - a region for fast registration, not yet valid
 * @test: test
 * @pd: protection domain
 * @max_pages: pages
 *
 * Return: the region.
 */
struct ziw_mr *fixture_fast_mr(struct kunit *test, struct ib_pd *pd, u32 max_pages)
{
	struct ib_mr *ibmr = ib_alloc_mr(pd, IB_MR_TYPE_MEM_REG, max_pages);

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, ibmr);
	defer(test, dereg_mr_action, ibmr);
	return to_ziw_mr(ibmr);
}

/**
 * fixture_mr - a valid region of any address and length, without memory
 * @test: test
 * @pd: protection domain
 * @iova: first address
 * @length: bytes
 * @access: enum ib_access_flags
 *
 * For access checks only: nothing may go to the address in it.
 *
 * Return: the region.
 */
struct ziw_mr *fixture_mr(struct kunit *test, struct ib_pd *pd, u64 iova, u64 length, int access)
{
	struct ziw_mr *mr = fixture_fast_mr(test, pd, 1);

	mr->ibmr.iova = iova;
	mr->ibmr.length = length;
	mr->ibmr.page_size = PAGE_SIZE;
	KUNIT_ASSERT_EQ(test, fixture_register(mr, mr->stag, access), 0);
	return mr;
}

/**
 * fixture_pages - a compound page, zeroed
 * @test: test
 * @order: log2 of its pages
 *
 * Return: the page.
 */
struct page *fixture_pages(struct kunit *test, unsigned int order)
{
	struct fixture_page_block *block = kunit_kzalloc(test, sizeof(*block), GFP_KERNEL);

	KUNIT_ASSERT_NOT_NULL(test, block);
	block->order = order;
	block->page = alloc_pages(GFP_KERNEL | __GFP_ZERO | __GFP_COMP, order);
	KUNIT_ASSERT_NOT_NULL(test, block->page);
	defer(test, free_pages_action, block);
	return block->page;
}

static void mmdrop_action(void *mm)
{
	mmdrop(mm);
}

/**
 * fixture_map - memory of a process, which the test's thread becomes
 * @test: test
 * @size: bytes
 * @flags: MAP_PRIVATE or MAP_SHARED
 *
 * Return: its address in the process.
 */
unsigned long fixture_map(struct kunit *test, size_t size, unsigned long flags)
{
	unsigned long at = kunit_vm_mmap(test, NULL, 0, size, PROT_READ | PROT_WRITE,
					 MAP_ANONYMOUS | flags, 0);

	KUNIT_ASSERT_NE(test, at, 0);
	KUNIT_ASSERT_FALSE(test, IS_ERR_VALUE(at));
	/* KUnit's thread ends with the mm in use, so what kthread_use_mm() took is left behind. */
	defer(test, mmdrop_action, current->mm);
	return at;
}

/*
 * Bytes of a peer's access that are not what @right, which gets their number in it, says
 * they should be.
 */
u32 fixture_count_wrong(struct kunit *test, struct ziw_mr *mr, u64 iova, u32 len,
			bool (*right)(const u8 *va, u32 at, const void *data), const void *data)
{
	u32 wrong = 0, at = 0, n, i;
	enum ziw_mr_error err;
	struct ziw_mr *got;

	local_bh_disable();
	got = ziw_mr_get(mr->ibmr.pd, mr->stag, false, IB_ACCESS_REMOTE_READ, iova, len, &err);
	while (got && at < len) {
		u8 *va;

		n = len - at;
		va = ziw_mr_range(got, iova + at, &n);
		if (!n || n > len - at)
			break;
		for (i = 0; i < n; i++, at++)
			wrong += !right(va + i, at, data);
	}
	if (got)
		ziw_mr_put(got);
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, at, len);
	return wrong;
}

/* IB_WR_REG_MR, as the transmit engine carries it out. */
int fixture_register(struct ziw_mr *mr, u32 key, int access)
{
	int ret;

	local_bh_disable();
	ret = ziw_mr_fast_register(&mr->ibmr, key, access);
	local_bh_enable();
	return ret;
}

/* IB_WR_LOCAL_INV, or a Send with Invalidate of the peer. */
int fixture_invalidate(struct ziw_mr *mr, bool remote)
{
	int ret;

	local_bh_disable();
	ret = ziw_mr_invalidate(mr->ibmr.pd, mr->stag, remote);
	local_bh_enable();
	return ret;
}

/* The driver's calls that want bottom halves off, from a test that has them on; by a QP of @pd. */
enum ziw_mr_error fixture_check(struct ib_pd *pd, u32 stag, int access, u64 addr, u32 len)
{
	struct ziw_qp *qp = kzalloc(sizeof(*qp), GFP_KERNEL | __GFP_NOFAIL);
	enum ziw_mr_error err;

	qp->ibqp.pd = pd;
	local_bh_disable();
	err = ziw_mr_check(qp, stag, access, addr, len);
	local_bh_enable();
	kfree(qp);
	return err;
}

enum ziw_mr_error fixture_atomic(struct ib_pd *pd, const struct ziw_atomic_req *req, u64 *value)
{
	struct ziw_qp *qp = kzalloc(sizeof(*qp), GFP_KERNEL | __GFP_NOFAIL);
	enum ziw_mr_error err;

	qp->ibqp.pd = pd;
	local_bh_disable();
	err = ziw_mr_atomic(qp, req, value);
	local_bh_enable();
	kfree(qp);
	return err;
}

kunit_test_suites(&ziw_ring_suite, &ziw_stag_suite, &ziw_access_suite, &ziw_pages_suite,
		  &ziw_fast_suite, &ziw_gaps_suite, &ziw_window_suite, &ziw_cq_suite,
		  &ziw_state_suite, &ziw_flush_suite, &ziw_batch_suite, &ziw_post_suite,
		  &ziw_recv_suite);
