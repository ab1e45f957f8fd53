// SPDX-License-Identifier: GPL-2.0
/*
 * Looking into a device: counters (`rdma statistic`), objects in detail
 * (`rdma resource show -dd`), and why connections ended (sysfs, ziw/ended).
 */
#include <linux/ktime.h>
#include <net/tcp.h>
#include <rdma/rdma_cm.h>
#include <rdma/restrack.h>
#include <rdma/rdma_netlink.h>
#include "conn.h"
#include "inspect.h"
#include "trace.h"

/* Shown beside what is counted. */
enum shown_stat {
	SHOW_CONNECTIONS = ZIW_STAT_COUNTED,
	SHOW_DOORBELLS_AVOIDED,
	SHOW_TX_COPIED_BYTES,
	SHOW_RING_BYTES,
	SHOW_PINNED_BYTES,
	SHOW_TERM_TX,
	SHOW_TERM_RX = SHOW_TERM_TX + ZIW_STAT_TERM_CODES,
	SHOW_NUM = SHOW_TERM_RX + ZIW_STAT_TERM_CODES,
};

static const char *const stat_names[SHOW_TERM_TX] = {
	[ZIW_STAT_TX_FPDUS]		= "tx_fpdus",
	[ZIW_STAT_TX_BYTES]		= "tx_bytes",
	[ZIW_STAT_TX_ZERO_COPY_BYTES]	= "tx_zero_copy_bytes",
	[ZIW_STAT_RX_FPDUS]		= "rx_fpdus",
	[ZIW_STAT_RX_BYTES]		= "rx_bytes",
	[ZIW_STAT_RX_CRC_ERRORS]	= "rx_crc_errors",
	[ZIW_STAT_RX_MARKER_ERRORS]	= "rx_marker_errors",
	[ZIW_STAT_SQ_WQES]		= "sq_wqes",
	[ZIW_STAT_SQ_DOORBELLS]		= "sq_doorbells",
	[ZIW_STAT_CQ_EVENTS]		= "cq_events",
	[ZIW_STAT_ODP_FAULTS]		= "odp_faults",
	[ZIW_STAT_CONNECTS]		= "connects",
	[ZIW_STAT_CONNECT_FAILURES]	= "connect_failures",
	[ZIW_STAT_ACCEPTS]		= "accepts",
	[ZIW_STAT_REFUSALS]		= "refusals",
	[ZIW_STAT_TCP_OUT_SEGS]		= "tcp_out_segs",
	[ZIW_STAT_TCP_IN_SEGS]		= "tcp_in_segs",
	[ZIW_STAT_TCP_RETRANS_SEGS]	= "tcp_retrans_segs",
	[SHOW_CONNECTIONS]		= "connections",
	[SHOW_DOORBELLS_AVOIDED]	= "sq_doorbells_avoided",
	[SHOW_TX_COPIED_BYTES]		= "tx_copied_bytes",
	[SHOW_RING_BYTES]		= "ring_bytes",
	[SHOW_PINNED_BYTES]		= "pinned_bytes",
};

/* "rx_term_0x1102": the code as a Terminate Message has it. */
#define TERM_NAME_LEN	16

static char term_stat_names[2][ZIW_STAT_TERM_CODES][TERM_NAME_LEN];
static struct rdma_stat_desc descs[SHOW_NUM];

/* --- counters --- */

static void name_term_stats(int first, int dir, const char *prefix)
{
	int i;

	for (i = 0; i < ZIW_STAT_TERM_CODES; i++) {
		char *name = term_stat_names[dir][i];

		if (i < ZIW_TERM_NAMED)
			snprintf(name, TERM_NAME_LEN, "%s_term_0x%04x", prefix,
				 ziw_terminate_code(i));
		else
			snprintf(name, TERM_NAME_LEN, "%s_term_other", prefix);
		descs[first + i].name = name;
	}
}

/**
 * ziw_inspect_setup - make the list of counters, once
 */
void __init ziw_inspect_setup(void)
{
	int i;

	for (i = 0; i < SHOW_TERM_TX; i++)
		descs[i].name = stat_names[i];
	name_term_stats(SHOW_TERM_TX, 0, "tx");
	name_term_stats(SHOW_TERM_RX, 1, "rx");
}

