// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "decode.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

namespace wire {

namespace {

/* Where a stream may begin that is looked for: not more places than this, nor more octets. */
constexpr std::size_t most_starts = 64, most_searched = 1 << 20;
/* Octets of a connection in which nothing was found, when it is taken for another protocol's. */
constexpr uint64_t most_foreign = 8 << 20;
/* FPDUs in a row that make sense, where no CRC can tell. */
constexpr unsigned convincing = 4;

bool is_mpa_key(View bytes)
{
	auto key = copy(bytes.first(16));

	return key == MpaFrame::request_key() || key == MpaFrame::reply_key();
}

/* Could this be the begin of a setup frame? */
bool like_mpa(View bytes)
{
	auto count = std::min<std::size_t>(bytes.size(), 16);
	auto start = copy(bytes.first(count));
	auto request = MpaFrame::request_key(), reply = MpaFrame::reply_key();

	request.resize(count);
	reply.resize(count);
	return start == request || start == reply;
}

/* Does this look like a segment of RDMAP? */
bool plausible(View ulpdu)
{
	auto s = Segment::decode(ulpdu);

	if (!s || s->ddp_version != 1 || s->rdmap_version != 1 || s->ddp_reserved ||
	    s->rdmap_reserved)
		return false;
	return is_tagged(s->opcode) ? s->tagged : !s->tagged && queue_of(s->opcode) == s->qn;
}

std::string describe(const MpaFrame &frame)
{
	std::string text =
		frame.reply ? (frame.rejected() ? "MPA reject" : "MPA reply") : "MPA request";

	text += " rev " + std::to_string(frame.revision);
	text += frame.crc() ? " crc" : " no-crc";
	text += frame.markers() ? " markers" : "";
	if (frame.enhanced) {
		auto &e = *frame.enhanced;
		auto number = [](unsigned value) {
			return value == Enhanced::none ? std::string("none")
						       : std::to_string(value);
		};
		text += " ird " + number(e.ird) + " ord " + number(e.ord);
		if (e.peer_to_peer)
			text += std::string(" peer-to-peer rtr") + (e.rtr_send ? " send" : "") +
				(e.rtr_write ? " write" : "") + (e.rtr_read ? " read" : "");
	}
	if (!frame.private_data.empty())
		text += " private data " + std::to_string(frame.private_data.size()) + " [" +
			hex(frame.private_data, 32) + "]";
	if (frame.revision != 1 && frame.revision != 2)
		text += " !REVISION";
	if (frame.flags & 0x0f)
		text += " !RESERVED-BITS";
	if (frame.private_data.size() + (frame.enhanced ? 4 : 0) > MpaFrame::max_private_data)
		text += " !PRIVATE-DATA-TOO-LONG";
	if (frame.flags & MpaFrame::s && frame.revision >= 2 && !frame.enhanced)
		text += " !NO-ENHANCED-DATA";
	return text;
}

} // namespace

/* --- one direction --- */

class Decoder::Direction {
public:
	Direction(Decoder &owner, std::string name) : owner_(owner), name_(std::move(name)) {}

	void add(const TcpSegment &segment, uint64_t time);
	/* iwarp: something of the connection was understood, and the rest of it is amiss. */
	void finish(uint64_t time, bool iwarp);
	/* What both setup frames say. */
	void begin(bool markers, bool crc, uint64_t time);
	void ignore();
	/* Its first octets are no frame, and it began here: no MPA. */
	bool foreign() const { return foreign_; }
	const std::optional<MpaFrame> &frame() const { return frame_; }
	bool joined() const { return joined_; }
	/* Anything of it was understood. */
	bool understood() const { return frame_ || joined_; }
	/* Octets that were looked through in vain, since anything was found. */
	uint64_t skipped() const { return skipped_; }
	uint64_t retransmitted() const { return tcp_.retransmitted(); }
	uint64_t out_of_order() const { return tcp_.out_of_order(); }
	void say(uint64_t time, const std::string &text) const
	{
		owner_.print_(owner_.time_text(time) + " " + name_ + " " + text);
	}

private:
	enum class State { frame, waiting, stream, searching, ignored };
	struct Message {
		Segment first;
		std::size_t length, segments;
		std::vector<std::string> broken;
	};
	/* Where an FPDU may begin; nothing has said yet that none does. */
	struct Start {
		/* In the buffer. */
		std::size_t at;
		/* What looks like FPDUs there, and their octets. */
		unsigned seen = 0;
		std::size_t passed = 0;
	};

