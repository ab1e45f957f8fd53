// SPDX-License-Identifier: GPL-2.0
/*
 * Loading and unloading, `rdma link add`, and what happens to the interface
 * below a device.
 */
#include <linux/if_arp.h>
#include <linux/jhash.h>
#include <linux/module.h>
#include <net/net_namespace.h>
#include <rdma/rdma_netlink.h>
#include "conn.h"
#include "inspect.h"

MODULE_DESCRIPTION("ziw: RDMA on any network interface, iWARP over TCP");
MODULE_LICENSE("GPL");
MODULE_ALIAS_RDMA_LINK("ziw");

struct workqueue_struct *ziw_wq;
EXPORT_SYMBOL_IF_KUNIT(ziw_wq);

/* Request Frames, sent and received in turn; nothing on it waits for a peer. */
struct workqueue_struct *ziw_setup_wq;

/* Sends that were collected: soon, and where the administrator wants them (WQ_SYSFS). */
struct workqueue_struct *ziw_send_wq;

atomic64_t ziw_live[ZIW_LIVE_NUM];
EXPORT_SYMBOL_IF_KUNIT(ziw_live);

static const char *const live_names[ZIW_LIVE_NUM] = {
	[ZIW_LIVE_DEV]		= "devices",
	[ZIW_LIVE_RING]		= "rings",
	[ZIW_LIVE_MR]		= "memory regions",
	[ZIW_LIVE_CONN]		= "connections",
	[ZIW_LIVE_LISTENER]	= "listeners",
};

static LIST_HEAD(devs);
static DEFINE_SPINLOCK(devs_lock);
static DECLARE_WAIT_QUEUE_HEAD(devs_wait);

/* --- devices --- */

/**
 * ziw_dev_conn_get - count one connection or listener
 * @dev: device
 *
 * Return: false if the device is going away.
 */
bool ziw_dev_conn_get(struct ziw_dev *dev)
{
	bool ok;

	spin_lock_bh(&dev->conns_lock);
	ok = !dev->dying;
	if (ok)
		atomic_inc(&dev->nr_conns);
	spin_unlock_bh(&dev->conns_lock);
	return ok;
}

/**
 * ziw_dev_conn_put - its socket is released
 * @dev: device; not to be touched any more
 */
void ziw_dev_conn_put(struct ziw_dev *dev)
{
	/* Under the lock, so that who waits does not free the device too soon. */
	spin_lock_bh(&dev->conns_lock);
	if (atomic_dec_and_test(&dev->nr_conns))
		wake_up_all(&dev->conns_wait);
	spin_unlock_bh(&dev->conns_lock);
}

/**
 * ziw_dev_kill - end all connections, and allow no new ones
 * @dev: device
 *
 * Context: process. Does not wait.
 */
void ziw_dev_kill(struct ziw_dev *dev)
{
	struct ziw_conn *conn;

	spin_lock_bh(&dev->conns_lock);
	dev->dying = true;
	list_for_each_entry(conn, &dev->conns, entry) {
		ziw_because(conn, ZIW_WHY_DEVICE_GONE, 0);
		ziw_conn_abort(conn);
	}
	spin_unlock_bh(&dev->conns_lock);
}

static void dev_wait_conns(struct ziw_dev *dev)
{
	ziw_dev_kill(dev);
	wait_event(dev->conns_wait, !atomic_read(&dev->nr_conns));
	/* See ziw_dev_conn_put(). */
	spin_lock_bh(&dev->conns_lock);
	spin_unlock_bh(&dev->conns_lock);
}

/* Nobody has an object of the device any more, so what is counted was forgotten. */
static void report_dev_leaks(const struct ziw_dev *dev)
{
	const struct {
		const char *name;
		s64 count;
	} counts[] = {
		{ "PDs", atomic_read(&dev->nr_pd) },
		{ "CQs", atomic_read(&dev->nr_cq) },
		{ "SRQs", atomic_read(&dev->nr_srq) },
		{ "QPs", atomic_read(&dev->nr_qp) },
		{ "STags", atomic_read(&dev->nr_mr) },
		{ "bytes of rings", atomic64_read(&dev->ring_bytes) },
		{ "pinned bytes", atomic64_read(&dev->pinned_bytes) },
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(counts); i++)
		if (counts[i].count)
			pr_err("ziw: leak: %lld %s of a device\n", counts[i].count,
			       counts[i].name);
}

