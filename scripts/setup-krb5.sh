#!/bin/bash
# Installs what the tests of zkkrb5 need from Debian's packages: an MIT KDC, kinit and faketime. The
# tests run a KDC of their own in a folder of theirs.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/debian.sh

for tool in /usr/sbin/krb5kdc /usr/sbin/kadmin.local /usr/bin/kinit /usr/bin/faketime; do
	if [ ! -x "$tool" ]; then
		root_on_debian || { say "install krb5-kdc, krb5-admin-server, krb5-user and faketime: not root on Debian"; exit 1; }
		install_packages krb5-kdc krb5-admin-server krb5-user faketime
		break
	fi
done
