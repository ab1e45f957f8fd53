// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The same work over plain TCP sockets: a thread per connection, TCP_NODELAY. */
/* errqueue.h needs timespec. */
#include <ctime>

#include <linux/errqueue.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>

#include <algorithm>
#include <limits>

#include "side.h"

namespace bench {

using verbs::check;
using verbs::fail;

namespace {

/* What a client sends for a read, and for an atomic operation: as much as the RDMA request carries.
 */
constexpr std::size_t read_request = 28, atomic_request = 52;
/* The server receives as much as there is, at least so much at a time. */
constexpr uint64_t least_buffer = 64 << 10, most_buffer = 1 << 20;
/* The part of a file that is sent again and again. */
constexpr uint64_t most_file = 4 << 20;

std::size_t request_size(const Config &config)
{
	return config.is_atomic() ? atomic_request : read_request;
}

class TcpClient final : public Side {
public:
	TcpClient(const Config &config, const Address &server) : config_(config)
	{
		for (uint32_t i = 0; i < config.qps; i++) {
			sockets_.push_back(
				connect_to({server}, "cannot connect to the server's data port"));
			auto index = htonl(i);
			send_all(sockets_[i].get(), &index, sizeof(index));
			if (config.transport == Transport::zerocopy)
				set_option(sockets_[i].get(), SOL_SOCKET, SO_ZEROCOPY, 1,
					   "SO_ZEROCOPY");
		}
		if (config.transport == Transport::sendfile) {
			file_.reset(memfd_create("ziw-bench", MFD_CLOEXEC));
			if (!file_ || ftruncate(file_.get(), static_cast<off_t>(std::max(
								     config.size, most_file))))
				fail("memfd_create");
		}
	}

	uint32_t threads() const override { return config_.qps; }
	std::string device() const override { return ""; }
	uint64_t copied() const override { return copied_; }
	uint64_t unacknowledged() const override
	{
		uint64_t bytes = 0;

		for (auto &socket : sockets_) {
			int some = 0;
			check(ioctl(socket.get(), SIOCOUTQ, &some), "SIOCOUTQ");
			bytes += static_cast<uint64_t>(some);
		}
		return bytes;
	}
	void cancel() override
	{
		for (auto &socket : sockets_)
			shutdown(socket.get(), SHUT_RDWR);
	}

	void run(uint32_t thread) override
	{
		auto fd = sockets_[thread].get();
		auto target = config_.messages ? config_.share(thread)
					       : std::numeric_limits<uint64_t>::max();

		auto buffer = pages_for(config_, std::max<uint64_t>(config_.size, atomic_request));
		ZIW_BENCH_MARK(0x01);
		if (config_.latency)
			ping_pong(fd, buffer.data(), target);
		else if (config_.is_request())
			request(fd, buffer.data(), target);
		else
			stream(fd, buffer.data(), target);
		check(shutdown(fd, SHUT_WR), "shutdown");
		ZIW_BENCH_MARK(0x02);
	}

private:
	void stream(int fd, unsigned char *buffer, uint64_t target);
	void request(int fd, unsigned char *buffer, uint64_t target);
	void ping_pong(int fd, unsigned char *buffer, uint64_t target);
	void send_file(int fd, uint64_t number);
	uint64_t reap(int fd, bool wait);

	Config config_;
	std::vector<Fd> sockets_;
	Fd file_;
	std::atomic<uint64_t> copied_ = 0;
};

void TcpClient::send_file(int fd, uint64_t number)
{
	auto parts = std::max<uint64_t>(most_file / config_.size, 1);
	auto offset = static_cast<off_t>(number % parts * config_.size);
	auto left = config_.size;

	while (left) {
		auto n = ::sendfile(fd, file_.get(), &offset, left);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			fail("sendfile");
		left -= n > 0 ? static_cast<uint64_t>(n) : 0;
	}
}

/* How many sends with MSG_ZEROCOPY are done with their buffer. */
uint64_t TcpClient::reap(int fd, bool wait)
{
	char control[128];
	msghdr message{};
	uint64_t done = 0;

	message.msg_control = control;
	message.msg_controllen = sizeof(control);
	if (wait) {
		pollfd p{fd, 0, 0};
		if (poll(&p, 1, -1) < 0 && errno != EINTR)
			fail("poll");
	}
	if (recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) {
		if (errno == EAGAIN || errno == EINTR)
			return 0;
		fail("the other side is gone");
	}
	for (auto *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c)) {
		sock_extended_err error;
		std::memcpy(&error, CMSG_DATA(c), sizeof(error));
		if (error.ee_origin != SO_EE_ORIGIN_ZEROCOPY)
			continue;
		auto range = static_cast<uint64_t>(error.ee_data - error.ee_info) + 1;
		if (error.ee_code & SO_EE_CODE_ZEROCOPY_COPIED)
			copied_ += range;
		done += range;
	}
	return done;
}

void TcpClient::stream(int fd, unsigned char *buffer, uint64_t target)
{
	Deadline deadline(config_);
	uint64_t under_way = 0;

	for (uint64_t i = 0; i < target && !deadline.over(); i++) {
		switch (config_.transport) {
		case Transport::sendfile:
			send_file(fd, i);
			break;
		case Transport::zerocopy: {
			auto left = config_.size;
			while (left) {
				while (under_way >= config_.depth)
					under_way -= std::min(under_way, reap(fd, true));
				auto n = ::send(fd, buffer + (config_.size - left), left,
						MSG_ZEROCOPY | MSG_NOSIGNAL);
				if (n < 0 && errno == ENOBUFS) {
					under_way -= std::min(under_way, reap(fd, true));
					continue;
				}
				if (n < 0)
					fail("send with MSG_ZEROCOPY");
				left -= static_cast<uint64_t>(n);
				under_way++;
			}
			break;
		}
		default:
			send_all(fd, buffer, config_.size);
		}
		count(1);
	}
	while (under_way)
		under_way -= std::min(under_way, reap(fd, true));
}

void TcpClient::request(int fd, unsigned char *buffer, uint64_t target)
{
	Deadline deadline(config_);
	auto size = request_size(config_);
	uint64_t asked = 0;
	std::vector<unsigned char> words(size);

	for (uint64_t have = 0; have < target; have++) {
		if (deadline.over())
			target = asked;
		for (; asked < target && asked - have < config_.depth; asked++)
			send_all(fd, words.data(), size);
		if (have < target && !recv_all(fd, buffer, config_.size))
			fail("the server is gone", ECONNRESET);
		count(1);
	}
}

void TcpClient::ping_pong(int fd, unsigned char *buffer, uint64_t target)
{
	auto ask = config_.is_request() ? request_size(config_) : config_.size;
	auto flags = config_.poll ? MSG_DONTWAIT : 0;

	time_trips(config_, target, [&](uint64_t) {
		send_all(fd, buffer, ask);
		if (!recv_all(fd, buffer, config_.size, flags))
			fail("the server is gone", ECONNRESET);
	});
}

class TcpServer final : public ServerSide {
public:
	TcpServer(const Config &config, const Address &here) : config_(config)
	{
		auto at = here;
		at.set_port(0);
		listener_ = listen_on({at});
	}

