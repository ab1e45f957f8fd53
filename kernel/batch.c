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

/* A fragment's pages follow each other in memory, and it has a reference to each. */
static unsigned int frag_pages(const struct bio_vec *frag, unsigned int len)
{
	return PFN_UP(frag->bv_offset + len);
}

static void put_pages_from(struct page *page, unsigned int num)
{
	while (num--)
		put_page(page++);
}

/* Whether the page begins, at @off, where the fragment ends. */
static bool goes_on(const struct bio_vec *frag, const struct page *page, unsigned int off)
{
	unsigned int end = frag->bv_offset + frag->bv_len;

	return frag->bv_page + (end >> PAGE_SHIFT) == page && offset_in_page(end) == off;
}

static bool batch_add(struct ziw_batch *batch, struct page *page,
		      unsigned int off, unsigned int len)
{
	unsigned int i = 0, pages;

	page += off >> PAGE_SHIFT;
	off = offset_in_page(off);
	if (batch->num > batch->first && goes_on(&batch->frag[batch->num - 1], page, off)) {
		batch->frag[batch->num - 1].bv_len += len;
		/* The page that both are in is referenced already. */
		i = off ? 1 : 0;
	} else {
		/* ziw_batch_has_room() allows for more than any FPDU can need. */
		if (WARN_ON_ONCE(batch->num == ZIW_BATCH_FRAGS))
			return false;
		bvec_set_page(&batch->frag[batch->num++], page, len, off);
	}
	for (pages = PFN_UP(off + len); i < pages; i++)
		get_page(page + i);
	batch->bytes += len;
	return true;
}

/**
 * ziw_batch_sent - drop from the front of the batch what TCP took
 * @batch: batch
 * @len: bytes, not more than there are
 */
void ziw_batch_sent(struct ziw_batch *batch, unsigned int len)
{
	batch->bytes -= len;
	while (len) {
		struct bio_vec *frag = &batch->frag[batch->first];
		unsigned int pages;

		if (len < frag->bv_len) {
			/* It begins in the page now where that ends which was sent. */
			pages = (frag->bv_offset + len) >> PAGE_SHIFT;
			put_pages_from(frag->bv_page, pages);
			frag->bv_page += pages;
			frag->bv_offset = offset_in_page(frag->bv_offset + len);
			frag->bv_len -= len;
			return;
		}
		len -= frag->bv_len;
		put_pages_from(frag->bv_page, frag_pages(frag, frag->bv_len));
		batch->first++;
	}
	if (!batch->bytes) {
		batch->first = 0;
		batch->num = 0;
	}
}
EXPORT_SYMBOL_IF_KUNIT(ziw_batch_sent);

/**
 * ziw_batch_drop - let go of all fragments
 * @batch: batch
 */
