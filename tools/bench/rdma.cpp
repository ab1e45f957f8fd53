// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "rdma.h"

#include <arpa/inet.h>
#include <endian.h>

#include <algorithm>

namespace bench {

using verbs::check;
using verbs::fail;

/* Of each of the two areas of a connection, and of those of all connections. */
constexpr uint64_t most_per_link = 4 << 20, most_together = 64 << 20;

Layout::Layout(const Config &config) : stride((std::max<uint64_t>(config.size, 2) + 63) / 64 * 64)
{
	auto room = std::min(most_per_link, most_together / config.qps);

	slots = std::clamp<uint64_t>(room / stride, 1, config.depth);
	if (config.operation == Operation::idle)
		slots = 1;
}

Completions::Completions(ibv_context *context, uint32_t entries, const Config &config)
	: poll_(config.poll)
{
	if (!poll_)
		channel_.reset(check(ibv_create_comp_channel(context), "ibv_create_comp_channel"));
	cq_.reset(
		check(ibv_create_cq(context, static_cast<int>(entries), nullptr, channel_.get(), 0),
		      "ibv_create_cq with " + std::to_string(entries) + " entries"));
}

Completions::~Completions()
{
	if (events_)
		ibv_ack_cq_events(cq_.get(), events_);
}

std::span<ibv_wc> Completions::take()
{
	int n = ibv_poll_cq(cq_.get(), std::size(wcs_), wcs_);

	if (n < 0)
		fail("ibv_poll_cq", -n);
	for (int i = 0; i < n; i++)
		if (wcs_[i].status != IBV_WC_SUCCESS)
			throw std::runtime_error(std::string("a work request failed: ") +
						 ibv_wc_status_str(wcs_[i].status) +
						 " (vendor error " +
						 std::to_string(wcs_[i].vendor_err) + ")");
	return {wcs_, static_cast<std::size_t>(n)};
}

std::span<ibv_wc> Completions::next()
{
	for (;;) {
		auto some = take();
		if (!some.empty() || poll_) {
			if (!some.empty())
				return some;
			continue;
		}
		if (!armed_) {
			check(ibv_req_notify_cq(cq_.get(), 0), "ibv_req_notify_cq");
			armed_ = true;
			continue;
		}
		ibv_cq *cq;
		void *unused;
		if (ibv_get_cq_event(channel_.get(), &cq, &unused)) {
			if (errno == EINTR)
				continue;
			fail("ibv_get_cq_event");
		}
		events_++;
		armed_ = false;
	}
}

static const char *advice(rdma_cm_event_type type)
{
	switch (type) {
	case RDMA_CM_EVENT_ADDR_ERROR:
		return ": is there an RDMA device on the interface that leads there? See 'rdma "
		       "link'";
	case RDMA_CM_EVENT_REJECTED:
		return ": the server did not listen, or refused";
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
		return ": are the devices of both ends of one kind, and no firewall between?";
	default:
		return "";
	}
}

rdma_cm_event *cm_event(rdma_event_channel *channel, rdma_cm_event_type type, Control *control)
{
	auto deadline = verbs::Clock::now() + patience;
	rdma_cm_event *event;

	while (!verbs::readable(channel->fd, glance)) {
		if (control && control->gone())
			throw std::runtime_error("the client ended the connection");
		if (verbs::Clock::now() >= deadline)
			throw verbs::Timeout(rdma_event_str(type));
	}
	check(rdma_get_cm_event(channel, &event), "rdma_get_cm_event");
	if (event->event != type) {
		auto got = event->event;
		auto status = event->status;
		rdma_ack_cm_event(event);
		throw std::runtime_error(
			std::string(rdma_event_str(got)) + " (" +
			(status < 0 ? std::strerror(-status) : std::to_string(status)) + ")" +
			advice(got));
	}
	return event;
}

Rdma::Rdma(const Config &c, bool s) : config(c), layout(c), server(s)
{
	channel.reset(check(rdma_create_event_channel(),
			    "rdma_create_event_channel (is the module rdma_ucm loaded?)"));
	links.resize(config.qps);
}

Rdma::~Rdma()
{
	disconnect();
	/* Events of ids keep these from being destroyed until acknowledged; none is unacknowledged.
	 */
	links.clear();
}

void Rdma::disconnect()
{
	std::lock_guard lock(disconnect_);

	if (std::exchange(disconnected_, true))
		return;
	for (auto &link : links)
		if (link.qp)
			rdma_disconnect(link.id.get());
}

/* Receives of the server for data; sends of the client; and what both need besides. */
static Queues needed(const Config &config, bool server, uint32_t most)
{
	if (server) {
		uint32_t window = 1;
		if (config.takes_receive() && !config.latency)
			window = std::min(std::max(4 * config.depth, 64U),
					  (most - 1) & ~(credits_per_window - 1));
		else if (config.takes_receive())
			window = 2;
		return {16, window + 1};
	}
	return {config.depth + 1, 2 * credits_per_window};
}

void Rdma::open(ibv_context *context)
{
	if (pd_) {
		if (context != pd_->context)
			throw std::runtime_error("the connections lead to different devices");
		return;
	}
	check(ibv_query_device(context, &attr_), "ibv_query_device");
	device = ibv_get_device_name(context->device);
	if (config.is_atomic() && attr_.atomic_cap == IBV_ATOMIC_NONE)
		throw std::runtime_error(device + " has no atomic operations");
	auto most = static_cast<uint32_t>(attr_.max_qp_wr);
	queues = needed(config, server, most);
	if (queues.send > most)
		throw std::runtime_error(device + " takes at most " + std::to_string(most) +
					 " work requests: lower --depth to " +
					 std::to_string(most - 1));
	auto per_thread = (config.qps + config.threads - 1) / config.threads;
	uint64_t entries = static_cast<uint64_t>(per_thread) * (queues.send + queues.receive);
	if (entries > static_cast<uint64_t>(attr_.max_cqe))
		throw std::runtime_error(device + " has completion queues of at most " +
					 std::to_string(attr_.max_cqe) +
					 " entries: lower --depth or --qps, or raise --threads");

	pd_.reset(check(ibv_alloc_pd(context), "ibv_alloc_pd"));
	memory_ = pages_for(config, layout.each() * config.qps);
	constexpr int all =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	mr_.reset(ibv_reg_mr(pd_.get(), memory_.data(), memory_.size(),
			     all | (config.is_atomic() ? IBV_ACCESS_REMOTE_ATOMIC : 0)));
	if (!mr_)
		fail("cannot register " + std::to_string(memory_.size() >> 20) +
		     " MiB of memory (see 'ulimit -l')");
	for (uint32_t i = 0; i < config.threads; i++)
		completions.push_back(std::make_unique<Completions>(
			context, static_cast<uint32_t>(entries), config));
}

void Rdma::make_qp(Link &link)
{
	auto *cq = completions[link.index % config.threads]->cq();
	ibv_qp_init_attr init{};

	init.qp_type = IBV_QPT_RC;
	init.send_cq = init.recv_cq = cq;
	init.cap = {queues.send, queues.receive, 1, 1, config.inline_size};
	if (rdma_create_qp(link.id.get(), pd_.get(), &init))
		fail("cannot make a queue pair with " + std::to_string(queues.send) + " sends, " +
		     std::to_string(queues.receive) + " receives and " +
		     std::to_string(config.inline_size) + " bytes inline");
	link.qp.reset(link.id.get());
	inline_size = config.inline_size;
}

void Rdma::post_receives(Link &link)
{
	bool small = !server && !config.latency;

	for (uint32_t i = 0; i < queues.receive; i++) {
		if (small)
			post_receive(link, make_id(credit, link.index, i),
				     layout.credit(link.index), Layout::stride_of_credit);
		else
			post_receive(link, make_id(receive, link.index, i),
				     layout.in(link.index, i % layout.slots), layout.stride);
	}
}

rdma_conn_param Rdma::parameters()
{
	rdma_conn_param p{};

	p.responder_resources = static_cast<uint8_t>(std::min(attr_.max_qp_rd_atom, 128));
	p.initiator_depth = static_cast<uint8_t>(std::min(attr_.max_qp_init_rd_atom, 128));
	p.retry_count = p.rnr_retry_count = 7;
	return p;
}

Introduction Rdma::introduction(uint32_t index) const
{
	return {htonl(introduction_magic), htonl(index),
		htobe64(reinterpret_cast<uintptr_t>(memory_.data())), htonl(mr_->rkey), 0};
}

uint32_t Rdma::learn(Link &link, const rdma_conn_param &from)
{
	Introduction words;

	if (!from.private_data || from.private_data_len < sizeof(words))
		throw std::runtime_error("the other side is no ziw-bench");
	std::memcpy(&words, from.private_data, sizeof(words));
	if (ntohl(words.magic) != introduction_magic)
		throw std::runtime_error("the other side is no ziw-bench");
	link.remote = be64toh(words.address);
	link.rkey = ntohl(words.rkey);
	return ntohl(words.index);
}

ibv_sge Rdma::sge(uint64_t offset, uint64_t size) const
{
	return {reinterpret_cast<uintptr_t>(memory_.data()) + offset, static_cast<uint32_t>(size),
		mr_->lkey};
}

ibv_send_wr Rdma::write_to(const Link &link, uint64_t offset, ibv_sge *from) const
{
	ibv_send_wr wr{};

	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.sg_list = from;
	wr.num_sge = 1;
	wr.wr.rdma.remote_addr = link.remote + offset;
	wr.wr.rdma.rkey = link.rkey;
	return wr;
}

void Rdma::post(Link &link, ibv_send_wr *wr) const
{
	ibv_send_wr *bad;

	if (int rc = ibv_post_send(link.id->qp, wr, &bad))
		fail(device + " does not take a " + name(config.operation), rc);
}

void Rdma::post_receive(Link &link, uint64_t id, uint64_t offset, uint64_t size) const
{
	auto to = sge(offset, size);
	ibv_recv_wr wr{}, *bad;

	wr.wr_id = id;
	wr.sg_list = &to;
	wr.num_sge = 1;
	check(ibv_post_recv(link.id->qp, &wr, &bad), "ibv_post_recv");
}

} // namespace bench
