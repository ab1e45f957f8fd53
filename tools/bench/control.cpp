// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "control.h"

#include <netinet/in.h>
#include <netinet/tcp.h>

#include "config.h"

namespace bench {

using verbs::fail;

void Address::set_port(uint16_t port)
{
	if (storage.ss_family == AF_INET6)
		reinterpret_cast<sockaddr_in6 *>(&storage)->sin6_port = htons(port);
	else
		reinterpret_cast<sockaddr_in *>(&storage)->sin_port = htons(port);
}

uint16_t Address::port() const
{
	if (storage.ss_family == AF_INET6)
		return ntohs(reinterpret_cast<const sockaddr_in6 *>(&storage)->sin6_port);
	return ntohs(reinterpret_cast<const sockaddr_in *>(&storage)->sin_port);
}

std::vector<Address> look_up(const std::string &host, const std::string &port, bool passive)
{
	addrinfo hints{}, *list = nullptr;
	std::vector<Address> all;

	hints.ai_socktype = SOCK_STREAM;
	hints.ai_flags = passive ? AI_PASSIVE : 0;
	if (int rc =
		    getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &list))
		throw Usage("host '" + host + "': " + gai_strerror(rc));
	for (auto *i = list; i; i = i->ai_next) {
		Address address;
		std::memcpy(&address.storage, i->ai_addr, i->ai_addrlen);
		address.length = i->ai_addrlen;
		all.push_back(address);
	}
	freeaddrinfo(list);
	return all;
}

void set_option(int fd, int level, int option, int value, const char *what)
{
	if (setsockopt(fd, level, option, &value, sizeof(value)))
		fail(what);
}

void prepare(int fd)
{
	/* Seconds; together as long as anything that was sent may be without an answer. */
	constexpr int idle = 5, interval = 5, probes = 3;

	static_assert(verbs::milliseconds(1000 * (idle + interval * probes)) == patience);
	set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1, "TCP_NODELAY");
	set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1, "SO_KEEPALIVE");
	set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle, "TCP_KEEPIDLE");
	set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, interval, "TCP_KEEPINTVL");
	set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, probes, "TCP_KEEPCNT");
	set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, patience.count(), "TCP_USER_TIMEOUT");
}

namespace {

/* A socket for the first address that use() takes: it returns 0, or an error number. */
Fd first_usable(const std::vector<Address> &addresses, const std::string &what, auto use)
{
	int error = EINVAL;

	for (auto &address : addresses) {
		/* getaddrinfo() names IPv6 addresses where the kernel has no IPv6. */
		Fd fd(socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
		error = fd ? use(fd.get(), address) : errno;
		if (!error)
			return fd;
	}
	fail(what, error);
}

} // namespace

Fd listen_on(const std::vector<Address> &addresses)
{
	auto what = "cannot listen on port " +
		    std::to_string(addresses.empty() ? 0 : addresses[0].port());

	return first_usable(addresses, what, [&](int fd, const Address &address) {
		set_option(fd, SOL_SOCKET, SO_REUSEADDR, 1, "SO_REUSEADDR");
		if (address.storage.ss_family == AF_INET6)
			set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0, "IPV6_V6ONLY");
		if (!bind(fd, address.get(), address.length) && !listen(fd, 1024))
			return 0;
		/* Whoever has the port there would get some of the clients. */
		if (errno == EADDRINUSE)
			fail(what, EADDRINUSE);
		return errno;
	});
}

Fd connect_to(const std::vector<Address> &addresses, const std::string &what)
{
	return first_usable(addresses, what, [](int fd, const Address &address) {
		prepare(fd);
		return connect(fd, address.get(), address.length) ? errno : 0;
	});
}

Address local_address(int fd)
{
	Address address;

	if (getsockname(fd, address.get(), &address.length))
		fail("getsockname");
	return address;
}

Address remote_address(int fd)
{
	Address address;

	if (getpeername(fd, address.get(), &address.length))
		fail("getpeername");
	return address;
}

