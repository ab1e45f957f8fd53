// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Memory of others: dma-bufs, contexts and regions that another process made; advice on memory. */
#include <linux/udmabuf.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

#include "fixture.h"

namespace {

/* Shared memory as a dma-buf, which udmabuf makes of a memfd. */
class DmaBuf {
public:
	/* Empty if the kernel has no udmabuf. */
	explicit DmaBuf(std::size_t size) : size_(size)
	{
		verbs::Fd maker(open("/dev/udmabuf", O_RDWR | O_CLOEXEC));
		if (!maker)
			return;
		verbs::Fd memory(memfd_create("dmabuf", MFD_ALLOW_SEALING | MFD_CLOEXEC));
		verbs::check(ftruncate(memory.get(), static_cast<off_t>(size)), "ftruncate");
		verbs::check(fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK), "F_SEAL_SHRINK");
		udmabuf_create create{};
		create.memfd = static_cast<uint32_t>(memory.get());
		create.flags = UDMABUF_FLAGS_CLOEXEC;
		create.size = size;
		fd_.reset(ioctl(maker.get(), UDMABUF_CREATE, &create));
		if (!fd_)
			verbs::fail("UDMABUF_CREATE");
		void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
		if (p == MAP_FAILED)
			verbs::fail("mmap");
		data_ = static_cast<unsigned char *>(p);
	}
	~DmaBuf()
	{
		if (data_)
			munmap(data_, size_);
	}
	DmaBuf(const DmaBuf &) = delete;
	DmaBuf &operator=(const DmaBuf &) = delete;

	explicit operator bool() const { return bool(fd_); }
	int fd() const { return fd_.get(); }
	void close() { fd_.reset(); }
	unsigned char *data() const { return data_; }

private:
	std::size_t size_;
	verbs::Fd fd_;
	unsigned char *data_ = nullptr;
};

class DmaBufTest : public VerbsTest {
protected:
	static constexpr std::size_t size = 256 * 1024;

	void SetUp() override
	{
		buf.emplace(size);
		if (!*buf)
			GTEST_SKIP() << "the kernel has no udmabuf (CONFIG_UDMABUF)";
		pair = connected();
		plain.emplace(a.pd(), size);
	}

	ibv_mr *try_register(std::size_t offset, std::size_t length, uint64_t iova,
			     int access = Region::all)
	{
		errno = 0;
		return ibv_reg_dmabuf_mr(b.pd(), offset, length, iova, buf->fd(), access);
	}
	verbs::Mr registered(std::size_t offset, std::size_t length, uint64_t iova,
			     int access = Region::all)
	{
		return verbs::Mr(verbs::check(try_register(offset, length, iova, access),
					      "ibv_reg_dmabuf_mr"));
	}

	std::optional<DmaBuf> buf;
	Pair pair;
	std::optional<Region> plain;
};

TEST_F(DmaBufTest, WriteReadAndSend)
{
	auto mr = registered(0, size, 0);

	plain->fill(1);
	ASSERT_EQ(pair.a->post(write_work(1, {plain->sge()}, 0, mr->rkey)), 0);
	EXPECT_COMPLETED(pair.a->wait_send()[0], 1, IBV_WC_RDMA_WRITE);
	synchronize(*pair.a, *pair.b);
	EXPECT_EQ(differs_from_pattern(buf->data(), size, 1), "");

	fill_pattern(buf->data(), size, 2);
	ASSERT_EQ(pair.a->post(read_work(2, {plain->sge()}, 0, mr->rkey)), 0);
	EXPECT_COMPLETED(pair.a->wait_send()[0], 2, IBV_WC_RDMA_READ);
	EXPECT_EQ(differs_from_pattern(plain->data(), size, 2), "");

	/* As the source of a send, and as where one is received. */
	fill_pattern(buf->data(), size, 3);
	ASSERT_EQ(pair.a->post_recv(3, {plain->sge()}), 0);
	ASSERT_EQ(pair.b->post(send_work(3, {{0, size, mr->lkey}})), 0);
	EXPECT_COMPLETED(pair.a->wait_recv()[0], 3, IBV_WC_RECV);
	EXPECT_COMPLETED(pair.b->wait_send()[0], 3, IBV_WC_SEND);
	EXPECT_EQ(differs_from_pattern(plain->data(), size, 3), "");
	plain->fill(4);
	ASSERT_EQ(pair.b->post_recv(4, {{1000, 100000, mr->lkey}}), 0);
	ASSERT_EQ(pair.a->post(send_work(4, {plain->sge(0, 100000)})), 0);
	EXPECT_COMPLETED(pair.b->wait_recv()[0], 4, IBV_WC_RECV);
	EXPECT_EQ(differs_from_pattern(buf->data() + 1000, 100000, 4), "");
}

