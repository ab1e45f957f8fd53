/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* kernel/proto for the tests: its functions, its structs as values, bytes as the RFCs print them.
 */
#pragma once

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string_view>
#include <tuple>
#include <vector>

extern "C" {
#include "proto/wire.h"
#include "proto/wqe.h"
}

/* A vector's heap block ends with its last byte, so that ASan sees each read and write beyond. */
using Bytes = std::vector<u8>;

/* Bytes from hexadecimal digits; blanks are for the reader. */
Bytes hex(std::string_view digits);

Bytes operator+(const Bytes &a, const Bytes &b);

/* What a decoder says of a frame, for EXPECT_EQ. */
inline auto fields(const ziw_mpa_frame &f)
{
	return std::tuple(f.reply, unsigned{f.rev}, f.markers, f.crc, f.reject, f.enhanced, f.p2p,
			  unsigned{f.rtr}, f.ird, f.ord, f.pd_len);
}

inline auto fields(const ziw_ddp_hdr &h)
{
	return std::tuple(h.tagged, h.last, unsigned{h.ddp_version}, unsigned{h.rdmap_version},
			  unsigned{h.opcode}, h.stag, h.to, h.inv_stag, h.qn, h.msn, h.mo);
}

inline auto fields(const ziw_read_req &r)
{
	return std::tuple(r.sink_stag, r.sink_to, r.size, r.source_stag, r.source_to);
}

inline auto fields(const ziw_atomic_req &r)
{
	return std::tuple(unsigned{r.op}, r.id, r.stag, r.to, r.data, r.mask, r.compare,
			  r.compare_mask);
}

inline auto fields(const ziw_atomic_resp &r)
{
	return std::tuple(r.id, r.value);
}

/* Of the headers, what the flags say is there. */
inline auto fields(const ziw_terminate &t)
{
	std::size_t ddp = t.ddp[0] & DDP_FLAG_TAGGED ? DDP_TAGGED_LEN : DDP_UNTAGGED_LEN;

	return std::tuple(t.code, t.has_ddp, t.has_rdmap, t.has_ddp ? t.seg_len : 0,
			  t.has_ddp ? Bytes(t.ddp, t.ddp + ddp) : Bytes{},
			  t.has_rdmap ? Bytes(std::begin(t.read), std::end(t.read)) : Bytes{});
}

Bytes encode(const ziw_mpa_frame &frame, const Bytes &private_data = {});
Bytes encode(const ziw_ddp_hdr &hdr);
Bytes encode(const ziw_read_req &req);
Bytes encode(const ziw_terminate &term);
Bytes encode(const ziw_imm &imm);
Bytes encode(const ziw_atomic_req &req);
Bytes encode(const ziw_atomic_resp &resp);

/* The random numbers of this run: ZIW_SEED, or a seed of its own; the output names it. */
unsigned run_seed();

class Random {
public:
	Random() : engine_(run_seed()) {}
	/* 0 to limit, limit included. */
	u64 upto(u64 limit) { return std::uniform_int_distribution<u64>(0, limit)(engine_); }
	bool flip() { return upto(1); }
	/* Of `bits` bits; all zeros, all ones and other borders come up often. */
	u64 number(unsigned bits);
	Bytes bytes(std::size_t count);

private:
	std::mt19937_64 engine_;
};
