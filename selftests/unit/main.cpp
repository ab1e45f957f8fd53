// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Unit tests of kernel/proto. Prints TAP without a plan: `run`, which adds tests of its own, prints
 * it.
 *
 * Environment: ZIW_SEED, the random seed (default: a new one each run).
 */
#include <gtest/gtest.h>

#include <iostream>
#include <memory>
#include <sstream>
#include <string>

#include "proto.h"

namespace {

class Tap : public testing::EmptyTestEventListener {
	void OnTestIterationStart(const testing::UnitTest &, int) override
	{
		std::cout << "# seed " << run_seed() << std::endl;
	}

	void OnTestStart(const testing::TestInfo &) override { text_ = {}; }

	void OnTestPartResult(const testing::TestPartResult &part) override
	{
		if (part.passed())
			return;
		if (part.file_name())
			text_ << part.file_name() << ":" << part.line_number() << ": ";
		text_ << part.message() << "\n";
	}

	void OnTestEnd(const testing::TestInfo &test) override
	{
		const bool failed = test.result()->Failed();
		const std::string name = std::string(test.test_suite_name()) + "." + test.name();
		std::string line;

		std::cout << (failed ? "not ok " : "ok ") << ++number_ << " - " << name << "\n";
		if (failed) {
			while (std::getline(text_, line))
				std::cout << "# " << line << "\n";
			std::cout << "# repeat with ZIW_SEED=" << run_seed()
				  << " selftests/unit/run --gtest_filter=" << name << "\n";
		}
		std::cout << std::flush;
	}

	std::stringstream text_;
	int number_ = 0;
};

} // namespace

int main(int argc, char **argv)
{
	testing::InitGoogleTest(&argc, argv);
	auto &listeners = testing::UnitTest::GetInstance()->listeners();
	std::unique_ptr<testing::TestEventListener>(
		listeners.Release(listeners.default_result_printer()));
	listeners.Append(std::make_unique<Tap>().release());
	return RUN_ALL_TESTS();
}
