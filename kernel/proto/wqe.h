/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Work requests as they are taken from a ring: copied once, checked, and only
 * then used. Pure functions, as in wire.h; compiled into the module and into
 * user-space tests.
 */
#ifndef ZIW_PROTO_WQE_H
#define ZIW_PROTO_WQE_H

#include <ziw-abi.h>
#include "wire.h"

/* The longest message, by the verbs and by RFC 5041's MO. */
#define ZIW_MAX_MSG		0x80000000U

/* Bytes that an atomic returns. */
#define ZIW_ATOMIC_LEN		8

/**
 * struct ziw_wqe_limits - what the QP allows its work requests
 * @max_sge: SGEs that fit in a slot
 * @max_inline: bytes of payload that fit in a slot
 * @kernel: the ring is a kernel consumer's, which may name kernel objects
 */
struct ziw_wqe_limits {
	u32	max_sge;
	u32	max_inline;
	bool	kernel;
};

/**
 * struct ziw_wqe - a send work request, copied and checked
 * @hdr: header of the slot
 * @total: bytes of the message's payload; of an atomic, bytes it returns
 * @sge: hdr.num_sge of them
 */
struct ziw_wqe {
	struct ziw_sq_wqe	hdr;
	u32			total;
	struct ziw_sge		sge[ZIW_MAX_SGE];
};

enum ziw_wqe_error {
	ZIW_WQE_OK,
	ZIW_WQE_BAD_OP,
	ZIW_WQE_BAD_LENGTH,
};

/**
 * struct ziw_rqe - a receive work request, or the sink of a read or an atomic,
 * copied and checked
 * @wr_id: for the CQE
 * @num_sge: at most ZIW_MAX_SGE
 * @length: sum of the lengths
 * @sge: where to place
 */
struct ziw_rqe {
	u64			wr_id;
	u32			num_sge;
	u64			length;
	struct ziw_sge		sge[ZIW_MAX_SGE];
};

enum ziw_wqe_error ziw_wqe_load(const void *slot,
				const struct ziw_wqe_limits *limits,
				struct ziw_wqe *wqe);
bool ziw_rqe_load(const void *slot, u32 max_sge, struct ziw_rqe *rqe);
void ziw_wqe_sink(const void *slot, const struct ziw_wqe_limits *limits,
		  struct ziw_rqe *sink);

static inline bool ziw_wqe_is_read(u8 opcode)
{
	return opcode == ZIW_OP_READ || opcode == ZIW_OP_READ_INV;
}

static inline bool ziw_wqe_is_atomic(u8 opcode)
{
	return opcode == ZIW_OP_FETCH_ADD || opcode == ZIW_OP_CMP_SWAP;
}

/* It takes a place in the peer's IRD, and waits for a response. */
static inline bool ziw_wqe_is_request(u8 opcode)
{
	return ziw_wqe_is_read(opcode) || ziw_wqe_is_atomic(opcode);
}

/* It begins with a message of the Send queue, or is one. */
static inline bool ziw_wqe_is_send(u8 opcode)
{
	return opcode == ZIW_OP_SEND || opcode == ZIW_OP_SEND_INV ||
	       opcode == ZIW_OP_SEND_IMM;
}

static inline bool ziw_wqe_has_imm(u8 opcode)
{
	return opcode == ZIW_OP_SEND_IMM || opcode == ZIW_OP_WRITE_IMM;
}

static inline bool ziw_wqe_is_write(u8 opcode)
{
	return opcode == ZIW_OP_WRITE || opcode == ZIW_OP_WRITE_IMM;
}

/* Carried out by the engine itself, with nothing to send. */
static inline bool ziw_wqe_is_local(u8 opcode)
{
	return opcode == ZIW_OP_LOCAL_INV || opcode == ZIW_OP_BIND_MW ||
	       opcode == ZIW_OP_REG_MR;
}

/* What a CQE says of it, even if it was never valid. */
static inline u8 ziw_wqe_cqe_opcode(u8 opcode)
{
	return opcode <= ZIW_OP_REG_MR ? opcode : ZIW_OP_SEND;
}

#endif /* ZIW_PROTO_WQE_H */
