// SPDX-License-Identifier: GPL-2.0
/*
 * Parameters. Those of a device are in /sys/class/infiniband/NAME/ziw/; what it
 * begins with are the module's, by the same names.
 */
#include <linux/ctype.h>
#include <linux/device.h>
#include <linux/kstrtox.h>
#include <linux/moduleparam.h>
#include <linux/slab.h>
#include "inspect.h"

/* The longest value: all words of a set. */
#define MAX_VALUE	64

enum param_kind {
	NUMBER,		/* @min to @max */
	CHOICE,		/* index into @words */
	SET,		/* bit mask over @words */
};

/**
 * struct param_info - what a parameter takes
 * @name: in both places
 * @kind: how its text is read
 * @or_zero: 0, of a set the empty one, is good, too
 * @min: smallest number
 * @max: largest number, or number of words
 * @words: for CHOICE and SET
 * @range: for the log line about a bad value
 */
struct param_info {
	const char		*name;
	enum param_kind		kind;
	bool			or_zero;
	u32			min;
	u32			max;
	const char *const	*words;
	const char		*range;
};

static const char *const crc_words[] = { "off", "preferred", "required" };

/* In the order of the bits ZIW_RTR_*. */
static const char *const rtr_words[] = { "send", "write", "read" };

static const struct param_info infos[ZIW_PARAM_NUM] = {
	[ZIW_PARAM_COPY_THRESHOLD] = {
		"copy_threshold", NUMBER, false, 0, U32_MAX, NULL,
		"a number of bytes, 0 to 4294967295",
	},
	[ZIW_PARAM_MAX_FPDU] = {
		"max_fpdu", NUMBER, true, MPA_MIN_MULPDU, MPA_MAX_MULPDU, NULL,
		"0, or 128 to 64768 bytes",
	},
	[ZIW_PARAM_COLLECT] = {
		"collect", NUMBER, false, 0, ZIW_DOORBELL_BUSY_MAX, NULL,
		"a number of work requests, 0 to 127",
	},
	[ZIW_PARAM_POLL] = {
		"doorbell_poll", NUMBER, false, 0, 1000000, NULL,
		"0 to 1000000 microseconds",
	},
	[ZIW_PARAM_SETUP_TIMEOUT] = {
		"setup_timeout", NUMBER, false, 1, 60, NULL, "1 to 60 seconds",
	},
	[ZIW_PARAM_CLOSE_TIMEOUT] = {
		"close_timeout", NUMBER, false, 1, 60, NULL, "1 to 60 seconds",
	},
	[ZIW_PARAM_USER_TIMEOUT] = {
		"user_timeout", NUMBER, false, 10, 3600, NULL, "10 to 3600 seconds",
	},
	[ZIW_PARAM_CRC] = {
		"crc", CHOICE, false, 0, ARRAY_SIZE(crc_words), crc_words,
		"off, preferred or required",
	},
	[ZIW_PARAM_MPA_REV] = {
		"mpa_rev", NUMBER, false, 1, 2, NULL, "1 or 2",
	},
	[ZIW_PARAM_MARKERS] = {
		"markers", NUMBER, false, 0, 1, NULL, "0 or 1",
	},
	[ZIW_PARAM_RTR] = {
		"rtr", SET, true, 0, ARRAY_SIZE(rtr_words), rtr_words,
		"none, or one or more of: send write read",
	},
};

static u32 defaults[ZIW_PARAM_NUM] = {
	[ZIW_PARAM_COPY_THRESHOLD]	= 16384,
	[ZIW_PARAM_MAX_FPDU]		= 0,
	[ZIW_PARAM_COLLECT]		= 2,
	[ZIW_PARAM_POLL]		= 0,
	[ZIW_PARAM_SETUP_TIMEOUT]	= 15,
	[ZIW_PARAM_CLOSE_TIMEOUT]	= 5,
	[ZIW_PARAM_USER_TIMEOUT]	= 30,
	[ZIW_PARAM_CRC]			= ZIW_CRC_REQUIRED,
	[ZIW_PARAM_MPA_REV]		= 2,
	[ZIW_PARAM_MARKERS]		= 0,
	[ZIW_PARAM_RTR]			= ZIW_RTR_ALL,
};

static int find_word(const struct param_info *info, const char *word)
{
	u32 i;

	for (i = 0; i < info->max; i++)
		if (!strcmp(info->words[i], word))
			return i;
	return -EINVAL;
}

static int parse_number(const struct param_info *info, const char *text, u32 *value)
{
	int err = kstrtou32(text, 0, value);

	if (err)
		return err;
	if (info->or_zero && !*value)
		return 0;
	return *value >= info->min && *value <= info->max ? 0 : -EINVAL;
}

