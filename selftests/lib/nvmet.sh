# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# A target of NVMe-oF with one namespace on one port, and the disk that a client gets of it; sourced.

nvmet=/sys/kernel/config/nvmet

# nvmet_up NQN TRANSPORT ADDRESS PATH [INLINE]: the namespace is a block device or a file; the port takes INLINE bytes
# in a capsule.
nvmet_up()
{
	local subsystem=$nvmet/subsystems/$1 port=$nvmet/ports/1

	mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
	mkdir "$subsystem" "$subsystem/namespaces/1" "$port"
	echo 1 > "$subsystem/attr_allow_any_host"
	echo -n "$4" > "$subsystem/namespaces/1/device_path"
	# Files are on tmpfs, which has no direct I/O.
	[[ -b $4 ]] || echo 1 > "$subsystem/namespaces/1/buffered_io"
	echo 1 > "$subsystem/namespaces/1/enable"
	echo "$2" > "$port/addr_trtype"
	echo ipv4 > "$port/addr_adrfam"
	echo "$3" > "$port/addr_traddr"
	echo 4420 > "$port/addr_trsvcid"
	[[ ! ${5-} ]] || echo "$5" > "$port/param_inline_data_size"
	nvmet_link "$1"
}

nvmet_link()
{
	ln -s "$nvmet/subsystems/$1" "$nvmet/ports/1/subsystems/$1"
}

# Ends its connections, too.
nvmet_unlink()
{
	local lockdep=/proc/sys/kernel/prove_locking

	# nvmet takes its configuration's lock inside rdma_cm's for an early command, and here the other way
	# round. The debug kernel would say so, once, and stop looking for more.
	[[ ! -e $lockdep ]] || echo 0 > "$lockdep"
	rm -f "$nvmet/ports/1/subsystems/$1"
	[[ ! -e $lockdep ]] || echo 1 > "$lockdep"
}

# nvmet_down NQN: whatever is left of it.
nvmet_down()
{
	local subsystem=$nvmet/subsystems/$1

	[[ -d $subsystem ]] || return 0
	nvmet_unlink "$1"
	[[ ! -d $nvmet/ports/1 ]] || rmdir "$nvmet/ports/1"
	if [[ -d $subsystem/namespaces/1 ]]; then
		echo 0 > "$subsystem/namespaces/1/enable"
		rmdir "$subsystem/namespaces/1"
	fi
	rmdir "$subsystem"
}

# nvme_disk NQN: sets controller and disk to the client's, once they are usable.
nvme_disk()
{
	local try

	for try in {1..300}; do
		for controller in /sys/class/nvme/nvme*; do
			[[ $(cat "$controller/subsysnqn" 2> /dev/null) == "$1" && $(< "$controller/state") == live ]] || continue
			disk=/dev/${controller##*/}n1
			[[ ! -b $disk ]] || return 0
		done
		sleep 0.1
	done
	echo "no block device after $try tries"
	return 1
}
