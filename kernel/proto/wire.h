/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Wire formats and rules of MPA (RFC 5044, 6581), DDP (RFC 5041) and RDMAP
 * (RFC 5040, 7306), as pure functions on bytes: no socket, no verbs, no
 * allocation. Compiled into the module and into user-space tests.
 */
#ifndef ZIW_PROTO_WIRE_H
#define ZIW_PROTO_WIRE_H

#ifdef __KERNEL__
#include <linux/types.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/errno.h>
#include "../compat.h"
#else
#include "user.h"
#endif

/* --- MPA: connection setup, RFC 5044 section 7.1, RFC 6581 section 6 --- */

#define MPA_KEY_LEN		16
#define MPA_HDR_LEN		20
#define MPA_MAX_PRIVATE		512	/* RFC 5044, 7.1.1 */
#define MPA_ENHANCED_LEN	4	/* RFC 6581, 9 */

#define MPA_FLAG_MARKERS	0x80
#define MPA_FLAG_CRC		0x40
#define MPA_FLAG_REJECT		0x20
#define MPA_FLAG_ENHANCED	0x10

#define MPA_ORD_MASK		0x3fff
#define MPA_ORD_NONE		0x3fff	/* no automatic negotiation, RFC 6581, 9.1 */
#define MPA_IRD_P2P		0x8000	/* A */
#define MPA_IRD_RTR_SEND	0x4000	/* B */
#define MPA_ORD_RTR_WRITE	0x8000	/* C */
#define MPA_ORD_RTR_READ	0x4000	/* D */

/* The ways an initiator may tell a peer-to-peer responder that it is ready. */
#define ZIW_RTR_SEND		0x1
#define ZIW_RTR_WRITE		0x2
#define ZIW_RTR_READ		0x4
#define ZIW_RTR_ALL		(ZIW_RTR_SEND | ZIW_RTR_WRITE | ZIW_RTR_READ)

/**
 * struct ziw_mpa_frame - a decoded MPA Request or Reply Frame
 * @reply: Reply Frame, else Request Frame
 * @rev: MPA revision, 1 or 2
 * @markers: sender wants to receive markers
 * @crc: sender wants CRC checked
 * @reject: Reply Frame that refuses the connection
 * @enhanced: private data begins with IRD, ORD and control flags
 * @p2p: peer-to-peer model (control flag A); meaningful if @enhanced
 * @rtr: ZIW_RTR_*; 0 unless @p2p
 * @ird: 14 bits; meaningful if @enhanced
 * @ord: 14 bits; meaningful if @enhanced
 * @pd_len: bytes of the ULP's private data, without the enhanced words
 */
struct ziw_mpa_frame {
	bool	reply;
	u8	rev;
	bool	markers;
	bool	crc;
	bool	reject;
	bool	enhanced;
	bool	p2p;
	u8	rtr;
	u16	ird;
	u16	ord;
	u16	pd_len;
};

int ziw_mpa_decode_header(const u8 *buf, struct ziw_mpa_frame *frame);
int ziw_mpa_decode_enhanced(const u8 *buf, struct ziw_mpa_frame *frame);
unsigned int ziw_mpa_encode(u8 *buf, const struct ziw_mpa_frame *frame,
			    const void *private_data);

/* --- MPA: FPDUs, RFC 5044 section 4 --- */

#define MPA_LEN_SIZE		2
#define MPA_CRC_SIZE		4
#define MPA_MAX_ULPDU		65535
/* What may be sent, RFC 5044 section 3; a marker's pointer reaches over it, too. */
#define MPA_MIN_MULPDU		128
#define MPA_MAX_MULPDU		64768

/* Pad so that length field, ULPDU and pad are a multiple of four bytes. */
static inline unsigned int ziw_mpa_pad(unsigned int ulpdu_len)
{
	return -(MPA_LEN_SIZE + ulpdu_len) & 3;
}

/* Bytes of the whole FPDU around a ULPDU, without markers. */
static inline unsigned int ziw_mpa_fpdu_len(unsigned int ulpdu_len)
{
	return MPA_LEN_SIZE + ulpdu_len + ziw_mpa_pad(ulpdu_len) + MPA_CRC_SIZE;
}

/* Markers, RFC 5044 section 4.3: MPA_MARKER_SIZE of each MPA_MARKER_INTERVAL octets. */
#define MPA_MARKER_SIZE		4
#define MPA_MARKER_INTERVAL	512

