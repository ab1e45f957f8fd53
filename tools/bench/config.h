/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What to measure: from the command line, and as a line of text to the server. */
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace bench {

/* The program was called wrongly; the text says how to mend it. */
class Usage : public std::runtime_error {
public:
	using std::runtime_error::runtime_error;
};

enum class Operation { write, read, send, write_imm, fetch_add, cmp_swap, idle };
enum class Transport { rdma, tcp, zerocopy, sendfile };

const char *name(Operation operation);
const char *name(Transport transport);

/* One measurement. */
struct Config {
	Operation operation = Operation::write;
	Transport transport = Transport::rdma;
	bool latency = false, poll = false, small_pages = false;
	uint64_t size = 65536;
	uint32_t depth = 16, qps = 1, threads = 1, inline_size = 0, signal = 1, list = 1;
	/* 0: as many as there is time for. */
	uint64_t messages = 0;
	uint64_t milliseconds = 2000;

	bool is_tcp() const { return transport != Transport::rdma; }
	bool is_atomic() const
	{
		return operation == Operation::fetch_add || operation == Operation::cmp_swap;
	}
	/* Each message takes a receive of the server. */
	bool takes_receive() const
	{
		return operation == Operation::send || operation == Operation::write_imm;
	}
	/* The server answers with data, and does nothing else. */
	bool is_request() const { return operation == Operation::read || is_atomic(); }
	/* How many of the messages are connection i's. */
	uint64_t share(uint32_t i) const { return messages / qps + (i < messages % qps); }

	std::string text() const;
	static Config parse(const std::string &text);
	/* Throws Usage. */
	void check() const;
};

struct Options {
	Config config;
	std::vector<uint64_t> sizes;
	bool server = false, once = false, quiet = false, help = false;
	std::string host, bind, json;
	std::string port = "18620";
};

Options parse_options(int argc, char **argv);
std::string help_text();

/* "a=1 b=2" */
std::map<std::string, std::string> parse_fields(const std::string &text);

} // namespace bench
