// SPDX-License-Identifier: GPL-2.0
/*
 * The doorbell of user space: a file of each context, on which one ioctl names the queue
 * pair. The verbs commands POST_SEND and POST_RECV do the same, but uverbs takes far longer.
 *
 *	file of the process --+
 *	                      +-- struct ziw_doorbell -- RCU --> struct ziw_dev --> qps
 *	struct ziw_ucontext --+
 *
 * The file may outlive the context, and the device: then it has nothing to ring.
 */
#include <linux/anon_inodes.h>
#include <linux/file.h>
#include <linux/fs.h>

#include "tx.h"
#include "ziw.h"

/**
 * struct ziw_doorbell - what a context and its file share
 * @ref: of the context, and of the file
 * @ctx: compared, never followed: queue pairs of other contexts are not rung
 * @dev: where to look for them; NULL once the context is gone; RCU
 */
struct ziw_doorbell {
	refcount_t			ref;
	const struct ziw_ucontext	*ctx;
	struct ziw_dev __rcu		*dev;
};

static void doorbell_put(struct ziw_doorbell *bell)
{
	if (refcount_dec_and_test(&bell->ref))
		kfree(bell);
}

/*
 * RCU is enough for the queue pair: ziw_destroy_qp() takes it out of the table and waits.
 */
static long doorbell_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct ziw_doorbell *bell = file->private_data;
	struct ziw_dev *dev;
	struct ziw_qp *qp;
	long err = 0;

	if (cmd != ZIW_IOC_DOORBELL)
		return -ENOTTY;

	rcu_read_lock();
	dev = rcu_dereference(bell->dev);
	if (!dev) {
		err = -ENODEV;
		goto out;
	}
	qp = xa_load(&dev->qps, arg & ZIW_DOORBELL_QPN);
	if (!qp || qp->ctx != bell->ctx) {
		err = -ENOENT;
		goto out;
	}
	if (!(arg & ZIW_DOORBELL_RECV))
		ziw_ring_sq(qp);
	else if (!qp->srq)
		ziw_ring_rq(qp);
	else
		err = -EINVAL;
out:
	rcu_read_unlock();
	return err;
}

static int doorbell_release(struct inode *inode, struct file *file)
{
	doorbell_put(file->private_data);
	return 0;
}

static const struct file_operations doorbell_fops = {
	.owner		= THIS_MODULE,
	.unlocked_ioctl	= doorbell_ioctl,
	.compat_ioctl	= doorbell_ioctl,
	.release	= doorbell_release,
	.llseek		= noop_llseek,
};

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
	struct ziw_doorbell *bell = kzalloc(sizeof(*bell), GFP_KERNEL);
	int fd;

	if (!bell)
		return -ENOMEM;
	refcount_set(&bell->ref, 1);
	bell->ctx = ctx;
	RCU_INIT_POINTER(bell->dev, to_ziw_dev(ctx->ibuc.device));

	fd = get_unused_fd_flags(O_CLOEXEC);
	if (fd < 0)
		goto err_free;
	*file = anon_inode_getfile("[ziw_doorbell]", &doorbell_fops, bell, O_RDWR);
	if (IS_ERR(*file)) {
		put_unused_fd(fd);
		fd = PTR_ERR(*file);
		goto err_free;
	}
	refcount_inc(&bell->ref);
	ctx->bell = bell;
	return fd;

err_free:
	kfree(bell);
	return fd;
}

/**
 * ziw_doorbell_close - the context is going, and has no queue pair any more
 * @ctx: context of a process, with or without a doorbell
 *
 * Context: process. When it returns nobody looks at the device through the file.
 */
void ziw_doorbell_close(struct ziw_ucontext *ctx)
{
	struct ziw_doorbell *bell = ctx->bell;

	if (!bell)
		return;
	ctx->bell = NULL;
	RCU_INIT_POINTER(bell->dev, NULL);
	synchronize_rcu_expedited();
	doorbell_put(bell);
}
