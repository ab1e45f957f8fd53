# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# Two hosts in one kernel; sourced by the test scripts, and run by selftests/lib/topology.
#
#	 namespace a                          namespace b
#	+-----------------------+            +-----------------------+
#	|  ziwa (RDMA device)   |            |  ziwb (RDMA device)   |
#	|    |                  |            |    |                  |
#	|   va  10.0.0.1/24     |----veth----|   vb  10.0.0.2/24     |
#	|       fd00::1/64      |            |       fd00::2/64      |
#	|       fe80::.../64    |            |       fe80::.../64    |
#	+-----------------------+            +-----------------------+
#
# With a tag T the names are aT, bT, vaT, vbT, ziwaT and ziwbT; the addresses stay the same.
# ZIW_TYPE names another driver (siw; or none), and then the RDMA devices are called siwa and siwb; ZIW_TYPE_A and
# ZIW_TYPE_B do so for one host.

# in_host NAMESPACE COMMAND...: unlike "ip netns exec" this keeps /sys, where RDMA devices in shared
# mode appear for the initial namespace only.
in_host()
{
	nsenter --net="/run/netns/$1" -- "${@:2}"
}

# host_up A|B TAG: the namespace of one host, with its loopback.
host_up()
{
	ip netns add "$1$2"
	ip -n "$1$2" link set lo up
}

# topology_up [TAG] [MTU]
topology_up()
{
	local tag=${1-} mtu=${2-1500} type host n=1

	host_up a "$tag"
	host_up b "$tag"
	ip link add "va$tag" netns "a$tag" type veth peer name "vb$tag" netns "b$tag"
	for host in a b; do
		# Link-local addresses are usable at once: nobody else is on this wire.
		in_host "$host$tag" sysctl -qw "net.ipv6.conf.v$host$tag.accept_dad=0"
		ip -n "$host$tag" addr add "10.0.0.$n/24" dev "v$host$tag"
		ip -n "$host$tag" addr add "fd00::$n/64" dev "v$host$tag" nodad
		ip -n "$host$tag" link set "v$host$tag" mtu "$mtu" up
		n=$((n + 1))
	done
	for host in a b; do
		[[ $host == a ]] && type=${ZIW_TYPE_A:-${ZIW_TYPE:-ziw}} || type=${ZIW_TYPE_B:-${ZIW_TYPE:-ziw}}
		[[ $type == none ]] ||
			in_host "$host$tag" rdma link add "$type$host$tag" type "$type" netdev "v$host$tag"
	done
	wait_for_carrier "a$tag" "va$tag"
	wait_for_carrier "b$tag" "vb$tag"
	neighbours "a$tag" "va$tag" "b$tag" "vb$tag"
	neighbours "b$tag" "vb$tag" "a$tag" "va$tag"
}

# neighbours NAMESPACE NETDEV PEER-NAMESPACE PEER-NETDEV: make the peer's addresses known. A first
# rdma_resolve_addr waits out its time where the neighbour has to be asked for.
neighbours()
{
	local mac address try

	# The link-local address comes with the carrier, a moment later.
	for try in {1..100}; do
		[[ $(ip -n "$3" -6 -o addr show dev "$4" scope link) == "" ]] || break
		sleep 0.05
	done
	mac=$(ip -n "$3" -o link show "$4" | sed 's/.*link.ether \([^ ]*\).*/\1/')
	for address in $(ip -n "$3" -o addr show dev "$4" | awk '{ sub("/.*", "", $4); print $4 }'); do
		ip -n "$1" neigh replace "$address" lladdr "$mac" dev "$2" nud stale
	done
}

wait_for_carrier()
{
	local try

	for try in {1..100}; do
		[[ $(ip -n "$1" -o link show "$2") != *LOWER_UP* ]] || return 0
		sleep 0.05
	done
	echo "no carrier on $2 after $try tries" >&2
	return 1
}

# Why rdma_cm finds no device where the interface has no MAC, on a kernel where it does not; nothing on others.
no_mac_no_device()
{
	case $(uname -r) in
	6.1.*) echo "rdma_cm of Linux 6.1 finds an iWARP device by its interface's MAC, and this one has none" ;;
	esac
}

# topology_down [TAG]: whatever is left of it.
topology_down()
{
	local tag=${1-} host

	for host in a b; do
		[[ ! -e /run/netns/$host$tag ]] || ip netns delete "$host$tag"
	done
}
