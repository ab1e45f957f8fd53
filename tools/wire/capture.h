/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Capture files, pcap and pcapng, read as they come: a pipe from tcpdump is as good as a file.
 * Nothing in them is trusted.
 */
#pragma once

#include <istream>
#include <optional>
#include <stdexcept>

#include "bytes.h"

namespace wire {

class BadCapture : public std::runtime_error {
public:
	using std::runtime_error::runtime_error;
};

struct Packet {
	/* Nanoseconds since 1970. */
	uint64_t time = 0;
	/* LINKTYPE_..., of tcpdump.org. */
	uint32_t link_type = 0;
	Bytes data;
	/* The packet had more octets than were captured. */
	bool cut_off = false;
};

class CaptureReader {
public:
	/* Throws BadCapture if this is neither format. */
	explicit CaptureReader(std::istream &in);
	/* Nothing at the end. Throws BadCapture where the file makes no sense any more. */
	std::optional<Packet> next();

private:
	struct Interface {
		uint32_t link_type;
		/* Units of time per second, as 10^-n or 2^-n. */
		uint8_t resolution = 6;
		uint32_t snap_length;
	};

	uint32_t number(View at, std::size_t offset) const;
	uint32_t short_number(View at, std::size_t offset) const;
	/* Nothing if the file ends here; throws if it ends within. */
	std::optional<Bytes> take(std::size_t count);
	std::optional<Packet> next_classic();
	std::optional<Packet> next_block();
	void section_header(View body);
	void interface_block(View body);
	std::optional<Packet> enhanced_packet(View body) const;
	std::optional<Packet> simple_packet(View body) const;
	static uint64_t nanoseconds(uint64_t units, uint8_t resolution);

	std::istream &in_;
	bool classic_ = false, big_endian_ = false, nano_ = false;
	uint32_t link_type_ = 0;
	std::vector<Interface> interfaces_;
};

} // namespace wire
