# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# A client and a server for consumers that know the initial namespace only; sourced, after tap.sh. With one machine:
#
#	 initial namespace
#	+----------------------------------------------------------------+
#	|  client: ziwc on vc, 10.0.2.1    server: ziws on vs, 10.0.2.2  |
#	|                  |                               |             |
#	|                 vcp ------ bridge "wire" ------ vsp            |
#	+----------------------------------------------------------------+
#
# where routing rules send what is for the other address over the wire, though it is an address of this host. A kernel
# without such rules (the debug kernel) takes it through lo. With two (selftests/vm/run --two) machine 1 is the client
# and prints TAP, machine 2 the server, and eth0 is the wire.
#
#	. lib.sh
#	functions of the script
#	modules MODULE...		or the script ends with a skip
#	hosts_up "$@"			on a second machine it does not return
#	check ...			with on_server, cut_wire, heal_wire

# shellcheck source=../lib/machines.sh
. "$(dirname "${BASH_SOURCE[0]}")/../lib/machines.sh"
# shellcheck source=../lib/traffic.sh
. "$library/traffic.sh"
script=$(realpath "$0")

modules()
{
	modprobe ziw
	modprobe -a "$@" && return
	echo "1..0 # SKIP kernel $(uname -r) lacks one of the modules $*"
	exit 0
}

hosts_up()
{
	if [[ -e /sys/class/net/eth0 ]]; then
		two_machines "$@"
	else
		one_machine
	fi
}

# shellcheck disable=SC2034 # for the scripts
one_machine()
{
	local name

	two='' wire=(vc vs)
	client_device=ziwc server_device=ziws client_address=10.0.2.1 server_address=10.0.2.2
	# Last: what uses them goes first.
	at_exit wire_down
	ip link add vc mtu 9000 type veth peer name vcp mtu 9000
	ip link add vs mtu 9000 type veth peer name vsp mtu 9000
	ip link add wire mtu 9000 type bridge
	for name in vcp vsp; do
		ip link set "$name" master wire up
	done
	sysctl -qw net.ipv4.conf.all.rp_filter=0
	for name in vc vs; do
		sysctl -qw "net.ipv4.conf.$name.accept_local=1" "net.ipv4.conf.$name.rp_filter=0"
		ip link set "$name" up
	done
	ip link set wire up
	ip addr add "$client_address/24" dev vc
	ip addr add "$server_address/24" dev vs
	rdma link add ziwc type ziw netdev vc
	rdma link add ziws type ziw netdev vs
	if ! ip rule list > /dev/null 2>&1; then
		wire=(lo) client_device=ziws
		return
	fi
	ip neigh replace "$server_address" dev vc nud permanent lladdr "$(< /sys/class/net/vs/address)"
	ip neigh replace "$client_address" dev vs nud permanent lladdr "$(< /sys/class/net/vc/address)"
	ip route add "$server_address" dev vc src "$client_address" table 200
	ip route add "$client_address" dev vs src "$server_address" table 200
	for name in vc vs; do
		ip rule add pref 10 iif "$name" lookup local
	done
	ip rule add pref 20 to "$server_address" lookup 200
	ip rule add pref 20 to "$client_address" lookup 200
	ip rule add pref 100 lookup local
	ip rule delete pref 0
}

wire_down()
{
	local name

	ip rule add pref 0 lookup local
	for name in 10 20 100; do
		ip rule flush pref "$name"
	done
	for name in ziwc ziws; do
		rdma link delete "$name"
	done
	for name in vc vs wire; do
		ip link delete "$name"
	done
}

# shellcheck disable=SC2034 # for the scripts
two_machines()
{
	two=1 wire=(eth0)
	client_device=ziw0 server_device=ziw0 client_address=10.9.0.1 server_address=10.9.0.2
	if [[ ${1-} == --do ]]; then
		"${@:2}"
		exit
	fi
	on_machine_1
	at_exit 'on_server device_down; device_down'
	device_up
	on_server device_up
}

device_up()
{
	rdma link add ziw0 type ziw netdev eth0
}

device_down()
{
	rdma link delete ziw0
}

# on_server FUNCTION...: a function of the script, done by the server; it leaves no variables behind.
on_server()
{
	if [[ $two ]]; then
		"$library/remote" "$script" --do "$@"
	else
		"$@"
	fi
}