void ziw_batch_drop(struct ziw_batch *batch)
{
	ziw_batch_sent(batch, batch->bytes);
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
 * Return: true if it does, and the batch is not too large already.
 */
bool ziw_batch_has_room(const struct ziw_batch *batch, unsigned int payload,
			unsigned int pieces)
{
	return batch->bytes < ZIW_BATCH_BYTES &&
	       batch->num + payload / PAGE_SIZE + 2 * pieces + 6 <= ZIW_BATCH_FRAGS;
}
EXPORT_SYMBOL_IF_KUNIT(ziw_batch_has_room);

/* The CRC of what was written: a copy, since the source may be changing. */
static void fpdu_crc_run(struct ziw_fpdu *fpdu)
{
	if (fpdu->crc_on)
		fpdu->crc = crc32c(fpdu->crc, fpdu->run + fpdu->run_crc,
				   fpdu->run_len - fpdu->run_crc);
	fpdu->run_crc = fpdu->run_len;
}

/* What was written becomes part of the batch. It is final from here on. */
static bool fpdu_flush(struct ziw_fpdu *fpdu)
{
	unsigned int len = fpdu->run_len;

	if (!len)
		return true;
	fpdu_crc_run(fpdu);
	ziw_arena_commit(len);
	if (!batch_add(fpdu->batch, fpdu->run_page, fpdu->run_off, len))
		return false;
	fpdu->run += len;
	fpdu->run_off += len;
	fpdu->run_room -= len;
	fpdu->run_len = 0;
	fpdu->run_crc = 0;
	return true;
}

/* Room to write more, where what there was is full. */
static bool fpdu_new_run(struct ziw_fpdu *fpdu)
{
	if (!fpdu_flush(fpdu))
		return false;
	fpdu->run = ziw_arena_get(1, UINT_MAX, &fpdu->run_room, &fpdu->run_page, &fpdu->run_off);
	return fpdu->run;
}

/* Add bytes between markers. */
static bool fpdu_copy_plain(struct ziw_fpdu *fpdu, const void *data, unsigned int len)
{
	while (len) {
		unsigned int n;

		if (fpdu->run_len == fpdu->run_room && !fpdu_new_run(fpdu))
			return false;
		n = min(len, fpdu->run_room - fpdu->run_len);
		ziw_copy(fpdu->run + fpdu->run_len, data, n);
		fpdu->run_len += n;
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

	/* Nearly always there is room: short pieces, three to an FPDU, without a loop. */
	if (!batch->markers) {
		if (len > fpdu->run_room - fpdu->run_len)
			return fpdu_copy_plain(fpdu, data, len);
		ziw_copy(fpdu->run + fpdu->run_len, data, len);
		fpdu->run_len += len;
		return true;
	}
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
 * Context: bottom halves off, until ziw_fpdu_end() or ziw_fpdu_cancel(); the CPU's arena
 * is this FPDU's as long.
 * Return: 0 or -ENOMEM, and nothing was added.
 */
int ziw_fpdu_begin(struct ziw_fpdu *fpdu, struct ziw_batch *batch, bool crc_on,
		   const struct ziw_ddp_hdr *hdr, unsigned int payload)
{
	u8 buf[MPA_LEN_SIZE + DDP_MAX_LEN];
	unsigned int len;

	ziw_arena_lock();
	fpdu->batch = batch;
	fpdu->crc_on = crc_on;
	fpdu->kernel = false;
	fpdu->crc = ~0U;
	fpdu->start_num = batch->num;
	fpdu->start_bytes = batch->bytes;
	fpdu->start_to_marker = batch->to_marker;
	fpdu->pos = 0;
	fpdu->payload = payload;
	fpdu->in_place = 0;
	fpdu->run_len = 0;
	fpdu->run_room = 0;
	fpdu->run_crc = 0;
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

/*
 * Whether somebody else may write to the page, rightly, while it is sent: what the CRC was
 * computed of would not be what is sent. A program answers for its memory, but not for a
 * file; the kernel's consumers send what is not theirs, as nfsd a file's pages.
 */
static bool may_change(const struct ziw_fpdu *fpdu, struct page *page)
{
	struct folio *folio = page_folio(page);

	if (!folio->mapping || (!fpdu->kernel && folio_test_anon(folio)))
		return false;
	/* What only names itself a file is memory that programs share. */
	return fpdu->kernel || !(folio_test_swapbacked(folio) || folio_test_hugetlb(folio));
}

/*
 * How many bytes from @data on lie in pages that the network stack may hold references to,
 * and whose bytes stay as they are.
 */
static unsigned int can_splice(const struct ziw_fpdu *fpdu, const void *data,
			       unsigned int len)
{
	unsigned int next = PAGE_SIZE - offset_in_page(data), n = 0;
	struct page *page = virt_to_page(data);

	while (n < len && sendpage_ok(page) && !(fpdu->crc_on && may_change(fpdu, page))) {
		n = min(next, len);
		next += PAGE_SIZE;
		page++;
	}
	return n;
}

/**
 * ziw_fpdu_splice - add payload where it lies
 * @fpdu: begun
 * @data: kernel address in the linear map, of memory that nobody changes until
 *        the peer has acknowledged it, unless others may: see may_change()
 * @len: bytes
 * @spliced: set to true if a page was referenced
 *
 * What is small, and pages that the network stack may not hold references to
 * (slab), are copied; so is everything in a stream with markers, which would
 * cut a page into nine.
 *
 * Return: 0 or -ENOMEM.
 */
int ziw_fpdu_splice(struct ziw_fpdu *fpdu, const void *data, unsigned int len,
		    bool *spliced)
{
	while (len >= MIN_SPLICE && !fpdu->batch->markers) {
		unsigned int n = can_splice(fpdu, data, len);

		if (n) {
			if (!fpdu_flush(fpdu))
				return -ENOMEM;
			if (fpdu->crc_on)
				fpdu->crc = crc32c(fpdu->crc, data, n);
			if (!batch_add(fpdu->batch, virt_to_page(data),
				       offset_in_page(data), n))
				return -ENOMEM;
			fpdu->in_place += n;
			*spliced = true;
		} else {
			n = min_t(unsigned int, len, PAGE_SIZE - offset_in_page(data));
			if (!fpdu_copy(fpdu, data, n))
				return -ENOMEM;
		}
		data += n;
		len -= n;
	}
	return fpdu_copy(fpdu, data, len) ? 0 : -ENOMEM;
}
EXPORT_SYMBOL_IF_KUNIT(ziw_fpdu_splice);

/**
 * ziw_fpdu_end - pad and CRC
 * @fpdu: begun, with all its payload
 *
 * Return: 0; or -ENOMEM, and it has to be taken back.
 */
int ziw_fpdu_end(struct ziw_fpdu *fpdu)
{
	static const u8 zeros[3];
	__le32 crc = 0;

	if (!fpdu_copy(fpdu, zeros, ziw_mpa_pad(fpdu->ulpdu)))
		return -ENOMEM;
	/* RFC 5044, 4.4: the CRC covers a marker that precedes it. */
	if (fpdu->batch->markers && !fpdu->batch->to_marker && !fpdu_marker(fpdu))
		return -ENOMEM;
	fpdu_crc_run(fpdu);
	if (fpdu->crc_on)
		crc = cpu_to_le32(~fpdu->crc);
	fpdu->crc_on = false;
	if (!fpdu_copy(fpdu, &crc, sizeof(crc)) || !fpdu_flush(fpdu))
		return -ENOMEM;
	fpdu->batch->fpdus++;
	fpdu->batch->payload += fpdu->payload;
	fpdu->batch->in_place += fpdu->in_place;
	ziw_arena_unlock();
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
	struct bio_vec *frag;
	unsigned int keep;

	while (batch->num > fpdu->start_num) {
		frag = &batch->frag[--batch->num];
		put_pages_from(frag->bv_page, frag_pages(frag, frag->bv_len));
	}
	if (batch->num > batch->first) {
		frag = &batch->frag[batch->num - 1];
		keep = frag_pages(frag, fpdu->start_len);
		put_pages_from(frag->bv_page + keep, frag_pages(frag, frag->bv_len) - keep);
		frag->bv_len = fpdu->start_len;
	}
	batch->bytes = fpdu->start_bytes;
	batch->to_marker = fpdu->start_to_marker;
	ziw_arena_unlock();
}
EXPORT_SYMBOL_IF_KUNIT(ziw_fpdu_cancel);
