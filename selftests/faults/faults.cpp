// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "faults.h"

#include <sys/syscall.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace {

const char *const kinds[] = {"failslab", "fail_page_alloc", "fail_usercopy"};

/*
 * To open and to write such a file takes memory as well, and the faults may be on already: then it
 * is tried again. Left half done, they would stay on and meet whoever forks, which User Mode Linux
 * does not survive without memory (flush_tlb_mm() of an mm that was never set up).
 */
void set(const std::string &kind, const std::string &file, const std::string &value)
{
	auto path = "/sys/kernel/debug/" + kind + "/" + file;

	for (unsigned tries = 0; tries < 10000; tries++) {
		verbs::Fd fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
		if (fd && write(fd.get(), value.data(), value.size()) ==
				  static_cast<ssize_t>(value.size()))
			return;
		if (errno != ENOMEM && errno != EFAULT && errno != ENFILE)
			break;
	}
	verbs::fail("set " + kind + "/" + file + " to " + value);
}

void set_all(const std::string &file, const std::string &value)
{
	for (auto *kind : kinds)
		set(kind, file, value);
}

std::string hex(uint64_t value)
{
	char text[32];

	std::snprintf(text, sizeof(text), "0x%llx", static_cast<unsigned long long>(value));
	return text;
}

struct Function {
	uint64_t address;
	std::string name, module;
};

std::vector<Function> functions()
{
	std::ifstream in("/proc/kallsyms");
	std::vector<Function> list;
	std::string line;

	while (std::getline(in, line)) {
		std::istringstream words(line);
		std::string address, type, name, module;
		words >> address >> type >> name >> module;
		if (type == "t" || type == "T")
			list.push_back({std::stoull(address, nullptr, 16), name, module});
	}
	return list;
}

/* Where the functions of ziw.ko are. */
std::pair<uint64_t, uint64_t> code_of_ziw()
{
	uint64_t first = ~uint64_t(0), last = 0;

	for (auto &function : functions()) {
		if (function.module != "[ziw]")
			continue;
		first = std::min(first, function.address);
		last = std::max(last, function.address);
	}
	if (first > last)
		throw std::runtime_error("no function of ziw in /proc/kallsyms");
	/* Longer than the last of them. */
	return {first, last + 4096};
}

/* From its address to that of the next one. */
std::pair<uint64_t, uint64_t> code_of(const std::string &name)
{
	uint64_t first = 0, end = ~uint64_t(0);
	auto all = functions();

	for (auto &function : all)
		if (function.name == name)
			first = function.address;
	if (!first)
		throw std::runtime_error("no function " + name + " in /proc/kallsyms");
	for (auto &function : all)
		if (function.address > first)
			end = std::min(end, function.address);
	return {first, end};
}

/* What is made below this function does not fail. */
void reject(const std::string &function)
{
	auto [first, end] = code_of(function);

	/* In between no address is in the range. */
	set_all("reject-start", hex(~uint64_t(0)));
	set_all("reject-end", hex(end));
	set_all("reject-start", hex(first));
}

} // namespace

void prepare_faults()
{
	set("failslab", "ignore-gfp-wait", "N");
	set("fail_page_alloc", "ignore-gfp-wait", "N");
	set("fail_page_alloc", "ignore-gfp-highmem", "N");
	set("fail_page_alloc", "min-order", "0");
	set_all("verbose", "0");
	set_all("times", "-1");
	set_all("stacktrace-depth", "32");
	reject("kmemleak_alloc");
}

BelowZiw::BelowZiw()
{
	auto [first, last] = code_of_ziw();

	set_all("require-start", hex(first));
	set_all("require-end", hex(last));
}

BelowZiw::~BelowZiw()
{
	set_all("require-start", "0");
	set_all("require-end", hex(~uint64_t(0)));
}

NotBelow::NotBelow(const std::string &function)
{
	reject(function);
}

NotBelow::~NotBelow()
{
	reject("kmemleak_alloc");
}

/* By a filter for code where there is none. */
NoCopyFaults::NoCopyFaults()
{
	set("fail_usercopy", "require-start", "1");
	set("fail_usercopy", "require-end", "2");
}

NoCopyFaults::~NoCopyFaults()
{
	set("fail_usercopy", "require-start", "0");
	set("fail_usercopy", "require-end", hex(~uint64_t(0)));
}

RandomFaults::RandomFaults(unsigned percent)
{
	for (auto *kind : {"failslab", "fail_page_alloc"})
		set(kind, "probability", std::to_string(percent));
}

RandomFaults::~RandomFaults()
{
	for (auto *kind : {"failslab", "fail_page_alloc"})
		set(kind, "probability", "0");
}

