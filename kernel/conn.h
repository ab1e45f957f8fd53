/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A connection: the socket, the MPA negotiation, and the two engines of the
 * stream that follows. iw_cm (cm.c) is one front end to it.
 */
#ifndef ZIW_CONN_H
#define ZIW_CONN_H

#include <linux/tcp.h>
#include <net/ipv6.h>
#include <net/sock.h>
#include "odp.h"

/* Most fragments handed to TCP in one call; a 64 KiB FPDU of ZIW_MAX_SGE pieces fits. */
#define ZIW_BATCH_FRAGS		96

/* No FPDU is added to a batch that has so many bytes. */
#define ZIW_BATCH_BYTES		(512 * 1024)

/**
 * struct ziw_batch - FPDUs on their way to TCP
 * @frag: pages that follow each other, with a reference to each; bv_offset is in the first
 * @first: first fragment not yet taken by TCP
 * @num: fragments
 * @bytes: not yet taken by TCP
 * @markers: the peer wants markers in the stream; constant while in stream
 * @to_marker: bytes of the stream until the next; 0: it is due
 * @fpdus: built, but not yet counted
 * @payload: bytes of payload in them
 * @in_place: of these, referenced where they lie
 */
struct ziw_batch {
	struct bio_vec		frag[ZIW_BATCH_FRAGS];
	unsigned int		first;
	unsigned int		num;
	unsigned int		bytes;
	bool			markers;
	unsigned int		to_marker;
	unsigned int		fpdus;
	unsigned int		payload;
	unsigned int		in_place;
};

/**
 * struct ziw_tx_wqe - the send WQE being cut into FPDUs
 * @active: there is one
 * @zero_copy: payload pages are handed to TCP in place
 * @spliced: at least one was
 * @imm_due: its Immediate Data is still to be sent: before a Send, after a Write
 * @payload_done: its last segment of payload is built
 * @index: its slot in the SQ
 * @sent: bytes of payload in FPDUs already
 * @sge_index: SGE of the next byte
 * @sge_off: offset in it
 * @msn: of its untagged message
 * @imm_msn: of its Immediate Data Message
 * @wr: copied from the ring once
 */
struct ziw_tx_wqe {
	bool			active;
	bool			zero_copy;
	bool			spliced;
	bool			imm_due;
	bool			payload_done;
	u32			index;
	u32			sent;
	u32			sge_index;
	u32			sge_off;
	u32			msn;
	u32			imm_msn;
	struct ziw_wqe		wr;
};

/* A stream: more sends than this for each message of the peer, such as one with credits. */
#define ZIW_SENDS_PER_MESSAGE	8U

/**
 * struct ziw_tx - transmit engine; guarded by the socket lock and qp->lock
 * @running: the engine is at work; a callback of TCP that finds this returns
 * @open: FPDUs may be sent: always for an initiator; for a responder from the
 *        initiator's first FPDU on (RFC 5044, 7.1.2; RFC 6581, 5)
 * @rtr: ZIW_RTR_*, the indication that is still to be sent; 0: none
 * @hello: to a ziw that said hello, the answer is still to be sent
 * @peer_ulpdu: largest ULPDU that the peer takes, if it is a ziw; 0: unknown
 * @idle: nothing to do when the engine last ran; what is posted rings the doorbell
 * @polled: the device's poller looks at the SQ, which asks for no doorbells
 * @streak: sends, less ZIW_SENDS_PER_MESSAGE for each message that the peer sent by
 *          itself, within bounds (collect.c)
 * @failed: nothing more is sent
 * @terminate: @term is to be sent
 * @terminated: it is with TCP
 * @prefer_response: whose turn it is, where both have messages
 * @resp_sent: bytes sent of the response to the Read Request at irq_tail
 * @msn_send: next MSN of queue 0
 * @msn_read: next MSN of queue 1
 * @msn_atomic: next MSN of queue 3
 * @term: Terminate Message
 * @wqe: current WQE
 * @batch: what TCP has not yet taken
 */
