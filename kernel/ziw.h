/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The objects of ziw and what they own.
 *
 *	ziw_dev		an ib_device on a net_device
 *	ziw_mr		a region that STags name
 *	ziw_cq, ziw_srq, ziw_qp
 *			verbs objects, owned by the RDMA core
 *	ziw_conn	a TCP connection: MPA negotiation, then a stream of
 *			FPDUs for the one ziw_qp attached to it
 *	ziw_listener	a listening socket
 *
 * Lock order, outermost first: conn->mutex, socket lock, qp->lock, the CPU's
 * arena, then one of rq->lock, mr->lock; then cq->lock. Documentation/design.md has the whole
 * picture with the contexts.
 */
#ifndef ZIW_H
#define ZIW_H

#include <linux/bvec.h>
#include <linux/completion.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/kref.h>
#include <linux/log2.h>
#include <linux/mutex.h>
#include <linux/netdevice.h>
#include <linux/refcount.h>
#include <linux/sizes.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>
#include <linux/xarray.h>
#include <rdma/ib_umem.h>
#include <rdma/ib_verbs.h>
#include <rdma/iw_cm.h>
#include <rdma/uverbs_ioctl.h>

#include <ziw-abi.h>
#include "compat.h"
#include "ring.h"
#include "proto/wire.h"
#include "proto/wqe.h"

#if !IS_ENABLED(CONFIG_INFINIBAND_VIRT_DMA)
#error ziw is for kernels without CONFIG_HIGHMEM: it uses memory by addresses of the kernel
#endif

/* What query_device announces; each is a limit that the code enforces. */
#define ZIW_MAX_QP		65536
#define ZIW_MAX_CQ		65536
#define ZIW_MAX_SRQ		65536
#define ZIW_MAX_PD		65536
#define ZIW_MAX_MR		SZ_1M
#define ZIW_MR_SLOTS		1024
#define ZIW_MAX_WR		32768
#define ZIW_MAX_CQE		SZ_1M
#define ZIW_MAX_FRMR_PAGES	1024
#define ZIW_MAX_IRD		128
#define ZIW_MAX_ORD		128
/* Addresses of an interface, and the MAC. */
#define ZIW_MAX_GID		32

/* The CM of Linux carries private data lengths in a u8. */
#define ZIW_MAX_CM_PRIVATE	255

/* Live objects of the module; all are zero when it unloads, or it says which are not. */
enum ziw_live {
	ZIW_LIVE_DEV,
	ZIW_LIVE_RING,
	ZIW_LIVE_MR,
	ZIW_LIVE_CONN,
	ZIW_LIVE_LISTENER,
	ZIW_LIVE_NUM,
};

extern atomic64_t ziw_live[ZIW_LIVE_NUM];

static inline void ziw_live_add(enum ziw_live what, s64 n)
{
	atomic64_add(n, &ziw_live[what]);
}

/* For everything that has to leave softirq; unbound, since its items wait for locks. */
extern struct workqueue_struct *ziw_wq;
extern struct workqueue_struct *ziw_setup_wq;
extern struct workqueue_struct *ziw_send_wq;

/* Parameters of a device; params.c says what each may be. */
enum ziw_param {
	ZIW_PARAM_COPY_THRESHOLD,
	ZIW_PARAM_MAX_FPDU,
	ZIW_PARAM_COLLECT,
	ZIW_PARAM_POLL,
	ZIW_PARAM_SETUP_TIMEOUT,
	ZIW_PARAM_CLOSE_TIMEOUT,
	ZIW_PARAM_USER_TIMEOUT,
	ZIW_PARAM_CRC,			/* enum ziw_crc_policy */
	ZIW_PARAM_MPA_REV,
	ZIW_PARAM_MARKERS,
	ZIW_PARAM_RTR,			/* ZIW_RTR_* */
	ZIW_PARAM_NUM,
};

