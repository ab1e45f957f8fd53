// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* Every operation, at the sizes where segmentation changes, compared byte for byte. */
#include <algorithm>
#include <atomic>

#include "fixture.h"

namespace {

enum class Op { send, send_inline, send_solicited, write, write_inline, read };

struct OpName {
	Op op;
	const char *name;
};

constexpr OpName op_names[] = {
	{Op::send, "Send"},
	{Op::send_inline, "SendInline"},
	{Op::send_solicited, "SendSolicited"},
	{Op::write, "Write"},
	{Op::write_inline, "WriteInline"},
	{Op::read, "Read"},
};

const char *name_of(Op op)
{
	for (auto &o : op_names)
		if (o.op == op)
			return o.name;
	return "?";
}

bool is_send(Op op)
{
	return op == Op::send || op == Op::send_inline || op == Op::send_solicited;
}

bool is_inline(Op op)
{
	return op == Op::send_inline || op == Op::write_inline;
}

ibv_wc_opcode completion(Op op)
{
	return is_send(op) ? IBV_WC_SEND : op == Op::read ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE;
}

/* How one message is laid out at either end. */
struct Layout {
	std::vector<Piece> local, remote;
	std::size_t local_skew = 0, remote_skew = 0;

	std::string text() const
	{
		auto list = [](const std::vector<Piece> &pieces) {
			std::string s;
			for (auto &p : pieces)
				s += " " + std::to_string(p.offset) + "+" +
				     std::to_string(p.length);
			return s;
		};
		return "local (skew " + std::to_string(local_skew) + ")" + list(local) +
		       ", remote (skew " + std::to_string(remote_skew) + ")" + list(remote);
	}
};

class DataTest : public VerbsTest {
protected:
	void SetUp() override
	{
		PairConfig config;
		config.a.max_inline = a.max_inline();
		config.b.max_inline = b.max_inline();
		pair = connected(config);
	}

	/* The data's bytes from where `from` lies to where `to` lies; all else keeps its canary. */
	static std::string compare(const Region &from, const std::vector<Piece> &source,
				   const Region &to, const std::vector<Piece> &sink)
	{
		std::vector<unsigned char> data, expected(to.size(), 0xc5);
		std::size_t at = 0;

		for (auto &p : source)
			data.insert(data.end(), from.data() + p.offset,
				    from.data() + p.offset + p.length);
		for (auto &p : sink) {
			auto n = std::min<std::size_t>(p.length, data.size() - at);
			if (n)
				std::memcpy(expected.data() + p.offset, data.data() + at, n);
			at += n;
		}
		if (at != data.size())
			return "the layouts do not match";
		if (auto d = differs(to.data(), expected.data(), expected.size()); !d.empty())
			return d;
		return to.harmed();
	}

	/* One message of `op` posted at `from`. */
	void transfer(Op op, Endpoint &from, Endpoint &to, const Layout &layout)
	{
		SCOPED_TRACE(std::string(name_of(op)) +
			     (&from == pair.a.get() ? " by a, " : " by b, ") + layout.text());
		Region local(from.host().pd(), std::max<std::size_t>(extent(layout.local), 1),
			     Region::all, layout.local_skew);
		Region remote(to.host().pd(), std::max<std::size_t>(extent(layout.remote), 1),
			      Region::all, layout.remote_skew);
		auto &source = op == Op::read ? remote : local;
		uint64_t id = random();
		std::size_t size = 0;
		for (auto &p : layout.local)
			size += p.length;

		source.fill(id);
		auto sges = local.sges(layout.local);
		Work work;
		if (is_send(op)) {
			work = send_work(id, sges);
			ASSERT_EQ(to.post_recv(id + 1, remote.sges(layout.remote)), 0);
		} else {
			auto address =
				remote.address(layout.remote.empty() ? 0 : layout.remote[0].offset);
			work = op == Op::read ? read_work(id, sges, address, remote.rkey())
					      : write_work(id, sges, address, remote.rkey());
		}
		if (op == Op::send_solicited)
			work.flags(IBV_SEND_SOLICITED);
		if (is_inline(op)) {
			work.flags(IBV_SEND_INLINE);
			for (auto &sge : work.sges)
				sge.lkey = 0; /* not looked at: the bytes are taken at the post */
		}
		ASSERT_EQ(from.post(work), 0);
		if (is_inline(op))
			std::memset(local.data(), 0xee, local.size());
		auto wc = from.wait_send()[0];
		EXPECT_COMPLETED(wc, id, completion(op));
		if (op == Op::read) {
			EXPECT_EQ(wc.byte_len, size);
		}
		if (is_send(op)) {
			auto received = to.wait_recv()[0];
			EXPECT_COMPLETED(received, id + 1, IBV_WC_RECV);
			EXPECT_EQ(received.byte_len, size);
			EXPECT_EQ(received.qp_num, to.qp()->qp_num);
			EXPECT_EQ(received.wc_flags, 0u);
		} else if (op != Op::read) {
			synchronize(from, to);
		}
		if (is_inline(op))
			source.fill(id);
		EXPECT_EQ(op == Op::read ? compare(remote, layout.remote, local, layout.local)
					 : compare(local, layout.local, remote, layout.remote),
			  "");
		EXPECT_EQ(source.harmed(), "");
		EXPECT_EQ(differs_from_pattern(source.data(), source.size(), id), "");
	}

