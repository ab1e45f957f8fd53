# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# What the scripts of selftests/vm share; sourced, never run.

# shellcheck disable=SC2034 # what sources this uses them
vm_dir=$(realpath "$(dirname "${BASH_SOURCE[0]}")")
# shellcheck disable=SC2034
repo=$(realpath "$vm_dir/../..")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ziw
# shellcheck disable=SC2034
out=$cache/out

# Kernel series the tests know. "debug" is the User Mode Linux kernel of build-debug.
KERNELS=(6.1 6.12 7.3)

die()
{
	printf '%s: %s\n' "${0##*/}" "$*" >&2
	exit 105
}

say()
{
	printf 'ziw: %s\n' "$*" >&2
}

need_root()
{
	((EUID == 0)) || die "must be root: run 'sudo -E ${0/#$PWD\//}'"
}

# need_space DIR MIB: refuse early rather than fail halfway through.
need_space()
{
	local free

	mkdir -p "$1"
	free=$(($(df --output=avail -k "$1" | tail -n 1) / 1024))
	((free >= $2)) ||
		die "$1 has $free MiB free, $2 needed: free some, or set XDG_CACHE_HOME to a larger disk"
}

# need_command COMMAND PACKAGE
need_command()
{
	command -v "$1" > /dev/null || die "$1 is missing: apt-get install $2"
}

# child COMMAND...: run it so that a signal is acted on at once, and takes it along.
child()
{
	setpriv --pdeathsig TERM "$@" <&0 &
	wait $!
}

# The root is named by the text that made it, so that an old one is never taken for a new one.
root_dir()
{
	printf '%s/root-%s\n' "$cache" "$(sha256sum < "$vm_dir/make-root" | cut -c 1-12)"
}

# hold_root: make the root if need be, and keep it from being removed while this process lives.
hold_root()
{
	local fd

	root=$(root_dir)
	[[ -e $root/.complete ]] || child "$vm_dir/prepare"
	exec {fd}<> "$root.lock"
	flock -s "$fd"
	[[ -e $root/.complete ]] || die "$root vanished: try again"
}

# release_of SERIES [ROOT]: the newest installed kernel release of 6.1, 6.12 or 7.3; needs hold_root, or a ROOT.
release_of()
{
	local found

	found=$(find "${2-$root}/usr/lib/modules" -mindepth 1 -maxdepth 1 -name "$1.*" -printf '%f\n' |
		sort -V | tail -n 1)
	[[ -n $found ]] || die "no kernel '$1' (there are: ${KERNELS[*]} debug)"
	printf '%s\n' "$found"
}

# progress LABEL LOGFILE COMMAND...: run COMMAND with its output in LOGFILE, show the time it takes,
# and show the end of LOGFILE if it fails.
progress()
{
	local label=$1 log=$2 start=$SECONDS ticker rc=0 every=20

	shift 2
	[[ ! -t 2 ]] || every=1
	mkdir -p "${log%/*}"
	say "$label ..."
	(
		# Not sleep, which would outlive this shell by a while.
		exec {never}<> <(:)
		until read -rt 1 -u "$never"; do
			# $$ is the script, not this subshell: stop when it was killed.
			[[ -e /proc/$$/exe ]] || exit
			(((SECONDS - start) % every == 0)) || continue
			if [[ -t 2 ]]; then
				printf '\r\033[Kziw: %s ... %d s ' "$label" $((SECONDS - start)) >&2
			else
				say "$label ... $((SECONDS - start)) s"
			fi
		done
	) &
	ticker=$!
	child "$@" > "$log" 2>&1 < /dev/null || rc=$?
	kill "$ticker" 2> /dev/null || :
	wait "$ticker" 2> /dev/null || :
	[[ ! -t 2 ]] || printf '\r\033[K' >&2
	if ((rc)); then
		tail -n 40 "$log" >&2
		say "$label: failed after $((SECONDS - start)) s (log: $log)"
		return "$rc"
	fi
	say "$label: $((SECONDS - start)) s"
}

# What in a kernel log means that the kernel found a fault, whatever the command said.
# shellcheck disable=SC2034 # for those that source this
FAULTS='WARNING:|BUG:|Oops|general protection|Call Trace|Kernel panic|kernel panic'
FAULTS+='|possible recursive locking|possible circular locking|inconsistent lock state|INFO: possible'
FAULTS+='|suspicious RCU usage|=====================|KASAN|KCSAN|KFENCE|UBSAN|refcount_t|unreferenced object'
FAULTS+='|blocked for more than|soft lockup|hard LOCKUP|rcu: INFO|detected stalls|self-detected stall'
FAULTS+='|unregister_netdevice: waiting for|scheduling while atomic|sleeping function called'
FAULTS+='|Objects remaining|list_add corruption|list_del corruption|DEBUG_LOCKS_WARN_ON|ODEBUG'
FAULTS+='|unable to handle|Bad page state|double free|ziw: leak:|initramfs: '
FAULTS+='|leak detector disabled|turning off the locking|lockdep is off|Attempt to release'
