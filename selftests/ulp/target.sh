# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# What the tests of SCSI targets share: LIO's backing store, and the disk that the client gets. Sourced, after lib.sh.

lio=/sys/kernel/config/target

# store_up: a file of 64 MiB in memory as LIO's store.
store_up()
{
	local store=$lio/core/fileio_0/disk

	mkdir -p "$store"
	truncate -s 64M /dev/shm/disk
	echo "fd_dev_name=/dev/shm/disk,fd_dev_size=$((64 * 1024 * 1024)),fd_buffered_io=1" > "$store/control"
	echo 1 > "$store/enable"
}

store_down()
{
	rmdir "$lio/core/fileio_0/disk" "$lio/core/fileio_0"
	rm -f /dev/shm/disk
}

# find_disk: sets disk to the SCSI disk that is LIO's, once it can be read.
find_disk()
{
	local try entry

	for try in {1..200}; do
		for entry in /sys/class/block/sd*; do
			[[ $(cat "$entry/device/vendor" 2> /dev/null) == LIO-ORG* ]] || continue
			[[ $(< "$entry/device/state") == running && $(< "$entry/size") != 0 ]] || continue
			disk=/dev/${entry##*/}
			return 0
		done
		sleep 0.1
	done
	echo "no disk after $try tries"
	return 1
}

disk_gone()
{
	local try

	for try in {1..100}; do
		grep -q LIO-ORG /sys/class/block/sd*/device/vendor 2> /dev/null || return 0
		sleep 0.1
	done
	echo "the disk is still there after $try tries"
	return 1
}

# A file system, and on it a file whose contents are remembered.
ext4()
{
	find_disk
	mkfs.ext4 -q "$disk"
	mount "$disk" /mnt
	on_rdma verify /mnt/fio 100 --rw=randrw --bs=4k,64k --iodepth=8 --size=8M
	head -c 8M /dev/urandom > /mnt/kept
	sha256sum < /mnt/kept > /dev/shm/kept
	umount /mnt
}

# After another login: nothing of it is cached.
ext4_again()
{
	find_disk
	mount "$disk" /mnt
	sha256sum < /mnt/kept | cmp - /dev/shm/kept
	umount /mnt
	fsck.ext4 -fn "$disk"
}

verified_io()
{
	find_disk
	on_rdma verify "$disk" 100 --rw=randrw --bs="$1" --iodepth=8 --size="$2"
}

during_io()
{
	find_disk
	while_verifying "$disk" 100 "$@"
}

soak_disk()
{
	find_disk
	soak "$1" "$disk"
}

# reset_by KIND: SG_SCSI_RESET, as sg_reset does it, for a device (1), bus (2), host (3) or target (4).
reset_by()
{
	local name=("" device bus host target) kind

	for kind in 1 2 3 4; do
		[[ ${name[$kind]} != "$1" ]] || break
	done
	python3 - "$disk" "$kind" << 'PYTHON'
import fcntl, os, struct, sys
disk = os.open(sys.argv[1], os.O_RDWR | os.O_NONBLOCK)
fcntl.ioctl(disk, 0x2284, struct.pack("i", int(sys.argv[2]) | 0x100))
PYTHON
}

# disk_tests [--short | --soak SECONDS]: with the script's login and logout; does not return from a soak.
disk_tests()
{
	local size

	check "login" login
	[[ ${1-} != --soak ]] || soak_test "" "$2" soak_disk "$2"
	[[ ${1-} == --short ]] || for size in 4k 1M; do
		check "fio, random, blocks of $size, verified" verified_io "$size" 4M
	done
	check "ext4: fio, random, verified" ext4
	check "logout" logout
	check "login again" login
	check "ext4: the file written before the logout is the same" ext4_again
}

after_each()
{
	heal_wire
	undisturbed
	jobs -p | xargs -r kill -9 2> /dev/null || :
	! mountpoint -q /mnt || umount -l /mnt
}
