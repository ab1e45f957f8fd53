/* SPDX-License-Identifier: GPL-2.0 */
/* Copying payload: the one thing that is done for each byte of it. */
#ifndef ZIW_COPY_H
#define ZIW_COPY_H

#include <linux/string.h>
#if defined(CONFIG_X86_64) && !defined(CONFIG_UML)
#include <asm/cpufeature.h>
#endif

/* Below this a string instruction takes longer to start than it saves. */
#define ZIW_COPY_BY_STRING	256

/**
 * ziw_copy - copy payload
 * @to: kernel memory
 * @from: kernel memory; may change meanwhile
 * @len: bytes
 *
 * The kernel's memcpy() uses string instructions only where they are fast for
 * a few bytes, too, though its copies from and to user space use them wherever
 * they are fast for many. KASAN looks at what memcpy() does.
 */
static inline void ziw_copy(void *to, const void *from, unsigned int len)
{
#if defined(CONFIG_X86_64) && !defined(CONFIG_UML) && !defined(CONFIG_KASAN)
	if (len >= ZIW_COPY_BY_STRING && boot_cpu_has(X86_FEATURE_REP_GOOD) &&
	    !boot_cpu_has(X86_FEATURE_FSRM)) {
		unsigned long words = len / 8;

		asm volatile("rep movsq"
			     : "+c" (words), "+D" (to), "+S" (from) : : "memory");
		len %= 8;
	}
#endif
	memcpy(to, from, len);
}

#endif /* ZIW_COPY_H */
