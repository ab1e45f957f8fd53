// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "uverbs.h"

#include <sys/ioctl.h>

#include <atomic>
#include <filesystem>
#include <fstream>

namespace {

/* Where responses of mutated commands go: nothing but responses may be hit there. */
unsigned char *response_area()
{
	thread_local verbs::Pages pages(response_room);

	return pages.data();
}

/* Not inlined: GCC 14 warns of sizes that it makes up when it knows in_size. */
[[gnu::noinline]] std::vector<unsigned char> with_headers(std::size_t headers, const void *in,
							  std::size_t in_size)
{
	auto *bytes = static_cast<const unsigned char *>(in);
	std::vector<unsigned char> buffer(headers);

	buffer.insert(buffer.end(), bytes, bytes + in_size);
	return buffer;
}

bool due(const Mutation &mutation)
{
	return mutation.random && mutation.random->permille(mutation.permille);
}

/* No address, one of the kernel's, or memory that cannot be written to. */
uint64_t bad_pointer(Random &random)
{
	static const verbs::Pages read_only(4096, 0, PROT_READ), none(4096, 0, PROT_NONE);

	switch (random.below(5)) {
	case 0:
		return 0;
	case 1:
		return ~uint64_t(0) - random.below(4096);
	case 2:
		return reinterpret_cast<uintptr_t>(read_only.data()) + random.below(4000);
	case 3:
		return reinterpret_cast<uintptr_t>(none.data());
	default:
		return uint64_t(1) << random.between(56, 63);
	}
}

int result(ssize_t n)
{
	return n < 0 ? errno : 0;
}

std::string find_device(const std::string &device)
{
	namespace fs = std::filesystem;
	std::error_code error;

	for (auto &entry : fs::directory_iterator("/sys/class/infiniband_verbs", error)) {
		std::string name;
		std::ifstream(entry.path() / "ibdev") >> name;
		if (name == device)
			return "/dev/infiniband/" + entry.path().filename().string();
	}
	throw std::runtime_error("no RDMA device " + device);
}

} // namespace

void mutate(Random &random, unsigned char *bytes, std::size_t size)
{
	for (auto n = random.between(1, 3); n && size >= 8; n--) {
		auto at = random.below(size / 4) * 4;
		auto value = random.odd_number();

		switch (random.below(4)) {
		case 0:
			bytes[at + random.below(4)] = static_cast<unsigned char>(value);
			break;
		case 1:
			bytes[at + random.below(4)] ^= static_cast<unsigned char>(1)
						       << random.below(8);
			break;
		case 2:
			std::memcpy(bytes + at, &value, 4);
			break;
		default:
			at = std::min<std::size_t>(at, size - 8);
			std::memcpy(bytes + at, &value, 8);
		}
	}
}

Uverbs::Uverbs(const std::string &device)
	: fd_(open(find_device(device).c_str(), O_RDWR | O_CLOEXEC))
{
	if (!fd_)
		verbs::fail("open " + device);
}

int Uverbs::command(unsigned number, void *in, std::size_t in_size, void *out, std::size_t out_size,
		    Mutation mutation)
{
	auto response = reinterpret_cast<uintptr_t>(response_area());

	if (out_size)
		std::memcpy(in, &response, sizeof(response));
	auto buffer = with_headers(sizeof(ib_uverbs_cmd_hdr), in, in_size);
	auto *header = reinterpret_cast<ib_uverbs_cmd_hdr *>(buffer.data());
	auto length = buffer.size();
	header->command = number;
	header->in_words = static_cast<uint16_t>(length / 4);
	header->out_words = static_cast<uint16_t>(out_size / 4);
	if (due(mutation)) {
		auto &random = *mutation.random;
		auto skip = sizeof(*header) + (out_size ? 8 : 0);

		switch (random.below(8)) {
		case 0:
			header->in_words = static_cast<uint16_t>(random.odd_number());
			break;
		case 1:
			header->out_words = static_cast<uint16_t>(random.odd_number());
			break;
		case 2:
			/* Shorter or longer, as the header says. */
			length = random.between(0, length + 64) & ~std::size_t(3);
			buffer.resize(std::max(length, sizeof(*header)));
			header = reinterpret_cast<ib_uverbs_cmd_hdr *>(buffer.data());
			header->in_words = static_cast<uint16_t>(length / 4);
			break;
		case 3:
			if (out_size) {
				auto bad = bad_pointer(random);
				std::memcpy(buffer.data() + sizeof(*header), &bad, sizeof(bad));
			}
			break;
		default:
			if (buffer.size() > skip)
				mutate(random, buffer.data() + skip, buffer.size() - skip);
		}
	}
	int rc = result(write(fd_.get(), buffer.data(), length));
	if (!rc && out_size)
		std::memcpy(out, response_area(), out_size);
	return rc;
}

