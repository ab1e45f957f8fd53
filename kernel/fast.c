// SPDX-License-Identifier: GPL-2.0
/*
 * Fast registration: regions whose pages a kernel consumer sets, and whose STag it makes
 * valid by a work request.
 */
#include <rdma/ib_verbs.h>
#include "ziw.h"

/**
 * ziw_mr_fast_register - make a region's STag valid, IB_WR_REG_MR
 * @ibmr: region with its pages set by ib_map_mr_sg()
 * @key: new STag; differs from the old one in the key at most
 * @access: enum ib_access_flags
 *
 * Context: bottom halves off.
 * Return: 0, or -EINVAL if the region is in use or of another kind.
 */
int ziw_mr_fast_register(struct ib_mr *ibmr, u32 key, int access)
{
	struct ziw_mr *mr = to_ziw_mr(ibmr);
	int ret = -EINVAL;

	write_lock(&mr->lock);
	if (mr->type == ZIW_MR_FAST && !mr->valid &&
	    ziw_stag_index(key) == ziw_stag_index(mr->stag)) {
		/* Without new pages it is registered with those it had. */
		if (mr->nr_next) {
			swap(mr->blocks, mr->next_blocks);
			swap(mr->starts, mr->next_starts);
			mr->nr_blocks = mr->nr_next;
			mr->nr_next = 0;
		}
		mr->stag = key;
		mr->access = access;
		mr->iova = access & IB_ZERO_BASED ? 0 : ibmr->iova;
		mr->length = ibmr->length;
		mr->block_shift = ilog2(ibmr->page_size);
		mr->offset = ibmr->iova & (ibmr->page_size - 1);
		ziw_mr_set_valid(mr, true);
		ret = 0;
	}
	write_unlock(&mr->lock);
	return ret;
}
EXPORT_SYMBOL_IF_KUNIT(ziw_mr_fast_register);

/**
 * ziw_alloc_mr - verb: a region for fast registration
 * @pd: protection domain
 * @type: IB_MR_TYPE_MEM_REG, or IB_MR_TYPE_SG_GAPS for pieces of any length
 * @max_num_sg: pages or pieces, at most ZIW_MAX_FRMR_PAGES
 *
 * Context: process.
 * Return: the region, invalid until IB_WR_REG_MR, or an ERR_PTR.
 */
struct ib_mr *ziw_alloc_mr(struct ib_pd *pd, enum ib_mr_type type,
			   u32 max_num_sg)
{
	struct ziw_mr *mr;

	if (type != IB_MR_TYPE_MEM_REG && type != IB_MR_TYPE_SG_GAPS)
		return ERR_PTR(-EOPNOTSUPP);
	if (!max_num_sg || max_num_sg > ZIW_MAX_FRMR_PAGES)
		return ERR_PTR(-EINVAL);
	mr = ziw_mr_alloc(pd, ZIW_MR_FAST, max_num_sg);
	if (IS_ERR(mr))
		return ERR_CAST(mr);
	if (type == IB_MR_TYPE_SG_GAPS) {
		mr->starts = kvcalloc(max_num_sg + 1, sizeof(*mr->starts), GFP_KERNEL);
		mr->next_starts = kvcalloc(max_num_sg + 1, sizeof(*mr->starts), GFP_KERNEL);
		if (!mr->starts || !mr->next_starts) {
			ziw_mr_retire(mr);
			return ERR_PTR(-ENOMEM);
		}
	}
	return &mr->ibmr;
}

static int mr_set_page(struct ib_mr *ibmr, u64 addr)
{
	struct ziw_mr *mr = to_ziw_mr(ibmr);

	if (mr->nr_next == mr->max_blocks)
		return -ENOMEM;
	mr->next_blocks[mr->nr_next++] = addr;
	return 0;
}

/* As ib_sg_to_pages(), for pieces of any length. */
static int map_gaps(struct ziw_mr *mr, struct scatterlist *sgl, int nents,
		    unsigned int *offset)
{
	u64 skip = offset ? *offset : 0, length = 0;
	struct scatterlist *sg;
	int i;

	if (nents <= 0 || skip > sg_dma_len(sgl))
		return -EINVAL;
	if (offset)
		*offset = 0;
	mr->ibmr.iova = sg_dma_address(sgl) + skip;
	for_each_sg(sgl, sg, nents, i) {
		if (mr->nr_next == mr->max_blocks)
			break;
		mr->next_blocks[mr->nr_next] = sg_dma_address(sg) + skip;
		mr->next_starts[mr->nr_next++] = length;
		length += sg_dma_len(sg) - skip;
		skip = 0;
	}
	mr->next_starts[mr->nr_next] = length;
	mr->ibmr.length = length;
	return i;
}

/**
 * ziw_map_mr_sg - verb: set the pages of a region for fast registration
 * @ibmr: region; if valid, it keeps its pages until it is registered anew, since
 *	iser maps first, then posts the IB_WR_LOCAL_INV together with the IB_WR_REG_MR
 * @sg: DMA mapped; addresses are kernel addresses, since ziw uses virtual DMA
 * @nents: entries
 * @offset: into the first
 *
 * Return: entries mapped, or a negative error.
 */
int ziw_map_mr_sg(struct ib_mr *ibmr, struct scatterlist *sg, int nents,
		  unsigned int *offset)
{
	struct ziw_mr *mr = to_ziw_mr(ibmr);

	mr->nr_next = 0;
	if (mr->starts)
		return map_gaps(mr, sg, nents, offset);
	return ib_sg_to_pages(ibmr, sg, nents, offset, mr_set_page);
}
