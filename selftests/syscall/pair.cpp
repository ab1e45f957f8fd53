// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "pair.h"

#include <algorithm>

using std::chrono::milliseconds;

/* --- scribbling --- */

void Targets::add(const Target &target)
{
	std::lock_guard lock(mutex_);

	list_.push_back(target);
}

void Targets::remove(const Ring *ring)
{
	std::lock_guard lock(mutex_);

	std::erase_if(list_, [&](const Target &t) { return t.ring.get() == ring; });
}

std::optional<Target> Targets::pick(Random &random)
{
	std::lock_guard lock(mutex_);

	if (list_.empty())
		return std::nullopt;
	return random.pick(list_);
}

namespace {

void store(void *at, uint64_t value, std::size_t size)
{
	std::memcpy(at, &value, size);
}

void scribble_header(Random &random, ziw_ring_hdr *header, uint32_t entries)
{
	uint32_t *words[] = {&header->prod, &header->cons, &header->flags};
	auto *word = random.pick(words);

	switch (random.below(5)) {
	case 0:
		*word += static_cast<uint32_t>(random.below(4));
		break;
	case 1:
		*word -= static_cast<uint32_t>(random.below(4));
		break;
	case 2:
		*word += entries + static_cast<uint32_t>(random.below(3)) - 1;
		break;
	case 3:
		*word = static_cast<uint32_t>(random.below(8));
		break;
	default:
		*word = static_cast<uint32_t>(random.odd_number());
	}
}

/* Most often a WQE that is nearly good, since a kernel sees through a bad one at the first look. */
void scribble_send(Random &random, unsigned char *slot, const Target &target)
{
	auto *wqe = reinterpret_cast<ziw_sq_wqe *>(slot);
	auto room = (target.ring->info().stride - sizeof(*wqe)) / sizeof(ziw_sge);
	auto *sge = reinterpret_cast<ziw_sge *>(wqe + 1) + random.below(room);

	switch (random.below(12)) {
	case 0:
		wqe->opcode = static_cast<uint8_t>(random.below(13));
		break;
	case 1:
		wqe->opcode = static_cast<uint8_t>(random.odd_number());
		break;
	case 2:
		wqe->num_sge = static_cast<uint8_t>(random.below(room + 2));
		break;
	case 3:
		wqe->num_sge = static_cast<uint8_t>(random.odd_number());
		break;
	case 4:
		wqe->flags ^= static_cast<uint16_t>(1u << random.below(16));
		break;
	case 5:
		wqe->inline_len = static_cast<uint32_t>(random.odd_number());
		break;
	case 6:
		wqe->rkey = static_cast<uint32_t>(random.percent(50) ? target.key
								     : random.odd_number());
		break;
	case 7:
		wqe->ex = static_cast<uint32_t>(random.percent(50) ? target.key
								   : random.odd_number());
		break;
	case 8:
		wqe->remote_addr = random.percent(50) ? target.address : random.odd_number();
		break;
	case 9:
		sge->length = static_cast<uint32_t>(random.odd_number());
		break;
	case 10:
		sge->lkey = static_cast<uint32_t>(random.percent(50) ? target.key
								     : random.odd_number());
		break;
	default:
		sge->addr = random.percent(50) ? target.address : random.odd_number();
	}
}

void scribble_recv(Random &random, unsigned char *slot, const Target &target)
{
	auto *wqe = reinterpret_cast<ziw_rq_wqe *>(slot);
	auto room = (target.ring->info().stride - sizeof(*wqe)) / sizeof(ziw_sge);
	auto *sge = reinterpret_cast<ziw_sge *>(wqe + 1) + random.below(room);

	switch (random.below(4)) {
	case 0:
		wqe->num_sge = static_cast<uint32_t>(random.percent(50) ? random.below(room + 2)
									: random.odd_number());
		break;
	case 1:
		sge->length = static_cast<uint32_t>(random.odd_number());
		break;
	case 2:
		sge->lkey = static_cast<uint32_t>(random.odd_number());
		break;
	default:
		sge->addr = random.odd_number();
	}
}

} // namespace