int Uverbs::extended(unsigned number, const void *in, std::size_t in_size, std::size_t driver_in,
		     void *out, std::size_t core_out, std::size_t driver_out, Mutation mutation)
{
	constexpr auto headers = sizeof(ib_uverbs_cmd_hdr) + sizeof(ib_uverbs_ex_cmd_hdr);
	auto buffer = with_headers(headers, in, in_size);
	auto *header = reinterpret_cast<ib_uverbs_cmd_hdr *>(buffer.data());
	auto *more = reinterpret_cast<ib_uverbs_ex_cmd_hdr *>(header + 1);

	header->command = number | IB_USER_VERBS_CMD_FLAG_EXTENDED;
	header->in_words = static_cast<uint16_t>((in_size - driver_in) / 8);
	header->out_words = static_cast<uint16_t>(core_out / 8);
	more->response = core_out ? reinterpret_cast<uintptr_t>(response_area()) : 0;
	more->provider_in_words = static_cast<uint16_t>(driver_in / 8);
	more->provider_out_words = static_cast<uint16_t>(driver_out / 8);
	if (due(mutation)) {
		auto &random = *mutation.random;

		switch (random.below(6)) {
		case 0:
			header->in_words = static_cast<uint16_t>(random.odd_number());
			break;
		case 1:
			header->out_words = static_cast<uint16_t>(random.odd_number());
			break;
		case 2:
			more->provider_out_words = static_cast<uint16_t>(random.odd_number());
			break;
		case 3:
			more->response = bad_pointer(random);
			break;
		default:
			mutate(random, buffer.data() + headers, in_size);
		}
	}
	int rc = result(write(fd_.get(), buffer.data(), buffer.size()));
	if (!rc && core_out)
		std::memcpy(out, response_area(), core_out + driver_out);
	return rc;
}

int Uverbs::ioctl(unsigned object, unsigned method, std::vector<IoctlAttr> &attrs,
		  Mutation mutation)
{
	if (due(mutation) && !attrs.empty()) {
		auto &random = *mutation.random;
		auto at = random.below(attrs.size());

		switch (random.below(4)) {
		case 0:
			attrs.erase(attrs.begin() + static_cast<std::ptrdiff_t>(at));
			break;
		case 1:
			/* A pointer stays one, so that no response hits anything else. */
			if (attrs[at].length <= 8)
				attrs[at].data = random.odd_number();
			else
				attrs[at].data = bad_pointer(random);
			break;
		case 2:
			if (attrs[at].length < 8)
				attrs[at].length = static_cast<uint16_t>(random.below(9));
			break;
		default:
			attrs[at].id = static_cast<uint16_t>(random.odd_number());
		}
	}

	std::vector<unsigned char> buffer(sizeof(ib_uverbs_ioctl_hdr) +
					  attrs.size() * sizeof(ib_uverbs_attr));
	auto *header = reinterpret_cast<ib_uverbs_ioctl_hdr *>(buffer.data());
	header->length = static_cast<uint16_t>(buffer.size());
	header->object_id = static_cast<uint16_t>(object);
	header->method_id = static_cast<uint16_t>(method);
	header->num_attrs = static_cast<uint16_t>(attrs.size());
	header->driver_id = ZIW_RDMA_DRIVER_ID;
	for (std::size_t i = 0; i < attrs.size(); i++) {
		auto &to = header->attrs[i];
		to.attr_id = attrs[i].id;
		to.len = attrs[i].length;
		to.flags = attrs[i].optional ? 0 : UVERBS_ATTR_F_MANDATORY;
		to.data = attrs[i].data;
	}
	int rc = result(::ioctl(fd_.get(), RDMA_VERBS_IOCTL, header));
	for (std::size_t i = 0; i < attrs.size(); i++)
		attrs[i].data = header->attrs[i].data;
	return rc;
}

