// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* On-demand paging of all of the address space (implicit). */
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "on_demand.h"
#include "peer.h"

namespace {

/* All of the address space as one region: whatever the process has, now or later. */
class ImplicitTest : public OnDemandTest {
protected:
	/* The parts that the driver's table is made of, on x86-64. */
	static constexpr std::size_t part = 2 << 20;

	ImplicitTest() : OnDemandTest(IBV_ODP_SUPPORT_IMPLICIT) {}

	void SetUp() override
	{
		OnDemandTest::SetUp();
		if (!IsSkipped() && !HasFatalFailure())
			all = whole(b);
	}

	static verbs::Mr whole(Host &host, int access = rights)
	{
		return verbs::Mr(verbs::check(ibv_reg_mr(host.pd(), nullptr, SIZE_MAX, access),
					      "ibv_reg_mr"));
	}
	static uint64_t at(const void *p, std::size_t offset = 0)
	{
		return reinterpret_cast<uintptr_t>(p) + offset;
	}
	ibv_sge sge(const void *p, std::size_t length) const
	{
		return {at(p), static_cast<uint32_t>(length), all->lkey};
	}

	void write(const void *to, std::size_t length, uint64_t seed)
	{
		write_to(at(to), length, all->rkey, seed);
	}
	void read(const void *from, std::size_t length) { read_from(at(from), length, all->rkey); }
	void write_and_read(unsigned char *p, std::size_t length, uint64_t seed)
	{
		OnDemandTest::write_and_read(p, length, all->rkey, seed);
	}
	/* Locally, as source and sink of sends and reads. */
	void local(unsigned char *p, std::size_t length, uint64_t seed)
	{
		fill_pattern(p, length, seed);
		ASSERT_EQ(pair.a->post_recv(1, {back->sge(0, length)}), 0);
		ASSERT_EQ(pair.b->post(send_work(1, {sge(p, length)})), 0);
		EXPECT_COMPLETED(pair.b->wait_send()[0], 1, IBV_WC_SEND);
		EXPECT_COMPLETED(pair.a->wait_recv()[0], 1, IBV_WC_RECV);
		EXPECT_EQ(differs_from_pattern(back->data(), length, seed), "");

		here->fill(seed + 1);
		ASSERT_EQ(pair.b->post_recv(2, {sge(p, length)}), 0);
		ASSERT_EQ(pair.a->post(send_work(2, {here->sge(0, length)})), 0);
		EXPECT_COMPLETED(pair.a->wait_send()[0], 2, IBV_WC_SEND);
		EXPECT_COMPLETED(pair.b->wait_recv()[0], 2, IBV_WC_RECV);
		EXPECT_EQ(differs_from_pattern(p, length, seed + 1), "");

		here->fill(seed + 2);
		ASSERT_EQ(
			pair.b->post(read_work(3, {sge(p, length)}, here->address(), here->rkey())),
			0);
		EXPECT_COMPLETED(pair.b->wait_send()[0], 3, IBV_WC_RDMA_READ);
		EXPECT_EQ(differs_from_pattern(p, length, seed + 2), "");
	}

	/* What becomes of an access of the peer to where there is no memory; 0: not tried. */
	void expect_refused(uint64_t address, std::size_t length, uint32_t write_code,
			    uint32_t read_code)
	{
		for (auto read : {false, true}) {
			SCOPED_TRACE(read ? "read" : "write");
			if (!(read ? read_code : write_code))
				continue;
			auto other = connected();
			auto sges = std::vector<ibv_sge>{here->sge(0, length)};
			auto work = read ? read_work(1, sges, address, all->rkey)
					 : write_work(1, sges, address, all->rkey);

			ASSERT_EQ(other.a->post(work), 0);
			EXPECT_TRUE(other.a->reaches(IBV_QPS_ERR));
			EXPECT_TRUE(other.b->reaches(IBV_QPS_ERR));
			auto wc = other.a->wait_send()[0];
			/* A write may have completed before the peer's TCP gave it to anyone. */
			if (read || wc.status != IBV_WC_SUCCESS) {
				EXPECT_EQ(wc.status, IBV_WC_REM_ACCESS_ERR);
				EXPECT_EQ(wc.vendor_err, read ? read_code : write_code);
			}
			other.a->host().discard_async_events();
			b.discard_async_events();
		}
	}
	/* Likewise, of our own. */
	void expect_local_error(uint64_t address, std::size_t length)
	{
		for (auto receive : {false, true}) {
			SCOPED_TRACE(receive ? "receive" : "send");
			auto other = connected();
			auto sges = std::vector<ibv_sge>{
				{address, static_cast<uint32_t>(length), all->lkey}};

			ASSERT_EQ(other.a->post_recv(5, {back->sge()}), 0);
			if (receive) {
				ASSERT_EQ(other.b->post_recv(6, sges), 0);
				ASSERT_EQ(other.a->post(send_work(6, {here->sge(0, length)})), 0);
				EXPECT_EQ(other.b->wait_recv()[0].status, IBV_WC_LOC_PROT_ERR);
			} else {
				ASSERT_EQ(other.b->post(send_work(6, sges)), 0);
				EXPECT_EQ(other.b->wait_send()[0].status, IBV_WC_LOC_PROT_ERR);
			}
			EXPECT_TRUE(other.a->reaches(IBV_QPS_ERR));
			EXPECT_TRUE(other.b->reaches(IBV_QPS_ERR));
			other.a->host().discard_async_events();
			b.discard_async_events();
		}
	}

