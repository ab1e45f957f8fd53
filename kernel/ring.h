/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The kernel's side of the rings of uapi/ziw-abi.h. Rings of kernel consumers
 * have the same layout, so that one engine serves both.
 */
#ifndef ZIW_RING_H
#define ZIW_RING_H

#include <linux/types.h>
#include <linux/atomic.h>
#include <linux/string.h>
#include <ziw-abi.h>

struct ziw_mmap_entry;
struct ziw_dev;
struct ib_udata;

/**
 * struct ziw_ring - a ring, seen from the kernel
 * @hdr: shared with user space where @mmap is set
 * @slots: slot 0
 * @mask: number of slots less one
 * @stride: bytes from slot to slot
 * @index: the index the kernel owns: cons of an SQ, RQ, SRQ; prod of a CQ.
 *         Guarded by the lock of the queue that the ring is in.
 * @post: prod of an SQ, RQ, SRQ of a kernel consumer; guarded by the queue's
 *        posting lock
 * @size: bytes allocated; 0: it lies in the memory of another ring
 * @mmap: for user space to map; NULL for a kernel consumer
 * @dev: device that its memory is counted for
 */
struct ziw_ring {
	struct ziw_ring_hdr	*hdr;
	void			*slots;
	u32			mask;
	u32			stride;
	u32			index;
	u32			post;
	size_t			size;
	struct ziw_mmap_entry	*mmap;
	struct ziw_dev		*dev;
};

static inline void *ziw_ring_slot(const struct ziw_ring *ring, u32 index)
{
	return ring->slots + (size_t)(index & ring->mask) * ring->stride;
}

/**
 * ziw_ring_filled - how many slots of an SQ, RQ or SRQ wait from @from on
 * @ring: the ring
 * @from: an index between cons and prod
 *
 * User space writes prod: whatever it says, @from plus the answer is never
 * beyond the ring. The acquire pairs with the producer's release of the slots.
 */
static inline u32 ziw_ring_filled(const struct ziw_ring *ring, u32 from)
{
	/* Pairs with the producer's release. */
	u32 prod = smp_load_acquire(&ring->hdr->prod);

	u32 most = ring->mask + 1 - (from - ring->index);

	return prod - from > most ? 0 : prod - from;
}

/* Free the slots before @index. The release ends the kernel's use of them. */
static inline void ziw_ring_consume(struct ziw_ring *ring, u32 index)
{
	ring->index = index;
	/* Pairs with the producer's acquire before it fills a slot again. */
	smp_store_release(&ring->hdr->cons, index);
}

/* Whether a producer inside the kernel has a free slot. Posting lock held. */
static inline bool ziw_ring_has_room(const struct ziw_ring *ring)
{
	/* Pairs with the release in ziw_ring_consume(). */
	return ring->post - smp_load_acquire(&ring->hdr->cons) <= ring->mask;
}

/* Publish the slot at ring->post. Posting lock held. */
static inline void ziw_ring_publish(struct ziw_ring *ring)
{
	/* Pairs with the acquire in ziw_ring_filled(). */
	smp_store_release(&ring->hdr->prod, ++ring->post);
}

/* A producer's question after publishing: must it ring the doorbell? */
static inline bool ziw_ring_needs_doorbell(const struct ziw_ring *ring)
{
	/* Pairs with the barrier in ziw_ring_idle(). */
	smp_mb();
	return READ_ONCE(ring->hdr->flags) & ZIW_RING_NEED_DOORBELL;
}

/* The consumer looks by itself from now on. */
static inline void ziw_ring_busy(struct ziw_ring *ring)
{
	WRITE_ONCE(ring->hdr->flags, 0);
}

/**
 * ziw_ring_idle - ask for doorbells
 * @ring: the ring
 * @from: next slot to consume
 *
 * Return: true if a slot was filled meanwhile, so that the caller has to look
 * once more.
 */
static inline bool ziw_ring_idle(struct ziw_ring *ring, u32 from)
{
	WRITE_ONCE(ring->hdr->flags, ZIW_RING_NEED_DOORBELL);
	/* Pairs with the producer's barrier between its prod and this flag. */
	smp_mb();
	return ziw_ring_filled(ring, from) != 0;
}

/* Neither of two rings in the same memory shares a cache line with the other. */
#define ZIW_RING_HDR_SIZE	ALIGN(sizeof(struct ziw_ring_hdr), 64)

static inline size_t ziw_ring_bytes(u32 entries, u32 stride)
{
	return ALIGN(ZIW_RING_HDR_SIZE + (size_t)entries * stride, 64);
}

int ziw_ring_alloc(struct ziw_dev *dev, struct ziw_ring *ring, u32 entries,
		   u32 stride, size_t behind, struct ib_udata *udata,
		   struct ziw_ring_info *info);
void ziw_ring_behind(struct ziw_ring *ring, const struct ziw_ring *first, u32 entries,
		     u32 stride, const struct ziw_ring_info *first_info,
		     struct ziw_ring_info *info);
void ziw_ring_free(struct ziw_ring *ring);

#endif /* ZIW_RING_H */
