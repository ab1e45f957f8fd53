// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* RFC 5044, 3 to 6 and 8: FPDUs, markers, CRCs, sizes, and what is done about invalid ones. */
#include <set>

#include "device.h"

namespace {

constexpr uint8_t m_and_c = MpaFrame::m | MpaFrame::c;

/* What TCP takes in one segment from the device: the link's MTU, or what the peer asks for. */
unsigned emss(unsigned mss = 1460)
{
	/* Linux's timestamps. */
	return mss - 12;
}

unsigned mulpdu(unsigned segment, bool markers)
{
	return segment - (6 + segment % 4 + (markers ? 4 * ((segment + 511) / 512) : 0));
}

class Streams : public Conformance {
protected:
	/* Sends of every length up to `most`, and some large ones, are received as they were sent.
	 */
	void device_sends(unsigned most, unsigned step)
	{
		auto content = pattern(size, 4);
		untouched = false;
		std::copy(content.begin(), content.end(), region->data());
		auto check = [&](unsigned length) {
			ASSERT_EQ(end->post(send_work(length, {region->sge(0, length)})), 0);
			auto got = peer->expect_message(Opcode::send);
			EXPECT_EQ(got.payload, region_bytes(0, length)) << length;
			EXPECT_COMPLETED(end->wait_send(1, patience())[0], length, IBV_WC_SEND);
		};
		for (unsigned length = 0; length <= most && !HasFatalFailure(); length += step)
			check(length);
		for (unsigned length : {4000, 20000, 40000})
			check(length);
	}

	/* Writes of every length are placed as they were sent. */
	void device_receives(unsigned most, unsigned step, bool several_segments = true)
	{
		untouched = false;
		for (unsigned length = 0; length <= most && !HasFailure(); length += step) {
			auto data = pattern(length, length + 2);
			peer->send(Segment::write(region->rkey(), region->address(64), data));
			expect_alive();
			EXPECT_EQ(region_bytes(64, length), data) << length;
		}
		for (unsigned length : {3000, 16000, 39000}) {
			if (!several_segments)
				break;
			auto data = pattern(length, length);
			peer->send(Segment::write(region->rkey(), region->address(64), data));
			expect_alive();
			EXPECT_EQ(region_bytes(64, length), data) << length;
		}
	}

	/* A stream to the device with markers. */
	void begin_with_markers()
	{
		if (lacks_parameter("markers"))
			GTEST_SKIP() << "this device cannot be told to ask for markers";
		markers.emplace("markers", "1");
		respond_and_begin(request(m_and_c));
		if (HasFatalFailure())
			return;
		ASSERT_TRUE(replied.markers()) << "the device does not ask for markers";
	}