	void deliver(TcpStream::Delivery &delivery, uint64_t time);
	void look_for_frame(uint64_t time);
	void read_stream(uint64_t time);
	void search(uint64_t time);
	void join(std::size_t start, uint64_t time);
	void skip(std::size_t count);
	std::optional<bool> fits(Start &start, View bytes, bool markers, uint64_t position) const;
	bool find_markers(uint64_t time);
	void lose(uint64_t count, uint64_t time);
	void start_searching();
	void show(const Fpdu &fpdu, uint64_t time);
	void show_message(const Message &message, uint64_t time) const;
	void forget_messages(uint64_t time);
	void incomplete(uint64_t time, const std::string &text);
	static std::pair<bool, uint32_t> key_of(const Segment &s);

	Decoder &owner_;
	std::string name_;
	TcpStream tcp_;
	State state_ = State::frame;
	/* Octets have come. */
	bool begun_ = false;
	bool foreign_ = false;
	std::optional<MpaFrame> frame_;
	/* Not used yet: a frame, what came before the other side's frame, or where a start is
	 * looked for. */
	Bytes buffer_;
	/* At the begin of TCP segments. */
	std::vector<Start> starts_;
	/* In the stream. */
	FpduDecoder fpdus_;
	StreamChecker checker_;
	bool markers_ = false, crc_ = true;
	/* Whether setup was seen, so that positions of markers and use of CRCs are known. */
	bool known_ = false, joined_ = false;
	uint64_t position_ = 0, skipped_ = 0;
	std::map<std::pair<bool, uint32_t>, Message> open_;
};

void Decoder::Direction::add(const TcpSegment &segment, uint64_t time)
{
	for (auto &delivery : tcp_.add(segment))
		deliver(delivery, time);
}

void Decoder::Direction::deliver(TcpStream::Delivery &delivery, uint64_t time)
{
	if (state_ == State::ignored)
		return;
	if (delivery.lost)
		lose(delivery.lost, time);
	/* Not before there are octets: an ACK says nothing of what will follow. */
	if (!begun_) {
		begun_ = true;
		/* A whole frame may come all the same: the SYN alone was missed. */
		if (state_ == State::frame && !tcp_.from_start() &&
		    !(delivery.bytes.size() >= 16 && is_mpa_key(delivery.bytes)))
			start_searching();
	}
	switch (state_) {
	case State::frame:
		append(buffer_, delivery.bytes);
		look_for_frame(time);
		break;
	case State::waiting:
		append(buffer_, delivery.bytes);
		/* The other side's frame is not there, and does not come. */
		if (buffer_.size() > most_searched) {
			incomplete(time, "the other side's MPA frame is missing");
			start_searching();
			search(time);
		}
		break;
	case State::stream:
		fpdus_.feed(delivery.bytes);
		read_stream(time);
		break;
	case State::searching:
		if (delivery.segment_start)
			starts_.push_back({buffer_.size()});
		append(buffer_, delivery.bytes);
		search(time);
		break;
	default:
		break;
	}
}

void Decoder::Direction::ignore()
{
	state_ = State::ignored;
	buffer_ = {};
	starts_ = {};
	open_.clear();
}

void Decoder::Direction::look_for_frame(uint64_t time)
{
	if (!like_mpa(buffer_)) {
		foreign_ = true;
		start_searching();
		return;
	}
	if (buffer_.size() < MpaFrame::header_length)
		return;
	auto size = MpaFrame::size(buffer_);
	if (buffer_.size() < size)
		return;
	frame_ = MpaFrame::decode(buffer_);
	buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(size));
	owner_.totals_.frames++;
	auto text = describe(*frame_);
	owner_.totals_.broken += text.find('!') != std::string::npos;
	say(time, text);
	state_ = State::waiting;
}

void Decoder::Direction::begin(bool markers, bool crc, uint64_t time)
{
	markers_ = markers;
	crc_ = crc;
	known_ = true;
	fpdus_ = FpduDecoder(markers);
	checker_ = StreamChecker(crc);
	state_ = State::stream;
	fpdus_.feed(buffer_);
	buffer_.clear();
	read_stream(time);
}

void Decoder::Direction::start_searching()
{
	state_ = State::searching;
	starts_.clear();
	if (!buffer_.empty())
		starts_.push_back({0});
}

void Decoder::Direction::lose(uint64_t count, uint64_t time)
{
	/* In front of where a stream is joined nothing is missed; and it may be no iWARP. */
	if (state_ != State::searching || understood()) {
		owner_.totals_.octets_missing += count;
		say(time, "!" + std::to_string(count) + " octets are missing from the capture");
	}
	if (state_ == State::stream) {
		position_ = fpdus_.position() + fpdus_.pending().size() + count;
		buffer_.clear();
		forget_messages(time);
	} else if (state_ == State::searching) {
		skip(buffer_.size());
		position_ += count;
	} else {
		known_ = false;
	}
	start_searching();
}

