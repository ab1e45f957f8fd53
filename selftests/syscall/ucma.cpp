// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "ucma.h"

#include <arpa/inet.h>
#include <sched.h>

#include <vector>

namespace {

template <class T> uint64_t pointer(T *p)
{
	return reinterpret_cast<uintptr_t>(p);
}

ucm::rdma_ucm_conn_param parameters(uint32_t qpn, const void *data, uint8_t length)
{
	ucm::rdma_ucm_conn_param p{};

	p.qp_num = qpn;
	p.private_data_len = length;
	if (length)
		std::memcpy(p.private_data, data, length);
	p.responder_resources = 8;
	p.initiator_depth = 8;
	p.valid = 1;
	return p;
}

} // namespace

InNamespace::InNamespace(const std::string &name)
	: back_(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC))
{
	verbs::Fd there(open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC));

	if (!back_ || !there || setns(there.get(), CLONE_NEWNET))
		verbs::fail("namespace " + name);
}

InNamespace::~InNamespace()
{
	if (setns(back_.get(), CLONE_NEWNET)) {
		std::perror("setns");
		std::abort();
	}
}

Ucma::Ucma() : fd_(open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC | O_NONBLOCK))
{
	if (!fd_)
		verbs::fail("/dev/infiniband/rdma_cm");
}

int Ucma::command(uint32_t number, const void *in, std::size_t in_size, std::size_t out_size)
{
	std::vector<unsigned char> buffer(sizeof(ucm::rdma_ucm_cmd_hdr) + in_size);
	auto *header = reinterpret_cast<ucm::rdma_ucm_cmd_hdr *>(buffer.data());

	header->cmd = number;
	header->in = static_cast<uint16_t>(in_size);
	header->out = static_cast<uint16_t>(out_size);
	std::memcpy(buffer.data() + sizeof(*header), in, in_size);
	return write(fd_.get(), buffer.data(), buffer.size()) < 0 ? errno : 0;
}

int Ucma::create(uint64_t uid, uint32_t *id)
{
	ucm::rdma_ucm_create_id_resp out{};
	ucm::rdma_ucm_create_id in{};

	in.uid = uid;
	in.response = pointer(&out);
	in.ps = ucm::RDMA_PS_TCP;
	in.qp_type = IBV_QPT_RC;
	int rc = command(ucm::RDMA_USER_CM_CMD_CREATE_ID, &in, sizeof(in), sizeof(out));
	*id = out.id;
	return rc;
}

int Ucma::destroy(uint32_t id)
{
	ucm::rdma_ucm_destroy_id_resp out{};
	ucm::rdma_ucm_destroy_id in{};

	in.response = pointer(&out);
	in.id = id;
	return command(ucm::RDMA_USER_CM_CMD_DESTROY_ID, &in, sizeof(in), sizeof(out));
}

int Ucma::bind(uint32_t id, const sockaddr_in &address)
{
	ucm::rdma_ucm_bind in{};

	in.id = id;
	in.addr_size = sizeof(address);
	std::memcpy(&in.addr, &address, sizeof(address));
	return command(ucm::RDMA_USER_CM_CMD_BIND, &in, sizeof(in), 0);
}

int Ucma::resolve_address(uint32_t id, const sockaddr_in &to, unsigned milliseconds)
{
	ucm::rdma_ucm_resolve_addr in{};

	in.id = id;
	in.timeout_ms = milliseconds;
	in.dst_size = sizeof(to);
	std::memcpy(&in.dst_addr, &to, sizeof(to));
	return command(ucm::RDMA_USER_CM_CMD_RESOLVE_ADDR, &in, sizeof(in), 0);
}

int Ucma::resolve_route(uint32_t id, unsigned milliseconds)
{
	ucm::rdma_ucm_resolve_route in{id, milliseconds};

	return command(ucm::RDMA_USER_CM_CMD_RESOLVE_ROUTE, &in, sizeof(in), 0);
}

int Ucma::listen(uint32_t id, int backlog)
{
	ucm::rdma_ucm_listen in{id, static_cast<uint32_t>(backlog)};

	return command(ucm::RDMA_USER_CM_CMD_LISTEN, &in, sizeof(in), 0);
}

int Ucma::connect(uint32_t id, uint32_t qpn, const void *data, uint8_t length)
{
	ucm::rdma_ucm_connect in{};

	in.conn_param = parameters(qpn, data, length);
	in.id = id;
	return command(ucm::RDMA_USER_CM_CMD_CONNECT, &in, sizeof(in), 0);
}

int Ucma::accept(uint32_t id, uint64_t uid, uint32_t qpn, const void *data, uint8_t length)
{
	ucm::rdma_ucm_accept in{};

	in.uid = uid;
	in.conn_param = parameters(qpn, data, length);
	in.id = id;
	return command(ucm::RDMA_USER_CM_CMD_ACCEPT, &in, sizeof(in), 0);
}

int Ucma::reject(uint32_t id, const void *data, uint8_t length)
{
	ucm::rdma_ucm_reject in{};

	in.id = id;
	in.private_data_len = length;
	if (length)
		std::memcpy(in.private_data, data, length);
	return command(ucm::RDMA_USER_CM_CMD_REJECT, &in, sizeof(in), 0);
}

int Ucma::disconnect(uint32_t id)
{
	ucm::rdma_ucm_disconnect in{id};

	return command(ucm::RDMA_USER_CM_CMD_DISCONNECT, &in, sizeof(in), 0);
}

std::optional<CmEvent> Ucma::event(verbs::milliseconds timeout)
{
	ucm::rdma_ucm_event_resp out{};
	ucm::rdma_ucm_get_event in{};

	if (!verbs::readable(fd_.get(), timeout))
		return std::nullopt;
	in.response = pointer(&out);
	if (command(ucm::RDMA_USER_CM_CMD_GET_EVENT, &in, sizeof(in), sizeof(out)))
		return std::nullopt;
	return CmEvent{out.id, out.event, static_cast<int>(out.status), out.uid, out.param.conn};
}

sockaddr_in address(const char *text, uint16_t port)
{
	sockaddr_in a{};

	a.sin_family = AF_INET;
	a.sin_port = htons(port);
	inet_pton(AF_INET, text, &a.sin_addr);
	return a;
}
