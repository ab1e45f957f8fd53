/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* How often each kind of operation was tried, and how often it succeeded: in memory that all
 * processes share. */
#pragma once

#include <atomic>
#include <cstdint>

#define OPERATIONS(_)                                                                              \
	_(open_context)                                                                            \
	_(close_context)                                                                           \
	_(query)                                                                                   \
	_(create_channel)                                                                          \
	_(create_pd)                                                                               \
	_(create_cq)                                                                               \
	_(create_srq)                                                                              \
	_(create_qp)                                                                               \
	_(reg_mr)                                                                                  \
	_(destroy_pd)                                                                              \
	_(destroy_cq)                                                                              \
	_(destroy_srq)                                                                             \
	_(destroy_qp)                                                                              \
	_(dereg_mr)                                                                                \
	_(modify_qp)                                                                               \
	_(modify_srq)                                                                              \
	_(doorbell)                                                                                \
	_(post_with_wr)                                                                            \
	_(arm_or_poll)                                                                             \
	_(map_ring)                                                                                \
	_(map_wrong)                                                                               \
	_(change_mapping)                                                                          \
	_(unoffered)                                                                               \
	_(garbage_write)                                                                           \
	_(garbage_ioctl)                                                                           \
	_(cm_call)                                                                                 \
	_(cm_garbage)                                                                              \
	_(connect_pair)                                                                            \
	_(pair_send)                                                                               \
	_(hostile_send)                                                                            \
	_(pair_completion)                                                                         \
	_(scribble)                                                                                \
	_(fork)                                                                                    \
	_(unmap_registered)                                                                        \
	_(delete_link)                                                                             \
	_(delete_interface)                                                                        \
	_(delete_namespace)                                                                        \
	_(kill_process)

enum class Op {
#define OP_ENUM(name) name,
	OPERATIONS(OP_ENUM)
#undef OP_ENUM
		number
};

inline constexpr unsigned number_of_ops = static_cast<unsigned>(Op::number);

struct Counts {
	std::atomic<uint64_t> tried[number_of_ops];
	std::atomic<uint64_t> succeeded[number_of_ops];
};

/* Set before any process is forked. */
inline Counts *counts;

inline bool count(Op op, bool ok)
{
	counts->tried[static_cast<unsigned>(op)]++;
	if (ok)
		counts->succeeded[static_cast<unsigned>(op)]++;
	return ok;
}

const char *op_name(unsigned op);
void print_counts();
