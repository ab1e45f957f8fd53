# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# Two test machines (selftests/vm/run --two): the first runs the script, the second what the first tells it. Sourced,
# after tap.sh.

library=$(realpath "$(dirname "${BASH_SOURCE[0]}")")

# on_machine_1: it returns there only. The other serves until the script has ended, and ends well.
on_machine_1()
{
	if ((ZIW_VM == 2)); then
		"$library/remote" --serve
		exit 0
	fi
	at_exit "'$library/remote' --end"
}
