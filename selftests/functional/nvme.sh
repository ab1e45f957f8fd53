#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# The verbs that only the kernel has (fast registration, Local Invalidate, Send and Read with Invalidate, the
# local DMA key, drained queues), by way of their users: an NVMe-oF target and initiator on one host, through
# one ziw device. Runs on a test machine; prints TAP.
#
#	 initial namespace
#	+----------------------------------------------+
#	|  nvme-rdma --+                  +-- nvmet-rdma --- /dev/shm/disk
#	|              +-- ziwn on vn ----+            |
#	|                  10.0.2.1                    |
#	+----------------------------------------------+
set -euo pipefail
. "$(dirname "$0")/../lib/tap.sh"

config=/sys/kernel/config/nvmet
lockdep=/proc/sys/kernel/prove_locking
nqn=ziw-test
host=nqn.2014-08.org.nvmexpress:uuid:11111111-1111-1111-1111-111111111111
disk=

target_up()
{
	local subsystem=$config/subsystems/$nqn port=$config/ports/1

	mkdir "$subsystem" "$subsystem/namespaces/1" "$port"
	echo 1 > "$subsystem/attr_allow_any_host"
	truncate -s 64M /dev/shm/disk
	echo -n /dev/shm/disk > "$subsystem/namespaces/1/device_path"
	echo 1 > "$subsystem/namespaces/1/buffered_io"
	echo 1 > "$subsystem/namespaces/1/enable"
	echo rdma > "$port/addr_trtype"
	echo ipv4 > "$port/addr_adrfam"
	echo 10.0.2.1 > "$port/addr_traddr"
	echo 4420 > "$port/addr_trsvcid"
	ln -s "$subsystem" "$port/subsystems/$nqn"
}

target_down()
{
	nvme disconnect -n "$nqn"
	# nvmet takes its configuration's lock inside rdma_cm's for an early command, and here the other way
	# round. The debug kernel would say so, once, and stop looking for more.
	[[ ! -e $lockdep ]] || echo 0 > "$lockdep"
	rm -f "$config/ports/1/subsystems/$nqn"
	[[ ! -e $lockdep ]] || echo 1 > "$lockdep"
	rmdir "$config/ports/1"
	echo 0 > "$config/subsystems/$nqn/namespaces/1/enable"
	rmdir "$config/subsystems/$nqn/namespaces/1" "$config/subsystems/$nqn"
	rmmod nvme-rdma nvmet-rdma
	rm -f /dev/shm/disk /dev/shm/there /dev/shm/back
	ip link delete vn
}

# The block device of the target, once it is there.
find_disk()
{
	local try name

	for try in {1..100}; do
		for name in /sys/class/nvme/nvme*; do
			[[ $(cat "$name/subsysnqn" 2> /dev/null) != "$nqn" ]] || disk=/dev/${name##*/}n1
		done
		[[ ! -b $disk ]] || return 0
		sleep 0.1
	done
	echo "no block device after $try tries"
	return 1
}

connect()
{
	timeout 30 nvme connect -t rdma -a 10.0.2.1 -s 4420 -n "$nqn" -i 2 --hostnqn "$host"
	find_disk
}

copy_and_compare()
{
	find_disk
	head -c 16M /dev/urandom > /dev/shm/there
	dd if=/dev/shm/there of="$disk" bs="$1" oflag=direct status=none
	dd if="$disk" of=/dev/shm/back bs="$2" count=$((16 * 1024 * 1024 / $3)) iflag=direct status=none
	cmp /dev/shm/there /dev/shm/back
}

verified_io()
{
	find_disk
	timeout 100 fio --name=v --filename="$disk" --rw=randrw --bs=4k,64k --iodepth=16 --ioengine=libaio \
		--direct=1 --size=8M --verify=crc32c --do_verify=1 --output-format=terse > /dev/null
}

reset_controller()
{
	local name

	find_disk
	name=${disk#/dev/}
	echo 1 > "/sys/class/nvme/${name%n1}/reset_controller"
	find_disk
	copy_and_compare 1M 1M $((1024 * 1024))
}

reconnect()
{
	nvme disconnect -n "$nqn"
	connect
	copy_and_compare 64k 256k $((256 * 1024))
}

modprobe ziw
mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
modprobe -a nvmet-rdma nvme-rdma || {
	echo "1..0 # SKIP this kernel has no nvmet-rdma or nvme-rdma"
	exit 0
}
at_exit target_down
ip link add vn type veth peer name vn2
ip addr add 10.0.2.1/24 dev vn
ip link set vn up
ip link set vn2 up
rdma link add ziwn type ziw netdev vn
target_up

check "connect, 2 queues" connect
check "16 MiB written in 1 MiB and read in 128 KiB blocks are the same" copy_and_compare 1M 128k $((128 * 1024))
check "16 MiB written in 4 KiB and read in 4 KiB blocks are the same" copy_and_compare 4k 4k 4096
check "fio, random, 16 deep, verified" verified_io
check "controller reset, and data after it" reset_controller
check "disconnect, connect, and data after it" reconnect
finish
