/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What the files of the ziw provider share.
 *
 *	ziw.c	finding devices, opening one
 *	verbs.c	making and destroying objects
 *	pd.c	protection, thread and parent domains
 *	ring.c	mapping the rings
 *	post.c	filling SQ, RQ and SRQ
 *	wr.c	filling the SQ call by call, ibv_wr_*()
 *	cq.c	emptying the CQ
 */
#ifndef ZIW_H
#define ZIW_H

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <infiniband/driver.h>
#include <infiniband/verbs.h>

#include "ziw-abi.h"

/*
 * The layout of the ABI, spelled out: a compiler or an edit that moves a
 * field fails here instead of on somebody's machine.
 */
#define ZIW_AT(type, field, where) \
	static_assert(offsetof(struct type, field) == (where), \
		      #type "." #field " moved")
#define ZIW_SIZE(type, size) \
	static_assert(sizeof(struct type) == (size), #type " changed size")

ZIW_SIZE(ziw_ring_hdr, 192);
ZIW_AT(ziw_ring_hdr, prod, 0);
ZIW_AT(ziw_ring_hdr, cons, 64);
ZIW_AT(ziw_ring_hdr, flags, 128);

ZIW_SIZE(ziw_sge, 16);
ZIW_AT(ziw_sge, addr, 0);
ZIW_AT(ziw_sge, length, 8);
ZIW_AT(ziw_sge, lkey, 12);

ZIW_SIZE(ziw_sq_wqe, 64);
ZIW_AT(ziw_sq_wqe, wr_id, 0);
ZIW_AT(ziw_sq_wqe, opcode, 8);
ZIW_AT(ziw_sq_wqe, num_sge, 9);
ZIW_AT(ziw_sq_wqe, flags, 10);
ZIW_AT(ziw_sq_wqe, inline_len, 12);
ZIW_AT(ziw_sq_wqe, rkey, 16);
ZIW_AT(ziw_sq_wqe, ex, 20);
ZIW_AT(ziw_sq_wqe, remote_addr, 24);
ZIW_AT(ziw_sq_wqe, compare_add, 32);
ZIW_AT(ziw_sq_wqe, swap, 40);
ZIW_AT(ziw_sq_wqe, sge, 64);

ZIW_SIZE(ziw_rq_wqe, 16);
ZIW_AT(ziw_rq_wqe, wr_id, 0);
ZIW_AT(ziw_rq_wqe, num_sge, 8);
ZIW_AT(ziw_rq_wqe, sge, 16);

ZIW_SIZE(ziw_cqe, 64);
ZIW_AT(ziw_cqe, wr_id, 0);
ZIW_AT(ziw_cqe, qpn, 8);
ZIW_AT(ziw_cqe, opcode, 12);
ZIW_AT(ziw_cqe, status, 13);
ZIW_AT(ziw_cqe, flags, 14);
ZIW_AT(ziw_cqe, byte_len, 16);
ZIW_AT(ziw_cqe, ex, 20);
ZIW_AT(ziw_cqe, vendor_err, 24);
ZIW_AT(ziw_cqe, wq_cons, 28);
ZIW_AT(ziw_cqe, timestamp, 32);
ZIW_AT(ziw_cqe, qp, 40);

ZIW_SIZE(ziw_ring_info, 32);
ZIW_AT(ziw_ring_info, mmap_offset, 0);
ZIW_AT(ziw_ring_info, mmap_size, 8);
ZIW_AT(ziw_ring_info, entries, 16);
ZIW_AT(ziw_ring_info, stride, 20);
ZIW_AT(ziw_ring_info, slots_offset, 24);

ZIW_SIZE(ziw_alloc_context_req, 8);
ZIW_SIZE(ziw_alloc_context_resp, 8);
ZIW_SIZE(ziw_alloc_pd_resp, 8);
ZIW_SIZE(ziw_create_cq_resp, 32);
ZIW_SIZE(ziw_create_srq_resp, 40);
ZIW_AT(ziw_create_srq_resp, srqn, 32);
ZIW_SIZE(ziw_create_qp_req, 8);
ZIW_SIZE(ziw_create_qp_resp, 72);
ZIW_AT(ziw_create_qp_resp, rq, 32);
ZIW_AT(ziw_create_qp_resp, qpn, 64);
ZIW_AT(ziw_create_qp_resp, max_inline, 68);

/* A list of struct ibv_sge is copied as it is. */
ZIW_SIZE(ibv_sge, sizeof(struct ziw_sge));
ZIW_AT(ibv_sge, addr, offsetof(struct ziw_sge, addr));
ZIW_AT(ibv_sge, length, offsetof(struct ziw_sge, length));
ZIW_AT(ibv_sge, lkey, offsetof(struct ziw_sge, lkey));

/* The order of the ring protocol; ziw-abi.h says where each is due. */
static inline uint32_t ziw_load_acquire(const __u32 *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline void ziw_store_release(__u32 *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static inline void ziw_full_barrier(void)
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/**
 * struct ziw_ring - our end of a mapped ring
 * @hdr: the shared indices; NULL: no ring
 * @slots: slot 0
 * @map: the mapping that both are in
 * @map_size: bytes of it
 * @entries: slots, a power of two
 * @stride: bytes from slot to slot
 * @prod: SQ, RQ, SRQ: slots filled, the original of hdr->prod.
 *        CQ: hdr->prod when last looked at.
 * @cons: CQ: slots freed, the original of hdr->cons once published.
 *        SQ, RQ, SRQ: slots free again when last looked at.
 */
struct ziw_ring {
	struct ziw_ring_hdr	*hdr;
	void			*slots;
	void			*map;
	size_t			map_size;
	uint32_t		entries;
	uint32_t		stride;
	uint32_t		prod;
	uint32_t		cons;
};

static inline void *ziw_ring_slot(const struct ziw_ring *ring, uint32_t index)
{
	return ring->slots +
	       (size_t)(index & (ring->entries - 1)) * ring->stride;
}

/* A spinlock that costs nothing where the application promised one thread. */
struct ziw_lock {
	pthread_spinlock_t	spin;
	bool			needed;
};

static inline void ziw_lock_init(struct ziw_lock *lock, bool needed)
{
	lock->needed = needed;
	pthread_spin_init(&lock->spin, PTHREAD_PROCESS_PRIVATE);
}

static inline void ziw_lock_destroy(struct ziw_lock *lock)
{
	pthread_spin_destroy(&lock->spin);
}

/*
 * It is held for moments, but its holder may have lost the CPU in one of them; so
 * who has tried often enough gives way.
 */
#define ZIW_LOCK_TRIES	1000

static inline void ziw_lock(struct ziw_lock *lock)
{
	unsigned int tries = 0;

	if (!lock->needed)
		return;
	while (pthread_spin_trylock(&lock->spin)) {
		if (++tries % ZIW_LOCK_TRIES == 0)
			sched_yield();
	}
}

static inline void ziw_unlock(struct ziw_lock *lock)
{
	if (lock->needed)
		pthread_spin_unlock(&lock->spin);
}

/**
 * struct ziw_wq - an SQ, RQ or SRQ
 * @lock: serialises posting
 * @ring: guarded by @lock
 * @freed: the word that tells how many slots are free again: @polled, or the
 *         kernel's hdr->cons for an SRQ, whose completions may go to several
 *         CQs, and where the CQ drops completions that it has no room for
 * @max_sge: most entries of one WR
 * @max_inline: SQ: most bytes of one WR sent inline
 * @polled: slots whose completion was taken off the CQ. Written with the lock of
 *          the CQ held, perhaps by another thread than the one that posts: hence @pad,
 *          a cache line less this word
 */
struct ziw_wq {
	struct ziw_lock		lock;
	struct ziw_ring		ring;
	const __u32		*freed;
	int			max_sge;
	uint32_t		max_inline;
	uint32_t		pad[15];
	__u32			polled;
};

struct ziw_context {
	struct verbs_context	vctx;
	int			doorbell_fd;
};

/**
 * struct ziw_td - a thread domain: what is made in it one thread at a time uses
 * @ibv_td: the verbs object
 * @refs: parent domains with it
 */
struct ziw_td {
	struct ibv_td		ibv_td;
	atomic_uint		refs;
};

/**
 * struct ziw_pd - a protection domain, or a parent domain around one
 * @ibv_pd: the verbs object; a parent domain has the handle of its PD
 * @parent_of: parent domain: the PD in it
 * @td: parent domain: the thread domain in it, or NULL
 * @refs: what is to go before this: parent domains of a PD; of a parent domain
 *        the queues that were made with it
 */
struct ziw_pd {
	struct ibv_pd		ibv_pd;
	struct ziw_pd		*parent_of;
	struct ziw_td		*td;
	atomic_uint		refs;
};

/**
 * struct ziw_cq - a completion queue
 * @vcq: the verbs object, simple or extended
 * @lock: serialises polling; between start_poll and end_poll it is held
 * @arm_lock: keeps the ring in its place while the CQ is armed, which a program may do
 *            between start_poll and end_poll; taken inside @lock
 * @ring: guarded by @lock, and its place by @arm_lock, too
 * @pd: parent domain that it was made with, or NULL
 * @cqe: the extended interface's current entry, guarded by @lock
 * @ignore_overrun: what there is no room for is lost
 */
struct ziw_cq {
	struct verbs_cq		vcq;
	struct ziw_lock		lock;
	struct ziw_lock		arm_lock;
	struct ziw_ring		ring;
	struct ziw_pd		*pd;
	struct ziw_cqe		cqe;
	bool			ignore_overrun;
};

struct ziw_srq {
	struct ibv_srq		ibv_srq;
	struct ziw_wq		rq;
};

/**
 * struct ziw_qp - a queue pair
 * @vqp: the verbs object
 * @sq: send queue
 * @rq: receive queue; has no ring if the QP has an SRQ
 * @sig_all: each send WR is to be signalled
 * @wqe: between wr_start and wr_complete: the slot being filled; NULL: none yet.
 *       Guarded by sq.lock, which is held meanwhile, like what follows
 * @wr_prod: the index after the slots filled since wr_start
 * @wr_err: what the first mistake since wr_start was
 */
struct ziw_qp {
	struct verbs_qp		vqp;
	struct ziw_wq		sq;
	struct ziw_wq		rq;
	bool			sig_all;
	struct ziw_sq_wqe	*wqe;
	uint32_t		wr_prod;
	int			wr_err;
};

static inline struct ziw_context *to_ziw_context(struct ibv_context *ibctx)
{
	return container_of(ibctx, struct ziw_context, vctx.context);
}

static inline struct ziw_pd *to_ziw_pd(struct ibv_pd *ibpd)
{
	return container_of(ibpd, struct ziw_pd, ibv_pd);
}

static inline struct ziw_td *to_ziw_td(struct ibv_td *ibtd)
{
	return container_of(ibtd, struct ziw_td, ibv_td);
}

static inline struct ziw_cq *to_ziw_cq(struct ibv_cq *ibcq)
{
	return container_of(ibcq, struct ziw_cq, vcq.cq);
}

static inline struct ziw_cq *to_ziw_cq_ex(struct ibv_cq_ex *ibcq)
{
	return container_of(ibcq, struct ziw_cq, vcq.cq_ex);
}

static inline struct ziw_srq *to_ziw_srq(struct ibv_srq *ibsrq)
{
	return container_of(ibsrq, struct ziw_srq, ibv_srq);
}

static inline struct ziw_qp *to_ziw_qp_ex(struct ibv_qp_ex *ibqp)
{
	return container_of(ibqp, struct ziw_qp, vqp.qp_ex);
}

static inline struct ziw_qp *to_ziw_qp(struct ibv_qp *ibqp)
{
	return container_of(ibqp, struct ziw_qp, vqp.qp);
}

/* ring.c */
int ziw_ring_map(struct ziw_ring *ring, int cmd_fd,
		 const struct ziw_ring_info *info, size_t slot_size);
void ziw_ring_unmap(struct ziw_ring *ring);
void ziw_ring_resync(struct ziw_ring *ring);

/* cq.c */
int ziw_poll_cq(struct ibv_cq *ibcq, int num_entries, struct ibv_wc *wc);
int ziw_req_notify_cq(struct ibv_cq *ibcq, int solicited_only);
void ziw_cq_forget(struct ziw_cq *cq, uint32_t qpn);
void ziw_cq_fill_ex(struct ziw_cq *cq);

/* post.c */
bool ziw_wq_full(struct ziw_wq *wq, uint32_t prod);
void ziw_ring_publish(struct ziw_ring *ring, uint32_t prod);
bool ziw_ring_need_doorbell(const struct ziw_ring *ring);
uint32_t ziw_sq_busy(const struct ziw_qp *qp);
int ziw_doorbell_send(struct ibv_qp *ibqp, uint32_t busy);
void ziw_fill_bind(struct ziw_sq_wqe *wqe, const struct ibv_mw *mw,
		   uint32_t rkey, const struct ibv_mw_bind_info *info);
int ziw_post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
		  struct ibv_send_wr **bad_wr);
int ziw_post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
		  struct ibv_recv_wr **bad_wr);
int ziw_bind_mw(struct ibv_qp *ibqp, struct ibv_mw *mw,
		struct ibv_mw_bind *bind);
int ziw_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr,
		      struct ibv_recv_wr **bad_wr);

/* wr.c */
bool ziw_qp_offers(uint64_t ops);
void ziw_qp_fill_ex(struct ziw_qp *qp);

/* pd.c */
struct ibv_pd *ziw_alloc_pd(struct ibv_context *ibctx);
int ziw_dealloc_pd(struct ibv_pd *ibpd);
struct ibv_pd *ziw_import_pd(struct ibv_context *ibctx, uint32_t handle);
void ziw_unimport_pd(struct ibv_pd *ibpd);
struct ibv_td *ziw_alloc_td(struct ibv_context *ibctx,
			    struct ibv_td_init_attr *attr);
int ziw_dealloc_td(struct ibv_td *ibtd);
struct ibv_pd *
ziw_alloc_parent_domain(struct ibv_context *ibctx,
			struct ibv_parent_domain_init_attr *attr);
void ziw_pd_get(struct ibv_pd *ibpd);
void ziw_pd_put(struct ibv_pd *ibpd);
bool ziw_pd_shared(const struct ibv_pd *ibpd);

/* verbs.c */
extern const struct verbs_context_ops ziw_context_ops;

#endif /* ZIW_H */
