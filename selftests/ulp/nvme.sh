#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# nvme.sh [--short | --soak SECONDS]: NVMe-oF, on one machine or two, as drawn in lib.sh. It is also the test of the
# verbs that only the kernel has (fast registration, Local Invalidate, Send and Read with Invalidate, the local DMA
# key, drained queues). Runs on test machines; prints TAP.
#
#	 client                              server
#	  nvme-rdma --- 1 + 4 queue pairs --- nvmet-rdma --- file | brd | null_blk
set -euo pipefail
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/../lib/nvmet.sh"

nqn=ziw-test
host=nqn.2014-08.org.nvmexpress:uuid:11111111-1111-1111-1111-111111111111
disk='' controller=''

# backing KIND: prints what the namespace is made of, and makes it.
backing()
{
	case $1 in
	file)
		truncate -s 64M /dev/shm/disk
		echo /dev/shm/disk
		;;
	brd)
		[[ -e /dev/ram0 ]] || modprobe -q brd rd_nr=1 rd_size=65536 || return "$SKIP"
		echo /dev/ram0
		;;
	null_blk)
		[[ -e /dev/nullb0 ]] || modprobe -q null_blk nr_devices=1 memory_backed=1 gb=1 || return "$SKIP"
		echo /dev/nullb0
		;;
	esac
}

# target_up KIND INLINE: a namespace of that kind, on a port that takes so many bytes in a capsule.
target_up()
{
	local path

	path=$(backing "$1")
	nvmet_up "$nqn" rdma "$server_address" "$path" "$2"
}

server_down()
{
	nvmet_down "$nqn"
	rmmod nvmet-rdma
	modprobe -r null_blk
	modprobe -r brd
	rm -f /dev/shm/disk
}

client_down()
{
	nvme disconnect -n "$nqn"
	modprobe -r nvme-rdma
	rm -f /dev/shm/there /dev/shm/back
}

after_each()
{
	heal_wire
	jobs -p | xargs -r kill -9 2> /dev/null || :
}

# Queues for writing are counted apart, and of no kind are there more than CPUs.
connect()
{
	local queues

	queues=$(($(nproc) < 2 ? 1 : 2))
	timeout 30 nvme connect -t rdma -a "$server_address" -s 4420 -n "$nqn" -i 2 -W 2 --hostnqn "$host" \
		--keep-alive-tmo=5 --reconnect-delay=1 --ctrl-loss-tmo=120
	nvme_disk "$nqn"
	queues=$((2 * queues + 1))
	[[ $(< "$controller/queue_count") == "$queues" ]] || fail "$(< "$controller/queue_count") queues, not $queues"
}

# target KIND INLINE: in place of the one before.
target()
{
	nvme disconnect -n "$nqn" || :
	on_server nvmet_down "$nqn"
	on_server target_up "$@" || skip "the server's kernel has no $1"
	on_rdma connect
}

discover()
{
	timeout 30 nvme discover -t rdma -a "$server_address" -s 4420 --hostnqn "$host" > "/dev/shm/found"
	cat /dev/shm/found
	has "subnqn: *$nqn\$" < /dev/shm/found
	has "traddr: *$server_address\$" < /dev/shm/found
	rm /dev/shm/found
}

copy_and_compare()
{
	nvme_disk "$nqn"
	head -c 16M /dev/urandom > /dev/shm/there
	dd if=/dev/shm/there of="$disk" bs="$1" oflag=direct status=none
	dd if="$disk" of=/dev/shm/back bs="$2" count=$((16 * 1024 * 1024 / $3)) iflag=direct status=none
	cmp /dev/shm/there /dev/shm/back
}

verified_io()
{
	nvme_disk "$nqn"
	on_rdma verify "$disk" 100 --rw=randrw --bs=4k,64k --iodepth=16 --size=8M
}

verified_on()
{
	target "$@"
	verified_io
}

# Writes of one block at a time: a capsule with its data is one message, without it is fetched by a Read.
in_capsule()
{
	local before after inline

	for inline in 16384 0; do
		target file "$inline"
		before=$(sent "$client_device")
		dd if=/dev/zero of="$disk" bs=4k count=200 oflag=direct status=none
		after=$(sent "$client_device")
		echo "$inline bytes in a capsule: $((after - before)) FPDUs"
		if ((inline)); then
			with=$((after - before))
		else
			without=$((after - before))
		fi
		copy_and_compare 4k 128k $((128 * 1024))
	done
	((without >= with + 150)) || fail "no more FPDUs of the client without data in capsules"
}

during_io()
{
	nvme_disk "$nqn"
	while_verifying "$disk" 100 "$@"
	nvme_disk "$nqn"
	copy_and_compare 1M 1M $((1024 * 1024))
}

reset_controller()
{
	echo 1 > "$controller/reset_controller"
}

# The target drops the controller, and takes a new one a second later.
lose_and_reconnect()
{
	on_server nvmet_unlink "$nqn"
	sleep 1
	on_server nvmet_link "$nqn"
}

reconnect()
{
	nvme disconnect -n "$nqn"
	connect
	copy_and_compare 64k 256k $((256 * 1024))
}

soak_disk()
{
	connect
	soak "$1" "$disk"
}

modules nvmet-rdma nvme-rdma
hosts_up "$@"
at_exit 'on_server server_down'
at_exit client_down
on_server target_up file 16384

[[ ${1-} != --soak ]] || soak_test "" "$2" soak_disk "$2"
check "discover" discover
check "connect, 4 queues" connect
check "16 MiB written in 1 MiB and read in 128 KiB blocks are the same" copy_and_compare 1M 128k $((128 * 1024))
check "16 MiB written in 4 KiB and read in 4 KiB blocks are the same" copy_and_compare 4k 4k 4096
check "fio, random, 16 deep, verified" verified_io
check "the controller is reset during I/O, and its data verifies" during_io reset_controller
check "disconnect, connect, and data after it" reconnect
[[ ${1-} != --short ]] || finish
check "data in capsules, and not" in_capsule
check "a ram disk, nothing in capsules: fio, verified" verified_on brd 0
check "null_blk, 16 KiB in capsules: fio, verified" verified_on null_blk 16384
check "the target drops the controller during I/O, it reconnects, and its data verifies" during_io lose_and_reconnect
check "the wire is cut for 10 s during I/O, and its data verifies" during_io cut_and_heal 10
finish
