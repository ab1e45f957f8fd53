// SPDX-License-Identifier: GPL-2.0
/*
 * Stands in for the driver, under its name, where selftests/vm/test asks whether a machine's faults
 * are noticed: "what" says which one to commit.
 */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

static char *what = "";
module_param(what, charp, 0444);

static DEFINE_SPINLOCK(lock_a); /* for sleeping under, and for the wrong order with lock_b */
static DEFINE_SPINLOCK(lock_b); /* see lock_a */

static void inverted_locks(void)
{
	spin_lock(&lock_a);
	spin_lock(&lock_b);
	spin_unlock(&lock_b);
	spin_unlock(&lock_a);
	spin_lock(&lock_b);
	spin_lock(&lock_a);
	spin_unlock(&lock_a);
	spin_unlock(&lock_b);
}

static void use_after_free(void)
{
	char *freed = kmalloc(100, GFP_KERNEL);

	kfree(freed);
	OPTIMIZER_HIDE_VAR(freed);
	pr_info("fault: %d\n", READ_ONCE(freed[8]));
}

static int __init fault_init(void)
{
	if (!strcmp(what, "warn"))
		WARN_ON(1);
	else if (!strcmp(what, "oops"))
		WRITE_ONCE(*(int *)8, 0);
	else if (!strcmp(what, "panic"))
		panic("fault: panic");
	else if (!strcmp(what, "stay"))
		__module_get(THIS_MODULE);
	else if (!strcmp(what, "locks"))
		inverted_locks();
	else if (!strcmp(what, "free"))
		use_after_free();
	else if (!strcmp(what, "lose"))
		pr_info("fault: lost %p\n", kmalloc(100, GFP_KERNEL));
	return 0;
}

static void __exit fault_exit(void)
{
	if (!strcmp(what, "leak"))
		pr_err("ziw: leak: 1 fault\n");
}

module_init(fault_init);
module_exit(fault_exit);
MODULE_DESCRIPTION("Faults to be noticed");
MODULE_LICENSE("GPL");
