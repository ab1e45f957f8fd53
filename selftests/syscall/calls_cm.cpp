// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Random calls of rdma_cm. */
#include <algorithm>

#include "calls.h"

namespace {

struct CmCaller {
	World &world;
	Random random;
	Ucma cm{};
	std::vector<uint32_t> ids{};
	/*
	 * Requests not answered yet. To accept or reject anything else is not tried: it makes iw_cm
	 * forget that a connect is under way, and end in a BUG (README.md).
	 */
	std::vector<uint32_t> requests{};

	std::optional<uint32_t> request()
	{
		if (requests.empty())
			return std::nullopt;
		auto one = random.pick(requests);
		std::erase(requests, one);
		return one;
	}
	void forget(uint32_t old)
	{
		std::erase(ids, old);
		std::erase(requests, old);
	}
	uint32_t id()
	{
		return ids.empty() || random.permille(50) ? static_cast<uint32_t>(random.below(200))
							  : random.pick(ids);
	}
	/* Of somebody's QP, perhaps one that is being connected. */
	uint32_t qp_number()
	{
		return latest_qp_number() - static_cast<uint32_t>(random.below(30));
	}
	/* Of listeners of our own, or of nobody; not those of the pairs. */
	uint16_t port() { return static_cast<uint16_t>(7010 + random.below(6)); }
	void create();
	void garbage();
	void events();
	void one();
};

void CmCaller::create()
{
	uint32_t made;

	if (ids.size() > 40) {
		auto old = random.pick(ids);
		count(Op::cm_call, !cm.destroy(old));
		forget(old);
		return;
	}
	InNamespace in(random.percent(50) ? "a" : "b");
	if (count(Op::cm_call, !cm.create(random.bits(), &made)))
		ids.push_back(made);
}

void CmCaller::garbage()
{
	unsigned char bytes[600];

	for (auto &byte : bytes)
		byte = static_cast<unsigned char>(random.percent(70) ? 0 : random.odd_number());
	/* The pointer to a response comes first, where there is one. */
	auto response = pointer(arena());
	std::memcpy(bytes, &response, sizeof(response));
	auto number = static_cast<uint32_t>(random.below(25));
	if (number == ucm::RDMA_USER_CM_CMD_ACCEPT || number == ucm::RDMA_USER_CM_CMD_REJECT)
		return;
	count(Op::cm_garbage,
	      !cm.command(number, bytes, random.below(sizeof(bytes)), random.below(400)));
}

void CmCaller::events()
{
	for (int i = 0; i < 8; i++) {
		auto event = cm.event(verbs::milliseconds(0));
		if (!event)
			return;
		if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST)
			requests.push_back(ids.emplace_back(event->id));
		else if (event->type == RDMA_CM_EVENT_ADDR_RESOLVED)
			count(Op::cm_call, !cm.resolve_route(event->id, 500));
		else if (event->type == RDMA_CM_EVENT_ROUTE_RESOLVED)
			count(Op::cm_call, !cm.connect(event->id, qp_number(), nullptr, 0));
	}
}

void CmCaller::one()
{
	switch (random.below(12)) {
	case 0:
	case 1:
		create();
		break;
	case 2:
		count(Op::cm_call,
		      !cm.bind(id(), address(random.percent(50) ? "10.0.0.1" : "0.0.0.0", port())));
		break;
	case 3:
	case 4:
		count(Op::cm_call,
		      !cm.resolve_address(id(), address("10.0.0.2", port()),
					  static_cast<unsigned>(random.between(1, 500))));
		break;
	case 5:
		count(Op::cm_call,
		      !cm.listen(id(), static_cast<int>(random.percent(80) ? random.below(10)
									   : random.bits())));
		break;
	case 6:
		if (auto asked = request())
			count(Op::cm_call, !cm.accept(*asked, random.bits(), qp_number(), "", 0));
		break;
	case 7:
		if (auto asked = request())
			count(Op::cm_call, !cm.reject(*asked, "", 0));
		break;
	case 8:
		count(Op::cm_call, !cm.disconnect(id()));
		break;
	case 9: {
		auto old = id();
		count(Op::cm_call, !cm.destroy(old));
		forget(old);
		break;
	}
	case 10:
		garbage();
		break;
	default:
		events();
	}
}

} // namespace

void make_cm_calls(World &world, Random random)
{
	CmCaller caller{world, random};

	try {
		while (!world.stop) {
			caller.one();
			caller.events();
			std::this_thread::yield();
		}
	} catch (const std::exception &) {
		/* The namespace is gone. */
	}
}
