# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# shellcheck disable=SC2034,SC2154 # the variables are those of start in run
#
# How run starts a stock Debian kernel: QEMU under software emulation, so that any machine will do.

# backend_prepare SERIES: sets release, kernel, initramfs, console and cpu_mhz.
backend_prepare()
{
	release=$(release_of "$1" "${system:-$root}")
	kernel=${system:-$root}/boot/vmlinuz-$release
	console=/dev/hvc0 cpu_mhz=
	make_initramfs "$release"
}

# backend_command N: fills the array "command" with the process that is machine N.
# Reads: vm (its directory), shares, two, cpus, mem, icount, plugin, system.
backend_command()
{
	local n=$1 accel=tcg,thread=multi cpu=max entry name read_only append=''
	local nine=security_model=none,multidevs=remap

	command=(setpriv --pdeathsig KILL qemu-system-x86_64 -nodefaults -no-reboot -display none -monitor none
		-machine q35 -smp "$cpus" -m "${mem:-4G}")
	if [[ $icount ]]; then
		# Guest time is instructions executed, 1 ns each; without the two flags a whole memcpy is one.
		accel=tcg,thread=single cpu=max,-erms,-fsrm
		command+=(-icount "shift=0,sleep=off")
	fi
	[[ ! $plugin ]] || command+=(-plugin "$plugin")
	# No login on the consoles, which have other uses.
	[[ ! $system ]] || append=" ziw.system systemd.getty_auto=no systemd.show_status=no"
	# On a busy host the first ticks may be too late for the kernel's test of its timer, which then panics.
	command+=(-accel "$accel" -cpu "$cpu" -kernel "$kernel" -initrd "$initramfs"
		-append "console=ttyS0 loglevel=4 panic=-1 oops=panic mitigations=off no_timer_check$append"
		-serial "file:$vm/serial"
		-chardev "stdio,id=console,signal=off"
		-device virtio-serial-pci -device "virtconsole,chardev=console")
	for entry in "${shares[@]}"; do
		name=${entry%%:*} read_only=on
		[[ $name != control && $name != host && ! ($name == root && $system) ]] || read_only=off
		command+=(-fsdev "local,id=$name,path=${entry#*:},readonly=$read_only,$nine"
			-device "virtio-9p-pci,fsdev=$name,mount_tag=$name")
	done
	# Two interfaces, on one wire.
	[[ ! $system ]] || command+=(
		-netdev "hubport,id=net1,hubid=0" -device "virtio-net-pci,netdev=net1,mac=52:54:00:09:00:11,romfile="
		-netdev "hubport,id=net2,hubid=0" -device "virtio-net-pci,netdev=net2,mac=52:54:00:09:00:12,romfile=")
	[[ ! $two ]] || command+=(
		-netdev "dgram,id=net,local.type=unix,local.path=$work/net$n,remote.type=unix,remote.path=$work/net$((3 - n))"
		-device "virtio-net-pci,netdev=net,mac=52:54:00:09:00:0$n,romfile=")
}

# A filter for a kernel log, dropping reports known to be none of ours: here there are none.
backend_known_faults()
{
	cat
}