int Uverbs::get_context(Mutation mutation)
{
	With<ib_uverbs_get_context, ziw_alloc_context_req> in;
	With<ib_uverbs_get_context_resp, ziw_alloc_context_resp> out;

	in.rest()->abi_version = ZIW_ABI_VERSION;
	in.rest()->flags = ZIW_CONTEXT_DOORBELL;
	int rc = command(IB_USER_VERBS_CMD_GET_CONTEXT, in.bytes, sizeof(in), out.bytes,
			 sizeof(out), mutation);
	if (!rc) {
		async.reset(static_cast<int>(out.core()->async_fd));
		fcntl(async.get(), F_SETFL, O_NONBLOCK);
		doorbell.reset(out.rest()->doorbell_fd);
	}
	return rc;
}

/* --- rings --- */

Ring::Ring(const Uverbs &device, const ziw_ring_info &info) : info_(info)
{
	if (!info.mmap_size)
		return;
	void *p = mmap(nullptr, info.mmap_size, PROT_READ | PROT_WRITE, MAP_SHARED, device.fd(),
		       static_cast<off_t>(info.mmap_offset));
	if (p != MAP_FAILED)
		base_ = p;
}

Ring::~Ring()
{
	if (base_)
		munmap(base_, info_.mmap_size);
}

unsigned char *Ring::room()
{
	if (index_ - __atomic_load_n(&header()->cons, __ATOMIC_ACQUIRE) >= info_.entries)
		return nullptr;
	return slot(index_);
}

void Ring::publish()
{
	__atomic_store_n(&header()->prod, ++index_, __ATOMIC_RELEASE);
}

bool Ring::needs_doorbell() const
{
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	return __atomic_load_n(&header()->flags, __ATOMIC_RELAXED) & ZIW_RING_NEED_DOORBELL;
}

std::optional<ziw_cqe> Ring::take()
{
	ziw_cqe cqe;

	if (__atomic_load_n(&header()->prod, __ATOMIC_ACQUIRE) == index_)
		return std::nullopt;
	std::memcpy(&cqe, slot(index_), sizeof(cqe));
	__atomic_store_n(&header()->cons, ++index_, __ATOMIC_RELEASE);
	return cqe;
}

/* --- commands --- */

static std::atomic<uint32_t> latest_qpn;

uint32_t latest_qp_number()
{
	return latest_qpn;
}

int make_pd(Uverbs &device, uint32_t *pd, Mutation mutation)
{
	ib_uverbs_alloc_pd in{};
	With<ib_uverbs_alloc_pd_resp, ziw_alloc_pd_resp> out;

	int rc = device.command(IB_USER_VERBS_CMD_ALLOC_PD, &in, sizeof(in), out.bytes, sizeof(out),
				mutation);
	*pd = out.core()->pd_handle;
	return rc;
}

int make_cq(Uverbs &device, uint32_t entries, int channel, MadeCq *cq, Mutation mutation)
{
	ib_uverbs_create_cq in{};
	With<ib_uverbs_create_cq_resp, ziw_create_cq_resp> out;

	in.cqe = entries;
	in.comp_channel = channel;
	int rc = device.command(IB_USER_VERBS_CMD_CREATE_CQ, &in, sizeof(in), out.bytes,
				sizeof(out), mutation);
	*cq = {out.core()->cq_handle, out.rest()->cq};
	return rc;
}

int make_srq(Uverbs &device, uint32_t pd, uint32_t entries, uint32_t sge, uint32_t limit,
	     MadeSrq *srq, Mutation mutation)
{
	ib_uverbs_create_srq in{};
	With<ib_uverbs_create_srq_resp, ziw_create_srq_resp> out;

	in.pd_handle = pd;
	in.max_wr = entries;
	in.max_sge = sge;
	in.srq_limit = limit;
	int rc = device.command(IB_USER_VERBS_CMD_CREATE_SRQ, &in, sizeof(in), out.bytes,
				sizeof(out), mutation);
	*srq = {out.core()->srq_handle, out.rest()->rq};
	return rc;
}

int make_qp(Uverbs &device, const QpOrder &order, MadeQp *qp, Mutation mutation)
{
	With<ib_uverbs_create_qp, ziw_create_qp_req> in;
	With<ib_uverbs_create_qp_resp, ziw_create_qp_resp> out;

	in.core()->pd_handle = order.pd;
	in.core()->send_cq_handle = order.send_cq;
	in.core()->recv_cq_handle = order.recv_cq;
	in.core()->srq_handle = order.srq;
	in.core()->max_send_wr = order.send_wr;
	in.core()->max_recv_wr = order.recv_wr;
	in.core()->max_send_sge = order.send_sge;
	in.core()->max_recv_sge = order.recv_sge;
	in.core()->max_inline_data = order.inline_bytes;
	in.core()->sq_sig_all = order.sig_all;
	in.core()->qp_type = order.type;
	in.core()->is_srq = order.has_srq;
	in.rest()->handle = order.handle;
	int rc = device.command(IB_USER_VERBS_CMD_CREATE_QP, in.bytes, sizeof(in), out.bytes,
				sizeof(out), mutation);
	*qp = {out.core()->qp_handle, out.core()->qpn, out.rest()->sq, out.rest()->rq};
	if (!rc)
		latest_qpn = out.core()->qpn;
	return rc;
}