/* RFC 5044, 4.4: CRC is used if either side asks for it. */
enum ziw_crc_policy {
	ZIW_CRC_OFF,			/* we never ask */
	ZIW_CRC_PREFERRED,		/* we ask when we connect */
	ZIW_CRC_REQUIRED,		/* we always ask */
};

struct ziw_ends;
struct ziw_qp;
struct ziw_stats;

/**
 * struct ziw_poller - a device's poller of doorbells (collect.c)
 * @lock: guards @added; bottom halves off
 * @added: connections that are to be polled, too
 * @list: those that are; the work item's
 * @work: runs for as long as there are any
 */
struct ziw_poller {
	spinlock_t		lock;		/* guards added */
	struct list_head	added;
	struct list_head	list;
	struct work_struct	work;
};

void ziw_poller_init(struct ziw_poller *poller);
void ziw_poller_exit(struct ziw_poller *poller);

/**
 * struct ziw_dev - an RDMA device
 * @ibdev: the RDMA core's part
 * @netdev: the interface below; a reference is held until the device is freed
 * @netdev_tracker: of that reference
 * @entry: in the list of devices; guarded by its lock in main.c
 * @gid: of index 0, where the interface has no MAC
 * @gids: the others by index; all zeros: none. Guarded by @gid_lock
 * @gid_lock: process context
 * @gid_work: has @gids follow the interface
 * @mrs: STag index to struct ziw_mr; read under RCU
 * @mr_slots: most of them again, each at its index modulo ZIW_MR_SLOTS, where the slot
 *            was free when it was made: see ziw_mr_lookup()
 * @qps: QP number to struct ziw_qp
 * @requests: number to connection whose request iw_cm was shown; holds a
 *            reference to each
 * @next_request: where @requests goes on to count; guarded by its lock
 * @params: enum ziw_param; each is read and written as one word, without a lock
 * @stats: counters, per CPU; inspect.h
 * @ends: the connections that ended last; inspect.c
 * @ring_bytes: allocated in rings
 * @pinned_bytes: in user regions
 * @pdn: next PD number
 * @nr_pd: PDs, against ZIW_MAX_PD; likewise the others
 * @poller: looks at SQs, so that nobody has to ring
 * @conns_lock: guards @conns and @dying
 * @conns: connections whose sockets are not yet released
 * @dying: no new connection, no new listener
 * @nr_conns: length of @conns plus the number of listeners
 * @conns_wait: woken when @nr_conns becomes zero
 */
struct ziw_dev {
	struct ib_device	ibdev;
	struct net_device	*netdev;
	netdevice_tracker	netdev_tracker;
	struct list_head	entry;
	union ib_gid		gid;
	union ib_gid		gids[ZIW_MAX_GID];
	spinlock_t		gid_lock;	/* guards gids */
	struct work_struct	gid_work;

	struct xarray		mrs;
	struct ziw_mr		*mr_slots[ZIW_MR_SLOTS];
	struct xarray		qps;
	struct xarray		requests;
	u32			next_request;
	u32			params[ZIW_PARAM_NUM];
	struct ziw_stats __percpu *stats;
	struct ziw_ends		*ends;
	atomic64_t		ring_bytes;
	atomic64_t		pinned_bytes;
	atomic_t		pdn;

	atomic_t		nr_pd;
	atomic_t		nr_cq;
	atomic_t		nr_srq;
	atomic_t		nr_qp;
	atomic_t		nr_mr;

	struct ziw_poller	poller;

	spinlock_t		conns_lock;	/* guards conns and dying */
	struct list_head	conns;
	bool			dying;
	atomic_t		nr_conns;
	wait_queue_head_t	conns_wait;
};

static inline struct ziw_dev *to_ziw_dev(struct ib_device *ibdev)
{
	return container_of(ibdev, struct ziw_dev, ibdev);
}

static inline u32 ziw_param(const struct ziw_dev *dev, enum ziw_param param)
{
	return READ_ONCE(dev->params[param]);
}

extern const struct attribute_group ziw_param_group;
void ziw_params_init(struct ziw_dev *dev);

