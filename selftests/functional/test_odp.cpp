// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* On-demand paging: regions whose pages come when they are used, and go as the process has it. */
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "on_demand.h"

namespace {

class OdpTest : public OnDemandTest {
protected:
	OdpTest() : OnDemandTest(IBV_ODP_SUPPORT) {}

	void SetUp() override
	{
		OnDemandTest::SetUp();
		if (IsSkipped() || HasFatalFailure())
			return;
		pages = verbs::Pages(size + 4096);
		mr = reg(b, pages, 123);
	}

	/* From `skew` on; the pages were not touched yet. */
	verbs::Mr reg(Host &host, verbs::Pages &of, std::size_t skew = 0, int access = rights)
	{
		return verbs::Mr(verbs::check(
			ibv_reg_mr(host.pd(), of.data() + skew, of.size() - 4096, access),
			"ibv_reg_mr"));
	}

	unsigned char *data() { return pages.data() + 123; }
	uint64_t address(std::size_t offset = 0)
	{
		return reinterpret_cast<uintptr_t>(data()) + offset;
	}
	ibv_sge odp_sge(std::size_t length = size)
	{
		return {address(), static_cast<uint32_t>(length), mr->lkey};
	}

	void write(uint64_t seed) { write_to(address(), size, mr->rkey, seed); }

	/* What a sees of the region; it comes after what a has written. */
	void read() { read_from(address(), size, mr->rkey); }

	void write_and_read(uint64_t seed)
	{
		OnDemandTest::write_and_read(data(), size, mr->rkey, seed);
	}

	/* All of the process's pages in the range go, with what they held. */
	void drop() { verbs::check(madvise(pages.data(), pages.size(), MADV_DONTNEED), "madvise"); }

