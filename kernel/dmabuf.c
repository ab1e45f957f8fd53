// SPDX-License-Identifier: GPL-2.0
/*
 * Regions of a dma-buf, the memory of another driver.
 *
 * ziw moves data with the CPU, so it does not attach to the buffer as a device
 * but maps it as the CPU does. That pins it for as long as the region lives. Memory that only
 * a device can reach cannot be mapped so, and is refused.
 */
#include <linux/dma-buf.h>
#include <linux/iosys-map.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/overflow.h>
#include <linux/slab.h>
#include "ziw.h"

#if IS_ENABLED(CONFIG_DMA_SHARED_BUFFER)

ZIW_IMPORT_DMA_BUF;

/**
 * struct ziw_dmabuf - what a region holds of a dma-buf
 * @buf: a reference
 * @map: all of it
 */
struct ziw_dmabuf {
	struct dma_buf		*buf;
	struct iosys_map	map;
};

/**
 * ziw_dmabuf_release - a region ends
 * @dmabuf: of it
 *
 * Context: process.
 */
void ziw_dmabuf_release(struct ziw_dmabuf *dmabuf)
{
	dma_buf_vunmap_unlocked(dmabuf->buf, &dmabuf->map);
	dma_buf_end_cpu_access(dmabuf->buf, DMA_BIDIRECTIONAL);
	dma_buf_put(dmabuf->buf);
	kfree(dmabuf);
}

static struct ziw_dmabuf *dmabuf_get(int fd)
{
	struct ziw_dmabuf *dmabuf = kzalloc(sizeof(*dmabuf), GFP_KERNEL);
	int err;

	if (!dmabuf)
		return ERR_PTR(-ENOMEM);
	dmabuf->buf = dma_buf_get(fd);
	if (IS_ERR(dmabuf->buf)) {
		err = PTR_ERR(dmabuf->buf);
		goto err_free;
	}
	err = dma_buf_begin_cpu_access(dmabuf->buf, DMA_BIDIRECTIONAL);
	if (err)
		goto err_put;
	err = dma_buf_vmap_unlocked(dmabuf->buf, &dmabuf->map);
	if (err)
		goto err_end;
	if (dmabuf->map.is_iomem) {
		ziw_dmabuf_release(dmabuf);
		return ERR_PTR(-EOPNOTSUPP);
	}
	return dmabuf;

err_end:
	/* What an exporter says that has no such operation. */
	if (err == -EINVAL)
		err = -EOPNOTSUPP;
	dma_buf_end_cpu_access(dmabuf->buf, DMA_BIDIRECTIONAL);
err_put:
	dma_buf_put(dmabuf->buf);
err_free:
	kfree(dmabuf);
	return ERR_PTR(err);
}

/* Blocks are addresses of pages by themselves: those of the mapping have no struct page. */
static int dmabuf_fill(struct ziw_mr *mr, u8 *va)
{
	struct page *page;
	u32 i;

	for (i = 0; i < mr->max_blocks; i++, va += PAGE_SIZE) {
		page = is_vmalloc_addr(va) ? vmalloc_to_page(va) :
		       virt_addr_valid(va) ? virt_to_page(va) : NULL;
		/* An exporter may have mapped what has no struct page, or no other address. */
		if (!page || !pfn_valid(page_to_pfn(page)) ||
		    !virt_addr_valid(page_address(page)))
			return -EOPNOTSUPP;
		mr->blocks[mr->nr_blocks++] = (uintptr_t)page_address(page);
	}
	return 0;
}

/**
 * ziw_reg_user_mr_dmabuf - verb: register a dma-buf
 * @pd: protection domain
 * @offset: where in the buffer the region begins
 * @length: bytes
 * @virt_addr: address by which work requests and peers name @offset
 * @fd: the buffer
 * @access: enum ib_access_flags
 * @attrs: not used
 *
 * Context: process.
 * Return: the region, or an ERR_PTR: -EOPNOTSUPP for memory that the CPU cannot
 * reach, or access flags that ziw does not know; -EINVAL for a range beyond the
 * buffer, else what the exporter gave.
 */
struct ib_mr *ziw_reg_user_mr_dmabuf(struct ib_pd *pd, u64 offset, u64 length,
				     u64 virt_addr, int fd, int access, ZIW_DMAH_ARG
				     struct ziw_dmabuf_attrs *attrs)
{
	u64 first = offset & PAGE_MASK, end, pages;
	struct ziw_dmabuf *dmabuf;
	struct ziw_mr *mr;
	int err;

	err = ziw_mr_check_registration(length, virt_addr, access, ZIW_DMAH);
	if (err)
		return ERR_PTR(err);
	dmabuf = dmabuf_get(fd);
	if (IS_ERR(dmabuf))
		return ERR_CAST(dmabuf);

	err = -EINVAL;
	if (!length || check_add_overflow(offset, length, &end) || end > dmabuf->buf->size)
		goto err_release;
	pages = DIV_ROUND_UP_ULL(end - first, PAGE_SIZE);
	if (pages > U32_MAX)
		goto err_release;
	mr = ziw_mr_alloc(pd, ZIW_MR_USER, pages);
	if (IS_ERR(mr)) {
		err = PTR_ERR(mr);
		goto err_release;
	}
	err = dmabuf_fill(mr, dmabuf->map.vaddr + first);
	if (err) {
		ziw_mr_retire(mr);
		goto err_release;
	}
	mr->dmabuf = dmabuf;
	mr->block_shift = PAGE_SHIFT;
	mr->offset = offset - first;
	return ziw_mr_publish_memory(mr, virt_addr, length, access);

err_release:
	ziw_dmabuf_release(dmabuf);
	return ERR_PTR(err);
}

#else /* !CONFIG_DMA_SHARED_BUFFER */

void ziw_dmabuf_release(struct ziw_dmabuf *dmabuf)
{
}

struct ib_mr *ziw_reg_user_mr_dmabuf(struct ib_pd *pd, u64 offset, u64 length,
				     u64 virt_addr, int fd, int access, ZIW_DMAH_ARG
				     struct ziw_dmabuf_attrs *attrs)
{
	return ERR_PTR(-EOPNOTSUPP);
}

#endif
