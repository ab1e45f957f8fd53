#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# siw-compare.sh [MESSAGES [RUNS]]: how much faster than mainline's siw? Runs on a test machine that has siw and
# ziw-bench (selftests/siw/build, selftests/vm/enter -- selftests/bench/build /out/bench; kernel 6.12).
#
#	namespace az  ziwaz on vaz ---- veth ---- vbz with ziwbz  namespace bz
#	namespace as  siwas on vas ---- veth ---- vbs with siwbs  namespace bs
#
# Sends of 64 KiB, 16 under way, with events, over the one and the other in turn; the result is the ratio of the
# medians. Fails below TARGET.
set -euo pipefail
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/topology.sh"
. "$(dirname "$0")/../lib/traffic.sh"

TARGET=${TARGET:-3}
messages=${1:-2000}
runs=${2:-5}

# measure TYPE TAG: MiB/s.
measure()
{
	local tag=$2

	between "b$tag" "a$tag" 18620 "$bench" --server --once -- \
		"$bench" send -s 64K -d 16 -n "$messages" --quiet --json - 10.0.0.2 > "$output" ||
		{ echo "$1:"; cat "$output"; return 1; } >&2
	jq '.results[0].bytes_per_second / 1048576' "$output"
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
# In memory: counted time leaps ahead while the machine waits for a file.
bench=/dev/shm/ziw-bench
cp /out/bench/ziw-bench "$bench"
output=$(mktemp)
at_exit "rm -f '$output' '$bench'"
exec 3>&1
at_exit 'topology_down z'
at_exit 'topology_down s'
ZIW_TYPE=ziw topology_up z
ZIW_TYPE=siw topology_up s
check "Sends of 64 KiB: at least $TARGET times siw's bandwidth" ratio
finish
