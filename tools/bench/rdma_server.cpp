// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <algorithm>

#include "rdma.h"

namespace bench {

using verbs::check;

namespace {

class RdmaServer final : public ServerSide {
public:
	RdmaServer(const Config &config, const Address &here);

	uint32_t threads() const override { return rdma_.config.threads; }
	std::string device() const override { return rdma_.device; }
	void cancel() override { rdma_.disconnect(); }
	uint16_t port() const override { return ntohs(rdma_get_src_port(listener_.get())); }
	uint64_t window() const override { return rdma_.queues.receive - 1; }
	void accept(Control &control) override;
	void run(uint32_t thread) override;

private:
	/* Of one connection, used by one thread. */
	struct Flow {
		uint64_t received = 0, credits_sent = 0, pongs = 0;
	};

	void take(rdma_cm_event *event);
	bool received(const ibv_wc &wc);
	void give_credit(Link &link, Flow &flow);
	void pong(Link &link, Flow &flow);
	void write_pong();

	Rdma rdma_;
	verbs::CmId listener_;
	std::vector<Flow> flows_;
	uint32_t taken_ = 0;
};

RdmaServer::RdmaServer(const Config &config, const Address &here) : rdma_(config, true)
{
	rdma_cm_id *id;
	auto at = here;

	/* rdma_cm's choice of a port may be in use by a TCP socket. */
	for (int tries = 0;; tries++) {
		check(rdma_create_id(rdma_.channel.get(), &id, nullptr, RDMA_PS_TCP),
		      "rdma_create_id");
		listener_.reset(id);
		at.set_port(0);
		check(rdma_bind_addr(id, at.get()), "cannot bind an RDMA id to the address the "
						    "client came to");
		if (!id->verbs)
			throw std::runtime_error(
				"no RDMA device has the address the client came to "
				"(see 'rdma link')");
		if (!rdma_listen(id, static_cast<int>(config.qps)))
			break;
		if (errno != EADDRINUSE || tries == 20)
			verbs::fail("rdma_listen");
	}
	flows_.resize(config.qps);
	rdma_.open(id->verbs);
}

void RdmaServer::take(rdma_cm_event *event)
{
	Link fresh;

	fresh.id.reset(event->id);
	auto index = Rdma::learn(fresh, event->param.conn);
	if (index >= rdma_.links.size() || rdma_.links[index].id)
		throw std::runtime_error("two connections by the same number");
	auto &link = rdma_.links[index];
	link = std::move(fresh);
	link.index = index;
	rdma_.make_qp(link);
	rdma_.post_receives(link);

	auto parameters = rdma_.parameters();
	parameters.responder_resources =
		std::min(parameters.responder_resources, event->param.conn.responder_resources);
	parameters.initiator_depth =
		std::min(parameters.initiator_depth, event->param.conn.initiator_depth);
	auto words = rdma_.introduction(index);
	parameters.private_data = &words;
	parameters.private_data_len = sizeof(words);
	check(rdma_accept(link.id.get(), &parameters), "rdma_accept");
}

void RdmaServer::accept(Control &control)
{
	auto *events = rdma_.channel.get();

	for (uint32_t i = 0; i < rdma_.config.qps; i++) {
		auto *event = cm_event(events, RDMA_CM_EVENT_CONNECT_REQUEST, &control);
		try {
			take(event);
		} catch (...) {
			rdma_ack_cm_event(event);
			throw;
		}
		rdma_ack_cm_event(event);
		rdma_ack_cm_event(cm_event(events, RDMA_CM_EVENT_ESTABLISHED, &control));
	}
}

/* A quarter of the window is posted anew. */
void RdmaServer::give_credit(Link &link, Flow &flow)
{
	auto sge = rdma_.sge(rdma_.layout.credit(link.index), 4);
	ibv_send_wr wr{};

	wr.wr_id = make_id(data, link.index, ++flow.credits_sent);
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	rdma_.post(link, &wr);
}

void RdmaServer::pong(Link &link, Flow &flow)
{
	auto &config = rdma_.config;
	auto &layout = rdma_.layout;
	auto sge = rdma_.sge(layout.out(link.index), config.size);
	auto wr = rdma_.write_to(link, layout.in(link.index), &sge);

	wr.wr_id = make_id(data, link.index, flow.pongs);
	if (config.operation == Operation::send)
		wr.opcode = IBV_WR_SEND;
	else if (config.operation == Operation::write_imm)
		wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
	if (config.size <= rdma_.inline_size)
		wr.send_flags |= IBV_SEND_INLINE;
	/* Nothing waits for these but the queue's space. */
	if (++flow.pongs % 8 == 0)
		wr.send_flags |= IBV_SEND_SIGNALED;
	rdma_.post(link, &wr);
}

/* True: this was the connection's last. */
bool RdmaServer::received(const ibv_wc &wc)
{
	auto &config = rdma_.config;
	auto &layout = rdma_.layout;
	auto &link = rdma_.links[link_of(wc.wr_id)];
	auto &flow = flows_[link.index];

	if (wc.opcode != IBV_WC_RECV_RDMA_WITH_IMM && wc.byte_len == fin_size(config))
		return true;
	if (!config.takes_receive())
		throw std::runtime_error("a message that was not to come");
	rdma_.post_receive(link, wc.wr_id,
			   layout.in(link.index, number_of(wc.wr_id) % layout.slots),
			   layout.stride);
	count(1);
	if (config.latency) {
		pong(link, flow);
		return false;
	}
	auto step = window() / credits_per_window;
	if (++flow.received % step == 0)
		give_credit(link, flow);
	return false;
}

/* Writes tell their receiver nothing: it looks. */
void RdmaServer::write_pong()
{
	auto &layout = rdma_.layout;
	auto *in = rdma_.at(layout.in(0) + rdma_.config.size - 1);
	auto *out = rdma_.at(layout.out(0) + rdma_.config.size - 1);
	/* Looking at the queue costs more. */
	constexpr unsigned looks = 256;
	unsigned char seen = 0;

	for (unsigned i = 0;; i++) {
		if (auto now = *in; now != seen) {
			seen = now;
			*out = now;
			count(1);
			pong(rdma_.links[0], flows_[0]);
		} else if (i % looks) {
			continue;
		}
		for (auto &wc : rdma_.completions[0]->take())
			if (purpose_of(wc.wr_id) == receive)
				return;
	}
}

void RdmaServer::run(uint32_t thread)
{
	auto &config = rdma_.config;
	uint32_t open = 0;

	if (config.latency && config.operation == Operation::write) {
		write_pong();
		return;
	}
	for (uint32_t i = thread; i < config.qps; i += config.threads)
		open++;
	while (open)
		for (auto &wc : rdma_.completions[thread]->next())
			if (purpose_of(wc.wr_id) == receive && received(wc))
				open--;
}

} // namespace

std::unique_ptr<ServerSide> rdma_server(const Config &config, const Address &here)
{
	return std::make_unique<RdmaServer>(config, here);
}

} // namespace bench
