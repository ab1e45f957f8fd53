# shellcheck shell=bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# TAP output for the test scripts; sourced.
#
#	. "$(dirname "$0")/../lib/tap.sh"
#	check "what is to be true" function [ARGUMENT...]
#	...
#	finish
#
# A test is a function. It passes when it returns 0 under "set -e", is skipped when it calls
# "skip REASON", and fails otherwise; what a failed one printed is shown. It runs in a subshell; a
# function after_each of the script, if there is one, runs after each. TEST_FILTER, if set, is an extended
# regular expression: tests whose names do not match are left out.

# kselftest's exit code for "skipped".
SKIP=4

tap_number=0
tap_failed=0
tap_log=$(mktemp)
tap_clean_up=()

# has [GREP-OPTION...] PATTERN: whether the input has such a line. Reads all of it: whoever writes to a "grep -q"
# that has seen enough fails, and under pipefail the test with it.
has()
{
	local text

	text=$(cat)
	grep -q "$@" <<< "$text"
}

# at_exit COMMAND: run when the script ends, latest first, however it ends.
at_exit()
{
	tap_clean_up=("$1" "${tap_clean_up[@]}")
}

tap_exit()
{
	local command

	for command in "${tap_clean_up[@]}"; do
		eval "$command" > /dev/null 2>&1 || :
	done
	rm -f "$tap_log"
}
trap tap_exit EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

note()
{
	printf '# %s\n' "$*"
}

skip()
{
	printf '%s\n' "$*"
	exit "$SKIP"
}

# fail MESSAGE: end this test as failed.
fail()
{
	printf '%s\n' "$*"
	exit 1
}

# check NAME FUNCTION [ARGUMENT...]
check()
{
	local name=$1 rc start=$SECONDS

	shift
	[[ ! ${TEST_FILTER-} || $name =~ $TEST_FILTER ]] || return 0
	tap_number=$((tap_number + 1))
	# Not in a condition: there "set -e" would not work inside the function.
	set +e
	(
		trap - EXIT
		set -e
		"$@"
	) > "$tap_log" 2>&1
	rc=$?
	! declare -F after_each > /dev/null || after_each >> "$tap_log" 2>&1
	set -e
	case $rc in
	0) printf 'ok %d - %s # time=%ds\n' "$tap_number" "$name" $((SECONDS - start)) ;;
	"$SKIP") printf 'ok %d - %s # SKIP %s\n' "$tap_number" "$name" "$(tail -n 1 "$tap_log")" ;;
	*)
		printf 'not ok %d - %s\n' "$tap_number" "$name"
		tail -n 60 "$tap_log" | sed 's/^/# /'
		[[ -s $tap_log ]] || note "exit code $rc without a word"
		tap_failed=$((tap_failed + 1))
		;;
	esac
}

finish()
{
	printf '1..%d\n' "$tap_number"
	((tap_failed == 0)) || exit 1
	exit 0
}
