/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * What every case of this suite starts from: the device under test, driven through verbs, and the
 * wire-level peer at the other end of a TCP connection.
 *
 *	 namespace a                     namespace b
 *	wire::Peer, a socket  ---------  the device, an Endpoint
 */
#pragma once

#include <gtest/gtest.h>

#include <optional>

#include "fixture.h"
#include "wire/peer.h"

using verbs::milliseconds;
using wire::append;
using wire::AtomicRequest;
using wire::AtomicResponse;
using wire::Bytes;
using wire::End;
using wire::Enhanced;
using wire::FpduFaults;
using wire::MpaFrame;
using wire::Opcode;
using wire::Peer;
using wire::ReadRequest;
using wire::Segment;
using wire::Terminate;
using wire::text;

/* How long to wait for what should come: ZIW_PATIENCE milliseconds. */
milliseconds patience();

/* A device's parameter in sysfs, changed while this lives. */
class Parameter : public Setting {
public:
	Parameter(const std::string &name, const std::string &value);
	static std::string path(const std::string &name);
	static bool exists(const std::string &name);
};

/* A frame of revision 1. */
MpaFrame request(uint8_t flags = MpaFrame::c, Bytes private_data = {});
/* One of revision 2 with the words of RFC 6581. */
MpaFrame enhanced_request(const Enhanced &words, Bytes private_data = {});
/* The answer to it, that agrees to all. */
MpaFrame reply_to(const MpaFrame &request);

class Conformance : public testing::Test {
protected:
	static constexpr std::size_t size = 40000;

	Conformance() : b(host_b()), random(run_seed()) {}
	void SetUp() override;
	void TearDown() override;

	/* --- the device responds --- */
	/* Its listener, and a socket that has connected to it. */
	void connect(int mss = 0);
	/* The same to the end of setup. */
	void respond(const MpaFrame &request = ::request(),
		     const ConnectParameters &parameters = {}, const QpConfig &config = {});
	/* With the peer's first FPDU, which ends the start-up: a zero-length Write. */
	void respond_and_begin(const MpaFrame &request = ::request(),
			       const ConnectParameters &parameters = {},
			       const QpConfig &config = {});
	/* The connection ends, and the listener's ULP hears of no request. */
	void expect_refused();

	/* --- the device initiates --- */
	/* It connects, and its Request Frame has come. */
	void accept_tcp(const ConnectParameters &parameters = {}, const QpConfig &config = {});
	/* Then the answer, to the end of setup, RTR included. */
	void initiate(const ConnectParameters &parameters = {}, const QpConfig &config = {});
	void answer(const MpaFrame &reply);
	/* The ULP is told that there is no connection; what it is told, with the private data. */
	CmEvent expect_setup_failure();
	/* Takes the RTR that was agreed on, and does what it asks for. */
	void take_rtr();

	/* --- what is to come out --- */
	/*
	 * One Terminate with one of these codes and nothing after it, then the end; the QP in
	 * error. Nothing is in the region that was not there before, if it was never written to.
	 */
	Terminate expect_terminate(std::vector<uint16_t> codes);
	/* It has the header of this segment, and its length. */
	static void expect_about(const Terminate &terminate, const Segment &refused);
	static void expect_no_headers(const Terminate &terminate);
	/* The connection ends by itself, and the QP with it. */
	void expect_closed();
	enum class About { header, header_and_request, nothing, anything };
	/*
	 * After a good start this segment must be refused: a Terminate with one of the codes, about
	 * what the table in RFC 5040, figure 10 says; no completion but in error, and nothing
	 * placed.
	 */
	Terminate refuses(const Segment &bad, const std::vector<uint16_t> &codes,
			  About about = About::header);
	/* The device has sent and received all so far: a Send of the peer's completes. */
	void expect_receive(const Segment &send, unsigned length);
	void expect_qp_error();
	/* The device still answers: a Read of the region's begin. */
	void expect_alive();

	/* Octets of the region. */
	Bytes region_bytes(std::size_t offset, std::size_t length) const;
	std::size_t post_receives(unsigned count, std::size_t each = 1000);
	/* Whether the test has to end here, because the device lacks the parameter. */
	bool lacks_parameter(const std::string &name);

	Host &b;
	Random random;
	std::optional<Region> region;
	std::optional<Listener> listener;
	wire::Socket tcp_listener;
	std::optional<Peer> peer;
	std::unique_ptr<Endpoint> end;
	/* The frames as they were. */
	MpaFrame asked, replied;
	/* MSNs that are next for what the peer sends. */
	uint32_t next_send = 1, next_request = 1;
	/* Cleared where a test means to write to the region. */
	bool untouched = true;
	/* The rules that the device may break here. */
	bool rules_off = false;
};

/* A deterministic pattern. */
Bytes pattern(std::size_t length, uint64_t seed = 1);
