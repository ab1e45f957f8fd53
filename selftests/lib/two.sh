# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# Host a is this test machine, host b the other (selftests/vm/run --two); sourced after traffic.sh, which then works
# between them.
#
#	 machine 1, host a                    machine 2, host b
#	+-----------------------+            +-----------------------+
#	|  eth0  10.9.0.1/24    |--Ethernet--|  eth0  10.9.0.2/24    |
#	+-----------------------+            +-----------------------+
#
# A script begins with "on_two_machines": it returns on machine 1 only. Machine 2 does what it is told until the
# script on machine 1 has ended, and ends well.

. "$(dirname "${BASH_SOURCE[0]}")/machines.sh"

on_two_machines()
{
	[[ -e /run/ziw-host/.up$((3 - ZIW_VM)) ]] || {
		echo "1..0 # SKIP needs two machines: selftests/vm/run --two"
		exit 0
	}
	on_machine_1
	reach a 10.9.0.2
}

in_host()
{
	if [[ $1 == b ]]; then
		"$library/remote" "${@:2}"
	else
		"${@:2}"
	fi
}

become()
{
	if [[ $1 == b ]]; then
		exec "$library/remote" "${@:2}"
	fi
	exec "${@:2}"
}

# listening PORT PID: on host b.
listening()
{
	local try

	for try in {1..100}; do
		[[ -z $(in_host b ss -Hltn "sport = :$1") ]] || return 0
		kill -0 "$2" 2> /dev/null || return 1
	done
	echo "nobody listens on port $1 of host b after $try tries" >&2
	return 1
}
