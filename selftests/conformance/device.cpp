// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "device.h"

#include <arpa/inet.h>

#include <cstdlib>
#include <fstream>

namespace {

std::string env(const char *name, const std::string &otherwise)
{
	const char *value = std::getenv(name);

	return value && *value ? value : otherwise;
}

/* Where the peer's sockets are: ZIW_PEER, a namespace. */
std::string peer_namespace()
{
	const char *value = std::getenv("ZIW_PEER");

	/* Empty: the one that this program runs in. */
	return value ? value : "a";
}

/* The peer's address, as the device would use it: ZIW_PEER_ADDRESS. */
Address peer_address()
{
	Address address;
	auto text = env("ZIW_PEER_ADDRESS", "10.0.0.1");
	auto *four = reinterpret_cast<sockaddr_in *>(&address.storage);

	four->sin_family = AF_INET;
	if (inet_pton(AF_INET, text.c_str(), &four->sin_addr) != 1)
		throw std::invalid_argument("ZIW_PEER_ADDRESS=" + text);
	return address;
}

} // namespace

milliseconds patience()
{
	static const milliseconds value(std::stoi(env("ZIW_PATIENCE", "5000")));

	return value;
}

/* --- parameters --- */

std::string Parameter::path(const std::string &name)
{
	return "/sys/class/infiniband/" + host_b().device() + "/ziw/" + name;
}

bool Parameter::exists(const std::string &name)
{
	return std::ifstream(path(name)).good();
}

Parameter::Parameter(const std::string &name, const std::string &value) : Setting(path(name), value)
{
}

bool Conformance::lacks_parameter(const std::string &name)
{
	return !b.is_ziw() && !Parameter::exists(name);
}

/* --- frames --- */

MpaFrame request(uint8_t flags, Bytes private_data)
{
	MpaFrame frame;

	frame.flags = flags;
	frame.private_data = std::move(private_data);
	return frame;
}

MpaFrame enhanced_request(const Enhanced &words, Bytes private_data)
{
	auto frame = request(MpaFrame::c, std::move(private_data));

	frame.revision = 2;
	frame.enhanced = words;
	return frame;
}

MpaFrame reply_to(const MpaFrame &request)
{
	MpaFrame reply;

	reply.reply = true;
	reply.revision = request.revision;
	reply.flags = static_cast<uint8_t>(request.flags & MpaFrame::c);
	if (!request.enhanced)
		return reply;
	reply.enhanced = request.enhanced;
	std::swap(reply.enhanced->ird, reply.enhanced->ord);
	return reply;
}

Bytes pattern(std::size_t length, uint64_t seed)
{
	Bytes bytes(length);

	fill_pattern(bytes.data(), length, seed);
	return bytes;
}

/* --- setup --- */

void Conformance::SetUp()
{
	Peer::patience = patience();
	region.emplace(b.pd(), size);
	region->clear();
}

void Conformance::TearDown()
{
	if (peer && !rules_off) {
		std::map<std::string, unsigned> counts;
		for (auto &rule : peer->take_broken_rules())
			counts[rule]++;
		for (auto &[rule, count] : counts)
			ADD_FAILURE() << "broken " << count << " times: " << rule;
	}
	if (region) {
		EXPECT_EQ(region->harmed(), "");
		if (untouched) {
			EXPECT_EQ(region->touched(), "");
		}
	}
}

void Conformance::connect(int mss)
{
	listener.emplace(b);
	auto to = listener->address();
	InNamespace in(peer_namespace());
	peer.emplace(wire::Socket::connect(to.get(), to.size(), patience(), mss));
}

void Conformance::respond(const MpaFrame &frame, const ConnectParameters &parameters,
			  const QpConfig &config)
{
	if (!peer)
		connect();
	asked = frame;
	peer->send_frame(asked);
	end = listener->endpoint(listener->request(patience()), config);
	accept(*end, parameters);
	replied = peer->receive_frame();
	ASSERT_TRUE(replied.reply);
	ASSERT_FALSE(replied.rejected());
	peer->start(asked, replied);
}

void Conformance::respond_and_begin(const MpaFrame &frame, const ConnectParameters &parameters,
				    const QpConfig &config)
{
	respond(frame, parameters, config);
	if (HasFatalFailure())
		return;
	peer->send(Segment::write(region->rkey(), region->address()));
}

void Conformance::expect_refused()
{
	peer->expect_end();
	EXPECT_FALSE(next_event(listener->channel(), moment)) << "the ULP was shown the request";
}

CmEvent Conformance::expect_setup_failure()
{
	auto event = next_event(end->channel(), patience());

	if (!event)
		throw verbs::Timeout("the ULP is not told that setup failed");
	EXPECT_NE(event->type, RDMA_CM_EVENT_ESTABLISHED);
	return std::move(*event);
}

void Conformance::accept_tcp(const ConnectParameters &parameters, const QpConfig &config)
{
	auto here = peer_address();
	socklen_t length = sizeof(here.storage);

	if (tcp_listener.get() < 0) {
		InNamespace in(peer_namespace());
		tcp_listener = wire::Socket::listen(here.get(), here.size());
	}
	verbs::check(getsockname(tcp_listener.get(), here.get(), &length), "getsockname");
	end = resolve(b, here, config);
	start_connect(*end, parameters);
	peer.emplace(tcp_listener.accept(patience()));
	asked = peer->receive_frame();
	ASSERT_FALSE(asked.reply) << "a Reply Frame instead of a Request Frame";
}

