// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "known.h"

#include <atomic>

#include "pair.h"

using std::chrono::milliseconds;

namespace {

std::shared_ptr<Uverbs> open(const char *name)
{
	auto device = std::make_shared<Uverbs>(name);

	verbs::check(device->get_context(), std::string("context of ") + name);
	return device;
}

} // namespace

/*
 * An inline request has no SGEs, whatever its header says. The transmit engine once waited, with
 * its locks held, for a batch with room for 255 of them.
 */
std::string inline_with_sges()
{
	Random random(1);
	Targets targets;
	End a(open("ziwa"), targets), b(open("ziwb"), targets);
	Connector connector(7101);
	ziw_sq_wqe header{};

	if (!a.make(random) || !b.make(random) || !connector.connect(a, b, random))
		return "no connection";
	header.opcode = ZIW_OP_WRITE;
	header.flags = ZIW_WQE_SIGNALED | ZIW_WQE_INLINE;
	header.inline_len = 64;
	header.rkey = b.mr->rkey;
	header.remote_addr = reinterpret_cast<uintptr_t>(b.memory.data());
	if (!a.post(header, nullptr))
		return "no room in the send queue";
	/* In the slot, behind the back of End::post(). */
	reinterpret_cast<ziw_sq_wqe *>(a.sq_ring->slot(0))->num_sge = 255;
	a.ring_doorbell();
	auto cqe = a.wait(milliseconds(10000));
	connector.disconnect(nullptr);
	if (!cqe)
		return "no completion";
	return cqe->status == IBV_WC_SUCCESS ? "" : "status " + std::to_string(cqe->status);
}

/* A QP has one connection in the making, so that to destroy it ends all of what it waits for. */
std::string two_connects()
{
	Random random(1);
	Targets targets;
	auto device = open("ziwa");
	Ucma listening, cm[2];
	uint32_t listener, id[2];

	{
		InNamespace in("b");
		verbs::check(listening.create(0, &listener), "create id");
		verbs::check(listening.bind(listener, address("10.0.0.2", 7102)), "bind");
		/* Nobody answers what comes. */
		verbs::check(listening.listen(listener, 64), "listen");
	}
	for (int round = 0; round < 20; round++) {
		End a(device, targets);
		std::atomic<int> ready = 0;
		int rc[2];

		if (!a.make(random))
			return "the objects cannot be made";
		for (int i = 0; i < 2; i++) {
			InNamespace in("a");
			verbs::check(cm[i].create(1, &id[i]), "create id");
			verbs::check(cm[i].resolve_address(id[i], address("10.0.0.2", 7102), 2000),
				     "resolve");
			if (!cm[i].event(milliseconds(5000)) || cm[i].resolve_route(id[i], 2000) ||
			    !cm[i].event(milliseconds(5000)))
				return "the address is not resolved";
		}
		auto connect = [&](int i) {
			for (ready++; ready < 2;)
				std::this_thread::yield();
			rc[i] = cm[i].connect(id[i], a.qp->qpn, nullptr, 0);
		};
		std::thread other(connect, 1);
		connect(0);
		other.join();
		a.destroy(nullptr);
		for (int i = 0; i < 2; i++) {
			cm[i].destroy(id[i]);
			while (cm[i].event(milliseconds(0)))
				;
		}
		if (!rc[0] == !rc[1])
			return rc[0] ? "neither of two connects succeeds"
				     : "both of two connects succeed, in round " +
					       std::to_string(round);
	}
	return "";
}
