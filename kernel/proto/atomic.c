// SPDX-License-Identifier: GPL-2.0
/* RFC 7306: Atomic Operations and Immediate Data. */
#include "wire.h"

/* The low four bits of the first word; the others are reserved. */
#define ATOMIC_OP_MASK	0x0f

/* Every bit of @h has its share in every bit of the result; wraps by intention. */
static u32 mix(u32 h)
{
	h ^= h >> 16;
	h = (u32)((u64)h * 0x85ebca6b);
	h ^= h >> 13;
	h = (u32)((u64)h * 0xc2b2ae35);
	return h ^ h >> 16;
}

/**
 * ziw_imm_with_send - what says that Immediate Data belongs to the next Send
 * @data: as in struct ziw_imm
 * @msn: of the Immediate Data Message
 *
 * Return: the value of kind.
 */
u32 ziw_imm_with_send(u32 data, u32 msn)
{
	return mix(mix(msn ^ 0x7a697753) ^ get_unaligned_be32(&data)) | 1;
}

/**
 * ziw_imm_decode - decode Immediate Data
 * @buf: RDMAP_IMM_LEN bytes
 * @imm: filled
 */
void ziw_imm_decode(const u8 *buf, struct ziw_imm *imm)
{
	memcpy(&imm->data, buf, sizeof(imm->data));
	imm->kind = get_unaligned_be32(buf + 4);
}

/**
 * ziw_imm_encode - build Immediate Data
 * @buf: RDMAP_IMM_LEN bytes
 * @imm: what to say
 */
void ziw_imm_encode(u8 *buf, const struct ziw_imm *imm)
{
	memcpy(buf, &imm->data, sizeof(imm->data));
	put_unaligned_be32(imm->kind, buf + 4);
}

/**
 * ziw_atomic_req_decode - decode an Atomic Request Header
 * @buf: RDMAP_ATOMIC_REQ_LEN bytes
 * @req: filled
 */
void ziw_atomic_req_decode(const u8 *buf, struct ziw_atomic_req *req)
{
	req->op = buf[3] & ATOMIC_OP_MASK;
	req->id = get_unaligned_be32(buf + 4);
	req->stag = get_unaligned_be32(buf + 8);
	req->to = get_unaligned_be64(buf + 12);
	req->data = get_unaligned_be64(buf + 20);
	req->mask = get_unaligned_be64(buf + 28);
	req->compare = get_unaligned_be64(buf + 36);
	req->compare_mask = get_unaligned_be64(buf + 44);
}

/**
 * ziw_atomic_req_encode - build an Atomic Request Header
 * @buf: RDMAP_ATOMIC_REQ_LEN bytes
 * @req: what to say
 */
void ziw_atomic_req_encode(u8 *buf, const struct ziw_atomic_req *req)
{
	put_unaligned_be32(req->op, buf);
	put_unaligned_be32(req->id, buf + 4);
	put_unaligned_be32(req->stag, buf + 8);
	put_unaligned_be64(req->to, buf + 12);
	put_unaligned_be64(req->data, buf + 20);
	put_unaligned_be64(req->mask, buf + 28);
	put_unaligned_be64(req->compare, buf + 36);
	put_unaligned_be64(req->compare_mask, buf + 44);
}

/**
 * ziw_atomic_resp_decode - decode an Atomic Response Header
 * @buf: RDMAP_ATOMIC_RESP_LEN bytes
 * @resp: filled
 */
void ziw_atomic_resp_decode(const u8 *buf, struct ziw_atomic_resp *resp)
{
	resp->id = get_unaligned_be32(buf);
	resp->value = get_unaligned_be64(buf + 4);
}

/**
 * ziw_atomic_resp_encode - build an Atomic Response Header
 * @buf: RDMAP_ATOMIC_RESP_LEN bytes
 * @resp: what to say
 */
void ziw_atomic_resp_encode(u8 *buf, const struct ziw_atomic_resp *resp)
{
	put_unaligned_be32(resp->id, buf);
	put_unaligned_be64(resp->value, buf + 4);
}

/**
 * ziw_atomic_known - whether an Atomic Operation Code is one of RFC 7306's
 * @op: as received
 *
 * Return: true for FetchAdd and CmpSwap.
 */
bool ziw_atomic_known(u8 op)
{
	return op == ATOMIC_FETCH_ADD || op == ATOMIC_CMP_SWAP;
}

/*
 * Add field by field: each bit of @mask is the most significant one of its
 * field, and no carry leaves it. Below these bits the fields add at once, with
 * no carry into them; then the bits themselves are added without one out.
 */
static u64 masked_add(u64 a, u64 b, u64 mask)
{
	u64 below = (a & ~mask) + (b & ~mask);

	return below ^ ((a ^ b) & mask);
}

/**
 * ziw_atomic_result - what an Atomic Operation leaves in memory
 * @req: request with a known operation
 * @value: what was there
 *
 * RFC 7306, 5.1.1 and 5.1.2.
 *
 * Return: the new value, in the same byte order as @value and the request.
 */
u64 ziw_atomic_result(const struct ziw_atomic_req *req, u64 value)
{
	if (req->op == ATOMIC_FETCH_ADD)
		return masked_add(value, req->data, req->mask);
	if ((req->compare ^ value) & req->compare_mask)
		return value;
	return (value & ~req->mask) | (req->data & req->mask);
}
