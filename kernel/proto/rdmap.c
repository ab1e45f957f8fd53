// SPDX-License-Identifier: GPL-2.0
/* RDMAP: Read Request and Terminate headers. */
#include "wire.h"

/**
 * ziw_read_req_decode - decode an RDMA Read Request Header
 * @buf: RDMAP_READ_REQ_LEN bytes
 * @req: filled
 */
void ziw_read_req_decode(const u8 *buf, struct ziw_read_req *req)
{
	req->sink_stag = get_unaligned_be32(buf);
	req->sink_to = get_unaligned_be64(buf + 4);
	req->size = get_unaligned_be32(buf + 12);
	req->source_stag = get_unaligned_be32(buf + 16);
	req->source_to = get_unaligned_be64(buf + 20);
}

/**
 * ziw_read_req_encode - build an RDMA Read Request Header
 * @buf: RDMAP_READ_REQ_LEN bytes
 * @req: what to say
 */
void ziw_read_req_encode(u8 *buf, const struct ziw_read_req *req)
{
	put_unaligned_be32(req->sink_stag, buf);
	put_unaligned_be64(req->sink_to, buf + 4);
	put_unaligned_be32(req->size, buf + 12);
	put_unaligned_be32(req->source_stag, buf + 16);
	put_unaligned_be64(req->source_to, buf + 20);
}

/* RFC 5040, figure 8: layer, type and code, then the three header control bits. */
#define TERM_HDRCT_M	0x80
#define TERM_HDRCT_D	0x40
#define TERM_HDRCT_R	0x20

static unsigned int term_ddp_len(const u8 *ddp)
{
	return ddp[0] & DDP_FLAG_TAGGED ? DDP_TAGGED_LEN : DDP_UNTAGGED_LEN;
}

/**
 * ziw_terminate_encode - build a Terminate Header
 * @buf: at least TERM_MAX_LEN bytes
 * @term: what to say; has_rdmap needs has_ddp
 *
 * Return: bytes written.
 */
unsigned int ziw_terminate_encode(u8 *buf, const struct ziw_terminate *term)
{
	unsigned int len = TERM_HDR_LEN;

	put_unaligned_be16(term->code, buf);
	buf[2] = 0;
	buf[3] = 0;
	if (!term->has_ddp)
		return len;

	buf[2] |= TERM_HDRCT_M | TERM_HDRCT_D;
	put_unaligned_be16(term->seg_len, buf + len);
	len += 2;
	memcpy(buf + len, term->ddp, term_ddp_len(term->ddp));
	len += term_ddp_len(term->ddp);
	if (term->has_rdmap) {
		buf[2] |= TERM_HDRCT_R;
		memcpy(buf + len, term->read, RDMAP_READ_REQ_LEN);
		len += RDMAP_READ_REQ_LEN;
	}
	return len;
}

/**
 * ziw_terminate_decode - decode a Terminate Header
 * @buf: payload of the Terminate Message
 * @len: its length
 * @term: filled. Headers that are announced but cut off are taken as not
 *        there: what the peer means to say is in the code.
 *
 * Return: 0, or -EINVAL if there is not even a code.
 */
int ziw_terminate_decode(const u8 *buf, unsigned int len,
			 struct ziw_terminate *term)
{
	unsigned int off = TERM_HDR_LEN, ddp_len;

	memset(term, 0, sizeof(*term));
	if (len < TERM_HDR_LEN)
		return -EINVAL;

	term->code = get_unaligned_be16(buf);
	if (!(buf[2] & TERM_HDRCT_D) || len < off + 2 + 1)
		return 0;
	term->seg_len = get_unaligned_be16(buf + off);
	off += 2;
	ddp_len = term_ddp_len(buf + off);
	if (len < off + ddp_len)
		return 0;
	memcpy(term->ddp, buf + off, ddp_len);
	term->has_ddp = true;
	off += ddp_len;

	if (!(buf[2] & TERM_HDRCT_R) || len < off + RDMAP_READ_REQ_LEN)
		return 0;
	memcpy(term->read, buf + off, RDMAP_READ_REQ_LEN);
	term->has_rdmap = true;
	return 0;
}

