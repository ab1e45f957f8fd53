// SPDX-License-Identifier: GPL-2.0
/* MPA: connection setup frames and FPDU sizes. */
#include "wire.h"

static const u8 mpa_key_req[MPA_KEY_LEN] = {
	'M', 'P', 'A', ' ', 'I', 'D', ' ', 'R', 'e', 'q', ' ', 'F', 'r', 'a', 'm', 'e'
};

static const u8 mpa_key_rep[MPA_KEY_LEN] = {
	'M', 'P', 'A', ' ', 'I', 'D', ' ', 'R', 'e', 'p', ' ', 'F', 'r', 'a', 'm', 'e'
};

/**
 * ziw_mpa_decode_header - decode the fixed part of a setup frame
 * @buf: MPA_HDR_LEN bytes
 * @frame: filled; frame->pd_len is the length of all private data, the
 *         enhanced words included, until ziw_mpa_decode_enhanced() takes them off
 *
 * Return: 0; -EPROTO if this is no MPA frame; -EPROTONOSUPPORT if the revision
 * is neither 1 nor 2; -EMSGSIZE if the private data is longer than
 * MPA_MAX_PRIVATE, or too short for the enhanced words that are announced.
 */
int ziw_mpa_decode_header(const u8 *buf, struct ziw_mpa_frame *frame)
{
	u8 flags = buf[16];

	memset(frame, 0, sizeof(*frame));
	if (!memcmp(buf, mpa_key_rep, MPA_KEY_LEN))
		frame->reply = true;
	else if (memcmp(buf, mpa_key_req, MPA_KEY_LEN))
		return -EPROTO;

	frame->markers = flags & MPA_FLAG_MARKERS;
	frame->crc = flags & MPA_FLAG_CRC;
	frame->reject = frame->reply && (flags & MPA_FLAG_REJECT);
	frame->rev = buf[17];
	frame->pd_len = get_unaligned_be16(buf + 18);
	/* The S bit is reserved, and not to be looked at, below revision 2 (RFC 6581, 6). */
	frame->enhanced = frame->rev == 2 && (flags & MPA_FLAG_ENHANCED);

	if (frame->rev != 1 && frame->rev != 2)
		return -EPROTONOSUPPORT;
	if (frame->pd_len > MPA_MAX_PRIVATE)
		return -EMSGSIZE;
	if (frame->enhanced && frame->pd_len < MPA_ENHANCED_LEN)
		return -EMSGSIZE;
	return 0;
}

/**
 * ziw_mpa_decode_enhanced - decode the words that begin enhanced private data
 * @buf: MPA_ENHANCED_LEN bytes
 * @frame: from ziw_mpa_decode_header(), with frame->enhanced set; completed
 *
 * Return: 0, or -EPROTO if the frame does not have these words.
 */
int ziw_mpa_decode_enhanced(const u8 *buf, struct ziw_mpa_frame *frame)
{
	u16 ird = get_unaligned_be16(buf);
	u16 ord = get_unaligned_be16(buf + 2);

	if (!frame->enhanced || frame->pd_len < MPA_ENHANCED_LEN)
		return -EPROTO;

	frame->ird = ird & MPA_ORD_MASK;
	frame->ord = ord & MPA_ORD_MASK;
	frame->p2p = ird & MPA_IRD_P2P;
	/* RFC 6581, 9.2: B, C and D are ignored unless A is set. */
	if (frame->p2p) {
		if (ird & MPA_IRD_RTR_SEND)
			frame->rtr |= ZIW_RTR_SEND;
		if (ord & MPA_ORD_RTR_WRITE)
			frame->rtr |= ZIW_RTR_WRITE;
		if (ord & MPA_ORD_RTR_READ)
			frame->rtr |= ZIW_RTR_READ;
	}
	frame->pd_len -= MPA_ENHANCED_LEN;
	return 0;
}

/**
 * ziw_mpa_encode - build a setup frame
 * @buf: at least MPA_HDR_LEN + MPA_ENHANCED_LEN + frame->pd_len bytes
 * @frame: what to say; frame->pd_len counts @private_data only
 * @private_data: the ULP's, frame->pd_len bytes
 *
 * Return: bytes written.
 */
