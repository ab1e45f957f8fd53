/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What tests of on-demand paging start from: regions of b's, and a for its peer. */
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include "fixture.h"

class OnDemandTest : public VerbsTest {
protected:
	static constexpr int rights = Region::all | IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ON_DEMAND;
	static constexpr std::size_t size = 300000;

	/* needed: IBV_ODP_SUPPORT_*, without which there is nothing to test. */
	explicit OnDemandTest(uint64_t needed) : needed_(needed) {}

	void SetUp() override
	{
		ibv_device_attr_ex attr{};

		ASSERT_EQ(ibv_query_device_ex(b.context(), nullptr, &attr), 0);
		if (!(attr.odp_caps.general_caps & needed_))
			GTEST_SKIP() << "not announced";
		pair = connected();
		here.emplace(a.pd(), size);
		back.emplace(a.pd(), size);
	}

	/* Of a: `length` bytes of a pattern go to where b's region is, ... */
	void write_to(uint64_t address, std::size_t length, uint32_t rkey, uint64_t seed)
	{
		here->fill(seed);
		ASSERT_EQ(pair.a->post(write_work(1, {here->sge(0, length)}, address, rkey)), 0);
		EXPECT_COMPLETED(pair.a->wait_send()[0], 1, IBV_WC_RDMA_WRITE);
	}

	/* ... and come back; after what a has written. */
	void read_from(uint64_t address, std::size_t length, uint32_t rkey)
	{
		back->clear();
		ASSERT_EQ(pair.a->post(read_work(2, {back->sge(0, length)}, address, rkey)), 0);
		EXPECT_COMPLETED(pair.a->wait_send()[0], 2, IBV_WC_RDMA_READ);
	}

	void write_and_read(unsigned char *p, std::size_t length, uint32_t rkey, uint64_t seed)
	{
		auto address = reinterpret_cast<uintptr_t>(p);

		write_to(address, length, rkey, seed);
		read_from(address, length, rkey);
		EXPECT_EQ(differs_from_pattern(back->data(), length, seed), "");
		EXPECT_EQ(differs_from_pattern(p, length, seed), "");
	}

	/* A child has what was there when it began; a reads and writes what the parent has. */
	void fork_with(unsigned char *p, uint32_t rkey)
	{
		int hold[2];

		write_and_read(p, size, rkey, 1);
		verbs::check(pipe(hold), "pipe");
		auto child = fork();
		if (!child) {
			/* The pages are shared until one of the two writes. */
			char c;
			close(hold[1]);
			(void)!::read(hold[0], &c, 1);
			_exit(differs_from_pattern(p, size, 1) == "" ? 0 : 1);
		}
		close(hold[0]);
		fill_pattern(p, size / 2, 2);
		read_from(reinterpret_cast<uintptr_t>(p), size, rkey);
		EXPECT_EQ(differs_from_pattern(back->data(), size / 2, 2), "");
		write_and_read(p, size, rkey, 3);
		close(hold[1]);
		int status = 0;
		ASSERT_EQ(waitpid(child, &status, 0), child);
		EXPECT_EQ(status, 0) << "the child's memory was written to";
	}

	Pair pair;
	std::optional<Region> here, back;

private:
	uint64_t needed_;
};
