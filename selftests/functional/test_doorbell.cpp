// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The file that a context's doorbells are rung on (ziw-abi.h). */
#include <sys/ioctl.h>

#include <algorithm>

#include "abi.h"
#include "fixture.h"

namespace {

using Qp = verbs::Handle<ibv_qp, ibv_destroy_qp>;

/* A context of its own, and its file. */
struct Opened {
	explicit Opened(const Host &host)
	{
		auto before = doorbells();
		context.reset(verbs::check(ibv_open_device(host.context()->device), "open"));
		for (int fd : doorbells())
			if (std::find(before.begin(), before.end(), fd) == before.end())
				bell = fd;
		pd.reset(verbs::check(ibv_alloc_pd(context.get()), "ibv_alloc_pd"));
		cq.reset(verbs::check(ibv_create_cq(context.get(), 4, nullptr, nullptr, 0),
				      "ibv_create_cq"));
	}

	Qp make_qp(ibv_srq *srq = nullptr)
	{
		ibv_qp_init_attr init{};
		init.send_cq = init.recv_cq = cq.get();
		init.srq = srq;
		init.qp_type = IBV_QPT_RC;
		init.cap = {1, srq ? 0u : 1u, 1, srq ? 0u : 1u, 0};
		return Qp(verbs::check(ibv_create_qp(pd.get(), &init), "ibv_create_qp"));
	}

	/* 0 or errno. */
	int ring(unsigned long arg, unsigned cmd = ZIW_IOC_DOORBELL) const
	{
		return ioctl(bell, cmd, arg) ? errno : 0;
	}

	verbs::Context context;
	verbs::Pd pd;
	verbs::Cq cq;
	int bell = -1;
};

class DoorbellTest : public VerbsTest {
protected:
	void SetUp() override
	{
		if (!a.is_ziw())
			GTEST_SKIP() << "ziw's own";
	}
};

TEST_F(DoorbellTest, RingsTheContextsOwnQueuePairsOnly)
{
	Opened mine(a), other(a);
	auto qp = mine.make_qp(), foreign = other.make_qp();

	ASSERT_GE(mine.bell, 0);
	ASSERT_GE(other.bell, 0);
	EXPECT_EQ(mine.ring(qp->qp_num), 0);
	EXPECT_EQ(mine.ring(qp->qp_num | ZIW_DOORBELL_RECV), 0);
	EXPECT_EQ(mine.ring(foreign->qp_num), ENOENT);
	EXPECT_EQ(other.ring(qp->qp_num), ENOENT);
	EXPECT_EQ(mine.ring(0), ENOENT);
	EXPECT_EQ(mine.ring(ZIW_DOORBELL_QPN), ENOENT);
	auto number = qp->qp_num;
	qp.reset();
	EXPECT_EQ(mine.ring(number), ENOENT);
}

TEST_F(DoorbellTest, BadArguments)
{
	Opened mine(a);
	ibv_srq_init_attr init{};
	init.attr = {1, 1, 0};
	verbs::Srq srq(verbs::check(ibv_create_srq(mine.pd.get(), &init), "ibv_create_srq"));
	auto qp = mine.make_qp(srq.get());

	EXPECT_EQ(mine.ring(qp->qp_num | ZIW_DOORBELL_RECV), EINVAL);
	EXPECT_EQ(mine.ring(qp->qp_num, ZIW_IOC_DOORBELL + 1), ENOTTY);
	EXPECT_EQ(mine.ring(qp->qp_num, 0), ENOTTY);
	char byte = 0;
	EXPECT_LT(read(mine.bell, &byte, 1), 0);
	EXPECT_LT(write(mine.bell, &byte, 1), 0);
}

TEST_F(DoorbellTest, OutlivesItsContext)
{
	verbs::Fd copy;
	unsigned number;
	{
		Opened mine(a);
		auto qp = mine.make_qp();
		number = qp->qp_num;
		copy.reset(dup(mine.bell));
	}
	EXPECT_LT(ioctl(copy.get(), ZIW_IOC_DOORBELL, static_cast<unsigned long>(number)), 0);
	EXPECT_EQ(errno, ENODEV);
}

/* While it is rung, queue pairs and in the end the device go. */
TEST_F(DoorbellTest, RungWhileEverythingGoes)
{
	Topology topology("d");
	verbs::Fd copy;
	{
		Host here(topology.a());
		Opened mine(here);
		copy.reset(dup(mine.bell));
		std::atomic<bool> stop{false};
		/* Numbers go up: the next ones are rung as they come to be. */
		std::atomic<unsigned long> last{mine.make_qp()->qp_num};
		std::atomic<uint64_t> rung{0}, gone{0}, other{0};
		std::thread ringer([&] {
			while (!stop)
				for (unsigned long n = 0; n < 8; n++) {
					int rc = mine.ring((last + n) & ZIW_DOORBELL_QPN);
					rung += rc == 0;
					gone += rc == ENODEV;
					other += rc && rc != ENODEV && rc != ENOENT;
				}
		});
		for (unsigned i = 0; i < rounds(200); i++)
			last = mine.make_qp()->qp_num;
		EXPECT_EQ(::shell("rdma link delete " + driver_type() + "ad"), 0);
		EXPECT_TRUE(verbs::eventually(verbs::milliseconds(5000), [&] { return gone > 0; }));
		stop = true;
		ringer.join();
		EXPECT_GT(rung, 0u);
		EXPECT_EQ(other, 0u);
	}
	EXPECT_LT(ioctl(copy.get(), ZIW_IOC_DOORBELL, 2ul), 0);
	EXPECT_EQ(errno, ENODEV);
}

} // namespace
