// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Read Request and Terminate: RFC 5040, 4.4 and 4.8; RFC 5041, 7.2; RFC 5044, 8; RFC 6581, 8. */
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>

#include "proto.h"

namespace {

/* --- RDMA Read Request Header, RFC 5040, figure 6 --- */

ziw_read_req decode_read(const Bytes &bytes)
{
	ziw_read_req req;

	ziw_read_req_decode(bytes.data(), &req);
	return req;
}

TEST(ReadRequest, Vectors)
{
	const Bytes distinct = hex("01020304 05060708090A0B0C 0D0E0F10 11121314 15161718191A1B1C");
	const ziw_read_req distinct_req = {0x01020304, 0x05060708090a0b0c, 0x0d0e0f10, 0x11121314,
					   0x15161718191a1b1c};
	const ziw_read_req largest = {0xffffffff, ~u64{0}, 0xffffffff, 0xffffffff, ~u64{0}};
	const ziw_read_req nothing = {};

	EXPECT_EQ(distinct.size(), 28u);
	EXPECT_EQ(fields(decode_read(distinct)), fields(distinct_req));
	EXPECT_EQ(encode(distinct_req), distinct);
	EXPECT_EQ(fields(decode_read(Bytes(28, 0xff))), fields(largest));
	EXPECT_EQ(encode(largest), Bytes(28, 0xff));
	EXPECT_EQ(fields(decode_read(Bytes(28))), fields(nothing));
	EXPECT_EQ(encode(nothing), Bytes(28));
}

/* Each field has its place: one bit set in the bytes is one bit set in one field. */
TEST(ReadRequest, EveryBit)
{
	for (std::size_t bit = 0; bit < 8 * RDMAP_READ_REQ_LEN; bit++) {
		Bytes bytes(RDMAP_READ_REQ_LEN);
		ziw_read_req expected = {};

		bytes[bit / 8] = static_cast<u8>(0x80 >> bit % 8);
		if (bit < 32)
			expected.sink_stag = u32{1} << (31 - bit);
		else if (bit < 96)
			expected.sink_to = u64{1} << (95 - bit);
		else if (bit < 128)
			expected.size = u32{1} << (127 - bit);
		else if (bit < 160)
			expected.source_stag = u32{1} << (159 - bit);
		else
			expected.source_to = u64{1} << (223 - bit);
		EXPECT_EQ(fields(decode_read(bytes)), fields(expected)) << bit;
		EXPECT_EQ(encode(expected), bytes) << bit;
	}
}

ziw_read_req random_read(Random &random)
{
	return {static_cast<u32>(random.number(32)), random.number(64),
		static_cast<u32>(random.number(32)), static_cast<u32>(random.number(32)),
		random.number(64)};
}

TEST(ReadRequestProperty, WhatIsEncodedIsDecoded)
{
	Random random;

	for (int i = 0; i < 20000; i++) {
		const ziw_read_req req = random_read(random);
		const Bytes bytes = random.bytes(RDMAP_READ_REQ_LEN);

		ASSERT_EQ(fields(decode_read(encode(req))), fields(req));
		ASSERT_EQ(encode(decode_read(bytes)), bytes);
	}
}

/* --- Terminate codes --- */

struct Code {
	unsigned layer, etype, code;
	u16 value;
	/* What a log line says, with RFC's name where the two differ in more than brevity. */
	const char *name;
};

const Code codes[] = {
	/* RFC 5040, figure 9 */
	{0, 0, 0x00, TERM_RDMAP_CATASTROPHIC, "local catastrophic error"},
	{0, 1, 0x00, TERM_RDMAP_PROT_INVALID_STAG, "invalid STag"},
	{0, 1, 0x01, TERM_RDMAP_PROT_BOUNDS, "base or bounds violation"},
	{0, 1, 0x02, TERM_RDMAP_PROT_ACCESS, "access rights violation"},
	{0, 1, 0x03, TERM_RDMAP_PROT_NOT_ASSOCIATED, "STag not associated with the stream"},
	{0, 1, 0x04, TERM_RDMAP_PROT_TO_WRAP, "TO wrap"},
	{0, 1, 0x09, TERM_RDMAP_PROT_CANNOT_INV, "STag cannot be invalidated"},
	{0, 1, 0xff, TERM_RDMAP_PROT_UNSPECIFIED, "unspecified protection error"},
	{0, 2, 0x05, TERM_RDMAP_OP_VERSION, "invalid RDMAP version"},
	{0, 2, 0x06, TERM_RDMAP_OP_OPCODE, "unexpected opcode"},
	{0, 2, 0x07, TERM_RDMAP_OP_CATASTROPHIC, "catastrophic error of the stream"},
	{0, 2, 0x08, TERM_RDMAP_OP_GLOBAL, "catastrophic error, global"},
	{0, 2, 0x09, TERM_RDMAP_OP_CANNOT_INV, "STag cannot be invalidated"},
	{0, 2, 0xff, TERM_RDMAP_OP_UNSPECIFIED, "unspecified error"},
	/* RFC 5041, 7.2 */
	{1, 0, 0x00, TERM_DDP_CATASTROPHIC, "local catastrophic error"},
	{1, 1, 0x00, TERM_DDP_TAGGED_INVALID_STAG, "invalid STag"},
	{1, 1, 0x01, TERM_DDP_TAGGED_BOUNDS, "base or bounds violation"},
	{1, 1, 0x02, TERM_DDP_TAGGED_NOT_ASSOCIATED, "STag not associated with the stream"},
	{1, 1, 0x03, TERM_DDP_TAGGED_TO_WRAP, "TO wrap"},
	{1, 1, 0x04, TERM_DDP_TAGGED_VERSION, "invalid DDP version"},
	{1, 2, 0x01, TERM_DDP_UNTAGGED_QN, "invalid QN"},
	{1, 2, 0x02, TERM_DDP_UNTAGGED_NO_BUFFER, "invalid MSN, no buffer available"},
	{1, 2, 0x03, TERM_DDP_UNTAGGED_MSN_RANGE, "invalid MSN, out of range"},
	{1, 2, 0x04, TERM_DDP_UNTAGGED_MO, "invalid MO"},
	{1, 2, 0x05, TERM_DDP_UNTAGGED_TOO_LONG, "message too long for the buffer"},
	{1, 2, 0x06, TERM_DDP_UNTAGGED_VERSION, "invalid DDP version"},
	/* RFC 5044, 8; RFC 6581, 8 */
	{2, 0, 0x01, TERM_MPA_CLOSED, "TCP connection lost"},
	{2, 0, 0x02, TERM_MPA_CRC, "CRC mismatch"},
	{2, 0, 0x03, TERM_MPA_MARKER, "marker and length disagree"},
	{2, 0, 0x04, TERM_MPA_FRAME, "invalid MPA Request or Reply Frame"},
	{2, 0, 0x05, TERM_MPA_CATASTROPHIC, "local catastrophic error in setup"},
	{2, 0, 0x06, TERM_MPA_IRD, "insufficient IRD resources"},
	{2, 0, 0x07, TERM_MPA_NO_RTR, "no matching RTR option"},
};

ziw_terminate decode(const Bytes &bytes)
{
	ziw_terminate term;

	std::memset(static_cast<void *>(&term), 0x01, sizeof(term));
	EXPECT_EQ(ziw_terminate_decode(bytes.data(), static_cast<unsigned>(bytes.size()), &term),
		  0);
	return term;
}

const Bytes untagged = hex("41 43 00000000 00000000 00000005 00001000");
const Bytes tagged = hex("C1 40 00000100 FFFFFFFFFFFFF000");
const Bytes read_ddp = hex("41 41 00000000 00000001 00000009 00000000");
const Bytes read_header = hex("00000A01 0000000000002000 00001000 00000B01 0000000000003000");

ziw_terminate make(u16 code, u16 seg_len = 0, const Bytes &ddp = {}, const Bytes &read = {})
{
	ziw_terminate term = {.code = code,
			      .has_ddp = !ddp.empty(),
			      .has_rdmap = !read.empty(),
			      .seg_len = seg_len};

	std::copy(ddp.begin(), ddp.end(), term.ddp);
	std::copy(read.begin(), read.end(), term.read);
	return term;
}

TEST(Terminate, EachCodeIsTheStandards)
{
	for (const Code &c : codes) {
		EXPECT_EQ(c.value, c.layer << 12 | c.etype << 8 | c.code);
		EXPECT_EQ(c.value, ZIW_TERM(c.layer, c.etype, c.code));
	}
}

/* Layer, type, code, no headers: figure 8 and 13 bits of zeros. */
TEST(Terminate, EachCodeAlone)
{
	for (const Code &c : codes) {
		const Bytes bytes = {static_cast<u8>(c.layer << 4 | c.etype),
				     static_cast<u8>(c.code), 0, 0};

		EXPECT_EQ(encode(make(c.value)), bytes) << c.value;
		EXPECT_EQ(fields(decode(bytes)), fields(make(c.value))) << c.value;
	}
}

/* The same with the header of an untagged segment, of a tagged one, and of a Read Request. */
TEST(Terminate, EachCodeWithHeaders)
{
	for (const Code &c : codes) {
		const Bytes control = {static_cast<u8>(c.layer << 4 | c.etype),
				       static_cast<u8>(c.code)};
		const Bytes a = control + hex("C000 05A8") + untagged;
		const Bytes b = control + hex("C000 FFFF") + tagged;
		const Bytes r = control + hex("E000 002E") + read_ddp + read_header;

		EXPECT_EQ(encode(make(c.value, 1448, untagged)), a);
		EXPECT_EQ(fields(decode(a)), fields(make(c.value, 1448, untagged)));
		EXPECT_EQ(encode(make(c.value, 65535, tagged)), b);
		EXPECT_EQ(fields(decode(b)), fields(make(c.value, 65535, tagged)));
		EXPECT_EQ(r.size(), std::size_t{TERM_MAX_LEN});
		EXPECT_EQ(encode(make(c.value, 46, read_ddp, read_header)), r);
		EXPECT_EQ(fields(decode(r)), fields(make(c.value, 46, read_ddp, read_header)));
	}
}

TEST(Terminate, EveryCodePassesUnchanged)
{
	for (unsigned code = 0; code <= 0xffff; code++) {
		const Bytes bytes = {static_cast<u8>(code >> 8), static_cast<u8>(code & 0xff), 0,
				     0};

		ASSERT_EQ(decode(bytes).code, code);
		ASSERT_EQ(encode(make(static_cast<u16>(code))), bytes);
	}
}

TEST(Terminate, TaggedHeaderWithReadRequest)
{
	/* No standard use, but the lengths add up. */
	const Bytes bytes = hex("0100 E000 0010") + tagged + read_header;

	EXPECT_EQ(fields(decode(bytes)),
		  fields(make(TERM_RDMAP_PROT_INVALID_STAG, 16, tagged, read_header)));
	EXPECT_EQ(encode(make(TERM_RDMAP_PROT_INVALID_STAG, 16, tagged, read_header)), bytes);
}

/* The RDMA header follows the DDP header; without the one, the other is not sent. */
TEST(Terminate, ReadRequestNeedsDdpHeader)
{
	ziw_terminate term = make(TERM_RDMAP_PROT_ACCESS, 0, {}, read_header);

	EXPECT_EQ(encode(term), hex("0102 0000"));
	/* R without D: where it would begin is not defined. */
	EXPECT_EQ(fields(decode(hex("0102 2000") + read_header)),
		  fields(make(TERM_RDMAP_PROT_ACCESS)));
}

/* Every combination of M, D and R, with every header that may be meant present. */
TEST(Terminate, HeaderControlBits)
{
	const Bytes rest = hex("002E") + read_ddp + read_header;

	for (unsigned bits = 0; bits < 8; bits++) {
		const ziw_terminate term =
			decode(hex("1203") + Bytes{static_cast<u8>(bits << 5), 0} + rest);
		const bool d = bits & 2, r = bits & 1;

		EXPECT_EQ(term.code, TERM_DDP_UNTAGGED_MSN_RANGE);
		EXPECT_EQ(term.has_ddp, d) << bits;
		EXPECT_EQ(term.has_rdmap, d && r) << bits;
		if (d)
			/* "MUST be present when the D bit is set", whatever M says */
			EXPECT_EQ(fields(term), fields(make(TERM_DDP_UNTAGGED_MSN_RANGE, 46,
							    read_ddp, r ? read_header : Bytes{})));
	}
}

/* "ignored on receive": the 13 bits behind the control field. */
TEST(Terminate, ReservedBits)
{
	for (unsigned bit = 0; bit < 13; bit++) {
		const unsigned reserved = 1u << bit;
		const Bytes bytes = hex("1101") +
				    Bytes{static_cast<u8>(0xc0 | reserved >> 8),
					  static_cast<u8>(reserved & 0xff)} +
				    hex("0020") + tagged;

		EXPECT_EQ(fields(decode(bytes)), fields(make(TERM_DDP_TAGGED_BOUNDS, 32, tagged)))
			<< bit;
	}
}

/* Headers that are cut off count as absent; no byte beyond the length is read. */
TEST(Terminate, CutOff)
{
	const Bytes whole[] = {hex("0102 E000 002E") + read_ddp + read_header,
			       hex("0102 E000 002E") + tagged + read_header,
			       hex("0102 C000 002E") + untagged, hex("0102 C000 002E") + tagged};

	for (const Bytes &bytes : whole) {
		const bool is_tagged = bytes[6] & 0x80;
		const std::size_t ddp = is_tagged ? 14 : 18;

		for (std::size_t len = 0; len <= bytes.size(); len++) {
			const Bytes part(bytes.begin(),
					 bytes.begin() + static_cast<std::ptrdiff_t>(len));
			ziw_terminate term;
			const int err = ziw_terminate_decode(part.data(),
							     static_cast<unsigned>(len), &term);

			EXPECT_EQ(err, len < 4 ? -EINVAL : 0) << len;
			EXPECT_EQ(term.code, len < 4 ? 0 : TERM_RDMAP_PROT_ACCESS) << len;
			EXPECT_EQ(term.has_ddp, len >= 6 + ddp) << len;
			EXPECT_EQ(term.has_rdmap, len >= 6 + ddp + 28) << len;
			if (term.has_ddp)
				EXPECT_EQ(Bytes(term.ddp, term.ddp + ddp),
					  Bytes(bytes.begin() + 6,
						bytes.begin() + 6 +
							static_cast<std::ptrdiff_t>(ddp)));
		}
	}
}

TEST(Terminate, BytesBehindTheHeadersAreIgnored)
{
	EXPECT_EQ(fields(decode(hex("0102 E000 002E") + read_ddp + read_header + Bytes(100, 0xff))),
		  fields(make(TERM_RDMAP_PROT_ACCESS, 46, read_ddp, read_header)));
	EXPECT_EQ(fields(decode(hex("2002 0000") + Bytes(100, 0xff))), fields(make(TERM_MPA_CRC)));
}

TEST(Terminate, EachCodeHasAName)
{
	std::map<unsigned, std::string> names;

	for (const Code &c : codes)
		names[c.value] = c.name;
	for (unsigned code = 0; code <= 0xffff; code++) {
		const auto name = names.find(code);
		std::string expected = "unknown error";

		if (name != names.end())
			expected = name->second;
		else if (code <= 0xff)
			/* "Any value in this field is acceptable." */
			expected = "local catastrophic error";
		ASSERT_EQ(ziw_terminate_name(static_cast<u16>(code)), expected) << std::hex << code;
	}
}

/* The codes with a name are numbered without a gap, for counters. */
TEST(Terminate, EachNamedCodeHasANumber)
{
	std::map<unsigned, u16> numbers;

	for (unsigned code = 0; code <= 0xffff; code++) {
		const unsigned index = ziw_terminate_index(static_cast<u16>(code));
		const bool named = code && std::ranges::any_of(codes, [&](const Code &c) {
					   return c.value == code;
				   });

		ASSERT_EQ(index < ZIW_TERM_NAMED, named) << std::hex << code;
		if (!named) {
			ASSERT_EQ(index, unsigned{ZIW_TERM_NAMED}) << std::hex << code;
			continue;
		}
		ASSERT_TRUE(numbers.emplace(index, code).second) << std::hex << code;
		ASSERT_EQ(ziw_terminate_code(index), code);
	}
	EXPECT_EQ(numbers.size(), std::size_t{ZIW_TERM_NAMED});
}

TEST(TerminateProperty, WhatIsEncodedIsDecoded)
{
	Random random;

	for (int i = 0; i < 50000; i++) {
		const Bytes ddp = random.bytes(DDP_MAX_LEN),
			    read = random.bytes(RDMAP_READ_REQ_LEN);
		const bool has_ddp = random.flip();
		const ziw_terminate term = make(
			static_cast<u16>(random.number(16)), static_cast<u16>(random.number(16)),
			has_ddp ? ddp : Bytes{}, has_ddp && random.flip() ? read : Bytes{});

		ASSERT_EQ(fields(decode(encode(term))), fields(term));
	}
}

TEST(TerminateProperty, WhatIsDecodedMeansTheSameWhenSaidAgain)
{
	Random random;

	for (int i = 0; i < 50000; i++) {
		const Bytes bytes = random.bytes(TERM_HDR_LEN + random.upto(60));
		const ziw_terminate term = decode(bytes);

		ASSERT_EQ(fields(decode(encode(term))), fields(term));
	}
}

TEST(Hello, IsUnderstood)
{
	for (auto kind : {ZIW_HELLO_ASK, ZIW_HELLO_ANSWER}) {
		for (u32 largest : {0u, 128u, 64768u, 0xffffffffu}) {
			const ziw_hello said = {.kind = kind, .max_ulpdu = largest};
			ziw_ddp_hdr hdr = {.tagged = true, .last = true, .opcode = RDMAP_WRITE};
			ziw_hello heard;

			ziw_hello_encode(&hdr, &said);
			ziw_hello_decode(&hdr, &heard);
			EXPECT_EQ(heard.kind, kind);
			EXPECT_EQ(heard.max_ulpdu, largest);
		}
	}
}

TEST(Hello, IsNothingElse)
{
	const ziw_hello said = {.kind = ZIW_HELLO_ASK, .max_ulpdu = 64768};
	ziw_ddp_hdr right = {.tagged = true, .last = true, .opcode = RDMAP_WRITE};
	ziw_hello heard;

	ziw_hello_encode(&right, &said);
	for (unsigned bit = 0; bit < 64; bit++) {
		auto wrong = right;

		if (bit < 32)
			wrong.stag ^= u32(1) << bit;
		else
			wrong.to ^= u64(1) << bit;
		ziw_hello_decode(&wrong, &heard);
		EXPECT_NE(heard.kind, ZIW_HELLO_ASK) << "bit " << bit;
		EXPECT_NE(heard.kind, ZIW_HELLO_ANSWER) << "bit " << bit;
	}
	const ziw_ddp_hdr empty = {.tagged = true, .last = true, .opcode = RDMAP_WRITE};
	ziw_hello_decode(&empty, &heard);
	EXPECT_EQ(heard.kind, ZIW_HELLO_NONE);
}

} // namespace
