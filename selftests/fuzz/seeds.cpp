// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * seeds DIR: writes the corpus that the fuzzers start from into DIR/mpa, DIR/ddp and DIR/stream:
 * one of each thing that can be said right, and a few that are wrong in one place. `run --seeds`
 * calls it for the corpus beside this file; what else is in there stays.
 */
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "fpdu.h"

namespace {

namespace fs = std::filesystem;

fs::path corpus;

void write(const std::string &name, const Bytes &bytes)
{
	std::ofstream file(corpus / name, std::ios::binary);

	for (u8 byte : bytes)
		file.put(static_cast<char>(byte));
	if (!file.flush())
		throw std::runtime_error("cannot write " + name);
}

Bytes operator+(Bytes a, View b)
{
	a.insert(a.end(), b.begin(), b.end());
	return a;
}

/* --- mpa: the options byte, the frame, and a byte of what comes after it --- */

void mpa(const std::string &name, const ziw_mpa_frame &frame)
{
	const Bytes private_data(frame.pd_len, 'p');
	Bytes bytes(MPA_HDR_LEN + MPA_ENHANCED_LEN + frame.pd_len);

	bytes.resize(ziw_mpa_encode(bytes.data(), &frame, private_data.data()));
	/* A Reply goes to the initiator; it arrives in random pieces. */
	write("mpa/" + name, Bytes{static_cast<u8>(frame.reply ? 5 : 4)} + bytes + Bytes{0});
}

void mpa_seeds()
{
	mpa("request-1", {.rev = 1, .crc = true});
	mpa("request-1-private-data", {.rev = 1, .crc = true, .pd_len = 16});
	mpa("request-1-markers", {.rev = 1, .markers = true});
	mpa("request-1-largest", {.rev = 1, .pd_len = MPA_MAX_PRIVATE});
	mpa("request-1-too-large", {.rev = 1, .pd_len = MPA_MAX_PRIVATE + 1});
	mpa("request-2-plain", {.rev = 2, .crc = true, .pd_len = 4});
	mpa("request-2", {.rev = 2, .crc = true, .enhanced = true, .ird = 16, .ord = 8});
	mpa("request-2-no-negotiation",
	    {.rev = 2, .enhanced = true, .ird = MPA_ORD_NONE, .ord = MPA_ORD_NONE, .pd_len = 3});
	mpa("request-2-peer-to-peer", {.rev = 2,
				       .crc = true,
				       .enhanced = true,
				       .p2p = true,
				       .rtr = ZIW_RTR_ALL,
				       .ird = 1,
				       .ord = 1});
	mpa("request-3", {.rev = 3, .crc = true});
	mpa("reply-1", {.reply = true, .rev = 1, .crc = true});
	mpa("reply-1-reject", {.reply = true, .rev = 1, .reject = true, .pd_len = 8});
	mpa("reply-2", {.reply = true,
			.rev = 2,
			.crc = true,
			.enhanced = true,
			.ird = 4,
			.ord = 4,
			.pd_len = 1});
	for (u8 rtr : {ZIW_RTR_SEND, ZIW_RTR_WRITE, ZIW_RTR_READ})
		mpa("reply-2-rtr-" + std::to_string(rtr), {.reply = true,
							   .rev = 2,
							   .enhanced = true,
							   .p2p = true,
							   .rtr = rtr,
							   .ird = 1,
							   .ord = 1});
}

/* --- ddp: ULPDUs --- */

Bytes segment(const ziw_ddp_hdr &hdr, View payload = {})
{
	Bytes bytes(DDP_MAX_LEN);

	bytes.resize(ziw_ddp_encode(bytes.data(), &hdr));
	return bytes + payload;
}

Bytes send(u8 opcode, u32 msn, std::size_t size, u32 mo = 0, bool last = true)
{
	const u32 stag = ziw_rdmap_invalidates(opcode) ? 0x200 : 0;

	return segment({.last = last, .opcode = opcode, .inv_stag = stag, .msn = msn, .mo = mo},
		       Bytes(size, 's'));
}

Bytes tagged(u8 opcode, u64 to, std::size_t size, bool last = true)
{
	return segment({.tagged = true, .last = last, .opcode = opcode, .stag = 0x100, .to = to},
		       Bytes(size, 't'));
}

Bytes read_header()
{
	const ziw_read_req req = {0x300, 0x1000, 2048, 0x400, 0x2000};
	Bytes bytes(RDMAP_READ_REQ_LEN);

	ziw_read_req_encode(bytes.data(), &req);
	return bytes;
}

Bytes read_request(u32 msn)
{
	return segment({.last = true, .opcode = RDMAP_READ_REQ, .qn = DDP_QN_READ_REQ, .msn = msn},
		       read_header());
}

/* With the header of the segment that `about` begins with, and all of a Read Request's. */
Bytes terminate(u16 code, View about = {})
{
	ziw_terminate term = {
		.code = code, .has_ddp = !about.empty(), .seg_len = static_cast<u16>(about.size())};
	Bytes bytes(TERM_MAX_LEN);

	if (term.has_ddp) {
		ziw_ddp_hdr hdr;
		const int len =
			ziw_ddp_decode(about.data(), static_cast<unsigned>(about.size()), &hdr);

		std::copy_n(about.begin(), len, term.ddp);
		term.has_rdmap = hdr.opcode == RDMAP_READ_REQ;
		if (term.has_rdmap)
			std::copy_n(about.begin() + len, RDMAP_READ_REQ_LEN, term.read);
	}
	bytes.resize(ziw_terminate_encode(bytes.data(), &term));
	return segment({.last = true, .opcode = RDMAP_TERMINATE, .qn = DDP_QN_TERMINATE, .msn = 1},
		       bytes);
}

void ddp_seeds()
{
	write("ddp/write", tagged(RDMAP_WRITE, 0x1000, 5));
	write("ddp/read-response", tagged(RDMAP_READ_RESP, 0, 4));
	write("ddp/read-request", read_request(1));
	for (u8 opcode = RDMAP_SEND; opcode <= RDMAP_SEND_SE_INV; opcode++)
		write("ddp/send-" + std::to_string(opcode), send(opcode, 1, 3));
	write("ddp/terminate", terminate(TERM_MPA_CRC));
	write("ddp/terminate-untagged", terminate(TERM_DDP_UNTAGGED_MO, send(RDMAP_SEND, 3, 8)));
	write("ddp/terminate-tagged", terminate(TERM_DDP_TAGGED_BOUNDS, tagged(RDMAP_WRITE, 0, 8)));
	write("ddp/terminate-read", terminate(TERM_RDMAP_PROT_ACCESS, read_request(7)));
	write("ddp/reserved-opcode", send(0xf, 1, 0));
	write("ddp/cut-off", Bytes{0x41, 0x43, 0x00});
}

/* --- stream: the options byte and FPDUs --- */

void stream(const std::string &name, u8 options, std::initializer_list<Bytes> ulpdus,
	    View rest = {})
{
	Bytes bytes{options};

	for (const Bytes &ulpdu : ulpdus)
		fpdu::append(bytes, ulpdu);
	write("stream/" + name, bytes + rest);
}

void stream_seeds()
{
	const u8 whole = 0, no_crc = 1, bytewise = 2, pieces = 6;
	const Bytes fpdu_begins{0x00, 0x12, 0x41, 0x43};
	Bytes broken;

	stream("send", whole, {send(RDMAP_SEND, 1, 24)});
	stream("send-each-pad", pieces,
	       {send(RDMAP_SEND, 1, 0), send(RDMAP_SEND, 2, 1), send(RDMAP_SEND, 3, 2),
		send(RDMAP_SEND, 4, 3)});
	stream("send-segments", bytewise,
	       {send(RDMAP_SEND, 1, 100, 0, false), send(RDMAP_SEND, 1, 50, 100, false),
		send(RDMAP_SEND, 1, 1, 150)});
	stream("send-kinds", pieces,
	       {send(RDMAP_SEND_INV, 1, 4), send(RDMAP_SEND_SE, 2, 4),
		send(RDMAP_SEND_SE_INV, 3, 4)});
	stream("send-too-long", pieces,
	       {send(RDMAP_SEND, 1, 4000, 0, false), send(RDMAP_SEND, 1, 100, 4000)});
	stream("write", pieces, {tagged(RDMAP_WRITE, 0, 64, false), tagged(RDMAP_WRITE, 64, 10)});
	stream("write-empty", whole, {tagged(RDMAP_WRITE, 0, 0)});
	stream("read-requests", pieces,
	       {read_request(1), read_request(2), read_request(3), read_request(4),
		read_request(5)});
	stream("read-response", pieces,
	       {tagged(RDMAP_READ_RESP, 0, 1442, false), tagged(RDMAP_READ_RESP, 1442, 606)});
	stream("terminate", whole,
	       {send(RDMAP_SEND, 1, 8), terminate(TERM_DDP_UNTAGGED_MO, send(RDMAP_SEND, 3, 8))});
	stream("terminate-read", whole, {terminate(TERM_RDMAP_PROT_ACCESS, read_request(7))});
	stream("mixed", pieces,
	       {tagged(RDMAP_WRITE, 0, 30), read_request(1), send(RDMAP_SEND, 1, 9),
		tagged(RDMAP_READ_RESP, 0, 2048), send(RDMAP_SEND_SE, 2, 0)});
	stream("no-crc", no_crc, {send(RDMAP_SEND, 1, 24), tagged(RDMAP_WRITE, 0, 5)});
	stream("empty-ulpdu", whole, {Bytes{}});
	stream("half-an-fpdu", pieces, {send(RDMAP_SEND, 1, 24)}, fpdu_begins);
	fpdu::append(broken, send(RDMAP_SEND, 2, 24));
	broken.back() ^= 1;
	stream("bad-crc", pieces, {send(RDMAP_SEND, 1, 24)}, broken);
}

} // namespace

int main(int argc, char **argv)
{
	if (argc != 2) {
		std::fprintf(stderr, "usage: seeds DIR\n");
		return 2;
	}
	corpus = argv[1];
	for (const char *target : {"mpa", "ddp", "stream"})
		fs::create_directories(corpus / target);
	mpa_seeds();
	ddp_seeds();
	stream_seeds();
	return 0;
}
