/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the tests of ziw_kunit.ko share: objects of a real ziw device, made by the
 * kernel's verbs and freed when the test ends, however it ends.
 */
#ifndef ZIW_KUNIT_FIXTURE_H
#define ZIW_KUNIT_FIXTURE_H

#include <kunit/resource.h>
#include <kunit/test.h>
#include <kunit/visibility.h>
#include "conn.h"

/* A test, named by the property that it checks. */
#define PROPERTY(fn, text) \
	{ .run_case = (fn), .name = (text), .module_name = KBUILD_MODNAME }

#define ALL_REMOTE (IB_ACCESS_REMOTE_READ | IB_ACCESS_REMOTE_WRITE | IB_ACCESS_REMOTE_ATOMIC)
#define ALL_ACCESS (IB_ACCESS_LOCAL_WRITE | ALL_REMOTE)

extern struct kunit_suite ziw_ring_suite;
extern struct kunit_suite ziw_stag_suite;
extern struct kunit_suite ziw_access_suite;
extern struct kunit_suite ziw_pages_suite;
extern struct kunit_suite ziw_fast_suite;
extern struct kunit_suite ziw_gaps_suite;
extern struct kunit_suite ziw_window_suite;
extern struct kunit_suite ziw_cq_suite;
extern struct kunit_suite ziw_state_suite;
extern struct kunit_suite ziw_flush_suite;
extern struct kunit_suite ziw_batch_suite;
extern struct kunit_suite ziw_post_suite;
extern struct kunit_suite ziw_recv_suite;

/**
 * struct fixture_cq - a CQ that counts what it reports
 * @ibcq: the CQ
 * @completions: calls of its completion handler
 * @errors: IB_EVENT_CQ_ERR
 */
struct fixture_cq {
	struct ib_cq	*ibcq;
	atomic_t	completions;
	atomic_t	errors;
};

/**
 * struct fixture_qp - a QP of a kernel consumer that counts its events
 * @ibqp: the QP
 * @events: how often each enum ib_event_type was reported
 */
struct fixture_qp {
	struct ib_qp	*ibqp;
	atomic_t	events[IB_EVENT_GID_CHANGE + 1];
};

/**
 * struct fixture_srq - an SRQ of a kernel consumer that counts its events
 * @ibsrq: the SRQ
 * @limits: IB_EVENT_SRQ_LIMIT_REACHED
 */
struct fixture_srq {
	struct ib_srq	*ibsrq;
	atomic_t	limits;
};

struct ib_device *fixture_device(struct kunit *test);
struct ib_pd *fixture_pd(struct kunit *test);
struct fixture_cq *fixture_cq(struct kunit *test, unsigned int entries);
struct fixture_qp *fixture_qp(struct kunit *test, struct ib_pd *pd,
			      const struct ib_qp_init_attr *init);
struct fixture_qp *fixture_plain_qp(struct kunit *test, u32 max_send_wr, u32 max_recv_wr);
struct fixture_srq *fixture_srq(struct kunit *test, u32 max_wr, u32 max_sge, u32 limit);
struct ziw_mr *fixture_fast_mr(struct kunit *test, struct ib_pd *pd, u32 max_pages);
struct ziw_mr *fixture_mr(struct kunit *test, struct ib_pd *pd, u64 iova, u64 length, int access);
struct page *fixture_pages(struct kunit *test, unsigned int order);
unsigned long fixture_map(struct kunit *test, size_t size, unsigned long flags);
u32 fixture_count_wrong(struct kunit *test, struct ziw_mr *mr, u64 iova, u32 len,
			bool (*right)(const u8 *va, u32 at, const void *data), const void *data);
int fixture_register(struct ziw_mr *mr, u32 key, int access);
int fixture_invalidate(struct ziw_mr *mr, bool remote);

enum ziw_mr_error fixture_check(struct ib_pd *pd, u32 stag, int access, u64 addr, u32 len);
enum ziw_mr_error fixture_atomic(struct ib_pd *pd, const struct ziw_atomic_req *req, u64 *value);

/* Whatever a work item of ziw was to report has been reported. */
static inline void fixture_settle(void)
{
	flush_workqueue(ziw_wq);
}

#endif /* ZIW_KUNIT_FIXTURE_H */
