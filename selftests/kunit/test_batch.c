// SPDX-License-Identifier: GPL-2.0
/*
 * Building FPDUs into a batch, and going on after TCP took part of it. What a
 * batch holds is compared, byte by byte, with FPDUs put together here as RFC 5044
 * and 5041 have them.
 */
#include <linux/mm.h>
#include <linux/prandom.h>
#include "tx.h"
#include "fixture.h"

#define STREAM_MAX	(512 * 1024)
#define DATA_ORDER	6
#define DATA_SIZE	(PAGE_SIZE << DATA_ORDER)
/* RFC 5044, 3: of a ULPDU. */
#define MULPDU_MAX	64768
/* batch.c copies what is smaller. */
#define SPLICED		256

/**
 * struct bench - a batch, and what it has to hold
 * @batch: under test
 * @want: all that was put in, from the beginning
 * @want_len: bytes of it
 * @got: room to flatten the batch
 * @page: memory for payload: DATA_SIZE bytes, in place or to be copied
 * @data: its address
 */
struct bench {
	struct ziw_batch	batch;
	u8			*want;
	u32			want_len;
	u8			*got;
	struct page		*page;
	u8			*data;
};

enum how { COPY, SPLICE };

static void drop_action(void *data)
{
	struct bench *bench = data;

	ziw_batch_drop(&bench->batch);
}

static struct bench *bench_make(struct kunit *test)
{
	struct bench *bench = kunit_kzalloc(test, sizeof(*bench), GFP_KERNEL);
	struct rnd_state rnd;

	KUNIT_ASSERT_NOT_NULL(test, bench);
	bench->want = kunit_kzalloc(test, STREAM_MAX, GFP_KERNEL);
	bench->got = kunit_kzalloc(test, STREAM_MAX, GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, bench->want);
	KUNIT_ASSERT_NOT_NULL(test, bench->got);
	bench->page = fixture_pages(test, DATA_ORDER);
	bench->data = page_address(bench->page);
	prandom_seed_state(&rnd, 1);
	prandom_bytes_state(&rnd, bench->data, DATA_SIZE);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, drop_action, bench), 0);
	return bench;
}

/* One FPDU without its CRC, as it is on a wire without markers. Returns its length. */
static u32 plain_fpdu(u8 *to, const struct ziw_ddp_hdr *hdr, const u8 *payload, u32 len)
{
	u8 *at = to + 2;

	*at++ = (hdr->tagged ? 0x80 : 0) | (hdr->last ? 0x40 : 0) | 1;
	*at++ = 1 << 6 | hdr->opcode;
	if (hdr->tagged) {
		put_unaligned_be32(hdr->stag, at);
		put_unaligned_be64(hdr->to, at + 4);
		at += 12;
	} else {
		put_unaligned_be32(hdr->inv_stag, at);
		put_unaligned_be32(hdr->qn, at + 4);
		put_unaligned_be32(hdr->msn, at + 8);
		put_unaligned_be32(hdr->mo, at + 12);
		at += 16;
	}
	memcpy(at, payload, len);
	at += len;
	put_unaligned_be16(at - to - 2, to);
	while ((at - to) % 4)
		*at++ = 0;
	return at - to;
}

/*
 * RFC 5044, 4.3 and 4.4: a marker at each 512th octet of the stream points back
 * to where its FPDU begins, with 0 if that is right behind it; the CRC covers
 * those within the FPDU and right before it.
 */
static void add_fpdu(struct bench *bench, const struct ziw_ddp_hdr *hdr, const u8 *payload, u32 len,
		     bool crc)
{
	u32 plain = plain_fpdu(bench->got, hdr, payload, len), i;
	u8 *begin = bench->want + bench->want_len, *at = begin, *start = begin;

	for (i = 0; i <= plain; i += 4) {
		if (bench->batch.markers && (at - bench->want) % 512 == 0) {
			put_unaligned_be32(at - start, at);
			at += 4;
			if (!i)
				start = at;
		}
		if (i < plain) {
			memcpy(at, bench->got + i, 4);
			at += 4;
		}
	}
	put_unaligned_le32(crc ? ~crc32c(~0U, begin, at - begin) : 0, at);
	bench->want_len = at + 4 - bench->want;
}

static const struct ziw_ddp_hdr untagged = {
	.last = true, .opcode = RDMAP_SEND_INV, .inv_stag = 0x01020304, .qn = 0, .msn = 0xfffefdfc,
	.mo = 0x12345678,
};

static const struct ziw_ddp_hdr tagged = {
	.tagged = true, .opcode = RDMAP_WRITE, .stag = 0x89abcdef, .to = 0x1122334455667788,
};

