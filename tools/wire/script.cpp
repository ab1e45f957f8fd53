// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "script.h"

#include <sstream>
#include <thread>
#include <utility>

namespace wire {

/* --- lines --- */

namespace {

uint64_t to_number(const std::string &text)
{
	std::size_t used = 0;
	uint64_t value = 0;

	try {
		value = std::stoull(text, &used, 0);
	} catch (const std::exception &) {
		used = 0;
	}
	if (used == 0 || used != text.size() || text[0] == '-')
		throw ScriptError("'" + text + "' is no number");
	return value;
}

} // namespace

class Script::Words {
public:
	Words(std::istream &in, const std::map<std::string, std::string> &variables)
	{
		std::string word;

		while (in >> word) {
			if (word[0] == '#')
				break;
			auto equals = word.find('=');
			auto name = word.substr(0, equals);
			auto value = equals == std::string::npos ? "" : word.substr(equals + 1);
			if (!value.empty() && value[0] == '$') {
				auto found = variables.find(value.substr(1));
				if (found == variables.end())
					throw ScriptError("nothing is known of " + value);
				value = found->second;
			}
			if (!words_.emplace(name, value).second)
				throw ScriptError("'" + name + "' twice");
			if (equals == std::string::npos)
				plain_.push_back(name);
		}
	}

	/* The first word without a value, taken. */
	std::string plain(const char *what)
	{
		if (plain_.empty())
			throw ScriptError(std::string("a word is missing: ") + what);
		auto word = plain_.front();
		plain_.erase(plain_.begin());
		words_.erase(word);
		return word;
	}

	std::optional<std::string> take(const std::string &name)
	{
		auto found = words_.find(name);

		if (found == words_.end())
			return std::nullopt;
		auto value = found->second;
		words_.erase(found);
		std::erase(plain_, name);
		return value;
	}

	bool flag(const std::string &name) { return take(name).has_value(); }

	std::optional<uint64_t> number(const std::string &name)
	{
		auto value = take(name);

		return value ? std::optional(to_number(*value)) : std::nullopt;
	}

	template <class T> void set(const std::string &name, T &to)
	{
		auto value = number(name);

		if (!value)
			return;
		to = static_cast<T>(*value);
		if (static_cast<uint64_t>(to) != *value)
			throw ScriptError(name + "=" + std::to_string(*value) +
					  " does not fit its field");
	}

	/* From text=, hex= or fill= (so many octets 0, 1, 2 ...). */
	std::optional<Bytes> octets()
	{
		if (auto value = take("text"))
			return text(*value);
		try {
			if (auto value = take("hex"))
				return from_hex(*value);
		} catch (const std::invalid_argument &e) {
			throw ScriptError(e.what());
		}
		if (auto count = number("fill")) {
			if (*count > 1 << 26)
				throw ScriptError("fill= of more than 64 MiB");
			Bytes bytes(static_cast<std::size_t>(*count));
			for (std::size_t i = 0; i < bytes.size(); i++)
				bytes[i] = static_cast<uint8_t>(i);
			return bytes;
		}
		return std::nullopt;
	}

	std::map<std::string, std::string> take_all()
	{
		plain_.clear();
		return std::exchange(words_, {});
	}

