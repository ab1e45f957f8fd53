// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Memory regions: every way to register one that verbs allow. */
#include <algorithm>

#include "fixture.h"

namespace {

class MemoryTest : public VerbsTest {
protected:
	/* Write into [offset, offset + size) of a registration by its own addressing, and read it
	 * back. */
	void exercise(ibv_mr *mr, uint64_t address, unsigned char *memory, std::size_t size)
	{
		auto pair = connected();
		Region here(a.pd(), size), back(a.pd(), size);

		here.fill(11);
		back.clear();
		ASSERT_EQ(pair.a->post(write_work(1, {here.sge()}, address, mr->rkey)), 0);
		ASSERT_EQ(pair.a->post(read_work(2, {back.sge()}, address, mr->rkey)), 0);
		for (auto &wc : pair.a->wait_send(2))
			EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
		EXPECT_EQ(differs_from_pattern(memory, size, 11), "");
		EXPECT_EQ(differs_from_pattern(back.data(), size, 11), "");
		/* The same as a local buffer, both as a source and as a sink. */
		back.clear();
		fill_pattern(memory, size, 12);
		ibv_sge local{address, static_cast<uint32_t>(size), mr->lkey};
		ASSERT_EQ(pair.a->post_recv(3, {back.sge()}), 0);
		ASSERT_EQ(pair.b->post(send_work(3, {local})), 0);
		EXPECT_COMPLETED(pair.b->wait_send()[0], 3, IBV_WC_SEND);
		EXPECT_COMPLETED(pair.a->wait_recv()[0], 3, IBV_WC_RECV);
		EXPECT_EQ(differs_from_pattern(back.data(), size, 12), "");
		ASSERT_EQ(pair.b->post_recv(4, {local}), 0);
		ASSERT_EQ(pair.a->post(send_work(4, {here.sge()})), 0);
		EXPECT_COMPLETED(pair.a->wait_send()[0], 4, IBV_WC_SEND);
		EXPECT_COMPLETED(pair.b->wait_recv()[0], 4, IBV_WC_RECV);
		EXPECT_EQ(differs_from_pattern(memory, size, 11), "");
		EXPECT_EQ(here.harmed() + back.harmed(), "");
	}

	verbs::Mr register_at(verbs::Pages &pages, std::size_t offset, std::size_t size,
			      uint64_t iova, int access = Region::all)
	{
		return verbs::Mr(verbs::check(ibv_reg_mr_iova(b.pd(), pages.data() + offset, size,
							      iova, static_cast<unsigned>(access)),
					      "ibv_reg_mr_iova"));
	}