struct ziw_doorbell;

/**
 * struct ziw_ucontext - a context of a process
 * @ibuc: the RDMA core's part
 * @bell: its doorbell, or NULL; changed while nobody else has the context
 */
struct ziw_ucontext {
	struct ib_ucontext	ibuc;
	struct ziw_doorbell	*bell;
};

static inline struct ziw_ucontext *to_ziw_ucontext(struct ib_ucontext *ibuc)
{
	return container_of(ibuc, struct ziw_ucontext, ibuc);
}

int ziw_doorbell_open(struct ziw_ucontext *ctx, struct file **file);
void ziw_doorbell_close(struct ziw_ucontext *ctx);

struct ziw_pd {
	struct ib_pd		ibpd;
	u32			pdn;
};

static inline struct ziw_pd *to_ziw_pd(struct ib_pd *ibpd)
{
	return container_of(ibpd, struct ziw_pd, ibpd);
}

/* One count against a limit; false when it is reached. */
static inline bool ziw_take(atomic_t *nr, int limit)
{
	return atomic_add_unless(nr, 1, limit);
}

/* --- memory: mr.c --- */

enum ziw_mr_type {
	ZIW_MR_USER,
	ZIW_MR_DMA,
	ZIW_MR_FAST,
	ZIW_MR_WINDOW1,		/* memory windows, mw.c */
	ZIW_MR_WINDOW2,
	ZIW_MR_ODP,		/* not pinned, odp.c */
};

/**
 * struct ziw_mr - a memory region
 * @ibmr: the RDMA core's part
 * @dev: owner
 * @type: where the pages came from
 * @lock: readers hold it across each use of the region's memory, so whoever
 *        holds it for writing knows that nobody reads or writes there. Taken
 *        with bottom halves off.
 * @valid: the STag may be used; guarded by @lock
 * @index: of its STag; does not change
 * @stag: current STag, key included; guarded by @lock
 * @access: enum ib_access_flags; guarded by @lock
 * @iova: first address; guarded by @lock
 * @length: bytes; guarded by @lock
 * @offset: where in the first block the region begins; guarded by @lock
 * @blocks: kernel addresses of the blocks that make up the region
 * @nr_blocks: used in @blocks
 * @next_blocks: fast registration: what ib_map_mr_sg() put there for the next
 *               IB_WR_REG_MR
 * @nr_next: used in @next_blocks
 * @max_blocks: allocated in each of the two
 * @block_shift: log2 of the block size
 * @starts: where in the region each block begins, and behind the last the length;
 *          NULL but for IB_MR_TYPE_SG_GAPS, whose blocks have any length
 * @next_starts: likewise, of @next_blocks
 * @umem: pinned user pages; NULL if there are none
 * @dmabuf: what the pages are of instead, dmabuf.c
 * @odp: or the table of those that are there, odp.c
 * @windows: bound to the region; it is not changed while there is one
 * @region: window: that it is bound to; guarded by @lock, like what follows
 * @base: window: first address of it in the region
 * @owner: window of type 2: serial number of the QP that it is bound to
 * @rcu: lookups by STag hold only RCU until they have @lock
 *
 * A region is freed an RCU grace period after it has left dev->mrs.
 */
struct ziw_mr {
	struct ib_mr		ibmr;
	struct ziw_dev		*dev;
	enum ziw_mr_type	type;
	rwlock_t		lock;
	bool			valid;
	u32			index;
	u32			stag;
	int			access;
	u64			iova;
	u64			length;
	u64			offset;
	u64			*blocks;
	u32			nr_blocks;
	u64			*next_blocks;
	u32			nr_next;
	u32			max_blocks;
	u8			block_shift;
	u64			*starts;
	u64			*next_starts;
	struct ib_umem		*umem;
	struct ziw_dmabuf	*dmabuf;
	struct ziw_odp		*odp;
	atomic_t		windows;
	struct ziw_mr		*region;
	u64			base;
	u64			owner;
	struct rcu_head		rcu;
};

