// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "link.h"

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <sys/socket.h>

#include <optional>
#include <vector>

#include "../functional/host.h"

namespace {

class Request {
public:
	Request(unsigned command, unsigned flags) : bytes_(sizeof(nlmsghdr))
	{
		header()->nlmsg_type =
			static_cast<uint16_t>(RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, command));
		header()->nlmsg_flags = static_cast<uint16_t>(NLM_F_REQUEST | flags);
	}
	void add(unsigned type, const void *data, std::size_t size)
	{
		nlattr attr{static_cast<uint16_t>(sizeof(nlattr) + size),
			    static_cast<uint16_t>(type)};
		append(&attr, sizeof(attr));
		append(data, size);
		bytes_.resize(NLMSG_ALIGN(bytes_.size()));
	}
	void add(unsigned type, const std::string &text)
	{
		add(type, text.c_str(), text.size() + 1);
	}
	int send(int fd)
	{
		header()->nlmsg_len = static_cast<uint32_t>(bytes_.size());
		return ::send(fd, bytes_.data(), bytes_.size(), 0) < 0 ? errno : 0;
	}

private:
	nlmsghdr *header() { return reinterpret_cast<nlmsghdr *>(bytes_.data()); }
	void append(const void *data, std::size_t size)
	{
		auto *p = static_cast<const unsigned char *>(data);
		bytes_.insert(bytes_.end(), p, p + size);
	}

	std::vector<unsigned char> bytes_;
};

verbs::Fd rdma_socket()
{
	return verbs::Fd(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_RDMA));
}

/* The answer to a request for acknowledgment: 0 or an errno value. */
int acknowledgment(int fd)
{
	alignas(nlmsghdr) char bytes[4096];

	/* None comes where there was no memory for it. */
	if (!verbs::readable(fd, verbs::milliseconds(0)))
		return ENOMEM;
	auto n = recv(fd, bytes, sizeof(bytes), 0);
	if (n < 0)
		return errno;
	auto *header = reinterpret_cast<nlmsghdr *>(bytes);
	if (header->nlmsg_type != NLMSG_ERROR)
		return EPROTO;
	return -static_cast<nlmsgerr *>(NLMSG_DATA(header))->error;
}

std::optional<uint32_t> find_index(const std::string &device)
{
	alignas(nlmsghdr) char bytes[16384];
	auto socket = rdma_socket();
	std::optional<uint32_t> found;

	verbs::check(Request(RDMA_NLDEV_CMD_GET, NLM_F_DUMP).send(socket.get()), "devices");
	for (;;) {
		auto n = recv(socket.get(), bytes, sizeof(bytes), 0);
		if (n < 0)
			verbs::fail("devices");
		auto left = static_cast<unsigned>(n);
		for (auto *h = reinterpret_cast<nlmsghdr *>(bytes); NLMSG_OK(h, left);
		     h = NLMSG_NEXT(h, left)) {
			if (h->nlmsg_type == NLMSG_DONE || h->nlmsg_type == NLMSG_ERROR)
				return found;
			std::optional<uint32_t> index;
			bool ours = false;
			for (unsigned at = NLMSG_HDRLEN; at + sizeof(nlattr) <= h->nlmsg_len;) {
				auto *a = reinterpret_cast<nlattr *>(reinterpret_cast<char *>(h) +
								     at);
				auto *data = reinterpret_cast<char *>(a + 1);
				if (a->nla_type == RDMA_NLDEV_ATTR_DEV_INDEX)
					index = *reinterpret_cast<uint32_t *>(data);
				if (a->nla_type == RDMA_NLDEV_ATTR_DEV_NAME)
					ours = device == data;
				at += NLMSG_ALIGN(a->nla_len);
			}
			if (ours)
				found = index;
		}
	}
}

} // namespace

int add_link(const std::string &device, const std::string &netdev)
{
	auto socket = rdma_socket();
	Request request(RDMA_NLDEV_CMD_NEWLINK, NLM_F_ACK);

	if (!socket)
		return errno;
	request.add(RDMA_NLDEV_ATTR_DEV_NAME, device);
	request.add(RDMA_NLDEV_ATTR_LINK_TYPE, driver_type());
	request.add(RDMA_NLDEV_ATTR_NDEV_NAME, netdev);
	int rc = request.send(socket.get());
	return rc ? rc : acknowledgment(socket.get());
}

int delete_link(const std::string &device)
{
	auto index = find_index(device);
	auto socket = rdma_socket();
	Request request(RDMA_NLDEV_CMD_DELLINK, NLM_F_ACK);

	if (!index)
		return ENODEV;
	request.add(RDMA_NLDEV_ATTR_DEV_INDEX, &*index, sizeof(*index));
	int rc = request.send(socket.get());
	return rc ? rc : acknowledgment(socket.get());
}
