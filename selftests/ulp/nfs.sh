#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# NFS over RDMA: server and client on one host, as kernel consumers are in the initial namespace, through one
# ziw device. Runs on a test machine; prints TAP.
#
#	 initial namespace
#	+-------------------------------------------------+
#	|  /mnt (rpcrdma) --+            +-- nfsd --- /run/export
#	|                   +-- ziwn on vn --+            |
#	|                       10.0.2.1:20049            |
#	+-------------------------------------------------+
set -euo pipefail
. "$(dirname "$0")/../lib/tap.sh"

address=10.0.2.1
versions=(3 4.0 4.1 4.2)

server_start()
{
	rpc.nfsd 8
	# After a restart a client reclaims at once or is told that the period is over: no need to wait 90 s.
	echo Y > /proc/fs/nfsd/v4_end_grace
	grep -q rdma /proc/fs/nfsd/portlist || echo 'rdma 20049' > /proc/fs/nfsd/portlist
}

server_up()
{
	mkdir -p /run/export /var/lib/nfs/v4recovery /var/lib/nfs/rpc_pipefs
	mount -t tmpfs -o size=512M export /run/export
	mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
	mountpoint -q /var/lib/nfs/rpc_pipefs || mount -t rpc_pipefs pipe /var/lib/nfs/rpc_pipefs
	echo '/run/export *(rw,async,no_root_squash,insecure,no_subtree_check,sec=sys,fsid=0)' > /etc/exports
	rpcbind -w || :
	rpc.mountd --no-udp
	exportfs -ra
	server_start
}

# Also after a test that failed half way: with a mount left, ziw would stay.
after_each()
{
	local pids

	pids=$(jobs -p)
	# shellcheck disable=SC2086 # a list
	[[ ! $pids ]] || kill -9 $pids 2> /dev/null || :
	! mountpoint -q /mnt || umount -f /mnt 2> /dev/null || umount -l /mnt
}

server_down()
{
	after_each
	rpc.nfsd 0
	exportfs -ua
	killall rpc.mountd rpcbind
	umount /run/export
	rdma link delete ziwn
	ip link delete vn
}

# nfs_mount VERSION [OPTION]: and it is RDMA that carries it.
nfs_mount()
{
	local path=/

	[[ $1 != 3 ]] || path=/run/export
	timeout 30 mount -t nfs -o "rdma,port=20049,vers=$1,nolock,sec=sys,rsize=1048576,wsize=1048576${2:+,$2}" \
		"$address:$path" /mnt
	grep ' /mnt nfs' /proc/mounts
	grep ' /mnt nfs' /proc/mounts | has "vers=$1,.*proto=rdma"
}

verified_io()
{
	nfs_mount "$1"
	timeout 60 fio --name=v --filename=/mnt/fio --rw=randrw --bs="$2" --iodepth=4 --ioengine=libaio --direct=1 \
		--size=8M --verify=crc32c --do_verify=1 --thread --output-format=terse > /dev/null
	umount /mnt
}

# A few thousand files, made once.
tree_made()
{
	local directory n

	[[ ! -e /dev/shm/tree.tar ]] || return 0
	mkdir -p /dev/shm/tree
	for directory in {1..20}; do
		mkdir "/dev/shm/tree/$directory"
		for n in {1..100}; do
			head -c $((n * 97)) /dev/urandom > "/dev/shm/tree/$directory/$n"
		done
	done
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
	rm -r /mnt/tree
	umount /mnt
}

restart_during_io()
{
	local pid

	nfs_mount "$1"
	timeout 60 fio --name=r --filename=/mnt/restart --rw=randwrite --bs=64k --iodepth=4 --ioengine=libaio --direct=1 \
		--size=16M --loops=4 --rate=16M --verify=crc32c --do_verify=1 --thread --output-format=terse > /dev/null &
	pid=$!
	sleep 1
	kill -0 "$pid" || fail "fio ended before the server did"
	rpc.nfsd 0
	sleep 0.5
	server_start
	wait "$pid"
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
	verified_io 4.2 64k
}

# As a server's reboot: it is unmounted while nobody answers.
unmount_without_server()
{
	nfs_mount 4.2 soft,timeo=20,retrans=1
	head -c 1M /dev/urandom > /mnt/last
	rpc.nfsd 0
	timeout 40 umount -f -l /mnt
	server_start
	verified_io 4.2 64k
}

modprobe ziw
modprobe -a nfsd rpcrdma nfsv3 nfsv4 || {
	echo "1..0 # SKIP this kernel has no NFS over RDMA"
	exit 0
}
at_exit server_down
ip link add vn type veth peer name vn2
ip addr add "$address/24" dev vn
ip link set vn up
ip link set vn2 up
rdma link add ziwn type ziw netdev vn
server_up

for version in "${versions[@]}"; do
	for size in 4k 64k 1M; do
		check "vers=$version: fio, random, blocks of $size, verified" verified_io "$version" "$size"
	done
done
for size in 16k 256k; do
	check "vers=4.2: fio, random, blocks of $size, verified" verified_io 4.2 "$size"
done
for version in 3 4.2; do
	check "vers=$version: 2000 files untarred are the same" untar_and_compare "$version"
	check "vers=$version: the server restarts during I/O, and its data verifies" restart_during_io "$version"
done
check "umount -l under load" unmount_under_load -l
check "umount -f under load" unmount_under_load -f
check "unmount while the server is gone" unmount_without_server
finish
