// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include <algorithm>
#include <condition_variable>
#include <limits>
#include <stop_token>

#include "rdma.h"

namespace bench {

using verbs::check;

namespace {

/* A connection's progress. */
struct Flow {
	uint64_t target, posted = 0, completed = 0, credits = 0;
	bool fin_posted = false;
};

class RdmaClient final : public Side {
public:
	RdmaClient(const Config &config, const Address &server) : rdma_(config, false)
	{
		for (uint32_t i = 0; i < config.qps; i++)
			connect(rdma_.links[i], i, server);
		flows_.resize(config.qps);
		for (uint32_t i = 0; i < config.qps; i++) {
			flows_[i].target = config.messages ? config.share(i)
							   : std::numeric_limits<uint64_t>::max();
			flows_[i].credits = flows_[i].target;
		}
	}

	uint32_t threads() const override { return rdma_.config.threads; }
	std::string device() const override { return rdma_.device; }
	void cancel() override
	{
		stop_.request_stop();
		rdma_.disconnect();
	}

	void run(uint32_t thread) override
	{
		auto &config = rdma_.config;

		if (config.operation == Operation::idle) {
			if (!sleep())
				return;
			for (uint32_t i = thread; i < config.qps; i += config.threads)
				flows_[i].target = 0;
		}
		ZIW_BENCH_MARK(0x01);
		if (config.latency)
			ping_pong();
		stream(thread);
		ZIW_BENCH_MARK(0x02);
	}

	/* Receives that the server has posted for data: it says so. */
	void set_window(uint64_t window)
	{
		if (!rdma_.config.takes_receive() || rdma_.config.latency)
			return;
		window_ = window;
		for (auto &flow : flows_)
			flow.credits = window;
	}

private:
	bool sleep();
	void connect(Link &link, uint32_t index, const Address &server);
	void stream(uint32_t thread);
	void fill(Link &link, Flow &flow);
	void finish(Link &link, Flow &flow);
	void completed(const ibv_wc &wc);
	ibv_send_wr work(Link &link, uint64_t number, ibv_sge *sge) const;
	void ping_pong();
	void one_trip(Link &link, uint64_t number);

