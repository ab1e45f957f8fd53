// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "calls.h"

#include <rdma/rdma_user_ioctl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include <algorithm>

unsigned char *arena()
{
	static const verbs::Pages pages(8 << 20, MAP_NORESERVE);

	return pages.data();
}

void Pool::add(const Object &object)
{
	std::lock_guard lock(mutex_);

	list_[static_cast<unsigned>(object.kind)].push_back(object);
}

void Pool::remove(Kind kind, uint32_t handle)
{
	std::lock_guard lock(mutex_);

	std::erase_if(list_[static_cast<unsigned>(kind)],
		      [&](const Object &o) { return o.handle == handle; });
}

std::size_t Pool::size(Kind kind)
{
	std::lock_guard lock(mutex_);

	return list_[static_cast<unsigned>(kind)].size();
}

std::optional<Object> Pool::any(Random &random, Kind kind)
{
	std::lock_guard lock(mutex_);
	auto &list = list_[static_cast<unsigned>(kind)];

	if (list.empty())
		return std::nullopt;
	return random.pick(list);
}

uint32_t Pool::handle(Random &random, Kind kind)
{
	if (random.permille(20))
		return static_cast<uint32_t>(random.odd_number());
	/* Low numbers are those of the pairs, and of all kinds. */
	if (random.permille(20))
		return static_cast<uint32_t>(random.below(60));
	if (random.permille(30))
		kind = static_cast<Kind>(random.below(static_cast<unsigned>(Kind::number)));
	auto object = any(random, kind);
	return object ? object->handle : static_cast<uint32_t>(random.below(60));
}

namespace {

constexpr unsigned mutated = 120;
/* Of one kind in one context; more are destroyed again. */
constexpr std::size_t many = 12;

struct Caller {
	World &world;
	Random random;

	Context &context() { return *random.pick(world.contexts); }
	Mutation mutation() { return {&random, mutated}; }

	/* A count that is fit for use nearly always, and else as large as allowed, or larger. */
	uint32_t amount(uint32_t usual, uint32_t limit)
	{
		if (random.permille(985))
			return static_cast<uint32_t>(random.below(usual + 1));
		switch (random.below(4)) {
		case 0:
			return limit;
		case 1:
			return limit + 1;
		case 2:
			return 0;
		default:
			return static_cast<uint32_t>(random.odd_number());
		}
	}

