#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# "rdma link add" on every kind of interface, and what becomes of the device when its interface
# changes. Runs on a test machine; prints TAP.
#
#	 namespace a               namespace b
#	+------------------+      +------------------+
#	| xa: the kind     |      | xb: the kind     |
#	|  |  under test   |      |  |  under test   |
#	| va               |-veth-| vb               |
#	+------------------+      +------------------+
#
# 10.0.0.1 is on xa, 10.0.0.2 on xb, ziwa and ziwb are their RDMA devices.
set -euo pipefail
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/topology.sh"
. "$(dirname "$0")/../lib/traffic.sh"

wire()
{
	host_up a ""
	host_up b ""
	ip link add va netns a type veth peer name vb netns b
	ip -n a link set va up
	ip -n b link set vb up
}

after_each()
{
	local device

	for device in $(rdma link show | awk '{ sub("/.*", "", $2); print $2 }'); do
		rdma link delete "$device"
	done
	topology_down ""
	ip -o link show | awk -F ': ' '$2 ~ /^t_/ { sub("@.*", "", $2); print $2 }' |
		xargs -r -n 1 ip link delete
}

# addresses HOST NUMBER NETDEV, then the RDMA device.
finish_host()
{
	ip -n "$1" addr add "10.0.0.$2/24" dev "$3"
	ip -n "$1" link set "$3" up
	in_host "$1" rdma link add "ziw$1" type ziw netdev "$3"
}

both_ways()
{
	wait_for_carrier a "$1a"
	wait_for_carrier b "$1b"
	reach a 10.0.0.2
	rping_between a b 10.0.0.2 -C 3 -S 3000
	rping_between b a 10.0.0.1 -C 3 -S 3000
}

veth()
{
	wire
	finish_host a 1 va
	finish_host b 2 vb
	both_ways v
}

# over KIND COMMAND...: xa and xb of this kind over va and vb.
over()
{
	local kind=$1 host n=1

	wire
	for host in a b; do
		"over_$kind" "$host"
		finish_host "$host" "$n" "x$host"
		n=$((n + 1))
	done
	both_ways x
}

over_bridge()
{
	ip -n "$1" link add "x$1" type bridge
	ip -n "$1" link set "v$1" master "x$1"
}

over_bond()
{
	ip -n "$1" link add "x$1" type bond mode active-backup miimon 100
	ip -n "$1" link set "v$1" down
	ip -n "$1" link set "v$1" master "x$1"
	ip -n "$1" link set "v$1" up
}

over_vlan()
{
	ip -n "$1" link add "x$1" link "v$1" type vlan id 100
}

over_macvlan()
{
	ip -n "$1" link add "x$1" link "v$1" type macvlan mode bridge
}

over_ipvlan()
{
	ip -n "$1" link add "x$1" link "v$1" type ipvlan mode l2
}

over_wireguard()
{
	local n peer host=$1

	needs_no_mac

	[[ $host == a ]] && n=1 peer=b || n=2 peer=a
	ip -n "$host" addr add "10.1.0.$n/24" dev "v$host"
	ip -n "$host" link add "x$host" type wireguard
	[[ -e $scratch/key.a ]] || { wg genkey > "$scratch/key.a"; wg genkey > "$scratch/key.b"; }
	ip netns exec "$host" wg set "x$host" listen-port 5000 private-key "$scratch/key.$host" \
		peer "$(wg pubkey < "$scratch/key.$peer")" endpoint "10.1.0.$((3 - n)):5000" \
		allowed-ips 10.0.0.0/24
}

# Kinds without a peer: each host talks to itself, through its own RDMA device.
alone()
{
	local device=$1 address=$2

	rdma link add ziw_t type ziw netdev "$device"
	rdma link show | has "^link ziw_t/1 .*netdev $device\|^link ziw_t/1 "
	ibv_devinfo -d ziw_t | has 'transport:.*iWARP'
	rping_between "" "" "$address" -C 3 -S 3000
	rdma link delete ziw_t
	! rdma link show | has ziw_t || fail "the device is still there"
}

on_dummy()
{
	ip link add t_dummy type dummy
	ip addr add 10.2.0.1/24 dev t_dummy
	ip link set t_dummy up
	alone t_dummy 10.2.0.1
}

needs_no_mac()
{
	local why

	why=$(no_mac_no_device)
	[[ ! $why ]] || skip "$why"
}

on_tun()
{
	needs_no_mac
	modprobe tun
	ip tuntap add t_tun mode tun
	ip addr add 10.2.0.1/24 dev t_tun
	ip link set t_tun up
	alone t_tun 10.2.0.1
}

on_tap()
{
	modprobe tun
	ip tuntap add t_tap mode tap
	ip addr add 10.2.0.1/24 dev t_tap
	ip link set t_tap up
	alone t_tap 10.2.0.1
}

on_lo()
{
	needs_no_mac
	alone lo 127.0.0.1
}

