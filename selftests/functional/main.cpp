// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * Functional tests of an RDMA driver through libibverbs and librdmacm. Prints TAP.
 *
 * Environment:
 *	ZIW_A, ZIW_B	the two hosts as NAMESPACE:NETDEV:DEVICE (default a:va:ziwa and b:vb:ziwb)
 *	ZIW_TYPE	the driver of the devices (default ziw); some tests know others' limits
 *	ZIW_FAMILY	ipv4 (default), ipv6 or link_local
 *	ZIW_LIB		directory of the scripts' library (default selftests/lib)
 *	ZIW_SEED	random seed (default: a new one each run)
 *	ZIW_SCALE	percent of the normal rounds of long loops
 *	ZIW_LIMIT	seconds one test may take (default 300)
 */
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <sstream>

#include "fixture.h"
#include "peer.h"

namespace {

std::string env(const char *name, const char *otherwise)
{
	const char *value = std::getenv(name);

	return value && *value ? value : otherwise;
}

std::unique_ptr<Host> hosts[2];

Host &host(int n, const char *name, const char *side)
{
	if (!hosts[n]) {
		std::string s = side;
		hosts[n] = std::make_unique<Host>(
			env(name, (s + ":v" + s + ":" + driver_type() + s).c_str()));
	}
	return *hosts[n];
}

void out_of_time(int)
{
	static const char text[] = "# this test's time is over\n";

	if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0)
		_exit(125);
	_exit(124);
}

class Tap : public testing::EmptyTestEventListener {
	void OnTestIterationStart(const testing::UnitTest &unit, int) override
	{
		std::cout << "1.." << unit.test_to_run_count() << "\n# seed " << run_seed()
			  << std::endl;
	}

	void OnTestStart(const testing::TestInfo &) override
	{
		text_ = {};
		alarm(static_cast<unsigned>(std::stoul(env("ZIW_LIMIT", "300"))));
	}

	void OnTestPartResult(const testing::TestPartResult &part) override
	{
		if (part.passed())
			return;
		if (part.file_name())
			text_ << part.file_name() << ":" << part.line_number() << ": ";
		text_ << part.message() << "\n";
		if (part.skipped())
			reason_ = std::string(part.message())
					  .substr(0, std::string(part.message()).find('\n'));
	}

	void OnTestEnd(const testing::TestInfo &test) override
	{
		auto &result = *test.result();
		std::string line;

		alarm(0);
		std::cout << (result.Failed() ? "not ok " : "ok ") << ++number_ << " - "
			  << test.test_suite_name() << "." << test.name();
		if (result.Skipped() && !result.Failed())
			std::cout << " # SKIP " << reason_;
		else
			std::cout << " # time=" << result.elapsed_time() << "ms";
		std::cout << "\n";
		while (result.Failed() && std::getline(text_, line))
			std::cout << "# " << line << "\n";
		if (result.Failed())
			std::cout << "# repeat with ZIW_SEED=" << run_seed()
				  << " --gtest_filter=" << test.test_suite_name() << "."
				  << test.name() << "\n";
		std::cout << std::flush;
	}

	std::stringstream text_;
	std::string reason_;
	int number_ = 0;
};

} // namespace

Host &host_a()
{
	return host(0, "ZIW_A", "a");
}

Host &host_b()
{
	return host(1, "ZIW_B", "b");
}

Family default_family()
{
	auto name = env("ZIW_FAMILY", "ipv4");

	if (name == "ipv4")
		return Family::ipv4;
	if (name == "ipv6")
		return Family::ipv6;
	if (name == "link_local")
		return Family::link_local;
	throw std::invalid_argument("ZIW_FAMILY=" + name);
}

unsigned rounds(unsigned normal)
{
	return std::max(1u,
			normal * static_cast<unsigned>(std::stoul(env("ZIW_SCALE", "100"))) / 100);
}

int main(int argc, char **argv)
{
	/* This program starts itself anew where a test needs a peer that can be killed. */
	if (argc > 1 && std::string(argv[1]) == "--peer")
		return peer_main(argc - 2, argv + 2);

	testing::InitGoogleTest(&argc, argv);
	auto &listeners = testing::UnitTest::GetInstance()->listeners();
	delete listeners.Release(listeners.default_result_printer());
	listeners.Append(new Tap);
	verbs::destroy_failed = [](const char *type, int code) {
		ADD_FAILURE() << "not destroyed: " << type << ": " << std::strerror(code);
	};
	std::signal(SIGALRM, out_of_time);
	std::signal(SIGPIPE, SIG_IGN);
	int rc = RUN_ALL_TESTS();
	for (auto &h : hosts)
		h.reset();
	/* Outside of a test there is no line for it: the exit code tells. */
	auto &outside = testing::UnitTest::GetInstance()->ad_hoc_test_result();
	for (int i = 0; i < outside.total_part_count(); i++)
		if (outside.GetTestPartResult(i).failed())
			std::cout << "# outside of tests: "
				  << outside.GetTestPartResult(i).message() << std::endl;
	return rc || outside.Failed();
}
