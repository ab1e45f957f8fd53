// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "busy_slot.h"

#include <algorithm>
#include <utility>

namespace {

/* The one that is being taken; slots are taken one at a time. */
BusySlot *busy;

} // namespace

extern "C" void ziw_test_barrier(void);

extern "C" void ziw_test_barrier(void)
{
	if (busy)
		busy->copied();
}

BusySlot::BusySlot(std::vector<uint8_t> bytes, std::size_t header)
	: bytes_(std::move(bytes)), header_(header)
{
	busy = this;
}

BusySlot::~BusySlot()
{
	busy = nullptr;
}

void BusySlot::copied()
{
	const auto header_end = bytes_.begin() + static_cast<std::ptrdiff_t>(header_);
	const auto flip = [](uint8_t byte) { return static_cast<uint8_t>(~byte); };

	if (copies_ == 0)
		std::transform(bytes_.begin(), header_end, bytes_.begin(), flip);
	else if (copies_ == 1)
		std::transform(header_end, bytes_.end(), header_end, flip);
	copies_++;
}