/*
 * Whether an FPDU begins with these octets, which are those of a start; nothing as long as that
 * cannot be told.
 */
std::optional<bool> Decoder::Direction::fits(Start &start, View bytes, bool markers,
					     uint64_t position) const
{
	owner_.totals_.starts_tried++;
	for (;;) {
		auto left = rest(bytes, start.passed);
		auto at = position + start.passed;
		/* Most of what is none shows here already, and is not waited for. */
		auto head = Fpdu::read_head(left, markers, at, Segment::untagged_header);
		if (head && !plausible(*head))
			return false;
		auto fpdu = Fpdu::read(left, markers, at);
		if (!fpdu)
			return std::nullopt;
		if (!fpdu->markers_good())
			return false;
		/* A whole FPDU and no more is enough, but for one without CRC. */
		if (fpdu->crc_good())
			return true;
		/* Without CRC there is only what it looks like. */
		if ((known_ && crc_) || !fpdu->pad_good())
			return false;
		start.passed += fpdu->wire_length;
		if (++start.seen >= convincing)
			return true;
	}
}

void Decoder::Direction::join(std::size_t start, uint64_t time)
{
	skip(start);
	owner_.totals_.octets_skipped += skipped_;
	say(time, "joined in the middle of a stream" +
			  (skipped_ ? ", " + std::to_string(skipped_) + " octets skipped" : ""));
	skipped_ = 0;
	markers_ = known_ && markers_;
	fpdus_ = FpduDecoder(markers_);
	fpdus_.seek(known_ ? position_ : 0);
	fpdus_.feed(buffer_);
	if (!known_) {
		/* fits() has looked: what has no good CRC here has none at all. */
		auto first = fpdus_.peek();
		crc_ = !first || first->crc_good();
		if (!crc_)
			say(time, "this stream does not use CRC");
	}
	checker_ = StreamChecker(crc_);
	checker_.join();
	joined_ = true;
	buffer_.clear();
	starts_.clear();
	state_ = State::stream;
}

/* Takes octets off the front of what is looked through. */
void Decoder::Direction::skip(std::size_t count)
{
	buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(count));
	skipped_ += count;
	position_ += count;
	for (auto &start : starts_)
		start.at -= count;
}

void Decoder::Direction::search(uint64_t time)
{
	/* The first octets may be a setup frame, or the begin of one. */
	if (!known_ && !skipped_ && like_mpa(buffer_)) {
		if (buffer_.size() >= 16) {
			state_ = State::frame;
			look_for_frame(time);
		}
		return;
	}
	for (auto start = starts_.begin(); start != starts_.end();) {
		auto fit = fits(*start, rest(buffer_, start->at), known_ && markers_,
				known_ ? position_ + start->at : 0);
		if (fit == true) {
			join(start->at, time);
			read_stream(time);
			return;
		}
		start = fit ? starts_.erase(start) : start + 1;
	}
	auto first = [this] { return starts_.empty() ? buffer_.size() : starts_.front().at; };
	while (starts_.size() > most_starts || buffer_.size() - first() > most_searched)
		starts_.erase(starts_.begin());
	skip(first());
}

/*
 * A stream that was joined without its setup has markers, if one of its FPDUs makes sense only with
 * them. The one that did not fit is pending.
 */
bool Decoder::Direction::find_markers(uint64_t time)
{
	auto octets = fpdus_.pending();

	for (uint64_t phase = 0; phase < FpduEncoder::marker_interval; phase += 4) {
		Start start{0};
		if (fits(start, octets, true, phase) != true)
			continue;
		say(time, "this stream has markers");
		markers_ = true;
		fpdus_ = FpduDecoder(true);
		fpdus_.seek(phase);
		fpdus_.feed(octets);
		return true;
	}
	return false;
}

void Decoder::Direction::read_stream(uint64_t time)
{
	while (state_ == State::stream) {
		auto fpdu = fpdus_.peek();
		if (!fpdu)
			return;
		bool doubtful = crc_ ? !fpdu->crc_good() : !plausible(fpdu->ulpdu);
		if (!known_ && doubtful) {
			if (!markers_ && find_markers(time))
				continue;
			/* Else it makes sense, only the CRC is wrong. */
			if (!plausible(fpdu->ulpdu)) {
				say(time, "!lost the stream");
				owner_.totals_.broken++;
				buffer_ = fpdus_.pending();
				forget_messages(time);
				start_searching();
				starts_.clear();
				return;
			}
		}
		fpdus_.skip(fpdu->wire_length);
		show(*fpdu, time);
	}
}

