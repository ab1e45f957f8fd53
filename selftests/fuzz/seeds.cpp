// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * seeds DIR: writes the corpus that the fuzzers start from into a folder of DIR for each target:
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

Bytes imm(u8 opcode, u32 msn, bool with_send = false)
{
	const u32 data = 0x04030201;
	const ziw_imm header = {.data = data,
				.kind = with_send ? ziw_imm_with_send(data, msn)
						  : u32{ZIW_IMM_ALONE}};
	Bytes bytes(RDMAP_IMM_LEN);

	ziw_imm_encode(bytes.data(), &header);
	return segment({.last = true, .opcode = opcode, .msn = msn}, bytes);
}

Bytes atomic_request(u8 op, u32 msn)
{
	const ziw_atomic_req req = {.op = op,
				    .id = 0x500 + msn,
				    .stag = 0x400,
				    .to = 0x2000,
				    .data = 0x0000000100000001,
				    .mask = op ? ~u64{0} : 0x8000000080000000,
				    .compare = 0,
				    .compare_mask = ~u64{0}};
	Bytes bytes(RDMAP_ATOMIC_REQ_LEN);

	ziw_atomic_req_encode(bytes.data(), &req);
	return segment(
		{.last = true, .opcode = RDMAP_ATOMIC_REQ, .qn = DDP_QN_READ_REQ, .msn = msn},
		bytes);
}

/* To a request as receiver.cpp has it outstanding. */
Bytes atomic_response(u32 msn)
{
	const ziw_atomic_resp resp = {.id = 0x101, .value = 0x0123456789abcdef};
	Bytes bytes(RDMAP_ATOMIC_RESP_LEN);

	ziw_atomic_resp_encode(bytes.data(), &resp);
	return segment(
		{.last = true, .opcode = RDMAP_ATOMIC_RESP, .qn = DDP_QN_ATOMIC_RESP, .msn = msn},
		bytes);
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
	write("ddp/imm", imm(RDMAP_IMM, 1));
	write("ddp/imm-with-send", imm(RDMAP_IMM_SE, 1, true));
	/* With what is in memory behind them, for ddp.cpp */
	write("ddp/atomic-fetch-add",
	      atomic_request(ATOMIC_FETCH_ADD, 1) + Bytes{1, 0, 0, 0, 255, 255, 255, 255});
	write("ddp/atomic-cmp-swap", atomic_request(ATOMIC_CMP_SWAP, 1) + Bytes(8));
	write("ddp/atomic-unknown", atomic_request(1, 1));
	write("ddp/atomic-response", atomic_response(1));
	write("ddp/terminate", terminate(TERM_MPA_CRC));
	write("ddp/terminate-untagged", terminate(TERM_DDP_UNTAGGED_MO, send(RDMAP_SEND, 3, 8)));
	write("ddp/terminate-tagged", terminate(TERM_DDP_TAGGED_BOUNDS, tagged(RDMAP_WRITE, 0, 8)));
	write("ddp/terminate-read", terminate(TERM_RDMAP_PROT_ACCESS, read_request(7)));
	write("ddp/terminate-atomic",
	      terminate(TERM_RDMAP_OP_OPCODE, atomic_request(ATOMIC_FETCH_ADD, 7)));
	write("ddp/reserved-opcode", send(0xf, 1, 0));
	write("ddp/cut-off", Bytes{0x41, 0x43, 0x00});
}

/* --- stream: the options byte and FPDUs --- */

/* What stream.cpp makes of the options. */
constexpr u8 no_crc = 1, markers = 2, whole = 0 << 2, bytewise = 1 << 2, pieces = 3 << 2;

void stream(const std::string &name, u8 options, std::initializer_list<Bytes> ulpdus,
	    View rest = {})
{
	Bytes bytes;

	for (const Bytes &ulpdu : ulpdus)
		fpdu::append(bytes, ulpdu, options & markers);
	write("stream/" + name, Bytes{options} + bytes + rest);
}

