// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Each allocation on the way to a connection fails in turn: in the calls of the CM, and in the
 * workers that do the rest of it.
 */
#include "faults.h"

namespace {

/* What the peers wait for each other, setup_timeout and more; one that hangs takes longer. */
constexpr verbs::milliseconds bounded{20000};

class ConnectFaultTest : public VerbsTest {
protected:
	/* In the thread's namespace; not made if there is no memory. */
	static verbs::CmId make_id(rdma_event_channel *channel)
	{
		rdma_cm_id *id = nullptr;
		verbs::check(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), "rdma_create_id");
		return verbs::CmId(id);
	}

	/* The next event of any type, or a failure of the test. */
	static std::optional<CmEvent> event(rdma_event_channel *channel, const char *who)
	{
		auto e = next_event(channel, bounded);
		EXPECT_TRUE(e) << who << " hears nothing";
		return e;
	}

	/*
	 * Both sides of a connection that is under way: connected, or both told that it failed, in
	 * bounded time. Returns the passive end if it is connected.
	 */
	std::unique_ptr<Endpoint> settle(Endpoint &active, Listener &listener,
					 const std::string &what)
	{
		std::unique_ptr<Endpoint> passive;
		bool established[2] = {}, failed[2] = {};
		auto end = verbs::Clock::now() + bounded;

		while (!(established[0] && established[1]) && !failed[0] &&
		       verbs::Clock::now() < end) {
			if (auto e = next_event(active.channel(), verbs::milliseconds(1))) {
				(e->type == RDMA_CM_EVENT_ESTABLISHED ? established : failed)[0] =
					true;
				timed_out_ += e->type == RDMA_CM_EVENT_UNREACHABLE;
			}
			if (auto e = next_event(listener.channel(), verbs::milliseconds(1)))
				/* A second request is that of MPA's revision 1. */
				if (e->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
					established[1] = false;
					failed[1] = !try_accept(listener, std::move(*e), passive);
				}
			if (passive)
				if (auto e = next_event(passive->channel(), verbs::milliseconds(1)))
					(e->type == RDMA_CM_EVENT_ESTABLISHED ? established
									      : failed)[1] = true;
		}
		if (established[0] && established[1])
			return passive;
		EXPECT_TRUE(failed[0]) << what << ": neither connected nor failed after "
				       << bounded.count() << " ms";
		/* The passive side hears of the end too, if it has heard of the beginning. */
		if (passive && !failed[1]) {
			EXPECT_TRUE(next_event(passive->channel(), bounded))
				<< what << ": the passive side hears nothing";
		}
		return nullptr;
	}

	/* One whole connection. */
	std::unique_ptr<Endpoint> connect_once(Listener &listener, const std::string &what,
					       std::unique_ptr<Endpoint> &active)
	{
		try {
			active = resolve(a, listener.address());
			start_connect(*active);
		} catch (const verbs::Error &) {
			return nullptr;
		}
		return settle(*active, listener, what);
	}

	/* And no fault anywhere. */
	void expect_connection(Listener &listener, const std::string &what)
	{
		std::unique_ptr<Endpoint> active;
		auto passive = connect_once(listener, what, active);

		ASSERT_TRUE(passive) << what;
		synchronize(*active, *passive);
		synchronize(*passive, *active);
	}

	/* Connections that ended for want of an answer. */
	unsigned timed_out_ = 0;

private:
	static bool try_accept(Listener &listener, CmEvent request,
			       std::unique_ptr<Endpoint> &passive)
	{
		try {
			passive = listener.endpoint(std::move(request));
			accept(*passive);
			return true;
		} catch (const verbs::Error &) {
			/* Its id is destroyed, and with it the request refused. */
			passive.reset();
			return false;
		}
	}
};

/* What sockets give for want of memory, too. */
const std::set<int> no_resources{ENOMEM, EFAULT, ENFILE, ENOBUFS};

