// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Markers, and the RFC's dumps that have them: RFC 5044, 4.2 to 4.4. */
#include <gtest/gtest.h>

#include <algorithm>

#include "crc32c.h"
#include "proto.h"

namespace {

Bytes crc_of(const Bytes &bytes)
{
	const auto crc = crc32c(bytes);

	return Bytes(crc.begin(), crc.end());
}

Bytes marker(unsigned fpdu_ptr)
{
	Bytes bytes(MPA_MARKER_SIZE, 0xff);

	ziw_mpa_marker_encode(bytes.data(), fpdu_ptr);
	return bytes;
}

/* --- 4.2: 16 bits that are reserved, 16 that point --- */

TEST(Marker, Encodes)
{
	EXPECT_EQ(marker(0), hex("0000 0000"));
	EXPECT_EQ(marker(0x0c), hex("0000 000C"));
	EXPECT_EQ(marker(0x14), hex("0000 0014"));
	EXPECT_EQ(marker(0x1234), hex("0000 1234"));
	EXPECT_EQ(marker(0xfffc), hex("0000 FFFC"));
}

/* "the bottom two bits ... MUST be treated as zero"; what is reserved is not looked at. */
TEST(Marker, Decodes)
{
	for (unsigned reserved : {0x0000u, 0x0001u, 0x8000u, 0x1234u, 0xffffu})
		for (unsigned ptr = 0; ptr <= 0xffff; ptr++) {
			const Bytes bytes = {
				static_cast<u8>(reserved >> 8), static_cast<u8>(reserved & 0xff),
				static_cast<u8>(ptr >> 8), static_cast<u8>(ptr & 0xff)};

			ASSERT_EQ(ziw_mpa_marker_decode(bytes.data()), ptr / 4 * 4);
		}
}

TEST(Marker, WhatIsEncodedIsDecoded)
{
	for (unsigned ptr = 0; ptr <= 0xfffc; ptr += 4)
		ASSERT_EQ(ziw_mpa_marker_decode(marker(ptr).data()), ptr);
}

/* --- 4.4, figures 5 and 6 --- */

const Bytes figure_5 = hex("00000000 002A 41 43 00000000 00000000 00000001 00000000") + Bytes(24) +
		       hex("52239983");
const Bytes figure_6 = hex("002A 41 43 00000000 00000000 00000002 00000000 00000014") + Bytes(24) +
		       hex("84925898");

/* The FPDU of a Send of 24 octets of zeros, but for its CRC. */
Bytes length_and_ulpdu(u32 msn)
{
	const ziw_ddp_hdr hdr = {.last = true, .opcode = RDMAP_SEND, .msn = msn};
	const Bytes ulpdu = encode(hdr) + Bytes(24);

	EXPECT_EQ(ulpdu.size(), 42u);
	EXPECT_EQ(ziw_mpa_pad(42), 0u);
	return hex("002A") + ulpdu;
}

TEST(Marker, Figure5TheFirstFpduOfAStream)
{
	const Bytes before_crc = marker(0) + length_and_ulpdu(1);

	EXPECT_EQ(figure_5.size(), 0x34u);
	EXPECT_EQ(before_crc + crc_of(before_crc), figure_5);
	EXPECT_EQ(ziw_mpa_raw_len(0, ziw_mpa_fpdu_len(42)), 0x34u);
	/* Its length field is known as soon as six octets are there. */
	EXPECT_EQ(ziw_mpa_raw_len(0, MPA_LEN_SIZE), 6u);
}

TEST(Marker, Figure6BehindADdpHeader)
{
	const Bytes fpdu = length_and_ulpdu(2);
	const Bytes before_crc = Bytes(fpdu.begin(), fpdu.begin() + 0x14) + marker(0x14) +
				 Bytes(fpdu.begin() + 0x14, fpdu.end());

	EXPECT_EQ(before_crc + crc_of(before_crc), figure_6);
	/* The first FPDU "had a length of 492 octets", a marker before it among them. */
	EXPECT_EQ(ziw_mpa_raw_len(0, 488), 492u);
	EXPECT_EQ(ziw_mpa_raw_len(0x1ec, ziw_mpa_fpdu_len(42)), 0x220u - 0x1ecu);
	EXPECT_EQ(figure_6.size(), 0x220u - 0x1ecu);
}

/* Figure 4: 16 octets of ULPDU, of which 10 precede the marker. */
TEST(Marker, Figure4InAUlpdu)
{
	EXPECT_EQ(ziw_mpa_pad(16), 2u);
	EXPECT_EQ(ziw_mpa_raw_len(512 - 0x0c, ziw_mpa_fpdu_len(16)), 7u * 4);
}

/* --- 4.3: which octets of a stream are markers --- */

TEST(RawLength, AtTheBorders)
{
	/* Nothing takes no octet, not even where a marker is due: it belongs to what follows. */
	EXPECT_EQ(ziw_mpa_raw_len(0, 0), 0u);
	EXPECT_EQ(ziw_mpa_raw_len(508, 0), 0u);
	EXPECT_EQ(ziw_mpa_raw_len(0, 1), 5u);
	EXPECT_EQ(ziw_mpa_raw_len(0, 508), 512u);
	EXPECT_EQ(ziw_mpa_raw_len(0, 509), 517u);
	EXPECT_EQ(ziw_mpa_raw_len(4, 508), 508u);
	EXPECT_EQ(ziw_mpa_raw_len(4, 509), 513u);
	EXPECT_EQ(ziw_mpa_raw_len(4, 1016), 1020u);
	EXPECT_EQ(ziw_mpa_raw_len(4, 1017), 1025u);
	EXPECT_EQ(ziw_mpa_raw_len(508, 4), 4u);
	EXPECT_EQ(ziw_mpa_raw_len(508, 5), 9u);
	/* The largest FPDU that there is */
	EXPECT_EQ(ziw_mpa_raw_len(0, 65544), 65544u + 4 * 130);
	EXPECT_EQ(ziw_mpa_raw_len(4, 65544), 65544u + 4 * 129);
}

/* Octets counted one by one, at each position that is not inside a marker. */
TEST(RawLength, AsCounted)
{
	for (unsigned pos = 0; pos < 512; pos++) {
		unsigned raw = 0;

		if (pos >= 1 && pos <= 3)
			continue;
		for (unsigned len = 0; len <= 65544; len++) {
			if (ziw_mpa_raw_len(pos, len) != raw)
				FAIL() << "position " << pos << ", length " << len << ": " << raw;
			if ((pos + raw) % 512 == 0)
				raw += 4;
			raw++;
		}
	}
}

/* Of an FPDU at this position, the last marker's pointer; 0 if it has none but before it. */
unsigned last_pointer(unsigned pos, unsigned fpdu)
{
	unsigned raw = 0, start = 0, pointer = 0;

	for (unsigned done = 0; done < fpdu;) {
		if ((pos + raw) % 512 == 0) {
			pointer = done ? raw - start : 0;
			raw += 4;
		}
		if (!done)
			start = raw;

		const unsigned n = std::min(fpdu - done, 512 - (pos + raw) % 512);

		raw += n;
		done += n;
	}
	return pointer;
}

TEST(Marker, AllOfTheLargestFpduPointToItsStart)
{
	for (unsigned pos = 0; pos < 512; pos += 4)
		EXPECT_LE(last_pointer(pos, ziw_mpa_fpdu_len(MPA_MAX_MULPDU)), 0xfffcu) << pos;
}

} // namespace
