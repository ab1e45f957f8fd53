// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Completion queues of ibv_create_cq_ex(): polling in batches, fields, timestamps, flags. */
#include <arpa/inet.h>
#include <time.h>

#include <future>

#include "fixture.h"

namespace {

uint64_t now(clockid_t clock)
{
	timespec t{};

	clock_gettime(clock, &t);
	return static_cast<uint64_t>(t.tv_sec) * 1000000000 + static_cast<uint64_t>(t.tv_nsec);
}

ibv_cq_ex *make(ibv_context *context, uint32_t entries, uint64_t fields, uint32_t flags = 0)
{
	ibv_cq_init_attr_ex attr{};

	attr.cqe = entries;
	attr.wc_flags = fields;
	if (flags) {
		attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
		attr.flags = flags;
	}
	errno = 0;
	return ibv_create_cq_ex(context, &attr);
}

class CqExTest : public VerbsTest {
protected:
	static constexpr uint64_t all_fields = uint64_t{IBV_WC_STANDARD_FLAGS} |
					       IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
					       IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;

	/* b's completions, of both queues, are the extended CQ's. */
	void start(uint64_t fields = all_fields, uint32_t flags = 0, uint32_t entries = 64)
	{
		PairConfig config;

		cq = verbs::check(make(b.context(), entries, fields, flags), "ibv_create_cq_ex");
		owner.reset(ibv_cq_ex_to_cq(cq));
		config.b.cq = owner.get();
		pair = connected(config);
		here.emplace(a.pd(), 4096);
		there.emplace(b.pd(), 4096, Region::all | IBV_ACCESS_MW_BIND);
	}

	/* count sends from a to b with ids from first on; done when this returns. */
	void send(uint64_t first, uint64_t count)
	{
		for (uint64_t id = first; id < first + count; id++) {
			ASSERT_EQ(pair.b->post_recv(id, {there->sge(0, 100)}), 0);
			ASSERT_EQ(pair.a->post(send_work(id, {here->sge(0, 10 + id % 10)})), 0);
		}
		/* Its response comes after b has dealt with what was before it. */
		ASSERT_EQ(pair.a->post(read_work(first, {here->sge(1000, 1)}, there->address(1000),
						 there->rkey())),
			  0);
		pair.a->wait_send(count + 1);
	}

	/* ibv_start_poll, once there is something. */
	int poll()
	{
		ibv_poll_cq_attr none{};
		int rc = ENOENT;

		verbs::eventually(soon, [&] { return (rc = ibv_start_poll(cq, &none)) != ENOENT; });
		return rc;
	}

	ibv_cq_ex *cq = nullptr;
	verbs::Cq owner;
	Pair pair;
	std::optional<Region> here, there;
};

TEST_F(CqExTest, BatchesAreInOrderAndEndAnywhere)
{
	start();
	send(0, 20);
	uint64_t next = 0;
	for (unsigned batch : {1u, 7u, 2u, 10u}) {
		ASSERT_EQ(poll(), 0);
		for (unsigned i = 0; i < batch; i++) {
			if (i) {
				ASSERT_EQ(ibv_next_poll(cq), 0);
			}
			EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
			EXPECT_EQ(cq->wr_id, next);
			EXPECT_EQ(ibv_wc_read_byte_len(cq), 10 + next % 10);
			next++;
		}
		if (next == 20) {
			EXPECT_EQ(ibv_next_poll(cq), ENOENT);
		}
		ibv_end_poll(cq);
	}
}

/* A program may arm a queue while it is at its entries. */
TEST_F(CqExTest, IsArmedWithinABatch)
{
	verbs::CompChannel channel(
		verbs::check(ibv_create_comp_channel(b.context()), "ibv_create_comp_channel"));
	ibv_cq_init_attr_ex attr{};
	PairConfig config;

	attr.cqe = 16;
	attr.channel = channel.get();
	attr.wc_flags = IBV_WC_STANDARD_FLAGS;
	cq = verbs::check(ibv_create_cq_ex(b.context(), &attr), "ibv_create_cq_ex");
	owner.reset(ibv_cq_ex_to_cq(cq));
	config.b.cq = owner.get();
	pair = connected(config);
	here.emplace(a.pd(), 4096);
	there.emplace(b.pd(), 4096);
	send(0, 1);
	ASSERT_EQ(poll(), 0);
	auto armed =
		std::async(std::launch::async, [&] { return ibv_req_notify_cq(owner.get(), 0); });
	EXPECT_EQ(armed.wait_for(soon), std::future_status::ready) << "waits for the batch to end";
	EXPECT_EQ(ibv_next_poll(cq), ENOENT);
	ibv_end_poll(cq);
	EXPECT_EQ(armed.get(), 0);
	send(1, 1);
	ASSERT_TRUE(verbs::readable(channel->fd, soon));
	ibv_cq *which;
	void *context;
	ASSERT_EQ(ibv_get_cq_event(channel.get(), &which, &context), 0);
	EXPECT_EQ(which, owner.get());
	ibv_ack_cq_events(which, 1);
	EXPECT_COMPLETED(wait_cq(owner.get(), 1)[0], 1, IBV_WC_RECV);
	/* The channel goes with this function. */
	pair = {};
	owner.reset();
}

TEST_F(CqExTest, AnEmptyQueueIsNotHeld)
{
	ibv_poll_cq_attr none{}, unknown{1};
	ibv_wc wc;

	start();
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(ibv_start_poll(cq, &none), ENOENT);
	EXPECT_EQ(ibv_start_poll(cq, &unknown), EINVAL);
	EXPECT_EQ(ibv_poll_cq(owner.get(), 1, &wc), 0);
	/* Both interfaces serve one queue. */
	send(5, 2);
	EXPECT_COMPLETED(wait_cq(owner.get(), 1)[0], 5, IBV_WC_RECV);
	ASSERT_EQ(poll(), 0);
	EXPECT_EQ(cq->wr_id, 6u);
	ibv_end_poll(cq);
}

TEST_F(CqExTest, Fields)
{
	start();
	verbs::Mw mw(verbs::check(ibv_alloc_mw(b.pd(), IBV_MW_TYPE_2), "ibv_alloc_mw"));
	uint32_t rkey = ibv_inc_rkey(mw->rkey);
	Work bind = send_work(1, {}), imm = send_work(2, {here->sge(0, 33)});

	bind.wr.opcode = IBV_WR_BIND_MW;
	bind.wr.bind_mw.mw = mw.get();
	bind.wr.bind_mw.rkey = rkey;
	bind.wr.bind_mw.bind_info = {there->mr(), there->address(), 100, IBV_ACCESS_REMOTE_WRITE};
	ASSERT_EQ(pair.b->post(bind), 0);
	ASSERT_EQ(poll(), 0);
	EXPECT_EQ(cq->wr_id, 1u);
	EXPECT_EQ(cq->status, IBV_WC_SUCCESS);
	EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_BIND_MW);
	EXPECT_EQ(ibv_wc_read_qp_num(cq), pair.b->qp()->qp_num);
	EXPECT_EQ(ibv_wc_read_wc_flags(cq), 0u);
	ibv_end_poll(cq);

