// SPDX-License-Identifier: GPL-2.0
/*
 * Listening.
 *
 *	ziw_listener	a listening socket
 *	ziw_listen	one iw_cm listen on it, of one device
 *
 * A listen on a specific address has a socket of its own. Listens on the
 * wildcard address and the same port, one on each device of a network
 * namespace, share one socket; a connection goes to the device whose interface
 * has the local address. So a host reaches itself by its own address, which a
 * socket bound to the interface would not allow.
 */
#include <linux/inetdevice.h>
#include <net/addrconf.h>
#include <net/ipv6.h>
#include <net/tcp.h>
#include "conn.h"

/* Peers that have connected but not yet said what they want, for each listen. */
#define MIN_HALF_OPEN	128

/* Between tries to accept when memory is short: far less than any peer waits. */
#define ACCEPT_RETRY_JIFFIES	(HZ / 20)

/**
 * struct ziw_listener - a listening socket
 * @entry: in listeners, if it is for the wildcard address
 * @sock: the socket
 * @net: its network namespace
 * @family: AF_INET or AF_INET6
 * @port: network byte order
 * @wildcard: bound to no address
 * @v6only: does not take IPv4 connections
 * @listens: who listens; at least one; guarded by listeners_lock
 * @work: accepts
 * @rcu: sk_user_data is read under RCU
 */
struct ziw_listener {
	struct list_head	entry;
	struct socket		*sock;
	struct net		*net;
	int			family;
	__be16			port;
	bool			wildcard;
	bool			v6only;
	struct list_head	listens;
	struct delayed_work	work;
	struct rcu_head		rcu;
};

/**
 * struct ziw_listen - one listen of iw_cm
 * @ref: one of iw_cm, one of each connection until iw_cm has its request
 * @entry: in listener->listens; guarded by listeners_lock
 * @listener: the socket; NULL once iw_cm has ended it; guarded by listen_lock
 * @dev: device
 * @cm_id: NULL once iw_cm has ended it; guarded by listen_lock
 * @backlog: as asked for
 * @half_open: connections that wait for their Request Frame
 */
struct ziw_listen {
	struct kref		ref;
	struct list_head	entry;
	struct ziw_listener	*listener;
	struct ziw_dev		*dev;
	struct iw_cm_id		*cm_id;
	int			backlog;
	atomic_t		half_open;
};

/* Guards the list, and the listens of each. Taken before any conn->mutex. */
static DEFINE_MUTEX(listeners_lock);
static LIST_HEAD(listeners);

/* Guards what a connection asks of its listen, conn->mutex held. */
static DEFINE_SPINLOCK(listen_lock);

static void listen_release(struct kref *ref)
{
	kfree(container_of(ref, struct ziw_listen, ref));
	ziw_live_add(ZIW_LIVE_LISTENER, -1);
}

/**
 * ziw_listen_put - a connection no longer waits for its Request Frame
 * @listen: the connection's listen
 *
 * Context: process.
 */
void ziw_listen_put(struct ziw_listen *listen)
{
	atomic_dec(&listen->half_open);
	/* There may be more in TCP's queue than we had room for. */
	spin_lock(&listen_lock);
	if (listen->listener)
		mod_delayed_work(ziw_wq, &listen->listener->work, 0);
	spin_unlock(&listen_lock);
	kref_put(&listen->ref, listen_release);
}

/**
 * ziw_listen_cm_id - whom to tell of a request
 * @listen: the connection's listen
 *
 * Context: process.
 * Return: the cm_id, with a reference; NULL if iw_cm has ended the listen.
 */
struct iw_cm_id *ziw_listen_cm_id(struct ziw_listen *listen)
{
	struct iw_cm_id *cm_id;

	spin_lock(&listen_lock);
	cm_id = listen->cm_id;
	if (cm_id)
		cm_id->add_ref(cm_id);
	spin_unlock(&listen_lock);
	return cm_id;
}

/* --- whose connection is it --- */

static bool netdev_has_ipv4(struct net_device *netdev, __be32 addr)
{
	struct in_device *in_dev;
	struct in_ifaddr *ifa;

	if (netdev->flags & IFF_LOOPBACK && ipv4_is_loopback(addr))
		return true;
	in_dev = __in_dev_get_rcu(netdev);
	if (!in_dev)
		return false;
	in_dev_for_each_ifa_rcu(ifa, in_dev)
		if (ifa->ifa_local == addr)
			return true;
	return false;
}

#if IS_ENABLED(CONFIG_IPV6)
static bool netdev_has_ipv6(struct net_device *netdev, struct sock *sk)
{
	/* A link-local address is one of its link, and another link may have the same. */
	if (sk->sk_bound_dev_if && sk->sk_bound_dev_if != netdev->ifindex &&
	    ipv6_addr_type(&sk->sk_v6_rcv_saddr) & IPV6_ADDR_LINKLOCAL)
		return false;
	return ipv6_chk_addr(dev_net(netdev), &sk->sk_v6_rcv_saddr, netdev, 1);
}
#else
static bool netdev_has_ipv6(struct net_device *netdev, struct sock *sk)
{
	return false;
}
#endif