/* An FPDU whose payload is bench->data + @off, into the batch and into what it has to hold. */
static int build(struct bench *bench, const struct ziw_ddp_hdr *hdr, u32 off, u32 len,
		 enum how how, bool crc)
{
	bool spliced = false;
	struct ziw_fpdu fpdu;
	int err;

	local_bh_disable();
	err = ziw_fpdu_begin(&fpdu, &bench->batch, crc, hdr, len);
	if (!err) {
		if (how == COPY)
			err = ziw_fpdu_add(&fpdu, bench->data + off, len);
		else
			err = ziw_fpdu_splice(&fpdu, bench->data + off, len, &spliced);
		if (!err)
			err = ziw_fpdu_end(&fpdu);
		if (err)
			ziw_fpdu_cancel(&fpdu);
	}
	local_bh_enable();
	if (!err)
		add_fpdu(bench, hdr, bench->data + off, len, crc);
	return err;
}

/* What TCP would be handed. Returns its length, or U32_MAX where batch.bytes tells another. */
static u32 flatten(struct bench *bench)
{
	const struct ziw_batch *batch = &bench->batch;
	u32 len = 0, i;

	for (i = batch->first; i < batch->num; i++) {
		const struct bio_vec *frag = &batch->frag[i];

		memcpy(bench->got + len, page_address(frag->bv_page) + frag->bv_offset,
		       frag->bv_len);
		len += frag->bv_len;
	}
	return len == batch->bytes ? len : U32_MAX;
}

/* The batch holds what is left of the stream after @taken bytes. */
static void expect_rest(struct kunit *test, struct bench *bench, u32 taken)
{
	u32 left = bench->want_len - taken;

	KUNIT_ASSERT_EQ_MSG(test, flatten(bench), left, "%u of %u bytes taken", taken,
			    bench->want_len);
	KUNIT_ASSERT_MEMEQ_MSG(test, bench->got, bench->want + taken, left,
			       "%u of %u bytes taken", taken, bench->want_len);
}

/* A new stream. */
static void bench_reset(struct bench *bench)
{
	ziw_batch_drop(&bench->batch);
	bench->batch.to_marker = 0;
	bench->want_len = 0;
}

/* --- FPDUs --- */

static void batch_fpdu(struct kunit *test)
{
	static const u32 offsets[] = { 0, 1, PAGE_SIZE - 1, PAGE_SIZE - 300 };
	struct bench *bench = bench_make(test);
	u32 len, i, bits;

	for (len = 0; len < 2 * PAGE_SIZE; len += len < 70 ? 1 : 509)
		for (i = 0; i < ARRAY_SIZE(offsets); i++)
			for (bits = 0; bits < 16; bits++) {
				bench->batch.markers = bits & 8;
				KUNIT_ASSERT_EQ(test,
						build(bench, bits & 1 ? &tagged : &untagged,
						      offsets[i], len, bits & 2 ? SPLICE : COPY,
						      bits & 4),
						0);
				expect_rest(test, bench, 0);
				KUNIT_EXPECT_EQ(test, bench->want_len % 4, 0);
				bench_reset(bench);
			}
}

static void batch_small(struct kunit *test)
{
	struct bench *bench = bench_make(test);
	int i, one = 0;

	/* Unless a block of the arena ends there, header, payload and trailer lie together. */
	for (i = 0; i < 8; i++) {
		KUNIT_ASSERT_EQ(test, build(bench, &untagged, 0, 64, COPY, true), 0);
		KUNIT_ASSERT_EQ(test, build(bench, &untagged, 64, 64, SPLICE, true), 0);
		one += bench->batch.num == 1;
		expect_rest(test, bench, 0);
		bench_reset(bench);
	}
	KUNIT_EXPECT_GE(test, one, 7);
}

/* FPDUs of all lengths after each other, so that markers fall at each place in them. */
static void batch_markers(struct kunit *test)
{
	struct bench *bench = bench_make(test);
	u32 taken = 0, len;

	bench->batch.markers = true;
	for (len = 0; len < 1100; len += 3) {
		if (!ziw_batch_has_room(&bench->batch, len, 1)) {
			expect_rest(test, bench, taken);
			taken = bench->want_len;
			ziw_batch_sent(&bench->batch, bench->batch.bytes);
		}
		KUNIT_ASSERT_EQ(test, build(bench, len & 1 ? &tagged : &untagged, len, len,
					    len & 2 ? SPLICE : COPY, true),
				0);
		KUNIT_ASSERT_LT(test, bench->want_len, STREAM_MAX - 2000);
	}
	expect_rest(test, bench, taken);
}

