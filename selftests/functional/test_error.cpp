// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Every misuse ends its own queue pair, with the right status and Terminate code, and harms nothing
 * else: other queue pairs go on, and no byte outside of what was allowed is written.
 */
#include <algorithm>

#include "fixture.h"

namespace {

/* Layer, type and code as RFC 5040, 4.8 and RFC 5041, 7.2 have them; layout as in
 * ziw_cqe.vendor_err. */
enum Terminate : uint32_t {
	term_none = 0,
	rdmap_invalid_stag = 0x0100,
	rdmap_bounds = 0x0101,
	rdmap_access = 0x0102,
	rdmap_not_associated = 0x0103,
	rdmap_to_wrap = 0x0104,
	rdmap_cannot_invalidate = 0x0109,
	ddp_invalid_stag = 0x1100,
	ddp_bounds = 0x1101,
	ddp_not_associated = 0x1102,
	ddp_to_wrap = 0x1103,
	ddp_no_buffer = 0x1202,
	ddp_too_long = 0x1205,
};

std::string event_name(const std::optional<AsyncEvent> &event)
{
	return event ? ibv_event_type_str(event->type) : "none";
}

class ErrorTest : public VerbsTest {
protected:
	static constexpr std::size_t size = 20000;
	static constexpr uint64_t pending = 5000;

	void SetUp() override
	{
		a.discard_async_events();
		b.discard_async_events();
		witness = connected();
		pair = connected();
		here.emplace(a.pd(), size);
		there.emplace(b.pd(), size);
		here->fill(1);
		there->clear();
	}

	/* Other drivers have other uses for vendor_err. */
	void expect_code(const ibv_wc &wc, uint32_t code)
	{
		if (a.is_ziw()) {
			EXPECT_TRUE(wc.vendor_err == code || (also && wc.vendor_err == also))
				<< std::hex << "vendor_err " << wc.vendor_err << ", expected "
				<< code;
		}
	}

	/* Receives on the failing side of no use to anyone, there to be flushed. */
	void post_pending(Endpoint &end, unsigned count = 3)
	{
		for (unsigned i = 0; i < count; i++)
			ASSERT_EQ(end.post_recv(pending + i), 0);
	}

	void expect_flushed(Endpoint &end, uint32_t code, unsigned count = 3)
	{
		uint64_t id = pending;
		for (auto &wc : end.wait_recv(count)) {
			EXPECT_EQ(wc.wr_id, id++);
			EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR) << ibv_wc_status_str(wc.status);
			expect_code(wc, code);
		}
	}

	/* The connection is over at both ends, both know, and what is posted now is flushed. */
	void expect_dead()
	{
		for (auto *end : {pair.a.get(), pair.b.get()}) {
			SCOPED_TRACE(end == pair.a.get() ? "at a" : "at b");
			EXPECT_TRUE(end->reaches(IBV_QPS_ERR)) << "state " << end->state();
			end->event(RDMA_CM_EVENT_DISCONNECTED);
			ASSERT_EQ(end->post(send_work(9000, {})), 0);
			ASSERT_EQ(end->post_recv(9001), 0);
			auto sent = end->wait_send()[0], received = end->wait_recv()[0];
			EXPECT_EQ(sent.status, IBV_WC_WR_FLUSH_ERR);
			EXPECT_EQ(sent.wr_id, 9000u);
			EXPECT_EQ(received.status, IBV_WC_WR_FLUSH_ERR);
			EXPECT_EQ(received.wr_id, 9001u);
		}
	}