static bool netdev_has_local(struct net_device *netdev, struct sock *sk)
{
	bool ret;

	rcu_read_lock();
	if (ziw_llp_is_ipv4(sk))
		ret = netdev_has_ipv4(netdev, inet_sk(sk)->inet_saddr);
	else
		ret = netdev_has_ipv6(netdev, sk);
	rcu_read_unlock();
	return ret;
}

static struct ziw_listen *find_listen(struct ziw_listener *listener, struct sock *sk)
{
	struct ziw_listen *listen;

	list_for_each_entry(listen, &listener->listens, entry)
		if (!listener->wildcard || netdev_has_local(listen->dev->netdev, sk))
			return listen;
	return NULL;
}

/* --- accepting --- */

static bool have_room(struct ziw_listener *listener)
{
	struct ziw_listen *listen;

	/* One that is full must not make the others wait: its peers are turned away. */
	list_for_each_entry(listen, &listener->listens, entry)
		if (atomic_read(&listen->half_open) < max(listen->backlog, MIN_HALF_OPEN))
			return true;
	return false;
}

static void accept_one(struct ziw_listener *listener, struct socket *sock)
{
	struct ziw_listen *listen = find_listen(listener, sock->sk);
	struct ziw_conn *conn;

	if (!listen ||
	    atomic_read(&listen->half_open) >= max(listen->backlog, MIN_HALF_OPEN))
		goto refuse;
	ziw_llp_setup(listen->dev, sock);
	conn = ziw_conn_alloc(listen->dev, sock, false);
	if (IS_ERR(conn))
		goto refuse;
	kref_get(&listen->ref);
	atomic_inc(&listen->half_open);

	conn->listen = listen;
	ziw_llp_install(conn->sk, conn);
	ziw_conn_start_timer(conn, ziw_param(conn->dev, ZIW_PARAM_SETUP_TIMEOUT));
	/* The frame may have come before the callbacks. */
	ziw_conn_kick(conn);
	mutex_unlock(&conn->mutex);
	ziw_conn_put(conn);
	return;

refuse:
	ziw_llp_remove(sock->sk);
	ziw_llp_release(sock, true);
}

static void listener_work(struct work_struct *work)
{
	struct ziw_listener *listener = container_of(to_delayed_work(work),
						     struct ziw_listener, work);
	int budget = MIN_HALF_OPEN, err = 0;
	struct socket *sock;

	mutex_lock(&listeners_lock);
	while (budget && have_room(listener)) {
		err = kernel_accept(listener->sock, &sock, O_NONBLOCK);
		if (err)
			break;
		accept_one(listener, sock);
		budget--;
	}
	mutex_unlock(&listeners_lock);
	/*
	 * A flood that is turned away leaves the lock to others in between. For
	 * what memory was too short for, TCP does not call a second time.
	 */
	if (!budget)
		mod_delayed_work(ziw_wq, &listener->work, 0);
	else if (err == -ENOMEM)
		queue_delayed_work(ziw_wq, &listener->work, ACCEPT_RETRY_JIFFIES);
}

/**
 * ziw_listener_ready - TCP has a connection to accept
 * @listener: struct ziw_listener
 *
 * Context: softirq.
 */
void ziw_listener_ready(void *listener)
{
	mod_delayed_work(ziw_wq, &((struct ziw_listener *)listener)->work, 0);
}

/* --- making and ending --- */

static bool is_wildcard(const struct sockaddr_storage *addr)
{
	if (addr->ss_family == AF_INET)
		return ((const struct sockaddr_in *)addr)->sin_addr.s_addr ==
		       htonl(INADDR_ANY);
	return ipv6_addr_any(&((const struct sockaddr_in6 *)addr)->sin6_addr);
}

static __be16 port_of(const struct sockaddr_storage *addr)
{
	/* The port is at the same place in both. */
	return ((const struct sockaddr_in *)addr)->sin_port;
}

static struct ziw_listener *find_listener(struct net *net,
					  const struct sockaddr_storage *addr, bool v6only)
{
	struct ziw_listener *listener;

	list_for_each_entry(listener, &listeners, entry)
		if (listener->net == net && listener->family == addr->ss_family &&
		    listener->port == port_of(addr) && listener->v6only == v6only)
			return listener;
	return NULL;
}