static inline struct ziw_mr *to_ziw_mr(struct ib_mr *ibmr)
{
	return container_of(ibmr, struct ziw_mr, ibmr);
}

/* Who reads @valid may use the memory for as long as it has the lock. */
static inline void ziw_mr_set_valid(struct ziw_mr *mr, bool valid)
{
	lockdep_assert_held_write(&mr->lock);
	mr->valid = valid;
}

static inline bool ziw_mr_is_window(const struct ziw_mr *mr)
{
	return mr->type == ZIW_MR_WINDOW1 || mr->type == ZIW_MR_WINDOW2;
}

/* An STag is 24 bits of index and 8 bits of key. */
#define ZIW_STAG_KEY_BITS	8

static inline u32 ziw_stag_index(u32 stag)
{
	return stag >> ZIW_STAG_KEY_BITS;
}

/* Why an access is refused. */
enum ziw_mr_error {
	ZIW_MR_OK,
	ZIW_MR_INVALID_STAG,
	ZIW_MR_NOT_ASSOCIATED,
	ZIW_MR_ACCESS,
	ZIW_MR_TO_WRAP,
	ZIW_MR_BOUNDS,
	ZIW_MR_ALIGNMENT,
	ZIW_MR_FAULT,
};

#define ZIW_WRITE_ACCESS	(IB_ACCESS_LOCAL_WRITE | IB_ACCESS_REMOTE_WRITE | \
				 IB_ACCESS_REMOTE_ATOMIC)

struct ziw_mr *ziw_mr_get(struct ib_pd *pd, u32 stag, bool kernel, int access,
			  u64 addr, u32 len, enum ziw_mr_error *err);
struct ziw_mr *ziw_mr_get_remote(struct ziw_qp *qp, u32 stag, int access, u64 addr,
				 u32 len, enum ziw_mr_error *err);
void ziw_mr_put(struct ziw_mr *mr);
void *ziw_mr_range(const struct ziw_mr *mr, u64 addr, u32 *len);
enum ziw_mr_error ziw_mr_check(struct ziw_qp *qp, u32 stag, int access, u64 addr,
			       u32 len);
enum ziw_mr_error ziw_mr_atomic(struct ziw_qp *qp, const struct ziw_atomic_req *req,
				u64 *value);
int ziw_mr_invalidate(struct ib_pd *pd, u32 stag, bool remote);
int ziw_mr_invalidate_by(struct ziw_qp *qp, u32 stag, bool remote);
int ziw_mr_fast_register(struct ib_mr *ibmr, u32 key, int access);

struct ziw_mr *ziw_mr_alloc(struct ib_pd *pd, enum ziw_mr_type type,
			    u32 max_blocks);
struct ib_mr *ziw_mr_publish_memory(struct ziw_mr *mr, u64 virt_addr, u64 length, int access);
struct ib_dmah;
int ziw_mr_check_registration(u64 length, u64 virt_addr, int access,
			      const struct ib_dmah *dmah);
void ziw_mr_retire(struct ziw_mr *mr);
void ziw_mr_free(struct ziw_mr *mr);
struct ziw_mr *ziw_mr_lookup(struct ziw_dev *dev, u32 stag);
struct ziw_mr *ziw_mr_find(struct ib_pd *pd, const struct ziw_qp *qp, u32 stag,
			   int access, u64 addr, u32 len, enum ziw_mr_error *err);

struct ib_mr *ziw_get_dma_mr(struct ib_pd *pd, int access);
struct ib_mr *ziw_reg_user_mr(struct ib_pd *pd, u64 start, u64 length,
			      u64 virt_addr, int access, ZIW_DMAH_ARG
			      struct ib_udata *udata);
struct ib_mr *ziw_rereg_user_mr(struct ib_mr *ibmr, int flags, u64 start, u64 length,
				u64 virt_addr, int access, struct ib_pd *pd,
				struct ib_udata *udata);
