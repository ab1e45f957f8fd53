# shellcheck shell=sh
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# For both stages of a test machine's boot, the first of which has busybox's shell only.

# share NAME DIR OPTIONS: mount what the host shares as NAME: over virtio-9p in QEMU; in User Mode
# Linux, which is given a directory of links to them, by path.
share()
{
	shares=$(sed -n 's/.*ziw\.shares=\([^ ]*\).*/\1/p' /proc/cmdline)
	if [ "$shares" ]; then
		# busybox in both: it uses the older of the two mount calls, whose options hostfs reads as a path.
		busybox mount -t hostfs -o "$3,$shares/$1" "$1" "$2"
		return
	fi
	case $3 in
	# Nobody changes these as long as the machine runs.
	ro) set -- "$1" "$2" ro,cache=loose ;;
	esac
	mount -t 9p -o "trans=virtio,version=9p2000.L,msize=512000,$3" "$1" "$2"
}
