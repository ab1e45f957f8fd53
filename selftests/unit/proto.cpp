// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "proto.h"

#include <cctype>
#include <cstdlib>
#include <stdexcept>
#include <string>

Bytes hex(std::string_view digits)
{
	std::string clean;
	Bytes bytes;

	for (char c : digits)
		if (!std::isspace(static_cast<unsigned char>(c)))
			clean += c;
	if (clean.size() % 2 || clean.find_first_not_of("0123456789abcdefABCDEF") != clean.npos)
		throw std::invalid_argument("hex: " + std::string(digits));
	for (std::size_t i = 0; i < clean.size(); i += 2)
		bytes.push_back(static_cast<u8>(std::stoul(clean.substr(i, 2), nullptr, 16)));
	bytes.shrink_to_fit();
	return bytes;
}

Bytes operator+(const Bytes &a, const Bytes &b)
{
	Bytes sum;

	sum.reserve(a.size() + b.size());
	sum.insert(sum.end(), a.begin(), a.end());
	sum.insert(sum.end(), b.begin(), b.end());
	return sum;
}

/*
 * Each gives the encoder exactly the room that its contract asks for, and then takes off what it
 * did not claim to have written.
 */
Bytes encode(const ziw_mpa_frame &frame, const Bytes &private_data)
{
	Bytes buf(MPA_HDR_LEN + MPA_ENHANCED_LEN + frame.pd_len);

	if (private_data.size() != frame.pd_len)
		throw std::invalid_argument("private data");
	buf.resize(ziw_mpa_encode(buf.data(), &frame, private_data.data()));
	return buf;
}

Bytes encode(const ziw_ddp_hdr &hdr)
{
	Bytes buf(DDP_MAX_LEN);

	buf.resize(ziw_ddp_encode(buf.data(), &hdr));
	return buf;
}

Bytes encode(const ziw_read_req &req)
{
	Bytes buf(RDMAP_READ_REQ_LEN);

	ziw_read_req_encode(buf.data(), &req);
	return buf;
}

Bytes encode(const ziw_terminate &term)
{
	Bytes buf(TERM_MAX_LEN);

	buf.resize(ziw_terminate_encode(buf.data(), &term));
	return buf;
}

Bytes encode(const ziw_imm &imm)
{
	Bytes buf(RDMAP_IMM_LEN);

	ziw_imm_encode(buf.data(), &imm);
	return buf;
}

Bytes encode(const ziw_atomic_req &req)
{
	Bytes buf(RDMAP_ATOMIC_REQ_LEN);

	ziw_atomic_req_encode(buf.data(), &req);
	return buf;
}

Bytes encode(const ziw_atomic_resp &resp)
{
	Bytes buf(RDMAP_ATOMIC_RESP_LEN);

	ziw_atomic_resp_encode(buf.data(), &resp);
	return buf;
}

unsigned run_seed()
{
	static const unsigned seed = [] {
		const char *value = std::getenv("ZIW_SEED");

		return value && *value ? static_cast<unsigned>(std::stoul(value))
				       : std::random_device{}();
	}();

	return seed;
}

u64 Random::number(unsigned bits)
{
	const u64 all = ~u64{0} >> (64 - bits);

	switch (upto(7)) {
	case 0:
		return 0;
	case 1:
		return all;
	case 2:
		return u64{1} << upto(bits - 1);
	case 3:
		return all ^ (u64{1} << upto(bits - 1));
	default:
		return upto(all);
	}
}

Bytes Random::bytes(std::size_t count)
{
	Bytes bytes(count);

	for (u8 &byte : bytes)
		byte = static_cast<u8>(upto(0xff));
	return bytes;
}