	verbs::Pages pages;
	verbs::Mr mr;
};

TEST_F(OdpTest, PagesComeWithTheFirstAccessOfThePeer)
{
	unsigned char resident[(size + 4096) / 4096 + 1];

	verbs::check(mincore(pages.data(), pages.size(), resident), "mincore");
	EXPECT_FALSE(resident[3] & 1) << "registration has brought pages in";
	write_and_read(1);
	EXPECT_EQ(pages.data()[122], 0);
}

TEST_F(OdpTest, UntouchedMemoryReadsAsZeros)
{
	read();
	for (std::size_t i = 0; i < size; i++)
		ASSERT_EQ(back->data()[i], 0) << i;
	/* What the process writes afterwards is not in the page of zeros. */
	fill_pattern(data(), size, 3);
	read();
	EXPECT_EQ(differs_from_pattern(back->data(), size, 3), "");
}

TEST_F(OdpTest, PagesThatWentComeAnew)
{
	for (uint64_t i = 0; i < 5; i++) {
		write_and_read(i);
		drop();
		read();
		EXPECT_EQ(back->data()[0], 0);
		EXPECT_EQ(back->data()[size - 1], 0);
	}
}

TEST_F(OdpTest, AnotherMappingInItsPlaceIsWhatCounts)
{
	write_and_read(1);
	void *p = mmap(pages.data(), pages.size(), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	ASSERT_EQ(p, pages.data());
	fill_pattern(data(), size, 7);
	read();
	EXPECT_EQ(differs_from_pattern(back->data(), size, 7), "");
	write_and_read(8);
}

TEST_F(OdpTest, AfterAForkThePeerSeesTheParent)
{
	fork_with(data(), mr->rkey);
}

/* As source and sink of local work requests, in place and copied. */
TEST_F(OdpTest, LocalBuffers)
{
	for (std::size_t length : {std::size_t{10}, std::size_t{5000}, size}) {
		SCOPED_TRACE(length);
		here->fill(length);
		drop();
		ASSERT_EQ(pair.b->post_recv(1, {odp_sge(length)}), 0);
		ASSERT_EQ(pair.a->post(send_work(1, {here->sge(0, length)})), 0);
		EXPECT_COMPLETED(pair.a->wait_send()[0], 1, IBV_WC_SEND);
		EXPECT_COMPLETED(pair.b->wait_recv()[0], 1, IBV_WC_RECV);
		EXPECT_EQ(differs_from_pattern(data(), length, length), "");

		drop();
		ASSERT_EQ(pair.b->post(
				  read_work(2, {odp_sge(length)}, here->address(), here->rkey())),
			  0);
		EXPECT_COMPLETED(pair.b->wait_send()[0], 2, IBV_WC_RDMA_READ);
		EXPECT_EQ(differs_from_pattern(data(), length, length), "");

		back->clear();
		ASSERT_EQ(pair.b->post(
				  write_work(3, {odp_sge(length)}, back->address(), back->rkey())),
			  0);
		EXPECT_COMPLETED(pair.b->wait_send()[0], 3, IBV_WC_RDMA_WRITE);
		drop();
		ASSERT_EQ(pair.a->post_recv(4, {back->sge()}), 0);
		ASSERT_EQ(pair.b->post(send_work(4, {odp_sge(length)})), 0);
		EXPECT_COMPLETED(pair.b->wait_send()[0], 4, IBV_WC_SEND);
		EXPECT_COMPLETED(pair.a->wait_recv()[0], 4, IBV_WC_RECV);
		EXPECT_EQ(back->data()[0], 0);
		EXPECT_EQ(back->data()[length - 1], 0);
	}
	EXPECT_EQ(here->harmed() + back->harmed(), "");
}

TEST_F(OdpTest, Atomics)
{
	auto aligned = verbs::Pages(8192);
	auto words = reg(b, aligned);
	auto *value = reinterpret_cast<uint64_t *>(aligned.data());
	auto result_pages = verbs::Pages(8192);
	auto results = reg(a, result_pages);

	for (uint64_t i = 0; i < 4; i++) {
		Work work = read_work(
			i, {{reinterpret_cast<uintptr_t>(result_pages.data()), 8, results->lkey}},
			reinterpret_cast<uintptr_t>(value), words->rkey);
		work.wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		work.wr.wr.atomic.remote_addr = reinterpret_cast<uintptr_t>(value);
		work.wr.wr.atomic.rkey = words->rkey;
		work.wr.wr.atomic.compare_add = 5;
		ASSERT_EQ(pair.a->post(work), 0);
		EXPECT_COMPLETED(pair.a->wait_send()[0], i, IBV_WC_FETCH_ADD);
		EXPECT_EQ(*reinterpret_cast<uint64_t *>(result_pages.data()), 5 * i);
		EXPECT_EQ(*value, 5 * (i + 1));
		verbs::check(madvise(result_pages.data(), 4096, MADV_DONTNEED), "madvise");
	}
}

/* Where there is no memory the access fails, and nothing hangs. */
TEST_F(OdpTest, MemoryThatIsGone)
{
	for (unsigned what = 0; what < 4; what++) {
		SCOPED_TRACE(what);
		auto other = connected();
		auto gone = verbs::Pages(3 * 4096);
		auto of_gone = reg(b, gone);
		auto at = reinterpret_cast<uintptr_t>(gone.data());
		other.a->host().discard_async_events();

		/* Not munmap: something else could come to lie there. */
		if (what < 2)
			ASSERT_NE(mmap(gone.data(), gone.size(), PROT_NONE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
				  MAP_FAILED);
		else
			verbs::check(mprotect(gone.data(), gone.size(), PROT_READ), "mprotect");
		Work work = what == 1 ? read_work(1, {back->sge(0, 5000)}, at, of_gone->rkey)
				      : write_work(1, {here->sge(0, 5000)}, at, of_gone->rkey);
		if (what == 3) {
			/* A local fault: b's receive goes where it must not. */
			ASSERT_EQ(other.b->post_recv(9, {{at, 8192, of_gone->lkey}}), 0);
			work = send_work(1, {here->sge(0, 5000)});
		}
		ASSERT_EQ(other.a->post(work), 0);
		EXPECT_TRUE(other.a->reaches(IBV_QPS_ERR));
		EXPECT_TRUE(other.b->reaches(IBV_QPS_ERR));
		if (what == 3) {
			EXPECT_EQ(other.b->wait_recv()[0].status, IBV_WC_LOC_PROT_ERR);
		}
		if (what >= 2) {
			EXPECT_EQ(gone.data()[0], 0);
		}
	}
	b.discard_async_events();
	write_and_read(5);
}

TEST_F(OdpTest, Prefetch)
{
	auto advise = [&](ibv_advise_mr_advice advice, ibv_sge sge) {
		return ibv_advise_mr(b.pd(), advice, IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
	};
	unsigned char resident[(size + 4096) / 4096 + 1];

	EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, odp_sge()), 0);
	verbs::check(mincore(pages.data(), pages.size(), resident), "mincore");
	EXPECT_FALSE(resident[3] & 1);
	EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, odp_sge()), 0);
	verbs::check(mincore(pages.data(), pages.size(), resident), "mincore");
	EXPECT_TRUE(resident[3] & 1);
	write_and_read(1);
	auto beyond = odp_sge();
	beyond.length++;
	EXPECT_NE(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, beyond), 0);
}

