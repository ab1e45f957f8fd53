// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "receiver.h"

#include <algorithm>

#include "unit/crc32c.h"

namespace {

/* Small, so that the fuzzer comes by them. */
constexpr unsigned ird = 4;
constexpr u32 receive_buffer = 4096;
constexpr u32 read_size = 2048, read_stag = 0x100, atomic_id = 0x101;

/* Octets of FPDUs, with the markers stepped over: kernel/rx_queue.h for a stream in one piece. */
class Cursor {
public:
	Cursor(View stream, std::size_t position, bool markers)
		: stream_(stream), position_(position), markers_(markers)
	{
	}

	Bytes take(std::size_t count)
	{
		Bytes bytes;

		while (bytes.size() < count) {
			if (markers_ && position_ % MPA_MARKER_INTERVAL == 0)
				skip(MPA_MARKER_SIZE);

			std::size_t n = count - bytes.size();

			if (markers_)
				n = std::min(n,
					     MPA_MARKER_INTERVAL - position_ % MPA_MARKER_INTERVAL);
			REQUIRE(n <= stream_.size());
			bytes.insert(bytes.end(), stream_.begin(),
				     stream_.begin() + static_cast<std::ptrdiff_t>(n));
			skip(n);
		}
		return bytes;
	}

private:
	void skip(std::size_t n)
	{
		REQUIRE(n <= stream_.size());
		stream_ = stream_.subspan(n);
		position_ += n;
	}

	View stream_;
	std::size_t position_;
	bool markers_;
};

/* The encoder's bytes of a header that was decoded, for a look at what is lost on the way. */
template <std::size_t len, typename Header>
Bytes again(void (*encode)(u8 *, const Header *), const Header &header)
{
	Bytes bytes(len);

	encode(bytes.data(), &header);
	return bytes;
}

} // namespace

/* The stream ends; a Terminate that ziw says must come back as what it was meant to be. */
void Receiver::end(Event &event, const ziw_terminate &term)
{
	Bytes bytes(TERM_MAX_LEN);
	ziw_terminate heard;

	bytes.resize(ziw_terminate_encode(bytes.data(), &term));
	REQUIRE(!ziw_terminate_decode(bytes.data(), static_cast<unsigned>(bytes.size()), &heard));
	REQUIRE(heard.code == term.code);
	REQUIRE(heard.has_ddp == term.has_ddp && heard.has_rdmap == term.has_rdmap);
	REQUIRE(!term.has_ddp || heard.seg_len == term.seg_len);
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

	std::copy_n(ulpdu_.begin(), std::min<std::size_t>(ulpdu_.size(), DDP_MAX_LEN), term.ddp);
	if (with_read)
		std::ranges::copy(event.payload, term.read);
	end(event, term);
}

/* --- the tagged model --- */

void Receiver::write(Event &event, const ziw_ddp_hdr &hdr)
{
	if (hdr.to + event.payload.size() < hdr.to)
		return fault(event, TERM_DDP_TAGGED_TO_WRAP);
	if (write_last_)
		write_len_ = 0;
	write_len_ += event.payload.size();
	write_last_ = hdr.last;
}

void Receiver::read_response(Event &event, const ziw_ddp_hdr &hdr)
{
	if (oldest_is_atomic_)
		return fault(event, TERM_RDMAP_OP_OPCODE);
	if (hdr.stag != read_stag)
		return fault(event, TERM_DDP_TAGGED_INVALID_STAG);
	if (hdr.to > read_size || event.payload.size() > read_size - hdr.to ||
	    (hdr.last && (hdr.to + event.payload.size() != read_size ||
			  read_got_ + event.payload.size() != read_size)))
		return fault(event, TERM_DDP_TAGGED_BOUNDS);
	read_got_ = hdr.last ? 0 : read_got_ + event.payload.size();
	oldest_is_atomic_ = hdr.last;
}

void Receiver::tagged(Event &event, const ziw_ddp_hdr &hdr)
{
	if (hdr.opcode == RDMAP_READ_RESP)
		read_response(event, hdr);
	else if (hdr.opcode == RDMAP_WRITE)
		write(event, hdr);
	else
		fault(event, TERM_RDMAP_OP_OPCODE);
}

/* --- the untagged model: queue 0 --- */

/* The header that is all of a message's payload. */
bool Receiver::take_header(Event &event, std::size_t len)
{
	if (event.payload.size() > len)
		fault(event, TERM_DDP_UNTAGGED_TOO_LONG);
	else if (event.payload.size() < len)
		fault(event, TERM_RDMAP_OP_UNSPECIFIED);
	return event.payload.size() == len;
}