/**
 * ziw_stat_term - count a Terminate Message
 * @dev: device
 * @sent: by us; else received
 * @code: of the message
 *
 * Context: any.
 */
void ziw_stat_term(struct ziw_dev *dev, bool sent, u16 code)
{
	unsigned int i = ziw_terminate_index(code);

	if (sent)
		this_cpu_inc(dev->stats->term_tx[i]);
	else
		this_cpu_inc(dev->stats->term_rx[i]);
}

/**
 * ziw_stat_tcp - keep the TCP counters of a connection whose socket goes
 * @conn: connection
 */
void ziw_stat_tcp(struct ziw_conn *conn)
{
	const struct tcp_sock *tp = tcp_sk(conn->sk);

	ziw_stat_add(conn->dev, ZIW_STAT_TCP_OUT_SEGS, READ_ONCE(tp->segs_out));
	ziw_stat_add(conn->dev, ZIW_STAT_TCP_IN_SEGS, READ_ONCE(tp->segs_in));
	ziw_stat_add(conn->dev, ZIW_STAT_TCP_RETRANS_SEGS, READ_ONCE(tp->total_retrans));
}

struct rdma_hw_stats *ziw_alloc_stats(struct ib_device *ibdev, u32 port)
{
	return rdma_alloc_hw_stats_struct(descs, SHOW_NUM, RDMA_HW_STATS_DEFAULT_LIFESPAN);
}

static void add_live_connections(struct ziw_dev *dev, u64 *value)
{
	struct ziw_conn *conn;

	spin_lock_bh(&dev->conns_lock);
	list_for_each_entry(conn, &dev->conns, entry) {
		const struct tcp_sock *tp = tcp_sk(conn->sk);

		value[SHOW_CONNECTIONS]++;
		value[ZIW_STAT_TCP_OUT_SEGS] += READ_ONCE(tp->segs_out);
		value[ZIW_STAT_TCP_IN_SEGS] += READ_ONCE(tp->segs_in);
		value[ZIW_STAT_TCP_RETRANS_SEGS] += READ_ONCE(tp->total_retrans);
	}
	spin_unlock_bh(&dev->conns_lock);
}

/**
 * ziw_get_stats - verb: read all counters
 * @ibdev: device
 * @stats: filled
 * @port: not looked at: there is one
 * @index: not looked at: all are read
 *
 * Context: process.
 * Return: the number of counters.
 */
int ziw_get_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port,
		  int index)
{
	struct ziw_dev *dev = to_ziw_dev(ibdev);
	u64 *value = stats->value;
	int cpu, i;

	memset(value, 0, SHOW_NUM * sizeof(*value));
	for_each_possible_cpu(cpu) {
		const struct ziw_stats *s = per_cpu_ptr(dev->stats, cpu);

		for (i = 0; i < ZIW_STAT_COUNTED; i++)
			value[i] += s->count[i];
		for (i = 0; i < ZIW_STAT_TERM_CODES; i++) {
			value[SHOW_TERM_TX + i] += s->term_tx[i];
			value[SHOW_TERM_RX + i] += s->term_rx[i];
		}
	}
	add_live_connections(dev, value);
	value[SHOW_TX_COPIED_BYTES] = value[ZIW_STAT_TX_BYTES] -
				      value[ZIW_STAT_TX_ZERO_COPY_BYTES];
	if (value[ZIW_STAT_SQ_WQES] > value[ZIW_STAT_SQ_DOORBELLS])
		value[SHOW_DOORBELLS_AVOIDED] = value[ZIW_STAT_SQ_WQES] -
						value[ZIW_STAT_SQ_DOORBELLS];
	value[SHOW_RING_BYTES] = atomic64_read(&dev->ring_bytes);
	value[SHOW_PINNED_BYTES] = atomic64_read(&dev->pinned_bytes);
	return SHOW_NUM;
}

/* --- objects --- */

static struct nlattr *details_begin(struct sk_buff *msg)
{
	return nla_nest_start(msg, RDMA_NLDEV_ATTR_DRIVER);
}

static int details_end(struct sk_buff *msg, struct nlattr *nest, int err)
{
	if (err) {
		nla_nest_cancel(msg, nest);
		return -EMSGSIZE;
	}
	nla_nest_end(msg, nest);
	return 0;
}

