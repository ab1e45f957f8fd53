/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints, events "ziw:*" of tracefs; Documentation/debugging.md tells how to use them.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM ziw

#if !defined(ZIW_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define ZIW_TRACE_H

#include <linux/tracepoint.h>
#include "conn.h"
#include "inspect.h"

#define show_ziw_op(op) __print_symbolic(op,		\
	{ ZIW_OP_SEND,		"SEND" },		\
	{ ZIW_OP_SEND_INV,	"SEND_INV" },		\
	{ ZIW_OP_SEND_IMM,	"SEND_IMM" },		\
	{ ZIW_OP_WRITE,		"WRITE" },		\
	{ ZIW_OP_WRITE_IMM,	"WRITE_IMM" },		\
	{ ZIW_OP_READ,		"READ" },		\
	{ ZIW_OP_READ_INV,	"READ_INV" },		\
	{ ZIW_OP_FETCH_ADD,	"FETCH_ADD" },		\
	{ ZIW_OP_CMP_SWAP,	"CMP_SWAP" },		\
	{ ZIW_OP_LOCAL_INV,	"LOCAL_INV" },		\
	{ ZIW_OP_BIND_MW,	"BIND_MW" },		\
	{ ZIW_OP_REG_MR,	"REG_MR" },		\
	{ ZIW_OP_RECV,		"RECV" },		\
	{ ZIW_OP_RECV_IMM,	"RECV_IMM" })

#define show_ziw_wqe_flags(flags) __print_flags(flags, "|",	\
	{ ZIW_WQE_SIGNALED,	"SIGNALED" },			\
	{ ZIW_WQE_SOLICITED,	"SOLICITED" },			\
	{ ZIW_WQE_FENCE,	"FENCE" },			\
	{ ZIW_WQE_INLINE,	"INLINE" },			\
	{ ZIW_WQE_MASKED,	"MASKED" })

#define show_ziw_rdmap(opcode) __print_symbolic(opcode,	\
	{ RDMAP_WRITE,		"Write" },		\
	{ RDMAP_READ_REQ,	"ReadRequest" },	\
	{ RDMAP_READ_RESP,	"ReadResponse" },	\
	{ RDMAP_SEND,		"Send" },		\
	{ RDMAP_SEND_INV,	"SendInv" },		\
	{ RDMAP_SEND_SE,	"SendSE" },		\
	{ RDMAP_SEND_SE_INV,	"SendSEInv" },		\
	{ RDMAP_TERMINATE,	"Terminate" },		\
	{ RDMAP_IMM,		"Immediate" },		\
	{ RDMAP_IMM_SE,		"ImmediateSE" },	\
	{ RDMAP_ATOMIC_REQ,	"AtomicRequest" },	\
	{ RDMAP_ATOMIC_RESP,	"AtomicResponse" })

#define show_ziw_state(state) __print_symbolic(state,	\
	{ ZIW_QP_RESET,		"RESET" },		\
	{ ZIW_QP_INIT,		"INIT" },		\
	{ ZIW_QP_RTR,		"RTR" },		\
	{ ZIW_QP_RTS,		"RTS" },		\
	{ ZIW_QP_CLOSING,	"CLOSING" },		\
	{ ZIW_QP_TERMINATE,	"TERMINATE" },		\
	{ ZIW_QP_ERROR,		"ERROR" })

/* A work request of the SQ is taken up: what user space posts is first seen here. */
TRACE_EVENT(ziw_post,
	TP_PROTO(const struct ziw_qp *qp, u32 index, const struct ziw_wqe *wr),
	TP_ARGS(qp, index, wr),
	TP_STRUCT__entry(
		__string(dev, qp->dev->ibdev.name)
		__field(u64, wr_id)
		__field(u32, qpn)
		__field(u32, index)
		__field(u32, bytes)
		__field(u16, flags)
		__field(u8, op)
		__field(u8, sges)
	),
	TP_fast_assign(
		ziw_assign_str(dev, qp->dev->ibdev.name);
		__entry->wr_id = wr->hdr.wr_id;
		__entry->qpn = qp->ibqp.qp_num;
		__entry->index = index;
		__entry->bytes = wr->total;
		__entry->flags = wr->hdr.flags;
		__entry->op = wr->hdr.opcode;
		__entry->sges = wr->hdr.num_sge;
	),
	TP_printk("%s qp %u slot %u wr_id 0x%llx %s bytes %u sges %u %s", __get_str(dev),
		  __entry->qpn, __entry->index, __entry->wr_id, show_ziw_op(__entry->op),
		  __entry->bytes, __entry->sges, show_ziw_wqe_flags(__entry->flags))
);

