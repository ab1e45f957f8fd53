#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# siw.sh ziw,siw|siw,ziw [NAME=VALUE...]: ziw and mainline's siw (selftests/siw/build, kernel 6.12) talk to
# each other: host a, which connects, has the first, host b the other; parameters of the ziw are set first.
# Every operation that siw has, by the functional tests, then rping and perftest. Runs on a test machine;
# prints TAP.
set -euo pipefail
here=$(realpath "$(dirname "$0")")
. "$here/../lib/tap.sh"
. "$here/../lib/topology.sh"
. "$here/../lib/traffic.sh"

types=$1
shift
program=${ZIW_FUNCTIONAL:-/out/functional/functional}
export ZIW_LIB=$here/../lib ZIW_TYPE_A=${types%,*} ZIW_TYPE_B=${types#*,}
export ZIW_A=a:va:${ZIW_TYPE_A}a ZIW_B=b:vb:${ZIW_TYPE_B}b
dev_a=${ZIW_TYPE_A}a dev_b=${ZIW_TYPE_B}b

# Functional tests of what both have, and what they show.
FUNCTIONAL=(
	"Connect/FamilyTest.*|connections by IPv4 and IPv6"
	"ConnectTest.ManyInARow|many connections in a row"
	"Data/Sizes.Match/Send?*:Data/Sizes.Match/Write?*:Data/Sizes.Match/Read?*:-*Inline*:*16777219|Send, Write and Read of sizes to 1 MiB"
	"DataTest.FenceAfterRead|a fence behind a Read"
)

functional()
{
	"$program" --gtest_filter="$1"
}

# perftest TOOL OPTION...: from a to b.
perftest()
{
	TIME_LIMIT=30 perftest_between b a "$1" -F -R -n 20 "${@:2}" -d "$dev_b" --bind_source_ip 10.0.0.2 -- \
		"$1" -F -R -n 20 "${@:2}" -d "$dev_a" 10.0.0.2
}

ping_pong()
{
	rping_between a b 10.0.0.2 -C 10
}

modprobe -a siw ziw
at_exit "topology_down ''"
topology_up ''
for setting in "$@"; do
	for device in "$dev_a" "$dev_b"; do
		[[ ! -d /sys/class/infiniband/$device/ziw ]] ||
			echo "${setting#*=}" > "/sys/class/infiniband/$device/ziw/${setting%%=*}"
	done
done

for entry in "${FUNCTIONAL[@]}"; do
	check "$types $*: ${entry#*|}" functional "${entry%|*}"
done
check "$types $*: rping" ping_pong
check "$types $*: ib_send_bw" perftest ib_send_bw -s 65536
check "$types $*: ib_write_bw" perftest ib_write_bw -s 65536
check "$types $*: ib_read_bw" perftest ib_read_bw -s 65536
check "$types $*: ib_send_lat" perftest ib_send_lat -s 64 -I 0
# Its server speaks first. siw asks for the client-server model, in which a responder may not (RFC 5044, 7.1.2).
[[ $types == siw,* ]] || check "$types $*: ib_write_lat" perftest ib_write_lat -s 64 -I 0
check "$types $*: ib_read_lat" perftest ib_read_lat -s 64
finish
