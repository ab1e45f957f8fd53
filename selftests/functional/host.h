/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/*
 * A host: a network namespace, a network interface in it, and the RDMA device on that.
 *
 *   namespace a                    namespace b
 *   ziwa on va  ------- veth -------  vb with ziwb
 *
 * Both are driven from this one process, so that what one side sent and the other side received can
 * be compared directly. selftests/lib/topology.sh makes them.
 */
#pragma once

#include <sys/socket.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "verbs/verbs.h"

/* Longest wait for anything that should come at once; emulated machines are slow. */
inline constexpr verbs::milliseconds soon{10000};
/* How long to watch that something does not happen. */
inline constexpr verbs::milliseconds moment{200};

/* While one of these lives, the calling thread is in the named namespace. "" is its own. */
class InNamespace {
public:
	explicit InNamespace(const std::string &name);
	~InNamespace();
	InNamespace(const InNamespace &) = delete;
	InNamespace &operator=(const InNamespace &) = delete;

private:
	verbs::Fd back_;
};

enum class Family { ipv4, ipv6, link_local };

struct Address {
	sockaddr_storage storage{};

	sockaddr *get() { return reinterpret_cast<sockaddr *>(&storage); }
	const sockaddr *get() const { return reinterpret_cast<const sockaddr *>(&storage); }
	socklen_t size() const;
	void set_port(uint16_t port);
	/* The same family and interface, any address. */
	Address wildcard() const;
};

struct AsyncEvent {
	ibv_event_type type;
	/* The QP, CQ or SRQ; for port events the port's number. */
	const void *element;
};

class Host {
public:
	/* "NAMESPACE:NETDEV:DEVICE" */
	explicit Host(const std::string &description);

	const std::string &ns() const { return ns_; }
	const std::string &netdev() const { return netdev_; }
	const std::string &device() const { return device_; }
	/* Its interface's address; throws if there is none of this kind. */
	Address address(Family family) const;

	ibv_context *context() const { return anchor_->verbs; }
	ibv_pd *pd() const { return pd_.get(); }
	const ibv_device_attr &attributes() const { return attributes_; }
	/* Some memory, for receives on drivers that take none without. */
	ibv_sge scratch() const;
	/* Whether this is the driver under test, and not another one for comparison. */
	bool is_ziw() const { return type_ == "ziw"; }
	/* Inline bytes to ask for: what ziw promises, and what any driver has. */
	unsigned max_inline() const { return is_ziw() ? 512 : 64; }
	unsigned max_sge() const;
	unsigned max_sge_read() const;

	/* An id bound to this host's namespace, with a channel of its own. */
	verbs::CmChannel make_channel() const;
	verbs::CmId make_id(rdma_event_channel *channel) const;

	/* The first event (from now on, or kept from before) for element; nothing if none comes. */
	std::optional<AsyncEvent> async_event(const void *element, verbs::milliseconds timeout);
	/* The same by type, for port and device events. */
	std::optional<AsyncEvent> async_event(ibv_event_type type, verbs::milliseconds timeout);
	/* Forget all events so far, or those of one element: a new one may get its address. */
	void discard_async_events();
	void discard_async_events(const void *element);

	/* What the device has counted of this, as `rdma statistic` names it. */
	uint64_t counter(const std::string &name) const;

	/* Run a shell command in this host's namespace; throws unless it succeeds. */
	void shell(const std::string &command) const;

private:
	template <class Match>
	std::optional<AsyncEvent> take_event(Match &&match, verbs::milliseconds timeout);
	bool read_event();

	std::string ns_, netdev_, device_, type_;
	verbs::CmChannel anchor_channel_;
	/* Keeps librdmacm's context of the device open. */
	verbs::CmId anchor_;
	verbs::Pd pd_;
	verbs::Pages scratch_;
	verbs::Mr scratch_mr_;
	ibv_device_attr attributes_{};
};

/* Two hosts as selftests/lib/topology makes them, gone with this object. */
class Topology {
public:
	explicit Topology(const std::string &tag);
	~Topology();
	Topology(const Topology &) = delete;
	Topology &operator=(const Topology &) = delete;
	std::string a() const { return describe("a"); }
	std::string b() const { return describe("b"); }
	std::string ns_a() const { return "a" + tag_; }
	std::string ns_b() const { return "b" + tag_; }

private:
	std::string describe(const std::string &side) const;
	std::string tag_;
};

/* netem on a host's interface while this lives, e.g. "loss 1%". */
class Impairment {
public:
	Impairment(const Host &host, const std::string &netem);
	~Impairment();
	Impairment(const Impairment &) = delete;
	Impairment &operator=(const Impairment &) = delete;

private:
	std::string ns_, netdev_;
};

/* A file of /proc or /sys that says something else while this lives. */
class Setting {
public:
	/* ns: the namespace to see it from; throws if it cannot be read or takes no such value. */
	Setting(const std::string &path, const std::string &value, const std::string &ns = "");
	~Setting();
	Setting(const Setting &) = delete;
	Setting &operator=(const Setting &) = delete;

private:
	std::string path_, ns_, before_;
};

/* Exit code of a shell command. */
int shell(const std::string &command);
/* Where the test scripts' library is; from the environment or beside the sources. */
std::string library_path();
std::string driver_type();