/* A message takes a work request of the RQ or SRQ. */
TRACE_EVENT(ziw_take_recv,
	TP_PROTO(const struct ziw_qp *qp, const struct ziw_rqe *rqe),
	TP_ARGS(qp, rqe),
	TP_STRUCT__entry(
		__string(dev, qp->dev->ibdev.name)
		__field(u64, wr_id)
		__field(u64, room)
		__field(u32, qpn)
		__field(u32, sges)
	),
	TP_fast_assign(
		ziw_assign_str(dev, qp->dev->ibdev.name);
		__entry->wr_id = rqe->wr_id;
		__entry->room = rqe->length;
		__entry->qpn = qp->ibqp.qp_num;
		__entry->sges = rqe->num_sge;
	),
	TP_printk("%s qp %u wr_id 0x%llx room %llu sges %u", __get_str(dev), __entry->qpn,
		  __entry->wr_id, __entry->room, __entry->sges)
);

DECLARE_EVENT_CLASS(ziw_fpdu,
	TP_PROTO(const struct ziw_qp *qp, const struct ziw_ddp_hdr *hdr, u32 payload),
	TP_ARGS(qp, hdr, payload),
	TP_STRUCT__entry(
		__string(dev, qp->dev->ibdev.name)
		__field(u64, to)
		__field(u32, stag)
		__field(u32, qpn)
		__field(u32, qn)
		__field(u32, msn)
		__field(u32, payload)
		__field(u8, opcode)
		__field(bool, tagged)
		__field(bool, last)
	),
	TP_fast_assign(
		ziw_assign_str(dev, qp->dev->ibdev.name);
		__entry->tagged = hdr->tagged;
		__entry->to = hdr->tagged ? hdr->to : hdr->mo;
		__entry->stag = hdr->tagged ? hdr->stag : hdr->inv_stag;
		__entry->qn = hdr->tagged ? 0 : hdr->qn;
		__entry->msn = hdr->tagged ? 0 : hdr->msn;
		__entry->qpn = qp->ibqp.qp_num;
		__entry->payload = payload;
		__entry->opcode = hdr->opcode;
		__entry->last = hdr->last;
	),
	TP_printk("%s qp %u %s%s payload %u stag 0x%08x %s 0x%llx queue %u msn %u",
		  __get_str(dev), __entry->qpn, show_ziw_rdmap(__entry->opcode),
		  __entry->last ? " last" : "", __entry->payload, __entry->stag,
		  __entry->tagged ? "to" : "mo", __entry->to, __entry->qn, __entry->msn)
);

/* An FPDU was built, and goes to TCP with the next batch. */
DEFINE_EVENT(ziw_fpdu, ziw_send,
	TP_PROTO(const struct ziw_qp *qp, const struct ziw_ddp_hdr *hdr, u32 payload),
	TP_ARGS(qp, hdr, payload)
);

/* An FPDU is all there, and its CRC matched. */
DEFINE_EVENT(ziw_fpdu, ziw_receive,
	TP_PROTO(const struct ziw_qp *qp, const struct ziw_ddp_hdr *hdr, u32 payload),
	TP_ARGS(qp, hdr, payload)
);

/* Payload was copied to where it belongs. */
TRACE_EVENT(ziw_place,
	TP_PROTO(const struct ziw_qp *qp, u32 stag, u64 addr, u32 bytes),
	TP_ARGS(qp, stag, addr, bytes),
	TP_STRUCT__entry(
		__string(dev, qp->dev->ibdev.name)
		__field(u64, addr)
		__field(u32, qpn)
		__field(u32, stag)
		__field(u32, bytes)
	),
	TP_fast_assign(
		ziw_assign_str(dev, qp->dev->ibdev.name);
		__entry->addr = addr;
		__entry->qpn = qp->ibqp.qp_num;
		__entry->stag = stag;
		__entry->bytes = bytes;
	),
	TP_printk("%s qp %u stag 0x%08x address 0x%llx bytes %u", __get_str(dev), __entry->qpn,
		  __entry->stag, __entry->addr, __entry->bytes)
);