static int fill_tcp(struct sk_buff *msg, const struct ziw_conn *conn)
{
	const struct tcp_sock *tp = tcp_sk(conn->sk);

	return rdma_nl_put_driver_u32(msg, "tcp_unacked",
				      READ_ONCE(tp->write_seq) -
				      READ_ONCE(tp->snd_una)) ?:
	       rdma_nl_put_driver_u32(msg, "tcp_retrans",
				      READ_ONCE(tp->total_retrans));
}

static int fill_conn(struct sk_buff *msg, const struct ziw_conn *conn)
{
	return rdma_nl_put_driver_u32(msg, "initiator", conn->initiator) ?:
	       rdma_nl_put_driver_u32(msg, "crc", conn->crc) ?:
	       rdma_nl_put_driver_u32(msg, "tx_markers", conn->tx.batch.markers) ?:
	       rdma_nl_put_driver_u32(msg, "rx_markers", conn->rx.markers) ?:
	       rdma_nl_put_driver_u32(msg, "ird", conn->ird) ?:
	       rdma_nl_put_driver_u32(msg, "ord", conn->ord) ?:
	       rdma_nl_put_driver_u32(msg, "requests_in",
				      READ_ONCE(conn->irq_head) -
				      READ_ONCE(conn->irq_tail)) ?:
	       rdma_nl_put_driver_u32(msg, "requests_out",
				      READ_ONCE(conn->orq_head) -
				      READ_ONCE(conn->orq_tail)) ?:
	       fill_tcp(msg, conn);
}

/**
 * ziw_fill_qp - restrack: details of a QP
 * @msg: netlink message
 * @ibqp: queue pair
 *
 * The figures are of moments close to each other, not of one moment.
 *
 * Context: process.
 * Return: 0 or -EMSGSIZE.
 */
int ziw_fill_qp(struct sk_buff *msg, struct ib_qp *ibqp)
{
	struct ziw_qp *qp = to_ziw_qp(ibqp);
	struct nlattr *nest = details_begin(msg);
	const struct ziw_conn *conn;
	int err;

	if (!nest)
		return -EMSGSIZE;
	err = rdma_nl_put_driver_string(msg, "ziw_state",
					ziw_qp_state_name(READ_ONCE(qp->state))) ?:
	      rdma_nl_put_driver_u32(msg, "sq_entries", qp->sq.ring.mask + 1) ?:
	      rdma_nl_put_driver_u32(msg, "sq_waiting",
				     ziw_ring_filled(&qp->sq.ring,
						     READ_ONCE(qp->sq.next))) ?:
	      rdma_nl_put_driver_u32(msg, "sq_under_way",
				     READ_ONCE(qp->sq.next) -
				     READ_ONCE(qp->sq.ring.index)) ?:
	      rdma_nl_put_driver_u32_hex(msg, "terminate", READ_ONCE(qp->vendor_err));
	if (!err && !qp->srq)
		err = rdma_nl_put_driver_u32(msg, "rq_entries", qp->rq.ring.mask + 1) ?:
		      rdma_nl_put_driver_u32(msg, "rq_waiting",
					     ziw_ring_filled(&qp->rq.ring,
							     READ_ONCE(qp->rq.ring.index)));
	rcu_read_lock();
	conn = rcu_dereference(qp->conn);
	if (!err && conn)
		err = fill_conn(msg, conn);
	rcu_read_unlock();
	return details_end(msg, nest, err);
}

/**
 * ziw_fill_cq - restrack: details of a CQ
 * @msg: netlink message
 * @ibcq: completion queue
 *
 * Context: process.
 * Return: 0 or -EMSGSIZE.
 */
int ziw_fill_cq(struct sk_buff *msg, struct ib_cq *ibcq)
{
	struct ziw_cq *cq = to_ziw_cq(ibcq);
	struct nlattr *nest = details_begin(msg);
	u32 waiting, armed;
	bool overflowed;
	int err;

	if (!nest)
		return -EMSGSIZE;
	/* A resize puts another ring in the place of this one. */
	spin_lock_irq(&cq->lock);
	waiting = cq->ring.index - READ_ONCE(cq->ring.hdr->cons);
	armed = READ_ONCE(cq->ring.hdr->flags);
	overflowed = cq->overflowed;
	spin_unlock_irq(&cq->lock);
	err = rdma_nl_put_driver_u32(msg, "waiting", waiting) ?:
	      rdma_nl_put_driver_u32_hex(msg, "armed", armed) ?:
	      rdma_nl_put_driver_u32(msg, "overflowed", overflowed);
	return details_end(msg, nest, err);
}

