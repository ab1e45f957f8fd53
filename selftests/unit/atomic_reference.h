/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What Atomic Operations do to a value, from the text of RFC 7306, 5.1.1 and 5.1.2: one bit at a
 * time, so that kernel/proto, which adds all fields at once, can be held against it.
 */
#pragma once

#include <cstdint>

namespace atomic_reference {

constexpr uint64_t fetch_add(uint64_t value, uint64_t add, uint64_t mask)
{
	uint64_t result = 0;
	unsigned carry = 0;

	for (unsigned bit = 0; bit < 64; bit++) {
		const unsigned sum = carry + (value >> bit & 1) + (add >> bit & 1);

		result |= uint64_t{sum & 1} << bit;
		/* A bit of the mask ends its field: what it carries out is lost. */
		carry = mask >> bit & 1 ? 0 : sum >> 1;
	}
	return result;
}

constexpr uint64_t cmp_swap(uint64_t value, uint64_t swap, uint64_t mask, uint64_t compare,
			    uint64_t compare_mask)
{
	uint64_t result = 0;

	for (unsigned bit = 0; bit < 64; bit++) {
		if (compare_mask >> bit & 1 && (compare >> bit & 1) != (value >> bit & 1))
			return value;
		result |= ((mask >> bit & 1 ? swap : value) >> bit & 1) << bit;
	}
	return result;
}

} // namespace atomic_reference
