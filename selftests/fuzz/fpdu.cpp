// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "fpdu.h"

#include <algorithm>

#include "unit/crc32c.h"

namespace fpdu {

namespace {

constexpr std::size_t length_size = 2, crc_size = 4, max_ulpdu = 0xffff;

std::size_t round_up(std::size_t n)
{
	return (n + 3) / 4 * 4;
}

std::size_t ulpdu_length(View stream)
{
	return static_cast<std::size_t>(stream[0] << 8 | stream[1]);
}

/* Whole, or 0. */
std::size_t whole(View stream)
{
	if (stream.size() < length_size)
		return 0;

	const std::size_t size = round_up(length_size + ulpdu_length(stream)) + crc_size;

	return size <= stream.size() ? size : 0;
}

} // namespace

void append(Bytes &stream, View ulpdu)
{
	const std::size_t begin = stream.size();

	ulpdu = ulpdu.first(std::min(ulpdu.size(), max_ulpdu));
	stream.push_back(static_cast<u8>(ulpdu.size() >> 8));
	stream.push_back(static_cast<u8>(ulpdu.size() & 0xff));
	stream.insert(stream.end(), ulpdu.begin(), ulpdu.end());
	stream.resize(begin + round_up(length_size + ulpdu.size()));

	const auto crc = crc32c(View(stream).subspan(begin));

	stream.insert(stream.end(), crc.begin(), crc.end());
}

Parts split(View stream)
{
	Parts parts;

	while (const std::size_t size = whole(stream)) {
		parts.ulpdus.push_back(copy(stream.subspan(length_size, ulpdu_length(stream))));
		stream = stream.subspan(size);
	}
	parts.rest = copy(stream);
	return parts;
}

std::vector<std::size_t> good_prefix(View stream, bool crc)
{
	std::vector<std::size_t> sizes;

	while (const std::size_t size = whole(stream)) {
		if (crc && !std::ranges::equal(crc32c(stream.first(size - crc_size)),
					       stream.subspan(size - crc_size, crc_size)))
			break;
		sizes.push_back(size);
		stream = stream.subspan(size);
	}
	return sizes;
}

} // namespace fpdu