void Conformance::answer(const MpaFrame &reply)
{
	replied = reply;
	peer->send_frame(replied);
	peer->start(replied, asked);
}

void Conformance::take_rtr()
{
	if (!asked.enhanced || !asked.enhanced->peer_to_peer)
		return;
	auto rtr = peer->next(patience());
	ASSERT_TRUE(rtr) << "no RTR";
	if (rtr->opcode == Opcode::read_request) {
		auto read = ReadRequest::decode(rtr->payload);
		EXPECT_EQ(read.size, 0u) << "RFC 6581, 9.2: a zero-length Read";
		peer->send(Segment::read_response(read.sink_stag, read.sink_to));
	} else {
		EXPECT_TRUE(rtr->opcode == Opcode::write || rtr->opcode == Opcode::send)
			<< wire::describe(*rtr);
		EXPECT_TRUE(rtr->payload.empty()) << "RFC 6581, 9.2: a zero-length FULPDU";
	}
}

void Conformance::initiate(const ConnectParameters &parameters, const QpConfig &config)
{
	accept_tcp(parameters, config);
	if (HasFatalFailure())
		return;
	answer(reply_to(asked));
	end->event(RDMA_CM_EVENT_ESTABLISHED, patience());
	take_rtr();
}

/* --- what is to come out --- */

void Conformance::expect_qp_error()
{
	if (end) {
		EXPECT_TRUE(end->reaches(IBV_QPS_ERR, patience())) << "the QP did not fail";
	}
}

Terminate Conformance::expect_terminate(std::vector<uint16_t> codes)
{
	auto terminate = peer->expect_terminate();
	std::string wanted;
	bool found = false;

	for (auto code : codes) {
		found |= terminate.code == code;
		wanted += (wanted.empty() ? "" : " or ") + wire::terminate_name(code);
	}
	EXPECT_TRUE(found) << "Terminate 0x" << std::hex << terminate.code << " ("
			   << wire::terminate_name(terminate.code) << "), expected " << wanted;
	/* RFC 5040, 5.4: nothing more on this stream. */
	EXPECT_FALSE(peer->next(moment)) << "a message after the Terminate";
	/* Who got a Terminate closes, then the other does, too. */
	peer->finish();
	peer->expect_end();
	expect_qp_error();
	return terminate;
}

void Conformance::expect_about(const Terminate &terminate, const Segment &refused)
{
	EXPECT_TRUE(terminate.m) << "RFC 5040, figure 10: M";
	EXPECT_TRUE(terminate.d) << "RFC 5040, figure 10: D";
	EXPECT_EQ(terminate.segment_length, refused.encode().size());
	EXPECT_EQ(wire::hex(terminate.ddp_header), wire::hex(refused.header()));
}

void Conformance::expect_no_headers(const Terminate &terminate)
{
	EXPECT_FALSE(terminate.m || terminate.d || terminate.r)
		<< "RFC 5040, figure 10: no headers";
}

Terminate Conformance::refuses(const Segment &bad, const std::vector<uint16_t> &codes, About about)
{
	if (!end) {
		respond_and_begin();
		post_receives(4);
	}
	peer->send(bad);
	auto terminate = expect_terminate(codes);
	if (about == About::header || about == About::header_and_request)
		expect_about(terminate, bad);
	if (about == About::header_and_request) {
		EXPECT_TRUE(terminate.r) << "RFC 5040, figure 10: R";
		EXPECT_EQ(wire::hex(terminate.rdma_header), wire::hex(bad.payload));
	} else {
		EXPECT_FALSE(terminate.r) << "RFC 5040, figure 10: no R";
	}
	if (about == About::nothing)
		expect_no_headers(terminate);
	for (auto &wc : end->wait_recv(4, patience()))
		EXPECT_NE(wc.status, IBV_WC_SUCCESS);
	return terminate;
}

void Conformance::expect_receive(const Segment &send, unsigned length)
{
	constexpr uint64_t id = 0x1d;

	verbs::check(end->post_recv(id, {region->sge()}), "post_recv");
	peer->send(send);
	auto wc = end->wait_recv(1, patience())[0];
	EXPECT_COMPLETED(wc, id, IBV_WC_RECV);
	EXPECT_EQ(wc.byte_len, length);
}

void Conformance::expect_closed()
{
	peer->expect_end();
	expect_qp_error();
}

void Conformance::expect_alive()
{
	ReadRequest read{0x1234, 0x5678, 8, region->rkey(), region->address()};

	peer->send(read.segment(next_request++));
	auto response = peer->expect_message(Opcode::read_response);
	EXPECT_EQ(response.payload, region_bytes(0, 8));
}

Bytes Conformance::region_bytes(std::size_t offset, std::size_t length) const
{
	return Bytes(region->data() + offset, region->data() + offset + length);
}

std::size_t Conformance::post_receives(unsigned count, std::size_t each)
{
	for (unsigned i = 0; i < count; i++)
		verbs::check(end->post_recv(i, {region->sge(i * each, each)}), "post_recv");
	return each;
}