struct ib_mr *ziw_alloc_mr(struct ib_pd *pd, enum ib_mr_type type,
			   u32 max_num_sg);
int ziw_map_mr_sg(struct ib_mr *mr, struct scatterlist *sg, int nents,
		  unsigned int *offset);
int ziw_dereg_mr(struct ib_mr *mr, struct ib_udata *udata);
int ziw_advise_mr(struct ib_pd *pd, enum ib_uverbs_advise_mr_advice advice, u32 flags,
		  struct ib_sge *sg_list, u32 num_sge,
		  struct uverbs_attr_bundle *attrs);

/* --- memory of other drivers: dmabuf.c --- */

struct ziw_dmabuf;

struct ib_mr *ziw_reg_user_mr_dmabuf(struct ib_pd *pd, u64 offset, u64 length,
				     u64 virt_addr, int fd, int access, ZIW_DMAH_ARG
				     struct ziw_dmabuf_attrs *attrs);
void ziw_dmabuf_release(struct ziw_dmabuf *dmabuf);

/* --- memory windows: mw.c --- */

/**
 * struct ziw_mw - a memory window
 * @ibmw: the RDMA core's part
 * @window: its entry in the STag table, freed after RCU
 */
struct ziw_mw {
	struct ib_mw		ibmw;
	struct ziw_mr		*window;
};

static inline struct ziw_mw *to_ziw_mw(struct ib_mw *ibmw)
{
	return container_of(ibmw, struct ziw_mw, ibmw);
}

/**
 * struct ziw_bind - what a bind asks for
 * @window: STag of the window
 * @key: its STag from then on
 * @region: STag of the region
 * @addr: first address in it
 * @length: bytes; 0: unbind
 * @access: enum ib_access_flags
 */
struct ziw_bind {
	u32			window;
	u32			key;
	u32			region;
	u64			addr;
	u64			length;
	u32			access;
};

void ziw_window_unbind(struct ziw_mr *window);
int ziw_window_bind(struct ziw_qp *qp, const struct ziw_bind *bind);
int ziw_alloc_mw(struct ib_mw *ibmw, struct ib_udata *udata);
int ziw_dealloc_mw(struct ib_mw *ibmw);

/* --- completion queues: cq.c --- */

/**
 * struct ziw_cq - a completion queue
 * @ibcq: the RDMA core's part
 * @lock: guards what follows; taken with interrupts off, since kernel
 *        consumers poll in any context
 * @ring: CQEs; ring.index is prod
 * @overflowed: a CQE was lost, no more are written
 * @ignore_overrun: never to be so: what there is no room for is dropped
 * @mod_count: an event waits for so many CQEs; 0: for none
 * @mod_period: or for so many microseconds
 * @mod_pending: CQEs that an event waits with
 * @mod_timer: runs @mod_period after the first of them
 * @notify: runs a kernel consumer's handler: never from inside a verbs call
 *          and never twice at a time (Documentation/infiniband/core_locking)
 * @overflow_work: reports the overflow
 */
struct ziw_cq {
	struct ib_cq		ibcq;
	spinlock_t		lock;		/* guards the rest */
	struct ziw_ring		ring;
	bool			overflowed;
	bool			ignore_overrun;
	u16			mod_count;
	u16			mod_period;
	u32			mod_pending;
	struct hrtimer		mod_timer;
	struct tasklet_struct	notify;
	struct work_struct	overflow_work;
};

static inline struct ziw_cq *to_ziw_cq(struct ib_cq *ibcq)
{
	return container_of(ibcq, struct ziw_cq, ibcq);
}

bool ziw_cq_push(struct ziw_cq *cq, struct ziw_cqe *cqe, struct ib_qp *qp);
int ziw_create_cq(struct ib_cq *ibcq, const struct ib_cq_init_attr *attr,
		  struct ziw_cq_attrs *attrs);
