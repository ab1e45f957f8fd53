// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Each allocation of the calls that make, change and end objects fails in turn. */
#include "faults.h"
#include "link.h"

namespace {

using FaultTest = VerbsTest;

/* For calls of libibverbs that return an object. */
template <class Owner, class Make>
void fail_each_make(const std::string &what, Make &&make, const FaultOptions &options = {})
{
	Owner made;

	fail_each(
		what,
		[&] {
			errno = 0;
			made.reset(make());
			return made ? 0 : errno ? errno : EINVAL;
		},
		[&] { made.reset(); }, options);
}

TEST_F(FaultTest, OpenDevice)
{
	auto *device = a.context()->device;
	FaultOptions options;

	/* libibverbs tries several ways to find the device's file, and tells of the last one. */
	options.errors.insert(ENOENT);
	fail_each_make<verbs::Context>(
		"open device", [&] { return ibv_open_device(device); }, options);
}

TEST_F(FaultTest, ProtectionDomain)
{
	fail_each_make<verbs::Pd>("PD", [&] { return ibv_alloc_pd(a.context()); });
}

TEST_F(FaultTest, MemoryRegion)
{
	verbs::Pages small(10000), large(1 << 20);

	for (auto *pages : {&small, &large}) {
		std::memset(pages->data(), 1, pages->size());
		fail_each_make<verbs::Mr>("MR of " + std::to_string(pages->size()) + " bytes", [&] {
			return ibv_reg_mr(a.pd(), pages->data(), pages->size(), Region::all);
		});
	}
}

/* Regions on demand: made, and their pages brought in. */
TEST_F(FaultTest, OnDemand)
{
	constexpr int rights = Region::all | IBV_ACCESS_ON_DEMAND;
	constexpr std::size_t size = 6 << 20;
	verbs::Pages pages;

	for (auto implicit : {false, true}) {
		std::string what = implicit ? "implicit" : "explicit";
		auto make = [&] {
			return implicit ? ibv_reg_mr(a.pd(), nullptr, SIZE_MAX, rights)
					: ibv_reg_mr(a.pd(), pages.data(), size, rights);
		};
		pages = verbs::Pages(size);
		fail_each_make<verbs::Mr>("MR, " + what, make);

		verbs::Mr mr(make());
		ASSERT_TRUE(mr);
		fail_each(
			"advice on MR, " + what,
			[&] {
				ibv_sge sge{reinterpret_cast<uintptr_t>(pages.data()) + size / 2, 1,
					    mr->lkey};
				return ibv_advise_mr(a.pd(), IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
						     IBV_ADVISE_MR_FLAG_FLUSH, &sge, 1);
			},
			[&] {
				/* All as before the first time, the table of the region too. */
				mr.reset();
				pages = verbs::Pages();
				pages = verbs::Pages(size);
				mr.reset(make());
			});
	}
}

TEST_F(FaultTest, CompletionQueue)
{
	verbs::CompChannel channel(ibv_create_comp_channel(a.context()));

	fail_each_make<verbs::CompChannel>("completion channel",
					   [&] { return ibv_create_comp_channel(a.context()); });
	fail_each_make<verbs::Cq>(
		"CQ", [&] { return ibv_create_cq(a.context(), 1000, nullptr, channel.get(), 0); });
}

TEST_F(FaultTest, SharedReceiveQueue)
{
	ibv_srq_init_attr init{};

	init.attr.max_wr = 500;
	init.attr.max_sge = 4;
	fail_each_make<verbs::Srq>("SRQ", [&] { return ibv_create_srq(a.pd(), &init); });

	verbs::Srq srq(ibv_create_srq(a.pd(), &init));
	ibv_srq_attr attr{};
	attr.srq_limit = 10;
	fail_each(
		"SRQ, limit", [&] { return ibv_modify_srq(srq.get(), &attr, IBV_SRQ_LIMIT); },
		[] {});
}

using Qp = verbs::Handle<ibv_qp, ibv_destroy_qp>;

TEST_F(FaultTest, QueuePair)
{
	verbs::Cq cq(ibv_create_cq(a.context(), 100, nullptr, nullptr, 0));
	auto make = [&] {
		ibv_qp_init_attr init{};
		init.qp_type = IBV_QPT_RC;
		init.send_cq = init.recv_cq = cq.get();
		init.cap = {100, 100, 4, 4, 64};
		return ibv_create_qp(a.pd(), &init);
	};

	fail_each_make<Qp>("QP", make);

	Qp qp(make());
	auto move = [&](ibv_qp_state state) {
		ibv_qp_attr attr{};
		attr.qp_state = state;
		return ibv_modify_qp(qp.get(), &attr, IBV_QP_STATE);
	};
	for (auto state : {IBV_QPS_INIT, IBV_QPS_ERR, IBV_QPS_RESET})
		fail_each(
			"QP, to state " + std::to_string(state), [&] { return move(state); },
			[] {});
}

/*
 * What ends an object may fail, but then it is still there, and the next try succeeds; or it is
 * gone, and the RDMA core could not copy its response.
 */
TEST_F(FaultTest, Destroy)
{
	verbs::Pages pages(10000);
	verbs::Cq cq(ibv_create_cq(a.context(), 100, nullptr, nullptr, 0));
	ibv_qp_init_attr init{};
	init.qp_type = IBV_QPT_RC;
	init.send_cq = init.recv_cq = cq.get();
	init.cap = {100, 100, 4, 4, 64};

	auto each = [](const std::string &what, auto &&make, auto &&destroy) {
		bool met = true;
		unsigned n;

		for (n = 1; met && n < 1000; n++) {
			auto *object = make();
			ASSERT_TRUE(object) << what << ": " << std::strerror(errno);
			NthFault fault(n);
			int rc = destroy(object);
			met = fault.disarm();
			if (rc) {
				int again = destroy(object);
				ASSERT_TRUE(!again || (rc == EFAULT && again == ENOENT))
					<< what << ": fault " << n << " gave " << std::strerror(rc)
					<< ", then " << std::strerror(again);
			}
		}
		EXPECT_LT(n, 1000u) << what;
	};
	each("PD", [&] { return ibv_alloc_pd(a.context()); }, ibv_dealloc_pd);
	each("MR", [&] { return ibv_reg_mr(a.pd(), pages.data(), pages.size(), 0); }, ibv_dereg_mr);
	each(
		"CQ", [&] { return ibv_create_cq(a.context(), 100, nullptr, nullptr, 0); },
		ibv_destroy_cq);
	each("QP", [&] { return ibv_create_qp(a.pd(), &init); }, ibv_destroy_qp);
}

/* Queries have nothing to undo. */
TEST_F(FaultTest, Query)
{
	ibv_port_attr port;
	ibv_device_attr device;

	fail_each("query port", [&] { return ibv_query_port(a.context(), 1, &port); }, [] {});
	fail_each("query device", [&] { return ibv_query_device(a.context(), &device); }, [] {});
}

/* An interface without an RDMA device, in a namespace of its own. */
struct Interface {
	Interface()
	{
		EXPECT_EQ(
			shell("ip netns add af && ip -n af link add vaf type veth peer name vbf && "
			      "ip -n af addr add 10.9.9.1/24 dev vaf && ip -n af link set vaf up"),
			0);
	}
	~Interface() { EXPECT_EQ(shell("ip netns delete af"), 0); }
};

TEST_F(FaultTest, AddLink)
{
	Interface interface;
	InNamespace in("af");
	FaultOptions options;

	/*
	 * The RDMA core forgets inner nodes of a radix tree when it has no memory for the next one
	 * (README.md). And there are hundreds of allocations more, each of which takes the device
	 * through registration and back.
	 */
	NotBelow leaky("uverbs_alloc_api");
	/* Of the netlink socket. */
	options.errors.insert({ENFILE, ENOBUFS});
	options.clean_each = 25;
	options.at_most = rounds(100);
	bool made = false;
	fail_each(
		"rdma link add",
		[&] {
			int rc = add_link("ziwaf", "vaf");
			made = !rc;
			return rc;
		},
		[&] {
			/* It may be there also where the answer found no memory. */
			int rc = delete_link("ziwaf");
			ASSERT_TRUE(!rc || (!made && rc == ENODEV)) << std::strerror(rc);
		},
		options);
}

} // namespace
