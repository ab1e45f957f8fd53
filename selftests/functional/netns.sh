#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# Network namespaces in the RDMA subsystem's two modes. Runs on a test machine; prints TAP.
#
#	 namespace a              namespace b
#	  ziwa on va --- veth ---  vb with ziwb
#
# shared (the default): every namespace sees every RDMA device. exclusive: a device is seen in its own only.
set -euo pipefail
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/../lib/topology.sh"
. "$(dirname "$0")/../lib/traffic.sh"

after_each()
{
	local device

	topology_down ""
	for device in $(rdma link show | awk '{ sub("/.*", "", $2); print $2 }'); do
		rdma link delete "$device"
	done
	rdma system set netns shared
}

# In exclusive mode a program finds its device in the sysfs of its own namespace.
rping_inside()
{
	local pid

	ip netns exec b timeout 60 rping -s -a 10.0.0.2 -C 5 -V > /dev/null 2>&1 &
	pid=$!
	sleep 2
	ip netns exec a timeout 60 rping -c -a 10.0.0.2 -C 5 -V
	wait "$pid"
}

shared()
{
	rdma system show | has 'netns shared'
	topology_up ""
	# Seen from everywhere.
	rdma link show ziwa/1
	in_host a rdma link show ziwb/1
	rping_between a b 10.0.0.2 -C 5
	rping_between b a 10.0.0.1 -C 5
}

# A device's sockets are in the namespace of its interface, not in that of the program.
sockets_are_the_interfaces()
{
	topology_up ""
	become b rping -s -a 10.0.0.2 -C 1 > /dev/null 2>&1 &
	listening 7174 $!
	in_host b ss -tln | has '10.0.0.2:7174' || {
		in_host b ss -tlna
		skip "kernel sockets are not shown here"
	}
	! ss -tln | has ':7174' || fail "it listens in the initial namespace"
	! in_host a ss -tln | has ':7174' || fail "it listens in the other namespace"
	in_host a rping -c -a 10.0.0.2 -C 1
}

# to_exclusive: with no other namespace around, or the kernel refuses.
to_exclusive()
{
	rdma system set netns exclusive
	rdma system show | has 'netns exclusive'
}

exclusive()
{
	local host n=1 seen

	to_exclusive
	host_up a ""
	host_up b ""
	ip link add va netns a type veth peer name vb netns b
	for host in a b; do
		in_host "$host" sysctl -qw "net.ipv6.conf.v$host.accept_dad=0"
		ip -n "$host" addr add "10.0.0.$n/24" dev "v$host"
		ip -n "$host" link set "v$host" up
		n=$((n + 1))
		ip netns exec "$host" rdma link add "ziw$host" type ziw netdev "v$host"
		# Kernels that register it in the initial namespace let it be moved.
		ip netns exec "$host" rdma dev show "ziw$host" 2> /dev/null || rdma dev set "ziw$host" netns "$host"
		ip netns exec "$host" rdma dev show "ziw$host"
	done
	wait_for_carrier a va
	seen=$(rdma dev show)
	[[ $seen != *ziw* ]] || fail "seen in the initial namespace: $seen"
	seen=$(ip netns exec b rdma dev show)
	[[ $seen != *ziwa* ]] || fail "seen in the other namespace: $seen"
	ip netns exec a ibv_devices | has ziwa
	! ip netns exec a ibv_devices | has ziwb || fail "a can open the device of b"
	reach a 10.0.0.2
	rping_inside
	# Deleted from inside, and with its namespace.
	ip netns exec a rdma link delete ziwa
	ip netns exec a rdma link add ziwa type ziw netdev va
}

exclusive_namespace_goes()
{
	local pid

	to_exclusive
	host_up a ""
	ip link add va netns a type veth peer name vb
	ip -n a addr add 10.0.0.1/24 dev va
	ip -n a link set va up
	ip netns exec a rdma link add ziwa type ziw netdev va
	ip netns exec a rdma dev show ziwa 2> /dev/null || rdma dev set ziwa netns a
	ip netns exec a rping -s -a 10.0.0.1 > /dev/null 2>&1 &
	pid=$!
	sleep 1
	kill -0 "$pid"
	ip netns delete a
	kill "$pid"
	wait "$pid" || :
	for _ in {1..100}; do
		ip link show vb > /dev/null 2>&1 || break
		sleep 0.1
	done
	! ip link show vb > /dev/null 2>&1 || fail "the namespace lives on"
	! rdma dev show | has ziwa || fail "the device came back to the initial namespace, without an interface"
}

# The interface moves to another namespace: the device cannot follow it, and must not stay behind.
interface_moves()
{
	host_up a ""
	ip link add va type veth peer name vb
	rdma link add ziwa type ziw netdev va
	ip link set va netns a
	! rdma link show | has '^link ziwa/' || [[ $(rdma link show ziwa/1) == *'netdev va'* ]] ||
		fail "a device without its interface: $(rdma link show)"
	# A new one can be made where it is now.
	! rdma link show | has '^link ziwa/' || rdma link delete ziwa
	in_host a rdma link add ziwa type ziw netdev va
}

deleted_by_the_dozen()
{
	local n

	for n in {1..5}; do
		topology_up ""
		become b rping -s -a 10.0.0.2 -C 1000000 > /dev/null 2>&1 &
		listening 7174 $!
		become a rping -c -a 10.0.0.2 -C 1000000 > /dev/null 2>&1 &
		sleep 0.5
		ip netns delete a
		ip netns delete b
		jobs -p | xargs -r kill 2> /dev/null || :
		wait || :
		for _ in {1..100}; do
			rdma link show | has ziw || break
			sleep 0.1
		done
		! rdma link show | has ziw || fail "round $n: devices live on: $(rdma link show)"
	done
}

check "shared mode" shared
check "sockets are in the namespace of the interface" sockets_are_the_interfaces
check "interface moved to another namespace" interface_moves
check "namespaces deleted under rping, five times" deleted_by_the_dozen
check "exclusive mode" exclusive
check "exclusive mode: namespace deleted" exclusive_namespace_goes
finish