	static constexpr std::size_t region_size = 100000;
};

TEST_F(MemoryTest, OfItsOwnAddress)
{
	Region region(b.pd(), region_size, Region::all, 123);

	exercise(region.mr(), region.address(), region.data(), region_size);
	EXPECT_EQ(region.harmed(), "");
}

TEST_F(MemoryTest, ZeroBased)
{
	verbs::Pages pages(region_size + 8192);
	verbs::Mr mr(ibv_reg_mr(b.pd(), pages.data() + 77, region_size,
				Region::all | IBV_ACCESS_ZERO_BASED));

	if (!mr)
		verbs::fail("ibv_reg_mr");
	exercise(mr.get(), 0, pages.data() + 77, region_size);
}

TEST_F(MemoryTest, AtAnyAddress)
{
	verbs::Pages pages(region_size + 8192);

	for (uint64_t iova : {uint64_t(0), uint64_t(0x1234567812345000), uint64_t(1) << 63,
			      uint64_t(0x1000) - 1, UINT64_MAX - region_size}) {
		SCOPED_TRACE(iova);
		/* The same offset in the page as the memory has: uverbs takes no other. */
		auto offset = static_cast<std::size_t>(iova % 4096);
		auto mr = register_at(pages, offset, region_size, iova);
		exercise(mr.get(), iova, pages.data() + offset, region_size);
	}
}

TEST_F(MemoryTest, RangeThatWrapsIsRefused)
{
	verbs::Pages pages(8192);
	verbs::Mr mr(ibv_reg_mr_iova(b.pd(), pages.data(), 8192, UINT64_MAX - 4095, Region::all));

	EXPECT_EQ(mr, nullptr);
}

TEST_F(MemoryTest, HugePages)
{
	constexpr std::size_t huge = 2 << 20;

	if (shell("echo 4 > /proc/sys/vm/nr_hugepages"))
		GTEST_SKIP() << "no huge pages on this kernel";
	{
		verbs::Pages pages;
		try {
			pages = verbs::Pages(2 * huge, MAP_HUGETLB);
		} catch (const verbs::Error &e) {
			GTEST_SKIP() << "no free huge pages: " << e.what();
		}
		/* Over the boundary of the two. */
		verbs::Mr mr(
			ibv_reg_mr(b.pd(), pages.data() + huge - 70000, region_size, Region::all));
		if (!mr)
			verbs::fail("ibv_reg_mr");
		exercise(mr.get(), reinterpret_cast<uintptr_t>(mr->addr),
			 pages.data() + huge - 70000, region_size);
		verbs::Mr whole(ibv_reg_mr(b.pd(), pages.data(), 2 * huge, Region::all));
		if (!whole)
			verbs::fail("ibv_reg_mr");
		exercise(whole.get(), reinterpret_cast<uintptr_t>(pages.data()), pages.data(),
			 2 * huge);
	}
	shell("echo 0 > /proc/sys/vm/nr_hugepages");
}

TEST_F(MemoryTest, ReadOnlyMemory)
{
	verbs::Pages pages(region_size);

	fill_pattern(pages.data(), region_size, 21);
	if (mprotect(pages.data(), pages.size(), PROT_READ))
		verbs::fail("mprotect");
	verbs::Mr writable(ibv_reg_mr(b.pd(), pages.data(), region_size, IBV_ACCESS_LOCAL_WRITE));
	EXPECT_EQ(writable, nullptr) << "memory that cannot be written was registered for writing";
	verbs::Mr mr(ibv_reg_mr(b.pd(), pages.data(), region_size, IBV_ACCESS_REMOTE_READ));
	if (!mr)
		verbs::fail("ibv_reg_mr of read-only memory");

	auto pair = connected();
	Region back(a.pd(), region_size);
	ASSERT_EQ(pair.a->post(read_work(1, {back.sge()}, reinterpret_cast<uintptr_t>(pages.data()),
					 mr->rkey)),
		  0);
	EXPECT_COMPLETED(pair.a->wait_send()[0], 1, IBV_WC_RDMA_READ);
	EXPECT_EQ(differs_from_pattern(back.data(), region_size, 21), "");
	back.clear();
	ASSERT_EQ(pair.a->post_recv(2, {back.sge()}), 0);
	ASSERT_EQ(pair.b->post(send_work(
			  2, {{reinterpret_cast<uintptr_t>(pages.data()), region_size, mr->lkey}})),
		  0);
	EXPECT_COMPLETED(pair.a->wait_recv()[0], 2, IBV_WC_RECV);
	EXPECT_EQ(differs_from_pattern(back.data(), region_size, 21), "");
}

TEST_F(MemoryTest, BadRegistrationsAreRefused)
{
	verbs::Pages pages(8192);
	auto refused = [&](void *address, std::size_t length, int access) {
		verbs::Mr mr(ibv_reg_mr(b.pd(), address, length, access));
		return !mr;
	};

	/* Verbs: remote write needs local write. */
	EXPECT_TRUE(refused(pages.data(), 100, IBV_ACCESS_REMOTE_WRITE));
	EXPECT_TRUE(refused(nullptr, 8192, Region::all));
	EXPECT_TRUE(refused(pages.data(), std::size_t(1) << 62, Region::all));
	{
		verbs::Pages gone(8192);
		auto *address = gone.data();
		munmap(address, 8192);
		EXPECT_TRUE(refused(address, 8192, Region::all));
	}
}

/* An STag that was valid a moment ago is not any more, and its memory stays as it is. */
TEST_F(MemoryTest, DeregisteredIsGoneAtOnce)
{
	auto pair = connected();
	Region here(a.pd(), 4096), there(b.pd(), 4096);
	auto rkey = there.rkey();

	here.fill(1);
	there.clear();
	there.deregister();
	ASSERT_EQ(pair.a->post(write_work(1, {here.sge()}, there.address(), rkey)), 0);
	EXPECT_TRUE(pair.b->reaches(IBV_QPS_ERR));
	EXPECT_TRUE(pair.a->reaches(IBV_QPS_ERR));
	EXPECT_EQ(there.touched(), "");
}

TEST_F(MemoryTest, StagsAreHardToGuess)
{
	if (!a.is_ziw())
		GTEST_SKIP() << "only asked of ziw";
	/* RFC 5040, 8.1.1, rule 8: sparse and unpredictable. */
	std::vector<uint32_t> keys;
	verbs::Pages pages(4096);
	unsigned near = 0;

	for (unsigned i = 0; i < 100; i++) {
		verbs::Mr mr(ibv_reg_mr(b.pd(), pages.data(), 4096, Region::all));
		if (!mr)
			verbs::fail("ibv_reg_mr");
		keys.push_back(mr->rkey);
	}
	for (std::size_t i = 1; i < keys.size(); i++)
		near += std::max(keys[i], keys[i - 1]) - std::min(keys[i], keys[i - 1]) < 0x10000;
	EXPECT_LT(near, 5u);
}

TEST_F(MemoryTest, ManyRegions)
{
	verbs::Pages pages(4096);
	std::vector<verbs::Mr> all;

	for (unsigned i = 0; i < rounds(2000); i++) {
		all.emplace_back(ibv_reg_mr(b.pd(), pages.data(), 4096, Region::all));
		ASSERT_NE(all.back(), nullptr) << i;
	}
	std::sort(all.begin(), all.end(), [](auto &x, auto &y) { return x->rkey < y->rkey; });
	for (std::size_t i = 1; i < all.size(); i++)
		ASSERT_NE(all[i - 1]->rkey, all[i]->rkey);
}

TEST_F(MemoryTest, PdInUseIsNotFreed)
{
	verbs::Pd pd(verbs::check(ibv_alloc_pd(a.context()), "ibv_alloc_pd"));
	Region region(pd.get(), 4096);

	if (!ibv_dealloc_pd(pd.get())) {
		(void)pd.release();
		FAIL() << "freed under a region";
	}
}

/* Which of the three rights a region has, as bits in this order. */
class Rights : public VerbsTest, public testing::WithParamInterface<int> {
protected:
	/* True if the operation went well, false if the QP ended in error; no third way. */
	bool works(Work work, Endpoint &by, Endpoint &other)
	{
		EXPECT_EQ(by.post(std::move(work)), 0);
		bool ok = by.wait_send()[0].status == IBV_WC_SUCCESS;
		if (ok && other.post_recv(99) == 0 && by.post(send_work(99, {})) == 0) {
			/* A Write may have completed before the peer refused it. */
			auto wc = by.wait_send()[0];
			ok = wc.status == IBV_WC_SUCCESS &&
			     other.wait_recv()[0].status == IBV_WC_SUCCESS;
		}
		if (!ok) {
			EXPECT_TRUE(by.reaches(IBV_QPS_ERR));
			EXPECT_TRUE(other.reaches(IBV_QPS_ERR));
		}
		return ok;
	}
};

TEST_P(Rights, AreEnforced)
{
	int access = GetParam();
	constexpr std::size_t size = 5000;
	Region here(a.pd(), size);

	here.fill(1);
	if (access & IBV_ACCESS_REMOTE_WRITE && !(access & IBV_ACCESS_LOCAL_WRITE)) {
		EXPECT_THROW(Region(b.pd(), size, access), verbs::Error);
		return;
	}
	Region there(b.pd(), size, access);
	there.clear();
	{
		auto pair = connected();
		bool may = access & IBV_ACCESS_REMOTE_WRITE;
		EXPECT_EQ(works(write_work(1, {here.sge()}, there.address(), there.rkey()), *pair.a,
				*pair.b),
			  may);
		EXPECT_EQ(may ? differs_from_pattern(there.data(), size, 1) : there.touched(), "");
	}
	{
		auto pair = connected();
		bool may = access & IBV_ACCESS_REMOTE_READ;
		Region back(a.pd(), size);
		back.clear();
		there.fill(2);
		EXPECT_EQ(works(read_work(1, {back.sge()}, there.address(), there.rkey()), *pair.a,
				*pair.b),
			  may);
		EXPECT_EQ(may ? differs_from_pattern(back.data(), size, 2) : back.touched(), "");
	}
	{
		/* A receive. */
		auto pair = connected();
		bool may = access & IBV_ACCESS_LOCAL_WRITE;
		there.clear();
		ASSERT_EQ(pair.b->post_recv(1, {there.sge()}), 0);
		ASSERT_EQ(pair.a->post(send_work(1, {here.sge()})), 0);
		auto wc = pair.b->wait_recv()[0];
		EXPECT_EQ(wc.status, may ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR)
			<< ibv_wc_status_str(wc.status);
		EXPECT_EQ(may ? differs_from_pattern(there.data(), size, 1) : there.touched(), "");
	}
	{
		/* The sink of a Read of one's own. */
		auto pair = connected();
		bool may = access & IBV_ACCESS_LOCAL_WRITE;
		there.clear();
		ASSERT_EQ(pair.b->post(read_work(1, {there.sge()}, here.address(), here.rkey())),
			  0);
		auto wc = pair.b->wait_send()[0];
		EXPECT_EQ(wc.status, may ? IBV_WC_SUCCESS : IBV_WC_LOC_PROT_ERR)
			<< ibv_wc_status_str(wc.status);
		EXPECT_EQ(may ? differs_from_pattern(there.data(), size, 1) : there.touched(), "");
	}
	{
		/* A source: always allowed, a region can at least be read locally. */
		auto pair = connected();
		Region back(a.pd(), size);
		there.fill(3);
		ASSERT_EQ(pair.a->post_recv(1, {back.sge()}), 0);
		ASSERT_EQ(pair.b->post(send_work(1, {there.sge()})), 0);
		EXPECT_COMPLETED(pair.b->wait_send()[0], 1, IBV_WC_SEND);
		EXPECT_COMPLETED(pair.a->wait_recv()[0], 1, IBV_WC_RECV);
		EXPECT_EQ(differs_from_pattern(back.data(), size, 3), "");
	}
	EXPECT_EQ(there.harmed() + here.harmed(), "");
}

std::string rights_name(const testing::TestParamInfo<int> &info)
{
	std::string name;

	if (info.param & IBV_ACCESS_LOCAL_WRITE)
		name += "LocalWrite";
	if (info.param & IBV_ACCESS_REMOTE_WRITE)
		name += "RemoteWrite";
	if (info.param & IBV_ACCESS_REMOTE_READ)
		name += "RemoteRead";
	return name.empty() ? "None" : name;
}

INSTANTIATE_TEST_SUITE_P(Memory, Rights,
			 testing::Values(0, IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_REMOTE_WRITE,
					 IBV_ACCESS_REMOTE_READ,
					 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
					 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
					 IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
					 Region::all),
			 rights_name);

} // namespace
