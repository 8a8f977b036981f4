#!/bin/bash
# Installs chromium, in which `make test-all PARTS=page` tests the page of zkr serve. If it is there, it
# prints nothing. It installs packages only as root on Debian. If it cannot, it fails.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/debian.sh

for name in chromium chromium-browser google-chrome; do
	command -v "$name" >/dev/null && exit
done
need chromium fonts-dejavu-core
