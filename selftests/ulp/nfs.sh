#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# nfs.sh [--short | --soak SECONDS]: NFS over RDMA, on one machine or two, as drawn in lib.sh. Runs on test machines;
# prints TAP.
set -euo pipefail
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/lib.sh"

nfsd=/proc/fs/nfsd

server_start()
{
	# A restarted server waits that long for clients to claim what they had, unless all have, before it serves
	# anything new.
	echo 10 > "$nfsd/nfsv4leasetime"
	echo 10 > "$nfsd/nfsv4gracetime"
	rpc.nfsd --rdma=20049 8
}

# When svcrdma stops it frees nothing of its listener's queue: a connection that was not accepted yet stays for ever, and
# its device can be deleted no more. A client that hears of the server's end connects anew at once, so it cannot until
# the listener is gone.
server_stop()
{
	local interface=${wire[-1]} rc=0

	tc qdisc replace dev "$interface" clsact
	tc filter add dev "$interface" ingress protocol ip flower ip_proto tcp dst_port 20049 tcp_flags 0x02/0x12 action drop
	rpc.nfsd 0 || rc=$?
	tc qdisc delete dev "$interface" clsact
	((rc == 0)) || fail "rpc.nfsd 0 ended with $rc"
	# Those that were accepted take a moment.
	for _ in {1..50}; do
		rdma resource show cm_id | has 'state CONNECT .*src-addr [^ ]*:20049' || return 0
		sleep 0.1
	done
	rdma resource show cm_id
	fail "the server has connections left"
}

server_up()
{
	mkdir -p /run/export /var/lib/nfs/nfsdcld
	mount -t tmpfs -o size=512M export /run/export
	mountpoint -q "$nfsd" || mount -t nfsd nfsd "$nfsd"
	echo '/run/export *(rw,async,no_root_squash,insecure,no_subtree_check,sec=sys,fsid=0)' > /etc/exports
	rpcbind -w
	# It remembers the clients.
	nfsdcld
	rpc.mountd --no-udp
	exportfs -ra
	server_start
}

server_down()
{
	rpc.nfsd 0
	exportfs -ua
	killall rpc.mountd nfsdcld rpcbind
	umount /run/export
}

# Also after a test that failed half way: with a mount left, ziw would stay.
after_each()
{
	local pids

	heal_wire
	pids=$(jobs -p)
	# shellcheck disable=SC2086 # a list
	[[ ! $pids ]] || kill -9 $pids 2> /dev/null || :
	! mountpoint -q /mnt || umount -f /mnt 2> /dev/null || umount -l /mnt
}

# nfs_mount VERSION [OPTION]: and it is RDMA that carries it.
nfs_mount()
{
	local path=/

	[[ $1 != 3 ]] || path=/run/export
	timeout 30 mount -t nfs -o "rdma,port=20049,vers=$1,nolock,sec=sys,rsize=1048576,wsize=1048576${2:+,$2}" \
		"$server_address:$path" /mnt
	grep ' /mnt nfs' /proc/mounts
	grep ' /mnt nfs' /proc/mounts | has "vers=$1,.*proto=rdma.*sec=sys"
}

verified_io()
{
	nfs_mount "$1"
	on_rdma verify /mnt/fio 60 --rw=randrw --bs="$2" --iodepth=4 --size="$3"
	umount /mnt
}

# Part of the kernel's tree, made once.
tree_made()
{
	local -a headers

	[[ ! -e /dev/shm/tree.tar ]] || return 0
	headers=(/usr/src/linux-headers-*-common)
	mkdir /dev/shm/tree
	tar -C "${headers[0]}" -c include/{net/netfilter,rdma,scsi,crypto,acpi} | tar -C /dev/shm/tree -x
	ln -s include/rdma /dev/shm/tree/link
	ln /dev/shm/tree/include/rdma/ib_verbs.h /dev/shm/tree/hard
	: > /dev/shm/tree/empty
	(($(find /dev/shm/tree -type f | wc -l) > 200))
	tar -C /dev/shm -cf /dev/shm/tree.tar tree
}

# Read back by a mount that has nothing in its cache.
untar_and_compare()
{
	tree_made
	nfs_mount "$1"
	timeout 60 tar -C /mnt -xf /dev/shm/tree.tar
	umount /mnt
	nfs_mount "$1"
	timeout 60 diff -r /dev/shm/tree /mnt/tree
	[[ $(stat -c %h /mnt/tree/hard) == 2 && $(readlink /mnt/tree/link) == include/rdma ]]
	timeout 60 rm -r /mnt/tree
	umount /mnt
}

restart_server()
{
	on_server server_stop
	sleep 0.5
	on_server server_start
}

