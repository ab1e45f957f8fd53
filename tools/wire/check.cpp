// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "check.h"

#include <stdexcept>

namespace wire {

namespace {

/* Payload octets that messages of this opcode have; nothing if the ULP decides. */
std::optional<std::size_t> fixed_length(Opcode opcode)
{
	switch (opcode) {
	case Opcode::read_request:
		return ReadRequest::length;
	case Opcode::atomic_request:
		return AtomicRequest::length;
	case Opcode::atomic_response:
		return AtomicResponse::length;
	case Opcode::immediate:
	case Opcode::immediate_se:
		return 8;
	default:
		return std::nullopt;
	}
}

} // namespace

void StreamChecker::header_lengths(const Segment &s, std::vector<std::string> &broken)
{
	auto length = fixed_length(s.opcode);

	if (length && (s.payload.size() != *length || !s.last || s.mo))
		broken.push_back(std::string(name(s.opcode)) + " of " +
				 std::to_string(s.payload.size()) + " octets (5040 4.2, 7306 4.2)");
	if (s.opcode != Opcode::terminate)
		return;
	try {
		auto t = Terminate::decode(s.payload);
		if (t.reserved)
			broken.push_back("reserved bits in the Terminate (5040 4.8)");
		if (t.d && !t.m)
			broken.push_back("D without M in the Terminate (5040 4.8)");
		if (!t.more.empty())
			broken.push_back("octets behind the Terminate's headers (5040 4.8)");
	} catch (const std::out_of_range &) {
		broken.push_back("a Terminate that is cut off (5040 4.8)");
	}
}

void StreamChecker::untagged(const Segment &s, std::vector<std::string> &broken)
{
	auto queue = queue_of(s.opcode);

	if (queue != s.qn)
		broken.push_back("queue " + std::to_string(s.qn) + " for " + name(s.opcode) +
				 " (5040 4.1, 7306 4.1)");
	if (s.invalidate && !invalidates(s.opcode))
		broken.push_back("an Invalidate STag in " + std::string(name(s.opcode)) +
				 " (5040 4.1)");

	auto message = open_.find(s.qn);
	if (message == open_.end()) {
		auto next = next_msn_.try_emplace(s.qn, joined_ ? s.msn : 1).first;
		if (s.msn != next->second)
			broken.push_back("MSN " + std::to_string(s.msn) + " instead of " +
					 std::to_string(next->second) + " (5041 4.3)");
		next->second = s.msn + 1;
		if (s.mo && !joined_)
			broken.push_back("a message that begins at MO " + std::to_string(s.mo) +
					 " (5041 4.3)");
	} else {
		auto &m = message->second;
		if (s.msn != m.msn)
			broken.push_back("MSN changes within a message (5041 4.3)");
		if (s.opcode != m.opcode || s.invalidate != m.invalidate)
			broken.push_back("RsvdULP changes within a message (5041 4.3)");
		if (s.mo != m.next_mo)
			broken.push_back("MO " + std::to_string(s.mo) + " instead of " +
					 std::to_string(m.next_mo) + " (5041 5.2, 5.3)");
	}
	if (s.last)
		open_.erase(s.qn);
	else
		open_[s.qn] = {s.opcode, s.msn, s.mo + static_cast<uint32_t>(s.payload.size()),
			       s.invalidate};
	if (!s.last && s.payload.empty())
		broken.push_back("an empty segment within a message (5041 5.2)");
}

void StreamChecker::tagged(const Segment &s, std::vector<std::string> &broken)
{
	auto message = open_tagged_.find(s.opcode);

	if (message != open_tagged_.end()) {
		if (s.stag != message->second.stag)
			broken.push_back("STag changes within a message (5041 4.2)");
		if (s.to != message->second.next_to)
			broken.push_back("TO does not continue the message (5041 5.2, 5.3)");
	}
	if (s.last)
		open_tagged_.erase(s.opcode);
	else
		open_tagged_[s.opcode] = {s.opcode, s.stag, s.to + s.payload.size()};
	if (!s.last && s.payload.empty())
		broken.push_back("an empty segment within a message (5041 5.2)");
}

std::vector<std::string> StreamChecker::look(const Fpdu &fpdu)
{
	std::vector<std::string> broken;

	if (!fpdu.pad_good())
		broken.push_back("a pad that is not zero (5044 4.1)");
	if (crc_ && !fpdu.crc_good())
		broken.push_back("a wrong CRC (5044 4.4)");
	for (auto &marker : fpdu.markers) {
		if (marker.reserved)
			broken.push_back("reserved octets of a marker (5044 4.2)");
		if (marker.pointer != marker.expected)
			broken.push_back("FPDUPTR " + std::to_string(marker.pointer) +
					 " instead of " + std::to_string(marker.expected) +
					 " (5044 4.3)");
	}
	if (fpdu.ulpdu.size() > 64768)
		broken.push_back("a ULPDU of " + std::to_string(fpdu.ulpdu.size()) +
				 " octets (5044 3)");

	auto segment = Segment::decode(fpdu.ulpdu);
	if (!segment) {
		broken.push_back("a ULPDU without a DDP header (5041 4.4)");
		return broken;
	}
	auto &s = *segment;
	if (terminated_)
		broken.push_back("a message after the Terminate (5040 5.4)");
	if (s.ddp_reserved)
		broken.push_back("DDP's reserved bits (5041 4.1)");
	if (s.rdmap_reserved)
		broken.push_back("RDMAP's reserved bits (5040 4.1)");
	if (s.ddp_version != 1)
		broken.push_back("DDP version " + std::to_string(s.ddp_version) + " (5041 4.1)");
	if (s.rdmap_version != 1)
		broken.push_back("RDMAP version " + std::to_string(s.rdmap_version) +
				 " (5040 4.1)");
	if (!is_tagged(s.opcode) && !queue_of(s.opcode))
		broken.push_back("a reserved opcode (5040 4.1)");
	else if (is_tagged(s.opcode) != s.tagged)
		broken.push_back("the Tagged flag does not fit the opcode (5040 4.1)");
	header_lengths(s, broken);
	if (s.tagged)
		tagged(s, broken);
	else
		untagged(s, broken);
	terminated_ |= s.opcode == Opcode::terminate;
	return broken;
}

} // namespace wire