void Receiver::send(Event &event, const ziw_ddp_hdr &hdr)
{
	Completion done = {.opcode = ZIW_OP_RECV};

	if (!have_rqe_)
		got_ = 0;
	have_rqe_ = true;
	if (hdr.mo > receive_buffer || (hdr.last && got_ != hdr.mo))
		return fault(event, TERM_DDP_UNTAGGED_MO);
	if (event.payload.size() > receive_buffer - hdr.mo)
		return fault(event, TERM_DDP_UNTAGGED_TOO_LONG);
	got_ += event.payload.size();
	if (!hdr.last)
		return;
	if (ziw_rdmap_invalidates(hdr.opcode)) {
		/* Some STags cannot be invalidated: the odd ones here. */
		if (hdr.inv_stag & 1)
			return fault(event, TERM_RDMAP_PROT_CANNOT_INV);
		done.flags |= ZIW_CQE_WITH_INV;
		done.ex = hdr.inv_stag;
	} else if (have_imm_) {
		done.flags |= ZIW_CQE_WITH_IMM;
		done.ex = imm_;
	}
	have_imm_ = false;
	if (ziw_rdmap_solicits(hdr.opcode))
		done.flags |= ZIW_CQE_SOLICITED;
	done.length = static_cast<u32>(got_);
	msn_[DDP_QN_SEND]++;
	have_rqe_ = false;
	event.completions.push_back(done);
}

void Receiver::imm(Event &event, const ziw_ddp_hdr &hdr)
{
	Completion done = {.opcode = ZIW_OP_RECV_IMM,
			   .flags = ZIW_CQE_WITH_IMM,
			   .length = write_last_ ? write_len_ : 0};
	ziw_imm header;

	if (have_rqe_ || have_imm_)
		return fault(event, TERM_RDMAP_OP_OPCODE);
	if (hdr.mo || !hdr.last)
		return fault(event, TERM_DDP_UNTAGGED_MO);
	if (!take_header(event, RDMAP_IMM_LEN))
		return;
	ziw_imm_decode(event.payload.data(), &header);
	REQUIRE(again<RDMAP_IMM_LEN>(ziw_imm_encode, header) == event.payload);
	msn_[DDP_QN_SEND]++;
	if (header.kind == ziw_imm_with_send(header.data, hdr.msn)) {
		have_imm_ = true;
		imm_ = header.data;
		return;
	}
	done.ex = header.data;
	if (ziw_rdmap_solicits(hdr.opcode))
		done.flags |= ZIW_CQE_SOLICITED;
	event.completions.push_back(done);
}

/* --- queue 1 --- */

bool Receiver::claim_request(Event &event)
{
	if (requests_ < ird)
		return true;
	fault(event, TERM_DDP_UNTAGGED_NO_BUFFER);
	return false;
}

void Receiver::read_request(Event &event)
{
	ziw_read_req req;

	if (!take_header(event, RDMAP_READ_REQ_LEN) || !claim_request(event))
		return;
	ziw_read_req_decode(event.payload.data(), &req);
	if (req.size && req.source_to + req.size < req.source_to)
		return fault(event, TERM_RDMAP_PROT_TO_WRAP, true);
	requests_++;
	msn_[DDP_QN_READ_REQ]++;
}

void Receiver::atomic_request(Event &event)
{
	ziw_atomic_req req;

	if (!take_header(event, RDMAP_ATOMIC_REQ_LEN) || !claim_request(event))
		return;
	ziw_atomic_req_decode(event.payload.data(), &req);
	if (!ziw_atomic_known(req.op))
		return fault(event, TERM_RDMAP_OP_OPCODE);
	event.response = again<RDMAP_ATOMIC_RESP_LEN>(
		ziw_atomic_resp_encode, ziw_atomic_resp{.id = req.id, .value = memory_});
	memory_ = ziw_atomic_result(&req, memory_);
	requests_++;
	msn_[DDP_QN_READ_REQ]++;
}

/* --- queues 2 and 3 --- */

