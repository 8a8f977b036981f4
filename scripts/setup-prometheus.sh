#!/bin/bash
# Installs prometheus and promtool, with which `make test-all PARTS=prometheus` tests the alert rules. If
# they are there, it prints nothing. It installs packages only as root on Debian. If it cannot,
# it fails.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/debian.sh

command -v prometheus >/dev/null && command -v promtool >/dev/null && exit
if ! root_on_debian; then
	say "not root on Debian: install prometheus and promtool, of version 2.42 or later"
	exit 1
fi
# Debian's package starts a server of its own, except in this run level.
RUNLEVEL=1 install_packages prometheus
