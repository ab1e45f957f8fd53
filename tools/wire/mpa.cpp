// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "mpa.h"

#include <algorithm>
#include <stdexcept>

namespace wire {

/* --- setup frames --- */

namespace {

constexpr uint32_t flag_a = 0x80000000, flag_b = 0x40000000, flag_c = 0x8000, flag_d = 0x4000;
constexpr std::size_t key_length = 16, enhanced_length = 4;

} // namespace

uint32_t Enhanced::encode() const
{
	uint32_t word = static_cast<uint32_t>(ird & none) << 16 | (ord & none);

	return word | (peer_to_peer ? flag_a : 0) | (rtr_send ? flag_b : 0) |
	       (rtr_write ? flag_c : 0) | (rtr_read ? flag_d : 0);
}

Enhanced Enhanced::decode(uint32_t word)
{
	Enhanced e;

	e.peer_to_peer = word & flag_a;
	e.rtr_send = word & flag_b;
	e.rtr_write = word & flag_c;
	e.rtr_read = word & flag_d;
	e.ird = word >> 16 & none;
	e.ord = word & none;
	return e;
}

Bytes MpaFrame::encode() const
{
	Bytes data, frame = key ? *key : reply ? reply_key() : request_key();

	if (enhanced)
		put32(data, enhanced->encode());
	append(data, private_data);
	put8(frame, enhanced ? flags | s : flags);
	put8(frame, revision);
	put16(frame, length ? *length : static_cast<unsigned>(data.size()));
	append(frame, data);
	return frame;
}

std::size_t MpaFrame::size(View header)
{
	auto start = copy(part(header, 0, key_length));

	if (start != request_key() && start != reply_key())
		throw std::invalid_argument("not an MPA frame: " + hex(start));
	return header_length + get16(header, 18);
}

MpaFrame MpaFrame::decode(View bytes)
{
	MpaFrame frame;
	auto data = part(bytes, header_length, size(bytes) - header_length);

	frame.reply = copy(part(bytes, 0, key_length)) == reply_key();
	frame.flags = get8(bytes, 16);
	frame.revision = get8(bytes, 17);
	/* Below revision 2 the bit has no meaning (RFC 6581, 6). */
	if (frame.revision >= 2 && frame.flags & s && data.size() >= enhanced_length) {
		frame.enhanced = Enhanced::decode(get32(data, 0));
		data = data.subspan(enhanced_length);
	}
	frame.private_data = copy(data);
	return frame;
}

/* --- FPDUs --- */

/*
 * An FPDU is a number of four-octet words, and so is a marker: with the stream's start at position
 * zero, markers fall before the words at multiples of the interval. The words are: the length field
 * with the ULPDU and the pad, then the CRC.
 */
Bytes FpduEncoder::encode(View ulpdu, const FpduFaults &faults)
{
	Bytes body, fpdu;
	uint64_t start = position_;
	unsigned number = 0;

	if (ulpdu.size() > 0xffff)
		throw std::invalid_argument("a ULPDU of more than 65535 octets");
	put16(body, faults.length ? *faults.length : static_cast<unsigned>(ulpdu.size()));
	append(body, ulpdu);
	while (body.size() % 4)
		put8(body, faults.pad);

	auto maybe_marker = [&](bool first) {
		if (!markers_ || position_ % marker_interval)
			return;
		auto pointer = static_cast<uint16_t>(first ? 0 : position_ - start);
		uint16_t reserved = 0;
		if (faults.marker)
			faults.marker(number, reserved, pointer);
		number++;
		put16(fpdu, reserved);
		put16(fpdu, pointer);
		position_ += 4;
		/* The one between two FPDUs is in front of the length field. */
		if (first)
			start += 4;
	};
	for (std::size_t at = 0; at < body.size(); at += 4) {
		maybe_marker(at == 0);
		append(fpdu, View(body).subspan(at, 4));
		position_ += 4;
	}
	maybe_marker(false);

	auto crc = crc32c(fpdu);
	if (faults.crc == FpduFaults::Crc::wrong)
		crc ^= 0x00100000;
	else if (faults.crc == FpduFaults::Crc::zero)
		crc = 0;
	/* As the example in RFC 5044, figure 5 has it: the reflected value's lowest octet first. */
	for (int i = 0; i < 4; i++)
		put8(fpdu, crc >> 8 * i);
	position_ += 4;
	return fpdu;
}

bool Fpdu::pad_good() const
{
	return std::all_of(pad.begin(), pad.end(), [](uint8_t byte) { return byte == 0; });
}

bool Fpdu::markers_good() const
{
	return std::all_of(markers.begin(), markers.end(),
			   [](const Marker &marker) { return marker.good(); });
}

namespace {

/* A stream's octets in words, without its markers. */
class Words {
public:
	Words(View bytes, bool markers, uint64_t position)
		: bytes_(bytes), markers_(markers), position_(position), length_at_(position)
	{
	}