	uint64_t faults() const { return b.counter("odp_faults"); }

	/* Longest wait for a message of many parts. */
	static constexpr verbs::milliseconds patience{60000};
	/* Of Terminate Messages, as vendor_err tells them. */
	static constexpr uint32_t ddp_bounds = 0x1101, rdmap_bounds = 0x0101, ddp_wrap = 0x1103,
				  rdmap_wrap = 0x0104;

	verbs::Mr all;
};

TEST_F(ImplicitTest, HeapStackAndData)
{
	static unsigned char data[5000];
	unsigned char stack[5000];

	for (std::size_t length : {std::size_t{10}, std::size_t{5000}, size}) {
		SCOPED_TRACE(length);
		std::vector<unsigned char> heap(length);
		local(heap.data(), length, length);
		write_and_read(heap.data(), length, length + 5);
	}
	local(stack, sizeof(stack), 11);
	write_and_read(stack, sizeof(stack), 12);
	local(data, sizeof(data), 13);
	write_and_read(data, sizeof(data), 14);
	/* The program itself can be read, and not written. */
	auto *text = "what is in the text segment";
	read(text, 27);
	EXPECT_EQ(std::memcmp(back->data(), text, 27), 0);
	expect_refused(at(text), 27, ddp_bounds, 0);
}

TEST_F(ImplicitTest, WhatIsMappedAfterTheRegistration)
{
	for (uint64_t i = 0; i < 5; i++) {
		verbs::Pages later(4 * part);

		write_and_read(later.data() + part - 1000, size, i);
		local(later.data() + 3 * part - 150000, size, i + 10);
	}
	verbs::Fd file(memfd_create("shared", MFD_CLOEXEC));
	verbs::check(ftruncate(file.get(), 2 * part), "ftruncate");
	auto *shared = static_cast<unsigned char *>(
		mmap(nullptr, 2 * part, PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0));
	ASSERT_NE(shared, MAP_FAILED);
	write_and_read(shared + 5, size, 3);
	std::vector<unsigned char> content(size);
	ASSERT_EQ(pread(file.get(), content.data(), size, 5), static_cast<ssize_t>(size));
	EXPECT_EQ(differs_from_pattern(content.data(), size, 3), "");
	munmap(shared, 2 * part);
}

TEST_F(ImplicitTest, Atomics)
{
	auto value = std::make_unique<uint64_t>(0), result = std::make_unique<uint64_t>(0);
	auto all_a = whole(a);

	for (uint64_t i = 0; i < 4; i++) {
		Work work = read_work(i, {{at(result.get()), 8, all_a->lkey}}, at(value.get()),
				      all->rkey);
		work.wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
		work.wr.wr.atomic.remote_addr = at(value.get());
		work.wr.wr.atomic.rkey = all->rkey;
		work.wr.wr.atomic.compare_add = 5;
		ASSERT_EQ(pair.a->post(work), 0);
		EXPECT_COMPLETED(pair.a->wait_send()[0], i, IBV_WC_FETCH_ADD);
		EXPECT_EQ(*result, 5 * i);
		EXPECT_EQ(*value, 5 * (i + 1));
	}
}

TEST_F(ImplicitTest, HasTheRightsOfTheRegistration)
{
	std::vector<unsigned char> memory(5000, 1);
	auto to_read = whole(b, IBV_ACCESS_ON_DEMAND | IBV_ACCESS_REMOTE_READ);

	auto other = connected();
	ASSERT_EQ(
		other.a->post(read_work(1, {back->sge(0, 5000)}, at(memory.data()), to_read->rkey)),
		0);
	EXPECT_COMPLETED(other.a->wait_send()[0], 1, IBV_WC_RDMA_READ);
	EXPECT_EQ(back->data()[4999], 1);
	ASSERT_EQ(other.a->post(
			  write_work(2, {here->sge(0, 5000)}, at(memory.data()), to_read->rkey)),
		  0);
	EXPECT_TRUE(other.b->reaches(IBV_QPS_ERR));
	EXPECT_TRUE(other.a->reaches(IBV_QPS_ERR));
	EXPECT_EQ(memory[0], 1);

	/* The key of another domain's QP names nothing here. */
	verbs::Pd domain(verbs::check(ibv_alloc_pd(b.context()), "ibv_alloc_pd"));
	PairConfig config;
	config.b.pd = domain.get();
	auto foreign = connected(config);
	ASSERT_EQ(
		foreign.a->post(write_work(3, {here->sge(0, 5000)}, at(memory.data()), all->rkey)),
		0);
	EXPECT_TRUE(foreign.b->reaches(IBV_QPS_ERR));
	EXPECT_TRUE(foreign.a->reaches(IBV_QPS_ERR));
	EXPECT_EQ(memory[0], 1);
	a.discard_async_events();
	b.discard_async_events();
}

/* Where there is no memory, in part or at all, an access fails by itself, and nothing else does. */
TEST_F(ImplicitTest, Holes)
{
	verbs::Pages around(3 * part);
	auto *hole = around.data() + part;

	verbs::check(mprotect(hole, part, PROT_NONE), "mprotect");
	expect_refused(at(hole), 5000, ddp_bounds, rdmap_bounds);
	expect_refused(at(hole) - 2500, 5000, ddp_bounds, rdmap_bounds);
	expect_refused(at(hole) + part - 2500, 5000, ddp_bounds, rdmap_bounds);
	expect_local_error(at(hole), 5000);
	expect_local_error(at(hole) - 2500, 5000);
	expect_refused(0, 100, ddp_bounds, rdmap_bounds);
	expect_local_error(0, 100);
	/* Behind the process's addresses; the last one is a page of x86-64's that all may read. */
	for (uint64_t address : {uint64_t{1} << 47, uint64_t{1} << 63, uint64_t{0xffff888000000000},
				 uint64_t{0xffffffffff600000}}) {
		SCOPED_TRACE(address);
		expect_refused(address, 100, ddp_bounds, rdmap_bounds);
		expect_local_error(address, 100);
	}
	expect_refused(~uint64_t{0} - 49, 100, ddp_wrap, rdmap_wrap);
	verbs::check(mprotect(hole, part, PROT_READ | PROT_WRITE), "mprotect");
	write_and_read(hole - 2500, 5000, 1);
}

TEST_F(ImplicitTest, WhatIsUnmappedIsGoneAndWhatComesThereIsNew)
{
	auto pages = std::make_optional<verbs::Pages>(4 * part);
	auto *p = pages->data() + part;

	for (uint64_t i = 0; i < 5; i++) {
		write_and_read(p, size, i);
		ASSERT_EQ(mmap(pages->data(), pages->size(), PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			  pages->data());
		read(p, size);
		for (std::size_t byte = 0; byte < size; byte++)
			ASSERT_EQ(back->data()[byte], 0) << byte;
		local(p + 2 * part - size, size, i);
		/* Moved with what it holds. */
		write(p, size, i + 20);
		auto *to = static_cast<unsigned char *>(mmap(nullptr, pages->size(), PROT_NONE,
							     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
		ASSERT_NE(to, MAP_FAILED);
		read(p, 1);
		ASSERT_EQ(mremap(pages->data(), pages->size(), pages->size(),
				 MREMAP_MAYMOVE | MREMAP_FIXED, to),
			  to);
		read(to + part, size);
		EXPECT_EQ(differs_from_pattern(back->data(), size, i + 20), "");
		ASSERT_EQ(mremap(to, pages->size(), pages->size(), MREMAP_MAYMOVE | MREMAP_FIXED,
				 pages->data()),
			  pages->data());
	}
	/* Nobody maps anything meanwhile. */
	pages.reset();
	expect_refused(at(p), 5000, ddp_bounds, rdmap_bounds);
}

TEST_F(ImplicitTest, AfterAForkThePeerSeesTheParent)
{
	std::vector<unsigned char> heap(size);
	fork_with(heap.data(), all->rkey);
}

/* A region names the addresses of who registered it, whoever uses it, until that process ends. */
TEST_F(ImplicitTest, OfAProcessThatEnds)
{
	struct Note {
		uint64_t address;
		uint32_t lkey, handle;
	} note{};
	int up[2], down[2];

	verbs::check(pipe(up), "pipe");
	verbs::check(pipe(down), "pipe");
	auto child = fork();
	if (!child) {
		close(down[1]);
		auto *memory = new unsigned char[size];
		auto *context = ibv_import_device(dup(b.context()->cmd_fd));
		auto *pd = context ? ibv_import_pd(context, b.pd()->handle) : nullptr;
		auto *mr = pd ? ibv_reg_mr(pd, nullptr, SIZE_MAX, rights) : nullptr;
		if (mr)
			note = {at(memory), mr->lkey, mr->handle};
		fill_pattern(memory, size, 77);
		(void)!::write(up[1], &note, sizeof(note));
		(void)!::read(down[0], &note, 1);
		_exit(differs_from_pattern(memory, size, 78) == "" ? 0 : 1);
	}
	/* If it dies there is nothing to read. */
	close(up[1]);
	ASSERT_EQ(::read(up[0], &note, sizeof(note)), static_cast<ssize_t>(sizeof(note)));
	ASSERT_NE(note.lkey, 0u) << "the child has no region";

	ibv_sge theirs{note.address, size, note.lkey};
	ASSERT_EQ(pair.a->post_recv(1, {back->sge()}), 0);
	ASSERT_EQ(pair.b->post(send_work(1, {theirs})), 0);
	EXPECT_COMPLETED(pair.b->wait_send()[0], 1, IBV_WC_SEND);
	EXPECT_COMPLETED(pair.a->wait_recv()[0], 1, IBV_WC_RECV);
	EXPECT_EQ(differs_from_pattern(back->data(), size, 77), "");
	here->fill(78);
	ASSERT_EQ(pair.b->post_recv(2, {theirs}), 0);
	ASSERT_EQ(pair.a->post(send_work(2, {here->sge()})), 0);
	EXPECT_COMPLETED(pair.a->wait_send()[0], 2, IBV_WC_SEND);
	EXPECT_COMPLETED(pair.b->wait_recv()[0], 2, IBV_WC_RECV);

	for (int fd : {up[0], down[0], down[1]})
		close(fd);
	int status = 0;
	ASSERT_EQ(waitpid(child, &status, 0), child);
	EXPECT_EQ(status, 0) << "what was received is not in the child's memory";
	ASSERT_EQ(pair.b->post(send_work(3, {theirs})), 0);
	EXPECT_EQ(pair.b->wait_send()[0].status, IBV_WC_LOC_PROT_ERR);
	auto *left = ibv_import_mr(b.pd(), note.handle);
	ASSERT_NE(left, nullptr);
	EXPECT_EQ(ibv_dereg_mr(left), 0);
	a.discard_async_events();
	b.discard_async_events();
}

/* Each of two processes with all of its own memory. */
TEST_F(ImplicitTest, TwoProcesses)
{
	for (auto role : {"implicit-write", "implicit-read"}) {
		SCOPED_TRACE(role);
		Listener listener(b);
		Peer peer(role, a.ns() + ":" + a.netdev() + ":" + a.device(), listener.address());
		std::vector<unsigned char> heap(size);
		auto end = accept_peer(listener, {at(heap.data()), all->rkey, 256 << 10});

		for (uint64_t i = 0; i < rounds(20); i++) {
			madvise(heap.data() + 4096 - at(heap.data()) % 4096, 100000, MADV_DONTNEED);
			std::this_thread::sleep_for(verbs::milliseconds(5));
		}
		if (role == std::string("implicit-write")) {
			EXPECT_TRUE(verbs::eventually(soon, [&] {
				return differs_from_pattern(heap.data(), 256 << 10, 7) == "";
			}));
		}
		EXPECT_EQ(end->state(), IBV_QPS_RTS);
		peer.kill();
		EXPECT_TRUE(end->reaches(IBV_QPS_ERR));
		b.discard_async_events();
	}
}

/* Messages over many parts, which begin and end anywhere in theirs. */
TEST_F(ImplicitTest, AcrossParts)
{
	auto all_a = whole(a);
	verbs::Pages from(5 * part), to(5 * part);
	auto sge_a = [&](const void *p, std::size_t length) {
		return ibv_sge{at(p), static_cast<uint32_t>(length), all_a->lkey};
	};

	for (uint64_t i = 0; i < 4; i++) {
		/* The last ones with their ends a byte before and after that of a page. */
		auto skew = i < 2 ? random() % 5000 : 4095 + 2 * (i - 2);
		auto length = i < 2 ? part + random() % (2 * part) : 3 * part;
		SCOPED_TRACE(std::to_string(skew) + " " + std::to_string(length));
		auto *p = from.data() + skew, *q = to.data() + part - skew;
		auto whole_pages = from.size() & ~std::size_t{4095};

		madvise(to.data(), to.size(), MADV_DONTNEED);
		madvise(from.data(), whole_pages, MADV_DONTNEED);
		fill_pattern(p, length, i);
		ASSERT_EQ(pair.a->post(write_work(1, {sge_a(p, length)}, at(q), all->rkey)), 0);
		EXPECT_COMPLETED(pair.a->wait_send(1, patience)[0], 1, IBV_WC_RDMA_WRITE);
		synchronize(*pair.a, *pair.b);
		EXPECT_EQ(differs_from_pattern(q, length, i), "");

		madvise(from.data(), whole_pages, MADV_DONTNEED);
		ASSERT_EQ(pair.a->post(read_work(2, {sge_a(p, length)}, at(q), all->rkey)), 0);
		EXPECT_COMPLETED(pair.a->wait_send(1, patience)[0], 2, IBV_WC_RDMA_READ);
		EXPECT_EQ(differs_from_pattern(p, length, i), "");

		madvise(to.data(), to.size(), MADV_DONTNEED);
		ASSERT_EQ(pair.b->post_recv(3, {sge(q, length)}), 0);
		ASSERT_EQ(pair.a->post(send_work(3, {sge_a(p, length)})), 0);
		EXPECT_COMPLETED(pair.a->wait_send(1, patience)[0], 3, IBV_WC_SEND);
		EXPECT_COMPLETED(pair.b->wait_recv(1, patience)[0], 3, IBV_WC_RECV);
		EXPECT_EQ(differs_from_pattern(q, length, i), "");
	}
}

TEST_F(ImplicitTest, Prefetch)
{
	auto advise = [&](ibv_advise_mr_advice advice, ibv_sge sge,
			  uint32_t flags = IBV_ADVISE_MR_FLAG_FLUSH) {
		return ibv_advise_mr(b.pd(), advice, flags, &sge, 1);
	};
	verbs::Pages pages(3 * part);
	unsigned char resident[3 * part / 4096];

	EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, sge(pages.data(), 3 * part)), 0);
	verbs::check(mincore(pages.data(), pages.size(), resident), "mincore");
	EXPECT_FALSE(resident[3] & 1);
	EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
			 sge(pages.data() + 1000, 3 * part - 1000)),
		  0);
	verbs::check(mincore(pages.data(), pages.size(), resident), "mincore");
	EXPECT_TRUE(resident[0] & 1 && resident[part / 4096] & 1 &&
		    resident[sizeof(resident) - 1] & 1);
	auto before = faults();
	write_and_read(pages.data() + part - 1000, size, 1);
	EXPECT_EQ(faults(), before) << "pages that were brought in were missing";
	EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, sge(pages.data(), part), 0), 0);

	verbs::check(mprotect(pages.data() + part, 4096, PROT_NONE), "mprotect");
	EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, sge(pages.data(), 2 * part)), EFAULT);
	verbs::check(mprotect(pages.data() + part, 4096, PROT_READ), "mprotect");
	EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, sge(pages.data(), 2 * part)), 0);
	EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, sge(pages.data(), 2 * part)), EFAULT);
	ibv_sge outside{uint64_t{1} << 63, 100, all->lkey};
	EXPECT_EQ(advise(IBV_ADVISE_MR_ADVICE_PREFETCH, outside), EFAULT);
	auto read_only = whole(b, IBV_ACCESS_ON_DEMAND);
	EXPECT_EQ(
		advise(IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, {at(pages.data()), 1, read_only->lkey}),
		EPERM);
}

