# shellcheck shell=sh
# shellcheck disable=SC2034 # for what sources this
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# For both stages of a test machine's boot, the first of which has busybox's shell only.

# share NAME ro|rw: sets type and options to those that mount what the host shares as NAME: over
# virtio-9p in QEMU; by path in User Mode Linux, which is told where all of them are.
share()
{
	read -r cmdline < /proc/cmdline
	case $cmdline in
	*ziw.shares=*)
		type=hostfs options=${cmdline##*ziw.shares=}
		options=$2,${options%% *}/$1
		;;
	*)
		type=9p options=$2,trans=virtio,version=9p2000.L,msize=512000
		# Nobody changes these as long as the machine runs.
		[ "$2" = rw ] || options=$options,cache=loose
		;;
	esac
}
