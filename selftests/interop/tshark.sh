#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# The third witness: tshark reads what two ziw devices, over the hosts drawn in ../lib/topology.sh, exchange in
# functional tests that use every message of RDMAP, and names each with its fields. Runs on a test machine; prints TAP.
set -euo pipefail
here=$(realpath "$(dirname "$0")")
. "$here/../lib/tap.sh"
. "$here/../lib/topology.sh"

program=${ZIW_FUNCTIONAL:-/out/functional/functional}
# Matching long lines takes seconds in another locale, on an emulated CPU.
export ZIW_LIB=$here/../lib LC_ALL=C

FILTER='Connect/PrivateData.WithAReject/*:WrTest.EachOperationInOneBatch:WrTest.Atomics'
FILTER+=':ImmediateTest.SolicitedEvent:CqTest.ArmedForSolicitedOnly:ErrorTest.WriteToUnknownStag'
# Of several FPDUs with markers in one segment tshark reads none: these come by themselves.
FILTER+=':Data/Sizes.Match/Read4096:Data/Sizes.Match/Write1447'
# Without the peer-to-peer model the responder's bind waits for the initiator, which does not speak first here.
INVALIDATE=':WindowTest.Type2IsInvalidatedByThePeer:WindowTest.Type2IsInvalidatedWithASolicitedEvent'

