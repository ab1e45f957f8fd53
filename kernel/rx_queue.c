// SPDX-License-Identifier: GPL-2.0
/* A position in a TCP receive queue: buffers, their fragments, and buffers in buffers. */
#include "rx_queue.h"

/* Fragment @i of the buffer, with those that lie behind it in memory, is the piece. */
static bool take_fragment(struct ziw_cursor *cur, unsigned int i)
{
	const struct skb_shared_info *info = skb_shinfo(cur->part);
	const skb_frag_t *frag = &info->frags[i];

	/* Memory of a device can be neither checked nor copied. */
	if (!ziw_skb_readable(cur->part))
		return false;
	cur->data = skb_frag_address(frag);
	cur->left = skb_frag_size(frag);
	while (++i < info->nr_frags && skb_frag_address(++frag) == cur->data + cur->left)
		cur->left += skb_frag_size(frag);
	cur->frag = i;
	return true;
}

/* The buffer's next part. */
static struct sk_buff *next_part(const struct ziw_cursor *cur)
{
	return cur->part == cur->skb ? skb_shinfo(cur->skb)->frag_list : cur->part->next;
}

/* The next piece of the buffer. False if there is none. */
static bool next_piece(struct ziw_cursor *cur)
{
	while (cur->part) {
		if (cur->frag < skb_shinfo(cur->part)->nr_frags) {
			if (!take_fragment(cur, cur->frag))
				return false;
		} else {
			cur->part = next_part(cur);
			if (!cur->part)
				return false;
			cur->data = cur->part->data;
			cur->left = skb_headlen(cur->part);
			cur->frag = 0;
		}
		if (cur->left)
			return true;
	}
	return false;
}

/* Begin @skb at its byte @off. False: it has no such byte. */
static bool enter(struct ziw_cursor *cur, struct sk_buff *skb, u32 off)
{
	const struct skb_shared_info *info;
	unsigned int i;

	cur->skb = skb;
	for (cur->part = skb; cur->part; cur->part = next_part(cur)) {
		info = skb_shinfo(cur->part);
		cur->data = cur->part->data;
		cur->left = skb_headlen(cur->part);
		cur->frag = 0;
		for (i = 0; off >= cur->left && i < info->nr_frags; i++) {
			off -= cur->left;
			cur->left = skb_frag_size(&info->frags[i]);
		}
		if (off < cur->left) {
			if (i && !take_fragment(cur, i - 1))
				return false;
			cur->data += off;
			cur->left -= off;
			return true;
		}
		off -= cur->left;
	}
	cur->left = 0;
	return false;
}

/* Where in a buffer a sequence number is. */
static u32 offset_of(const struct sk_buff *skb, u32 seq)
{
	return seq - TCP_SKB_CB(skb)->seq - !!(TCP_SKB_CB(skb)->tcp_flags & TCPHDR_SYN);
}

/* Find the next byte in @skb or a buffer behind it. False: it is nowhere. */
static bool enter_from(struct ziw_cursor *cur, struct sk_buff *skb)
{
	/* Buffers may overlap: TCP does not trim what was sent twice. */
	skb_queue_walk_from(&cur->sk->sk_receive_queue, skb) {
		if (enter(cur, skb, offset_of(skb, cur->seq)))
			return true;
	}
	return false;
}

/**
 * ziw_cursor_init - begin at the first byte that was not read
 * @cur: to set up; cur->avail says how much there is
 * @sk: socket, locked
 */
void ziw_cursor_init(struct ziw_cursor *cur, struct sock *sk)
{
	memset(cur, 0, sizeof(*cur));
	cur->sk = sk;
	cur->seq = tcp_sk(sk)->copied_seq;
	cur->avail = tcp_inq(sk);
	if (cur->avail && !enter_from(cur, sk->sk_receive_queue.next))
		cur->avail = 0;
}

/**
 * ziw_cursor_move_on - find the next byte, where the current piece has no more
 * @cur: cursor
 *
 * Return: false: it is nowhere.
 */
bool ziw_cursor_move_on(struct ziw_cursor *cur)
{
	return next_piece(cur) || enter_from(cur, cur->skb->next);
}

static bool own_part(struct sk_buff *skb)
{
	/* One that somebody else has, too, cannot be changed: it stays as it is. */
	if (!skb_shinfo(skb)->nr_frags || skb_shared(skb))
		return true;
	/* By itself: skb_copy_ubufs() does not tell what its failure was. */
	return !skb_unclone(skb, GFP_ATOMIC) && !skb_copy_ubufs(skb, GFP_ATOMIC);
}

/**
 * ziw_rx_own_pages - keep what is in the queue from changing
 * @sk: socket, locked
 * @seq: sequence number; what is before it was seen to. Moved to the queue's end
 *
 * TCP has acknowledged it, or will when we return. A sender on this host, whose pages
 * they still are, then takes it that it may write to them.
 *
 * Context: any.
 * Return: false if there is no memory for that.
 */
bool ziw_rx_own_pages(struct sock *sk, u32 *seq)
{
	struct sk_buff *skb, *part;
	u32 end = *seq;

	skb_queue_walk(&sk->sk_receive_queue, skb) {
		if (!after(TCP_SKB_CB(skb)->end_seq, *seq))
			continue;
		if (!own_part(skb))
			return false;
		skb_walk_frags(skb, part) {
			if (!own_part(part))
				return false;
		}
		end = TCP_SKB_CB(skb)->end_seq;
	}
	*seq = end;
	return true;
}
