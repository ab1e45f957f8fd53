# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# Programs that talk to each other from two namespaces; sourced, after topology.sh.
# A host "" is the namespace the script runs in.

on_host()
{
	if [[ $1 ]]; then
		in_host "$@"
	else
		"${@:2}"
	fi
}

# set_ziw PARAMETER VALUE: of each ziw device.
set_ziw()
{
	local file

	for file in /sys/class/infiniband/ziw*/ziw/"$1"; do
		echo "$2" > "$file"
	done
}

# become HOST COMMAND...: to be run with "&", so that the process is the command's own.
become()
{
	if [[ $1 ]]; then
		exec nsenter --net="/run/netns/$1" -- "${@:2}"
	fi
	exec "${@:2}"
}

# reach HOST ADDRESS: wait until it answers; also makes it a known neighbour, without which a first
# rdma_resolve_addr waits out its time.
reach()
{
	local try

	for try in {1..50}; do
		! on_host "$1" ping -q -c 1 -W 1 "$2" > /dev/null 2>&1 || return 0
		sleep 0.1
	done
	echo "$2 does not answer after $try tries" >&2
	return 1
}

# ends PID WHO: it ends within 20 s by itself.
ends()
{
	local try

	for try in {1..200}; do
		kill -0 "$1" 2> /dev/null || return 0
		sleep 0.1
	done
	echo "$2 (process $1) still runs after $((try / 10)) s" >&2
	kill -KILL "$1"
	return 1
}

# listening PORT PID: the host that process PID is on takes connections there, while the process lives. An RDMA
# id says that it listens before its socket does.
listening()
{
	local try

	for try in {1..400}; do
		[[ -z $(nsenter --net="/proc/$2/ns/net" ss -Hltn "sport = :$1" 2> /dev/null) ]] || return 0
		kill -0 "$2" 2> /dev/null || return 1
		sleep 0.05
	done
	echo "nobody listens on port $1 after $try tries" >&2
	return 1
}

# between SERVER-HOST CLIENT-HOST PORT SERVER-COMMAND... -- CLIENT-COMMAND...: run both, the client once the server
# listens; both must succeed within TIME_LIMIT (60) seconds. The client's output is shown.
between()
{
	local server_host=$1 client_host=$2 port=$3 limit=${TIME_LIMIT:-60} log rc=0 server_rc=0 pid
	local -a command=()

	shift 3
	while [[ $1 != -- ]]; do
		command+=("$1")
		shift
	done
	shift
	log=$(mktemp)
	# Some programs do not end on SIGTERM.
	become "$server_host" timeout -k 5 "$limit" "${command[@]}" > "$log" 2>&1 &
	pid=$!
	listening "$port" "$pid" || rc=$?
	if ((rc == 0)); then
		on_host "$client_host" timeout -k 5 "$limit" "$@" 2>&1 || rc=$?
		((rc == 0)) || echo "client: '$*' on host '$client_host' ended with $rc"
	fi
	if ((rc)); then
		# A moment for its last words.
		sleep 1
		! kill "$pid" 2> /dev/null || echo "the server had not ended"
	fi
	wait "$pid" || server_rc=$?
	if ((rc || server_rc)); then
		echo "server: '${command[*]}' on host '$server_host' ended with $server_rc and said:"
		tail -n 40 "$log"
		tail -n 3 /sys/class/infiniband/*/ziw/ended 2> /dev/null || :
	fi
	rm -f "$log"
	((rc == 0)) || return "$rc"
	return "$server_rc"
}

# sent DEVICE: how many FPDUs, by that ziw device.
sent()
{
	cat "/sys/class/infiniband/$1/ports/1/hw_counters/tx_fpdus"
}

# sends DEVICE COMMAND...: it succeeds, and something was sent by that ziw device.
sends()
{
	local before

	before=$(sent "$1")
	"${@:2}" || return
	(($(sent "$1") > before)) || fail "nothing was sent by $1"
}

# perftest_between SERVER-HOST CLIENT-HOST SERVER-COMMAND... -- CLIENT-COMMAND...: perftest's programs, by rdma_cm. A
# server that has exchanged the parameters listens anew for its queue pairs, and the client does not wait for that: a
# run in which it was refused says nothing of the drivers, and is repeated. Such a client then crashes, of which the
# kernel is not to tell: the exit code does, for any other reason, too.
perftest_between()
{
	local try output rc trace=/proc/sys/debug/exception-trace traced=''

	if [[ -e $trace ]]; then
		traced=$(< "$trace")
		echo 0 > "$trace"
	fi
	for try in 1 2 3 4; do
		rc=0
		output=$(between "$1" "$2" 18515 "${@:3}") || rc=$?
		if ((rc == 0)) || [[ $output != *'RDMA_CM_EVENT_REJECTED; error: -111'* ]]; then
			break
		fi
		echo "refused, try $try"
	done
	[[ ! $traced ]] || echo "$traced" > "$trace"
	echo "$output"
	return "$rc"
}

# rping_between CLIENT-HOST SERVER-HOST SERVER-ADDRESS OPTION...
rping_between()
{
	local from=$1 to=$2 address=$3

	shift 3
	between "$to" "$from" 7174 rping -s -a "$address" -V "$@" -- rping -c -a "$address" -V "$@"
}
