/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Random calls on whatever objects there are. */
#pragma once

#include <atomic>

#include "pair.h"

/* Memory that random calls name. Peers may write there, so nothing else is in it. */
unsigned char *arena();

inline uint64_t pointer(void *p)
{
	return reinterpret_cast<uintptr_t>(p);
}

enum class Kind { pd, cq, srq, qp, mr, channel, number };

struct Object {
	Kind kind;
	uint32_t handle;
	ziw_ring_info ring[2];
};

/* The objects that random calls made in one context. */
class Pool {
public:
	void add(const Object &object);
	void remove(Kind kind, uint32_t handle);
	std::size_t size(Kind kind);
	/* Now and then of another kind, or none that exists. */
	uint32_t handle(Random &random, Kind kind);
	std::optional<Object> any(Random &random, Kind kind);

private:
	std::mutex mutex_;
	std::vector<Object> list_[static_cast<unsigned>(Kind::number)];
};

struct Context {
	std::shared_ptr<Uverbs> device;
	Pool pool;
};

/* What the threads of one process share. */
struct World {
	std::vector<std::unique_ptr<Context>> contexts;
	Targets targets;
	std::string device_of_new_contexts;
	std::atomic<bool> stop{false};
	/*
	 * No process is killed, and none exits, in the middle of a fork: User Mode Linux does not
	 * survive that (README.md).
	 */
	bool may_fork = false;
	std::mutex forking;
};

/* Each makes calls until the world stops. */
void make_verbs_calls(World &world, Random random);
void make_cm_calls(World &world, Random random);
