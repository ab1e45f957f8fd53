// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* The largest message, 2^31 bytes, and the first that is too large. */
#include <sys/mman.h>

#include <system_error>

#include "fixture.h"

namespace {

constexpr uint64_t largest = uint64_t{1} << 31;
constexpr std::size_t part = 64 << 20;
constexpr std::size_t parts = largest / part;

/* `count` times the same `part` bytes of memory, one after the other. */
class Window {
public:
	explicit Window(std::size_t count) : size_(count * part)
	{
		int fd = memfd_create("window", 0);

		if (fd < 0 || ftruncate(fd, part))
			throw std::system_error(errno, std::generic_category(), "memfd");
		auto *base = mmap(nullptr, size_, PROT_NONE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		data_ = static_cast<unsigned char *>(base);
		for (std::size_t i = 0; i < count; i++)
			if (mmap(data_ + i * part, part, PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, 0) == MAP_FAILED)
				throw std::system_error(errno, std::generic_category(), "mmap");
		close(fd);
	}
	~Window() { munmap(data_, size_); }
	Window(const Window &) = delete;
	Window &operator=(const Window &) = delete;

	unsigned char *data() { return data_; }
	std::size_t size() const { return size_; }

private:
	std::size_t size_;
	unsigned char *data_;
};

class LimitTest : public VerbsTest {
protected:
	static constexpr verbs::milliseconds patience{240000};

	void SetUp() override
	{
		pair = connected();
		mr_here.reset(verbs::check(
			ibv_reg_mr(a.pd(), here.data(), here.size(), Region::all), "ibv_reg_mr"));
		fill_pattern(here.data(), part, 1);
	}

	/* The part, as often as it takes. */
	std::vector<ibv_sge> sges(Window &window, const verbs::Mr &mr, uint64_t total) const
	{
		std::vector<ibv_sge> list;

		while (total) {
			auto n = std::min<uint64_t>(total, part);

			list.push_back({reinterpret_cast<uintptr_t>(window.data()),
					static_cast<uint32_t>(n), mr->lkey});
			total -= n;
		}
		return list;
	}

	Pair pair;
	Window here{1};
	verbs::Mr mr_here;
};

TEST_F(LimitTest, LargestSend)
{
	Window there(1);
	verbs::Mr mr(verbs::check(ibv_reg_mr(b.pd(), there.data(), there.size(), Region::all),
				  "ibv_reg_mr"));

	ASSERT_EQ(pair.b->post_recv(2, sges(there, mr, largest)), 0);
	ASSERT_EQ(pair.a->post(send_work(1, sges(here, mr_here, largest))), 0);
	EXPECT_COMPLETED(pair.a->wait_send(1, patience)[0], 1, IBV_WC_SEND);
	auto wc = pair.b->wait_recv()[0];
	EXPECT_COMPLETED(wc, 2, IBV_WC_RECV);
	EXPECT_EQ(wc.byte_len, largest);
	EXPECT_EQ(differs_from_pattern(there.data(), part, 1), "");
}

TEST_F(LimitTest, LargestWriteAndRead)
{
	Window there(parts);
	verbs::Mr mr(verbs::check(ibv_reg_mr(b.pd(), there.data(), there.size(), Region::all),
				  "ibv_reg_mr"));
	auto address = reinterpret_cast<uintptr_t>(there.data());

	ASSERT_EQ(pair.a->post(write_work(1, sges(here, mr_here, largest), address, mr->rkey)), 0);
	EXPECT_COMPLETED(pair.a->wait_send(1, patience)[0], 1, IBV_WC_RDMA_WRITE);
	EXPECT_EQ(differs_from_pattern(there.data(), part, 1), "");

	fill_pattern(there.data(), part, 2);
	ASSERT_EQ(pair.a->post(read_work(2, sges(here, mr_here, largest), address, mr->rkey)), 0);
	auto wc = pair.a->wait_send(1, patience)[0];
	EXPECT_COMPLETED(wc, 2, IBV_WC_RDMA_READ);
	EXPECT_EQ(wc.byte_len, largest);
	EXPECT_EQ(differs_from_pattern(here.data(), part, 2), "");
}

TEST_F(LimitTest, OneByteMoreIsRefused)
{
	auto too_much = sges(here, mr_here, largest);

	/* As many pieces as there may be, so the first is the one to grow. */
	too_much[0].length++;
	ASSERT_EQ(pair.a->post(send_work(1, too_much)), 0);
	EXPECT_EQ(pair.a->wait_send()[0].status, IBV_WC_LOC_LEN_ERR);
	EXPECT_TRUE(pair.a->reaches(IBV_QPS_ERR));
}

} // namespace
