#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# Other people's programs in user space, over two hosts as drawn in ../lib/topology.sh. Runs on a test machine;
# prints TAP.
set -euo pipefail
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/topology.sh"
. "$(dirname "$0")/../lib/traffic.sh"

export TIME_LIMIT=60
here=$(realpath "$(dirname "$0")")
# Without rsockets-aid (see there) iperf3 spins or hangs, with siw as with ziw, and curl and Python take TCP.
preload=(env "LD_PRELOAD=/out/functional/rsockets-aid.so $(echo /usr/lib/*/rsocket/librspreload.so)")

# on_rdma COMMAND...: it succeeds, and its bytes were ziwa's.
on_rdma()
{
	sends ziwa "$@"
}

# rsockets_between SERVER-COMMAND... -- CLIENT-COMMAND...: their sockets are rsockets.
rsockets_between()
{
	local port=$1 word
	local -a commands=("${preload[@]}")

	shift
	for word; do
		commands+=("$word")
		[[ $word != -- ]] || commands+=("${preload[@]}")
	done
	on_rdma between b a "$port" "${commands[@]}"
}

rsockets_iperf3()
{
	rsockets_between 5201 iperf3 -s -1 -B 10.0.0.2 -- iperf3 -c 10.0.0.2 -t 2 "$@"
}

rsockets_web()
{
	local url=http://10.0.0.2:8000

	head -c 5M /dev/urandom > "$web/large"
	head -c 100 /dev/urandom > "$web/small"
	rsockets_between 8000 "$here/web-server" 10.0.0.2 8000 "$web" 2 -- \
		curl -sS --fail -o "$web/got-large" "$url/large" -o "$web/got-small" "$url/small"
	cmp "$web/large" "$web/got-large"
	cmp "$web/small" "$web/got-small"
}

qperf_tests()
{
	local pid try rc

	become b timeout -k 5 "$TIME_LIMIT" qperf > /dev/null 2>&1 &
	pid=$!
	listening 19765 "$pid" || return 1
	# Its client does not wait for the server to listen for the connection proper.
	for try in {1..5}; do
		rc=0
		on_rdma in_host a timeout -k 5 "$TIME_LIMIT" qperf -t 1 --use_cm 1 10.0.0.2 "$@" > "$output" 2>&1 || rc=$?
		cat "$output"
		if ((rc == 0)) || ! has 'Event rejected' < "$output"; then
			break
		fi
		echo "refused, try $try"
	done
	kill "$pid" 2> /dev/null || :
	wait "$pid" || :
	return "$rc"
}

# fio_rdma VERB SIZE DEPTH: the engine's server is a job of its own.
fio_rdma()
{
	local job=(--port=7174 --bs=64k --size="$2" --iodepth="$3" --thread)

	on_rdma between b a 7174 fio --name=s --ioengine=rdma --rw=read "${job[@]}" -- \
		fio --name=c --ioengine=rdma --hostname=10.0.0.2 --verb="$1" --rw=write "${job[@]}"
}

# Datagrams are not iWARP's: an error at once, and nothing hangs.
udaddy_refused()
{
	local rc=0

	in_host a timeout 30 udaddy -s 10.0.0.2 -c 1 -C 1 > "$output" 2>&1 || rc=$?
	cat "$output"
	has 'unable to create QP: Operation not supported' < "$output"
	# What it returns from main() is -1.
	((rc == 255)) || fail "ended with $rc"
}

pingpong()
{
	# In both namespaces both devices can be seen.
	on_rdma between b a 47592 fi_pingpong -d ziwb "$@" -- fi_pingpong -d ziwa "$@" 10.0.0.2
}

# Four ranks on one host: each two of them have connections through ziwa to itself.
open_mpi()
{
	# libfabric keeps memory registered, and does not hear that the heap was trimmed: then what lay at the same
	# address before is used. See Documentation/programs.md.
	on_rdma in_host a timeout -k 5 200 env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 FI_VERBS_IFACE=va \
		FI_MR_CACHE_MAX_COUNT=0 \
		mpirun -n 4 --oversubscribe --mca pml cm --mca mtl ofi --mca mtl_ofi_provider_include 'verbs;ofi_rxm' \
		"$(dirname "$0")/mpi-pingpong" > "$output" || { cat "$output"; return 1; }
	has '4 ranks: all as sent' < "$output"
}

# Its transports bring queue pairs up without rdma_cm, which one of iWARP's cannot do.
ucx_leaves_it()
{
	in_host a ibv_devices | has ziwa
	in_host a timeout 60 ucx_info -d > "$output" 2>&1
	has 'Transport: self' < "$output"
	! grep 'Device: *ziw' "$output" || fail "it has a transport on ziw: this needs a test that uses it"
}

output=$(mktemp) web=$(mktemp -d)
at_exit "rm -rf '$output' '$web'"
at_exit topology_down
topology_up ""

check "rsockets: iperf3" rsockets_iperf3
check "rsockets: iperf3, the other way" rsockets_iperf3 -R
check "rsockets: Python's web server, and curl" rsockets_web
for test in rc_lat rc_bw rc_rdma_read_bw rc_rdma_write_bw rc_rdma_write_lat; do
	check "qperf $test" qperf_tests "$test"
done
check "fio's rdma engine: write" fio_rdma write 32M 8
check "fio's rdma engine: read" fio_rdma read 32M 8
# This verb of fio has no flow control but InfiniBand's RNR: iWARP ends a connection that has no receive for a Send.
check "fio's rdma engine: send, no more than there are receives" fio_rdma send 1M 16
check "udaddy is refused" udaddy_refused
check "fi_pingpong, verbs, connected" pingpong -p verbs -e msg -I 20 -c
check "fi_pingpong, verbs with rxm, reliable datagrams" pingpong -p 'verbs;ofi_rxm' -e rdm -I 20 -c
check "Open MPI over libfabric, verbs with rxm: 4 ranks, each with each" open_mpi
check "UCX finds no transport on it" ucx_leaves_it
finish
