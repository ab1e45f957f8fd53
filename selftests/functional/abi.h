/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What is between ziw's provider and the kernel, for tests that do what no provider would. */
#pragma once

#include <cstdint>
#include <vector>

/* The kernel's header has flexible arrays. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#include "ziw-abi.h"
#pragma GCC diagnostic pop

/* The files that doorbells are rung on: those of this process, of all its contexts. */
std::vector<int> doorbells();
/* Where the rings of this process's queues are mapped. */
std::vector<uintptr_t> ring_mappings();
