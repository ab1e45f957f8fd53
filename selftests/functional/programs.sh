#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# The programs that people use, over two hosts as drawn in ../lib/topology.sh: rdma-core's examples
# and perftest. Runs on a test machine; prints TAP.
set -euo pipefail
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/topology.sh"
. "$(dirname "$0")/../lib/traffic.sh"

# perftest PROGRAM OPTION...: b serves, a is the client; the numbers must be there.
perftest()
{
	perftest_between b a "$1" -F -R -d "${type}b" "${@:2}" -- "$1" -F -R -d "${type}a" "${@:2}" 10.0.0.2 > "$output" ||
		{ cat "$output"; return 1; }
	# On a busy machine perftest may fail to find out how fast the CPU counts: infinite is a result, too.
	grep -qE '^ *[0-9]+ +[0-9]+ +([0-9.]+|inf)' "$output" || { cat "$output"; fail "no result"; }
}

# perftest keeps receive credits of its own over iWARP. With events, a sender that has run out of them while none of
# its sends is outstanding waits for an event that does not come. That is tried again.
perftest_patiently()
{
	local try

	for try in {1..6}; do
		! TIME_LIMIT=12 perftest "$@" || return 0
	done
	return 1
}

rping_sizes()
{
	local size

	for size in 23 100 1448 4096 65535; do
		rping_between a b 10.0.0.2 -C 10 -S "$size"
	done
	rping_between b a 10.0.0.1 -C 10 -S 5000
}

rping_many_clients()
{
	local pids=() server n

	become b rping -s -P -a 10.0.0.2 -p 7180 > /dev/null 2>&1 &
	server=$!
	listening 7180 "$server"
	for n in {1..8}; do
		become a timeout 60 rping -c -a 10.0.0.2 -p 7180 -C 20 -S 3000 -V > /dev/null 2>&1 &
		pids+=($!)
	done
	for n in "${pids[@]}"; do
		wait "$n"
	done
	kill "$server"
	wait "$server" || :
}

rping_over_ipv6()
{
	rping_between a b fd00::2 -C 10 -S 5000
	rping_between b a fd00::1 -C 10 -S 5000
}

cmatose()
{
	between b a 7471 ucmatose -b 10.0.0.2 -c 10 -C 20 -S 3000 -- ucmatose -s 10.0.0.2 -c 10 -C 20 -S 3000
}

server_and_client()
{
	between b a 7471 rdma_server -s 10.0.0.2 -- rdma_client -s 10.0.0.2 | has 'rdma_client: end 0'
}

sockets()
{
	# Not asynchronously: its poll takes a peer that has hung up for an error, with data still to be read.
	between b a 7471 rstream -b 10.0.0.2 -S 65536 -C 50 -T v -- rstream -s 10.0.0.2 -S 65536 -C 50 -T v
}

copy()
{
	local file=/tmp/rcopy.$$ pid

	head -c 5000001 /dev/urandom > "$file"
	become b rcopy -p 7500 > /dev/null 2>&1 &
	pid=$!
	listening 7500 "$pid" || skip "rcopy does not listen here"
	# Both hosts have one file system.
	in_host a timeout 60 rcopy "$file" "10.0.0.2:$file.copy" -p 7500 || { kill "$pid"; return 1; }
	kill "$pid" 2> /dev/null || :
	cmp "$file" "$file.copy"
	rm -f "$file" "$file.copy"
}

devinfo()
{
	ibv_devinfo -v -d "${type}a" | has 'transport:.*iWARP'
	ibv_devinfo -v -d "${type}a" | has 'state:.*PORT_ACTIVE'
	ibv_devices | has ziwb
	rdma dev show ziwa
	rdma -d -p resource show | has ziwa
}

type=${ZIW_TYPE:-ziw}
output=$(mktemp)
at_exit "rm -f '$output'"
at_exit topology_down
topology_up ""

check "ibv_devinfo, ibv_devices, rdma" devinfo
check "rping" rping_sizes
check "rping over IPv6" rping_over_ipv6
check "rping, a server with 8 clients" rping_many_clients
check "ucmatose, 10 connections" cmatose
check "rdma_server and rdma_client" server_and_client
check "rstream" sockets
check "rcopy" copy
for program in ib_send_bw ib_write_bw ib_read_bw; do
	check "$program" perftest "$program" -n 500 -s 65536
	# perftest has no events for Writes.
	[[ $program == ib_write_bw ]] || check "$program, events" perftest_patiently "$program" -e -n 500 -s 65536
	check "$program, both ways" perftest "$program" -b -n 300 -s 65536
	check "$program, 8 queue pairs" perftest "$program" -q 8 -n 100 -s 8192
	check "$program, 1 byte" perftest "$program" -n 500 -s 1
	check "$program, 1 MiB" perftest "$program" -n 50 -s 1048576
done
for program in ib_send_lat ib_write_lat ib_read_lat; do
	check "$program" perftest "$program" -n 300 -s 2
	check "$program, 64 KiB" perftest "$program" -n 100 -s 65536
done
check "ib_send_lat, events" perftest ib_send_lat -e -n 300 -s 2
check "ib_send_lat, inline" perftest ib_send_lat -I 512 -n 300 -s 512
check "ib_send_bw, SRQ" perftest ib_send_bw --use-srq -n 300 -s 4096
check "ib_send_bw, all sizes" perftest ib_send_bw -a -n 20
finish
