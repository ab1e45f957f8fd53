// SPDX-License-Identifier: GPL-2.0
/* The ib_device: what it says of itself, contexts, PDs, and ring memory. */
#include <linux/etherdevice.h>
#include <linux/file.h>
#include <linux/vmalloc.h>
#include <net/addrconf.h>
#include <rdma/ib_addr.h>
#include "conn.h"
#include "inspect.h"

/* --- attributes --- */

static u64 ziw_guid(const struct ziw_dev *dev)
{
	const struct net_device *netdev = dev->netdev;
	u8 guid[8];

	if (netdev->addr_len != ETH_ALEN || is_zero_ether_addr(netdev->dev_addr))
		return be64_to_cpu(dev->gid.global.subnet_prefix);
	addrconf_addr_eui48(guid, netdev->dev_addr);
	return get_unaligned_be64(guid);
}

/* More than the header of RPC-over-RDMA has of segments makes its client use small regions. */
#define MAX_SGE_RD	16

static int ziw_query_device(struct ib_device *ibdev, struct ib_device_attr *attr,
			    struct ib_udata *udata)
{
	struct ziw_dev *dev = to_ziw_dev(ibdev);

	if (udata && (udata->inlen || udata->outlen))
		return -EINVAL;

	memset(attr, 0, sizeof(*attr));
	attr->fw_ver = 0;
	/* Of no manufacturer: an OUI with the bit of locally administered ones. */
	attr->vendor_id = ZIW_RDMA_DRIVER_ID;
	attr->sys_image_guid = cpu_to_be64(ziw_guid(dev));
	attr->max_mr_size = U64_MAX;
	attr->page_size_cap = GENMASK_ULL(30, PAGE_SHIFT);
	attr->max_qp = ZIW_MAX_QP;
	attr->max_qp_wr = ZIW_MAX_WR;
	attr->device_cap_flags = IB_DEVICE_MEM_MGT_EXTENSIONS | IB_DEVICE_MEM_WINDOW |
				 IB_DEVICE_MEM_WINDOW_TYPE_2B;
	attr->kernel_cap_flags = IBK_LOCAL_DMA_LKEY | IBK_ALLOW_USER_UNREG | IBK_SG_GAPS_REG;
#if IS_ENABLED(CONFIG_MMU_NOTIFIER)
	attr->kernel_cap_flags |= IBK_ON_DEMAND_PAGING;
	attr->odp_caps.general_caps = IB_ODP_SUPPORT | IB_ODP_SUPPORT_IMPLICIT;
	attr->odp_caps.per_transport_caps.rc_odp_caps =
		IB_ODP_SUPPORT_SEND | IB_ODP_SUPPORT_RECV | IB_ODP_SUPPORT_WRITE |
		IB_ODP_SUPPORT_READ | IB_ODP_SUPPORT_ATOMIC | IB_ODP_SUPPORT_SRQ_RECV;
#endif
	attr->max_send_sge = ZIW_MAX_SGE;
	attr->max_recv_sge = ZIW_MAX_SGE;
	attr->max_sge_rd = MAX_SGE_RD;
	attr->max_cq = ZIW_MAX_CQ;
	attr->max_cqe = ZIW_MAX_CQE;
	attr->cq_caps.max_cq_moderation_count = U16_MAX;
	attr->cq_caps.max_cq_moderation_period = U16_MAX;
	attr->max_mr = ZIW_MAX_MR;
	attr->max_mw = ZIW_MAX_MR;
	attr->max_pd = ZIW_MAX_PD;
	attr->max_qp_rd_atom = ZIW_MAX_IRD;
	attr->max_qp_init_rd_atom = ZIW_MAX_ORD;
	attr->max_res_rd_atom = ZIW_MAX_IRD * ZIW_MAX_QP;
	/* By compare-and-exchange of the CPU: atomic for everybody on this host. */
	attr->atomic_cap = IB_ATOMIC_GLOB;
	attr->masked_atomic_cap = IB_ATOMIC_GLOB;
	attr->max_srq = ZIW_MAX_SRQ;
	attr->max_srq_wr = ZIW_MAX_WR;
	attr->max_srq_sge = ZIW_MAX_SGE;
	attr->max_fast_reg_page_list_len = ZIW_MAX_FRMR_PAGES;
	/* CQE timestamps are nanoseconds of CLOCK_MONOTONIC. */
	attr->timestamp_mask = U64_MAX;
	attr->hca_core_clock = 1000000;
	return 0;
}

