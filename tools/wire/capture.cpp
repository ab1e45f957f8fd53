// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "capture.h"

#include <algorithm>

namespace wire {

namespace {

constexpr uint32_t section_magic = 0x0a0d0d0a, byte_order_magic = 0x1a2b3c4d;
constexpr uint32_t pcap_micro = 0xa1b2c3d4, pcap_nano = 0xa1b23c4d;
/* More is no packet: the largest IP packet with offloads, and any header before it. */
constexpr uint32_t largest = 1 << 24;

uint32_t little(View at, std::size_t offset)
{
	auto big = get32(at, offset);

	return big >> 24 | (big >> 8 & 0xff00) | (big << 8 & 0xff0000) | big << 24;
}

} // namespace

uint32_t CaptureReader::number(View at, std::size_t offset) const
{
	return big_endian_ ? get32(at, offset) : little(at, offset);
}

uint32_t CaptureReader::short_number(View at, std::size_t offset) const
{
	uint32_t big = get16(at, offset);

	return big_endian_ ? big : (big >> 8 | (big << 8 & 0xff00));
}

std::optional<Bytes> CaptureReader::take(std::size_t count)
{
	Bytes bytes;

	/* In steps: a length that lies must not cost more memory than the file has octets. */
	while (bytes.size() < count) {
		auto step = std::min<std::size_t>(count - bytes.size(), 65536);
		auto at = bytes.size();
		bytes.resize(at + step);
		in_.read(reinterpret_cast<char *>(bytes.data() + at),
			 static_cast<std::streamsize>(step));
		auto got = static_cast<std::size_t>(in_.gcount());
		if (got == step)
			continue;
		if (at + got == 0)
			return std::nullopt;
		throw BadCapture("the capture is cut off");
	}
	return bytes;
}

CaptureReader::CaptureReader(std::istream &in) : in_(in)
{
	auto magic = take(4);

	if (!magic)
		throw BadCapture("the capture is empty");
	for (bool big : {false, true}) {
		big_endian_ = big;
		auto value = number(*magic, 0);
		if (value != pcap_micro && value != pcap_nano)
			continue;
		nano_ = value == pcap_nano;
		classic_ = true;
		auto rest_of_header = take(20);
		if (!rest_of_header)
			throw BadCapture("the capture is cut off");
		link_type_ = number(*rest_of_header, 16) & 0x0fffffff;
		return;
	}
	if (get32(*magic, 0) != section_magic)
		throw BadCapture("neither pcap nor pcapng");
	/* The length's byte order is told behind it. */
	auto header = take(8);
	if (!header)
		throw BadCapture("the capture is cut off");
	section_header(*header);
}

std::optional<Packet> CaptureReader::next()
{
	return classic_ ? next_classic() : next_block();
}

std::optional<Packet> CaptureReader::next_classic()
{
	auto header = take(16);

	if (!header)
		return std::nullopt;
	Packet packet;
	uint64_t fraction = number(*header, 4);
	packet.time =
		number(*header, 0) * uint64_t(1000000000) + (nano_ ? fraction : fraction * 1000);
	packet.link_type = link_type_;
	auto length = number(*header, 8);
	packet.cut_off = number(*header, 12) > length;
	if (length > largest)
		throw BadCapture("a packet of " + std::to_string(length) + " octets");
	auto data = take(length);
	if (!data && length)
		throw BadCapture("the capture is cut off");
	if (data)
		packet.data = std::move(*data);
	return packet;
}

/* The length and the byte order, in the 8 octets behind the type; takes the rest of the block. */
void CaptureReader::section_header(View start)
{
	big_endian_ = get32(start, 4) == byte_order_magic;
	if (!big_endian_ && little(start, 4) != byte_order_magic)
		throw BadCapture("a section without a byte order");
	auto length = number(start, 0);
	if (length < 28 || length > largest || length % 4)
		throw BadCapture("a section header of " + std::to_string(length) + " octets");
	take(length - 12);
	interfaces_.clear();
}

uint64_t CaptureReader::nanoseconds(uint64_t units, uint8_t resolution)
{
	unsigned power = resolution & 0x7f;

	if (resolution & 0x80) {
		if (power >= 64)
			return 0;
		auto whole = units >> power;
		auto part_of_one = static_cast<double>(units - (whole << power)) /
				   static_cast<double>(uint64_t(1) << power);
		return whole * 1000000000 + static_cast<uint64_t>(part_of_one * 1e9);
	}
	for (; power < 9; power++)
		units *= 10;
	for (; power > 9 && units; power--)
		units /= 10;
	return units;
}

void CaptureReader::interface_block(View body)
{
	Interface made{short_number(body, 0), 6, number(body, 4)};

	for (std::size_t at = 8; at + 4 <= body.size();) {
		auto code = short_number(body, at), length = short_number(body, at + 2);
		/* if_tsresol */
		if (code == 9 && length == 1)
			made.resolution = get8(body, at + 4);
		if (code == 0)
			break;
		at += 4 + (length + 3) / 4 * 4;
	}
	/* Each costs memory; nobody captures from more. */
	if (interfaces_.size() >= 65536)
		throw BadCapture("too many interfaces");
	interfaces_.push_back(made);
}

std::optional<Packet> CaptureReader::enhanced_packet(View body) const
{
	auto interface = number(body, 0), length = number(body, 12);
	Packet packet;

	if (interface >= interfaces_.size())
		throw BadCapture("a packet of an unknown interface");
	packet.link_type = interfaces_[interface].link_type;
	packet.time = nanoseconds(uint64_t(number(body, 4)) << 32 | number(body, 8),
				  interfaces_[interface].resolution);
	packet.cut_off = number(body, 16) > length;
	packet.data = copy(part(body, 20, length));
	return packet;
}

std::optional<Packet> CaptureReader::simple_packet(View body) const
{
	Packet packet;

	if (interfaces_.empty())
		throw BadCapture("a packet of an unknown interface");
	auto length = number(body, 0), there = static_cast<uint32_t>(body.size() - 4);
	packet.link_type = interfaces_[0].link_type;
	packet.cut_off = length > there;
	packet.data = copy(part(body, 4, std::min(length, there)));
	return packet;
}

std::optional<Packet> CaptureReader::next_block()
{
	for (;;) {
		auto header = take(8);
		if (!header)
			return std::nullopt;
		if (get32(*header, 0) == section_magic) {
			auto order = take(4);
			if (!order)
				throw BadCapture("the capture is cut off");
			Bytes start = copy(rest(*header, 4));
			append(start, *order);
			section_header(start);
			continue;
		}
		auto type = number(*header, 0), length = number(*header, 4);
		if (length < 12 || length > largest || length % 4)
			throw BadCapture("a block of " + std::to_string(length) + " octets");
		auto block = take(length - 8);
		if (!block)
			throw BadCapture("the capture is cut off");
		/* Behind the body the length is said once more. */
		auto body = View(*block).first(block->size() - 4);
		try {
			if (type == 1)
				interface_block(body);
			else if (type == 6)
				return enhanced_packet(body);
			else if (type == 3)
				return simple_packet(body);
		} catch (const std::out_of_range &) {
			throw BadCapture("a block that is too short for what it says");
		}
	}
}

} // namespace wire
