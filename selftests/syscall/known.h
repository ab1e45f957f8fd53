/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What random calls once found, or would be too slow to find. */
#pragma once

#include <string>

/* Each returns "", or what is wrong. They need the two hosts. */
std::string inline_with_sges();
std::string two_connects();
