// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* ziw-bench: see ziw-bench(1). */
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <csignal>
#include <fstream>
#include <iostream>

#include "report.h"

using namespace bench;

namespace {

constexpr int exit_failed = 1, exit_usage = 2;

/*
 * Have all of the program in memory before anything is timed: it may come from a slow file system.
 * That this is not allowed, or that there is no RDMA device, is no failure.
 */
void warm_up()
{
	/* Loads the providers. */
	if (auto *list = ibv_get_device_list(nullptr))
		ibv_free_device_list(list);
	if (!mlockall(MCL_CURRENT))
		munlockall();
}

int run(const Options &options)
{
	std::vector<Result> results;
	std::ofstream file;
	bool table = options.json != "-";

	/* Before the work, not after it. */
	if (table && !options.json.empty()) {
		file.open(options.json);
		if (!file)
			throw Usage("cannot write " + options.json + ": " + std::strerror(errno));
	}
	for (auto size : options.sizes) {
		auto config = options.config;
		config.size = size;
		results.push_back(measure(options, config));
		if (table && results.size() == 1)
			table_head(std::cout, results[0]);
		if (table)
			table_row(std::cout, results.back());
	}
	if (!options.json.empty())
		json(table ? file : std::cout, results);
	if (table && !options.json.empty() && !file)
		throw std::runtime_error("cannot write " + options.json);
	return 0;
}

} // namespace

int main(int argc, char **argv)
try {
	std::signal(SIGPIPE, SIG_IGN);
	if (argc == 1) {
		std::cerr << help_text();
		return exit_usage;
	}
	auto options = parse_options(argc, argv);
	if (options.help) {
		std::cout << help_text();
		return 0;
	}
	warm_up();
	if (options.server)
		return serve(options) ? 0 : exit_failed;
	return run(options);
} catch (const Usage &e) {
	std::cerr << "ziw-bench: " << e.what() << " (see --help)\n";
	return exit_usage;
} catch (const std::exception &e) {
	std::cerr << "ziw-bench: " << e.what() << "\n";
	return exit_failed;
}
