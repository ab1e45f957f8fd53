#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# inspect.sh: counters, details of objects, and why connections ended, against traffic whose figures are
# known. Runs on a test machine; prints TAP.
set -euo pipefail
here=$(realpath "$(dirname "$0")")
. "$here/../lib/tap.sh"
. "$here/../lib/topology.sh"
. "$here/../lib/traffic.sh"

program=${ZIW_FUNCTIONAL:-/out/functional/functional}
export ZIW_TYPE=ziw ZIW_LIB=$here/../lib

# stat DEVICE NAME
stat_of()
{
	rdma -j statistic show link "$1/1" | jq -e ".[0].$2"
}

# ended DEVICE: the last line
last_end()
{
	tail -n 1 "/sys/class/infiniband/$1/ziw/ended"
}

ping_once()
{
	become b timeout 20 rping -s -a 10.0.0.2 -p 9000 -C 3 > /dev/null &
	listening 9000 $!
	in_host a timeout 20 rping -c -a 10.0.0.2 -p 9000 -C 3 > /dev/null
	wait
}

counters_count_traffic()
{
	local before after

	before=$(stat_of ziwa tx_fpdus)
	ping_once
	after=$(stat_of ziwa tx_fpdus)
	((after > before))
	[[ $(stat_of ziwa connects) == 1 && $(stat_of ziwb accepts) == 1 ]]
	# What one side sent the other has, of FPDUs and of bytes.
	[[ $(stat_of ziwa tx_fpdus) == "$(stat_of ziwb rx_fpdus)" ]]
	[[ $(stat_of ziwb tx_bytes) == "$(stat_of ziwa rx_bytes)" ]]
	[[ $(stat_of ziwa tx_bytes) == "$(stat_of ziwa tx_copied_bytes)" ]]
	(($(stat_of ziwa tcp_out_segs) > 0 && $(stat_of ziwa rx_crc_errors) == 0))
	[[ $(stat_of ziwa connections) == 0 && $(stat_of ziwa ring_bytes) == 0 ]]
	[[ $(stat_of ziwa pinned_bytes) == 0 ]]
}

closing_is_told()
{
	[[ $(last_end ziwa) == *" 10.0.0.1:"*" to 10.0.0.2:9000: "* ]]
	[[ $(last_end ziwb) == *" 10.0.0.2:9000 from 10.0.0.1:"* ]]
	grep -q "closed by the peer\|closed on this side\|queue pair destroyed" /sys/class/infiniband/ziwa/ziw/ended
}

terminate_is_counted_and_told()
{
	"$program" --gtest_filter=ErrorTest.WriteWithUnknownStag:ErrorTest.WriteWithWrongKey:ErrorTest.Write* > /dev/null
	(($(stat_of ziwb tx_term_0x1100) >= 1))
	(($(stat_of ziwa rx_term_0x1100) == $(stat_of ziwb tx_term_0x1100)))
	grep -q "Terminate sent 0x1100: invalid STag" /sys/class/infiniband/ziwb/ziw/ended
	grep -q "Terminate received 0x1100: invalid STag" /sys/class/infiniband/ziwa/ziw/ended
}

refused_connection_is_told()
{
	in_host a timeout 20 rping -c -a 10.0.0.2 -p 9999 -C 1 > /dev/null 2>&1 || :
	[[ $(last_end ziwa) == *"setup failed: error 111" ]] || fail "$(last_end ziwa)"
}

list_is_bounded()
{
	local _

	for _ in {1..30}; do
		in_host a timeout 20 rping -c -a 10.0.0.2 -p 9999 -C 1 > /dev/null 2>&1 || :
	done
	(($(wc -l < /sys/class/infiniband/ziwa/ziw/ended) == 24))
}

objects_have_details()
{
	local qp

	become b timeout 30 rping -s -a 10.0.0.2 -p 9001 -C 100000 > /dev/null &
	listening 9001 $!
	in_host a timeout 30 rping -c -a 10.0.0.2 -p 9001 -C 100000 > /dev/null &
	for _ in {1..100}; do
		(($(stat_of ziwa connections) == 1)) && break
		sleep 0.1
	done
	sleep 0.5
	qp=$(rdma -dd resource show qp link ziwa/1)
	echo "$qp"
	grep -q "ziw_state RTS" <<< "$qp"
	grep -q "initiator 1" <<< "$qp"
	grep -q "crc 1" <<< "$qp"
	rdma -dd resource show cq dev ziwa | has overflowed
	rdma -dd resource show mr dev ziwa | has "type user"
	(($(stat_of ziwa pinned_bytes) > 0 && $(stat_of ziwa ring_bytes) > 0))
	kill %1 %2
	wait || :
}

at_exit "topology_down ''"
topology_up ''
check "counters count traffic, the same at both ends" counters_count_traffic
check "a connection that was closed is listed at both ends" closing_is_told
check "a Terminate is counted and listed by its code" terminate_is_counted_and_told
check "a connection that was refused is listed with the error" refused_connection_is_told
check "the list of ended connections is bounded" list_is_bounded
check "queue pairs, completion queues and regions show details" objects_have_details
finish
