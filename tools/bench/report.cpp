// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "report.h"

#include <iomanip>
#include <numeric>

namespace bench {

namespace {

double microseconds(uint64_t ns)
{
	return static_cast<double>(ns) / 1000;
}

double mean(const std::vector<uint64_t> &samples)
{
	if (samples.empty())
		return 0;
	return std::accumulate(samples.begin(), samples.end(), 0.0) /
	       static_cast<double>(samples.size()) / 1000;
}

constexpr std::pair<const char *, double> percentiles[] = {
	{"min", 0}, {"median", 0.5}, {"99 %", 0.99}, {"99.9 %", 0.999}, {"max", 1},
};

} // namespace

void table_head(std::ostream &to, const Result &first)
{
	auto &c = first.config;

	to << "# " << name(c.transport) << " " << name(c.operation);
	if (!first.device.empty())
		to << " on " << first.device;
	to << ", " << (c.poll ? "polling" : "event-driven");
	if (!c.latency)
		to << ", depth " << c.depth << ", " << c.qps << " connection"
		   << (c.qps > 1 ? "s" : "") << ", " << c.threads << " thread"
		   << (c.threads > 1 ? "s" : "") << ", " << c.list << " per call, every "
		   << c.signal << " signalled";
	to << ", inline up to " << c.inline_size << "\n";
	if (c.operation == Operation::idle) {
		to << "#   seconds to connect all\n";
		return;
	}
	if (c.latency) {
		to << "#     size    samples";
		for (auto &[text, part] : percentiles)
			to << std::setw(11) << text;
		to << "       mean  us, " << (c.is_request() ? "whole" : "half of a")
		   << " round trip\n";
		return;
	}
	to << "#     size   messages    seconds       MB/s     Gbit/s    messages/s   client CPU s "
	      "  "
	      "server CPU s\n";
}

void table_row(std::ostream &to, const Result &r)
{
	to << std::fixed << std::setprecision(2);
	if (r.config.operation == Operation::idle) {
		to << std::setw(10) << r.setup << std::endl;
		return;
	}
	to << std::setw(10) << r.config.size << std::setw(11) << r.messages;
	if (r.config.latency) {
		for (auto &[text, part] : percentiles)
			to << std::setw(11) << microseconds(r.percentile(part));
		to << std::setw(11) << mean(r.samples) << std::endl;
		return;
	}
	to << std::setw(11) << std::setprecision(3) << r.seconds << std::setw(11)
	   << std::setprecision(1) << r.bytes_per_second() / 1e6 << std::setw(11)
	   << std::setprecision(2) << r.bytes_per_second() * 8 / 1e9 << std::setw(14)
	   << std::setprecision(0) << r.messages_per_second() << std::setw(15)
	   << std::setprecision(3) << r.client_cpu << std::setw(15) << r.server_cpu;
	if (r.copied)
		to << "  (" << r.copied << " copied in spite of MSG_ZEROCOPY)";
	to << std::endl;
}

void json(std::ostream &to, const std::vector<Result> &results)
{
	auto yes = [](bool is) { return is ? "true" : "false"; };
	const char *comma = "";

	to << std::setprecision(9) << "{\"version\": 1, \"results\": [";
	for (auto &r : results) {
		auto &c = r.config;
		to << comma << "\n{\"operation\": \"" << name(c.operation)
		   << "\", \"transport\": \"" << name(c.transport) << "\", \"device\": \""
		   << r.device << "\", \"size\": " << c.size << ", \"depth\": " << c.depth
		   << ", \"qps\": " << c.qps << ", \"threads\": " << c.threads
		   << ", \"poll\": " << yes(c.poll) << ", \"latency\": " << yes(c.latency)
		   << ", \"inline\": " << c.inline_size << ", \"signal\": " << c.signal
		   << ", \"list\": " << c.list << ", \"messages\": " << r.messages
		   << ", \"seconds\": " << r.seconds << ", \"setup_seconds\": " << r.setup
		   << ", \"client_cpu_seconds\": " << r.client_cpu
		   << ", \"server_cpu_seconds\": " << r.server_cpu;
		if (c.transport == Transport::zerocopy)
			to << ", \"copied\": " << r.copied;
		if (c.latency)
			to << ", \"us\": {\"min\": " << microseconds(r.percentile(0))
			   << ", \"median\": " << microseconds(r.percentile(0.5))
			   << ", \"p99\": " << microseconds(r.percentile(0.99))
			   << ", \"p99.9\": " << microseconds(r.percentile(0.999))
			   << ", \"max\": " << microseconds(r.percentile(1))
			   << ", \"mean\": " << mean(r.samples) << "}";
		else
			to << ", \"bytes_per_second\": " << r.bytes_per_second()
			   << ", \"messages_per_second\": " << r.messages_per_second();
		to << "}";
		comma = ",";
	}
	to << "\n]}" << std::endl;
}

} // namespace bench
