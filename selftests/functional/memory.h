/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Registered memory with known content, and with canaries around it. */
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "verbs/verbs.h"

using Random = std::mt19937_64;

/* The random seed of this run: ZIW_SEED, or a new one; printed when a test fails. */
uint64_t run_seed();

/* Byte i of pattern `seed` depends on i and seed only; start is the i of data[0]. */
void fill_pattern(unsigned char *data, std::size_t length, uint64_t seed, uint64_t start = 0);
/* "" if data is that pattern, else what differs first. */
std::string differs_from_pattern(const unsigned char *data, std::size_t length, uint64_t seed,
				 uint64_t start = 0);
std::string differs(const unsigned char *data, const unsigned char *expected, std::size_t length);

struct Piece {
	std::size_t offset;
	uint32_t length;
};

/*
 * size bytes as `count` pieces in ascending order, with gaps of random width between them; some
 * pieces may be empty.
 */
std::vector<Piece> split(Random &random, std::size_t size, unsigned count,
			 std::size_t max_gap = 100);
std::size_t extent(const std::vector<Piece> &pieces);

class Region {
public:
	static constexpr int all =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;

	/* size bytes, `skew` bytes after a page's begin; throws if they cannot be registered. */
	Region(ibv_pd *pd, std::size_t size, int access = all, std::size_t skew = 0,
	       int map_flags = 0);

	unsigned char *data() const { return pages_.data() + lead_; }
	std::size_t size() const { return size_; }
	uint64_t address(std::size_t offset = 0) const
	{
		return reinterpret_cast<uintptr_t>(data()) + offset;
	}
	uint32_t lkey() const { return mr_->lkey; }
	uint32_t rkey() const { return mr_->rkey; }
	ibv_mr *mr() const { return mr_.get(); }
	void deregister() { mr_.reset(); }

	ibv_sge sge(std::size_t offset, std::size_t length) const
	{
		return {address(offset), static_cast<uint32_t>(length), lkey()};
	}
	ibv_sge sge() const { return sge(0, size_); }
	std::vector<ibv_sge> sges(const std::vector<Piece> &pieces) const;

	/* Every byte of the region set to the canary value. */
	void clear();
	void fill(uint64_t seed) { fill_pattern(data(), size_, seed); }
	/* "" if the bytes around the region are as they were. */
	std::string harmed() const;
	/* "" if the region too still holds canaries only. */
	std::string touched() const;

private:
	static constexpr unsigned char canary = 0xc5;

	verbs::Pages pages_;
	std::size_t lead_, size_;
	verbs::Mr mr_;
};
