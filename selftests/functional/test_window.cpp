// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Memory windows of both types, and regions that are registered anew in place. */
#include <atomic>
#include <thread>

#include "fixture.h"

namespace {

constexpr int for_windows = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
constexpr unsigned remote_all =
	IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

struct MwDeleter {
	void operator()(ibv_mw *mw) const { ibv_dealloc_mw(mw); }
};
using Mw = std::unique_ptr<ibv_mw, MwDeleter>;

class WindowTest : public VerbsTest {
protected:
	static constexpr std::size_t size = 20000;

	void SetUp() override
	{
		a.discard_async_events();
		b.discard_async_events();
		pair = connected();
		here.emplace(a.pd(), size);
		here->fill(1);
		there.emplace(b.pd(), size, for_windows);
		there->clear();
	}

	Mw window(ibv_mw_type type, ibv_pd *pd = nullptr)
	{
		return Mw(verbs::check(ibv_alloc_mw(pd ? pd : b.pd(), type), "ibv_alloc_mw"));
	}

	ibv_mw_bind_info info(std::size_t offset, std::size_t length, unsigned access = remote_all)
	{
		return {there->mr(), there->address(offset), length, access};
	}

	/* Of type 1, by its verb. Returns the completion's status. */
	ibv_wc_status bind1(Mw &mw, const ibv_mw_bind_info &what)
	{
		ibv_mw_bind bind{};

		bind.wr_id = 7;
		bind.send_flags = IBV_SEND_SIGNALED;
		bind.bind_info = what;
		EXPECT_EQ(ibv_bind_mw(pair.b->qp(), mw.get(), &bind), 0);
		auto wc = pair.b->wait_send()[0];
		EXPECT_EQ(wc.wr_id, 7u);
		if (wc.status == IBV_WC_SUCCESS) {
			EXPECT_EQ(wc.opcode, IBV_WC_BIND_MW);
		}
		return wc.status;
	}

	/* Of type 2, by a work request. */
	ibv_wc_status bind2(Mw &mw, uint32_t rkey, const ibv_mw_bind_info &what)
	{
		Work work = send_work(8, {});

		work.wr.opcode = IBV_WR_BIND_MW;
		work.wr.bind_mw.mw = mw.get();
		work.wr.bind_mw.rkey = rkey;
		work.wr.bind_mw.bind_info = what;
		EXPECT_EQ(pair.b->post(work), 0);
		return pair.b->wait_send()[0].status;
	}

	ibv_wc_status write(Endpoint &from, uint32_t rkey, uint64_t address, std::size_t length)
	{
		EXPECT_EQ(from.post(write_work(1, {here->sge(0, length)}, address, rkey)), 0);
		auto status = from.wait_send()[0].status;
		if (status == IBV_WC_SUCCESS)
			synchronize(from, *pair.b);
		return status;
	}
	ibv_wc_status write(uint32_t rkey, std::size_t offset, std::size_t length)
	{
		return write(*pair.a, rkey, there->address(offset), length);
	}

	/* A Write may complete before it is refused: the connection tells. */
	void expect_refused(uint32_t rkey, std::size_t offset, std::size_t length)
	{
		EXPECT_EQ(pair.a->post(write_work(1, {here->sge(0, length)}, there->address(offset),
						  rkey)),
			  0);
		EXPECT_TRUE(pair.a->reaches(IBV_QPS_ERR));
		EXPECT_TRUE(pair.b->reaches(IBV_QPS_ERR));
	}

