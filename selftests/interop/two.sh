#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# two.sh [TYPEa,TYPEb...]: ziw on one machine and mainline's siw on the other (selftests/siw/build, kernel 6.12; see
# ../lib/two.sh), in both directions: rping, perftest, and NVMe-oF, with CRC and without. Host a connects. Prints TAP.
set -euo pipefail
here=$(realpath "$(dirname "$0")")
. "$here/../lib/tap.sh"
. "$here/../lib/traffic.sh"
. "$here/../lib/two.sh"
. "$here/../lib/nvmet.sh"

nqn=ziw-interop
output=$(mktemp)

# device_up TYPE CRC: siw does not survive a peer-to-peer request.
device_up()
{
	local sysfs=/sys/class/infiniband/${1}0/ziw

	modprobe "$1"
	rdma link add "${1}0" type "$1" netdev eth0
	[[ -d $sysfs ]] || return 0
	echo none > "$sysfs/rtr"
	echo "$2" > "$sysfs/crc"
}

device_down()
{
	rdma link delete "${1}0"
}

# A siw that accepts does not look at what comes before it has answered in full (Documentation/interop.md), so this
# wire has a length.
wire_up()
{
	tc qdisc replace dev eth0 root netem delay 5ms limit 10000
}

target_up()
{
	modprobe nvmet-rdma
	truncate -s 64M /dev/shm/disk
	nvmet_up "$nqn" rdma 10.9.0.2 /dev/shm/disk
}

target_down()
{
	nvmet_down "$nqn"
	rm -f /dev/shm/disk
	modprobe -r nvmet-rdma
}

case ${1-} in
device_up | device_down | wire_up | target_up | target_down)
	"$@"
	exit
	;;
esac

on_b()
{
	in_host b /ziw/selftests/interop/two.sh "$@"
}

# perftest TOOL OPTION...
perftest()
{
	TIME_LIMIT=40 perftest_between b a "$1" -F -R -n 20 "${@:2}" -d "${types#*,}0" --bind_source_ip 10.9.0.2 -- \
		"$1" -F -R -n 20 "${@:2}" -d "${types%,*}0" 10.9.0.2
}

# verified_io BLOCK-SIZE SIZE: all of it is written and read back.
verified_io()
{
	timeout 60 fio --name=v --filename="$disk" --rw=randwrite --bs="$1" --iodepth=8 --ioengine=libaio --direct=1 \
		--size="$2" --verify=crc32c --verify_fatal=1 --verify_state_save=0 > "$output" ||
		{ cat "$output"; return 1; }
	has '^ *READ:' < "$output" || fail "nothing was read back"
}

# The admin queue, and an I/O queue with data in the capsule, by RDMA Write and by RDMA Read.
nvme_of()
{
	local disk='' controller=''

	on_b target_up
	timeout 40 nvme connect -t rdma -a 10.9.0.2 -s 4420 -n "$nqn" -i 1
	nvme_disk "$nqn"
	(($(rdma resource show qp link "${types%,*}0" | grep -c 'type RC') == 2)) || fail "not two queue pairs"
	verified_io 64k 4M
	verified_io 4k 1M
	timeout 30 nvme disconnect -n "$nqn"
	[[ -z $(rdma resource show qp link "${types%,*}0" | grep 'type RC' || :) ]] || fail "queue pairs are left"
	on_b target_down
}

both_down()
{
	nvme disconnect -n "$nqn" || :
	on_b target_down || :
	device_down "${types%,*}" || :
	on_b device_down "${types#*,}" || :
}

modprobe siw 2> /dev/null || {
	echo "1..0 # SKIP no siw here: run selftests/siw/build on the host"
	exit 0
}
on_two_machines
pairs=("$@")
((${#pairs[@]})) || pairs=("ziw,siw" "siw,ziw")
modprobe nvme-rdma
wire_up
on_b wire_up
at_exit "both_down; rm -f '$output'; modprobe -r nvme-rdma"
for crc in required off; do
	for types in "${pairs[@]}"; do
		device_up "${types%,*}" "$crc"
		on_b device_up "${types#*,}" "$crc"
		name="$types, crc=$crc"
		check "$name: rping" rping_between a b 10.9.0.2 -C 10
		tools=(ib_send_bw ib_write_bw ib_read_bw)
		[[ $crc == required ]] || tools=(ib_read_bw)
		for tool in "${tools[@]}"; do
			check "$name: $tool" perftest "$tool" -s 65536
		done
		check "$name: NVMe-oF, 64 KiB and 4 KiB, verified" nvme_of
		device_down "${types%,*}"
		on_b device_down "${types#*,}"
	done
done
finish
