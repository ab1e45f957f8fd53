// SPDX-License-Identifier: GPL-2.0
/*
 * The GID table. Index 0, where rdma_cm looks for an iWARP device, is made of the
 * interface's MAC; after it come the interface's addresses, IPv4-mapped or IPv6.
 *
 * An address keeps its index while the interface has it. Whatever happens to
 * addresses, the table is made anew by a work item: the notifier of IPv6 runs in softirq.
 */
#include <linux/etherdevice.h>
#include <linux/inetdevice.h>
#include <net/addrconf.h>
#include "ziw.h"

/**
 * struct gid_list - addresses of an interface
 * @gids: of them
 * @num: in @gids; those that do not fit are left out
 */
struct gid_list {
	union ib_gid	gids[ZIW_MAX_GID - 1];
	u32		num;
};

static void list_add_gid(struct gid_list *list, const struct in6_addr *addr)
{
	if (list->num < ARRAY_SIZE(list->gids))
		memcpy(&list->gids[list->num++], addr, sizeof(list->gids[0]));
}

/* RCU held. */
static void list_ipv4(struct gid_list *list, const struct net_device *netdev)
{
	struct in_device *in_dev = __in_dev_get_rcu(netdev);
	const struct in_ifaddr *ifa;
	struct in6_addr addr;

	if (!in_dev)
		return;
	in_dev_for_each_ifa_rcu(ifa, in_dev) {
		ipv6_addr_set_v4mapped(ifa->ifa_local, &addr);
		list_add_gid(list, &addr);
	}
}

#if IS_ENABLED(CONFIG_IPV6)
/* RCU held. */
static void list_ipv6(struct gid_list *list, const struct net_device *netdev)
{
	struct inet6_dev *in6_dev = __in6_dev_get(netdev);
	const struct inet6_ifaddr *ifa;

	if (!in6_dev)
		return;
	read_lock_bh(&in6_dev->lock);
	list_for_each_entry(ifa, &in6_dev->addr_list, if_list)
		list_add_gid(list, &ifa->addr);
	read_unlock_bh(&in6_dev->lock);
}
#else
static void list_ipv6(struct gid_list *list, const struct net_device *netdev)
{
}
#endif

static bool gid_is_none(const union ib_gid *gid)
{
	return !memchr_inv(gid, 0, sizeof(*gid));
}

static bool list_has(const struct gid_list *list, const union ib_gid *gid)
{
	u32 i;

	for (i = 0; i < list->num; i++)
		if (!memcmp(&list->gids[i], gid, sizeof(*gid)))
			return true;
	return false;
}

static bool table_has(const struct ziw_dev *dev, const union ib_gid *gid)
{
	u32 i;

	for (i = 1; i < ZIW_MAX_GID; i++)
		if (!memcmp(&dev->gids[i], gid, sizeof(*gid)))
			return true;
	return false;
}

/* Have the table be what @list says. dev->gid_lock held. Return: whether it was not. */
static bool table_update(struct ziw_dev *dev, const struct gid_list *list)
{
	bool changed = false;
	u32 i, free = 1;

	for (i = 1; i < ZIW_MAX_GID; i++) {
		if (gid_is_none(&dev->gids[i]) || list_has(list, &dev->gids[i]))
			continue;
		memset(&dev->gids[i], 0, sizeof(dev->gids[i]));
		changed = true;
	}
	for (i = 0; i < list->num; i++) {
		if (table_has(dev, &list->gids[i]))
			continue;
		while (free < ZIW_MAX_GID && !gid_is_none(&dev->gids[free]))
			free++;
		if (free == ZIW_MAX_GID)
			break;
		dev->gids[free] = list->gids[i];
		changed = true;
	}
	return changed;
}

/**
 * ziw_gids_update - have the GID table follow the interface
 * @dev: device
 *
 * Context: process.
 * Return: whether it has changed.
 */
bool ziw_gids_update(struct ziw_dev *dev)
{
	struct gid_list list = {};
	bool changed;

	rcu_read_lock();
	list_ipv4(&list, dev->netdev);
	list_ipv6(&list, dev->netdev);
	rcu_read_unlock();
	spin_lock(&dev->gid_lock);
	changed = table_update(dev, &list);
	spin_unlock(&dev->gid_lock);
	return changed;
}