Address unmapped(const Address &address)
{
	auto *six = reinterpret_cast<const sockaddr_in6 *>(&address.storage);
	Address plain;

	if (address.storage.ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&six->sin6_addr))
		return address;
	auto *four = reinterpret_cast<sockaddr_in *>(&plain.storage);
	four->sin_family = AF_INET;
	four->sin_port = six->sin6_port;
	std::memcpy(&four->sin_addr, &six->sin6_addr.s6_addr[12], 4);
	plain.length = sizeof(*four);
	return plain;
}

void send_all(int fd, const void *data, std::size_t size, int flags)
{
	auto *from = static_cast<const char *>(data);

	while (size) {
		auto n = ::send(fd, from, size, flags | MSG_NOSIGNAL);
		if (n < 0) {
			if (errno == EINTR || errno == EAGAIN)
				continue;
			fail("the other side is gone");
		}
		from += n;
		size -= static_cast<std::size_t>(n);
	}
}

bool recv_all(int fd, void *data, std::size_t size, int flags)
{
	auto *to = static_cast<char *>(data);
	bool first = true;

	while (size) {
		auto n = ::recv(fd, to, size, flags);
		if (n < 0) {
			if (errno == EINTR || errno == EAGAIN)
				continue;
			fail("the other side is gone");
		}
		if (!n) {
			if (first)
				return false;
			fail("the other side is gone", ECONNRESET);
		}
		first = false;
		to += n;
		size -= static_cast<std::size_t>(n);
	}
	return true;
}

void Control::say(const std::string &line)
{
	auto text = line + "\n";

	send_all(fd_.get(), text.data(), text.size());
}

void Control::try_say(const std::string &line) noexcept
{
	try {
		say(line);
	} catch (const std::exception &) {
	}
}

std::optional<std::string> Control::hear(verbs::milliseconds timeout)
{
	/* Longer than any line of ours. */
	constexpr std::size_t longest = 65536;
	auto deadline = verbs::Clock::now() + timeout;

	for (;;) {
		auto end = pending_.find('\n');
		if (end != std::string::npos) {
			auto line = pending_.substr(0, end);
			pending_.erase(0, end + 1);
			return line;
		}
		if (pending_.size() > longest)
			throw std::runtime_error("the other side is no ziw-bench");
		auto left = std::chrono::duration_cast<verbs::milliseconds>(deadline -
									    verbs::Clock::now());
		if (!verbs::readable(fd_.get(), std::max(left, verbs::milliseconds(0))))
			return std::nullopt;
		char some[4096];
		auto n = ::recv(fd_.get(), some, sizeof(some), 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			throw verbs::Error("the other side ended the connection",
					   n ? errno : ECONNRESET);
		pending_.append(some, static_cast<std::size_t>(n));
	}
}

std::optional<std::string> Control::complaint(verbs::milliseconds timeout)
{
	try {
		if (auto line = hear(timeout); line && line->rfind("error ", 0) == 0)
			return line->substr(6);
	} catch (const std::exception &) {
	}
	return std::nullopt;
}

bool Control::gone()
{
	char byte;

	auto n = ::recv(fd_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT);
	return !n || (n < 0 && errno != EAGAIN && errno != EINTR);
}

std::string after_word(const std::string &line, const std::string &word)
{
	auto begins = [&](const std::string &with) {
		return line.rfind(with, 0) == 0 &&
		       (line.size() == with.size() || line[with.size()] == ' ');
	};

	if (begins(word))
		return line.substr(std::min(line.size(), word.size() + 1));
	if (begins("error"))
		throw std::runtime_error("the other side says: " + line.substr(6));
	throw std::runtime_error("the other side is no ziw-bench of this version");
}

std::string Control::expect(const std::string &word, verbs::milliseconds timeout)
{
	auto line = hear(timeout);

	if (!line)
		throw verbs::Timeout("the other side does not say '" + word + "'");
	return after_word(*line, word);
}

} // namespace bench