/* RFC 5044, 4.1 and 4.3: bytes of an FPDU with the most markers that can fall into it. */
static u32 most_bytes(u32 ulpdu, bool markers)
{
	u32 size = ALIGN(2 + ulpdu, 4) + 4;

	return markers ? size + 4 * DIV_ROUND_UP(size, 508) : size;
}

static void check_emss(struct kunit *test, struct bench *bench, struct ziw_conn *conn, u32 emss)
{
	bool markers = conn->tx.batch.markers;
	u32 i;

	tcp_sk(conn->sk)->mss_cache = emss;
	bench->batch.markers = markers;
	for (i = 0; i < 2; i++) {
		const struct ziw_ddp_hdr *hdr = i ? &tagged : &untagged;
		u32 n = ziw_tx_max_payload(conn, i), ulpdu = n + (i ? 14 : 18);

		KUNIT_ASSERT_LE_MSG(test, ulpdu, MULPDU_MAX, "EMSS %u", emss);
		KUNIT_ASSERT_LE_MSG(test, most_bytes(ulpdu, markers), emss, "EMSS %u", emss);
		/* With markers the formula of the RFC leaves up to seven bytes. */
		KUNIT_ASSERT_TRUE_MSG(test, ulpdu == MULPDU_MAX ||
				      most_bytes(ulpdu + (markers ? 8 : 1), markers) > emss,
				      "EMSS %u", emss);
		if (emss > 3000 || emss % 64 == 0) {
			KUNIT_ASSERT_EQ(test, build(bench, hdr, 0, n, COPY, true), 0);
			KUNIT_ASSERT_LE_MSG(test, bench->batch.bytes, emss, "EMSS %u", emss);
			expect_rest(test, bench, 0);
			bench_reset(bench);
		}
	}
}

static void batch_emss(struct kunit *test)
{
	static const u32 large[] = { 4096, 8948, 8960, 16384, 65483, 65535, 65545, 65549, 100000 };
	struct bench *bench = bench_make(test);
	struct ziw_conn *conn = kunit_kzalloc(test, sizeof(*conn), GFP_KERNEL);
	struct tcp_sock *tp = kunit_kzalloc(test, sizeof(*tp), GFP_KERNEL);
	u32 emss, markers, i;

	KUNIT_ASSERT_NOT_NULL(test, conn);
	KUNIT_ASSERT_NOT_NULL(test, tp);
	conn->dev = kunit_kzalloc(test, sizeof(*conn->dev), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, conn->dev);
	conn->sk = (struct sock *)tp;
	for (markers = 0; markers < 2; markers++) {
		conn->tx.batch.markers = markers;
		conn->dev->params[ZIW_PARAM_MAX_FPDU] = 0;
		for (emss = 144; emss < 3000; emss++)
			check_emss(test, bench, conn, emss);
		for (i = 0; i < ARRAY_SIZE(large); i++)
			check_emss(test, bench, conn, large[i]);
		/* RFC 5044, 4.5: an EMSS that would give less than 128 is not followed. */
		for (emss = 0; emss < 134; emss++) {
			tp->mss_cache = emss;
			KUNIT_EXPECT_EQ(test, ziw_tx_max_payload(conn, true) + 14, 128);
			KUNIT_EXPECT_EQ(test, ziw_tx_max_payload(conn, false) + 18, 128);
		}
	}
}

static void batch_largest(struct kunit *test)
{
	static const struct {
		u32 param, peer, window, ulpdu;
	} rows[] = {
		/* What the user asks for, where the window holds it. */
		{ 30000, 0, 60000, 30000 },
		{ 30000, 64768, 1 << 20, 30000 },
		{ 200, 64768, 1 << 20, 200 },
		{ 30000, 0, 59998, 29999 },
		{ 30000, 0, 0, 1442 },
		/* What a ziw takes, in whole pages. */
		{ 0, 0, 1 << 20, 1442 },
		{ 0, 64768, 1 << 20, 14 + 15 * 4096 },
		{ 0, U32_MAX, U32_MAX, 14 + 15 * 4096 },
		{ 0, 14 + 4096, 1 << 20, 14 + 4096 },
		{ 0, 14 + 4095, 1 << 20, 1442 },
		{ 0, 64768, 4 * (14 + 8192), 14 + 8192 },
		{ 0, 64768, 4 * (14 + 8192) - 1, 14 + 4096 },
		{ 0, 64768, 4 * (14 + 4096) - 1, 1442 },
	};
	struct ziw_conn *conn = kunit_kzalloc(test, sizeof(*conn), GFP_KERNEL);
	struct tcp_sock *tp = kunit_kzalloc(test, sizeof(*tp), GFP_KERNEL);
	u32 i;

	KUNIT_ASSERT_NOT_NULL(test, conn);
	KUNIT_ASSERT_NOT_NULL(test, tp);
	conn->dev = kunit_kzalloc(test, sizeof(*conn->dev), GFP_KERNEL);
	KUNIT_ASSERT_NOT_NULL(test, conn->dev);
	conn->sk = (struct sock *)tp;
	tp->mss_cache = 1448;
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		conn->dev->params[ZIW_PARAM_MAX_FPDU] = rows[i].param;
		conn->tx.peer_ulpdu = min_t(u32, rows[i].peer, MPA_MAX_MULPDU);
		tp->max_window = rows[i].window;
		KUNIT_EXPECT_EQ_MSG(test, ziw_tx_max_payload(conn, true) + 14, rows[i].ulpdu,
				    "row %u", i);
	}
	conn->dev->params[ZIW_PARAM_MAX_FPDU] = 30000;
	tp->max_window = 60000;
	KUNIT_EXPECT_EQ(test, ziw_tx_max_payload(conn, false) + 18, 30000);
}

