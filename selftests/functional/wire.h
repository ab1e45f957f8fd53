/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * An iWARP peer made of a plain TCP socket: it says what a test wants it to say, right or wrong.
 * Formats: RFC 5044 (MPA), RFC 6581 (enhanced MPA), RFC 5041 (DDP), RFC 5040 (RDMAP).
 */
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host.h"

using Bytes = std::vector<uint8_t>;

/* Appends in network byte order. */
void put16(Bytes &to, uint32_t value);
void put32(Bytes &to, uint32_t value);
void put64(Bytes &to, uint64_t value);
uint32_t get16(const Bytes &from, std::size_t offset);
uint32_t get32(const Bytes &from, std::size_t offset);

uint32_t crc32c(const uint8_t *data, std::size_t length);

struct MpaFrame {
	static constexpr uint8_t markers = 0x80, crc = 0x40, reject = 0x20, enhanced = 0x10;
	/* In the first two of the four bytes that enhanced frames begin their private data with ...
	 */
	static constexpr uint32_t peer_to_peer = 0x8000, rtr_send = 0x4000;
	/* ... and in the second two. */
	static constexpr uint32_t rtr_write = 0x8000, rtr_read = 0x4000;

	bool reply = false;
	uint8_t flags = crc;
	uint8_t revision = 1;
	Bytes private_data;

	Bytes encode() const;
};

enum RdmapOpcode : uint8_t {
	op_write = 0,
	op_read_request = 1,
	op_read_response = 2,
	op_send = 3,
	op_send_invalidate = 4,
	op_send_solicited = 5,
	op_send_solicited_invalidate = 6,
	op_terminate = 7,
};

/* A DDP segment; what is unusual about it is set by the test. */
struct Segment {
	RdmapOpcode opcode = op_send;
	bool tagged = false, last = true;
	uint8_t ddp_version = 1, rdmap_version = 1;
	/* tagged */
	uint32_t stag = 0;
	uint64_t offset = 0;
	/* untagged */
	uint32_t invalidate = 0, queue = 0, sequence = 1, message_offset = 0;
	Bytes payload;

	Bytes encode() const;
	static std::optional<Segment> decode(const Bytes &ulpdu);

	static Segment send(uint32_t sequence, Bytes payload);
	static Segment write(uint32_t stag, uint64_t offset, Bytes payload);
	static Segment read_request(uint32_t sequence, uint32_t sink_stag, uint64_t sink_offset,
				    uint32_t size, uint32_t source_stag, uint64_t source_offset);
	static Segment terminate(uint32_t code);

	/* Of a Terminate: layer, type and code, as in ziw_cqe.vendor_err. */
	uint32_t terminate_code() const { return get16(payload, 0); }
	/* Of a Terminate: M, D and R, the lowest three bits. */
	unsigned header_control() const { return payload[2] >> 5; }
};

class Wire {
public:
	/* Connects from `host`'s namespace. */
	Wire(const Host &host, const Address &to);
	explicit Wire(verbs::Fd fd) : fd_(std::move(fd)) {}

	void send(const Bytes &bytes);
	/* Each byte in a TCP segment of its own. */
	void trickle(const Bytes &bytes);
	/* Exactly count bytes, or nothing if the connection ends or the time does. */
	std::optional<Bytes> receive(std::size_t count, verbs::milliseconds timeout = soon);
	/* Whether the peer ends the connection, after whatever it still has to say. */
	bool ends(verbs::milliseconds timeout = soon);
	/* End the connection: with a FIN, or with a RST. */
	void finish();
	void reset();

	std::optional<MpaFrame> receive_frame(verbs::milliseconds timeout = soon);

	static Bytes fpdu(const Bytes &ulpdu, bool good_crc = true);
	void send(const Segment &segment) { send(fpdu(segment.encode())); }
	/* The next FPDU's ULPDU; nothing if there is none. A bad CRC or pad is thrown. */
	std::optional<Bytes> receive_fpdu(verbs::milliseconds timeout = soon);
	std::optional<Segment> receive_segment(verbs::milliseconds timeout = soon);
	/* Skips all that comes before the Terminate. */
	std::optional<Segment> receive_terminate(verbs::milliseconds timeout = soon);

private:
	verbs::Fd fd_;
};

class WireListener {
public:
	explicit WireListener(const Host &host, Family family = Family::ipv4);
	Address address() const { return address_; }
	std::optional<Wire> accept(verbs::milliseconds timeout = soon);

private:
	verbs::Fd fd_;
	Address address_;
};