int ziw_resize_cq(struct ib_cq *ibcq, ziw_cqe_count entries, struct ib_udata *udata);
int ziw_modify_cq(struct ib_cq *ibcq, u16 count, u16 period);
int ziw_pre_destroy_cq(struct ib_cq *ibcq);
int ziw_destroy_cq(struct ib_cq *ibcq, struct ib_udata *udata);
void ziw_cq_forget(struct ziw_cq *cq, const struct ib_qp *qp);
int ziw_poll_cq(struct ib_cq *ibcq, int num, struct ib_wc *wc);
int ziw_req_notify_cq(struct ib_cq *ibcq, enum ib_cq_notify_flags flags);

/* --- receive queues: srq.c --- */

/**
 * struct ziw_rq - receive work requests, of a QP or shared
 * @lock: guards both ends; interrupts off, since kernel consumers post in any
 *        context
 * @ring: ring.index is cons
 * @max_sge: of one request
 */
struct ziw_rq {
	spinlock_t		lock;		/* guards both ends of the ring */
	struct ziw_ring		ring;
	u32			max_sge;
};

/**
 * struct ziw_srq - a shared receive queue
 * @ibsrq: the RDMA core's part
 * @rq: the requests
 * @limit: an event is due when fewer wait; 0: not armed. Guarded by rq.lock.
 * @limit_work: reports it
 */
struct ziw_srq {
	struct ib_srq		ibsrq;
	struct ziw_rq		rq;
	u32			limit;
	struct work_struct	limit_work;
};

static inline struct ziw_srq *to_ziw_srq(struct ib_srq *ibsrq)
{
	return container_of(ibsrq, struct ziw_srq, ibsrq);
}

int ziw_rq_init(struct ziw_dev *dev, struct ziw_rq *rq, u32 max_wr, u32 max_sge,
		struct ib_udata *udata, struct ziw_ring_info *info);
size_t ziw_rq_bytes(u32 max_wr, u32 max_sge);
void ziw_rq_init_behind(struct ziw_rq *rq, const struct ziw_ring *sq, u32 max_wr,
			u32 max_sge, const struct ziw_ring_info *sq_info,
			struct ziw_ring_info *info);
void ziw_rq_destroy(struct ziw_rq *rq);
int ziw_rq_post(struct ziw_rq *rq, const struct ib_recv_wr *wr);
int ziw_rq_get(struct ziw_rq *rq, struct ziw_rqe *rqe);
void ziw_rq_forget(struct ziw_rq *rq);
int ziw_srq_get(struct ziw_srq *srq, struct ziw_rqe *rqe);

int ziw_create_srq(struct ib_srq *ibsrq, struct ib_srq_init_attr *attr,
		   struct ib_udata *udata);
int ziw_modify_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr,
		   enum ib_srq_attr_mask mask, struct ib_udata *udata);
int ziw_query_srq(struct ib_srq *ibsrq, struct ib_srq_attr *attr);
int ziw_destroy_srq(struct ib_srq *ibsrq, struct ib_udata *udata);
int ziw_post_srq_recv(struct ib_srq *ibsrq, const struct ib_recv_wr *wr,
		      const struct ib_recv_wr **bad_wr);

/* --- queue pairs: qp.c, post.c --- */

enum ziw_qp_state {
	ZIW_QP_RESET,
	ZIW_QP_INIT,
	ZIW_QP_RTR,
	ZIW_QP_RTS,		/* attached to a connection, FPDUs flow */
	ZIW_QP_CLOSING,		/* SQ drains, then our FIN; verbs: SQD */
	ZIW_QP_TERMINATE,	/* a Terminate Message is on its way out */
	ZIW_QP_ERROR,
	ZIW_QP_NUM_STATES,
};

/* struct ziw_sq_track.flags */
#define ZIW_SQ_SIGNALED		0x1
#define ZIW_SQ_SENT		0x2	/* all its bytes are with TCP */
#define ZIW_SQ_WAIT_ACK		0x4	/* pages of the application are with TCP */
#define ZIW_SQ_WAIT_RESPONSE	0x8	/* of a read or an atomic */
#define ZIW_SQ_MASKED		0x10	/* an atomic with masks */

