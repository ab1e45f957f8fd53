/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The contract between ziw.ko and its rdma-core provider: command structures
 * of the verbs calls, and the rings both sides share in memory.
 *
 * Every queue is a ring of its own, in memory that the kernel allocates and the
 * provider maps: a struct ziw_ring_hdr, and behind it `entries` slots of `stride`
 * bytes each; struct ziw_ring_info says where. `entries` is a power of two. Both
 * indices run freely through 32 bits; slot number = index & (entries - 1);
 * the ring is empty when prod == cons and full when prod - cons == entries.
 *
 *   queue     producer   consumer
 *   SQ        provider   kernel
 *   RQ, SRQ   provider   kernel
 *   CQ        kernel     provider
 *
 * The kernel never trusts what the provider can write: it keeps its own copy
 * of the index it owns, copies a slot once before looking at it, and bounds
 * the other side's index by `entries`.
 */
#ifndef ZIW_ABI_H
#define ZIW_ABI_H

#include <linux/types.h>

/*
 * Any change to this file that an older peer would misread raises this. The
 * kernel refuses to open a context for another version, and the provider
 * refuses to load on one.
 */
#define ZIW_ABI_VERSION		3

/*
 * The rdma_driver_id of ziw devices, outside the numbers that the kernel's
 * enum hands out. libibverbs matches the provider by it, so a device may have
 * any name.
 */
#define ZIW_RDMA_DRIVER_ID	0x7a6977

/* Most scatter/gather entries of one WR, and most bytes sent inline. */
#define ZIW_MAX_SGE		32
#define ZIW_MAX_INLINE		1024

/**
 * struct ziw_ring_hdr - the shared indices of one ring
 * @prod:  slots filled so far. Written by the producer only, with a store-
 *         release after the slot's content; read by the consumer with a
 *         load-acquire before it reads the slot.
 * @cons:  slots freed so far. Written by the consumer only, with a store-
 *         release after its last use of the slot; read by the producer with a
 *         load-acquire before it writes the slot again. The kernel frees an
 *         SQ slot when the work request is complete, just before its CQE (if
 *         it has one) can be seen. It frees an RQ or SRQ slot once copied.
 *         The provider uses slots of an SQ or RQ again later, when it has
 *         taken the CQE that frees them (struct ziw_cqe, @wq_cons) off the
 *         CQ: so a program whose CQ has an entry for each slot cannot have
 *         more completions waiting than there is room for, however it posts.
 * @flags: the wake-up word, see below.
 *
 * SQ, RQ, SRQ: @flags holds ZIW_RING_NEED_DOORBELL, written by the kernel
 * only. The provider stores @prod, executes a full barrier, and then loads
 * @flags; where the bit is set it rings the doorbell: ZIW_IOC_DOORBELL, or the
 * verbs command POST_SEND or POST_RECV with no work request. The kernel
 * stores the bit, executes a full barrier, and looks at @prod once more
 * before it goes idle; so either the kernel sees the new slot or the provider
 * sees the bit. On an SQ the bit is set while nothing would make the kernel
 * look by itself. On an RQ it is set while the QP is in the error state, where
 * each new slot has to be flushed. An SRQ sets it never.
 *
 * CQ: @flags holds ZIW_CQ_ARM_SOLICITED or ZIW_CQ_ARM_NEXT, set by the
 * provider with an atomic OR and followed by a full barrier before it polls
 * once more; taken by the kernel with an atomic exchange after a full barrier
 * that follows its store of @prod. So either the poll sees the CQE or the
 * kernel sees the arm.
 *
 * Each field has a cache line of its own, since each has another writer.
 */
struct ziw_ring_hdr {
	__u32	prod;
	__u32	pad0[15];
	__u32	cons;
	__u32	pad1[15];
	__u32	flags;
	__u32	pad2[15];
};

#define ZIW_RING_NEED_DOORBELL	0x1

#define ZIW_CQ_ARM_SOLICITED	0x1
#define ZIW_CQ_ARM_NEXT		0x2

/**
 * struct ziw_sge - one scatter/gather entry, native byte order
 * @addr: address in the region's own address space
 * @length: bytes
 * @lkey: STag of the region
 */
struct ziw_sge {
	__aligned_u64	addr;
	__u32		length;
	__u32		lkey;
};