struct ziw_tx {
	bool			running;
	bool			open;
	u8			rtr;
	bool			hello;
	u32			peer_ulpdu;
	bool			idle;
	bool			polled;
	u32			streak;
	bool			failed;
	bool			terminate;
	bool			terminated;
	bool			prefer_response;
	u32			resp_sent;
	u32			msn_send;
	u32			msn_read;
	u32			msn_atomic;
	struct ziw_terminate	term;
	struct ziw_tx_wqe	wqe;
	struct ziw_batch	batch;
};

/**
 * struct ziw_rx - receive engine; guarded by the socket lock
 * @failed: nothing more is received
 * @want_rtr: ZIW_RTR_* that the first FPDU may be
 * @markers: we asked the peer for markers; constant while in stream
 * @marker_seq: sequence number of the first
 * @msn: next MSN of each untagged queue
 * @mo: next MO of the Send being received, if its segments come in order
 * @got: bytes of it received
 * @have_rqe: @rqe is valid
 * @have_imm: @imm belongs to the Send that comes next
 * @write_last: the message before was a Write, of which all is placed
 * @write_len: bytes of the last Write
 * @imm: immediate data, as the verbs have it
 * @read_loaded: @rqe_read holds the sink of the read at orq_tail
 * @read_to: next TO of its response, if the segments come in order
 * @read_got: bytes of it received
 * @rqe: receive WQE being filled
 * @sink: position in it
 * @rqe_read: sink of the current read response
 * @read_sink: position in it
 * @own: while pages are brought in: what was received up to @own_seq is no memory of
 *       its sender's any more
 * @own_seq: sequence number
 * @unacked: bytes of messages received since an acknowledgment was asked for
 * @fpdus: of this burst, to be counted
 * @payload: bytes in them
 */
struct ziw_sink {
	u32			sge_index;
	u32			sge_off;
};

struct ziw_rx {
	bool			failed;
	u8			want_rtr;
	bool			markers;
	u32			marker_seq;
	u32			msn[DDP_QN_NUM];
	u32			mo;
	u64			got;
	bool			have_rqe;
	bool			have_imm;
	bool			write_last;
	u32			write_len;
	u32			imm;
	bool			read_loaded;
	u32			read_to;
	u64			read_got;
	struct ziw_rqe		rqe;
	struct ziw_sink		sink;
	struct ziw_rqe		rqe_read;
	struct ziw_sink		read_sink;
	bool			own;
	u32			own_seq;
	u32			unacked;
	u32			fpdus;
	u32			payload;
};

enum ziw_orq_kind {
	ZIW_ORQ_READ,
	ZIW_ORQ_ATOMIC,
	ZIW_ORQ_RTR,		/* the RTR indication: a read without a WQE */
};

/**
 * struct ziw_orq_entry - a request that waits for its response
 * @kind: what was asked for
 * @sq_index: index of its WQE, unless ZIW_ORQ_RTR
 * @size: bytes requested
 * @token: Data Sink STag, or Request Identifier, that we named; checked on each
 *         segment of the response
 */
struct ziw_orq_entry {
	enum ziw_orq_kind	kind;
	u32			sq_index;
	u32			size;
	u32			token;
};

/**
 * struct ziw_irq_entry - an inbound request to answer
 * @msn: of its message, for a Terminate Message
 * @is_atomic: @atomic, else @read
 * @done: the Atomic Operation was carried out; what it found is in @atomic.data
 * @read: what the peer asked for
 * @atomic: likewise
 */
struct ziw_irq_entry {
	u32				msn;
	bool				is_atomic;
	bool				done;
	union {
		struct ziw_read_req	read;
		struct ziw_atomic_req	atomic;
	};
};

/* Places for inbound requests are allocated so many at a time. */
#define ZIW_IRQ_BLOCK		8U

/**
 * struct ziw_setup_bytes - what a connection holds until its stream begins
 * @frame: of the peer's frame, as received
 * @pd: private data of our Request Frame
 */
struct ziw_setup_bytes {
	u8	frame[MPA_HDR_LEN + MPA_MAX_PRIVATE];
	u8	pd[ZIW_MAX_CM_PRIVATE];
};

/**
 * struct ziw_polled - an SQ that is polled; the poller's, once it is in its list
 * @entry: in the poller's list
 * @qp: with a reference
 * @prod: of its ring, when last looked at
 * @until: local_clock() at which polling ends, if nothing is posted
 */