TEST_F(ImplicitTest, WhatItIsNotForIsRefused)
{
	auto refused = [&](void *address, std::size_t length, uint64_t iova, int access) {
		errno = 0;
		EXPECT_EQ(ibv_reg_mr_iova2(b.pd(), address, length, iova,
					   static_cast<unsigned>(access)),
			  nullptr);
		return errno;
	};
	EXPECT_EQ(refused(nullptr, SIZE_MAX, 0, rights | IBV_ACCESS_MW_BIND), EOPNOTSUPP);
	EXPECT_EQ(refused(nullptr, SIZE_MAX, 4096, rights), EINVAL);
	EXPECT_NE(refused(reinterpret_cast<void *>(4096), SIZE_MAX, 4096, rights), 0);
	EXPECT_NE(refused(nullptr, SIZE_MAX, 0, Region::all), 0) << "pinned, all of it";
	for (int flags :
	     {IBV_REREG_MR_CHANGE_ACCESS, IBV_REREG_MR_CHANGE_TRANSLATION, IBV_REREG_MR_CHANGE_PD})
		EXPECT_NE(ibv_rereg_mr(all.get(), flags, b.pd(), here->data(), 4096,
				       IBV_ACCESS_REMOTE_READ),
			  0);
	/* Nor does a pinned region become one. */
	Region pinned(b.pd(), 4096);
	EXPECT_NE(ibv_rereg_mr(pinned.mr(), IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, nullptr,
			       SIZE_MAX, rights),
		  0);

	std::unique_ptr<ibv_mw, verbs::Destroy<ibv_dealloc_mw>> mw(
		verbs::check(ibv_alloc_mw(b.pd(), IBV_MW_TYPE_1), "ibv_alloc_mw"));
	std::vector<unsigned char> heap(size);
	auto other = connected();
	ibv_mw_bind bind{};
	bind.wr_id = 7;
	bind.send_flags = IBV_SEND_SIGNALED;
	bind.bind_info = {all.get(), at(heap.data()), 4096, IBV_ACCESS_REMOTE_READ};
	/* libibverbs may see it first. */
	if (!ibv_bind_mw(other.b->qp(), mw.get(), &bind)) {
		EXPECT_NE(other.b->wait_send()[0].status, IBV_WC_SUCCESS);
	}
	a.discard_async_events();
	b.discard_async_events();
	write_and_read(heap.data(), size, 1);
}

