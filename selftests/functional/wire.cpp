// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "wire.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>

using verbs::check;

void put16(Bytes &to, uint32_t value)
{
	to.push_back(static_cast<uint8_t>(value >> 8));
	to.push_back(static_cast<uint8_t>(value));
}

void put32(Bytes &to, uint32_t value)
{
	put16(to, value >> 16);
	put16(to, value & 0xffff);
}

void put64(Bytes &to, uint64_t value)
{
	put32(to, static_cast<uint32_t>(value >> 32));
	put32(to, static_cast<uint32_t>(value));
}

uint32_t get16(const Bytes &from, std::size_t offset)
{
	return offset + 2 > from.size() ? 0 : from[offset] << 8 | from[offset + 1];
}

uint32_t get32(const Bytes &from, std::size_t offset)
{
	return get16(from, offset) << 16 | get16(from, offset + 2);
}

uint32_t crc32c(const uint8_t *data, std::size_t length)
{
	/* Castagnoli's polynomial, reflected. */
	static const auto table = [] {
		std::array<uint32_t, 256> t;
		for (uint32_t i = 0; i < 256; i++) {
			uint32_t value = i;
			for (int bit = 0; bit < 8; bit++)
				value = value >> 1 ^ (value & 1 ? 0x82f63b78 : 0);
			t[i] = value;
		}
		return t;
	}();
	uint32_t crc = ~0u;

	for (std::size_t i = 0; i < length; i++)
		crc = crc >> 8 ^ table[(crc ^ data[i]) & 255];
	return ~crc;
}

Bytes MpaFrame::encode() const
{
	std::string key = reply ? "MPA ID Rep Frame" : "MPA ID Req Frame";
	Bytes bytes(key.begin(), key.end());

	bytes.push_back(flags);
	bytes.push_back(revision);
	put16(bytes, static_cast<uint32_t>(private_data.size()));
	bytes.insert(bytes.end(), private_data.begin(), private_data.end());
	return bytes;
}

Bytes Segment::encode() const
{
	Bytes bytes;

	bytes.push_back(
		static_cast<uint8_t>((tagged ? 0x80 : 0) | (last ? 0x40 : 0) | ddp_version));
	bytes.push_back(static_cast<uint8_t>(rdmap_version << 6 | opcode));
	if (tagged) {
		put32(bytes, stag);
		put64(bytes, offset);
	} else {
		put32(bytes, invalidate);
		put32(bytes, queue);
		put32(bytes, sequence);
		put32(bytes, message_offset);
	}
	bytes.insert(bytes.end(), payload.begin(), payload.end());
	return bytes;
}

std::optional<Segment> Segment::decode(const Bytes &ulpdu)
{
	Segment s;

	if (ulpdu.size() < 14)
		return std::nullopt;
	s.tagged = ulpdu[0] & 0x80;
	s.last = ulpdu[0] & 0x40;
	s.ddp_version = ulpdu[0] & 3;
	s.rdmap_version = ulpdu[1] >> 6;
	s.opcode = static_cast<RdmapOpcode>(ulpdu[1] & 15);
	if (s.tagged) {
		s.stag = get32(ulpdu, 2);
		s.offset = uint64_t(get32(ulpdu, 6)) << 32 | get32(ulpdu, 10);
		s.payload.assign(ulpdu.begin() + 14, ulpdu.end());
		return s;
	}
	if (ulpdu.size() < 18)
		return std::nullopt;
	s.invalidate = get32(ulpdu, 2);
	s.queue = get32(ulpdu, 6);
	s.sequence = get32(ulpdu, 10);
	s.message_offset = get32(ulpdu, 14);
	s.payload.assign(ulpdu.begin() + 18, ulpdu.end());
	return s;
}

Segment Segment::send(uint32_t sequence, Bytes payload)
{
	Segment s;

	s.sequence = sequence;
	s.payload = std::move(payload);
	return s;
}

Segment Segment::write(uint32_t stag, uint64_t offset, Bytes payload)
{
	Segment s;

	s.opcode = op_write;
	s.tagged = true;
	s.stag = stag;
	s.offset = offset;
	s.payload = std::move(payload);
	return s;
}

Segment Segment::read_request(uint32_t sequence, uint32_t sink_stag, uint64_t sink_offset,
			      uint32_t size, uint32_t source_stag, uint64_t source_offset)
{
	Segment s;

	s.opcode = op_read_request;
	s.queue = 1;
	s.sequence = sequence;
	put32(s.payload, sink_stag);
	put64(s.payload, sink_offset);
	put32(s.payload, size);
	put32(s.payload, source_stag);
	put64(s.payload, source_offset);
	return s;
}

Segment Segment::terminate(uint32_t code)
{
	Segment s;

	s.opcode = op_terminate;
	s.queue = 2;
	put16(s.payload, code);
	put16(s.payload, 0);
	return s;
}

Wire::Wire(const Host &host, const Address &to)
{
	InNamespace in(host.ns());

	fd_.reset(socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
	if (!fd_)
		verbs::fail("socket");
	/* A test may send less than one MSS and wait for the answer. */
	int on = 1;
	check(setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), "TCP_NODELAY");
	check(connect(fd_.get(), to.get(), to.size()), "connect");
}

