// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "endpoint.h"

#include <gtest/gtest.h>

using verbs::check;

/*
 * ziw's sockets are in the namespace of its network interface, wherever the call comes from, and
 * these calls come from another one. siw (6.12) takes the caller's.
 */
static std::string socket_namespace(const Host &host)
{
	return host.is_ziw() ? "" : host.ns();
}

std::string CmEvent::text() const
{
	return std::string(rdma_event_str(type)) + " (status " + std::to_string(status) + ")";
}

std::optional<CmEvent> next_event(rdma_event_channel *channel, verbs::milliseconds timeout)
{
	rdma_cm_event *event;

	if (!verbs::readable(channel->fd, timeout))
		return std::nullopt;
	check(rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
	CmEvent copy{event->event, event->status, nullptr, {}, 0, 0};
	if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		copy.request.reset(event->id);
	/* Resolution events carry none, and leave the union as it was. */
	if (event->event != RDMA_CM_EVENT_ADDR_RESOLVED &&
	    event->event != RDMA_CM_EVENT_ROUTE_RESOLVED) {
		auto &conn = event->param.conn;
		auto *data = static_cast<const uint8_t *>(conn.private_data);
		if (data)
			copy.private_data.assign(data, data + conn.private_data_len);
		copy.responder_resources = conn.responder_resources;
		copy.initiator_depth = conn.initiator_depth;
	}
	check(rdma_ack_cm_event(event), "rdma_ack_cm_event");
	return copy;
}

CmEvent expect_event(rdma_event_channel *channel, rdma_cm_event_type type,
		     verbs::milliseconds timeout)
{
	auto event = next_event(channel, timeout);

	if (!event)
		throw verbs::Timeout(rdma_event_str(type));
	if (event->type != type)
		throw std::runtime_error("expected " + std::string(rdma_event_str(type)) +
					 ", got " + event->text());
	return std::move(*event);
}

static Work work(ibv_wr_opcode opcode, uint64_t id, std::vector<ibv_sge> sges)
{
	Work work;

	work.wr.opcode = opcode;
	work.wr.wr_id = id;
	work.wr.send_flags = IBV_SEND_SIGNALED;
	work.sges = std::move(sges);
	return work;
}

Work send_work(uint64_t id, std::vector<ibv_sge> sges)
{
	return work(IBV_WR_SEND, id, std::move(sges));
}

Work send_invalidate_work(uint64_t id, std::vector<ibv_sge> sges, uint32_t stag)
{
	auto made = work(IBV_WR_SEND_WITH_INV, id, std::move(sges));

	made.wr.invalidate_rkey = stag;
	return made;
}

Work write_work(uint64_t id, std::vector<ibv_sge> sges, uint64_t address, uint32_t rkey)
{
	auto made = work(IBV_WR_RDMA_WRITE, id, std::move(sges));

	made.wr.wr.rdma.remote_addr = address;
	made.wr.wr.rdma.rkey = rkey;
	return made;
}

Work read_work(uint64_t id, std::vector<ibv_sge> sges, uint64_t address, uint32_t rkey)
{
	auto made = write_work(id, std::move(sges), address, rkey);

	made.wr.opcode = IBV_WR_RDMA_READ;
	return made;
}

Endpoint::Endpoint(Host &host, verbs::CmChannel channel, verbs::CmId id, const QpConfig &config)
	: host_(host), channel_(std::move(channel)), id_(std::move(id))
{
	auto *context = id_->verbs;

	send_channel_.reset(check(ibv_create_comp_channel(context), "ibv_create_comp_channel"));
	recv_channel_.reset(check(ibv_create_comp_channel(context), "ibv_create_comp_channel"));
	auto make_cq = [&](ibv_comp_channel *events) {
		auto *cq = ibv_create_cq(context, config.cq_entries, nullptr, events, 0);
		return verbs::Cq(check(cq, "ibv_create_cq"));
	};
	if (!config.cq) {
		send_cq_ = make_cq(send_channel_.get());
		recv_cq_ = make_cq(recv_channel_.get());
	}

	ibv_qp_init_attr_ex attr{};
	attr.qp_type = IBV_QPT_RC;
	attr.send_cq = config.cq ? config.cq : send_cq_.get();
	attr.recv_cq = config.cq ? config.cq : recv_cq_.get();
	attr.srq = config.srq;
	attr.sq_sig_all = config.signal_all;
	attr.cap.max_send_wr = config.send_wr;
	attr.cap.max_recv_wr = config.srq ? 0 : config.recv_wr;
	attr.cap.max_send_sge = config.send_sge ? config.send_sge : host.max_sge();
	attr.cap.max_recv_sge = config.srq ? 0 : config.recv_sge ? config.recv_sge : host.max_sge();
	attr.cap.max_inline_data = config.max_inline;
	attr.comp_mask = IBV_QP_INIT_ATTR_PD;
	attr.pd = config.pd ? config.pd : host.pd();
	if (config.send_ops) {
		attr.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		attr.send_ops_flags = config.send_ops;
	}
	check(rdma_create_qp_ex(id_.get(), &attr), "rdma_create_qp_ex");
	qp_.reset(id_.get());
	max_inline_ = attr.cap.max_inline_data;
	host_.discard_async_events(qp());
}

Endpoint::~Endpoint()
{
	host_.discard_async_events(qp());
}

int Endpoint::post(std::vector<Work> works, std::size_t *bad)
{
	ibv_send_wr *refused = nullptr;

	for (std::size_t i = 0; i < works.size(); i++) {
		works[i].wr.sg_list = works[i].sges.data();
		works[i].wr.num_sge = static_cast<int>(works[i].sges.size());
		works[i].wr.next = i + 1 < works.size() ? &works[i + 1].wr : nullptr;
	}
	int rc = ibv_post_send(qp(), &works[0].wr, &refused);
	if (rc && bad) {
		*bad = works.size();
		for (std::size_t i = 0; i < works.size(); i++)
			if (&works[i].wr == refused)
				*bad = i;
	}
	return rc;
}

int Endpoint::post(Work work)
{
	std::vector<Work> one;

	one.push_back(std::move(work));
	return post(std::move(one));
}

int Endpoint::post_recv(uint64_t id, std::vector<ibv_sge> sges)
{
	ibv_recv_wr wr{}, *bad;

	if (sges.empty() && !host_.is_ziw())
		sges.push_back(host_.scratch());
	wr.wr_id = id;
	wr.sg_list = sges.data();
	wr.num_sge = static_cast<int>(sges.size());
	return ibv_post_recv(qp(), &wr, &bad);
}

std::vector<ibv_wc> wait_cq(ibv_cq *cq, std::size_t count, verbs::milliseconds timeout)
{
	std::vector<ibv_wc> all(count);
	std::size_t have = 0;

	bool done = verbs::eventually(timeout, [&] {
		/* Take what is there before looking at the clock again. */
		while (have < count) {
			int n = ibv_poll_cq(cq, static_cast<int>(count - have), &all[have]);
			if (n < 0)
				verbs::fail("ibv_poll_cq", -n);
			if (!n)
				return false;
			have += static_cast<std::size_t>(n);
		}
		return true;
	});
	if (!done)
		throw verbs::Timeout("got " + std::to_string(have) + " of " +
				     std::to_string(count) + " completions");
	return all;
}

std::vector<ibv_wc> Endpoint::wait_send(std::size_t count, verbs::milliseconds timeout)
{
	return wait_cq(send_cq(), count, timeout);
}

std::vector<ibv_wc> Endpoint::wait_recv(std::size_t count, verbs::milliseconds timeout)
{
	return wait_cq(recv_cq(), count, timeout);
}

ibv_qp_attr Endpoint::query(int mask, ibv_qp_init_attr *init)
{
	ibv_qp_attr attr{};
	ibv_qp_init_attr unused{};

	check(ibv_query_qp(qp(), &attr, mask, init ? init : &unused), "ibv_query_qp");
	return attr;
}

ibv_qp_state Endpoint::state()
{
	return query(IBV_QP_STATE).qp_state;
}

bool Endpoint::reaches(ibv_qp_state wanted, verbs::milliseconds timeout)
{
	return verbs::eventually(timeout, [&] { return state() == wanted; });
}

rdma_conn_param ConnectParameters::get() const
{
	rdma_conn_param p{};

	p.private_data = private_data.empty() ? nullptr : private_data.data();
	p.private_data_len = static_cast<uint8_t>(private_data.size());
	p.responder_resources = responder_resources;
	p.initiator_depth = initiator_depth;
	return p;
}

Listener::Listener(Host &host, Family family, int backlog, bool wildcard)
	: host_(host), channel_(host.make_channel()), id_(host.make_id(channel_.get())),
	  address_(host.address(family))
{
	auto here = wildcard ? address_.wildcard() : address_;

	/* rdma_cm picks a port without knowing which ones TCP uses: then another one. */
	for (unsigned tries = 0;; tries++) {
		check(rdma_bind_addr(id_.get(), here.get()), "rdma_bind_addr");
		InNamespace in(socket_namespace(host));
		if (!rdma_listen(id_.get(), backlog))
			break;
		if (errno != EADDRINUSE || tries == 4)
			verbs::fail("rdma_listen");
		id_ = host.make_id(channel_.get());
	}
	address_.set_port(ntohs(rdma_get_src_port(id_.get())));
}

std::unique_ptr<Endpoint> Listener::endpoint(CmEvent request, const QpConfig &config)
{
	auto channel = host_.make_channel();

	check(rdma_migrate_id(request.request.get(), channel.get()), "rdma_migrate_id");
	return std::make_unique<Endpoint>(host_, std::move(channel), std::move(request.request),
					  config);
}

std::unique_ptr<Endpoint> resolve(Host &host, Address peer, const QpConfig &config)
{
	auto channel = host.make_channel();
	auto id = host.make_id(channel.get());
	auto link_local = peer.storage.ss_family == AF_INET6 &&
			  reinterpret_cast<sockaddr_in6 *>(&peer.storage)->sin6_scope_id;

	/* The interface's number is local to each host. */
	if (link_local) {
		auto here = host.address(Family::link_local);
		reinterpret_cast<sockaddr_in6 *>(&peer.storage)->sin6_scope_id =
			reinterpret_cast<sockaddr_in6 *>(&here.storage)->sin6_scope_id;
	}
	check(rdma_resolve_addr(id.get(), nullptr, peer.get(), 5000), "rdma_resolve_addr");
	expect_event(channel.get(), RDMA_CM_EVENT_ADDR_RESOLVED);
	check(rdma_resolve_route(id.get(), 5000), "rdma_resolve_route");
	expect_event(channel.get(), RDMA_CM_EVENT_ROUTE_RESOLVED);
	return std::make_unique<Endpoint>(host, std::move(channel), std::move(id), config);
}

void start_connect(Endpoint &end, const ConnectParameters &parameters)
{
	auto p = parameters.get();
	InNamespace in(socket_namespace(end.host()));

	check(rdma_connect(end.id(), &p), "rdma_connect");
}

void accept(Endpoint &end, const ConnectParameters &parameters)
{
	auto p = parameters.get();

	check(rdma_accept(end.id(), &p), "rdma_accept");
}

Pair connect(Host &a, Listener &listener, const PairConfig &config)
{
	Pair pair;

	pair.a = resolve(a, listener.address(), config.a);
	start_connect(*pair.a, config.active);
	pair.b = listener.endpoint(listener.request(), config.b);
	accept(*pair.b, config.passive);
	pair.a->event(RDMA_CM_EVENT_ESTABLISHED);
	pair.b->event(RDMA_CM_EVENT_ESTABLISHED);
	return pair;
}

Pair connect(Host &a, Host &b, const PairConfig &config)
{
	Listener listener(b, config.active.family);

	return connect(a, listener, config);
}

void synchronize(Endpoint &from, Endpoint &to)
{
	constexpr uint64_t mark = 0x5e5e;

	check(to.post_recv(mark), "post_recv");
	check(from.post(send_work(mark, {})), "post_send");
	auto sent = from.wait_send()[0], received = to.wait_recv()[0];
	EXPECT_EQ(sent.status, IBV_WC_SUCCESS) << ibv_wc_status_str(sent.status);
	EXPECT_EQ(received.status, IBV_WC_SUCCESS) << ibv_wc_status_str(received.status);
	EXPECT_EQ(sent.wr_id, mark);
	EXPECT_EQ(received.wr_id, mark);
}
