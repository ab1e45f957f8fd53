/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Owners for everything libibverbs and librdmacm hand out, and waits that end.
 *
 * A handle frees what it holds when it goes out of scope, in the reverse order of declaration, so
 * a failure path needs no code of its own. Failures of setup calls are thrown as verbs::Error.
 */
#pragma once

#include <fcntl.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace verbs {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

class Error : public std::runtime_error {
public:
	Error(const std::string &what, int code)
		: std::runtime_error(what + ": " + std::strerror(code)), code_(code)
	{
	}
	int code() const { return code_; }

private:
	int code_;
};

class Timeout : public std::runtime_error {
public:
	explicit Timeout(const std::string &what) : std::runtime_error("timed out: " + what) {}
};

[[noreturn]] inline void fail(const std::string &what, int code = errno)
{
	throw Error(what, code);
}

/* For calls that return -1 and set errno, as librdmacm's do. */
inline void check(int rc, const std::string &what)
{
	if (rc)
		fail(what, rc < 0 ? errno : rc);
}

/* For calls that return NULL and set errno. */
template <class T> T *check(T *p, const std::string &what)
{
	if (!p)
		fail(what);
	return p;
}

/*
 * Told of each object that could not be destroyed: a destructor cannot throw. The name is that of
 * the object's type.
 */
using DestroyFailed = void (*)(const char *type, int code);
inline DestroyFailed destroy_failed = [](const char *type, int code) {
	std::fprintf(stderr, "verbs: cannot destroy %s: %s\n", type, std::strerror(code));
};

template <auto Free> struct Destroy {
	template <class T> void operator()(T *p) const noexcept
	{
		if constexpr (std::is_void_v<decltype(Free(p))>) {
			Free(p);
		} else if (int rc = Free(p)) {
			destroy_failed(__PRETTY_FUNCTION__, rc < 0 ? errno : rc);
		}
	}
};

template <class T, auto Free> using Handle = std::unique_ptr<T, Destroy<Free>>;

using Pd = Handle<ibv_pd, ibv_dealloc_pd>;
using Mr = Handle<ibv_mr, ibv_dereg_mr>;
using Mw = Handle<ibv_mw, ibv_dealloc_mw>;
using Cq = Handle<ibv_cq, ibv_destroy_cq>;
using Srq = Handle<ibv_srq, ibv_destroy_srq>;
using CompChannel = Handle<ibv_comp_channel, ibv_destroy_comp_channel>;
using CmChannel = Handle<rdma_event_channel, rdma_destroy_event_channel>;
using CmId = Handle<rdma_cm_id, rdma_destroy_id>;
/* The QP that rdma_create_qp gave to an id; its owner must go before the id's. */
using CmQp = Handle<rdma_cm_id, rdma_destroy_qp>;
using Context = Handle<ibv_context, ibv_close_device>;

class Fd {
public:
	Fd() = default;
	explicit Fd(int fd) : fd_(fd) {}
	Fd(Fd &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
	Fd &operator=(Fd &&other) noexcept
	{
		reset(std::exchange(other.fd_, -1));
		return *this;
	}
	~Fd() { reset(); }
	int get() const { return fd_; }
	explicit operator bool() const { return fd_ >= 0; }
	void reset(int fd = -1)
	{
		if (fd_ >= 0)
			close(fd_);
		fd_ = fd;
	}

private:
	int fd_ = -1;
};

/* Anonymous pages of its own, so that nothing else shares the first or the last one. */
class Pages {
public:
	Pages() = default;
	explicit Pages(std::size_t size, int flags = 0, int protection = PROT_READ | PROT_WRITE)
		: size_(size ? size : 1)
	{
		void *p = mmap(nullptr, size_, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1,
			       0);
		if (p == MAP_FAILED)
			fail("mmap");
		data_ = static_cast<unsigned char *>(p);
	}
	/* Like that, but in huge pages, as far as the system has them to give. */
	static Pages huge(std::size_t size)
	{
		constexpr std::size_t huge_page = 2 << 20;
		auto whole = (size + huge_page - 1) / huge_page * huge_page;
		Pages pages(whole + huge_page);
		auto skip = -reinterpret_cast<uintptr_t>(pages.data_) % huge_page;

		if (skip)
			munmap(pages.data_, skip);
		if (skip != huge_page)
			munmap(pages.data_ + skip + whole, huge_page - skip);
		pages.data_ += skip;
		pages.size_ = whole;
		/* A kernel without them says so; the pages are as good. */
		madvise(pages.data_, whole, MADV_HUGEPAGE);
		return pages;
	}
	Pages(Pages &&other) noexcept
		: data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0))
	{
	}
	Pages &operator=(Pages &&other) noexcept
	{
		std::swap(data_, other.data_);
		std::swap(size_, other.size_);
		return *this;
	}
	~Pages()
	{
		if (data_)
			munmap(data_, size_);
	}
	unsigned char *data() const { return data_; }
	std::size_t size() const { return size_; }

private:
	unsigned char *data_ = nullptr;
	std::size_t size_ = 0;
};

inline void set_nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		fail("fcntl");
}

/* True once fd is readable; false when the time is over. */
inline bool readable(int fd, milliseconds timeout)
{
	auto deadline = Clock::now() + timeout;

	for (;;) {
		auto left = std::chrono::duration_cast<milliseconds>(deadline - Clock::now());
		pollfd p{fd, POLLIN, 0};
		int rc = poll(&p, 1, static_cast<int>(std::max<long>(left.count(), 0)));

		if (rc > 0)
			return true;
		if (rc == 0)
			return false;
		if (errno != EINTR)
			fail("poll");
	}
}

/* Run predicate until it is true; false when the time is over. */
template <class Predicate> bool eventually(milliseconds timeout, Predicate &&predicate)
{
	auto deadline = Clock::now() + timeout;

	for (unsigned i = 0;; i++) {
		if (predicate())
			return true;
		if (Clock::now() >= deadline)
			return false;
		/* Emulated machines have few CPUs: leave them to the kernel's own work. */
		if (i < 20)
			std::this_thread::yield();
		else
			std::this_thread::sleep_for(std::chrono::microseconds(i < 200 ? 50 : 500));
	}
}

} // namespace verbs