int make_mr(Uverbs &device, uint32_t pd, const void *start, uint64_t length, uint64_t address,
	    uint32_t access, MadeMr *mr, Mutation mutation)
{
	ib_uverbs_reg_mr in{};
	ib_uverbs_reg_mr_resp out{};

	in.start = reinterpret_cast<uintptr_t>(start);
	in.length = length;
	in.hca_va = address;
	in.pd_handle = pd;
	in.access_flags = access;
	int rc = device.command(IB_USER_VERBS_CMD_REG_MR, &in, sizeof(in), &out, sizeof(out),
				mutation);
	*mr = {out.mr_handle, out.lkey, out.rkey};
	return rc;
}

int destroy_pd(Uverbs &device, uint32_t pd, Mutation mutation)
{
	ib_uverbs_dealloc_pd in{pd};

	return device.command(IB_USER_VERBS_CMD_DEALLOC_PD, &in, sizeof(in), nullptr, 0, mutation);
}

int destroy_cq(Uverbs &device, uint32_t cq, Mutation mutation)
{
	ib_uverbs_destroy_cq in{};
	ib_uverbs_destroy_cq_resp out;

	in.cq_handle = cq;
	return device.command(IB_USER_VERBS_CMD_DESTROY_CQ, &in, sizeof(in), &out, sizeof(out),
			      mutation);
}

int destroy_srq(Uverbs &device, uint32_t srq, Mutation mutation)
{
	ib_uverbs_destroy_srq in{};
	ib_uverbs_destroy_srq_resp out;

	in.srq_handle = srq;
	return device.command(IB_USER_VERBS_CMD_DESTROY_SRQ, &in, sizeof(in), &out, sizeof(out),
			      mutation);
}

int destroy_qp(Uverbs &device, uint32_t qp, Mutation mutation)
{
	ib_uverbs_destroy_qp in{};
	ib_uverbs_destroy_qp_resp out;

	in.qp_handle = qp;
	return device.command(IB_USER_VERBS_CMD_DESTROY_QP, &in, sizeof(in), &out, sizeof(out),
			      mutation);
}

int dereg_mr(Uverbs &device, uint32_t mr, Mutation mutation)
{
	ib_uverbs_dereg_mr in{mr};

	return device.command(IB_USER_VERBS_CMD_DEREG_MR, &in, sizeof(in), nullptr, 0, mutation);
}

int set_qp_state(Uverbs &device, uint32_t qp, uint8_t state, Mutation mutation)
{
	ib_uverbs_modify_qp in{};

	in.qp_handle = qp;
	in.attr_mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS;
	in.qp_state = state;
	in.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	return device.command(IB_USER_VERBS_CMD_MODIFY_QP, &in, sizeof(in), nullptr, 0, mutation);
}

int query_qp_state(Uverbs &device, uint32_t qp, Mutation mutation)
{
	ib_uverbs_query_qp in{};
	ib_uverbs_query_qp_resp out{};

	in.qp_handle = qp;
	in.attr_mask = IBV_QP_STATE;
	return device.command(IB_USER_VERBS_CMD_QUERY_QP, &in, sizeof(in), &out, sizeof(out),
			      mutation)
		       ? -1
		       : out.qp_state;
}

int doorbell_send(Uverbs &device, uint32_t qp, Mutation mutation)
{
	ib_uverbs_post_send in{};
	ib_uverbs_post_send_resp out;

	in.qp_handle = qp;
	in.wqe_size = sizeof(ib_uverbs_send_wr);
	return device.command(IB_USER_VERBS_CMD_POST_SEND, &in, sizeof(in), &out, sizeof(out),
			      mutation);
}

int doorbell_recv(Uverbs &device, uint32_t qp, Mutation mutation)
{
	ib_uverbs_post_recv in{};
	ib_uverbs_post_recv_resp out;

	in.qp_handle = qp;
	in.wqe_size = sizeof(ib_uverbs_recv_wr);
	return device.command(IB_USER_VERBS_CMD_POST_RECV, &in, sizeof(in), &out, sizeof(out),
			      mutation);
}
