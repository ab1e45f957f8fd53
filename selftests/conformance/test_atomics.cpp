// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* RFC 7306: atomic operations. */
#include <atomic>
#include <thread>

#include "extensions.h"

namespace {

using Rfc7306_1_1 = Extensions;
using Rfc7306_4_1 = Extensions;
using Rfc7306_5_1_1 = Extensions;
using Rfc7306_5_1_2 = Extensions;
using Rfc7306_5_2 = Extensions;
using Rfc7306_5_2_1 = Extensions;
using Rfc7306_5_2_2 = Extensions;
using Rfc7306_5_3 = Extensions;
using Rfc7306_5_4 = Extensions;
using Rfc7306_7 = Extensions;
using Rfc7306_8_2 = Extensions;

/* --- 5.1.1: FetchAdd --- */

TEST_F(Rfc7306_5_1_1, FetchAddAddsAndReturnsTheOriginal)
{
	NEEDS_ATOMICS();
	respond_and_begin();
	word() = 1000;
	EXPECT_EQ(perform(add(7)).original, 1000u);
	EXPECT_EQ(perform(add(0)).original, 1007u);
	EXPECT_EQ(perform(add(all_ones)).original, 1007u);
	EXPECT_EQ(word(), 1006u);
}

TEST_F(Rfc7306_5_1_1, MaskOfZeroIsOneFieldOf64Bits)
{
	NEEDS_ATOMICS();
	respond_and_begin();
	word() = 0x00000000ffffffff;
	perform(add(1));
	EXPECT_EQ(word(), 0x0000000100000000u);
	word() = all_ones;
	perform(add(1));
	EXPECT_EQ(word(), 0u);
}

TEST_F(Rfc7306_5_1_1, MaskStopsCarries)
{
	NEEDS_ATOMICS();
	respond_and_begin();
	uint64_t masks[] = {0x8000000080000000, 0x8000800080008000, 0x8080808080808080, all_ones, 1,
			    0x8000000000000000, 0x0000000000000080};
	for (auto mask : masks) {
		for (int i = 0; i < 8; i++) {
			uint64_t original = random(), data = random();
			word() = original;
			EXPECT_EQ(perform(add(data, mask)).original, original);
			EXPECT_EQ(word(), wire::fetch_add(original, data, mask))
				<< std::hex << original << " + " << data << " mask " << mask;
		}
	}
}

TEST_F(Rfc7306_5_1_1, UnalignedFetchAddIsRefused)
{
	NEEDS_ATOMICS();
	for (uint64_t offset : {1, 2, 4, 7}) {
		SCOPED_TRACE(offset);
		auto request = add(1);
		request.to += offset;
		peer.reset();
		end.reset();
		refuses_atomic(request, {0x0207});
	}
}

/* --- 5.1.2: CmpSwap --- */

TEST_F(Rfc7306_5_1_2, SwapsIfEqual)
{
	NEEDS_ATOMICS();
	respond_and_begin();
	word() = 0x1122334455667788;
	EXPECT_EQ(perform(swap(0xaabbccdd, all_ones, 0x1122334455667788, all_ones)).original,
		  0x1122334455667788u);
	EXPECT_EQ(word(), 0xaabbccddu);
}

TEST_F(Rfc7306_5_1_2, LeavesAloneIfNot)
{
	NEEDS_ATOMICS();
	respond_and_begin();
	word() = 0x1122334455667788;
	EXPECT_EQ(perform(swap(0xaabbccdd, all_ones, 0x1122334455667789, all_ones)).original,
		  0x1122334455667788u);
	EXPECT_EQ(word(), 0x1122334455667788u);
}

TEST_F(Rfc7306_5_1_2, MasksSelectTheBits)
{
	NEEDS_ATOMICS();
	respond_and_begin();
	for (int i = 0; i < 60; i++) {
		uint64_t original = random(), data = random(), mask = random();
		uint64_t compare_mask = i % 3 ? random() : 0;
		/* Equal in what is compared, in two of three. */
		uint64_t compare = i % 3 == 1 ? original ^ compare_mask
					      : original ^ (random() & ~compare_mask);
		word() = original;
		EXPECT_EQ(perform(swap(data, mask, compare, compare_mask)).original, original);
		EXPECT_EQ(word(), wire::cmp_swap(original, data, mask, compare, compare_mask));
	}
}

TEST_F(Rfc7306_5_1_2, UnalignedCmpSwapIsRefused)
{
	NEEDS_ATOMICS();
	for (uint64_t offset : {1, 4, 7}) {
		SCOPED_TRACE(offset);
		auto request = swap(1, all_ones, 0, 0);
		request.to += offset;
		peer.reset();
		end.reset();
		refuses_atomic(request, {0x0207});
	}
}

/* --- 5.2: the messages --- */

TEST_F(Rfc7306_5_2, ResponseSentHasTheFormat)
{
	NEEDS_ATOMICS();
	respond_and_begin();
	for (uint32_t i = 1; i <= 5; i++) {
		auto request = add(1);
		peer->send(request.segment(i));
		auto segment = peer->expect(Opcode::atomic_response);
		EXPECT_FALSE(segment.tagged);
		EXPECT_EQ(segment.qn, 3u);
		EXPECT_EQ(segment.msn, i);
		EXPECT_EQ(segment.mo, 0u);
		EXPECT_TRUE(segment.last);
		ASSERT_EQ(segment.payload.size(), AtomicResponse::length);
		EXPECT_EQ(AtomicResponse::decode(segment.payload).id, request.id);
	}
}

TEST_F(Rfc7306_5_2_2, RequestIdentifierIsReflected)
{
	NEEDS_ATOMICS();
	respond_and_begin();
	for (uint32_t id : {0u, 1u, 0x80000000u, 0xffffffffu}) {
		auto request = add(1);
		request.id = id;
		EXPECT_EQ(perform(request).id, id);
	}
}

TEST_F(Rfc7306_5_2_1, ReservedBitsAndUnusedFieldsAreIgnored)
{
	NEEDS_ATOMICS();
	respond_and_begin();
	auto request = add(5);
	request.reserved = 0x0fffffff;
	request.compare = 0x1234;
	request.compare_mask = 0x5678;
	word() = 10;
	EXPECT_EQ(perform(request).original, 10u);
	EXPECT_EQ(word(), 15u);
}

TEST_F(Rfc7306_4_1, InvalidateStagIsIgnored)
{
	NEEDS_ATOMICS();
	respond_and_begin();
	auto segment = add(1).segment(1);
	segment.invalidate = words->rkey();
	peer->send(segment);
	peer->expect(Opcode::atomic_response);
	next_request = 2;
	perform(add(1));
}

TEST_F(Rfc7306_5_2_1, UnknownOperationIsRefused)
{
	NEEDS_ATOMICS();
	for (uint8_t operation : {1, 3, 4, 8, 15}) {
		SCOPED_TRACE(int(operation));
		auto request = add(1);
		request.operation = operation;
		peer.reset();
		end.reset();
		refuses_atomic(request, {0x0206, 0x0207, 0x02ff});
	}
}

TEST_F(Rfc7306_5_2_1, RequestIsNotDeliveredToTheUlp)
{
	ibv_wc wc;

	NEEDS_ATOMICS();
	respond_and_begin();
	post_receives(2);
	perform(add(1));
	EXPECT_EQ(ibv_poll_cq(end->recv_cq(), 1, &wc), 0);
	EXPECT_EQ(ibv_poll_cq(end->send_cq(), 1, &wc), 0);
}

TEST_F(Rfc7306_5_2_1, RequestsAreProcessedInTheirOrder)
{
	Bytes all;
	std::vector<uint32_t> ids;

	NEEDS_ATOMICS();
	respond_and_begin();
	word() = 0;
	for (uint32_t i = 1; i <= 8; i++) {
		auto request = add(1);
		ids.push_back(request.id);
		append(all, peer->encode(request.segment(i)));
	}
	peer->send_bytes(all);
	for (uint32_t i = 0; i < 8; i++) {
		auto response =
			AtomicResponse::decode(peer->expect(Opcode::atomic_response).payload);
		EXPECT_EQ(response.id, ids[i]);
		EXPECT_EQ(response.original, i);
	}
}

TEST_F(Rfc7306_5_2, RequestsShareTheQueueOfReads)
{
	NEEDS_ATOMICS();
	respond_and_begin();
	/* One sequence of MSNs on queue 1 for both. */
	for (int i = 0; i < 4; i++) {
		expect_alive();
		perform(add(1));
	}
}

TEST_F(Rfc7306_5_2_2, QueueHoldsReadsAndAtomicsOfTheIrd)
{
	NEEDS_ATOMICS();
	Region large(b.pd(), 1 << 20);
	ConnectParameters parameters;
	Bytes all;

	parameters.responder_resources = parameters.initiator_depth = 4;
	respond_and_begin(enhanced_request({.ird = 4, .ord = 4}), parameters);
	ASSERT_FALSE(HasFatalFailure());
	ASSERT_GE(replied.enhanced->ird, 4);
	ReadRequest read{9, 0, 1 << 20, large.rkey(), large.address()};
	all = peer->encode(read.segment(1));
	for (uint32_t i = 2; i <= 4; i++)
		append(all, peer->encode(add(1).segment(i)));
	peer->send_bytes(all);
	peer->expect_message(Opcode::read_response);
	for (uint32_t i = 2; i <= 4; i++)
		EXPECT_EQ(peer->expect(Opcode::atomic_response).msn, i - 1);
}

TEST_F(Rfc7306_5_2_1, RequestSentHasTheFormat)
{
	NEEDS_ATOMICS();
	respond_and_begin();
	auto request = requested(IBV_WR_ATOMIC_FETCH_AND_ADD, 0x1122334455667788);
	EXPECT_EQ(msn, 1u);
	EXPECT_EQ(request.reserved, 0u);
	EXPECT_EQ(request.operation, AtomicRequest::fetch_add);
	EXPECT_EQ(request.stag, 0xfedcba98u);
	EXPECT_EQ(request.to, 0x123456789abcdef8u);
	EXPECT_EQ(request.data, 0x1122334455667788u);
	EXPECT_EQ(request.mask, 0u) << "verbs add 64 bits";
	EXPECT_EQ(request.compare, 0u);
	EXPECT_EQ(request.compare_mask, all_ones);
	untouched = false;
	peer->send(AtomicResponse{request.id, 5}.segment(1));
	EXPECT_COMPLETED(end->wait_send(1, patience())[0], 1, IBV_WC_FETCH_ADD);

	request = requested(IBV_WR_ATOMIC_CMP_AND_SWP, 0x1234, 0x5678);
	EXPECT_EQ(msn, 2u);
	EXPECT_EQ(request.operation, AtomicRequest::cmp_swap);
	EXPECT_EQ(request.data, 0x5678u);
	EXPECT_EQ(request.mask, all_ones);
	EXPECT_EQ(request.compare, 0x1234u);
	EXPECT_EQ(request.compare_mask, all_ones);
	peer->send(AtomicResponse{request.id, 5}.segment(2));
	EXPECT_COMPLETED(end->wait_send(1, patience())[0], 1, IBV_WC_COMP_SWAP);
}

TEST_F(Rfc7306_5_2_1, RequestsAreSentInTheOrderOfTheirSubmission)
{
	NEEDS_ATOMICS();
	respond_and_begin();
	for (uint64_t i = 0; i < 6; i++)
		ASSERT_EQ(end->post(i % 2 ? read_work(i, {region->sge(8 * i, 8)}, 8 * i, 1)
					  : atomic_work(IBV_WR_ATOMIC_FETCH_AND_ADD, i,
							region->sge(8 * i, 8), 8 * i, 1, i)),
			  0);
	untouched = false;
	for (uint32_t i = 0; i < 6; i++) {
		auto segment = peer->expect(i % 2 ? Opcode::read_request : Opcode::atomic_request);
		EXPECT_EQ(segment.msn, i + 1);
		if (i % 2) {
			auto read = ReadRequest::decode(segment.payload);
			peer->send(Segment::read_response(read.sink_stag, read.sink_to,
							  pattern(8, i)));
		} else {
			auto request = AtomicRequest::decode(segment.payload);
			EXPECT_EQ(request.data, i);
			peer->send(AtomicResponse{request.id, i}.segment(i / 2 + 1));
		}
	}
	auto completions = end->wait_send(6, patience());
	for (uint64_t i = 0; i < 6; i++)
		EXPECT_EQ(completions[i].wr_id, i);
}

TEST_F(Rfc7306_5_2_2, ResponseIsDeliveredToTheUlp)
{
	NEEDS_ATOMICS();
	respond_and_begin();
	auto request = requested(IBV_WR_ATOMIC_FETCH_AND_ADD, 1);
	untouched = false;
	peer->send(AtomicResponse{request.id, 0x0102030405060708}.segment(1));
	auto wc = end->wait_send(1, patience())[0];
	EXPECT_COMPLETED(wc, 1, IBV_WC_FETCH_ADD);
	uint64_t value;
	std::memcpy(&value, region->data(), 8);
	EXPECT_EQ(value, 0x0102030405060708u);
	EXPECT_EQ(region_bytes(8, 8), Bytes(8, region->data()[100]));
}

TEST_F(Rfc7306_5_2_2, InvalidResponseIsAnError)
{
	NEEDS_ATOMICS();
	for (int kind = 0; kind < 6; kind++) {
		SCOPED_TRACE(kind);
		peer.reset();
		end.reset();
		respond_and_begin();
		ASSERT_FALSE(HasFatalFailure());
		auto request = requested(IBV_WR_ATOMIC_FETCH_AND_ADD, 1);
		auto bad = AtomicResponse{request.id, 5}.segment(1);
		switch (kind) {
		case 0:
			bad = AtomicResponse{request.id ^ 1, 5}.segment(1);
			break;
		case 1:
			bad.msn = 2;
			break;
		case 2:
			bad.payload.resize(11);
			break;
		case 3:
			bad.payload.resize(13);
			break;
		case 4:
			bad.qn = 0;
			break;
		default:
			bad.mo = 4;
		}
		peer->send(bad);
		peer->expect_terminate();
		peer->finish();
		EXPECT_NE(end->wait_send(1, patience())[0].status, IBV_WC_SUCCESS);
		expect_closed();
	}
}

TEST_F(Rfc7306_5_2_2, ResponseToNothingIsAnError)
{
	respond_and_begin();
	post_receives(4);
	peer->send(AtomicResponse{1, 5}.segment(1));
	/* From who has no atomics, too: it is an unexpected opcode, or an unknown queue. */
	expect_terminate({0x0206, 0x1201, 0x1202, 0x1203});
}

/* --- 5, 5.3, 5.4: atomicity and order --- */

TEST_F(Rfc7306_5_3, StreamsDoNotDisturbEachOther)
{
	NEEDS_ATOMICS();
	constexpr uint64_t count = 200;
	std::vector<std::unique_ptr<Endpoint>> ends;
	std::vector<Peer> peers;

	word() = 0;
	for (int i = 0; i < 4; i++) {
		peer.reset();
		respond_and_begin();
		ASSERT_FALSE(HasFatalFailure());
		ends.push_back(std::move(end));
		peers.push_back(std::move(*peer));
	}
	peer.reset();
	std::vector<std::thread> threads;
	std::vector<std::string> failed(peers.size());
	std::atomic<uint64_t> sum = 0;
	for (std::size_t i = 0; i < peers.size(); i++)
		threads.emplace_back([&, i] {
			AtomicRequest request = add(3);
			try {
				for (uint32_t n = 1; n <= count; n++) {
					peers[i].send(request.segment(n));
					auto segment = peers[i].expect(Opcode::atomic_response);
					sum += AtomicResponse::decode(segment.payload).original;
				}
			} catch (const std::exception &e) {
				failed[i] = e.what();
			}
		});
	for (auto &thread : threads)
		thread.join();
	for (auto &text : failed)
		EXPECT_EQ(text, "");
	/* Each value was seen once. */
	uint64_t total = count * peers.size();
	EXPECT_EQ(word(), 3 * total);
	EXPECT_EQ(sum, 3 * total * (total - 1) / 2);
}

TEST_F(Rfc7306_5_4, AtomicIsCompleteOnlyWithItsResponse)
{
	ibv_wc wc;

	NEEDS_ATOMICS();
	respond_and_begin();
	auto request = requested(IBV_WR_ATOMIC_CMP_AND_SWP, 1, 2);
	std::this_thread::sleep_for(moment);
	EXPECT_EQ(ibv_poll_cq(end->send_cq(), 1, &wc), 0);
	EXPECT_EQ(region->touched(), "");
	untouched = false;
	peer->send(AtomicResponse{request.id, 1}.segment(1));
	EXPECT_COMPLETED(end->wait_send(1, patience())[0], 1, IBV_WC_COMP_SWAP);
}

TEST_F(Rfc7306_5_4, ResponsesOfReadsAndAtomicsAreInOrder)
{
	Bytes all;

	NEEDS_ATOMICS();
	respond_and_begin();
	for (uint32_t i = 1; i <= 6; i++) {
		ReadRequest read{i, 0, 5000, region->rkey(), region->address()};
		append(all, peer->encode(i % 2 ? read.segment(i) : add(1).segment(i)));
	}
	peer->send_bytes(all);
	for (uint32_t i = 1; i <= 6; i++) {
		if (i % 2)
			EXPECT_EQ(peer->expect_message(Opcode::read_response).stag, i);
		else
			EXPECT_EQ(peer->expect(Opcode::atomic_response).msn, i / 2);
	}
}

TEST_F(Rfc7306_5_4, AtomicSeesTheWritesBeforeIt)
{
	NEEDS_ATOMICS();
	respond_and_begin();
	for (uint64_t i = 1; i <= 20; i++) {
		Bytes value(8);
		uint64_t number = i * 1000;
		std::memcpy(value.data(), &number, 8);
		auto request = add(i);
		auto all = peer->encode(Segment::write(words->rkey(), words->address(), value));
		append(all, peer->encode(request.segment(next_request++)));
		peer->send_bytes(all);
		EXPECT_EQ(AtomicResponse::decode(peer->expect(Opcode::atomic_response).payload)
				  .original,
			  number);
		EXPECT_EQ(word(), number + i);
	}
}

TEST_F(Rfc7306_5_4, ReadSeesTheAtomicsBeforeIt)
{
	NEEDS_ATOMICS();
	respond_and_begin();
	word() = 0;
	for (uint64_t i = 1; i <= 20; i++) {
		auto all = peer->encode(add(1).segment(next_request++));
		ReadRequest read{1, 0, 8, words->rkey(), words->address()};
		append(all, peer->encode(read.segment(next_request++)));
		peer->send_bytes(all);
		peer->expect(Opcode::atomic_response);
		uint64_t value;
		auto got = peer->expect(Opcode::read_response).payload;
		ASSERT_EQ(got.size(), 8u);
		std::memcpy(&value, got.data(), 8);
		EXPECT_EQ(value, i);
	}
}

TEST_F(Rfc7306_5_2, AtomicsOutstandingAreNotMoreThanNegotiated)
{
	NEEDS_ATOMICS();
	respond_and_begin(enhanced_request({.ird = 3, .ord = 1}));
	ASSERT_FALSE(HasFatalFailure());
	for (uint64_t i = 0; i < 10; i++)
		ASSERT_EQ(end->post(i % 2 ? read_work(i, {region->sge(8 * i, 8)}, 8 * i, 1)
					  : atomic_work(IBV_WR_ATOMIC_FETCH_AND_ADD, i,
							region->sge(8 * i, 8), 8 * i, 1, i)),
			  0);
	std::size_t count = 0;
	while (peer->next(moment))
		count++;
	EXPECT_EQ(count, std::min<std::size_t>(3, replied.enhanced->ord));
}

/* --- 7: order between operations --- */

TEST_F(Rfc7306_7, OperationsAreCompletedInOrder)
{
	ibv_wc wc;

	NEEDS_ATOMICS();
	respond_and_begin();
	auto request = requested(IBV_WR_ATOMIC_FETCH_AND_ADD, 1);
	ASSERT_EQ(end->post(send_work(2, {region->sge(0, 10)})), 0);
	ASSERT_EQ(end->post(with_immediate(write_work(3, {region->sge(0, 10)}, 5, 6), 7)), 0);
	peer->expect(Opcode::send);
	peer->expect(Opcode::write);
	peer->expect(Opcode::immediate);
	std::this_thread::sleep_for(moment);
	EXPECT_EQ(ibv_poll_cq(end->send_cq(), 1, &wc), 0) << "overtook an atomic";
	untouched = false;
	peer->send(AtomicResponse{request.id, 1}.segment(1));
	auto completions = end->wait_send(3, patience());
	for (uint64_t i = 0; i < 3; i++)
		EXPECT_EQ(completions[i].wr_id, i + 1);
}

/* --- 8: errors --- */

TEST_F(Rfc7306_8_2, AtomicStagMustBeValid)
{
	NEEDS_ATOMICS();
	auto request = add(1);
	request.stag ^= 0xff00;
	refuses_atomic(request, {0x0100});
}

TEST_F(Rfc7306_8_2, AtomicStagMustBeAssociated)
{
	NEEDS_ATOMICS();
	verbs::Pd other(verbs::check(ibv_alloc_pd(b.context()), "ibv_alloc_pd"));
	Region theirs(other.get(), 4096, atomic_rights);
	auto request = add(1);
	request.stag = theirs.rkey();
	request.to = theirs.address();
	refuses_atomic(request, {0x0103});
	EXPECT_EQ(theirs.touched(), "");
}

TEST_F(Rfc7306_8_2, AtomicNeedsTheRight)
{
	NEEDS_ATOMICS();
	Region plain(b.pd(), 4096);
	auto request = add(1);
	request.stag = plain.rkey();
	request.to = plain.address();
	refuses_atomic(request, {0x0102});
	EXPECT_EQ(plain.touched(), "");
}

TEST_F(Rfc7306_8_2, AtomicMustBeInTheBuffer)
{
	NEEDS_ATOMICS();
	for (auto to : {words->address() - 8, words->address(4096), uint64_t(0)}) {
		SCOPED_TRACE(to);
		auto request = add(1);
		request.to = to;
		peer.reset();
		end.reset();
		refuses_atomic(request, {0x0101});
	}
}

TEST_F(Rfc7306_8_2, AtomicRequestMustHaveItsWholeHeader)
{
	NEEDS_ATOMICS();
	for (std::size_t length : {0, 51, 53}) {
		SCOPED_TRACE(length);
		auto bad = add(1).segment(1);
		bad.payload.resize(length);
		peer.reset();
		end.reset();
		refuses(bad, {0x0206, 0x0207, 0x02ff, 0x1205}, About::anything);
	}
}

TEST_F(Rfc7306_8_2, VersionsMustBeOne)
{
	for (auto &good : {immediate(1, 1), AtomicRequest{}.segment(1)}) {
		SCOPED_TRACE(wire::describe(good));
		auto bad = good;
		bad.rdmap_version = 0;
		peer.reset();
		end.reset();
		refuses(bad, {0x0205});
		bad = good;
		bad.ddp_version = 0;
		peer.reset();
		end.reset();
		refuses(bad, {0x1206});
	}
}

/* --- 1.1: a peer without the extensions --- */

TEST_F(Rfc7306_1_1, PeerWithoutAtomicsIsACleanError)
{
	NEEDS_ATOMICS();
	respond_and_begin();
	expect_alive();
	ASSERT_EQ(
		end->post(atomic_work(IBV_WR_ATOMIC_FETCH_AND_ADD, 1, region->sge(0, 8), 0, 1, 0)),
		0);
	auto request = peer->expect(Opcode::atomic_request);
	Terminate terminate(0x0206);
	terminate.m = terminate.d = true;
	terminate.segment_length = static_cast<uint16_t>(request.encode().size());
	terminate.ddp_header = request.header();
	peer->send(terminate.segment());
	auto wc = end->wait_send(1, patience())[0];
	EXPECT_NE(wc.status, IBV_WC_SUCCESS);
	EXPECT_NE(wc.status, IBV_WC_WR_FLUSH_ERR) << "it was this one that failed";
	expect_closed();
}

TEST_F(Rfc7306_1_1, DeviceWithoutAtomicsSaysSo)
{
	/* An FetchAdd of zero finds out without harm. */
	respond_and_begin();
	AtomicRequest request;
	request.stag = words ? words->rkey() : region->rkey();
	request.to = words ? words->address() : region->address();
	peer->send(request.segment(1));
	auto answer = peer->next();
	ASSERT_TRUE(answer) << "no answer";
	if (answer->opcode == Opcode::terminate) {
		EXPECT_TRUE(lacks_atomics());
		EXPECT_EQ(Terminate::decode(answer->payload).code >> 8, 0x02);
		return;
	}
	EXPECT_EQ(answer->opcode, Opcode::atomic_response);
	EXPECT_FALSE(lacks_atomics());
}

} // namespace