/* The process maps and unmaps all around while messages come and go. */
TEST_F(ImplicitTest, MemoryComesAndGoesUnderTraffic)
{
	std::atomic<bool> stop{false};
	std::vector<std::thread> threads;
	verbs::Pages stays(3 * part);

	for (unsigned n = 0; n < 2; n++)
		threads.emplace_back([&, n] {
			Random mine(run_seed() + n);
			while (!stop) {
				/* A peer or an advice may have made a part of its addresses. */
				verbs::Pages mapped(part + mine() % (2 * part));
				ibv_sge some{at(mapped.data()), 1, all->lkey};
				for (auto at_page = 0u; at_page < mapped.size();
				     at_page += part / 2) {
					some.addr = at(mapped.data(), at_page);
					ibv_advise_mr(b.pd(), IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
						      0, &some, 1);
				}
				auto first = mine() % (stays.size() / 4096);
				auto count = 1 + mine() % (stays.size() / 4096 - first);
				if (n)
					madvise(stays.data() + first * 4096, count * 4096,
						MADV_DONTNEED);
			}
		});
	for (uint64_t i = 0; i < rounds(20); i++) {
		std::vector<unsigned char> heap(size);
		auto *p = stays.data() + random() % (stays.size() - size);

		ASSERT_EQ(pair.a->post(write_work(1, {here->sge()}, at(p), all->rkey)), 0);
		ASSERT_EQ(pair.a->post(read_work(2, {back->sge()}, at(p), all->rkey)), 0);
		ASSERT_EQ(pair.b->post(write_work(3, {sge(heap.data(), size)}, back->address(),
						  back->rkey())),
			  0);
		EXPECT_COMPLETED(pair.a->wait_send()[0], 1, IBV_WC_RDMA_WRITE);
		EXPECT_COMPLETED(pair.a->wait_send()[0], 2, IBV_WC_RDMA_READ);
		EXPECT_COMPLETED(pair.b->wait_send()[0], 3, IBV_WC_RDMA_WRITE);
		write_and_read(heap.data(), size, i);
	}
	stop = true;
	for (auto &thread : threads)
		thread.join();
	write_and_read(stays.data(), size, 6);
	EXPECT_EQ(here->harmed() + back->harmed(), "");
}

