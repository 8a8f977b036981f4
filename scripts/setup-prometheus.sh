#!/bin/bash
# Installs promtool, with which `make test-all PARTS=prometheus` tests the alert rules. If it is there, it
# prints nothing. It installs packages only as root on Debian. If it cannot, it fails.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/debian.sh

command -v promtool >/dev/null && exit
# Version 2.42 or later. Debian's package starts a server of its own, except in this run level.
RUNLEVEL=1 need prometheus