static struct ziw_listener *make_listener(struct ziw_dev *dev,
					  struct sockaddr_storage *addr, bool v6only,
					  int backlog)
{
	int len = addr->ss_family == AF_INET ? sizeof(struct sockaddr_in) :
		  sizeof(struct sockaddr_in6);
	struct ziw_listener *listener;
	int err;

	listener = kzalloc(sizeof(*listener), GFP_KERNEL);
	if (!listener)
		return ERR_PTR(-ENOMEM);
	INIT_LIST_HEAD(&listener->entry);
	INIT_LIST_HEAD(&listener->listens);
	INIT_DELAYED_WORK(&listener->work, listener_work);
	listener->net = dev_net(dev->netdev);
	listener->family = addr->ss_family;
	listener->port = port_of(addr);
	listener->wildcard = is_wildcard(addr);
	listener->v6only = v6only;

	err = ziw_llp_create(dev, addr->ss_family, &listener->sock);
	if (err)
		goto err_free;
	sock_set_reuseaddr(listener->sock->sk);
	if (v6only)
		ip6_sock_set_v6only(listener->sock->sk);
	err = kernel_bind(listener->sock, ziw_sockaddr(addr), len);
	if (err)
		goto err_sock;
	ziw_llp_listen_callbacks(listener->sock->sk, listener);
	err = kernel_listen(listener->sock, backlog);
	if (err)
		goto err_listen;
	if (listener->wildcard)
		list_add(&listener->entry, &listeners);
	return listener;

err_listen:
	ziw_llp_remove(listener->sock->sk);
err_sock:
	sock_release(listener->sock);
err_free:
	kfree_rcu(listener, rcu);
	return ERR_PTR(err);
}

static void end_listener(struct ziw_listener *listener)
{
	ziw_llp_remove(listener->sock->sk);
	/* A lock-free reader of sk_user_data may queue the work for the last time. */
	synchronize_rcu();
	cancel_delayed_work_sync(&listener->work);
	sock_release(listener->sock);
	kfree(listener);
}

/**
 * ziw_create_listen - iw_cm: listen
 * @cm_id: with the local address, which may be the wildcard
 * @backlog: connection requests that may wait
 *
 * Context: process.
 * Return: 0; -EADDRINUSE, -ENODEV if the device is going away, -ENOMEM.
 */
int ziw_create_listen(struct iw_cm_id *cm_id, int backlog)
{
	struct sockaddr_storage addr = cm_id->m_local_addr;
	struct ziw_dev *dev = to_ziw_dev(cm_id->device);
	struct ziw_listener *listener = NULL;
	bool v6only = addr.ss_family == AF_INET6 && cm_id->afonly;
	struct ziw_listen *listen;
	int err = 0;

	if (addr.ss_family != AF_INET && addr.ss_family != AF_INET6)
		return -EAFNOSUPPORT;
	listen = kzalloc(sizeof(*listen), GFP_KERNEL);
	if (!listen)
		return -ENOMEM;
	ziw_live_add(ZIW_LIVE_LISTENER, 1);
	kref_init(&listen->ref);
	listen->dev = dev;
	listen->backlog = backlog;

	mutex_lock(&listeners_lock);
	if (!ziw_dev_conn_get(dev)) {
		err = -ENODEV;
		goto err_free;
	}
	if (is_wildcard(&addr))
		listener = find_listener(dev_net(dev->netdev), &addr, v6only);
	if (!listener)
		listener = make_listener(dev, &addr, v6only, backlog);
	if (IS_ERR(listener)) {
		err = PTR_ERR(listener);
		goto err_conn;
	}
	listen->listener = listener;
	listen->cm_id = cm_id;
	cm_id->add_ref(cm_id);
	cm_id->provider_data = listen;
	list_add_tail(&listen->entry, &listener->listens);
	mutex_unlock(&listeners_lock);
	return 0;

err_conn:
	ziw_dev_conn_put(dev);
err_free:
	mutex_unlock(&listeners_lock);
	kref_put(&listen->ref, listen_release);
	return err;
}

/**
 * ziw_destroy_listen - iw_cm: end a listen
 * @cm_id: from ziw_create_listen()
 *
 * Context: process.
 * Return: 0.
 */
int ziw_destroy_listen(struct iw_cm_id *cm_id)
{
	struct ziw_listen *listen = cm_id->provider_data;
	struct ziw_listener *listener;

	mutex_lock(&listeners_lock);
	spin_lock(&listen_lock);
	listener = listen->listener;
	listen->listener = NULL;
	listen->cm_id = NULL;
	spin_unlock(&listen_lock);
	list_del(&listen->entry);
	if (list_empty(&listener->listens))
		list_del_init(&listener->entry);
	else
		listener = NULL;
	mutex_unlock(&listeners_lock);

	if (listener)
		end_listener(listener);
	cm_id->provider_data = NULL;
	cm_id->rem_ref(cm_id);
	ziw_dev_conn_put(listen->dev);
	kref_put(&listen->ref, listen_release);
	return 0;
}