/* A page that is read together with one that is missing can be written to as before. */
TEST_F(OdpTest, PagesStayWritable)
{
	write(1);
	auto *second = pages.data() + 2 * 4096;
	auto where = reinterpret_cast<uintptr_t>(second);

	verbs::check(madvise(second, 4096, MADV_DONTNEED), "madvise");
	ASSERT_EQ(pair.a->post(read_work(2, {back->sge(0, 4096)}, where - 2048, mr->rkey)), 0);
	EXPECT_COMPLETED(pair.a->wait_send()[0], 2, IBV_WC_RDMA_READ);
	auto before = b.counter("odp_faults");
	ASSERT_EQ(pair.a->post(write_work(3, {here->sge(0, 100)}, where - 2048, mr->rkey)), 0);
	EXPECT_COMPLETED(pair.a->wait_send()[0], 3, IBV_WC_RDMA_WRITE);
	read();
	EXPECT_EQ(b.counter("odp_faults"), before) << "it had to be brought in anew";
}

/* Pages that come when somebody brings them. */
class Brought {
public:
	Brought(verbs::Pages &pages, verbs::Fd fd) : pages_(pages), fd_(std::move(fd))
	{
		uffdio_api api{};
		uffdio_register range{};

		api.api = UFFD_API;
		verbs::check(ioctl(fd_.get(), UFFDIO_API, &api), "UFFDIO_API");
		range.range = {reinterpret_cast<uintptr_t>(pages.data()), pages.size()};
		range.mode = UFFDIO_REGISTER_MODE_MISSING;
		verbs::check(ioctl(fd_.get(), UFFDIO_REGISTER, &range), "UFFDIO_REGISTER");
	}

	void bring()
	{
		uffdio_zeropage zero{};

		zero.range = {reinterpret_cast<uintptr_t>(pages_.data()), pages_.size()};
		verbs::check(ioctl(fd_.get(), UFFDIO_ZEROPAGE, &zero), "UFFDIO_ZEROPAGE");
	}

private:
	verbs::Pages &pages_;
	verbs::Fd fd_;
};

/* TCP on this host's network sends anew, and what it was told to keep, after eight seconds. */
class SlowTimers {
public:
	explicit SlowTimers(Host &host) : host_(host) { set("rto_min 8s"); }
	~SlowTimers() { set(""); }
	SlowTimers(const SlowTimers &) = delete;
	SlowTimers &operator=(const SlowTimers &) = delete;

private:
	void set(const std::string &metric)
	{
		host_.shell("route=$(ip -4 route show dev " + host_.netdev() +
			    " scope link | sed 's/ rto_min .*//') && ip route change $route dev " +
			    host_.netdev() + " " + metric);
	}

	Host &host_;
};

/* Who brings the page may be told to by the message before it. */
TEST_F(OdpTest, WhatGoesBeforeAMissingPageDoesNotWaitForIt)
{
	SlowTimers slow(b);
	auto other = connected();
	auto awaited = verbs::Pages(8192);
	auto of_awaited = reg(b, awaited);
	verbs::Fd fd(static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC)));
	if (!fd)
		GTEST_SKIP() << "no userfaultfd";
	Brought brought(awaited, std::move(fd));
	auto from = Region(b.pd(), 100);

	from.fill(1);
	for (unsigned i = 0; i < 2; i++)
		ASSERT_EQ(other.a->post_recv(i, {back->sge(i * 4096, 4096)}), 0);
	/* No acknowledgment is on its way that would have TCP send. */
	std::this_thread::sleep_for(verbs::milliseconds(500));
	ASSERT_EQ(other.b->post({send_work(0, {from.sge()}),
				 send_work(1, {{reinterpret_cast<uintptr_t>(awaited.data()), 4096,
						of_awaited->lkey}})}),
		  0);
	EXPECT_NO_THROW(EXPECT_COMPLETED(other.a->wait_recv(1, verbs::milliseconds(3000))[0], 0,
					 IBV_WC_RECV));
	brought.bring();
	EXPECT_EQ(other.a->wait_recv()[0].status, IBV_WC_SUCCESS);
	other.b->wait_send(2);
}

