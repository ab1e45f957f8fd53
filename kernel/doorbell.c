// SPDX-License-Identifier: GPL-2.0
/*
 * The doorbell of user space: a file of each context, on which one ioctl names the queue
 * pair. The verbs commands POST_SEND and POST_RECV do the same, but uverbs takes far longer.
 * The file may outlive the context, the device and this module: it is of another one, and
 * has nothing to ring then (doorbell/file.c).
 */
#include <linux/file.h>
#include <linux/fs.h>

#include "doorbell/file.h"
#include "tx.h"
#include "ziw.h"

/*
 * RCU is enough for the context, which waits in ziw_doorbell_close(), and for the queue pair:
 * ziw_destroy_qp() takes it out of the table and waits.
 */
static long doorbell_ring(void *owner, unsigned int cmd, unsigned long arg)
{
	struct ziw_ucontext *ctx = owner;
	struct ziw_qp *qp;

	if (cmd != ZIW_IOC_DOORBELL)
		return -ENOTTY;

	qp = xa_load(&to_ziw_dev(ctx->ibuc.device)->qps, arg & ZIW_DOORBELL_QPN);
	if (!qp || qp->ctx != ctx)
		return -ENOENT;
	if (!(arg & ZIW_DOORBELL_RECV))
		ziw_ring_sq(qp, arg >> ZIW_DOORBELL_BUSY_SHIFT & ZIW_DOORBELL_BUSY_MAX);
	else if (!qp->srq)
		ziw_ring_rq(qp);
	else
		return -EINVAL;
	return 0;
}

/**
 * ziw_doorbell_open - a context's doorbell
 * @ctx: context of a process, under construction
 * @file: set to the file, for fd_install(), or for fput() if that is not to be
 *
 * Context: process.
 * Return: a reserved file descriptor, or a negative error code.
 */
int ziw_doorbell_open(struct ziw_ucontext *ctx, struct file **file)
{
	struct ziw_doorbell *bell;
	int fd;

	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0)
		return fd;
	bell = ziw_doorbell_create(ctx, doorbell_ring, file);
	if (IS_ERR(bell)) {
		put_unused_fd(fd);
		return PTR_ERR(bell);
	}
	ctx->bell = bell;
	return fd;
}

/**
 * ziw_doorbell_close - the context is going, and has no queue pair any more
 * @ctx: context of a process, with or without a doorbell
 *
 * Context: process. When it returns nobody looks at the context through the file.
 */
void ziw_doorbell_close(struct ziw_ucontext *ctx)
{
	if (ctx->bell)
		ziw_doorbell_destroy(ctx->bell);
	ctx->bell = NULL;
}
