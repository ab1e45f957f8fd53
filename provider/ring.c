// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Mapping the rings that the kernel allocates.
 */
#include <errno.h>
#include <sys/mman.h>

#include "ziw.h"

/* Does all of the ring lie in its mapping, and a slot of it hold @slot_size? */
static bool ziw_ring_info_ok(const struct ziw_ring_info *info,
			     size_t slot_size)
{
	uint64_t slots = (uint64_t)info->entries * info->stride;

	return info->entries && !(info->entries & (info->entries - 1)) &&
	       info->stride >= slot_size && !(info->stride % sizeof(uint64_t)) &&
	       info->hdr_offset <= info->slots_offset &&
	       info->slots_offset - info->hdr_offset >= sizeof(struct ziw_ring_hdr) &&
	       !(info->hdr_offset % sizeof(uint64_t)) &&
	       !(info->slots_offset % sizeof(uint64_t)) &&
	       info->mmap_size <= SIZE_MAX &&
	       info->slots_offset <= info->mmap_size &&
	       slots <= info->mmap_size - info->slots_offset;
}

/*
 * ziw_ring_map - map what a create command returned
 * @slot_size: the least a slot has to hold
 *
 * A child process must not inherit the ring: its stores would be the parent's
 * posts. Returns 0 or an errno value.
 */
int ziw_ring_map(struct ziw_ring *ring, int cmd_fd,
		 const struct ziw_ring_info *info, size_t slot_size)
{
	void *map;
	int ret;

	if (!ziw_ring_info_ok(info, slot_size))
		return EPROTO;

	map = mmap(NULL, info->mmap_size, PROT_READ | PROT_WRITE, MAP_SHARED,
		   cmd_fd, info->mmap_offset);
	if (map == MAP_FAILED)
		return errno;

	if (ibv_dontfork_range(map, info->mmap_size)) {
		ret = errno;
		munmap(map, info->mmap_size);
		return ret;
	}

	ring->map = map;
	ring->hdr = map + info->hdr_offset;
	ring->slots = map + info->slots_offset;
	ring->map_size = info->mmap_size;
	ring->entries = info->entries;
	ring->stride = info->stride;
	ziw_ring_resync(ring);
	return 0;
}

/* Take both indices from the ring, where nobody is moving either. */
void ziw_ring_resync(struct ziw_ring *ring)
{
	ring->prod = ziw_load_acquire(&ring->hdr->prod);
	ring->cons = ziw_load_acquire(&ring->hdr->cons);
}

void ziw_ring_unmap(struct ziw_ring *ring)
{
	if (!ring->hdr)
		return;

	ibv_dofork_range(ring->map, ring->map_size);
	munmap(ring->map, ring->map_size);
	ring->hdr = NULL;
}
