/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What a thread of the fuzzer decides by. */
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

class Random {
public:
	explicit Random(uint64_t seed) : engine_(seed) {}

	uint64_t bits() { return engine_(); }
	/* 0 to limit - 1; 0 if limit is 0. */
	uint64_t below(uint64_t limit) { return limit ? engine_() % limit : 0; }
	uint64_t between(uint64_t low, uint64_t high) { return low + below(high - low + 1); }
	/* True in so many of a thousand cases. */
	bool permille(unsigned n) { return below(1000) < n; }
	bool percent(unsigned n) { return below(100) < n; }
	template <class T> const T &pick(const std::vector<T> &from)
	{
		return from[below(from.size())];
	}
	template <class T, std::size_t N> const T &pick(const T (&from)[N])
	{
		return from[below(N)];
	}

	/* A number that programs get wrong: near a power of two, a limit, or anything. */
	uint64_t odd_number()
	{
		switch (below(6)) {
		case 0:
			return below(5);
		case 1:
			return (uint64_t(1) << below(64)) - 1 + below(3);
		case 2:
			return uint64_t(0) - below(5);
		case 3:
			return 0xffffffffu - below(3);
		case 4:
			return 0x80000000u - 1 + below(3);
		default:
			return bits();
		}
	}

private:
	std::mt19937_64 engine_;
};