/* --- messages --- */

std::pair<bool, uint32_t> Decoder::Direction::key_of(const Segment &s)
{
	return {s.tagged, s.tagged ? static_cast<uint32_t>(s.opcode) : s.qn};
}

void Decoder::Direction::show(const Fpdu &fpdu, uint64_t time)
{
	auto broken = checker_.look(fpdu);
	auto segment = Segment::decode(fpdu.ulpdu);

	owner_.totals_.fpdus++;
	owner_.totals_.broken += broken.size();
	owner_.totals_.crc_errors += crc_ && !fpdu.crc_good();
	if (!segment) {
		say(time, "!a ULPDU of " + std::to_string(fpdu.ulpdu.size()) +
				  " octets without a DDP header [" + hex(fpdu.ulpdu, 32) + "]");
		return;
	}
	auto key = key_of(*segment);
	auto open = open_.find(key);
	bool whole = owner_.options_.segments || (segment->last && open == open_.end());
	if (whole) {
		Message message{*segment, segment->payload.size(), 1, broken};
		owner_.totals_.messages += segment->last;
		show_message(message, time);
		return;
	}
	if (open == open_.end()) {
		/* Queues of a hostile capture are not worth remembering without end. */
		if (open_.size() > 64)
			forget_messages(time);
		open = open_.emplace(key, Message{*segment, 0, 0, {}}).first;
	}
	auto &message = open->second;
	message.length += segment->payload.size();
	message.segments++;
	if (message.broken.size() < 16)
		message.broken.insert(message.broken.end(), broken.begin(), broken.end());
	if (!segment->last)
		return;
	message.first.last = true;
	owner_.totals_.messages++;
	show_message(message, time);
	open_.erase(open);
}

void Decoder::Direction::show_message(const Message &message, uint64_t time) const
{
	auto text = wire::describe(message.first, message.length);
	auto shown = owner_.options_.payload;

	if (message.segments != 1)
		text += " segments " + std::to_string(message.segments);
	if (shown && !message.first.payload.empty())
		text += " [" + hex(message.first.payload, shown) + "]";
	for (auto &rule : message.broken)
		text += " !" + rule;
	say(time, text);
}

void Decoder::Direction::forget_messages(uint64_t time)
{
	for (auto &[key, message] : open_) {
		show_message(message, time);
		incomplete(time, "the message above has no end");
	}
	open_.clear();
}

void Decoder::Direction::incomplete(uint64_t time, const std::string &text)
{
	say(time, "!" + text);
	owner_.totals_.incomplete++;
}

void Decoder::Direction::finish(uint64_t time, bool iwarp)
{
	for (auto &delivery : tcp_.flush())
		deliver(delivery, time);
	forget_messages(time);
	if (state_ == State::stream && !fpdus_.pending().empty())
		incomplete(time, std::to_string(fpdus_.pending().size()) +
					 " octets of an FPDU that has no end");
	else if ((state_ == State::frame || state_ == State::waiting) && !buffer_.empty())
		incomplete(time, std::to_string(buffer_.size()) + " octets that were not read");
	else if (state_ == State::searching) {
		auto count = skipped_ + buffer_.size();
		owner_.totals_.octets_skipped += count;
		auto text = std::to_string(count) + " octets in which no FPDU was found";
		if (count && iwarp)
			incomplete(time, text);
		else if (count)
			say(time, text);
	}
}

/* --- connections --- */

class Decoder::Connection {
public:
	Connection(Decoder &owner, const TcpSegment &first)
		: owner_(owner), one_(first.from),
		  forward_(owner, first.from.text() + " > " + first.to.text()),
		  backward_(owner, first.to.text() + " > " + first.from.text())
	{
	}

	void add(const TcpSegment &segment, uint64_t time)
	{
		auto &here = segment.from == one_ ? forward_ : backward_;

		time_ = time;
		if (segment.missing)
			cut_off_ += segment.missing;
		here.add(segment, time);
		both_frames(time);
		foreign();
		give_up();
		if (segment.fin && !ignored_)
			here.say(time, "FIN");
		if (segment.rst && !ignored_)
			here.say(time, "RST");
		ended_ |= segment.rst;
		fins_ |= segment.fin ? (&here == &forward_ ? 1 : 2) : 0;
	}

	/* A SYN now begins another connection with the same numbers. */
	bool over() const { return ended_ || fins_ == 3; }