/**
 * ziw_fill_mr - restrack: details of a region
 * @msg: netlink message
 * @ibmr: region
 *
 * Context: process.
 * Return: 0 or -EMSGSIZE.
 */
int ziw_fill_mr(struct sk_buff *msg, struct ib_mr *ibmr)
{
	static const char *const types[] = {
		[ZIW_MR_USER]	= "user",
		[ZIW_MR_DMA]	= "dma",
		[ZIW_MR_FAST]	= "fast",
		[ZIW_MR_WINDOW1] = "window",
		[ZIW_MR_WINDOW2] = "window",
		[ZIW_MR_ODP]	= "on-demand",
	};
	struct ziw_mr *mr = to_ziw_mr(ibmr);
	struct nlattr *nest = details_begin(msg);
	int err;

	if (!nest)
		return -EMSGSIZE;
	err = rdma_nl_put_driver_string(msg, "type", types[mr->type]) ?:
	      rdma_nl_put_driver_u32(msg, "valid", READ_ONCE(mr->valid)) ?:
	      rdma_nl_put_driver_u32_hex(msg, "access", READ_ONCE(mr->access)) ?:
	      rdma_nl_put_driver_u64_hex(msg, "address", READ_ONCE(mr->iova)) ?:
	      rdma_nl_put_driver_u32(msg, "blocks", READ_ONCE(mr->nr_blocks)) ?:
	      rdma_nl_put_driver_u32(msg, "block_shift", READ_ONCE(mr->block_shift));
	return details_end(msg, nest, err);
}

/**
 * ziw_fill_srq - restrack: details of a shared receive queue
 * @msg: netlink message
 * @ibsrq: shared receive queue
 *
 * Context: process. Takes srq->rq.lock.
 * Return: 0 or -EMSGSIZE.
 */
int ziw_fill_srq(struct sk_buff *msg, struct ib_srq *ibsrq)
{
	struct ziw_srq *srq = to_ziw_srq(ibsrq);
	struct nlattr *nest = details_begin(msg);
	u32 waiting, limit;
	int err;

	if (!nest)
		return -EMSGSIZE;
	spin_lock_irq(&srq->rq.lock);
	waiting = ziw_ring_filled(&srq->rq.ring, srq->rq.ring.index);
	limit = srq->limit;
	spin_unlock_irq(&srq->rq.lock);
	err = rdma_nl_put_driver_u32(msg, "entries", srq->rq.ring.mask + 1) ?:
	      rdma_nl_put_driver_u32(msg, "waiting", waiting) ?:
	      rdma_nl_put_driver_u32(msg, "limit", limit) ?:
	      rdma_nl_put_driver_u32(msg, "max_sge", srq->rq.max_sge);
	return details_end(msg, nest, err);
}

static bool same_end(const struct sockaddr_storage *one, const struct sockaddr_storage *other)
{
	const struct sockaddr_in6 *a = (const struct sockaddr_in6 *)one;
	const struct sockaddr_in6 *b = (const struct sockaddr_in6 *)other;

	/* The port is at the same place in both families. */
	if (one->ss_family != other->ss_family || a->sin6_port != b->sin6_port)
		return false;
	if (one->ss_family == AF_INET)
		return ((const struct sockaddr_in *)one)->sin_addr.s_addr ==
		       ((const struct sockaddr_in *)other)->sin_addr.s_addr;
	return ipv6_addr_equal(&a->sin6_addr, &b->sin6_addr);
}

/* dev->conns_lock held. */
static const struct ziw_conn *conn_of(struct ziw_dev *dev, const struct rdma_addr *ends)
{
	const struct ziw_conn *conn;

	list_for_each_entry(conn, &dev->conns, entry) {
		struct sockaddr_storage local = {}, remote = {};

		ziw_llp_addresses(conn->sk, &local, &remote);
		if (same_end(&local, &ends->src_addr) && same_end(&remote, &ends->dst_addr))
			return conn;
	}
	return NULL;
}