void scribble(Random &random, const Target &target)
{
	auto *header = target.ring->header();
	auto &info = target.ring->info();

	for (auto n = random.between(1, 3); n; n--) {
		auto near = header->prod - 2 + static_cast<uint32_t>(random.below(4));
		auto *slot = target.ring->slot(
			random.percent(80) ? near : static_cast<uint32_t>(random.bits()));

		count(Op::scribble, true);
		switch (random.below(6)) {
		case 0:
			scribble_header(random, header, info.entries);
			break;
		case 1:
			/* Any word of the ring. */
			store(static_cast<unsigned char *>(target.ring->base()) +
				      random.below(target.ring->size() / 4) * 4,
			      random.odd_number(), 4);
			break;
		case 2:
			mutate(random, slot, info.stride);
			break;
		default:
			if (target.kind == RingKind::sq)
				scribble_send(random, slot, target);
			else if (target.kind == RingKind::rq)
				scribble_recv(random, slot, target);
			else
				mutate(random, slot, info.stride);
		}
	}
	if (random.percent(40)) {
		/* Show the kernel what is there now. */
		if (target.kind != RingKind::cq)
			header->prod += static_cast<uint32_t>(random.below(3));
		count(Op::doorbell,
		      !(target.kind == RingKind::rq ? doorbell_recv(*target.device, target.qp)
						    : doorbell_send(*target.device, target.qp)));
	}
}

/* --- one end --- */

bool End::make(Random &random)
{
	auto &device = *device_;
	uint32_t made_pd;
	MadeMr made_mr;
	MadeCq made_cq;
	MadeSrq made_srq;
	MadeQp made_qp;

	memory = verbs::Pages(memory_size);
	int rc = make_pd(device, &made_pd);
	if (rc == EIO)
		throw verbs::Error("device", rc);
	if (!count(Op::create_pd, !rc))
		return false;
	pd = made_pd;
	if (!count(Op::reg_mr, !make_mr(device, *pd, memory.data(), memory_size,
					reinterpret_cast<uintptr_t>(memory.data()),
					IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
						IBV_ACCESS_REMOTE_READ,
					&made_mr)))
		return false;
	mr = made_mr;
	if (!count(Op::create_cq, !make_cq(device, random.percent(90) ? 512 : 32, -1, &made_cq)))
		return false;
	cq = made_cq;
	cq_ring = std::make_shared<Ring>(device, cq->ring);
	QpOrder order{};
	if (random.percent(30)) {
		if (!count(Op::create_srq,
			   !make_srq(device, *pd, 64, 4, static_cast<uint32_t>(random.below(8)),
				     &made_srq)))
			return false;
		srq = made_srq;
		order.srq = srq->handle;
		order.has_srq = true;
	}
	order.pd = *pd;
	order.send_cq = order.recv_cq = cq->handle;
	order.send_wr = order.recv_wr = 64;
	order.send_sge = order.recv_sge = 4;
	order.inline_bytes = 128;
	order.type = IBV_QPT_RC;
	if (!count(Op::create_qp, !make_qp(device, order, &made_qp)))
		return false;
	qp = made_qp;
	sq_ring = std::make_shared<Ring>(device, qp->sq);
	rq_ring = std::make_shared<Ring>(device, srq ? srq->ring : qp->rq);
	if (!count(Op::map_ring, *cq_ring && *sq_ring && *rq_ring))
		return false;
	if (!count(Op::modify_qp, !set_qp_state(device, qp->handle, IBV_QPS_INIT)))
		return false;
	auto address = reinterpret_cast<uintptr_t>(memory.data());
	targets_.add({device_, sq_ring, RingKind::sq, qp->handle, mr->rkey, address});
	targets_.add({device_, rq_ring, RingKind::rq, qp->handle, mr->rkey, address});
	targets_.add({device_, cq_ring, RingKind::cq, qp->handle, mr->rkey, address});
	return true;
}

