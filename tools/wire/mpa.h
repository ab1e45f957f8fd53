/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * MPA: the frames of connection setup (RFC 5044, 7.1.1; RFC 6581, 6 and 9) and the stream of FPDUs
 * (RFC 5044, 4). Whatever a field can hold can be said, right or wrong.
 */
#pragma once

#include <functional>
#include <optional>

#include "bytes.h"

namespace wire {

/* RFC 6581, 9: what enhanced private data begins with. */
struct Enhanced {
	/* "leave it to the ULP" */
	static constexpr uint16_t none = 0x3fff;

	/* The control flags A, B, C and D. */
	bool peer_to_peer = false, rtr_send = false, rtr_write = false, rtr_read = false;
	uint16_t ird = 0, ord = 0;

	uint32_t encode() const;
	static Enhanced decode(uint32_t word);
	bool operator==(const Enhanced &) const = default;
};

struct MpaFrame {
	static constexpr std::size_t header_length = 20, max_private_data = 512;
	/* The flags, as bits of octet 16. */
	static constexpr uint8_t m = 0x80, c = 0x40, r = 0x20, s = 0x10;

	bool reply = false;
	uint8_t flags = c;
	uint8_t revision = 1;
	/* Sets S, and comes before the private data. */
	std::optional<Enhanced> enhanced;
	/* The ULP's. */
	Bytes private_data;
	/* Instead of what belongs there. */
	std::optional<Bytes> key;
	std::optional<uint16_t> length;

	bool markers() const { return flags & m; }
	bool crc() const { return flags & c; }
	bool rejected() const { return flags & r; }

	Bytes encode() const;
	/* Octets of the frame that begins with this header; throws if it is none. */
	static std::size_t size(View header);
	/* Of a whole frame. */
	static MpaFrame decode(View frame);
	static Bytes request_key() { return text("MPA ID Req Frame"); }
	static Bytes reply_key() { return text("MPA ID Rep Frame"); }
};

/* How an FPDU differs from what it should be. */
struct FpduFaults {
	enum class Crc { good, wrong, zero } crc = Crc::good;
	uint8_t pad = 0;
	/* In the length field, while the ULPDU's real length stays. */
	std::optional<uint16_t> length;
	/* Called for each marker with its number in this FPDU; may change both fields. */
	std::function<void(unsigned number, uint16_t &reserved, uint16_t &pointer)> marker;
};

/* One direction of a stream, sending. */
class FpduEncoder {
public:
	static constexpr std::size_t marker_interval = 512;

	explicit FpduEncoder(bool markers = false) : markers_(markers) {}
	bool markers() const { return markers_; }
	/* Octets from the start of the stream. */
	uint64_t position() const { return position_; }
	/* The next FPDU, with the markers that fall before it and into it. */
	Bytes encode(View ulpdu, const FpduFaults &faults = {});

private:
	bool markers_;
	uint64_t position_ = 0;
};

struct Marker {
	/* In the stream. */
	uint64_t position;
	uint16_t reserved, pointer;
	/* What the pointer has to be. */
	uint16_t expected;
	bool good() const { return reserved == 0 && pointer == expected; }
};

struct Fpdu {
	/* Of its first octet (that of the length field, or of a marker before it). */
	uint64_t position = 0;
	/* With markers and CRC. */
	std::size_t wire_length = 0;
	Bytes ulpdu, pad;
	uint32_t crc = 0, computed_crc = 0;
	std::vector<Marker> markers;

	/* The one that these octets, at this position of a stream, begin with; nothing if not all
	 * of it is there. */
	static std::optional<Fpdu> read(View bytes, bool markers, uint64_t position);
	/* What its ULPDU begins with: so many octets, or as many as it has; nothing if they are not
	 * there. */
	static std::optional<Bytes> read_head(View bytes, bool markers, uint64_t position,
					      std::size_t count);

	bool crc_good() const { return crc == computed_crc; }
	bool pad_good() const;
	bool markers_good() const;
};

/* One direction of a stream, receiving, in any pieces. */
class FpduDecoder {
public:
	explicit FpduDecoder(bool markers = false) : markers_(markers) {}
	void feed(View bytes) { append(buffer_, bytes); }
	/* The next FPDU that is there whole. */
	std::optional<Fpdu> next();
	/* The same, without taking it. */
	std::optional<Fpdu> peek() const { return Fpdu::read(buffer_, markers_, position_); }
	/* What has come and belongs to no FPDU yet. */
	const Bytes &pending() const { return buffer_; }
	uint64_t position() const { return position_; }
	/* A stream that is joined at this position. */
	void seek(uint64_t position) { position_ = position; }
	/* Takes octets off the front, unlooked at. */
	void skip(std::size_t count);

private:
	bool markers_;
	uint64_t position_ = 0;
	Bytes buffer_;
};

} // namespace wire
