/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* A process of its own that connects to this one and keeps the connection busy until it is killed.
 */
#pragma once

#include <sys/types.h>

#include <string>

#include "endpoint.h"

/* What the listening side tells its peer in the private data of its accept. */
struct Advertisement {
	uint64_t address;
	uint32_t rkey;
	uint32_t length;
};

class Peer {
public:
	/*
	 * role: "write", "read" or "send" without end, or "idle" with receives posted; after
	 * "implicit-" with memory that it names by a region of all its address space.
	 * host: the description of the host it runs on.
	 */
	Peer(const std::string &role, const std::string &host, const Address &to);
	~Peer();
	Peer(const Peer &) = delete;
	Peer &operator=(const Peer &) = delete;

	void kill();
	/* Its exit code once it ended by itself, -1 if it does not. */
	int wait(verbs::milliseconds timeout);

private:
	pid_t pid_;
};

/* The end of a connection from a Peer: `region`, or what `here` says, is advertised to it. */
std::unique_ptr<Endpoint> accept_peer(Listener &listener, const Region &region,
				      const QpConfig &config = {});
std::unique_ptr<Endpoint> accept_peer(Listener &listener, Advertisement here,
				      const QpConfig &config = {});

int peer_main(int argc, char **argv);
