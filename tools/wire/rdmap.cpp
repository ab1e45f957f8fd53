// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "rdmap.h"

#include <array>
#include <cstdio>
#include <stdexcept>

namespace wire {

/* --- opcodes --- */

namespace {

struct OpcodeFacts {
	const char *name;
	bool tagged;
	uint32_t queue;
};

/* RFC 5040, figure 4, and RFC 7306, figure 2. */
constexpr std::array<OpcodeFacts, 12> opcodes{{
	{"write", true, 0},
	{"read-request", false, request_queue},
	{"read-response", true, 0},
	{"send", false, send_queue},
	{"send-invalidate", false, send_queue},
	{"send-se", false, send_queue},
	{"send-se-invalidate", false, send_queue},
	{"terminate", false, terminate_queue},
	{"immediate", false, send_queue},
	{"immediate-se", false, send_queue},
	{"atomic-request", false, request_queue},
	{"atomic-response", false, atomic_response_queue},
}};

const OpcodeFacts *facts(Opcode opcode)
{
	auto number = static_cast<std::size_t>(opcode);

	return number < opcodes.size() ? &opcodes[number] : nullptr;
}

} // namespace

const char *name(Opcode opcode)
{
	return facts(opcode) ? facts(opcode)->name : "reserved-opcode";
}

Opcode opcode_named(std::string_view name)
{
	for (std::size_t i = 0; i < opcodes.size(); i++)
		if (name == opcodes[i].name)
			return static_cast<Opcode>(i);
	throw std::invalid_argument("no opcode '" + std::string(name) + "'");
}

bool is_send(Opcode opcode)
{
	return opcode >= Opcode::send && opcode <= Opcode::send_se_invalidate;
}

bool invalidates(Opcode opcode)
{
	return opcode == Opcode::send_invalidate || opcode == Opcode::send_se_invalidate;
}

bool is_immediate(Opcode opcode)
{
	return opcode == Opcode::immediate || opcode == Opcode::immediate_se;
}

bool is_tagged(Opcode opcode)
{
	return facts(opcode) && facts(opcode)->tagged;
}

std::optional<uint32_t> queue_of(Opcode opcode)
{
	if (!facts(opcode) || facts(opcode)->tagged)
		return std::nullopt;
	return facts(opcode)->queue;
}

/* --- segments --- */

Bytes Segment::header() const
{
	Bytes bytes;

	put8(bytes, (tagged ? 0x80u : 0u) | (last ? 0x40u : 0u) | (ddp_reserved & 15u) << 2 |
			    (ddp_version & 3u));
	put8(bytes, (rdmap_version & 3u) << 6 | (rdmap_reserved & 3u) << 4 |
			    (static_cast<unsigned>(opcode) & 15u));
	if (tagged) {
		put32(bytes, stag);
		put64(bytes, to);
	} else {
		put32(bytes, invalidate);
		put32(bytes, qn);
		put32(bytes, msn);
		put32(bytes, mo);
	}
	return bytes;
}

Bytes Segment::encode() const
{
	auto bytes = header();

	append(bytes, payload);
	return bytes;
}

std::optional<Segment> Segment::decode(View ulpdu)
{
	Segment s;

	if (ulpdu.size() < 2)
		return std::nullopt;
	unsigned ddp = ulpdu[0], rdmap = ulpdu[1];
	s.tagged = ddp & 0x80;
	s.last = ddp & 0x40;
	s.ddp_reserved = ddp >> 2 & 15;
	s.ddp_version = ddp & 3;
	s.rdmap_version = static_cast<uint8_t>(rdmap >> 6);
	s.rdmap_reserved = rdmap >> 4 & 3;
	s.opcode = static_cast<Opcode>(rdmap & 15);
	if (ulpdu.size() < s.header_length())
		return std::nullopt;
	if (s.tagged) {
		s.stag = get32(ulpdu, 2);
		s.to = get64(ulpdu, 6);
	} else {
		s.invalidate = get32(ulpdu, 2);
		s.qn = get32(ulpdu, 6);
		s.msn = get32(ulpdu, 10);
		s.mo = get32(ulpdu, 14);
	}
	s.payload = copy(rest(ulpdu, s.header_length()));
	return s;
}

Segment Segment::untagged(Opcode opcode, uint32_t msn, Bytes payload)
{
	Segment s;

	s.opcode = opcode;
	s.qn = queue_of(opcode).value_or(0);
	s.msn = msn;
	s.payload = std::move(payload);
	return s;
}

Segment Segment::send(uint32_t msn, Bytes payload)
{
	return untagged(Opcode::send, msn, std::move(payload));
}

static Segment tagged(Opcode opcode, uint32_t stag, uint64_t to, Bytes payload)
{
	Segment s;

	s.opcode = opcode;
	s.tagged = true;
	s.stag = stag;
	s.to = to;
	s.payload = std::move(payload);
	return s;
}

Segment Segment::write(uint32_t stag, uint64_t to, Bytes payload)
{
	return wire::tagged(Opcode::write, stag, to, std::move(payload));
}

Segment Segment::read_response(uint32_t stag, uint64_t to, Bytes payload)
{
	return wire::tagged(Opcode::read_response, stag, to, std::move(payload));
}

/* --- RDMAP headers --- */

Bytes ReadRequest::encode() const
{
	Bytes bytes;

	put32(bytes, sink_stag);
	put64(bytes, sink_to);
	put32(bytes, size);
	put32(bytes, source_stag);
	put64(bytes, source_to);
	return bytes;
}

ReadRequest ReadRequest::decode(View payload)
{
	return {get32(payload, 0), get64(payload, 4), get32(payload, 12), get32(payload, 16),
		get64(payload, 20)};
}

Segment ReadRequest::segment(uint32_t msn) const
{
	return Segment::untagged(Opcode::read_request, msn, encode());
}

Bytes AtomicRequest::encode() const
{
	Bytes bytes;

	put32(bytes, reserved << 4 | (operation & 15u));
	put32(bytes, id);
	put32(bytes, stag);
	for (auto value : {to, data, mask, compare, compare_mask})
		put64(bytes, value);
	return bytes;
}

AtomicRequest AtomicRequest::decode(View payload)
{
	AtomicRequest request;
	auto word = get32(payload, 0);

	request.reserved = word >> 4;
	request.operation = word & 15;
	request.id = get32(payload, 4);
	request.stag = get32(payload, 8);
	request.to = get64(payload, 12);
	request.data = get64(payload, 20);
	request.mask = get64(payload, 28);
	request.compare = get64(payload, 36);
	request.compare_mask = get64(payload, 44);
	return request;
}

Segment AtomicRequest::segment(uint32_t msn) const
{
	return Segment::untagged(Opcode::atomic_request, msn, encode());
}

Bytes AtomicResponse::encode() const
{
	Bytes bytes;

	put32(bytes, id);
	put64(bytes, original);
	return bytes;
}

AtomicResponse AtomicResponse::decode(View payload)
{
	return {get32(payload, 0), get64(payload, 4)};
}

Segment AtomicResponse::segment(uint32_t msn) const
{
	return Segment::untagged(Opcode::atomic_response, msn, encode());
}

uint64_t fetch_add(uint64_t original, uint64_t data, uint64_t mask)
{
	uint64_t result = 0, carry = 0;

	for (unsigned bit = 0; bit < 64; bit++) {
		auto sum = carry + (original >> bit & 1) + (data >> bit & 1);
		result |= (sum & 1) << bit;
		/* A set bit of the mask is the top of a field: nothing is carried out of it. */
		carry = mask >> bit & 1 ? 0 : sum >> 1;
	}
	return result;
}

uint64_t cmp_swap(uint64_t original, uint64_t data, uint64_t mask, uint64_t compare,
		  uint64_t compare_mask)
{
	if ((compare ^ original) & compare_mask)
		return original;
	return (original & ~mask) | (data & mask);
}

/* --- Terminate --- */

Bytes Terminate::encode() const
{
	Bytes bytes;

	put16(bytes, code);
	put16(bytes,
	      (m ? 0x8000u : 0u) | (d ? 0x4000u : 0u) | (r ? 0x2000u : 0u) | (reserved & 0x1fffu));
	if (m || d)
		put16(bytes, segment_length);
	if (d)
		append(bytes, ddp_header);
	if (r)
		append(bytes, rdma_header);
	append(bytes, more);
	return bytes;
}

Terminate Terminate::decode(View payload)
{
	Terminate t;
	std::size_t at = 4;
	auto control = get16(payload, 2);

	t.code = get16(payload, 0);
	t.m = control & 0x8000;
	t.d = control & 0x4000;
	t.r = control & 0x2000;
	t.reserved = control & 0x1fff;
	if (t.m || t.d) {
		t.segment_length = get16(payload, at);
		at += 2;
	}
	if (t.d) {
		std::size_t length = get8(payload, at) & 0x80 ? Segment::tagged_header
							      : Segment::untagged_header;
		t.ddp_header = copy(part(payload, at, length));
		at += length;
	}
	if (t.r) {
		t.rdma_header = copy(part(payload, at, ReadRequest::length));
		at += ReadRequest::length;
	}
	t.more = copy(rest(payload, at));
	return t;
}

Segment Terminate::segment() const
{
	return Segment::untagged(Opcode::terminate, 1, encode());
}

std::string terminate_name(uint16_t code)
{
	/* RFC 5040, figure 9; RFC 5041, 7.2; RFC 5044, 8; RFC 6581, 8. */
	static const struct {
		uint16_t code;
		const char *name;
	} names[] = {
		{0x0100, "invalid STag"},
		{0x0101, "base or bounds violation"},
		{0x0102, "access rights violation"},
		{0x0103, "STag not associated with the stream"},
		{0x0104, "TO wrap"},
		{0x0109, "STag cannot be invalidated"},
		{0x01ff, "unspecified protection error"},
		{0x0205, "invalid RDMAP version"},
		{0x0206, "unexpected opcode"},
		{0x0207, "catastrophic error of this stream"},
		{0x0208, "catastrophic error, global"},
		{0x0209, "STag cannot be invalidated"},
		{0x02ff, "unspecified operation error"},
		{0x1000, "local catastrophic error"},
		{0x1100, "invalid STag"},
		{0x1101, "base or bounds violation"},
		{0x1102, "STag not associated with the stream"},
		{0x1103, "TO wrap"},
		{0x1104, "invalid DDP version (tagged)"},
		{0x1201, "invalid QN"},
		{0x1202, "invalid MSN: no buffer available"},
		{0x1203, "invalid MSN: out of range"},
		{0x1204, "invalid MO"},
		{0x1205, "message too long for its buffer"},
		{0x1206, "invalid DDP version (untagged)"},
		{0x2001, "TCP connection lost"},
		{0x2002, "CRC error"},
		{0x2003, "marker and length disagree"},
		{0x2004, "invalid MPA frame"},
		{0x2005, "local catastrophic error"},
		{0x2006, "insufficient IRD resources"},
		{0x2007, "no matching RTR option"},
	};
	static const char *const layers[] = {"RDMAP", "DDP", "MPA"};
	std::string layer = code >> 12 < 3 ? layers[code >> 12] : "unknown layer";

	for (auto &entry : names)
		if (entry.code == code)
			return layer + ": " + entry.name;
	if (code >> 8 == 0)
		return layer + ": local catastrophic error";
	return layer + ": unknown error";
}

/* --- in words --- */

namespace {

std::string number(const char *format, unsigned long long value)
{
	std::array<char, 40> text;

	std::snprintf(text.data(), text.size(), format, value);
	return text.data();
}

std::string describe_payload(const Segment &s, std::size_t length)
{

	switch (s.opcode) {
	case Opcode::read_request: {
		auto r = ReadRequest::decode(s.payload);
		return number(" source stag 0x%08llx", r.source_stag) +
		       number(" to 0x%llx", r.source_to) + " size " + std::to_string(r.size) +
		       number(" sink stag 0x%08llx", r.sink_stag) + number(" to 0x%llx", r.sink_to);
	}
	case Opcode::atomic_request: {
		auto r = AtomicRequest::decode(s.payload);
		auto common = number(" id 0x%08llx", r.id) + number(" stag 0x%08llx", r.stag) +
			      number(" to 0x%llx", r.to);
		if (r.operation == AtomicRequest::fetch_add)
			return " fetch-add" + common + number(" add 0x%llx", r.data) +
			       number(" mask 0x%llx", r.mask);
		if (r.operation == AtomicRequest::cmp_swap)
			return " cmp-swap" + common + number(" swap 0x%llx", r.data) +
			       number("/0x%llx", r.mask) + number(" compare 0x%llx", r.compare) +
			       number("/0x%llx", r.compare_mask);
		return number(" unknown operation %llu", r.operation) + common;
	}
	case Opcode::atomic_response: {
		auto r = AtomicResponse::decode(s.payload);
		return number(" id 0x%08llx", r.id) + number(" original 0x%llx", r.original);
	}
	case Opcode::immediate:
	case Opcode::immediate_se:
		return " data " + hex(s.payload, 16);
	case Opcode::terminate: {
		auto t = Terminate::decode(s.payload);
		std::string text =
			number(" code 0x%04llx", t.code) + " (" + terminate_name(t.code) + ")";
		if (t.m || t.d)
			text += " segment length " + std::to_string(t.segment_length);
		if (t.d) {
			auto about = Segment::decode(t.ddp_header);
			text += " about [" + std::string(about ? name(about->opcode) : "?") + "]";
		}
		if (t.r)
			text += " with RDMAP header";
		return text;
	}
	default:
		return " len " + std::to_string(length);
	}
}

} // namespace

std::string describe(const Segment &s, std::optional<std::size_t> length)
{
	std::string text = name(s.opcode);
	auto queue = queue_of(s.opcode);

	if (s.tagged)
		text += number(" stag 0x%08llx", s.stag) + number(" to 0x%llx", s.to);
	else
		text += " qn " + std::to_string(s.qn) + " msn " + std::to_string(s.msn) + " mo " +
			std::to_string(s.mo);
	if (!s.tagged && invalidates(s.opcode))
		text += number(" invalidate 0x%08llx", s.invalidate);
	try {
		text += describe_payload(s, length.value_or(s.payload.size()));
	} catch (const std::out_of_range &) {
		text += " len " + std::to_string(s.payload.size()) + " !TRUNCATED";
	}
	text += s.last ? " last" : "";
	if (is_tagged(s.opcode) != s.tagged || (!s.tagged && queue != s.qn))
		text += " !WRONG-QUEUE";
	if (s.ddp_version != 1)
		text += " !DDP-VERSION-" + std::to_string(s.ddp_version);
	if (s.rdmap_version != 1)
		text += " !RDMAP-VERSION-" + std::to_string(s.rdmap_version);
	if (s.ddp_reserved || s.rdmap_reserved)
		text += " !RESERVED-BITS";
	return text;
}

} // namespace wire
