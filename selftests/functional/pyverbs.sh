#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# pyverbs.sh: rdma-core's own tests (its pyverbs suite) on a ziw device. Runs on a test machine; prints TAP.
# TEST_FILTER, if set, is a regular expression of the tests to run. Documentation/verbs.md says why tests are skipped.
#
# Tests with rdma_cm are two processes on one host:
#
#	eth0 10.9.0.1/24 fd09::1/64 (ziw0) ---- veth ---- eth1
set -euo pipefail
here=$(realpath "$(dirname "$0")")

work=$(mktemp -d)
clean_up()
{
	rdma link delete ziw0 2> /dev/null || :
	ip link delete eth0 2> /dev/null || :
	rm -rf "$work"
}
trap clean_up EXIT

ip link set lo up
ip link add eth0 type veth peer name eth1
sysctl -qw net.ipv6.conf.eth0.accept_dad=0
ip addr add 10.9.0.1/24 dev eth0
ip addr add fd09::1/64 dev eth0 nodad
ip link set eth0 up
ip link set eth1 up
rdma link add ziw0 type ziw netdev eth0
modprobe -a rdma_ucm ib_uverbs

# The tests of the version that pyverbs is of; the package itself has them compressed, and in part.
tar -xf /usr/src/rdma-core/rdma-core_*.orig.tar.gz -C "$work" --strip-components=1 --wildcards '*/tests/*'
cd "$work"
python3 "$here/pyverbs_tap.py" "$work/tests" ziw0