unsigned int ziw_mpa_encode(u8 *buf, const struct ziw_mpa_frame *frame,
			    const void *private_data)
{
	unsigned int len = MPA_HDR_LEN;
	u8 flags = 0;

	memcpy(buf, frame->reply ? mpa_key_rep : mpa_key_req, MPA_KEY_LEN);
	if (frame->markers)
		flags |= MPA_FLAG_MARKERS;
	if (frame->crc)
		flags |= MPA_FLAG_CRC;
	if (frame->reject)
		flags |= MPA_FLAG_REJECT;
	if (frame->enhanced)
		flags |= MPA_FLAG_ENHANCED;
	buf[16] = flags;
	buf[17] = frame->rev;
	put_unaligned_be16(frame->pd_len + (frame->enhanced ? MPA_ENHANCED_LEN : 0),
			   buf + 18);

	if (frame->enhanced) {
		u16 ird = frame->ird & MPA_ORD_MASK;
		u16 ord = frame->ord & MPA_ORD_MASK;

		if (frame->p2p) {
			ird |= MPA_IRD_P2P;
			if (frame->rtr & ZIW_RTR_SEND)
				ird |= MPA_IRD_RTR_SEND;
			if (frame->rtr & ZIW_RTR_WRITE)
				ord |= MPA_ORD_RTR_WRITE;
			if (frame->rtr & ZIW_RTR_READ)
				ord |= MPA_ORD_RTR_READ;
		}
		put_unaligned_be16(ird, buf + len);
		put_unaligned_be16(ord, buf + len + 2);
		len += MPA_ENHANCED_LEN;
	}
	if (frame->pd_len)
		memcpy(buf + len, private_data, frame->pd_len);
	return len + frame->pd_len;
}

/**
 * ziw_mpa_mulpdu - largest ULPDU whose FPDU fits in one TCP segment
 * @emss: bytes of payload of a full TCP segment
 * @markers: the stream has markers
 *
 * RFC 5044, 4.5. Never below 128, as it also says: an EMSS too small for that
 * is not followed. Never above MPA_MAX_MULPDU.
 *
 * Return: bytes, the DDP header included.
 */
unsigned int ziw_mpa_mulpdu(unsigned int emss, bool markers)
{
	unsigned int overhead = MPA_LEN_SIZE + MPA_CRC_SIZE + (emss & 3);

	if (markers)
		overhead += MPA_MARKER_SIZE *
			    ((emss + MPA_MARKER_INTERVAL - 1) / MPA_MARKER_INTERVAL);
	if (emss < MPA_MIN_MULPDU + overhead)
		return MPA_MIN_MULPDU;
	if (emss > MPA_MAX_MULPDU + overhead)
		return MPA_MAX_MULPDU;
	return emss - overhead;
}

/**
 * ziw_mpa_raw_len - octets of the stream that hold octets of FPDUs
 * @pos: octets from the start of the stream to the first of them, modulo
 *       MPA_MARKER_INTERVAL; 0: a marker precedes it. 1 to 3 lie inside a marker.
 * @len: octets of FPDUs
 *
 * A marker behind the last of them belongs to what follows.
 *
 * Return: @len with the markers before and among them.
 */
unsigned int ziw_mpa_raw_len(unsigned int pos, unsigned int len)
{
	const unsigned int body = MPA_MARKER_INTERVAL - MPA_MARKER_SIZE;
	unsigned int first = pos ? MPA_MARKER_INTERVAL - pos : 0;

	if (len <= first)
		return len;
	return len + MPA_MARKER_SIZE * ((len - first + body - 1) / body);
}

/**
 * ziw_mpa_marker_encode - build a marker
 * @buf: MPA_MARKER_SIZE bytes
 * @fpdu_ptr: octets from the start of the FPDU; 0 before its length field
 */
void ziw_mpa_marker_encode(u8 *buf, unsigned int fpdu_ptr)
{
	put_unaligned_be16(0, buf);
	put_unaligned_be16((u16)fpdu_ptr, buf + 2);
}

/**
 * ziw_mpa_marker_decode - where a marker says that its FPDU begins
 * @buf: MPA_MARKER_SIZE bytes
 *
 * Return: octets back from the marker.
 */
unsigned int ziw_mpa_marker_decode(const u8 *buf)
{
	/* RFC 5044, 4.3: the receiver takes the two lowest bits as zero. */
	return get_unaligned_be16(buf + 2) & ~3U;
}