static int ziw_query_port(struct ib_device *ibdev, u32 port,
			  struct ib_port_attr *attr)
{
	struct net_device *netdev = to_ziw_dev(ibdev)->netdev;
	bool up = netif_running(netdev) && netif_carrier_ok(netdev);
	int err;

	/* Speed and width of what is below; an interface that has none is no error. */
	err = ib_get_eth_speed(ibdev, port, &attr->active_speed, &attr->active_width);
	if (err) {
		attr->active_speed = IB_SPEED_SDR;
		attr->active_width = IB_WIDTH_1X;
	}
	attr->gid_tbl_len = ZIW_MAX_GID;
	attr->pkey_tbl_len = 1;
	attr->max_msg_sz = ZIW_MAX_MSG;
	attr->max_mtu = IB_MTU_4096;
	attr->active_mtu = ib_mtu_int_to_enum(READ_ONCE(netdev->mtu));
	attr->port_cap_flags = IB_PORT_CM_SUP | IB_PORT_DEVICE_MGMT_SUP;
	attr->state = up ? IB_PORT_ACTIVE : IB_PORT_DOWN;
	attr->phys_state = up ? IB_PORT_PHYS_STATE_LINK_UP :
			   IB_PORT_PHYS_STATE_DISABLED;
	return 0;
}

static int ziw_query_pkey(struct ib_device *ibdev, u32 port, u16 index, u16 *pkey)
{
	if (index)
		return -EINVAL;
	*pkey = 0xffff;
	return 0;
}

static int ziw_port_immutable(struct ib_device *ibdev, u32 port,
			      struct ib_port_immutable *immutable)
{
	struct ib_port_attr attr;
	int err;

	immutable->core_cap_flags = RDMA_CORE_PORT_IWARP;
	err = ib_query_port(ibdev, port, &attr);
	if (err)
		return err;
	immutable->gid_tbl_len = attr.gid_tbl_len;
	immutable->pkey_tbl_len = attr.pkey_tbl_len;
	return 0;
}

static enum rdma_link_layer ziw_link_layer(struct ib_device *ibdev, u32 port)
{
	return IB_LINK_LAYER_ETHERNET;
}

/* --- contexts and PDs --- */

static int ziw_alloc_ucontext(struct ib_ucontext *ctx, struct ib_udata *udata)
{
	struct ziw_alloc_context_resp resp = { .abi_version = ZIW_ABI_VERSION };
	struct ziw_ucontext *uctx = to_ziw_ucontext(ctx);
	struct ziw_alloc_context_req req = {};
	struct file *file = NULL;
	int err;

	if (udata->inlen >= sizeof(req)) {
		err = ib_copy_from_udata(&req, udata, sizeof(req));
		if (err)
			return err;
	}
	if (req.abi_version != ZIW_ABI_VERSION || udata->outlen < sizeof(resp)) {
		ibdev_warn_ratelimited(ctx->device,
				       "%s: provider of ABI %u, module of ABI %u: update the %s\n",
				       current->comm, req.abi_version, ZIW_ABI_VERSION,
				       req.abi_version < ZIW_ABI_VERSION ? "provider" :
				       "module");
		return -EINVAL;
	}
	if (req.flags & ~ZIW_CONTEXT_DOORBELL)
		return -EINVAL;
	if (req.flags & ZIW_CONTEXT_DOORBELL) {
		resp.doorbell_fd = ziw_doorbell_open(uctx, &file);
		if (resp.doorbell_fd < 0)
			return resp.doorbell_fd;
	}
	err = ib_copy_to_udata(udata, &resp, sizeof(resp));
	if (!file)
		return err;
	if (err) {
		fput(file);
		put_unused_fd(resp.doorbell_fd);
		ziw_doorbell_close(uctx);
		return err;
	}
	fd_install(resp.doorbell_fd, file);
	return 0;
}

