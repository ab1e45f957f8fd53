/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* An end of a connection: cm id, QP, CQs; and how two of them are connected. */
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "host.h"
#include "memory.h"

/* A cm event, copied and acknowledged. */
struct CmEvent {
	rdma_cm_event_type type;
	int status;
	/* Of a CONNECT_REQUEST: the new id. */
	verbs::CmId request;
	std::vector<uint8_t> private_data;
	uint8_t responder_resources, initiator_depth;

	std::string text() const;
};

std::optional<CmEvent> next_event(rdma_event_channel *channel, verbs::milliseconds timeout);
/* Throws if another event, or none, comes. */
CmEvent expect_event(rdma_event_channel *channel, rdma_cm_event_type type,
		     verbs::milliseconds timeout = soon);

/* A send-side work request with its own scatter/gather list. */
struct Work {
	ibv_send_wr wr{};
	std::vector<ibv_sge> sges;

	Work &flags(unsigned add)
	{
		wr.send_flags |= add;
		return *this;
	}
	Work &unsignaled()
	{
		wr.send_flags &= ~static_cast<unsigned>(IBV_SEND_SIGNALED);
		return *this;
	}
};

Work send_work(uint64_t id, std::vector<ibv_sge> sges);
Work send_invalidate_work(uint64_t id, std::vector<ibv_sge> sges, uint32_t stag);
Work write_work(uint64_t id, std::vector<ibv_sge> sges, uint64_t address, uint32_t rkey);
Work read_work(uint64_t id, std::vector<ibv_sge> sges, uint64_t address, uint32_t rkey);

struct QpConfig {
	uint32_t send_wr = 64, recv_wr = 64;
	/* 0: as many as the device has. */
	uint32_t send_sge = 0, recv_sge = 0;
	uint32_t max_inline = 0;
	bool signal_all = false;
	ibv_srq *srq = nullptr;
	/* The host's own unless given. */
	ibv_pd *pd = nullptr;
	/* Of its own unless given, and then for both queues. */
	ibv_cq *cq = nullptr;
	int cq_entries = 256;
	/* enum ibv_qp_create_send_ops_flags: a QP for ibv_wr_*(). */
	uint64_t send_ops = 0;
};

class Endpoint {
public:
	/* id must be bound to host's device already. */
	Endpoint(Host &host, verbs::CmChannel channel, verbs::CmId id, const QpConfig &config = {});
	~Endpoint();
	Endpoint(const Endpoint &) = delete;
	Endpoint &operator=(const Endpoint &) = delete;

	Host &host() { return host_; }
	rdma_cm_id *id() { return id_.get(); }
	rdma_event_channel *channel() { return channel_.get(); }
	ibv_qp *qp() { return id_->qp; }
	ibv_qp_ex *qp_ex() { return ibv_qp_to_qp_ex(qp()); }
	ibv_cq *send_cq() { return qp()->send_cq; }
	ibv_cq *recv_cq() { return qp()->recv_cq; }
	ibv_comp_channel *send_channel() { return send_channel_.get(); }
	ibv_comp_channel *recv_channel() { return recv_channel_.get(); }
	uint32_t max_inline() const { return max_inline_; }

	/* Each returns the error number of the post, 0 for success. */
	int post(Work work);
	int post(std::vector<Work> works, std::size_t *bad = nullptr);
	int post_recv(uint64_t id, std::vector<ibv_sge> sges = {});

	/* Exactly count completions, in order; throws if they do not come. */
	std::vector<ibv_wc> wait_send(std::size_t count = 1, verbs::milliseconds timeout = soon);
	std::vector<ibv_wc> wait_recv(std::size_t count = 1, verbs::milliseconds timeout = soon);

	ibv_qp_state state();
	ibv_qp_attr query(int mask, ibv_qp_init_attr *init = nullptr);
	/* Whether the QP got into this state in time. */
	bool reaches(ibv_qp_state wanted, verbs::milliseconds timeout = soon);
	std::optional<AsyncEvent> async_event(verbs::milliseconds timeout = soon)
	{
		return host_.async_event(qp(), timeout);
	}
	CmEvent event(rdma_cm_event_type type, verbs::milliseconds timeout = soon)
	{
		return expect_event(channel_.get(), type, timeout);
	}

private:
	Host &host_;
	/* Destroyed from the last to the first. */
	verbs::CmChannel channel_;
	verbs::CmId id_;
	verbs::CompChannel send_channel_, recv_channel_;
	verbs::Cq send_cq_, recv_cq_;
	verbs::CmQp qp_;
	uint32_t max_inline_ = 0;
};

std::vector<ibv_wc> wait_cq(ibv_cq *cq, std::size_t count, verbs::milliseconds timeout = soon);

struct ConnectParameters {
	Family family = Family::ipv4;
	std::vector<uint8_t> private_data;
	uint8_t responder_resources = 16, initiator_depth = 16;

	rdma_conn_param get() const;
};

class Listener {
public:
	Listener(Host &host, Family family = Family::ipv4, int backlog = 64, bool wildcard = false);

	/* Where to connect to. */
	Address address() const { return address_; }
	rdma_event_channel *channel() { return channel_.get(); }
	CmEvent request(verbs::milliseconds timeout = soon)
	{
		return expect_event(channel_.get(), RDMA_CM_EVENT_CONNECT_REQUEST, timeout);
	}
	/* The end for a request: QP made, not yet accepted. */
	std::unique_ptr<Endpoint> endpoint(CmEvent request, const QpConfig &config = {});
	Host &host() { return host_; }

private:
	Host &host_;
	verbs::CmChannel channel_;
	verbs::CmId id_;
	Address address_;
};

/* An end of `host`, resolved to `peer`: QP made, not yet connecting. */
std::unique_ptr<Endpoint> resolve(Host &host, Address peer, const QpConfig &config = {});
void start_connect(Endpoint &end, const ConnectParameters &parameters = {});
void accept(Endpoint &end, const ConnectParameters &parameters = {});

struct Pair {
	std::unique_ptr<Endpoint> a, b;
};

struct PairConfig {
	QpConfig a, b;
	ConnectParameters active, passive;
};

/* a connects to b. */
Pair connect(Host &a, Host &b, const PairConfig &config = {});
Pair connect(Host &a, Listener &listener, const PairConfig &config = {});

/* What `from` sent before this has been placed at `to` after it; needs a free receive there. */
void synchronize(Endpoint &from, Endpoint &to);
