// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Work requests as they are taken from rings, by what uapi/ziw-abi.h says of them. */
#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <memory>
#include <numeric>
#include <string>

#include "busy_slot.h"
#include "proto.h"

namespace {

constexpr u32 longest = u32{1} << 31;

/* --- a slot of exactly the bytes that a QP's limits give it --- */

std::size_t slot_size(const ziw_wqe_limits &limits)
{
	return sizeof(ziw_sq_wqe) +
	       std::max<std::size_t>(limits.max_sge * sizeof(ziw_sge), limits.max_inline);
}

/* As many of them as there is room for. */
void copy(Bytes &slot, std::size_t at, std::span<const ziw_sge> sges)
{
	const std::size_t room = (slot.size() - at) / sizeof(ziw_sge);
	const auto bytes = std::as_bytes(sges.first(std::min(sges.size(), room)));

	std::ranges::copy(bytes, std::as_writable_bytes(std::span(slot).subspan(at)).begin());
}

Bytes sq_slot(const ziw_wqe_limits &limits, const ziw_sq_wqe &hdr, std::span<const ziw_sge> sges)
{
	Bytes slot(slot_size(limits), 0x5a);

	std::memcpy(slot.data(), &hdr, sizeof(hdr));
	copy(slot, sizeof(hdr), sges);
	return slot;
}

std::vector<ziw_sge> sges_of(std::span<const u32> lengths)
{
	std::vector<ziw_sge> sges;

	for (u32 length : lengths)
		sges.push_back({.addr = 0x1000 + sges.size(), .length = length, .lkey = 0x100});
	return sges;
}

bool same(const ziw_sge &a, const ziw_sge &b)
{
	return a.addr == b.addr && a.length == b.length && a.lkey == b.lkey;
}

/*
 * From a slot whose owner writes to it meanwhile. On the heap, where ASan sees what goes beyond it;
 * what is not written shows.
 */
struct Loaded {
	std::unique_ptr<ziw_wqe> wqe = std::make_unique<ziw_wqe>();
	ziw_wqe_error error;

	Loaded(const Bytes &slot, const ziw_wqe_limits &limits)
	{
		const BusySlot busy(slot, sizeof(ziw_sq_wqe));

		std::memset(static_cast<void *>(wqe.get()), 0xa5, sizeof(*wqe));
		error = ziw_wqe_load(busy.data(), &limits, wqe.get());
	}