	imm.wr.opcode = IBV_WR_SEND_WITH_IMM;
	imm.wr.imm_data = htonl(0xabcd);
	ASSERT_EQ(pair.b->post_recv(7, {there->sge(0, 100)}), 0);
	ASSERT_EQ(pair.b->post_recv(8, {there->sge(0, 100)}), 0);
	ASSERT_EQ(pair.a->post(imm), 0);
	ASSERT_EQ(pair.a->post(send_invalidate_work(3, {here->sge(0, 44)}, rkey)), 0);
	pair.a->wait_send(2);
	ASSERT_EQ(poll(), 0);
	EXPECT_EQ(cq->wr_id, 7u);
	EXPECT_EQ(ibv_wc_read_opcode(cq), IBV_WC_RECV);
	EXPECT_EQ(ibv_wc_read_byte_len(cq), 33u);
	EXPECT_EQ(ibv_wc_read_wc_flags(cq), unsigned{IBV_WC_WITH_IMM});
	EXPECT_EQ(ibv_wc_read_imm_data(cq), htonl(0xabcd));
	EXPECT_EQ(ibv_wc_read_src_qp(cq), 0u);
	EXPECT_EQ(ibv_wc_read_slid(cq), 0u);
	EXPECT_EQ(ibv_wc_read_sl(cq), 0u);
	EXPECT_EQ(ibv_wc_read_dlid_path_bits(cq), 0u);
	ibv_end_poll(cq);
	ASSERT_EQ(poll(), 0);
	EXPECT_EQ(cq->wr_id, 8u);
	EXPECT_EQ(ibv_wc_read_byte_len(cq), 44u);
	EXPECT_EQ(ibv_wc_read_wc_flags(cq), unsigned{IBV_WC_WITH_INV});
	EXPECT_EQ(ibv_wc_read_invalidated_rkey(cq), rkey);
	ibv_end_poll(cq);
}

TEST_F(CqExTest, ErrorsAndTheirCause)
{
	start();
	/* An STag that does not exist: RDMAP's remote protection error, invalid STag. */
	ASSERT_EQ(pair.b->post(read_work(4, {there->sge(0, 10)}, 0x1000, 0x12345600)), 0);
	ASSERT_EQ(poll(), 0);
	EXPECT_EQ(cq->wr_id, 4u);
	EXPECT_EQ(cq->status, IBV_WC_REM_ACCESS_ERR);
	EXPECT_EQ(ibv_wc_read_vendor_err(cq), 0x0100u);
	ibv_end_poll(cq);
}