/* Lets another process use the context by its file: nothing of ours is needed. */
static int ziw_query_ucontext(struct ib_ucontext *ctx, struct uverbs_attr_bundle *attrs)
{
	return 0;
}

static void ziw_dealloc_ucontext(struct ib_ucontext *ctx)
{
	ziw_doorbell_close(to_ziw_ucontext(ctx));
}

/* Its presence lets the RDMA core take the device from under open contexts. */
static void ziw_disassociate_ucontext(struct ib_ucontext *ctx)
{
}

static int ziw_alloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	struct ziw_dev *dev = to_ziw_dev(ibpd->device);
	struct ziw_pd *pd = to_ziw_pd(ibpd);
	int err = 0;

	if (!ziw_take(&dev->nr_pd, ZIW_MAX_PD))
		return -ENOMEM;
	pd->pdn = atomic_inc_return(&dev->pdn);
	if (udata) {
		struct ziw_alloc_pd_resp resp = { .pdn = pd->pdn };

		err = ib_copy_to_udata(udata, &resp, min(sizeof(resp), udata->outlen));
		if (err)
			atomic_dec(&dev->nr_pd);
	}
	return err;
}

static int ziw_dealloc_pd(struct ib_pd *ibpd, struct ib_udata *udata)
{
	atomic_dec(&to_ziw_dev(ibpd->device)->nr_pd);
	return 0;
}

/* --- ring memory --- */

/**
 * struct ziw_mmap_entry - ring memory that user space may map
 * @rdma: the RDMA core's part, which counts who uses it
 * @addr: from vmalloc_user()
 */
struct ziw_mmap_entry {
	struct rdma_user_mmap_entry	rdma;
	void				*addr;
};

static void ring_memory_free(void *addr)
{
	vfree(addr);
	ziw_live_add(ZIW_LIVE_RING, -1);
}

/**
 * ziw_mmap_free - the last user of ring memory is gone
 * @entry: of the ring
 */
void ziw_mmap_free(struct rdma_user_mmap_entry *entry)
{
	struct ziw_mmap_entry *e = container_of(entry, struct ziw_mmap_entry, rdma);

	ring_memory_free(e->addr);
	kfree(e);
}

/**
 * ziw_mmap - verb: map a ring
 * @ctx: context
 * @vma: offset and size as struct ziw_ring_info said
 *
 * Context: process.
 * Return: 0 or -EINVAL.
 */
int ziw_mmap(struct ib_ucontext *ctx, struct vm_area_struct *vma)
{
	struct rdma_user_mmap_entry *entry;
	int err;

	entry = rdma_user_mmap_entry_get(ctx, vma);
	if (!entry)
		return -EINVAL;
	/* The pages themselves outlive the ring, for as long as they are mapped. */
	err = remap_vmalloc_range(vma, container_of(entry, struct ziw_mmap_entry,
						    rdma)->addr, 0);
	rdma_user_mmap_entry_put(entry);
	return err;
}

static int ring_share(struct ziw_ring *ring, struct ib_udata *udata)
{
	struct ib_ucontext *ctx = rdma_udata_to_drv_context(udata, struct ziw_ucontext,
							    ibuc) ?
		&rdma_udata_to_drv_context(udata, struct ziw_ucontext, ibuc)->ibuc : NULL;
	struct ziw_mmap_entry *entry;
	int err;

	entry = kzalloc(sizeof(*entry), GFP_KERNEL);
	if (!entry)
		return -ENOMEM;
	entry->addr = ring->hdr;
	err = rdma_user_mmap_entry_insert(ctx, &entry->rdma, ring->size);
	if (err) {
		kfree(entry);
		return err;
	}
	ring->mmap = entry;
	return 0;
}