static void batch_splice(struct kunit *test)
{
	static const struct { u32 off, len; bool spliced; } rows[] = {
		{ 0, SPLICED - 1, false },
		{ 0, SPLICED, true },
		{ PAGE_SIZE - 100, 200, false },
		{ PAGE_SIZE - 100, SPLICED - 1, false },
		{ PAGE_SIZE - 100, SPLICED, true },
		{ PAGE_SIZE - SPLICED, SPLICED + 1, true },
		{ 0, 4 * PAGE_SIZE, true },
	};
	struct bench *bench = bench_make(test);
	u8 *slab = kunit_kzalloc(test, PAGE_SIZE / 2, GFP_KERNEL);
	bool spliced = false;
	struct ziw_fpdu fpdu;
	int i, err, refs = page_count(bench->page);

	KUNIT_ASSERT_NOT_NULL(test, slab);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		spliced = false;
		local_bh_disable();
		err = ziw_fpdu_begin(&fpdu, &bench->batch, true, &untagged, rows[i].len) ? :
		      ziw_fpdu_splice(&fpdu, bench->data + rows[i].off, rows[i].len, &spliced);
		ziw_fpdu_cancel(&fpdu);
		local_bh_enable();
		KUNIT_EXPECT_EQ(test, err, 0);
		KUNIT_EXPECT_EQ_MSG(test, spliced, rows[i].spliced, "row %d", i);
		KUNIT_EXPECT_EQ(test, page_count(bench->page), refs);
	}

	bench->batch.markers = true;
	spliced = false;
	local_bh_disable();
	err = ziw_fpdu_begin(&fpdu, &bench->batch, true, &untagged, PAGE_SIZE) ? :
	      ziw_fpdu_splice(&fpdu, bench->data, PAGE_SIZE, &spliced);
	ziw_fpdu_cancel(&fpdu);
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, err, 0);
	KUNIT_EXPECT_FALSE(test, spliced);
	bench->batch.markers = false;

	/* TCP may not hold references to memory of the slab allocator. */
	spliced = false;
	local_bh_disable();
	err = ziw_fpdu_begin(&fpdu, &bench->batch, true, &untagged, PAGE_SIZE / 2) ? :
	      ziw_fpdu_splice(&fpdu, slab, PAGE_SIZE / 2, &spliced) ? :
	      ziw_fpdu_end(&fpdu);
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, err, 0);
	KUNIT_EXPECT_FALSE(test, spliced);
	for (i = 0; i < bench->batch.num; i++)
		KUNIT_EXPECT_TRUE(test, sendpage_ok(bench->batch.frag[i].bv_page));
}

/* A message's copied bytes, and its CRC, are those of when it was built. */
static void batch_final(struct kunit *test)
{
	struct bench *bench = bench_make(test);

	KUNIT_ASSERT_EQ(test, build(bench, &untagged, 0, 3 * PAGE_SIZE, COPY, true), 0);
	memset(bench->data, 0xee, DATA_SIZE);
	expect_rest(test, bench, 0);
}

