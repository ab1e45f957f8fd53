// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Finding ziw devices and opening them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ziw.h"

#define _STRUCT_ziw_alloc_context_req	struct {}
#define _STRUCT_ziw_alloc_context_resp	struct {}

DECLARE_DRV_CMD(ziw_cmd_alloc_context, IB_USER_VERBS_CMD_GET_CONTEXT,
		ziw_alloc_context_req, ziw_alloc_context_resp);

struct ziw_device {
	struct verbs_device	vdev;
};

/*
 * The name counts only where libibverbs looked for devices in sysfs, which
 * does not tell the id, for want of netlink.
 */
static const struct verbs_match_ent ziw_match_table[] = {
	VERBS_DRIVER_ID(ZIW_RDMA_DRIVER_ID),
	VERBS_NAME_MATCH("ziw", NULL),
	{},
};

/*
 * Said where a device is opened rather than where it is matched, so that
 * programs that use other devices only are left alone.
 */
static bool ziw_abi_ok(struct ibv_device *ibdev, uint32_t kernel)
{
	const char *older = "kernel module ziw";
	const char *newer = "provider libziw";

	if (kernel == ZIW_ABI_VERSION)
		return true;

	if (kernel > ZIW_ABI_VERSION) {
		older = "provider libziw";
		newer = "kernel module ziw";
	}
	fprintf(stderr,
		"ziw: %s: the %s is older than the %s (kernel ABI %u, provider ABI %u): update the %s\n",
		ibdev->name, older, newer, kernel, ZIW_ABI_VERSION, older);
	return false;
}

/* Takes over @cmd_fd, also where it fails. */
static struct verbs_context *ziw_alloc_context(struct ibv_device *ibdev,
					       int cmd_fd, void *private_data)
{
	struct ziw_cmd_alloc_context cmd = {};
	struct ziw_cmd_alloc_context_resp resp = {};
	struct ziw_context *ctx;
	int ret;

	if (!ziw_abi_ok(ibdev, verbs_get_device(ibdev)->sysfs->abi_ver)) {
		close(cmd_fd);
		errno = EPROTONOSUPPORT;
		return NULL;
	}

	ctx = verbs_init_and_alloc_context(ibdev, cmd_fd, ctx, vctx,
					   ZIW_RDMA_DRIVER_ID);
	if (!ctx)
		return NULL;

	ctx->doorbell_fd = -1;
	cmd.drv_payload.abi_version = ZIW_ABI_VERSION;
	cmd.drv_payload.flags = ZIW_CONTEXT_DOORBELL;
	ret = ibv_cmd_get_context(&ctx->vctx, &cmd.ibv_cmd, sizeof(cmd),
				  &resp.ibv_resp, sizeof(resp));
	if (ret)
		goto err_uninit;
	ctx->doorbell_fd = resp.drv_payload.doorbell_fd;

	/* The module may have been replaced since the device was found. */
	if (!ziw_abi_ok(ibdev, resp.drv_payload.abi_version)) {
		ret = EPROTONOSUPPORT;
		goto err_uninit;
	}

	verbs_set_ops(&ctx->vctx, &ziw_context_ops);
	return &ctx->vctx;

err_uninit:
	if (ctx->doorbell_fd >= 0)
		close(ctx->doorbell_fd);
	verbs_uninit_context(&ctx->vctx);
	free(ctx);
	errno = ret;
	return NULL;
}

/* A context that another process has opened and given us the file of. */
static struct verbs_context *ziw_import_context(struct ibv_device *ibdev,
						int cmd_fd)
{
	struct ziw_context *ctx;
	int ret;

	if (!ziw_abi_ok(ibdev, verbs_get_device(ibdev)->sysfs->abi_ver)) {
		errno = EPROTONOSUPPORT;
		return NULL;
	}

	ctx = verbs_init_and_alloc_context(ibdev, cmd_fd, ctx, vctx,
					   ZIW_RDMA_DRIVER_ID);
	if (!ctx)
		return NULL;

	/* The doorbell's file is the other process's: here the commands ring. */
	ctx->doorbell_fd = -1;
	ret = ibv_cmd_query_context(&ctx->vctx.context, NULL);
	if (ret) {
		/* The file stays the caller's where this fails. */
		ctx->vctx.context.cmd_fd = -1;
		verbs_uninit_context(&ctx->vctx);
		free(ctx);
		errno = ret;
		return NULL;
	}

	verbs_set_ops(&ctx->vctx, &ziw_context_ops);
	return &ctx->vctx;
}

static struct verbs_device *ziw_alloc_device(struct verbs_sysfs_dev *sysfs_dev)
{
	struct ziw_device *dev;

	dev = calloc(1, sizeof(*dev));
	return dev ? &dev->vdev : NULL;
}

static void ziw_uninit_device(struct verbs_device *vdev)
{
	free(container_of(vdev, struct ziw_device, vdev));
}

/* Any ABI is matched: ziw_abi_ok() says more than libibverbs would. */
static const struct verbs_device_ops ziw_device_ops = {
	.name = "ziw",
	.match_min_abi_version = 0,
	.match_max_abi_version = UINT32_MAX,
	.match_table = ziw_match_table,
	.alloc_device = ziw_alloc_device,
	.uninit_device = ziw_uninit_device,
	.alloc_context = ziw_alloc_context,
	.import_context = ziw_import_context,
};

PROVIDER_DRIVER(ziw, ziw_device_ops);