	/* The other pair, with the same protection domains, moves data as if nothing had been. */
	void expect_no_harm()
	{
		Region from(a.pd(), size), to(b.pd(), size), back(a.pd(), size);

		from.fill(77);
		ASSERT_EQ(witness.a->post(write_work(1, {from.sge()}, to.address(), to.rkey())), 0);
		ASSERT_EQ(witness.a->post(read_work(2, {back.sge()}, to.address(), to.rkey())), 0);
		for (auto &wc : witness.a->wait_send(2))
			EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
		synchronize(*witness.a, *witness.b);
		synchronize(*witness.b, *witness.a);
		EXPECT_EQ(differs_from_pattern(to.data(), size, 77), "");
		EXPECT_EQ(differs_from_pattern(back.data(), size, 77), "");
		EXPECT_EQ(witness.a->state(), IBV_QPS_RTS);
		EXPECT_EQ(witness.b->state(), IBV_QPS_RTS);
		EXPECT_EQ(here->harmed() + there->harmed(), "");
		EXPECT_FALSE(a.async_event(witness.a->qp(), verbs::milliseconds(0)));
		EXPECT_FALSE(b.async_event(witness.b->qp(), verbs::milliseconds(0)));
	}

	/*
	 * b refuses what a asked for: a Write or Send may have completed at a before (RFC 5040, 7);
	 * if not, it carries `status`. Both ends know the code; b, and a unless its completion said
	 * so, get an asynchronous event.
	 */
	void expect_remote_refusal(Work work, ibv_wc_status status, ibv_event_type event_at_b,
				   uint32_t code, unsigned pending_at_b = 3)
	{
		bool is_read = work.wr.opcode == IBV_WR_RDMA_READ;

		post_pending(*pair.a);
		post_pending(*pair.b, pending_at_b);
		auto id = work.wr.wr_id;
		ASSERT_EQ(pair.a->post(std::move(work)), 0);
		auto wc = pair.a->wait_send()[0];
		EXPECT_EQ(wc.wr_id, id);
		if (is_read || wc.status != IBV_WC_SUCCESS) {
			EXPECT_EQ(wc.status, status) << ibv_wc_status_str(wc.status);
			expect_code(wc, code);
		} else {
			auto event = pair.a->async_event();
			EXPECT_TRUE(event && (event->type == IBV_EVENT_QP_FATAL ||
					      event->type == IBV_EVENT_QP_REQ_ERR ||
					      event->type == IBV_EVENT_QP_ACCESS_ERR))
				<< event_name(event);
		}
		auto event = pair.b->async_event();
		ASSERT_TRUE(event) << "no async event at the side that found the fault";
		EXPECT_EQ(event->type, event_at_b) << event_name(event);
		expect_flushed(*pair.a, code);
		expect_flushed(*pair.b, code, pending_at_b);
		expect_dead();
		expect_no_harm();
	}

	/* A fault of a's own: its completion says so, b only sees the end. */
	void expect_local_error(Work work, ibv_wc_status status)
	{
		post_pending(*pair.a);
		post_pending(*pair.b);
		auto id = work.wr.wr_id;
		ASSERT_EQ(pair.a->post(std::move(work)), 0);
		/* One that is behind it in the queue. */
		pair.a->post(send_work(8000, {}));
		auto done = pair.a->wait_send(2);
		EXPECT_EQ(done[0].wr_id, id);
		EXPECT_EQ(done[0].status, status) << ibv_wc_status_str(done[0].status);
		EXPECT_EQ(done[1].wr_id, 8000u);
		EXPECT_EQ(done[1].status, IBV_WC_WR_FLUSH_ERR) << ibv_wc_status_str(done[1].status);
		/* RFC 5040, 7.1, case 1: a local catastrophic error; any code goes with it. */
		for (auto *end : {pair.a.get(), pair.b.get()}) {
			for (auto &wc : end->wait_recv(3)) {
				EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
				if (a.is_ziw()) {
					EXPECT_EQ(wc.vendor_err & ~0xffu, 0u)
						<< std::hex << wc.vendor_err;
				}
			}
		}
		expect_dead();
		expect_no_harm();
	}

	Work to_peer(ibv_wr_opcode opcode, uint64_t address, uint32_t rkey,
		     std::size_t length = 1000)
	{
		return opcode == IBV_WR_RDMA_READ
			       ? read_work(1, {here->sge(0, length)}, address, rkey)
			       : write_work(1, {here->sge(0, length)}, address, rkey);
	}

	/* After a refused Write nothing was placed; after a refused Read nothing arrived. */
	void expect_nothing_moved()
	{
		EXPECT_EQ(there->touched(), "");
		EXPECT_EQ(differs_from_pattern(here->data(), size, 1), "");
	}

