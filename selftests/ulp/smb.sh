#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# smb.sh [--short]: SMB Direct, on one machine or two, as drawn in lib.sh. Debian's kernels leave it out: this takes
# the modules that smb-build has made of Debian's source for 6.12. Runs on test machines; prints TAP.
#
#	 client                      server
#	  cifs --- one queue pair --- ksmbd --- /run/export445
set -euo pipefail
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/lib.sh"

built=/out/smb

# load MODULE: with what it depends on.
load()
{
	local name

	for name in $(modinfo -F depends "$built/$1.ko" | tr , ' '); do
		modprobe "$name"
	done
	insmod "$built/$1.ko"
}

server_up()
{
	mkdir -p /run/export445 /etc/ksmbd
	mount -t tmpfs -o size=256M export /run/export445
	printf '[global]\n[share]\npath = /run/export445\nread only = no\nforce user = root\n' > /etc/ksmbd/ksmbd.conf
	ksmbd.adduser -a -p secret tester
	ksmbd.mountd
	# SMB Direct's port for iWARP; it is the kernel that listens.
	listening 5445 $$
}

server_down()
{
	ksmbd.control --shutdown
	umount -l /run/export445
	for _ in {1..50}; do
		! rmmod ksmbd || return 0
		sleep 0.1
	done
}

client_down()
{
	rmmod cifs
}

after_each()
{
	! mountpoint -q /mnt || umount -f -l /mnt
}

mount_smb()
{
	timeout 30 mount -t cifs -o "rdma,username=tester,password=secret,vers=3.1.1$1" "//$server_address/share" /mnt
	grep ' /mnt cifs' /proc/mounts | has rdma
}

verified_io()
{
	mount_smb ,cache=none
	on_rdma verify /mnt/fio 90 --rw=randrw --bs="$1" --iodepth=4 --size="$2"
	umount /mnt
}

[[ -e $built/ksmbd.ko && $(modinfo -F vermagic "$built/ksmbd.ko") == "$(uname -r) "* ]] || {
	echo "1..0 # SKIP kernel $(uname -r) is built without SMB Direct (selftests/ulp/smb-build makes it for 6.12)"
	exit 0
}
command -v ksmbd.mountd > /dev/null || {
	echo "1..0 # SKIP ksmbd-tools is not installed"
	exit 0
}
modules rdma_cm
load cifs
load ksmbd
hosts_up "$@"
at_exit client_down
at_exit 'on_server server_down'
on_server server_up
check "30 files are copied, and are the same by another mount" copy_and_compare mount_smb 30
check "fio, random, blocks of 4k, verified" verified_io 4k 1M
check "fio, random, blocks of 1M, verified" verified_io 1M 8M
finish
