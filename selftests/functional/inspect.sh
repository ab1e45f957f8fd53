#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# inspect.sh: counters, details of objects, tracepoints, and why connections ended, against traffic whose figures
# are known. Runs on a test machine; prints TAP.
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
	local qp ids

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
	ids=$(rdma -dd resource show cm_id dev ziwa)
	# Without the line breaks that rdma makes.
	ids=$(tr -s '\n\t ' ' ' <<< "$ids")
	[[ $ids == *"ziw_state STREAMING drv_initiator 1 "*"tcp_retrans 0"* ]] || fail "$ids"
	ids=$(rdma -dd resource show cm_id dev ziwb)
	ids=$(tr -s '\n\t ' ' ' <<< "$ids")
	[[ $ids == *"ziw_state STREAMING drv_initiator 0 "* ]] || fail "$ids"
	# The listen has none.
	[[ $ids == *LISTEN* && $(grep -o ziw_state <<< "$ids" | wc -l) == 1 ]] || fail "$ids"
	(($(stat_of ziwa pinned_bytes) > 0 && $(stat_of ziwa ring_bytes) > 0))
	kill %1 %2
	wait || :
}

# details KIND PATTERN: device ziwa has such an object within some seconds, and such details of it.
details()
{
	local shown _

	for _ in {1..100}; do
		shown=$(rdma -dd resource show "$1" dev ziwa | tr -s '\n\t ' ' ')
		! has -E "$2" <<< "$shown" || return 0
		sleep 0.1
	done
	fail "no '$2': $shown"
}

id_that_connects_has_details()
{
	in_host a tc qdisc add dev va root netem loss 100%
	become a timeout 40 rping -c -a 10.0.0.2 -p 9002 -C 1 > /dev/null 2>&1 &
	details cm_id "ziw_state CONNECTING .*initiator 1 .*tcp_retrans [1-9]"
	kill %1
	wait || :
}

srq_has_details()
{
	[[ $(uname -r) != 6.1.* ]] || skip "6.1 asks drivers for no details of SRQs"
	timeout 60 python3 -c "
import time
from pyverbs.device import Context
from pyverbs.pd import PD
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import SGE, RecvWR

with Context(name='ziwa') as context, PD(context) as pd:
	srq = SRQ(pd, SrqInitAttr(SrqAttr(max_wr=16, max_sge=2, srq_limit=3)))
	for _ in range(5):
		srq.post_recv(RecvWR(num_sge=1, sg=[SGE(0, 0, 0)]))
	time.sleep(60)
" &
	details srq "entries 16 drv_waiting 5 drv_limit 3 drv_max_sge 2"
	kill %1
	wait || :
}

tracing=/sys/kernel/tracing

# traced EVENT TEXT: how many of these events say TEXT, an extended regular expression.
traced()
{
	grep -cE " $1: $2" "$tracing/trace" || :
}

tracepoints_are_off_at_first()
{
	: > "$tracing/trace"
	ping_once
	[[ $(traced 'ziw_[a-z_]*' '') == 0 ]]
}

