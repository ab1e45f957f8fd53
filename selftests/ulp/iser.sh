#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# iser.sh [--short | --soak SECONDS]: iSCSI Extensions for RDMA, on one machine or two, as drawn in lib.sh. Runs on
# test machines; prints TAP.
#
#	 client                                server
#	  iscsid, ib_iser --- one queue pair --- ib_isert, LIO --- /dev/shm/disk
set -euo pipefail
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/target.sh"

iqn=iqn.2003-01.org.ziw:target
tpg=$lio/iscsi/$iqn/tpgt_1

# A portal of LIO listens on TCP first, and by RDMA as well when it is told. With iWARP both want the same TCP port. So
# targetcli runs in a network namespace of its own: TCP's listener is made there, RDMA's in the initial one always.
target_up()
{
	truncate -s 64M /dev/shm/disk
	# targetcli asks the system's bus for more kinds of backstores.
	mkdir -p /run/dbus
	pgrep -x dbus-daemon || dbus-daemon --system --fork
	unshare --net targetcli << TARGETCLI
set global auto_add_default_portal=false
/backstores/fileio create name=disk file_or_dev=/dev/shm/disk size=64M
/iscsi create $iqn
/iscsi/$iqn/tpg1/luns create /backstores/fileio/disk
/iscsi/$iqn/tpg1 set attribute authentication=0 demo_mode_write_protect=0 generate_node_acls=1 cache_dynamic_acls=1
/iscsi/$iqn/tpg1/portals create $server_address 3260
/iscsi/$iqn/tpg1/portals/$server_address:3260 enable_iser boolean=true
TARGETCLI
	[[ $(< "$tpg/np/$server_address:3260/iser") == 1 ]] || fail "no portal with iSER"
}

target_down()
{
	targetcli clearconfig confirm=true
	killall dbus-daemon
	rm -f /dev/shm/disk
	modprobe -r ib_isert
}

client_up()
{
	modprobe -a ib_iser sd_mod
	echo "InitiatorName=iqn.2003-01.org.ziw:client" > /etc/iscsi/initiatorname.iscsi
	iscsid
}

client_down()
{
	iscsiadm -m node -u
	iscsiadm -k 0
	modprobe -r ib_iser
}

# iscsiadm forgets an answer that comes before the kernel has said that the question is sent: it keeps it in a list, and
# then waits for another one. Without a delay that happens on the debug kernel, whose loopback is done inside the send.
discovery()
{
	disturbed delay 20ms
	on_rdma timeout 60 iscsiadm -m discovery -t sendtargets -p "$server_address:3260" -I iser > /dev/shm/found
	cat /dev/shm/found
	has "^$server_address:3260,1 $iqn\$" < /dev/shm/found
	rm /dev/shm/found
	undisturbed
}

login()
{
	on_rdma timeout 60 iscsiadm -m node -T "$iqn" -p "$server_address:3260" -I iser --login
	find_disk
	iscsiadm -m session | has "^iser: .* $iqn"
}

logout()
{
	timeout 60 iscsiadm -m node -T "$iqn" -p "$server_address:3260" --logout
	disk_gone
}

# The target throws its sessions out, and is back a second later.
restart_target()
{
	on_server eval "echo 0 > $tpg/enable"
	sleep 1
	on_server eval "echo 1 > $tpg/enable"
}

modules target_core_mod target_core_file iscsi_target_mod ib_isert ib_iser
mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
hosts_up "$@"
at_exit 'on_server target_down'
check "targetcli makes a target with an iSER portal" on_server target_up
at_exit client_down
client_up

check "discovery over RDMA" discovery
disk_tests "$@"
check "the target is reset during I/O, and its data verifies" during_io reset_by target
[[ ${1-} != --short ]] || finish
check "the unit is reset during I/O, and its data verifies" during_io reset_by device
check "the target ends its sessions during I/O, and its data verifies" during_io restart_target
check "the wire is cut for 5 s during I/O, and its data verifies" during_io cut_and_heal 5
check "logout at the end" logout
finish