	Pair pair;
	std::optional<Region> here, there;
};

TEST_F(WindowTest, AreAnnounced)
{
	ibv_device_attr attr{};

	ASSERT_EQ(ibv_query_device(a.context(), &attr), 0);
	EXPECT_GT(attr.max_mw, 0);
	EXPECT_TRUE(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW);
	EXPECT_TRUE(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
}

TEST_F(WindowTest, Type1GivesPartOfARegion)
{
	auto mw = window(IBV_MW_TYPE_1);

	ASSERT_EQ(bind1(mw, info(1000, 5000)), IBV_WC_SUCCESS);
	EXPECT_EQ(write(mw->rkey, 1000, 5000), IBV_WC_SUCCESS);
	EXPECT_EQ(differs_from_pattern(there->data() + 1000, 5000, 1), "");
	EXPECT_EQ(there->data()[999], 0xc5);
	EXPECT_EQ(there->data()[6000], 0xc5);
	ASSERT_EQ(pair.a->post(
			  read_work(2, {here->sge(10000, 5000)}, there->address(1000), mw->rkey)),
		  0);
	EXPECT_COMPLETED(pair.a->wait_send()[0], 2, IBV_WC_RDMA_READ);
	EXPECT_EQ(differs_from_pattern(here->data() + 10000, 5000, 1), "");
	expect_refused(mw->rkey, 999, 10);
	EXPECT_EQ(there->data()[999], 0xc5);
}

TEST_F(WindowTest, HasTheRightsOfTheBind)
{
	auto mw = window(IBV_MW_TYPE_1);

	ASSERT_EQ(bind1(mw, info(0, size, IBV_ACCESS_REMOTE_READ)), IBV_WC_SUCCESS);
	ASSERT_EQ(pair.a->post(read_work(2, {here->sge(0, 100)}, there->address(), mw->rkey)), 0);
	EXPECT_COMPLETED(pair.a->wait_send()[0], 2, IBV_WC_RDMA_READ);
	here->fill(1);
	expect_refused(mw->rkey, 0, 10);
	EXPECT_EQ(there->touched(), "");
}

TEST_F(WindowTest, RebindingChangesTheKey)
{
	auto mw = window(IBV_MW_TYPE_1);

	ASSERT_EQ(bind1(mw, info(0, 100)), IBV_WC_SUCCESS);
	auto old = mw->rkey;
	ASSERT_EQ(bind1(mw, info(200, 100)), IBV_WC_SUCCESS);
	EXPECT_NE(mw->rkey, old);
	EXPECT_EQ(write(mw->rkey, 200, 100), IBV_WC_SUCCESS);
	expect_refused(old, 200, 100);
}

TEST_F(WindowTest, UnboundByLengthZero)
{
	auto mw = window(IBV_MW_TYPE_1);

	ASSERT_EQ(bind1(mw, info(0, 100)), IBV_WC_SUCCESS);
	EXPECT_EQ(ibv_dereg_mr(there->mr()), EBUSY);
	ASSERT_EQ(bind1(mw, info(0, 0)), IBV_WC_SUCCESS);
	expect_refused(mw->rkey, 0, 10);
	EXPECT_EQ(there->touched(), "");
}

TEST_F(WindowTest, BindNeedsTheRightsAndTheRange)
{
	Region plain(b.pd(), 100), read_only(b.pd(), 100, IBV_ACCESS_MW_BIND);
	const ibv_mw_bind_info bad[] = {
		info(0, size + 1),
		info(size, 1),
		{plain.mr(), plain.address(), 100, IBV_ACCESS_REMOTE_READ},
		{read_only.mr(), read_only.address(), 100, IBV_ACCESS_REMOTE_WRITE},
		info(0, 100, IBV_ACCESS_LOCAL_WRITE),
	};

	for (auto &what : bad) {
		SCOPED_TRACE(&what - bad);
		pair = connected();
		auto mw = window(IBV_MW_TYPE_1);
		EXPECT_EQ(bind1(mw, what), IBV_WC_MW_BIND_ERR);
		EXPECT_TRUE(pair.b->reaches(IBV_QPS_ERR));
	}
}

TEST_F(WindowTest, Type2BelongsToItsQueuePair)
{
	auto other = connected();
	auto mw = window(IBV_MW_TYPE_2);
	auto rkey = ibv_inc_rkey(mw->rkey);

	ASSERT_EQ(bind2(mw, rkey, info(0, 1000)), IBV_WC_SUCCESS);
	EXPECT_EQ(write(rkey, 0, 1000), IBV_WC_SUCCESS);
	ASSERT_EQ(other.a->post(write_work(1, {here->sge(0, 10)}, there->address(), rkey)), 0);
	EXPECT_TRUE(other.a->reaches(IBV_QPS_ERR));
	/* The one that it belongs to goes on. */
	EXPECT_EQ(write(rkey, 0, 1000), IBV_WC_SUCCESS);
}

TEST_F(WindowTest, Type2IsInvalidatedLocally)
{
	auto mw = window(IBV_MW_TYPE_2);
	auto rkey = ibv_inc_rkey(mw->rkey);
	Work invalidate = send_work(9, {});

	invalidate.wr.opcode = IBV_WR_LOCAL_INV;
	invalidate.wr.invalidate_rkey = rkey;
	ASSERT_EQ(bind2(mw, rkey, info(0, 1000)), IBV_WC_SUCCESS);
	ASSERT_EQ(pair.b->post(invalidate), 0);
	EXPECT_EQ(pair.b->wait_send()[0].status, IBV_WC_SUCCESS);
	/* And may be bound anew. */
	rkey = ibv_inc_rkey(rkey);
	ASSERT_EQ(bind2(mw, rkey, info(500, 1000)), IBV_WC_SUCCESS);
	EXPECT_EQ(write(rkey, 500, 1000), IBV_WC_SUCCESS);
	/* But not while it is valid. */
	EXPECT_EQ(bind2(mw, ibv_inc_rkey(rkey), info(0, 10)), IBV_WC_MW_BIND_ERR);
}

TEST_F(WindowTest, Type2IsInvalidatedByThePeer)
{
	auto mw = window(IBV_MW_TYPE_2);
	auto rkey = ibv_inc_rkey(mw->rkey);

	ASSERT_EQ(bind2(mw, rkey, info(0, 1000)), IBV_WC_SUCCESS);
	ASSERT_EQ(pair.b->post_recv(3), 0);
	ASSERT_EQ(pair.a->post(send_invalidate_work(4, {}, rkey)), 0);
	EXPECT_COMPLETED(pair.a->wait_send()[0], 4, IBV_WC_SEND);
	auto wc = pair.b->wait_recv()[0];
	EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_INV);
	EXPECT_EQ(wc.invalidated_rkey, rkey);
	expect_refused(rkey, 0, 10);
}

TEST_F(WindowTest, Type2IsInvalidatedWithASolicitedEvent)
{
	auto mw = window(IBV_MW_TYPE_2);
	auto rkey = ibv_inc_rkey(mw->rkey);

	ASSERT_EQ(bind2(mw, rkey, info(0, 1000)), IBV_WC_SUCCESS);
	ASSERT_EQ(pair.b->post_recv(3), 0);
	ASSERT_EQ(pair.a->post(send_invalidate_work(4, {}, rkey).flags(IBV_SEND_SOLICITED)), 0);
	EXPECT_COMPLETED(pair.a->wait_send()[0], 4, IBV_WC_SEND);
	auto wc = pair.b->wait_recv()[0];
	EXPECT_TRUE(wc.wc_flags & IBV_WC_WITH_INV);
	EXPECT_EQ(wc.invalidated_rkey, rkey);
	expect_refused(rkey, 0, 10);
}

TEST_F(WindowTest, Type1IsNotInvalidated)
{
	auto mw = window(IBV_MW_TYPE_1);

	ASSERT_EQ(bind1(mw, info(0, 1000)), IBV_WC_SUCCESS);
	ASSERT_EQ(pair.b->post_recv(3), 0);
	ASSERT_EQ(pair.a->post(send_invalidate_work(4, {}, mw->rkey)), 0);
	EXPECT_TRUE(pair.a->reaches(IBV_QPS_ERR));
}

TEST_F(WindowTest, ZeroBased)
{
	auto mw = window(IBV_MW_TYPE_1);

	ASSERT_EQ(bind1(mw, info(5000, 9000, remote_all | IBV_ACCESS_ZERO_BASED)), IBV_WC_SUCCESS);
	EXPECT_EQ(write(*pair.a, mw->rkey, 0, 9000), IBV_WC_SUCCESS);
	EXPECT_EQ(differs_from_pattern(there->data() + 5000, 9000, 1), "");
}

TEST_F(WindowTest, IsNoLocalKey)
{
	auto mw = window(IBV_MW_TYPE_1);

	ASSERT_EQ(bind1(mw, info(0, 1000)), IBV_WC_SUCCESS);
	ASSERT_EQ(pair.b->post(write_work(1, {{there->address(), 10, mw->rkey}}, here->address(),
					  here->rkey())),
		  0);
	EXPECT_EQ(pair.b->wait_send()[0].status, IBV_WC_LOC_PROT_ERR);
}

/*
 * Windows end while binds to them are carried out: the region, which is registered for as long as
 * windows are bound to it, can be deregistered after all.
 */
TEST_F(WindowTest, EndsWhileItIsBound)
{
	verbs::Pages pages(4096);
	auto *region =
		verbs::check(ibv_reg_mr(b.pd(), pages.data(), 4096, for_windows), "ibv_reg_mr");
	std::atomic<uint32_t> rkey{0};
	std::atomic<bool> stop{false};
	std::thread binder([&] {
		while (!stop) {
			/* What the provider looks at of a window; that itself may be gone. */
			ibv_mw mw{};
			mw.context = b.context();
			mw.pd = b.pd();
			mw.type = IBV_MW_TYPE_2;
			mw.rkey = rkey.exchange(0);
			if (!mw.rkey)
				continue;
			Work bind = send_work(1, {});
			bind.wr.opcode = IBV_WR_BIND_MW;
			bind.wr.bind_mw.mw = &mw;
			bind.wr.bind_mw.rkey = ibv_inc_rkey(mw.rkey);
			bind.wr.bind_mw.bind_info = {region,
						     reinterpret_cast<uintptr_t>(pages.data()), 100,
						     IBV_ACCESS_REMOTE_READ};
			if (pair.b->post(bind) || pair.b->wait_send()[0].status != IBV_WC_SUCCESS)
				pair = connected();
		}
	});

	for (unsigned i = 0; i < rounds(200); i++) {
		auto mw = window(IBV_MW_TYPE_2);
		rkey = mw->rkey;
		auto until = verbs::Clock::now() + std::chrono::microseconds(random() % 100);
		while (verbs::Clock::now() < until)
			;
	}
	stop = true;
	binder.join();
	EXPECT_EQ(ibv_dereg_mr(region), 0);
}

class ReregisterTest : public WindowTest {};

TEST_F(ReregisterTest, RightsComeAndGo)
{
	Region region(b.pd(), 4096, IBV_ACCESS_REMOTE_READ);

	ASSERT_EQ(ibv_rereg_mr(region.mr(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
			       Region::all),
		  0);
	EXPECT_EQ(write(*pair.a, region.rkey(), region.address(), 4096), IBV_WC_SUCCESS);
	EXPECT_EQ(differs_from_pattern(region.data(), 4096, 1), "");
	ASSERT_EQ(ibv_rereg_mr(region.mr(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
			       IBV_ACCESS_REMOTE_READ),
		  0);
	ASSERT_EQ(pair.a->post(write_work(1, {here->sge(0, 1)}, region.address(), region.rkey())),
		  0);
	EXPECT_TRUE(pair.a->reaches(IBV_QPS_ERR));
}

TEST_F(ReregisterTest, AnotherDomain)
{
	verbs::Pd other(verbs::check(ibv_alloc_pd(b.context()), "ibv_alloc_pd"));
	Region region(other.get(), 4096);

	ASSERT_EQ(ibv_rereg_mr(region.mr(), IBV_REREG_MR_CHANGE_PD, b.pd(), nullptr, 0, 0), 0);
	EXPECT_EQ(write(*pair.a, region.rkey(), region.address(), 4096), IBV_WC_SUCCESS);
	EXPECT_EQ(differs_from_pattern(region.data(), 4096, 1), "");
}

TEST_F(ReregisterTest, FailureLeavesItAsItWas)
{
	Region region(b.pd(), 4096);

	EXPECT_NE(ibv_rereg_mr(region.mr(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr,
			       reinterpret_cast<void *>(0x1000), 4096, 0),
		  0);
	EXPECT_EQ(write(*pair.a, region.rkey(), region.address(), 4096), IBV_WC_SUCCESS);
	EXPECT_EQ(differs_from_pattern(region.data(), 4096, 1), "");
}

TEST_F(ReregisterTest, NotWhileWindowsAreBound)
{
	auto mw = window(IBV_MW_TYPE_1);

	verbs::Pages pages(size);

	ASSERT_EQ(bind1(mw, info(0, 100)), IBV_WC_SUCCESS);
	/* What was pinned for this is let go of again. */
	EXPECT_NE(ibv_rereg_mr(there->mr(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, pages.data(),
			       size, 0),
		  0);
	EXPECT_NE(ibv_rereg_mr(there->mr(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
			       Region::all),
		  0);
	EXPECT_EQ(write(mw->rkey, 0, 100), IBV_WC_SUCCESS);
}

/* Writes go on while the memory below the STag changes: nothing is lost or lands elsewhere. */
TEST_F(ReregisterTest, UnderTraffic)
{
	verbs::Pages one(2 * size);
	verbs::Mr mr(verbs::check(ibv_reg_mr(b.pd(), one.data(), size, Region::all), "ibv_reg_mr"));
	std::atomic<bool> stop{false};
	std::atomic<unsigned> bad{0}, written{0};
	const unsigned enough = rounds(200);
	std::thread writer([&] {
		while (!stop && !bad) {
			if (pair.a->post(write_work(1, {here->sge(0, size)},
						    reinterpret_cast<uintptr_t>(mr->addr),
						    mr->rkey)))
				bad++;
			else if (pair.a->wait_send()[0].status != IBV_WC_SUCCESS)
				bad++;
			written++;
		}
	});

	for (unsigned i = 0; written < enough && !bad; i++)
		if (ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
				 i % 2 ? Region::all : Region::all | IBV_ACCESS_REMOTE_ATOMIC))
			bad++;
	stop = true;
	writer.join();
	synchronize(*pair.a, *pair.b);
	EXPECT_EQ(bad, 0u);
	EXPECT_EQ(differs_from_pattern(one.data(), size, 1), "");
}

} // namespace
