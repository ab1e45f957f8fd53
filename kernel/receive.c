// SPDX-License-Identifier: GPL-2.0
/*
 * The receive engine: FPDUs are checked where TCP queued them, then placed
 * with one copy. An FPDU is looked at when all of it is there and its CRC
 * matches; until then not a byte of it has any effect.
 *
 * It runs under the socket lock, mostly in softirq; it never sleeps.
 */
#include "inspect.h"
#include "rx.h"

/* From so many bytes on the peer may be waiting for our acknowledgment. */
#define PROMPT_ACK_BYTES	4096

/* RFC 5040, figure 10: an error of the LLP names no header. */
static int rx_llp_fault(struct ziw_conn *conn, u16 code)
{
	const struct ziw_terminate term = { .code = code };

	ziw_rx_terminate(conn, &term, IB_EVENT_QP_FATAL);
	return -EPROTO;
}

/* A queue that does not hold the bytes it announced: not the peer's fault. */
static int rx_broken(struct ziw_conn *conn)
{
	ziw_rx_local_fault(conn, TERM_DDP_CATASTROPHIC);
	return -EFAULT;
}

/* The CRC of the FPDU at @start, @raw_len octets of the stream. Return: 0 or negative. */
static int rx_check_crc(struct ziw_conn *conn, const struct ziw_cursor *start, u32 raw_len)
{
	struct ziw_cursor cur = *start;
	__le32 wire_crc;
	u32 crc = ~0U;

	/* RFC 5044, 4.4: markers are covered like all other octets. */
	if (!ziw_cursor_crc(&cur, raw_len - MPA_CRC_SIZE, &crc) ||
	    !ziw_cursor_copy(&cur, &wire_crc, sizeof(wire_crc)))
		return rx_broken(conn);
	if (wire_crc == cpu_to_le32(~crc))
		return 0;
	ziw_stat_inc(conn->dev, ZIW_STAT_RX_CRC_ERRORS);
	return rx_llp_fault(conn, TERM_MPA_CRC);
}

/* Whether each marker in the FPDU at @start points to its beginning (RFC 5044, 8). */
static int rx_check_markers(struct ziw_conn *conn, const struct ziw_cursor *start,
			    u32 raw_len)
{
	u32 pos = ziw_cursor_marker_pos(start);
	u32 off = pos ? MPA_MARKER_INTERVAL - pos : 0;
	/* One that precedes the length field is not counted from there. */
	u32 lead = pos ? 0 : MPA_MARKER_SIZE;
	struct ziw_cursor cur = *start;
	u8 marker[MPA_MARKER_SIZE];
	u32 skip = off, want;

	for (; off < raw_len; off += MPA_MARKER_INTERVAL) {
		if (!ziw_cursor_skip(&cur, skip) ||
		    !ziw_cursor_copy(&cur, marker, sizeof(marker)))
			return rx_broken(conn);
		want = off ? off - lead : 0;
		if (ziw_mpa_marker_decode(marker) != want) {
			ziw_stat_inc(conn->dev, ZIW_STAT_RX_MARKER_ERRORS);
			return rx_llp_fault(conn, TERM_MPA_MARKER);
		}
		skip = MPA_MARKER_INTERVAL - MPA_MARKER_SIZE;
	}
	return 0;
}

/* The initiator has spoken, and the peer may wait for an acknowledgment. */
static void rx_handled(const struct ziw_rx_fpdu *fpdu)
{
	struct ziw_conn *conn = fpdu->conn;

	/* A responder may send from now on. */
	conn->tx.open = true;
	conn->rx.want_rtr = 0;
	conn->rx.fpdus++;
	conn->rx.payload += fpdu->payload;
	/* A responder has copied what it sends: nobody waits to use it again. */
	if (fpdu->hdr.opcode != RDMAP_READ_RESP && fpdu->hdr.opcode != RDMAP_ATOMIC_RESP) {
		conn->rx.unacked += fpdu->payload;
		if (fpdu->hdr.last)
			conn->tx.streak -= min(conn->tx.streak, ZIW_SENDS_PER_MESSAGE);
	}
	if (fpdu->hdr.last && conn->rx.unacked >= PROMPT_ACK_BYTES) {
		conn->rx.unacked = 0;
		inet_csk(conn->sk)->icsk_ack.pending |= ICSK_ACK_NOW;
	}
}

/*
 * Look at the FPDU at @start, and move that behind it. Return: the octets of the
 * stream that it took, if it was handled; 0 if it is not all there yet; negative
 * when the stream has ended.
 */