static void batch_references(struct kunit *test)
{
	struct bench *bench = bench_make(test);
	int refs = page_count(bench->page), arena, i;
	struct page *page;

	KUNIT_ASSERT_EQ(test, build(bench, &untagged, 100, 2 * PAGE_SIZE + 500, SPLICE, true), 0);
	KUNIT_EXPECT_EQ(test, page_count(bench->page), refs + 3);
	page = bench->batch.frag[0].bv_page;
	get_page(page);
	arena = page_count(page);
	for (i = 0; i < bench->batch.num; i++)
		arena -= compound_head(bench->batch.frag[i].bv_page) == compound_head(page);
	ziw_batch_drop(&bench->batch);
	KUNIT_EXPECT_EQ(test, page_count(bench->page), refs);
	KUNIT_EXPECT_EQ(test, page_count(page), arena);
	put_page(page);
	KUNIT_EXPECT_EQ(test, bench->batch.num, 0);
	KUNIT_EXPECT_EQ(test, bench->batch.bytes, 0);
	ziw_batch_drop(&bench->batch);
}

/* Each of the pages that follow each other has as many references more as it should. */
static void expect_refs(struct kunit *test, struct page *page, u32 first, u32 num, int refs)
{
	u32 i;

	for (i = 0; i < 8; i++)
		KUNIT_EXPECT_EQ_MSG(test, page_count(page + i),
				    1 + (i >= first && i < first + num ? refs : 0), "page %u", i);
}

static void free_run_action(void *data)
{
	struct page *page = data;
	u32 i;

	for (i = 0; i < 8; i++)
		__free_page(page + i);
}

/* Pages that are next to each other, but not one: each is held by itself. */
static void batch_run(struct kunit *test)
{
	/* The first page that is held after so many bytes more were taken; 5: none. */
	static const struct { u32 len, first; } steps[] = {
		{ PAGE_SIZE - 101, 1 }, { 1, 2 }, { 2 * PAGE_SIZE, 4 }, { 99, 4 }, { 1, 5 },
	};
	struct bench *bench = bench_make(test);
	struct page *page = alloc_pages(GFP_KERNEL, 3);
	bool spliced = false;
	struct ziw_fpdu fpdu;
	int err, i;

	KUNIT_ASSERT_NOT_NULL(test, page);
	split_page(page, 3);
	KUNIT_ASSERT_EQ(test, kunit_add_action_or_reset(test, free_run_action, page), 0);
	memcpy(page_address(page), bench->data, 8 * PAGE_SIZE);
	bench->data = page_address(page);

	err = build(bench, &tagged, PAGE_SIZE + 100, 3 * PAGE_SIZE, SPLICE, true);
	KUNIT_ASSERT_EQ(test, err, 0);
	expect_refs(test, page, 1, 4, 1);
	KUNIT_EXPECT_EQ(test, bench->batch.num, 3);
	expect_rest(test, bench, 0);
	/* Length and header, then the pages. */
	ziw_batch_sent(&bench->batch, 2 + 14);
	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		ziw_batch_sent(&bench->batch, steps[i].len);
		expect_refs(test, page, steps[i].first, 5 - steps[i].first, 1);
	}
	bench_reset(bench);

	/* Taken back, when the second piece has been joined to the first. */
	local_bh_disable();
	err = ziw_fpdu_begin(&fpdu, &bench->batch, true, &tagged, 6 * PAGE_SIZE) ? :
	      ziw_fpdu_splice(&fpdu, bench->data + 100, 2 * PAGE_SIZE, &spliced) ? :
	      ziw_fpdu_splice(&fpdu, bench->data + 100 + 2 * PAGE_SIZE, PAGE_SIZE, &spliced);
	KUNIT_EXPECT_EQ(test, err, 0);
	expect_refs(test, page, 0, 4, 1);
	ziw_fpdu_cancel(&fpdu);
	local_bh_enable();
	expect_refs(test, page, 0, 0, 0);
}

/* --- room --- */

/* Pieces that begin and end where pages do, or next to that, or where it is decided to splice. */
static u32 awkward(struct rnd_state *rnd, u32 max)
{
	static const u32 corners[] = { 0, 1, SPLICED - 1, SPLICED, SPLICED + 1, PAGE_SIZE - SPLICED,
				       PAGE_SIZE - 1, PAGE_SIZE, PAGE_SIZE + 1, 2 * PAGE_SIZE - 1 };
	u32 n = prandom_u32_state(rnd);

	return (n & 3 ? corners[(n >> 2) % ARRAY_SIZE(corners)] : n >> 2) % max;
}