OneFault::OneFault(unsigned interval)
{
	set("failslab", "interval", std::to_string(interval));
	set("failslab", "times", "1");
	set("failslab", "probability", "100");
}

OneFault::~OneFault()
{
	set("failslab", "probability", "0");
	set("failslab", "times", "-1");
	set("failslab", "interval", "1");
}

/* --- n-th fault --- */

namespace {

void arm(int fd, unsigned n)
{
	auto text = std::to_string(n);

	verbs::check(pwrite(fd, text.data(), text.size(), 0) < 0 ? errno : 0, "fail-nth");
}

/* How much of n is left: 0 if the fault was met before this call. */
unsigned take_back(int fd)
{
	unsigned left = 1;
	char text[16] = {};

	/* To read and to write this file are copies from and to user memory as well. */
	if (pread(fd, text, sizeof(text) - 1, 0) > 0)
		left = static_cast<unsigned>(std::atoi(text));
	while (pwrite(fd, "0", 1, 0) < 0)
		if (errno != EFAULT)
			verbs::fail("fail-nth");
	return left;
}

} // namespace

NthFault::NthFault(unsigned n) : fd_(open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC)), n_(n)
{
	if (!fd_)
		verbs::fail("/proc/thread-self/fail-nth");
	arm(fd_.get(), n);
}

bool NthFault::disarm()
{
	if (std::exchange(armed_, false)) {
		auto left = take_back(fd_.get());
		consumed_ = left == 0;
		seen_ = n_ - left;
	}
	return consumed_;
}

NthFaultOfWorkers::NthFaultOfWorkers(unsigned n)
{
	namespace fs = std::filesystem;

	for (auto &entry : fs::directory_iterator("/proc")) {
		std::string name;
		std::getline(std::ifstream(entry.path() / "comm") >> std::ws, name);
		if (!name.starts_with("kworker/"))
			continue;
		verbs::Fd fd(open((entry.path() / "fail-nth").c_str(), O_RDWR | O_CLOEXEC));
		if (fd)
			fds_.push_back(std::move(fd));
	}
	for (auto &fd : fds_)
		arm(fd.get(), n);
}

unsigned NthFaultOfWorkers::disarm()
{
	unsigned met = 0;

	for (auto &fd : std::exchange(fds_, {})) {
		char text[16] = {};
		/* Not of the calling thread: nothing interferes. One that has ended met none. */
		if (pread(fd.get(), text, sizeof(text) - 1, 0) <= 0)
			continue;
		met += std::atoi(text) == 0;
		if (pwrite(fd.get(), "0", 1, 0) < 0 && errno != ESRCH)
			verbs::fail("fail-nth of a worker");
	}
	return met;
}

static int error_of(const std::function<int()> &call)
{
	try {
		return call();
	} catch (const verbs::Error &e) {
		return e.code();
	}
}

void fail_each(const std::string &what, const std::function<int()> &call,
	       const std::function<void()> &undo, const FaultOptions &options)
{
	unsigned failures = 0, tried = 0, all, step;

	/* What is made once, by the first call ever, is not to be made under a fault. */
	ASSERT_EQ(call(), 0) << what << ": fails without a fault";
	undo();
	{
		NthFault never(1000000);
		ASSERT_EQ(call(), 0) << what;
		ASSERT_FALSE(never.disarm()) << what << ": no end of allocations";
		all = never.seen();
		undo();
	}
	step = all / options.at_most + 1;
	/* A few more than were counted: it is done when it gets through without meeting the fault.
	 */
	/* Other ones in the next run. */
	for (unsigned n = 1 + Random(run_seed())() % step;; n += step) {
		NthFault fault(n);
		int rc = error_of(call);
		bool met = fault.disarm();
		tried++;
		undo();
		if (!met) {
			ASSERT_EQ(rc, 0)
				<< what << ": fails without a fault, after " << n << " faults";
			break;
		}
		ASSERT_LT(n, 2 * all + 100) << what << ": always meets a fault";
		if (rc) {
			failures++;
			EXPECT_TRUE(options.errors.contains(rc))
				<< what << ": fault " << n << " gives " << std::strerror(rc);
		}
		if (options.clean_each && tried % options.clean_each == 0) {
			ASSERT_EQ(call(), 0) << what << ": fails after fault " << n;
			undo();
		}
	}
	EXPECT_GT(failures, 0u) << what << ": no fault makes it fail";
	std::printf("# %s: %u of %u allocations and copies fail, %u times with it\n", what.c_str(),
		    tried - 1, all, failures);
}