/**
 * ziw_device_gid - GID of index 0, where rdma_cm looks for an iWARP device
 * @dev: device
 * @gid: the interface's MAC, then zeros; or, where it has no MAC, something
 *       that stays the same while the interface exists: a GID of all zeros is
 *       no GID to the RDMA core
 */
void ziw_device_gid(struct ziw_dev *dev, union ib_gid *gid)
{
	const struct net_device *netdev = dev->netdev;

	memset(gid, 0, sizeof(*gid));
	if (netdev->addr_len == ETH_ALEN && !is_zero_ether_addr(netdev->dev_addr))
		memcpy(gid->raw, netdev->dev_addr, ETH_ALEN);
	else
		*gid = dev->gid;
}

/**
 * ziw_query_gid - verb: an entry of the GID table
 * @ibdev: device
 * @port: the one there is
 * @index: of the entry
 * @gid: filled; all zeros where there is none
 *
 * Context: process.
 * Return: 0, or -EINVAL beyond the table.
 */
int ziw_query_gid(struct ib_device *ibdev, u32 port, int index, union ib_gid *gid)
{
	struct ziw_dev *dev = to_ziw_dev(ibdev);

	if (index < 0 || index >= ZIW_MAX_GID)
		return -EINVAL;
	if (!index) {
		ziw_device_gid(dev, gid);
		return 0;
	}
	spin_lock(&dev->gid_lock);
	*gid = dev->gids[index];
	spin_unlock(&dev->gid_lock);
	return 0;
}

static void gid_work(struct work_struct *work)
{
	struct ziw_dev *dev = container_of(work, struct ziw_dev, gid_work);

	/* Not registered any more: nobody asks. */
	if (!ib_device_try_get(&dev->ibdev))
		return;
	/* The RDMA core reads all of the table then. */
	if (ziw_gids_update(dev))
		ziw_port_event(dev, IB_EVENT_GID_CHANGE);
	ib_device_put(&dev->ibdev);
}

/**
 * ziw_gids_init - a device is made
 * @dev: device
 */
void ziw_gids_init(struct ziw_dev *dev)
{
	spin_lock_init(&dev->gid_lock);
	INIT_WORK(&dev->gid_work, gid_work);
}

/**
 * ziw_gids_look - the interface may have other addresses
 * @netdev: the interface
 *
 * Context: any but interrupt.
 */
void ziw_gids_look(struct net_device *netdev)
{
	struct ib_device *ibdev = ib_device_get_by_netdev(netdev, ZIW_RDMA_DRIVER_ID);

	if (!ibdev)
		return;
	queue_work(ziw_wq, &to_ziw_dev(ibdev)->gid_work);
	ib_device_put(ibdev);
}

static int ipv4_event(struct notifier_block *nb, unsigned long event, void *info)
{
	const struct in_ifaddr *ifa = info;

	ziw_gids_look(ifa->ifa_dev->dev);
	return NOTIFY_OK;
}

static struct notifier_block ipv4_nb = {
	.notifier_call = ipv4_event,
};

static int ipv6_event(struct notifier_block *nb, unsigned long event, void *info)
{
	const struct inet6_ifaddr *ifa = info;

	ziw_gids_look(ifa->idev->dev);
	return NOTIFY_OK;
}

static struct notifier_block ipv6_nb = {
	.notifier_call = ipv6_event,
};

/**
 * ziw_gid_notifiers_register - hear of addresses that come and go
 *
 * Context: process.
 * Return: 0 or a negative error.
 */
int ziw_gid_notifiers_register(void)
{
	int err;

	err = register_inetaddr_notifier(&ipv4_nb);
	if (err)
		return err;
	err = register_inet6addr_notifier(&ipv6_nb);
	if (err)
		unregister_inetaddr_notifier(&ipv4_nb);
	return err;
}

/** ziw_gid_notifiers_unregister - hear no more of them */
void ziw_gid_notifiers_unregister(void)
{
	unregister_inet6addr_notifier(&ipv6_nb);
	unregister_inetaddr_notifier(&ipv4_nb);
}