	void nothing_left() const
	{
		if (!words_.empty())
			throw ScriptError("'" + words_.begin()->first + "' means nothing here");
	}

private:
	std::map<std::string, std::string> words_;
	std::vector<std::string> plain_;
};

void Script::run(std::istream &in)
{
	std::string text;

	for (unsigned number = 1; std::getline(in, text); number++) {
		auto where = "line " + std::to_string(number) + ": ";
		std::istringstream stream(text);
		std::string command;
		if (!(stream >> command) || command[0] == '#')
			continue;
		try {
			Words words(stream, variables_);
			line(command, words);
			words.nothing_left();
		} catch (const ScriptError &e) {
			throw ScriptError(where + e.what());
		} catch (const Unexpected &e) {
			throw Unexpected(where + e.what());
		}
		for (auto &rule : peer_.take_broken_rules())
			throw Unexpected(where + "the other side broke a rule: " + rule);
	}
}

void Script::line(const std::string &command, Words &words)
{
	auto within = Peer::patience;

	if (auto time = words.number("within"))
		within = milliseconds(static_cast<int64_t>(*time));
	if (command == "request" || command == "reply") {
		send_frame(words, command == "reply");
	} else if (command == "expect-request" || command == "expect-reply") {
		expect_frame(words, command == "expect-reply");
	} else if (command == "send") {
		send(words);
	} else if (command == "expect") {
		auto opcode = opcode_named(words.plain("an opcode"));
		auto segment = words.flag("segment") ? peer_.expect(opcode, within)
						     : peer_.expect_message(opcode, within);
		print_("< " + describe(segment));
		remember(segment);
		compare(words);
	} else if (command == "bytes") {
		auto each = words.number("each");
		auto octets = words.octets();
		if (!octets)
			throw ScriptError("text=, hex= or fill= is missing");
		if (each)
			peer_.trickle(*octets, static_cast<std::size_t>(*each));
		else
			peer_.send_bytes(*octets);
	} else if (command == "expect-silence") {
		peer_.expect_silence(
			milliseconds(static_cast<int64_t>(to_number(words.plain("milliseconds")))));
	} else if (command == "expect-close") {
		auto end = peer_.expect_end(within);
		print_(end == End::fin ? "< FIN" : "< RST");
	} else if (command == "close") {
		peer_.finish();
	} else if (command == "reset") {
		peer_.reset();
	} else if (command == "sleep") {
		std::this_thread::sleep_for(
			milliseconds(static_cast<int64_t>(to_number(words.plain("milliseconds")))));
	} else if (command == "set") {
		for (auto &[name, value] : words.take_all())
			variables_[name] = value;
	} else if (command == "print") {
		for (auto &[name, value] : words.take_all())
			print_(name + " is " + (value.empty() ? variables_[name] : value));
	} else {
		throw ScriptError("no command '" + command + "'");
	}
}

/* --- setup --- */

MpaFrame Script::frame(Words &words, bool reply) const
{
	MpaFrame made;

	made.reply = reply;
	words.set("rev", made.revision);
	if (auto flags = words.take("flags")) {
		made.flags = 0;
		for (char c : *flags) {
			switch (c) {
			case 'm':
				made.flags |= MpaFrame::m;
				break;
			case 'c':
				made.flags |= MpaFrame::c;
				break;
			case 'r':
				made.flags |= MpaFrame::r;
				break;
			case 's':
				made.flags |= MpaFrame::s;
				break;
			default:
				throw ScriptError("flags are made of m, c, r and s");
			}
		}
	}
	if (auto reserved = words.number("reserved"))
		made.flags |= static_cast<uint8_t>(*reserved & 15);
	auto ird = words.number("ird"), ord = words.number("ord");
	auto rtr = words.take("rtr");
	if (ird || ord || rtr) {
		Enhanced e;
		e.ird = static_cast<uint16_t>(ird.value_or(0));
		e.ord = static_cast<uint16_t>(ord.value_or(0));
		if (rtr) {
			std::istringstream list(*rtr);
			std::string word;
			e.peer_to_peer = true;
			while (std::getline(list, word, ',')) {
				if (word == "send")
					e.rtr_send = true;
				else if (word == "write")
					e.rtr_write = true;
				else if (word == "read")
					e.rtr_read = true;
				else if (word != "none")
					throw ScriptError(
						"rtr is a list of send, write, read, or none");
			}
		}
		made.enhanced = e;
	}
	try {
		if (auto key = words.take("key"))
			made.key = from_hex(*key);
	} catch (const std::invalid_argument &e) {
		throw ScriptError(e.what());
	}
	if (auto length = words.number("length"))
		made.length = static_cast<uint16_t>(*length);
	if (auto octets = words.octets())
		made.private_data = *octets;
	return made;
}

void Script::send_frame(Words &words, bool reply)
{
	mine_ = frame(words, reply);
	peer_.send_frame(*mine_);
	begin_if_both();
}

void Script::expect_frame(Words &words, bool reply)
{
	theirs_ = peer_.receive_frame();
	if (theirs_->reply != reply)
		throw Unexpected(reply ? "a Request Frame instead of a Reply Frame"
				       : "a Reply Frame instead of a Request Frame");
	remember("rev", theirs_->revision);
	remember("markers", theirs_->markers());
	remember("crc", theirs_->crc());
	remember("rejected", theirs_->rejected());
	remember("enhanced", theirs_->enhanced.has_value());
	if (theirs_->enhanced) {
		auto &e = *theirs_->enhanced;
		remember("ird", e.ird);
		remember("ord", e.ord);
		remember("peer-to-peer", e.peer_to_peer);
		remember("rtr-send", e.rtr_send);
		remember("rtr-write", e.rtr_write);
		remember("rtr-read", e.rtr_read);
	}
	variables_["data"] = hex(theirs_->private_data);
	print_(std::string("< MPA ") + (reply ? "reply" : "request") + " rev " +
	       std::to_string(theirs_->revision) + " private data [" + variables_["data"] + "]");
	compare(words);
	begin_if_both();
}

void Script::begin_if_both()
{
	if (mine_ && theirs_)
		peer_.start(*mine_, *theirs_);
}

/* --- the stream --- */

void Script::send(Words &words)
{
	Segment s;
	FpduFaults faults;
	ReadRequest read;
	AtomicRequest atomic;
	AtomicResponse response;
	Terminate terminate;

	s.opcode = opcode_named(words.plain("an opcode"));
	s.tagged = is_tagged(s.opcode);
	s.qn = queue_of(s.opcode).value_or(0);
	switch (s.opcode) {
	case Opcode::read_request:
		words.set("sink-stag", read.sink_stag);
		words.set("sink-to", read.sink_to);
		words.set("size", read.size);
		words.set("source-stag", read.source_stag);
		words.set("source-to", read.source_to);
		s.payload = read.encode();
		break;
	case Opcode::atomic_request:
		words.set("operation", atomic.operation);
		words.set("id", atomic.id);
		words.set("stag", atomic.stag);
		words.set("to", atomic.to);
		words.set("data", atomic.data);
		words.set("mask", atomic.mask);
		words.set("compare", atomic.compare);
		words.set("compare-mask", atomic.compare_mask);
		s.payload = atomic.encode();
		break;
	case Opcode::atomic_response:
		words.set("id", response.id);
		words.set("original", response.original);
		s.payload = response.encode();
		break;
	case Opcode::immediate:
	case Opcode::immediate_se:
		put64(s.payload, words.number("data").value_or(0));
		break;
	case Opcode::terminate:
		words.set("code", terminate.code);
		s.payload = terminate.encode();
		break;
	default:
		words.set("stag", s.stag);
		words.set("to", s.to);
	}
	if (auto tagged = words.number("tagged"))
		s.tagged = *tagged;
	if (auto last = words.number("last"))
		s.last = *last;
	words.set("ddp-version", s.ddp_version);
	words.set("rdmap-version", s.rdmap_version);
	words.set("ddp-reserved", s.ddp_reserved);
	words.set("rdmap-reserved", s.rdmap_reserved);
	words.set("invalidate", s.invalidate);
	words.set("qn", s.qn);
	words.set("msn", s.msn);
	words.set("mo", s.mo);
	if (auto octets = words.octets())
		s.payload = *octets;
	if (auto opcode = words.number("opcode"))
		s.opcode = static_cast<Opcode>(*opcode & 15);
	if (auto crc = words.take("crc"))
		faults.crc = *crc == "zero" ? FpduFaults::Crc::zero : FpduFaults::Crc::wrong;
	words.set("pad", faults.pad);
	if (auto length = words.number("length"))
		faults.length = static_cast<uint16_t>(*length);
	if (auto change = words.number("pointer"))
		faults.marker = [value = static_cast<uint16_t>(*change)](unsigned, uint16_t &,
									 uint16_t &pointer) {
			pointer = value;
		};
	peer_.send(s, faults);
	print_("> " + describe(s));
}

void Script::remember(const std::string &name, uint64_t value)
{
	variables_[name] = std::to_string(value);
}

void Script::remember(const Segment &s)
{
	remember("len", s.payload.size());
	variables_["data"] = hex(s.payload);
	if (s.tagged) {
		remember("stag", s.stag);
		remember("to", s.to);
	} else {
		remember("qn", s.qn);
		remember("msn", s.msn);
		remember("mo", s.mo);
		remember("invalidate", s.invalidate);
	}
	try {
		if (s.opcode == Opcode::read_request) {
			auto read = ReadRequest::decode(s.payload);
			remember("sink-stag", read.sink_stag);
			remember("sink-to", read.sink_to);
			remember("size", read.size);
			remember("source-stag", read.source_stag);
			remember("source-to", read.source_to);
		} else if (s.opcode == Opcode::atomic_request) {
			auto atomic = AtomicRequest::decode(s.payload);
			remember("operation", atomic.operation);
			remember("id", atomic.id);
			remember("stag", atomic.stag);
			remember("to", atomic.to);
			remember("data", atomic.data);
			remember("mask", atomic.mask);
			remember("compare", atomic.compare);
			remember("compare-mask", atomic.compare_mask);
		} else if (s.opcode == Opcode::atomic_response) {
			auto response = AtomicResponse::decode(s.payload);
			remember("id", response.id);
			remember("original", response.original);
		} else if (s.opcode == Opcode::terminate) {
			auto terminate = Terminate::decode(s.payload);
			remember("code", terminate.code);
			variables_["ddp-header"] = hex(terminate.ddp_header);
			variables_["rdma-header"] = hex(terminate.rdma_header);
		}
	} catch (const std::out_of_range &) {
		throw Unexpected("a message that is cut off: " + describe(s));
	}
}

void Script::compare(Words &words)
{
	auto octets = words.octets();

	if (octets && variables_["data"] != hex(*octets))
		throw Unexpected("the octets are " + variables_["data"]);
	for (auto &[name, wanted] : words.take_all()) {
		auto found = variables_.find(name);
		if (found == variables_.end())
			throw ScriptError("there is no '" + name + "' to compare with");
		bool same = found->second == wanted;
		/* Numbers may be written in any base. */
		if (!same && name != "data") {
			try {
				same = to_number(found->second) == to_number(wanted);
			} catch (const ScriptError &) {
			}
		}
		if (!same)
			throw Unexpected(name + " is " + found->second + ", expected " + wanted);
	}
}

} // namespace wire