	Bytes header() const
	{
		const u8 *begin = reinterpret_cast<const u8 *>(&wqe->hdr);

		return Bytes(begin, begin + sizeof(wqe->hdr));
	}
};

constexpr ziw_wqe_limits user = {.max_sge = 4, .max_inline = 128, .kernel = false};
constexpr ziw_wqe_limits kernel = {.max_sge = 4, .max_inline = 128, .kernel = true};

ziw_wqe_error load(const ziw_sq_wqe &hdr, std::span<const u32> lengths, u32 *total = nullptr,
		   const ziw_wqe_limits &limits = user)
{
	const Loaded loaded(sq_slot(limits, hdr, sges_of(lengths)), limits);

	if (total)
		*total = loaded.wqe->total;
	return loaded.error;
}

ziw_wqe_error load_lengths(u8 opcode, std::initializer_list<u32> lengths, u32 *total = nullptr)
{
	const ziw_wqe_limits wide = {.max_sge = ZIW_MAX_SGE, .max_inline = 0, .kernel = true};

	return load({.opcode = opcode, .num_sge = static_cast<u8>(lengths.size())},
		    std::span(lengths.begin(), lengths.size()), total, wide);
}

/* --- which operations there are --- */

enum : unsigned { in_user_rings = 1, takes_inline = 2, no_payload = 4 };

/* By what each is: kernel-only ones and their inline data as uapi/ziw-abi.h has them. */
struct Operation {
	const char *name;
	u8 opcode;
	unsigned may;
};

const Operation operations[] = {
	{"Send", 0, in_user_rings | takes_inline},
	{"SendInvalidate", 1, in_user_rings | takes_inline},
	{"SendImmediate", 2, in_user_rings | takes_inline},
	{"Write", 3, in_user_rings | takes_inline},
	{"WriteImmediate", 4, in_user_rings | takes_inline},
	{"Read", 5, in_user_rings},
	{"ReadInvalidate", 6, 0},
	{"FetchAdd", 7, in_user_rings},
	{"CmpSwap", 8, in_user_rings},
	{"LocalInvalidate", 9, in_user_rings | no_payload},
	{"BindWindow", 10, in_user_rings | no_payload},
	{"RegisterMr", 11, no_payload},
};

class WqeOperation : public testing::TestWithParam<Operation> {};

TEST_P(WqeOperation, IsTakenFromAKernelRing)
{
	u32 total = 1;

	EXPECT_EQ(load({.opcode = GetParam().opcode, .num_sge = 1}, {{8}}, &total, kernel),
		  ZIW_WQE_OK);
	EXPECT_EQ(total, GetParam().may & no_payload ? 0u : 8u);
}

TEST_P(WqeOperation, IsTakenFromAUserRingUnlessItNamesKernelObjects)
{
	EXPECT_EQ(load({.opcode = GetParam().opcode, .num_sge = 1}, {{8}}),
		  GetParam().may & in_user_rings ? ZIW_WQE_OK : ZIW_WQE_BAD_OP);
	/* No flag talks the way in. */
	for (unsigned flags = 0; flags <= 0xffff; flags++)
		if (!(GetParam().may & in_user_rings))
			ASSERT_EQ(load({.opcode = GetParam().opcode,
					.num_sge = 1,
					.flags = static_cast<u16>(flags)},
				       {{8}}),
				  ZIW_WQE_BAD_OP)
				<< flags;
}

/* Inline data is for what carries payload away, and is as long as the slot has room. */
TEST_P(WqeOperation, EveryInlineLength)
{
	for (u32 max_inline : {0u, 1u, 8u, 64u, 128u, 1023u, u32{ZIW_MAX_INLINE}}) {
		const ziw_wqe_limits limits = {
			.max_sge = 2, .max_inline = max_inline, .kernel = true};

		for (u32 len = 0; len <= ZIW_MAX_INLINE + 8; len++) {
			const bool fits = GetParam().may & takes_inline ? len <= max_inline : false;
			const bool ignored = GetParam().may & no_payload;
			const Loaded loaded(sq_slot(limits,
						    {.opcode = GetParam().opcode,
						     .num_sge = 255,
						     .flags = ZIW_WQE_INLINE,
						     .inline_len = len},
						    {}),
					    limits);

			ASSERT_EQ(loaded.error, fits || ignored ? ZIW_WQE_OK : ZIW_WQE_BAD_OP)
				<< len << " of " << max_inline;
			if (loaded.error)
				continue;
			ASSERT_EQ(loaded.wqe->total, ignored ? 0 : len);
			/* Nobody goes on to look for SGEs. */
			ASSERT_EQ(loaded.wqe->hdr.num_sge, 0u);
		}
		for (u32 len : {u32{INT_MAX}, longest, longest + 1, ~u32{0} - 7, ~u32{0}})
			EXPECT_EQ(load({.opcode = GetParam().opcode,
					.flags = ZIW_WQE_INLINE,
					.inline_len = len},
				       {}, nullptr, limits),
				  GetParam().may & no_payload ? ZIW_WQE_OK : ZIW_WQE_BAD_OP)
				<< len;
	}
}

/* Only as many SGEs as the slot has room for, whatever the limit is. */
TEST_P(WqeOperation, EveryNumberOfSges)
{
	for (u32 max_sge : {0u, 1u, 2u, 3u, 16u, 31u, u32{ZIW_MAX_SGE}}) {
		const ziw_wqe_limits limits = {.max_sge = max_sge, .max_inline = 0, .kernel = true};
		const std::vector<u32> lengths(max_sge, 8);

		for (unsigned num = 0; num <= 0xff; num++) {
			const std::vector<ziw_sge> sges = sges_of(lengths);
			const Loaded loaded(sq_slot(limits,
						    {.opcode = GetParam().opcode,
						     .num_sge = static_cast<u8>(num)},
						    sges),
					    limits);

			if (GetParam().may & no_payload) {
				ASSERT_EQ(loaded.error, ZIW_WQE_OK);
				ASSERT_EQ(loaded.wqe->hdr.num_sge, 0u);
				ASSERT_EQ(loaded.wqe->total, 0u);
				continue;
			}
			if (num > max_sge) {
				ASSERT_EQ(loaded.error, ZIW_WQE_BAD_OP) << num << " of " << max_sge;
				continue;
			}
			if (ziw_wqe_is_atomic(GetParam().opcode)) {
				ASSERT_EQ(loaded.error, num ? ZIW_WQE_OK : ZIW_WQE_BAD_LENGTH);
				continue;
			}
			ASSERT_EQ(loaded.error, ZIW_WQE_OK) << num << " of " << max_sge;
			ASSERT_EQ(loaded.wqe->hdr.num_sge, num);
			ASSERT_EQ(loaded.wqe->total, 8 * num);
			ASSERT_TRUE(std::equal(sges.begin(), sges.begin() + num, loaded.wqe->sge,
					       same));
			/* And not one more was read. */
			if (num < ZIW_MAX_SGE)
				ASSERT_EQ(loaded.wqe->sge[num].lkey, 0xa5a5a5a5);
		}
	}
}

INSTANTIATE_TEST_SUITE_P(Abi, WqeOperation, testing::ValuesIn(operations),
			 [](const auto &info) { return std::string(info.param.name); });

TEST(Wqe, WhatIsNoOperation)
{
	for (unsigned opcode = 0; opcode <= 0xff; opcode++) {
		const bool known = std::ranges::any_of(
			operations, [&](const Operation &op) { return op.opcode == opcode; });

		for (const ziw_wqe_limits &limits : {user, kernel})
			for (u16 flags : {0, ZIW_WQE_INLINE, 0xffff})
				if (!known)
					EXPECT_EQ(load({.opcode = static_cast<u8>(opcode),
							.num_sge = 1,
							.flags = flags,
							.inline_len = 8},
						       {{8}}, nullptr, limits),
						  ZIW_WQE_BAD_OP)
						<< opcode;
	}
}

/* --- how long a message may be --- */

TEST(WqeLength, UpToTwoToThe31)
{
	u32 total;

	for (u8 opcode : {ZIW_OP_SEND, ZIW_OP_SEND_INV, ZIW_OP_SEND_IMM, ZIW_OP_WRITE,
			  ZIW_OP_WRITE_IMM, ZIW_OP_READ, ZIW_OP_READ_INV}) {
		EXPECT_EQ(load_lengths(opcode, {}, &total), ZIW_WQE_OK);
		EXPECT_EQ(total, 0u);
		EXPECT_EQ(load_lengths(opcode, {0, 0, 0}, &total), ZIW_WQE_OK);
		EXPECT_EQ(total, 0u);
		EXPECT_EQ(load_lengths(opcode, {longest - 1}, &total), ZIW_WQE_OK);
		EXPECT_EQ(total, longest - 1);
		EXPECT_EQ(load_lengths(opcode, {longest}, &total), ZIW_WQE_OK);
		EXPECT_EQ(total, longest);
		EXPECT_EQ(load_lengths(opcode, {longest - 1, 0, 1}, &total), ZIW_WQE_OK);
		EXPECT_EQ(total, longest);
		EXPECT_EQ(load_lengths(opcode, {longest + 1}), ZIW_WQE_BAD_LENGTH);
		EXPECT_EQ(load_lengths(opcode, {~u32{0}}), ZIW_WQE_BAD_LENGTH);
		EXPECT_EQ(load_lengths(opcode, {longest, 1}), ZIW_WQE_BAD_LENGTH);
		EXPECT_EQ(load_lengths(opcode, {1, longest}), ZIW_WQE_BAD_LENGTH);
	}
}

/* Sums that are small again after 32 bits. */
TEST(WqeLength, SumsThatOverflow)
{
	for (u8 opcode : {ZIW_OP_SEND, ZIW_OP_WRITE, ZIW_OP_READ, ZIW_OP_FETCH_ADD}) {
		EXPECT_EQ(load_lengths(opcode, {longest, longest}), ZIW_WQE_BAD_LENGTH);
		EXPECT_EQ(load_lengths(opcode, {~u32{0}, 1}), ZIW_WQE_BAD_LENGTH);
		EXPECT_EQ(load_lengths(opcode, {~u32{0}, 9}), ZIW_WQE_BAD_LENGTH);
		EXPECT_EQ(load_lengths(opcode, {4, ~u32{0}, 5}), ZIW_WQE_BAD_LENGTH);
		EXPECT_EQ(load_lengths(opcode, {longest, longest, longest, longest}),
			  ZIW_WQE_BAD_LENGTH);
		EXPECT_EQ(load_lengths(opcode, {longest - 4, longest - 4, 8}), ZIW_WQE_BAD_LENGTH);
		EXPECT_EQ(load_lengths(opcode, {longest - 4, longest - 4, 16}), ZIW_WQE_BAD_LENGTH);
	}

	const std::vector<u32> most(ZIW_MAX_SGE, ~u32{0});

	EXPECT_EQ(load({.num_sge = ZIW_MAX_SGE}, most, nullptr,
		       {.max_sge = ZIW_MAX_SGE, .max_inline = 0, .kernel = false}),
		  ZIW_WQE_BAD_LENGTH);
}

/* --- atomics --- */

TEST(WqeAtomic, SinkHasRoomForWhatItReturns)
{
	u32 total;

	for (u8 opcode : {ZIW_OP_FETCH_ADD, ZIW_OP_CMP_SWAP}) {
		EXPECT_EQ(load_lengths(opcode, {}), ZIW_WQE_BAD_LENGTH);
		for (u32 length = 0; length < 8; length++) {
			EXPECT_EQ(load_lengths(opcode, {length}), ZIW_WQE_BAD_LENGTH) << length;
			EXPECT_EQ(load_lengths(opcode, {length, 7 - length}), ZIW_WQE_BAD_LENGTH);
			EXPECT_EQ(load_lengths(opcode, {length, 0, 8 - length}, &total),
				  ZIW_WQE_OK);
			EXPECT_EQ(total, 8u);
		}
		EXPECT_EQ(load_lengths(opcode, {1, 1, 1, 1, 1, 1, 1, 1}, &total), ZIW_WQE_OK);
		EXPECT_EQ(total, 8u);
		/* What is beyond the eight bytes is not written. */
		for (u32 length : {8u, 9u, 4096u, longest}) {
			EXPECT_EQ(load_lengths(opcode, {length}, &total), ZIW_WQE_OK);
			EXPECT_EQ(total, 8u);
		}
		EXPECT_EQ(load_lengths(opcode, {longest + 1}), ZIW_WQE_BAD_LENGTH);
	}
}

TEST(WqeAtomic, HasNoInlineSink)
{
	for (u8 opcode : {ZIW_OP_FETCH_ADD, ZIW_OP_CMP_SWAP})
		EXPECT_EQ(load({.opcode = opcode,
				.num_sge = 1,
				.flags = ZIW_WQE_INLINE,
				.inline_len = 8},
			       {{8}}),
			  ZIW_WQE_BAD_OP);
}

/* --- the header --- */

ziw_sq_wqe random_header(Random &random)
{
	return {.wr_id = random.number(64),
		.opcode = static_cast<u8>(random.upto(3) ? random.upto(12) : random.number(8)),
		.num_sge = static_cast<u8>(random.upto(3) ? random.upto(5) : random.number(8)),
		.flags = static_cast<u16>(random.flip() ? random.number(16)
							: random.number(16) & 0xfff7),
		.inline_len =
			static_cast<u32>(random.flip() ? random.upto(140) : random.number(32)),
		.rkey = static_cast<u32>(random.number(32)),
		.ex = static_cast<u32>(random.number(32)),
		.remote_addr = random.number(64),
		.compare_add = random.number(64),
		.swap = random.number(64),
		.compare_add_mask = random.number(64),
		.swap_mask = random.number(64)};
}

/* The verdict and the total from the description of the slot, over again. */
TEST(WqeProperty, AsTheAbiSays)
{
	Random random;
	unsigned seen[3] = {};

	for (int i = 0; i < 100000; i++) {
		const ziw_wqe_limits limits = {.max_sge = static_cast<u32>(random.upto(4)),
					       .max_inline = static_cast<u32>(random.upto(128)),
					       .kernel = random.flip()};
		ziw_sq_wqe hdr = random_header(random);
		std::vector<u32> lengths(limits.max_sge);

		for (u32 &length : lengths)
			length = static_cast<u32>(random.flip() ? random.upto(16)
								: random.number(32));

		const std::vector<ziw_sge> sges = sges_of(lengths);
		const Bytes slot = sq_slot(limits, hdr, sges);
		const Loaded loaded(slot, limits);
		const auto op = std::ranges::find(operations, hdr.opcode, &Operation::opcode);
		const unsigned may = op == std::end(operations) ? 0 : op->may;
		const bool is_inline = hdr.flags & ZIW_WQE_INLINE && !(may & no_payload);
		const bool atomic = hdr.opcode == 7 || hdr.opcode == 8;
		ziw_wqe_error expected = ZIW_WQE_OK;
		u64 total = 0;

		if (op == std::end(operations) || (!(may & in_user_rings) && !limits.kernel) ||
		    (is_inline && (!(may & takes_inline) || hdr.inline_len > limits.max_inline)) ||
		    (!is_inline && !(may & no_payload) && hdr.num_sge > limits.max_sge)) {
			expected = ZIW_WQE_BAD_OP;
		} else if (is_inline) {
			total = hdr.inline_len;
		} else if (!(may & no_payload)) {
			total = std::accumulate(lengths.begin(), lengths.begin() + hdr.num_sge,
						u64{0});
			if (total > longest || (atomic && total < 8))
				expected = ZIW_WQE_BAD_LENGTH;
		}
		ASSERT_EQ(loaded.error, expected);
		seen[expected]++;
		if (expected == ZIW_WQE_OK) {
			ASSERT_EQ(loaded.wqe->total, atomic ? 8 : total);
			if (is_inline || may & no_payload)
				hdr.num_sge = 0;
		}
		/* All else is as it was found. */
		ASSERT_EQ(loaded.header(), Bytes(reinterpret_cast<u8 *>(&hdr),
						 reinterpret_cast<u8 *>(&hdr) + sizeof(hdr)));
	}
	for (unsigned count : seen)
		EXPECT_GT(count, 1000u);
}

/* --- receive work requests --- */

struct LoadedRqe {
	std::unique_ptr<ziw_rqe> rqe = std::make_unique<ziw_rqe>();
	bool ok = true;

