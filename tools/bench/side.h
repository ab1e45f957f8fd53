/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* One end of a measurement's data connections, whatever they are made of. */
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "config.h"
#include "control.h"

namespace bench {

/* When to stop, for a measurement by time; seldom enough that asking costs nothing. */
class Deadline {
public:
	explicit Deadline(const Config &config)
		: end_(verbs::Clock::now() + verbs::milliseconds(config.milliseconds)),
		  timed_(!config.messages), interval_(config.size >= 4096 ? 1 : 64)
	{
	}
	bool over()
	{
		if (!timed_ || ++asked_ % interval_)
			return false;
		return verbs::Clock::now() >= end_;
	}

private:
	verbs::Clock::time_point end_;
	bool timed_;
	uint64_t interval_, asked_ = 0;
};

/* More would take too much memory; percentiles are of these, then. */
constexpr std::size_t max_samples = 5'000'000;

/* So many round trips before the first that counts. */
constexpr uint64_t warm_up_trips = 16;

/* Memory for what is sent and received. */
inline verbs::Pages pages_for(const Config &config, uint64_t size)
{
	return config.small_pages ? verbs::Pages(size) : verbs::Pages::huge(size);
}

class Side {
public:
	virtual ~Side() = default;
	/* Threads; each is one call of run(). */
	virtual uint32_t threads() const = 0;
	virtual void run(uint32_t thread) = 0;
	/* Ends what run() waits for; called while it runs. */
	virtual void cancel() = 0;
	virtual std::string device() const = 0;
	/* MSG_ZEROCOPY: what the kernel copied all the same. */
	virtual uint64_t copied() const { return 0; }
	/* Bytes that run() handed over, and that the other side's host has not got yet. */
	virtual uint64_t unacknowledged() const { return 0; }

	uint64_t done() const { return done_.load(std::memory_order_relaxed); }
	/* Of the client, with --latency: nanoseconds. */
	std::vector<uint64_t> samples;

protected:
	void count(uint64_t more) { done_.fetch_add(more, std::memory_order_relaxed); }
	/* Samples of up to `most` round trips, each a call of trip(n). */
	void time_trips(const Config &config, uint64_t most, auto trip)
	{
		Deadline deadline(config);

		samples.reserve(std::min<uint64_t>(most, max_samples));
		for (uint64_t i = 0; i < warm_up_trips; i++)
			trip(i);
		auto before = verbs::Clock::now();
		for (uint64_t i = 0; i < most && !deadline.over(); i++) {
			trip(warm_up_trips + i);
			auto now = verbs::Clock::now();
			if (samples.size() < max_samples)
				samples.push_back(static_cast<uint64_t>(
					std::chrono::nanoseconds(now - before).count()));
			before = now;
			count(1);
		}
	}

private:
	std::atomic<uint64_t> done_ = 0;
};

class ServerSide : public Side {
public:
	/* Where the client is to connect to. */
	virtual uint16_t port() const = 0;
	/* Receives posted per connection for data. */
	virtual uint64_t window() const { return 0; }
	/* Returns when all connections are there. */
	virtual void accept(Control &control) = 0;
};

/* window: receives that the server has posted for data. */
std::unique_ptr<Side> rdma_client(const Config &config, const Address &server, uint64_t window);
std::unique_ptr<ServerSide> rdma_server(const Config &config, const Address &here);
std::unique_ptr<Side> tcp_client(const Config &config, const Address &server);
std::unique_ptr<ServerSide> tcp_server(const Config &config, const Address &here);

/*
 * Where the measured part begins and ends, for an instruction counter outside of the machine
 * (selftests/bench/count.cpp): a "no operation" with a number in it.
 */
#ifdef __x86_64__
#define ZIW_BENCH_MARK(n) asm volatile(".byte 0x0f, 0x1f, 0x84, 0x00, " #n ", 0x5a, 0x49, 0x57")
#else
#define ZIW_BENCH_MARK(n)
#endif

} // namespace bench