TEST_F(ConnectFaultTest, MakeId)
{
	verbs::CmChannel channel;
	verbs::CmId id;

	FaultOptions options;
	/* librdmacm tries several ways to find the file, and tells of the last one. */
	options.errors.insert(ENOENT);
	fail_each(
		"event channel",
		[&] {
			channel.reset(rdma_create_event_channel());
			return channel ? 0 : errno;
		},
		[&] { channel.reset(); }, options);
	channel = a.make_channel();
	InNamespace in(a.ns());
	fail_each(
		"id",
		[&] {
			rdma_cm_id *made;
			if (rdma_create_id(channel.get(), &made, nullptr, RDMA_PS_TCP))
				return errno;
			id.reset(made);
			return 0;
		},
		[&] { id.reset(); });
}

TEST_F(ConnectFaultTest, BindAndListen)
{
	auto channel = b.make_channel();
	InNamespace in(b.ns());
	verbs::CmId id;
	FaultOptions options;
	options.errors = no_resources;
	/* TCP says so, too, of a port that it finds no memory to note down. */
	options.errors.insert(EADDRINUSE);
	options.clean_each = 10;
	auto here = b.address(default_family());
	Address any = here.wildcard();

	for (auto *to : {&here, &any}) {
		fail_each(
			"bind and listen",
			[&] {
				id = make_id(channel.get());
				return rdma_bind_addr(id.get(), to->get()) ||
						       rdma_listen(id.get(), 16)
					       ? errno
					       : 0;
			},
			[&] { id.reset(); }, options);
		id.reset();
	}
}

TEST_F(ConnectFaultTest, Resolve)
{
	Listener listener(b, default_family());
	auto channel = a.make_channel();
	InNamespace in(a.ns());
	verbs::CmId id;

	/* The answer comes from a worker, whose luck is not ours: an event of either kind. */
	fail_each(
		"resolve address and route",
		[&] {
			id = make_id(channel.get());
			auto to = listener.address();
			if (rdma_resolve_addr(id.get(), nullptr, to.get(), 2000))
				return errno;
			auto e = event(channel.get(), "resolve_addr");
			if (!e || e->type != RDMA_CM_EVENT_ADDR_RESOLVED)
				return ENOMEM;
			if (rdma_resolve_route(id.get(), 2000))
				return errno;
			e = event(channel.get(), "resolve_route");
			return e && e->type == RDMA_CM_EVENT_ROUTE_RESOLVED ? 0 : ENOMEM;
		},
		[&] { id.reset(); });
}

TEST_F(ConnectFaultTest, Connect)
{
	Listener listener(b, default_family());
	std::unique_ptr<Endpoint> active;

	expect_connection(listener, "without a fault");
	for (unsigned n = 1;; n++) {
		auto what = "connect, fault " + std::to_string(n);
		active = resolve(a, listener.address());
		auto p = ConnectParameters().get();
		NthFault fault(n);
		int rc = rdma_connect(active->id(), &p) ? errno : 0;
		bool met = fault.disarm();
		if (rc)
			EXPECT_TRUE(no_resources.contains(rc)) << what << ": " << std::strerror(rc);
		else if (auto passive = settle(*active, listener, what))
			synchronize(*active, *passive);
		active.reset();
		expect_connection(listener, "after " + what);
		if (!met) {
			std::printf("# connect: %u allocations and copies\n", n - 1);
			ASSERT_EQ(rc, 0);
			break;
		}
	}
}

/* accept, or reject: what it returns, and then what the active side hears. */
TEST_F(ConnectFaultTest, AcceptAndReject)
{
	Listener listener(b, default_family());

	for (bool accepting : {true, false}) {
		for (unsigned n = 1;; n++) {
			auto what = std::string(accepting ? "accept" : "reject") + ", fault " +
				    std::to_string(n);
			auto active = resolve(a, listener.address());
			start_connect(*active);
			auto passive = listener.endpoint(listener.request());
			auto p = ConnectParameters().get();
			NthFault fault(n);
			int rc = (accepting ? rdma_accept(passive->id(), &p)
					    : rdma_reject(passive->id(), "no", 2))
					 ? errno
					 : 0;
			bool met = fault.disarm();
			if (!rc && accepting) {
				active->event(RDMA_CM_EVENT_ESTABLISHED);
				passive->event(RDMA_CM_EVENT_ESTABLISHED);
				synchronize(*active, *passive);
			} else {
				EXPECT_TRUE(!rc || out_of_memory.contains(rc))
					<< what << ": " << std::strerror(rc);
				passive.reset();
				/* Where no reply was sent it may come again, by MPA's revision 1.
				 */
				if (auto again = settle(*active, listener, what))
					synchronize(*active, *again);
			}
			if (!met) {
				std::printf("# %s: %u allocations and copies\n",
					    accepting ? "accept" : "reject", n - 1);
				ASSERT_EQ(rc, 0);
				break;
			}
		}
		expect_connection(listener, "after all");
	}
}

