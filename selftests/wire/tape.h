/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Captures made by hand: a conversation as TCP segments, in any order, in any file format. */
#pragma once

#include <string>
#include <vector>

#include "wire/decode.h"
#include "wire/mpa.h"
#include "wire/rdmap.h"

/* One packet to be. */
struct Frame {
	bool forward = true;
	uint32_t sequence = 0;
	/* FIN, SYN, RST as TCP has them. */
	uint8_t flags = 0x10;
	wire::Bytes payload;
};

enum class Format { pcap, pcap_big_endian, pcap_nano, pcapng, pcapng_big_endian };
enum class Link { ethernet, vlan, cooked, cooked2, raw };

/* A conversation between two hosts. */
class Tape {
public:
	static constexpr uint8_t fin = 1, syn = 2, rst = 4;

	/* The sequence numbers that the two begin with. */
	explicit Tape(uint32_t forward = 1000, uint32_t backward = 2000) : next_{backward, forward}
	{
	}
	void handshake();
	/* As one TCP segment, or as several of at most `most` octets. */
	void say(bool forward, wire::View bytes, std::size_t most = SIZE_MAX);
	/* An ACK with nothing in it. */
	void acknowledge(bool forward);
	void end(bool forward, uint8_t flags = fin);
	/* To be reordered, doubled, dropped. */
	std::vector<Frame> frames;

	wire::Bytes file(Format format = Format::pcap, Link link = Link::ethernet,
			 bool ipv6 = false) const;

private:
	uint32_t next_[2];
};

/* Both sides' frames and encoders; `say` goes to a Tape. */
struct Talk {
	explicit Talk(Tape &on) : tape(on) {}
	/* The frames; each side's markers as the other one asks. */
	void setup(const wire::MpaFrame &request, const wire::MpaFrame &reply);
	void say(bool forward, const wire::Segment &segment, std::size_t most = SIZE_MAX,
		 const wire::FpduFaults &faults = {});

	Tape &tape;
	wire::FpduEncoder encoders[2];
};

/* What decoding this file prints. */
struct Decoded {
	std::vector<std::string> lines;
	wire::Decoder::Totals totals;

	bool has(const std::string &text) const;
	std::size_t count(const std::string &text) const;
	std::string all() const;
};

Decoded decode(const wire::Bytes &file, const wire::DecodeOptions &options = {});
/* A conversation with a message of every kind. */
Tape example(bool markers, std::size_t most = SIZE_MAX);
int write_seeds(const std::string &directory);
