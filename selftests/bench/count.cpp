// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/*
 * A plugin for QEMU's emulator: how often each block of instructions was executed between two marks
 * (ZIW_BENCH_MARK in tools/bench/side.h), on each CPU. Each pair of marks adds a line "window
 *NUMBER" to the file out=FILE, and a line per block and CPU:
 *
 *	CPU ADDRESS TIMES SIZE...
 *
 * with the sizes of its instructions, since a block may reach from one function into the next. One
 *that an exception leaves early is counted as a whole.
 *
 * QEMU's header for plugins is not in Debian; the few functions used are declared here, for version
 *1 of the interface.
 */
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

extern "C" {

struct qemu_plugin_tb;
struct qemu_plugin_insn;
using plugin_id = uint64_t;

struct qemu_info_t {
	const char *target_name;
	struct {
		int min, cur;
	} version;
	bool system_emulation;
	union {
		struct {
			int smp_vcpus, max_vcpus;
		} system;
	};
};

/* enum qemu_plugin_cb_flags */
constexpr int no_registers = 0;

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(qemu_plugin_tb *, void (*)(unsigned, void *), int,
					  void *);
void qemu_plugin_register_vcpu_insn_exec_cb(qemu_plugin_insn *, void (*)(unsigned, void *), int,
					    void *);
std::size_t qemu_plugin_tb_n_insns(const qemu_plugin_tb *);
qemu_plugin_insn *qemu_plugin_tb_get_insn(const qemu_plugin_tb *, std::size_t);
uint64_t qemu_plugin_tb_vaddr(const qemu_plugin_tb *);
const void *qemu_plugin_insn_data(const qemu_plugin_insn *);
std::size_t qemu_plugin_insn_size(const qemu_plugin_insn *);

__attribute__((visibility("default"))) int qemu_plugin_version = 1;
__attribute__((visibility("default"))) int
qemu_plugin_install(plugin_id id, const qemu_info_t *info, int argc, char **argv);
}

namespace {

constexpr unsigned max_cpus = 8;

struct Block {
	uint64_t address;
	std::vector<uint8_t> sizes;
	uint64_t times[max_cpus] = {};
};

std::mutex mutex;
/* By address and sizes: code may be translated more than once. */
std::unordered_map<std::string, std::unique_ptr<Block>> blocks;
bool counting;
unsigned window;
std::FILE *out;

void executed(unsigned cpu, void *data)
{
	if (counting && cpu < max_cpus)
		static_cast<Block *>(data)->times[cpu]++;
}

void begin(unsigned, void *)
{
	std::lock_guard lock(mutex);

	for (auto &[key, block] : blocks)
		std::memset(block->times, 0, sizeof(block->times));
	counting = true;
}

void end(unsigned, void *)
{
	std::lock_guard lock(mutex);

	if (!counting)
		return;
	counting = false;
	std::fprintf(out, "window %u\n", ++window);
	for (auto &[key, block] : blocks)
		for (unsigned cpu = 0; cpu < max_cpus; cpu++) {
			if (!block->times[cpu])
				continue;
			std::fprintf(out, "%u %" PRIx64 " %" PRIu64, cpu, block->address,
				     block->times[cpu]);
			for (auto size : block->sizes)
				std::fprintf(out, " %u", size);
			std::fputc('\n', out);
		}
	std::fflush(out);
}

void translated(plugin_id, qemu_plugin_tb *tb)
{
	/* As ZIW_BENCH_MARK has it; the byte between is 1 or 2. */
	constexpr unsigned char before[] = {0x0f, 0x1f, 0x84, 0x00}, after[] = {0x5a, 0x49, 0x57};
	auto n = qemu_plugin_tb_n_insns(tb);
	auto block = std::make_unique<Block>();
	std::string key;

	block->address = qemu_plugin_tb_vaddr(tb);
	key.assign(reinterpret_cast<const char *>(&block->address), sizeof(block->address));
	for (std::size_t i = 0; i < n; i++) {
		auto *insn = qemu_plugin_tb_get_insn(tb, i);
		auto size = qemu_plugin_insn_size(insn);
		auto *bytes = static_cast<const unsigned char *>(qemu_plugin_insn_data(insn));

		block->sizes.push_back(static_cast<uint8_t>(size));
		key.push_back(static_cast<char>(size));
		if (size == 8 && !std::memcmp(bytes, before, sizeof(before)) &&
		    !std::memcmp(bytes + 5, after, sizeof(after)))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, bytes[4] == 1 ? begin : end,
							       no_registers, nullptr);
	}
	std::lock_guard lock(mutex);
	auto &known = blocks[key];
	if (!known)
		known = std::move(block);
	qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, no_registers, known.get());
}

} // namespace

int qemu_plugin_install(plugin_id id, const qemu_info_t *info, int argc, char **argv)
{
	if (std::strcmp(info->target_name, "x86_64"))
		return -1;
	for (int i = 0; i < argc; i++)
		if (!std::strncmp(argv[i], "out=", 4))
			out = std::fopen(argv[i] + 4, "w");
	if (!out) {
		std::fprintf(stderr, "count: out=FILE is missing, or cannot be written\n");
		return -1;
	}
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
