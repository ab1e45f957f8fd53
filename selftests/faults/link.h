/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* "rdma link add" and "delete" from the calling thread, so that its faults are met. */
#pragma once

#include <string>

/* Each returns 0 or an errno value. The interface is one of the calling thread's namespace. */
int add_link(const std::string &device, const std::string &netdev);
int delete_link(const std::string &device);
