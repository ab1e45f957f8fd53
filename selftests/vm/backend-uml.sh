# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# shellcheck disable=SC2034,SC2154 # the variables are those of start in run
#
# How run starts the debug kernel: User Mode Linux, an ordinary process at native speed. The functions
# are those of backend-qemu.sh.

backend_prepare()
{
	child "$vm_dir/build-debug"
	kernel=$(readlink "$out/debug")/linux
	release=$(basename "$out"/debug/modules/lib/modules/*)
	console=/dev/tty0
	cpu_mhz=$(awk '/^cpu MHz/ { print $4; exit }' /proc/cpuinfo)
	make_initramfs debug
}

# inside_root ROOT SERIAL NAME:DIRECTORY... -- COMMAND...: run COMMAND where the C library is that which
# the kernel was linked with, with each DIRECTORY at /run/NAME, and errors in SERIAL.
inside_root()
{
	local root=$1

	exec 2>> "$2" 3>&2
	shift 2
	mount --bind "$root" "$root"
	mount -t tmpfs run "$root/run"
	while [[ $1 != -- ]]; do
		mkdir "$root/run/${1%%:*}"
		mount --bind "${1#*:}" "$root/run/${1%%:*}"
		shift
	done
	shift
	# The machine's memory is a file in the first of these, or else in /dev/shm, which is faster.
	unset TMPDIR TMP TEMP
	mount -t proc proc "$root/proc"
	mount --rbind /dev "$root/dev"
	mount -t tmpfs tmp "$root/tmp"
	# Not exec: as process 1 of its namespace the kernel could not abort when it panics.
	chroot "$root" "$@" || exit
}

backend_command()
{
	local input=null

	[[ ! $shell ]] || input=fd:0
	# Its helper processes go with it: a PID namespace of its own.
	command=(setpriv --pdeathsig KILL unshare --mount --propagation private --pid --fork --kill-child
		bash -euc "$(declare -f inside_root); inside_root \"\$@\"" -
		"$root" "$vm/serial" "${shares[@]}" --
		"/run/out/$kernel" "mem=${mem:-2G}" "initrd=/run/out/initramfs/${initramfs##*/}" ziw.shares=/run
		uml_dir=/tmp umid=ziw
		"con0=$input,fd:1" con=null ssl=null "ssl0=null,fd:3" console=ttyS0 loglevel=4 quiet)
}

# What the kernel's own start-up, before any module, allocated and lost sight of is UML's: its console
# set-up does. And vmalloc() tells with a stack and a page of numbers when it fails, as it has to where a test
# makes it fail: that report is left out, but for what is in it and is another one.
backend_known_faults()
{
	awk '
	/^(\[[ 0-9.]*\] )?[^ ]+: vmalloc error: size [0-9]+, .*, mode:0x/ {vmalloc = 1}
	vmalloc {
		if (/ pages reserved$/ || /BUG:|WARNING:|KASAN|UBSAN|kernel panic|Kernel panic/)
			vmalloc = 0
		if (vmalloc || / pages reserved$/)
			next
	}
	/^unreferenced object / {object = $0; next}
	object {
		own = /^  comm "swapper", pid 1,/
		if (!own)
			print object
		object = ""
	}
	/^[^ ]/ {own = 0}
	!own
	'
}