# refused WORDS...: rdma link add fails, and says why: itself, or in the kernel log.
refused()
{
	local said

	dmesg --clear
	if said=$(rdma link add "$@" 2>&1); then
		fail "rdma link add $* was accepted"
	fi
	printf '%s\n' "$said" "$(dmesg)"
	# The plain text of an error number explains nothing.
	[[ $(grep -cvE '^error: (Invalid argument|Operation not supported|File exists|No such device)$' \
		<<< "$said") -gt 0 && $said != "" || $(dmesg) == *ziw* || $said == *exist* || $said == *'No such device'* ]] ||
		fail "refused without a reason: $said"
	! rdma link show | has "^link $1/" || [[ ${keep-} ]] || fail "half a device is left"
}

no_such_interface()
{
	refused ziw_t type ziw netdev t_nothing
}

not_a_network_for_ip()
{
	ip link add t_can type vcan || skip "no vcan in this kernel"
	ip link set t_can up
	refused ziw_t type ziw netdev t_can
}

name_in_use()
{
	ip link add t_one type dummy
	ip link add t_two type dummy
	rdma link add ziw_t type ziw netdev t_one
	keep=1 refused ziw_t type ziw netdev t_two
}

second_on_the_same_interface()
{
	ip link add t_one type dummy
	rdma link add ziw_t type ziw netdev t_one
	# One per interface: rdma_cm could not tell them apart.
	refused ziw_u type ziw netdev t_one
}

autoload()
{
	modprobe -r ziw
	[[ ! -e /sys/module/ziw ]] || fail "the module is still loaded"
	ip link add t_one type dummy
	rdma link add ziw_t type ziw netdev t_one
	[[ -e /sys/module/ziw ]]
	rdma link delete ziw_t
	modprobe -r ziw
}

any_name()
{
	local name

	ip link add t_one type dummy
	ip addr add 10.2.0.1/24 dev t_one
	ip link set t_one up
	# The iWARP port mapper in the kernel's CM takes no longer ones.
	for name in x foo mlx5_0 a-b.c_1 "$(printf 'n%.0s' {1..31})"; do
		rdma link add "$name" type ziw netdev t_one
		ibv_devinfo -d "$name" | has 'transport:.*iWARP' || fail "libibverbs does not find $name"
		rping_between "" "" 10.2.0.1 -C 2
		rdma link delete "$name"
	done
}

rename_the_device()
{
	ip link add t_one type dummy
	ip addr add 10.2.0.1/24 dev t_one
	ip link set t_one up
	rdma link add ziw_t type ziw netdev t_one
	rdma dev set ziw_t name other
	ibv_devinfo -d other | has 'transport:.*iWARP'
	rping_between "" "" 10.2.0.1 -C 2
	rdma link delete other
}

several()
{
	local n

	for n in {1..32}; do
		ip link add "t_$n" type dummy
		ip link set "t_$n" up
		rdma link add "ziw_$n" type ziw netdev "t_$n"
	done
	[[ $(rdma link show | grep -c '^link ziw_') == 32 ]]
	[[ $(ibv_devices | grep -c ziw_) == 32 ]]
	# Each has a GUID of its own.
	[[ $(ibv_devices | awk '/ziw_/ { print $2 }' | sort -u | wc -l) == 32 ]]
	for n in $(seq 1 32 | shuf); do
		rdma link delete "ziw_$n"
	done
	[[ $(rdma link show | grep -c '^link ziw_') == 0 ]]
}

renamed_interface()
{
	wire
	finish_host a 1 va
	finish_host b 2 vb
	both_ways v
	# Since 6.4 an interface that is up can be renamed.
	ip -n a link set va down
	ip -n a link set va name renamed
	ip -n a link set renamed up
	in_host a rdma link show ziwa/1 | has 'netdev renamed'
	wait_for_carrier a renamed
	reach a 10.0.0.2
	rping_between a b 10.0.0.2 -C 3
}

changed_address()
{
	wire
	finish_host a 1 va
	finish_host b 2 vb
	both_ways v
	ip -n a addr del 10.0.0.1/24 dev va
	ip -n a addr add 10.0.7.1/16 dev va
	ip -n b addr add 10.0.7.2/16 dev vb
	reach a 10.0.7.2
	rping_between a b 10.0.7.2 -C 3
	rping_between b a 10.0.7.1 -C 3
	ip -n a link set va address 02:00:00:00:00:77
	ip -n b neigh flush all
	reach a 10.0.7.2
	reach b 10.0.7.1
	rping_between a b 10.0.7.2 -C 3
	rping_between b a 10.0.7.1 -C 3
}

changed_mtu()
{
	local mtu

	wire
	finish_host a 1 va
	finish_host b 2 vb
	for mtu in 9000 1280 65535 576 1500; do
		ip -n a link set va mtu "$mtu"
		ip -n b link set vb mtu "$mtu"
		rping_between a b 10.0.0.2 -C 3 -S 60000
	done
}