tracepoints_tell_what_happens()
{
	local sent received events event

	: > "$tracing/trace"
	sent=$(stat_of ziwa tx_fpdus) received=$(stat_of ziwa rx_fpdus)
	echo 1 > "$tracing/events/ziw/enable"
	ping_once
	echo 0 > "$tracing/events/ziw/enable"
	sent=$(($(stat_of ziwa tx_fpdus) - sent)) received=$(($(stat_of ziwa rx_fpdus) - received))
	[[ $(traced ziw_send 'ziwa qp [0-9]+ ') == "$sent" ]] || fail "$(traced ziw_send ziwa), not $sent FPDUs sent"
	[[ $(traced ziw_receive 'ziwa qp [0-9]+ ') == "$received" ]] ||
		fail "$(traced ziw_receive ziwa), not $received FPDUs received"
	# rping: each round the client sends twice, and the server reads and writes once.
	events=(
		"ziw_post=ziwa qp [0-9]+ slot [0-9]+ wr_id 0x[0-9a-f]+ SEND bytes 16 sges 1 SIGNALED"
		"ziw_post=ziwb qp [0-9]+ .* READ bytes 64 "
		"ziw_post=ziwb qp [0-9]+ .* WRITE bytes 64 "
		"ziw_send=ziwb qp [0-9]+ ReadRequest last payload 28 "
		"ziw_receive=ziwa qp [0-9]+ ReadRequest last payload 28 "
		"ziw_send=ziwa qp [0-9]+ ReadResponse last payload 64 "
		"ziw_take_recv=ziwb qp [0-9]+ wr_id 0x[0-9a-f]+ room 16 sges 1"
		"ziw_place=ziwb qp [0-9]+ stag 0x[0-9a-f]+ address 0x[0-9a-f]+ bytes 64"
		"ziw_place=ziwa qp [0-9]+ stag 0x[0-9a-f]+ address 0x[0-9a-f]+ bytes 64"
		"ziw_complete=ziwb qp [0-9]+ wr_id 0x[0-9a-f]+ READ status 0 bytes 64 vendor_err 0x0000"
		"ziw_complete=ziwa qp [0-9]+ wr_id 0x[0-9a-f]+ RECV status 0 bytes 16 vendor_err 0x0000"
		"ziw_qp_state=ziwa qp [0-9]+ [A-Z]+ to RTS"
		"ziw_qp_state=ziwb qp [0-9]+ [A-Z]+ to ERROR"
		"ziw_conn_end=ziwa qp [0-9]+ 10\\.0\\.0\\.1:[0-9]+ 10\\.0\\.0\\.2:9000: .*, code 0x0000"
	)
	for event in "${events[@]}"; do
		(($(traced "${event%%=*}" "${event#*=}") > 0)) || fail "no $event"
	done
}

terminate_is_traced()
{
	local count

	: > "$tracing/trace"
	count=$(stat_of ziwb tx_term_0x1100)
	echo 1 > "$tracing/events/ziw/ziw_terminate/enable"
	"$program" --gtest_filter=ErrorTest.WriteToUnknownStag > /dev/null
	echo 0 > "$tracing/events/ziw/ziw_terminate/enable"
	count=$(($(stat_of ziwb tx_term_0x1100) - count))
	((count > 0))
	[[ $(traced ziw_terminate 'ziwb qp [0-9]+ sent 0x1100: invalid STag') == "$count" ]] ||
		fail "not $count: $(grep ziw_ "$tracing/trace")"
	[[ $(traced ziw_terminate 'ziwa qp [0-9]+ received 0x1100: invalid STag') == "$count" ]]
	# No other event was asked for.
	[[ $(traced 'ziw_[a-z_]*' '') == $((2 * count)) ]] || fail "$(grep ziw_ "$tracing/trace")"
}

# Also of a test that failed before its end.
after_each()
{
	! in_host a tc qdisc delete dev va root || :
}

at_exit "topology_down ''"
mountpoint -q "$tracing" || mount -t tracefs tracefs "$tracing"
topology_up ''
check "counters count traffic, the same at both ends" counters_count_traffic
check "a connection that was closed is listed at both ends" closing_is_told
check "a Terminate is counted and listed by its code" terminate_is_counted_and_told
check "a connection that was refused is listed with the error" refused_connection_is_told
check "the list of ended connections is bounded" list_is_bounded
check "no tracepoint says anything that was not asked for" tracepoints_are_off_at_first
check "tracepoints tell of each FPDU, and of the way of a message" tracepoints_tell_what_happens
check "a Terminate is traced at both ends, and alone where that is what was asked for" terminate_is_traced
check "queue pairs, completion queues, regions and connected ids show details" objects_have_details
check "an id that cannot connect shows how far it is" id_that_connects_has_details
check "shared receive queues show their size, what waits, and the limit" srq_has_details
finish