/* What the peer is writing to goes away under it: an error, or all was there in time. */
TEST_F(ImplicitTest, UnmappedInMidTransfer)
{
	for (unsigned i = 0; i < rounds(20); i++) {
		auto other = connected();
		auto memory = std::make_optional<verbs::Pages>(6 * part, MAP_NORESERVE);
		auto address = at(memory->data());

		for (uint64_t n = 0; n < 20; n++)
			ASSERT_EQ(other.a->post(write_work(n, {here->sge()}, address + n * size,
							   all->rkey)),
				  0);
		std::this_thread::sleep_for(verbs::milliseconds(random() % 3));
		memory.reset();
		for (auto &wc : other.a->wait_send(20))
			EXPECT_TRUE(wc.status == IBV_WC_SUCCESS ||
				    wc.status == IBV_WC_REM_ACCESS_ERR ||
				    wc.status == IBV_WC_WR_FLUSH_ERR)
				<< ibv_wc_status_str(wc.status);
		other.a->host().discard_async_events();
		b.discard_async_events();
	}
	std::vector<unsigned char> heap(size);
	write_and_read(heap.data(), size, 1);
}

TEST_F(ImplicitTest, DeregisteredInMidTransfer)
{
	for (unsigned i = 0; i < rounds(20); i++) {
		auto other = connected();
		verbs::Pages memory(4 * part);
		auto region = whole(b);

		for (uint64_t n = 0; n < 20; n++)
			ASSERT_EQ(other.a->post(write_work(n, {here->sge()},
							   at(memory.data()) + n * size,
							   region->rkey)),
				  0);
		for (uint64_t n = 0; n < 4; n++)
			ASSERT_EQ(other.b->post(
					  write_work(n, {{at(memory.data()), size, region->lkey}},
						     back->address(), back->rkey())),
				  0);
		std::this_thread::sleep_for(verbs::milliseconds(random() % 3));
		region.reset();
		other.a->host().discard_async_events();
		b.discard_async_events();
	}
	std::vector<unsigned char> heap(size);
	write_and_read(heap.data(), size, 1);
}

