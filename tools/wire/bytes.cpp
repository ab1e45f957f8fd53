// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "bytes.h"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace wire {

void put8(Bytes &to, unsigned value)
{
	to.push_back(static_cast<uint8_t>(value));
}

void put16(Bytes &to, unsigned value)
{
	put8(to, value >> 8);
	put8(to, value);
}

void put32(Bytes &to, uint32_t value)
{
	put16(to, value >> 16);
	put16(to, value);
}

void put64(Bytes &to, uint64_t value)
{
	put32(to, static_cast<uint32_t>(value >> 32));
	put32(to, static_cast<uint32_t>(value));
}

void append(Bytes &to, View what)
{
	to.insert(to.end(), what.begin(), what.end());
}

View part(View from, std::size_t offset, std::size_t count)
{
	if (offset > from.size() || count > from.size() - offset)
		throw std::out_of_range("the octets end too early");
	return from.subspan(offset, count);
}

View rest(View from, std::size_t offset)
{
	return part(from, offset, offset > from.size() ? 0 : from.size() - offset);
}

Bytes copy(View from)
{
	return Bytes(from.begin(), from.end());
}

static uint64_t get(View from, std::size_t offset, std::size_t count)
{
	uint64_t value = 0;

	for (auto byte : part(from, offset, count))
		value = value << 8 | byte;
	return value;
}

uint8_t get8(View from, std::size_t offset)
{
	return static_cast<uint8_t>(get(from, offset, 1));
}

uint16_t get16(View from, std::size_t offset)
{
	return static_cast<uint16_t>(get(from, offset, 2));
}

uint32_t get32(View from, std::size_t offset)
{
	return static_cast<uint32_t>(get(from, offset, 4));
}

uint64_t get64(View from, std::size_t offset)
{
	return get(from, offset, 8);
}

Bytes text(std::string_view s)
{
	return Bytes(s.begin(), s.end());
}

std::string hex(View bytes, std::size_t most)
{
	static const char digits[] = "0123456789abcdef";
	std::string out;

	for (auto byte : bytes.first(std::min(most, bytes.size()))) {
		out += digits[byte >> 4];
		out += digits[byte & 15];
	}
	if (bytes.size() > most)
		out += "...";
	return out;
}

Bytes from_hex(std::string_view digits)
{
	Bytes bytes;
	int high = -1;

	for (char c : digits) {
		int value;

		if (c == ' ' || c == '\t' || c == '\n')
			continue;
		if (c >= '0' && c <= '9')
			value = c - '0';
		else if (c >= 'a' && c <= 'f')
			value = c - 'a' + 10;
		else if (c >= 'A' && c <= 'F')
			value = c - 'A' + 10;
		else
			throw std::invalid_argument("not hexadecimal: '" + std::string(1, c) + "'");
		if (high < 0) {
			high = value;
		} else {
			put8(bytes, static_cast<unsigned>(high << 4 | value));
			high = -1;
		}
	}
	if (high >= 0)
		throw std::invalid_argument("an odd number of hexadecimal digits");
	return bytes;
}

void Crc32c::add(View bytes)
{
	/* The polynomial 0x1edc6f41, its bits reflected as the octets' are. */
	static const auto table = [] {
		std::array<uint32_t, 256> made;
		for (uint32_t i = 0; i < made.size(); i++) {
			made[i] = i;
			for (int bit = 0; bit < 8; bit++)
				made[i] = made[i] & 1 ? made[i] >> 1 ^ 0x82f63b78 : made[i] >> 1;
		}
		return made;
	}();

	for (auto byte : bytes)
		state_ = table[(state_ ^ byte) & 0xff] ^ state_ >> 8;
}

uint32_t crc32c(View bytes)
{
	Crc32c crc;

	crc.add(bytes);
	return crc.value();
}

} // namespace wire
