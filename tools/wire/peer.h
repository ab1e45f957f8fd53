/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * An iWARP endpoint on an ordinary TCP socket, driven step by step. What it sends is what it is
 * told to send, right or wrong; what it receives is checked against every rule of StreamChecker.
 */
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <deque>
#include <memory>
#include <stdexcept>

#include "check.h"

namespace wire {

using std::chrono::milliseconds;

/* What came is not what was expected. */
class Unexpected : public std::runtime_error {
public:
	using std::runtime_error::runtime_error;
};

/* The system refused. */
class SystemError : public std::runtime_error {
public:
	explicit SystemError(const std::string &what);
	int code() const { return code_; }

private:
	int code_;
};

/* How the other side's half of the connection stands. */
enum class End { open, fin, reset };

class Socket {
public:
	Socket() = default;
	explicit Socket(int fd) : fd_(fd) {}
	Socket(Socket &&other) noexcept;
	Socket &operator=(Socket &&other) noexcept;
	~Socket();

	int get() const { return fd_; }
	/* Without Nagle's algorithm: a step of a test is a segment of its own. */
	static Socket connect(const sockaddr *to, socklen_t length, milliseconds timeout,
			      int mss = 0);
	static Socket listen(const sockaddr *at, socklen_t length);
	Socket accept(milliseconds timeout) const;

	void send(View bytes) const;
	/* Up to most octets; none when the time is over or the connection has ended. */
	Bytes receive(std::size_t most, milliseconds timeout);
	End end() const { return end_; }
	void shutdown_send() const;
	void reset();
	void close();
	/* Largest segment that this side may send, as TCP sees it now. */
	int mss() const;

private:
	int fd_ = -1;
	End end_ = End::open;
};

class Peer {
public:
	explicit Peer(Socket socket) : socket_(std::move(socket)) {}

	/* How long to wait where a call is not told. */
	static milliseconds patience;

	/* --- connection setup --- */
	void send_frame(const MpaFrame &frame) { socket_.send(frame.encode()); }
	/* Throws Unexpected if none comes, or what comes is no frame. */
	MpaFrame receive_frame(milliseconds timeout = patience);
	/* The stream begins, with what the two frames say. */
	void start(const MpaFrame &mine, const MpaFrame &theirs);
	/* The same in one step: as initiator. */
	MpaFrame initiate(const MpaFrame &request, milliseconds timeout = patience);
	bool crc() const { return crc_; }
	bool sends_markers() const { return encoder_.markers(); }

	/* --- the stream --- */
	Bytes encode(const Segment &segment, const FpduFaults &faults = {})
	{
		return encoder_.encode(segment.encode(), faults);
	}
	Bytes encode_ulpdu(View ulpdu, const FpduFaults &faults = {})
	{
		return encoder_.encode(ulpdu, faults);
	}
	void send(const Segment &segment, const FpduFaults &faults = {})
	{
		socket_.send(encode(segment, faults));
	}
	/* Octets as they are. They do not count for the positions of markers. */
	void send_bytes(View bytes) const { socket_.send(bytes); }
	/* The same in TCP segments of `each` octets. */
	void trickle(View bytes, std::size_t each = 1) const;
	uint64_t position() const { return encoder_.position(); }

	/* The next FPDU, of which the rules were checked; nothing if none comes. */
	std::optional<Fpdu> next_fpdu(milliseconds timeout = patience);
	/* The next segment, likewise. */
	std::optional<Segment> next(milliseconds timeout = patience);
	/* Throws Unexpected unless a segment of this opcode is the next. */
	Segment expect(Opcode opcode, milliseconds timeout = patience);
	/* The payload of a whole message, segment by segment; the header is the first one's. */
	Segment expect_message(Opcode opcode, milliseconds timeout = patience);
	/* The next Terminate, whatever comes before it. */
	Terminate expect_terminate(milliseconds timeout = patience);
	/* Throws if anything comes within this time. */
	void expect_silence(milliseconds time);
	/* What ends the connection, whatever comes before it; throws if it does not end. */
	End expect_end(milliseconds timeout = patience);
	/* The rules that were broken since the last call. */
	std::vector<std::string> take_broken_rules();
	const Fpdu &last_fpdu() const { return last_; }

	void finish() const { socket_.shutdown_send(); }
	void reset() { socket_.reset(); }
	void close() { socket_.close(); }
	Socket &socket() { return socket_; }

private:
	Bytes receive_exactly(std::size_t count, milliseconds timeout);

	Socket socket_;
	bool crc_ = true, started_ = false;
	FpduEncoder encoder_;
	FpduDecoder decoder_;
	StreamChecker checker_;
	Fpdu last_;
	/* Read from the socket, not taken yet, before the stream begins. */
	Bytes early_;
	std::vector<std::string> broken_;
};

} // namespace wire