/* More address space than the table may cover: some goes out of it, and comes again. */
TEST_F(ImplicitTest, MorePartsThanTheTableHas)
{
	struct sysinfo info{};

	verbs::check(sysinfo(&info), "sysinfo");
	auto most = std::max<uint64_t>(64, info.totalram * info.mem_unit / 4096 / 64);
	auto count = most + most / 8;
	verbs::Pages sparse(count * part, MAP_NORESERVE, PROT_READ);
	std::vector<ibv_sge> one_each;

	for (uint64_t i = 0; i < count; i++)
		one_each.push_back(sge(sparse.data() + i * part, 1));
	auto advise = [&](std::size_t first, std::size_t end) {
		/* As many as a command takes. */
		for (std::size_t n; first < end; first += n) {
			n = std::min<std::size_t>(512, end - first);
			ASSERT_EQ(ibv_advise_mr(b.pd(), IBV_ADVISE_MR_ADVICE_PREFETCH,
						IBV_ADVISE_MR_FLAG_FLUSH, one_each.data() + first,
						static_cast<uint32_t>(n)),
				  0);
		}
	};
	advise(0, most / 2);
	auto before = faults();
	read(sparse.data(), 1);
	EXPECT_EQ(faults(), before) << "half of what there may be is not kept";
	advise(0, count);
	for (uint64_t i = 0; i < count; i += count / 64) {
		read(sparse.data() + i * part, 1);
		EXPECT_EQ(back->data()[0], 0);
	}
	EXPECT_GT(faults(), before) << "there is no bound";
}

} // namespace