static const struct {
	u16		code;
	const char	*name;
} term_names[ZIW_TERM_NAMED] = {
	{ TERM_RDMAP_PROT_INVALID_STAG,		"invalid STag" },
	{ TERM_RDMAP_PROT_BOUNDS,		"base or bounds violation" },
	{ TERM_RDMAP_PROT_ACCESS,		"access rights violation" },
	{ TERM_RDMAP_PROT_NOT_ASSOCIATED,	"STag not associated with the stream" },
	{ TERM_RDMAP_PROT_TO_WRAP,		"TO wrap" },
	{ TERM_RDMAP_PROT_CANNOT_INV,		"STag cannot be invalidated" },
	{ TERM_RDMAP_PROT_UNSPECIFIED,		"unspecified protection error" },
	{ TERM_RDMAP_OP_VERSION,		"invalid RDMAP version" },
	{ TERM_RDMAP_OP_OPCODE,			"unexpected opcode" },
	{ TERM_RDMAP_OP_CATASTROPHIC,		"catastrophic error of the stream" },
	{ TERM_RDMAP_OP_GLOBAL,			"catastrophic error, global" },
	{ TERM_RDMAP_OP_CANNOT_INV,		"STag cannot be invalidated" },
	{ TERM_RDMAP_OP_UNSPECIFIED,		"unspecified error" },
	{ TERM_DDP_CATASTROPHIC,		"local catastrophic error" },
	{ TERM_DDP_TAGGED_INVALID_STAG,		"invalid STag" },
	{ TERM_DDP_TAGGED_BOUNDS,		"base or bounds violation" },
	{ TERM_DDP_TAGGED_NOT_ASSOCIATED,	"STag not associated with the stream" },
	{ TERM_DDP_TAGGED_TO_WRAP,		"TO wrap" },
	{ TERM_DDP_TAGGED_VERSION,		"invalid DDP version" },
	{ TERM_DDP_UNTAGGED_QN,			"invalid QN" },
	{ TERM_DDP_UNTAGGED_NO_BUFFER,		"invalid MSN, no buffer available" },
	{ TERM_DDP_UNTAGGED_MSN_RANGE,		"invalid MSN, out of range" },
	{ TERM_DDP_UNTAGGED_MO,			"invalid MO" },
	{ TERM_DDP_UNTAGGED_TOO_LONG,		"message too long for the buffer" },
	{ TERM_DDP_UNTAGGED_VERSION,		"invalid DDP version" },
	{ TERM_MPA_CLOSED,			"TCP connection lost" },
	{ TERM_MPA_CRC,				"CRC mismatch" },
	{ TERM_MPA_MARKER,			"marker and length disagree" },
	{ TERM_MPA_FRAME,			"invalid MPA Request or Reply Frame" },
	{ TERM_MPA_CATASTROPHIC,		"local catastrophic error in setup" },
	{ TERM_MPA_IRD,				"insufficient IRD resources" },
	{ TERM_MPA_NO_RTR,			"no matching RTR option" },
};

/**
 * ziw_terminate_index - number a Terminate code
 * @code: ZIW_TERM(layer, type, code)
 *
 * Return: less than ZIW_TERM_NAMED if it has a name, else ZIW_TERM_NAMED.
 */
unsigned int ziw_terminate_index(u16 code)
{
	unsigned int i;

	for (i = 0; i < ZIW_TERM_NAMED; i++)
		if (term_names[i].code == code)
			break;
	return i;
}

/**
 * ziw_terminate_code - the code with a number
 * @index: less than ZIW_TERM_NAMED
 *
 * Return: ZIW_TERM(layer, type, code).
 */
u16 ziw_terminate_code(unsigned int index)
{
	return term_names[index].code;
}

/**
 * ziw_terminate_name - what a Terminate code means
 * @code: ZIW_TERM(layer, type, code)
 *
 * Return: a few words for a log line.
 */
const char *ziw_terminate_name(u16 code)
{
	unsigned int i = ziw_terminate_index(code);

	if (i < ZIW_TERM_NAMED)
		return term_names[i].name;
	return code >> 8 == 0 ? "local catastrophic error" : "unknown error";
}

/* "ziw" and the kind. */
#define HELLO_STAG	0x7a697700
/* The upper half of the TO: "FPDU". */
#define HELLO_TO	0x46504455ULL

/**
 * ziw_hello_encode - make a hello of a Write without payload
 * @hdr: its header; STag and TO are set
 * @hello: what to say
 */
void ziw_hello_encode(struct ziw_ddp_hdr *hdr, const struct ziw_hello *hello)
{
	hdr->stag = HELLO_STAG | hello->kind;
	hdr->to = HELLO_TO << 32 | hello->max_ulpdu;
}

/**
 * ziw_hello_decode - whether a Write without payload is a hello
 * @hdr: its header
 * @hello: filled; hello->kind is ZIW_HELLO_NONE if it is none
 */
void ziw_hello_decode(const struct ziw_ddp_hdr *hdr, struct ziw_hello *hello)
{
	u32 kind = hdr->stag ^ HELLO_STAG;

	hello->kind = ZIW_HELLO_NONE;
	hello->max_ulpdu = (u32)hdr->to;
	if (hdr->to >> 32 == HELLO_TO &&
	    (kind == ZIW_HELLO_ASK || kind == ZIW_HELLO_ANSWER))
		hello->kind = kind;
}
