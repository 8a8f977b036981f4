#!/bin/bash
# Installs chromium, in which `make test-all PARTS=page` tests the page of zkr serve. If it is there, it
# prints nothing. It installs packages only as root on Debian. If it cannot, it fails.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/debian.sh

for name in chromium chromium-browser google-chrome; do
	command -v "$name" >/dev/null && exit
done
if ! root_on_debian; then
	say "not root on Debian: install chromium"
	exit 1
fi
install_packages chromium fonts-dejavu-core
