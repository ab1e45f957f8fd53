/* SPDX-License-Identifier: GPL-2.0 */
/* All that differs between the kernels ziw is built for: 6.1, 6.12 and 7.3. */
#ifndef ZIW_COMPAT_H
#define ZIW_COMPAT_H

#include <linux/version.h>
#include <linux/skbuff.h>
#include <linux/socket.h>
#include <rdma/uverbs_ioctl.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#include <asm/unaligned.h>
#else
#include <linux/unaligned.h>
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 15, 0)
#include <linux/crc32c.h>
#else
#include <linux/crc32.h>
#endif

/* What it has was in ib_verbs.h and ib_umem.h before; it came to older kernels, too. */
#ifdef __CHECKER__	/* does not know the question */
#include <rdma/iter.h>
#elif __has_include("rdma/iter.h")
#include <rdma/iter.h>
#endif

/*
 * Bottom halves that are off keep others from data of the CPU, but not on PREEMPT_RT from
 * 6.18 on. Before 6.11 there is no such lock, and no need for it.
 */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
#define ziw_local_lock_bh(lock)		do { } while (0)
#define ziw_local_unlock_bh(lock)	do { } while (0)
#else
#define ziw_local_lock_bh(lock)		local_lock_nested_bh(lock)
#define ziw_local_unlock_bh(lock)	local_unlock_nested_bh(lock)
#endif

/* reg_user_mr() was given a DMA handle after 6.16. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 17, 0)
#define ZIW_DMAH_ARG
#define ZIW_DMAH NULL
#else
#define ZIW_DMAH_ARG struct ib_dmah *dmah,
#define ZIW_DMAH dmah
#endif

/* create_cq() took the udata itself before the uverbs bundle. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 11, 0)
#define ziw_cq_attrs ib_udata

static inline struct ib_udata *ziw_cq_udata(struct ib_udata *udata)
{
	return udata;
}
#else
#define ziw_cq_attrs uverbs_attr_bundle

static inline struct ib_udata *ziw_cq_udata(struct uverbs_attr_bundle *attrs)
{
	return attrs ? &attrs->driver_udata : NULL;
}
#endif

/* reg_user_mr_dmabuf() likewise, from 6.12 on. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#define ziw_dmabuf_attrs ib_udata
#else
#define ziw_dmabuf_attrs uverbs_attr_bundle
#endif

/* dma_buf_vmap() took the reservation lock itself before 6.2. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define dma_buf_vmap_unlocked dma_buf_vmap
#define dma_buf_vunmap_unlocked dma_buf_vunmap
#endif

/* Namespaces of symbols are strings from 6.13 on. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#define ZIW_IMPORT_DMA_BUF MODULE_IMPORT_NS(DMA_BUF)
#else
#define ZIW_IMPORT_DMA_BUF MODULE_IMPORT_NS("DMA_BUF")
#endif

/* kernel_bind() and kernel_connect() take a type of their own from 6.19 on. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 19, 0)
#define ziw_sockaddr(addr) ((struct sockaddr *)(addr))
#else
#define ziw_sockaddr(addr) ((struct sockaddr_unsized *)(addr))
#endif

/* ib_umem_get() became one of several sources of a umem in 7.2. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 2, 0)
#define ziw_umem_get ib_umem_get
#else
#define ziw_umem_get ib_umem_get_va
#endif

/* User CQs have an operation of their own from 7.1 on. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 1, 0)
#define ZIW_CREATE_USER_CQ
#else
#define ZIW_CREATE_USER_CQ .create_user_cq = ziw_create_cq,
#endif

/* 6.1 asks drivers for no details of SRQs. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#define ZIW_FILL_SRQ
#else
#define ZIW_FILL_SRQ .fill_res_srq_entry = ziw_fill_srq,
#endif

/* What only ziw_kunit.ko is to see, of a kernel that has KUnit; the header for it came with 6.2. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 2, 0)
#define VISIBLE_IF_KUNIT static
#define EXPORT_SYMBOL_IF_KUNIT(symbol)
#else
#include <kunit/visibility.h>
#endif

/* Only user CQs are resized from 7.1 on. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(7, 1, 0)
#define ZIW_RESIZE_CQ .resize_cq = ziw_resize_cq,
#define ziw_cqe_count int
#else
#define ZIW_RESIZE_CQ .resize_user_cq = ziw_resize_cq,
#define ziw_cqe_count unsigned int
#endif

/* hrtimer_setup() took over the function from 6.13 on. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#define ziw_hrtimer_setup(timer, fn) do { \
	struct hrtimer *_timer = (timer); \
	hrtimer_init(_timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT); \
	_timer->function = (fn); \
} while (0)
#else
#define ziw_hrtimer_setup(timer, fn) \
	hrtimer_setup(timer, fn, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT)
#endif

/* Fragments may lie in the memory of a device from 6.12 on. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#define ziw_skb_readable(skb) true
#else
#define ziw_skb_readable(skb) skb_frags_readable(skb)
#endif

/* Where a trace event's string comes from is said once, from 6.10 on. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 10, 0)
#define ziw_assign_str(dst, src) __assign_str(dst, src)
#else
#define ziw_assign_str(dst, src) __assign_str(dst)
#endif

/* get_user_pages_remote() does not tell VMAs any more, from 6.5 on. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
#define ziw_get_user_pages_remote(mm, start, num, flags, pages, locked) \
	get_user_pages_remote(mm, start, num, flags, pages, NULL, locked)
#else
#define ziw_get_user_pages_remote get_user_pages_remote
#endif

/* Page splicing through sendmsg replaced sendpage in 6.5. */
#define ZIW_HAS_SPLICE_PAGES (LINUX_VERSION_CODE >= KERNEL_VERSION(6, 5, 0))

#endif /* ZIW_COMPAT_H */