static int fill_setup(struct sk_buff *msg, const struct ziw_conn *conn)
{
	static const char *const states[] = {
		[ZIW_CONN_CONNECTING]	= "CONNECTING",
		[ZIW_CONN_REQ_SENT]	= "REQ_SENT",
		[ZIW_CONN_REQ_WAIT]	= "REQ_WAIT",
		[ZIW_CONN_REQ_SEEN]	= "REQ_SEEN",
		[ZIW_CONN_STREAMING]	= "STREAMING",
		[ZIW_CONN_CLOSING]	= "CLOSING",
		[ZIW_CONN_LINGERING]	= "LINGERING",
		[ZIW_CONN_DEAD]		= "DEAD",
	};
	struct nlattr *nest = details_begin(msg);
	int err;

	if (!nest)
		return -EMSGSIZE;
	err = rdma_nl_put_driver_string(msg, "ziw_state", states[READ_ONCE(conn->state)]) ?:
	      rdma_nl_put_driver_u32(msg, "initiator", conn->initiator) ?:
	      fill_tcp(msg, conn);
	return details_end(msg, nest, err);
}

/**
 * ziw_fill_cm_id - restrack: details of a connection of rdma_cm
 * @msg: netlink message
 * @id: rdma_cm's end
 *
 * What is behind an id is rdma_cm's secret, and its QP may go meanwhile: the
 * addresses are what a driver can find its connection by. A listen has none.
 *
 * Context: process. Takes conns_lock.
 * Return: 0 or -EMSGSIZE.
 */
int ziw_fill_cm_id(struct sk_buff *msg, struct rdma_cm_id *id)
{
	struct ziw_dev *dev = to_ziw_dev(id->device);
	const struct ziw_conn *conn;
	int err = 0;

	/* While one is in the list it has its struct sock. */
	spin_lock_bh(&dev->conns_lock);
	conn = conn_of(dev, &id->route.addr);
	if (conn)
		err = fill_setup(msg, conn);
	spin_unlock_bh(&dev->conns_lock);
	return err;
}

/* --- why connections ended --- */

/* As many as fit in a page of text. */
#define ENDS	24

/* An IPv6 address in brackets, with scope and port. */
#define ADDRESS_LEN	64

/**
 * struct end - a connection that has ended
 * @seconds: since 1970
 * @qpn: its queue pair; 0: it had none yet
 * @initiator: we connected
 * @why: enum ziw_why
 * @code: of a Terminate, or an errno
 * @local: address and port
 * @remote: likewise
 */
struct end {
	time64_t	seconds;
	u32		qpn;
	bool		initiator;
	u8		why;
	u16		code;
	char		local[ADDRESS_LEN];
	char		remote[ADDRESS_LEN];
};

/**
 * struct ziw_ends - the last connections that ended
 * @lock: guards the rest
 * @num: how many ended in all
 * @end: that with the number n is at n % ENDS
 */
struct ziw_ends {
	spinlock_t	lock;		/* guards the rest */
	u32		num;
	struct end	end[ENDS];
};

static const char *const why_texts[ZIW_WHY_NUM] = {
	[ZIW_WHY_UNKNOWN]	= "no cause known",
	[ZIW_WHY_OWNER_CLOSED]	= "closed on this side",
	[ZIW_WHY_OWNER_ERROR]	= "queue pair destroyed or brought to the error state on this side",
	[ZIW_WHY_PEER_CLOSED]	= "closed by the peer",
	[ZIW_WHY_PEER_RESET]	= "reset by the peer",
	[ZIW_WHY_PEER_SILENT]	= "no answer from the peer for user_timeout",
	[ZIW_WHY_TCP]		= "TCP failed",
	[ZIW_WHY_TERM_SENT]	= "Terminate sent",
	[ZIW_WHY_TERM_RECEIVED]	= "Terminate received",
	[ZIW_WHY_CQ_OVERFLOW]	= "a completion queue overflowed",
	[ZIW_WHY_DEVICE_GONE]	= "the device or its interface was removed",
	[ZIW_WHY_SETUP_TIMEOUT]	= "setup took longer than setup_timeout",
	[ZIW_WHY_SETUP_FAILED]	= "setup failed",
	[ZIW_WHY_REJECTED]	= "rejected",
};

/**
 * ziw_because - say why a connection is about to end
 * @conn: connection
 * @why: the cause; the first one counts
 * @code: of a Terminate, or an errno
 *
 * Context: any.
 */