/**
 * ziw_dev_free - the RDMA core has let go of the device
 * @dev: device
 *
 * Context: process. The core frees the memory afterwards.
 */
void ziw_dev_free(struct ziw_dev *dev)
{
	dev_wait_conns(dev);
	report_dev_leaks(dev);
	cancel_work_sync(&dev->gid_work);
	ziw_poller_exit(&dev->poller);
	spin_lock(&devs_lock);
	list_del(&dev->entry);
	spin_unlock(&devs_lock);
	wake_up_all(&devs_wait);
	xa_destroy(&dev->qps);
	xa_destroy(&dev->mrs);
	xa_destroy(&dev->requests);
	ziw_inspect_exit(dev);
	netdev_put(dev->netdev, &dev->netdev_tracker);
	ziw_live_add(ZIW_LIVE_DEV, -1);
}

static const char *why_not(const struct net_device *netdev)
{
	if (netdev->type == ARPHRD_INFINIBAND)
		return "IPoIB has RDMA below it already";
	if (netdev->flags & IFF_SLAVE || netif_is_bridge_port(netdev) ||
	    netif_is_team_port(netdev))
		return "it is a port of a bond, team or bridge: use that one";
	if (netdev->type == ARPHRD_CAN || netdev->type == ARPHRD_NETLINK)
		return "it does not carry IP";
	if (netdev->mtu < IPV4_MIN_MTU)
		return "its MTU is too small for IP";
	return NULL;
}

static void dev_make_gid(struct ziw_dev *dev)
{
	const struct net_device *netdev = dev->netdev;
	u32 seed = jhash(netdev->name, strlen(netdev->name), netdev->ifindex);

	/* Locally administered, so that it cannot be a real MAC's. */
	dev->gid.raw[0] = 0x02;
	dev->gid.raw[1] = 'z';
	put_unaligned_be32(seed, dev->gid.raw + 2);
}

static void dev_init(struct ziw_dev *dev, struct net_device *netdev)
{
	dev->netdev = netdev;
	netdev_hold(netdev, &dev->netdev_tracker, GFP_KERNEL);
	dev_make_gid(dev);
	ziw_gids_init(dev);
	ziw_params_init(dev);
	xa_init(&dev->mrs);
	xa_init_flags(&dev->qps, XA_FLAGS_ALLOC);
	xa_init_flags(&dev->requests, XA_FLAGS_ALLOC1);
	ziw_poller_init(&dev->poller);
	spin_lock_init(&dev->conns_lock);
	INIT_LIST_HEAD(&dev->conns);
	init_waitqueue_head(&dev->conns_wait);

	dev->ibdev.node_type = RDMA_NODE_RNIC;
	strscpy(dev->ibdev.node_desc, "ziw", sizeof(dev->ibdev.node_desc));
	dev->ibdev.phys_port_cnt = 1;
	dev->ibdev.num_comp_vectors = num_possible_cpus();
	dev->ibdev.local_dma_lkey = 0;
	/* The doorbells. */
	dev->ibdev.uverbs_cmd_mask |= BIT_ULL(IB_USER_VERBS_CMD_POST_SEND) |
				      BIT_ULL(IB_USER_VERBS_CMD_POST_RECV);
	/* The TCP stack hands out the ports: nothing to ask of a port mapper. */
	dev->ibdev.iw_driver_flags = IW_F_NO_PORT_MAP;
	strscpy(dev->ibdev.iw_ifname, netdev->name, sizeof(dev->ibdev.iw_ifname));
	ib_set_device_ops(&dev->ibdev, &ziw_device_ops);
}