struct ziw_polled {
	struct list_head	entry;
	struct ziw_qp		*qp;
	u32			prod;
	u64			until;
};

enum ziw_conn_state {
	ZIW_CONN_CONNECTING,	/* initiator: TCP handshake */
	ZIW_CONN_REQ_SENT,	/* initiator: Reply Frame outstanding */
	ZIW_CONN_REQ_WAIT,	/* responder: Request Frame outstanding */
	ZIW_CONN_REQ_SEEN,	/* responder: the ULP has to accept or reject */
	ZIW_CONN_STREAMING,	/* FPDUs flow */
	ZIW_CONN_CLOSING,	/* our FIN is sent, the peer's is outstanding */
	ZIW_CONN_LINGERING,	/* QP and CM have left, TCP still delivers */
	ZIW_CONN_DEAD,		/* socket released */
};

/* struct ziw_conn.flags */
enum ziw_conn_flag {
	ZIW_CONN_ABORT,		/* end it now */
	ZIW_CONN_TIMEOUT,	/* the timer ran out */
	ZIW_CONN_IN_STREAM,	/* data_ready goes to the receive engine */
	ZIW_CONN_PEER_CLOSED,	/* the peer's FIN was reached in the stream */
};

/**
 * struct ziw_conn - a connection
 * @ref: one of the socket (until it is released), one of each pending timer or
 *       work item, one of the poller, one of the connect request shown to iw_cm
 * @rcu: qp->conn and sk_user_data are read under RCU
 * @dev: device; outlives the connection
 * @entry: in dev->conns
 * @sock: the socket; NULL when it is released
 * @sk: its sock; a reference is held until the connection is freed
 * @mutex: guards all that follows up to @flags; process context
 * @state: where it is; ziw_conn_kick() reads it without the mutex
 * @initiator: we connected
 * @cm_id: iw_cm's end; NULL when it owes us nothing more
 * @listen: whose it is, until iw_cm has its request
 * @frame: the peer's setup frame
 * @setup: bytes of both sides' frames; NULL once in stream
 * @setup_len: valid in @setup->frame
 * @request_id: responder: names it to iw_cm, in dev->requests; 0: none
 * @want_qp: initiator: QP to attach, with a reference
 * @rev: MPA revision of our Request Frame
 * @want_ird: IRD that the ULP asked for
 * @want_ord: ORD that the ULP asked for
 * @want_rtr: ZIW_RTR_* that our Request Frame offered
 * @pd_len: bytes valid in @setup->pd
 * @flags: enum ziw_conn_flag, atomic
 * @why: enum ziw_why and a code, once it is known; atomic
 * @work: runs the state machine
 * @setup_work: the same until the Request Frame is sent or received: in turn, so
 *              that a ULP sees requests in the order in which its peer connected
 * @timer: sets ZIW_CONN_TIMEOUT
 * @retry: runs the transmit engine when memory was short or the socket owned
 * @collect: runs it when a doorbell was left to be one with the next
 * @polled: what the device's poller knows of its SQ
 * @qp: attached queue pair; set before ZIW_CONN_IN_STREAM, cleared with the
 *      socket lock held
 * @crc: FPDUs carry a CRC; constant while in stream
 * @ird: most inbound Read Requests
 * @ord: most outbound Read Requests
 * @irq: Read Requests to answer: blocks of ZIW_IRQ_BLOCK, made when first needed, for
 *       @ird of them, rounded to a power of two; socket lock
 * @irq_head: next free
 * @irq_tail: next to answer
 * @orq_size: most of them at a time: @ord, but not more than the SQ has slots
 * @orq: reads that wait, @orq_size of them in a power of two of slots; socket lock
 * @orq_head: next free
 * @orq_tail: next to be answered
 * @tx_fault: pages that the transmit engine waits for
 * @rx_fault: likewise, the receive engine
 * @tx: transmit engine
 * @rx: receive engine
 */
struct ziw_conn {
	struct kref		ref;
	struct rcu_head		rcu;
	struct ziw_dev		*dev;
	struct list_head	entry;
	struct socket		*sock;
	struct sock		*sk;

