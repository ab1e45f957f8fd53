#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# params.sh: parameters of the module and of a device: defaults, good values, and bad ones, which are
# refused with a log line that says what is good. Runs on a test machine; prints TAP.
set -euo pipefail
here=$(realpath "$(dirname "$0")")
. "$here/../lib/tap.sh"
. "$here/../lib/topology.sh"

module=/sys/module/ziw/parameters

# NAME DEFAULT GOOD,... BAD,... RANGE
PARAMETERS=(
	"copy_threshold|16384|0,1,4096,0x10000,4294967295|-1,4294967296,x,,1 2|a number of bytes, 0 to 4294967295"
	"max_fpdu|0|0,128,1500,64768|127,64769,-1,y|0, or 128 to 64768 bytes"
	"collect|2|0,1,127|128,-1,x|a number of work requests, 0 to 127"
	"doorbell_poll|0|0,1,1000000|1000001,-1,y|0 to 1000000 microseconds"
	"setup_timeout|15|1,60|0,61,1.5|1 to 60 seconds"
	"close_timeout|5|1,60|0,61,|1 to 60 seconds"
	"user_timeout|30|10,3600|9,3601|10 to 3600 seconds"
	"crc|required|off,preferred,required|on,offf,2|off, preferred or required"
	"mpa_rev|2|1,2|0,3|1 or 2"
	"markers|0|0,1|2,yes|0 or 1"
	"rtr|send write read|send,write,read,send read,send write read,none|no,none send,send+read,|none, or one or more of: send write read"
)

# set_to FILE VALUE
set_to()
{
	printf '%s\n' "$2" > "$1"
}

# lines_with TEXT: how many lines of the log have it.
lines_with()
{
	dmesg | grep -cF -- "$1" || :
}

# refused FILE VALUE RANGE: EINVAL, the old value stays, and the log says why.
refused()
{
	local before said lines

	before=$(< "$1")
	lines=$(lines_with "it is $3")
	said=$(LC_ALL=C bash -c 'printf "%s\n" "$2" > "$1"' - "$1" "$2" 2>&1) && { echo "took '$2'"; return 1; }
	[[ $said == *"Invalid argument"* ]] || { echo "'$2': $said"; return 1; }
	[[ $(< "$1") == "$before" ]] || { echo "'$2' changed it"; return 1; }
	(($(lines_with "it is $3") == lines + 1)) || { echo "no log line has '$3'"; return 1; }
}

# takes FILE DEFAULT GOOD BAD RANGE
takes()
{
	local file=$1 default=$2 range=$5 value
	local -a good bad

	IFS=, read -r -a good <<< "$3"
	IFS=, read -r -a bad <<< "$4"
	[[ $(< "$file") == "$default" ]] || { echo "default is $(< "$file")"; return 1; }
	for value in "${good[@]}"; do
		set_to "$file" "$value"
		[[ $value == 0x* || $(< "$file") == "$value" ]] || { echo "'$value' became $(< "$file")"; return 1; }
	done
	for value in "${bad[@]}"; do
		refused "$file" "$value" "$range"
	done
	set_to "$file" "$default"
}

every_parameter_takes_in()
{
	local entry name default good bad range

	for entry in "${PARAMETERS[@]}"; do
		IFS='|' read -r name default good bad range <<< "$entry"
		echo "$name:"
		takes "$1/$name" "$default" "$good" "$bad" "$range"
	done
	# None that this does not know of; what connections ended is no parameter.
	# "ended" is no parameter, and "first_msn" is one of the debug kernel only.
	[[ $(find "$1" -type f ! -name ended ! -name first_msn | wc -l) == "${#PARAMETERS[@]}" ]]
}

device_begins_with_the_modules()
{
	set_to "$module/user_timeout" 77
	set_to "$module/rtr" "write send"
	rdma link add ziwx type ziw netdev lo
	[[ $(< /sys/class/infiniband/ziwx/ziw/user_timeout) == 77 ]]
	[[ $(< /sys/class/infiniband/ziwx/ziw/rtr) == "send write" ]]
	set_to "$module/user_timeout" 30
	set_to "$module/rtr" "send write read"
	[[ $(< /sys/class/infiniband/ziwx/ziw/user_timeout) == 77 ]]
	rdma link delete ziwx
}

devices_are_independent()
{
	set_to /sys/class/infiniband/ziwa/ziw/crc off
	[[ $(< /sys/class/infiniband/ziwb/ziw/crc) == required ]]
	set_to /sys/class/infiniband/ziwa/ziw/crc required
}

# A parameter that the module is loaded with is checked alike.
module_with_bad_parameter_does_not_load()
{
	local rc=0

	rmmod ziw
	modprobe ziw user_timeout=5 2> /dev/null && rc=1
	modprobe ziw
	return "$rc"
}

at_exit "topology_down ''"
topology_up ''
check "the module's parameters take what they say and refuse the rest" every_parameter_takes_in "$module"
check "a device's parameters take what they say and refuse the rest" \
	every_parameter_takes_in /sys/class/infiniband/ziwa/ziw
check "a device begins with the module's parameters and keeps them" device_begins_with_the_modules
check "a device's parameters are its own" devices_are_independent
topology_down ''
check "a bad parameter keeps the module from loading" module_with_bad_parameter_does_not_load
finish
