/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* CRC32c as MPA uses it (RFC 5044, 4.4, by way of iSCSI's digests), for tests that build FPDUs. */
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace crc32c_detail {

/* Castagnoli's polynomial with its bits reversed: bytes go in least significant bit first. */
inline constexpr uint32_t polynomial = 0x82f63b78;

constexpr std::array<uint32_t, 256> make_table()
{
	std::array<uint32_t, 256> table{};

	for (uint32_t i = 0; i < table.size(); i++) {
		uint32_t crc = i;

		for (int bit = 0; bit < 8; bit++)
			crc = crc & 1 ? crc >> 1 ^ polynomial : crc >> 1;
		table[i] = crc;
	}
	return table;
}

inline constexpr auto table = make_table();

} // namespace crc32c_detail

/* The four bytes as they follow the pad on the wire: the least significant one first. */
constexpr std::array<uint8_t, 4> crc32c(std::span<const uint8_t> bytes)
{
	uint32_t crc = ~uint32_t{0};

	for (uint8_t byte : bytes)
		crc = crc >> 8 ^ crc32c_detail::table[(crc ^ byte) & 0xff];
	crc = ~crc;
	return {static_cast<uint8_t>(crc & 0xff), static_cast<uint8_t>(crc >> 8 & 0xff),
		static_cast<uint8_t>(crc >> 16 & 0xff), static_cast<uint8_t>(crc >> 24)};
}
