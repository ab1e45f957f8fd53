// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Parent and thread domains, and what is not offered. */
#include <fcntl.h>

#include "fixture.h"

namespace {

using Td = verbs::Handle<ibv_td, ibv_dealloc_td>;

class DomainTest : public VerbsTest {
protected:
	Td thread(Host &host)
	{
		ibv_td_init_attr attr{};

		return Td(verbs::check(ibv_alloc_td(host.context(), &attr), "ibv_alloc_td"));
	}

	verbs::Pd parent(Host &host, ibv_td *td, uint32_t mask = 0)
	{
		ibv_parent_domain_init_attr attr{};

		attr.pd = host.pd();
		attr.td = td;
		attr.comp_mask = mask;
		return verbs::Pd(verbs::check(ibv_alloc_parent_domain(host.context(), &attr),
					      "ibv_alloc_parent_domain"));
	}

	/* All kinds of traffic from a, whose QP is in `domain`, to b. */
	void traffic(ibv_pd *domain)
	{
		PairConfig config;

		config.a.pd = domain;
		config.a.send_ops = IBV_QP_EX_WITH_RDMA_WRITE;
		auto pair = connected(config);
		EXPECT_EQ(pair.a->qp()->pd, domain);
		/* A region of either domain will do: they are the same to the kernel. */
		Region in_parent(domain, 4096), in_pd(a.pd(), 4096), there(b.pd(), 4096);
		in_parent.fill(1);
		in_pd.fill(1);
		ASSERT_EQ(pair.a->post(write_work(1, {in_parent.sge(0, 100), in_pd.sge(100, 3996)},
						  there.address(), there.rkey())),
			  0);
		EXPECT_COMPLETED(pair.a->wait_send()[0], 1, IBV_WC_RDMA_WRITE);
		synchronize(*pair.a, *pair.b);
		EXPECT_EQ(differs_from_pattern(there.data(), 4096, 1), "");
		there.clear();
		auto *qp = pair.a->qp_ex();
		ibv_wr_start(qp);
		qp->wr_id = 2;
		qp->wr_flags = IBV_SEND_SIGNALED;
		ibv_wr_rdma_write(qp, there.rkey(), there.address());
		ibv_wr_set_sge(qp, in_parent.lkey(), in_parent.address(), 4096);
		ASSERT_EQ(ibv_wr_complete(qp), 0);
		EXPECT_COMPLETED(pair.a->wait_send()[0], 2, IBV_WC_RDMA_WRITE);
		synchronize(*pair.a, *pair.b);
		EXPECT_EQ(differs_from_pattern(there.data(), 4096, 1), "");
	}
};

TEST_F(DomainTest, ParentStandsForItsDomain)
{
	auto domain = parent(a, nullptr);

	EXPECT_EQ(domain->handle, a.pd()->handle);
	traffic(domain.get());
}

TEST_F(DomainTest, ThreadDomain)
{
	auto td = thread(a);
	auto domain = parent(a, td.get());

	traffic(domain.get());
}

/* Rings are the kernel's memory, so there is nothing that an allocator would be asked for. */
TEST_F(DomainTest, AllocatorsAreAccepted)
{
	ibv_parent_domain_init_attr attr{};

	attr.pd = a.pd();
	attr.comp_mask =
		IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
	attr.alloc = [](ibv_pd *, void *, size_t, size_t, uint64_t) -> void * { return nullptr; };
	attr.free = [](ibv_pd *, void *, void *, uint64_t) {};
	verbs::Pd domain(verbs::check(ibv_alloc_parent_domain(a.context(), &attr),
				      "ibv_alloc_parent_domain"));
	traffic(domain.get());
}

TEST_F(DomainTest, QueuesOfAThreadDomain)
{
	auto td = thread(b);
	auto domain = parent(b, td.get());
	ibv_cq_init_attr_ex cq_attr{};
	ibv_srq_init_attr srq_attr{};
	PairConfig config;

	cq_attr.cqe = 64;
	cq_attr.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
	cq_attr.parent_domain = domain.get();
	verbs::Cq cq(ibv_cq_ex_to_cq(
		verbs::check(ibv_create_cq_ex(b.context(), &cq_attr), "ibv_create_cq_ex")));
	srq_attr.attr = {16, 1, 0};
	verbs::Srq srq(verbs::check(ibv_create_srq(domain.get(), &srq_attr), "ibv_create_srq"));
	config.b.pd = domain.get();
	config.b.cq = cq.get();
	config.b.srq = srq.get();
	{
		auto pair = connected(config);
		Region here(a.pd(), 100), there(domain.get(), 100);
		ibv_sge sge = there.sge();
		ibv_recv_wr recv{}, *bad;

		recv.wr_id = 3;
		recv.sg_list = &sge;
		recv.num_sge = 1;
		here.fill(4);
		ASSERT_EQ(ibv_post_srq_recv(srq.get(), &recv, &bad), 0);
		ASSERT_EQ(pair.a->post(send_work(1, {here.sge()})), 0);
		EXPECT_COMPLETED(wait_cq(cq.get(), 1)[0], 3, IBV_WC_RECV);
		EXPECT_EQ(differs_from_pattern(there.data(), 100, 4), "");
		/* What a domain has in it keeps it. */
		EXPECT_EQ(ibv_dealloc_pd(domain.get()), EBUSY);
		EXPECT_EQ(ibv_dealloc_td(td.get()), EBUSY);
	}
	srq.reset();
	EXPECT_EQ(ibv_dealloc_pd(domain.get()), EBUSY) << "for its CQ";
	cq.reset();
}

TEST_F(DomainTest, AParentKeepsItsDomain)
{
	verbs::Pd pd(verbs::check(ibv_alloc_pd(a.context()), "ibv_alloc_pd"));
	ibv_parent_domain_init_attr attr{};

	attr.pd = pd.get();
	verbs::Pd domain(verbs::check(ibv_alloc_parent_domain(a.context(), &attr),
				      "ibv_alloc_parent_domain"));
	EXPECT_EQ(ibv_dealloc_pd(pd.get()), EBUSY);
	domain.reset();
}

TEST_F(DomainTest, WhatIsNoParentIsRefused)
{
	auto domain = parent(a, nullptr);
	ibv_parent_domain_init_attr attr{};
	ibv_cq_init_attr_ex cq{};
	ibv_td_init_attr td{};

	errno = 0;
	EXPECT_EQ(ibv_alloc_parent_domain(a.context(), &attr), nullptr) << "without a PD";
	EXPECT_EQ(errno, EINVAL);
	attr.pd = domain.get();
	errno = 0;
	EXPECT_EQ(ibv_alloc_parent_domain(a.context(), &attr), nullptr) << "of a parent";
	EXPECT_EQ(errno, EINVAL);
	attr.pd = a.pd();
	attr.comp_mask = 1u << 20;
	EXPECT_EQ(ibv_alloc_parent_domain(a.context(), &attr), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
	td.comp_mask = 1;
	EXPECT_EQ(ibv_alloc_td(a.context(), &td), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
	cq.cqe = 4;
	cq.comp_mask = IBV_CQ_INIT_ATTR_MASK_PD;
	cq.parent_domain = a.pd();
	EXPECT_EQ(ibv_create_cq_ex(a.context(), &cq), nullptr);
	EXPECT_EQ(errno, EINVAL);
}

/* A hint, which a device that places in order anyway may take or leave. */
TEST_F(DomainTest, RelaxedOrderingIsAccepted)
{
	auto pair = connected();
	Region here(a.pd(), 4096, IBV_ACCESS_RELAXED_ORDERING),
		there(b.pd(), 4096, Region::all | IBV_ACCESS_RELAXED_ORDERING);

	here.fill(6);
	ASSERT_EQ(pair.a->post(write_work(1, {here.sge()}, there.address(), there.rkey())), 0);
	pair.a->wait_send();
	synchronize(*pair.a, *pair.b);
	EXPECT_EQ(differs_from_pattern(there.data(), 4096, 6), "");
}

TEST_F(DomainTest, WhatIsNotOfferedSaysSo)
{
	auto *context = a.context();
	auto refused = [](const char *what, const void *made) {
		EXPECT_EQ(made, nullptr) << what;
		EXPECT_EQ(errno, EOPNOTSUPP) << what;
		errno = 0;
	};
	verbs::Cq cq(verbs::check(ibv_create_cq(context, 4, nullptr, nullptr, 0), "ibv_create_cq"));

	errno = 0;
	ibv_alloc_dm_attr dm{};
	dm.length = 64;
	refused("device memory", ibv_alloc_dm(context, &dm));
	refused("a null region", ibv_alloc_null_mr(a.pd()));
	ibv_xrcd_init_attr xrcd{};
	xrcd.fd = -1;
	xrcd.oflags = O_CREAT;
	xrcd.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	refused("an XRC domain", ibv_open_xrcd(context, &xrcd));
	ibv_wq_init_attr wq{};
	wq.wq_type = IBV_WQT_RQ;
	wq.max_wr = wq.max_sge = 1;
	wq.pd = a.pd();
	wq.cq = cq.get();
	refused("a work queue", ibv_create_wq(context, &wq));
	ibv_counters_init_attr counters{};
	refused("counters", ibv_create_counters(context, &counters));
	ibv_srq_init_attr_ex srq{};
	srq.attr = {1, 1, 0};
	srq.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ;
	srq.srq_type = IBV_SRQT_TM;
	srq.pd = a.pd();
	srq.cq = cq.get();
	refused("tag matching", ibv_create_srq_ex(context, &srq));
	ibv_ah_attr ah{};
	ah.port_num = 1;
	refused("an address handle", ibv_create_ah(a.pd(), &ah));
	for (auto type : {IBV_QPT_UD, IBV_QPT_UC, IBV_QPT_RAW_PACKET}) {
		ibv_qp_init_attr qp{};
		qp.qp_type = type;
		qp.send_cq = qp.recv_cq = cq.get();
		qp.cap = {1, 1, 1, 1, 0};
		refused("another type of queue pair", ibv_create_qp(a.pd(), &qp));
	}
	verbs::Pages pages(4096);
	refused("huge pages by the device",
		ibv_reg_mr(a.pd(), pages.data(), 4096, IBV_ACCESS_HUGETLB));
}

} // namespace
