/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * DDP segments (RFC 5041, 4) and the RDMAP messages in them (RFC 5040, 4; RFC 7306). Every field
 * can be set; the makers set what the RFCs ask for.
 */
#pragma once

#include <optional>

#include "bytes.h"

namespace wire {

enum class Opcode : uint8_t {
	write = 0x0,
	read_request = 0x1,
	read_response = 0x2,
	send = 0x3,
	send_invalidate = 0x4,
	send_se = 0x5,
	send_se_invalidate = 0x6,
	terminate = 0x7,
	immediate = 0x8,
	immediate_se = 0x9,
	atomic_request = 0xa,
	atomic_response = 0xb,
};

const char *name(Opcode opcode);
/* The opcode of a name; throws std::invalid_argument. */
Opcode opcode_named(std::string_view name);
bool is_send(Opcode opcode);
bool invalidates(Opcode opcode);
bool is_immediate(Opcode opcode);
/* The queue that messages of this opcode belong to; none for tagged ones and reserved opcodes. */
std::optional<uint32_t> queue_of(Opcode opcode);
bool is_tagged(Opcode opcode);

inline constexpr uint32_t send_queue = 0, request_queue = 1, terminate_queue = 2,
			  atomic_response_queue = 3;

struct Segment {
	static constexpr std::size_t tagged_header = 14, untagged_header = 18;

	Opcode opcode = Opcode::send;
	bool tagged = false, last = true;
	/* DDP's four reserved bits, RDMAP's two. */
	uint8_t ddp_reserved = 0, rdmap_reserved = 0;
	uint8_t ddp_version = 1, rdmap_version = 1;
	/* tagged */
	uint32_t stag = 0;
	uint64_t to = 0;
	/* untagged */
	uint32_t invalidate = 0, qn = 0, msn = 1, mo = 0;
	Bytes payload;

	std::size_t header_length() const { return tagged ? tagged_header : untagged_header; }
	Bytes encode() const;
	Bytes header() const;
	/* Nothing if the ULPDU is too short for its header. */
	static std::optional<Segment> decode(View ulpdu);

	static Segment untagged(Opcode opcode, uint32_t msn, Bytes payload);
	static Segment send(uint32_t msn, Bytes payload = {});
	static Segment write(uint32_t stag, uint64_t to, Bytes payload = {});
	static Segment read_response(uint32_t stag, uint64_t to, Bytes payload = {});
};

/* RFC 5040, figure 6. */
struct ReadRequest {
	static constexpr std::size_t length = 28;

	uint32_t sink_stag = 0;
	uint64_t sink_to = 0;
	uint32_t size = 0;
	uint32_t source_stag = 0;
	uint64_t source_to = 0;

	Bytes encode() const;
	/* These throw std::out_of_range for a payload that is too short. */
	static ReadRequest decode(View payload);
	Segment segment(uint32_t msn) const;
	bool operator==(const ReadRequest &) const = default;
};

/* RFC 7306, figure 4. */
struct AtomicRequest {
	static constexpr std::size_t length = 52;
	static constexpr uint8_t fetch_add = 0, cmp_swap = 2;

	/* 28 bits */
	uint32_t reserved = 0;
	uint8_t operation = fetch_add;
	uint32_t id = 0, stag = 0;
	uint64_t to = 0, data = 0, mask = 0, compare = 0, compare_mask = 0;

	Bytes encode() const;
	static AtomicRequest decode(View payload);
	Segment segment(uint32_t msn) const;
};

/* RFC 7306, figure 6. */
struct AtomicResponse {
	static constexpr std::size_t length = 12;

	uint32_t id = 0;
	uint64_t original = 0;

	Bytes encode() const;
	static AtomicResponse decode(View payload);
	Segment segment(uint32_t msn) const;
};

/* What an atomic operation leaves in memory (the pseudocode of RFC 7306, 5.1.1 and 5.1.2). */
uint64_t fetch_add(uint64_t original, uint64_t data, uint64_t mask);
uint64_t cmp_swap(uint64_t original, uint64_t data, uint64_t mask, uint64_t compare,
		  uint64_t compare_mask);

/* RFC 5040, figures 7 and 8. */
struct Terminate {
	/* Layer, type and code, as the first two octets have them. */
	uint16_t code = 0;
	/* M, D and R. */
	bool m = false, d = false, r = false;
	/* 13 bits */
	uint16_t reserved = 0;
	uint16_t segment_length = 0;
	Bytes ddp_header, rdma_header;
	/* Octets behind all that the header control bits announce. */
	Bytes more;

	Terminate() = default;
	explicit Terminate(uint16_t what) : code(what) {}
	unsigned layer() const { return code >> 12; }
	unsigned type() const { return code >> 8 & 15; }
	Bytes encode() const;
	/* Throws std::out_of_range where less is there than is announced. */
	static Terminate decode(View payload);
	Segment segment() const;
};

/* In words, with the layer. */
std::string terminate_name(uint16_t code);

/*
 * One line: what the segment is, and all that is wrong with it in itself. The length is that of its
 * message where more is known of it than this segment.
 */
std::string describe(const Segment &segment, std::optional<std::size_t> length = {});

} // namespace wire
