// SPDX-License-Identifier: GPL-2.0
/*
 * The lower layer: kernel TCP sockets. Everything that ziw does to a socket is
 * here, and what TCP calls back.
 */
#include <linux/in6.h>
#include <linux/uio.h>
#include <net/ipv6.h>
#include <net/tcp.h>
#include "conn.h"

/* A full window must hold an FPDU of 64 KiB, or it would never be whole. */
#define MIN_RCVBUF	(512 * 1024)

/* What TCP calls where nobody else wants to be called. */
static struct {
	void	(*state_change)(struct sock *sk);
	void	(*data_ready)(struct sock *sk);
	void	(*write_space)(struct sock *sk);
	void	(*error_report)(struct sock *sk);
} default_callbacks;

/**
 * ziw_llp_init - learn what a fresh socket's callbacks are
 *
 * Context: process, before any socket is made.
 * Return: 0 or a negative error.
 */
int ziw_llp_init(void)
{
	struct socket *sock;
	int err;

	err = sock_create_kern(&init_net, AF_INET, SOCK_STREAM, IPPROTO_TCP, &sock);
	if (err)
		return err;
	default_callbacks.state_change = sock->sk->sk_state_change;
	default_callbacks.data_ready = sock->sk->sk_data_ready;
	default_callbacks.write_space = sock->sk->sk_write_space;
	default_callbacks.error_report = sock->sk->sk_error_report;
	sock_release(sock);
	return 0;
}

/**
 * ziw_llp_setup - options of a socket that is or will be connected
 * @dev: device
 * @sock: socket
 *
 * Context: process.
 */
void ziw_llp_setup(const struct ziw_dev *dev, struct socket *sock)
{
	u32 timeout = ziw_param(dev, ZIW_PARAM_USER_TIMEOUT);
	struct sock *sk = sock->sk;

	tcp_sock_set_nodelay(sk);
	sock_set_keepalive(sk);
	/* Silence ends a connection in the same time whether or not data is due. */
	tcp_sock_set_keepidle(sk, max(timeout / 2, 1U));
	tcp_sock_set_keepintvl(sk, max(timeout / 10, 1U));
	tcp_sock_set_keepcnt(sk, 5);
	tcp_sock_set_user_timeout(sk, timeout * MSEC_PER_SEC);
	/* The engines allocate in softirq. */
	sk->sk_allocation = GFP_ATOMIC;
	sk->sk_use_task_frag = false;
	if (sk->sk_rcvbuf < MIN_RCVBUF)
		WRITE_ONCE(sk->sk_rcvbuf, MIN_RCVBUF);
}

/**
 * ziw_llp_create - make a socket in the network namespace of the device
 * @dev: device
 * @family: AF_INET or AF_INET6
 * @sock: set to the socket
 *
 * Context: process.
 * Return: 0 or a negative error.
 */
int ziw_llp_create(struct ziw_dev *dev, int family, struct socket **sock)
{
	int err;

	err = sock_create_kern(dev_net(dev->netdev), family, SOCK_STREAM,
			       IPPROTO_TCP, sock);
	if (err)
		return err;
	ziw_llp_setup(dev, *sock);
	return 0;
}

#if ZIW_HAS_SPLICE_PAGES
static int batch_to_tcp(struct sock *sk, struct ziw_batch *batch, bool more)
{
	struct msghdr msg = {
		.msg_flags = MSG_SPLICE_PAGES | MSG_DONTWAIT | MSG_NOSIGNAL |
			     (more ? MSG_MORE : 0),
	};

	iov_iter_bvec(&msg.msg_iter, ITER_SOURCE, &batch->frag[batch->first],
		      batch->num - batch->first, batch->bytes);
	return tcp_sendmsg_locked(sk, &msg, batch->bytes);
}
#else
static int batch_to_tcp(struct sock *sk, struct ziw_batch *batch, bool more)
{
	unsigned int i, off, part;
	int sent = 0, n;

	for (i = batch->first; i < batch->num; i++) {
		const struct bio_vec *frag = &batch->frag[i];

		/* TCP takes one reference per call. */
		for (off = 0; off < frag->bv_len; off += part) {
			unsigned int at = frag->bv_offset + off;
			int flags = MSG_DONTWAIT | MSG_NOSIGNAL;

			part = min_t(unsigned int, frag->bv_len - off,
				     PAGE_SIZE - offset_in_page(at));
			if (more || sent + part < batch->bytes)
				flags |= MSG_MORE | MSG_SENDPAGE_NOTLAST;
			n = do_tcp_sendpages(sk, frag->bv_page + (at >> PAGE_SHIFT),
					     offset_in_page(at), part, flags);
			if (n <= 0)
				return sent ? sent : n;
			sent += n;
			if (n < part)
				return sent;
		}
	}
	return sent;
}
#endif