void End::destroy(Random *random)
{
	auto &device = *device_;
	std::vector<int> order{0, 1, 2, 3, 4};

	for (auto *ring : {&sq_ring, &rq_ring, &cq_ring})
		if (*ring)
			targets_.remove(ring->get());
	if (random && random->percent(30))
		sq_ring = rq_ring = cq_ring = nullptr;
	if (random && random->percent(20)) {
		memory = {};
		count(Op::unmap_registered, true);
	}
	if (random)
		for (std::size_t i = order.size() - 1; i; i--)
			std::swap(order[i], order[random->below(i + 1)]);
	for (int round = 0; round < 2; round++) {
		for (int step : order) {
			if (step == 0 && qp &&
			    count(Op::destroy_qp, !destroy_qp(device, qp->handle)))
				qp.reset();
			if (step == 1 && srq &&
			    count(Op::destroy_srq, !destroy_srq(device, srq->handle)))
				srq.reset();
			if (step == 2 && cq &&
			    count(Op::destroy_cq, !destroy_cq(device, cq->handle)))
				cq.reset();
			if (step == 3 && mr && count(Op::dereg_mr, !dereg_mr(device, mr->handle)))
				mr.reset();
			if (step == 4 && pd && count(Op::destroy_pd, !destroy_pd(device, *pd)))
				pd.reset();
		}
		std::sort(order.begin(), order.end());
	}
	sq_ring = rq_ring = cq_ring = nullptr;
}

bool End::post_recv(Random &random)
{
	auto *slot = rq_ring->room();

	if (!slot)
		return false;
	auto *wqe = reinterpret_cast<ziw_rq_wqe *>(slot);
	auto *sge = reinterpret_cast<ziw_sge *>(wqe + 1);
	uint32_t length =
		random.percent(90) ? memory_size / 4 : static_cast<uint32_t>(random.below(4096));
	wqe->wr_id = random.bits();
	wqe->num_sge = 1;
	sge->addr = reinterpret_cast<uintptr_t>(memory.data()) + memory_size / 2 +
		    random.below(memory_size / 4);
	sge->length = length;
	sge->lkey = mr->lkey;
	rq_ring->publish();
	return true;
}

bool End::post(const ziw_sq_wqe &header, const ziw_sge *sges)
{
	auto *slot = sq_ring->room();

	if (!slot)
		return false;
	std::memcpy(slot, &header, sizeof(header));
	if (header.num_sge)
		std::memcpy(slot + sizeof(header), sges, header.num_sge * sizeof(*sges));
	sq_ring->publish();
	return true;
}

bool End::post(Random &random, const End &to, bool hostile)
{
	static const uint8_t opcodes[] = {ZIW_OP_SEND, ZIW_OP_SEND,     ZIW_OP_WRITE,
					  ZIW_OP_READ, ZIW_OP_SEND_INV, ZIW_OP_LOCAL_INV};
	ziw_sq_wqe header{};
	ziw_sge sges[4];

	header.wr_id = random.bits();
	/* The last two end the connection. */
	header.opcode = opcodes[random.below(random.permille(10) ? 6 : 4)];
	header.flags = random.percent(80) ? ZIW_WQE_SIGNALED : 0;
	if (random.percent(10))
		header.flags |= ZIW_WQE_FENCE;
	if (random.percent(20))
		header.flags |= ZIW_WQE_SOLICITED;
	header.rkey = to.mr->rkey;
	header.ex = to.mr->rkey;
	header.remote_addr =
		reinterpret_cast<uintptr_t>(to.memory.data()) + random.below(memory_size / 4);
	if (header.opcode != ZIW_OP_READ && random.percent(20)) {
		header.flags |= ZIW_WQE_INLINE;
		header.inline_len = static_cast<uint32_t>(random.below(128));
	} else {
		header.num_sge = static_cast<uint8_t>(random.below(5));
	}
	for (int i = 0; i < header.num_sge; i++) {
		sges[i].addr =
			reinterpret_cast<uintptr_t>(memory.data()) + random.below(memory_size / 2);
		sges[i].length = static_cast<uint32_t>(
			random.below(random.percent(70) ? 300 : memory_size / 16));
		sges[i].lkey = mr->lkey;
	}
	if (hostile) {
		/* As it would be if somebody had changed it between posting and the doorbell. */
		auto *slot = sq_ring->room();
		if (!slot)
			return false;
		std::memcpy(slot, &header, sizeof(header));
		std::memcpy(slot + sizeof(header), sges, header.num_sge * sizeof(*sges));
		Target target{device_,    sq_ring,     RingKind::sq,
			      qp->handle, to.mr->rkey, header.remote_addr};
		for (auto n = random.between(1, 3); n; n--)
			scribble_send(random, slot, target);
		sq_ring->publish();
		return count(Op::hostile_send, true);
	}
	return count(Op::pair_send, post(header, sges));
}