# The cable is out: both ends lose their carrier; of two machines the client's interface goes down; lo loses all.
cut_wire()
{
	case ${wire[0]} in
	eth0) ip link set eth0 down ;;
	lo) disturbed loss 100% ;;
	*)
		ip link set vcp down
		ip link set vsp down
		;;
	esac
}

heal_wire()
{
	case ${wire[0]} in
	eth0) ip link set eth0 up ;;
	lo) undisturbed ;;
	*)
		ip link set vcp up
		ip link set vsp up
		;;
	esac
}

cut_and_heal()
{
	cut_wire
	sleep "$1"
	heal_wire
}

# disturbed OPTION...: what is sent over the wire, as netem has it.
disturbed()
{
	local name

	for name in "${wire[@]}"; do
		tc qdisc replace dev "$name" root netem "$@"
	done
}

undisturbed()
{
	local name

	for name in "${wire[@]}"; do
		tc qdisc delete dev "$name" root 2> /dev/null || :
	done
}

# on_rdma COMMAND...: it succeeds, and something went over the client's device.
on_rdma()
{
	sends "$client_device" "$@"
}

# verify FILE LIMIT OPTION...: fio writes, reads back and compares, within LIMIT seconds.
verify()
{
	timeout -k 5 "$2" fio --name=verify --filename="$1" --ioengine=libaio --direct=1 --thread --verify=crc32c \
		--do_verify=1 --verify_fatal=1 --output-format=json "${@:3}" > /dev/shm/fio
}

# while_verifying FILE LIMIT COMMAND...: it is run while fio writes 64 KiB blocks to the file and compares; that it is
# meanwhile is made sure of.
while_verifying()
{
	local pid rc=0

	verify "$1" "$2" --rw=randwrite --bs=64k --iodepth=4 --size=16M --loops=2 --rate=8M &
	pid=$!
	sleep 1
	kill -0 "$pid" || fail "fio ended too soon"
	"${@:3}"
	wait "$pid" || rc=$?
	if ((rc)); then
		date
		tail -n 5 "/sys/class/infiniband/$client_device/ziw/ended" || :
		on_server tail -n 5 "/sys/class/infiniband/$server_device/ziw/ended" || :
		fail "fio ended with $rc"
	fi
}

# copy_and_compare MOUNT COUNT: so many files go to /mnt, and are read back by a mount that has nothing in its cache.
# MOUNT takes more mount options.
copy_and_compare()
{
	local n

	mkdir -p /dev/shm/files
	for ((n = 1; n <= $2; n++)); do
		head -c $((n * n * 997)) /dev/urandom > "/dev/shm/files/$n"
	done
	"$1" ""
	on_rdma timeout 60 cp -r /dev/shm/files /mnt/
	umount /mnt
	"$1" ""
	timeout 60 diff -r /dev/shm/files /mnt/files
	umount /mnt
}

# soak SECONDS FILE: verified I/O over a wire that loses packets, and is cut for 2 s each minute. What was done is
# left in /dev/shm/soaked.
soak()
{
	local pid rc=0 end=$((SECONDS + $1)) cuts=0

	disturbed loss 0.5%
	verify "$2" $(($1 + 120)) --rw=randwrite --bsrange=4k-256k --iodepth=8 --size=32M --time_based --runtime="$1" \
		--verify_backlog=64 &
	pid=$!
	while ((SECONDS + 10 < end)); do
		sleep $((end - SECONDS > 65 ? 58 : (end - SECONDS) / 2))
		kill -0 "$pid" 2> /dev/null || break
		cut_and_heal 2
		[[ ${wire[0]} != lo ]] || disturbed loss 0.5%
		cuts=$((cuts + 1))
	done
	wait "$pid" || rc=$?
	undisturbed
	((rc == 0)) || fail "fio ended with $rc after $cuts cuts of the wire"
	((cuts > 0)) || fail "fio ended before the first cut"
	sed -n '/^{/,$p' /dev/shm/fio | jq -r ".jobs[0] | \"\(.write.io_bytes / 1e6 | round) MB written, \" +
		\"\(.read.io_bytes / 1e6 | round) MB read back, in \(.job_runtime / 1000 | round) s, $cuts cuts\"" > /dev/shm/soaked
}

# soak_test WHAT SECONDS FUNCTION...: as the only test.
soak_test()
{
	check "$1$2 s of verified I/O with loss and cuts of the wire" "${@:3}"
	[[ ! -e /dev/shm/soaked ]] || note "$(< /dev/shm/soaked)"
	finish
}
