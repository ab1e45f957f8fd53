// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#include "session.h"

#include <sys/resource.h>

#include <algorithm>
#include <condition_variable>
#include <iomanip>
#include <iostream>
#include <latch>
#include <mutex>
#include <sstream>

namespace bench {

namespace {

/* A change of what is said over the control connection needs another one. */
constexpr const char *greeting = "ziw-bench-1";

double cpu_seconds(int who)
{
	rusage used;

	if (getrusage(who, &used))
		verbs::fail("getrusage");
	auto seconds = [](const timeval &t) {
		return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
	};
	return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/* The threads of one side. */
class Crew {
public:
	explicit Crew(Side &side) : side_(side), ready_(static_cast<std::ptrdiff_t>(side.threads()))
	{
		for (uint32_t i = 0; i < side.threads(); i++)
			threads_.emplace_back([this, i] { run(i); });
	}
	~Crew()
	{
		/* Who is alive now, is so because something failed. */
		if (!threads_.empty()) {
			if (!go_.try_wait())
				go_.count_down();
			side_.cancel();
			join();
		}
	}
	/*
	 * Returns when it was that they began. Taken before they may: on one CPU they can be
	 * through before this thread runs again.
	 */
	verbs::Clock::time_point start()
	{
		ready_.wait();
		auto now = verbs::Clock::now();
		go_.count_down();
		return now;
	}
	void join()
	{
		for (auto &thread : threads_)
			thread.join();
		threads_.clear();
	}
	/* Of the first thread that has failed; empty: none has. */
	std::string failure()
	{
		std::lock_guard lock(mutex_);

		return failure_;
	}
	void rethrow()
	{
		if (auto what = failure(); !what.empty())
			throw std::runtime_error(what);
	}
	/* True: all threads have ended, or one of them has failed. */
	bool finished(verbs::milliseconds within)
	{
		std::unique_lock lock(mutex_);

		return ended_.wait_for(lock, within, [this] {
			return finished_ == side_.threads() || !failure_.empty();
		});
	}
	double cpu()
	{
		std::lock_guard lock(mutex_);

		return cpu_;
	}

private:
	void run(uint32_t thread)
	{
		ready_.count_down();
		go_.wait();
		try {
			side_.run(thread);
		} catch (const std::exception &e) {
			std::lock_guard lock(mutex_);
			/*
			 * The others go on until the destructor ends them: first the other side
			 * is to be told, or asked, since it takes their end for a failure.
			 */
			if (failure_.empty())
				failure_ = e.what();
		}
		std::lock_guard lock(mutex_);
		cpu_ += cpu_seconds(RUSAGE_THREAD);
		finished_++;
		ended_.notify_all();
	}

	Side &side_;
	std::latch ready_, go_{1};
	std::vector<std::thread> threads_;
	std::mutex mutex_;
	std::string failure_;
	std::condition_variable ended_;
	double cpu_ = 0;
	uint32_t finished_ = 0;
};

/* For how long the server has had all, and has not said so. */
class Wait {
public:
	Wait(Side &side, Crew &crew) : side_(side), crew_(crew) {}
	/* Throws when that is too long: the host of a server that is stopped still answers. */
	void look()
	{
		auto now = verbs::Clock::now();
		auto left = crew_.finished(verbs::milliseconds(0)) ? side_.unacknowledged() : busy;

		/* A slow path takes the longer, the more is under way. */
		if (left == busy || left != left_)
			since_ = now;
		left_ = left;
		if (now - since_ >= patience)
			throw verbs::Timeout("the server does not say that it has all");
	}

private:
	static constexpr uint64_t busy = UINT64_MAX;
	Side &side_;
	Crew &crew_;
	uint64_t left_ = busy;
	verbs::Clock::time_point since_;
};

/* A line that is written over by the next, on a terminal. */
class Progress {
public:
	Progress(const Options &options, const Config &config)
		: quiet_(options.quiet), terminal_(isatty(2)), config_(config)
	{
	}
	~Progress()
	{
		if (shown_ && terminal_)
			std::cerr << "\r\033[K" << std::flush;
	}
	void show(double seconds, uint64_t messages)
	{
		/* Short ones need none; a log has no use for one each second. */
		double every = terminal_ ? 1 : 10;
		if (quiet_ || seconds < next_ + every)
			return;
		next_ = seconds;
		auto rate = static_cast<double>(messages - before_) / (seconds - at_);
		std::ostringstream line;
		line << std::fixed << std::setprecision(1) << name(config_.transport) << " "
		     << name(config_.operation) << " " << config_.size << " bytes: " << seconds
		     << " s, " << messages;
		if (config_.messages)
			line << " of " << config_.messages;
		line << " messages, " << rate * static_cast<double>(config_.size) / 1e6 << " MB/s";
		std::cerr << (terminal_ ? "\r\033[K" : "") << line.str() << (terminal_ ? "" : "\n")
			  << std::flush;
		before_ = messages;
		at_ = seconds;
		shown_ = true;
	}

private:
	bool quiet_, terminal_, shown_ = false;
	Config config_;
	double next_ = 0, at_ = 0;
	uint64_t before_ = 0;
};

/*
 * What the server says in the end, with a call of each() now and then. What failed there may be the
 * cause of what failed here, or follow from it: both are told.
 */
std::string outcome(Control &control, Crew &crew, Side &side, auto each)
{
	Wait wait(side, crew);
	std::optional<std::string> line;
	bool last = false;

	while (!line && !last) {
		/* Once more after a failure: the server's word may be on its way. */
		last = !crew.failure().empty();
		try {
			line = control.hear(glance);
		} catch (...) {
			crew.rethrow();
			throw;
		}
		each();
		if (!line)
			wait.look();
	}
	if (!line)
		crew.rethrow();
	try {
		return after_word(*line, "done");
	} catch (const std::exception &e) {
		if (auto ours = crew.failure(); !ours.empty())
			throw std::runtime_error(ours + "; " + e.what());
		throw;
	}
}

double since(verbs::Clock::time_point start)
{
	return std::chrono::duration<double>(verbs::Clock::now() - start).count();
}

std::string field(const std::map<std::string, std::string> &fields, const char *which)
{
	auto found = fields.find(which);

	if (found == fields.end())
		throw std::runtime_error("the server is no ziw-bench of this version");
	return found->second;
}

/* True: the client has got its result. */
bool serve_one(Fd fd)
{
	Control control(std::move(fd));
	/* Until the client has been told of a failure: their end would look like the cause. */
	std::unique_ptr<ServerSide> side;
	std::optional<Crew> crew;

	try {
		prepare(control.fd());
		auto config = Config::parse(control.expect(greeting, patience));
		auto here = unmapped(local_address(control.fd()));
		side = config.is_tcp() ? tcp_server(config, here) : rdma_server(config, here);

		control.say("ready port=" + std::to_string(side->port()) +
			    " window=" + std::to_string(side->window()));
		side->accept(control);
		crew.emplace(*side);
		control.say("connected");
		crew->start();
		/* The client says nothing until it is told the result. */
		while (!crew->finished(glance))
			if (control.gone())
				throw std::runtime_error("the client ended too soon");
		crew->rethrow();
		crew->join();
		control.say("done messages=" + std::to_string(side->done()) +
			    " cpu=" + std::to_string(crew->cpu()));
		/* The client takes its connections down first. */
		control.expect("bye", patience);
		return true;
	} catch (const std::exception &e) {
		std::cerr << "ziw-bench: " + std::string(e.what()) + "\n";
		control.try_say(std::string("error ") + e.what());
		return false;
	}
}

} // namespace

uint64_t Result::percentile(double part) const
{
	if (samples.empty())
		return 0;
	auto at = static_cast<std::size_t>(part * static_cast<double>(samples.size()));
	return samples[std::min(at, samples.size() - 1)];
}

Result measure(const Options &options, const Config &config)
{
	Control control(connect_to(look_up(options.host, options.port, false),
				   "cannot reach a server at " + options.host + " port " +
					   options.port +
					   " (is 'ziw-bench --server' running there?)"));
	auto begin = verbs::Clock::now();
	Result result;

	control.say(std::string(greeting) + " " + config.text());
	auto ready = parse_fields(control.expect("ready", patience));
	auto server = unmapped(remote_address(control.fd()));
	server.set_port(static_cast<uint16_t>(std::stoul(field(ready, "port"))));
	std::unique_ptr<Side> side;
	try {
		side = config.is_tcp()
			       ? tcp_client(config, server)
			       : rdma_client(config, server, std::stoul(field(ready, "window")));
	} catch (const std::exception &e) {
		/* The server refuses by ending connections, too. */
		auto theirs = control.complaint(glance);
		if (!theirs)
			throw;
		throw std::runtime_error(std::string(e.what()) +
					 "; the other side says: " + *theirs);
	}
	control.expect("connected", patience);
	result.setup = since(begin);
	if (config.operation == Operation::idle && !options.quiet)
		std::cerr << config.qps << " connected after " << result.setup << " s" << std::endl;

	Progress progress(options, config);
	Crew crew(*side);
	auto cpu = cpu_seconds(RUSAGE_SELF);
	auto start = crew.start();
	auto done = outcome(control, crew, *side, [&] {
		result.seconds = since(start);
		progress.show(result.seconds, side->done());
	});
	auto told = parse_fields(done);
	crew.rethrow();
	crew.join();
	crew.rethrow();
	control.say("bye");
	result.config = config;
	result.device = side->device();
	result.client_cpu = cpu_seconds(RUSAGE_SELF) - cpu;
	result.server_cpu = std::stod(field(told, "cpu"));
	result.messages = side->done();
	result.copied = side->copied();
	result.samples = std::move(side->samples);
	if (!config.is_request())
		for (auto &sample : result.samples)
			sample /= 2;
	std::sort(result.samples.begin(), result.samples.end());
	return result;
}

bool serve(const Options &options)
{
	auto addresses = look_up(options.bind, options.port, true);
	/* One socket of IPv6 is for both families. */
	std::stable_partition(addresses.begin(), addresses.end(), [](const Address &address) {
		return address.storage.ss_family == AF_INET6;
	});
	auto listener = listen_on(addresses);

	for (;;) {
		Fd fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
		if (!fd) {
			if (errno == EINTR || errno == ECONNABORTED)
				continue;
			verbs::fail("accept");
		}
		if (options.once)
			return serve_one(std::move(fd));
		std::thread([given = std::move(fd)]() mutable {
			serve_one(std::move(given));
		}).detach();
	}
}

} // namespace bench
