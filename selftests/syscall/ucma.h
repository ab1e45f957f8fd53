/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* The uapi of rdma_cm as raw structures, and network namespaces. */
#pragma once

#include <linux/socket.h>
#include <netinet/in.h>
#include <rdma/ib_user_verbs.h>

#include <optional>
#include <string>

#include "verbs/verbs.h"

/* librdmacm has some of the same names. */
namespace ucm {
#include <rdma/rdma_user_cm.h>
}

/* While one of these lives, the calling thread is in the namespace of this name. */
class InNamespace {
public:
	explicit InNamespace(const std::string &name);
	~InNamespace();
	InNamespace(const InNamespace &) = delete;
	InNamespace &operator=(const InNamespace &) = delete;

private:
	verbs::Fd back_;
};

struct CmEvent {
	uint32_t id, type;
	int status;
	/* The number given to the id when it was made or accepted; of a request the listener's. */
	uint64_t uid;
	ucm::rdma_ucm_conn_param conn;
};

/* An open file of rdma_cm. Every call returns 0 or an errno value. */
class Ucma {
public:
	Ucma();
	int fd() const { return fd_.get(); }

	/* In the namespace of the calling thread. */
	int create(uint64_t uid, uint32_t *id);
	int destroy(uint32_t id);
	int bind(uint32_t id, const sockaddr_in &address);
	int resolve_address(uint32_t id, const sockaddr_in &to, unsigned milliseconds);
	int resolve_route(uint32_t id, unsigned milliseconds);
	int listen(uint32_t id, int backlog);
	int connect(uint32_t id, uint32_t qpn, const void *data, uint8_t length);
	int accept(uint32_t id, uint64_t uid, uint32_t qpn, const void *data, uint8_t length);
	int reject(uint32_t id, const void *data, uint8_t length);
	int disconnect(uint32_t id);
	/* Also nothing when the file gave an error. */
	std::optional<CmEvent> event(verbs::milliseconds timeout);
	/* Any command, as it is. */
	int command(uint32_t number, const void *in, std::size_t in_size, std::size_t out_size);

private:
	verbs::Fd fd_;
};

sockaddr_in address(const char *text, uint16_t port);
