/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A measurement from its beginning to its end, on either side. */
#pragma once

#include "side.h"

namespace bench {

struct Result {
	Config config;
	std::string device;
	double seconds = 0, client_cpu = 0, server_cpu = 0, setup = 0;
	uint64_t messages = 0, copied = 0;
	/* Nanoseconds, sorted; of half of a round trip, or of a whole one for read and atomics. */
	std::vector<uint64_t> samples;

	double bytes_per_second() const
	{
		return static_cast<double>(messages * config.size) / seconds;
	}
	double messages_per_second() const { return static_cast<double>(messages) / seconds; }
	/* 0.5: the median. */
	uint64_t percentile(double part) const;
};

Result measure(const Options &options, const Config &config);
/* Returns with --once only: whether the client has got its result. */
bool serve(const Options &options);

} // namespace bench