/**
 * ziw_llp_send - hand a batch to TCP
 * @sk: socket; spinlock held, not owned by a user
 * @batch: what was taken is dropped from it
 * @more: more follows at once
 *
 * Context: bottom halves off.
 * Return: 0 when all was taken; -EAGAIN when TCP has no room now; another
 * negative error when the connection is broken.
 */
int ziw_llp_send(struct sock *sk, struct ziw_batch *batch, bool more)
{
	int n, err = 0;

	/* TCP takes it for a sender that has no room, and leaves the congestion window as it is. */
	clear_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
	while (batch->bytes && !err) {
		n = batch_to_tcp(sk, batch, more);
		if (n > 0)
			ziw_batch_sent(batch, n);
		else
			err = !n || n == -ENOMEM || n == -ENOBUFS ? -EAGAIN : n;
	}
	set_bit(SOCK_NOSPACE, &sk->sk_socket->flags);
	return err;
}

/* --- callbacks; softirq with the socket's spinlock, or process with the socket owned --- */

static void conn_data_ready(struct sock *sk)
{
	struct ziw_conn *conn;

	local_bh_disable();
	rcu_read_lock();
	conn = rcu_dereference_sk_user_data(sk);
	if (conn) {
		if (test_bit(ZIW_CONN_IN_STREAM, &conn->flags))
			ziw_rx_run(conn);
		else
			ziw_conn_kick(conn);
	}
	rcu_read_unlock();
	local_bh_enable();
}

/* At the end of each packet, for SOCK_NOSPACE is set but while we send. */
static void conn_write_space(struct sock *sk)
{
	struct ziw_conn *conn;

	rcu_read_lock();
	conn = rcu_dereference_sk_user_data(sk);
	if (conn && test_bit(ZIW_CONN_IN_STREAM, &conn->flags)) {
		ziw_llp_no_fast_path(sk);
		/* What else the engine may wait for calls it by itself. */
		if (conn->tx.batch.bytes ||
		    (conn->qp && conn->qp->sq.acked != conn->qp->sq.next)) {
			local_bh_disable();
			ziw_tx_run(conn);
			local_bh_enable();
		}
	}
	rcu_read_unlock();
}

static void conn_state_change(struct sock *sk)
{
	struct ziw_conn *conn;

	local_bh_disable();
	rcu_read_lock();
	conn = rcu_dereference_sk_user_data(sk);
	if (conn) {
		/* What came before the end still counts. */
		if (test_bit(ZIW_CONN_IN_STREAM, &conn->flags))
			ziw_rx_run(conn);
		ziw_conn_kick(conn);
	}
	rcu_read_unlock();
	local_bh_enable();
}

static void conn_error_report(struct sock *sk)
{
	struct ziw_conn *conn;

	rcu_read_lock();
	conn = rcu_dereference_sk_user_data(sk);
	if (conn)
		ziw_conn_kick(conn);
	rcu_read_unlock();
}

static void listen_data_ready(struct sock *sk)
{
	void *listener;

	rcu_read_lock();
	listener = rcu_dereference_sk_user_data(sk);
	/* A child inherits this callback, but not the pointer. */
	if (listener)
		ziw_listener_ready(listener);
	rcu_read_unlock();
}

/* A socket accepted from a listener must not inherit the listener's pointer. */
static void set_user_data(struct sock *sk, void *data)
{
	__rcu_assign_sk_user_data_with_flags(sk, data, SK_USER_DATA_NOCOPY);
}

/**
 * ziw_llp_install - have TCP call the connection
 * @sk: socket
 * @conn: connection; holds a reference to @sk until it is freed after RCU
 *
 * Context: process.
 */
void ziw_llp_install(struct sock *sk, struct ziw_conn *conn)
{
	lock_sock(sk);
	set_user_data(sk, conn);
	sk->sk_error_report = conn_error_report;
	sk->sk_data_ready = conn_data_ready;
	sk->sk_state_change = conn_state_change;
	sk->sk_write_space = conn_write_space;
	release_sock(sk);
}