# during_io VERSION COMMAND...
during_io()
{
	nfs_mount "$1"
	while_verifying /mnt/during 120 "${@:2}"
	umount /mnt
}

# rewritten SECONDS: a program of the server's writes to the file.
rewritten()
{
	local end=$((SECONDS + $1)) n=0

	head -c 2M /dev/zero > /run/0
	tr '\0' x < /run/0 > /run/1
	while ((SECONDS < end)); do
		dd if="/run/$((n = !n))" of=/run/export/changing bs=1M conv=notrunc status=none
	done
	rm /run/[01]
}

# The server sends a file's pages, which others may write to meanwhile: checksums hold all the same.
read_while_written()
{
	local errors=/sys/class/infiniband/$client_device/ports/1/hw_counters/rx_crc_errors before pid reads=0

	nfs_mount 4.2
	head -c 2M /dev/zero > /mnt/changing
	sync /mnt/changing
	before=$(< "$errors")
	on_server rewritten 3 &
	pid=$!
	while kill -0 "$pid" 2> /dev/null; do
		timeout 30 dd if=/mnt/changing of=/dev/null bs=1M iflag=direct status=none
		reads=$((reads + 1))
	done
	wait "$pid"
	note "read $reads times"
	(($(< "$errors") == before)) || fail "$(($(< "$errors") - before)) CRC errors"
	rm /mnt/changing
	umount /mnt
}

# unmount_under_load OPTION: what becomes of the I/O is not said; that it ends, and that the next mount works, is.
unmount_under_load()
{
	local pid

	nfs_mount 4.2 soft,timeo=20,retrans=1
	timeout -k 1 20 fio --name=u --filename=/mnt/load --rw=randrw --bs=64k --iodepth=4 --ioengine=libaio --direct=1 \
		--size=16M --time_based --runtime=3 --thread --output-format=terse > /dev/null &
	pid=$!
	sleep 1
	kill -0 "$pid" || fail "no load"
	umount "$1" /mnt || note "umount $1: refused, as the mount is in use"
	wait "$pid" || note "fio ended with an error"
	! mountpoint -q /mnt || umount /mnt
	verified_io 4.2 64k 4M
}

# As a server's reboot: it is unmounted while nobody answers.
unmount_without_server()
{
	nfs_mount 4.2 soft,timeo=20,retrans=1
	head -c 1M /dev/urandom > /mnt/last
	on_server server_stop
	timeout 40 umount -f -l /mnt
	on_server server_start
	verified_io 4.2 64k 4M
}

soak_mount()
{
	nfs_mount "$1"
	soak "$2" /mnt/soak
	umount /mnt
}

modules nfsd rpcrdma nfsv3 nfsv4
mkdir -p /var/lib/nfs/rpc_pipefs
mountpoint -q /var/lib/nfs/rpc_pipefs || mount -t rpc_pipefs pipe /var/lib/nfs/rpc_pipefs
hosts_up "$@"
at_exit 'on_server server_down'
on_server server_up

case ${1-} in
--soak)
	soak_test "vers=4.2: " "$2" soak_mount 4.2 "$2"
	;;
--short)
	check "vers=3: fio, random, blocks of 64k, verified" verified_io 3 64k 4M
	check "vers=4.2: fio, random, blocks of 4k, verified" verified_io 4.2 4k 1M
	check "vers=4.2: fio, random, blocks of 1M, verified" verified_io 4.2 1M 8M
	check "a file that is written to on the server meanwhile is read without a CRC error" read_while_written
	check "vers=4.2: the server restarts during I/O, and its data verifies" during_io 4.2 restart_server
	check "umount -f under load" unmount_under_load -f
	finish
	;;
esac
for version in 3 4.0 4.1 4.2; do
	check "vers=$version: fio, random, blocks of 4k, verified" verified_io "$version" 4k 1M
	check "vers=$version: fio, random, blocks of 64k, verified" verified_io "$version" 64k 4M
	check "vers=$version: fio, random, blocks of 1M, verified" verified_io "$version" 1M 8M
done
for size in 16k 256k; do
	check "vers=4.2: fio, random, blocks of $size, verified" verified_io 4.2 "$size" 4M
done
for version in 3 4.0 4.1 4.2; do
	check "vers=$version: a tree is untarred, and is the same by another mount" untar_and_compare "$version"
done
check "a file that is written to on the server meanwhile is read without a CRC error" read_while_written
for version in 3 4.2; do
	check "vers=$version: the server restarts during I/O, and its data verifies" during_io "$version" restart_server
done
check "vers=4.2: the wire is cut for 3 s during I/O, and its data verifies" during_io 4.2 cut_and_heal 3
check "umount -l under load" unmount_under_load -l
check "umount -f under load" unmount_under_load -f
check "unmount while the server is gone" unmount_without_server
finish
