/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A receiver that uses kernel/proto in the order in which kernel/receive.c and kernel/deliver.c do:
 * length, whole FPDU, CRC, markers, DDP header, versions, queue, opcode, sequence. It has no verbs
 * objects; it notes what it would do.
 */
#pragma once

#include "fuzz.h"

/* What a receive work request would complete with. */
struct Completion {
	u8 opcode = 0;
	u16 flags = 0;
	u64 length = 0;
	u32 ex = 0;

	bool operator==(const Completion &) const = default;
};

struct Event {
	/* Of the FPDU in the stream. */
	std::size_t size = 0;
	u8 opcode = 0;
	bool tagged = false, last = false;
	/* Where its payload goes: STag and TO, or QN and MO. */
	u32 where = 0;
	u64 offset = 0;
	Bytes payload;
	std::vector<Completion> completions;
	/* What an Atomic Request is answered with. */
	Bytes response;
	/* What the stream ends with here: a Terminate of ours or the peer's, as on the wire. */
	Bytes terminate;

	bool operator==(const Event &) const = default;
};

/* How a stream was negotiated. */
struct Framing {
	bool crc, markers;
};

class Receiver {
public:
	explicit Receiver(Framing framing) : framing_(framing) {}

	void feed(View bytes);
	const std::vector<Event> &events() const { return events_; }
	/* After a fault nothing more is looked at (RFC 5044, 8). */
	bool failed() const { return failed_; }

private:
	/* Octets of the FPDU that begins there; 0 if it is not whole or the stream has ended. */
	std::size_t one(View stream);
	u16 check_framing(View fpdu) const;
	std::size_t marker_position() const { return handled_ % MPA_MARKER_INTERVAL; }

	void dispatch(Event &event, const ziw_ddp_hdr &hdr);
	void tagged(Event &event, const ziw_ddp_hdr &hdr);
	void write(Event &event, const ziw_ddp_hdr &hdr);
	void untagged(Event &event, const ziw_ddp_hdr &hdr);
	void send(Event &event, const ziw_ddp_hdr &hdr);
	void imm(Event &event, const ziw_ddp_hdr &hdr);
	void read_request(Event &event);
	void read_response(Event &event, const ziw_ddp_hdr &hdr);
	void atomic_request(Event &event);
	void atomic_response(Event &event);
	void terminate_message(Event &event);
	bool take_header(Event &event, std::size_t len);
	bool claim_request(Event &event);
	void fault(Event &event, u16 code, bool with_read = false);
	void end(Event &event, const ziw_terminate &term);

	Framing framing_;
	bool failed_ = false;
	/* Octets of the stream that were handled, and those that wait for more. */
	std::size_t handled_ = 0;
	Bytes pending_;
	std::vector<Event> events_;

	Bytes ulpdu_;
	u32 msn_[DDP_QN_NUM] = {1, 1, 1, 1};
	/* The Send that is arriving, and Immediate Data that belongs to the next one. */
	bool have_rqe_ = false, have_imm_ = false;
	u64 got_ = 0;
	u32 imm_ = 0;
	/* The Write before, which Immediate Data tells the length of. */
	bool write_last_ = false;
	u64 write_len_ = 0;
	/* Requests of ours: a Read and an Atomic in turn, without end. */
	bool oldest_is_atomic_ = false;
	u64 read_got_ = 0;
	/* Requests of the peer's, and what they change. */
	unsigned requests_ = 0;
	u64 memory_ = 0;
};
