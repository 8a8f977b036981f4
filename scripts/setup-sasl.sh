#!/bin/bash
# Installs what the tests of zkkrb5 need from Debian's packages: an MIT KDC, kinit, faketime, and kazoo
# with SASL. The tests run a KDC of their own in a folder of theirs.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/debian.sh

packages=(krb5-kdc krb5-admin-server krb5-user faketime python3-kazoo python3-pure-sasl)
dpkg-query -W "${packages[@]}" >/dev/null 2>&1 || need "${packages[@]}"