void Receiver::atomic_response(Event &event)
{
	ziw_atomic_resp resp;

	if (!oldest_is_atomic_)
		return fault(event, TERM_RDMAP_OP_OPCODE);
	if (!take_header(event, RDMAP_ATOMIC_RESP_LEN))
		return;
	ziw_atomic_resp_decode(event.payload.data(), &resp);
	REQUIRE(again<RDMAP_ATOMIC_RESP_LEN>(ziw_atomic_resp_encode, resp) == event.payload);
	if (resp.id != atomic_id)
		return fault(event, TERM_RDMAP_OP_UNSPECIFIED);
	msn_[DDP_QN_ATOMIC_RESP]++;
	oldest_is_atomic_ = false;
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

/* --- dispatch --- */

namespace {

bool opcode_fits_queue(const ziw_ddp_hdr &hdr)
{
	switch (hdr.qn) {
	case DDP_QN_SEND:
		return ziw_rdmap_is_send(hdr.opcode) || ziw_rdmap_is_imm(hdr.opcode);
	case DDP_QN_READ_REQ:
		return hdr.opcode == RDMAP_READ_REQ || hdr.opcode == RDMAP_ATOMIC_REQ;
	case DDP_QN_TERMINATE:
		return hdr.opcode == RDMAP_TERMINATE;
	default:
		return hdr.opcode == RDMAP_ATOMIC_RESP;
	}
}

} // namespace

void Receiver::untagged(Event &event, const ziw_ddp_hdr &hdr)
{
	if (hdr.qn >= DDP_QN_NUM)
		return fault(event, TERM_DDP_UNTAGGED_QN);
	if (!opcode_fits_queue(hdr))
		return fault(event, TERM_RDMAP_OP_OPCODE);
	if (hdr.msn != msn_[hdr.qn])
		return fault(event, TERM_DDP_UNTAGGED_MSN_RANGE);
	if (hdr.qn == DDP_QN_SEND) {
		if (ziw_rdmap_is_imm(hdr.opcode))
			imm(event, hdr);
		else
			send(event, hdr);
		write_last_ = false;
		return;
	}
	if (hdr.mo || !hdr.last)
		return fault(event, TERM_DDP_UNTAGGED_MO);
	switch (hdr.opcode) {
	case RDMAP_READ_REQ:
		return read_request(event);
	case RDMAP_ATOMIC_REQ:
		return atomic_request(event);
	case RDMAP_ATOMIC_RESP:
		return atomic_response(event);
	default:
		return terminate_message(event);
	}
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

/* --- the stream --- */

/* Of a whole FPDU, the code of what is wrong with its CRC or its markers; else 0. */
u16 Receiver::check_framing(View fpdu) const
{
	const std::size_t pos = marker_position();

	if (framing_.crc && !std::ranges::equal(crc32c(fpdu.first(fpdu.size() - MPA_CRC_SIZE)),
						fpdu.last(MPA_CRC_SIZE)))
		return TERM_MPA_CRC;
	if (!framing_.markers)
		return 0;
	/* One that precedes the length field is not counted from there. */
	const std::size_t lead = pos ? 0 : MPA_MARKER_SIZE;

	for (std::size_t off = pos ? MPA_MARKER_INTERVAL - pos : 0; off < fpdu.size();
	     off += MPA_MARKER_INTERVAL) {
		const Bytes marker = copy(fpdu.subspan(off, MPA_MARKER_SIZE));

		if (ziw_mpa_marker_decode(marker.data()) != (off ? off - lead : 0))
			return TERM_MPA_MARKER;
	}
	return 0;
}

std::size_t Receiver::one(View stream)
{
	const unsigned pos = static_cast<unsigned>(marker_position());
	const auto raw_len = [&](unsigned len) {
		return framing_.markers ? ziw_mpa_raw_len(pos, len) : len;
	};
	Cursor cursor(stream, pos, framing_.markers);
	Event event;
	ziw_ddp_hdr hdr;

	if (stream.size() < raw_len(MPA_LEN_SIZE))
		return 0;

	const unsigned ulpdu = get_unaligned_be16(cursor.take(MPA_LEN_SIZE).data());
	const std::size_t size = raw_len(ziw_mpa_fpdu_len(ulpdu));

	REQUIRE(size % 4 == 0);
	REQUIRE(size >= MPA_LEN_SIZE + ulpdu + MPA_CRC_SIZE);
	if (stream.size() < size)
		return 0;
	if (const u16 code = check_framing(stream.first(size))) {
		end(event, {.code = code});
		events_.push_back(event);
		return 0;
	}

	event.size = size;
	ulpdu_ = cursor.take(ulpdu);
	const Bytes head = copy(View(ulpdu_).first(std::min<std::size_t>(ulpdu, DDP_MAX_LEN)));
	const int hdr_len = ziw_ddp_decode(head.data(), ulpdu, &hdr);

	if (hdr_len < 0) {
		end(event, {.code = TERM_DDP_CATASTROPHIC});
	} else {
		event.opcode = hdr.opcode;
		event.tagged = hdr.tagged;
		event.last = hdr.last;
		event.where = hdr.tagged ? hdr.stag : hdr.qn;
		event.offset = hdr.tagged ? hdr.to : hdr.mo;
		event.payload = copy(View(ulpdu_).subspan(static_cast<std::size_t>(hdr_len)));
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
	while (const std::size_t n = one(View(pending_).subspan(used))) {
		used += n;
		handled_ += n;
	}
	pending_.erase(pending_.begin(), pending_.begin() + static_cast<std::ptrdiff_t>(used));
}
