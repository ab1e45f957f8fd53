// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "peer.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

namespace wire {

using Clock = std::chrono::steady_clock;

milliseconds Peer::patience{10000};

SystemError::SystemError(const std::string &what)
	: std::runtime_error(what + ": " + std::strerror(errno)), code_(errno)
{
}

namespace {

void check(int rc, const char *what)
{
	if (rc < 0)
		throw SystemError(what);
}

milliseconds left(Clock::time_point deadline)
{
	auto time = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());

	return std::max(time, milliseconds(0));
}

/* False when the time is over. */
bool wait_for(int fd, short events, milliseconds timeout)
{
	auto deadline = Clock::now() + timeout;

	for (;;) {
		pollfd p{fd, events, 0};
		int rc = poll(&p, 1, static_cast<int>(left(deadline).count()));

		if (rc > 0)
			return true;
		if (rc == 0)
			return false;
		if (errno != EINTR)
			throw SystemError("poll");
	}
}

void no_delay(int fd)
{
	int on = 1;

	check(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), "TCP_NODELAY");
}

} // namespace

/* --- sockets --- */

Socket::Socket(Socket &&other) noexcept : fd_(std::exchange(other.fd_, -1)), end_(other.end_) {}

Socket &Socket::operator=(Socket &&other) noexcept
{
	std::swap(fd_, other.fd_);
	std::swap(end_, other.end_);
	return *this;
}

Socket::~Socket()
{
	close();
}

void Socket::close()
{
	if (fd_ >= 0)
		::close(fd_);
	fd_ = -1;
}

Socket Socket::connect(const sockaddr *to, socklen_t length, milliseconds timeout, int mss)
{
	Socket made(::socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	int error = 0;
	socklen_t size = sizeof(error);

	check(made.fd_, "socket");
	no_delay(made.fd_);
	if (mss)
		check(setsockopt(made.fd_, IPPROTO_TCP, TCP_MAXSEG, &mss, sizeof(mss)),
		      "TCP_MAXSEG");
	if (::connect(made.fd_, to, length) && errno != EINPROGRESS)
		throw SystemError("connect");
	if (!wait_for(made.fd_, POLLOUT, timeout)) {
		errno = ETIMEDOUT;
		throw SystemError("connect");
	}
	check(getsockopt(made.fd_, SOL_SOCKET, SO_ERROR, &error, &size), "SO_ERROR");
	if (error) {
		errno = error;
		throw SystemError("connect");
	}
	check(fcntl(made.fd_, F_SETFL, 0), "fcntl");
	return made;
}

Socket Socket::listen(const sockaddr *at, socklen_t length)
{
	Socket made(::socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
	int on = 1;

	check(made.fd_, "socket");
	check(setsockopt(made.fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)), "SO_REUSEADDR");
	check(bind(made.fd_, at, length), "bind");
	check(::listen(made.fd_, 16), "listen");
	return made;
}

Socket Socket::accept(milliseconds timeout) const
{
	if (!wait_for(fd_, POLLIN, timeout))
		throw Unexpected("no connection within " + std::to_string(timeout.count()) + " ms");
	Socket made(accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC));
	check(made.fd_, "accept");
	no_delay(made.fd_);
	return made;
}

void Socket::send(View bytes) const
{
	while (!bytes.empty()) {
		auto n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			throw SystemError("send");
		bytes = bytes.subspan(static_cast<std::size_t>(n));
	}
}

Bytes Socket::receive(std::size_t most, milliseconds timeout)
{
	Bytes bytes(most);

	if (end_ != End::open || !wait_for(fd_, POLLIN, timeout))
		return {};
	auto n = recv(fd_, bytes.data(), bytes.size(), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return {};
	if (n <= 0)
		end_ = n ? End::reset : End::fin;
	bytes.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
	return bytes;
}

void Socket::shutdown_send() const
{
	/* Whoever was reset has nothing to shut down. */
	if (::shutdown(fd_, SHUT_WR) && errno != ENOTCONN)
		throw SystemError("shutdown");
}

void Socket::reset()
{
	linger now{1, 0};

	check(setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof(now)), "SO_LINGER");
	close();
}

int Socket::mss() const
{
	int value = 0;
	socklen_t size = sizeof(value);

	check(getsockopt(fd_, IPPROTO_TCP, TCP_MAXSEG, &value, &size), "TCP_MAXSEG");
	return value;
}

/* --- connection setup --- */

Bytes Peer::receive_exactly(std::size_t count, milliseconds timeout)
{
	auto deadline = Clock::now() + timeout;
	Bytes taken;

	while (early_.size() < count) {
		auto more = socket_.receive(count - early_.size(), left(deadline));
		append(early_, more);
		if (socket_.end() != End::open)
			throw Unexpected(std::string("the connection was ") +
					 (socket_.end() == End::fin ? "closed" : "reset") +
					 " after " + std::to_string(early_.size()) + " of " +
					 std::to_string(count) + " octets");
		if (more.empty() && left(deadline).count() == 0)
			throw Unexpected("only " + std::to_string(early_.size()) + " of " +
					 std::to_string(count) + " octets came");
	}
	taken.swap(early_);
	return taken;
}