	uint32_t threads() const override { return config_.qps; }
	std::string device() const override { return ""; }
	uint16_t port() const override { return local_address(listener_.get()).port(); }
	void cancel() override
	{
		for (auto &socket : sockets_)
			shutdown(socket.get(), SHUT_RDWR);
	}

	void accept(Control &control) override
	{
		auto deadline = verbs::Clock::now() + patience;

		while (sockets_.size() < config_.qps) {
			if (!verbs::readable(listener_.get(), glance)) {
				if (control.gone() || verbs::Clock::now() > deadline)
					throw std::runtime_error(
						"the client's connections do not come");
				continue;
			}
			Fd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
			uint32_t index;
			if (!fd || !recv_all(fd.get(), &index, sizeof(index)))
				fail("accept");
			prepare(fd.get());
			sockets_.push_back(std::move(fd));
		}
	}

	void run(uint32_t thread) override
	{
		auto fd = sockets_[thread].get();
		auto size = std::clamp(config_.size, least_buffer, most_buffer);
		if (config_.latency || config_.is_request())
			size = std::max(size, config_.size);
		auto buffer = pages_for(config_, size);

		if (config_.latency && !config_.is_request())
			ping_pong(fd, buffer.data());
		else if (config_.is_request())
			answer(fd, buffer.data());
		else
			sink(fd, buffer.data(), size);
	}

private:
	void ping_pong(int fd, unsigned char *buffer)
	{
		auto flags = config_.poll ? MSG_DONTWAIT : 0;

		while (recv_all(fd, buffer, config_.size, flags)) {
			send_all(fd, buffer, config_.size);
			count(1);
		}
	}

	void sink(int fd, unsigned char *buffer, uint64_t size)
	{
		uint64_t bytes = 0, told = 0;

		for (;;) {
			auto n = ::recv(fd, buffer, size, 0);
			if (n < 0 && errno == EINTR)
				continue;
			if (n < 0)
				fail("the client is gone");
			bytes += static_cast<uint64_t>(n);
			if (!n || bytes / config_.size > told + 64) {
				count(bytes / config_.size - told);
				told = bytes / config_.size;
			}
			if (!n)
				return;
		}
	}

	/* Requests come several at a time. */
	void answer(int fd, unsigned char *buffer)
	{
		auto size = request_size(config_);
		auto flags = config_.poll ? MSG_DONTWAIT : 0;
		std::vector<unsigned char> requests(size * 64);
		std::size_t have = 0;
		uint64_t word = 0;

		for (;;) {
			auto n = ::recv(fd, requests.data() + have, requests.size() - have, flags);
			if (n < 0 && (errno == EINTR || errno == EAGAIN))
				continue;
			if (n < 0)
				fail("the client is gone");
			if (!n)
				return;
			have += static_cast<std::size_t>(n);
			for (; have >= size; have -= size) {
				if (config_.is_atomic())
					std::memcpy(buffer, &word, sizeof(word)), word++;
				send_all(fd, buffer, config_.size);
				count(1);
			}
		}
	}

	Config config_;
	Fd listener_;
	std::vector<Fd> sockets_;
};

} // namespace

std::unique_ptr<Side> tcp_client(const Config &config, const Address &server)
{
	return std::make_unique<TcpClient>(config, server);
}

std::unique_ptr<ServerSide> tcp_server(const Config &config, const Address &here)
{
	return std::make_unique<TcpServer>(config, here);
}

} // namespace bench
