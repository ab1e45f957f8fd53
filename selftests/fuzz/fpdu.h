/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * FPDUs by another hand than kernel/proto's, so that one may be held against the other: RFC 5044,
 * 4.1 and 4.4, without markers.
 */
#pragma once

#include "fuzz.h"

namespace fpdu {

/* Length, ULPDU, pad of zeros, CRC. ULPDUs of more than 65535 bytes are cut off. */
void append(Bytes &stream, View ulpdu);

/* A stream taken apart by its length fields; the CRCs are not looked at. */
struct Parts {
	std::vector<Bytes> ulpdus;
	/* What is behind the last whole FPDU. */
	Bytes rest;
};
Parts split(View stream);

/* The bytes of the FPDUs that begin the stream, are whole, and have a good CRC if that matters. */
std::vector<std::size_t> good_prefix(View stream, bool crc);

} // namespace fpdu
