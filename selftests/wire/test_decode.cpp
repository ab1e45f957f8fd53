// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* ziw-wire decode: what it makes of captures, good and bad. */
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tape.h"

using namespace wire;

namespace {

/* What a whole conversation must show, whatever the capture did to it. */
void expect_example(const Decoded &got, bool markers)
{
	EXPECT_TRUE(got.has(std::string("MPA request rev 2 crc") + (markers ? " markers" : "") +
			    " ird 4 ord 8 peer-to-peer rtr write private data 5 [68656c6c6f]"))
		<< got.all();
	EXPECT_TRUE(got.has("MPA reply rev 2 crc"));
	EXPECT_TRUE(got.has("10.0.0.1:40000 > 10.0.0.2:7174 write stag 0x00000001 to 0x0 len 0") ||
		    got.has("[fd00::1]:40000 > [fd00::2]:7174 write stag 0x00000001"));
	EXPECT_TRUE(got.has("send qn 0 msn 1 mo 0 len 3000 last segments 3")) << got.all();
	EXPECT_TRUE(got.has("send-se-invalidate qn 0 msn 2 mo 0 invalidate 0x00001234 len 1"));
	EXPECT_TRUE(got.has("read-request qn 1 msn 1 mo 0 source stag 0x00000088 to 0x2000 size "
			    "600 sink stag 0x00000077 to 0x1000"));
	EXPECT_TRUE(got.has("read-response stag 0x00000077 to 0x1000 len 600"));
	EXPECT_TRUE(got.has("atomic-request qn 1 msn 2 mo 0 fetch-add"));
	EXPECT_TRUE(got.has("atomic-response qn 3 msn 1 mo 0 id 0x00000000 original 0x29"));
	EXPECT_TRUE(got.has("immediate qn 0 msn 3 mo 0 data 0101010101010101"));
	EXPECT_TRUE(got.has("terminate qn 2 msn 1 mo 0 code 0x1101 (DDP: base or bounds "
			    "violation) segment length 614 about [write]"));
	EXPECT_EQ(got.totals.messages, 10u) << got.all();
	EXPECT_EQ(got.totals.broken, 0u) << got.all();
	EXPECT_EQ(got.totals.octets_missing, 0u);
	EXPECT_EQ(got.count("!"), 0u) << got.all();
	EXPECT_EQ(got.count(" FIN"), 2u);
}

TEST(Decode, WholeConversation)
{
	for (bool markers : {false, true})
		expect_example(decode(example(markers).file()), markers);
}

TEST(Decode, EveryFormatAndLink)
{
	for (auto format : {Format::pcap, Format::pcap_big_endian, Format::pcap_nano,
			    Format::pcapng, Format::pcapng_big_endian})
		for (auto link :
		     {Link::ethernet, Link::vlan, Link::cooked, Link::cooked2, Link::raw})
			for (bool ipv6 : {false, true}) {
				SCOPED_TRACE(testing::Message()
					     << int(format) << " " << int(link) << " " << ipv6);
				auto got = decode(example(true).file(format, link, ipv6));
				expect_example(got, true);
				/* The second packet is a millisecond after the first. */
				EXPECT_EQ(got.lines[0].substr(0, 11), "0.002000000");
			}
}

TEST(Decode, TimeOfDay)
{
	DecodeOptions options;

	options.absolute = true;
	auto got = decode(example(false).file(), options);
	EXPECT_EQ(got.lines[0].substr(0, 29), "2023-11-14 22:13:20.003000000");
}

TEST(Decode, SegmentsAndPayload)
{
	DecodeOptions options;

	options.segments = true;
	options.payload = 4;
	auto got = decode(example(false).file(), options);
	EXPECT_EQ(got.count("send qn 0 msn 1 mo "), 4u) << got.all();
	EXPECT_TRUE(got.has("mo 2000 len 1000 last [61616161...]"));
	EXPECT_EQ(got.totals.messages, 10u);
}

TEST(Decode, SmallTcpSegments)
{
	for (bool markers : {false, true})
		for (std::size_t most : {1, 7, 100, 512})
			expect_example(decode(example(markers, most).file()), markers);
}

TEST(Decode, RetransmittedAndOutOfOrder)
{
	std::mt19937_64 random(4);

	for (int round = 0; round < 20; round++) {
		bool markers = round & 1;
		auto tape = example(markers, 200);
		auto &frames = tape.frames;
		/* Behind both setup frames, so that the order of the two sides' first octets stays.
		 */
		for (std::size_t i = 4; i + 6 < frames.size(); i += 3) {
			std::shuffle(frames.begin() + static_cast<long>(i),
				     frames.begin() + static_cast<long>(i) + 3, random);
			frames.insert(frames.begin() + static_cast<long>(i + 2), frames[i]);
		}
		auto got = decode(tape.file());
		EXPECT_TRUE(got.has("octets retransmitted")) << got.all();
		auto &lines = got.lines;
		std::erase_if(lines, [](const std::string &line) {
			return line.find("TCP, both directions") != std::string::npos;
		});
		expect_example(got, markers);
	}
}

TEST(Decode, OverlappingRetransmission)
{
	auto tape = example(false, 300);
	/* The same octets, cut differently. */
	auto &frames = tape.frames;
	for (std::size_t i = 5; i + 1 < frames.size(); i++) {
		if (frames[i].forward != frames[i + 1].forward || frames[i].payload.empty() ||
		    frames[i + 1].payload.empty())
			continue;
		auto joined = frames[i];
		append(joined.payload, frames[i + 1].payload);
		frames.insert(frames.begin() + static_cast<long>(i) + 1, joined);
		i += 2;
	}
	auto got = decode(tape.file());
	std::erase_if(got.lines, [](const std::string &line) {
		return line.find("TCP, both directions") != std::string::npos;
	});
	expect_example(got, false);
}

TEST(Decode, CrcErrorIsTold)
{
	Tape tape;
	Talk talk(tape);
	MpaFrame request, reply;
	FpduFaults faults;

	reply.reply = true;
	tape.handshake();
	talk.setup(request, reply);
	talk.say(true, Segment::send(1, text("fine")));
	faults.crc = FpduFaults::Crc::wrong;
	talk.say(true, Segment::send(2, text("bad")), SIZE_MAX, faults);
	auto got = decode(tape.file());
	EXPECT_EQ(got.totals.crc_errors, 1u);
	EXPECT_EQ(got.count("!a wrong CRC"), 1u) << got.all();
}

TEST(Decode, WithoutCrcNoneIsChecked)
{
	Tape tape;
	Talk talk(tape);
	MpaFrame request, reply;
	FpduFaults faults;

	request.flags = reply.flags = 0;
	reply.reply = true;
	tape.handshake();
	talk.setup(request, reply);
	faults.crc = FpduFaults::Crc::wrong;
	talk.say(true, Segment::send(1, text("fine")), SIZE_MAX, faults);
	auto got = decode(tape.file());
	EXPECT_EQ(got.totals.broken, 0u) << got.all();
	EXPECT_TRUE(got.has("MPA request rev 1 no-crc"));
}

TEST(Decode, RejectEndsIt)
{
	Tape tape;
	MpaFrame request, reply;

	reply.reply = true;
	reply.flags |= MpaFrame::r;
	tape.handshake();
	tape.say(true, request.encode());
	tape.say(false, reply.encode());
	tape.say(false, text("whatever follows is no FPDU"));
	auto got = decode(tape.file());
	EXPECT_TRUE(got.has("MPA reject rev 1"));
	EXPECT_EQ(got.totals.broken, 0u) << got.all();
}

TEST(Decode, RulesBrokenAreTold)
{
	Tape tape;
	Talk talk(tape);
	MpaFrame request, reply;

	reply.reply = true;
	tape.handshake();
	talk.setup(request, reply);
	talk.say(true, Segment::send(7));
	auto bad = Segment::send(8);
	bad.qn = 9;
	talk.say(true, bad);
	auto got = decode(tape.file());
	EXPECT_TRUE(got.has("!MSN 7 instead of 1")) << got.all();
	EXPECT_TRUE(got.has("!WRONG-QUEUE"));
	EXPECT_GE(got.totals.broken, 2u);
}

/* The capture begins when the connection is there already. */
TEST(Decode, JoinsInTheMiddle)
{
	for (bool markers : {false, true}) {
		for (std::size_t skip : {4, 6, 8}) {
			SCOPED_TRACE(testing::Message() << markers << " " << skip);
			auto tape = example(markers);
			tape.frames.erase(tape.frames.begin(),
					  tape.frames.begin() + static_cast<long>(skip));
			auto got = decode(tape.file());
			EXPECT_TRUE(got.has("joined in the middle of a stream")) << got.all();
			EXPECT_TRUE(got.has("terminate qn 2 msn 1")) << got.all();
			EXPECT_TRUE(got.has("immediate qn 0 msn 3")) << got.all();
			EXPECT_EQ(got.totals.crc_errors, 0u) << got.all();
		}
	}
}

TEST(Decode, JoinsWithinAnFpdu)
{
	auto tape = example(false, 700);

	/* The first packet is the rest of one. */
	tape.frames.erase(tape.frames.begin(), tape.frames.begin() + 6);
	auto got = decode(tape.file());
	EXPECT_TRUE(got.has("octets skipped")) << got.all();
	EXPECT_TRUE(got.has("terminate qn 2 msn 1"));
}

/* A side that was only heard to acknowledge has not begun here. */
TEST(Decode, JoinsInTheMiddleWithAcksBetween)
{
	Tape tape;
	Talk talk(tape);

	for (uint32_t i = 0; i < 4; i++) {
		talk.say(true, Segment::send(7 + i, text("hello")));
		tape.acknowledge(false);
		talk.say(false, Segment::send(3 + i, text("world")));
		tape.acknowledge(true);
	}
	auto got = decode(tape.file());
	EXPECT_EQ(got.totals.fpdus, 8u) << got.all();
	EXPECT_EQ(got.count("joined in the middle of a stream"), 2u) << got.all();
	EXPECT_EQ(got.totals.broken, 0u) << got.all();
}

/* Of one side the SYN was captured, of the other the stream alone. */
TEST(Decode, JoinedSideOutlastsTheOthersOddBeginning)
{
	Tape tape;
	Talk talk(tape);

	tape.handshake();
	tape.frames.erase(tape.frames.begin());
	talk.say(true, Segment::send(7, text("hello")));
	tape.say(false, text("what is this?"));
	talk.say(true, Segment::send(8, text("hello")));
	talk.say(false, Segment::send(3, text("world")));
	auto got = decode(tape.file());
	EXPECT_EQ(got.totals.fpdus, 3u) << got.all();
}

/* It takes several FPDUs to be sure, and each may be long and come in pieces. */
TEST(Decode, JoinsInTheMiddleWithoutCrc)
{
	FpduFaults faults;

	faults.crc = FpduFaults::Crc::zero;
	for (std::size_t length : {1, 300, 60000}) {
		for (std::size_t most : {100, 1448, 65000}) {
			SCOPED_TRACE(testing::Message() << length << " " << most);
			Tape tape;
			Talk talk(tape);
			for (uint32_t i = 0; i < 6; i++)
				talk.say(true, Segment::send(7 + i, Bytes(length, 'a')), most,
					 faults);
			auto got = decode(tape.file());
			EXPECT_TRUE(got.has("this stream does not use CRC")) << got.all();
			EXPECT_EQ(got.totals.fpdus, 6u) << got.all();
			EXPECT_EQ(got.totals.broken, 0u) << got.all();
			EXPECT_EQ(got.totals.octets_skipped, 0u) << got.all();
		}
	}
}

TEST(Decode, GoesOnBehindAGap)
{
	for (bool markers : {false, true}) {
		auto tape = example(markers);
		/* One of the Send's three segments. */
		tape.frames.erase(tape.frames.begin() + 6);
		auto got = decode(tape.file());
		EXPECT_TRUE(got.has("octets are missing from the capture")) << got.all();
		EXPECT_TRUE(got.has("immediate qn 0 msn 3")) << got.all();
		EXPECT_EQ(got.totals.crc_errors, 0u) << got.all();
	}
}

/* Another protocol's stream, whose beginning was not captured. */
Tape noise(std::size_t segments)
{
	std::mt19937_64 random(6);
	Tape tape;

	for (std::size_t i = 0; i < segments; i++) {
		Bytes bytes(1448);
		std::generate(bytes.begin(), bytes.end(),
			      [&] { return static_cast<uint8_t>(random()); });
		tape.say(true, bytes);
	}
	return tape;
}

/* All that is told of with an exclamation mark is wrong for --strict. */
TEST(Decode, WhatIsUnfinishedIsWrong)
{
	Tape whole;
	Talk talk(whole);
	auto part_of_send = Segment::send(1, text("part"));

	part_of_send.last = false;
	whole.handshake();
	MpaFrame request, reply;
	reply.reply = true;
	talk.setup(request, reply);
	talk.say(true, Segment::send(1, text("whole")));
	EXPECT_FALSE(decode(whole.file()).totals.wrong());

	auto expect = [](const Tape &tape, const std::string &what) {
		auto got = decode(tape.file());
		EXPECT_EQ(got.count(what), 1u) << got.all();
		EXPECT_EQ(got.totals.incomplete, 1u) << got.all();
		EXPECT_EQ(got.totals.broken, 0u) << got.all();
		EXPECT_EQ(got.totals.octets_missing, 0u) << got.all();
		EXPECT_TRUE(got.totals.wrong());
	};
	auto tape = whole;
	tape.frames.back().payload.resize(10);
	expect(tape, "!10 octets of an FPDU that has no end");

	tape = whole;
	Talk more(tape);
	more.say(false, part_of_send);
	expect(tape, "!the message above has no end");

	/* The reply is not there, nor any other octet of that side. */
	tape = whole;
	tape.frames.erase(tape.frames.begin() + 3);
	expect(tape, "octets that were not read");

	/* Of one side the middle was captured, of the other not enough of it. */
	tape = whole;
	tape.frames.erase(tape.frames.begin(), tape.frames.begin() + 4);
	tape.say(false, Bytes(10, 'x'));
	expect(tape, "!10 octets in which no FPDU was found");

	/* So much that the reply is not waited for. */
	tape = Tape();
	Talk endless(tape);
	tape.handshake();
	tape.say(true, request.encode());
	for (uint32_t i = 1; i < 20; i++)
		endless.say(true, Segment::send(i, Bytes(60000, 'a')), 60000);
	expect(tape, "!the other side's MPA frame is missing");
}

TEST(Decode, OtherProtocolsAreNotWrong)
{
	DecodeOptions options;

	options.all = true;
	auto got = decode(noise(10).file(), options);
	EXPECT_EQ(got.count("octets in which no FPDU was found"), 1u) << got.all();
	EXPECT_EQ(got.count("!"), 0u) << got.all();
	EXPECT_FALSE(got.totals.wrong());
}

TEST(Decode, OtherProtocolsMayMissOctets)
{
	/* More than is held behind a gap. */
	auto tape = noise(3200);

	tape.frames.erase(tape.frames.begin() + 10);
	auto got = decode(tape.file());
	EXPECT_TRUE(got.lines.empty()) << got.all();
	EXPECT_FALSE(got.totals.wrong());
}

TEST(Decode, OtherProtocolsAreLeftAlone)
{
	Tape tape;

	tape.handshake();
	tape.say(true, text("GET / HTTP/1.1\r\n\r\n"));
	tape.say(false, text("HTTP/1.1 200 OK\r\n\r\nhello"));
	tape.end(true);
	EXPECT_TRUE(decode(tape.file()).lines.empty());
	DecodeOptions options;
	options.all = true;
	EXPECT_TRUE(decode(tape.file(), options).has("not iWARP"));
}

TEST(Decode, WhatIsNoStartIsTriedOnce)
{
	auto got = decode(noise(2000).file());

	EXPECT_TRUE(got.lines.empty()) << got.all();
	EXPECT_GE(got.totals.starts_tried, 2000u);
	EXPECT_LE(got.totals.starts_tried, 2100u);
}

TEST(Decode, NoiseIsGivenUp)
{
	auto tape = noise(6000);
	Talk talk(tape);
	DecodeOptions options;

	talk.say(true, Segment::send(7, text("too late")));
	EXPECT_TRUE(decode(tape.file()).lines.empty());
	options.all = true;
	auto got = decode(tape.file(), options);
	EXPECT_TRUE(got.has("not iWARP: no FPDU in 8")) << got.all();
	EXPECT_EQ(got.lines.size(), 1u) << got.all();
	EXPECT_LT(got.totals.octets_skipped, 9000000u);
}

/* Neither a joined stream that is lost, nor the other side of one. */
TEST(Decode, NoiseBesidesIwarpIsNotGivenUp)
{
	auto tape = noise(6000);
	Talk talk(tape);

	talk.say(false, Segment::send(3, text("world")));
	tape.frames.insert(tape.frames.begin(), tape.frames.back());
	tape.frames.pop_back();
	talk.say(true, Segment::send(7, text("hello")));
	auto got = decode(tape.file());
	EXPECT_EQ(got.totals.fpdus, 2u) << got.all();
	EXPECT_EQ(got.totals.octets_skipped, 6000u * 1448) << got.all();
}

TEST(Decode, RequestWithoutAnMpaAnswer)
{
	Tape tape;

	tape.handshake();
	tape.say(true, MpaFrame().encode());
	tape.say(false, text("what is this?"));
	EXPECT_TRUE(decode(tape.file()).has("!no MPA frame in answer"));
}

TEST(Decode, PortIsUsedAgain)
{
	auto tape = example(false), again = example(true);

	tape.frames.insert(tape.frames.end(), again.frames.begin(), again.frames.end());
	auto got = decode(tape.file());
	EXPECT_EQ(got.totals.connections, 2u);
	EXPECT_EQ(got.totals.messages, 20u) << got.all();
	EXPECT_EQ(got.totals.broken, 0u) << got.all();
}

TEST(Decode, CaptureThatIsCutOff)
{
	auto file = example(true).file();

	for (std::size_t length = 0; length < file.size(); length += 13) {
		Bytes part_of_file(file.begin(), file.begin() + static_cast<long>(length));
		try {
			decode(part_of_file);
		} catch (const BadCapture &) {
		}
	}
}

/* Whatever is in the file: no fault that the sanitizers find, no end that does not come. */
TEST(Decode, DamagedCaptures)
{
	std::mt19937_64 random(5);
	std::vector<Bytes> files{example(false).file(), example(true, 200).file(Format::pcapng),
				 example(true).file(Format::pcap_nano, Link::raw, true)};

	for (int round = 0; round < 1500; round++) {
		auto file = files[static_cast<std::size_t>(round) % files.size()];
		for (auto n = random() % 20 + 1; n; n--)
			file[random() % file.size()] = static_cast<uint8_t>(random());
		try {
			decode(file);
		} catch (const BadCapture &) {
		}
	}
}

} // namespace