/**
 * struct ziw_sq_track - what is left to know of a WQE once it was taken up
 * @wr_id: for the CQE
 * @end_seq: TCP sequence number after its last byte
 * @byte_len: for the CQE
 * @msn: of its untagged message, to match Terminate Messages
 * @opcode: enum ziw_opcode
 * @status: enum ib_wc_status
 * @flags: ZIW_SQ_*
 */
struct ziw_sq_track {
	u64			wr_id;
	u32			end_seq;
	u32			byte_len;
	u32			msn;
	u8			opcode;
	u8			status;
	u8			flags;
};

/* Whether nothing is outstanding but its turn. */
static inline bool ziw_sq_done(const struct ziw_sq_track *track)
{
	return (track->flags & (ZIW_SQ_SENT | ZIW_SQ_WAIT_ACK | ZIW_SQ_WAIT_RESPONSE)) ==
	       ZIW_SQ_SENT;
}

/**
 * struct ziw_sq - a send queue
 * @post_lock: guards ring.post; interrupts off, kernel consumers only
 * @ring: ring.index is cons: WQEs before it are retired. Guarded by qp->lock.
 * @acked: WQEs before it do not wait for an acknowledgment; qp->lock
 * @next: next WQE to take up; guarded by qp->lock
 * @stop: in CLOSING, what was posted from here on is not sent; qp->lock
 * @track: one per slot; guarded by qp->lock
 * @limits: of one WQE
 */
struct ziw_sq {
	spinlock_t		post_lock;	/* guards ring.post */
	struct ziw_ring		ring;
	u32			acked;
	u32			next;
	u32			stop;
	struct ziw_sq_track	*track;
	struct ziw_wqe_limits	limits;
};

/**
 * struct ziw_qp - a queue pair
 * @ibqp: the RDMA core's part
 * @dev: owner
 * @ctx: of the process that made it, or NULL; to compare only
 * @ref: one of the verbs object, one of the connection attached, one of the poller
 *       that looks at its SQ, one of each user that iw_cm knows; destroy_qp waits until
 *       all are gone
 * @freed: completed by the last reference
 * @lock: guards the state, the SQ and the choice of @conn; bottom halves off
 * @state: changed by ziw_qp_move() only; guarded by @lock
 * @conn: attached connection; changed under @lock, read under @lock or RCU
 * @setup: connection that is being made for this QP, or NULL; guarded by @lock
 * @detached: woken when @conn becomes NULL
 * @vendor_err: of the Terminate Message that ended the QP; guarded by @lock
 * @dying: a kernel consumer's, being destroyed: nothing completes any more; guarded by @lock
 * @events: bits of enum ib_event_type, due; atomic
 * @event_work: delivers them
 * @flush_work: completes what was posted in the error state
 * @attr: what modify_qp was told and query_qp returns; guarded by @lock
 * @sig_all: every send WR is signalled
 * @serial: never used by another QP; memory windows are bound to it
 * @handle: what user space calls it in CQEs
 * @sq: send queue
 * @rq: receive queue, unless @srq
 * @srq: shared receive queue, or NULL
 */
struct ziw_qp {
	struct ib_qp		ibqp;
	struct ziw_dev		*dev;
	const struct ziw_ucontext *ctx;
	refcount_t		ref;
	struct completion	freed;

	spinlock_t		lock;		/* guards state, conn, the SQ's consumer end */
	enum ziw_qp_state	state;
	struct ziw_conn __rcu	*conn;
	struct ziw_conn		*setup;
	wait_queue_head_t	detached;
	u16			vendor_err;
	bool			dying;
	unsigned long		events;
	struct work_struct	event_work;
	struct work_struct	flush_work;
	struct ib_qp_attr	attr;
	bool			sig_all;
	u64			serial;
	u64			handle;

	struct ziw_sq		sq ____cacheline_aligned_in_smp;
	struct ziw_rq		rq;
	struct ziw_srq		*srq;
};