	Pair witness, pair;
	std::optional<Region> here, there;
	/* Another code that is as right: where two checks fail, their order is the driver's. */
	uint32_t also = 0;
};

uint32_t unknown_stag(const Region &region)
{
	/* Another index with the same key byte. */
	return region.rkey() ^ 0x5a5a5a00;
}

TEST_F(ErrorTest, WriteToUnknownStag)
{
	expect_remote_refusal(to_peer(IBV_WR_RDMA_WRITE, there->address(), unknown_stag(*there)),
			      IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, ddp_invalid_stag);
	expect_nothing_moved();
}

TEST_F(ErrorTest, WriteToStagWithWrongKey)
{
	expect_remote_refusal(to_peer(IBV_WR_RDMA_WRITE, there->address(), there->rkey() ^ 1),
			      IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, ddp_invalid_stag);
	expect_nothing_moved();
}

TEST_F(ErrorTest, WriteToStagZero)
{
	expect_remote_refusal(to_peer(IBV_WR_RDMA_WRITE, there->address(), 0),
			      IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, ddp_invalid_stag);
	expect_nothing_moved();
}

TEST_F(ErrorTest, ReadFromUnknownStag)
{
	expect_remote_refusal(to_peer(IBV_WR_RDMA_READ, there->address(), unknown_stag(*there)),
			      IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, rdmap_invalid_stag);
	expect_nothing_moved();
}

TEST_F(ErrorTest, WriteBeyondTheEnd)
{
	expect_remote_refusal(to_peer(IBV_WR_RDMA_WRITE, there->address(size - 999), there->rkey()),
			      IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, ddp_bounds);
	expect_nothing_moved();
}

TEST_F(ErrorTest, WriteBeforeTheBegin)
{
	expect_remote_refusal(to_peer(IBV_WR_RDMA_WRITE, there->address() - 1, there->rkey()),
			      IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, ddp_bounds);
	expect_nothing_moved();
}

/* What fits may be placed, segment by segment (RFC 5041, 5.3), but not one byte beyond. */
TEST_F(ErrorTest, LongWriteBeyondTheEnd)
{
	constexpr std::size_t length = 1 << 20;
	Region large(a.pd(), length), small(b.pd(), length - 1);

	large.fill(1);
	small.clear();
	expect_remote_refusal(write_work(1, {large.sge()}, small.address(), small.rkey()),
			      IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, ddp_bounds);
	EXPECT_EQ(small.harmed(), "");
}

TEST_F(ErrorTest, WriteThatWrapsTheAddress)
{
	also = ddp_bounds;
	expect_remote_refusal(to_peer(IBV_WR_RDMA_WRITE, UINT64_MAX - 10, there->rkey()),
			      IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, ddp_to_wrap);
	expect_nothing_moved();
}

TEST_F(ErrorTest, ReadBeyondTheEnd)
{
	expect_remote_refusal(to_peer(IBV_WR_RDMA_READ, there->address(size - 999), there->rkey()),
			      IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, rdmap_bounds);
	expect_nothing_moved();
}

TEST_F(ErrorTest, ReadThatWrapsTheAddress)
{
	also = rdmap_bounds;
	expect_remote_refusal(to_peer(IBV_WR_RDMA_READ, UINT64_MAX - 10, there->rkey()),
			      IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, rdmap_to_wrap);
	expect_nothing_moved();
}