static int ziw_newlink(const char *name, struct net_device *netdev)
{
	const char *why = why_not(netdev);
	struct ib_device *ibdev;
	union ib_gid gid;
	struct ziw_dev *dev;
	int err;

	if (why) {
		pr_warn("ziw: no device on %s: %s\n", netdev->name, why);
		return -EOPNOTSUPP;
	}
	ibdev = ib_device_get_by_netdev(netdev, ZIW_RDMA_DRIVER_ID);
	if (ibdev) {
		pr_warn("ziw: no second device on %s: it has %s\n", netdev->name,
			dev_name(&ibdev->dev));
		ib_device_put(ibdev);
		return -EEXIST;
	}

	dev = ib_alloc_device(ziw_dev, ibdev);
	if (!dev)
		return -ENOMEM;
	dev_init(dev, netdev);
	err = ziw_inspect_init(dev);
	ziw_live_add(ZIW_LIVE_DEV, 1);
	spin_lock(&devs_lock);
	list_add(&dev->entry, &devs);
	spin_unlock(&devs_lock);

	if (err)
		goto err_dealloc;
	ziw_device_gid(dev, &gid);
	dev->ibdev.node_guid = gid.global.subnet_prefix;
	err = ib_device_set_netdev(&dev->ibdev, netdev, 1);
	if (err)
		goto err_dealloc;
	ziw_gids_update(dev);
	err = ib_register_device(&dev->ibdev, name, NULL);
	if (err)
		goto err_dealloc;
	/* Nobody told of addresses that came since. */
	ziw_gids_look(netdev);
	return 0;

err_dealloc:
	/* By way of dealloc_driver, which is ziw_dev_free(). */
	ib_dealloc_device(&dev->ibdev);
	return err;
}

static struct rdma_link_ops ziw_link_ops = {
	.type		= "ziw",
	.newlink	= ziw_newlink,
};

/* --- the interface below --- */

/**
 * ziw_port_event - tell who uses the device
 * @dev: device, registered
 * @type: of the event
 *
 * Context: any.
 */
void ziw_port_event(struct ziw_dev *dev, enum ib_event_type type)
{
	struct ib_event event = {
		.device			= &dev->ibdev,
		.element.port_num	= 1,
		.event			= type,
	};

	ib_dispatch_event(&event);
}

static int ziw_netdev_event(struct notifier_block *nb, unsigned long event,
			    void *info)
{
	struct net_device *netdev = netdev_notifier_info_to_dev(info);
	struct ib_device *ibdev;
	struct ziw_dev *dev;

	ibdev = ib_device_get_by_netdev(netdev, ZIW_RDMA_DRIVER_ID);
	if (!ibdev)
		return NOTIFY_OK;
	dev = to_ziw_dev(ibdev);

	switch (event) {
	case NETDEV_UP:
	case NETDEV_DOWN:
	case NETDEV_CHANGE:
		ziw_port_event(dev, netif_running(netdev) && netif_carrier_ok(netdev) &&
			       event != NETDEV_DOWN ? IB_EVENT_PORT_ACTIVE :
			       IB_EVENT_PORT_ERR);
		break;
	case NETDEV_CHANGEADDR:
		ziw_port_event(dev, IB_EVENT_GID_CHANGE);
		break;
	case NETDEV_CHANGENAME:
		strscpy(ibdev->iw_ifname, netdev->name, sizeof(ibdev->iw_ifname));
		break;
	case NETDEV_UNREGISTER:
		ziw_dev_kill(dev);
		ib_unregister_device_queued(ibdev);
		break;
	}
	ib_device_put(ibdev);
	return NOTIFY_OK;
}

static struct notifier_block ziw_netdev_nb = {
	.notifier_call = ziw_netdev_event,
};

/*
 * Whether a device may have sockets in @net: one whose interface is there, or
 * one on its way out, whose interface may have been moved away already.
 */
static bool net_has_dev(struct net *net)
{
	struct ziw_dev *dev;
	bool found = false;

	spin_lock(&devs_lock);
	list_for_each_entry(dev, &devs, entry)
		if (READ_ONCE(dev->dying) || net_eq(dev_net(dev->netdev), net))
			found = true;
	spin_unlock(&devs_lock);
	return found;
}

