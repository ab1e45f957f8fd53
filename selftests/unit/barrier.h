/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* Included before kernel/proto/wqe.c is compiled for tests: what its barriers stand for here. */
#ifndef ZIW_TEST_BARRIER_H
#define ZIW_TEST_BARRIER_H

void ziw_test_barrier(void);

#define barrier() ziw_test_barrier()

#endif
