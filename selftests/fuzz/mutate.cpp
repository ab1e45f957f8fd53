// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * The mutator of the stream's inputs. Left to itself libFuzzer does not get past the CRC: so a
 * stream is taken apart into ULPDUs, one of which, or their order, is changed, and put together
 * again with the right lengths and CRCs. Now and then a byte of the result is broken, so that wrong
 * lengths and wrong CRCs are tried too.
 */
#include "fpdu.h"

#include <algorithm>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

namespace {

using Rng = std::minstd_rand;

/* Payload of one ULPDU that the mutator makes: streams stay short, and many. */
constexpr std::size_t max_grown = 2048;
constexpr std::size_t max_fpdus = 64;

u32 small_or_any(Rng &rng)
{
	static constexpr u32 borders[] = {0,     1,          2,          3,          4,
					  0x100, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff};

	return rng() % 4 ? borders[rng() % std::size(borders)]
			 : static_cast<u32>(rng() << 8 ^ rng());
}

u32 queue_of(u8 opcode)
{
	switch (opcode) {
	case RDMAP_READ_REQ:
	case RDMAP_ATOMIC_REQ:
		return DDP_QN_READ_REQ;
	case RDMAP_TERMINATE:
		return DDP_QN_TERMINATE;
	case RDMAP_ATOMIC_RESP:
		return DDP_QN_ATOMIC_RESP;
	default:
		return DDP_QN_SEND;
	}
}

/* The header that is all that such a message has; of others, nothing. */
Bytes fresh_payload(u8 opcode, Rng &rng)
{
	static constexpr std::size_t sizes[] = {0, 1, 2, 3, 28, 52, 100, 1442};
	const ziw_imm imm = {.data = 0x01020304,
			     .kind = rng() % 2 ? ziw_imm_with_send(0x01020304, 1) : 0u};
	const ziw_atomic_req req = {.op = rng() % 2 ? u8{ATOMIC_CMP_SWAP} : u8{ATOMIC_FETCH_ADD},
				    .id = small_or_any(rng),
				    .stag = 0x100,
				    .data = small_or_any(rng),
				    .mask = small_or_any(rng),
				    .compare_mask = rng() % 2 ? ~u64{0} : 0};
	/* As the receiver asked. */
	const ziw_atomic_resp resp = {.id = 0x101, .value = small_or_any(rng)};
	Bytes payload(RDMAP_ATOMIC_REQ_LEN);

	switch (opcode) {
	case RDMAP_READ_REQ:
		return Bytes(RDMAP_READ_REQ_LEN);
	case RDMAP_IMM:
	case RDMAP_IMM_SE:
		ziw_imm_encode(payload.data(), &imm);
		payload.resize(RDMAP_IMM_LEN);
		return payload;
	case RDMAP_ATOMIC_REQ:
		ziw_atomic_req_encode(payload.data(), &req);
		return payload;
	case RDMAP_ATOMIC_RESP:
		ziw_atomic_resp_encode(payload.data(), &resp);
		payload.resize(RDMAP_ATOMIC_RESP_LEN);
		return payload;
	case RDMAP_READ_RESP:
		/* All of what the receiver asked for, or a part. */
		return Bytes(rng() % 2 ? 2048 : sizes[rng() % std::size(sizes)]);
	default:
		return Bytes(sizes[rng() % std::size(sizes)]);
	}
}

/* A ULPDU whose model and queue fit its opcode, as a sender of good will would begin one. */
Bytes fresh(Rng &rng)
{
	const u8 opcode = static_cast<u8>(rng() % (RDMAP_ATOMIC_RESP + 1));
	const ziw_ddp_hdr hdr = {
		.tagged = opcode == RDMAP_WRITE || opcode == RDMAP_READ_RESP,
		.last = rng() % 4 != 0,
		.opcode = opcode,
		.stag = 0x100,
		.to = small_or_any(rng) % 4 ? 0 : small_or_any(rng),
		.inv_stag = ziw_rdmap_invalidates(opcode) ? small_or_any(rng) : 0,
		.qn = queue_of(opcode),
		.msn = 1,
	};
	const Bytes payload = fresh_payload(opcode, rng);
	Bytes ulpdu(DDP_MAX_LEN);

	ulpdu.resize(ziw_ddp_encode(ulpdu.data(), &hdr));
	ulpdu.insert(ulpdu.end(), payload.begin(), payload.end());
	return ulpdu;
}

/* Set one of the header's fields, wherever the ULPDU reaches that far. */
void change_field(Bytes &ulpdu, Rng &rng)
{
	ulpdu.resize(std::max<std::size_t>(ulpdu.size(), 2));

	const bool tagged = ulpdu[0] & DDP_FLAG_TAGGED;
	const std::size_t header = tagged ? DDP_TAGGED_LEN : DDP_UNTAGGED_LEN;
	const std::size_t field = 2 + 4 * (rng() % 4);

	switch (rng() % 6) {
	case 0:
		ulpdu[0] ^= rng() % 4 ? DDP_FLAG_LAST : static_cast<u8>(1 << rng() % 8);
		break;
	case 1:
		ulpdu[1] = static_cast<u8>((ulpdu[1] & 0xf0) | rng() % (rng() % 4 ? 12 : 16));
		break;
	case 2:
		ulpdu[1] ^= static_cast<u8>(1 << rng() % 8);
		break;
	case 3:
		/* from here a Terminate's control bits */
		if (ulpdu.size() > header + 2) {
			ulpdu[header + 2] ^= static_cast<u8>(0x20 << rng() % 3);
			break;
		}
		[[fallthrough]];
	default:
		if (ulpdu.size() >= field + 4)
			put_unaligned_be32(small_or_any(rng), ulpdu.data() + field);
	}
}

void change_size(Bytes &ulpdu, Rng &rng)
{
	/* Around each header, and what fills the distance between two markers. */
	static constexpr std::size_t borders[] = {0,  1,  2,  13,  14,  15,  17,  18, 19,
						  25, 26, 27, 29,  30,  31,  45,  46, 47,
						  69, 70, 71, 127, 128, 502, 506, 510};

	ulpdu.resize(rng() % 2 ? borders[rng() % std::size(borders)] : rng() % max_grown);
}

/*
 * Number the messages of each queue and place their segments in turn, so that a stream whose parts
 * were shuffled is one that a receiver follows to its end.
 */
void renumber(std::vector<Bytes> &ulpdus)
{
	u32 msn[DDP_QN_NUM] = {1, 1, 1, 1}, mo = 0;
	u64 to = 0;

	for (Bytes &ulpdu : ulpdus) {
		ziw_ddp_hdr hdr;

		if (ziw_ddp_decode(ulpdu.data(), static_cast<unsigned>(ulpdu.size()), &hdr) < 0)
			continue;
		const std::size_t payload = ulpdu.size() - ziw_ddp_hdr_len(&hdr);

		if (hdr.tagged && hdr.opcode == RDMAP_READ_RESP) {
			hdr.to = to;
			to = hdr.last ? 0 : to + payload;
		} else if (!hdr.tagged && hdr.qn < DDP_QN_NUM) {
			hdr.msn = msn[hdr.qn];
			msn[hdr.qn] += hdr.last;
			if (hdr.qn == DDP_QN_SEND) {
				hdr.mo = mo;
				mo = hdr.last ? 0 : mo + static_cast<u32>(payload);
			}
		}
		ziw_ddp_encode(ulpdu.data(), &hdr);
	}
}

void change(std::vector<Bytes> &ulpdus, Rng &rng)
{
	const auto any = [&] {
		return ulpdus.begin() + static_cast<std::ptrdiff_t>(rng() % ulpdus.size());
	};

	if (ulpdus.empty()) {
		ulpdus.push_back(fresh(rng));
		return;
	}
	switch (rng() % 9) {
	case 0:
		if (ulpdus.size() < max_fpdus)
			ulpdus.insert(any(), fresh(rng));
		break;
	case 1:
		if (ulpdus.size() < max_fpdus)
			ulpdus.insert(any(), Bytes(*any()));
		break;
	case 2:
		ulpdus.erase(any());
		break;
	case 3:
		std::iter_swap(any(), any());
		break;
	case 4:
		change_size(*any(), rng);
		break;
	case 5: {
		/* libFuzzer's own ideas, on the inside of one */
		Bytes &ulpdu = *any();
		const std::size_t size = ulpdu.size();

		ulpdu.resize(std::min<std::size_t>(std::max(2 * size, size + 64), 0xffff));
		ulpdu.resize(LLVMFuzzerMutate(ulpdu.data(), size, ulpdu.size()));
		break;
	}
	default:
		change_field(*any(), rng);
	}
}

bool has_markers(const u8 *data)
{
	return Options(data[0], 2).flag(1);
}

/* Now and then one FPDU has markers that are wrong, or wrong only where nobody is to look. */
Bytes assemble(const std::vector<Bytes> &ulpdus, View rest, bool markers, Rng &rng)
{
	static constexpr u32 changes[] = {1, 2, 3, 4, 0x8000, 0xffff, 0x00010000, 0xffff0000};
	const std::size_t spoilt = rng() % 16 ? ulpdus.size() : rng() % (ulpdus.size() + 1);
	const u32 change = changes[rng() % std::size(changes)];
	Bytes stream;

	for (std::size_t i = 0; i < ulpdus.size(); i++)
		fpdu::append(stream, ulpdus[i], markers, i == spoilt ? change : 0);
	stream.insert(stream.end(), rest.begin(), rest.end());
	return stream;
}

/* Behind the options byte; what does not fit is cut off. */
std::size_t store(u8 *data, std::size_t max_size, const Bytes &stream)
{
	const std::size_t size = std::min(stream.size(), max_size - 1);

	std::copy_n(stream.begin(), size, data + 1);
	return 1 + size;
}

} // namespace

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
					  unsigned seed)
{
	Rng rng(seed);

	if (size < 1 || max_size < 2 || rng() % 32 == 0)
		return LLVMFuzzerMutate(data, size, max_size);

	fpdu::Parts parts = fpdu::split(View(data + 1, size - 1), has_markers(data));

	if (rng() % 8 == 0)
		data[0] = static_cast<u8>(rng());
	do
		change(parts.ulpdus, rng);
	while (rng() % 2);
	if (rng() % 2)
		renumber(parts.ulpdus);
	if (rng() % 8 == 0)
		parts.rest.clear();

	Bytes stream = assemble(parts.ulpdus, parts.rest, has_markers(data), rng);

	if (rng() % 16 == 0 && !stream.empty()) {
		if (rng() % 2)
			stream[rng() % stream.size()] ^= static_cast<u8>(1 << rng() % 8);
		else
			stream.resize(rng() % stream.size());
	}
	return store(data, max_size, stream);
}

extern "C" size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t a_size, const uint8_t *b,
					    size_t b_size, uint8_t *out, size_t max_size,
					    unsigned seed)
{
	Rng rng(seed);

	if (a_size < 1 || b_size < 1 || max_size < 2)
		return 0;

	std::vector<Bytes> ulpdus = fpdu::split(View(a + 1, a_size - 1), has_markers(a)).ulpdus;
	const fpdu::Parts other = fpdu::split(View(b + 1, b_size - 1), has_markers(b));

	ulpdus.resize(rng() % (ulpdus.size() + 1));
	ulpdus.insert(ulpdus.end(),
		      other.ulpdus.begin() +
			      static_cast<std::ptrdiff_t>(rng() % (other.ulpdus.size() + 1)),
		      other.ulpdus.end());
	ulpdus.resize(std::min(ulpdus.size(), max_fpdus));
	if (rng() % 2)
		renumber(ulpdus);
	out[0] = a[0];
	return store(out, max_size, assemble(ulpdus, other.rest, has_markers(a), rng));
}
