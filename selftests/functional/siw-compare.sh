#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# siw-compare.sh [ITERATIONS [RUNS]]: how much faster than mainline's siw? Runs on a test machine that
# has siw (selftests/siw/build, kernel 6.12).
#
#	namespace az  ziwaz on vaz ---- veth ---- vbz with ziwbz  namespace bz
#	namespace as  siwas on vas ---- veth ---- vbs with siwbs  namespace bs
#
# "ib_send_bw -R -e -s 65536", CRC on, over the one and the other in turn; the result is the ratio of the
# medians. Fails below TARGET.
set -euo pipefail
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/topology.sh"
. "$(dirname "$0")/../lib/traffic.sh"

TARGET=${TARGET:-3}
iterations=${1:-2000}
runs=${2:-5}

# measure TYPE TAG: MiB/s on average. perftest counts receive credits of its own over iWARP, and with
# events a sender that has run out of them while none of its sends is outstanding waits for an event that
# does not come, over either driver: such a run is made anew.
measure()
{
	local try

	for try in {1..6}; do
		! measure_once "$@" || return 0
		note "$1: try $try did not end" >&3
	done
	return 1
}

measure_once()
{
	local type=$1 tag=$2 options=(-F -R -e -s 65536 -n "$iterations")

	# siw (6.12) cannot listen on a wildcard address while another of its devices is in another namespace.
	TIME_LIMIT=10 between "b$tag" "a$tag" 18515 \
		ib_send_bw "${options[@]}" -d "${type}b$tag" --bind_source_ip 10.0.0.2 -- \
		ib_send_bw "${options[@]}" -d "${type}a$tag" 10.0.0.2 > "$output" ||
		{ cat "$output" >&2; return 1; }
	awk '$1 == 65536 { print $4 }' "$output"
}

median()
{
	sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

ratio()
{
	local n ziw=() siw=()

	for ((n = 0; n < runs; n++)); do
		ziw+=("$(measure ziw z)")
		siw+=("$(measure siw s)")
		note "run $((n + 1)) of $runs: ziw ${ziw[n]} MiB/s, siw ${siw[n]} MiB/s" >&3
	done
	awk -v z="$(printf '%s\n' "${ziw[@]}" | median)" -v s="$(printf '%s\n' "${siw[@]}" | median)" \
		-v target="$TARGET" 'BEGIN {
			printf "# medians: ziw %.1f MiB/s, siw %.1f MiB/s, ratio %.2f (target %s)\n", z, s, z / s, target
			exit z / s < target
		}' >&3
}

modprobe siw 2> /dev/null || {
	echo "1..0 # SKIP no siw here: run selftests/siw/build on the host"
	exit 0
}
# siw_crc_strict and mpa_crc_required are on by default in neither: ask for CRC as ziw does.
if [[ -e /sys/module/siw/parameters/mpa_crc_required ]]; then
	echo Y > /sys/module/siw/parameters/mpa_crc_required 2> /dev/null || :
fi
output=$(mktemp)
at_exit "rm -f '$output'"
exec 3>&1
at_exit 'topology_down z'
at_exit 'topology_down s'
ZIW_TYPE=ziw topology_up z
ZIW_TYPE=siw topology_up s
check "ib_send_bw -R -e -s 65536: at least $TARGET times siw's bandwidth" ratio
finish