	void both_ways(Op op, const Layout &layout)
	{
		transfer(op, *pair.a, *pair.b, layout);
		transfer(op, *pair.b, *pair.a, layout);
	}

	Layout contiguous(std::size_t size, std::size_t skew_a = 0, std::size_t skew_b = 0)
	{
		Layout layout;
		layout.local = layout.remote = {{0, static_cast<uint32_t>(size)}};
		layout.local_skew = skew_a;
		layout.remote_skew = skew_b;
		return layout;
	}

	/* Both ends post each layout. */
	unsigned most_sges(Op op) const
	{
		return op == Op::read ? std::min(a.max_sge_read(), b.max_sge_read())
				      : std::min(a.max_sge(), b.max_sge());
	}

	std::vector<Piece> pieces(std::size_t size, unsigned count)
	{
		auto list = split(random, size, count);
		/* siw (6.12) dereferences NULL on an empty one (siw_check_sgl_tx, siw_tx_hdt). */
		if (!(a.is_ziw() && b.is_ziw()) && size)
			std::erase_if(list, [](auto &p) { return !p.length; });
		return list;
	}

	Layout random_layout(Op op, std::size_t size)
	{
		auto count = [&](unsigned most) {
			auto n = 1 + static_cast<unsigned>(random() % most);
			return n;
		};
		Layout layout;

		layout.local = pieces(size, count(most_sges(op)));
		layout.remote = pieces(size, is_send(op) ? count(most_sges(op)) : 1);
		layout.local_skew = random() % 4096;
		layout.remote_skew = random() % 4096;
		return layout;
	}

