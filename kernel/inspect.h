/* SPDX-License-Identifier: GPL-2.0 */
/* What a device counts and remembers; inspect.c shows it. */
#ifndef ZIW_INSPECT_H
#define ZIW_INSPECT_H

#include <linux/percpu.h>
#include "ziw.h"

/* Counted where it happens. */
enum ziw_stat {
	ZIW_STAT_TX_FPDUS,
	ZIW_STAT_TX_BYTES,
	ZIW_STAT_TX_ZERO_COPY_BYTES,
	ZIW_STAT_RX_FPDUS,
	ZIW_STAT_RX_BYTES,
	ZIW_STAT_RX_CRC_ERRORS,
	ZIW_STAT_RX_MARKER_ERRORS,
	ZIW_STAT_SQ_WQES,
	ZIW_STAT_SQ_DOORBELLS,
	ZIW_STAT_CQ_EVENTS,
	ZIW_STAT_ODP_FAULTS,
	ZIW_STAT_CONNECTS,
	ZIW_STAT_CONNECT_FAILURES,
	ZIW_STAT_ACCEPTS,
	ZIW_STAT_REFUSALS,
	/* Of connections that have ended; inspect.c adds the others. */
	ZIW_STAT_TCP_OUT_SEGS,
	ZIW_STAT_TCP_IN_SEGS,
	ZIW_STAT_TCP_RETRANS_SEGS,
	ZIW_STAT_COUNTED,
};

/* Terminate codes with a name, and one for all others. */
#define ZIW_STAT_TERM_CODES	(ZIW_TERM_NAMED + 1)

/**
 * struct ziw_stats - counters of one CPU
 * @count: enum ziw_stat
 * @term_tx: Terminate Messages sent, by index of the code
 * @term_rx: received
 */
struct ziw_stats {
	u64	count[ZIW_STAT_COUNTED];
	u64	term_tx[ZIW_STAT_TERM_CODES];
	u64	term_rx[ZIW_STAT_TERM_CODES];
};

static inline void ziw_stat_add(struct ziw_dev *dev, enum ziw_stat stat, u64 n)
{
	this_cpu_add(dev->stats->count[stat], n);
}

static inline void ziw_stat_inc(struct ziw_dev *dev, enum ziw_stat stat)
{
	this_cpu_inc(dev->stats->count[stat]);
}

/* Why a connection ended: the first cause. */
enum ziw_why {
	ZIW_WHY_UNKNOWN,
	ZIW_WHY_OWNER_CLOSED,
	ZIW_WHY_OWNER_ERROR,
	ZIW_WHY_PEER_CLOSED,
	ZIW_WHY_PEER_RESET,
	ZIW_WHY_PEER_SILENT,
	ZIW_WHY_TCP,
	ZIW_WHY_TERM_SENT,
	ZIW_WHY_TERM_RECEIVED,
	ZIW_WHY_CQ_OVERFLOW,
	ZIW_WHY_DEVICE_GONE,
	ZIW_WHY_SETUP_TIMEOUT,
	ZIW_WHY_SETUP_FAILED,
	ZIW_WHY_REJECTED,
	ZIW_WHY_NUM,
};

struct rdma_cm_id;
struct ziw_conn;

void ziw_because(struct ziw_conn *conn, enum ziw_why why, u16 code);
void ziw_stat_term(struct ziw_dev *dev, bool sent, u16 code);
void ziw_remember_end(struct ziw_conn *conn);
ssize_t ziw_show_ended(struct ziw_dev *dev, char *buf);
void ziw_stat_tcp(struct ziw_conn *conn);
void ziw_inspect_setup(void);
int ziw_inspect_init(struct ziw_dev *dev);
void ziw_inspect_exit(struct ziw_dev *dev);

struct rdma_hw_stats *ziw_alloc_stats(struct ib_device *ibdev, u32 port);
int ziw_get_stats(struct ib_device *ibdev, struct rdma_hw_stats *stats, u32 port,
		  int index);
int ziw_fill_qp(struct sk_buff *msg, struct ib_qp *ibqp);
int ziw_fill_cq(struct sk_buff *msg, struct ib_cq *ibcq);
int ziw_fill_mr(struct sk_buff *msg, struct ib_mr *ibmr);
int ziw_fill_srq(struct sk_buff *msg, struct ib_srq *ibsrq);
int ziw_fill_cm_id(struct sk_buff *msg, struct rdma_cm_id *id);

#endif /* ZIW_INSPECT_H */
