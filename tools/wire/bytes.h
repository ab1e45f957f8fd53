/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Octets in network byte order. */
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace wire {

using Bytes = std::vector<uint8_t>;
using View = std::span<const uint8_t>;

void put8(Bytes &to, unsigned value);
void put16(Bytes &to, unsigned value);
void put32(Bytes &to, uint32_t value);
void put64(Bytes &to, uint64_t value);
void append(Bytes &to, View what);

/* Throw std::out_of_range where the octets end before the value does. */
uint8_t get8(View from, std::size_t offset);
uint16_t get16(View from, std::size_t offset);
uint32_t get32(View from, std::size_t offset);
uint64_t get64(View from, std::size_t offset);
/* count octets from offset. */
View part(View from, std::size_t offset, std::size_t count);
/* All from offset. */
View rest(View from, std::size_t offset);
Bytes copy(View from);

Bytes text(std::string_view s);
std::string hex(View bytes, std::size_t most = SIZE_MAX);
/* Throws std::invalid_argument for what is not hexadecimal digits in pairs; spaces are skipped. */
Bytes from_hex(std::string_view digits);

/* CRC32c as iSCSI's digests (RFC 3720, 12.1), the way RFC 5044, 4.4 asks for. */
class Crc32c {
public:
	void add(View bytes);
	uint32_t value() const { return ~state_; }

private:
	uint32_t state_ = ~uint32_t(0);
};

uint32_t crc32c(View bytes);

} // namespace wire
