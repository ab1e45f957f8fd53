/* SPDX-License-Identifier: GPL-2.0 */
/* What ziw has of the module ziw_doorbell, which may be an older one: see file.c. */
#ifndef ZIW_DOORBELL_FILE_H
#define ZIW_DOORBELL_FILE_H

struct file;
struct ziw_doorbell;

/*
 * A program that has a file open keeps the module that was loaded first, whatever ziw comes
 * after it, and not each kernel compares versions of symbols. So what these mean does not
 * change: anything else gets another name.
 */

struct ziw_doorbell *ziw_doorbell_create(void *owner,
					 long (*ring)(void *owner, unsigned int cmd,
						      unsigned long arg),
					 struct file **file);
void ziw_doorbell_destroy(struct ziw_doorbell *bell);

#endif