	/* The next word, behind the marker if one is due; nothing if it has not come yet. */
	std::optional<View> next()
	{
		if (markers_ && (position_ + at_) % FpduEncoder::marker_interval == 0) {
			if (bytes_.size() - at_ < 8)
				return std::nullopt;
			bool first = at_ == 0;
			found_.push_back(
				{position_ + at_, get16(bytes_, at_), get16(bytes_, at_ + 2),
				 static_cast<uint16_t>(first ? 0 : position_ + at_ - length_at_)});
			at_ += 4;
			if (first)
				length_at_ += 4;
		}
		if (bytes_.size() - at_ < 4)
			return std::nullopt;
		at_ += 4;
		return bytes_.subspan(at_ - 4, 4);
	}

	/* Octets that the words and markers so far took. */
	std::size_t taken() const { return at_; }
	const std::vector<Marker> &markers() const { return found_; }

private:
	View bytes_;
	bool markers_;
	uint64_t position_, length_at_;
	std::size_t at_ = 0;
	std::vector<Marker> found_;
};

} // namespace

std::optional<Fpdu> Fpdu::read(View bytes, bool markers, uint64_t position)
{
	Words words(bytes, markers, position);
	Fpdu fpdu;
	Bytes body;

	fpdu.position = position;
	auto first = words.next();
	if (!first)
		return std::nullopt;
	std::size_t length = get16(*first, 0), padded = (2 + length + 3) / 4 * 4;
	/* With the fewest markers; saves looking at each word again and again. */
	if (bytes.size() < padded + 4)
		return std::nullopt;
	append(body, *first);
	while (body.size() < padded) {
		auto more = words.next();
		if (!more)
			return std::nullopt;
		append(body, *more);
	}
	auto crc = words.next();
	if (!crc)
		return std::nullopt;
	for (int i = 0; i < 4; i++)
		fpdu.crc |= static_cast<uint32_t>((*crc)[static_cast<std::size_t>(i)]) << 8 * i;
	fpdu.computed_crc = crc32c(bytes.first(words.taken() - 4));
	fpdu.ulpdu = copy(part(body, 2, length));
	fpdu.pad = copy(rest(body, 2 + length));
	fpdu.wire_length = words.taken();
	fpdu.markers = words.markers();
	return fpdu;
}

std::optional<Bytes> Fpdu::read_head(View bytes, bool markers, uint64_t position, std::size_t count)
{
	Words words(bytes, markers, position);
	auto word = words.next();
	Bytes body;

	if (!word)
		return std::nullopt;
	count = std::min<std::size_t>(count, get16(*word, 0));
	append(body, *word);
	while (body.size() < 2 + count) {
		word = words.next();
		if (!word)
			return std::nullopt;
		append(body, *word);
	}
	return copy(part(body, 2, count));
}

std::optional<Fpdu> FpduDecoder::next()
{
	auto fpdu = peek();

	if (fpdu)
		skip(fpdu->wire_length);
	return fpdu;
}

void FpduDecoder::skip(std::size_t count)
{
	count = std::min(count, buffer_.size());
	buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(count));
	position_ += count;
}

} // namespace wire