static void batch_room(struct kunit *test)
{
	struct bench *bench = bench_make(test);
	u32 round, full = 0, most = 0;
	struct rnd_state rnd;

	prandom_seed_state(&rnd, 42);
	for (round = 0; round < 6000; round++) {
		u32 pieces = 1 + prandom_u32_state(&rnd) % ZIW_MAX_SGE, total = 0, num = 0, i;
		u32 off[ZIW_MAX_SGE], len[ZIW_MAX_SGE];
		bool spliced = false;
		struct ziw_fpdu fpdu;
		int err;

		for (num = 0; num < pieces; num++) {
			off[num] = awkward(&rnd, DATA_SIZE / 2);
			len[num] = awkward(&rnd, DATA_SIZE / 2);
			/* The most fragments: spliced from two pages, nothing copied. */
			if (round & 2) {
				off[num] = PAGE_SIZE * (1 + num) - SPLICED;
				len[num] = 2 * SPLICED;
			}
			if (total + len[num] > MPA_MAX_ULPDU - DDP_MAX_LEN)
				break;
			total += len[num];
		}
		if (!ziw_batch_has_room(&bench->batch, total, num)) {
			full++;
			ziw_batch_drop(&bench->batch);
			bench->batch.markers = full % 4 == 0;
			KUNIT_ASSERT_TRUE(test, ziw_batch_has_room(&bench->batch, total, num));
		}
		local_bh_disable();
		err = ziw_fpdu_begin(&fpdu, &bench->batch, round & 1, &untagged, total);
		for (i = 0; !err && i < num; i++)
			err = ziw_fpdu_splice(&fpdu, bench->data + off[i], len[i], &spliced);
		err = err ? : ziw_fpdu_end(&fpdu);
		local_bh_enable();
		KUNIT_ASSERT_EQ_MSG(test, err, 0, "round %u: %u bytes in %u pieces, %u fragments",
				    round, total, num, bench->batch.num);
		most = max(most, bench->batch.num);
	}
	KUNIT_EXPECT_GT(test, full, 100);
	KUNIT_EXPECT_LE(test, most, ZIW_BATCH_FRAGS);
	/* An estimate so safe that it leaves half of the batch unused would be none. */
	KUNIT_EXPECT_GT(test, most, ZIW_BATCH_FRAGS / 2);
}

static void batch_room_largest(struct kunit *test)
{
	struct bench *bench = bench_make(test);

	KUNIT_EXPECT_TRUE(test, ziw_batch_has_room(&bench->batch, MPA_MAX_ULPDU, ZIW_MAX_SGE));
	KUNIT_EXPECT_FALSE(test,
			   ziw_batch_has_room(&bench->batch, MPA_MAX_ULPDU, ZIW_BATCH_FRAGS / 2));
	bench->batch.num = ZIW_BATCH_FRAGS;
	KUNIT_EXPECT_FALSE(test, ziw_batch_has_room(&bench->batch, 0, 0));
	bench->batch.num = 0;
}

/* --- cancel --- */

/* Parts of an FPDU that may be there when it is taken back. */
static void begin_parts(struct bench *bench, int parts)
{
	bool spliced = false;
	struct ziw_fpdu fpdu;

	local_bh_disable();
	if (ziw_fpdu_begin(&fpdu, &bench->batch, true, &tagged, 3 * PAGE_SIZE) == 0) {
		if (parts > 0)
			ziw_fpdu_add(&fpdu, bench->data, 77);
		if (parts > 1)
			ziw_fpdu_splice(&fpdu, bench->data + 99, 2 * PAGE_SIZE, &spliced);
		if (parts > 2)
			ziw_fpdu_add(&fpdu, bench->data, 5);
		ziw_fpdu_cancel(&fpdu);
	}
	local_bh_enable();
}

static void batch_cancel(struct kunit *test)
{
	struct ziw_batch *before = kunit_kzalloc(test, sizeof(*before), GFP_KERNEL);
	struct bench *bench = bench_make(test);
	int before_fpdus, parts, refs, i;
	u32 taken;

	KUNIT_ASSERT_NOT_NULL(test, before);
	for (before_fpdus = 0; before_fpdus < 6; before_fpdus++)
		for (parts = 0; parts < 4; parts++)
			for (taken = 0; taken < 100; taken += 33) {
				bench->batch.markers = before_fpdus > 2;
				for (i = 0; i < before_fpdus % 3; i++)
					build(bench, &untagged, 0, 60 * (i + 1), COPY, true);
				if (taken && taken >= bench->want_len)
					continue;
				ziw_batch_sent(&bench->batch, taken);
				memcpy(before, &bench->batch, sizeof(*before));
				refs = page_count(bench->page);
				begin_parts(bench, parts);
				KUNIT_EXPECT_EQ(test, bench->batch.first, before->first);
				KUNIT_EXPECT_EQ(test, bench->batch.num, before->num);
				KUNIT_EXPECT_EQ(test, bench->batch.to_marker, before->to_marker);
				KUNIT_EXPECT_MEMEQ(test, &bench->batch.frag[before->first],
						   &before->frag[before->first],
						   (before->num - before->first) *
						   sizeof(before->frag[0]));
				KUNIT_EXPECT_EQ(test, page_count(bench->page), refs);
				expect_rest(test, bench, taken);
				/* And it goes on as if nothing had been. */
				KUNIT_EXPECT_EQ(test, build(bench, &tagged, 9, 500, SPLICE, true),
						0);
				expect_rest(test, bench, taken);
				bench_reset(bench);
				KUNIT_EXPECT_EQ(test, page_count(bench->page), refs);
			}
}