unsigned int ziw_mpa_mulpdu(unsigned int emss, bool markers);
unsigned int ziw_mpa_raw_len(unsigned int pos, unsigned int len);
void ziw_mpa_marker_encode(u8 *buf, unsigned int fpdu_ptr);
unsigned int ziw_mpa_marker_decode(const u8 *buf);

/* --- DDP, RFC 5041 section 4 --- */

#define DDP_FLAG_TAGGED		0x80
#define DDP_FLAG_LAST		0x40
#define DDP_VERSION_MASK	0x03
#define DDP_VERSION		1

#define DDP_TAGGED_LEN		14
#define DDP_UNTAGGED_LEN	18
#define DDP_MAX_LEN		DDP_UNTAGGED_LEN

#define DDP_QN_SEND		0
#define DDP_QN_READ_REQ		1
#define DDP_QN_TERMINATE	2
#define DDP_QN_ATOMIC_RESP	3	/* RFC 7306, 4.1 */
#define DDP_QN_NUM		4

/* --- RDMAP, RFC 5040 section 4, RFC 7306 section 4 --- */

#define RDMAP_VERSION		1
#define RDMAP_READ_REQ_LEN	28
#define RDMAP_IMM_LEN		8
#define RDMAP_ATOMIC_REQ_LEN	52
#define RDMAP_ATOMIC_RESP_LEN	12

enum ziw_rdmap_opcode {
	RDMAP_WRITE		= 0x0,
	RDMAP_READ_REQ		= 0x1,
	RDMAP_READ_RESP		= 0x2,
	RDMAP_SEND		= 0x3,
	RDMAP_SEND_INV		= 0x4,
	RDMAP_SEND_SE		= 0x5,
	RDMAP_SEND_SE_INV	= 0x6,
	RDMAP_TERMINATE		= 0x7,
	RDMAP_IMM		= 0x8,
	RDMAP_IMM_SE		= 0x9,
	RDMAP_ATOMIC_REQ	= 0xa,
	RDMAP_ATOMIC_RESP	= 0xb,
};

/**
 * struct ziw_ddp_hdr - a decoded DDP header with the RDMAP control field
 * @tagged: Tagged Buffer Model, else Untagged
 * @last: last segment of its message
 * @ddp_version: as received
 * @rdmap_version: as received
 * @opcode: enum ziw_rdmap_opcode, or another number as received
 * @stag: tagged: where to place
 * @to: tagged: Tagged Offset
 * @inv_stag: untagged: STag to invalidate, if the opcode has one
 * @qn: untagged: queue number
 * @msn: untagged: message sequence number
 * @mo: untagged: message offset
 */
struct ziw_ddp_hdr {
	bool	tagged;
	bool	last;
	u8	ddp_version;
	u8	rdmap_version;
	u8	opcode;
	u32	stag;
	u64	to;
	u32	inv_stag;
	u32	qn;
	u32	msn;
	u32	mo;
};

int ziw_ddp_decode(const u8 *buf, unsigned int len, struct ziw_ddp_hdr *hdr);
unsigned int ziw_ddp_encode(u8 *buf, const struct ziw_ddp_hdr *hdr);

static inline unsigned int ziw_ddp_hdr_len(const struct ziw_ddp_hdr *hdr)
{
	return hdr->tagged ? DDP_TAGGED_LEN : DDP_UNTAGGED_LEN;
}

static inline bool ziw_rdmap_is_send(u8 opcode)
{
	return opcode >= RDMAP_SEND && opcode <= RDMAP_SEND_SE_INV;
}

static inline bool ziw_rdmap_invalidates(u8 opcode)
{
	return opcode == RDMAP_SEND_INV || opcode == RDMAP_SEND_SE_INV;
}

static inline bool ziw_rdmap_solicits(u8 opcode)
{
	return opcode == RDMAP_SEND_SE || opcode == RDMAP_SEND_SE_INV ||
	       opcode == RDMAP_IMM_SE;
}

static inline bool ziw_rdmap_is_imm(u8 opcode)
{
	return opcode == RDMAP_IMM || opcode == RDMAP_IMM_SE;
}

/**
 * struct ziw_read_req - RDMA Read Request Header, RFC 5040 section 4.4
 * @sink_stag: where the requester wants the data
 * @sink_to: at which offset
 * @size: bytes
 * @source_stag: the region to read
 * @source_to: at which offset
 */
