/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * FPDUs by another hand than kernel/proto's, so that one may be held against the other: RFC 5044,
 * 4.1 to 4.4. A stream begins with its first FPDU, or the marker before that.
 */
#pragma once

#include "fuzz.h"

namespace fpdu {

/*
 * Length, ULPDU, pad of zeros, CRC, and the markers that fall among them. ULPDUs of more than 65535
 * bytes are cut off. What is in `spoil` is changed in each marker, before the CRC is computed.
 */
void append(Bytes &stream, View ulpdu, bool markers, u32 spoil = 0);

/* A stream taken apart by its length fields; CRCs and markers are not looked at. */
struct Parts {
	std::vector<Bytes> ulpdus;
	/* What is behind the last whole FPDU. */
	Bytes rest;
};
Parts split(View stream, bool markers);

/* What a receiver may hand up: the FPDUs that begin the stream, are whole, and are right. */
struct Good {
	struct Fpdu {
		/* Octets of the stream, with the markers that belong to it. */
		std::size_t size;
		Bytes ulpdu;
	};
	std::vector<Fpdu> fpdus;
	/* Why there are no more: the Terminate code of a bad CRC or a bad marker, else 0. */
	u16 fault = 0;
};
Good good_prefix(View stream, bool crc, bool markers);

} // namespace fpdu