void Wire::send(const Bytes &bytes)
{
	for (std::size_t done = 0; done < bytes.size();) {
		auto n = ::send(fd_.get(), bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
		if (n < 0)
			verbs::fail("send");
		done += static_cast<std::size_t>(n);
	}
}

void Wire::trickle(const Bytes &bytes)
{
	for (auto byte : bytes) {
		send(Bytes{byte});
		std::this_thread::sleep_for(verbs::milliseconds(1));
	}
}

std::optional<Bytes> Wire::receive(std::size_t count, verbs::milliseconds timeout)
{
	auto deadline = verbs::Clock::now() + timeout;
	Bytes bytes(count);

	for (std::size_t have = 0; have < count;) {
		auto left = std::chrono::duration_cast<verbs::milliseconds>(deadline -
									    verbs::Clock::now());
		if (!verbs::readable(fd_.get(), std::max(left, verbs::milliseconds(0))))
			return std::nullopt;
		auto n = recv(fd_.get(), bytes.data() + have, count - have, 0);
		if (n <= 0)
			return std::nullopt;
		have += static_cast<std::size_t>(n);
	}
	return bytes;
}

bool Wire::ends(verbs::milliseconds timeout)
{
	auto deadline = verbs::Clock::now() + timeout;
	Bytes rest(65536);

	while (verbs::Clock::now() < deadline) {
		if (!verbs::readable(fd_.get(), verbs::milliseconds(100)))
			continue;
		if (recv(fd_.get(), rest.data(), rest.size(), 0) <= 0)
			return true;
	}
	return false;
}

void Wire::finish()
{
	shutdown(fd_.get(), SHUT_WR);
}

void Wire::reset()
{
	linger now{1, 0};

	check(setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now)), "SO_LINGER");
	fd_.reset();
}

std::optional<MpaFrame> Wire::receive_frame(verbs::milliseconds timeout)
{
	auto head = receive(20, timeout);
	MpaFrame frame;

	if (!head)
		return std::nullopt;
	std::string key(head->begin(), head->begin() + 16);
	if (key == "MPA ID Rep Frame")
		frame.reply = true;
	else if (key != "MPA ID Req Frame")
		throw std::runtime_error("not an MPA frame");
	frame.flags = (*head)[16];
	frame.revision = (*head)[17];
	auto rest = receive(get16(*head, 18), timeout);
	if (!rest)
		throw std::runtime_error("an MPA frame without its private data");
	frame.private_data = *rest;
	return frame;
}

Bytes Wire::fpdu(const Bytes &ulpdu, bool good_crc)
{
	Bytes bytes;

	put16(bytes, static_cast<uint32_t>(ulpdu.size()));
	bytes.insert(bytes.end(), ulpdu.begin(), ulpdu.end());
	while (bytes.size() % 4)
		bytes.push_back(0);
	auto crc = crc32c(bytes.data(), bytes.size()) ^ (good_crc ? 0 : 0x100);
	for (int i = 0; i < 4; i++)
		bytes.push_back(static_cast<uint8_t>(crc >> 8 * i));
	return bytes;
}

std::optional<Bytes> Wire::receive_fpdu(verbs::milliseconds timeout)
{
	auto head = receive(2, timeout);

	if (!head)
		return std::nullopt;
	std::size_t length = get16(*head, 0), padded = (length + 2 + 3) / 4 * 4 - 2;
	auto rest = receive(padded + 4, timeout);
	if (!rest)
		throw std::runtime_error("an FPDU without its end");
	Bytes whole = *head;
	whole.insert(whole.end(), rest->begin(), rest->end());
	if (fpdu(Bytes(rest->begin(), rest->begin() + static_cast<long>(length))) != whole)
		throw std::runtime_error("an FPDU with a bad CRC or pad");
	rest->resize(length);
	return rest;
}

std::optional<Segment> Wire::receive_segment(verbs::milliseconds timeout)
{
	auto ulpdu = receive_fpdu(timeout);

	if (!ulpdu)
		return std::nullopt;
	auto segment = Segment::decode(*ulpdu);
	if (!segment)
		throw std::runtime_error("a ULPDU too short for its header");
	return segment;
}

std::optional<Segment> Wire::receive_terminate(verbs::milliseconds timeout)
{
	for (;;) {
		auto segment = receive_segment(timeout);
		if (!segment || segment->opcode == op_terminate)
			return segment;
	}
}

WireListener::WireListener(const Host &host, Family family) : address_(host.address(family))
{
	InNamespace in(host.ns());
	socklen_t size = sizeof(address_.storage);

	fd_.reset(socket(address_.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
	if (!fd_)
		verbs::fail("socket");
	check(bind(fd_.get(), address_.get(), address_.size()), "bind");
	check(listen(fd_.get(), 16), "listen");
	check(getsockname(fd_.get(), address_.get(), &size), "getsockname");
}

std::optional<Wire> WireListener::accept(verbs::milliseconds timeout)
{
	if (!verbs::readable(fd_.get(), timeout))
		return std::nullopt;
	verbs::Fd fd(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
	if (!fd)
		verbs::fail("accept");
	int on = 1;
	check(setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), "TCP_NODELAY");
	return Wire(std::move(fd));
}
