/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What both ends of RDMA connections have in common. */
#pragma once

#include <mutex>
#include <span>

#include "side.h"

namespace bench {

/* Of one connection, the same at both ends: where what is. */
struct Layout {
	explicit Layout(const Config &config);

	uint64_t stride, slots;
	/* Bytes from the memory's beginning. */
	uint64_t out(uint32_t link, uint64_t slot = 0) const
	{
		return link * each() + slot * stride;
	}
	uint64_t in(uint32_t link, uint64_t slot = 0) const
	{
		return out(link, slots) + slot * stride;
	}
	uint64_t credit(uint32_t link) const { return out(link, 2 * slots); }
	uint64_t each() const { return 2 * slots * stride + stride_of_credit; }

	static constexpr uint64_t stride_of_credit = 64;
};

/* Sent with the connection's setup: how the memory is reached. In network order. */
struct Introduction {
	uint32_t magic, index;
	uint64_t address;
	uint32_t rkey, reserved;
};

constexpr uint32_t introduction_magic = 0x7a697762;
/* So that the server gets completions to post receives anew before the client has none left. */
constexpr uint32_t credits_per_window = 4;

/* The completion queue of one thread. */
class Completions {
public:
	Completions(ibv_context *context, uint32_t entries, const Config &config);
	~Completions();
	ibv_cq *cq() { return cq_.get(); }
	/* At least one; throws if one of them failed. */
	std::span<ibv_wc> next();
	/* What is there, perhaps nothing. */
	std::span<ibv_wc> take();

private:
	verbs::CompChannel channel_;
	verbs::Cq cq_;
	bool poll_, armed_ = false;
	unsigned events_ = 0;
	ibv_wc wcs_[32];
};

struct Link {
	verbs::CmId id;
	verbs::CmQp qp;
	uint32_t index = 0, rkey = 0;
	/* Where the other end's memory begins. */
	uint64_t remote = 0;
};

/* Queue sizes per connection. */
struct Queues {
	uint32_t send, receive;
};

class Rdma {
public:
	Rdma(const Config &config, bool server);
	Rdma(const Rdma &) = delete;
	Rdma &operator=(const Rdma &) = delete;
	~Rdma();

	/* With the first connection's device. */
	void open(ibv_context *context);
	void make_qp(Link &link);
	void post_receives(Link &link);
	rdma_conn_param parameters();
	Introduction introduction(uint32_t index) const;
	static uint32_t learn(Link &link, const rdma_conn_param &from);
	void disconnect();

	ibv_sge sge(uint64_t offset, uint64_t size) const;
	ibv_send_wr write_to(const Link &link, uint64_t offset, ibv_sge *from) const;
	void post(Link &link, ibv_send_wr *wr) const;
	void post_receive(Link &link, uint64_t id, uint64_t offset, uint64_t size) const;
	volatile unsigned char *at(uint64_t offset) const { return memory_.data() + offset; }

	Config config;
	Layout layout;
	bool server;
	Queues queues{};
	uint32_t inline_size = 0;
	/* Outlives the links. */
	verbs::CmChannel channel;
	std::string device;
	std::vector<std::unique_ptr<Completions>> completions;
	std::vector<Link> links;

private:
	ibv_device_attr attr_{};
	verbs::Pages memory_;
	verbs::Pd pd_;
	verbs::Mr mr_;
	std::mutex disconnect_;
	bool disconnected_ = false;
};

/* An event of this type; throws what to do about another one. */
rdma_cm_event *cm_event(rdma_event_channel *channel, rdma_cm_event_type type, Control *control);

/* Of what a receive is told: the last message, which carries nothing. */
inline uint64_t fin_size(const Config &config)
{
	return config.size == 1 ? 2 : 1;
}

/* wr_id: what it was for, the connection, and how many before it. */
enum Purpose : uint64_t { data = 0, fin = 1, receive = 2, credit = 3 };
inline uint64_t make_id(Purpose purpose, uint32_t link, uint64_t number)
{
	return static_cast<uint64_t>(purpose) << 62 | static_cast<uint64_t>(link) << 46 |
	       (number & ((1ULL << 46) - 1));
}
inline Purpose purpose_of(uint64_t id)
{
	return static_cast<Purpose>(id >> 62);
}
inline uint32_t link_of(uint64_t id)
{
	return id >> 46 & 0xffff;
}
inline uint64_t number_of(uint64_t id)
{
	return id & ((1ULL << 46) - 1);
}

} // namespace bench