static int parse_choice(const struct param_info *info, const char *text, u32 *value)
{
	int i = find_word(info, text);
	bool on;

	/* Yes and no are the ends of the list. */
	if (i < 0 && !kstrtobool(text, &on) && strlen(text) == 1)
		i = on ? info->max - 1 : 0;
	if (i < 0)
		return i;
	*value = i;
	return 0;
}

static int parse_set(const struct param_info *info, char *text, u32 *value)
{
	char *word;
	int i;

	*value = 0;
	if (info->or_zero && !strcmp(text, "none"))
		return 0;
	while ((word = strsep(&text, " ,\t")) != NULL) {
		if (!*word)
			continue;
		i = find_word(info, word);
		if (i < 0)
			return i;
		*value |= BIT(i);
	}
	return *value ? 0 : -EINVAL;
}

/* Read @text. Return: 0 or -EINVAL, after a line in the log, and @value is not changed. */
static int parse(const struct param_info *info, const char *text, u32 *value)
{
	char copy[MAX_VALUE];
	char *stripped;
	u32 v = 0;
	int err;

	if (strscpy(copy, text, sizeof(copy)) < 0) {
		pr_warn("ziw: parameter %s is %s\n", info->name, info->range);
		return -EINVAL;
	}
	stripped = strim(copy);
	switch (info->kind) {
	case NUMBER:
		err = parse_number(info, stripped, &v);
		break;
	case CHOICE:
		err = parse_choice(info, stripped, &v);
		break;
	default:
		err = parse_set(info, stripped, &v);
	}
	if (err) {
		pr_warn("ziw: parameter %s cannot be '%.*s': it is %s\n", info->name,
			(int)strcspn(text, "\n"), text, info->range);
		return -EINVAL;
	}
	WRITE_ONCE(*value, v);
	return 0;
}

static int print(const struct param_info *info, u32 value, char *buf)
{
	int len = 0;
	u32 i;

	if (info->kind == NUMBER)
		return sysfs_emit(buf, "%u\n", value);
	if (info->kind == CHOICE)
		return sysfs_emit(buf, "%s\n", info->words[value]);
	if (!value)
		return sysfs_emit(buf, "none\n");
	for (i = 0; i < info->max; i++)
		if (value & BIT(i))
			len += sysfs_emit_at(buf, len, "%s%s", len ? " " : "",
					     info->words[i]);
	return len + sysfs_emit_at(buf, len, "\n");
}

/* --- the module's --- */

static const struct param_info *info_of(const struct kernel_param *kp)
{
	return &infos[(u32 *)kp->arg - defaults];
}

static int module_set(const char *text, const struct kernel_param *kp)
{
	return parse(info_of(kp), text, kp->arg);
}

static int module_get(char *buf, const struct kernel_param *kp)
{
	return print(info_of(kp), *(u32 *)kp->arg, buf);
}

static const struct kernel_param_ops module_ops = {
	.set = module_set,
	.get = module_get,
};

#define MODULE_PARAM(name, index) \
	module_param_cb(name, &module_ops, &defaults[index], 0644)

MODULE_PARAM(copy_threshold, ZIW_PARAM_COPY_THRESHOLD);
MODULE_PARM_DESC(copy_threshold,
		 "bytes of a message from which its pages are sent in place and not copied (default 16384)");
MODULE_PARAM(max_fpdu, ZIW_PARAM_MAX_FPDU);
MODULE_PARM_DESC(max_fpdu,
		 "ULPDU size that messages are cut into, 128 to 64768 bytes; 0: what fits in one TCP segment (default 0)");
MODULE_PARAM(collect, ZIW_PARAM_COLLECT);
MODULE_PARM_DESC(collect,
		 "work requests of a queue pair that must be on their way for further ones to be collected and sent together by a work item, 1 to 127; 0: each is sent at once (default 2)");
MODULE_PARAM(doorbell_poll, ZIW_PARAM_POLL);
MODULE_PARM_DESC(doorbell_poll,
		 "microseconds for which a CPU looks at a send queue after something was posted to it, so that no doorbell is rung, 0 to 1000000; 0: none does (default 0)");
MODULE_PARAM(setup_timeout, ZIW_PARAM_SETUP_TIMEOUT);
MODULE_PARM_DESC(setup_timeout,
		 "seconds that TCP's and MPA's connection setup may take, 1 to 60 (default 15)");
MODULE_PARAM(close_timeout, ZIW_PARAM_CLOSE_TIMEOUT);
MODULE_PARM_DESC(close_timeout,
		 "seconds that a graceful close may wait for the send queue or the peer, 1 to 60 (default 5)");