TEST_F(DmaBufTest, PartOfABuffer)
{
	constexpr uint64_t iova = 0x7000000 + 5000 % 4096;
	auto mr = registered(5000, 20000, iova);

	plain->fill(1);
	fill_pattern(buf->data(), size, 9);
	ASSERT_EQ(pair.a->post(write_work(1, {plain->sge(0, 20000)}, iova, mr->rkey)), 0);
	pair.a->wait_send();
	synchronize(*pair.a, *pair.b);
	EXPECT_EQ(differs_from_pattern(buf->data() + 5000, 20000, 1), "");
	EXPECT_EQ(differs_from_pattern(buf->data(), 5000, 9), "");
	EXPECT_EQ(differs_from_pattern(buf->data() + 25000, size - 25000, 9, 25000), "");
	ASSERT_EQ(pair.a->post(write_work(2, {plain->sge(0, 2)}, iova + 19999, mr->rkey)), 0);
	EXPECT_TRUE(pair.a->reaches(IBV_QPS_ERR));
}

TEST_F(DmaBufTest, OutlivesItsFile)
{
	auto mr = registered(0, size, 0);

	buf->close();
	plain->fill(1);
	ASSERT_EQ(pair.a->post(write_work(1, {plain->sge()}, 0, mr->rkey)), 0);
	pair.a->wait_send();
	synchronize(*pair.a, *pair.b);
	EXPECT_EQ(differs_from_pattern(buf->data(), size, 1), "");
}