void stream_seeds()
{
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
	stream("no-crc", no_crc | bytewise, {send(RDMAP_SEND, 1, 24), tagged(RDMAP_WRITE, 0, 5)});
	stream("empty-ulpdu", whole, {Bytes{}});
	stream("half-an-fpdu", pieces, {send(RDMAP_SEND, 1, 24)}, fpdu_begins);
	fpdu::append(broken, send(RDMAP_SEND, 2, 24), false);
	broken.back() ^= 1;
	stream("bad-crc", pieces, {send(RDMAP_SEND, 1, 24)}, broken);
}

/* RFC 7306 */
void extension_seeds()
{
	stream("imm", pieces, {imm(RDMAP_IMM, 1), imm(RDMAP_IMM_SE, 2)});
	stream("imm-after-write", pieces,
	       {tagged(RDMAP_WRITE, 0, 64, false), tagged(RDMAP_WRITE, 64, 10), imm(RDMAP_IMM, 1)});
	stream("imm-with-send", pieces, {imm(RDMAP_IMM, 1, true), send(RDMAP_SEND_SE, 2, 7)});
	stream("imm-twice-with-send", whole, {imm(RDMAP_IMM, 1, true), imm(RDMAP_IMM, 2)});
	stream("imm-inside-send", whole, {send(RDMAP_SEND, 1, 0, 0, false), imm(RDMAP_IMM, 1)});
	stream("imm-too-long", whole, {imm(RDMAP_IMM, 1) + Bytes{0}});
	stream("atomic-requests", pieces,
	       {atomic_request(ATOMIC_FETCH_ADD, 1), read_request(2),
		atomic_request(ATOMIC_CMP_SWAP, 3), atomic_request(ATOMIC_FETCH_ADD, 4),
		atomic_request(ATOMIC_FETCH_ADD, 5)});
	stream("atomic-unknown", whole, {atomic_request(1, 1)});
	stream("atomic-responses", pieces,
	       {tagged(RDMAP_READ_RESP, 0, 2048), atomic_response(1),
		tagged(RDMAP_READ_RESP, 0, 2048), atomic_response(2)});
	stream("atomic-response-unasked", whole, {atomic_response(1)});
	stream("queue-4", whole,
	       {segment({.last = true, .opcode = RDMAP_ATOMIC_RESP, .qn = DDP_QN_NUM, .msn = 1})});
}

/*
 * Of a stream with markers, the first FPDU, behind which the next marker comes so many octets
 * later; 20 as in figure 6 of RFC 5044.
 */
Bytes up_to_marker(std::size_t distance)
{
	return send(RDMAP_SEND, 1, 508 - distance - 2 - DDP_UNTAGGED_LEN - 4);
}

void marker_seeds()
{
	Bytes spoilt;

	/* Before the second one's length field, in its header, behind that, before its CRC, behind
	 * it */
	for (std::size_t distance : {0, 4, 20, 44, 48})
		stream("markers-" + std::to_string(distance), markers | pieces,
		       {up_to_marker(distance), send(RDMAP_SEND, 2, 24), send(RDMAP_SEND, 3, 1)});
	stream("markers-figure-5", markers | bytewise, {send(RDMAP_SEND, 1, 24)});
	stream("markers-several", markers | pieces,
	       {tagged(RDMAP_WRITE, 0, 2000), send(RDMAP_SEND, 1, 1500, 0, false),
		send(RDMAP_SEND, 1, 7, 1500), tagged(RDMAP_READ_RESP, 0, 2048)});
	stream("markers-no-crc", markers | no_crc | bytewise,
	       {tagged(RDMAP_WRITE, 0, 600), send(RDMAP_SEND, 1, 24)});
	/* A pointer that is wrong, and bits of the marker that do not count */
	fpdu::append(spoilt, send(RDMAP_SEND, 1, 24), true, 4);
	stream("markers-wrong", markers | whole, {}, spoilt);
	spoilt.clear();
	fpdu::append(spoilt, send(RDMAP_SEND, 1, 600), true, 0xffff0003);
	stream("markers-reserved-bits", markers | pieces, {}, spoilt);
}

/* --- wqe: limits, slot, and what its owner changes in it; wqe.cpp tells the layout --- */

