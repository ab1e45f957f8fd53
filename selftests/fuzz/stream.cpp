// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Fuzzes the receive parser with a stream of FPDUs that arrives in pieces. How it is cut changes
 * nothing, and kernel/proto cuts it where fpdu.cpp, written without it, does.
 *
 * Input: options (flag 0: no CRC; flag 1: markers), then the stream. mutate.cpp keeps most of its
 * FPDUs whole.
 */
#include "fpdu.h"
#include "receiver.h"

#include <algorithm>

namespace {

Receiver run(View stream, Framing framing, unsigned how)
{
	Receiver receiver(framing);
	Splitter splitter(how);

	while (!stream.empty()) {
		const View piece = stream.first(splitter.next(stream.size()));

		receiver.feed(piece);
		stream = stream.subspan(piece.size());
	}
	return receiver;
}

/* The octets that came through are those that were sent, and go where the header says. */
void check_event(const Event &event, const fpdu::Good::Fpdu &fpdu)
{
	REQUIRE(event.size == fpdu.size);
	REQUIRE(event.payload.size() <= fpdu.ulpdu.size());
	REQUIRE(std::equal(event.payload.rbegin(), event.payload.rend(), fpdu.ulpdu.rbegin()));
	REQUIRE(event.completions.size() <= 1);
	for (const Completion &done : event.completions) {
		REQUIRE(!event.tagged && event.where == DDP_QN_SEND && event.last);
		REQUIRE(event.terminate.empty());
		REQUIRE((done.opcode == ZIW_OP_RECV_IMM) == (event.opcode >= 8));
		REQUIRE(!(done.flags & ZIW_CQE_WITH_IMM) || !(done.flags & ZIW_CQE_WITH_INV));
	}
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;

	const Options options(data[0], 2);
	const Framing framing = {.crc = !options.flag(0), .markers = options.flag(1)};
	const View stream(data + 1, size - 1);
	const Receiver whole = run(stream, framing, 0);
	const Receiver pieces = run(stream, framing, options.split);

	REQUIRE(whole.events() == pieces.events());
	REQUIRE(whole.failed() == pieces.failed());

	const fpdu::Good good = fpdu::good_prefix(stream, framing.crc, framing.markers);
	const std::vector<Event> &events = whole.events();
	std::size_t at = 0;

	for (const fpdu::Good::Fpdu &fpdu : good.fpdus) {
		if (at == events.size()) {
			REQUIRE(whole.failed());
			break;
		}
		check_event(events[at], fpdu);
		at++;
	}
	/* Beyond the good ones, what is wrong with the next is all that was noticed. */
	if (at < good.fpdus.size() || (whole.failed() && events.size() == at)) {
		REQUIRE(at && events.size() == at && !events.back().terminate.empty());
	} else {
		REQUIRE(events.size() == at + (good.fault != 0));
		if (good.fault) {
			const Event &event = events.back();

			REQUIRE(whole.failed() && !event.size);
			REQUIRE(get_unaligned_be16(event.terminate.data()) == good.fault);
		}
	}
	return 0;
}