void End::ring_doorbell()
{
	if (sq_ring->needs_doorbell())
		count(Op::doorbell, !doorbell_send(*device_, qp->handle));
	if (!srq && rq_ring->needs_doorbell())
		count(Op::doorbell, !doorbell_recv(*device_, qp->handle));
}

unsigned End::poll(uint8_t *status)
{
	unsigned n = 0;

	/* Whoever scribbles makes prod say anything: no more than the ring holds. */
	while (n < cq->ring.entries) {
		auto cqe = cq_ring->take();
		if (!cqe)
			break;
		count(Op::pair_completion, cqe->status == IBV_WC_SUCCESS);
		if (cqe->status != IBV_WC_SUCCESS)
			*status = cqe->status;
		n++;
	}
	return n;
}

std::optional<ziw_cqe> End::wait(milliseconds timeout)
{
	std::optional<ziw_cqe> cqe;

	verbs::eventually(timeout, [&] { return (cqe = cq_ring->take()).has_value(); });
	return cqe;
}

/* --- connections --- */

Connector::Connector(uint16_t port) : port_(port)
{
	InNamespace in("b");

	verbs::check(cm_.create(0, &listener_), "create id");
	verbs::check(cm_.bind(listener_, address("10.0.0.2", port)), "bind");
	verbs::check(cm_.listen(listener_, 8), "listen");
}

void Connector::turn_away(const CmEvent &request, Random &random)
{
	switch (random.below(4)) {
	case 0:
		count(Op::cm_call, !cm_.reject(request.id, "no", 2));
		break;
	case 1:
		count(Op::cm_call,
		      !cm_.accept(request.id, 9,
				  latest_qp_number() - static_cast<uint32_t>(random.below(8)), "",
				  0));
		break;
	case 2:
		/* Forgotten until the file is closed. */
		return;
	default:
		break;
	}
	count(Op::cm_call, !cm_.destroy(request.id));
}

bool Connector::wait_for(uint32_t id, uint32_t type, Random &random)
{
	for (int i = 0; i < 16; i++) {
		auto event = cm_.event(milliseconds(3000));
		if (!event)
			return false;
		if (event->id == id)
			return event->type == type;
		if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST)
			turn_away(*event, random);
	}
	return false;
}

bool Connector::connect(End &a, End &b, Random &random)
{
	bool established[2] = {};
	uint32_t id;

	{
		InNamespace in("a");
		if (cm_.create(1, &id))
			return count(Op::connect_pair, false);
	}
	a_ = id;
	if (cm_.resolve_address(id, address("10.0.0.2", port_), 2000) ||
	    !wait_for(id, RDMA_CM_EVENT_ADDR_RESOLVED, random) || cm_.resolve_route(id, 2000) ||
	    !wait_for(id, RDMA_CM_EVENT_ROUTE_RESOLVED, random) ||
	    /* No private data: iw_cm loses its copy when the listener ends just then (README.md).
	     */
	    cm_.connect(id, a.qp->qpn, nullptr, 0))
		return count(Op::connect_pair, false);

	for (int i = 0; i < 32 && !(established[0] && established[1]); i++) {
		auto event = cm_.event(milliseconds(3000));
		if (!event)
			break;
		if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
			/* Nobody else connects to this port; what is left of the last pair may
			 * come. */
			if (b_) {
				turn_away(*event, random);
				continue;
			}
			b_ = event->id;
			if (cm_.accept(*b_, 2, b.qp->qpn, "yes", 3))
				break;
		} else if (a_ == event->id || b_ == event->id) {
			if (event->type != RDMA_CM_EVENT_ESTABLISHED)
				break;
			established[b_ == event->id] = true;
		}
	}
	return count(Op::connect_pair, established[0] && established[1]);
}

void Connector::drop()
{
	if (a_)
		count(Op::cm_call, !cm_.destroy(*a_));
	if (b_)
		count(Op::cm_call, !cm_.destroy(*b_));
	a_.reset();
	b_.reset();
}

void Connector::disconnect(Random *random)
{
	if (a_ && (!random || random->percent(50)))
		count(Op::cm_call, !cm_.disconnect(*a_));
	if (b_ && (!random || random->percent(30)))
		count(Op::cm_call, !cm_.disconnect(*b_));
	drop();
	/* What is left of them. */
	while (auto event = cm_.event(milliseconds(0)))
		if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST)
			cm_.destroy(event->id);
}

