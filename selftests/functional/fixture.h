/* SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause */
/* What every test of this program starts from. */
#pragma once

#include <gtest/gtest.h>

#include "endpoint.h"

/* The two hosts of this run. */
Host &host_a();
Host &host_b();
/* The address family tests use that do not name one: ZIW_FAMILY (ipv4, ipv6, link_local). */
Family default_family();

class VerbsTest : public testing::Test {
protected:
	VerbsTest() : a(host_a()), b(host_b()), random(run_seed()) {}

	/* Connected over the family of this run. */
	Pair connected(PairConfig config = {})
	{
		config.active.family = default_family();
		return connect(a, b, config);
	}

	Host &a, &b;
	Random random;
};

/* Rounds of a loop, scaled by ZIW_SCALE percent, at least one. */
unsigned rounds(unsigned normal);

/* Expect a successful completion of this work request. */
#define EXPECT_COMPLETED(wc, id, operation)                                                        \
	do {                                                                                       \
		const ibv_wc wc_ = (wc);                                                           \
		EXPECT_EQ(wc_.status, IBV_WC_SUCCESS)                                              \
			<< ibv_wc_status_str(wc_.status) << ", vendor_err " << std::hex            \
			<< wc_.vendor_err;                                                         \
		EXPECT_EQ(wc_.wr_id, static_cast<uint64_t>(id));                                   \
		EXPECT_EQ(wc_.opcode, operation);                                                  \
	} while (0)
