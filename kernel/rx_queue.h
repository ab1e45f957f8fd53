/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reading a TCP receive queue where it lies: a cursor that copies or checksums
 * bytes without taking them off. The socket lock keeps the queue as it is;
 * tcp_read_done() takes off what was used, once per burst.
 */
#ifndef ZIW_RX_QUEUE_H
#define ZIW_RX_QUEUE_H

#include <linux/skbuff.h>
#include <net/tcp.h>
#include "compat.h"
#include "proto/wire.h"

/**
 * struct ziw_cursor - a position in a receive queue
 * @sk: socket, locked
 * @skb: buffer of the next byte
 * @off: offset in it
 * @seq: sequence number of the next byte
 * @avail: bytes from here on
 * @markers: markers are stepped over where bytes are skipped, copied or checked;
 *           else they are bytes like others
 * @start: sequence number of the first marker
 */
struct ziw_cursor {
	struct sock	*sk;
	struct sk_buff	*skb;
	u32		off;
	u32		seq;
	u32		avail;
	bool		markers;
	u32		start;
};

static inline void ziw_cursor_init(struct ziw_cursor *cur, struct sock *sk)
{
	cur->sk = sk;
	cur->seq = tcp_sk(sk)->copied_seq;
	cur->avail = tcp_inq(sk);
	cur->off = 0;
	cur->markers = false;
	cur->skb = cur->avail ? tcp_recv_skb(sk, cur->seq, &cur->off) : NULL;
	if (!cur->skb)
		cur->avail = 0;
}

/* Bytes in the current buffer; steps to the next buffer where there are none. */
static inline u32 ziw_cursor_raw_chunk(struct ziw_cursor *cur)
{
	while (cur->off >= cur->skb->len) {
		if (skb_queue_is_last(&cur->sk->sk_receive_queue, cur->skb))
			return 0;
		cur->skb = skb_queue_next(&cur->sk->sk_receive_queue, cur->skb);
		/* Buffers may overlap: TCP does not trim what was sent twice. */
		cur->off = cur->seq - TCP_SKB_CB(cur->skb)->seq;
		if (TCP_SKB_CB(cur->skb)->tcp_flags & TCPHDR_SYN)
			cur->off--;
	}
	return cur->skb->len - cur->off;
}

static inline void ziw_cursor_advance(struct ziw_cursor *cur, u32 n)
{
	cur->off += n;
	cur->seq += n;
	cur->avail -= n;
}

/* Octets of the stream since the last place of a marker. */
static inline u32 ziw_cursor_marker_pos(const struct ziw_cursor *cur)
{
	return (cur->seq - cur->start) % MPA_MARKER_INTERVAL;
}

/* Step over a marker. False as below. */
static inline bool ziw_cursor_pass_marker(struct ziw_cursor *cur)
{
	u32 len = MPA_MARKER_SIZE;

	while (len) {
		u32 n = min(len, ziw_cursor_raw_chunk(cur));

		if (!n)
			return false;
		ziw_cursor_advance(cur, n);
		len -= n;
	}
	return true;
}

/* Bytes at hand before the buffer's end or a marker; 0: there are none. */
static inline u32 ziw_cursor_chunk(struct ziw_cursor *cur)
{
	if (!cur->markers)
		return ziw_cursor_raw_chunk(cur);
	if (!ziw_cursor_marker_pos(cur) && !ziw_cursor_pass_marker(cur))
		return 0;
	return min(ziw_cursor_raw_chunk(cur),
		   MPA_MARKER_INTERVAL - ziw_cursor_marker_pos(cur));
}

/* Skip @len bytes. */
static inline bool ziw_cursor_skip(struct ziw_cursor *cur, u32 len)
{
	while (len) {
		u32 n = min(len, ziw_cursor_chunk(cur));

		if (!n)
			return false;
		ziw_cursor_advance(cur, n);
		len -= n;
	}
	return true;
}

/* Copy @len bytes and advance. False: the queue does not hold what it announced. */
static inline bool ziw_cursor_copy(struct ziw_cursor *cur, void *to, u32 len)
{
	while (len) {
		u32 n = min(len, ziw_cursor_chunk(cur));

		if (!n || skb_copy_bits(cur->skb, cur->off, to, n))
			return false;
		ziw_cursor_advance(cur, n);
		to += n;
		len -= n;
	}
	return true;
}

/* CRC @len bytes and advance. False as above. */
static inline bool ziw_cursor_crc(struct ziw_cursor *cur, u32 len, u32 *crc)
{
	while (len) {
		u32 n = min(len, ziw_cursor_chunk(cur));
		struct skb_seq_state st;
		const u8 *data;
		u32 done = 0, got;

		if (!n)
			return false;
		skb_prepare_seq_read(cur->skb, cur->off, cur->off + n, &st);
		while (done < n && (got = skb_seq_read(done, &data, &st))) {
			/* What it returns ends with the fragment, not with the range. */
			got = min(got, n - done);
			*crc = crc32c(*crc, data, got);
			done += got;
		}
		skb_abort_seq_read(&st);
		if (done < n)
			return false;
		ziw_cursor_advance(cur, n);
		len -= n;
	}
	return true;
}

#endif /* ZIW_RX_QUEUE_H */
