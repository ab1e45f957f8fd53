// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Tests of tools/wire that need no device. Prints TAP without a plan, which `run` prints. With
 * "--seeds DIR" it writes captures there, from which fuzzing starts.
 */
#include <gtest/gtest.h>

#include <iostream>
#include <memory>

#include "tape.h"

namespace {

class Tap : public testing::EmptyTestEventListener {
	void OnTestPartResult(const testing::TestPartResult &part) override
	{
		if (part.passed())
			return;
		std::istringstream text(part.message());
		std::string line;
		why_ += std::string("# ") + (part.file_name() ? part.file_name() : "") + ":" +
			std::to_string(part.line_number()) + "\n";
		while (std::getline(text, line))
			why_ += "#   " + line + "\n";
	}

	void OnTestEnd(const testing::TestInfo &test) override
	{
		std::cout << (test.result()->Failed() ? "not ok " : "ok ") << ++number_ << " - "
			  << test.test_suite_name() << "." << test.name() << "\n"
			  << why_ << std::flush;
		why_.clear();
	}

	std::string why_;
	int number_ = 0;
};

} // namespace

int main(int argc, char **argv)
{
	if (argc == 3 && std::string(argv[1]) == "--seeds")
		return write_seeds(argv[2]);
	testing::InitGoogleTest(&argc, argv);
	auto &listeners = testing::UnitTest::GetInstance()->listeners();
	std::unique_ptr<testing::TestEventListener>(
		listeners.Release(listeners.default_result_printer()));
	listeners.Append(std::make_unique<Tap>().release());
	return RUN_ALL_TESTS();
}
