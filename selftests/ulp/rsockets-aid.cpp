// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Loaded before librspreload.so (LD_PRELOAD="rsockets-aid.so librspreload.so"), it makes of what
// programs call what rdma-core's rsockets can do.
//
// socket() with SOCK_CLOEXEC or SOCK_NONBLOCK, accept4() and fcntl64(): librspreload.so leaves them
// to TCP. Here they are what it knows; such a socket is not closed on exec.
//
// poll() and select() with a time limit: when it has passed rpoll() returns without rs_poll_exit(),
// after which the next event makes rs_poll_enter() refuse everybody for ever. Here the limit is a
// timer among the descriptors.
//
// pthread_cancel(): a thread that is cancelled inside rsockets leaves locks held, and polls
// counted. Here a thread waits in turns, and is cancelled between them only, also if it asked for
// PTHREAD_CANCEL_ASYNCHRONOUS, as iperf3 does.
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// How late a thread may be cancelled.
constexpr milliseconds turn(100);

template <typename Function> Function *next(const char *name)
{
	return reinterpret_cast<Function *>(dlsym(RTLD_NEXT, name));
}

int nonblocking(int fd, int flags)
{
	if (fd >= 0 && (flags & SOCK_NONBLOCK))
		fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

// Until its end the thread cannot be cancelled; it could be at its beginning.
class Uncancelled {
public:
	Uncancelled()
	{
		pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, nullptr);
		pthread_testcancel();
		pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_);
		inside++;
	}
	~Uncancelled()
	{
		inside--;
		pthread_setcancelstate(before_, nullptr);
	}
	Uncancelled(const Uncancelled &) = delete;
	Uncancelled &operator=(const Uncancelled &) = delete;

	static inline thread_local int inside = 0;

private:
	int before_ = PTHREAD_CANCEL_ENABLE;
};

class Timer {
public:
	explicit Timer(milliseconds limit) : fd_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC))
	{
		const itimerspec when = {{0, 0},
					 {limit.count() / 1000, limit.count() % 1000 * 1'000'000}};

		timerfd_settime(fd_, 0, &when, nullptr);
	}
	~Timer() { close(fd_); }
	Timer(const Timer &) = delete;
	Timer &operator=(const Timer &) = delete;
	[[nodiscard]] int fd() const { return fd_; }

private:
	int fd_;
};

// poll() with no limit or none left: the only ones that are asked of rsockets.
int ask(pollfd *fds, nfds_t count, int limit)
{
	static const auto call = next<int(pollfd *, nfds_t, int)>("poll");
	const Uncancelled here;

	return call(fds, count, limit);
}

int ask_within(pollfd *fds, nfds_t count, milliseconds limit)
{
	const Uncancelled here;
	const Timer timer(limit);
	std::vector<pollfd> all(fds, fds + count);

	all.push_back({timer.fd(), POLLIN, 0});
	const int rc = ask(all.data(), all.size(), -1);
	if (rc <= 0)
		return rc;
	std::copy_n(all.begin(), count, fds);
	return all.back().revents ? rc - 1 : rc;
}

// Something to read, if the call that is made next would wait for that. Those of rsockets
// themselves are not meant.
void wait_for(int fd)
{
	pollfd one = {fd, POLLIN, 0};

	if (!Uncancelled::inside && !(fcntl(fd, F_GETFL) & O_NONBLOCK))
		poll(&one, 1, -1);
}

} // namespace

extern "C" {

int socket(int domain, int type, int protocol) noexcept
{
	static const auto call = next<int(int, int, int)>("socket");
	constexpr int flags = SOCK_CLOEXEC | SOCK_NONBLOCK;

	const Uncancelled here;

	if ((domain != AF_INET && domain != AF_INET6) || (type & ~flags) != SOCK_STREAM)
		return call(domain, type, protocol);
	return nonblocking(call(domain, type & ~flags, protocol), type);
}

int accept4(int fd, sockaddr *address, socklen_t *length, int flags)
{
	return nonblocking(accept(fd, address, length), flags);
}

int fcntl64(int fd, int command, ...)
{
	va_list list;

	va_start(list, command);
	void *argument = va_arg(list, void *);
	va_end(list);
	return fcntl(fd, command, argument);
}

ssize_t recv(int fd, void *to, size_t size, int flags)
{
	static const auto call = next<ssize_t(int, void *, size_t, int)>("recv");

	if (!(flags & MSG_DONTWAIT))
		wait_for(fd);
	const Uncancelled here;
	return call(fd, to, size, flags);
}

ssize_t read(int fd, void *to, size_t size)
{
	static const auto call = next<ssize_t(int, void *, size_t)>("read");

	wait_for(fd);
	const Uncancelled here;
	return call(fd, to, size);
}

ssize_t write(int fd, const void *from, size_t size)
{
	static const auto call = next<ssize_t(int, const void *, size_t)>("write");

	const Uncancelled here;
	return call(fd, from, size);
}

int poll(pollfd *fds, nfds_t count, int limit)
{
	const auto end = Clock::now() + milliseconds(limit);
	int rc = ask(fds, count, 0);

	while (rc == 0 && limit) {
		milliseconds left = turn;
		if (limit > 0)
			left = std::min(left, std::chrono::ceil<milliseconds>(end - Clock::now()));
		if (left <= milliseconds(0))
			break;
		rc = ask_within(fds, count, left);
	}
	return rc;
}

int select(int count, fd_set *to_read, fd_set *to_write, fd_set *exceptional, timeval *limit)
{
	std::vector<pollfd> fds;
	const auto asked = [](fd_set *set, int fd) { return set && FD_ISSET(fd, set); };
	const auto answer = [](fd_set *set, const pollfd &one, int events) {
		if (!set || !FD_ISSET(one.fd, set))
			return 0;
		if (one.revents & events)
			return 1;
		FD_CLR(one.fd, set);
		return 0;
	};

	for (int fd = 0; fd < count; fd++) {
		const int events = (asked(to_read, fd) ? POLLIN : 0) |
				   (asked(to_write, fd) ? POLLOUT : 0) |
				   (asked(exceptional, fd) ? POLLPRI : 0);
		if (events)
			fds.push_back({fd, static_cast<short>(events), 0});
	}
	int rc = poll(fds.data(), fds.size(),
		      limit ? static_cast<int>(limit->tv_sec * 1000 + limit->tv_usec / 1000) : -1);
	if (rc < 0)
		return rc;
	rc = 0;
	for (const pollfd &one : fds) {
		rc += answer(to_read, one, POLLIN | POLLHUP | POLLERR);
		rc += answer(to_write, one, POLLOUT | POLLERR);
		rc += answer(exceptional, one, POLLPRI);
	}
	return rc;
}
}
