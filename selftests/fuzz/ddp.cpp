// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Fuzzes the decoders of what is inside an FPDU: the input is a ULPDU, and once more the payload of
 * a Terminate Message. What they understood is said again and must be the same bytes, but for those
 * that are reserved.
 */
#include "fuzz.h"

#include <algorithm>

#include "unit/atomic_reference.h"

namespace {

/* As kernel/receive.c calls it: the header's bytes alone, and the length of the whole ULPDU. */
int decode_header(View ulpdu, ziw_ddp_hdr &hdr)
{
	const Bytes head = copy(ulpdu.first(std::min<std::size_t>(ulpdu.size(), DDP_MAX_LEN)));

	return ziw_ddp_decode(head.data(), static_cast<unsigned>(ulpdu.size()), &hdr);
}

void check_header(View ulpdu, const ziw_ddp_hdr &hdr, std::size_t len)
{
	Bytes expected = copy(ulpdu.first(len));
	Bytes again(DDP_MAX_LEN);

	REQUIRE(len == ziw_ddp_hdr_len(&hdr));
	REQUIRE(hdr.ddp_version == (expected[0] & 0x03));
	REQUIRE(hdr.rdmap_version == expected[1] >> 6);
	/* Reserved bits are sent as zeros, versions as ours. */
	expected[0] = static_cast<u8>((expected[0] & 0xc0) | DDP_VERSION);
	expected[1] = static_cast<u8>((expected[1] & 0x0f) | RDMAP_VERSION << 6);
	REQUIRE(ziw_ddp_encode(again.data(), &hdr) == len);
	again.resize(len);
	REQUIRE(again == expected);
}

void check_read_request(View payload)
{
	const Bytes header = copy(payload.first(RDMAP_READ_REQ_LEN));
	Bytes again(RDMAP_READ_REQ_LEN);
	ziw_read_req req;

	ziw_read_req_decode(header.data(), &req);
	ziw_read_req_encode(again.data(), &req);
	REQUIRE(again == header);
}

void check_imm(View payload)
{
	const Bytes header = copy(payload.first(RDMAP_IMM_LEN));
	Bytes again(RDMAP_IMM_LEN);
	ziw_imm imm;

	ziw_imm_decode(header.data(), &imm);
	ziw_imm_encode(again.data(), &imm);
	REQUIRE(again == header);
}

void check_atomic_response(View payload)
{
	const Bytes header = copy(payload.first(RDMAP_ATOMIC_RESP_LEN));
	Bytes again(RDMAP_ATOMIC_RESP_LEN);
	ziw_atomic_resp resp;

	ziw_atomic_resp_decode(header.data(), &resp);
	ziw_atomic_resp_encode(again.data(), &resp);
	REQUIRE(again == header);
}

/* What follows the header is the memory that it is carried out on. */
void check_atomic_request(View payload)
{
	Bytes header = copy(payload.first(RDMAP_ATOMIC_REQ_LEN));
	Bytes again(RDMAP_ATOMIC_REQ_LEN);
	ziw_atomic_req req;
	u64 value = 0;

	ziw_atomic_req_decode(header.data(), &req);
	ziw_atomic_req_encode(again.data(), &req);
	header[0] = header[1] = header[2] = 0;
	header[3] &= 0x0f;
	REQUIRE(again == header);
	REQUIRE(ziw_atomic_known(req.op) == (header[3] == 0 || header[3] == 2));
	if (!ziw_atomic_known(req.op))
		return;
	payload = payload.subspan(RDMAP_ATOMIC_REQ_LEN);
	std::memcpy(&value, payload.data(), std::min(payload.size(), sizeof(value)));
	REQUIRE(ziw_atomic_result(&req, value) ==
		(req.op ? atomic_reference::cmp_swap(value, req.data, req.mask, req.compare,
						     req.compare_mask)
			: atomic_reference::fetch_add(value, req.data, req.mask)));
}

void check_terminate(View payload)
{
	ziw_terminate term;
	Bytes again(TERM_MAX_LEN);

	if (ziw_terminate_decode(payload.data(), static_cast<unsigned>(payload.size()), &term)) {
		REQUIRE(payload.size() < TERM_HDR_LEN);
		return;
	}
	REQUIRE(ziw_terminate_name(term.code)[0]);
	REQUIRE(term.has_ddp || !term.has_rdmap);

	const unsigned len = ziw_terminate_encode(again.data(), &term);

	REQUIRE(len <= again.size());
	REQUIRE(len <= payload.size());
	/* Of the control field what was heard is said, less the headers that were cut off. */
	Bytes expected = copy(payload.first(len));

	expected[2] = 0;
	if (term.has_ddp)
		expected[2] |= 0xc0;
	if (term.has_rdmap)
		expected[2] |= 0x20;
	expected[3] = 0;
	again.resize(len);
	REQUIRE(again == expected);
	REQUIRE(!term.has_ddp || payload[2] & 0x40);
	REQUIRE(!term.has_rdmap || payload[2] & 0x20);

	/* A header that a Terminate quotes is decoded to find out which work request it blames. */
	if (term.has_ddp) {
		const View ddp(term.ddp);
		ziw_ddp_hdr hdr;
		const int hdr_len = decode_header(ddp, hdr);

		REQUIRE(hdr_len > 0);
		check_header(ddp, hdr, static_cast<std::size_t>(hdr_len));
	}
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const View ulpdu(data, size);
	ziw_ddp_hdr hdr;
	const int len = decode_header(ulpdu, hdr);

	check_terminate(ulpdu);
	if (len < 0) {
		REQUIRE(size < DDP_UNTAGGED_LEN);
		return 0;
	}
	check_header(ulpdu, hdr, static_cast<std::size_t>(len));

	const Bytes payload = copy(ulpdu.subspan(static_cast<std::size_t>(len)));

	check_terminate(payload);
	if (payload.size() >= RDMAP_IMM_LEN)
		check_imm(payload);
	if (payload.size() >= RDMAP_ATOMIC_RESP_LEN)
		check_atomic_response(payload);
	if (payload.size() >= RDMAP_READ_REQ_LEN)
		check_read_request(payload);
	if (payload.size() >= RDMAP_ATOMIC_REQ_LEN)
		check_atomic_request(payload);
	return 0;
}