	Rdma rdma_;
	std::vector<Flow> flows_;
	uint64_t window_ = 0;
	std::stop_source stop_;
};

/* For the time of the measurement. False: cancel() has ended it. */
bool RdmaClient::sleep()
{
	std::mutex mutex;
	std::condition_variable_any over;
	std::unique_lock lock(mutex);
	auto stop = stop_.get_token();

	over.wait_for(lock, stop, verbs::milliseconds(rdma_.config.milliseconds),
		      [] { return false; });
	return !stop.stop_requested();
}

void RdmaClient::connect(Link &link, uint32_t index, const Address &server)
{
	rdma_cm_id *id;
	auto to = server;
	auto *events = rdma_.channel.get();
	constexpr int milliseconds = patience.count();
	auto await = [&](rdma_cm_event_type type) {
		check(rdma_ack_cm_event(cm_event(events, type, nullptr)), "rdma_ack_cm_event");
	};

	check(rdma_create_id(events, &id, nullptr, RDMA_PS_TCP), "rdma_create_id");
	link.id.reset(id);
	link.index = index;
	check(rdma_resolve_addr(id, nullptr, to.get(), milliseconds),
	      "cannot resolve the server's address (is there an RDMA device on the interface that "
	      "leads there? See 'rdma link')");
	await(RDMA_CM_EVENT_ADDR_RESOLVED);
	check(rdma_resolve_route(id, milliseconds), "rdma_resolve_route");
	await(RDMA_CM_EVENT_ROUTE_RESOLVED);
	rdma_.open(id->verbs);
	rdma_.make_qp(link);
	rdma_.post_receives(link);

	auto parameters = rdma_.parameters();
	auto words = rdma_.introduction(index);
	parameters.private_data = &words;
	parameters.private_data_len = sizeof(words);
	check(rdma_connect(id, &parameters), "rdma_connect");
	auto *event = cm_event(events, RDMA_CM_EVENT_ESTABLISHED, nullptr);
	try {
		Rdma::learn(link, event->param.conn);
	} catch (...) {
		rdma_ack_cm_event(event);
		throw;
	}
	rdma_ack_cm_event(event);
}

/* The number-th message of this connection. */
ibv_send_wr RdmaClient::work(Link &link, uint64_t number, ibv_sge *sge) const
{
	auto &config = rdma_.config;
	auto &layout = rdma_.layout;
	auto slot = number % layout.slots;
	bool inwards = config.is_request();

	*sge = rdma_.sge(inwards ? layout.in(link.index, slot) : layout.out(link.index, slot),
			 config.size);
	auto wr = rdma_.write_to(
		link, inwards ? layout.out(link.index, slot) : layout.in(link.index, slot), sge);
	wr.wr_id = make_id(data, link.index, number + 1);
	if ((number + 1) % config.signal == 0)
		wr.send_flags |= IBV_SEND_SIGNALED;
	if (!inwards && config.size <= rdma_.inline_size)
		wr.send_flags |= IBV_SEND_INLINE;
	switch (config.operation) {
	case Operation::read:
		wr.opcode = IBV_WR_RDMA_READ;
		break;
	case Operation::send:
		wr.opcode = IBV_WR_SEND;
		break;
	case Operation::write_imm:
		wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		wr.imm_data = static_cast<uint32_t>(number);
		break;
	case Operation::fetch_add:
	case Operation::cmp_swap:
		wr.opcode = config.operation == Operation::fetch_add ? IBV_WR_ATOMIC_FETCH_AND_ADD
								     : IBV_WR_ATOMIC_CMP_AND_SWP;
		wr.wr.atomic = {link.remote + layout.out(link.index), 1, 2, link.rkey};
		break;
	default:
		break;
	}
	return wr;
}

void RdmaClient::fill(Link &link, Flow &flow)
{
	auto &config = rdma_.config;
	constexpr uint64_t most = 32;
	ibv_send_wr wrs[most];
	ibv_sge sges[most];

	for (;;) {
		auto n = std::min({config.list + 0UL, most, flow.target - flow.posted,
				   config.depth - (flow.posted - flow.completed), flow.credits});
		if (!n)
			return;
		for (uint64_t i = 0; i < n; i++) {
			wrs[i] = work(link, flow.posted + i, &sges[i]);
			wrs[i].next = i + 1 < n ? &wrs[i + 1] : nullptr;
		}
		flow.posted += n;
		if (window_)
			flow.credits -= n;
		rdma_.post(link, wrs);
	}
}

/* Tell the server that there will be no more. Its completion is that of all before it. */
void RdmaClient::finish(Link &link, Flow &flow)
{
	auto sge = rdma_.sge(rdma_.layout.out(link.index), fin_size(rdma_.config));
	ibv_send_wr wr{};

	wr.wr_id = make_id(fin, link.index, 0);
	wr.opcode = IBV_WR_SEND;
	wr.send_flags = IBV_SEND_SIGNALED;
	wr.sg_list = &sge;
	wr.num_sge = 1;
	flow.fin_posted = true;
	rdma_.post(link, &wr);
}

void RdmaClient::completed(const ibv_wc &wc)
{
	auto &link = rdma_.links[link_of(wc.wr_id)];
	auto &flow = flows_[link.index];

	switch (purpose_of(wc.wr_id)) {
	case data:
		count(number_of(wc.wr_id) - flow.completed);
		flow.completed = number_of(wc.wr_id);
		break;
	case fin:
		count(flow.posted - flow.completed);
		flow.completed = flow.posted;
		break;
	case credit:
		flow.credits += window_ / credits_per_window;
		rdma_.post_receive(link, wc.wr_id, rdma_.layout.credit(link.index),
				   Layout::stride_of_credit);
		break;
	case receive:
		break;
	}
}

void RdmaClient::stream(uint32_t thread)
{
	auto &config = rdma_.config;
	auto &completions = *rdma_.completions[thread];
	Deadline deadline(config);
	uint32_t open = 0;
	bool over = false;
	auto advance = [&](uint32_t i) {
		auto &flow = flows_[i];
		if (over)
			flow.target = std::min(flow.target, flow.posted);
		fill(rdma_.links[i], flow);
		if (flow.posted == flow.target && !flow.fin_posted)
			finish(rdma_.links[i], flow);
	};

	for (uint32_t i = thread; i < config.qps; i += config.threads) {
		open++;
		advance(i);
	}
	while (open) {
		auto some = completions.next();
		if (!over && deadline.over()) {
			over = true;
			for (uint32_t i = thread; i < config.qps; i += config.threads)
				advance(i);
		}
		for (auto &wc : some) {
			completed(wc);
			if (purpose_of(wc.wr_id) == fin)
				open--;
		}
		/* After all of them, so that there is more than one to post at once. */
		for (std::size_t i = 0; i < some.size(); i++) {
			auto link = link_of(some[i].wr_id);
			if (i + 1 == some.size() || link_of(some[i + 1].wr_id) != link)
				advance(link);
		}
	}
}

void RdmaClient::one_trip(Link &link, uint64_t number)
{
	auto &config = rdma_.config;
	auto &layout = rdma_.layout;
	ibv_sge sge;
	auto wr = work(link, number, &sge);
	bool sent = false, back = config.is_request();
	auto *last_in = rdma_.at(layout.in(link.index) + config.size - 1);
	auto mark = static_cast<unsigned char>(number % 255 + 1);

	wr.send_flags |= IBV_SEND_SIGNALED;
	if (config.operation == Operation::write)
		*rdma_.at(layout.out(link.index) + config.size - 1) = mark;
	rdma_.post(link, &wr);
	while (!sent || !back) {
		if (config.operation == Operation::write && *last_in == mark)
			back = true;
		auto some = config.operation == Operation::write ? rdma_.completions[0]->take()
								 : rdma_.completions[0]->next();
		for (auto &wc : some) {
			if (purpose_of(wc.wr_id) == data) {
				sent = true;
				continue;
			}
			back = true;
			rdma_.post_receive(link, wc.wr_id, layout.in(link.index), layout.stride);
		}
	}
}

void RdmaClient::ping_pong()
{
	auto &config = rdma_.config;
	auto &flow = flows_[0];
	auto most = config.messages ? config.messages : std::numeric_limits<uint64_t>::max();

	time_trips(config, most, [&](uint64_t i) { one_trip(rdma_.links[0], i); });
	flow.target = 0;
}

} // namespace

std::unique_ptr<Side> rdma_client(const Config &config, const Address &server, uint64_t window)
{
	auto client = std::make_unique<RdmaClient>(config, server);

	client->set_window(window);
	return client;
}

} // namespace bench
