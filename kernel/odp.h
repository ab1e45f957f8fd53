/* SPDX-License-Identifier: GPL-2.0 */
/* Regions whose pages are not pinned (IBV_ACCESS_ON_DEMAND): odp.c. */
#ifndef ZIW_ODP_H
#define ZIW_ODP_H

#include <linux/workqueue.h>
#include "ziw.h"

struct ziw_conn;

/**
 * struct ziw_fault - what an engine of a connection waits for
 * @work: brings the pages in
 * @conn: with a reference while @pending
 * @odp: region, with a reference while @pending
 * @addr: address in the region
 * @len: bytes
 * @write: they are to be written to
 * @pending: the engine does not go on; guarded by the socket lock
 * @failed: there is no memory at @addr; guarded by the socket lock
 */
struct ziw_fault {
	struct work_struct	work;
	struct ziw_conn		*conn;
	struct ziw_odp		*odp;
	u64			addr;
	u32			len;
	bool			write;
	bool			pending;
	bool			failed;
};

extern struct workqueue_struct *ziw_fault_wq;

#if IS_ENABLED(CONFIG_MMU_NOTIFIER)
struct ib_mr *ziw_odp_register(struct ib_pd *pd, u64 start, u64 length, u64 virt_addr,
			       int access);
bool ziw_odp_present(const struct ziw_mr *mr, u64 addr, u32 len, bool write);
void *ziw_odp_range(const struct ziw_mr *mr, u64 addr, u32 *len);
int ziw_odp_bring(struct ziw_odp *odp, u64 addr, u64 len, bool write);
void ziw_odp_get(struct ziw_odp *odp);
void ziw_odp_put(struct ziw_odp *odp);
#else
static inline struct ib_mr *ziw_odp_register(struct ib_pd *pd, u64 start, u64 length,
					     u64 virt_addr, int access)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static inline bool ziw_odp_present(const struct ziw_mr *mr, u64 addr, u32 len, bool write)
{
	return false;
}

static inline void *ziw_odp_range(const struct ziw_mr *mr, u64 addr, u32 *len)
{
	return NULL;
}

static inline int ziw_odp_bring(struct ziw_odp *odp, u64 addr, u64 len, bool write)
{
	return -EOPNOTSUPP;
}

static inline void ziw_odp_get(struct ziw_odp *odp) {}
static inline void ziw_odp_put(struct ziw_odp *odp) {}
#endif

void ziw_fault_init(struct ziw_fault *fault, struct ziw_conn *conn);
bool ziw_fault_wait(struct ziw_fault *fault, bool remote, u32 stag, int access, u64 addr,
		    u32 len);

#endif /* ZIW_ODP_H */
