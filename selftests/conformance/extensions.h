/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What the cases of RFC 7306 have in common. */
#pragma once

#include <arpa/inet.h>

#include "device.h"

inline constexpr int atomic_rights = Region::all | IBV_ACCESS_REMOTE_ATOMIC;
inline constexpr uint64_t all_ones = UINT64_MAX;

inline Work atomic_work(ibv_wr_opcode opcode, uint64_t id, ibv_sge sge, uint64_t address,
			uint32_t rkey, uint64_t compare_add, uint64_t swap = 0)
{
	auto work = read_work(id, {sge}, address, rkey);

	work.wr.opcode = opcode;
	work.wr.wr.atomic.remote_addr = address;
	work.wr.wr.atomic.rkey = rkey;
	work.wr.wr.atomic.compare_add = compare_add;
	work.wr.wr.atomic.swap = swap;
	return work;
}

inline Work with_immediate(Work work, uint32_t value)
{
	work.wr.opcode =
		work.wr.opcode == IBV_WR_SEND ? IBV_WR_SEND_WITH_IMM : IBV_WR_RDMA_WRITE_WITH_IMM;
	work.wr.imm_data = htonl(value);
	return work;
}

inline Segment immediate(uint32_t msn, uint64_t data, Opcode opcode = Opcode::immediate)
{
	Bytes bytes;

	wire::put64(bytes, data);
	return Segment::untagged(opcode, msn, bytes);
}

class Extensions : public Conformance {
protected:
	void SetUp() override
	{
		Conformance::SetUp();
		if (b.attributes().atomic_cap == IBV_ATOMIC_NONE)
			return;
		words.emplace(b.pd(), 4096, atomic_rights);
	}

	/* Atomics are an option (RFC 7306, 1.1): a device says whether it has them. */
	bool lacks_atomics() const { return !words; }

	uint64_t &word(std::size_t index = 0)
	{
		return reinterpret_cast<uint64_t *>(words->data())[index];
	}

	AtomicRequest add(uint64_t data, uint64_t mask = 0, std::size_t index = 0)
	{
		AtomicRequest request;

		request.id = static_cast<uint32_t>(random());
		request.stag = words->rkey();
		request.to = words->address(8 * index);
		request.data = data;
		request.mask = mask;
		request.compare_mask = all_ones;
		return request;
	}

	AtomicRequest swap(uint64_t data, uint64_t mask, uint64_t compare, uint64_t compare_mask)
	{
		auto request = add(data, mask);

		request.operation = AtomicRequest::cmp_swap;
		request.compare = compare;
		request.compare_mask = compare_mask;
		return request;
	}

	/* Sent, and the answer to it. */
	AtomicResponse perform(const AtomicRequest &request)
	{
		peer->send(request.segment(next_request++));
		auto segment = peer->expect(Opcode::atomic_response);
		auto response = AtomicResponse::decode(segment.payload);
		EXPECT_EQ(response.id, request.id);
		return response;
	}

	/* As refuses(), and the memory is as it was. */
	Terminate refuses_atomic(const AtomicRequest &request, const std::vector<uint16_t> &codes)
	{
		auto before = Bytes(words->data(), words->data() + words->size());
		auto terminate = refuses(request.segment(1), codes);

		EXPECT_EQ(Bytes(words->data(), words->data() + words->size()), before);
		EXPECT_FALSE(terminate.r) << "RFC 7306, 8.1: no RDMAP header";
		return terminate;
	}

	/* The device's own request, as it comes. */
	AtomicRequest requested(ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap_data = 0)
	{
		EXPECT_EQ(end->post(atomic_work(opcode, 1, region->sge(0, 8), 0x123456789abcdef8,
						0xfedcba98, compare_add, swap_data)),
			  0);
		auto segment = peer->expect(Opcode::atomic_request);
		EXPECT_EQ(segment.payload.size(), AtomicRequest::length);
		msn = segment.msn;
		return AtomicRequest::decode(segment.payload);
	}

	std::optional<Region> words;
	uint32_t msn = 0;
};

/* In each test that needs them. */
#define NEEDS_ATOMICS()                                                                            \
	do {                                                                                       \
		if (lacks_atomics())                                                               \
			GTEST_SKIP() << "the device says that it has no atomics";                  \
	} while (0)
