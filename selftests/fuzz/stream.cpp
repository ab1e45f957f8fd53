// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Fuzzes the receive parser with a stream of FPDUs that arrives in pieces. How it is cut changes
 * nothing, and kernel/proto cuts it where fpdu.cpp, written without it, does.
 *
 * Input: options (the flag: no CRC), then the stream. mutate.cpp keeps most of its FPDUs whole.
 */
#include "fpdu.h"
#include "receiver.h"

namespace {

Receiver run(View stream, bool crc, unsigned how)
{
	Receiver receiver(crc);
	Splitter splitter(how);

	while (!stream.empty()) {
		const View piece = stream.first(splitter.next(stream.size()));

		receiver.feed(piece);
		stream = stream.subspan(piece.size());
	}
	return receiver;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;

	const Options options(data[0]);
	const bool crc = !options.flag;
	const View stream(data + 1, size - 1);
	const Receiver whole = run(stream, crc, 0);
	const Receiver pieces = run(stream, crc, options.split);

	REQUIRE(whole.events() == pieces.events());
	REQUIRE(whole.failed() == pieces.failed());

	std::size_t at = 0;

	for (std::size_t fpdu : fpdu::good_prefix(stream, crc)) {
		if (at == whole.events().size()) {
			REQUIRE(whole.failed());
			break;
		}
		REQUIRE(whole.events()[at].size == fpdu);
		at++;
	}
	/* Beyond the good ones, at most a bad CRC was noticed. */
	REQUIRE(whole.events().size() <= at + 1);
	if (whole.events().size() == at + 1)
		REQUIRE(crc && whole.failed() && !whole.events()[at].size);
	return 0;
}