TEST_F(OdpTest, WhatItIsNotForIsRefused)
{
	/* With bits above what addresses have: of such memory nobody tells when it goes. */
	EXPECT_EQ(ibv_reg_mr(b.pd(), reinterpret_cast<void *>(uintptr_t{0x2a} << 56), 4096,
			     Region::all | IBV_ACCESS_ON_DEMAND),
		  nullptr);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(ibv_reg_mr(b.pd(), data(), size, rights | IBV_ACCESS_MW_BIND), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
	EXPECT_NE(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
			       IBV_ACCESS_REMOTE_READ),
		  0);
	write_and_read(1);
}

/* The process gives pages back, and has others in their place, while the peer writes and reads. */
TEST_F(OdpTest, PagesGoUnderTraffic)
{
	std::atomic<bool> stop{false};
	std::thread dropper([&] {
		Random mine(run_seed());
		while (!stop) {
			auto first = mine() % (pages.size() / 4096);
			auto count = 1 + mine() % (pages.size() / 4096 - first);
			switch (mine() % 3) {
			case 0:
				madvise(pages.data() + first * 4096, count * 4096, MADV_DONTNEED);
				break;
			case 1:
				mprotect(pages.data() + first * 4096, count * 4096, PROT_READ);
				mprotect(pages.data(), pages.size(), PROT_READ | PROT_WRITE);
				break;
			default:
				/* Not a write: what is being sent has to stay as it is. */
				(void)*static_cast<volatile unsigned char *>(pages.data() +
									     first * 4096);
			}
			std::this_thread::yield();
		}
	});
	/* What is not writable for a moment would be the end: so the regions are read and sent
	 * only. */
	for (uint64_t i = 0; i < rounds(100); i++) {
		ASSERT_EQ(pair.a->post(read_work(i, {back->sge()}, address(), mr->rkey)), 0);
		ASSERT_EQ(pair.b->post(write_work(i, {odp_sge()}, here->address(), here->rkey())),
			  0);
		EXPECT_COMPLETED(pair.a->wait_send()[0], i, IBV_WC_RDMA_READ);
		EXPECT_COMPLETED(pair.b->wait_send()[0], i, IBV_WC_RDMA_WRITE);
	}
	stop = true;
	dropper.join();
	for (auto byte = 0u; byte < size; byte += 7)
		ASSERT_EQ(back->data()[byte], 0) << byte;
	write_and_read(6);
	EXPECT_EQ(here->harmed() + back->harmed(), "");
}

TEST_F(OdpTest, WritesWhilePagesGo)
{
	std::atomic<bool> stop{false};
	std::thread dropper([&] {
		while (!stop) {
			madvise(pages.data(), pages.size(), MADV_DONTNEED);
			std::this_thread::yield();
		}
	});
	for (uint64_t i = 0; i < rounds(100); i++)
		write(i);
	stop = true;
	dropper.join();
	write_and_read(6);
}

/* It ends while the peer's access waits for a page, or just has it. */
TEST_F(OdpTest, DeregisteredInMidTransfer)
{
	for (unsigned i = 0; i < rounds(20); i++) {
		auto other = connected();
		auto memory = verbs::Pages(4 << 20);
		auto region = reg(b, memory);

		other.a->host().discard_async_events();
		b.discard_async_events();
		for (uint64_t n = 0; n < 20; n++)
			ASSERT_EQ(other.a->post(write_work(
					  n, {here->sge()},
					  reinterpret_cast<uintptr_t>(memory.data()) + n * 150000,
					  region->rkey)),
				  0);
		std::this_thread::sleep_for(verbs::milliseconds(random() % 3));
		region.reset();
	}
	write_and_read(1);
}

} // namespace
