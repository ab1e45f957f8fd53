// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <sstream>
#include <utility>

namespace bench {

namespace {

constexpr std::pair<const char *, Operation> operations[] = {
	{"write", Operation::write},         {"read", Operation::read},
	{"send", Operation::send},           {"write-imm", Operation::write_imm},
	{"fetch-add", Operation::fetch_add}, {"cmp-swap", Operation::cmp_swap},
	{"idle", Operation::idle},
};

constexpr std::pair<const char *, Transport> transports[] = {
	{"rdma", Transport::rdma},
	{"send", Transport::tcp},
	{"zerocopy", Transport::zerocopy},
	{"sendfile", Transport::sendfile},
};

template <class Table> auto find(const Table &table, const std::string &word, const char *what)
{
	std::string known;

	for (auto &[text, value] : table) {
		if (word == text)
			return value;
		known += std::string(known.empty() ? "" : ", ") + text;
	}
	throw Usage("no " + std::string(what) + " '" + word + "': take one of " + known);
}

template <class Table, class Value> const char *text_of(const Table &table, Value wanted)
{
	for (auto &[text, value] : table)
		if (value == wanted)
			return text;
	return "?";
}

/* A number with a suffix K, M or G of 1024; at most `most`. */
uint64_t number(const std::string &option, const std::string &text, uint64_t most)
{
	uint64_t value = 0;
	auto *begin = text.data(), *end = begin + text.size();
	auto [rest, error] = std::from_chars(begin, end, value);
	int shift = 0;

	if (error == std::errc() && rest + 1 == end) {
		auto at = std::string("KMG").find(static_cast<char>(std::toupper(*rest)));
		if (at != std::string::npos) {
			shift = 10 * (static_cast<int>(at) + 1);
			rest++;
		}
	}
	if (error == std::errc::result_out_of_range || value > most >> shift)
		throw Usage(option + " " + text + ": at most " + std::to_string(most));
	if (error != std::errc() || rest != end)
		throw Usage(option + " takes a number, with K, M or G if you like; not '" + text +
			    "'");
	return value << shift;
}

uint32_t count(const std::string &option, const std::string &text, uint32_t least, uint32_t most)
{
	auto value = number(option, text, most);

	if (value < least)
		throw Usage(option + " " + text + ": at least " + std::to_string(least));
	return static_cast<uint32_t>(value);
}

uint64_t milliseconds(const std::string &option, const std::string &text)
{
	std::size_t used = 0;
	double seconds = 0;

	try {
		seconds = std::stod(text, &used);
	} catch (const std::exception &) {
		used = 0;
	}
	if (!used || used != text.size() || !(seconds >= 0.001 && seconds <= 1e6))
		throw Usage(option + " takes seconds, 0.001 to 1000000; not '" + text + "'");
	return static_cast<uint64_t>(std::llround(seconds * 1000));
}

constexpr uint64_t max_size = 1ULL << 30;

/* "64,4K", or "64..1M" in powers of two. */
std::vector<uint64_t> sizes(const std::string &option, const std::string &text)
{
	std::vector<uint64_t> all;
	std::stringstream words(text);
	std::string word;

	while (std::getline(words, word, ',')) {
		auto dots = word.find("..");
		if (dots == std::string::npos) {
			all.push_back(number(option, word, max_size));
			continue;
		}
		auto from = number(option, word.substr(0, dots), max_size);
		auto to = number(option, word.substr(dots + 2), max_size);
		if (!from || from > to)
			throw Usage(option + " " + word + ": the range is empty");
		for (; from <= to; from *= 2)
			all.push_back(from);
	}
	if (all.empty())
		throw Usage(option + " needs at least one size");
	return all;
}

} // namespace

const char *name(Operation operation)
{
	return text_of(operations, operation);
}

const char *name(Transport transport)
{
	return transport == Transport::tcp ? "tcp" : text_of(transports, transport);
}

std::map<std::string, std::string> parse_fields(const std::string &text)
{
	std::map<std::string, std::string> fields;
	std::stringstream words(text);
	std::string word;

	while (words >> word) {
		auto equals = word.find('=');
		if (equals != std::string::npos)
			fields[word.substr(0, equals)] = word.substr(equals + 1);
	}
	return fields;
}

std::string Config::text() const
{
	std::ostringstream to;

	to << "operation=" << name(operation) << " transport=" << text_of(transports, transport)
	   << " latency=" << latency << " poll=" << poll << " small_pages=" << small_pages
	   << " size=" << size << " depth=" << depth << " qps=" << qps << " threads=" << threads
	   << " inline=" << inline_size << " signal=" << signal << " list=" << list
	   << " messages=" << messages << " milliseconds=" << milliseconds;
	return to.str();
}

Config Config::parse(const std::string &text)
{
	auto fields = parse_fields(text);
	Config config;
	auto get = [&](const char *field, uint64_t most) {
		auto found = fields.find(field);
		if (found == fields.end())
			throw Usage(std::string("the client did not say its ") + field);
		return number(field, found->second, most);
	};
	auto get32 = [&](const char *field) {
		return static_cast<uint32_t>(get(field, std::numeric_limits<uint32_t>::max()));
	};
	constexpr auto any = std::numeric_limits<uint64_t>::max();

	config.operation = find(operations, fields["operation"], "operation");
	config.transport = find(transports, fields["transport"], "transport");
	config.latency = get("latency", 1);
	config.poll = get("poll", 1);
	config.small_pages = get("small_pages", 1);
	config.size = get("size", max_size);
	config.depth = get32("depth");
	config.qps = get32("qps");
	config.threads = get32("threads");
	config.inline_size = get32("inline");
	config.signal = get32("signal");
	config.list = get32("list");
	config.messages = get("messages", any);
	config.milliseconds = get("milliseconds", any);
	config.check();
	return config;
}

void Config::check() const
{
	auto most = [](const char *option, uint64_t value, uint64_t limit, const char *why) {
		if (value > limit)
			throw Usage(std::string(option) + " " + std::to_string(value) +
				    ": at most " + std::to_string(limit) + why);
	};

	if (!depth || !qps || !threads || !signal || !list)
		throw Usage("--depth, --qps, --threads, --signal and --list are at least 1");
	most("--depth", depth, 16384, "");
	most("--qps", qps, 16384, "");
	most("--threads", threads, qps, ", as many as --qps: a connection is one thread's");
	most("--signal", signal, depth, ", as much as --depth: no completion would come");
	most("--list", list, depth, ", as much as --depth");
	if (!size)
		throw Usage("--size is at least 1");
	if (is_atomic() && size != 8)
		throw Usage("an atomic operation has 8 bytes: leave --size away");
	if (latency && (qps > 1 || threads > 1))
		throw Usage("--latency takes one connection: leave --qps and --threads away");
	if (latency && operation == Operation::write && !poll && !is_tcp())
		throw Usage(
			"nothing tells the receiver of a Write that it came: add --poll, or take "
			"write-imm");
	if (operation == Operation::idle && (latency || is_tcp()))
		throw Usage("idle connections have no --latency, and no --tcp");
	if (transport == Transport::zerocopy || transport == Transport::sendfile)
		if (latency || is_request())
			throw Usage(std::string("--tcp ") + text_of(transports, transport) +
				    " is for the bandwidth of write, send and write-imm");
}

Options parse_options(int argc, char **argv)
{
	std::vector<std::string> words(argv + 1, argv + argc), rest;
	Options o;
	auto &c = o.config;
	bool sized = false, deep = false;

	for (std::size_t i = 0; i < words.size(); i++) {
		auto &word = words[i];
		auto value = [&]() -> const std::string & {
			if (i + 1 == words.size())
				throw Usage(word + " needs a value");
			return words[++i];
		};
		std::string option = word;

		if (word == "--help" || word == "-h")
			o.help = true;
		else if (word == "--server")
			o.server = true;
		else if (word == "--once")
			o.once = true;
		else if (word == "--quiet" || word == "-q")
			o.quiet = true;
		else if (word == "--latency")
			c.latency = true;
		else if (word == "--poll")
			c.poll = true;
		else if (word == "--small-pages")
			c.small_pages = true;
		else if (word == "--tcp")
			c.transport = find(transports, value(), "way to send over TCP");
		else if (word == "--size" || word == "-s")
			o.sizes = sizes(option, value()), sized = true;
		else if (word == "--depth" || word == "-d")
			c.depth = count(option, value(), 1, 16384), deep = true;
		else if (word == "--qps")
			c.qps = count(option, value(), 1, 16384);
		else if (word == "--threads")
			c.threads = count(option, value(), 1, 1024);
		else if (word == "--inline")
			c.inline_size = count(option, value(), 0, 65536);
		else if (word == "--signal")
			c.signal = count(option, value(), 1, 16384);
		else if (word == "--list")
			c.list = count(option, value(), 1, 16384);
		else if (word == "--messages" || word == "-n")
			c.messages = count(option, value(), 1, 0x7fffffff);
		else if (word == "--time" || word == "-t")
			c.milliseconds = milliseconds(option, value());
		else if (word == "--port" || word == "-p")
			o.port = std::to_string(count(option, value(), 1, 65535));
		else if (word == "--bind")
			o.bind = value();
		else if (word == "--json")
			o.json = value();
		else if (word.size() > 1 && word[0] == '-')
			throw Usage("unknown option '" + word + "'");
		else
			rest.push_back(word);
	}
	if (o.help)
		return o;
	if (o.server) {
		if (!rest.empty())
			throw Usage("'" + rest[0] + "' is too much: a server takes no operation");
		return o;
	}
	if (rest.empty())
		throw Usage("no operation");
	c.operation = find(operations, rest[0], "operation");
	if (rest.size() < 2)
		throw Usage("no host: name the one where 'ziw-bench --server' runs");
	if (rest.size() > 2)
		throw Usage("'" + rest[2] + "' is too much");
	o.host = rest[1];
	if (!sized)
		o.sizes = {c.is_atomic() ? 8U : c.latency ? 64U : 65536U};
	if (!deep && c.latency)
		c.depth = 1;
	for (auto size : o.sizes) {
		c.size = size;
		c.check();
	}
	return o;
}

std::string help_text()
{
	return R"(ziw-bench --server [--port N] [--bind ADDRESS] [--once]
ziw-bench OPERATION [OPTION...] HOST

Measures RDMA, on any device, and TCP doing the same work, between HOST, where the server runs, and here.

OPERATION: write, read, send, write-imm, fetch-add, cmp-swap; or idle, which only holds connections

  -s, --size LIST       bytes per message: 64,4K,1M or 64..1M, the powers of two (default 64K; latency: 64)
  -d, --depth N         work requests under way per connection (default 16; latency: 1)
  -n, --messages N      so many in all; without it as many as there is time for
  -t, --time S          seconds per size (default 2)
      --latency         one at a time: half of a round trip; of read and atomics a whole one
      --poll            poll for completions, instead of sleeping until one comes
      --small-pages     memory in pages of 4 KiB, which lie anywhere; without it in huge pages, if there are any
      --qps N           connections (default 1)
      --threads N       threads on each side, which share the connections (default 1; TCP: one per connection)
      --inline N        hand over payloads up to N bytes with the work request (default 0)
      --signal N        a completion for every Nth work request only (default 1)
      --list N          up to N work requests in one call (default 1)
      --tcp HOW         TCP instead of RDMA; HOW: send, zerocopy (MSG_ZEROCOPY) or sendfile
      --json FILE       the results, as JSON; - is standard output, and then there is no table
  -q, --quiet           no progress
  -p, --port N          the server's TCP port (default 18620)
      --bind ADDRESS    server: only there
      --once            server: end after one measurement

Exit code: 0; 1 if the measurement failed; 2 if called wrongly. See ziw-bench(1).
)";
}

} // namespace bench