struct ziw_read_req {
	u32	sink_stag;
	u64	sink_to;
	u32	size;
	u32	source_stag;
	u64	source_to;
};

void ziw_read_req_decode(const u8 *buf, struct ziw_read_req *req);
void ziw_read_req_encode(u8 *buf, const struct ziw_read_req *req);

/*
 * The verbs' immediate data has four bytes, RFC 7306's has eight. The other four
 * tell a ziw peer whether the Send that follows belongs to it: such a pair takes
 * one receive work request, as verbs promise. To other peers they are two messages.
 * What they say for that depends on the data and on the MSN, so that no peer
 * happens to say it with whatever data it likes to send.
 */
#define ZIW_IMM_ALONE		0

/**
 * struct ziw_imm - Immediate Data, RFC 7306 section 6.2
 * @data: the verbs' immediate data, its bytes in the order that they have there
 * @kind: ziw_imm_with_send(), or anything else
 */
struct ziw_imm {
	u32	data;
	u32	kind;
};

u32 ziw_imm_with_send(u32 data, u32 msn);
void ziw_imm_decode(const u8 *buf, struct ziw_imm *imm);
void ziw_imm_encode(u8 *buf, const struct ziw_imm *imm);

/*
 * Nobody looks at STag and TO of a segment without payload (RFC 5041, 7.1). In the
 * RTR Write of a ziw they say that it is one, and which FPDUs it takes; a ziw that
 * responds says the same in a Write of its own. Of all other peers neither is sent
 * an FPDU that exceeds a TCP segment.
 */
enum ziw_hello_kind {
	ZIW_HELLO_NONE,
	ZIW_HELLO_ASK,
	ZIW_HELLO_ANSWER,
};

/**
 * struct ziw_hello - what a ziw says of itself
 * @kind: by whom
 * @max_ulpdu: largest ULPDU it takes
 */
struct ziw_hello {
	enum ziw_hello_kind	kind;
	u32			max_ulpdu;
};

void ziw_hello_encode(struct ziw_ddp_hdr *hdr, const struct ziw_hello *hello);
void ziw_hello_decode(const struct ziw_ddp_hdr *hdr, struct ziw_hello *hello);

enum ziw_atomic_op {
	ATOMIC_FETCH_ADD	= 0,
	ATOMIC_CMP_SWAP		= 2,
};

/**
 * struct ziw_atomic_req - Atomic Request Header, RFC 7306 section 5.2.1
 * @op: enum ziw_atomic_op, or another number as received
 * @id: Request Identifier
 * @stag: Remote STag
 * @to: Remote Tagged Offset
 * @data: Add or Swap Data
 * @mask: Add or Swap Mask
 * @compare: Compare Data
 * @compare_mask: Compare Mask
 */
struct ziw_atomic_req {
	u8	op;
	u32	id;
	u32	stag;
	u64	to;
	u64	data;
	u64	mask;
	u64	compare;
	u64	compare_mask;
};

/**
 * struct ziw_atomic_resp - Atomic Response Header, RFC 7306 section 5.2.2
 * @id: Original Request Identifier
 * @value: Original Remote Data Value
 */
struct ziw_atomic_resp {
	u32	id;
	u64	value;
};

void ziw_atomic_req_decode(const u8 *buf, struct ziw_atomic_req *req);
void ziw_atomic_req_encode(u8 *buf, const struct ziw_atomic_req *req);
void ziw_atomic_resp_decode(const u8 *buf, struct ziw_atomic_resp *resp);
void ziw_atomic_resp_encode(u8 *buf, const struct ziw_atomic_resp *resp);
bool ziw_atomic_known(u8 op);
u64 ziw_atomic_result(const struct ziw_atomic_req *req, u64 value);

/* --- Terminate, RFC 5040 section 4.8; codes also of 5041, 7.2; 5044, 8; 6581, 8 --- */

/* Layer in bits 15:12, error type in 11:8, error code in 7:0. */
#define ZIW_TERM(layer, etype, code)	((layer) << 12 | (etype) << 8 | (code))