/* Where a ring lies in its memory, for both sides. */
static void ring_place(struct ziw_ring *ring, void *memory, size_t offset, u32 entries,
		       u32 stride, struct ziw_ring_info *info)
{
	ring->hdr = memory + offset;
	ring->slots = (void *)ring->hdr + ZIW_RING_HDR_SIZE;
	ring->mask = entries - 1;
	ring->stride = stride;
	if (!info)
		return;
	info->entries = entries;
	info->stride = stride;
	info->hdr_offset = offset;
	info->slots_offset = offset + ZIW_RING_HDR_SIZE;
}

/**
 * ziw_ring_alloc - make a ring
 * @dev: device
 * @ring: to initialise
 * @entries: slots, a power of two
 * @stride: bytes from slot to slot
 * @behind: bytes to leave behind it for another ring
 * @udata: of the command, so that user space maps it; NULL for a kernel consumer
 * @info: filled, if @udata
 *
 * Context: process.
 * Return: 0 or -ENOMEM.
 */
int ziw_ring_alloc(struct ziw_dev *dev, struct ziw_ring *ring, u32 entries,
		   u32 stride, size_t behind, struct ib_udata *udata,
		   struct ziw_ring_info *info)
{
	size_t size = PAGE_ALIGN(ziw_ring_bytes(entries, stride) + behind);
	void *memory = vmalloc_user(size);
	int err;

	memset(ring, 0, sizeof(*ring));
	if (!memory)
		return -ENOMEM;
	ziw_live_add(ZIW_LIVE_RING, 1);
	ring_place(ring, memory, 0, entries, stride, udata ? info : NULL);
	ring->size = size;
	ring->dev = dev;
	atomic64_add(ring->size, &dev->ring_bytes);
	if (!udata)
		return 0;

	err = ring_share(ring, udata);
	if (err) {
		ziw_ring_free(ring);
		return err;
	}
	info->mmap_offset = rdma_user_mmap_get_offset(&ring->mmap->rdma);
	info->mmap_size = ring->size;
	return 0;
}

/**
 * ziw_ring_behind - make a ring in what another one left
 * @ring: to initialise; its memory goes with that of @first
 * @first: from ziw_ring_alloc() with ziw_ring_bytes() of this one behind it
 * @entries: slots, a power of two
 * @stride: bytes from slot to slot
 * @first_info: of @first
 * @info: filled, if @first is mapped
 */
void ziw_ring_behind(struct ziw_ring *ring, const struct ziw_ring *first, u32 entries,
		     u32 stride, const struct ziw_ring_info *first_info,
		     struct ziw_ring_info *info)
{
	size_t offset = ziw_ring_bytes(first->mask + 1, first->stride);

	memset(ring, 0, sizeof(*ring));
	ring_place(ring, first->hdr, offset, entries, stride, first->mmap ? info : NULL);
	ring->dev = first->dev;
	if (!first->mmap)
		return;
	info->mmap_offset = first_info->mmap_offset;
	info->mmap_size = first_info->mmap_size;
}

/**
 * ziw_ring_free - the kernel's end of a ring
 * @ring: from ziw_ring_alloc()
 *
 * Context: process.
 */
void ziw_ring_free(struct ziw_ring *ring)
{
	atomic64_sub(ring->size, &ring->dev->ring_bytes);
	if (ring->mmap)
		rdma_user_mmap_entry_remove(&ring->mmap->rdma);
	else
		ring_memory_free(ring->hdr);
}

/* --- operations --- */

static void ziw_dealloc_driver(struct ib_device *ibdev)
{
	struct ziw_dev *dev = to_ziw_dev(ibdev);

	ziw_dev_free(dev);
}