TEST_F(CqExTest, TimestampsAreOfTheQueriedClock)
{
	ibv_values_ex values{};
	auto clock = [&] {
		values.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
		EXPECT_EQ(ibv_query_rt_values_ex(b.context(), &values), 0);
		EXPECT_EQ(values.comp_mask, unsigned{IBV_VALUES_MASK_RAW_CLOCK});
		return static_cast<uint64_t>(values.raw_clock.tv_nsec);
	};

	start();
	uint64_t before = clock(), wall_before = now(CLOCK_REALTIME);
	send(0, 10);
	uint64_t after = clock(), wall_after = now(CLOCK_REALTIME), last = before;
	ASSERT_EQ(poll(), 0);
	for (int i = 0; i < 10; i++) {
		if (i) {
			ASSERT_EQ(ibv_next_poll(cq), 0);
		}
		auto stamp = ibv_wc_read_completion_ts(cq);
		EXPECT_GE(stamp, last);
		EXPECT_LE(stamp, after);
		last = stamp;
		/* Two clocks are read for it, one after the other. */
		auto wall = ibv_wc_read_completion_wallclock_ns(cq);
		EXPECT_GE(wall, wall_before);
		EXPECT_LE(wall, wall_after + 1000000000);
	}
	ibv_end_poll(cq);

	ibv_device_attr_ex attr{};
	ASSERT_EQ(ibv_query_device_ex(b.context(), nullptr, &attr), 0);
	EXPECT_EQ(attr.hca_core_clock, 1000000u) << "kHz of a clock of nanoseconds";
	EXPECT_EQ(attr.completion_timestamp_mask, UINT64_MAX);
}

TEST_F(CqExTest, SingleThreaded)
{
	start(IBV_WC_STANDARD_FLAGS, IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	send(0, 3);
	ASSERT_EQ(poll(), 0);
	EXPECT_EQ(ibv_next_poll(cq), 0);
	EXPECT_EQ(cq->wr_id, 1u);
	ibv_end_poll(cq);
	EXPECT_COMPLETED(wait_cq(owner.get(), 1)[0], 2, IBV_WC_RECV);
}

/* What there is no room for is lost, and nothing else happens. */
TEST_F(CqExTest, IgnoredOverrun)
{
	start(IBV_WC_STANDARD_FLAGS, IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN, 4);
	ASSERT_EQ(cq->cqe, 4);
	send(0, 10);
	for (auto id = 0; id < 4; id++)
		EXPECT_COMPLETED(wait_cq(owner.get(), 1)[0], id, IBV_WC_RECV);
	ibv_poll_cq_attr none{};
	EXPECT_EQ(ibv_start_poll(cq, &none), ENOENT);
	send(20, 3);
	for (auto id = 20; id < 23; id++)
		EXPECT_COMPLETED(wait_cq(owner.get(), 1)[0], id, IBV_WC_RECV);
	EXPECT_EQ(pair.b->state(), IBV_QPS_RTS);
	EXPECT_FALSE(b.async_event(static_cast<const void *>(owner.get()), moment));
}

TEST_F(CqExTest, WhatIsNotOfferedIsRefused)
{
	const uint64_t fields[] = {IBV_WC_EX_WITH_CVLAN, IBV_WC_EX_WITH_FLOW_TAG,
				   IBV_WC_EX_WITH_TM_INFO};
	ibv_cq_init_attr_ex attr{};

	for (auto field : fields) {
		EXPECT_EQ(make(a.context(), 4, uint64_t{IBV_WC_STANDARD_FLAGS} | field), nullptr);
		EXPECT_EQ(errno, EOPNOTSUPP);
	}
	EXPECT_EQ(make(a.context(), 4, 0, 1u << 30), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
	attr.cqe = 4;
	attr.comp_mask = 1u << 30;
	EXPECT_EQ(ibv_create_cq_ex(a.context(), &attr), nullptr);
	EXPECT_EQ(make(a.context(), 0, 0), nullptr);
	EXPECT_EQ(make(a.context(), static_cast<uint32_t>(a.attributes().max_cqe) + 1, 0), nullptr);
}

/* What has no place in iWARP or in software is announced by no attribute. */
TEST_F(CqExTest, DeviceAnnouncesWhatThereIs)
{
	ibv_device_attr_ex attr{};

	ASSERT_EQ(ibv_query_device_ex(a.context(), nullptr, &attr), 0);
	EXPECT_EQ(attr.phys_port_cnt_ex, 1u);
	EXPECT_EQ(attr.tso_caps.max_tso, 0u);
	EXPECT_EQ(attr.rss_caps.supported_qpts, 0u);
	EXPECT_EQ(attr.max_wq_type_rq, 0u);
	EXPECT_EQ(attr.packet_pacing_caps.supported_qpts, 0u);
	EXPECT_EQ(attr.raw_packet_caps, 0u);
	EXPECT_EQ(attr.tm_caps.max_num_tags, 0u);
	EXPECT_EQ(attr.max_dm_size, 0u);
	EXPECT_EQ(attr.xrc_odp_caps, 0u);
	EXPECT_EQ(attr.orig_attr.max_ah, 0);
	EXPECT_EQ(attr.orig_attr.max_mcast_grp, 0);
	EXPECT_EQ(attr.orig_attr.atomic_cap, IBV_ATOMIC_GLOB);
}

} // namespace