constexpr bool by_kernel = true;

void wqe(const std::string &name, const ziw_sq_wqe &wqe, std::initializer_list<u32> lengths,
	 bool kernel = false)
{
	constexpr u8 max_sge = 4;
	Bytes bytes{max_sge, 64, 0, kernel}, change(sizeof(wqe));

	bytes = bytes + View(reinterpret_cast<const u8 *>(&wqe), sizeof(wqe));
	for (u32 length : lengths) {
		const ziw_sge sge = {.addr = 0x1000, .length = length, .lkey = 0x100};

		bytes = bytes + View(reinterpret_cast<const u8 *>(&sge), sizeof(sge));
	}
	bytes.resize(4 + sizeof(wqe) + max_sge * sizeof(ziw_sge));
	/* num_sge, from a valid one to one that is not */
	change[9] = 0xf0;
	write("wqe/" + name, bytes + change);
}

void wqe_seeds()
{
	constexpr u32 most = u32{1} << 31;

	wqe("send", {.num_sge = 2}, {8, 8});
	wqe("send-invalidate", {.opcode = ZIW_OP_SEND_INV, .num_sge = 1, .ex = 0x200}, {8});
	wqe("send-immediate", {.opcode = ZIW_OP_SEND_IMM}, {});
	wqe("send-inline", {.flags = ZIW_WQE_INLINE, .inline_len = 64}, {});
	wqe("send-inline-too-long", {.flags = ZIW_WQE_INLINE, .inline_len = 65}, {});
	wqe("send-sges-too-many", {.num_sge = 5}, {1, 1, 1, 1});
	wqe("send-longest", {.num_sge = 2}, {most - 1, 1});
	wqe("send-too-long", {.num_sge = 2}, {most, 1});
	wqe("send-sum-overflows", {.num_sge = 3}, {most, most, 8});
	wqe("write", {.opcode = ZIW_OP_WRITE, .num_sge = 4}, {1, 2, 3, 4});
	wqe("write-immediate", {.opcode = ZIW_OP_WRITE_IMM, .num_sge = 1}, {0});
	wqe("read", {.opcode = ZIW_OP_READ, .num_sge = 2}, {4096, 4096});
	wqe("read-inline", {.opcode = ZIW_OP_READ, .flags = ZIW_WQE_INLINE}, {});
	wqe("read-invalidate", {.opcode = ZIW_OP_READ_INV, .num_sge = 1}, {8}, by_kernel);
	wqe("read-invalidate-user", {.opcode = ZIW_OP_READ_INV, .num_sge = 1}, {8});
	wqe("fetch-add", {.opcode = ZIW_OP_FETCH_ADD, .num_sge = 1, .compare_add = 1}, {8});
	wqe("cmp-swap", {.opcode = ZIW_OP_CMP_SWAP, .num_sge = 2}, {4, 4});
	wqe("cmp-swap-short", {.opcode = ZIW_OP_CMP_SWAP, .num_sge = 1}, {7});
	wqe("local-invalidate", {.opcode = ZIW_OP_LOCAL_INV, .num_sge = 255}, {});
	wqe("bind-mw",
	    {.opcode = ZIW_OP_BIND_MW,
	     .rkey = 0x301,
	     .ex = 0x300,
	     .compare_add = 4096,
	     .swap = 0x100},
	    {});
	wqe("no-operation", {.opcode = ZIW_OP_REG_MR + 1}, {});
	wqe("register-mr", {.opcode = ZIW_OP_REG_MR}, {}, by_kernel);
	wqe("register-mr-user", {.opcode = ZIW_OP_REG_MR}, {});
}

} // namespace

int main(int argc, char **argv)
{
	if (argc != 2) {
		std::fprintf(stderr, "usage: seeds DIR\n");
		return 2;
	}
	corpus = argv[1];
	for (const char *target : {"mpa", "ddp", "stream", "wqe"})
		fs::create_directories(corpus / target);
	mpa_seeds();
	ddp_seeds();
	stream_seeds();
	extension_seeds();
	marker_seeds();
	wqe_seeds();
	return 0;
}