static inline struct ziw_qp *to_ziw_qp(struct ib_qp *ibqp)
{
	return container_of(ibqp, struct ziw_qp, ibqp);
}

/*
 * WQEs that wait to be taken up. What is posted after the ULP asked for a
 * graceful close is not (RFC 5041, 6.2.1): it is flushed. qp->lock held.
 */
static inline u32 ziw_sq_ready(const struct ziw_qp *qp)
{
	const struct ziw_sq *sq = &qp->sq;
	u32 filled = ziw_ring_filled(&sq->ring, sq->next);

	return qp->state == ZIW_QP_CLOSING ? min(filled, sq->stop - sq->next) : filled;
}

/* A QP of a kernel consumer may use the local DMA key and kernel opcodes. */
static inline bool ziw_qp_is_kernel(const struct ziw_qp *qp)
{
	return !qp->sq.ring.mmap;
}

static inline struct ziw_cq *ziw_send_cq(const struct ziw_qp *qp)
{
	return to_ziw_cq(qp->ibqp.send_cq);
}

static inline struct ziw_cq *ziw_recv_cq(const struct ziw_qp *qp)
{
	return to_ziw_cq(qp->ibqp.recv_cq);
}

bool ziw_qp_move(struct ziw_qp *qp, enum ziw_qp_state to);
void ziw_qp_get(struct ziw_qp *qp);
void ziw_qp_put(struct ziw_qp *qp);
void ziw_qp_event(struct ziw_qp *qp, enum ib_event_type event);
void ziw_qp_fail(struct ziw_qp *qp, enum ib_event_type event);
void ziw_qp_flush(struct ziw_qp *qp);
void ziw_qp_complete_recv(struct ziw_qp *qp, struct ziw_cqe *cqe);
void ziw_sq_retire(struct ziw_qp *qp);
const char *ziw_qp_state_name(enum ziw_qp_state state);

int ziw_create_qp(struct ib_qp *ibqp, struct ib_qp_init_attr *init,
		  struct ib_udata *udata);
int ziw_modify_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		  struct ib_udata *udata);
int ziw_query_qp(struct ib_qp *ibqp, struct ib_qp_attr *attr, int mask,
		 struct ib_qp_init_attr *init);
int ziw_destroy_qp(struct ib_qp *ibqp, struct ib_udata *udata);
void ziw_ring_sq(struct ziw_qp *qp, u32 busy);
void ziw_ring_rq(struct ziw_qp *qp);
int ziw_post_send(struct ib_qp *ibqp, const struct ib_send_wr *wr,
		  const struct ib_send_wr **bad_wr);
int ziw_post_recv(struct ib_qp *ibqp, const struct ib_recv_wr *wr,
		  const struct ib_recv_wr **bad_wr);

/* --- device.c --- */

extern const struct ib_device_ops ziw_device_ops;

void ziw_mmap_free(struct rdma_user_mmap_entry *entry);
int ziw_mmap(struct ib_ucontext *ctx, struct vm_area_struct *vma);
void ziw_port_event(struct ziw_dev *dev, enum ib_event_type type);

/* --- GIDs: gid.c --- */

void ziw_gids_init(struct ziw_dev *dev);
bool ziw_gids_update(struct ziw_dev *dev);
void ziw_gids_look(struct net_device *netdev);
void ziw_device_gid(struct ziw_dev *dev, union ib_gid *gid);
int ziw_query_gid(struct ib_device *ibdev, u32 port, int index, union ib_gid *gid);
int ziw_gid_notifiers_register(void);
void ziw_gid_notifiers_unregister(void);

/* --- main.c --- */

void ziw_dev_kill(struct ziw_dev *dev);
void ziw_dev_free(struct ziw_dev *dev);
bool ziw_dev_conn_get(struct ziw_dev *dev);
void ziw_dev_conn_put(struct ziw_dev *dev);

#endif /* ZIW_H */