const struct ib_device_ops ziw_device_ops = {
	.owner			= THIS_MODULE,
	.driver_id		= ZIW_RDMA_DRIVER_ID,
	.uverbs_abi_ver		= ZIW_ABI_VERSION,

	.query_device		= ziw_query_device,
	.query_port		= ziw_query_port,
	.query_gid		= ziw_query_gid,
	.query_pkey		= ziw_query_pkey,
	.get_port_immutable	= ziw_port_immutable,
	.get_link_layer		= ziw_link_layer,
	.dealloc_driver		= ziw_dealloc_driver,
	.device_group		= &ziw_param_group,

	.alloc_hw_port_stats	= ziw_alloc_stats,
	.get_hw_stats		= ziw_get_stats,
	.fill_res_qp_entry	= ziw_fill_qp,
	.fill_res_cq_entry	= ziw_fill_cq,
	.fill_res_mr_entry	= ziw_fill_mr,
	.fill_res_cm_id_entry	= ziw_fill_cm_id,
	ZIW_FILL_SRQ

	.alloc_ucontext		= ziw_alloc_ucontext,
	.dealloc_ucontext	= ziw_dealloc_ucontext,
	.query_ucontext		= ziw_query_ucontext,
	.disassociate_ucontext	= ziw_disassociate_ucontext,
	.mmap			= ziw_mmap,
	.mmap_free		= ziw_mmap_free,
	.alloc_pd		= ziw_alloc_pd,
	.dealloc_pd		= ziw_dealloc_pd,

	.get_dma_mr		= ziw_get_dma_mr,
	.reg_user_mr		= ziw_reg_user_mr,
	.reg_user_mr_dmabuf	= ziw_reg_user_mr_dmabuf,
	.advise_mr		= ziw_advise_mr,
	.rereg_user_mr		= ziw_rereg_user_mr,
	.alloc_mr		= ziw_alloc_mr,
	.map_mr_sg		= ziw_map_mr_sg,
	.dereg_mr		= ziw_dereg_mr,
	.alloc_mw		= ziw_alloc_mw,
	.dealloc_mw		= ziw_dealloc_mw,

	.create_cq		= ziw_create_cq,
	ZIW_CREATE_USER_CQ
	ZIW_RESIZE_CQ
	.modify_cq		= ziw_modify_cq,
	.destroy_cq		= ziw_destroy_cq,
	.pre_destroy_cq		= ziw_pre_destroy_cq,
	.poll_cq		= ziw_poll_cq,
	.req_notify_cq		= ziw_req_notify_cq,

	.create_srq		= ziw_create_srq,
	.modify_srq		= ziw_modify_srq,
	.query_srq		= ziw_query_srq,
	.destroy_srq		= ziw_destroy_srq,
	.post_srq_recv		= ziw_post_srq_recv,

	.create_qp		= ziw_create_qp,
	.modify_qp		= ziw_modify_qp,
	.query_qp		= ziw_query_qp,
	.destroy_qp		= ziw_destroy_qp,
	.post_send		= ziw_post_send,
	.post_recv		= ziw_post_recv,

	.iw_connect		= ziw_connect,
	.iw_accept		= ziw_accept,
	.iw_reject		= ziw_reject,
	.iw_create_listen	= ziw_create_listen,
	.iw_destroy_listen	= ziw_destroy_listen,
	.iw_add_ref		= ziw_qp_add_ref,
	.iw_rem_ref		= ziw_qp_rem_ref,
	.iw_get_qp		= ziw_get_qp,

	INIT_RDMA_OBJ_SIZE(ib_cq, ziw_cq, ibcq),
	INIT_RDMA_OBJ_SIZE(ib_mw, ziw_mw, ibmw),
	INIT_RDMA_OBJ_SIZE(ib_pd, ziw_pd, ibpd),
	INIT_RDMA_OBJ_SIZE(ib_qp, ziw_qp, ibqp),
	INIT_RDMA_OBJ_SIZE(ib_srq, ziw_srq, ibsrq),
	INIT_RDMA_OBJ_SIZE(ib_ucontext, ziw_ucontext, ibuc),
};