MODULE_PARAM(user_timeout, ZIW_PARAM_USER_TIMEOUT);
MODULE_PARM_DESC(user_timeout,
		 "seconds of silence from the peer that end a connection, 10 to 3600 (default 30)");
MODULE_PARAM(crc, ZIW_PARAM_CRC);
MODULE_PARM_DESC(crc,
		 "required: always; preferred: asked for on connect, the initiator's wish on accept; off: only if the peer asks (default required)");
MODULE_PARAM(mpa_rev, ZIW_PARAM_MPA_REV);
MODULE_PARM_DESC(mpa_rev,
		 "MPA revision to connect with, 1 or 2 (default 2)");
MODULE_PARAM(markers, ZIW_PARAM_MARKERS);
MODULE_PARM_DESC(markers,
		 "ask the peer for markers in what it sends, 0 or 1 (default 0)");
MODULE_PARAM(rtr, ZIW_PARAM_RTR);
MODULE_PARM_DESC(rtr,
		 "what may tell the responder that the initiator is ready: send, write, read (default all); none: requests are of the client-server model");

/* --- a device's --- */

/**
 * struct param_attr - a file in a device's directory
 * @attr: sysfs's part
 * @param: which
 */
struct param_attr {
	struct device_attribute	attr;
	enum ziw_param		param;
};

static enum ziw_param param_of(const struct device_attribute *attr)
{
	return container_of(attr, struct param_attr, attr)->param;
}

static ssize_t device_show(struct device *device, struct device_attribute *attr,
			   char *buf)
{
	struct ziw_dev *dev = rdma_device_to_drv_device(device, struct ziw_dev, ibdev);
	enum ziw_param param = param_of(attr);

	return print(&infos[param], ziw_param(dev, param), buf);
}

static ssize_t device_store(struct device *device, struct device_attribute *attr,
			    const char *buf, size_t len)
{
	struct ziw_dev *dev = rdma_device_to_drv_device(device, struct ziw_dev, ibdev);
	enum ziw_param param = param_of(attr);
	int err = parse(&infos[param], buf, &dev->params[param]);

	return err ? : len;
}

#define PARAM_ATTR(_name, _param) \
	static struct param_attr attr_##_name = { \
		.attr	= __ATTR(_name, 0644, device_show, device_store), \
		.param	= (_param), \
	}

PARAM_ATTR(copy_threshold, ZIW_PARAM_COPY_THRESHOLD);
PARAM_ATTR(max_fpdu, ZIW_PARAM_MAX_FPDU);
PARAM_ATTR(collect, ZIW_PARAM_COLLECT);
PARAM_ATTR(doorbell_poll, ZIW_PARAM_POLL);
PARAM_ATTR(setup_timeout, ZIW_PARAM_SETUP_TIMEOUT);
PARAM_ATTR(close_timeout, ZIW_PARAM_CLOSE_TIMEOUT);
PARAM_ATTR(user_timeout, ZIW_PARAM_USER_TIMEOUT);
PARAM_ATTR(crc, ZIW_PARAM_CRC);
PARAM_ATTR(mpa_rev, ZIW_PARAM_MPA_REV);
PARAM_ATTR(markers, ZIW_PARAM_MARKERS);
PARAM_ATTR(rtr, ZIW_PARAM_RTR);

static ssize_t ended_show(struct device *device, struct device_attribute *attr, char *buf)
{
	return ziw_show_ended(rdma_device_to_drv_device(device, struct ziw_dev, ibdev), buf);
}

/* Addresses of peers are not for everybody. */
static DEVICE_ATTR_ADMIN_RO(ended);

static struct attribute *device_attrs[] = {
	&attr_copy_threshold.attr.attr,
	&attr_max_fpdu.attr.attr,
	&attr_collect.attr.attr,
	&attr_doorbell_poll.attr.attr,
	&attr_setup_timeout.attr.attr,
	&attr_close_timeout.attr.attr,
	&attr_user_timeout.attr.attr,
	&attr_crc.attr.attr,
	&attr_mpa_rev.attr.attr,
	&attr_markers.attr.attr,
	&attr_rtr.attr.attr,
	&dev_attr_ended.attr,
	NULL
};

const struct attribute_group ziw_param_group = {
	.name	= "ziw",
	.attrs	= device_attrs,
};

/**
 * ziw_params_init - give a new device the module's parameters
 * @dev: device
 */
void ziw_params_init(struct ziw_dev *dev)
{
	int i;

	for (i = 0; i < ZIW_PARAM_NUM; i++)
		dev->params[i] = READ_ONCE(defaults[i]);
}
