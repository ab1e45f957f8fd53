// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "tape.h"

#include <algorithm>
#include <fstream>
#include <iostream>
#include <sstream>

using namespace wire;

/* --- packets --- */

namespace {

Bytes tcp(const Frame &frame)
{
	Bytes bytes;

	put16(bytes, frame.forward ? 40000 : 7174);
	put16(bytes, frame.forward ? 7174 : 40000);
	put32(bytes, frame.sequence);
	put32(bytes, 0);
	put8(bytes, 5 << 4);
	put8(bytes, frame.flags);
	put16(bytes, 1000);
	put32(bytes, 0);
	append(bytes, frame.payload);
	return bytes;
}

Bytes ip(const Frame &frame, bool ipv6)
{
	auto payload = tcp(frame);
	Bytes bytes;

	if (ipv6) {
		put32(bytes, 0x60000000);
		put16(bytes, static_cast<unsigned>(payload.size()));
		put8(bytes, 6);
		put8(bytes, 64);
		for (bool source : {true, false}) {
			put64(bytes, 0xfd00000000000000);
			put64(bytes, source == frame.forward ? 1 : 2);
		}
	} else {
		put16(bytes, 0x4500);
		put16(bytes, static_cast<unsigned>(payload.size() + 20));
		put32(bytes, 0x00004000);
		put8(bytes, 64);
		put8(bytes, 6);
		put16(bytes, 0);
		for (bool source : {true, false})
			put32(bytes, source == frame.forward ? 0x0a000001 : 0x0a000002);
	}
	append(bytes, payload);
	return bytes;
}

Bytes linked(const Frame &frame, Link link, bool ipv6)
{
	Bytes bytes;
	unsigned type = ipv6 ? 0x86dd : 0x0800;

	switch (link) {
	case Link::ethernet:
		bytes.resize(12);
		break;
	case Link::vlan:
		bytes.resize(12);
		put32(bytes, 0x81000005);
		break;
	case Link::cooked:
		bytes.resize(14);
		break;
	case Link::cooked2:
		put16(bytes, type);
		bytes.resize(20);
		break;
	case Link::raw:
		break;
	}
	if (link == Link::ethernet || link == Link::vlan || link == Link::cooked)
		put16(bytes, type);
	append(bytes, ip(frame, ipv6));
	return bytes;
}

uint32_t link_number(Link link)
{
	switch (link) {
	case Link::cooked:
		return 113;
	case Link::cooked2:
		return 276;
	case Link::raw:
		return 101;
	default:
		return 1;
	}
}

/* Numbers in the file's byte order. */
class Writer {
public:
	explicit Writer(bool big_endian) : big_(big_endian) {}
	void u32(uint32_t value)
	{
		if (!big_)
			value = __builtin_bswap32(value);
		put32(bytes, value);
	}
	void u16(unsigned value)
	{
		put16(bytes, big_ ? value : __builtin_bswap16(static_cast<uint16_t>(value)));
	}
	void block(uint32_t type, const Writer &body)
	{
		auto padded = (body.bytes.size() + 3) / 4 * 4;
		u32(type);
		u32(static_cast<uint32_t>(padded + 12));
		append(bytes, body.bytes);
		bytes.resize(bytes.size() + padded - body.bytes.size());
		u32(static_cast<uint32_t>(padded + 12));
	}
	Bytes bytes;

private:
	bool big_;
};

/* Of packet n: a second and n milliseconds past an hour that is easy to see. */
constexpr uint64_t first_time = 1700000000;

} // namespace

Bytes Tape::file(Format format, Link link, bool ipv6) const
{
	bool big = format == Format::pcap_big_endian || format == Format::pcapng_big_endian;
	bool ng = format == Format::pcapng || format == Format::pcapng_big_endian;
	bool nano = format == Format::pcap_nano;
	Writer out(big);
	unsigned number = 0;

	if (ng) {
		Writer section(big), interface(big);
		section.u32(0x1a2b3c4d);
		section.u32(1);
		section.u32(~0u);
		section.u32(~0u);
		out.block(0x0a0d0d0a, section);
		interface.u16(link_number(link));
		interface.u16(0);
		interface.u32(0);
		/* if_tsresol: nanoseconds */
		interface.u16(9);
		interface.u16(1);
		interface.bytes.push_back(9);
		interface.bytes.resize(interface.bytes.size() + 3);
		interface.u32(0);
		out.block(1, interface);
	} else {
		out.u32(nano ? 0xa1b23c4d : 0xa1b2c3d4);
		out.u16(2);
		out.u16(4);
		out.u32(0);
		out.u32(0);
		out.u32(262144);
		out.u32(link_number(link));
	}
	for (auto &frame : frames) {
		auto data = linked(frame, link, ipv6);
		auto size = static_cast<uint32_t>(data.size());
		number++;
		if (ng) {
			Writer packet(big);
			uint64_t time = first_time * 1000000000 + number * 1000000;
			packet.u32(0);
			packet.u32(static_cast<uint32_t>(time >> 32));
			packet.u32(static_cast<uint32_t>(time));
			packet.u32(size);
			packet.u32(size);
			append(packet.bytes, data);
			out.block(6, packet);
		} else {
			out.u32(static_cast<uint32_t>(first_time));
			out.u32(number * (nano ? 1000000 : 1000));
			out.u32(size);
			out.u32(size);
			append(out.bytes, data);
		}
	}
	return out.bytes;
}

/* --- conversations --- */