	void open_context();
	void query(Context &c);
	void create_channel(Context &c);
	void create_pd(Context &c);
	void create_cq(Context &c);
	void create_cq_by_ioctl(Context &c, int channel);
	void create_srq(Context &c);
	void create_qp(Context &c);
	void create_qp_by_ioctl(Context &c);
	void reg_mr(Context &c);
	void destroy(Context &c);
	void destroy_by_ioctl(Context &c, Kind kind, uint32_t handle, Op op);
	void modify_qp(Context &c);
	void modify_srq(Context &c);
	void doorbell(Context &c);
	void post_with_wr(Context &c);
	void arm_or_poll(Context &c);
	void map_ring(Context &c);
	void map_wrong(Context &c);
	void unoffered(Context &c);
	void garbage_write(Context &c);
	void garbage_ioctl(Context &c);
	void fork_process(Context &c);
	void read_events(Context &c);
	void one();
};

void Caller::open_context()
{
	try {
		Uverbs device(world.device_of_new_contexts);
		ib_uverbs_query_port in{};
		ib_uverbs_query_port_resp out;
		uint32_t pd, handle;
		MadeCq cq;

		/* Too early for anything. */
		if (random.percent(20))
			device.command(IB_USER_VERBS_CMD_QUERY_PORT, &in, sizeof(in), &out,
				       sizeof(out));
		if (!count(Op::open_context, !device.get_context({&random, 300})))
			return;
		if (random.percent(20))
			device.get_context(mutation());
		/* Closed with these alive. */
		for (auto n = random.below(4); n; n--) {
			count(Op::create_pd, !make_pd(device, &pd));
			count(Op::create_cq, !make_cq(device, 16, -1, &cq));
		}
		handle = cq.handle;
		if (random.percent(30))
			count(Op::destroy_cq, !destroy_cq(device, handle));
		if (random.percent(30))
			device.async.reset();
	} catch (const std::exception &) {
		count(Op::open_context, false);
		return;
	}
	count(Op::close_context, true);
}

void Caller::query(Context &c)
{
	switch (random.below(5)) {
	case 0: {
		ib_uverbs_query_device in{};
		ib_uverbs_query_device_resp out;
		count(Op::query, !c.device->command(IB_USER_VERBS_CMD_QUERY_DEVICE, &in, sizeof(in),
						    &out, sizeof(out), mutation()));
		break;
	}
	case 1: {
		ib_uverbs_ex_query_device in{};
		ib_uverbs_ex_query_device_resp out;
		count(Op::query,
		      !c.device->extended(IB_USER_VERBS_EX_CMD_QUERY_DEVICE, &in, sizeof(in), 0,
					  &out, sizeof(out), 0, mutation()));
		break;
	}
	case 2: {
		ib_uverbs_query_port in{};
		ib_uverbs_query_port_resp out;
		in.port_num = random.percent(90) ? 1 : static_cast<uint8_t>(random.bits());
		count(Op::query, !c.device->command(IB_USER_VERBS_CMD_QUERY_PORT, &in, sizeof(in),
						    &out, sizeof(out), mutation()));
		break;
	}
	case 3: {
		ib_uverbs_query_port_resp_ex out{};
		std::vector<IoctlAttr> attrs{
			{UVERBS_ATTR_QUERY_PORT_PORT_NUM, 1, 1},
			{UVERBS_ATTR_QUERY_PORT_RESP, sizeof(out), pointer(&out)},
		};
		count(Op::query, !c.device->ioctl(UVERBS_OBJECT_DEVICE, UVERBS_METHOD_QUERY_PORT,
						  attrs, mutation()));
		break;
	}
	default:
		count(Op::query,
		      query_qp_state(*c.device, c.pool.handle(random, Kind::qp), mutation()) >= 0);
	}
}

void Caller::create_channel(Context &c)
{
	ib_uverbs_create_comp_channel in{};
	ib_uverbs_create_comp_channel_resp out{};

	if (c.pool.size(Kind::channel) >= many)
		return;
	if (count(Op::create_channel,
		  !c.device->command(IB_USER_VERBS_CMD_CREATE_COMP_CHANNEL, &in, sizeof(in), &out,
				     sizeof(out), mutation())))
		c.pool.add({Kind::channel, out.fd, {}});
}

void Caller::create_pd(Context &c)
{
	uint32_t pd;
	int rc = make_pd(*c.device, &pd, mutation());

	/* The device is gone: from here on all calls would fail. */
	if (rc == EIO) {
		world.stop = true;
		return;
	}
	if (count(Op::create_pd, !rc))
		c.pool.add({Kind::pd, pd, {}});
}

void Caller::create_cq_by_ioctl(Context &c, int channel)
{
	ziw_create_cq_resp driver{};
	std::vector<IoctlAttr> attrs{
		{UVERBS_ATTR_CREATE_CQ_HANDLE, 0, 0},
		{UVERBS_ATTR_CREATE_CQ_CQE, 4, amount(200, 1 << 20)},
		{UVERBS_ATTR_CREATE_CQ_USER_HANDLE, 8, random.bits()},
		{UVERBS_ATTR_CREATE_CQ_COMP_VECTOR, 4, random.permille(50) ? random.below(9) : 0},
		{UVERBS_ATTR_CREATE_CQ_RESP_CQE, 4, pointer(arena())},
		{UVERBS_ATTR_UHW_OUT, sizeof(driver), pointer(&driver), true},
	};

	if (channel >= 0)
		attrs.push_back(
			{UVERBS_ATTR_CREATE_CQ_COMP_CHANNEL, 0, static_cast<uint64_t>(channel)});
	if (random.percent(20))
		attrs.push_back({UVERBS_ATTR_CREATE_CQ_FLAGS, 4, random.below(4)});
	if (count(Op::create_cq,
		  !c.device->ioctl(UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_CREATE, attrs, mutation())) &&
	    attrs[0].id == UVERBS_ATTR_CREATE_CQ_HANDLE)
		c.pool.add({Kind::cq, static_cast<uint32_t>(attrs[0].data), {driver.cq, {}}});
}

void Caller::create_cq(Context &c)
{
	int channel = -1;
	MadeCq cq;

	if (random.percent(40))
		if (auto made = c.pool.any(random, Kind::channel))
			channel = static_cast<int>(made->handle);
	if (random.percent(30)) {
		create_cq_by_ioctl(c, channel);
		return;
	}
	if (count(Op::create_cq,
		  !make_cq(*c.device, amount(200, 1 << 20), channel, &cq, mutation())))
		c.pool.add({Kind::cq, cq.handle, {cq.ring, {}}});
}

void Caller::create_srq(Context &c)
{
	auto entries = amount(64, 32768);
	MadeSrq srq;

	if (count(Op::create_srq,
		  !make_srq(*c.device, c.pool.handle(random, Kind::pd), entries, amount(8, 32),
			    random.percent(30) ? amount(entries, entries) : 0, &srq, mutation())))
		c.pool.add({Kind::srq, srq.handle, {srq.ring, {}}});
}

void Caller::create_qp_by_ioctl(Context &c)
{
	ib_uverbs_qp_cap in{amount(64, 32768), amount(64, 32768), amount(8, 32), amount(8, 32),
			    amount(256, 1024)};
	ib_uverbs_qp_cap out{};
	ziw_create_qp_req request{random.bits()};
	ziw_create_qp_resp driver{};
	uint32_t number = 0;
	std::vector<IoctlAttr> attrs{
		{UVERBS_ATTR_CREATE_QP_HANDLE, 0, 0},
		{UVERBS_ATTR_CREATE_QP_PD_HANDLE, 0, c.pool.handle(random, Kind::pd)},
		{UVERBS_ATTR_CREATE_QP_SEND_CQ_HANDLE, 0, c.pool.handle(random, Kind::cq)},
		{UVERBS_ATTR_CREATE_QP_RECV_CQ_HANDLE, 0, c.pool.handle(random, Kind::cq)},
		{UVERBS_ATTR_CREATE_QP_USER_HANDLE, 8, random.bits()},
		{UVERBS_ATTR_CREATE_QP_CAP, sizeof(in), pointer(&in)},
		{UVERBS_ATTR_CREATE_QP_TYPE, 8,
		 random.percent(95) ? unsigned(IB_UVERBS_QPT_RC) : random.below(12)},
		{UVERBS_ATTR_CREATE_QP_RESP_CAP, sizeof(out), pointer(&out)},
		{UVERBS_ATTR_CREATE_QP_RESP_QP_NUM, sizeof(number), pointer(&number)},
		{UVERBS_ATTR_UHW_IN, sizeof(request), request.handle, true},
		{UVERBS_ATTR_UHW_OUT, sizeof(driver), pointer(&driver), true},
	};

	if (random.percent(20))
		attrs.push_back(
			{UVERBS_ATTR_CREATE_QP_SRQ_HANDLE, 0, c.pool.handle(random, Kind::srq)});
	if (random.percent(20))
		attrs.push_back({UVERBS_ATTR_CREATE_QP_FLAGS, 4,
				 random.percent(50) ? unsigned(IB_UVERBS_QP_CREATE_SQ_SIG_ALL)
						    : random.odd_number()});
	if (count(Op::create_qp,
		  !c.device->ioctl(UVERBS_OBJECT_QP, UVERBS_METHOD_QP_CREATE, attrs, mutation())) &&
	    attrs[0].id == UVERBS_ATTR_CREATE_QP_HANDLE)
		c.pool.add(
			{Kind::qp, static_cast<uint32_t>(attrs[0].data), {driver.sq, driver.rq}});
}

void Caller::create_qp(Context &c)
{
	QpOrder order{};
	MadeQp qp;

	if (random.percent(30)) {
		create_qp_by_ioctl(c);
		return;
	}
	order.pd = c.pool.handle(random, Kind::pd);
	order.send_cq = c.pool.handle(random, Kind::cq);
	order.recv_cq = c.pool.handle(random, Kind::cq);
	order.srq = c.pool.handle(random, Kind::srq);
	order.has_srq = random.percent(20);
	order.send_wr = amount(64, 32768);
	order.recv_wr = amount(64, 32768);
	order.send_sge = amount(8, 32);
	order.recv_sge = amount(8, 32);
	order.inline_bytes = amount(256, 1024);
	order.type =
		random.percent(95) ? uint8_t(IBV_QPT_RC) : static_cast<uint8_t>(random.below(12));
	order.sig_all = random.percent(50);
	order.handle = random.bits();
	if (count(Op::create_qp, !make_qp(*c.device, order, &qp, mutation())))
		c.pool.add({Kind::qp, qp.handle, {qp.sq, qp.rq}});
}

void Caller::reg_mr(Context &c)
{
	static const verbs::Pages none(65536, 0, PROT_NONE), read_only(65536, 0, PROT_READ);
	auto pd = c.pool.handle(random, Kind::pd);
	auto access = static_cast<uint32_t>(random.percent(85) ? random.below(8) : random.bits());
	unsigned char *start = arena() + random.below(7 << 20);
	uint64_t length = random.percent(80) ? random.below(200000) : amount(65536, 1 << 20);
	MadeMr mr;

	switch (random.below(20)) {
	case 0:
		start = none.data();
		break;
	case 1:
		start = read_only.data();
		length = 65536;
		break;
	case 2:
		start = reinterpret_cast<unsigned char *>(random.odd_number());
		break;
	case 3:
		/* The pages of a ring. */
		if (auto target = world.targets.pick(random)) {
			start = static_cast<unsigned char *>(target->ring->base());
			length = target->ring->size();
			count(Op::reg_mr, !make_mr(*c.device, pd, start, length, pointer(start),
						   IBV_ACCESS_LOCAL_WRITE, &mr));
			return;
		}
		break;
	default:
		break;
	}
	if (count(Op::reg_mr,
		  !make_mr(*c.device, pd, start, length,
			   random.percent(90) ? pointer(start) : random.odd_number(), access, &mr)))
		c.pool.add({Kind::mr, mr.handle, {}});
}

void Caller::destroy_by_ioctl(Context &c, Kind kind, uint32_t handle, Op op)
{
	static const struct {
		unsigned object, method, response;
	} calls[] = {
		{UVERBS_OBJECT_PD, UVERBS_METHOD_PD_DESTROY, 0},
		{UVERBS_OBJECT_CQ, UVERBS_METHOD_CQ_DESTROY, sizeof(ib_uverbs_destroy_cq_resp)},
		{UVERBS_OBJECT_SRQ, UVERBS_METHOD_SRQ_DESTROY, sizeof(ib_uverbs_destroy_srq_resp)},
		{UVERBS_OBJECT_QP, UVERBS_METHOD_QP_DESTROY, sizeof(ib_uverbs_destroy_qp_resp)},
		{UVERBS_OBJECT_MR, UVERBS_METHOD_MR_DESTROY, 0},
	};
	auto &call = calls[static_cast<unsigned>(kind)];
	uint64_t response[2];
	std::vector<IoctlAttr> attrs{{0, 0, handle}};

	if (call.response)
		attrs.push_back({1, static_cast<uint16_t>(call.response), pointer(response)});
	if (count(op, !c.device->ioctl(call.object, call.method, attrs, mutation())))
		c.pool.remove(kind, handle);
}

void Caller::destroy(Context &c)
{
	static const Op ops[] = {Op::destroy_pd, Op::destroy_cq, Op::destroy_srq, Op::destroy_qp,
				 Op::dereg_mr};
	int (*const calls[])(Uverbs &, uint32_t, Mutation) = {
		::destroy_pd, ::destroy_cq, ::destroy_srq, ::destroy_qp, ::dereg_mr};
	auto kind = static_cast<Kind>(random.below(5));

	/* Those first of which there are too many. */
	for (unsigned k = 0; k < 5; k++)
		if (c.pool.size(static_cast<Kind>(k)) > many)
			kind = static_cast<Kind>(k);
	auto handle = c.pool.handle(random, kind);
	auto k = static_cast<unsigned>(kind);
	if (random.percent(30))
		destroy_by_ioctl(c, kind, handle, ops[k]);
	else if (count(ops[k], !calls[k](*c.device, handle, mutation())))
		c.pool.remove(kind, handle);
}

void Caller::modify_qp(Context &c)
{
	static const uint8_t states[] = {IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
					 IBV_QPS_RTS,   IBV_QPS_SQD,  IBV_QPS_ERR};
	auto handle = c.pool.handle(random, Kind::qp);

	if (random.percent(60)) {
		count(Op::modify_qp,
		      !set_qp_state(*c.device, handle, random.pick(states), mutation()));
		return;
	}
	ib_uverbs_ex_modify_qp in{};
	ib_uverbs_ex_modify_qp_resp out;
	in.base.qp_handle = handle;
	in.base.attr_mask = static_cast<uint32_t>(
		random.percent(80) ? IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MAX_QP_RD_ATOMIC
				   : random.odd_number());
	in.base.qp_state =
		random.percent(90) ? random.pick(states) : static_cast<uint8_t>(random.bits());
	in.base.qp_access_flags = static_cast<uint32_t>(random.bits());
	in.base.max_rd_atomic = static_cast<uint8_t>(random.below(140));
	count(Op::modify_qp, !c.device->extended(IB_USER_VERBS_EX_CMD_MODIFY_QP, &in, sizeof(in), 0,
						 &out, sizeof(out), 0, mutation()));
}

void Caller::modify_srq(Context &c)
{
	auto handle = c.pool.handle(random, Kind::srq);

	if (random.percent(30)) {
		ib_uverbs_query_srq in{};
		ib_uverbs_query_srq_resp out;
		in.srq_handle = handle;
		count(Op::query, !c.device->command(IB_USER_VERBS_CMD_QUERY_SRQ, &in, sizeof(in),
						    &out, sizeof(out), mutation()));
		return;
	}
	ib_uverbs_modify_srq in{};
	in.srq_handle = handle;
	in.attr_mask =
		random.percent(80) ? unsigned(IBV_SRQ_LIMIT) : static_cast<uint32_t>(random.bits());
	in.srq_limit = amount(16, 65);
	in.max_wr = amount(100, 32768);
	count(Op::modify_srq, !c.device->command(IB_USER_VERBS_CMD_MODIFY_SRQ, &in, sizeof(in),
						 nullptr, 0, mutation()));
}

void Caller::doorbell(Context &c)
{
	auto handle = c.pool.handle(random, Kind::qp);

	/* By number: right, of another context, of none, and with bits that mean nothing. */
	if (random.percent(50)) {
		auto arg = random.percent(80) ? random.below(64) : random.bits();
		if (random.percent(30))
			arg |= ZIW_DOORBELL_RECV;
		count(Op::doorbell,
		      !ioctl(c.device->doorbell.get(),
			     random.percent(98) ? ZIW_IOC_DOORBELL
						: static_cast<unsigned>(random.bits()),
			     arg));
		return;
	}
	if (random.percent(70))
		count(Op::doorbell, !doorbell_send(*c.device, handle, mutation()));
	else
		count(Op::doorbell, !doorbell_recv(*c.device, handle, mutation()));
}

/* Not ziw's way: its user rings are posted to in memory. */
void Caller::post_with_wr(Context &c)
{
	struct SendRest {
		ib_uverbs_send_wr wr[2];
		ib_uverbs_sge sge[4];
	};
	With<ib_uverbs_post_send, SendRest> send;
	struct RecvRest {
		ib_uverbs_recv_wr wr[2];
		ib_uverbs_sge sge[4];
	};
	With<ib_uverbs_post_recv, RecvRest> recv;
	uint32_t bad;

	if (random.percent(50)) {
		send.core()->qp_handle = c.pool.handle(random, Kind::qp);
		send.core()->wr_count = 2;
		send.core()->sge_count = 4;
		send.core()->wqe_size = sizeof(ib_uverbs_send_wr);
		for (auto &wr : send.rest()->wr) {
			wr.opcode = static_cast<uint32_t>(random.below(16));
			wr.num_sge = static_cast<uint32_t>(random.below(4));
		}
		count(Op::post_with_wr,
		      !c.device->command(IB_USER_VERBS_CMD_POST_SEND, send.bytes, sizeof(send),
					 &bad, sizeof(bad), mutation()));
		return;
	}
	recv.core()->qp_handle = c.pool.handle(random, random.percent(50) ? Kind::qp : Kind::srq);
	recv.core()->wr_count = 2;
	recv.core()->sge_count = 4;
	recv.core()->wqe_size = sizeof(ib_uverbs_recv_wr);
	recv.rest()->wr[0].num_sge = static_cast<uint32_t>(random.below(4));
	count(Op::post_with_wr,
	      !c.device->command(random.percent(50) ? IB_USER_VERBS_CMD_POST_RECV
						    : IB_USER_VERBS_CMD_POST_SRQ_RECV,
				 recv.bytes, sizeof(recv), &bad, sizeof(bad), mutation()));
}

/* These commands are for rings that only the kernel sees: none of ours may get through. */
void Caller::arm_or_poll(Context &c)
{
	ib_uverbs_req_notify_cq arm{};
	ib_uverbs_poll_cq poll{};
	uint32_t handle = c.pool.handle(random, Kind::cq);
	unsigned char out[sizeof(ib_uverbs_poll_cq_resp) + 4 * sizeof(ib_uverbs_wc)];

	if (random.percent(50)) {
		arm.cq_handle = handle;
		count(Op::arm_or_poll, !c.device->command(IB_USER_VERBS_CMD_REQ_NOTIFY_CQ, &arm,
							  sizeof(arm), nullptr, 0, mutation()));
		return;
	}
	poll.cq_handle = handle;
	poll.ne = 4;
	count(Op::arm_or_poll, !c.device->command(IB_USER_VERBS_CMD_POLL_CQ, &poll, sizeof(poll),
						  out, sizeof(out), mutation()));
}

/* Map a ring that a random call made, write all over it, and unmap it in pieces. */
void Caller::map_ring(Context &c)
{
	static const Kind kinds[] = {Kind::cq, Kind::srq, Kind::qp};
	auto kind = random.pick(kinds);
	auto object = c.pool.any(random, kind);

	if (!object)
		return;
	auto &info = object->ring[kind == Kind::qp ? random.below(2) : 0];
	if (!info.mmap_size)
		return;
	auto ring = std::make_shared<Ring>(*c.device, info);
	if (!count(Op::map_ring, static_cast<bool>(*ring)))
		return;
	Target target{c.device,
		      ring,
		      kind == Kind::cq   ? RingKind::cq
		      : kind == Kind::qp ? RingKind::sq
					 : RingKind::rq,
		      object->handle,
		      static_cast<uint32_t>(random.bits()),
		      pointer(arena())};
	/* The slots of a receive ring are smaller than a send WQE. */
	if (target.kind == RingKind::sq && info.stride < sizeof(ziw_sq_wqe) + sizeof(ziw_sge))
		target.kind = RingKind::rq;
	for (auto n = random.below(6); n; n--)
		scribble(random, target);
	auto *base = static_cast<unsigned char *>(ring->base());
	switch (random.below(6)) {
	case 0:
		count(Op::change_mapping, !mprotect(base, info.mmap_size, PROT_READ));
		break;
	case 1:
		count(Op::change_mapping,
		      !mprotect(base, info.mmap_size, PROT_READ | PROT_WRITE | PROT_EXEC));
		break;
	case 2:
		count(Op::change_mapping,
		      !madvise(base, info.mmap_size, static_cast<int>(random.below(26))));
		break;
	case 3:
		/* Larger than it is: may not be, or the pages behind it would show. */
		if (mremap(base, info.mmap_size, info.mmap_size + 4096, 0) != MAP_FAILED)
			std::abort();
		count(Op::change_mapping, false);
		break;
	case 4:
		count(Op::change_mapping, !munmap(base, 4096));
		if (info.mmap_size > 4096)
			munmap(base + 4096, info.mmap_size - 4096);
		ring->forget();
		break;
	default:
		break;
	}
}

void Caller::map_wrong(Context &c)
{
	static const int protections[] = {PROT_NONE, PROT_READ, PROT_WRITE, PROT_READ | PROT_WRITE,
					  PROT_READ | PROT_EXEC};
	static const int sharings[] = {MAP_SHARED, MAP_PRIVATE, MAP_SHARED | MAP_POPULATE,
				       MAP_SHARED | MAP_LOCKED};
	auto object = c.pool.any(random, random.percent(50) ? Kind::cq : Kind::qp);
	ziw_ring_info info = object ? object->ring[0] : ziw_ring_info{};
	auto offset = info.mmap_offset;
	auto size = info.mmap_size;

	if (random.percent(50))
		offset = random.percent(50) ? offset + (random.below(9) - 4) * 4096
					    : random.odd_number() & ~uint64_t(4095);
	if (random.percent(50))
		size = random.percent(50) ? size + 4096 : random.below(1 << 20);
	if (!size)
		size = 4096;
	void *p = mmap(nullptr, size, random.pick(protections), random.pick(sharings),
		       c.device->fd(), static_cast<off_t>(offset));
	if (count(Op::map_wrong, p != MAP_FAILED))
		munmap(p, size);
}

void Caller::unoffered(Context &c)
{
	uint64_t in[24] = {}, out[24];
	static const unsigned commands[] = {
		IB_USER_VERBS_CMD_ALLOC_MW,     IB_USER_VERBS_CMD_DEALLOC_MW,
		IB_USER_VERBS_CMD_CREATE_AH,    IB_USER_VERBS_CMD_DESTROY_AH,
		IB_USER_VERBS_CMD_REREG_MR,     IB_USER_VERBS_CMD_RESIZE_CQ,
		IB_USER_VERBS_CMD_ATTACH_MCAST, IB_USER_VERBS_CMD_DETACH_MCAST,
		IB_USER_VERBS_CMD_OPEN_XRCD,    IB_USER_VERBS_CMD_CREATE_XSRQ,
		IB_USER_VERBS_CMD_OPEN_QP,
	};

	for (auto &word : in)
		word = random.percent(50) ? random.below(60) : random.odd_number();
	count(Op::unoffered, !c.device->command(random.pick(commands), in,
						random.between(1, 24) * 8, out, sizeof(out)));
}

void Caller::garbage_write(Context &c)
{
	unsigned char bytes[512];
	auto size = random.below(sizeof(bytes));
	auto *header = reinterpret_cast<ib_uverbs_cmd_hdr *>(bytes);

	for (auto &byte : bytes)
		byte = static_cast<unsigned char>(random.percent(60) ? 0 : random.odd_number());
	if (random.percent(80)) {
		header->command = static_cast<uint32_t>(random.below(64));
		if (random.percent(30))
			header->command |= IB_USER_VERBS_CMD_FLAG_EXTENDED;
		header->in_words = static_cast<uint16_t>(size / 4);
		/* No response may land in memory that is used: there is none, or a short one. */
		auto response = pointer(arena());
		std::memcpy(bytes + sizeof(*header), &response, sizeof(response));
	}
	count(Op::garbage_write, write(c.device->fd(), bytes, size & ~std::size_t(3)) > 0);
}

void Caller::garbage_ioctl(Context &c)
{
	std::vector<IoctlAttr> attrs;

	for (auto n = random.below(8); n; n--) {
		IoctlAttr attr{};
		attr.id = static_cast<uint16_t>(random.percent(90) ? random.below(16)
								   : 0x1000 + random.below(3));
		attr.length = static_cast<uint16_t>(
			random.percent(80) ? random.pick({0, 1, 4, 8, 20}) : random.below(4000));
		attr.data = attr.length > 8      ? pointer(arena())
			    : random.percent(50) ? random.below(60)
						 : random.odd_number();
		attr.optional = random.percent(30);
		attrs.push_back(attr);
	}
	if (random.percent(10)) {
		count(Op::garbage_ioctl, !::ioctl(c.device->fd(), random.odd_number(), arena()));
		return;
	}
	auto object = static_cast<unsigned>(random.below(18));
	auto method = static_cast<unsigned>(random.below(8));
	/* A second context is refused, but the task that asked is never freed (README.md). */
	if (object == UVERBS_OBJECT_DEVICE && method == UVERBS_METHOD_GET_CONTEXT)
		return;
	count(Op::garbage_ioctl, !c.device->ioctl(object, method, attrs));
}

/* A child has the file and the rings of its parent, and goes at a bad moment. */
void Caller::fork_process(Context &c)
{
	auto target = world.targets.pick(random);
	std::unique_lock lock(world.forking, std::try_to_lock);

	if (!world.may_fork || !lock)
		return;
	pid_t pid = fork();

	if (!pid) {
		/* A lock that another thread held is held here for good. */
		alarm(2);
		for (auto n = random.below(20); n; n--) {
			if (target)
				scribble(random, *target);
			doorbell_send(*c.device, static_cast<uint32_t>(random.below(60)));
		}
		if (target && random.percent(50))
			munmap(target->ring->base(), target->ring->size());
		if (random.percent(50))
			close(c.device->fd());
		if (random.percent(30))
			kill(getpid(), SIGKILL);
		_exit(0);
	}
	lock.unlock();
	if (!count(Op::fork, pid > 0))
		return;
	int status;
	waitpid(pid, &status, 0);
}

void Caller::read_events(Context &c)
{
	unsigned char bytes[64];

	while (read(c.device->async.get(), bytes, sizeof(bytes)) > 0)
		;
	if (auto channel = c.pool.any(random, Kind::channel)) {
		auto fd = static_cast<int>(channel->handle);
		if (random.permille(50)) {
			c.pool.remove(Kind::channel, channel->handle);
			close(fd);
			return;
		}
		fcntl(fd, F_SETFL, O_NONBLOCK);
		while (read(fd, bytes, sizeof(bytes)) > 0)
			;
	}
}

void Caller::one()
{
	auto &c = context();

	switch (random.below(40)) {
	case 0:
	case 1:
		open_context();
		break;
	case 2:
		query(c);
		break;
	case 3:
		create_channel(c);
		break;
	case 4:
		create_pd(c);
		break;
	case 5 ... 7:
		create_cq(c);
		break;
	case 8:
	case 9:
		create_srq(c);
		break;
	case 10 ... 13:
		create_qp(c);
		break;
	case 14 ... 16:
		reg_mr(c);
		break;
	case 17 ... 22:
		destroy(c);
		break;
	case 23 ... 25:
		modify_qp(c);
		break;
	case 26:
		modify_srq(c);
		break;
	case 27 ... 28:
		doorbell(c);
		break;
	case 29:
		post_with_wr(c);
		break;
	case 30:
		arm_or_poll(c);
		break;
	case 31 ... 32:
		map_ring(c);
		break;
	case 33:
		map_wrong(c);
		break;
	case 34:
		unoffered(c);
		break;
	case 35:
		garbage_write(c);
		break;
	case 36:
		garbage_ioctl(c);
		break;
	case 37:
		if (random.percent(10))
			fork_process(c);
		break;
	case 38:
		read_events(c);
		break;
	default:
		if (auto target = world.targets.pick(random))
			scribble(random, *target);
	}
}

} // namespace

void make_verbs_calls(World &world, Random random)
{
	Caller caller{world, random};

	while (!world.stop)
		caller.one();
}
