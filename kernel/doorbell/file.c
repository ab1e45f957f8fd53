// SPDX-License-Identifier: GPL-2.0
/*
 * The module ziw_doorbell: the files on which processes ring the doorbells of their queue
 * pairs (kernel/doorbell.c has the other side).
 *
 * It is a module of its own because an open file holds the module that has its operations:
 * programs that keep one would keep ziw from being unloaded, although it can take its
 * devices from them. They keep this one, which has nothing that could need an update.
 *
 *	file of the process --+
 *	                      +-- struct ziw_doorbell -- RCU --> owner, ring(): in ziw
 *	the owner ------------+
 */
#include <linux/anon_inodes.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "file.h"

MODULE_DESCRIPTION("ziw: files for doorbells");
MODULE_LICENSE("GPL");

/* Nobody else knows what is in it: it has no part in the versions of the symbols. */
#ifndef __GENKSYMS__
/**
 * struct ziw_doorbell - what an owner and its file share
 * @ref: of the owner, and of the file
 * @owner: argument of @ring; NULL once it is gone, when there is no @ring either; RCU
 * @ring: called in a read section of RCU
 */
struct ziw_doorbell {
	refcount_t	ref;
	void __rcu	*owner;
	long		(*ring)(void *owner, unsigned int cmd, unsigned long arg);
};
#endif

static void doorbell_put(struct ziw_doorbell *bell)
{
	if (refcount_dec_and_test(&bell->ref))
		kfree(bell);
}

static long doorbell_ioctl(struct file *file, unsigned int cmd, unsigned long arg)
{
	struct ziw_doorbell *bell = file->private_data;
	long err = -ENODEV;
	void *owner;

	rcu_read_lock();
	owner = rcu_dereference(bell->owner);
	if (owner)
		err = bell->ring(owner, cmd, arg);
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
 * ziw_doorbell_create - a doorbell and its file
 * @owner: whom it rings; not NULL
 * @ring: how; called in a read section of RCU, with what ioctl() was given
 * @file: set to the file, which nobody has yet: for fd_install() or fput()
 *
 * Context: process.
 * Return: the doorbell, or an ERR_PTR.
 */
struct ziw_doorbell *ziw_doorbell_create(void *owner,
					 long (*ring)(void *owner, unsigned int cmd,
						      unsigned long arg),
					 struct file **file)
{
	struct ziw_doorbell *bell = kzalloc(sizeof(*bell), GFP_KERNEL);

	if (!bell)
		return ERR_PTR(-ENOMEM);
	refcount_set(&bell->ref, 2);
	RCU_INIT_POINTER(bell->owner, owner);
	bell->ring = ring;
	*file = anon_inode_getfile("[ziw_doorbell]", &doorbell_fops, bell, O_RDWR);
	if (IS_ERR(*file)) {
		kfree(bell);
		return ERR_CAST(*file);
	}
	return bell;
}
EXPORT_SYMBOL_GPL(ziw_doorbell_create);

/**
 * ziw_doorbell_destroy - the owner is going
 * @bell: its doorbell; the file stays, and rings nobody
 *
 * Context: process. When it returns nobody is in ring(), nor will be.
 */
void ziw_doorbell_destroy(struct ziw_doorbell *bell)
{
	RCU_INIT_POINTER(bell->owner, NULL);
	synchronize_rcu_expedited();
	doorbell_put(bell);
}
EXPORT_SYMBOL_GPL(ziw_doorbell_destroy);