/* A completion, in its CQ or, where that had no room, lost. */
TRACE_EVENT(ziw_complete,
	TP_PROTO(const struct ziw_cq *cq, const struct ziw_cqe *cqe, bool kept),
	TP_ARGS(cq, cqe, kept),
	TP_STRUCT__entry(
		__string(dev, cq->ibcq.device->name)
		__field(u64, wr_id)
		__field(u32, qpn)
		__field(u32, bytes)
		__field(u16, vendor_err)
		__field(u8, op)
		__field(u8, status)
		__field(bool, kept)
	),
	TP_fast_assign(
		ziw_assign_str(dev, cq->ibcq.device->name);
		__entry->wr_id = cqe->wr_id;
		__entry->qpn = cqe->qpn;
		__entry->bytes = cqe->byte_len;
		__entry->vendor_err = cqe->vendor_err;
		__entry->op = cqe->opcode;
		__entry->status = cqe->status;
		__entry->kept = kept;
	),
	TP_printk("%s qp %u wr_id 0x%llx %s status %u bytes %u vendor_err 0x%04x%s",
		  __get_str(dev), __entry->qpn, __entry->wr_id, show_ziw_op(__entry->op),
		  __entry->status, __entry->bytes, __entry->vendor_err,
		  __entry->kept ? "" : " lost")
);

TRACE_EVENT(ziw_qp_state,
	TP_PROTO(const struct ziw_qp *qp, enum ziw_qp_state to, bool legal),
	TP_ARGS(qp, to, legal),
	TP_STRUCT__entry(
		__string(dev, qp->dev->ibdev.name)
		__field(u32, qpn)
		__field(u8, from)
		__field(u8, to)
		__field(bool, legal)
	),
	TP_fast_assign(
		ziw_assign_str(dev, qp->dev->ibdev.name);
		__entry->qpn = qp->ibqp.qp_num;
		__entry->from = qp->state;
		__entry->to = to;
		__entry->legal = legal;
	),
	TP_printk("%s qp %u %s to %s%s", __get_str(dev), __entry->qpn,
		  show_ziw_state(__entry->from), show_ziw_state(__entry->to),
		  __entry->legal ? "" : " refused")
);

TRACE_EVENT(ziw_terminate,
	TP_PROTO(const struct ziw_qp *qp, bool sent, u16 code),
	TP_ARGS(qp, sent, code),
	TP_STRUCT__entry(
		__string(dev, qp->dev->ibdev.name)
		__string(text, ziw_terminate_name(code))
		__field(u32, qpn)
		__field(u16, code)
		__field(bool, sent)
	),
	TP_fast_assign(
		ziw_assign_str(dev, qp->dev->ibdev.name);
		ziw_assign_str(text, ziw_terminate_name(code));
		__entry->qpn = qp->ibqp.qp_num;
		__entry->code = code;
		__entry->sent = sent;
	),
	TP_printk("%s qp %u %s 0x%04x: %s", __get_str(dev), __entry->qpn,
		  __entry->sent ? "sent" : "received", __entry->code, __get_str(text))
);

/* What ziw/ended lists, as it comes. */
TRACE_EVENT(ziw_conn_end,
	TP_PROTO(const struct ziw_dev *zdev, u32 qpn, const char *local, const char *remote,
		 const char *why, u16 code),
	TP_ARGS(zdev, qpn, local, remote, why, code),
	TP_STRUCT__entry(
		__string(dev, zdev->ibdev.name)
		__string(local, local)
		__string(remote, remote)
		__string(why, why)
		__field(u32, qpn)
		__field(u16, code)
	),
	TP_fast_assign(
		ziw_assign_str(dev, zdev->ibdev.name);
		ziw_assign_str(local, local);
		ziw_assign_str(remote, remote);
		ziw_assign_str(why, why);
		__entry->qpn = qpn;
		__entry->code = code;
	),
	TP_printk("%s qp %u %s %s: %s, code 0x%04x", __get_str(dev), __entry->qpn,
		  __get_str(local), __get_str(remote), __get_str(why), __entry->code)
);

#endif /* ZIW_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
