# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# The storage pairs: the same target by RDMA and by TCP. Sourced by guest. Kernel consumers are in the initial
# namespace, so both ends are one host, at an address of an interface with ziw: its traffic takes lo, which has an MTU
# of 1500 for that. The target is null_blk, or a file system in memory: what is measured is the way there.
#
# shellcheck disable=SC2034,SC2154 # path is guest's, and so are limit and run

. "$(dirname "${BASH_SOURCE[0]}")/../lib/nvmet.sh"

storage_up()
{
	path=lo1500
	ip link set lo mtu 1500
	ip link add vn type veth peer name vn2
	ip addr add 10.0.2.1/24 dev vn
	ip link set vn mtu 1500 up
	ip link set vn2 mtu 1500 up
	rdma link add ziwn type ziw netdev vn
}

storage_down()
{
	rdma link delete ziwn
	ip link delete vn
	ip link set lo mtu 65536
}

# fio_works NAME STACK FILE: bandwidth of each pattern.
fio_works()
{
	local name=$1 stack=$2 file=$3 job rw size depth value
	shift 3

	for job in "$@"; do
		IFS=, read -r rw size depth <<< "$job"
		value=$(timeout "$limit" fio --name=b --filename="$file" --rw="$rw" --bs="$size" --iodepth="$depth" \
			--ioengine=libaio --direct=1 --size=64M --time_based --runtime="$((run ? 1000 : 100))ms" --thread \
			--output-format=json 2> /dev/null | sed -n '/^{/,$p' |
			jq '[.jobs[0].read.bw_bytes, .jobs[0].write.bw_bytes] | max / 1e6' 2> /dev/null) || value=
		if [[ $value ]]; then
			result "$name-$rw-$size-$depth" "$stack" "$value" MB/s
		else
			reason "$name-$rw-$size-$depth" "$stack" "fio failed"
		fi
	done
}

nvme_one()
{
	local transport=$1 stack=$2 nqn=ziw-bench disk='' controller=''

	nvmet_up "$nqn" "$transport" 10.0.2.1 /dev/nullb0
	command nvme connect -t "$transport" -a 10.0.2.1 -s 4420 -n "$nqn" -i 1 > /dev/null || :
	if nvme_disk "$nqn" > /tmp/nvme; then
		fio_works nvme "$stack" "$disk" randread,4k,1 randwrite,4k,1 randread,4k,32 randwrite,4k,32 \
			read,128k,8 write,128k,8 read,1M,4 write,1M,4
	else
		reason nvme "$stack" "$(< /tmp/nvme)"
	fi
	command nvme disconnect -n "$nqn" > /dev/null || :
	nvmet_down "$nqn"
}

nvme()
{
	modprobe -a nvmet-rdma nvme-rdma nvmet-tcp nvme-tcp
	[[ -b /dev/nullb0 ]] || modprobe null_blk nr_devices=1 gb=1 bs=4096 irqmode=0
	storage_up
	nvme_one tcp nvme-tcp
	set_ziw crc off
	nvme_one rdma ziw-crc-off
	set_ziw crc required
	nvme_one rdma ziw-crc-on
	storage_down
}

nfs_one()
{
	local stack=$1 options=$2

	if timeout "$limit" mount -t nfs4 -o "vers=4.2,$options" 10.0.2.1:/ /mnt 2> /tmp/nfs; then
		fio_works nfs "$stack" /mnt/file read,1M,4 write,1M,4 randread,4k,32
		umount /mnt
	else
		reason nfs "$stack" "$(tail -n 1 /tmp/nfs)"
	fi
}

nfs()
{
	modprobe -a nfsd rpcrdma nfsv4
	storage_up
	mkdir -p /run/export /var/lib/nfs/v4recovery /var/lib/nfs/rpc_pipefs
	mountpoint -q /run/export || mount -t tmpfs -o size=256M export /run/export
	mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
	mountpoint -q /var/lib/nfs/rpc_pipefs || mount -t rpc_pipefs pipe /var/lib/nfs/rpc_pipefs
	truncate -s 64M /run/export/file
	dd if=/dev/zero of=/run/export/file bs=1M count=64 status=none
	echo '/run/export *(rw,async,no_root_squash,insecure,no_subtree_check,fsid=0)' > /etc/exports
	rpc.mountd --no-udp -N 3 > /dev/null 2>&1 || :
	exportfs -ra || :
	rpc.nfsd -N 3 4 || reason nfs server "rpc.nfsd failed"
	# No client has anything to reclaim: no need to wait 90 s.
	echo Y > /proc/fs/nfsd/v4_end_grace
	echo 'rdma 20049' > /proc/fs/nfsd/portlist || reason nfs ziw-crc-on "the server does not listen on RDMA"
	nfs_one nfs-tcp proto=tcp
	set_ziw crc off
	nfs_one ziw-crc-off proto=rdma,port=20049
	set_ziw crc required
	nfs_one ziw-crc-on proto=rdma,port=20049
	rpc.nfsd 0 || :
	exportfs -ua || :
	pkill rpc.mountd || :
	storage_down
}
