// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
/* mark COMMAND...: has the instruction counter (count.cpp) count while the command runs. */
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "bench/side.h"

int main(int argc, char **argv)
{
	int status = 0;

	if (argc < 2) {
		std::fprintf(stderr, "mark: no command\n");
		return 2;
	}
	ZIW_BENCH_MARK(0x01);
	pid_t child = fork();
	if (!child) {
		execvp(argv[1], argv + 1);
		std::perror(argv[1]);
		_exit(127);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0) {
		std::perror("mark");
		return 1;
	}
	ZIW_BENCH_MARK(0x02);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