/* Send-side operations. Values are part of the ABI. */
enum ziw_opcode {
	ZIW_OP_SEND		= 0,
	ZIW_OP_SEND_INV		= 1,
	ZIW_OP_SEND_IMM		= 2,
	ZIW_OP_WRITE		= 3,
	ZIW_OP_WRITE_IMM	= 4,
	ZIW_OP_READ		= 5,
	ZIW_OP_READ_INV		= 6,	/* kernel rings only */
	ZIW_OP_FETCH_ADD	= 7,
	ZIW_OP_CMP_SWAP		= 8,
	ZIW_OP_LOCAL_INV	= 9,
	ZIW_OP_BIND_MW		= 10,
	ZIW_OP_REG_MR		= 11,	/* kernel rings only */
	/* In a CQE only: */
	ZIW_OP_RECV		= 32,
	ZIW_OP_RECV_IMM		= 33,
};

/* struct ziw_sq_wqe.flags */
#define ZIW_WQE_SIGNALED	0x1
#define ZIW_WQE_SOLICITED	0x2
#define ZIW_WQE_FENCE		0x4
#define ZIW_WQE_INLINE		0x8
#define ZIW_WQE_MASKED		0x10	/* atomics: the masks are valid */

/**
 * struct ziw_sq_wqe - a slot of the SQ, native byte order
 * @wr_id: returned in the CQE
 * @opcode: enum ziw_opcode
 * @num_sge: number of struct ziw_sge behind this header; 0 if inline
 * @flags: ZIW_WQE_*
 * @inline_len: bytes of payload behind this header; 0 unless inline
 * @rkey: STag of the remote region (Write, Read, atomics); BIND_MW: the window's
 *        STag from then on
 * @ex: STag to invalidate (SEND_INV: the peer's; LOCAL_INV: ours), or
 *      immediate data as the verbs give it, in network byte order; BIND_MW: the
 *      window's STag so far
 * @remote_addr: TO in the remote region; BIND_MW: first address
 * @compare_add: atomics: what to compare with, or to add; BIND_MW: bytes
 * @swap: CMP_SWAP: what to store; BIND_MW: STag of the region
 * @compare_add_mask: with ZIW_WQE_MASKED: bits to compare, or the most significant
 *                    bit of each field that is added by itself; BIND_MW: enum
 *                    ibv_access_flags
 * @swap_mask: with ZIW_WQE_MASKED: bits to store
 */
struct ziw_sq_wqe {
	__aligned_u64	wr_id;
	__u8		opcode;
	__u8		num_sge;
	__u16		flags;
	__u32		inline_len;
	__u32		rkey;
	__u32		ex;
	__aligned_u64	remote_addr;
	__aligned_u64	compare_add;
	__aligned_u64	swap;
	__aligned_u64	compare_add_mask;
	__aligned_u64	swap_mask;
	struct ziw_sge	sge[];
};

/**
 * struct ziw_rq_wqe - a slot of an RQ or SRQ, native byte order
 * @wr_id: returned in the CQE
 * @num_sge: number of struct ziw_sge behind this header
 * @reserved: zero
 */
struct ziw_rq_wqe {
	__aligned_u64	wr_id;
	__u32		num_sge;
	__u32		reserved;
	struct ziw_sge	sge[];
};

/* struct ziw_cqe.flags */
#define ZIW_CQE_WITH_IMM	0x1
#define ZIW_CQE_WITH_INV	0x2
#define ZIW_CQE_SOLICITED	0x4
#define ZIW_CQE_MASKED		0x8	/* of an atomic with masks */

/**
 * struct ziw_cqe - a slot of the CQ, native byte order
 * @wr_id: of the work request
 * @qpn: number of the QP it was posted to
 * @opcode: enum ziw_opcode
 * @status: enum ibv_wc_status; the kernel's enum ib_wc_status has the same values
 * @flags: ZIW_CQE_*
 * @byte_len: bytes received, read or, for an atomic, 8
 * @ex: STag invalidated, or immediate data in network byte order
 * @vendor_err: where a Terminate Message ended the QP, its layer, error type
 *              and error code as RFC 5040 section 4.8 lays them out (layer in
 *              bits 15:12, type in 11:8, code in 7:0); else 0
 * @wq_cons: the QP's SQ, for a receive its RQ: slots before this index are done
 *           with, those whose work requests have no CQE included. 0 with an SRQ.
 * @timestamp: nanoseconds of CLOCK_MONOTONIC when the CQE was written
 * @qp: struct ziw_create_qp_req.handle of the QP; in a kernel consumer's CQ, which
 *      is mapped nowhere, the address of its struct ib_qp
 * @reserved: zero
 */