/*
 * A network namespace goes: its TCP goes before its interfaces do, so the
 * sockets have to be closed before either.
 */
static void __net_exit ziw_net_pre_exit(struct net *net)
{
	struct ziw_dev *dev, *found;

	do {
		found = NULL;
		spin_lock(&devs_lock);
		list_for_each_entry(dev, &devs, entry) {
			if (!net_eq(dev_net(dev->netdev), net) ||
			    !ib_device_try_get(&dev->ibdev))
				continue;
			found = dev;
			break;
		}
		spin_unlock(&devs_lock);
		if (found) {
			ziw_dev_kill(found);
			ib_unregister_device_and_put(&found->ibdev);
		}
	} while (found);
	/* Those that somebody else is unregistering. */
	wait_event(devs_wait, !net_has_dev(net));
}

static struct pernet_operations ziw_net_ops = {
	.pre_exit = ziw_net_pre_exit,
};

/* --- module --- */

static void report_leaks(void)
{
	int i;

	for (i = 0; i < ZIW_LIVE_NUM; i++)
		if (atomic64_read(&ziw_live[i]))
			pr_err("ziw: leak: %lld %s\n",
			       (long long)atomic64_read(&ziw_live[i]), live_names[i]);
}

static void destroy_workqueues(void)
{
	struct workqueue_struct *all[] = {
		ziw_fault_wq, ziw_send_wq, ziw_setup_wq, ziw_wq,
	};
	int i;

	for (i = 0; i < ARRAY_SIZE(all); i++)
		if (all[i])
			destroy_workqueue(all[i]);
}

static int make_workqueues(void)
{
	ziw_wq = alloc_workqueue("ziw", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
	ziw_setup_wq = alloc_ordered_workqueue("ziw-setup", WQ_MEM_RECLAIM);
	ziw_send_wq = alloc_workqueue("ziw-send", WQ_UNBOUND | WQ_MEM_RECLAIM | WQ_SYSFS, 0);
	/* A page of a file system that does not answer takes one of them for as long. */
	ziw_fault_wq = alloc_workqueue("ziw-fault", WQ_UNBOUND, WQ_MAX_ACTIVE);
	if (ziw_wq && ziw_setup_wq && ziw_send_wq && ziw_fault_wq)
		return 0;
	destroy_workqueues();
	return -ENOMEM;
}

static int __init ziw_init(void)
{
	int err;

	ziw_inspect_setup();
	err = ziw_llp_init();
	if (err)
		return err;
	err = ziw_conn_cache_init();
	if (err)
		return err;
	err = make_workqueues();
	if (err)
		goto err_cache;
	err = register_pernet_subsys(&ziw_net_ops);
	if (err)
		goto err_wq;
	err = register_netdevice_notifier(&ziw_netdev_nb);
	if (err)
		goto err_pernet;
	err = ziw_gid_notifiers_register();
	if (err)
		goto err_netdev;
	rdma_link_register(&ziw_link_ops);
	return 0;

err_netdev:
	unregister_netdevice_notifier(&ziw_netdev_nb);
err_pernet:
	unregister_pernet_subsys(&ziw_net_ops);
err_wq:
	destroy_workqueues();
err_cache:
	ziw_conn_cache_exit();
	return err;
}

static void __exit ziw_exit(void)
{
	rdma_link_unregister(&ziw_link_ops);
	ziw_gid_notifiers_unregister();
	unregister_netdevice_notifier(&ziw_netdev_nb);
	ib_unregister_driver(ZIW_RDMA_DRIVER_ID);
	unregister_pernet_subsys(&ziw_net_ops);
	destroy_workqueues();
	/* Regions and connections are freed by RCU callbacks. */
	rcu_barrier();
	ziw_conn_cache_exit();
	ziw_arena_exit();
	report_leaks();
}

module_init(ziw_init);
module_exit(ziw_exit);
