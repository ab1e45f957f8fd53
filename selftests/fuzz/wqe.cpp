// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Fuzzes the way of work requests out of rings: what a slot says is hostile, and what was copied
 * from it says something else afterwards (unit/busy_slot.h). The slot has exactly the bytes that
 * the limits give it, so that ASan sees a read beyond; verdicts and results are held against what
 * uapi/ziw-abi.h says.
 *
 * Input: max_sge, max_inline (two bytes, the lower first), a kernel consumer's ring or not, then
 * the slot, then what is changed in it (by XOR) before it is taken for the sink of a response.
 * The slot is taken as one of a receive queue, too.
 */
#include "fuzz.h"

#include <algorithm>
#include <memory>

#include "unit/busy_slot.h"

namespace {

constexpr std::size_t limits_size = 4;
/* What nobody wrote in a result. */
constexpr u8 untouched = 0xa5;

/* The next bytes of the input, with zeros for those it does not have. */
Bytes take(View &input, std::size_t size)
{
	Bytes bytes = copy(input.first(std::min(input.size(), size)));

	input = input.subspan(bytes.size());
	bytes.resize(size);
	return bytes;
}

template <typename T> T at(const Bytes &slot, std::size_t offset)
{
	T value;

	REQUIRE(offset + sizeof(value) <= slot.size());
	std::memcpy(&value, slot.data() + offset, sizeof(value));
	return value;
}

template <typename T> std::unique_ptr<T> blank()
{
	auto object = std::make_unique<T>();

	std::memset(static_cast<void *>(object.get()), untouched, sizeof(T));
	return object;
}

template <typename T> bool is_untouched(const T &object)
{
	const u8 *begin = reinterpret_cast<const u8 *>(&object);

	return std::all_of(begin, begin + sizeof(T), [](u8 byte) { return byte == untouched; });
}

/* The SGEs are those of the slot, and none was taken but them. */
u64 check_sges(const ziw_sge (&sge)[ZIW_MAX_SGE], u32 num, const Bytes &slot, std::size_t offset)
{
	u64 sum = 0;

	REQUIRE(num <= ZIW_MAX_SGE);
	for (u32 i = 0; i < num; i++) {
		const ziw_sge found = at<ziw_sge>(slot, offset + i * sizeof(ziw_sge));

		REQUIRE(sge[i].addr == found.addr);
		REQUIRE(sge[i].length == found.length);
		REQUIRE(sge[i].lkey == found.lkey);
		sum += found.length;
	}
	for (u32 i = num; i < ZIW_MAX_SGE; i++)
		REQUIRE(is_untouched(sge[i]));
	return sum;
}

/* What the ABI says of a slot. */
struct Verdict {
	ziw_wqe_error error = ZIW_WQE_BAD_OP;
	u32 num_sge = 0;
	u32 total = 0;
};

Verdict judge(const Bytes &slot, const ziw_wqe_limits &limits)
{
	const u8 opcode = at<u8>(slot, 8), num = at<u8>(slot, 9);
	const bool is_inline = at<u16>(slot, 10) & ZIW_WQE_INLINE;
	const u32 inline_len = at<u32>(slot, 12);
	Verdict verdict;
	u64 sum = 0;

	switch (opcode) {
	case ZIW_OP_REG_MR:
		if (!limits.kernel)
			return verdict;
		[[fallthrough]];
	case ZIW_OP_LOCAL_INV:
	case ZIW_OP_BIND_MW:
		verdict.error = ZIW_WQE_OK;
		return verdict;
	case ZIW_OP_SEND:
	case ZIW_OP_SEND_INV:
	case ZIW_OP_SEND_IMM:
	case ZIW_OP_WRITE:
	case ZIW_OP_WRITE_IMM:
		if (!is_inline)
			break;
		if (inline_len <= limits.max_inline)
			verdict = {.error = ZIW_WQE_OK, .total = inline_len};
		return verdict;
	case ZIW_OP_READ_INV:
		if (!limits.kernel)
			return verdict;
		[[fallthrough]];
	case ZIW_OP_READ:
	case ZIW_OP_FETCH_ADD:
	case ZIW_OP_CMP_SWAP:
		if (!is_inline)
			break;
		return verdict;
	default:
		return verdict;
	}
	if (num > limits.max_sge)
		return verdict;
	for (u32 i = 0; i < num; i++)
		sum += at<ziw_sge>(slot, sizeof(ziw_sq_wqe) + i * sizeof(ziw_sge)).length;
	verdict.error = ZIW_WQE_BAD_LENGTH;
	verdict.num_sge = num;
	if (sum > u64{1} << 31)
		return verdict;
	if (opcode == ZIW_OP_FETCH_ADD || opcode == ZIW_OP_CMP_SWAP) {
		if (sum < 8)
			return verdict;
		sum = 8;
	}
	verdict.error = ZIW_WQE_OK;
	verdict.total = static_cast<u32>(sum);
	return verdict;
}

void check_load(const Bytes &slot, const ziw_wqe_limits &limits)
{
	const auto wqe = blank<ziw_wqe>();
	const Verdict verdict = judge(slot, limits);
	ziw_sq_wqe expected = at<ziw_sq_wqe>(slot, 0);

	{
		const BusySlot busy(slot, sizeof(ziw_sq_wqe));

		REQUIRE(ziw_wqe_load(busy.data(), &limits, wqe.get()) == verdict.error);
	}
	/* "on error the header is as it was found" */
	if (verdict.error == ZIW_WQE_OK) {
		REQUIRE(wqe->total == verdict.total);
		REQUIRE(wqe->total <= ZIW_MAX_MSG);
		expected.num_sge = static_cast<u8>(verdict.num_sge);
	}
	REQUIRE(!std::memcmp(&wqe->hdr, &expected, sizeof(expected)));
	check_sges(wqe->sge, verdict.num_sge, slot, sizeof(ziw_sq_wqe));
	REQUIRE(ziw_wqe_cqe_opcode(wqe->hdr.opcode) < ZIW_OP_RECV);
	if (verdict.error != ZIW_WQE_OK)
		return;

	/* Each that is taken is one thing, and what goes on with it relies on that. */
	const u8 opcode = wqe->hdr.opcode;

	REQUIRE(ziw_wqe_is_send(opcode) + ziw_wqe_is_write(opcode) + ziw_wqe_is_read(opcode) +
			ziw_wqe_is_atomic(opcode) + ziw_wqe_is_local(opcode) ==
		1);
	REQUIRE(ziw_wqe_cqe_opcode(opcode) == opcode);
	REQUIRE(!ziw_wqe_is_request(opcode) || !(wqe->hdr.flags & ZIW_WQE_INLINE));
	REQUIRE(!ziw_wqe_is_local(opcode) || !wqe->total);
}

/* Whatever became of the request: nothing is refused, and nothing is out of bounds. */
void check_sink(const Bytes &slot, const ziw_wqe_limits &limits)
{
	const auto sink = blank<ziw_rqe>();

	{
		const BusySlot busy(slot, sizeof(ziw_sq_wqe));

		ziw_wqe_sink(busy.data(), &limits, sink.get());
	}
	REQUIRE(sink->wr_id == at<u64>(slot, 0));
	REQUIRE(sink->num_sge == std::min<u32>(at<u8>(slot, 9), limits.max_sge));
	REQUIRE(sink->length == check_sges(sink->sge, sink->num_sge, slot, sizeof(ziw_sq_wqe)));
}

void check_receive(const Bytes &slot, u32 max_sge)
{
	const auto rqe = blank<ziw_rqe>();
	const u32 num = at<u32>(slot, 8);
	bool ok;

	{
		const BusySlot busy(slot, sizeof(ziw_rq_wqe));

		ok = ziw_rqe_load(busy.data(), max_sge, rqe.get());
	}
	REQUIRE(ok == (num <= max_sge));
	REQUIRE(rqe->wr_id == at<u64>(slot, 0));
	REQUIRE(rqe->num_sge == (ok ? num : 0));
	REQUIRE(rqe->length == check_sges(rqe->sge, rqe->num_sge, slot, sizeof(ziw_rq_wqe)));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	View input(data, size);
	const Bytes head = take(input, limits_size);
	const ziw_wqe_limits limits = {
		.max_sge = head[0] % u32{ZIW_MAX_SGE + 1},
		.max_inline = (head[1] | head[2] << 8) % u32{ZIW_MAX_INLINE + 1},
		.kernel = (head[3] & 1) != 0,
	};
	View as_receive = input;
	Bytes slot = take(input, sizeof(ziw_sq_wqe) +
					 std::max<std::size_t>(limits.max_sge * sizeof(ziw_sge),
							       limits.max_inline));

	check_load(slot, limits);
	check_sink(slot, limits);
	for (std::size_t i = 0; i < std::min(input.size(), slot.size()); i++)
		slot[i] ^= input[i];
	check_sink(slot, limits);
	check_load(slot, limits);
	check_receive(take(as_receive, sizeof(ziw_rq_wqe) + limits.max_sge * sizeof(ziw_sge)),
		      limits.max_sge);
	return 0;
}