void ziw_because(struct ziw_conn *conn, enum ziw_why why, u16 code)
{
	cmpxchg(&conn->why, 0, code << 16 | why);
}

static u32 what_tcp_says(struct ziw_conn *conn)
{
	int err = READ_ONCE(conn->sk->sk_err);

	switch (err) {
	case 0:
		return ZIW_WHY_UNKNOWN;
	case ECONNRESET:
	case EPIPE:
		return ZIW_WHY_PEER_RESET;
	case ETIMEDOUT:
		return ZIW_WHY_PEER_SILENT;
	default:
		return err << 16 | ZIW_WHY_TCP;
	}
}

static void print_address(char *buf, size_t len, const struct sockaddr_storage *addr)
{
	snprintf(buf, len, "%pISpc", addr);
}

/**
 * ziw_remember_end - the connection has ended
 * @conn: connection; conn->mutex held; its QP still attached, if it had one
 *
 * Context: process.
 */
void ziw_remember_end(struct ziw_conn *conn)
{
	struct ziw_ends *ends = conn->dev->ends;
	struct sockaddr_storage local = {}, remote = {};
	u32 why = READ_ONCE(conn->why) ? : what_tcp_says(conn);
	struct end end = {
		.seconds	= ktime_get_real_seconds(),
		.qpn		= conn->qp ? conn->qp->ibqp.qp_num : 0,
		.initiator	= conn->initiator,
		.why		= why & 0xffff,
		.code		= why >> 16,
	};

	ziw_llp_addresses(conn->sk, &local, &remote);
	print_address(end.local, sizeof(end.local), &local);
	print_address(end.remote, sizeof(end.remote), &remote);
	spin_lock(&ends->lock);
	ends->end[ends->num++ % ENDS] = end;
	spin_unlock(&ends->lock);
	trace_ziw_conn_end(conn->dev, end.qpn, end.local, end.remote, why_texts[end.why],
			   end.code);
	ibdev_dbg(&conn->dev->ibdev, "QP %u: connection ended: %s, code 0x%04x\n", end.qpn,
		  why_texts[end.why], end.code);
}

static int show_end(const struct end *end, char *buf, int at)
{
	int len = at;

	len += sysfs_emit_at(buf, len, "%ptTs QP %u %s %s %s: %s", &end->seconds,
			     end->qpn, end->local, end->initiator ? "to" : "from",
			     end->remote, why_texts[end->why]);
	if (end->why == ZIW_WHY_TERM_SENT || end->why == ZIW_WHY_TERM_RECEIVED)
		len += sysfs_emit_at(buf, len, " 0x%04x: %s", end->code,
				     ziw_terminate_name(end->code));
	else if (end->code)
		len += sysfs_emit_at(buf, len, ": error %u", end->code);
	return len + sysfs_emit_at(buf, len, "\n") - at;
}

/**
 * ziw_show_ended - the connections that ended last, oldest first
 * @dev: device
 * @buf: a page of sysfs
 *
 * Context: process.
 * Return: bytes.
 */
ssize_t ziw_show_ended(struct ziw_dev *dev, char *buf)
{
	struct ziw_ends *ends = dev->ends;
	ssize_t len = 0;
	u32 i;

	spin_lock(&ends->lock);
	for (i = ends->num > ENDS ? ends->num - ENDS : 0; i != ends->num; i++)
		len += show_end(&ends->end[i % ENDS], buf, len);
	spin_unlock(&ends->lock);
	return len;
}

/**
 * ziw_inspect_init - for a new device
 * @dev: device
 *
 * Context: process.
 * Return: 0 or -ENOMEM.
 */
int ziw_inspect_init(struct ziw_dev *dev)
{
	dev->stats = alloc_percpu(struct ziw_stats);
	dev->ends = kvzalloc(sizeof(*dev->ends), GFP_KERNEL);
	if (!dev->stats || !dev->ends) {
		ziw_inspect_exit(dev);
		return -ENOMEM;
	}
	spin_lock_init(&dev->ends->lock);
	return 0;
}

/**
 * ziw_inspect_exit - the device goes
 * @dev: device; nothing counts any more
 */
void ziw_inspect_exit(struct ziw_dev *dev)
{
	free_percpu(dev->stats);
	kvfree(dev->ends);
	dev->stats = NULL;
	dev->ends = NULL;
}
