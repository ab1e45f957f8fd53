// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "host.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sched.h>
#include <sys/wait.h>

#include <deque>
#include <fstream>
#include <memory>
#include <mutex>

using verbs::check;
using verbs::fail;

namespace {

/*
 * Events that were read while looking for another. Both hosts may share one context (the loopback
 * interface), and tests read them from several threads.
 */
std::mutex events_mutex;
std::map<ibv_context *, std::deque<AsyncEvent>> events;

std::string env(const char *name, const std::string &otherwise)
{
	const char *value = getenv(name);

	return value && *value ? value : otherwise;
}

} // namespace

std::string driver_type()
{
	return env("ZIW_TYPE", "ziw");
}

std::string library_path()
{
	return env("ZIW_LIB", "selftests/lib");
}

int shell(const std::string &command)
{
	int status = system(command.c_str());

	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

InNamespace::InNamespace(const std::string &name)
{
	if (name.empty())
		return;
	verbs::Fd there(open(("/run/netns/" + name).c_str(), O_RDONLY | O_CLOEXEC));
	if (!there)
		fail("namespace " + name);
	back_.reset(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
	if (!back_)
		fail("own namespace");
	if (setns(there.get(), CLONE_NEWNET))
		fail("setns " + name);
}

InNamespace::~InNamespace()
{
	if (back_ && setns(back_.get(), CLONE_NEWNET)) {
		std::perror("setns");
		std::abort();
	}
}

socklen_t Address::size() const
{
	return storage.ss_family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

void Address::set_port(uint16_t port)
{
	if (storage.ss_family == AF_INET6)
		reinterpret_cast<sockaddr_in6 *>(&storage)->sin6_port = htons(port);
	else
		reinterpret_cast<sockaddr_in *>(&storage)->sin_port = htons(port);
}

Address Address::wildcard() const
{
	Address any;

	any.storage.ss_family = storage.ss_family;
	return any;
}

Host::Host(const std::string &description)
{
	auto first = description.find(':'), second = description.find(':', first + 1);

	if (second == std::string::npos)
		throw std::invalid_argument("host '" + description + "' is not NS:NETDEV:DEVICE");
	ns_ = description.substr(0, first);
	netdev_ = description.substr(first + 1, second - first - 1);
	device_ = description.substr(second + 1);
	/* The hosts need not have the same driver. */
	type_ = device_.starts_with("siw") ? "siw" : driver_type();

	anchor_channel_ = make_channel();
	anchor_ = make_id(anchor_channel_.get());
	auto here = address(Family::ipv4);
	check(rdma_bind_addr(anchor_.get(), here.get()), "rdma_bind_addr on " + description);
	if (!anchor_->verbs || device_ != ibv_get_device_name(anchor_->verbs->device))
		throw std::runtime_error(
			description + " is not the device of its address, that is " +
			(anchor_->verbs ? ibv_get_device_name(anchor_->verbs->device) : "none"));
	check(ibv_query_device(context(), &attributes_), "ibv_query_device");
	pd_.reset(check(ibv_alloc_pd(context()), "ibv_alloc_pd"));
	scratch_ = verbs::Pages(4096);
	scratch_mr_.reset(
		check(ibv_reg_mr(pd(), scratch_.data(), scratch_.size(), IBV_ACCESS_LOCAL_WRITE),
		      "ibv_reg_mr"));
	verbs::set_nonblocking(context()->async_fd);
	discard_async_events();
}

ibv_sge Host::scratch() const
{
	return {reinterpret_cast<uintptr_t>(scratch_.data()), 4096, scratch_mr_->lkey};
}

unsigned Host::max_sge() const
{
	return static_cast<unsigned>(attributes_.max_sge);
}

/* iWARP's Read Response has one sink: drivers that do not split it say 1 (or, as some, 0). */
unsigned Host::max_sge_read() const
{
	return static_cast<unsigned>(std::max(attributes_.max_sge_rd, 1));
}

Address Host::address(Family family) const
{
	InNamespace in(ns_);
	ifaddrs *list;

	check(getifaddrs(&list), "getifaddrs");
	std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
	for (auto *i = list; i; i = i->ifa_next) {
		if (!i->ifa_addr || netdev_ != i->ifa_name)
			continue;
		Address found;
		if (i->ifa_addr->sa_family == AF_INET && family == Family::ipv4) {
			std::memcpy(&found.storage, i->ifa_addr, sizeof(sockaddr_in));
			/* To rdma_cm 127.0.0.1 and ::1 are no address of any device. */
			auto *four = reinterpret_cast<sockaddr_in *>(&found.storage);
			if (ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET)
				continue;
			return found;
		}
		if (i->ifa_addr->sa_family != AF_INET6 || family == Family::ipv4)
			continue;
		std::memcpy(&found.storage, i->ifa_addr, sizeof(sockaddr_in6));
		auto *six = reinterpret_cast<sockaddr_in6 *>(&found.storage);
		if (IN6_IS_ADDR_LOOPBACK(&six->sin6_addr))
			continue;
		if (!IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr) == (family != Family::link_local))
			return found;
	}
	throw std::runtime_error(netdev_ + " has no address of this kind");
}

verbs::CmChannel Host::make_channel() const
{
	return verbs::CmChannel(check(rdma_create_event_channel(), "rdma_create_event_channel"));
}

verbs::CmId Host::make_id(rdma_event_channel *channel) const
{
	InNamespace in(ns_);
	rdma_cm_id *id;

	check(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP), "rdma_create_id");
	return verbs::CmId(id);
}

bool Host::read_event()
{
	ibv_async_event event;

	if (ibv_get_async_event(context(), &event))
		return false;
	AsyncEvent copy{event.event_type, nullptr};
	switch (event.event_type) {
	case IBV_EVENT_CQ_ERR:
		copy.element = event.element.cq;
		break;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		copy.element = event.element.srq;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
		copy.element = event.element.qp;
		break;
	default:
		break;
	}
	ibv_ack_async_event(&event);
	events[context()].push_back(copy);
	return true;
}

template <class Match>
std::optional<AsyncEvent> Host::take_event(Match &&match, verbs::milliseconds timeout)
{
	std::optional<AsyncEvent> found;

	verbs::eventually(timeout, [&] {
		std::lock_guard lock(events_mutex);
		while (read_event())
			;
		auto &queue = events[context()];
		for (auto i = queue.begin(); i != queue.end(); ++i) {
			if (!match(*i))
				continue;
			found = *i;
			queue.erase(i);
			return true;
		}
		return false;
	});
	return found;
}

std::optional<AsyncEvent> Host::async_event(const void *element, verbs::milliseconds timeout)
{
	return take_event([&](const AsyncEvent &e) { return e.element == element; }, timeout);
}

std::optional<AsyncEvent> Host::async_event(ibv_event_type type, verbs::milliseconds timeout)
{
	return take_event([&](const AsyncEvent &e) { return e.type == type; }, timeout);
}

void Host::discard_async_events()
{
	std::lock_guard lock(events_mutex);

	while (read_event())
		;
	events[context()].clear();
}

void Host::discard_async_events(const void *element)
{
	std::lock_guard lock(events_mutex);

	while (read_event())
		;
	std::erase_if(events[context()], [&](const AsyncEvent &e) { return e.element == element; });
}

uint64_t Host::counter(const std::string &name) const
{
	InNamespace in(ns_);
	auto read = [&](const std::string &file) {
		uint64_t value;

		if (!(std::ifstream("/sys/class/infiniband/" + device_ + "/ports/1/hw_counters/" +
				    file) >>
		      value))
			throw std::runtime_error("no " + file + " of " + device_);
		return value;
	};

	/* For so many milliseconds the RDMA core says what it said before. */
	std::this_thread::sleep_for(verbs::milliseconds(read("lifespan") + 10));
	return read(name);
}

void Host::shell(const std::string &command) const
{
	InNamespace in(ns_);

	if (int rc = ::shell(command))
		throw std::runtime_error("'" + command + "' ended with " + std::to_string(rc));
}

Topology::Topology(const std::string &tag) : tag_(tag)
{
	if (shell(library_path() + "/topology up " + tag_)) {
		shell(library_path() + "/topology down " + tag_);
		throw std::runtime_error("cannot set up the topology");
	}
}

Topology::~Topology()
{
	EXPECT_EQ(shell(library_path() + "/topology down " + tag_), 0);
}

std::string Topology::describe(const std::string &side) const
{
	return side + tag_ + ":v" + side + tag_ + ":" + driver_type() + side + tag_;
}

static void write_file(const std::string &path, const std::string &value)
{
	std::ofstream file(path);

	file << value << std::flush;
	if (!file)
		throw std::runtime_error("cannot write '" + value + "' to " + path);
}

Setting::Setting(const std::string &path, const std::string &value, const std::string &ns)
	: path_(path), ns_(ns)
{
	InNamespace in(ns_);
	std::ifstream file(path_);

	if (!std::getline(file, before_))
		throw std::runtime_error("cannot read " + path_);
	write_file(path_, value);
}

Setting::~Setting()
{
	try {
		InNamespace in(ns_);

		write_file(path_, before_);
	} catch (const std::exception &e) {
		ADD_FAILURE() << e.what();
	}
}

Impairment::Impairment(const Host &host, const std::string &netem)
	: ns_(host.ns()), netdev_(host.netdev())
{
	host.shell("tc qdisc replace dev " + netdev_ + " root netem " + netem);
}

Impairment::~Impairment()
{
	InNamespace in(ns_);

	EXPECT_EQ(shell("tc qdisc del dev " + netdev_ + " root"), 0);
}
