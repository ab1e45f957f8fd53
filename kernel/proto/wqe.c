// SPDX-License-Identifier: GPL-2.0
/* Taking work requests from rings that an application may be writing to. */
#include "wqe.h"

/* What an operation may have. */
#define OP_OFFERED	0x1
#define OP_INLINE	0x2
#define OP_KERNEL	0x4	/* in kernel consumers' rings only */
#define OP_NO_PAYLOAD	0x8

static const u8 op_rules[] = {
	[ZIW_OP_SEND]		= OP_OFFERED | OP_INLINE,
	[ZIW_OP_SEND_INV]	= OP_OFFERED | OP_INLINE,
	[ZIW_OP_SEND_IMM]	= OP_OFFERED | OP_INLINE,
	[ZIW_OP_WRITE]		= OP_OFFERED | OP_INLINE,
	[ZIW_OP_WRITE_IMM]	= OP_OFFERED | OP_INLINE,
	[ZIW_OP_READ]		= OP_OFFERED,
	[ZIW_OP_READ_INV]	= OP_OFFERED | OP_KERNEL,
	[ZIW_OP_FETCH_ADD]	= OP_OFFERED,
	[ZIW_OP_CMP_SWAP]	= OP_OFFERED,
	[ZIW_OP_LOCAL_INV]	= OP_OFFERED | OP_NO_PAYLOAD,
	[ZIW_OP_BIND_MW]	= OP_OFFERED | OP_NO_PAYLOAD,
	[ZIW_OP_REG_MR]		= OP_OFFERED | OP_KERNEL | OP_NO_PAYLOAD,
};

/* Copy from a slot that its owner may be writing to; the copy is what counts. */
static void slot_copy(void *to, const void *slot, size_t len)
{
	memcpy(to, slot, len);
	/* Keeps the compiler from looking into the slot once more. */
	barrier();
}

static u64 sum_of_lengths(const struct ziw_sge *sge, u32 num)
{
	u64 total = 0;
	u32 i;

	for (i = 0; i < num; i++)
		total += sge[i].length;
	return total;
}

/**
 * ziw_wqe_load - copy a send work request from its slot and check it
 * @slot: a struct ziw_sq_wqe with room for what @limits allow behind it
 * @limits: of the QP; max_sge at most ZIW_MAX_SGE
 * @wqe: filled; on error the header is as it was found, for the CQE
 *
 * Return: ZIW_WQE_OK; ZIW_WQE_BAD_OP for an operation, a number of SGEs or an
 * inline length that is not allowed; ZIW_WQE_BAD_LENGTH for a message longer
 * than ZIW_MAX_MSG, or no room for what an atomic returns.
 */
enum ziw_wqe_error ziw_wqe_load(const void *slot,
				const struct ziw_wqe_limits *limits,
				struct ziw_wqe *wqe)
{
	struct ziw_sq_wqe *hdr = &wqe->hdr;
	u64 total;
	u8 rules;

	slot_copy(hdr, slot, sizeof(*hdr));
	rules = hdr->opcode < ARRAY_SIZE(op_rules) ? op_rules[hdr->opcode] : 0;
	if (!(rules & OP_OFFERED) || (rules & OP_KERNEL && !limits->kernel))
		return ZIW_WQE_BAD_OP;

	if (rules & OP_NO_PAYLOAD) {
		hdr->num_sge = 0;
		total = 0;
	} else if (hdr->flags & ZIW_WQE_INLINE) {
		if (!(rules & OP_INLINE) || hdr->inline_len > limits->max_inline)
			return ZIW_WQE_BAD_OP;
		hdr->num_sge = 0;
		total = hdr->inline_len;
	} else {
		if (hdr->num_sge > limits->max_sge)
			return ZIW_WQE_BAD_OP;
		slot_copy(wqe->sge, (const u8 *)slot + sizeof(*hdr),
			  hdr->num_sge * sizeof(wqe->sge[0]));
		total = sum_of_lengths(wqe->sge, hdr->num_sge);
	}
	if (total > ZIW_MAX_MSG)
		return ZIW_WQE_BAD_LENGTH;
	if (ziw_wqe_is_atomic(hdr->opcode)) {
		if (total < ZIW_ATOMIC_LEN)
			return ZIW_WQE_BAD_LENGTH;
		total = ZIW_ATOMIC_LEN;
	}
	wqe->total = (u32)total;
	return ZIW_WQE_OK;
}

/**
 * ziw_rqe_load - copy a receive work request from its slot and check it
 * @slot: a struct ziw_rq_wqe with room for @max_sge SGEs behind it
 * @max_sge: at most ZIW_MAX_SGE
 * @rqe: filled; on error it has a wr_id for the CQE, and no SGE
 *
 * Return: false if it has more SGEs than there may be.
 */
bool ziw_rqe_load(const void *slot, u32 max_sge, struct ziw_rqe *rqe)
{
	struct ziw_rq_wqe hdr;

	slot_copy(&hdr, slot, sizeof(hdr));
	rqe->wr_id = hdr.wr_id;
	rqe->num_sge = 0;
	rqe->length = 0;
	if (hdr.num_sge > max_sge)
		return false;
	rqe->num_sge = hdr.num_sge;
	slot_copy(rqe->sge, (const u8 *)slot + sizeof(hdr),
		  hdr.num_sge * sizeof(rqe->sge[0]));
	rqe->length = sum_of_lengths(rqe->sge, rqe->num_sge);
	return true;
}

/**
 * ziw_wqe_sink - where the response to a request of the send queue goes
 * @slot: slot of the request, which its owner may have changed since
 * @limits: of the QP
 * @sink: filled: whatever the slot says now, what comes out is in bounds
 */
void ziw_wqe_sink(const void *slot, const struct ziw_wqe_limits *limits,
		  struct ziw_rqe *sink)
{
	struct ziw_sq_wqe hdr;

	slot_copy(&hdr, slot, sizeof(hdr));
	sink->wr_id = hdr.wr_id;
	sink->num_sge = hdr.num_sge < limits->max_sge ? hdr.num_sge : limits->max_sge;
	slot_copy(sink->sge, (const u8 *)slot + sizeof(hdr),
		  sink->num_sge * sizeof(sink->sge[0]));
	sink->length = sum_of_lengths(sink->sge, sink->num_sge);
}
