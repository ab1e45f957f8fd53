#!/bin/bash
# SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
#
# Kernel consumers that take InfiniBand devices only: that they leave ziw alone, and do what they do without RDMA.
# Where each says no is in Documentation/ulp.md. Runs on a test machine; prints TAP.
set -euo pipefail
. "$(dirname "$0")/../lib/tap.sh"
. "$(dirname "$0")/lib.sh"

rds_refused()
{
	modprobe -a rds rds_rdma || skip "kernel $(uname -r) has no RDS"
	! lsmod | has '^rds_tcp' || fail "rds_tcp is loaded, and would take over"
	# EADDRNOTAVAIL: no transport of RDS has this address.
	python3 - "$server_address" << 'PYTHON'
import errno, socket, sys
s = socket.socket(21, socket.SOCK_SEQPACKET, 0)
try:
    # Python knows no addresses of RDS: IPv4's are passed by libc.
    import ctypes, struct
    address = struct.pack("=H2s4s8x", socket.AF_INET, struct.pack("!H", 4000), socket.inet_aton(sys.argv[1]))
    libc = ctypes.CDLL(None, use_errno=True)
    rc = libc.bind(s.fileno(), address, len(address))
    error = ctypes.get_errno()
finally:
    s.close()
print("bind:", rc, errno.errorcode.get(error, error) if rc else "")
sys.exit(0 if rc and error == errno.EADDRNOTAVAIL else 1)
PYTHON
	modprobe -r rds_rdma rds
}

smc_falls_back()
{
	local before after

	modprobe smc 2> /dev/null || skip "kernel $(uname -r) has no SMC"
	before=$(sent "$client_device")
	timeout 30 python3 "$(dirname "$0")/smc-check" "$server_address"
	after=$(sent "$client_device")
	((after == before)) || fail "$client_device was used"
	modprobe -r smc
}

smb_direct()
{
	local option

	for option in CIFS_SMB_DIRECT SMB_SERVER_SMBDIRECT; do
		grep -q "^CONFIG_$option=y" "/boot/config-$(uname -r)" ||
			skip "kernel $(uname -r) is built without $option"
	done
	fail "this kernel has SMB Direct: it needs a test"
}

modprobe ziw
hosts_up "$@"
check "RDS: bind is refused, as rds_rdma takes InfiniBand only, and its module unloads" rds_refused
check "SMC: lists no device of ziw's, and falls back to TCP with the data the same" smc_falls_back
check "SMB Direct" smb_direct
finish