/* --- resume --- */

/* FPDUs of each kind: copied in one fragment, in place across pages, without CRC. */
static void build_some(struct kunit *test, struct bench *bench)
{
	KUNIT_ASSERT_EQ(test, build(bench, &untagged, 3, 5, COPY, true), 0);
	KUNIT_ASSERT_EQ(test, build(bench, &tagged, PAGE_SIZE - 300, 600, SPLICE, true), 0);
	KUNIT_ASSERT_EQ(test, build(bench, &untagged, 50, 64, COPY, false), 0);
}

static void resume_every_byte(struct kunit *test)
{
	struct bench *bench = bench_make(test);
	int refs = page_count(bench->page);
	u32 taken, total = U32_MAX;

	for (taken = 0; taken <= total; taken++) {
		build_some(test, bench);
		total = bench->want_len;
		ziw_batch_sent(&bench->batch, taken);
		expect_rest(test, bench, taken);
		ziw_batch_sent(&bench->batch, total - taken);
		KUNIT_ASSERT_EQ(test, bench->batch.num, 0);
		KUNIT_ASSERT_EQ(test, bench->batch.first, 0);
		KUNIT_ASSERT_EQ(test, bench->batch.bytes, 0);
		KUNIT_ASSERT_EQ_MSG(test, page_count(bench->page), refs, "%u bytes taken", taken);
		bench_reset(bench);
	}
}

static void resume_byte_by_byte(struct kunit *test)
{
	struct bench *bench = bench_make(test);
	int refs = page_count(bench->page);
	u32 taken;

	build_some(test, bench);
	for (taken = 1; taken <= bench->want_len; taken++) {
		ziw_batch_sent(&bench->batch, 1);
		expect_rest(test, bench, taken);
	}
	KUNIT_EXPECT_EQ(test, bench->batch.num, 0);
	KUNIT_EXPECT_EQ(test, page_count(bench->page), refs);
}

static void check_resume_and_add(struct kunit *test, bool markers)
{
	struct bench *bench = bench_make(test);
	int refs = page_count(bench->page);
	u32 taken, total = U32_MAX;

	bench->batch.markers = markers;
	for (taken = 0; taken <= total; taken++) {
		build_some(test, bench);
		total = bench->want_len;
		ziw_batch_sent(&bench->batch, taken);
		KUNIT_ASSERT_EQ(test, build(bench, &untagged, 77, 30, COPY, true), 0);
		KUNIT_ASSERT_EQ(test, build(bench, &tagged, 1, 400, SPLICE, true), 0);
		expect_rest(test, bench, taken);
		/* TCP takes a part once more, across what was there and what came. */
		ziw_batch_sent(&bench->batch, total - taken + 10);
		expect_rest(test, bench, total + 10);
		bench_reset(bench);
		KUNIT_ASSERT_EQ_MSG(test, page_count(bench->page), refs, "%u bytes taken", taken);
	}
}

static void resume_and_add(struct kunit *test)
{
	check_resume_and_add(test, false);
	check_resume_and_add(test, true);
}

static void resume_drop(struct kunit *test)
{
	struct bench *bench = bench_make(test);
	int refs = page_count(bench->page);
	u32 taken, total = U32_MAX;

	for (taken = 0; taken <= total; taken++) {
		build_some(test, bench);
		total = bench->want_len;
		ziw_batch_sent(&bench->batch, taken);
		ziw_batch_drop(&bench->batch);
		KUNIT_ASSERT_EQ_MSG(test, page_count(bench->page), refs, "%u bytes taken", taken);
		KUNIT_ASSERT_EQ(test, bench->batch.bytes, 0);
		bench->want_len = 0;
	}
}

/* --- arena --- */