	std::optional<Parameter> markers;
};

using Rfc5044_3 = Streams;
using Rfc5044_4_1 = Streams;
using Rfc5044_4_2 = Streams;
using Rfc5044_4_3 = Streams;
using Rfc5044_4_4 = Streams;
using Rfc5044_4_5 = Streams;
using Rfc5044_6 = Streams;
using Rfc5044_7_1_1 = Conformance;
using Rfc5044_7_2 = Streams;
using Rfc5044_8 = Streams;

/* --- 3: sizes of ULPDUs --- */

TEST_F(Rfc5044_3, UlpduOf64768OctetsIsTaken)
{
	Region large(b.pd(), 64768);
	auto data = pattern(64768 - Segment::untagged_header, 3);

	respond();
	ASSERT_EQ(end->post_recv(1, {large.sge()}), 0);
	peer->send(Segment::send(1, data));
	auto wc = end->wait_recv(1, patience())[0];
	EXPECT_COMPLETED(wc, 1, IBV_WC_RECV);
	EXPECT_EQ(wc.byte_len, data.size());
	EXPECT_EQ(differs(large.data(), data.data(), data.size()), "");
}

TEST_F(Rfc5044_3, UlpduSentIsOfAtMost64768Octets)
{
	Region large(b.pd(), 400000);
	std::optional<Parameter> largest;

	if (lacks_parameter("max_fpdu"))
		GTEST_SKIP() << "the FPDUs of this device cannot be made larger";
	try {
		largest.emplace("max_fpdu", "65535");
	} catch (const std::exception &) {
		largest.emplace("max_fpdu", "64768");
	}
	respond_and_begin();
	ASSERT_EQ(end->post(send_work(1, {large.sge()})), 0);
	std::size_t got = 0;
	for (bool last = false; !last;) {
		auto segment = peer->expect(Opcode::send);
		EXPECT_LE(peer->last_fpdu().ulpdu.size(), 64768u);
		got += segment.payload.size();
		last = segment.last;
	}
	EXPECT_EQ(got, large.size());
}

TEST_F(Rfc5044_3, UlpduBoundariesArePreserved)
{
	respond_and_begin();
	post_receives(8, 100);
	untouched = false;
	Bytes all;
	for (uint32_t i = 1; i <= 8; i++)
		append(all, peer->encode(Segment::send(i, pattern(i * 3, i))));
	peer->send_bytes(all);
	auto completions = end->wait_recv(8, patience());
	for (uint32_t i = 1; i <= 8; i++) {
		EXPECT_EQ(completions[i - 1].byte_len, i * 3);
		EXPECT_EQ(region_bytes((i - 1) * 100, i * 3), pattern(i * 3, i));
	}
}

/* --- 4.1: the FPDU --- */

TEST_F(Rfc5044_4_1, FpdusSentHaveTheFormat)
{
	respond_and_begin();
	device_sends(40, 1);
}

TEST_F(Rfc5044_4_1, FpdusOfEveryLengthAreTaken)
{
	respond_and_begin();
	device_receives(40, 1);
}

TEST_F(Rfc5044_4_1, PadSentIsZero)
{
	respond_and_begin();
	for (unsigned length = 0; length < 8; length++) {
		ASSERT_EQ(end->post(send_work(length, {region->sge(0, length)})), 0);
		peer->expect(Opcode::send);
		auto &fpdu = peer->last_fpdu();
		EXPECT_EQ(fpdu.pad.size(), (4 - (2 + fpdu.ulpdu.size()) % 4) % 4);
		EXPECT_TRUE(fpdu.pad_good());
		EXPECT_EQ(fpdu.wire_length % 4, 0u);
	}
}

TEST_F(Rfc5044_4_1, PadReceivedIsIgnored)
{
	FpduFaults faults;

	faults.pad = 0xff;
	respond_and_begin();
	untouched = false;
	for (unsigned length = 1; length <= 4; length++) {
		auto data = pattern(length, length);
		peer->send(Segment::write(region->rkey(), region->address(length * 16), data),
			   faults);
		expect_alive();
		EXPECT_EQ(region_bytes(length * 16, length), data);
	}
}

TEST_F(Rfc5044_4_1, CrcIsNotCheckedWhenNotInUse)
{
	if (lacks_parameter("crc"))
		GTEST_SKIP() << "this device cannot be told to do without CRC";
	Parameter crc("crc", "off");
	FpduFaults faults;

	faults.crc = FpduFaults::Crc::wrong;
	respond(request(0));
	ASSERT_FALSE(replied.crc());
	untouched = false;
	auto data = pattern(100);
	peer->send(Segment::write(region->rkey(), region->address(), data), faults);
	expect_alive();
	EXPECT_EQ(region_bytes(0, 100), data);
	faults.crc = FpduFaults::Crc::zero;
	peer->send(Segment::write(region->rkey(), region->address(100), data), faults);
	expect_alive();
	EXPECT_EQ(region_bytes(100, 100), data);
}

TEST_F(Rfc5044_4_1, CrcFieldIsThereEvenWhenNotInUse)
{
	if (lacks_parameter("crc"))
		GTEST_SKIP() << "this device cannot be told to do without CRC";
	Parameter crc("crc", "off");

	respond(request(0));
	ASSERT_FALSE(replied.crc());
	peer->send(Segment::write(region->rkey(), region->address()));
	/* A missing field would shift what follows. */
	for (unsigned length : {1, 2, 3, 4, 100}) {
		ASSERT_EQ(end->post(send_work(1, {region->sge(0, length)})), 0);
		EXPECT_EQ(peer->expect(Opcode::send).payload, region_bytes(0, length));
	}
}

/* --- 4.2, 4.3: markers --- */

TEST_F(Rfc5044_4_3, NoMarkersWhereNoneAreAskedFor)
{
	respond_and_begin();
	/* A marker would be found out by lengths and CRCs. */
	ASSERT_EQ(end->post(send_work(1, {region->sge(0, 5000)})), 0);
	EXPECT_EQ(peer->expect_message(Opcode::send).payload, region_bytes(0, 5000));
}

TEST_F(Rfc5044_4_3, MarkersAreSentWhereTheRequestAsks)
{
	respond_and_begin(request(m_and_c));
	device_sends(640, 4);
}

TEST_F(Rfc5044_4_3, MarkersAreSentWhereTheReplyAsks)
{
	accept_tcp();
	auto reply = reply_to(asked);
	reply.flags |= MpaFrame::m;
	answer(reply);
	end->event(RDMA_CM_EVENT_ESTABLISHED, patience());
	take_rtr();
	device_sends(640, 4);
}

TEST_F(Rfc5044_4_3, FirstOctetsOfTheStreamSentAreAMarker)
{
	respond_and_begin(request(m_and_c));
	ASSERT_EQ(end->post(send_work(1, {region->sge(0, 10)})), 0);
	auto marker = peer->socket().receive(4, patience());
	EXPECT_EQ(wire::hex(marker), "00000000");
}

TEST_F(Rfc5044_4_3, MarkersFallEverywhereAndArePointersToTheirFpdu)
{
	std::set<std::string> seen;

	respond_and_begin(request(m_and_c));
	for (unsigned i = 0; i < 400; i++) {
		ASSERT_EQ(end->post(send_work(i, {region->sge(0, 4 * (i % 37))})), 0);
		EXPECT_COMPLETED(end->wait_send(1, patience())[0], i, IBV_WC_SEND);
		peer->expect(Opcode::send);
		auto &fpdu = peer->last_fpdu();
		for (auto &marker : fpdu.markers) {
			EXPECT_TRUE(marker.good()) << marker.pointer << " " << marker.expected;
			auto from_end = fpdu.position + fpdu.wire_length - marker.position;
			seen.insert(marker.expected == 0   ? "between FPDUs"
				    : marker.expected < 20 ? "in the DDP header"
				    : from_end == 8        ? "before the CRC"
							   : "in the payload");
		}
	}
	EXPECT_EQ(seen, (std::set<std::string>{"between FPDUs", "in the DDP header",
					       "before the CRC", "in the payload"}));
}

TEST_F(Rfc5044_4_3, MarkersOfOneFpduAllPointToItsStart)
{
	std::size_t most = 0;

	respond_and_begin(request(m_and_c));
	ASSERT_EQ(end->post(send_work(1, {region->sge(0, 20000)})), 0);
	for (bool last = false; !last;) {
		last = peer->expect(Opcode::send).last;
		EXPECT_TRUE(peer->last_fpdu().markers_good());
		most = std::max(most, peer->last_fpdu().markers.size());
	}
	EXPECT_GE(most, 2u);
}

TEST_F(Rfc5044_4_3, ReadResponsesHaveMarkersToo)
{
	respond_and_begin(request(m_and_c));
	ReadRequest read{7, 0, 9000, region->rkey(), region->address()};
	peer->send(read.segment(1));
	EXPECT_EQ(peer->expect_message(Opcode::read_response).payload, region_bytes(0, 9000));
}

TEST_F(Rfc5044_4_3, MarkersAreTakenWhereTheReplyAsks)
{
	begin_with_markers();
	if (IsSkipped() || HasFatalFailure())
		return;
	device_receives(640, 4);
}

TEST_F(Rfc5044_4_3, MarkersAreTakenWhereTheRequestAsks)
{
	if (lacks_parameter("markers"))
		GTEST_SKIP() << "this device cannot be told to ask for markers";
	markers.emplace("markers", "1");
	initiate();
	ASSERT_FALSE(HasFatalFailure());
	ASSERT_TRUE(asked.markers());
	device_receives(640, 4);
}

TEST_F(Rfc5044_4_3, MarkersMayGoOneWayOnly)
{
	if (lacks_parameter("markers"))
		GTEST_SKIP() << "this device cannot be told to ask for markers";
	/* Only to the device, then only from it. */
	markers.emplace("markers", "1");
	respond_and_begin(request(MpaFrame::c));
	ASSERT_FALSE(HasFatalFailure());
	ASSERT_TRUE(replied.markers());
	device_receives(64, 4);
	device_sends(64, 4);
	markers.reset();
	peer.reset();
	next_request = 1;
	respond_and_begin(request(m_and_c));
	ASSERT_FALSE(HasFatalFailure());
	ASSERT_FALSE(replied.markers());
	device_receives(64, 4);
	device_sends(64, 4);
}

TEST_F(Rfc5044_4_3, MarkersInPiecesAreTaken)
{
	begin_with_markers();
	if (IsSkipped() || HasFatalFailure())
		return;
	untouched = false;
	auto data = pattern(1500, 9);
	peer->trickle(peer->encode(Segment::write(region->rkey(), region->address(64), data)), 3);
	expect_alive();
	EXPECT_EQ(region_bytes(64, data.size()), data);
}

TEST_F(Rfc5044_4_2, ReservedOctetsOfAMarkerAreIgnored)
{
	FpduFaults faults;

	faults.marker = [](unsigned, uint16_t &reserved, uint16_t &) { reserved = 0xffff; };
	begin_with_markers();
	if (IsSkipped() || HasFatalFailure())
		return;
	untouched = false;
	auto data = pattern(2000, 5);
	peer->send(Segment::write(region->rkey(), region->address(64), data), faults);
	expect_alive();
	EXPECT_EQ(region_bytes(64, data.size()), data);
}

TEST_F(Rfc5044_4_2, LowBitsOfThePointerAreIgnored)
{
	FpduFaults faults;

	faults.marker = [](unsigned, uint16_t &, uint16_t &pointer) { pointer |= 3; };
	begin_with_markers();
	if (IsSkipped() || HasFatalFailure())
		return;
	untouched = false;
	auto data = pattern(2000, 6);
	peer->send(Segment::write(region->rkey(), region->address(64), data), faults);
	expect_alive();
	EXPECT_EQ(region_bytes(64, data.size()), data);
}

TEST_F(Rfc5044_8, MarkerThatDisagreesIsTold)
{
	FpduFaults faults;

	/* The FPDU's CRC is right. */
	faults.marker = [](unsigned, uint16_t &, uint16_t &pointer) { pointer += 8; };
	begin_with_markers();
	if (IsSkipped() || HasFatalFailure())
		return;
	peer->send(Segment::write(region->rkey(), region->address(), pattern(1000)), faults);
	expect_no_headers(expect_terminate({0x2003}));
}

TEST_F(Rfc5044_4_4, MarkersAreInTheCrc)
{
	struct {
		/* Of a Write before it, none if 0; of the Write with the marker. */
		unsigned before, length;
	} cases[] = {{0, 1000}, {0, 472}, {468, 12}};

	/* In the ULPDU, in front of the CRC, in front of the length field. */
	for (auto &[before, length] : cases) {
		SCOPED_TRACE(length);
		markers.reset();
		peer.reset();
		end.reset();
		begin_with_markers();
		if (IsSkipped() || HasFatalFailure())
			return;
		untouched = false;
		if (before)
			peer->send(
				Segment::write(region->rkey(), region->address(), pattern(before)));
		std::size_t at = (512 - peer->position() % 512) % 512;
		auto bytes = peer->encode(
			Segment::write(region->rkey(), region->address(), pattern(length)));
		ASSERT_LT(at, bytes.size());
		EXPECT_EQ(before == 468, at == 0);
		EXPECT_EQ(length == 472, at == bytes.size() - 8);
		/* The first octet of the marker is reserved, so that only the CRC tells. */
		bytes[at] ^= 0x80;
		peer->send_bytes(bytes);
		expect_no_headers(expect_terminate({0x2002}));
	}
}

/* --- 4.4: CRC --- */

TEST_F(Rfc5044_4_4, CrcSentIsRight)
{
	/* The CRC of each FPDU is checked as it is received. */
	respond_and_begin();
	ASSERT_EQ(end->post(send_work(1, {region->sge(0, 10000)})), 0);
	for (bool last = false; !last;) {
		last = peer->expect(Opcode::send).last;
		EXPECT_TRUE(peer->last_fpdu().crc_good());
	}
}

TEST_F(Rfc5044_4_4, CrcIsTheDefault)
{
	accept_tcp();
	EXPECT_TRUE(asked.crc());
}

TEST_F(Rfc5044_4_4, WrongCrcIsAnInvalidFpdu)
{
	FpduFaults faults;

	faults.crc = FpduFaults::Crc::wrong;
	respond_and_begin();
	post_receives(2);
	peer->send(Segment::send(1, text("bad")), faults);
	expect_no_headers(expect_terminate({0x2002}));
	for (auto &wc : end->wait_recv(2, patience()))
		EXPECT_NE(wc.status, IBV_WC_SUCCESS);
}

TEST_F(Rfc5044_4_4, EachBitOfAnFpduIsInTheCrc)
{
	for (std::size_t bit : {16u, 23u, 24u, 31u, 40u, 100u, 143u, 160u, 8u * 30, 8u * 35 + 3}) {
		SCOPED_TRACE(bit);
		peer.reset();
		end.reset();
		respond_and_begin();
		ASSERT_FALSE(HasFatalFailure());
		auto bytes = peer->encode(
			Segment::write(region->rkey(), region->address(), pattern(16)));
		bytes[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
		peer->send_bytes(bytes);
		expect_terminate({0x2002});
	}
}

TEST_F(Rfc5044_4_4, CrcIsCheckedUntilTheConnectionEnds)
{
	FpduFaults faults;

	respond_and_begin();
	for (int i = 0; i < 50; i++)
		expect_alive();
	faults.crc = FpduFaults::Crc::wrong;
	peer->send(Segment::write(region->rkey(), region->address(), text("bad")), faults);
	expect_terminate({0x2002});
}

TEST_F(Rfc5044_7_1_1, CrcIsUsedIfOnlyTheResponderWantsIt)
{
	FpduFaults faults;

	respond(request(0));
	ASSERT_TRUE(replied.crc());
	expect_alive();
	EXPECT_TRUE(peer->last_fpdu().crc_good());
	faults.crc = FpduFaults::Crc::wrong;
	peer->send(Segment::write(region->rkey(), region->address(), text("bad")), faults);
	expect_terminate({0x2002});
}

TEST_F(Rfc5044_7_1_1, CrcIsUsedIfOnlyTheInitiatorWantsIt)
{
	if (lacks_parameter("crc"))
		GTEST_SKIP() << "this device cannot be told to do without CRC";
	Parameter crc("crc", "off");
	FpduFaults faults;

	respond(request(MpaFrame::c));
	expect_alive();
	EXPECT_TRUE(peer->last_fpdu().crc_good());
	faults.crc = FpduFaults::Crc::wrong;
	peer->send(Segment::write(region->rkey(), region->address(), text("bad")), faults);
	expect_terminate({0x2002});
}

TEST_F(Rfc5044_7_1_1, CrcIsUsedIfTheReplyWantsItAndTheDeviceDoesNot)
{
	if (lacks_parameter("crc"))
		GTEST_SKIP() << "this device cannot be told to do without CRC";
	Parameter crc("crc", "off");
	FpduFaults faults;

	accept_tcp();
	ASSERT_FALSE(asked.crc());
	auto reply = reply_to(asked);
	reply.flags |= MpaFrame::c;
	answer(reply);
	end->event(RDMA_CM_EVENT_ESTABLISHED, patience());
	take_rtr();
	EXPECT_TRUE(peer->last_fpdu().crc_good());
	expect_alive();
	faults.crc = FpduFaults::Crc::wrong;
	peer->send(Segment::write(region->rkey(), region->address(), text("bad")), faults);
	expect_terminate({0x2002});
}

TEST_F(Rfc5044_4_4, CrcIsOffIfNeitherSideWantsIt)
{
	if (lacks_parameter("crc"))
		GTEST_SKIP() << "this device cannot be told to do without CRC";
	Parameter crc("crc", "off");
	FpduFaults faults;

	accept_tcp();
	ASSERT_FALSE(asked.crc());
	answer(reply_to(asked));
	ASSERT_FALSE(replied.crc());
	end->event(RDMA_CM_EVENT_ESTABLISHED, patience());
	take_rtr();
	faults.crc = FpduFaults::Crc::wrong;
	untouched = false;
	peer->send(Segment::write(region->rkey(), region->address(), text("fine")), faults);
	expect_alive();
	EXPECT_EQ(region_bytes(0, 4), text("fine"));
}

TEST_F(Rfc5044_4_4, CrcPreferredIsAskedForAndNotInsistedOn)
{
	if (lacks_parameter("crc"))
		GTEST_SKIP() << "this device's CRC policy cannot be set";
	Parameter crc("crc", "preferred");

	accept_tcp();
	EXPECT_TRUE(asked.crc());
	peer.reset();
	respond(request(MpaFrame::c));
	EXPECT_TRUE(replied.crc());
	/* Without the peer's wish it is the device's to say: whatever that is holds then. */
	peer.reset();
	respond(request(0));
	FpduFaults faults;
	if (!peer->crc())
		faults.crc = FpduFaults::Crc::wrong;
	untouched = false;
	peer->send(Segment::write(region->rkey(), region->address(), text("fine")), faults);
	expect_alive();
	EXPECT_EQ(region_bytes(0, 4), text("fine"));
}

/* --- 4.5: sizes --- */

TEST_F(Rfc5044_4_5, FpdusFitTheSegmentOfTcp)
{
	for (unsigned mss : {1460u, 1004u, 537u, 538u, 539u}) {
		for (bool marked : {false, true}) {
			SCOPED_TRACE(testing::Message() << mss << (marked ? " markers" : ""));
			peer.reset();
			end.reset();
			connect(static_cast<int>(mss));
			respond_and_begin(request(marked ? m_and_c : MpaFrame::c));
			ASSERT_FALSE(HasFatalFailure());
			auto most = mulpdu(emss(mss), marked);
			ASSERT_EQ(end->post(send_work(1, {region->sge(0, 20000)})), 0);
			for (bool last = false; !last;) {
				last = peer->expect(Opcode::send).last;
				EXPECT_LE(peer->last_fpdu().ulpdu.size(), most);
				EXPECT_LE(peer->last_fpdu().wire_length, emss(mss));
				/* "as large as possible" */
				if (!last) {
					EXPECT_GE(peer->last_fpdu().ulpdu.size(), most - 64);
				}
			}
		}
	}
}

/* What a ziw says of itself in a Write without payload: kernel/proto/wire.h. */
Segment hello(uint32_t kind, uint64_t largest)
{
	return Segment::write(0x7a697700 | kind, uint64_t(0x46504455) << 32 | largest);
}

TEST_F(Rfc5044_4_5, FpdusOverTheSegmentAreForAPeerThatSaysItTakesThem)
{
	if (!b.is_ziw())
		GTEST_SKIP() << "only asked of ziw";
	for (unsigned largest : {1000u, 6000u, 30000u, 64768u, 0xffffffffu}) {
		for (bool marked : {false, true}) {
			SCOPED_TRACE(testing::Message() << largest << (marked ? " markers" : ""));
			auto ask = enhanced_request(
				{.peer_to_peer = true, .rtr_write = true, .ird = 1, .ord = 1});

			if (marked)
				ask.flags |= MpaFrame::m;
			peer.reset();
			end.reset();
			respond(ask);
			ASSERT_FALSE(HasFatalFailure());
			peer->send(hello(1, largest));
			auto answer = peer->expect(Opcode::write);
			EXPECT_EQ(answer.stag, 0x7a697702u);
			EXPECT_EQ(answer.to, uint64_t(0x46504455) << 32 | 64768);
			EXPECT_TRUE(answer.payload.empty());
			ASSERT_EQ(end->post(send_work(1, {region->sge(0, size)})), 0);
			std::size_t most = 0;
			for (bool last = false; !last;) {
				last = peer->expect(Opcode::send).last;
				most = std::max(most, peer->last_fpdu().ulpdu.size());
			}
			if (largest < 4096) {
				EXPECT_LE(most, 1460u);
			} else {
				EXPECT_LE(most, largest);
				EXPECT_GE(most, 4096u);
			}
		}
	}
}

TEST_F(Rfc5044_4_5, FpdusOverTheSegmentAreForAPeerThatAnswersSo)
{
	if (!b.is_ziw())
		GTEST_SKIP() << "only asked of ziw";
	initiate();
	peer->send(hello(2, 30000));
	expect_alive();
	ASSERT_EQ(end->post(send_work(1, {region->sge(0, size)})), 0);
	std::size_t most = 0;
	for (bool last = false; !last;) {
		last = peer->expect(Opcode::send).last;
		most = std::max(most, peer->last_fpdu().ulpdu.size());
	}
	EXPECT_GE(most, 4096u);
	EXPECT_LE(most, 30000u);
}

TEST_F(Rfc5044_4_5, WritesThatAreAlmostLikeThatChangeNothing)
{
	const Segment others[] = {hello(2, 30000), hello(3, 30000), hello(0, 30000),
				  Segment::write(0x7a697701, 30000),
				  Segment::write(1, uint64_t(0x46504455) << 32 | 30000)};

	if (!b.is_ziw())
		GTEST_SKIP() << "only asked of ziw";
	for (const auto &other : others) {
		peer.reset();
		end.reset();
		respond(enhanced_request(
			{.peer_to_peer = true, .rtr_write = true, .ird = 1, .ord = 1}));
		ASSERT_FALSE(HasFatalFailure());
		peer->send(other);
		/* Not the first FPDU any more. */
		peer->send(hello(1, 30000));
		ASSERT_EQ(end->post(send_work(1, {region->sge(0, 20000)})), 0);
		for (bool last = false; !last;) {
			last = peer->expect(Opcode::send).last;
			EXPECT_LE(peer->last_fpdu().wire_length, 1460u);
		}
	}
}

TEST_F(Rfc5044_4_5, UlpdusAreNotShrunkBelow128Octets)
{
	connect(100);
	respond_and_begin();
	ASSERT_EQ(end->post(send_work(1, {region->sge(0, 1000)})), 0);
	for (bool last = false; !last;) {
		last = peer->expect(Opcode::send).last;
		if (!last) {
			EXPECT_GE(peer->last_fpdu().ulpdu.size(), 124u);
		}
		EXPECT_LE(peer->last_fpdu().ulpdu.size(), 128u);
	}
}

/* --- 5.2, 6: finding FPDUs --- */

TEST_F(Rfc5044_6, FpdusMayBeCutAnywhereByTcp)
{
	respond_and_begin();
	untouched = false;
	auto data = pattern(40, 8);
	std::size_t length = peer->encode(Segment::write(0, 0, data)).size();
	/* That one was never sent: without markers no position is lost. */
	for (std::size_t cut = 1; cut < length; cut += 3) {
		region->clear();
		auto bytes =
			peer->encode(Segment::write(region->rkey(), region->address(64), data));
		peer->send_bytes(wire::View(bytes).first(cut));
		std::this_thread::sleep_for(milliseconds(2));
		peer->send_bytes(wire::View(bytes).subspan(cut));
		expect_alive();
		EXPECT_EQ(region_bytes(64, data.size()), data) << "cut at " << cut;
	}
}

TEST_F(Rfc5044_6, FpdusMayComeOctetByOctet)
{
	respond_and_begin();
	ASSERT_EQ(end->post_recv(1, {region->sge()}), 0);
	untouched = false;
	peer->trickle(peer->encode(Segment::send(1, text("byte by byte"))));
	EXPECT_COMPLETED(end->wait_recv(1, patience())[0], 1, IBV_WC_RECV);
	EXPECT_EQ(region_bytes(0, 12), text("byte by byte"));
}

TEST_F(Rfc5044_6, ManyFpdusMayComeInOneSegment)
{
	Bytes all;

	respond_and_begin();
	post_receives(20, 100);
	untouched = false;
	for (uint32_t i = 1; i <= 20; i++)
		append(all, peer->encode(Segment::send(i, pattern(i, i))));
	peer->send_bytes(all);
	auto completions = end->wait_recv(20, patience());
	for (uint32_t i = 0; i < 20; i++)
		EXPECT_COMPLETED(completions[i], i, IBV_WC_RECV);
}

TEST_F(Rfc5044_6, NothingIsDoneBeforeTheWholeFpduIsThere)
{
	respond_and_begin();
	auto bytes = peer->encode(Segment::write(region->rkey(), region->address(), pattern(1000)));
	peer->send_bytes(wire::View(bytes).first(bytes.size() - 1));
	std::this_thread::sleep_for(moment);
	EXPECT_EQ(region->touched(), "");
	untouched = false;
	peer->send_bytes(wire::View(bytes).last(1));
	expect_alive();
	EXPECT_EQ(region_bytes(0, 1000), pattern(1000));
}

TEST_F(Rfc5044_6, CrcIsVerifiedBeforeAnythingIsPlaced)
{
	FpduFaults faults;

	faults.crc = FpduFaults::Crc::wrong;
	respond_and_begin();
	peer->send(Segment::write(region->rkey(), region->address(), pattern(20000)), faults);
	expect_terminate({0x2002});
	/* TearDown sees that the region is untouched. */
}

/* --- 7.2, 8: ends --- */

TEST_F(Rfc5044_7_2, GracefulCloseIsToldToTheUlp)
{
	respond_and_begin();
	expect_alive();
	end->event(RDMA_CM_EVENT_ESTABLISHED, patience());
	peer->finish();
	end->event(RDMA_CM_EVENT_DISCONNECTED, patience());
	peer->expect_end();
}

TEST_F(Rfc5044_8, LostConnectionIsToldToTheUlp)
{
	respond_and_begin();
	post_receives(2);
	expect_alive();
	end->event(RDMA_CM_EVENT_ESTABLISHED, patience());
	peer->reset();
	end->event(RDMA_CM_EVENT_DISCONNECTED, patience());
	for (auto &wc : end->wait_recv(2, patience()))
		EXPECT_NE(wc.status, IBV_WC_SUCCESS);
	expect_qp_error();
}

TEST_F(Rfc5044_8, EndWithinAnFpduIsAnError)
{
	respond_and_begin();
	expect_alive();
	auto bytes = peer->encode(Segment::write(region->rkey(), region->address(), text("never")));
	bytes.pop_back();
	peer->send_bytes(bytes);
	peer->finish();
	expect_closed();
}

TEST_F(Rfc5044_8, NothingIsDeliveredAfterAnInvalidFpdu)
{
	FpduFaults faults;
	Bytes all;

	faults.crc = FpduFaults::Crc::wrong;
	respond_and_begin();
	post_receives(3);
	all = peer->encode(Segment::send(1, text("bad")), faults);
	append(all, peer->encode(Segment::send(1, text("good"))));
	append(all,
	       peer->encode(Segment::write(region->rkey(), region->address(2000), text("good"))));
	peer->send_bytes(all);
	expect_terminate({0x2002});
	for (auto &wc : end->wait_recv(3, patience()))
		EXPECT_NE(wc.status, IBV_WC_SUCCESS);
}

TEST_F(Rfc5044_8, InvalidFpduDoesNotCloseBeforeItIsTold)
{
	FpduFaults faults;

	faults.crc = FpduFaults::Crc::wrong;
	respond_and_begin();
	peer->send(Segment::write(region->rkey(), region->address(), text("bad")), faults);
	/* Throws if the connection ends without. */
	peer->expect_terminate();
	peer->finish();
	EXPECT_EQ(peer->expect_end(), End::fin) << "reset, so that the Terminate may be lost";
}

} // namespace
