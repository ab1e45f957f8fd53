/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* From captured packets to the octets that TCP delivers. */
#pragma once

#include <array>
#include <map>
#include <optional>

#include "capture.h"

namespace wire {

struct TcpEnd {
	/* IPv4 addresses are mapped ones. */
	std::array<uint8_t, 16> address{};
	uint16_t port = 0;
	auto operator<=>(const TcpEnd &) const = default;
	std::string text() const;
};

struct TcpSegment {
	TcpEnd from, to;
	uint32_t sequence = 0;
	bool syn = false, fin = false, rst = false;
	View payload;
	/* Octets that the packet had and the capture has not. */
	std::size_t missing = 0;
};

/* Nothing if the packet is no TCP segment that can be read. The payload is part of the packet. */
std::optional<TcpSegment> parse_packet(const Packet &packet);

/* One direction. */
class TcpStream {
public:
	/* Octets that were never captured are given up when this many behind them have come. */
	static constexpr std::size_t patience = 4 << 20;

	struct Delivery {
		/* Octets in front of these that are missing for good. */
		uint64_t lost = 0;
		Bytes bytes;
		/* The TCP segment that they came with began here, for those who look for a start.
		 */
		bool segment_start = false;
	};

	/* What can be delivered because of this segment, in order. */
	std::vector<Delivery> add(const TcpSegment &segment);
	/* What is there behind gaps, when nothing more comes. */
	std::vector<Delivery> flush();
	/* The stream is known from its SYN. */
	bool from_start() const { return from_start_; }
	bool started() const { return started_; }
	bool finished() const { return fin_ && next_ >= fin_at_; }
	uint64_t retransmitted() const { return retransmitted_; }
	uint64_t out_of_order() const { return out_of_order_; }

private:
	uint64_t unwrap(uint32_t sequence) const;
	void deliver(std::vector<Delivery> &to);

	bool started_ = false, from_start_ = false, fin_ = false;
	/* Sequence numbers that do not wrap; the first 2^32 are in front of the stream. */
	uint64_t next_ = 0, fin_at_ = 0;
	uint64_t retransmitted_ = 0, out_of_order_ = 0;
	std::size_t held_ = 0;
	std::map<uint64_t, Bytes> waiting_;
};

} // namespace wire