	LoadedRqe(const Bytes &slot, u32 max_sge)
	{
		const BusySlot busy(slot, sizeof(ziw_rq_wqe));

		std::memset(rqe.get(), 0xa5, sizeof(*rqe));
		ok = ziw_rqe_load(busy.data(), max_sge, rqe.get());
	}

	/* As the sink of a request of the send queue */
	LoadedRqe(const Bytes &slot, const ziw_wqe_limits &limits)
	{
		const BusySlot busy(slot, sizeof(ziw_sq_wqe));

		std::memset(rqe.get(), 0xa5, sizeof(*rqe));
		ziw_wqe_sink(busy.data(), &limits, rqe.get());
	}
};

Bytes rq_slot(u32 max_sge, u64 wr_id, u32 num_sge, std::span<const ziw_sge> sges)
{
	const ziw_rq_wqe hdr = {.wr_id = wr_id, .num_sge = num_sge, .reserved = 0};
	Bytes slot(sizeof(hdr) + max_sge * sizeof(ziw_sge), 0x5a);

	std::memcpy(slot.data(), &hdr, sizeof(hdr));
	copy(slot, sizeof(hdr), sges);
	return slot;
}

TEST(Rqe, EveryNumberOfSges)
{
	for (u32 max_sge = 0; max_sge <= ZIW_MAX_SGE; max_sge++) {
		const std::vector<ziw_sge> sges = sges_of(std::vector<u32>(max_sge, ~u32{0}));
		std::vector<u32> numbers = {0xff,        0x100,       0x10000,
					    longest - 1, longest,     longest + 1,
					    0x10000001,  ~u32{0} - 1, ~u32{0}};

		for (u32 num = 0; num <= max_sge + 2; num++)
			numbers.push_back(num);
		for (u32 num : numbers) {
			const Bytes slot = rq_slot(max_sge, 0x123456789abcdef0, num, sges);
			const LoadedRqe loaded(slot, max_sge);

			ASSERT_EQ(loaded.ok, num <= max_sge) << num << " of " << max_sge;
			/* A CQE needs it even so. */
			ASSERT_EQ(loaded.rqe->wr_id, 0x123456789abcdef0);
			if (!loaded.ok) {
				ASSERT_EQ(loaded.rqe->num_sge, 0u);
				ASSERT_EQ(loaded.rqe->length, 0u);
				continue;
			}
			ASSERT_EQ(loaded.rqe->num_sge, num);
			/* 64 bits, as up to 32 times 4 GiB have room there. */
			ASSERT_EQ(loaded.rqe->length, u64{num} * 0xffffffff);
			ASSERT_TRUE(std::equal(sges.begin(), sges.begin() + num, loaded.rqe->sge,
					       same));
			if (num < ZIW_MAX_SGE)
				ASSERT_EQ(loaded.rqe->sge[num].lkey, 0xa5a5a5a5);
		}
	}
}

TEST(Rqe, LengthIsTheSum)
{
	Random random;

	for (int i = 0; i < 20000; i++) {
		std::vector<u32> lengths(random.upto(ZIW_MAX_SGE));
		for (u32 &length : lengths)
			length = static_cast<u32>(random.number(32));

		const Bytes slot = rq_slot(static_cast<u32>(lengths.size()), random.number(64),
					   static_cast<u32>(lengths.size()), sges_of(lengths));

		const LoadedRqe loaded(slot, static_cast<u32>(lengths.size()));

		ASSERT_TRUE(loaded.ok);
		ASSERT_EQ(loaded.rqe->length,
			  std::accumulate(lengths.begin(), lengths.end(), u64{0}));
	}
}

/* --- sinks of requests that wait for their response --- */

TEST(WqeSink, WhateverTheSlotSaysNow)
{
	for (u32 max_sge = 0; max_sge <= ZIW_MAX_SGE; max_sge++) {
		const ziw_wqe_limits limits = {
			.max_sge = max_sge, .max_inline = 0, .kernel = false};
		const std::vector<ziw_sge> sges = sges_of(std::vector<u32>(max_sge, ~u32{0}));

		for (unsigned num = 0; num <= 0xff; num++)
			/* It is a Read no longer, if its owner likes. */
			for (u16 flags : {0, ZIW_WQE_INLINE}) {
				const u32 expected = std::min<u32>(num, max_sge);
				const Bytes slot = sq_slot(limits,
							   {.wr_id = 0x0fedcba987654321,
							    .opcode = static_cast<u8>(num),
							    .num_sge = static_cast<u8>(num),
							    .flags = flags,
							    .inline_len = ~u32{0}},
							   sges);
				const LoadedRqe sink(slot, limits);

				ASSERT_EQ(sink.rqe->wr_id, 0x0fedcba987654321);
				ASSERT_EQ(sink.rqe->num_sge, expected);
				ASSERT_EQ(sink.rqe->length, u64{expected} * 0xffffffff);
				ASSERT_TRUE(std::equal(sges.begin(), sges.begin() + expected,
						       sink.rqe->sge, same));
				if (expected < ZIW_MAX_SGE)
					ASSERT_EQ(sink.rqe->sge[expected].lkey, 0xa5a5a5a5);
			}
	}
}

TEST(WqeSink, OfAnUnchangedRequestIsWhatWasLoaded)
{
	const std::vector<ziw_sge> sges = sges_of(std::vector<u32>{1, 2, 3});

	for (u8 opcode : {ZIW_OP_READ, ZIW_OP_READ_INV, ZIW_OP_FETCH_ADD, ZIW_OP_CMP_SWAP}) {
		const Bytes slot =
			sq_slot(kernel, {.wr_id = 7, .opcode = opcode, .num_sge = 3}, sges);
		const LoadedRqe sink(slot, kernel);

		EXPECT_EQ(sink.rqe->wr_id, 7u);
		EXPECT_EQ(sink.rqe->num_sge, 3u);
		EXPECT_EQ(sink.rqe->length, 6u);
		EXPECT_TRUE(std::equal(sges.begin(), sges.end(), sink.rqe->sge, same));
	}
}

/* --- kinds of operations --- */

TEST(Wqe, KindsOfOperations)
{
	for (unsigned opcode = 0; opcode <= 0xff; opcode++) {
		const u8 op = static_cast<u8>(opcode);

		EXPECT_EQ(ziw_wqe_is_send(op), opcode <= 2) << opcode;
		EXPECT_EQ(ziw_wqe_is_write(op), opcode == 3 || opcode == 4) << opcode;
		EXPECT_EQ(ziw_wqe_has_imm(op), opcode == 2 || opcode == 4) << opcode;
		EXPECT_EQ(ziw_wqe_is_read(op), opcode == 5 || opcode == 6) << opcode;
		EXPECT_EQ(ziw_wqe_is_atomic(op), opcode == 7 || opcode == 8) << opcode;
		EXPECT_EQ(ziw_wqe_is_request(op), opcode >= 5 && opcode <= 8) << opcode;
		EXPECT_EQ(ziw_wqe_is_local(op), opcode >= 9 && opcode <= 11) << opcode;
		/* Never one of a receive's. */
		EXPECT_EQ(ziw_wqe_cqe_opcode(op), opcode <= 11 ? opcode : 0) << opcode;
	}
}

/* The ring's layout is a contract: no padding, and nothing moves. */
TEST(Wqe, Layout)
{
	EXPECT_EQ(sizeof(ziw_sq_wqe), 64u);
	EXPECT_EQ(sizeof(ziw_rq_wqe), 16u);
	EXPECT_EQ(sizeof(ziw_sge), 16u);
	EXPECT_EQ(offsetof(ziw_sq_wqe, opcode), 8u);
	EXPECT_EQ(offsetof(ziw_sq_wqe, num_sge), 9u);
	EXPECT_EQ(offsetof(ziw_sq_wqe, flags), 10u);
	EXPECT_EQ(offsetof(ziw_sq_wqe, inline_len), 12u);
}

} // namespace
