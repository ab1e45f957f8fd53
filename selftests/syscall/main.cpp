// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * syscalls [--seed N] [--seconds S] [--process N]: random system calls on two ziw devices, see
 * README.md. Prints TAP.
 *
 * Processes follow each other, a few seconds each. In each of them threads make random verbs and CM
 * calls, and others connect pairs of QPs and scribble in their rings under traffic. Then the
 * process exits, or is killed, or its device is taken from under it. With --process all are of that
 * seed.
 */
#include <sys/wait.h>

#include <cinttypes>
#include <csignal>
#include <cstdlib>
#include <iostream>

#include "calls.h"
#include "known.h"

using std::chrono::milliseconds;

namespace {

/* A process that is killed has to be gone by then: the driver's longest wait is 30 s of silence. */
constexpr milliseconds longest_exit{45000};

const char *const op_names[] = {
#define OP_NAME(name) #name,
	OPERATIONS(OP_NAME)
#undef OP_NAME
};

/* --- one process --- */

void connect_and_scribble(World &world, Random random, uint16_t port)
{
	try {
		Connector connector(port);
		/* From none, for long connections, to many. */
		static const unsigned scribbles[] = {0, 5, 30, 100, 300};

		while (!world.stop) {
			End a(world.contexts[0]->device, world.targets);
			End b(world.contexts[1]->device, world.targets);

			if (a.make(random) && b.make(random) && connector.connect(a, b, random))
				use_pair(random, a, b,
					 static_cast<unsigned>(random.between(20, 400)),
					 random.pick(scribbles));
			if (random.percent(40)) {
				a.destroy(&random);
				b.destroy(&random);
			}
			connector.disconnect(random.percent(80) ? &random : nullptr);
		}
	} catch (const std::exception &) {
		/* The device or the namespace is gone. */
	}
}

[[noreturn]] void process(uint64_t seed, milliseconds duration, bool may_fork)
{
	Random random(seed);
	World world;
	std::vector<std::thread> threads;

	/* Not to be handed to whoever is started after this one has died. */
	std::signal(SIGPIPE, SIG_IGN);
	try {
		for (auto *name : {"ziwa", "ziwb", "ziwa"}) {
			auto context = std::make_unique<Context>();
			context->device = std::make_shared<Uverbs>(name);
			if (!count(Op::open_context, !context->device->get_context()))
				_exit(0);
			world.contexts.push_back(std::move(context));
		}
	} catch (const std::exception &) {
		_exit(0);
	}
	world.may_fork = may_fork;
	world.device_of_new_contexts = random.percent(50) ? "ziwa" : "ziwb";
	for (uint16_t port : {7000, 7001})
		threads.emplace_back(connect_and_scribble, std::ref(world), Random(random.bits()),
				     port);
	for (int i = 0; i < 2; i++)
		threads.emplace_back(make_verbs_calls, std::ref(world), Random(random.bits()));
	threads.emplace_back(make_cm_calls, std::ref(world), Random(random.bits()));
	std::this_thread::sleep_for(duration);
	world.forking.lock();
	/* With everything alive and in use. */
	if (random.percent(50))
		_exit(0);
	world.stop = true;
	for (auto &thread : threads)
		thread.join();
	if (random.percent(50))
		_exit(0);
	world.contexts.clear();
	_exit(0);
}

/* --- the supervisor --- */

int run(const std::string &command)
{
	int status = std::system((command + " > /dev/null 2>&1").c_str());

	return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

void hosts(const std::string &what)
{
	const char *path = std::getenv("ZIW_HOSTS");

	if (run(std::string(path ? path : "selftests/syscall/hosts") + " " + what))
		throw std::runtime_error("the hosts cannot be made anew: " + what);
}

/* What took how long, for who wonders. */
void note(const std::string &what)
{
	static const auto begin = verbs::Clock::now();
	static const bool wanted = std::getenv("ZIW_VERBOSE");
	auto now = std::chrono::duration_cast<milliseconds>(verbs::Clock::now() - begin);

	if (wanted)
		std::cout << "# " << now.count() << " ms: " << what << "\n" << std::flush;
}

void wait_for(pid_t pid)
{
	int status;

	if (!verbs::eventually(longest_exit,
			       [&] { return waitpid(pid, &status, WNOHANG) == pid; })) {
		/* The kernel log then has where it waits. */
		run("(echo w > /proc/sysrq-trigger)");
		throw std::runtime_error("a process does not end");
	}
	note("process ended");
	if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
		throw std::runtime_error("a process ended by signal " +
					 std::to_string(WTERMSIG(status)));
}

void generation(uint64_t seed)
{
	Random random(seed);
	auto duration = milliseconds(random.between(2000, 6000));
	auto when = milliseconds(random.below(static_cast<uint64_t>(duration.count())));
	auto fate = random.below(100);

	note("process of seed " + std::to_string(seed) + ", " + std::to_string(duration.count()) +
	     " ms, fate " + std::to_string(fate));
	std::fflush(nullptr);
	pid_t pid = fork();
	if (!pid)
		process(random.bits(), duration, fate < 45);
	if (pid < 0)
		verbs::fail("fork");
	if (fate < 45) {
		wait_for(pid);
		return;
	}
	std::this_thread::sleep_for(when);
	if (fate < 65) {
		count(Op::kill_process, !kill(pid, SIGKILL));
		wait_for(pid);
		return;
	}
	if (fate < 80) {
		count(Op::delete_link,
		      !run(random.percent(50) ? "rdma link delete ziwa" : "rdma link delete ziwb"));
	} else if (fate < 90) {
		count(Op::delete_interface, !run("ip -n a link delete va"));
	} else {
		/* It goes when the last of its sockets and processes has. */
		count(Op::delete_namespace, !run("ip netns delete a"));
		std::this_thread::sleep_for(milliseconds(random.below(1000)));
		kill(pid, SIGKILL);
	}
	/* What does not find its device has nothing to do. */
	std::this_thread::sleep_for(milliseconds(random.below(500)));
	if (random.percent(50))
		kill(pid, SIGKILL);
	wait_for(pid);
	if (fate >= 80)
		hosts("down");
	hosts(fate < 80 ? "links" : "up");
	note("made anew");
}

std::string prove_device()
{
	Random random(1);
	Targets targets;
	auto open = [](const char *name) {
		auto device = std::make_shared<Uverbs>(name);
		verbs::check(device->get_context(), std::string("context of ") + name);
		return device;
	};
	End a(open("ziwa"), targets), b(open("ziwb"), targets);
	Connector connector(7100);

	if (!a.make(random) || !b.make(random))
		return "the objects cannot be made";
	if (!connector.connect(a, b, random))
		return "no connection";
	auto wrong = prove_pair(a, b);
	connector.disconnect(nullptr);
	return wrong;
}

/* Kinds of calls without which nothing was tested, and how many of a thousand have to succeed. */
const struct {
	Op op;
	unsigned permille;
} expected[] = {
	{Op::open_context, 500}, {Op::create_pd, 500},    {Op::create_cq, 500},
	{Op::create_srq, 400},   {Op::create_qp, 400},    {Op::reg_mr, 400},
	{Op::map_ring, 500},     {Op::modify_qp, 200},    {Op::doorbell, 400},
	{Op::destroy_qp, 300},   {Op::connect_pair, 300}, {Op::pair_completion, 30},
	{Op::cm_call, 150},
};

std::string too_few()
{
	for (auto &e : expected) {
		auto i = static_cast<unsigned>(e.op);
		uint64_t tried = counts->tried[i], ok = counts->succeeded[i];
		if (!tried || ok * 1000 < tried * e.permille)
			return std::string(op_names[i]) + " succeeded " + std::to_string(ok) +
			       " times of " + std::to_string(tried);
	}
	return "";
}

unsigned number;
bool failed;

void report(const std::string &name, const std::string &wrong)
{
	std::cout << (wrong.empty() ? "ok " : "not ok ") << ++number << " - " << name << "\n";
	if (!wrong.empty())
		std::cout << "# " << wrong << "\n";
	std::cout << std::flush;
	failed |= !wrong.empty();
}

template <class Function> std::string said(Function &&function)
{
	try {
		return function();
	} catch (const std::exception &e) {
		return e.what();
	}
}

} // namespace

const char *op_name(unsigned op)
{
	return op_names[op];
}

void print_counts()
{
	for (unsigned i = 0; i < number_of_ops; i++)
		if (counts->tried[i])
			std::printf("# %-18s %9" PRIu64 " of %9" PRIu64 " succeeded\n", op_names[i],
				    counts->succeeded[i].load(), counts->tried[i].load());
	std::fflush(stdout);
}

int main(int argc, char **argv)
{
	uint64_t seed = std::random_device()(), only = 0;
	long seconds = 60;

	for (int i = 1; i + 1 < argc; i += 2) {
		std::string option = argv[i];
		if (option == "--seed")
			seed = std::stoull(argv[i + 1], nullptr, 0);
		else if (option == "--process")
			only = std::stoull(argv[i + 1], nullptr, 0);
		else if (option == "--seconds")
			seconds = std::stol(argv[i + 1]);
	}
	counts = new (mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Counts;

	std::cout << "1..5\n# seed " << seed << "\n" << std::flush;
	report("an inline request that claims 255 SGEs is sent", said(inline_with_sges));
	report("of two connects of one queue pair one succeeds", said(two_connects));

	Random random(seed);
	auto end = verbs::Clock::now() + std::chrono::seconds(seconds);
	report("random system calls: every process ends", said([&] {
		       uint64_t of_generation = 0;
		       try {
			       while (verbs::Clock::now() < end)
				       generation(of_generation = only ? only : random.bits());
		       } catch (const std::exception &e) {
			       return std::string(e.what()) + ", in the process of seed " +
				      std::to_string(of_generation);
		       }
		       return std::string();
	       }));
	print_counts();
	report("random system calls: most of what should succeed does", too_few());
	report("after it a fresh pair of queue pairs moves data", said(prove_device));
	return failed;
}
