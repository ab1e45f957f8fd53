// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "receiver.h"

#include <algorithm>

#include "unit/crc32c.h"

namespace {

/* Small, so that the fuzzer comes by them. */
constexpr unsigned ird = 4;
constexpr u32 receive_buffer = 4096;
constexpr u32 read_size = 2048, read_stag = 0x100;

} // namespace

/* The stream ends; a Terminate that ziw says must come back as what it was meant to be. */
void Receiver::end(Event &event, const ziw_terminate &term)
{
	Bytes bytes(TERM_MAX_LEN);
	ziw_terminate again;

	bytes.resize(ziw_terminate_encode(bytes.data(), &term));
	REQUIRE(!ziw_terminate_decode(bytes.data(), static_cast<unsigned>(bytes.size()), &again));
	REQUIRE(again.code == term.code);
	REQUIRE(again.has_ddp == term.has_ddp && again.has_rdmap == term.has_rdmap);
	REQUIRE(!term.has_ddp || again.seg_len == term.seg_len);
	event.terminate = bytes;
	failed_ = true;
}

void Receiver::fault(Event &event, u16 code, bool with_read)
{
	ziw_terminate term = {
		.code = code,
		.has_ddp = true,
		.has_rdmap = with_read,
		.seg_len = static_cast<u16>(ulpdu_.size()),
	};

	std::ranges::copy(ulpdu_.first(std::min<std::size_t>(ulpdu_.size(), DDP_MAX_LEN)),
			  term.ddp);
	if (with_read)
		std::ranges::copy(event.payload, term.read);
	end(event, term);
}

void Receiver::read_response(Event &event, const ziw_ddp_hdr &hdr)
{
	if (hdr.stag != read_stag)
		return fault(event, TERM_DDP_TAGGED_INVALID_STAG);
	if (hdr.to != read_got_ || event.payload.size() > read_size - read_got_ ||
	    (hdr.last && read_got_ + event.payload.size() != read_size))
		return fault(event, TERM_DDP_TAGGED_BOUNDS);
	read_got_ = hdr.last ? 0 : read_got_ + event.payload.size();
}

void Receiver::tagged(Event &event, const ziw_ddp_hdr &hdr)
{
	if (hdr.opcode == RDMAP_READ_RESP)
		read_response(event, hdr);
	else if (hdr.opcode != RDMAP_WRITE)
		fault(event, TERM_RDMAP_OP_OPCODE);
	else if (hdr.to + event.payload.size() < hdr.to)
		fault(event, TERM_DDP_TAGGED_TO_WRAP);
}

void Receiver::send(Event &event, const ziw_ddp_hdr &hdr)
{
	if (hdr.mo != mo_)
		return fault(event, TERM_DDP_UNTAGGED_MO);
	if (event.payload.size() > receive_buffer - mo_)
		return fault(event, TERM_DDP_UNTAGGED_TOO_LONG);
	mo_ += static_cast<u32>(event.payload.size());
	if (!hdr.last)
		return;
	/* Some STags cannot be invalidated: the odd ones here. */
	if (ziw_rdmap_invalidates(hdr.opcode) && hdr.inv_stag & 1)
		return fault(event, TERM_RDMAP_PROT_CANNOT_INV);
	mo_ = 0;
	msn_[DDP_QN_SEND]++;
}

void Receiver::read_request(Event &event)
{
	ziw_read_req req;

	if (event.payload.size() != RDMAP_READ_REQ_LEN)
		return fault(event, TERM_RDMAP_OP_UNSPECIFIED);
	if (reads_ >= ird)
		return fault(event, TERM_DDP_UNTAGGED_NO_BUFFER);
	ziw_read_req_decode(event.payload.data(), &req);
	if (req.size && req.source_to + req.size < req.source_to)
		return fault(event, TERM_RDMAP_PROT_TO_WRAP, true);
	reads_++;
	msn_[DDP_QN_READ_REQ]++;
}

