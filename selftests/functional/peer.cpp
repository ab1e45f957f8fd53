// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "peer.h"

#include <arpa/inet.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <iostream>

namespace {

constexpr std::size_t peer_buffer = 256 << 10;

std::string to_hex(const Address &address)
{
	static const char digits[] = "0123456789abcdef";
	std::string text;

	for (std::size_t i = 0; i < address.size(); i++) {
		auto byte = reinterpret_cast<const unsigned char *>(&address.storage)[i];
		text += digits[byte >> 4];
		text += digits[byte & 15];
	}
	return text;
}

Address from_hex(const std::string &text)
{
	Address address;

	for (std::size_t i = 0; i < text.size() / 2 && i < sizeof(address.storage); i++)
		reinterpret_cast<unsigned char *>(&address.storage)[i] =
			static_cast<unsigned char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
	return address;
}

} // namespace

Peer::Peer(const std::string &role, const std::string &host, const Address &to)
{
	auto address = to_hex(to);
	std::string words[] = {"/proc/self/exe", "--peer", role, host, address};
	char *argv[] = {words[0].data(), words[1].data(), words[2].data(),
			words[3].data(), words[4].data(), nullptr};

	if (int rc = posix_spawn(&pid_, "/proc/self/exe", nullptr, nullptr, argv, environ))
		verbs::fail("posix_spawn", rc);
}

Peer::~Peer()
{
	kill();
}

void Peer::kill()
{
	if (pid_ <= 0)
		return;
	::kill(pid_, SIGKILL);
	waitpid(pid_, nullptr, 0);
	pid_ = 0;
}

int Peer::wait(verbs::milliseconds timeout)
{
	int status = 0;

	if (!verbs::eventually(timeout, [&] { return waitpid(pid_, &status, WNOHANG) == pid_; }))
		return -1;
	pid_ = 0;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::unique_ptr<Endpoint> accept_peer(Listener &listener, const Region &region,
				      const QpConfig &config)
{
	return accept_peer(listener,
			   {region.address(), region.rkey(), static_cast<uint32_t>(region.size())},
			   config);
}

std::unique_ptr<Endpoint> accept_peer(Listener &listener, Advertisement here,
				      const QpConfig &config)
{
	auto end = listener.endpoint(listener.request(), config);
	ConnectParameters parameters;
	auto *bytes = reinterpret_cast<uint8_t *>(&here);

	parameters.private_data.assign(bytes, bytes + sizeof(here));
	accept(*end, parameters);
	end->event(RDMA_CM_EVENT_ESTABLISHED);
	return end;
}

int peer_main(int argc, char **argv)
try {
	if (argc != 3)
		throw std::invalid_argument("--peer ROLE HOST ADDRESS");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	std::string role = argv[0];
	Host host(argv[1]);
	Region region(host.pd(), peer_buffer);
	verbs::Mr whole;
	if (role.starts_with("implicit-")) {
		role.erase(0, role.find('-') + 1);
		whole.reset(verbs::check(ibv_reg_mr(host.pd(), nullptr, SIZE_MAX,
						    Region::all | IBV_ACCESS_ON_DEMAND),
					 "ibv_reg_mr"));
	}
	auto end = resolve(host, from_hex(argv[2]));
	constexpr unsigned window = 8;
	region.fill(7);
	/* Before the other side can know of the connection, and send. */
	if (role == "idle")
		for (unsigned i = 0; i < window; i++)
			verbs::check(end->post_recv(i, {region.sge()}), "post_recv");
	start_connect(*end);
	auto established = end->event(RDMA_CM_EVENT_ESTABLISHED);
	Advertisement there{};
	if (established.private_data.size() < sizeof(there))
		throw std::runtime_error("no advertisement");
	std::memcpy(&there, established.private_data.data(), sizeof(there));

	if (role == "idle") {
		end->event(RDMA_CM_EVENT_DISCONNECTED, verbs::milliseconds(600000));
		return 0;
	}
	auto length = std::min<std::size_t>(there.length, region.size());
	auto post = [&](uint64_t i) {
		std::vector<ibv_sge> sges{region.sge(0, length)};
		if (whole)
			sges[0].lkey = whole->lkey;
		verbs::check(
			end->post(role == "write"  ? write_work(i, sges, there.address, there.rkey)
				  : role == "read" ? read_work(i, sges, there.address, there.rkey)
						   : send_work(i, sges)),
			"post_send");
	};
	for (uint64_t i = 0; i < window; i++)
		post(i);
	for (uint64_t i = window;; i++) {
		auto wc = end->wait_send(1, verbs::milliseconds(600000))[0];
		if (wc.status != IBV_WC_SUCCESS)
			return 3;
		post(i);
	}
} catch (const std::exception &e) {
	std::cerr << "# peer: " << e.what() << "\n";
	return 2;
}