	void finish()
	{
		if (ignored_)
			return;
		/* Any connection that was there before the capture may be no iWARP. */
		bool iwarp = forward_.understood() || backward_.understood();
		if (!iwarp && !owner_.options_.all)
			return;
		forward_.finish(time_, iwarp);
		backward_.finish(time_, iwarp);
		auto again = forward_.retransmitted() + backward_.retransmitted();
		auto late = forward_.out_of_order() + backward_.out_of_order();
		if (again || late || cut_off_)
			forward_.say(time_,
				     "TCP, both directions: " + std::to_string(again) +
					     " octets retransmitted, " + std::to_string(late) +
					     " segments out of order, " + std::to_string(cut_off_) +
					     " octets cut off by the capture");
	}

private:
	void both_frames(uint64_t time)
	{
		if (begun_ || !forward_.frame() || !backward_.frame())
			return;
		begun_ = true;
		auto &a = *forward_.frame(), &b = *backward_.frame();
		if (a.reply == b.reply) {
			forward_.say(time, "!two MPA frames of the same kind");
			owner_.totals_.broken++;
		}
		bool crc = a.crc() || b.crc();
		/* The R bit of a request means nothing. */
		bool rejected = (a.reply && a.rejected()) || (b.reply && b.rejected());
		if (rejected) {
			forward_.ignore();
			backward_.ignore();
			return;
		}
		forward_.begin(b.markers(), crc, time);
		backward_.begin(a.markers(), crc, time);
	}

	void foreign()
	{
		if (ignored_ || !(forward_.foreign() || backward_.foreign()))
			return;
		/* It is iWARP: a start of the other side's stream may be found as well. */
		if (forward_.joined() || backward_.joined())
			return;
		/* One side spoke MPA and the other did not: that is worth a word. */
		if (forward_.frame() || backward_.frame()) {
			auto &other = forward_.foreign() ? forward_ : backward_;
			other.say(time_, "!no MPA frame in answer");
			owner_.totals_.broken++;
		} else if (owner_.options_.all) {
			forward_.say(time_, "not iWARP");
		}
		ignore();
	}

	void give_up()
	{
		auto count = forward_.skipped() + backward_.skipped();

		if (ignored_ || forward_.understood() || backward_.understood() ||
		    count <= most_foreign)
			return;
		if (owner_.options_.all) {
			forward_.say(time_,
				     "not iWARP: no FPDU in " + std::to_string(count) + " octets");
			owner_.totals_.octets_skipped += count;
		}
		ignore();
	}

	void ignore()
	{
		forward_.ignore();
		backward_.ignore();
		ignored_ = true;
	}

	Decoder &owner_;
	TcpEnd one_;
	Direction forward_, backward_;
	uint64_t time_ = 0, cut_off_ = 0;
	bool begun_ = false, ignored_ = false, ended_ = false;
	unsigned fins_ = 0;
};

Decoder::Decoder(const DecodeOptions &options, Print print)
	: options_(options), print_(std::move(print))
{
}

Decoder::~Decoder() = default;

std::string Decoder::time_text(uint64_t time) const
{
	std::array<char, 64> text{};

	if (options_.absolute) {
		auto seconds = static_cast<std::time_t>(time / 1000000000);
		std::tm parts{};
		gmtime_r(&seconds, &parts);
		auto count = std::strftime(text.data(), text.size(), "%F %T", &parts);
		std::snprintf(text.data() + count, text.size() - count, ".%09llu",
			      static_cast<unsigned long long>(time % 1000000000));
	} else {
		auto since = time - std::min(time, first_time_.value_or(time));
		std::snprintf(text.data(), text.size(), "%llu.%09llu",
			      static_cast<unsigned long long>(since / 1000000000),
			      static_cast<unsigned long long>(since % 1000000000));
	}
	return text.data();
}

void Decoder::packet(const Packet &packet)
{
	totals_.packets++;
	if (!first_time_)
		first_time_ = packet.time;
	auto segment = parse_packet(packet);
	if (!segment)
		return;
	Key key = segment->from < segment->to ? Key{segment->from, segment->to}
					      : Key{segment->to, segment->from};
	auto &connection = connections_[key];
	if (connection && segment->syn && connection->over()) {
		connection->finish();
		connection.reset();
	}
	if (!connection) {
		/* A late ACK or FIN of what is over is no conversation. */
		if (!segment->syn && segment->payload.empty()) {
			connections_.erase(key);
			return;
		}
		connection = std::make_unique<Connection>(*this, *segment);
		totals_.connections++;
	}
	connection->add(*segment, packet.time);
}

void Decoder::finish()
{
	for (auto &[key, connection] : connections_)
		connection->finish();
	connections_.clear();
}

} // namespace wire