void Receiver::terminate_message(Event &event)
{
	ziw_terminate term;
	ziw_ddp_hdr hdr;
	const Bytes head =
		copy(View(event.payload)
			     .first(std::min<std::size_t>(event.payload.size(), TERM_MAX_LEN)));

	if (ziw_terminate_decode(head.data(), static_cast<unsigned>(head.size()), &term))
		term.code = TERM_RDMAP_OP_UNSPECIFIED;
	REQUIRE(ziw_terminate_name(term.code)[0]);
	if (term.has_ddp)
		REQUIRE(ziw_ddp_decode(term.ddp, DDP_MAX_LEN, &hdr) > 0);
	end(event, term);
}

void Receiver::untagged(Event &event, const ziw_ddp_hdr &hdr)
{
	if (hdr.qn > DDP_QN_TERMINATE)
		return fault(event, TERM_DDP_UNTAGGED_QN);

	const bool fits = hdr.qn == DDP_QN_SEND       ? ziw_rdmap_is_send(hdr.opcode)
			  : hdr.qn == DDP_QN_READ_REQ ? hdr.opcode == RDMAP_READ_REQ
						      : hdr.opcode == RDMAP_TERMINATE;

	if (!fits)
		return fault(event, TERM_RDMAP_OP_OPCODE);
	if (hdr.msn != msn_[hdr.qn])
		return fault(event, TERM_DDP_UNTAGGED_MSN_RANGE);
	if (hdr.qn == DDP_QN_SEND)
		return send(event, hdr);
	if (hdr.mo || !hdr.last)
		return fault(event, TERM_DDP_UNTAGGED_MO);
	if (hdr.qn == DDP_QN_READ_REQ)
		return read_request(event);
	terminate_message(event);
}

void Receiver::dispatch(Event &event, const ziw_ddp_hdr &hdr)
{
	if (hdr.ddp_version != DDP_VERSION)
		fault(event, hdr.tagged ? TERM_DDP_TAGGED_VERSION : TERM_DDP_UNTAGGED_VERSION);
	else if (hdr.rdmap_version != RDMAP_VERSION)
		fault(event, TERM_RDMAP_OP_VERSION);
	else if (hdr.tagged)
		tagged(event, hdr);
	else
		untagged(event, hdr);
}

std::size_t Receiver::one(View stream)
{
	Event event;
	ziw_ddp_hdr hdr;

	if (stream.size() < MPA_LEN_SIZE)
		return 0;

	const unsigned ulpdu = get_unaligned_be16(copy(stream.first(MPA_LEN_SIZE)).data());
	const std::size_t size = ziw_mpa_fpdu_len(ulpdu);

	REQUIRE(size % 4 == 0);
	REQUIRE(size >= MPA_LEN_SIZE + ulpdu + MPA_CRC_SIZE);
	if (stream.size() < size)
		return 0;
	event.size = size;
	if (crc_ && !std::ranges::equal(crc32c(stream.first(size - MPA_CRC_SIZE)),
					stream.subspan(size - MPA_CRC_SIZE, MPA_CRC_SIZE))) {
		event.size = 0;
		end(event, {.code = TERM_MPA_CRC});
		events_.push_back(event);
		return 0;
	}

	ulpdu_ = stream.subspan(MPA_LEN_SIZE, ulpdu);
	const Bytes head = copy(ulpdu_.first(std::min<std::size_t>(ulpdu, DDP_MAX_LEN)));
	const int hdr_len = ziw_ddp_decode(head.data(), ulpdu, &hdr);

	if (hdr_len < 0) {
		end(event, {.code = TERM_DDP_CATASTROPHIC});
	} else {
		event.opcode = hdr.opcode;
		event.tagged = hdr.tagged;
		event.last = hdr.last;
		event.where = hdr.tagged ? hdr.stag : hdr.qn;
		event.offset = hdr.tagged ? hdr.to : hdr.mo;
		event.payload = copy(ulpdu_.subspan(static_cast<std::size_t>(hdr_len)));
		dispatch(event, hdr);
	}
	events_.push_back(event);
	return failed_ ? 0 : size;
}

void Receiver::feed(View bytes)
{
	std::size_t used = 0;

	if (failed_)
		return;
	pending_.insert(pending_.end(), bytes.begin(), bytes.end());
	while (const std::size_t n = one(View(pending_).subspan(used)))
		used += n;
	pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(used));
}
