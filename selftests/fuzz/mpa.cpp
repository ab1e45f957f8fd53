// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Fuzzes the MPA negotiation's decoder the way kernel/conn.c drives it: a stream of bytes arrives
 * in pieces, exactly one setup frame is taken off it, what follows is left alone.
 *
 * Input: options (the flag: we are the initiator), then the stream.
 */
#include "fuzz.h"

#include <algorithm>

namespace {

class Setup {
public:
	explicit Setup(bool initiator) : initiator_(initiator) {}

	/* Takes what it needs. Returns how many bytes that is; 0 when it is done. */
	std::size_t feed(View bytes)
	{
		std::size_t used = 0;

		while (!done_ && used < bytes.size()) {
			const std::size_t want = MPA_HDR_LEN + (have_header_ ? frame_.pd_len : 0);
			const std::size_t n = std::min(want - bytes_.size(), bytes.size() - used);

			bytes_.insert(bytes_.end(),
				      bytes.begin() + static_cast<std::ptrdiff_t>(used),
				      bytes.begin() + static_cast<std::ptrdiff_t>(used + n));
			used += n;
			if (bytes_.size() == want)
				step();
		}
		return used;
	}

	bool done() const { return done_; }
	int error() const { return error_; }
	const ziw_mpa_frame &frame() const { return frame_; }
	const Bytes &bytes() const { return bytes_; }

private:
	void step()
	{
		if (!have_header_) {
			have_header_ = true;
			error_ = ziw_mpa_decode_header(Bytes(bytes_).data(), &frame_);
			if (!error_ && frame_.reply != initiator_)
				error_ = -EPROTO;
			if (error_ || frame_.pd_len) {
				done_ = error_;
				return;
			}
		}
		done_ = true;
		if (frame_.enhanced)
			error_ = ziw_mpa_decode_enhanced(
				copy(View(bytes_).subspan(MPA_HDR_LEN, MPA_ENHANCED_LEN)).data(),
				&frame_);
	}

	bool initiator_;
	bool have_header_ = false;
	bool done_ = false;
	int error_ = 0;
	ziw_mpa_frame frame_ = {};
	Bytes bytes_;
};

Setup run(View stream, bool initiator, unsigned how)
{
	Setup setup(initiator);
	Splitter splitter(how);

	while (!stream.empty() && !setup.done()) {
		const View piece = stream.first(splitter.next(stream.size()));
		const std::size_t used = setup.feed(piece);

		REQUIRE(used == piece.size() || setup.done());
		stream = stream.subspan(used);
	}
	return setup;
}

/* The frame in the words of one who sends it: reserved bits zero, flags that do not apply zero. */
Bytes canonical(Bytes bytes, const ziw_mpa_frame &frame)
{
	bytes[16] &= MPA_FLAG_MARKERS | MPA_FLAG_CRC | MPA_FLAG_REJECT | MPA_FLAG_ENHANCED;
	if (!frame.reply)
		bytes[16] &= static_cast<u8>(~MPA_FLAG_REJECT);
	if (frame.rev < 2)
		bytes[16] &= static_cast<u8>(~MPA_FLAG_ENHANCED);
	if (frame.enhanced && !(bytes[20] & 0x80)) {
		bytes[20] &= 0x3f;
		bytes[22] &= 0x3f;
	}
	return bytes;
}

void check(const Setup &setup)
{
	const ziw_mpa_frame &frame = setup.frame();
	const std::size_t words = frame.enhanced ? MPA_ENHANCED_LEN : 0;

	REQUIRE(frame.rev == 1 || frame.rev == 2);
	REQUIRE(!frame.enhanced || frame.rev == 2);
	REQUIRE(!frame.reject || frame.reply);
	REQUIRE(!frame.p2p || frame.enhanced);
	REQUIRE(!frame.rtr || frame.p2p);
	REQUIRE(frame.ird <= MPA_ORD_MASK && frame.ord <= MPA_ORD_MASK);
	REQUIRE(words + frame.pd_len <= MPA_MAX_PRIVATE);
	REQUIRE(setup.bytes().size() == MPA_HDR_LEN + words + frame.pd_len);

	const Bytes private_data = copy(View(setup.bytes()).last(frame.pd_len));
	Bytes again(MPA_HDR_LEN + words + frame.pd_len);
	const unsigned len = ziw_mpa_encode(again.data(), &frame, private_data.data());

	REQUIRE(len == again.size());
	REQUIRE(again == canonical(setup.bytes(), frame));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;

	const Options options(data[0], 1);
	const View stream(data + 1, size - 1);
	const Setup whole = run(stream, options.flag(0), 0);
	const Setup pieces = run(stream, options.flag(0), options.split);

	REQUIRE(whole.done() == pieces.done());
	REQUIRE(whole.error() == pieces.error());
	REQUIRE(whole.bytes() == pieces.bytes());
	if (whole.done() && !whole.error())
		check(whole);
	return 0;
}