static int rx_one(struct ziw_conn *conn, struct ziw_cursor *start)
{
	struct ziw_rx_fpdu fpdu = { .conn = conn };
	bool markers = conn->rx.markers;
	u32 pos = markers ? ziw_cursor_marker_pos(start) : 0;
	struct ziw_cursor cur = *start;
	u8 buf[MPA_LEN_SIZE];
	u32 raw_len, got;
	int hdr_len, err;

	cur.markers = markers;
	raw_len = markers ? ziw_mpa_raw_len(pos, MPA_LEN_SIZE) : MPA_LEN_SIZE;
	if (start->avail < raw_len)
		return 0;
	if (!ziw_cursor_copy(&cur, buf, MPA_LEN_SIZE))
		return rx_broken(conn);
	fpdu.ulpdu = get_unaligned_be16(buf);
	raw_len = ziw_mpa_fpdu_len(fpdu.ulpdu);
	if (markers)
		raw_len = ziw_mpa_raw_len(pos, raw_len);
	if (start->avail < raw_len)
		return 0;

	if (conn->crc) {
		err = rx_check_crc(conn, start, raw_len);
		if (err)
			return err;
	}
	if (markers) {
		err = rx_check_markers(conn, start, raw_len);
		if (err)
			return err;
	}

	/* Not more than the header: the cursor stands at the payload then. */
	got = min_t(u32, fpdu.ulpdu, DDP_TAGGED_LEN);
	if (!ziw_cursor_copy(&cur, fpdu.raw, got))
		return rx_broken(conn);
	if (fpdu.ulpdu > DDP_TAGGED_LEN && !(fpdu.raw[0] & DDP_FLAG_TAGGED)) {
		got = min_t(u32, fpdu.ulpdu, DDP_UNTAGGED_LEN) - got;
		if (!ziw_cursor_copy(&cur, fpdu.raw + DDP_TAGGED_LEN, got))
			return rx_broken(conn);
	}
	hdr_len = ziw_ddp_decode(fpdu.raw, fpdu.ulpdu, &fpdu.hdr);
	if (hdr_len < 0) {
		ziw_rx_local_fault(conn, TERM_DDP_CATASTROPHIC);
		return -EPROTO;
	}
	fpdu.payload = fpdu.ulpdu - hdr_len;
	fpdu.data = cur;
	ziw_rx_dispatch(&fpdu);
	if (conn->rx.failed)
		return -EPROTO;
	/* It is looked at again, from its beginning, when its pages are there. */
	if (conn->rx_fault.pending)
		return 0;
	rx_handled(&fpdu);
	/* On from where its payload was read, not over all of that once more. */
	raw_len -= fpdu.data.seq - start->seq;
	fpdu.data.markers = false;
	if (!ziw_cursor_skip(&fpdu.data, raw_len))
		return rx_broken(conn);
	raw_len = fpdu.data.seq - start->seq;
	*start = fpdu.data;
	return raw_len;
}

/* Handle every whole FPDU in the queue. Return: bytes to take off it. */
static u32 rx_burst(struct ziw_conn *conn)
{
	struct ziw_cursor cur;
	struct ziw_rx *rx = &conn->rx;
	u32 used = 0;
	int n;

	rx->fpdus = 0;
	rx->payload = 0;
	ziw_cursor_init(&cur, conn->sk);
	cur.start = conn->rx.marker_seq;
	while (cur.avail) {
		n = rx_one(conn, &cur);
		if (n <= 0)
			break;
		used += n;
	}
	ziw_stat_add(conn->dev, ZIW_STAT_RX_FPDUS, rx->fpdus);
	ziw_stat_add(conn->dev, ZIW_STAT_RX_BYTES, rx->payload);
	return used;
}

/* The FPDU at the head waits for pages; it, and what is behind it, must not change. */
static void rx_wait(struct ziw_conn *conn)
{
	struct ziw_rx *rx = &conn->rx;

	if (!rx->own) {
		rx->own = true;
		rx->own_seq = tcp_sk(conn->sk)->copied_seq;
	}
	if (!ziw_rx_own_pages(conn->sk, &rx->own_seq))
		ziw_rx_local_fault(conn, TERM_RDMAP_CATASTROPHIC);
}

/**
 * ziw_rx_run - handle what has arrived
 * @conn: connection in stream; socket lock held
 *
 * Context: bottom halves off.
 */
void ziw_rx_run(struct ziw_conn *conn)
{
	struct sock *sk = conn->sk;
	enum ziw_qp_state state;
	u32 used;

	if (!conn->qp)
		return;
	state = READ_ONCE(conn->qp->state);
	if (state != ZIW_QP_RTS && state != ZIW_QP_CLOSING)
		conn->rx.failed = true;

	if (!conn->rx.failed && !conn->rx_fault.pending) {
		used = rx_burst(conn);
		if (used)
			tcp_read_done(sk, used);
	}
	if (!conn->rx_fault.pending)
		conn->rx.own = false;
	else if (!conn->rx.failed)
		rx_wait(conn);
	/*
	 * After an error nothing is delivered (RFC 5044, 8), but it is taken
	 * off: a socket closed on unread data resets the connection, and our
	 * Terminate with it.
	 */
	if (conn->rx.failed) {
		used = tcp_inq(sk);
		if (used)
			tcp_read_done(sk, used);
	}

	ziw_llp_no_fast_path(sk);

	/* Not before what came in front of it was handled. */
	if (sk->sk_shutdown & RCV_SHUTDOWN && (conn->rx.failed || !conn->rx_fault.pending)) {
		set_bit(ZIW_CONN_PEER_CLOSED, &conn->flags);
		ziw_conn_kick(conn);
	}
	/* Responses, or what waited for a read or for the initiator. */
	if (ziw_tx_due(conn))
		ziw_tx_run(conn);
}
