/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the fuzz targets share: kernel/proto, bytes, and the check that ends a run. */
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <span>
#include <vector>

extern "C" {
#include "proto/wire.h"
#include "proto/wqe.h"
}

/* A vector's heap block ends with its last byte, so that ASan sees each read and write beyond. */
using Bytes = std::vector<u8>;
using View = std::span<const u8>;

inline Bytes copy(View view)
{
	return Bytes(view.begin(), view.end());
}

/* Not assert(): no build option turns it off. */
#define REQUIRE(condition)                                                                         \
	do {                                                                                       \
		if (!(condition)) {                                                                \
			std::fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__,     \
				     #condition);                                                  \
			std::abort();                                                              \
		}                                                                                  \
	} while (0)

/*
 * The first byte of an input of the targets that read a stream. Its lowest bits are the target's
 * flags; the others say in which pieces the bytes arrive.
 */
struct Options {
	Options(u8 byte, unsigned num_flags) : split(byte >> num_flags), flags_(byte) {}

	bool flag(unsigned number) const { return flags_ >> number & 1; }

	unsigned split;

private:
	u8 flags_;
};

/*
 * Cuts a stream into pieces: 0 is all at once, 1 byte by byte, more is at random, by powers of two
 * so that small pieces and large ones are equally common.
 */
class Splitter {
public:
	explicit Splitter(unsigned how) : how_(how), random_(how + 1) {}

	std::size_t next(std::size_t left)
	{
		std::size_t size = left;

		if (how_ == 1)
			size = 1;
		else if (how_ > 1)
			size = 1 + random_() % (std::size_t{1} << random_() % 14);
		return size < left ? size : left;
	}

private:
	unsigned how_;
	std::minstd_rand random_;
};
