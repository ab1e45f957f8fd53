#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# An independent reader of the wire: tshark must decode a good run's traffic, over two hosts as drawn in
# ../lib/topology.sh, without a malformed packet or a bad CRC. Runs on a test machine; prints TAP.
set -euo pipefail
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/topology.sh"
. "$(dirname "$0")/../lib/traffic.sh"

# capture FILE COMMAND...: what passes va while COMMAND runs.
capture()
{
	local file=$1 pid

	shift
	become a tcpdump -Z root -U -s 0 -B 32768 -i va -w "$file" tcp 2> "$scratch/tcpdump" &
	pid=$!
	until grep -q 'listening on' "$scratch/tcpdump"; do
		kill -0 "$pid"
		sleep 0.1
	done
	"$@"
	# The last packets come up the ring later.
	sleep 1
	kill "$pid"
	wait "$pid"
	cat "$scratch/tcpdump"
	grep -q '^0 packets dropped' "$scratch/tcpdump" || fail "packets are missing from the capture"
}

# decode FILE: as text. Payload of ours is no SMB and no NFS, whatever it looks like.
decode()
{
	tshark -r "$1" -V -O iwarp_mpa,iwarp_ddp_rdmap --disable-heuristic smb_direct_iwarp \
		--disable-heuristic rpcrdma_iwarp 2> /dev/null
}

run()
{
	rping_between a b 10.0.0.2 -C 10 -S 20000
	rping_between b a fd00::1 -C 10 -S 1000
	between b a 18515 ib_send_bw -F -R -d ziwb -n 12 -s 65536 -- ib_send_bw -F -R -d ziwa -n 12 -s 65536 10.0.0.2
	between b a 18515 ib_write_bw -F -R -d ziwb -n 12 -s 5000 -- ib_write_bw -F -R -d ziwa -n 12 -s 5000 10.0.0.2
	between b a 18515 ib_read_bw -F -R -d ziwb -n 12 -s 65537 -- ib_read_bw -F -R -d ziwa -n 12 -s 65537 10.0.0.2
}

# clean FILE: no mark of anything wrong, and proof that tshark did look.
clean()
{
	local text=$scratch/text good what

	decode "$1" > "$text"
	for what in 'Malformed' 'Bad CRC' 'Bad length' 'OpCode: Terminate'; do
		! grep -m 5 "$what" "$text" || fail "tshark says: $what"
	done
	for what in 'Request frame header' 'Reply frame header' 'OpCode: Write' 'OpCode: Read Request' \
		'OpCode: Read Response' 'OpCode: Send'; do
		grep -q "$what" "$text" || fail "tshark saw no '$what'"
	done
	good=$(grep -c 'Good CRC' "$text")
	echo "$good FPDUs with a good CRC"
	((good > 100)) || fail "only $good FPDUs found"
}

captured()
{
	capture "$scratch/$1.pcap" run > "$scratch/output" 2>&1 || { cat "$scratch/output"; return 1; }
	clean "$scratch/$1.pcap"
}

# What the check is worth: one flipped bit must be found.
flipped()
{
	[[ -e $scratch/1500.pcap ]] || skip "nothing captured"
	python3 - "$scratch/1500.pcap" "$scratch/flipped.pcap" << 'PYTHON'
import struct, sys
data = bytearray(open(sys.argv[1], "rb").read())
at, packets = 24, []
while at < len(data):
    size = struct.unpack_from("<I", data, at + 8)[0]
    packets.append((at + 16, size))
    at += 16 + size
start, size = max((p for p in packets if 1000 < p[1] < 30000), key=lambda p: p[1])
data[start + size - 100] ^= 1
open(sys.argv[2], "wb").write(data)
PYTHON
	(clean "$scratch/flipped.pcap") && fail "a flipped bit was not noticed"
	return 0
}

scratch=$(mktemp -d)
at_exit "rm -rf '$scratch'"
at_exit topology_down
topology_up ""
check "tshark decodes a good run, MTU 1500" captured 1500
check "tshark finds a flipped bit" flipped
topology_down ""
topology_up "" 9000
check "tshark decodes a good run, MTU 9000" captured 9000
finish
