// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* MPA Request and Reply Frames: RFC 5044, 7.1.1; RFC 6581, 6 and 9. */
#include <gtest/gtest.h>

#include <bit>
#include <string>

#include "proto.h"

namespace {

const Bytes request_key = hex("4D 50 41 20 49 44 20 52 65 71 20 46 72 61 6D 65");
const Bytes reply_key = hex("4D 50 41 20 49 44 20 52 65 70 20 46 72 61 6D 65");

Bytes key_of(bool reply)
{
	return reply ? reply_key : request_key;
}

/* A frame's fixed part. */
Bytes header(bool reply, unsigned flags, unsigned rev, unsigned pd_len)
{
	return key_of(reply) + Bytes{static_cast<u8>(flags), static_cast<u8>(rev),
				     static_cast<u8>(pd_len >> 8), static_cast<u8>(pd_len & 0xff)};
}

int decode_header(const Bytes &bytes, ziw_mpa_frame &frame)
{
	/* What is in there already does not shine through. */
	std::memset(static_cast<void *>(&frame), 0x01, sizeof(frame));
	return ziw_mpa_decode_header(bytes.data(), &frame);
}

/* A whole frame, as the connection code takes it apart. */
int decode(const Bytes &bytes, ziw_mpa_frame &frame)
{
	int err = decode_header(Bytes(bytes.begin(), bytes.begin() + MPA_HDR_LEN), frame);

	if (err || !frame.enhanced)
		return err;
	return ziw_mpa_decode_enhanced(
		Bytes(bytes.begin() + MPA_HDR_LEN, bytes.begin() + MPA_HDR_LEN + MPA_ENHANCED_LEN)
			.data(),
		&frame);
}

struct Vector {
	const char *name;
	Bytes bytes;
	ziw_mpa_frame frame;
	Bytes private_data = {};
	/* Whether ziw itself would say it so; else it only understands it. */
	bool canonical = true;
};

class MpaVector : public testing::TestWithParam<Vector> {};

TEST_P(MpaVector, Decodes)
{
	const Vector &v = GetParam();
	ziw_mpa_frame frame;

	ASSERT_EQ(decode(v.bytes, frame), 0);
	EXPECT_EQ(fields(frame), fields(v.frame));
	EXPECT_EQ(Bytes(v.bytes.end() - frame.pd_len, v.bytes.end()), v.private_data);
}

TEST_P(MpaVector, Encodes)
{
	const Vector &v = GetParam();
	ziw_mpa_frame frame;

	if (v.canonical) {
		EXPECT_EQ(encode(v.frame, v.private_data), v.bytes);
	} else {
		/* Said in ziw's way, it means the same. */
		ASSERT_EQ(decode(encode(v.frame, v.private_data), frame), 0);
		EXPECT_EQ(fields(frame), fields(v.frame));
		EXPECT_NE(encode(v.frame, v.private_data), v.bytes);
	}
}

const Vector vectors[] = {
	/* Revision 1 */
	{"Request1", request_key + hex("00 01 0000"), {.rev = 1}},
	{"Request1Crc", request_key + hex("40 01 0000"), {.rev = 1, .crc = true}},
	{"Request1Markers", request_key + hex("80 01 0000"), {.rev = 1, .markers = true}},
	{"Request1MarkersCrc",
	 request_key + hex("C0 01 0000"),
	 {.rev = 1, .markers = true, .crc = true}},
	{"Request1PrivateData",
	 request_key + hex("40 01 0003 616263"),
	 {.rev = 1, .crc = true, .pd_len = 3},
	 hex("616263")},
	{"Reply1", reply_key + hex("00 01 0000"), {.reply = true, .rev = 1}},
	{"Reply1Crc", reply_key + hex("40 01 0000"), {.reply = true, .rev = 1, .crc = true}},
	{"Reply1Markers",
	 reply_key + hex("80 01 0000"),
	 {.reply = true, .rev = 1, .markers = true}},
	{"Reply1Rejects", reply_key + hex("20 01 0000"), {.reply = true, .rev = 1, .reject = true}},
	{"Reply1RejectsWithReason",
	 reply_key + hex("60 01 0002 DEAD"),
	 {.reply = true, .rev = 1, .crc = true, .reject = true, .pd_len = 2},
	 hex("DEAD")},
	{"Request1Largest",
	 request_key + hex("40 01 0200") + Bytes(512, 0x5a),
	 {.rev = 1, .crc = true, .pd_len = 512},
	 Bytes(512, 0x5a)},
	/* R is not checked in a Request, Res in neither; S is of Res below revision 2. */
	{"Request1WithR", request_key + hex("20 01 0000"), {.rev = 1}, {}, false},
	{"Request1ReservedBits",
	 request_key + hex("4F 01 0000"),
	 {.rev = 1, .crc = true},
	 {},
	 false},
	{"Request1WithS", request_key + hex("50 01 0000"), {.rev = 1, .crc = true}, {}, false},
	{"Request1WithSAndPrivateData",
	 request_key + hex("50 01 0004 80018001"),
	 {.rev = 1, .crc = true, .pd_len = 4},
	 hex("80018001"),
	 false},
	{"Reply1ReservedBits", reply_key + hex("1F 01 0000"), {.reply = true, .rev = 1}, {}, false},

	/* Revision 2 without the enhanced words: as revision 1 (RFC 6581, 6). */
	{"Request2Plain", request_key + hex("40 02 0000"), {.rev = 2, .crc = true}},
	{"Request2PlainPrivateData",
	 request_key + hex("40 02 0004 80018001"),
	 {.rev = 2, .crc = true, .pd_len = 4},
	 hex("80018001")},
	{"Reply2Plain", reply_key + hex("40 02 0000"), {.reply = true, .rev = 2, .crc = true}},

	/* Revision 2, enhanced; client and server */
	{"Request2Enhanced",
	 request_key + hex("50 02 0004 0010 0008"),
	 {.rev = 2, .crc = true, .enhanced = true, .ird = 16, .ord = 8}},
	{"Request2EnhancedZero",
	 request_key + hex("10 02 0004 0000 0000"),
	 {.rev = 2, .enhanced = true}},
	{"Request2NoNegotiation",
	 request_key + hex("50 02 0004 3FFF 3FFF"),
	 {.rev = 2, .crc = true, .enhanced = true, .ird = 0x3fff, .ord = 0x3fff}},
	{"Reply2Enhanced",
	 reply_key + hex("50 02 0006 0001 2000 AA55"),
	 {.reply = true,
	  .rev = 2,
	  .crc = true,
	  .enhanced = true,
	  .ird = 1,
	  .ord = 0x2000,
	  .pd_len = 2},
	 hex("AA55")},
	{"Reply2EnhancedRejects",
	 reply_key + hex("70 02 0004 0004 0020"),
	 {.reply = true,
	  .rev = 2,
	  .crc = true,
	  .reject = true,
	  .enhanced = true,
	  .ird = 4,
	  .ord = 32}},
	{"Request2EnhancedLargest",
	 request_key + hex("50 02 0200 0001 0002") + Bytes(508, 0xa5),
	 {.rev = 2, .crc = true, .enhanced = true, .ird = 1, .ord = 2, .pd_len = 508},
	 Bytes(508, 0xa5)},
	{"Request2EnhancedReservedBits",
	 request_key + hex("7F 02 0004 0010 0008"),
	 {.rev = 2, .crc = true, .enhanced = true, .ird = 16, .ord = 8},
	 {},
	 false},

	/* Peer to peer (RFC 6581, 9.2): A alone, then with B, C, D, then all of them. */
	{"PeerNoRtr",
	 request_key + hex("50 02 0004 8001 0001"),
	 {.rev = 2, .crc = true, .enhanced = true, .p2p = true, .ird = 1, .ord = 1}},
	{"PeerSend",
	 request_key + hex("50 02 0004 C001 0001"),
	 {.rev = 2,
	  .crc = true,
	  .enhanced = true,
	  .p2p = true,
	  .rtr = ZIW_RTR_SEND,
	  .ird = 1,
	  .ord = 1}},
	{"PeerWrite",
	 request_key + hex("50 02 0004 8001 8001"),
	 {.rev = 2,
	  .crc = true,
	  .enhanced = true,
	  .p2p = true,
	  .rtr = ZIW_RTR_WRITE,
	  .ird = 1,
	  .ord = 1}},
	{"PeerRead",
	 request_key + hex("50 02 0004 8001 4001"),
	 {.rev = 2,
	  .crc = true,
	  .enhanced = true,
	  .p2p = true,
	  .rtr = ZIW_RTR_READ,
	  .ird = 1,
	  .ord = 1}},
	{"PeerAll",
	 reply_key + hex("50 02 0005 FFFF FFFF 21"),
	 {.reply = true,
	  .rev = 2,
	  .crc = true,
	  .enhanced = true,
	  .p2p = true,
	  .rtr = ZIW_RTR_ALL,
	  .ird = 0x3fff,
	  .ord = 0x3fff,
	  .pd_len = 1},
	 hex("21")},
	/* Without A, B to D MUST be ignored. */
	{"ClientWithRtrFlags",
	 request_key + hex("50 02 0004 4002 C003"),
	 {.rev = 2, .crc = true, .enhanced = true, .ird = 2, .ord = 3},
	 {},
	 false},
};

INSTANTIATE_TEST_SUITE_P(Rfc, MpaVector, testing::ValuesIn(vectors),
			 [](const auto &info) { return std::string(info.param.name); });

TEST(Mpa, EveryFlagByte)
{
	ziw_mpa_frame frame;

	for (bool reply : {false, true})
		for (u8 rev : {1, 2})
			for (unsigned flags = 0; flags <= 0xff; flags++) {
				const ziw_mpa_frame expected = {
					.reply = reply,
					.rev = rev,
					.markers = (flags & 0x80) != 0,
					.crc = (flags & 0x40) != 0,
					.reject = reply && flags & 0x20,
					.enhanced = rev == 2 && flags & 0x10,
					.pd_len = 4,
				};

				ASSERT_EQ(decode_header(header(reply, flags, rev, 4), frame), 0);
				EXPECT_EQ(fields(frame), fields(expected)) << "flags " << flags;
			}
}

TEST(Mpa, EveryEnhancedWord)
{
	for (unsigned ird = 0; ird <= 0xffff; ird++)
		for (unsigned ord :
		     {0u, 0x3fffu, 0x4000u, 0x8000u, 0xc000u, 0xffffu, ird ^ 0x5aa5u}) {
			const Bytes words = {static_cast<u8>(ird >> 8), static_cast<u8>(ird & 0xff),
					     static_cast<u8>(ord >> 8),
					     static_cast<u8>(ord & 0xff)};
			ziw_mpa_frame frame = {.rev = 2, .enhanced = true, .pd_len = 10};
			unsigned rtr = 0;

			if (ird & 0x8000) {
				rtr |= ird & 0x4000 ? ZIW_RTR_SEND : 0;
				rtr |= ord & 0x8000 ? ZIW_RTR_WRITE : 0;
				rtr |= ord & 0x4000 ? ZIW_RTR_READ : 0;
			}
			ASSERT_EQ(ziw_mpa_decode_enhanced(words.data(), &frame), 0);
			ASSERT_EQ(frame.p2p, (ird & 0x8000) != 0) << ird;
			ASSERT_EQ(frame.rtr, rtr) << ird << " " << ord;
			ASSERT_EQ(frame.ird, ird & 0x3fff);
			ASSERT_EQ(frame.ord, ord & 0x3fff);
			ASSERT_EQ(frame.pd_len, 6);
		}
}

TEST(Mpa, EncoderKeepsFlagsOfTheModelApart)
{
	/* IRD and ORD that do not fit do not spill into the control flags ... */
	const ziw_mpa_frame large = {.rev = 2, .enhanced = true, .ird = 0xffff, .ord = 0xffff};
	/* ... and B to D are zero without A (RFC 6581, 9.2). */
	const ziw_mpa_frame client = {
		.rev = 2, .enhanced = true, .rtr = ZIW_RTR_ALL, .ird = 1, .ord = 1};

	EXPECT_EQ(encode(large), request_key + hex("10 02 0004 3FFF 3FFF"));
	EXPECT_EQ(encode(client), request_key + hex("10 02 0004 0001 0001"));
}

TEST(Mpa, EncoderNeedsNoPrivateData)
{
	const ziw_mpa_frame frame = {.rev = 1, .crc = true};
	Bytes buf(MPA_HDR_LEN);

	EXPECT_EQ(ziw_mpa_encode(buf.data(), &frame, nullptr), unsigned{MPA_HDR_LEN});
	EXPECT_EQ(buf, request_key + hex("40 01 0000"));
}

/* A responder must not take a key that differs in one bit, nor must an initiator. */
TEST(Mpa, EveryBitOfTheKeyCounts)
{
	ziw_mpa_frame frame;

	for (bool reply : {false, true})
		for (std::size_t bit = 0; bit < 8 * MPA_KEY_LEN; bit++) {
			Bytes bytes = header(reply, 0x40, 1, 0);

			bytes[bit / 8] ^= static_cast<u8>(1 << bit % 8);
			if (bytes[9] == (key_of(!reply)[9]) && bit == 8 * 9) {
				/* "Req" and "Rep" are one bit apart. */
				ASSERT_EQ(decode_header(bytes, frame), 0);
				EXPECT_EQ(frame.reply, !reply);
			} else {
				EXPECT_EQ(decode_header(bytes, frame), -EPROTO) << "bit " << bit;
			}
		}
}

TEST(Mpa, OtherProtocols)
{
	ziw_mpa_frame frame;

	EXPECT_EQ(decode_header(Bytes(MPA_HDR_LEN, 0x00), frame), -EPROTO);
	EXPECT_EQ(decode_header(Bytes(MPA_HDR_LEN, 0xff), frame), -EPROTO);
	/* "GET / HTTP/1.1\r\nHost" */
	EXPECT_EQ(decode_header(hex("474554202F20485454502F312E310D0A486F7374"), frame), -EPROTO);
	/* "MPA ID req Frame" */
	EXPECT_EQ(decode_header(hex("4D504120494420726571204672616D65 40010000"), frame), -EPROTO);
	/* A bad key goes before a bad revision and a bad length. */
	EXPECT_EQ(decode_header(hex("4D504120494420526570204672616D00 4007FFFF"), frame), -EPROTO);
}

TEST(Mpa, EveryRevision)
{
	ziw_mpa_frame frame;

	for (unsigned rev = 0; rev <= 0xff; rev++)
		for (bool reply : {false, true}) {
			int err = decode_header(header(reply, 0x50, rev, 4), frame);

			EXPECT_EQ(err, rev == 1 || rev == 2 ? 0 : -EPROTONOSUPPORT) << rev;
			/* "report the received version to the ULP" */
			EXPECT_EQ(frame.rev, rev);
		}
	/* What PD_Length means in another revision is not known. */
	EXPECT_EQ(decode_header(header(false, 0x40, 3, 0xffff), frame), -EPROTONOSUPPORT);
}

TEST(Mpa, EveryPrivateDataLength)
{
	ziw_mpa_frame frame;

	for (unsigned len = 0; len <= 0xffff; len++)
		for (bool reply : {false, true}) {
			ASSERT_EQ(decode_header(header(reply, 0x40, 1, len), frame),
				  len <= 512 ? 0 : -EMSGSIZE)
				<< len;
			ASSERT_EQ(frame.pd_len, len);
			/* 512 with the enhanced words, 508 without them (RFC 6581, 9). */
			ASSERT_EQ(decode_header(header(reply, 0x50, 2, len), frame),
				  len >= 4 && len <= 512 ? 0 : -EMSGSIZE)
				<< len;
			ASSERT_EQ(frame.pd_len, len);
		}
}

TEST(Mpa, EnhancedWordsThatAreNotThere)
{
	const Bytes words = hex("FFFF FFFF");
	ziw_mpa_frame plain = {.rev = 2, .pd_len = 8};
	ziw_mpa_frame brief = {.rev = 2, .enhanced = true, .pd_len = 3};

	EXPECT_EQ(ziw_mpa_decode_enhanced(words.data(), &plain), -EPROTO);
	EXPECT_EQ(plain.pd_len, 8);
	EXPECT_FALSE(plain.p2p);
	EXPECT_EQ(ziw_mpa_decode_enhanced(words.data(), &brief), -EPROTO);
	EXPECT_EQ(brief.pd_len, 3);
}

TEST(MpaProperty, WhatIsEncodedIsDecoded)
{
	Random random;

	for (int i = 0; i < 20000; i++) {
		ziw_mpa_frame frame = {}, decoded;

		frame.reply = random.flip();
		frame.rev = static_cast<u8>(1 + random.upto(1));
		frame.markers = random.flip();
		frame.crc = random.flip();
		frame.reject = frame.reply && random.flip();
		frame.enhanced = frame.rev == 2 && random.flip();
		if (frame.enhanced) {
			frame.p2p = random.flip();
			frame.rtr = static_cast<u8>(frame.p2p ? random.upto(ZIW_RTR_ALL) : 0);
			frame.ird = static_cast<u16>(random.number(14));
			frame.ord = static_cast<u16>(random.number(14));
		}
		frame.pd_len = static_cast<u16>(random.upto(frame.enhanced ? 508 : 512));

		const Bytes private_data = random.bytes(frame.pd_len);
		const Bytes bytes = encode(frame, private_data);

		ASSERT_EQ(bytes.size(), 20u + (frame.enhanced ? 4 : 0) + frame.pd_len);
		ASSERT_EQ(decode(bytes, decoded), 0);
		ASSERT_EQ(fields(decoded), fields(frame));
		ASSERT_EQ(Bytes(bytes.end() - frame.pd_len, bytes.end()), private_data);
	}
}

TEST(MpaProperty, WhatIsDecodedMeansTheSameWhenSaidAgain)
{
	Random random;

	for (int i = 0; i < 20000; i++) {
		const unsigned pd_len = static_cast<unsigned>(random.upto(516));
		const Bytes bytes = header(random.flip(), static_cast<unsigned>(random.upto(0xff)),
					   static_cast<unsigned>(random.upto(3)), pd_len) +
				    random.bytes(std::max(pd_len, 4u));
		ziw_mpa_frame frame, again;

		if (decode(bytes, frame))
			continue;
		const Bytes private_data(bytes.begin() + MPA_HDR_LEN + pd_len - frame.pd_len,
					 bytes.begin() + MPA_HDR_LEN + pd_len);
		ASSERT_EQ(decode(encode(frame, private_data), again), 0);
		ASSERT_EQ(fields(again), fields(frame));
	}
}

} // namespace
