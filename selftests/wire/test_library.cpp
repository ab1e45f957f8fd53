// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The library against the RFCs' own examples, and against itself. */
#include <gtest/gtest.h>

#include <random>

#include "tape.h"
#include "wire/check.h"

using namespace wire;

namespace {

TEST(Crc32c, IsThatOfTheStandard)
{
	/* RFC 3720, B.4, to which RFC 5044 refers. */
	EXPECT_EQ(crc32c(Bytes(32, 0)), 0x8a9136aau);
	EXPECT_EQ(crc32c(Bytes(32, 0xff)), 0x62a8ab43u);
	Bytes up, down;
	for (unsigned i = 0; i < 32; i++) {
		put8(up, i);
		put8(down, 31 - i);
	}
	EXPECT_EQ(crc32c(up), 0x46dd794eu);
	EXPECT_EQ(crc32c(down), 0x113fdb5cu);
}

/* RFC 5044, figures 5 and 6, octet for octet. */
TEST(Fpdu, IsAsInTheExamplesOfRfc5044)
{
	FpduEncoder encoder(true);

	auto first = encoder.encode(Segment::send(1, Bytes(24)).encode());
	EXPECT_EQ(hex(first), "00000000"
			      "002a41430000000000000000000000010000"
			      "0000000000000000000000000000000000000000000000000000"
			      "52239983");

	/* The second one's predecessor has 492 octets, markers and all. */
	encoder = FpduEncoder(true);
	encoder.encode(Segment::send(1, Bytes(464)).encode());
	ASSERT_EQ(encoder.position(), 492u);
	auto second = encoder.encode(Segment::send(2, Bytes(24)).encode());
	EXPECT_EQ(hex(second), "002a41430000000000000000000000020000"
			       "0000"
			       "00000014"
			       "000000000000000000000000000000000000000000000000"
			       "84925898");
}

TEST(Fpdu, DecodesWhatItEncodes)
{
	std::mt19937_64 random(1);

	for (bool markers : {false, true}) {
		FpduEncoder encoder(markers);
		FpduDecoder decoder(markers);
		std::vector<Bytes> sent;
		Bytes stream;
		for (int i = 0; i < 400; i++) {
			Bytes ulpdu(random() % (i % 50 ? 200 : 65536));
			for (auto &byte : ulpdu)
				byte = static_cast<uint8_t>(random());
			append(stream, encoder.encode(ulpdu));
			sent.push_back(ulpdu);
		}
		std::size_t at = 0, got = 0;
		while (at < stream.size()) {
			auto count = std::min<std::size_t>(random() % 3000, stream.size() - at);
			decoder.feed(View(stream).subspan(at, count));
			at += count;
			while (auto fpdu = decoder.next()) {
				ASSERT_EQ(fpdu->ulpdu, sent[got]) << got;
				ASSERT_TRUE(fpdu->crc_good() && fpdu->pad_good() &&
					    fpdu->markers_good());
				got++;
			}
		}
		EXPECT_EQ(got, sent.size());
		EXPECT_TRUE(decoder.pending().empty());
	}
}

TEST(Fpdu, FaultsAreFound)
{
	FpduFaults faults;
	FpduEncoder encoder(true);
	FpduDecoder decoder(true);
	auto next = [&](std::size_t length) {
		decoder.feed(encoder.encode(Bytes(length), faults));
		return *decoder.next();
	};

	faults.crc = FpduFaults::Crc::wrong;
	EXPECT_FALSE(next(10).crc_good());
	faults = {};
	faults.pad = 1;
	EXPECT_FALSE(next(3).pad_good());
	faults = {};
	faults.marker = [](unsigned, uint16_t &, uint16_t &pointer) { pointer += 4; };
	EXPECT_FALSE(next(1000).markers_good());
	faults.marker = [](unsigned, uint16_t &reserved, uint16_t &) { reserved = 1; };
	EXPECT_FALSE(next(1000).markers_good());
}

TEST(MpaFrame, DecodesWhatItEncodes)
{
	std::mt19937_64 random(2);

	for (int i = 0; i < 200; i++) {
		MpaFrame frame;
		frame.reply = random() & 1;
		frame.flags = static_cast<uint8_t>(random() & 0xef);
		frame.revision = 2;
		frame.private_data = Bytes(random() % 500, 7);
		if (random() & 1)
			frame.enhanced = Enhanced::decode(static_cast<uint32_t>(random()));
		auto bytes = frame.encode();
		ASSERT_EQ(MpaFrame::size(bytes), bytes.size());
		auto got = MpaFrame::decode(bytes);
		EXPECT_EQ(got.reply, frame.reply);
		EXPECT_EQ(got.flags & ~MpaFrame::s, frame.flags);
		EXPECT_EQ(got.enhanced, frame.enhanced);
		EXPECT_EQ(got.private_data, frame.private_data);
	}
}

TEST(MpaFrame, HasTheBitsOfRfc6581)
{
	Enhanced e{.peer_to_peer = true, .rtr_write = true, .ird = 0x123, .ord = 0x456};

	EXPECT_EQ(e.encode(), 0x81238456u);
	e = {.rtr_send = true, .rtr_read = true, .ird = Enhanced::none, .ord = Enhanced::none};
	EXPECT_EQ(e.encode(), 0x7fff7fffu);
	EXPECT_EQ(Enhanced::decode(0x7fff7fff), e);
}

TEST(Segment, DecodesWhatItEncodes)
{
	std::mt19937_64 random(3);

	for (int i = 0; i < 500; i++) {
		Bytes bytes(18 + random() % 60);
		for (auto &byte : bytes)
			byte = static_cast<uint8_t>(random());
		auto segment = Segment::decode(bytes);
		ASSERT_TRUE(segment);
		EXPECT_EQ(hex(segment->encode()), hex(bytes));
		describe(*segment);
	}
	EXPECT_FALSE(Segment::decode(Bytes(13, 0x80)));
	EXPECT_FALSE(Segment::decode(Bytes(17)));
	EXPECT_TRUE(Segment::decode(Bytes(14, 0x80)));
}

/* RFC 7306, figures 4 and 6; RFC 5040, figures 6 to 8. */
TEST(Headers, AreLaidOutAsInTheRfcs)
{
	AtomicRequest atomic{0, AtomicRequest::cmp_swap, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77};
	EXPECT_EQ(hex(atomic.encode()), "00000002"
					"00000011"
					"00000022"
					"0000000000000033"
					"0000000000000044"
					"0000000000000055"
					"0000000000000066"
					"0000000000000077");
	EXPECT_EQ(hex(AtomicResponse{0x11, 0x22}.encode()), "000000110000000000000022");
	EXPECT_EQ(hex(ReadRequest{1, 2, 3, 4, 5}.encode()),
		  "00000001000000000000000200000003000000040000000000000005");
	Terminate terminate(0x1204);
	EXPECT_EQ(hex(terminate.encode()), "12040000");
	terminate.m = terminate.d = terminate.r = true;
	terminate.segment_length = 0x2e;
	terminate.ddp_header = ReadRequest{}.segment(9).header();
	terminate.rdma_header = ReadRequest{1, 2, 3, 4, 5}.encode();
	auto bytes = terminate.encode();
	EXPECT_EQ(hex(View(bytes).first(8)), "1204e000002e4141");
	auto got = Terminate::decode(bytes);
	EXPECT_EQ(got.ddp_header, terminate.ddp_header);
	EXPECT_EQ(got.rdma_header, terminate.rdma_header);
	EXPECT_TRUE(got.more.empty());
	bytes.pop_back();
	EXPECT_THROW(Terminate::decode(bytes), std::out_of_range);
}

TEST(Atomics, AreThoseOfRfc7306)
{
	EXPECT_EQ(fetch_add(0xffffffffffffffff, 1, 0), 0u);
	EXPECT_EQ(fetch_add(0x00000000ffffffff, 1, 0), 0x100000000u);
	EXPECT_EQ(fetch_add(0x00000000ffffffff, 1, 0x8000000080000000), 0u);
	EXPECT_EQ(fetch_add(0xff, 0x0101, 0x8080), 0x0100u);
	EXPECT_EQ(cmp_swap(5, 9, ~0ull, 5, ~0ull), 9u);
	EXPECT_EQ(cmp_swap(5, 9, ~0ull, 4, ~0ull), 5u);
	EXPECT_EQ(cmp_swap(0x15, 0xff, 0xf0, 0x5, 0xf), 0xf5u);
}

TEST(StreamChecker, FindsEachBrokenRule)
{
	auto broken = [](const std::vector<Segment> &segments) {
		StreamChecker checker;
		FpduEncoder encoder;
		FpduDecoder decoder;
		std::vector<std::string> all;
		for (auto &segment : segments) {
			decoder.feed(encoder.encode(segment.encode()));
			for (auto &rule : checker.look(*decoder.next()))
				all.push_back(rule);
		}
		return all.size();
	};
	auto good = Segment::send(1, text("x")), bad = good;

	EXPECT_EQ(broken({good, Segment::send(2), Segment::write(1, 2, text("y"))}), 0u);
	bad.ddp_reserved = 1;
	EXPECT_EQ(broken({bad}), 1u);
	bad = good;
	bad.rdmap_reserved = 1;
	EXPECT_EQ(broken({bad}), 1u);
	bad = good;
	bad.ddp_version = 0;
	EXPECT_EQ(broken({bad}), 1u);
	bad = good;
	bad.rdmap_version = 0;
	EXPECT_EQ(broken({bad}), 1u);
	bad = good;
	bad.invalidate = 1;
	EXPECT_EQ(broken({bad}), 1u);
	bad = good;
	bad.qn = 1;
	EXPECT_EQ(broken({bad}), 1u);
	bad = good;
	bad.mo = 4;
	EXPECT_EQ(broken({bad}), 1u);
	EXPECT_EQ(broken({Segment::send(2)}), 1u);
	EXPECT_EQ(broken({good, good}), 1u);
	bad = good;
	bad.opcode = static_cast<Opcode>(14);
	EXPECT_GE(broken({bad}), 1u);
	bad = Segment::write(1, 2, text("abc"));
	bad.last = false;
	EXPECT_EQ(broken({bad, Segment::write(1, 5, text("d"))}), 0u);
	EXPECT_EQ(broken({bad, Segment::write(1, 6, text("d"))}), 1u);
	EXPECT_EQ(broken({bad, Segment::write(2, 5, text("d"))}), 1u);
	EXPECT_EQ(broken({Terminate(0x0206).segment(), good}), 1u);
	bad = ReadRequest{}.segment(1);
	bad.payload.pop_back();
	EXPECT_EQ(broken({bad}), 1u);
}

} // namespace
