/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The kernel's fault injection (Documentation/fault-injection in its source), for tests. */
#pragma once

#include <functional>
#include <set>
#include <string>

#include "../functional/fixture.h"

/*
 * Sets the kernel up when the program starts: allocations that may wait fail too, single pages as
 * well, and nothing is logged of it. Throws where the kernel has no fault injection.
 */
void prepare_faults();

/* While one lives only allocations made below a function of ziw.ko fail. */
class BelowZiw {
public:
	BelowZiw();
	~BelowZiw();
	BelowZiw(const BelowZiw &) = delete;
	BelowZiw &operator=(const BelowZiw &) = delete;
};

/*
 * While one lives no allocation fails that is made below this function; else none of kmemleak's
 * own, which has others for that.
 */
class NotBelow {
public:
	explicit NotBelow(const std::string &function);
	~NotBelow();
	NotBelow(const NotBelow &) = delete;
	NotBelow &operator=(const NotBelow &) = delete;
};

/* While one lives copies from and to user memory do not fail, which good memory does not. */
class NoCopyFaults {
public:
	NoCopyFaults();
	~NoCopyFaults();
	NoCopyFaults(const NoCopyFaults &) = delete;
	NoCopyFaults &operator=(const NoCopyFaults &) = delete;
};

/* While one lives so many of a hundred allocations fail, of those that the filter leaves. */
class RandomFaults {
public:
	explicit RandomFaults(unsigned percent);
	~RandomFaults();
	RandomFaults(const RandomFaults &) = delete;
	RandomFaults &operator=(const RandomFaults &) = delete;
};

/* While one lives one allocation fails, the interval-th or an earlier one of those that the filter
 * leaves. */
class OneFault {
public:
	explicit OneFault(unsigned interval);
	~OneFault();
	OneFault(const OneFault &) = delete;
	OneFault &operator=(const OneFault &) = delete;
};

/* The calling thread's n-th allocation from here on fails, or copy from or to user memory. */
class NthFault {
public:
	explicit NthFault(unsigned n);
	~NthFault() { disarm(); }
	NthFault(const NthFault &) = delete;
	NthFault &operator=(const NthFault &) = delete;
	/* Whether it has failed. */
	bool disarm();
	/* How many there were, once disarmed, if it has not. */
	unsigned seen() const { return seen_; }

private:
	verbs::Fd fd_;
	unsigned n_, seen_ = 0;
	bool armed_ = true, consumed_ = false;
};

/* The same for each of the kernel's workers. */
class NthFaultOfWorkers {
public:
	explicit NthFaultOfWorkers(unsigned n);
	~NthFaultOfWorkers() { disarm(); }
	NthFaultOfWorkers(const NthFaultOfWorkers &) = delete;
	NthFaultOfWorkers &operator=(const NthFaultOfWorkers &) = delete;
	/* In how many of them it has failed. */
	unsigned disarm();

private:
	std::vector<verbs::Fd> fds_;
};

/* errno of a call that was made to fail, unless the test says otherwise. */
inline const std::set<int> out_of_memory{ENOMEM, EFAULT};

struct FaultOptions {
	std::set<int> errors = out_of_memory;
	/* Try it without a fault after so many failures; 0: at the end only. */
	unsigned clean_each = 1;
	/* Not each, but every so many-th of them, if there are more than that times this. */
	unsigned at_most = 1000;
};

/*
 * Make each allocation of `call` fail in turn.
 * call: returns 0 or an errno value, or throws verbs::Error. undo: what it made, all or part of it.
 */
void fail_each(const std::string &what, const std::function<int()> &call,
	       const std::function<void()> &undo, const FaultOptions &options = {});
