// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* ziw-wire: see ziw-wire(1). */
#include <netdb.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iostream>
#include <sstream>
#include <system_error>

#include "decode.h"
#include "script.h"

using namespace wire;

namespace {

/* What a script or a capture had to say, and what was wrong with how this was called. */
constexpr int exit_unexpected = 1, exit_usage = 2;

class Usage : public std::runtime_error {
public:
	using std::runtime_error::runtime_error;
};

/* A line as soon as it is known: someone may be watching. */
void print(const std::string &line)
{
	errno = 0;
	std::cout << line << std::endl;
	if (!std::cout)
		throw std::system_error(errno ? errno : EIO, std::generic_category(),
					"standard output");
}

void help()
{
	print(R"(ziw-wire decode [OPTION...] FILE
ziw-wire connect [OPTION...] ADDRESS PORT [SCRIPT]
ziw-wire listen [OPTION...] ADDRESS PORT [SCRIPT]

decode    print the iWARP conversations in a capture (pcap or pcapng; "-": standard input), one line
          per message
connect   be an iWARP endpoint that does what SCRIPT (default: standard input) says
listen    the same, once a connection has come

  -s, --segments       decode: a line per DDP segment
  -p, --payload N      decode: N octets of each payload, in hexadecimal
  -a, --absolute       decode: the time of day (UTC) instead of seconds since the first packet
      --all            decode: tell of connections that are no iWARP, too
      --strict         decode: end with 1 if anything was wrong in a conversation
  -t, --timeout MS     connect, listen: how long to wait for what is expected (default 10000)
  -D, --define N=V     connect, listen: what $N stands for in the script
  -q, --quiet          connect, listen: do not print what goes and comes

Exit code: 0; 1 if something was not as expected, or the output cannot be written; 2 if called
wrongly, or a file cannot be read.)");
}

/* Options in any place, and what is left. */
class Arguments {
public:
	Arguments(int argc, char **argv) : words_(argv + 1, argv + argc) {}

	bool flag(const char *brief, const char *name)
	{
		for (auto i = words_.begin(); i != words_.end(); ++i) {
			if (*i == name || (brief && *i == brief)) {
				words_.erase(i);
				return true;
			}
		}
		return false;
	}

	std::optional<std::string> value(const char *brief, const char *name)
	{
		for (auto i = words_.begin(); i != words_.end(); ++i) {
			if (*i != name && *i != brief)
				continue;
			if (i + 1 == words_.end())
				throw Usage(*i + " needs a value");
			auto value = *(i + 1);
			words_.erase(i, i + 2);
			return value;
		}
		return std::nullopt;
	}

	std::string next(const char *what)
	{
		if (words_.empty())
			throw Usage(std::string(what) + " is missing");
		auto word = words_.front();
		if (word.size() > 1 && word[0] == '-')
			throw Usage("unknown option '" + word + "'");
		words_.erase(words_.begin());
		return word;
	}

