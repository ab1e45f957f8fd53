// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Protection domains, and around them parent domains, which may have a thread
 * domain: the queues that are made with one have no locks.
 */
#include <errno.h>
#include <stdlib.h>

#include "ziw.h"

/* See verbs.c. */
#define _STRUCT_ziw_alloc_pd_resp	struct {}

DECLARE_DRV_CMD(ziw_cmd_alloc_pd, IB_USER_VERBS_CMD_ALLOC_PD,
		empty, ziw_alloc_pd_resp);

/*
 * libibverbs takes such flags without a look. What the memory of queues is to
 * come from does not matter here: the kernel allocates it.
 */
#define ZIW_PARENT_ATTRS	(IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | \
				 IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)

struct ibv_pd *ziw_alloc_pd(struct ibv_context *ibctx)
{
	struct ziw_cmd_alloc_pd_resp resp = {};
	struct ibv_alloc_pd cmd;
	struct ziw_pd *pd;
	int ret;

	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;

	ret = ibv_cmd_alloc_pd(ibctx, &pd->ibv_pd, &cmd, sizeof(cmd),
			       &resp.ibv_resp, sizeof(resp));
	if (ret) {
		free(pd);
		errno = ret;
		return NULL;
	}
	return &pd->ibv_pd;
}

static void ziw_parent_free(struct ziw_pd *pd)
{
	if (pd->td)
		atomic_fetch_sub(&pd->td->refs, 1);
	atomic_fetch_sub(&pd->parent_of->refs, 1);
	free(pd);
}

int ziw_dealloc_pd(struct ibv_pd *ibpd)
{
	struct ziw_pd *pd = to_ziw_pd(ibpd);
	int ret;

	if (atomic_load(&pd->refs))
		return EBUSY;
	if (pd->parent_of) {
		ziw_parent_free(pd);
		return 0;
	}

	ret = ibv_cmd_dealloc_pd(ibpd);
	if (ret)
		return ret;

	free(pd);
	return 0;
}

/*
 * There is no command that asks about a PD. A window can be allocated in any, so one
 * that comes and goes tells whether the handle is a PD's.
 */
static int ziw_check_pd(struct ibv_pd *ibpd)
{
	struct ib_uverbs_alloc_mw_resp resp;
	struct ibv_alloc_mw cmd;
	struct ibv_mw mw = {};
	int ret;

	ret = ibv_cmd_alloc_mw(ibpd, IBV_MW_TYPE_1, &mw, &cmd, sizeof(cmd),
			       &resp, sizeof(resp));
	return ret ? ret : ibv_cmd_dealloc_mw(&mw);
}

struct ibv_pd *ziw_import_pd(struct ibv_context *ibctx, uint32_t handle)
{
	struct ziw_pd *pd;
	int ret;

	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;

	pd->ibv_pd.context = ibctx;
	pd->ibv_pd.handle = handle;
	ret = ziw_check_pd(&pd->ibv_pd);
	if (ret) {
		free(pd);
		errno = ret;
		return NULL;
	}
	return &pd->ibv_pd;
}

/* The domain itself is its exporter's to end. */
void ziw_unimport_pd(struct ibv_pd *ibpd)
{
	free(to_ziw_pd(ibpd));
}

struct ibv_td *ziw_alloc_td(struct ibv_context *ibctx,
			    struct ibv_td_init_attr *attr)
{
	struct ziw_td *td;

	if (attr->comp_mask) {
		errno = EOPNOTSUPP;
		return NULL;
	}

	td = calloc(1, sizeof(*td));
	if (!td)
		return NULL;
	td->ibv_td.context = ibctx;
	return &td->ibv_td;
}

int ziw_dealloc_td(struct ibv_td *ibtd)
{
	struct ziw_td *td = to_ziw_td(ibtd);

	if (atomic_load(&td->refs))
		return EBUSY;
	free(td);
	return 0;
}

struct ibv_pd *
ziw_alloc_parent_domain(struct ibv_context *ibctx,
			struct ibv_parent_domain_init_attr *attr)
{
	struct ziw_pd *pd, *inner;

	if (!check_comp_mask(attr->comp_mask, ZIW_PARENT_ATTRS)) {
		errno = EOPNOTSUPP;
		return NULL;
	}
	if (!attr->pd || attr->pd->context != ibctx ||
	    to_ziw_pd(attr->pd)->parent_of ||
	    (attr->td && attr->td->context != ibctx)) {
		errno = EINVAL;
		return NULL;
	}
	inner = to_ziw_pd(attr->pd);

	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return NULL;
	ibv_initialize_parent_domain(&pd->ibv_pd, attr->pd);
	pd->parent_of = inner;
	atomic_fetch_add(&inner->refs, 1);
	if (attr->td) {
		pd->td = to_ziw_td(attr->td);
		atomic_fetch_add(&pd->td->refs, 1);
	}
	return &pd->ibv_pd;
}

/* The kernel keeps a PD that is in use, but it does not know parent domains. */
void ziw_pd_get(struct ibv_pd *ibpd)
{
	struct ziw_pd *pd = to_ziw_pd(ibpd);

	if (pd->parent_of)
		atomic_fetch_add(&pd->refs, 1);
}

void ziw_pd_put(struct ibv_pd *ibpd)
{
	struct ziw_pd *pd = to_ziw_pd(ibpd);

	if (pd->parent_of)
		atomic_fetch_sub(&pd->refs, 1);
}

/* May several threads use what is made with this? */
bool ziw_pd_shared(const struct ibv_pd *ibpd)
{
	return !container_of(ibpd, struct ziw_pd, ibv_pd)->td;
}
