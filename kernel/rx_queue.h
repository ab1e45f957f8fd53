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
#include "copy.h"
#include "proto/wire.h"

/**
 * struct ziw_cursor - a position in a receive queue
 * @sk: socket, locked
 * @skb: buffer of the next byte
 * @part: where in it: @skb itself, or one of its frag_list
 * @frag: the fragment of @part that follows @data
 * @data: the next byte
 * @left: bytes that lie there in one piece
 * @seq: sequence number of the next byte
 * @avail: bytes from here on
 * @markers: markers are stepped over where bytes are skipped, copied or checked;
 *           else they are bytes like others
 * @start: sequence number of the first marker
 */
struct ziw_cursor {
	struct sock	*sk;
	struct sk_buff	*skb;
	struct sk_buff	*part;
	unsigned int	frag;
	const u8	*data;
	u32		left;
	u32		seq;
	u32		avail;
	bool		markers;
	u32		start;
};

void ziw_cursor_init(struct ziw_cursor *cur, struct sock *sk);
bool ziw_cursor_move_on(struct ziw_cursor *cur);
bool ziw_rx_own_pages(struct sock *sk, u32 *seq);

/* Bytes in the current piece; steps to the next piece where there are none. */
static inline u32 ziw_cursor_raw_chunk(struct ziw_cursor *cur)
{
	if (!cur->left && !ziw_cursor_move_on(cur))
		return 0;
	return cur->left;
}

static inline void ziw_cursor_advance(struct ziw_cursor *cur, u32 n)
{
	cur->data += n;
	cur->left -= n;
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

/* Bytes at hand before the piece's end or a marker; 0: there are none. */
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

		if (!n)
			return false;
		ziw_copy(to, cur->data, n);
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

		if (!n)
			return false;
		*crc = crc32c(*crc, cur->data, n);
		ziw_cursor_advance(cur, n);
		len -= n;
	}
	return true;
}

#endif /* ZIW_RX_QUEUE_H */