struct ziw_cqe {
	__aligned_u64	wr_id;
	__u32		qpn;
	__u8		opcode;
	__u8		status;
	__u16		flags;
	__u32		byte_len;
	__u32		ex;
	__u32		vendor_err;
	__u32		wq_cons;
	__aligned_u64	timestamp;
	__aligned_u64	qp;
	__aligned_u64	reserved[2];
};

/**
 * struct ziw_ring_info - how to map one ring
 * @mmap_offset: for mmap(2) on the context's command file
 * @mmap_size: bytes, a multiple of the page size; 0: there is no such ring
 * @entries: slots, a power of two
 * @stride: bytes from slot to slot
 * @slots_offset: bytes from the start of the mapping to slot 0
 * @hdr_offset: bytes from there to the struct ziw_ring_hdr: the rings of a queue pair
 *              lie in one mapping, which has one @mmap_offset
 */
struct ziw_ring_info {
	__aligned_u64	mmap_offset;
	__aligned_u64	mmap_size;
	__u32		entries;
	__u32		stride;
	__u32		slots_offset;
	__u32		hdr_offset;
};

/*
 * Verbs commands. Requests follow the core's own request structure, and
 * responses its response structure.
 */
#define ZIW_CONTEXT_DOORBELL	0x1

/**
 * struct ziw_alloc_context_req
 * @abi_version: ZIW_ABI_VERSION
 * @flags: ZIW_CONTEXT_DOORBELL: with a file for doorbells
 */
struct ziw_alloc_context_req {
	__u32	abi_version;
	__u32	flags;
};

/**
 * struct ziw_alloc_context_resp
 * @abi_version: ZIW_ABI_VERSION
 * @doorbell_fd: with ZIW_CONTEXT_DOORBELL: a file descriptor, close-on-exec, for
 *               ZIW_IOC_DOORBELL; the process closes it with the context
 */
struct ziw_alloc_context_resp {
	__u32	abi_version;
	__s32	doorbell_fd;
};

/*
 * ioctl(doorbell_fd, ZIW_IOC_DOORBELL, qpn | ZIW_DOORBELL_RECV): the doorbell of a
 * queue pair's SQ, or RQ, as the verbs commands POST_SEND and POST_RECV ring it. ENOENT:
 * this context has no such queue pair; ENODEV: the context is gone; EINVAL: it has
 * an SRQ.
 *
 * For an SQ, bits 24 to 30 say how many work requests the program had posted before and
 * has not seen complete; ZIW_DOORBELL_BUSY_MAX stands for all from there on. Where there are
 * many, it does not wait for this one, and the kernel may send several together.
 */
#define ZIW_IOC_DOORBELL	_IO('z', 0x69)
#define ZIW_DOORBELL_QPN	0xffffff
#define ZIW_DOORBELL_BUSY_SHIFT	24
#define ZIW_DOORBELL_BUSY_MAX	0x7f
#define ZIW_DOORBELL_RECV	0x80000000

struct ziw_alloc_pd_resp {
	__u32	pdn;
	__u32	reserved;
};

/* Also the answer to a resize, which makes a new ring. */
struct ziw_create_cq_resp {
	struct ziw_ring_info	cq;
};

struct ziw_create_srq_resp {
	struct ziw_ring_info	rq;
	__u32			srqn;
	__u32			reserved;
};

/* @handle: the kernel makes no use of it but to put it into CQEs. */
struct ziw_create_qp_req {
	__aligned_u64	handle;
};

/* With an SRQ, rq.mmap_size is 0. */
struct ziw_create_qp_resp {
	struct ziw_ring_info	sq;
	struct ziw_ring_info	rq;
	__u32			qpn;
	__u32			max_inline;
};

#endif /* ZIW_ABI_H */
