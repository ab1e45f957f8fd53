// SPDX-License-Identifier: GPL-2.0
/*
 * Building FPDUs into a batch of page fragments: headers and trailers in the
 * arena, payload copied behind the header or referenced where it lies.
 */
#include <linux/mm.h>
#include "batch.h"
#include "copy.h"

/* Below this a referenced fragment costs more than a copied one. */
#define MIN_SPLICE	256

static bool batch_add(struct ziw_batch *batch, struct page *page,
		      unsigned int off, unsigned int len)
{
	if (batch->num > batch->first) {
		struct bio_vec *last = &batch->frag[batch->num - 1];

		if (last->bv_page == page && last->bv_offset + last->bv_len == off) {
			last->bv_len += len;
			batch->bytes += len;
			return true;
		}
	}
	/* ziw_batch_has_room() allows for more than any FPDU can need. */
	if (WARN_ON_ONCE(batch->num == ZIW_BATCH_FRAGS))
		return false;
	get_page(page);
	bvec_set_page(&batch->frag[batch->num++], page, len, off);
	batch->bytes += len;
	return true;
}

/**
 * ziw_batch_drop - let go of all fragments
 * @batch: batch
 */
void ziw_batch_drop(struct ziw_batch *batch)
{
	for (; batch->first < batch->num; batch->first++)
		put_page(batch->frag[batch->first].bv_page);
	batch->first = 0;
	batch->num = 0;
	batch->bytes = 0;
}
EXPORT_SYMBOL_IF_KUNIT(ziw_batch_drop);

/**
 * ziw_batch_has_room - whether an FPDU still fits, however its payload lies
 * @batch: batch
 * @payload: its bytes of payload
 * @pieces: regions that the payload comes from, at most ZIW_MAX_SGE
 *
 * Each piece may begin and end inside a page; header, trailer and copied bytes
 * may each run into a new arena block.
 *
 * Return: true if it does.
 */
bool ziw_batch_has_room(const struct ziw_batch *batch, unsigned int payload,
			unsigned int pieces)
{
	return batch->num + payload / PAGE_SIZE + 2 * pieces + 6 <= ZIW_BATCH_FRAGS;
}
EXPORT_SYMBOL_IF_KUNIT(ziw_batch_has_room);

/* Add bytes between markers. The data is final from here on. */
static bool fpdu_copy_plain(struct ziw_fpdu *fpdu, const void *data, unsigned int len)
{
	while (len) {
		unsigned int n, off;
		struct page *page;
		void *to;

		to = ziw_arena_get(1, len, &n, &page, &off);
		if (!to)
			return false;
		ziw_copy(to, data, n);
		ziw_arena_commit(n);
		/* The CRC is of the copy: the source may be changing. */
		if (fpdu->crc_on)
			fpdu->crc = crc32c(fpdu->crc, to, n);
		if (!batch_add(fpdu->batch, page, off, n))
			return false;
		data += n;
		len -= n;
	}
	return true;
}

/* RFC 5044, 4.3: one before the first FPDU, and one at each 512th octet after it. */
static bool fpdu_marker(struct ziw_fpdu *fpdu)
{
	u8 marker[MPA_MARKER_SIZE];

	ziw_mpa_marker_encode(marker, fpdu->pos);
	if (!fpdu_copy_plain(fpdu, marker, sizeof(marker)))
		return false;
	/* One that precedes the length field is not part of what pointers count. */
	if (fpdu->pos)
		fpdu->pos += sizeof(marker);
	fpdu->batch->to_marker = MPA_MARKER_INTERVAL - sizeof(marker);
	return true;
}

/* Add bytes that are in kernel hands, by copy, with the markers that fall among them. */
static bool fpdu_copy(struct ziw_fpdu *fpdu, const void *data, unsigned int len)
{
	struct ziw_batch *batch = fpdu->batch;

	if (!batch->markers)
		return fpdu_copy_plain(fpdu, data, len);
	while (len) {
		unsigned int n;

		if (!batch->to_marker && !fpdu_marker(fpdu))
			return false;
		n = min(len, batch->to_marker);
		if (!fpdu_copy_plain(fpdu, data, n))
			return false;
		batch->to_marker -= n;
		fpdu->pos += n;
		data += n;
		len -= n;
	}
	return true;
}

/**
 * ziw_fpdu_begin - start an FPDU
 * @fpdu: to initialise
 * @batch: where it goes; ziw_batch_has_room() was true
 * @crc_on: the stream uses CRCs
 * @hdr: DDP header
 * @payload: bytes that will follow the DDP header
 *
 * Context: bottom halves off, until ziw_fpdu_end() or ziw_fpdu_cancel().
 * Return: 0 or -ENOMEM, and nothing was added.
 */
