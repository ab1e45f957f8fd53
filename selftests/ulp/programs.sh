#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# Other people's programs in user space, over two hosts as drawn in ../lib/topology.sh. Runs on a test machine;
# prints TAP.
set -euo pipefail
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/topology.sh"
. "$(dirname "$0")/../lib/traffic.sh"

export TIME_LIMIT=20
preload=(env "LD_PRELOAD=$(echo /usr/lib/*/rsocket/librspreload.so)")

# on_rdma COMMAND...: it succeeds, and its bytes were ziwa's.
on_rdma()
{
	local before after

	before=$(sent)
	"$@"
	after=$(sent)
	((after > before)) || fail "nothing was sent by ziwa"
}

sent()
{
	cat /sys/class/infiniband/ziwa/ports/1/hw_counters/tx_fpdus
}

rsockets_iperf3()
{
	on_rdma between b a 5201 "${preload[@]}" iperf3 -s -1 -B 10.0.0.2 -- \
		"${preload[@]}" iperf3 -c 10.0.0.2 -t 2 "$@"
}

rsockets_web()
{
	local directory pid rc=0

	directory=$(mktemp -d)
	head -c 3000001 /dev/urandom > "$directory/file"
	become b timeout "$TIME_LIMIT" "${preload[@]}" python3 -m http.server -b 10.0.0.2 -d "$directory" 8000 \
		> "$directory/log" 2>&1 &
	pid=$!
	listening 8000 "$pid" || rc=$?
	((rc)) || on_rdma in_host a timeout "$TIME_LIMIT" "${preload[@]}" curl -sS -o "$directory/got" \
		http://10.0.0.2:8000/file || rc=$?
	kill "$pid" 2> /dev/null || :
	wait "$pid" || :
	((rc)) || cmp "$directory/file" "$directory/got" || rc=$?
	((rc == 0)) || cat "$directory/log"
	rm -r "$directory"
	return "$rc"
}

qperf_tests()
{
	local pid rc=0

	become b timeout "$TIME_LIMIT" qperf > /dev/null 2>&1 &
	pid=$!
	listening 19765 "$pid" || return 1
	on_rdma in_host a timeout "$TIME_LIMIT" qperf -t 1 --use_cm 1 10.0.0.2 "$@" || rc=$?
	kill "$pid" 2> /dev/null || :
	wait "$pid" || :
	return "$rc"
}

# fio_rdma VERB: the engine's server is a job of its own.
fio_rdma()
{
	on_rdma between b a 7174 \
		fio --name=s --ioengine=rdma --port=7174 --rw=read --bs=64k --size=32M --iodepth=8 --thread -- \
		fio --name=c --ioengine=rdma --hostname=10.0.0.2 --port=7174 --verb="$1" --rw=write --bs=64k \
		--size=32M --iodepth=8 --thread
}

# Datagrams are not iWARP's: an error at once, and nothing hangs.
udaddy_refused()
{
	local rc=0

	in_host a timeout 10 udaddy -s 10.0.0.2 -c 1 -C 1 || rc=$?
	((rc != 0 && rc != 124 && rc < 128)) || fail "ended with $rc"
}

pingpong()
{
	command -v fi_pingpong > /dev/null || skip "no fi_pingpong here"
	on_rdma between b a 47592 fi_pingpong "$@" -- fi_pingpong "$@" 10.0.0.2
}

at_exit topology_down
topology_up ""

check "rsockets: iperf3" rsockets_iperf3
check "rsockets: iperf3, the other way" rsockets_iperf3 -R
check "rsockets: python3 -m http.server and curl, the file is the same" rsockets_web
for test in rc_lat rc_bw rc_rdma_read_bw rc_rdma_write_bw rc_rdma_write_lat; do
	check "qperf $test" qperf_tests "$test"
done
for verb in write read send; do
	check "fio's rdma engine: $verb" fio_rdma "$verb"
done
check "udaddy is refused" udaddy_refused
check "fi_pingpong, verbs, connected" pingpong -p verbs -e msg -I 100
check "fi_pingpong, verbs with rxm, reliable datagrams" pingpong -p 'verbs;ofi_rxm' -e rdm -I 100
finish
