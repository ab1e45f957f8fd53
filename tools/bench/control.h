/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* TCP sockets, and lines of text over one. */
#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <optional>
#include <string>
#include <vector>

#include "verbs/verbs.h"

namespace bench {

using verbs::Fd;

struct Address {
	sockaddr_storage storage{};
	socklen_t length = sizeof(storage);

	sockaddr *get() { return reinterpret_cast<sockaddr *>(&storage); }
	const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&storage); }
	void set_port(uint16_t port);
	uint16_t port() const;
};

std::vector<Address> look_up(const std::string &host, const std::string &port, bool passive);
/* Bound to the first address that can be had, and listening. */
Fd listen_on(const std::vector<Address> &addresses);
Fd connect_to(const std::vector<Address> &addresses, const std::string &what);
Address local_address(int fd);
Address remote_address(int fd);
/* An IPv4 address mapped into IPv6 as what it is, for rdma_cm. */
Address unmapped(const Address &address);
void set_option(int fd, int level, int option, int value, const char *what);
/* For each connection's socket: no delay, and an error soon after the peer has vanished. */
void prepare(int fd);
/* Throw when the peer is gone. */
void send_all(int fd, const void *data, std::size_t size, int flags = 0);
/* False at the end of the stream, if it comes before the first byte. */
bool recv_all(int fd, void *data, std::size_t size, int flags = 0);

/* How long each side waits for a step of the other. */
constexpr verbs::milliseconds patience{20000};
/* How often it looks whether the other is still there. */
constexpr verbs::milliseconds glance{500};

class Control {
public:
	explicit Control(Fd fd) : fd_(std::move(fd)) {}

	int fd() const { return fd_.get(); }
	void say(const std::string &line);
	/* To who may be gone. */
	void try_say(const std::string &line) noexcept;
	/* None: nothing came in time. Throws when the other side is gone. */
	std::optional<std::string> hear(verbs::milliseconds timeout);
	/* A line that begins with this word; what is after it. "error" is thrown. */
	std::string expect(const std::string &word, verbs::milliseconds timeout);
	/* The error that the other side says it has, if it does so in time. Does not throw. */
	std::optional<std::string> complaint(verbs::milliseconds timeout);
	/* The other side has ended, or has vanished. */
	bool gone();

private:
	Fd fd_;
	std::string pending_;
};

/* The word that begins a line is taken off; an "error" line is thrown. */
std::string after_word(const std::string &line, const std::string &word);

} // namespace bench
