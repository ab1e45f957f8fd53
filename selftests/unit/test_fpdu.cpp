// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* FPDUs and how large they may be: RFC 5044, 4.1, 4.4 and 4.5. */
#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <numeric>

#include "crc32c.h"
#include "proto.h"

namespace {

Bytes crc_of(const Bytes &bytes)
{
	const auto crc = crc32c(bytes);

	return Bytes(crc.begin(), crc.end());
}

/* RFC 3720, B.4, whose digests MPA's CRC is. */
TEST(Crc32c, IscsiVectors)
{
	Bytes up(32), down(32);

	std::iota(up.begin(), up.end(), u8{0});
	std::iota(down.rbegin(), down.rend(), u8{0});
	EXPECT_EQ(crc_of(Bytes(32, 0x00)), hex("AA 36 91 8A"));
	EXPECT_EQ(crc_of(Bytes(32, 0xff)), hex("43 AB A8 62"));
	EXPECT_EQ(crc_of(up), hex("4E 79 DD 46"));
	EXPECT_EQ(crc_of(down), hex("5C DB 3F 11"));
	EXPECT_EQ(crc_of(hex("01 C0 00 00 00 00 00 00 00 00 00 00 00 00 00 00"
			     "14 00 00 00 00 00 04 00 00 00 00 14 00 00 00 18"
			     "28 00 00 00 00 00 00 00 02 00 00 00 00 00 00 00")),
		  hex("56 3A 96 D9"));
	EXPECT_EQ(crc_of({}), hex("00 00 00 00"));
}

TEST(Fpdu, EachPadding)
{
	EXPECT_EQ(ziw_mpa_pad(18), 0u);
	EXPECT_EQ(ziw_mpa_pad(19), 3u);
	EXPECT_EQ(ziw_mpa_pad(20), 2u);
	EXPECT_EQ(ziw_mpa_pad(21), 1u);
	EXPECT_EQ(ziw_mpa_pad(22), 0u);
	EXPECT_EQ(ziw_mpa_fpdu_len(18), 24u);
	EXPECT_EQ(ziw_mpa_fpdu_len(19), 28u);
	EXPECT_EQ(ziw_mpa_fpdu_len(20), 28u);
	EXPECT_EQ(ziw_mpa_fpdu_len(21), 28u);
	EXPECT_EQ(ziw_mpa_fpdu_len(22), 28u);
	/* The borders of the length field. */
	EXPECT_EQ(ziw_mpa_pad(0), 2u);
	EXPECT_EQ(ziw_mpa_fpdu_len(0), 8u);
	EXPECT_EQ(ziw_mpa_pad(65535), 3u);
	EXPECT_EQ(ziw_mpa_fpdu_len(65535), 65544u);
}

TEST(Fpdu, EveryLength)
{
	for (unsigned ulpdu = 0; ulpdu <= 65535; ulpdu++) {
		ASSERT_LE(ziw_mpa_pad(ulpdu), 3u);
		ASSERT_EQ((2 + ulpdu + ziw_mpa_pad(ulpdu)) % 4, 0u) << ulpdu;
		ASSERT_EQ(ziw_mpa_fpdu_len(ulpdu), 2 + ulpdu + ziw_mpa_pad(ulpdu) + 4) << ulpdu;
	}
}

TEST(Mulpdu, OfUsualSegments)
{
	/* Ethernet, with and without TCP time stamps, over IPv4 and IPv6 */
	EXPECT_EQ(ziw_mpa_mulpdu(1460, false), 1454u);
	EXPECT_EQ(ziw_mpa_mulpdu(1448, false), 1442u);
	EXPECT_EQ(ziw_mpa_mulpdu(1440, false), 1434u);
	EXPECT_EQ(ziw_mpa_mulpdu(1428, false), 1422u);
	/* each remainder */
	EXPECT_EQ(ziw_mpa_mulpdu(1449, false), 1442u);
	EXPECT_EQ(ziw_mpa_mulpdu(1450, false), 1442u);
	EXPECT_EQ(ziw_mpa_mulpdu(1451, false), 1442u);
	/* jumbo frames, loopback */
	EXPECT_EQ(ziw_mpa_mulpdu(8948, false), 8942u);
	EXPECT_EQ(ziw_mpa_mulpdu(65483, false), 64768u);
}

TEST(Mulpdu, NeverBelow128)
{
	for (unsigned emss = 0; emss < 136; emss++)
		EXPECT_EQ(ziw_mpa_mulpdu(emss, false), 128u) << emss;
	EXPECT_EQ(ziw_mpa_mulpdu(136, false), 130u);
	EXPECT_EQ(ziw_mpa_mulpdu(137, false), 130u);
}

/* RFC 5044, 3 */
TEST(Mulpdu, NeverAbove64768)
{
	EXPECT_EQ(ziw_mpa_mulpdu(64773, false), 64766u);
	EXPECT_EQ(ziw_mpa_mulpdu(64776, false), 64768u);
	EXPECT_EQ(ziw_mpa_mulpdu(1u << 20, false), 64768u);
	EXPECT_EQ(ziw_mpa_mulpdu(1u << 20, true), 64768u);
	for (unsigned emss = UINT_MAX; emss > UINT_MAX - 16; emss--)
		EXPECT_EQ(ziw_mpa_mulpdu(emss, false), 64768u);
}

/* With markers: "EMSS - (6 + 4 * Ceiling(EMSS / 512) + EMSS mod 4)" */
unsigned with_markers(unsigned emss)
{
	const int mulpdu = static_cast<int>(emss) - (6 + 4 * static_cast<int>((emss + 511) / 512) +
						     static_cast<int>(emss) % 4);

	return static_cast<unsigned>(std::clamp(mulpdu, 128, 64768));
}

TEST(MulpduWithMarkers, OfUsualSegments)
{
	/* three markers */
	EXPECT_EQ(ziw_mpa_mulpdu(1460, true), 1442u);
	EXPECT_EQ(ziw_mpa_mulpdu(1448, true), 1430u);
	/* each remainder */
	EXPECT_EQ(ziw_mpa_mulpdu(1449, true), 1430u);
	EXPECT_EQ(ziw_mpa_mulpdu(1450, true), 1430u);
	EXPECT_EQ(ziw_mpa_mulpdu(1451, true), 1430u);
	/* where one more marker comes in */
	EXPECT_EQ(ziw_mpa_mulpdu(512, true), 502u);
	EXPECT_EQ(ziw_mpa_mulpdu(513, true), 498u);
	EXPECT_EQ(ziw_mpa_mulpdu(1024, true), 1010u);
	EXPECT_EQ(ziw_mpa_mulpdu(1025, true), 1006u);
	/* jumbo frames, loopback, the largest there is */
	EXPECT_EQ(ziw_mpa_mulpdu(8948, true), 8870u);
	EXPECT_EQ(ziw_mpa_mulpdu(65483, true), 64768u);
	EXPECT_EQ(ziw_mpa_mulpdu(65535, true), 64768u);
}

TEST(MulpduWithMarkers, AsTheFormula)
{
	for (unsigned emss = 0; emss <= 65535; emss++)
		ASSERT_EQ(ziw_mpa_mulpdu(emss, true), with_markers(emss)) << emss;
}

TEST(MulpduWithMarkers, NeverBelow128)
{
	for (unsigned emss = 0; emss < 140; emss++)
		EXPECT_EQ(ziw_mpa_mulpdu(emss, true), 128u) << emss;
	EXPECT_EQ(ziw_mpa_mulpdu(140, true), 130u);
}

/* It fits wherever in the stream it begins. */
TEST(MulpduWithMarkers, FitsAtEachPosition)
{
	for (unsigned emss = 140; emss <= 65535; emss++) {
		const unsigned fpdu = ziw_mpa_fpdu_len(ziw_mpa_mulpdu(emss, true));

		for (unsigned pos = 0; pos < 512; pos += 4)
			if (ziw_mpa_raw_len(pos, fpdu) > emss)
				FAIL() << emss << " at " << pos;
	}
}

TEST(MulpduWithMarkers, NeverAboveWhatDdpMaySend)
{
	EXPECT_EQ(ziw_mpa_mulpdu(1u << 20, true), 64768u);
	for (unsigned emss = UINT_MAX; emss > UINT_MAX - 1024; emss--)
		ASSERT_EQ(ziw_mpa_mulpdu(emss, true), 64768u) << emss;
}

/* "the size of the largest ULPDU fitting in an FPDU" of one segment: it fits, one more byte does
 * not. */
TEST(Mulpdu, IsTheLargestThatFits)
{
	for (unsigned emss = 136; emss <= 64774; emss++) {
		const unsigned mulpdu = ziw_mpa_mulpdu(emss, false);

		ASSERT_EQ(mulpdu, emss - (6 + emss % 4));
		ASSERT_LE(ziw_mpa_fpdu_len(mulpdu), emss);
		ASSERT_GT(ziw_mpa_fpdu_len(mulpdu + 1), emss);
	}
}

} // namespace
