/* SPDX-License-Identifier: GPL-2.0 */
/* What wire.h needs of the kernel's headers, for user-space builds in C and C++. */
#ifndef ZIW_PROTO_USER_H
#define ZIW_PROTO_USER_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/*
 * What was read from memory before it is not read again after it. A test may
 * have one of its own.
 */
#ifndef barrier
static inline void barrier(void)
{
	__asm__ __volatile__("" : : : "memory");
}
#endif

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

static inline u16 get_unaligned_be16(const void *p)
{
	const u8 *b = (const u8 *)p;

	return (u16)(b[0] << 8 | b[1]);
}

static inline u32 get_unaligned_be32(const void *p)
{
	const u8 *b = (const u8 *)p;

	return (u32)get_unaligned_be16(b) << 16 | get_unaligned_be16(b + 2);
}

static inline u64 get_unaligned_be64(const void *p)
{
	const u8 *b = (const u8 *)p;

	return (u64)get_unaligned_be32(b) << 32 | get_unaligned_be32(b + 4);
}

static inline void put_unaligned_be16(u16 v, void *p)
{
	u8 *b = (u8 *)p;

	b[0] = (u8)(v >> 8);
	b[1] = (u8)v;
}

static inline void put_unaligned_be32(u32 v, void *p)
{
	put_unaligned_be16((u16)(v >> 16), p);
	put_unaligned_be16((u16)v, (u8 *)p + 2);
}

static inline void put_unaligned_be64(u64 v, void *p)
{
	put_unaligned_be32((u32)(v >> 32), p);
	put_unaligned_be32((u32)v, (u8 *)p + 4);
}

#endif /* ZIW_PROTO_USER_H */