void use_pair(Random &random, End &a, End &b, unsigned steps, unsigned scribbles_permille)
{
	unsigned idle = 0;

	while (steps--) {
		uint8_t status = IBV_WC_SUCCESS;

		for (auto *end : {&a, &b})
			while (end->post_recv(random))
				;
		for (auto n = random.below(6); n; n--) {
			bool from_a = random.percent(50);
			(from_a ? a : b)
				.post(random, from_a ? b : a,
				      random.permille(scribbles_permille / 8));
		}
		if (random.permille(scribbles_permille))
			if (auto target = a.targets_.pick(random))
				scribble(random, *target);
		a.ring_doorbell();
		b.ring_doorbell();
		auto n = a.poll(&status) + b.poll(&status);
		idle = n ? 0 : idle + 1;
		if (idle > 5)
			std::this_thread::yield();
		/* A few steps more: what is posted to a broken one has to be flushed. */
		if (status != IBV_WC_SUCCESS || idle > 200)
			steps = std::min(steps, 10u);
	}
}

/* --- proof --- */

namespace {

void fill(unsigned char *at, std::size_t size, unsigned seed)
{
	for (std::size_t i = 0; i < size; i++)
		at[i] = static_cast<unsigned char>((i * 7 + (i >> 8) * 3 + seed * 13) & 0xff);
}

std::string prove(End &from, End &to, uint8_t opcode, unsigned seed)
{
	constexpr std::size_t size = End::memory_size / 4, half = End::memory_size / 2;
	bool read = opcode == ZIW_OP_READ;
	auto &source = read ? to : from, &sink = read ? from : to;
	std::vector<unsigned char> expected(size);
	ziw_sq_wqe header{};
	ziw_sge sge{};

	fill(expected.data(), size, seed);
	fill(source.memory.data(), size, seed);
	std::memset(sink.memory.data() + half, 0, size);
	if (opcode == ZIW_OP_SEND) {
		auto *slot = to.rq_ring->room();
		if (!slot)
			return "no room in the receive queue";
		auto *wqe = reinterpret_cast<ziw_rq_wqe *>(slot);
		auto *into = reinterpret_cast<ziw_sge *>(wqe + 1);
		wqe->wr_id = seed;
		wqe->num_sge = 1;
		*into = {reinterpret_cast<uintptr_t>(to.memory.data()) + half, size, to.mr->lkey};
		to.rq_ring->publish();
	}
	header.wr_id = seed;
	header.opcode = opcode;
	header.flags = ZIW_WQE_SIGNALED;
	header.num_sge = 1;
	header.rkey = to.mr->rkey;
	header.remote_addr = reinterpret_cast<uintptr_t>(to.memory.data()) + (read ? 0 : half);
	sge = {reinterpret_cast<uintptr_t>(from.memory.data()) + (read ? half : 0), size,
	       from.mr->lkey};
	if (!from.post(header, &sge))
		return "no room in the send queue";
	from.ring_doorbell();
	auto sent = from.wait(milliseconds(10000));
	if (!sent)
		return "no completion";
	if (sent->status != IBV_WC_SUCCESS || sent->wr_id != seed)
		return "completed with status " + std::to_string(sent->status);
	if (opcode == ZIW_OP_SEND) {
		auto got = to.wait(milliseconds(10000));
		if (!got || got->status != IBV_WC_SUCCESS || got->byte_len != size)
			return "the receive did not complete";
	}
	/* A completion of a Write says nothing of the other side. */
	bool equal = verbs::eventually(milliseconds(10000), [&] {
		return !std::memcmp(sink.memory.data() + half, expected.data(), size);
	});
	return equal ? "" : "the data is not what was sent";
}

} // namespace

std::string prove_pair(End &a, End &b)
{
	for (unsigned round = 0; round < 30; round++) {
		for (uint8_t opcode : {ZIW_OP_SEND, ZIW_OP_WRITE, ZIW_OP_READ}) {
			for (auto [from, to] : {std::pair(&a, &b), std::pair(&b, &a)}) {
				auto wrong = prove(*from, *to, opcode, round * 8 + opcode);
				if (!wrong.empty())
					return "round " + std::to_string(round) + ", operation " +
					       std::to_string(opcode) + ": " + wrong;
			}
		}
	}
	return "";
}
