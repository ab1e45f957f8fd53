#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# srp.sh [--short | --soak SECONDS]: the SCSI RDMA Protocol by rdma_cm, on one machine or two, as drawn in lib.sh.
# Runs on test machines; prints TAP.
#
#	 client                              server
#	  ib_srp --- a queue pair per CPU --- ib_srpt, LIO --- /dev/shm/disk
set -euo pipefail
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target.sh"

port=5555
# The client by what it calls itself: initiator_ext, and the half of its GID that is the GUID.
client=0x00000000000000010000000000000000

# What LIO calls the port of the server's device: by its GID, of which iWARP's have nothing in the half that is the GUID.
port_name()
{
	local gid

	gid=$(< "/sys/class/infiniband/$server_device/ports/1/gids/0")
	echo "0x${gid//:/}"
}

target_up()
{
	local wwn tpg

	store_up
	wwn=$lio/srpt/$(port_name)
	tpg=$wwn/$(port_name)
	mkdir -p "$lio/srpt"
	echo "$port" > "$lio/srpt/discovery_auth/rdma_cm_port"
	mkdir "$wwn"
	mkdir "$tpg"
	mkdir "$tpg/lun/lun_0"
	ln -s "$lio/core/fileio_0/disk" "$tpg/lun/lun_0/disk"
	mkdir "$tpg/acls/$client"
	mkdir "$tpg/acls/$client/lun_0"
	ln -s "$tpg/lun/lun_0" "$tpg/acls/$client/lun_0/disk"
	echo 1 > "$tpg/enable"
}

target_down()
{
	local tpg

	tpg=$lio/srpt/$(port_name)/$(port_name)
	echo 0 > "$tpg/enable"
	rm "$tpg/acls/$client/lun_0/disk"
	rmdir "$tpg/acls/$client/lun_0" "$tpg/acls/$client"
	rm "$tpg/lun/lun_0/disk"
	rmdir "$tpg/lun/lun_0" "$tpg" "${tpg%/*}" "$lio/srpt"
	store_down
	modprobe -r ib_srpt
}

client_down()
{
	local entry

	for entry in /sys/class/srp_remote_ports/*/delete; do
		echo 1 > "$entry"
	done
	modprobe -r ib_srp
}

# The identifier of the service is not announced over IP; the target takes any of its own GUID.
login()
{
	local id

	id=$(on_server cat /sys/module/ib_srpt/parameters/srpt_service_guid)
	id=${id#0x}
	on_rdma add_target "id_ext=$id,ioc_guid=$id,initiator_ext=1,dest=$server_address:$port"
	find_disk
}

# ib_srp forgets a target that was deleted some time after its disk is gone, and until then has the new one for the same.
add_target()
{
	local try error

	for try in {1..50}; do
		error=$({ echo "$1" > "/sys/class/infiniband_srp/srp-$client_device-1/add_target"; } 2>&1) && return
		[[ $error == *'File exists'* ]] || break
		sleep 0.1
	done
	echo "$error ($try tries)"
	return 1
}

logout()
{
	local entry

	for entry in /sys/class/srp_remote_ports/*/delete; do
		echo 1 > "$entry"
	done
	disk_gone
}

# The target's port is disabled, which ends its sessions, and enabled a second later.
restart_target()
{
	local tpg

	tpg=$lio/srpt/$(on_server port_name)/$(on_server port_name)
	on_server eval "echo 0 > $tpg/enable"
	sleep 1
	on_server eval "echo 1 > $tpg/enable"
}

# The target makes a queue pair, posts to it, finds that it does not know who asks, and destroys all that.
login_refused()
{
	local id n

	id=$(on_server cat /sys/module/ib_srpt/parameters/srpt_service_guid)
	id=${id#0x}
	for n in {1..5}; do
		! add_target "id_ext=$id,ioc_guid=$id,initiator_ext=$((n + 1)),dest=$server_address:$port" || fail "is let in"
	done
}

modules target_core_mod target_core_file ib_srpt ib_srp sd_mod
mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
hosts_up "$@"
at_exit 'on_server target_down'
on_server target_up
at_exit client_down

disk_tests "$@"
check "who has no access list is refused" login_refused
check "the unit is reset during I/O, and its data verifies" during_io reset_by device
[[ ${1-} != --short ]] || finish
check "the host is reset during I/O: a new connection, and its data verifies" during_io reset_by host
check "the target ends its sessions during I/O, and its data verifies" during_io restart_target
check "the wire is cut for 5 s during I/O, and its data verifies" during_io cut_and_heal 5
check "logout at the end" logout
finish
