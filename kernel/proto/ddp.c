// SPDX-License-Identifier: GPL-2.0
/* DDP headers and the RDMAP control field in them. */
#include "wire.h"

/**
 * ziw_ddp_decode - decode a DDP header
 * @buf: start of a ULPDU
 * @len: length of the ULPDU
 * @hdr: filled; on error as far as the bytes reach
 *
 * Versions, opcodes and numbers are passed up as they came: which of them are
 * errors, and which error each is, depends on the state of the stream.
 *
 * Return: length of the header, or -EINVAL if @len is too short for it.
 */
int ziw_ddp_decode(const u8 *buf, unsigned int len, struct ziw_ddp_hdr *hdr)
{
	memset(hdr, 0, sizeof(*hdr));
	if (len < 2)
		return -EINVAL;

	hdr->tagged = buf[0] & DDP_FLAG_TAGGED;
	hdr->last = buf[0] & DDP_FLAG_LAST;
	hdr->ddp_version = buf[0] & DDP_VERSION_MASK;
	hdr->rdmap_version = buf[1] >> 6;
	hdr->opcode = buf[1] & 0x0f;
	if (len < ziw_ddp_hdr_len(hdr))
		return -EINVAL;

	if (hdr->tagged) {
		hdr->stag = get_unaligned_be32(buf + 2);
		hdr->to = get_unaligned_be64(buf + 6);
		return DDP_TAGGED_LEN;
	}
	hdr->inv_stag = get_unaligned_be32(buf + 2);
	hdr->qn = get_unaligned_be32(buf + 6);
	hdr->msn = get_unaligned_be32(buf + 10);
	hdr->mo = get_unaligned_be32(buf + 14);
	return DDP_UNTAGGED_LEN;
}

/**
 * ziw_ddp_encode - build a DDP header of the versions ziw speaks
 * @buf: at least DDP_MAX_LEN bytes
 * @hdr: what to say; the version fields are not looked at
 *
 * Return: bytes written.
 */
unsigned int ziw_ddp_encode(u8 *buf, const struct ziw_ddp_hdr *hdr)
{
	buf[0] = DDP_VERSION;
	if (hdr->tagged)
		buf[0] |= DDP_FLAG_TAGGED;
	if (hdr->last)
		buf[0] |= DDP_FLAG_LAST;
	buf[1] = RDMAP_VERSION << 6 | hdr->opcode;

	if (hdr->tagged) {
		put_unaligned_be32(hdr->stag, buf + 2);
		put_unaligned_be64(hdr->to, buf + 6);
		return DDP_TAGGED_LEN;
	}
	put_unaligned_be32(hdr->inv_stag, buf + 2);
	put_unaligned_be32(hdr->qn, buf + 6);
	put_unaligned_be32(hdr->msn, buf + 10);
	put_unaligned_be32(hdr->mo, buf + 14);
	return DDP_UNTAGGED_LEN;
}
