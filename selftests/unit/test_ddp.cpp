// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* DDP headers and the RDMAP control field: RFC 5041, 4; RFC 5040, 4.1 and 4.2; RFC 7306, 4.1. */
#include <gtest/gtest.h>

#include <string>

#include "proto.h"

namespace {

int decode(const Bytes &bytes, ziw_ddp_hdr &hdr)
{
	std::memset(static_cast<void *>(&hdr), 0x01, sizeof(hdr));
	return ziw_ddp_decode(bytes.data(), static_cast<unsigned>(bytes.size()), &hdr);
}

ziw_ddp_hdr as_received(ziw_ddp_hdr hdr)
{
	hdr.ddp_version = 1;
	hdr.rdmap_version = 1;
	return hdr;
}

/* RFC 5040, figure 4, and RFC 7306, figure 2: which opcode comes with which model and queue. */
struct Vector {
	const char *name;
	Bytes bytes;
	ziw_ddp_hdr hdr;
};

class DdpVector : public testing::TestWithParam<Vector> {};

TEST_P(DdpVector, Decodes)
{
	const Vector &v = GetParam();
	ziw_ddp_hdr hdr;

	EXPECT_EQ(decode(v.bytes, hdr), static_cast<int>(v.bytes.size()));
	EXPECT_EQ(fields(hdr), fields(as_received(v.hdr)));
	EXPECT_EQ(ziw_ddp_hdr_len(&hdr), v.bytes.size());
}

TEST_P(DdpVector, Encodes)
{
	EXPECT_EQ(encode(GetParam().hdr), GetParam().bytes);
}

/* With payload behind it: the same header. */
TEST_P(DdpVector, IsNotChangedByPayload)
{
	const Vector &v = GetParam();
	ziw_ddp_hdr hdr;

	EXPECT_EQ(decode(v.bytes + Bytes(100, 0xff), hdr), static_cast<int>(v.bytes.size()));
	EXPECT_EQ(fields(hdr), fields(as_received(v.hdr)));
}

/* A length that cuts off the header is refused, and no byte beyond it is looked at. */
TEST_P(DdpVector, CutOff)
{
	const Vector &v = GetParam();

	for (std::size_t len = 0; len < v.bytes.size(); len++) {
		ziw_ddp_hdr hdr, expected = {};

		EXPECT_EQ(decode(Bytes(v.bytes.begin(),
				       v.bytes.begin() + static_cast<std::ptrdiff_t>(len)),
				 hdr),
			  -EINVAL)
			<< len;
		if (len >= 2) {
			expected.tagged = v.hdr.tagged;
			expected.last = v.hdr.last;
			expected.ddp_version = 1;
			expected.rdmap_version = 1;
			expected.opcode = v.hdr.opcode;
		}
		EXPECT_EQ(fields(hdr), fields(expected)) << len;
	}
}

/* Reserved bits are not checked: RFC 5041, 4.1; RFC 5040, 4.1. */
TEST_P(DdpVector, ReservedBits)
{
	const Vector &v = GetParam();

	for (unsigned ddp = 0; ddp < 16; ddp++)
		for (unsigned rdmap = 0; rdmap < 4; rdmap++) {
			Bytes bytes = v.bytes;
			ziw_ddp_hdr hdr;

			bytes[0] |= static_cast<u8>(ddp << 2);
			bytes[1] |= static_cast<u8>(rdmap << 4);
			EXPECT_EQ(decode(bytes, hdr), static_cast<int>(v.bytes.size()));
			EXPECT_EQ(fields(hdr), fields(as_received(v.hdr)));
		}
}

/* All versions are passed up: which of them is an error is the receiver's to say. */
TEST_P(DdpVector, EachVersion)
{
	const Vector &v = GetParam();

	for (u8 ddp = 0; ddp < 4; ddp++)
		for (u8 rdmap = 0; rdmap < 4; rdmap++) {
			Bytes bytes = v.bytes;
			ziw_ddp_hdr hdr, expected = v.hdr;

			bytes[0] = static_cast<u8>((bytes[0] & ~0x03) | ddp);
			bytes[1] = static_cast<u8>((bytes[1] & ~0xc0) | rdmap << 6);
			expected.ddp_version = ddp;
			expected.rdmap_version = rdmap;
			EXPECT_EQ(decode(bytes, hdr), static_cast<int>(v.bytes.size()));
			EXPECT_EQ(fields(hdr), fields(expected));
			/* And ziw speaks its own, whatever it heard. */
			EXPECT_EQ(encode(hdr), v.bytes);
		}
}

const Vector vectors[] = {
	{"Write",
	 hex("C1 40 01020304 05060708090A0B0C"),
	 {.tagged = true,
	  .last = true,
	  .opcode = RDMAP_WRITE,
	  .stag = 0x01020304,
	  .to = 0x05060708090a0b0c}},
	{"WriteNotLast",
	 hex("81 40 00000100 FFFFFFFFFFFFFFFF"),
	 {.tagged = true, .opcode = RDMAP_WRITE, .stag = 0x100, .to = 0xffffffffffffffff}},
	{"ReadRequest",
	 hex("41 41 00000000 00000001 00000001 00000000"),
	 {.last = true, .opcode = RDMAP_READ_REQ, .qn = 1, .msn = 1}},
	{"ReadResponse",
	 hex("C1 42 FFFFFFFF 0000000000000000"),
	 {.tagged = true, .last = true, .opcode = RDMAP_READ_RESP, .stag = 0xffffffff}},
	{"ReadResponseNotLast",
	 hex("81 42 80000000 0000000100000000"),
	 {.tagged = true, .opcode = RDMAP_READ_RESP, .stag = 0x80000000, .to = 0x100000000}},
	{"Send",
	 hex("41 43 00000000 00000000 00000001 00000000"),
	 {.last = true, .opcode = RDMAP_SEND, .msn = 1}},
	/* MSN wraps to 0 after 0xFFFFFFFF. */
	{"SendLater",
	 hex("01 43 00000000 00000000 FFFFFFFF 12345678"),
	 {.opcode = RDMAP_SEND, .msn = 0xffffffff, .mo = 0x12345678}},
	{"SendInvalidate",
	 hex("41 44 DEADBEEF 00000000 00000000 000005A8"),
	 {.last = true, .opcode = RDMAP_SEND_INV, .inv_stag = 0xdeadbeef, .msn = 0, .mo = 1448}},
	{"SendSolicited",
	 hex("41 45 00000000 00000000 01000000 00000000"),
	 {.last = true, .opcode = RDMAP_SEND_SE, .msn = 0x1000000}},
	{"SendSolicitedInvalidate",
	 hex("41 46 00000001 00000000 00000007 00000000"),
	 {.last = true, .opcode = RDMAP_SEND_SE_INV, .inv_stag = 1, .msn = 7}},
	{"Terminate",
	 hex("41 47 00000000 00000002 00000001 00000000"),
	 {.last = true, .opcode = RDMAP_TERMINATE, .qn = 2, .msn = 1}},
	{"ImmediateData",
	 hex("41 48 00000000 00000000 00000002 00000000"),
	 {.last = true, .opcode = RDMAP_IMM, .msn = 2}},
	{"ImmediateDataSolicited",
	 hex("41 49 00000000 00000000 00000003 00000000"),
	 {.last = true, .opcode = RDMAP_IMM_SE, .msn = 3}},
	{"AtomicRequest",
	 hex("41 4A 00000000 00000001 00000009 00000000"),
	 {.last = true, .opcode = RDMAP_ATOMIC_REQ, .qn = 1, .msn = 9}},
	{"AtomicResponse",
	 hex("41 4B 00000000 00000003 00000001 00000000"),
	 {.last = true, .opcode = RDMAP_ATOMIC_RESP, .qn = DDP_QN_ATOMIC_RESP, .msn = 1}},
	/* What no opcode uses is passed up too. */
	{"ReservedOpcodeUntagged",
	 hex("41 4C 00000000 00000004 00000001 00000000"),
	 {.last = true, .opcode = 12, .qn = 4, .msn = 1}},
	{"ReservedOpcodeTagged",
	 hex("C1 4F 11111111 2222222222222222"),
	 {.tagged = true,
	  .last = true,
	  .opcode = 15,
	  .stag = 0x11111111,
	  .to = 0x2222222222222222}},
};

INSTANTIATE_TEST_SUITE_P(Rfc, DdpVector, testing::ValuesIn(vectors),
			 [](const auto &info) { return std::string(info.param.name); });

TEST(Ddp, EveryControlField)
{
	for (unsigned ddp = 0; ddp <= 0xff; ddp++)
		for (unsigned rdmap = 0; rdmap <= 0xff; rdmap++) {
			const Bytes bytes =
				Bytes{static_cast<u8>(ddp), static_cast<u8>(rdmap)} + Bytes(16);
			const ziw_ddp_hdr expected = {
				.tagged = (ddp & 0x80) != 0,
				.last = (ddp & 0x40) != 0,
				.ddp_version = static_cast<u8>(ddp & 0x03),
				.rdmap_version = static_cast<u8>(rdmap >> 6),
				.opcode = static_cast<u8>(rdmap & 0x0f),
			};
			ziw_ddp_hdr hdr;

			ASSERT_EQ(decode(bytes, hdr), ddp & 0x80 ? 14 : 18);
			ASSERT_EQ(fields(hdr), fields(expected));
		}
}

/* Between the two lengths, the Tagged flag decides. */
TEST(Ddp, LengthsBetweenTheTwoHeaders)
{
	ziw_ddp_hdr hdr;

	for (std::size_t len = 14; len < 18; len++) {
		EXPECT_EQ(decode(hex("C140") + Bytes(len - 2), hdr), 14);
		EXPECT_EQ(decode(hex("4143") + Bytes(len - 2), hdr), -EINVAL);
	}
}

/* The decoder may be told a ULPDU's length and be given its header alone. */
TEST(Ddp, HeaderOfALongerUlpdu)
{
	ziw_ddp_hdr hdr;

	EXPECT_EQ(ziw_ddp_decode(vectors[0].bytes.data(), 65535, &hdr), DDP_TAGGED_LEN);
	EXPECT_EQ(ziw_ddp_decode(vectors[5].bytes.data(), 65535, &hdr), DDP_UNTAGGED_LEN);
}

TEST(Rdmap, KindsOfOpcodes)
{
	for (unsigned opcode = 0; opcode <= 0xff; opcode++) {
		const u8 op = static_cast<u8>(opcode);

		EXPECT_EQ(ziw_rdmap_is_send(op), opcode >= 3 && opcode <= 6) << opcode;
		EXPECT_EQ(ziw_rdmap_invalidates(op), opcode == 4 || opcode == 6) << opcode;
		EXPECT_EQ(ziw_rdmap_is_imm(op), opcode == 8 || opcode == 9) << opcode;
		EXPECT_EQ(ziw_rdmap_solicits(op), opcode == 5 || opcode == 6 || opcode == 9)
			<< opcode;
	}
}

ziw_ddp_hdr random_header(Random &random)
{
	ziw_ddp_hdr hdr = {};

	hdr.tagged = random.flip();
	hdr.last = random.flip();
	hdr.ddp_version = 1;
	hdr.rdmap_version = 1;
	hdr.opcode = static_cast<u8>(random.upto(15));
	if (hdr.tagged) {
		hdr.stag = static_cast<u32>(random.number(32));
		hdr.to = random.number(64);
	} else {
		hdr.inv_stag = static_cast<u32>(random.number(32));
		hdr.qn = static_cast<u32>(random.number(32));
		hdr.msn = static_cast<u32>(random.number(32));
		hdr.mo = static_cast<u32>(random.number(32));
	}
	return hdr;
}

TEST(DdpProperty, WhatIsEncodedIsDecoded)
{
	Random random;

	for (int i = 0; i < 50000; i++) {
		const ziw_ddp_hdr hdr = random_header(random);
		const Bytes bytes = encode(hdr);
		ziw_ddp_hdr decoded;

		ASSERT_EQ(bytes.size(), hdr.tagged ? 14u : 18u);
		ASSERT_EQ(decode(bytes, decoded), static_cast<int>(bytes.size()));
		ASSERT_EQ(fields(decoded), fields(hdr));
	}
}

TEST(DdpProperty, WhatIsDecodedIsEncoded)
{
	Random random;

	for (int i = 0; i < 50000; i++) {
		Bytes bytes = random.bytes(DDP_MAX_LEN);
		ziw_ddp_hdr hdr;
		const int len = decode(bytes, hdr);

		ASSERT_GT(len, 0);
		bytes.resize(static_cast<std::size_t>(len));
		bytes[0] = static_cast<u8>((bytes[0] & 0xc0) | 0x01);
		bytes[1] = static_cast<u8>((bytes[1] & 0x0f) | 0x40);
		ASSERT_EQ(encode(hdr), bytes);
	}
}

} // namespace