	struct mutex		mutex;		/* guards the setup and the end */
	enum ziw_conn_state	state;
	bool			initiator;
	struct iw_cm_id		*cm_id;
	struct ziw_listen	*listen;
	u32			request_id;
	struct ziw_qp		*want_qp;
	struct ziw_mpa_frame	frame;
	struct ziw_setup_bytes	*setup;
	unsigned int		setup_len;
	u8			rev;
	u32			want_ird;
	u32			want_ord;
	u8			want_rtr;
	u8			pd_len;

	unsigned long		flags;
	u32			why;
	struct work_struct	work;
	struct work_struct	setup_work;
	struct delayed_work	timer;
	struct delayed_work	retry;
	struct work_struct	collect;
	struct ziw_polled	polled;

	struct ziw_qp		*qp;
	bool			crc;
	u32			ird;
	u32			ord;
	struct ziw_irq_entry	**irq;
	u32			irq_head;
	u32			irq_tail;
	u32			orq_size;
	struct ziw_orq_entry	*orq;
	u32			orq_head;
	u32			orq_tail;

	struct ziw_fault	tx_fault;
	struct ziw_fault	rx_fault;
	struct ziw_tx		tx ____cacheline_aligned_in_smp;
	struct ziw_rx		rx ____cacheline_aligned_in_smp;
};

/* The slots are a power of two, so that the indices may wrap; of 0 there is none. */
static inline u32 ziw_irq_slots(const struct ziw_conn *conn)
{
	return roundup_pow_of_two(max(conn->ird, ZIW_IRQ_BLOCK));
}

static inline struct ziw_irq_entry **ziw_irq_block(struct ziw_conn *conn, u32 index)
{
	return &conn->irq[(index & (ziw_irq_slots(conn) - 1)) / ZIW_IRQ_BLOCK];
}

/* Of a request that is there: its block is, too. */
static inline struct ziw_irq_entry *ziw_irq_slot(struct ziw_conn *conn, u32 index)
{
	return *ziw_irq_block(conn, index) + index % ZIW_IRQ_BLOCK;
}

static inline u32 ziw_orq_slots(const struct ziw_conn *conn)
{
	return roundup_pow_of_two(max(conn->orq_size, 1U));
}

static inline struct ziw_orq_entry *ziw_orq_slot(struct ziw_conn *conn, u32 index)
{
	return &conn->orq[index & (ziw_orq_slots(conn) - 1)];
}

/* conn.c */
int ziw_conn_cache_init(void);
void ziw_conn_cache_exit(void);
struct ziw_conn *ziw_conn_alloc(struct ziw_dev *dev, struct socket *sock,
				bool initiator);
void ziw_conn_get(struct ziw_conn *conn);
void ziw_conn_put(struct ziw_conn *conn);
void ziw_conn_kick(struct ziw_conn *conn);
void ziw_conn_retry(struct ziw_conn *conn, unsigned long delay);
void ziw_conn_abort(struct ziw_conn *conn);
void ziw_conn_start_timer(struct ziw_conn *conn, unsigned int seconds);
void ziw_conn_stop_timer(struct ziw_conn *conn);
int ziw_conn_attach(struct ziw_conn *conn, struct ziw_qp *qp);
void ziw_conn_stream_start(struct ziw_conn *conn);
void ziw_conn_finish(struct ziw_conn *conn);
void ziw_conn_release_socket(struct ziw_conn *conn, bool abort);

/* setup.c */
void ziw_setup_step(struct ziw_conn *conn, bool aborted, bool timeout);
void ziw_conn_refuse(struct ziw_conn *conn);
int ziw_conn_send_frame(struct ziw_conn *conn, const struct ziw_mpa_frame *frame,
			const void *private_data);
const u8 *ziw_conn_private_data(const struct ziw_conn *conn);
bool ziw_conn_frame_whole(const struct ziw_conn *conn);

/* cm.c: what the connection tells its front end; conn->mutex held */
int ziw_cm_request(struct ziw_conn *conn);
void ziw_cm_reply(struct ziw_conn *conn, int status);
void ziw_cm_closed(struct ziw_conn *conn);
void ziw_cm_forget_request(struct ziw_conn *conn);
int ziw_cm_fallback(struct ziw_conn *conn);

