/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A peer driven by lines of text. The language is described in ziw-wire(1). */
#pragma once

#include <functional>
#include <istream>
#include <map>

#include "peer.h"

namespace wire {

/* A line that cannot be understood; the number is in the text. */
class ScriptError : public std::runtime_error {
public:
	using std::runtime_error::runtime_error;
};

class Script {
public:
	using Print = std::function<void(const std::string &)>;

	Script(Peer peer, Print print) : peer_(std::move(peer)), print_(std::move(print)) {}
	void define(const std::string &name, const std::string &value) { variables_[name] = value; }
	/* Throws Unexpected for what does not come as expected, and ScriptError. */
	void run(std::istream &in);

private:
	/* The words of a line behind its first one, as NAME=VALUE or NAME. */
	class Words;

	void line(const std::string &command, Words &words);
	MpaFrame frame(Words &words, bool reply) const;
	void send_frame(Words &words, bool reply);
	void expect_frame(Words &words, bool reply);
	void begin_if_both();
	void send(Words &words);
	void remember(const Segment &segment);
	void remember(const std::string &name, uint64_t value);
	/* The remaining words must be what is remembered. */
	void compare(Words &words);

	Peer peer_;
	Print print_;
	std::map<std::string, std::string> variables_;
	std::optional<MpaFrame> mine_, theirs_;
};

} // namespace wire
