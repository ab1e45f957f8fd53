/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Captured conversations in words: one line per message. Joins in the middle of a stream, and again
 * behind what a capture has missed.
 */
#pragma once

#include <functional>
#include <memory>

#include "check.h"
#include "reassembly.h"

namespace wire {

struct DecodeOptions {
	/* A line per DDP segment instead of one per message. */
	bool segments = false;
	/* Octets of payload to show, in hexadecimal. */
	std::size_t payload = 0;
	/* The time of day (UTC) instead of seconds since the first packet. */
	bool absolute = false;
	/* Connections that are no iWARP are told of, too. */
	bool all = false;
};

class Decoder {
public:
	using Print = std::function<void(const std::string &)>;

	Decoder(const DecodeOptions &options, Print print);
	~Decoder();
	void packet(const Packet &packet);
	/* The end of the capture: what is still waiting is told. */
	void finish();

	struct Totals {
		uint64_t packets = 0, connections = 0, frames = 0, fpdus = 0, messages = 0;
		/* Rules broken, CRC errors among them. */
		uint64_t broken = 0, crc_errors = 0;
		/* FPDUs and messages without an end, octets that could not be read. */
		uint64_t incomplete = 0;
		uint64_t octets_missing = 0, octets_skipped = 0;
		/* How often a place was looked at, whether an FPDU begins there. */
		uint64_t starts_tried = 0;

		/* Anything was wrong in a conversation, or missing. */
		bool wrong() const { return broken || incomplete || octets_missing; }
	};
	const Totals &totals() const { return totals_; }

private:
	class Connection;
	class Direction;
	using Key = std::pair<TcpEnd, TcpEnd>;

	std::string time_text(uint64_t time) const;

	DecodeOptions options_;
	Print print_;
	Totals totals_;
	std::optional<uint64_t> first_time_;
	std::map<Key, std::unique_ptr<Connection>> connections_;
};

} // namespace wire
