/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What must be true of every stream: rules of RFC 5040, 5041, 5044 and 7306 that need no knowledge
 * of the application. One object per direction.
 */
#pragma once

#include <map>

#include "mpa.h"
#include "rdmap.h"

namespace wire {

class StreamChecker {
public:
	/* crc: whether CRCs are in use. */
	explicit StreamChecker(bool crc = true) : crc_(crc) {}
	/* From the middle of a stream: numbers are taken as they come first. */
	void join() { joined_ = true; }
	/* Every rule that this FPDU breaks, in words with the RFC's section. */
	std::vector<std::string> look(const Fpdu &fpdu);

private:
	struct Message {
		Opcode opcode;
		uint32_t msn, next_mo, invalidate;
	};
	struct Tagged {
		Opcode opcode;
		uint32_t stag;
		uint64_t next_to;
	};

	void untagged(const Segment &s, std::vector<std::string> &broken);
	void tagged(const Segment &s, std::vector<std::string> &broken);
	void header_lengths(const Segment &s, std::vector<std::string> &broken);

	bool crc_, joined_ = false, terminated_ = false;
	/* By queue: the message that goes on, and the number of the next one. */
	std::map<uint32_t, Message> open_;
	std::map<uint32_t, uint32_t> next_msn_;
	/* At most one Write and one Read Response go on. */
	std::map<Opcode, Tagged> open_tagged_;
};

} // namespace wire