int ziw_fpdu_begin(struct ziw_fpdu *fpdu, struct ziw_batch *batch, bool crc_on,
		   const struct ziw_ddp_hdr *hdr, unsigned int payload)
{
	u8 buf[MPA_LEN_SIZE + DDP_MAX_LEN];
	unsigned int len;

	fpdu->batch = batch;
	fpdu->crc_on = crc_on;
	fpdu->crc = ~0U;
	fpdu->start_num = batch->num;
	fpdu->start_bytes = batch->bytes;
	fpdu->start_to_marker = batch->to_marker;
	fpdu->pos = 0;
	fpdu->payload = payload;
	fpdu->in_place = 0;
	fpdu->start_len = batch->num > batch->first ?
			  batch->frag[batch->num - 1].bv_len : 0;

	len = MPA_LEN_SIZE + ziw_ddp_encode(buf + MPA_LEN_SIZE, hdr);
	fpdu->ulpdu = len - MPA_LEN_SIZE + payload;
	put_unaligned_be16(fpdu->ulpdu, buf);
	if (fpdu_copy(fpdu, buf, len))
		return 0;
	ziw_fpdu_cancel(fpdu);
	return -ENOMEM;
}
EXPORT_SYMBOL_IF_KUNIT(ziw_fpdu_begin);

/**
 * ziw_fpdu_add - add payload by copy
 * @fpdu: begun
 * @data: kernel memory; may change while it is copied
 * @len: bytes
 *
 * Return: 0 or -ENOMEM.
 */
int ziw_fpdu_add(struct ziw_fpdu *fpdu, const void *data, unsigned int len)
{
	return fpdu_copy(fpdu, data, len) ? 0 : -ENOMEM;
}
EXPORT_SYMBOL_IF_KUNIT(ziw_fpdu_add);

/**
 * ziw_fpdu_splice - add payload where it lies
 * @fpdu: begun
 * @data: kernel address in the linear map, of memory that nobody changes until
 *        the peer has acknowledged it
 * @len: bytes
 * @spliced: set to true if a page was referenced
 *
 * Small pieces, and pages that the network stack may not hold references to
 * (slab), are copied; so is everything in a stream with markers, which would
 * cut a page into nine.
 *
 * Return: 0 or -ENOMEM.
 */
int ziw_fpdu_splice(struct ziw_fpdu *fpdu, const void *data, unsigned int len,
		    bool *spliced)
{
	while (len) {
		unsigned int n = min_t(unsigned int, len,
				       PAGE_SIZE - offset_in_page(data));
		struct page *page = virt_to_page(data);

		if (n < MIN_SPLICE || !sendpage_ok(page) || fpdu->batch->markers) {
			if (!fpdu_copy(fpdu, data, n))
				return -ENOMEM;
		} else {
			if (fpdu->crc_on)
				fpdu->crc = crc32c(fpdu->crc, data, n);
			if (!batch_add(fpdu->batch, page, offset_in_page(data), n))
				return -ENOMEM;
			fpdu->in_place += n;
			*spliced = true;
		}
		data += n;
		len -= n;
	}
	return 0;
}
EXPORT_SYMBOL_IF_KUNIT(ziw_fpdu_splice);

/**
 * ziw_fpdu_end - pad and CRC
 * @fpdu: begun, with all its payload
 *
 * Return: 0 or -ENOMEM.
 */
int ziw_fpdu_end(struct ziw_fpdu *fpdu)
{
	u8 buf[3 + MPA_CRC_SIZE] = {};
	unsigned int pad = ziw_mpa_pad(fpdu->ulpdu);
	__le32 crc = 0;

	if (fpdu->batch->markers) {
		if (!fpdu_copy(fpdu, buf, pad))
			return -ENOMEM;
		pad = 0;
		/* RFC 5044, 4.4: the CRC covers a marker that precedes it. */
		if (!fpdu->batch->to_marker && !fpdu_marker(fpdu))
			return -ENOMEM;
	}
	if (fpdu->crc_on)
		crc = cpu_to_le32(~crc32c(fpdu->crc, buf, pad));
	memcpy(buf + pad, &crc, sizeof(crc));
	fpdu->crc_on = false;
	if (!fpdu_copy(fpdu, buf, pad + MPA_CRC_SIZE))
		return -ENOMEM;
	fpdu->batch->fpdus++;
	fpdu->batch->payload += fpdu->payload;
	fpdu->batch->in_place += fpdu->in_place;
	return 0;
}
EXPORT_SYMBOL_IF_KUNIT(ziw_fpdu_end);

/**
 * ziw_fpdu_cancel - take back an FPDU that was begun
 * @fpdu: begun
 */
void ziw_fpdu_cancel(struct ziw_fpdu *fpdu)
{
	struct ziw_batch *batch = fpdu->batch;

	while (batch->num > fpdu->start_num)
		put_page(batch->frag[--batch->num].bv_page);
	if (batch->num > batch->first)
		batch->frag[batch->num - 1].bv_len = fpdu->start_len;
	batch->bytes = fpdu->start_bytes;
	batch->to_marker = fpdu->start_to_marker;
}
EXPORT_SYMBOL_IF_KUNIT(ziw_fpdu_cancel);