	Pair pair;
};

class Sizes : public DataTest,
	      public testing::WithParamInterface<std::tuple<OpName, std::size_t>> {};

TEST_P(Sizes, Match)
{
	auto [op, size] = GetParam();

	if (is_inline(op.op) && size > pair.a->max_inline())
		GTEST_SKIP() << "more than the device takes inline";
	both_ways(op.op, contiguous(size));
	both_ways(op.op, contiguous(size, random() % 4096, random() % 4096));
	for (unsigned i = 0; i < (size > 100000 ? 1 : 3); i++)
		both_ways(op.op, random_layout(op.op, size));
}

std::string parameter_name(const testing::TestParamInfo<std::tuple<OpName, std::size_t>> &info)
{
	return std::get<0>(info.param).name + std::to_string(std::get<1>(info.param));
}

constexpr std::size_t sizes[] = {
	0,    1,    2,    3,     4,     5,     1447,    1448,          1449,
	4095, 4096, 4097, 65535, 65536, 65537, 1 << 20, (16 << 20) + 3};
constexpr std::size_t inline_sizes[] = {0, 1, 2, 3, 4, 5, 64, 511, 512};

INSTANTIATE_TEST_SUITE_P(Data, Sizes,
			 testing::Combine(testing::Values(op_names[0], op_names[2], op_names[3],
							  op_names[5]),
					  testing::ValuesIn(sizes)),
			 parameter_name);
INSTANTIATE_TEST_SUITE_P(Inline, Sizes,
			 testing::Combine(testing::Values(op_names[1], op_names[4]),
					  testing::ValuesIn(inline_sizes)),
			 parameter_name);

TEST_F(DataTest, InlineLimitIsAtLeast512)
{
	EXPECT_GE(pair.a->max_inline(), a.is_ziw() ? 512u : 0u);
}

TEST_F(DataTest, WithoutAnySge)
{
	for (auto op : {Op::send, Op::write, Op::send_inline})
		both_ways(op, Layout{});
}

/* RFC 5040, 7.2: of a zero-length Read nothing but the message itself is checked. */
TEST_F(DataTest, ZeroLengthReadAndWriteOfNoRegion)
{
	ASSERT_EQ(pair.a->post(read_work(1, {}, 0, 0)), 0);
	EXPECT_COMPLETED(pair.a->wait_send()[0], 1, IBV_WC_RDMA_READ);
	ASSERT_EQ(pair.a->post(write_work(2, {}, 0, 0)), 0);
	EXPECT_COMPLETED(pair.a->wait_send()[0], 2, IBV_WC_RDMA_WRITE);
	synchronize(*pair.a, *pair.b);
}

TEST_F(DataTest, EveryNumberOfSges)
{
	if (a.is_ziw()) {
		EXPECT_GE(a.max_sge(), 16u);
	}
	for (unsigned n = 1; n <= most_sges(Op::send); n++) {
		for (auto op : {Op::send, Op::write, Op::send_inline}) {
			Layout layout;
			auto size = is_inline(op) ? a.max_inline() : 5000;
			layout.local = pieces(size, n);
			layout.remote = pieces(size, is_send(op) ? most_sges(Op::send) + 1 - n : 1);
			both_ways(op, layout);
		}
	}
	for (unsigned n = 1; n <= most_sges(Op::read); n++) {
		Layout layout;
		layout.local = pieces(5000, n);
		layout.remote = pieces(5000, 1);
		both_ways(Op::read, layout);
	}
}

TEST_F(DataTest, RandomMessages)
{
	for (unsigned i = 0; i < rounds(300) && !HasFailure(); i++) {
		auto op = op_names[random() % std::size(op_names)].op;
		/* As many of each order of magnitude. */
		std::size_t size = random() % (1u << random() % 21);
		if (is_inline(op))
			size %= a.max_inline() + 1;
		auto layout = random_layout(op, size);
		if (random() % 2)
			transfer(op, *pair.a, *pair.b, layout);
		else
			transfer(op, *pair.b, *pair.a, layout);
	}
}

/* One post of many work requests, each over its own part of the regions. */
TEST_F(DataTest, BatchOfMixedOperations)
{
	constexpr std::size_t slot = 5000, count = 48;
	Region here(a.pd(), slot * count), there(b.pd(), slot * count);
	std::vector<Work> works;
	std::vector<unsigned char> here_expected(here.size()), there_expected(there.size());

	here.fill(1);
	there.fill(2);
	std::memcpy(here_expected.data(), here.data(), here.size());
	std::memcpy(there_expected.data(), there.data(), there.size());
	for (std::size_t i = 0; i < count; i++) {
		auto offset = i * slot, size = std::size_t(random() % slot);
		switch (random() % 3) {
		case 0:
			works.push_back(send_work(i, {here.sge(offset, size)}));
			ASSERT_EQ(pair.b->post_recv(i, {there.sge(offset, slot)}), 0);
			std::memcpy(&there_expected[offset], here.data() + offset, size);
			break;
		case 1:
			works.push_back(write_work(i, {here.sge(offset, size)},
						   there.address(offset), there.rkey()));
			std::memcpy(&there_expected[offset], here.data() + offset, size);
			break;
		default:
			works.push_back(read_work(i, {here.sge(offset, size)},
						  there.address(offset), there.rkey()));
			std::memcpy(&here_expected[offset], there.data() + offset, size);
			break;
		}
	}
	ASSERT_EQ(pair.a->post(works), 0);
	auto done = pair.a->wait_send(count);
	for (std::size_t i = 0; i < count; i++)
		EXPECT_COMPLETED(done[i], i, done[i].opcode);
	for (auto &wc : pair.b->wait_recv(static_cast<std::size_t>(
		     std::count_if(works.begin(), works.end(),
				   [](auto &w) { return w.wr.opcode == IBV_WR_SEND; }))))
		EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
	synchronize(*pair.a, *pair.b);
	EXPECT_EQ(differs(here.data(), here_expected.data(), here.size()), "");
	EXPECT_EQ(differs(there.data(), there_expected.data(), there.size()), "");
	EXPECT_EQ(here.harmed() + there.harmed(), "");
}

/* Many times around both rings, with a window always full. */
TEST_F(DataTest, StreamAroundTheRings)
{
	constexpr std::size_t window = 60, slot = 700;
	Region here(a.pd(), slot * window), there(b.pd(), slot * window);
	auto total = rounds(2000);
	unsigned sent = 0, received = 0, completed = 0, posted = 0;

	here.fill(3);
	while (received < total) {
		for (; posted < total && posted - received < window; posted++)
			ASSERT_EQ(pair.b->post_recv(posted,
						    {there.sge(posted % window * slot, slot)}),
				  0);
		for (; sent < posted && sent - completed < window; sent++)
			ASSERT_EQ(pair.a->post(send_work(
					  sent, {here.sge(sent % window * slot, sent % slot)})),
				  0);
		for (auto &wc : pair.a->wait_send(sent - completed))
			EXPECT_COMPLETED(wc, completed++, IBV_WC_SEND);
		for (auto &wc : pair.b->wait_recv(sent - received)) {
			auto offset = received % window * slot;
			EXPECT_COMPLETED(wc, received, IBV_WC_RECV);
			ASSERT_EQ(wc.byte_len, received % slot);
			ASSERT_EQ(differs(there.data() + offset, here.data() + offset, wc.byte_len),
				  "");
			received++;
		}
	}
}

TEST_F(DataTest, SelectiveSignaling)
{
	std::vector<Work> works;

	for (uint64_t i = 0; i < 40; i++) {
		ASSERT_EQ(pair.b->post_recv(i), 0);
		works.push_back(send_work(i, {}));
		if (i % 10 != 9)
			works.back().unsignaled();
	}
	ASSERT_EQ(pair.a->post(works), 0);
	auto done = pair.a->wait_send(4);
	for (uint64_t i = 0; i < 4; i++)
		EXPECT_COMPLETED(done[i], i * 10 + 9, IBV_WC_SEND);
	pair.b->wait_recv(40);
	ibv_wc extra;
	EXPECT_EQ(ibv_poll_cq(pair.a->send_cq(), 1, &extra), 0);
	/* Unsignaled ones free their slots too: many times the queue's size must fit. */
	for (uint64_t i = 0; i < 400; i++) {
		ASSERT_EQ(pair.b->post_recv(i), 0);
		auto work = send_work(i, {});
		if (i % 20 != 19)
			work.unsignaled();
		ASSERT_EQ(pair.a->post(work), 0) << i;
		if (i % 20 == 19) {
			EXPECT_COMPLETED(pair.a->wait_send()[0], i, IBV_WC_SEND);
			pair.b->wait_recv(20);
		}
	}
}

TEST_F(DataTest, SignalAll)
{
	PairConfig config;
	config.a.signal_all = true;
	auto all = connected(config);

	for (uint64_t i = 0; i < 10; i++) {
		ASSERT_EQ(all.b->post_recv(i), 0);
		ASSERT_EQ(all.a->post(send_work(i, {}).unsignaled()), 0);
	}
	all.a->wait_send(10);
	all.b->wait_recv(10);
}

/* A fenced Send must wait for the Read before it: it carries what the Read fetched. */
TEST_F(DataTest, FenceAfterRead)
{
	constexpr std::size_t size = 300000;
	Region here(a.pd(), size), there(b.pd(), size), back(b.pd(), size);

	for (unsigned i = 0; i < rounds(20) && !HasFailure(); i++) {
		here.clear();
		there.fill(i);
		back.clear();
		ASSERT_EQ(pair.b->post_recv(i, {back.sge()}), 0);
		std::vector<Work> works;
		works.push_back(read_work(i, {here.sge()}, there.address(), there.rkey()));
		works.push_back(send_work(i, {here.sge()}).flags(IBV_SEND_FENCE));
		ASSERT_EQ(pair.a->post(works), 0);
		pair.a->wait_send(2);
		EXPECT_COMPLETED(pair.b->wait_recv()[0], i, IBV_WC_RECV);
		EXPECT_EQ(differs_from_pattern(back.data(), size, i), "");
	}
}

TEST_F(DataTest, ManyReadsOutstanding)
{
	constexpr std::size_t count = 300, slot = 3000;
	PairConfig config;
	config.a.send_wr = config.a.cq_entries = count;
	config.active.initiator_depth = config.passive.responder_resources =
		static_cast<uint8_t>(std::min(a.attributes().max_qp_rd_atom, 255));
	auto many = connected(config);
	Region here(a.pd(), slot * count), there(b.pd(), slot * count);
	std::vector<Work> works;

	if (a.is_ziw()) {
		EXPECT_GE(a.attributes().max_qp_rd_atom, 128);
		EXPECT_GE(a.attributes().max_qp_init_rd_atom, 128);
	}
	there.fill(9);
	for (std::size_t i = 0; i < count; i++)
		works.push_back(read_work(i, {here.sge(i * slot, slot)}, there.address(i * slot),
					  there.rkey()));
	ASSERT_EQ(many.a->post(works), 0);
	auto done = many.a->wait_send(count);
	for (std::size_t i = 0; i < count; i++)
		EXPECT_COMPLETED(done[i], i, IBV_WC_RDMA_READ);
	EXPECT_EQ(differs_from_pattern(here.data(), here.size(), 9), "");
}

/* Both ends write, read and send at once: neither direction may wait for the other. */
TEST_F(DataTest, BothDirectionsAtOnce)
{
	constexpr std::size_t size = 1 << 20, count = 8;
	Region from_a(a.pd(), size * count), to_a(a.pd(), size * count);
	Region from_b(b.pd(), size * count), to_b(b.pd(), size * count);

	for (unsigned round = 0; round < rounds(4) && !HasFailure(); round++) {
		std::vector<Work> by_a, by_b;
		from_a.fill(round);
		from_b.fill(round + 100);
		to_a.clear();
		to_b.clear();
		for (std::size_t i = 0; i < count; i++) {
			auto at = i * size;
			switch (i % 3) {
			case 0:
				by_a.push_back(write_work(i, {from_a.sge(at, size)},
							  to_b.address(at), to_b.rkey()));
				by_b.push_back(write_work(i, {from_b.sge(at, size)},
							  to_a.address(at), to_a.rkey()));
				break;
			case 1:
				by_a.push_back(read_work(i, {to_a.sge(at, size)},
							 from_b.address(at), from_b.rkey()));
				by_b.push_back(read_work(i, {to_b.sge(at, size)},
							 from_a.address(at), from_a.rkey()));
				break;
			default:
				ASSERT_EQ(pair.a->post_recv(i, {to_a.sge(at, size)}), 0);
				ASSERT_EQ(pair.b->post_recv(i, {to_b.sge(at, size)}), 0);
				by_a.push_back(send_work(i, {from_a.sge(at, size)}));
				by_b.push_back(send_work(i, {from_b.sge(at, size)}));
				break;
			}
		}
		ASSERT_EQ(pair.a->post(by_a), 0);
		ASSERT_EQ(pair.b->post(by_b), 0);
		for (auto *end : {pair.a.get(), pair.b.get()})
			for (auto &wc : end->wait_send(count))
				EXPECT_EQ(wc.status, IBV_WC_SUCCESS)
					<< ibv_wc_status_str(wc.status);
		pair.a->wait_recv(2);
		pair.b->wait_recv(2);
		synchronize(*pair.a, *pair.b);
		synchronize(*pair.b, *pair.a);
		EXPECT_EQ(differs_from_pattern(to_b.data(), to_b.size(), round), "");
		EXPECT_EQ(differs_from_pattern(to_a.data(), to_a.size(), round + 100), "");
		EXPECT_EQ(to_a.harmed() + to_b.harmed(), "");
	}
}

/* Threads posting to one QP, and threads polling one CQ. */
TEST_F(DataTest, ThreadsShareAQueuePair)
{
	constexpr unsigned threads = 4;
	auto each = rounds(200);
	std::atomic<unsigned> sent{0}, received{0};
	std::atomic<bool> stop{false}, bad{false};
	std::vector<std::thread> workers;

	for (unsigned i = 0; i < 60; i++)
		ASSERT_EQ(pair.b->post_recv(i), 0);
	auto poll = [&](Endpoint &end, ibv_cq *cq, std::atomic<unsigned> &count, bool repost) {
		while (!stop) {
			ibv_wc wc;
			int n = ibv_poll_cq(cq, 1, &wc);
			if (n < 0 || (n && wc.status != IBV_WC_SUCCESS))
				bad = true;
			if (n && repost && end.post_recv(0))
				bad = true;
			count += n > 0;
			std::this_thread::yield();
		}
	};
	for (int i = 0; i < 2; i++) {
		workers.emplace_back(poll, std::ref(*pair.a), pair.a->send_cq(), std::ref(sent),
				     false);
		workers.emplace_back(poll, std::ref(*pair.b), pair.b->recv_cq(), std::ref(received),
				     true);
	}
	std::atomic<unsigned> posted{0};
	for (unsigned t = 0; t < threads; t++)
		workers.emplace_back([&] {
			for (unsigned i = 0; i < each && !bad && !stop;) {
				/* Never more under way than there are receives. */
				unsigned n = posted;
				if (n - received >= 50 || n - sent >= 50 ||
				    !posted.compare_exchange_weak(n, n + 1)) {
					std::this_thread::yield();
					continue;
				}
				if (pair.a->post(send_work(i, {})))
					bad = true;
				i++;
			}
		});
	bool done = verbs::eventually(soon, [&] {
		return bad || (sent == each * threads && received == each * threads);
	});
	stop = true;
	for (auto &w : workers)
		w.join();
	EXPECT_TRUE(done);
	EXPECT_FALSE(bad);
	EXPECT_EQ(sent, each * threads);
	EXPECT_EQ(received, each * threads);
}

class ManyTest : public VerbsTest {};

TEST_F(ManyTest, SixtyFourQueuePairs)
{
	constexpr std::size_t count = 64, size = 30000;
	Listener listener(b, default_family());
	Region from(a.pd(), size * count), to(b.pd(), size * count), back(a.pd(), size * count);
	std::vector<Pair> pairs;

	from.fill(64);
	for (std::size_t i = 0; i < count; i++)
		pairs.push_back(connect(a, listener));
	for (std::size_t i = 0; i < count; i++) {
		auto at = i * size;
		ASSERT_EQ(pairs[i].b->post_recv(i, {to.sge(at, size / 3)}), 0);
		std::vector<Work> works;
		works.push_back(send_work(1, {from.sge(at, size / 3)}));
		works.push_back(write_work(2, {from.sge(at + size / 3, size - size / 3)},
					   to.address(at + size / 3), to.rkey()));
		works.push_back(read_work(3, {back.sge(at, size)}, to.address(at), to.rkey()));
		ASSERT_EQ(pairs[i].a->post(works), 0);
	}
	for (std::size_t i = 0; i < count; i++) {
		for (auto &wc : pairs[i].a->wait_send(3))
			EXPECT_EQ(wc.status, IBV_WC_SUCCESS) << ibv_wc_status_str(wc.status);
		EXPECT_COMPLETED(pairs[i].b->wait_recv()[0], i, IBV_WC_RECV);
	}
	EXPECT_EQ(differs_from_pattern(to.data(), to.size(), 64), "");
	/* The Read came after the Write on the same stream, so it saw it (RFC 5040, 5.5). */
	EXPECT_EQ(differs_from_pattern(back.data(), back.size(), 64), "");
}

class PathTest : public DataTest {
protected:
	void run(const std::string &netem)
	{
		Impairment at_a(a, netem), at_b(b, netem);

		for (auto size :
		     {std::size_t(1), std::size_t(1448), std::size_t(65537), std::size_t(1 << 20)})
			for (auto op : {Op::send, Op::write, Op::read})
				both_ways(op, random_layout(op, size));
		for (unsigned i = 0; i < rounds(60) && !HasFailure(); i++) {
			auto op = op_names[random() % std::size(op_names)].op;
			std::size_t size = random() % (is_inline(op) ? a.max_inline() + 1
								     : 1u << random() % 20);
			both_ways(op, random_layout(op, size));
		}
	}
};

TEST_F(PathTest, LossOfOnePercent)
{
	run("loss 1%");
}

/* No FPDU is larger than the window that is to hold it, whatever its size is to be. */
TEST_F(PathTest, SmallReceiveWindow)
{
	if (!a.is_ziw())
		GTEST_SKIP() << "only asked of ziw";
	Setting window("/proc/sys/net/ipv4/tcp_rmem", "4096 8192 8192", b.ns());

	for (const char *bytes : {"0", "64768"}) {
		SCOPED_TRACE(bytes);
		Setting largest("/sys/class/infiniband/" + a.device() + "/ziw/max_fpdu", bytes);
		auto ends = connected();
		Region from(a.pd(), 300000), to(b.pd(), 300000);

		from.fill(1);
		ASSERT_EQ(ends.a->post(write_work(1, {from.sge()}, to.address(), to.rkey())), 0);
		EXPECT_COMPLETED(ends.a->wait_send(1, verbs::milliseconds(25000))[0], 1,
				 IBV_WC_RDMA_WRITE);
		EXPECT_EQ(differs(to.data(), from.data(), to.size()), "");
	}
}

TEST_F(PathTest, Reordering)
{
	run("delay 2ms reorder 25% 50% gap 3");
}

TEST_F(PathTest, DuplicatesAndJitter)
{
	run("delay 1ms 1ms duplicate 1%");
}

TEST_F(PathTest, CorruptedPacketsAreTcpsToFind)
{
	run("corrupt 1%");
}

} // namespace