/* RFC 5041 has no code for it, RFC 5040 has. */
TEST_F(ErrorTest, WriteWithoutTheRight)
{
	there.emplace(b.pd(), size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	expect_remote_refusal(to_peer(IBV_WR_RDMA_WRITE, there->address(), there->rkey()),
			      IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, rdmap_access);
	expect_nothing_moved();
}

TEST_F(ErrorTest, ReadWithoutTheRight)
{
	there.emplace(b.pd(), size, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	expect_remote_refusal(to_peer(IBV_WR_RDMA_READ, there->address(), there->rkey()),
			      IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, rdmap_access);
	expect_nothing_moved();
}

class WrongPdTest : public ErrorTest {
protected:
	verbs::Pd other_pd(Host &host)
	{
		return verbs::Pd(verbs::check(ibv_alloc_pd(host.context()), "ibv_alloc_pd"));
	}
};

TEST_F(WrongPdTest, Write)
{
	auto pd = other_pd(b);
	Region foreign(pd.get(), size);

	foreign.clear();
	expect_remote_refusal(to_peer(IBV_WR_RDMA_WRITE, foreign.address(), foreign.rkey()),
			      IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, ddp_not_associated);
	EXPECT_EQ(foreign.touched(), "");
}

TEST_F(WrongPdTest, Read)
{
	auto pd = other_pd(b);
	Region foreign(pd.get(), size);

	expect_remote_refusal(to_peer(IBV_WR_RDMA_READ, foreign.address(), foreign.rkey()),
			      IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, rdmap_not_associated);
	expect_nothing_moved();
}

TEST_F(WrongPdTest, LocalSource)
{
	auto pd = other_pd(a);
	Region foreign(pd.get(), size);

	expect_local_error(write_work(1, {foreign.sge()}, there->address(), there->rkey()),
			   IBV_WC_LOC_PROT_ERR);
	expect_nothing_moved();
}

TEST_F(WrongPdTest, LocalReadSink)
{
	auto pd = other_pd(a);
	Region foreign(pd.get(), size);

	foreign.clear();
	expect_local_error(read_work(1, {foreign.sge()}, there->address(), there->rkey()),
			   IBV_WC_LOC_PROT_ERR);
	EXPECT_EQ(foreign.touched(), "");
}

TEST_F(ErrorTest, LocalUnknownStag)
{
	auto sge = here->sge(0, 1000);
	sge.lkey = unknown_stag(*here);
	expect_local_error(send_work(1, {sge}), IBV_WC_LOC_PROT_ERR);
	expect_nothing_moved();
}

TEST_F(ErrorTest, LocalUnknownStagOfTheLastSge)
{
	auto bad = here->sge(100, 100);
	bad.lkey ^= 1;
	expect_local_error(write_work(1, {here->sge(0, 100), bad}, there->address(), there->rkey()),
			   IBV_WC_LOC_PROT_ERR);
	expect_nothing_moved();
}

TEST_F(ErrorTest, LocalBounds)
{
	expect_local_error(write_work(1, {here->sge(1, size)}, there->address(), there->rkey()),
			   IBV_WC_LOC_PROT_ERR);
	/* The segments before the fault may have gone out, but never a byte from outside the
	 * region. */
	std::size_t moved = size;
	while (moved && there->data()[moved - 1] == 0xc5)
		moved--;
	EXPECT_LT(moved, size);
	EXPECT_EQ(differs(there->data(), here->data() + 1, moved), "");
}

TEST_F(ErrorTest, LocalReadSinkWithoutTheRight)
{
	Region read_only(a.pd(), size, 0);

	read_only.clear();
	expect_local_error(read_work(1, {read_only.sge()}, there->address(), there->rkey()),
			   IBV_WC_LOC_PROT_ERR);
	EXPECT_EQ(read_only.touched(), "");
}

/* The receive is bad: the receiver's fault, found when a Send wants the buffer. */
class BadReceiveTest : public ErrorTest {
protected:
	void run(std::vector<ibv_sge> sges, std::size_t length = 1000)
	{
		post_pending(*pair.a);
		ASSERT_EQ(pair.b->post_recv(1, std::move(sges)), 0);
		post_pending(*pair.b);
		ASSERT_EQ(pair.a->post(send_work(1, {here->sge(0, length)})), 0);
		pair.a->wait_send();
		auto wc = pair.b->wait_recv()[0];
		EXPECT_EQ(wc.wr_id, 1u);
		EXPECT_EQ(wc.status, IBV_WC_LOC_PROT_ERR) << ibv_wc_status_str(wc.status);
		for (auto *end : {pair.a.get(), pair.b.get()})
			for (auto &flushed : end->wait_recv(3))
				EXPECT_EQ(flushed.status, IBV_WC_WR_FLUSH_ERR);
		expect_dead();
		expect_no_harm();
	}
};

TEST_F(BadReceiveTest, UnknownStag)
{
	auto sge = there->sge();
	sge.lkey = unknown_stag(*there);
	run({sge});
	expect_nothing_moved();
}

TEST_F(BadReceiveTest, Bounds)
{
	run({there->sge(1, size)}, size);
}

TEST_F(BadReceiveTest, WithoutTheRight)
{
	Region read_only(b.pd(), size, IBV_ACCESS_REMOTE_READ);

	read_only.clear();
	run({read_only.sge()});
	EXPECT_EQ(read_only.touched(), "");
}

TEST_F(BadReceiveTest, WrongPd)
{
	verbs::Pd pd(verbs::check(ibv_alloc_pd(b.context()), "ibv_alloc_pd"));
	Region foreign(pd.get(), size);

	foreign.clear();
	run({foreign.sge()});
	EXPECT_EQ(foreign.touched(), "");
}

/* Sizes within one segment and of many. */
class TooLongTest : public ErrorTest, public testing::WithParamInterface<std::size_t> {};

TEST_P(TooLongTest, SendForItsReceive)
{
	auto length = GetParam();
	Region large(a.pd(), length), small(b.pd(), std::max<std::size_t>(length - 1, 1));

	large.fill(1);
	small.clear();
	post_pending(*pair.a);
	ASSERT_EQ(pair.b->post_recv(1, {small.sge(0, length - 1)}), 0);
	post_pending(*pair.b);
	ASSERT_EQ(pair.a->post(send_work(1, {large.sge()})), 0);
	auto sent = pair.a->wait_send()[0];
	if (sent.status != IBV_WC_SUCCESS) {
		EXPECT_EQ(sent.status, IBV_WC_REM_INV_REQ_ERR) << ibv_wc_status_str(sent.status);
	}
	auto wc = pair.b->wait_recv()[0];
	EXPECT_EQ(wc.wr_id, 1u);
	EXPECT_EQ(wc.status, IBV_WC_LOC_LEN_ERR) << ibv_wc_status_str(wc.status);
	expect_code(wc, ddp_too_long);
	expect_flushed(*pair.a, ddp_too_long);
	expect_flushed(*pair.b, ddp_too_long);
	expect_dead();
	expect_no_harm();
	EXPECT_EQ(small.harmed(), "");
}

INSTANTIATE_TEST_SUITE_P(Error, TooLongTest,
			 testing::Values(std::size_t(1), std::size_t(1000), std::size_t(100000)),
			 testing::PrintToStringParamName());

TEST_F(ErrorTest, NoReceivePosted)
{
	expect_remote_refusal(send_work(1, {here->sge(0, 1000)}), IBV_WC_REM_INV_REQ_ERR,
			      IBV_EVENT_QP_REQ_ERR, ddp_no_buffer, 0);
}

TEST_F(ErrorTest, NoReceiveLeftInTheSrq)
{
	ibv_srq_init_attr init{};
	init.attr.max_wr = 4;
	init.attr.max_sge = 1;
	verbs::Srq srq(verbs::check(ibv_create_srq(b.pd(), &init), "ibv_create_srq"));
	PairConfig config;
	config.b.srq = srq.get();
	auto shared = connected(config);

	ASSERT_EQ(shared.a->post(send_work(1, {here->sge(0, 1000)})), 0);
	EXPECT_TRUE(shared.b->reaches(IBV_QPS_ERR));
	EXPECT_TRUE(shared.a->reaches(IBV_QPS_ERR));
	expect_no_harm();
}

/* A plain region of a user cannot be invalidated from afar, and must not be. */
TEST_F(ErrorTest, InvalidateOfAPlainRegion)
{
	auto other = connected();

	post_pending(*pair.a);
	ASSERT_EQ(pair.b->post_recv(1, {there->sge()}), 0);
	post_pending(*pair.b);
	ASSERT_EQ(pair.a->post(send_invalidate_work(1, {here->sge(0, 1000)}, there->rkey())), 0);
	pair.a->wait_send();
	auto wc = pair.b->wait_recv()[0];
	EXPECT_NE(wc.status, IBV_WC_SUCCESS) << "invalidated a region that the user registered";
	EXPECT_EQ(wc.wr_id, 1u);
	expect_flushed(*pair.a, rdmap_cannot_invalidate);
	expect_flushed(*pair.b, rdmap_cannot_invalidate);
	expect_dead();
	/* The region is as valid as before. */
	there->clear();
	ASSERT_EQ(other.a->post(write_work(2, {here->sge()}, there->address(), there->rkey())), 0);
	EXPECT_COMPLETED(other.a->wait_send()[0], 2, IBV_WC_RDMA_WRITE);
	synchronize(*other.a, *other.b);
	EXPECT_EQ(differs_from_pattern(there->data(), size, 1), "");
	expect_no_harm();
}

TEST_F(ErrorTest, InvalidateOfAnUnknownStag)
{
	/* RFC 5040 asks for a valid STag (7.2) as well as for one that can be invalidated (5.3). */
	also = rdmap_cannot_invalidate;
	post_pending(*pair.a);
	ASSERT_EQ(pair.b->post_recv(1, {there->sge()}), 0);
	post_pending(*pair.b);
	ASSERT_EQ(pair.a->post(send_invalidate_work(1, {here->sge(0, 1000)}, unknown_stag(*there))),
		  0);
	pair.a->wait_send();
	EXPECT_NE(pair.b->wait_recv()[0].status, IBV_WC_SUCCESS);
	expect_flushed(*pair.a, rdmap_invalid_stag);
	expect_flushed(*pair.b, rdmap_invalid_stag);
	expect_dead();
	expect_no_harm();
}

/* With an ORD of 0 there is no Read; the QP or the post says so, and nothing waits for ever. */
TEST_F(ErrorTest, ReadWithOrdZero)
{
	PairConfig config;
	config.active.initiator_depth = config.passive.responder_resources = 0;
	auto none = connected(config);
	auto attr = none.a->query(IBV_QP_MAX_QP_RD_ATOMIC);

	if (attr.max_rd_atomic != 0)
		GTEST_SKIP() << "the connection came up with an ORD of " << int(attr.max_rd_atomic);
	if (none.a->post(read_work(1, {here->sge(0, 1000)}, there->address(), there->rkey())))
		return;
	auto wc = none.a->wait_send()[0];
	EXPECT_EQ(wc.status, IBV_WC_LOC_QP_OP_ERR) << ibv_wc_status_str(wc.status);
	expect_no_harm();
}

/* More Reads than the ORD wait for their turn. */
TEST_F(ErrorTest, ReadsBeyondTheOrdWait)
{
	PairConfig config;
	config.active.initiator_depth = config.passive.responder_resources = 1;
	auto one = connected(config);

	there->fill(4);
	std::vector<Work> works;
	for (uint64_t i = 0; i < 50; i++)
		works.push_back(read_work(i, {here->sge(i * 100, 100)}, there->address(i * 100),
					  there->rkey()));
	ASSERT_EQ(one.a->post(works), 0);
	uint64_t id = 0;
	for (auto &wc : one.a->wait_send(50))
		EXPECT_COMPLETED(wc, id++, IBV_WC_RDMA_READ);
	EXPECT_EQ(differs(here->data(), there->data(), 5000), "");
	expect_no_harm();
}

/* A QP whose own access flags forbid it refuses, whatever the region allows. */
TEST_F(ErrorTest, QueuePairWithoutRemoteAccess)
{
	ibv_qp_attr attr{};

	attr.qp_access_flags = 0;
	if (ibv_modify_qp(pair.b->qp(), &attr, IBV_QP_ACCESS_FLAGS))
		GTEST_SKIP() << "the driver changes no access flags in RTS";
	expect_remote_refusal(to_peer(IBV_WR_RDMA_WRITE, there->address(), there->rkey()),
			      IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR, rdmap_access);
	expect_nothing_moved();
}

} // namespace