TEST_F(DmaBufTest, BadArguments)
{
	EXPECT_EQ(try_register(0, size + 1, 0), nullptr);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(try_register(size, 4096, 0), nullptr);
	EXPECT_EQ(errno, EINVAL);
	EXPECT_EQ(try_register(4096, UINT64_MAX - 4095, 0), nullptr);
	EXPECT_EQ(try_register(0, 0, 0), nullptr);
	EXPECT_EQ(try_register(1, 4096, 0), nullptr) << "another place in the page";
	EXPECT_EQ(try_register(0, 4096, 0, IBV_ACCESS_ON_DEMAND), nullptr);
	verbs::Fd other(open("/dev/null", O_RDWR | O_CLOEXEC));
	EXPECT_EQ(ibv_reg_dmabuf_mr(b.pd(), 0, 4096, 0, other.get(), 0), nullptr);
	EXPECT_EQ(ibv_reg_dmabuf_mr(b.pd(), 0, 4096, 0, -1, 0), nullptr);
	auto mr = registered(0, size, 0);
	EXPECT_NE(ibv_rereg_mr(mr.get(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0, 0), 0);
}

class ImportTest : public VerbsTest {};

/* A context, a PD and a region that came by a file: a QP of the importer's uses both. */
TEST_F(ImportTest, ContextDomainAndRegion)
{
	verbs::Context context(
		verbs::check(ibv_import_device(dup(a.context()->cmd_fd)), "ibv_import_device"));
	Region region(a.pd(), 4096), peer(b.pd(), 4096);
	auto *pd = verbs::check(ibv_import_pd(context.get(), a.pd()->handle), "ibv_import_pd");
	auto *mr = verbs::check(ibv_import_mr(pd, region.mr()->handle), "ibv_import_mr");

	EXPECT_EQ(context->num_comp_vectors, a.context()->num_comp_vectors);
	EXPECT_EQ(mr->lkey, region.lkey());
	EXPECT_EQ(mr->rkey, region.rkey());
	EXPECT_EQ(mr->length, 4096u);
	{
		/* Rings that are made through it, and memory of its own in the imported PD. */
		verbs::Cq cq(verbs::check(ibv_create_cq(context.get(), 16, nullptr, nullptr, 0),
					  "ibv_create_cq"));
		ibv_qp_init_attr attr{};
		attr.qp_type = IBV_QPT_RC;
		attr.send_cq = attr.recv_cq = cq.get();
		attr.cap = {4, 4, 1, 1, 0};
		std::unique_ptr<ibv_qp, verbs::Destroy<ibv_destroy_qp>> qp(
			verbs::check(ibv_create_qp(pd, &attr), "ibv_create_qp"));
		ibv_qp_attr change{};
		change.qp_state = IBV_QPS_ERR;
		ibv_recv_wr recv{}, *bad;
		recv.wr_id = 5;
		ASSERT_EQ(ibv_modify_qp(qp.get(), &change, IBV_QP_STATE), 0);
		ASSERT_EQ(ibv_post_recv(qp.get(), &recv, &bad), 0);
		auto wc = wait_cq(cq.get(), 1)[0];
		EXPECT_EQ(wc.wr_id, 5u);
		EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
		Region own(pd, 4096);
	}
	ibv_unimport_mr(mr);
	ibv_unimport_pd(pd);
	context.reset();

	/* The exporter's own are as they were. */
	auto pair = connected();
	region.fill(1);
	ASSERT_EQ(pair.a->post(write_work(1, {region.sge()}, peer.address(), peer.rkey())), 0);
	EXPECT_COMPLETED(pair.a->wait_send()[0], 1, IBV_WC_RDMA_WRITE);
	synchronize(*pair.a, *pair.b);
	EXPECT_EQ(differs_from_pattern(peer.data(), 4096, 1), "");
}

TEST_F(ImportTest, WhatIsNotThere)
{
	verbs::Fd file(open("/dev/null", O_RDWR | O_CLOEXEC));

	EXPECT_EQ(ibv_import_device(file.get()), nullptr);
	verbs::Context context(
		verbs::check(ibv_import_device(dup(a.context()->cmd_fd)), "ibv_import_device"));
	EXPECT_EQ(ibv_import_pd(context.get(), 0x7fffffff), nullptr);
	auto *pd = verbs::check(ibv_import_pd(context.get(), a.pd()->handle), "ibv_import_pd");
	EXPECT_EQ(ibv_import_mr(pd, 0x7fffffff), nullptr);
	/* A handle of another kind of object. */
	EXPECT_EQ(ibv_import_mr(pd, a.pd()->handle), nullptr);
	ibv_unimport_pd(pd);
}

class AdviceTest : public VerbsTest {
protected:
	int advise(ibv_sge sge, ibv_advise_mr_advice advice = IBV_ADVISE_MR_ADVICE_PREFETCH,
		   uint32_t flags = IBV_ADVISE_MR_FLAG_FLUSH)
	{
		return ibv_advise_mr(a.pd(), advice, flags, &sge, 1);
	}
};

TEST_F(AdviceTest, OnWhatIsThere)
{
	Region region(a.pd(), 10000), read_only(a.pd(), 10000, IBV_ACCESS_REMOTE_READ);

	for (auto advice : {IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
			    IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT}) {
		EXPECT_EQ(advise(region.sge(), advice), 0);
		EXPECT_EQ(advise(region.sge(100, 200), advice, 0), 0);
	}
	EXPECT_EQ(advise(read_only.sge()), 0);
	EXPECT_EQ(advise(read_only.sge(), IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE), EPERM);
}

TEST_F(AdviceTest, OnWhatIsNot)
{
	Region region(a.pd(), 10000);
	verbs::Pd other(verbs::check(ibv_alloc_pd(a.context()), "ibv_alloc_pd"));
	Region foreign(other.get(), 4096);
	auto beyond = region.sge();

	beyond.length++;
	EXPECT_EQ(advise(beyond), EFAULT);
	EXPECT_EQ(advise({region.address(), 1, region.lkey() + 0x100}), EFAULT);
	EXPECT_EQ(advise(foreign.sge()), EPERM);
	EXPECT_EQ(advise(region.sge(), IBV_ADVISE_MR_ADVICE_PREFETCH, 1u << 20), EINVAL);
	EXPECT_EQ(advise(region.sge(), static_cast<ibv_advise_mr_advice>(77)), EOPNOTSUPP);
}

} // namespace