TEST_F(ConnectFaultTest, Disconnect)
{
	for (unsigned n = 1;; n++) {
		auto what = "disconnect, fault " + std::to_string(n);
		auto pair = connected();
		NthFault fault(n);
		int rc = rdma_disconnect(pair.a->id()) ? errno : 0;
		bool met = fault.disarm();
		if (rc) {
			EXPECT_TRUE(out_of_memory.contains(rc))
				<< what << ": " << std::strerror(rc);
			ASSERT_EQ(rdma_disconnect(pair.a->id()), 0) << what;
		}
		pair.a->event(RDMA_CM_EVENT_DISCONNECTED, bounded);
		pair.b->event(RDMA_CM_EVENT_DISCONNECTED, bounded);
		if (!met) {
			std::printf("# disconnect: %u allocations and copies\n", n - 1);
			break;
		}
	}
}

/* What the calls leave to workers: the handshake, MPA's frames, events, the end. */
TEST_F(ConnectFaultTest, Workers)
{
	BelowZiw filter;
	Listener listener(b, default_family());

	for (unsigned n = 1, calm = 0; calm < 3; n++) {
		auto what = "workers, fault " + std::to_string(n);
		NthFaultOfWorkers faults(n);
		std::unique_ptr<Endpoint> active;
		auto passive = connect_once(listener, what, active);
		unsigned met = faults.disarm();
		if (passive)
			synchronize(*active, *passive);
		/* Who does what is up to the workers: none that met it may be chance. */
		calm = met ? 0 : calm + 1;
		ASSERT_LT(n, 200u);
		if (calm == 3)
			std::printf("# workers: up to %u allocations of ziw in one of them\n",
				    n - 3);
		expect_connection(listener, "after " + what);
	}
}

/* A single one, of whoever does it: it is tried again, or both ends hear of it at once. */
TEST_F(ConnectFaultTest, NobodyWaitsInVain)
{
	BelowZiw filter;
	Listener listener(b, default_family());
	unsigned made = 0, count = rounds(60);

	for (unsigned i = 0; i < count; i++) {
		auto active = resolve(a, listener.address());
		std::unique_ptr<Endpoint> passive;
		{
			OneFault fault(static_cast<unsigned>(1 + random() % 20));
			auto p = ConnectParameters().get();
			if (!rdma_connect(active->id(), &p))
				passive = settle(*active, listener, "round " + std::to_string(i));
		}
		if (passive)
			synchronize(*active, *passive);
		made += passive != nullptr;
	}
	EXPECT_EQ(timed_out_, 0u) << "connections ended for want of an answer";
	std::printf("# %u of %u connections with one fault made\n", made, count);
}

/* Everything of ziw in any context, softirqs included. */
TEST_F(ConnectFaultTest, AnyContext)
{
	Listener listener(b, default_family());
	unsigned made = 0, count = rounds(40);

	for (unsigned i = 0; i < count; i++) {
		auto active = resolve(a, listener.address());
		std::unique_ptr<Endpoint> passive;
		{
			BelowZiw filter;
			RandomFaults faults(i % 2 ? 5 : 30);
			auto p = ConnectParameters().get();
			if (!rdma_connect(active->id(), &p))
				passive = settle(*active, listener, "round " + std::to_string(i));
		}
		/* From then on memory that is short is waited for. */
		if (passive)
			synchronize(*active, *passive);
		made += passive != nullptr;
	}
	std::printf("# %u of %u connections under random faults made\n", made, count);
	expect_connection(listener, "after all");
}

} // namespace