void Tape::handshake()
{
	for (bool forward : {true, false}) {
		frames.push_back({forward, next_[forward], syn, {}});
		next_[forward]++;
	}
}

void Tape::say(bool forward, View bytes, std::size_t most)
{
	while (!bytes.empty()) {
		auto count = std::min(most, bytes.size());
		frames.push_back({forward, next_[forward], 0x10, copy(bytes.first(count))});
		next_[forward] += static_cast<uint32_t>(count);
		bytes = bytes.subspan(count);
	}
}

void Tape::acknowledge(bool forward)
{
	frames.push_back({forward, next_[forward], 0x10, {}});
}

void Tape::end(bool forward, uint8_t flags)
{
	frames.push_back({forward, next_[forward], flags, {}});
	next_[forward]++;
}

void Talk::setup(const MpaFrame &request, const MpaFrame &reply)
{
	tape.say(true, request.encode());
	tape.say(false, reply.encode());
	encoders[1] = FpduEncoder(reply.markers());
	encoders[0] = FpduEncoder(request.markers());
}

void Talk::say(bool forward, const Segment &segment, std::size_t most, const FpduFaults &faults)
{
	tape.say(forward, encoders[forward].encode(segment.encode(), faults), most);
}

Tape example(bool markers, std::size_t most)
{
	Tape tape(0xffffff00, 5);
	Talk talk(tape);
	MpaFrame request, reply;

	request.flags = reply.flags =
		static_cast<uint8_t>(MpaFrame::c | (markers ? MpaFrame::m : 0));
	request.revision = reply.revision = 2;
	request.private_data = text("hello");
	request.enhanced = {.peer_to_peer = true, .rtr_write = true, .ird = 4, .ord = 8};
	reply.enhanced = {.peer_to_peer = true, .rtr_write = true, .ird = 8, .ord = 4};
	reply.reply = true;
	tape.handshake();
	talk.setup(request, reply);
	talk.say(true, Segment::write(1, 0), most);
	/* One message of three segments. */
	auto part_of_send = Segment::send(1, Bytes(1000, 'a'));
	part_of_send.last = false;
	talk.say(true, part_of_send, most);
	part_of_send.mo = 1000;
	talk.say(true, part_of_send, most);
	part_of_send.mo = 2000;
	part_of_send.last = true;
	talk.say(true, part_of_send, most);
	auto se = Segment::untagged(Opcode::send_se_invalidate, 2, text("x"));
	se.invalidate = 0x1234;
	talk.say(true, se, most);
	talk.say(true, ReadRequest{0x77, 0x1000, 600, 0x88, 0x2000}.segment(1), most);
	talk.say(false, Segment::read_response(0x77, 0x1000, Bytes(600, 'r')), most);
	AtomicRequest atomic;
	atomic.stag = 0x99;
	atomic.data = 5;
	talk.say(true, atomic.segment(2), most);
	talk.say(false, AtomicResponse{0, 41}.segment(1), most);
	talk.say(true, Segment::untagged(Opcode::immediate, 3, Bytes(8, 1)), most);
	talk.say(false, Segment::send(1, Bytes(3000, 'b')), most);
	Terminate terminate(0x1101);
	terminate.m = terminate.d = true;
	terminate.segment_length = 614;
	terminate.ddp_header = Segment::write(0x77, 0x1000).header();
	talk.say(false, terminate.segment(), most);
	tape.end(false);
	tape.end(true);
	return tape;
}

/* --- decoding --- */

bool Decoded::has(const std::string &text) const
{
	return count(text) > 0;
}

std::size_t Decoded::count(const std::string &text) const
{
	return static_cast<std::size_t>(
		std::count_if(lines.begin(), lines.end(), [&](const std::string &line) {
			return line.find(text) != std::string::npos;
		}));
}

std::string Decoded::all() const
{
	std::string text;

	for (auto &line : lines)
		text += line + "\n";
	return text;
}

Decoded decode(const Bytes &file, const DecodeOptions &options)
{
	Decoded decoded;
	std::istringstream in(std::string(file.begin(), file.end()));
	Decoder decoder(options, [&](const std::string &line) { decoded.lines.push_back(line); });

	CaptureReader reader(in);
	while (auto packet = reader.next())
		decoder.packet(*packet);
	decoder.finish();
	decoded.totals = decoder.totals();
	return decoded;
}

int write_seeds(const std::string &directory)
{
	unsigned number = 0;
	auto write = [&](const Bytes &bytes, std::string name = {}) {
		if (name.empty())
			name = "seed-" + std::to_string(number++);
		std::ofstream file(directory + "/" + name, std::ios::binary);
		file.write(reinterpret_cast<const char *>(bytes.data()),
			   static_cast<std::streamsize>(bytes.size()));
	};

	for (bool markers : {false, true}) {
		write(example(markers).file());
		write(example(markers, 100).file(Format::pcapng));
		auto joined = example(markers);
		joined.frames.erase(joined.frames.begin(), joined.frames.begin() + 4);
		write(joined.file(Format::pcap_nano, Link::raw, true));
	}
	write(example(false).file(Format::pcap_big_endian, Link::cooked));
	write(example(false).file(Format::pcapng_big_endian, Link::cooked2, true));
	write(example(false).file(Format::pcap, Link::vlan));
	/* Ends within a message. */
	auto unfinished = example(false);
	unfinished.frames.resize(6);
	write(unfinished.file(), "unfinished");
	return 0;
}
