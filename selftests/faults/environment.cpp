// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "faults.h"

namespace {

class FaultEnvironment : public testing::Environment {
	void SetUp() override { prepare_faults(); }
};

[[maybe_unused]] auto *const environment = testing::AddGlobalTestEnvironment(new FaultEnvironment);

} // namespace