port_state()
{
	wire
	finish_host a 1 va
	finish_host b 2 vb
	wait_for_carrier a va
	rdma link show ziwa/1 | has 'state ACTIVE physical_state LINK_UP'
	ip -n a link set va down
	rdma link show ziwa/1 | has 'state DOWN'
	# No carrier on the other side either.
	rdma link show ziwb/1 | has 'state DOWN'
	ip -n a link set va up
	wait_for_carrier a va
	wait_for_carrier b vb
	rdma link show ziwa/1 | has 'state ACTIVE'
	rdma link show ziwb/1 | has 'state ACTIVE'
	reach a 10.0.0.2
	rping_between a b 10.0.0.2 -C 3
}

# gone COMMAND...: it ends the device ziwb while rping runs over it, and everything ends.
gone()
{
	local server client

	wire
	finish_host a 1 va
	finish_host b 2 vb
	both_ways v
	become b rping -s -a 10.0.0.2 -C 1000000 > "$scratch/server" 2>&1 &
	server=$!
	sleep 0.5
	become a rping -c -a 10.0.0.2 -C 1000000 > "$scratch/client" 2>&1 &
	client=$!
	sleep 1
	kill -0 "$client" "$server"
	timeout 20 "$@" || fail "'$*' did not end"
	! rdma link show | has '^link ziwb/' || fail "the device is still there"
	ends "$client" "the client"
	# rping as a server does not watch for the removal of its device: it need not end by itself.
	kill "$server" 2> /dev/null || :
	ends "$server" "the server"
}

# The module is replaced while a program that has a device open lives on.
module_goes_under_a_program()
{
	local server try doorbell

	wire
	finish_host a 1 va
	finish_host b 2 vb
	become b rping -s -p 7999 -a 10.0.0.2 > "$scratch/server" 2>&1 &
	server=$!
	at_exit "kill -KILL $server 2> /dev/null || :"
	listening 7999 "$server"
	doorbell=$(find "/proc/$server/fd" -lname '*ziw_doorbell*')
	[[ $doorbell ]]
	# It ends when it hears that its device is gone.
	kill -STOP "$server"
	timeout 20 modprobe -r ziw
	[[ ! -e /sys/module/ziw ]]
	# What it has open is another module's, and still open.
	[[ $(< /sys/module/ziw_doorbell/refcnt) == 1 && -e $doorbell ]]
	for try in 1 2; do
		in_host a rdma link add ziwa type ziw netdev va
		in_host b rdma link add ziwb type ziw netdev vb
		both_ways v
		timeout 20 modprobe -r ziw
	done
	[[ $(< /sys/module/ziw_doorbell/refcnt) == 1 ]]
	kill -KILL "$server"
	wait "$server" || :
	# The file goes with the process, a moment later.
	for try in {1..50}; do
		[[ $(< /sys/module/ziw_doorbell/refcnt) != 0 ]] || break
		sleep 0.1
	done
	modprobe -r ziw_doorbell
	modprobe ziw
}

bridge_port_goes()
{
	wire
	over_bridge a
	over_bridge b
	finish_host a 1 xa
	finish_host b 2 xb
	both_ways x
	# The port goes, the bridge and its device stay, and work again with another port.
	ip -n a link delete va
	in_host a rdma link show ziwa/1
	ip link add va netns a type veth peer name vb netns b
	ip -n a link set va master xa up
	ip -n b link set vb master xb up
	reach a 10.0.0.2
	rping_between a b 10.0.0.2 -C 3
}

add_and_delete()
{
	local n

	ip link add t_one type dummy
	ip addr add 10.2.0.1/24 dev t_one
	ip link set t_one up
	for n in {1..30}; do
		rdma link add ziw_t type ziw netdev t_one
		rdma link delete ziw_t
	done
}

# Interface and device disappear at the same time from two sides.
racing_deletes()
{
	local n

	for n in {1..20}; do
		ip link add t_one type dummy
		rdma link add ziw_t type ziw netdev t_one
		rdma link delete ziw_t 2> /dev/null &
		ip link delete t_one
		wait $! || :
		! rdma link show | has ziw_t || fail "the device outlived its interface"
	done
}

scratch=$(mktemp -d)
at_exit "rm -rf '$scratch'"

check "rdma link add loads the module" autoload
check "veth" veth
for kind in bridge bond vlan macvlan ipvlan wireguard; do
	check "$kind" over "$kind"
done
check "dummy" on_dummy
check "tun" on_tun
check "tap" on_tap
check "lo" on_lo
check "refused: no such interface" no_such_interface
check "refused: an interface that carries no IP" not_a_network_for_ip
check "refused: name in use" name_in_use
check "refused: a second device on one interface" second_on_the_same_interface
check "any device name" any_name
check "device renamed" rename_the_device
check "32 devices at once" several
check "30 times added and deleted" add_and_delete
check "device and interface deleted at once" racing_deletes
check "interface renamed" renamed_interface
check "addresses changed" changed_address
check "MTU changed" changed_mtu
check "interface down and up" port_state
check "device deleted under rping" gone rdma link delete ziwb
check "interface deleted under rping" gone ip -n b link delete vb
check "module unloaded under rping" gone modprobe -r ziw
check "module replaced under a program that has a device open" module_goes_under_a_program
check "a bridge loses its port" bridge_port_goes
finish