/**
 * ziw_llp_use_reserves - memory may have to be freed by way of this socket
 * @sk: socket, owned
 *
 * What the kernel's initiators send and receive may be swap or writeback, which has to go
 * on when memory is short.
 *
 * Context: process.
 */
void ziw_llp_use_reserves(struct sock *sk)
{
	if (!sock_flag(sk, SOCK_MEMALLOC))
		sk_set_memalloc(sk);
}

/**
 * ziw_llp_listen_callbacks - have TCP call a listener
 * @sk: listening socket
 * @listener: passed to ziw_listener_ready(); freed after RCU only
 *
 * Context: process.
 */
void ziw_llp_listen_callbacks(struct sock *sk, void *listener)
{
	lock_sock(sk);
	set_user_data(sk, listener);
	sk->sk_data_ready = listen_data_ready;
	release_sock(sk);
}

/**
 * ziw_llp_remove - end callbacks
 * @sk: socket
 *
 * The socket may outlive the module, in FIN_WAIT or as a child that nobody
 * accepted, so nothing of the module stays behind in it.
 *
 * Context: process. On return no callback of this socket runs or will run.
 */
void ziw_llp_remove(struct sock *sk)
{
	lock_sock(sk);
	if (sock_flag(sk, SOCK_MEMALLOC))
		sk_clear_memalloc(sk);
	rcu_assign_sk_user_data(sk, NULL);
	sk->sk_state_change = default_callbacks.state_change;
	sk->sk_data_ready = default_callbacks.data_ready;
	sk->sk_write_space = default_callbacks.write_space;
	sk->sk_error_report = default_callbacks.error_report;
	release_sock(sk);
}

/**
 * ziw_llp_addresses - both ends of a connection
 * @sk: socket
 * @local: filled; was zero
 * @remote: filled; was zero
 */
void ziw_llp_addresses(const struct sock *sk, struct sockaddr_storage *local,
		       struct sockaddr_storage *remote)
{
	const struct inet_sock *inet = inet_sk(sk);

	if (ziw_llp_is_ipv4(sk)) {
		struct sockaddr_in *l = (struct sockaddr_in *)local;
		struct sockaddr_in *r = (struct sockaddr_in *)remote;

		l->sin_family = AF_INET;
		l->sin_port = inet->inet_sport;
		l->sin_addr.s_addr = inet->inet_saddr;
		r->sin_family = AF_INET;
		r->sin_port = inet->inet_dport;
		r->sin_addr.s_addr = inet->inet_daddr;
	}
#if IS_ENABLED(CONFIG_IPV6)
	if (!ziw_llp_is_ipv4(sk)) {
		struct sockaddr_in6 *l = (struct sockaddr_in6 *)local;
		struct sockaddr_in6 *r = (struct sockaddr_in6 *)remote;
		int dev = sk->sk_bound_dev_if;

		l->sin6_family = AF_INET6;
		l->sin6_port = inet->inet_sport;
		l->sin6_addr = sk->sk_v6_rcv_saddr;
		l->sin6_scope_id = ipv6_iface_scope_id(&l->sin6_addr, dev);
		r->sin6_family = AF_INET6;
		r->sin6_port = inet->inet_dport;
		r->sin6_addr = sk->sk_v6_daddr;
		r->sin6_scope_id = ipv6_iface_scope_id(&r->sin6_addr, dev);
	}
#endif
}

/**
 * ziw_llp_forget_routes - a closed socket may outlive its network namespace
 * @sk: socket, released; the caller has a reference
 *
 * A page that is waited for, say, keeps it. Its routes must not be left until then.
 *
 * Context: process.
 */
void ziw_llp_forget_routes(struct sock *sk)
{
	lock_sock(sk);
	if (sk->sk_state == TCP_CLOSE) {
		sk_dst_reset(sk);
		dst_release(xchg((__force struct dst_entry **)&sk->sk_rx_dst, NULL));
	}
	release_sock(sk);
}

/**
 * ziw_llp_release - close a socket
 * @sock: socket, after ziw_llp_remove()
 * @abort: reset it and forget what was not sent; else the FIN follows what TCP
 *         still has
 *
 * Context: process.
 */
void ziw_llp_release(struct socket *sock, bool abort)
{
	if (abort)
		sock_no_linger(sock->sk);
	sock_release(sock);
}
