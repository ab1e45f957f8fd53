// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Atomic Operations and Immediate Data: RFC 7306, 5 and 6. */
#include <gtest/gtest.h>

#include <set>

#include "atomic_reference.h"
#include "proto.h"

namespace {

/* --- Immediate Data, figure 7 --- */

ziw_imm decode_imm(const Bytes &bytes)
{
	ziw_imm imm;

	ziw_imm_decode(bytes.data(), &imm);
	return imm;
}

/* The verbs' four bytes as they lie in memory. */
Bytes in_memory(u32 data)
{
	Bytes bytes(sizeof(data));

	std::memcpy(bytes.data(), &data, sizeof(data));
	return bytes;
}

TEST(ImmediateData, Vectors)
{
	const Bytes alone = hex("01020304 00000000"), other = hex("FFFEFDFC 7A697753");

	EXPECT_EQ(in_memory(decode_imm(alone).data), hex("01020304"));
	EXPECT_EQ(decode_imm(alone).kind, u32{ZIW_IMM_ALONE});
	EXPECT_EQ(in_memory(decode_imm(other).data), hex("FFFEFDFC"));
	EXPECT_EQ(decode_imm(other).kind, 0x7a697753u);
	EXPECT_EQ(encode(decode_imm(alone)), alone);
	EXPECT_EQ(encode(decode_imm(other)), other);
}

/* Never what stands alone, the same on hosts of either byte order, and no two alike by rule. */
TEST(ImmediateData, WithSendDependsOnDataAndNumber)
{
	std::set<u32> seen;
	u32 data;

	std::memcpy(&data, hex("01020304").data(), sizeof(data));
	EXPECT_EQ(ziw_imm_with_send(data, 1), ziw_imm_with_send(data, 1));
	for (u32 i = 0; i < 1000; i++) {
		std::memcpy(&data, hex("01020304").data(), sizeof(data));
		EXPECT_NE(ziw_imm_with_send(data, i), u32{ZIW_IMM_ALONE});
		seen.insert(ziw_imm_with_send(data, i));
		seen.insert(ziw_imm_with_send(i, 7));
	}
	EXPECT_GE(seen.size(), 1998u);
}

TEST(ImmediateData, EveryBit)
{
	for (std::size_t bit = 0; bit < 8 * RDMAP_IMM_LEN; bit++) {
		Bytes bytes(RDMAP_IMM_LEN);

		bytes[bit / 8] = static_cast<u8>(0x80 >> bit % 8);

		const ziw_imm imm = decode_imm(bytes);

		EXPECT_EQ(in_memory(imm.data), Bytes(bytes.begin(), bytes.begin() + 4)) << bit;
		EXPECT_EQ(imm.kind, bit < 32 ? 0 : u32{1} << (63 - bit)) << bit;
		EXPECT_EQ(encode(imm), bytes) << bit;
	}
}

TEST(ImmediateDataProperty, WhatIsDecodedIsEncoded)
{
	Random random;

	for (int i = 0; i < 20000; i++) {
		const Bytes bytes = random.bytes(RDMAP_IMM_LEN);

		ASSERT_EQ(encode(decode_imm(bytes)), bytes);
	}
}

/* --- Atomic Request Header, figure 4 --- */

ziw_atomic_req decode_req(const Bytes &bytes)
{
	ziw_atomic_req req;

	std::memset(static_cast<void *>(&req), 0x01, sizeof(req));
	ziw_atomic_req_decode(bytes.data(), &req);
	return req;
}

TEST(AtomicRequest, Vectors)
{
	const Bytes distinct = hex("00000002 01020304 05060708 090A0B0C0D0E0F10 1112131415161718 "
				   "191A1B1C1D1E1F20 2122232425262728 292A2B2C2D2E2F30");
	const ziw_atomic_req distinct_req = {.op = ATOMIC_CMP_SWAP,
					     .id = 0x01020304,
					     .stag = 0x05060708,
					     .to = 0x090a0b0c0d0e0f10,
					     .data = 0x1112131415161718,
					     .mask = 0x191a1b1c1d1e1f20,
					     .compare = 0x2122232425262728,
					     .compare_mask = 0x292a2b2c2d2e2f30};
	/* Compare Data and Compare Mask are sent as 5.2.1 wants them of a FetchAdd. */
	const Bytes add = hex("00000000 00000001 00000100 0000000000001000 0000000000000001 "
			      "0000000000000000 0000000000000000 FFFFFFFFFFFFFFFF");
	const ziw_atomic_req add_req = {.op = ATOMIC_FETCH_ADD,
					.id = 1,
					.stag = 0x100,
					.to = 0x1000,
					.data = 1,
					.compare_mask = ~u64{0}};

	EXPECT_EQ(distinct.size(), 52u);
	EXPECT_EQ(fields(decode_req(distinct)), fields(distinct_req));
	EXPECT_EQ(encode(distinct_req), distinct);
	EXPECT_EQ(fields(decode_req(add)), fields(add_req));
	EXPECT_EQ(encode(add_req), add);
}

/* 28 bits are "set to zero on transmit, ignored on receive"; each other has its place. */
TEST(AtomicRequest, EveryBit)
{
	for (std::size_t bit = 0; bit < 8 * RDMAP_ATOMIC_REQ_LEN; bit++) {
		Bytes bytes(RDMAP_ATOMIC_REQ_LEN);
		ziw_atomic_req expected = {};

		bytes[bit / 8] = static_cast<u8>(0x80 >> bit % 8);
		if (bit < 28)
			EXPECT_EQ(encode(decode_req(bytes)), Bytes(RDMAP_ATOMIC_REQ_LEN)) << bit;
		else if (bit < 32)
			expected.op = static_cast<u8>(1 << (31 - bit));
		else if (bit < 64)
			expected.id = u32{1} << (63 - bit);
		else if (bit < 96)
			expected.stag = u32{1} << (95 - bit);
		else if (bit < 160)
			expected.to = u64{1} << (159 - bit);
		else if (bit < 224)
			expected.data = u64{1} << (223 - bit);
		else if (bit < 288)
			expected.mask = u64{1} << (287 - bit);
		else if (bit < 352)
			expected.compare = u64{1} << (351 - bit);
		else
			expected.compare_mask = u64{1} << (415 - bit);
		EXPECT_EQ(fields(decode_req(bytes)), fields(expected)) << bit;
		if (bit >= 28)
			EXPECT_EQ(encode(expected), bytes) << bit;
	}
}

TEST(AtomicRequestProperty, WhatIsDecodedIsEncoded)
{
	Random random;

	for (int i = 0; i < 20000; i++) {
		Bytes bytes = random.bytes(RDMAP_ATOMIC_REQ_LEN);
		const ziw_atomic_req req = decode_req(bytes);

		bytes[0] = bytes[1] = bytes[2] = 0;
		bytes[3] &= 0x0f;
		ASSERT_EQ(encode(req), bytes);
	}
}

/* Figure 5; section 10.1 has 0001b as reserved. */
TEST(AtomicRequest, KnownOperations)
{
	for (unsigned op = 0; op <= 0xff; op++)
		EXPECT_EQ(ziw_atomic_known(static_cast<u8>(op)), op == 0x0 || op == 0x2) << op;
}

/* --- Atomic Response Header, figure 6 --- */

ziw_atomic_resp decode_resp(const Bytes &bytes)
{
	ziw_atomic_resp resp;

	ziw_atomic_resp_decode(bytes.data(), &resp);
	return resp;
}

TEST(AtomicResponse, Vectors)
{
	const Bytes distinct = hex("01020304 05060708090A0B0C");
	const ziw_atomic_resp resp = {.id = 0x01020304, .value = 0x05060708090a0b0c};

	EXPECT_EQ(fields(decode_resp(distinct)), fields(resp));
	EXPECT_EQ(encode(resp), distinct);
}

TEST(AtomicResponse, EveryBit)
{
	for (std::size_t bit = 0; bit < 8 * RDMAP_ATOMIC_RESP_LEN; bit++) {
		Bytes bytes(RDMAP_ATOMIC_RESP_LEN);
		ziw_atomic_resp expected = {};

		bytes[bit / 8] = static_cast<u8>(0x80 >> bit % 8);
		if (bit < 32)
			expected.id = u32{1} << (31 - bit);
		else
			expected.value = u64{1} << (95 - bit);
		EXPECT_EQ(fields(decode_resp(bytes)), fields(expected)) << bit;
		EXPECT_EQ(encode(expected), bytes) << bit;
	}
}

TEST(AtomicResponseProperty, WhatIsDecodedIsEncoded)
{
	Random random;

	for (int i = 0; i < 20000; i++) {
		const Bytes bytes = random.bytes(RDMAP_ATOMIC_RESP_LEN);

		ASSERT_EQ(encode(decode_resp(bytes)), bytes);
	}
}

/* --- FetchAdd, 5.1.1 --- */

u64 fetch_add(u64 value, u64 add, u64 mask)
{
	const ziw_atomic_req req = {.op = ATOMIC_FETCH_ADD, .data = add, .mask = mask};

	return ziw_atomic_result(&req, value);
}

TEST(FetchAdd, Vectors)
{
	const u64 ones = ~u64{0}, msb = u64{1} << 63;

	/* "The setting of the Add Mask field to 0x0000000000000000 results in Atomic Add of
	 * 64-bit" */
	EXPECT_EQ(fetch_add(40, 2, 0), 42u);
	EXPECT_EQ(fetch_add(ones, 1, 0), 0u);
	EXPECT_EQ(fetch_add(0xffffffff, 1, 0), 0x100000000u);
	EXPECT_EQ(fetch_add(5, ones, 0), 4u);
	/* One field of 64 bits: what the mask's bit carries out was lost in any case. */
	EXPECT_EQ(fetch_add(ones, 1, msb), 0u);
	EXPECT_EQ(fetch_add(msb, msb, msb), 0u);
	EXPECT_EQ(fetch_add(msb, msb - 1, msb), ones);
	/* Fields of one bit */
	EXPECT_EQ(fetch_add(0xff00ff00ff00ff00, 0xf0f0f0f0f0f0f0f0, ones), 0x0ff00ff00ff00ff0u);
	/* Two of 32, four of 16, eight of 8 */
	EXPECT_EQ(fetch_add(0x00000001ffffffff, 0x0000000100000001, 0x8000000080000000),
		  0x0000000200000000u);
	EXPECT_EQ(fetch_add(0xffff00010002ffff, 0x0001000100018000, 0x8000800080008000),
		  0x0000000200037fffu);
	EXPECT_EQ(fetch_add(0xff80fe017f00ffff, 0x0180020101000101, 0x8080808080808080),
		  0x0000000280000000u);
	/* Fields of 1, 3 and 60 bits: what is above the last bit of the mask is a field too. */
	EXPECT_EQ(fetch_add(0xf, 0x1, 0x9), 0xeu);
	EXPECT_EQ(fetch_add(0x7, 0x2, 0x4), 0x1u);
	EXPECT_EQ(fetch_add(ones, ones, 0x8), 0xffffffffffffffeeu);
}

TEST(FetchAdd, CompareFieldsDoNotCount)
{
	ziw_atomic_req req = {.op = ATOMIC_FETCH_ADD, .data = 1};

	req.compare = 7;
	req.compare_mask = ~u64{0};
	EXPECT_EQ(ziw_atomic_result(&req, 41), 42u);
}

/* All values, addends and masks of six bits, at the lowest bit, in the middle, and at the highest.
 */
TEST(FetchAdd, EveryCombinationOfSixBits)
{
	for (unsigned shift : {0u, 29u, 58u})
		for (u64 value = 0; value < 64; value++)
			for (u64 add = 0; add < 64; add++)
				for (u64 mask = 0; mask < 64; mask++) {
					const u64 v = value << shift, a = add << shift,
						  m = mask << shift;

					ASSERT_EQ(fetch_add(v, a, m),
						  atomic_reference::fetch_add(v, a, m))
						<< std::hex << v << " " << a << " " << m;
				}
}

TEST(FetchAddProperty, AsThePseudocode)
{
	Random random;

	for (int i = 0; i < 300000; i++) {
		const u64 value = random.number(64), add = random.number(64),
			  mask = random.number(64);

		ASSERT_EQ(fetch_add(value, add, mask),
			  atomic_reference::fetch_add(value, add, mask))
			<< std::hex << value << " " << add << " " << mask;
	}
}

/* --- CmpSwap, 5.1.2 --- */

u64 cmp_swap(u64 value, u64 swap, u64 mask, u64 compare, u64 compare_mask)
{
	const ziw_atomic_req req = {.op = ATOMIC_CMP_SWAP,
				    .data = swap,
				    .mask = mask,
				    .compare = compare,
				    .compare_mask = compare_mask};

	return ziw_atomic_result(&req, value);
}

TEST(CmpSwap, Vectors)
{
	const u64 ones = ~u64{0};

	/* All bits compared, all bits swapped */
	EXPECT_EQ(cmp_swap(5, 9, ones, 5, ones), 9u);
	EXPECT_EQ(cmp_swap(5, 9, ones, 4, ones), 5u);
	/* Nothing is compared: always equal */
	EXPECT_EQ(cmp_swap(5, 9, ones, 4, 0), 9u);
	/* Nothing is swapped */
	EXPECT_EQ(cmp_swap(5, 9, 0, 5, ones), 5u);
	/* Bits that are not compared may differ, those that are not swapped stay. */
	EXPECT_EQ(cmp_swap(0x1122334455667788, 0xaabbccddeeff0011, 0x00000000ffffffff,
			   0x11223344ffffffff, 0xffffffff00000000),
		  0x11223344eeff0011u);
	EXPECT_EQ(cmp_swap(0x1122334455667788, 0xaabbccddeeff0011, 0x00000000ffffffff,
			   0x11223345ffffffff, 0xffffffff00000000),
		  0x1122334455667788u);
}

TEST(CmpSwap, EveryBitOfTheComparison)
{
	for (unsigned bit = 0; bit < 64; bit++) {
		const u64 one = u64{1} << bit, value = 0x5aa5c33c0ff01234;

		EXPECT_EQ(cmp_swap(value, ~value, ~u64{0}, value ^ one, ~u64{0}), value) << bit;
		EXPECT_EQ(cmp_swap(value, ~value, ~u64{0}, value ^ one, ~one), ~value) << bit;
		EXPECT_EQ(cmp_swap(value, ~value, one, value, ~u64{0}), value ^ one) << bit;
	}
}

TEST(CmpSwapProperty, AsThePseudocode)
{
	Random random;

	for (int i = 0; i < 300000; i++) {
		const u64 value = random.number(64), swap = random.number(64),
			  mask = random.number(64), compare_mask = random.number(64);
		/* Equal where it counts, or but for a bit, or at random */
		u64 compare = (value & compare_mask) | (random.number(64) & ~compare_mask);

		if (random.flip())
			compare = random.flip() ? compare ^ u64 { 1 } << random.upto(63)
						: random.number(64);
		ASSERT_EQ(cmp_swap(value, swap, mask, compare, compare_mask),
			  atomic_reference::cmp_swap(value, swap, mask, compare, compare_mask))
			<< std::hex << value << " " << swap << " " << mask << " " << compare << " "
			<< compare_mask;
	}
}

} // namespace