MpaFrame Peer::receive_frame(milliseconds timeout)
{
	auto frame = receive_exactly(MpaFrame::header_length, timeout);
	std::size_t size;

	try {
		size = MpaFrame::size(frame);
	} catch (const std::invalid_argument &e) {
		throw Unexpected(e.what());
	}
	append(frame, receive_exactly(size - frame.size(), timeout));
	return MpaFrame::decode(frame);
}

void Peer::start(const MpaFrame &mine, const MpaFrame &theirs)
{
	/* Each side's M bit is a demand on the other one. */
	encoder_ = FpduEncoder(theirs.markers());
	decoder_ = FpduDecoder(mine.markers());
	crc_ = mine.crc() || theirs.crc();
	checker_ = StreamChecker(crc_);
	started_ = true;
}

MpaFrame Peer::initiate(const MpaFrame &request, milliseconds timeout)
{
	send_frame(request);
	auto reply = receive_frame(timeout);
	if (!reply.reply)
		throw Unexpected("a Request Frame instead of a Reply Frame");
	start(request, reply);
	return reply;
}

/* --- the stream --- */

void Peer::trickle(View bytes, std::size_t each) const
{
	while (!bytes.empty()) {
		auto now = std::min(each, bytes.size());
		socket_.send(bytes.first(now));
		bytes = bytes.subspan(now);
		/* Long enough for TCP to have sent it off. */
		std::this_thread::sleep_for(std::chrono::microseconds(500));
	}
}

std::optional<Fpdu> Peer::next_fpdu(milliseconds timeout)
{
	auto deadline = Clock::now() + timeout;

	for (;;) {
		auto fpdu = decoder_.next();
		if (fpdu) {
			last_ = *fpdu;
			for (auto &rule : checker_.look(*fpdu))
				broken_.push_back(rule);
			return fpdu;
		}
		auto more = socket_.receive(65536, left(deadline));
		decoder_.feed(more);
		if (more.empty() && (socket_.end() != End::open || left(deadline).count() == 0))
			return std::nullopt;
	}
}

std::optional<Segment> Peer::next(milliseconds timeout)
{
	auto fpdu = next_fpdu(timeout);

	if (!fpdu)
		return std::nullopt;
	auto segment = Segment::decode(fpdu->ulpdu);
	if (!segment)
		throw Unexpected("a ULPDU without a DDP header: " + hex(fpdu->ulpdu));
	return segment;
}

Segment Peer::expect(Opcode opcode, milliseconds timeout)
{
	auto segment = next(timeout);

	if (!segment)
		throw Unexpected(std::string("no ") + name(opcode) +
				 (socket_.end() == End::open  ? ": nothing came"
				  : socket_.end() == End::fin ? ": the connection was closed"
							      : ": the connection was reset"));
	if (segment->opcode != opcode)
		throw Unexpected(std::string("expected ") + name(opcode) + ", got " +
				 describe(*segment));
	return *segment;
}

Segment Peer::expect_message(Opcode opcode, milliseconds timeout)
{
	auto first = expect(opcode, timeout);

	for (bool last = first.last; !last;) {
		auto more = expect(opcode, timeout);
		append(first.payload, more.payload);
		last = more.last;
	}
	first.last = true;
	return first;
}

Terminate Peer::expect_terminate(milliseconds timeout)
{
	auto deadline = Clock::now() + timeout;

	for (;;) {
		auto segment = next(left(deadline));
		if (!segment)
			throw Unexpected(std::string("no Terminate") +
					 (socket_.end() == End::open ? ""
					  : socket_.end() == End::fin
						  ? ": the connection was closed"
						  : ": the connection was reset"));
		if (segment->opcode != Opcode::terminate)
			continue;
		try {
			return Terminate::decode(segment->payload);
		} catch (const std::out_of_range &) {
			throw Unexpected("a Terminate that is cut off: " + hex(segment->payload));
		}
	}
}

void Peer::expect_silence(milliseconds time)
{
	auto segment = next(time);

	if (segment)
		throw Unexpected("expected nothing, got " + describe(*segment));
}

End Peer::expect_end(milliseconds timeout)
{
	auto deadline = Clock::now() + timeout;

	while (socket_.end() == End::open) {
		/* In the stream the rules hold to its end. */
		if (started_)
			next_fpdu(left(deadline));
		else
			socket_.receive(65536, left(deadline));
		if (socket_.end() == End::open && left(deadline).count() == 0)
			throw Unexpected("the connection did not end within " +
					 std::to_string(timeout.count()) + " ms");
	}
	return socket_.end();
}

std::vector<std::string> Peer::take_broken_rules()
{
	return std::exchange(broken_, {});
}

} // namespace wire