int ziw_connect(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param);
int ziw_accept(struct iw_cm_id *cm_id, struct iw_cm_conn_param *param);
int ziw_reject(struct iw_cm_id *cm_id, const void *pdata, u8 pd_len);
void ziw_qp_add_ref(struct ib_qp *ibqp);
void ziw_qp_rem_ref(struct ib_qp *ibqp);
struct ib_qp *ziw_get_qp(struct ib_device *ibdev, int qpn);

/* listen.c */
struct ziw_listen;
int ziw_create_listen(struct iw_cm_id *cm_id, int backlog);
int ziw_destroy_listen(struct iw_cm_id *cm_id);
void ziw_listener_ready(void *listener);
struct iw_cm_id *ziw_listen_cm_id(struct ziw_listen *listen);
void ziw_listen_put(struct ziw_listen *listen);

/* collect.c */
void ziw_tx_kick(struct ziw_qp *qp, u32 busy);
void ziw_conn_retry_work(struct work_struct *work);
void ziw_conn_collect_work(struct work_struct *work);

/* send.c */
void ziw_tx_run(struct ziw_conn *conn);
bool ziw_tx_due(const struct ziw_conn *conn);
void ziw_tx_terminate(struct ziw_conn *conn, const struct ziw_terminate *term);
void ziw_tx_reap(struct ziw_conn *conn);
u32 ziw_orq_token(u32 msn);
void ziw_batch_sent(struct ziw_batch *batch, unsigned int len);
void ziw_batch_drop(struct ziw_batch *batch);
void ziw_arena_exit(void);

/* receive.c */
void ziw_rx_run(struct ziw_conn *conn);

/* llp_tcp.c */
int ziw_llp_init(void);
int ziw_llp_create(struct ziw_dev *dev, int family, struct socket **sock);
void ziw_llp_setup(const struct ziw_dev *dev, struct socket *sock);
int ziw_llp_send(struct sock *sk, struct ziw_batch *batch, bool more);
void ziw_llp_install(struct sock *sk, struct ziw_conn *conn);
void ziw_llp_use_reserves(struct sock *sk);
void ziw_llp_remove(struct sock *sk);
void ziw_llp_addresses(const struct sock *sk, struct sockaddr_storage *local,
		       struct sockaddr_storage *remote);
void ziw_llp_release(struct socket *sock, bool abort);
void ziw_llp_forget_routes(struct sock *sk);
void ziw_llp_listen_callbacks(struct sock *sk, void *listener);

/* An IPv6 socket that listens to both takes IPv4 connections as mapped ones. */
static inline bool ziw_llp_is_ipv4(const struct sock *sk)
{
#if IS_ENABLED(CONFIG_IPV6)
	return sk->sk_family == AF_INET || ipv6_addr_v4mapped(&sk->sk_v6_daddr);
#else
	return true;
#endif
}

/* Everything that the peer has acknowledged lies before this. Socket lock. */
static inline u32 ziw_llp_acked(const struct sock *sk)
{
	return tcp_sk(sk)->snd_una;
}

/*
 * On its fast path TCP acknowledges a segment before it calls sk_data_ready. The sender
 * may be on this host, and may write to the pages that the segment still refers to as soon
 * as it has the acknowledgment. So each segment takes the other path, where the
 * acknowledgment follows the call. TCP takes the fast one up again with each change of a
 * window, so it is called at the end of each packet. Socket lock.
 */
static inline void ziw_llp_no_fast_path(struct sock *sk)
{
	tcp_sk(sk)->pred_flags = 0;
}

/* Where the next byte handed to TCP goes. Socket lock. */
static inline u32 ziw_llp_next(const struct sock *sk)
{
	return tcp_sk(sk)->write_seq;
}

/* The largest window that the peer has offered. Socket lock. */
static inline u32 ziw_llp_window(const struct sock *sk)
{
	return tcp_sk(sk)->max_window;
}

/* Payload of a full segment. Socket lock. */
static inline u32 ziw_llp_emss(const struct sock *sk)
{
	return tcp_sk(sk)->mss_cache;
}

#endif /* ZIW_CONN_H */
