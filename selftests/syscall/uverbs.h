/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * The uapi of the RDMA core, and ziw's part of it, as raw structures on the command file: what
 * libibverbs would never send can be sent too.
 */
#pragma once

#include <rdma/ib_user_ioctl_cmds.h>
#include <rdma/ib_user_ioctl_verbs.h>
#include <rdma/ib_user_verbs.h>
#include <rdma/rdma_user_ioctl_cmds.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "random.h"
#include "verbs/verbs.h"
#include "ziw-abi.h"

/* What the core's structures end in: an array of their own, where the rest belongs. */
template <class Core, class Rest> struct With {
	Core *core() { return reinterpret_cast<Core *>(bytes); }
	Rest *rest() { return reinterpret_cast<Rest *>(bytes + sizeof(Core)); }

	alignas(8) unsigned char bytes[sizeof(Core) + sizeof(Rest)] = {};
};

/* Bytes that a command may return: more than any number of words in a header can say. */
inline constexpr std::size_t response_room = 2 << 20;

/* Mutates one command in so many of a thousand; without it commands go as they are. */
struct Mutation {
	Random *random = nullptr;
	unsigned permille = 0;
};

struct IoctlAttr {
	uint16_t id, length;
	uint64_t data;
	bool optional = false;
};

/* An open command file. Every call returns 0 or an errno value. */
class Uverbs {
public:
	/* Throws if there is no such device. */
	explicit Uverbs(const std::string &device);
	int fd() const { return fd_.get(); }

	/* in begins with the pointer to the response, if the command has one: it is filled here. */
	int command(unsigned number, void *in, std::size_t in_size, void *out, std::size_t out_size,
		    Mutation mutation = {});
	int extended(unsigned number, const void *in, std::size_t in_size, std::size_t driver_in,
		     void *out, std::size_t core_out, std::size_t driver_out,
		     Mutation mutation = {});
	/* Handles and numbers that the kernel returns are in attrs afterwards. */
	int ioctl(unsigned object, unsigned method, std::vector<IoctlAttr> &attrs,
		  Mutation mutation = {});

	int get_context(Mutation mutation = {});

	/* Where the driver's completions and events appear; closed with the object. */
	verbs::Fd async;
	/* For ZIW_IOC_DOORBELL. */
	verbs::Fd doorbell;

private:
	verbs::Fd fd_;
};

/* A ring of ziw-abi.h, mapped. */
class Ring {
public:
	Ring(const Uverbs &device, const ziw_ring_info &info);
	~Ring();
	Ring(const Ring &) = delete;
	Ring &operator=(const Ring &) = delete;

	explicit operator bool() const { return base_; }
	ziw_ring_hdr *header() const
	{
		return reinterpret_cast<ziw_ring_hdr *>(static_cast<char *>(base_) +
							info_.hdr_offset);
	}
	unsigned char *slot(uint32_t index) const
	{
		return static_cast<unsigned char *>(base_) + info_.slots_offset +
		       static_cast<std::size_t>(index & (info_.entries - 1)) * info_.stride;
	}
	void *base() const { return base_; }
	std::size_t size() const { return info_.mmap_size; }
	const ziw_ring_info &info() const { return info_; }

	/* It is unmapped, or will be by others. */
	void forget() { base_ = nullptr; }

	/* The producer's side: a free slot, or nullptr. */
	unsigned char *room();
	void publish();
	bool needs_doorbell() const;
	/* The consumer's side: the oldest CQE, copied. */
	std::optional<ziw_cqe> take();

private:
	ziw_ring_info info_;
	void *base_ = nullptr;
	uint32_t index_ = 0;
};

struct MadeCq {
	uint32_t handle;
	ziw_ring_info ring;
};

struct MadeSrq {
	uint32_t handle;
	ziw_ring_info ring;
};

struct MadeQp {
	uint32_t handle, qpn;
	ziw_ring_info sq, rq;
};

struct MadeMr {
	uint32_t handle, lkey, rkey;
};

struct QpOrder {
	uint32_t pd, send_cq, recv_cq, srq;
	bool has_srq;
	uint32_t send_wr, recv_wr, send_sge, recv_sge, inline_bytes;
	uint8_t type, sig_all;
	uint64_t handle;
};

/* Number of the QP made last, by whichever thread. */
uint32_t latest_qp_number();

int make_pd(Uverbs &device, uint32_t *pd, Mutation mutation = {});
int make_cq(Uverbs &device, uint32_t entries, int channel, MadeCq *cq, Mutation mutation = {});
int make_srq(Uverbs &device, uint32_t pd, uint32_t entries, uint32_t sge, uint32_t limit,
	     MadeSrq *srq, Mutation mutation = {});
int make_qp(Uverbs &device, const QpOrder &order, MadeQp *qp, Mutation mutation = {});
int make_mr(Uverbs &device, uint32_t pd, const void *start, uint64_t length, uint64_t address,
	    uint32_t access, MadeMr *mr, Mutation mutation = {});
int destroy_pd(Uverbs &device, uint32_t pd, Mutation mutation = {});
int destroy_cq(Uverbs &device, uint32_t cq, Mutation mutation = {});
int destroy_srq(Uverbs &device, uint32_t srq, Mutation mutation = {});
int destroy_qp(Uverbs &device, uint32_t qp, Mutation mutation = {});
int dereg_mr(Uverbs &device, uint32_t mr, Mutation mutation = {});
int set_qp_state(Uverbs &device, uint32_t qp, uint8_t state, Mutation mutation = {});
/* The state, or -1. */
int query_qp_state(Uverbs &device, uint32_t qp, Mutation mutation = {});
int doorbell_send(Uverbs &device, uint32_t qp, Mutation mutation = {});
int doorbell_recv(Uverbs &device, uint32_t qp, Mutation mutation = {});

void mutate(Random &random, unsigned char *bytes, std::size_t size);
