// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "fpdu.h"

#include <algorithm>
#include <optional>

#include "unit/crc32c.h"

namespace fpdu {

namespace {

constexpr std::size_t length_size = 2, max_ulpdu = 0xffff;
constexpr std::size_t marker_size = 4, marker_interval = 512;

bool marker_is_due(std::size_t position, bool markers)
{
	return markers && position % marker_interval == 0;
}

/* Of so many octets, those up to the place of the next marker. */
std::size_t up_to_marker(std::size_t position, bool markers, std::size_t count)
{
	return markers ? std::min(count, marker_interval - position % marker_interval) : count;
}

/* Puts octets of an FPDU into a stream. */
class Writer {
public:
	Writer(Bytes &stream, bool markers, u32 spoil)
		: stream_(stream), markers_(markers), spoil_(spoil), begin_(stream.size())
	{
		mark();
		length_field_ = stream.size();
	}

	void put(View octets)
	{
		while (!octets.empty()) {
			mark();

			const View piece =
				octets.first(up_to_marker(stream_.size(), markers_, octets.size()));

			stream_.insert(stream_.end(), piece.begin(), piece.end());
			octets = octets.subspan(piece.size());
		}
	}

	/* A marker that is due goes before what comes next. */
	void mark()
	{
		if (!marker_is_due(stream_.size(), markers_))
			return;

		const bool before_fpdu = stream_.size() == begin_;
		const u32 pointer =
			before_fpdu ? 0 : static_cast<u32>(stream_.size() - length_field_);
		const u32 marker = (pointer & 0xffff) ^ spoil_;

		for (int shift : {24, 16, 8, 0})
			stream_.push_back(static_cast<u8>(marker >> shift & 0xff));
	}

	View so_far() const { return View(stream_).subspan(begin_); }

private:
	Bytes &stream_;
	bool markers_;
	u32 spoil_;
	std::size_t begin_, length_field_ = 0;
};

/* Takes octets of an FPDU from a stream, and looks at the markers on the way. */
class Reader {
public:
	Reader(View stream, std::size_t begin, bool markers)
		: stream_(stream), markers_(markers), begin_(begin), at_(begin)
	{
		enough_ = mark();
		length_field_ = at_;
	}

	Bytes take(std::size_t count)
	{
		Bytes octets;

		while (enough_ && count) {
			if (!mark())
				break;

			const std::size_t n = up_to_marker(at_, markers_, count);

			if (stream_.size() - at_ < n) {
				enough_ = false;
				break;
			}
			const View piece = stream_.subspan(at_, n);

			octets.insert(octets.end(), piece.begin(), piece.end());
			at_ += n;
			count -= n;
		}
		return octets;
	}

	/* Looks at a marker that is due. */
	bool mark()
	{
		if (!marker_is_due(at_, markers_))
			return true;
		if (stream_.size() - at_ < marker_size) {
			enough_ = false;
			return false;
		}

		const std::size_t expected = at_ == begin_ ? 0 : at_ - length_field_;
		const std::size_t pointer =
			static_cast<std::size_t>(stream_[at_ + 2] << 8 | stream_[at_ + 3]);

		/* The lowest two bits are no part of it, and are zero in what it should be. */
		if ((pointer | 3) != (expected | 3))
			markers_fit_ = false;
		at_ += marker_size;
		return true;
	}

	/* The stream had all that was asked for. */
	bool enough() const { return enough_; }
	bool markers_fit() const { return markers_fit_; }
	std::size_t size() const { return at_ - begin_; }
	View so_far() const { return stream_.subspan(begin_, size()); }

private:
	View stream_;
	bool markers_;
	std::size_t begin_, at_, length_field_ = 0;
	bool enough_ = true, markers_fit_ = true;
};

struct Whole {
	std::size_t size;
	Bytes ulpdu;
	bool crc_fits, markers_fit;
};

std::size_t pad_after(std::size_t ulpdu)
{
	return 3 - (length_size + ulpdu + 3) % 4;
}

/* The FPDU that begins there, if all of it is there. */
std::optional<Whole> whole(View stream, std::size_t begin, bool markers)
{
	Reader reader(stream, begin, markers);
	const Bytes length = reader.take(length_size);
	Whole fpdu = {};

	if (!reader.enough())
		return std::nullopt;
	fpdu.ulpdu = reader.take(static_cast<std::size_t>(length[0] << 8 | length[1]));
	reader.take(pad_after(fpdu.ulpdu.size()));
	reader.mark();
	if (!reader.enough())
		return std::nullopt;

	const auto crc = crc32c(reader.so_far());

	fpdu.crc_fits = std::ranges::equal(reader.take(crc.size()), crc);
	fpdu.size = reader.size();
	fpdu.markers_fit = reader.markers_fit();
	return reader.enough() ? std::optional(std::move(fpdu)) : std::nullopt;
}

} // namespace

void append(Bytes &stream, View ulpdu, bool markers, u32 spoil)
{
	Writer writer(stream, markers, spoil);

	ulpdu = ulpdu.first(std::min(ulpdu.size(), max_ulpdu));
	writer.put(Bytes{static_cast<u8>(ulpdu.size() >> 8), static_cast<u8>(ulpdu.size() & 0xff)});
	writer.put(ulpdu);
	writer.put(Bytes(pad_after(ulpdu.size())));
	/* A marker that follows the pad is covered too (4.4). */
	writer.mark();
	writer.put(crc32c(writer.so_far()));
}

Parts split(View stream, bool markers)
{
	std::size_t at = 0;
	Parts parts;

	while (auto fpdu = whole(stream, at, markers)) {
		at += fpdu->size;
		parts.ulpdus.push_back(std::move(fpdu->ulpdu));
	}
	parts.rest = copy(stream.subspan(at));
	return parts;
}

Good good_prefix(View stream, bool crc, bool markers)
{
	std::size_t at = 0;
	Good good;

	while (auto fpdu = whole(stream, at, markers)) {
		if (crc && !fpdu->crc_fits)
			good.fault = TERM_MPA_CRC;
		else if (!fpdu->markers_fit)
			good.fault = TERM_MPA_MARKER;
		if (good.fault)
			break;
		at += fpdu->size;
		good.fpdus.push_back({fpdu->size, std::move(fpdu->ulpdu)});
	}
	return good;
}

} // namespace fpdu