static void batch_arena(struct kunit *test)
{
	static const u32 wants[] = { 1, 20, 100, PAGE_SIZE, 5 * PAGE_SIZE, 0xffff };
	static const u32 mins[] = { 1, 17, PAGE_SIZE };
	struct page *held = NULL;
	u32 round, i, wrong = 0;

	/* Nothing that was handed out is handed out again while it is held. */
	for (round = 0; round < 200; round++)
		for (i = 0; i < ARRAY_SIZE(wants); i++) {
			u32 min = min(mins[round % ARRAY_SIZE(mins)], wants[i]);
			unsigned int len = 0, off = 0, next = 0;
			struct page *page, *after;
			u8 *to, *then;

			local_bh_disable();
			to = ziw_arena_get(min, wants[i], &len, &page, &off);
			if (to) {
				wrong += len < min || len > wants[i];
				wrong += to != (u8 *)page_address(page) + off;
				get_page(page);
				memset(to, 0x77, len);
				ziw_arena_commit(len);
				then = ziw_arena_get(1, 1, &next, &after, &off);
				wrong += !then || next != 1 || (then >= to && then < to + len);
				if (held)
					put_page(held);
				held = page;
			} else {
				wrong++;
			}
			local_bh_enable();
		}
	if (held)
		put_page(held);
	KUNIT_EXPECT_EQ(test, wrong, 0);
}

/* With bottom halves off, as in transmit: what the arena takes must not wait either. */
static void batch_arena_small(struct kunit *test)
{
#ifdef CONFIG_FAIL_PAGE_ALLOC
	enum { MOST = 400 };
	struct page **held = kunit_kcalloc(test, MOST, sizeof(*held), GFP_KERNEL), *page;
	unsigned int num = 0, small = 0, wrong = 0, len, off;

	KUNIT_ASSERT_NOT_NULL(test, held);
	/* All that was handed out is in use: each time a block is full another is made. */
	while (num < MOST && small < 3) {
		bool met;

		local_bh_disable();
		current->fail_nth = 1;
		if (ziw_arena_get(PAGE_SIZE, PAGE_SIZE, &len, &page, &off)) {
			get_page(page);
			held[num++] = page;
			ziw_arena_commit(len);
		} else {
			wrong++;
		}
		met = !current->fail_nth;
		current->fail_nth = 0;
		local_bh_enable();
		if (!met)
			continue;
		small++;
		KUNIT_EXPECT_EQ(test, wrong, 0);
		KUNIT_EXPECT_FALSE(test, PageCompound(page));
	}
	KUNIT_EXPECT_EQ(test, small, 3);
	/* And with memory there are large ones again. */
	local_bh_disable();
	if (ziw_arena_get(PAGE_SIZE, PAGE_SIZE, &len, &page, &off))
		KUNIT_EXPECT_TRUE(test, PageCompound(page));
	else
		wrong++;
	local_bh_enable();
	KUNIT_EXPECT_EQ(test, wrong, 0);
	while (num)
		put_page(held[--num]);
#else
	kunit_skip(test, "no CONFIG_FAIL_PAGE_ALLOC");
#endif
}

static struct kunit_case cases[] = {
	PROPERTY(batch_fpdu,
		 "an FPDU is as the RFCs have it: each pad, tagged or not, copied or in place"),
	PROPERTY(batch_small, "small messages share one fragment"),
	PROPERTY(batch_markers,
		 "each 512th octet is a marker that points to its FPDU, and the CRC covers it"),
	PROPERTY(batch_largest, "an FPDU is as large as user, peer and window have it"),
	PROPERTY(batch_emss,
		 "the largest FPDU fits the EMSS with its markers, and a larger one would not"),
	PROPERTY(batch_splice,
		 "payload stays in place from 256 bytes on, unless from slab or amid markers"),
	PROPERTY(batch_final, "copied payload is what it was when the FPDU was built"),
	PROPERTY(batch_references, "each fragment holds its page until the batch is dropped"),
	PROPERTY(batch_run,
		 "pages that follow each other are one fragment, and go back one by one"),
	PROPERTY(batch_room,
		 "an FPDU for which there is room always fits, however its payload lies"),
	PROPERTY(batch_room_largest,
		 "an empty batch has room for the largest FPDU, a full one for none"),
	PROPERTY(batch_cancel,
		 "an FPDU that is cancelled leaves no trace, at any stage of its building"),
	PROPERTY(resume_every_byte,
		 "after a partial send at any byte the rest is what was not sent"),
	PROPERTY(resume_byte_by_byte, "a batch that is sent byte by byte is the same stream"),
	PROPERTY(resume_and_add, "FPDUs added after a partial send at any byte follow the rest"),
	PROPERTY(resume_drop,
		 "a batch dropped after a partial send at any byte holds no page any more"),
	PROPERTY(batch_arena,
		 "the arena hands out pieces of the size asked for, none of them twice"),
	PROPERTY(batch_arena_small,
		 "the arena makes do with single pages where no larger block is to be had"),
	{}
};

struct kunit_suite ziw_batch_suite = {
	.name		= "batch",
	.test_cases	= cases,
};
