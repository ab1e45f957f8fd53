/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A slot of a ring whose owner never stops writing to it. kernel/proto/wqe.c has a barrier behind
 * each copy from a slot; there, what was copied becomes something else, bit for bit. So whatever is
 * looked at once more, and not in the copy, shows.
 */
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

class BusySlot {
public:
	/* The bytes of the header are copied first, and the others after them. */
	BusySlot(std::vector<uint8_t> bytes, std::size_t header);
	~BusySlot();
	BusySlot(const BusySlot &) = delete;
	BusySlot &operator=(const BusySlot &) = delete;

	const uint8_t *data() const { return bytes_.data(); }
	void copied();

private:
	std::vector<uint8_t> bytes_;
	std::size_t header_;
	unsigned copies_ = 0;
};