	bool empty() const { return words_.empty(); }
	void nothing_left() const
	{
		if (!words_.empty())
			throw Usage("'" + words_.front() + "' is too much");
	}

private:
	std::vector<std::string> words_;
};

unsigned long number(const std::string &text)
{
	std::size_t used = 0;
	unsigned long value = 0;

	try {
		value = std::stoul(text, &used, 0);
	} catch (const std::exception &) {
		used = 0;
	}
	if (used == 0 || used != text.size())
		throw Usage("'" + text + "' is no number");
	return value;
}

int decode(Arguments &arguments)
{
	DecodeOptions options;
	std::ifstream file;

	options.segments = arguments.flag("-s", "--segments");
	options.absolute = arguments.flag("-a", "--absolute");
	options.all = arguments.flag(nullptr, "--all");
	bool strict = arguments.flag(nullptr, "--strict");
	if (auto count = arguments.value("-p", "--payload"))
		options.payload = number(*count);
	auto name = arguments.next("a file");
	arguments.nothing_left();

	if (name != "-") {
		file.open(name, std::ios::binary);
		if (!file) {
			std::cerr << "ziw-wire: " << name << ": " << std::strerror(errno) << "\n";
			return exit_usage;
		}
	}
	Decoder decoder(options, print);
	int code = 0;
	try {
		CaptureReader reader(name == "-" ? std::cin : file);
		while (auto packet = reader.next())
			decoder.packet(*packet);
	} catch (const BadCapture &e) {
		std::cerr << "ziw-wire: " << name << ": " << e.what() << "\n";
		code = exit_usage;
	}
	decoder.finish();
	auto &t = decoder.totals();
	std::ostringstream sum;
	sum << "# " << t.packets << " packets, " << t.connections << " connections, " << t.frames
	    << " MPA frames, " << t.fpdus << " FPDUs, " << t.messages << " messages; " << t.broken
	    << " rules broken, " << t.crc_errors << " CRC errors; " << t.incomplete
	    << " incomplete, " << t.octets_missing << " octets missing, " << t.octets_skipped
	    << " skipped";
	print(sum.str());
	if (!code && strict && t.wrong())
		code = exit_unexpected;
	return code;
}

struct Addresses {
	explicit Addresses(const std::string &host, const std::string &port, bool passive)
	{
		addrinfo hints{};

		hints.ai_socktype = SOCK_STREAM;
		hints.ai_flags = passive ? AI_PASSIVE : 0;
		if (int rc = getaddrinfo(host.c_str(), port.c_str(), &hints, &list))
			throw Usage(host + " port " + port + ": " + gai_strerror(rc));
	}
	~Addresses() { freeaddrinfo(list); }
	Addresses(const Addresses &) = delete;
	Addresses &operator=(const Addresses &) = delete;

	addrinfo *list = nullptr;
};

int converse(Arguments &arguments, bool passive)
{
	std::vector<std::pair<std::string, std::string>> definitions;
	std::ifstream file;
	bool quiet = arguments.flag("-q", "--quiet");

	/* That the other side has closed is something to tell. */
	std::signal(SIGPIPE, SIG_IGN);
	if (auto time = arguments.value("-t", "--timeout"))
		Peer::patience = milliseconds(static_cast<int64_t>(number(*time)));
	while (auto definition = arguments.value("-D", "--define")) {
		auto equals = definition->find('=');
		if (equals == std::string::npos)
			throw Usage("--define takes NAME=VALUE");
		definitions.emplace_back(definition->substr(0, equals),
					 definition->substr(equals + 1));
	}
	auto host = arguments.next("an address"), port = arguments.next("a port");
	if (!arguments.empty()) {
		auto name = arguments.next("a script");
		arguments.nothing_left();
		file.open(name);
		if (!file) {
			std::cerr << "ziw-wire: " << name << ": " << std::strerror(errno) << "\n";
			return exit_usage;
		}
	}

	Addresses addresses(host, port, passive);
	auto *to = addresses.list->ai_addr;
	auto length = addresses.list->ai_addrlen;
	auto socket = passive ? Socket::listen(to, length).accept(Peer::patience)
			      : Socket::connect(to, length, Peer::patience);
	Script script(Peer(std::move(socket)), [quiet](const std::string &line) {
		if (!quiet)
			print(line);
	});
	for (auto &[name, value] : definitions)
		script.define(name, value);
	script.run(file.is_open() ? file : std::cin);
	return 0;
}

} // namespace

int main(int argc, char **argv)
try {
	Arguments arguments(argc, argv);

	if (argc == 1 || arguments.flag("-h", "--help")) {
		help();
		return argc == 1 ? exit_usage : 0;
	}
	auto command = arguments.next("a command");
	if (command == "decode")
		return decode(arguments);
	if (command == "connect" || command == "listen")
		return converse(arguments, command == "listen");
	throw Usage("no command '" + command + "'");
} catch (const Usage &e) {
	std::cerr << "ziw-wire: " << e.what() << " (see --help)\n";
	return exit_usage;
} catch (const ScriptError &e) {
	std::cerr << "ziw-wire: " << e.what() << "\n";
	return exit_usage;
} catch (const std::exception &e) {
	std::cerr << "ziw-wire: " << e.what() << "\n";
	return exit_unexpected;
}
