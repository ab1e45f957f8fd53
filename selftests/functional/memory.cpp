// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "memory.h"

#include <algorithm>
#include <cstdlib>

namespace {

constexpr std::size_t page = 4096;

/* splitmix64's mixing function: each word follows from its index alone. */
uint64_t word(uint64_t seed, uint64_t index)
{
	uint64_t z = (seed << 32) + (index + 1) * 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	return z ^ (z >> 27);
}

template <class Use> void each_word(std::size_t length, uint64_t seed, uint64_t start, Use &&use)
{
	for (std::size_t done = 0; done < length;) {
		uint64_t at = start + done, value = word(seed, at / 8);
		std::size_t skip = at % 8, n = std::min<std::size_t>(8 - skip, length - done);

		if (!use(done, reinterpret_cast<const unsigned char *>(&value) + skip, n))
			return;
		done += n;
	}
}

std::string difference(std::size_t offset, unsigned found, unsigned expected)
{
	char text[100];

	std::snprintf(text, sizeof(text), "byte %zu is 0x%02x, expected 0x%02x", offset, found,
		      expected);
	return text;
}

} // namespace

uint64_t run_seed()
{
	static const uint64_t seed = [] {
		const char *given = std::getenv("ZIW_SEED");

		return given && *given ? std::strtoull(given, nullptr, 0) : std::random_device{}();
	}();

	return seed;
}

void fill_pattern(unsigned char *data, std::size_t length, uint64_t seed, uint64_t start)
{
	each_word(length, seed, start,
		  [&](std::size_t offset, const unsigned char *bytes, std::size_t n) {
			  std::memcpy(data + offset, bytes, n);
			  return true;
		  });
}

std::string differs_from_pattern(const unsigned char *data, std::size_t length, uint64_t seed,
				 uint64_t start)
{
	std::string found;

	each_word(length, seed, start,
		  [&](std::size_t offset, const unsigned char *bytes, std::size_t n) {
			  if (!std::memcmp(data + offset, bytes, n))
				  return true;
			  found = differs(data + offset, bytes, n) + " (of 8 from " +
				  std::to_string(offset) + " of " + std::to_string(length) + ")";
			  return false;
		  });
	return found;
}

std::string differs(const unsigned char *data, const unsigned char *expected, std::size_t length)
{
	if (!length || !std::memcmp(data, expected, length))
		return "";
	auto at =
		static_cast<std::size_t>(std::mismatch(data, data + length, expected).first - data);
	std::size_t count = 0;
	for (std::size_t i = at; i < length; i++)
		count += data[i] != expected[i];
	return difference(at, data[at], expected[at]) + ", " + std::to_string(count) +
	       " bytes in all";
}

std::vector<Piece> split(Random &random, std::size_t size, unsigned count, std::size_t max_gap)
{
	std::vector<std::size_t> cuts{0, size};

	if (!count)
		return {};
	for (unsigned i = 1; i < count; i++)
		cuts.push_back(random() % (size + 1));
	std::sort(cuts.begin(), cuts.end());
	std::vector<Piece> pieces;
	std::size_t offset = 0;
	for (unsigned i = 0; i < count; i++) {
		offset += random() % (max_gap + 1);
		pieces.push_back({offset, static_cast<uint32_t>(cuts[i + 1] - cuts[i])});
		offset += pieces.back().length;
	}
	return pieces;
}

std::size_t extent(const std::vector<Piece> &pieces)
{
	return pieces.empty() ? 0 : pieces.back().offset + pieces.back().length;
}

Region::Region(ibv_pd *pd, std::size_t size, int access, std::size_t skew, int map_flags)
	: pages_((skew + size + 3 * page - 1) / page * page, map_flags), lead_(page + skew),
	  size_(size)
{
	std::memset(pages_.data(), canary, pages_.size());
	mr_.reset(verbs::check(ibv_reg_mr(pd, data(), size_, access), "ibv_reg_mr"));
}

std::vector<ibv_sge> Region::sges(const std::vector<Piece> &pieces) const
{
	std::vector<ibv_sge> list;

	for (auto &piece : pieces)
		list.push_back(sge(piece.offset, piece.length));
	return list;
}

void Region::clear()
{
	std::memset(data(), canary, size_);
}

std::string Region::harmed() const
{
	auto bad = [](unsigned char byte) { return byte != canary; };
	auto *begin = pages_.data(), *end = begin + pages_.size();

	if (auto *at = std::find_if(begin, data(), bad); at != data())
		return "a byte " + std::to_string(data() - at) + " before the region was written";
	if (auto *at = std::find_if(data() + size_, end, bad); at != end)
		return "a byte " + std::to_string(at - data() - size_) +
		       " after the region was written";
	return "";
}

std::string Region::touched() const
{
	auto bad = [](unsigned char byte) { return byte != canary; };

	if (auto *at = std::find_if(data(), data() + size_, bad); at != data() + size_)
		return "byte " + std::to_string(at - data()) + " of the region was written";
	return harmed();
}