# capture NAME SETTING FILTER: the tests' traffic, as NAME.pcap and, a line per frame or FPDU, as NAME.
capture()
{
	local device pid file=$scratch/$1

	for device in ziwa ziwb; do
		[[ ! $2 ]] || echo "${2#*=}" > "/sys/class/infiniband/$device/ziw/${2%%=*}"
	done
	nsenter --net=/run/netns/a tcpdump -Z root -U -s 0 -B 32768 -i va -w "$file.pcap" tcp 2> "$file.tcpdump" &
	pid=$!
	until grep -q 'listening on' "$file.tcpdump"; do
		kill -0 "$pid"
		sleep 0.1
	done
	"$program" --gtest_filter="$3"
	# The last packets come up the ring later.
	sleep 1
	kill "$pid"
	wait "$pid"
	grep -q '^0 packets dropped' "$file.tcpdump" || fail "packets are missing from the capture"
	# Payload of ours is no SMB and no NFS, whatever it looks like.
	tshark -r "$file.pcap" -V -O iwarp_mpa,iwarp_ddp_rdmap --disable-heuristic smb_direct_iwarp \
		--disable-heuristic rpcrdma_iwarp > "$file.text" 2> /dev/null
	awk '
		function flush() { if (line) print line; line = "" }
		/^iWARP Marker/ { flush(); line = "MPA" }
		/^(Frame|Data|\[)/ { flush() }
		line { sub(/^ +/, ""); sub(/^[01. ]+= /, ""); line = line "; " $0 }' "$file.text" > "$file"
	! grep -m 5 -iE 'Malformed|Bad CRC|Bad length|not set to' "$file.text" || fail "tshark finds fault"
}

# shows NAME REGEX...: a line for each.
shows()
{
	local regex

	for regex in "${@:2}"; do
		grep -qE "$regex" "$scratch/$1" || {
			grep -E "${regex##*OpCode}" "$scratch/$1" | tail -n 5 || :
			fail "tshark shows no '$regex'"
		}
	done
}

# setup NAME REVISION MARKERS CRC
setup()
{
	local flags="Marker flag: $3; CRC flag: $4" rejects

	shows "$1" "Request frame.*$flags; Connection rejected flag: False;.*Revision: $2;" \
		"Reply frame.*$flags; Connection rejected flag: False;.*Revision: $2;"
	rejects=$(grep -cE "Reply frame.*rejected flag: True;.*Revision: $2;" "$scratch/$1" || :)
	((rejects == 6)) || fail "$rejects rejections instead of 6"
	! grep "Revision: [^$2]" "$scratch/$1" || fail "another revision than $2"
}

# queue QN MSN OPCODE: such an untagged message of one segment.
queue()
{
	echo "Tagged flag: False; Last flag: True;.*version: 1;.*Queue number: $1; Message sequence number: $2;" \
		"Message offset: 0;.*Version: 1;.*OpCode: $3"
}

messages()
{
	shows "$1" 'Tagged flag: True;.*Steering Tag: 0x0*[1-9a-f].*OpCode: Write \(0x0\)' \
		"$(queue 1 1 'Read Request \(0x1\)').*RDMA Read Message Size: (200|20000|4096) bytes; Data Source STag: 0x0*[1-9a-f]" \
		'Tagged flag: True;.*Steering Tag: 0x0*[1-9a-f].*OpCode: Read Response \(0x2\)' \
		"$(queue 0 '[0-9]+' 'Send \(0x3\)')" "$(queue 0 '[0-9]+' 'Send with SE \(0x5\)')"
}

invalidations()
{
	shows "$1" "$(queue 0 1 'Send with Invalidate \(0x4\)').*Invalidate STag: [1-9]" \
		"$(queue 0 1 'Send with SE and Invalidate \(0x6\)').*Invalidate STag: [1-9]"
}

terminate()
{
	local error='Layer: DDP \(0x1\);.*Tagged Buffer Error \(0x1\);.*Invalid STag \(0x00\)'
	local header='M bit: Set; D bit: Set; R bit: Not set;.*Terminated DDP Header: c140[0-9a-f]{24}'

	shows "$1" "$(queue 2 1 'Terminate \(0x7\)').*$error;.*$header"
}

# The test adds 2 to 40, then swaps 42 for 7.
atomics()
{
	local id

	shows "$1" "$(queue 1 1 'Atomic Request \(0xa\)').*OpCode: FetchAdd.*Add Data: 2; Add Mask: 0x0+;" \
		"$(queue 1 2 'Atomic Request \(0xa\)').*OpCode: CmpSwap.*Swap Data: 7;.*Compare Data: 42; Compare Mask: 0xf{16}"
	id=$(sed -n 's/.*FetchAdd.*Request Identifier: \([0-9]*\);.*/\1/p' "$scratch/$1")
	shows "$1" "$(queue 3 1 'Atomic Response \(0xb\)'); Original Request Identifier: $id; [A-Za-z ]*: 40"
	id=$(sed -n 's/.*CmpSwap.*Request Identifier: \([0-9]*\);.*/\1/p' "$scratch/$1")
	shows "$1" "$(queue 3 2 'Atomic Response \(0xb\)'); Original Request Identifier: $id; [A-Za-z ]*: 42"
}

# tshark 4.4 has no name for these two of RFC 7306; the DDP header it reads.
immediate()
{
	shows "$1" "$(queue 0 '[0-9]+' 'Unknown \(0x8\)')" "$(queue 0 '[0-9]+' 'Unknown \(0x9\)')"
}

# crc NAME 1|0: of every FPDU, or of none.
crc()
{
	local fpdus good

	fpdus=$(grep -c 'ULPDU length' "$scratch/$1")
	good=$(grep -c 'Good CRC32' "$scratch/$1" || :)
	echo "$fpdus FPDUs, $good with a good CRC"
	((fpdus > 40)) || fail "few FPDUs"
	((good == ($2 ? fpdus : 0)))
}

markers()
{
	local n

	n=$(grep -oE 'FPDU back pointer: [0-9]+' "$scratch/$1" | wc -l)
	((n > 40)) || fail "only $n markers"
}

# witness NAME SETTING REVISION MARKERS CRC
witness()
{
	local name=$1 what=${2:-the default}

	check "$what: traffic that tshark decodes without a fault" capture "$name" "$2" \
		"$FILTER$([[ $3 == 1 ]] || echo "$INVALIDATE")"
	check "$what: requests, replies and rejections of revision $3" setup "$name" "$3" "$4" "$5"
	check "$what: Write, Read Request, Read Response, Send, Send with SE" messages "$name"
	[[ $3 == 1 ]] || check "$what: Send with Invalidate, with SE and Invalidate" invalidations "$name"
	check "$what: Terminate and what is in it" terminate "$name"
	check "$what: Atomic Requests and Responses" atomics "$name"
	check "$what: Immediate Data, by opcode" immediate "$name"
}

modprobe ziw
scratch=$(mktemp -d)
at_exit "rm -rf '$scratch'"
at_exit topology_down ""
topology_up ""
witness rev2 "" 2 False True
check "the default: the CRC of every FPDU is good" crc rev2 1
witness nocrc crc=off 2 False False
check "crc=off: no FPDU has a CRC" crc nocrc 0
topology_down ""
topology_up ""
witness rev1 mpa_rev=1 1 False True
check "mpa_rev=1: the CRC of every FPDU is good" crc rev1 1
topology_down ""
topology_up ""
witness markers markers=1 2 True True
check "markers=1: the CRC of every FPDU is good" crc markers 1
check "markers=1: tshark finds the markers" markers markers
[[ ! -d ${KEEP-} ]] || cp "$scratch"/* "$KEEP"
finish
