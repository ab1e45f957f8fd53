/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * Two connected queue pairs with real traffic, made of raw commands only, and the hostile hand in
 * their rings.
 */
#pragma once

#include <mutex>

#include "counts.h"
#include "ucma.h"
#include "uverbs.h"

enum class RingKind { sq, rq, cq };

/* A ring that is alive, for whoever wants to scribble in it. */
struct Target {
	std::shared_ptr<Uverbs> device;
	std::shared_ptr<Ring> ring;
	RingKind kind;
	uint32_t qp;
	/* A key that is good, now and then. */
	uint32_t key;
	uint64_t address;
};

class Targets {
public:
	void add(const Target &target);
	void remove(const Ring *ring);
	std::optional<Target> pick(Random &random);

private:
	std::mutex mutex_;
	std::vector<Target> list_;
};

/* Change a few words of the ring behind the kernel's back, and ring the doorbell now and then. */
void scribble(Random &random, const Target &target);

struct End {
	End(std::shared_ptr<Uverbs> device, Targets &targets)
		: device_(std::move(device)), targets_(targets)
	{
	}
	~End() { destroy(nullptr); }
	End(const End &) = delete;
	End &operator=(const End &) = delete;

	/* False if the kernel refused any of it; throws if the device is gone. */
	bool make(Random &random);
	/* In the usual order, or in a random one, which the kernel may refuse at first. */
	void destroy(Random *random);

	bool post_recv(Random &random);
	/* A hostile one has a few fields that are wrong. */
	bool post(Random &random, const End &to, bool hostile);
	bool post(const ziw_sq_wqe &header, const ziw_sge *sges);
	/* Completions taken; the worst status of them. */
	unsigned poll(uint8_t *status);
	std::optional<ziw_cqe> wait(verbs::milliseconds timeout);
	void ring_doorbell();

	static constexpr std::size_t memory_size = 256 << 10;

	std::shared_ptr<Uverbs> device_;
	Targets &targets_;
	std::optional<uint32_t> pd;
	std::optional<MadeMr> mr;
	std::optional<MadeCq> cq;
	std::optional<MadeSrq> srq;
	std::optional<MadeQp> qp;
	std::shared_ptr<Ring> cq_ring, sq_ring, rq_ring;
	verbs::Pages memory;
};

/* Makes connections from namespace a to namespace b, one at a time. */
class Connector {
public:
	/* Throws if it cannot listen. */
	explicit Connector(uint16_t port);

	/* False if no connection came about; random: what to do with requests of others. */
	bool connect(End &a, End &b, Random &random);
	void disconnect(Random *random);
	Ucma &cm() { return cm_; }

private:
	bool wait_for(uint32_t id, uint32_t type, Random &random);
	void turn_away(const CmEvent &request, Random &random);
	void drop();

	Ucma cm_;
	uint16_t port_;
	uint32_t listener_ = 0;
	std::optional<uint32_t> a_, b_;
};

/* Traffic and scribbles until the pair breaks or so many steps are made. */
void use_pair(Random &random, End &a, End &b, unsigned steps, unsigned scribbles_permille);
/* "" if data arrives as it was sent, in both directions and by all operations; else what is wrong.
 */
std::string prove_pair(End &a, End &b);
