/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A receiver that uses kernel/proto in the order in which kernel/receive.c does: length, whole
 * FPDU, CRC, DDP header, versions, queue, opcode, sequence. It has no verbs objects; it notes what
 * it would do.
 */
#pragma once

#include "fuzz.h"

struct Event {
	/* Of the FPDU in the stream. */
	std::size_t size = 0;
	u8 opcode = 0;
	bool tagged = false, last = false;
	/* Where its payload goes: STag and TO, or QN and MO. */
	u32 where = 0;
	u64 offset = 0;
	Bytes payload;
	/* What the stream ends with here: a Terminate of ours or the peer's, as on the wire. */
	Bytes terminate;

	bool operator==(const Event &) const = default;
};

class Receiver {
public:
	explicit Receiver(bool crc) : crc_(crc) {}

	void feed(View bytes);
	const std::vector<Event> &events() const { return events_; }
	/* After a fault nothing more is looked at (RFC 5044, 8). */
	bool failed() const { return failed_; }

private:
	/* Bytes of the FPDU that begins there; 0 if it is not whole or the stream has ended. */
	std::size_t one(View stream);
	void dispatch(Event &event, const ziw_ddp_hdr &hdr);
	void tagged(Event &event, const ziw_ddp_hdr &hdr);
	void untagged(Event &event, const ziw_ddp_hdr &hdr);
	void send(Event &event, const ziw_ddp_hdr &hdr);
	void read_request(Event &event);
	void read_response(Event &event, const ziw_ddp_hdr &hdr);
	void terminate_message(Event &event);
	void fault(Event &event, u16 code, bool with_read = false);
	void end(Event &event, const ziw_terminate &term);

	bool crc_;
	bool failed_ = false;
	Bytes pending_;
	std::vector<Event> events_;

	View ulpdu_;
	u32 msn_[3] = {1, 1, 1};
	u32 mo_ = 0;
	u64 read_got_ = 0;
	unsigned reads_ = 0;
};
