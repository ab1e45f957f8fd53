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

/* A ULPDU whose model and queue fit its opcode, as a sender of good will would begin one. */
Bytes fresh(Rng &rng)
{
	static constexpr std::size_t sizes[] = {0, 1, 2, 3, 28, 52, 100, 1442};
	const u8 opcode = static_cast<u8>(rng() % 8);
	const ziw_ddp_hdr hdr = {
		.tagged = opcode == RDMAP_WRITE || opcode == RDMAP_READ_RESP,
		.last = rng() % 4 != 0,
		.opcode = opcode,
		.stag = 0x100,
		.to = small_or_any(rng) % 4 ? 0 : small_or_any(rng),
		.inv_stag = ziw_rdmap_invalidates(opcode) ? small_or_any(rng) : 0,
		.qn = opcode == RDMAP_READ_REQ    ? u32{DDP_QN_READ_REQ}
		      : opcode == RDMAP_TERMINATE ? u32{DDP_QN_TERMINATE}
						  : u32{DDP_QN_SEND},
		.msn = 1,
	};
	Bytes ulpdu(DDP_MAX_LEN);

	ulpdu.resize(ziw_ddp_encode(ulpdu.data(), &hdr));
	ulpdu.resize(ulpdu.size() + (opcode == RDMAP_READ_REQ ? RDMAP_READ_REQ_LEN
							      : sizes[rng() % std::size(sizes)]));
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
		ulpdu[1] = static_cast<u8>((ulpdu[1] & 0xf0) | rng() % (rng() % 4 ? 8 : 16));
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
	static constexpr std::size_t borders[] = {0,  1,  2,  13, 14, 15, 17,  18, 19,
						  45, 46, 47, 69, 70, 71, 127, 128};

	ulpdu.resize(rng() % 2 ? borders[rng() % std::size(borders)] : rng() % max_grown);
}

/*
 * Number the messages of each queue and place their segments in turn, so that a stream whose parts
 * were shuffled is one that a receiver follows to its end.
 */
void renumber(std::vector<Bytes> &ulpdus)
{
	u32 msn[3] = {1, 1, 1}, mo = 0;
	u64 to = 0;

	for (Bytes &ulpdu : ulpdus) {
		ziw_ddp_hdr hdr;

		if (ziw_ddp_decode(ulpdu.data(), static_cast<unsigned>(ulpdu.size()), &hdr) < 0)
			continue;
		const std::size_t payload = ulpdu.size() - ziw_ddp_hdr_len(&hdr);

		if (hdr.tagged && hdr.opcode == RDMAP_READ_RESP) {
			hdr.to = to;
			to = hdr.last ? 0 : to + payload;
		} else if (!hdr.tagged && hdr.qn <= DDP_QN_TERMINATE) {
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

Bytes assemble(const std::vector<Bytes> &ulpdus, View rest)
{
	Bytes stream;

	for (const Bytes &ulpdu : ulpdus)
		fpdu::append(stream, ulpdu);
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

	fpdu::Parts parts = fpdu::split(View(data + 1, size - 1));

	if (rng() % 8 == 0)
		data[0] = static_cast<u8>(rng());
	do
		change(parts.ulpdus, rng);
	while (rng() % 2);
	if (rng() % 2)
		renumber(parts.ulpdus);
	if (rng() % 8 == 0)
		parts.rest.clear();

	Bytes stream = assemble(parts.ulpdus, parts.rest);

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

	std::vector<Bytes> ulpdus = fpdu::split(View(a + 1, a_size - 1)).ulpdus;
	const fpdu::Parts other = fpdu::split(View(b + 1, b_size - 1));

	ulpdus.resize(rng() % (ulpdus.size() + 1));
	ulpdus.insert(ulpdus.end(),
		      other.ulpdus.begin() +
			      static_cast<std::ptrdiff_t>(rng() % (other.ulpdus.size() + 1)),
		      other.ulpdus.end());
	ulpdus.resize(std::min(ulpdus.size(), max_fpdus));
	if (rng() % 2)
		renumber(ulpdus);
	out[0] = a[0];
	return store(out, max_size, assemble(ulpdus, other.rest));
}