enum ziw_term {
	TERM_RDMAP_CATASTROPHIC		= ZIW_TERM(0, 0, 0x00),
	TERM_RDMAP_PROT_INVALID_STAG	= ZIW_TERM(0, 1, 0x00),
	TERM_RDMAP_PROT_BOUNDS		= ZIW_TERM(0, 1, 0x01),
	TERM_RDMAP_PROT_ACCESS		= ZIW_TERM(0, 1, 0x02),
	TERM_RDMAP_PROT_NOT_ASSOCIATED	= ZIW_TERM(0, 1, 0x03),
	TERM_RDMAP_PROT_TO_WRAP		= ZIW_TERM(0, 1, 0x04),
	TERM_RDMAP_PROT_CANNOT_INV	= ZIW_TERM(0, 1, 0x09),
	TERM_RDMAP_PROT_UNSPECIFIED	= ZIW_TERM(0, 1, 0xff),
	TERM_RDMAP_OP_VERSION		= ZIW_TERM(0, 2, 0x05),
	TERM_RDMAP_OP_OPCODE		= ZIW_TERM(0, 2, 0x06),
	TERM_RDMAP_OP_CATASTROPHIC	= ZIW_TERM(0, 2, 0x07),
	TERM_RDMAP_OP_GLOBAL		= ZIW_TERM(0, 2, 0x08),
	TERM_RDMAP_OP_CANNOT_INV	= ZIW_TERM(0, 2, 0x09),
	TERM_RDMAP_OP_UNSPECIFIED	= ZIW_TERM(0, 2, 0xff),
	TERM_DDP_CATASTROPHIC		= ZIW_TERM(1, 0, 0x00),
	TERM_DDP_TAGGED_INVALID_STAG	= ZIW_TERM(1, 1, 0x00),
	TERM_DDP_TAGGED_BOUNDS		= ZIW_TERM(1, 1, 0x01),
	TERM_DDP_TAGGED_NOT_ASSOCIATED	= ZIW_TERM(1, 1, 0x02),
	TERM_DDP_TAGGED_TO_WRAP		= ZIW_TERM(1, 1, 0x03),
	TERM_DDP_TAGGED_VERSION		= ZIW_TERM(1, 1, 0x04),
	TERM_DDP_UNTAGGED_QN		= ZIW_TERM(1, 2, 0x01),
	TERM_DDP_UNTAGGED_NO_BUFFER	= ZIW_TERM(1, 2, 0x02),
	TERM_DDP_UNTAGGED_MSN_RANGE	= ZIW_TERM(1, 2, 0x03),
	TERM_DDP_UNTAGGED_MO		= ZIW_TERM(1, 2, 0x04),
	TERM_DDP_UNTAGGED_TOO_LONG	= ZIW_TERM(1, 2, 0x05),
	TERM_DDP_UNTAGGED_VERSION	= ZIW_TERM(1, 2, 0x06),
	TERM_MPA_CLOSED			= ZIW_TERM(2, 0, 0x01),
	TERM_MPA_CRC			= ZIW_TERM(2, 0, 0x02),
	TERM_MPA_MARKER			= ZIW_TERM(2, 0, 0x03),
	TERM_MPA_FRAME			= ZIW_TERM(2, 0, 0x04),
	TERM_MPA_CATASTROPHIC		= ZIW_TERM(2, 0, 0x05),
	TERM_MPA_IRD			= ZIW_TERM(2, 0, 0x06),
	TERM_MPA_NO_RTR			= ZIW_TERM(2, 0, 0x07),
};

#define TERM_HDR_LEN		4
#define TERM_MAX_LEN		(TERM_HDR_LEN + 2 + DDP_MAX_LEN + RDMAP_READ_REQ_LEN)

/**
 * struct ziw_terminate - a Terminate Message
 * @code: ZIW_TERM(layer, type, code)
 * @has_ddp: @seg_len and @ddp are there (M and D bits)
 * @has_rdmap: @read is there (R bit)
 * @seg_len: length of the offending DDP segment, header included
 * @ddp: its DDP header as on the wire
 * @read: its Read Request header as on the wire
 */
struct ziw_terminate {
	u16	code;
	bool	has_ddp;
	bool	has_rdmap;
	u16	seg_len;
	u8	ddp[DDP_MAX_LEN];
	u8	read[RDMAP_READ_REQ_LEN];
};

unsigned int ziw_terminate_encode(u8 *buf, const struct ziw_terminate *term);
int ziw_terminate_decode(const u8 *buf, unsigned int len,
			 struct ziw_terminate *term);
/* How many codes have a name. */
#define ZIW_TERM_NAMED		32

const char *ziw_terminate_name(u16 code);
unsigned int ziw_terminate_index(u16 code);
u16 ziw_terminate_code(unsigned int index);

#endif /* ZIW_PROTO_WIRE_H */
