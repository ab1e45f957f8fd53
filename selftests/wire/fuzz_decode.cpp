// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* A capture is hostile: decoding it must end, without a fault, with an answer or BadCapture. */
#include <sstream>

#include "wire/decode.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, std::size_t size)
{
	std::istringstream in(std::string(data, data + size));
	wire::DecodeOptions options;
	std::size_t octets = 0;

	options.payload = 16;
	options.all = true;
	options.segments = size % 2;
	wire::Decoder decoder(options, [&](const std::string &line) { octets += line.size(); });
	try {
		wire::CaptureReader reader(in);
		while (auto packet = reader.next())
			decoder.packet(*packet);
	} catch (const wire::BadCapture &) {
	}
	decoder.finish();
	return 0;
}
