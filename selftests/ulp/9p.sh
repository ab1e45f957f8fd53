#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# 9p.sh [--short]: 9P over RDMA, on one machine or two, as drawn in lib.sh. Runs on test machines; prints TAP. Debian's
# 9P servers know TCP only: 9p-relay gives one of them RDMA.
#
#	 client                          server
#	  9p, 9pnet_rdma --- queue pair --- 9p-relay --- TCP --- diod --- /run/export9
set -euo pipefail
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/lib.sh"

here=$(realpath "$(dirname "$0")")

server_up()
{
	mkdir -p /run/export9
	mountpoint -q /run/export9 || mount -t tmpfs -o size=256M export /run/export9
	diod --foreground --no-auth --no-userdb --allsquash --squashuser root --listen 127.0.0.1:5640 \
		--export /run/export9 > /run/diod.log 2>&1 &
	echo $! > /run/diod.pid
	python3 "$here/9p-relay" "$server_address" 5641 5640 > /run/relay.log 2>&1 &
	echo $! > /run/relay.pid
	listening 5641 "$(< /run/relay.pid)" || {
		cat /run/diod.log /run/relay.log
		return 1
	}
}

relay_down()
{
	kill "$(< /run/relay.pid)"
}

server_down()
{
	relay_down || :
	kill "$(< /run/diod.pid)"
	umount -l /run/export9
}

after_each()
{
	! mountpoint -q /mnt || umount -f -l /mnt
}

mount_9p()
{
	timeout 30 mount -t 9p -o "trans=rdma,port=5641,version=9p2000.L,aname=/run/export9,uname=root,msize=131072$1" \
		"$server_address" /mnt
	grep ' /mnt 9p' /proc/mounts | has trans=rdma
}

# No direct I/O without a cache: there is none to go around.
verified_io()
{
	mount_9p ,cache=none
	on_rdma timeout 60 fio --name=v --filename=/mnt/fio --rw=randrw --bs="$1" --size="$2" --ioengine=psync \
		--thread --numjobs=1 --verify=crc32c --do_verify=1 --verify_fatal=1 --output-format=terse > /dev/null
	umount /mnt
}

# 9P has no way to go on with another connection: errors, but no hang.
server_gone()
{
	mount_9p ""
	echo text > /mnt/file
	on_server relay_down
	! timeout 30 cat /mnt/file || fail "read what nobody could send"
	timeout 30 umount /mnt
	on_server server_down
	on_server server_up
	verified_io 64k 1M
}

command -v diod > /dev/null || {
	echo "1..0 # SKIP diod is not installed"
	exit 0
}
modules 9p 9pnet_rdma
hosts_up "$@"
at_exit 'on_server server_down'
on_server server_up
check "20 files are copied, and are the same by another mount" copy_and_compare mount_9p 20
check "fio, random, blocks of 64k, verified" verified_io 64k 4M
[[ ${1-} != --short ]] || finish
check "fio, random, blocks of 4k, verified" verified_io 4k 1M
check "the server's process is killed: an error at once, unmount, and it works again" server_gone
finish
