#!/bin/bash
# Installs the libraries in Java and Python, and the servers, that `make bench` compares with.
# If all is there, it prints nothing. It installs packages only as root on Debian. Whatever is
# missing afterwards is not measured, and the report says so.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/debian.sh

missing=()
command -v java >/dev/null || missing+=(default-jre-headless)
[ -e /usr/share/java/curator-recipes.jar ] || missing+=(libcurator-recipes-java)
/usr/bin/python3 -c 'import kazoo' 2>/dev/null || missing+=(python3-kazoo)
command -v etcd >/dev/null || missing+=(etcd-server)
command -v redis-server >/dev/null || missing+=(redis-server)

[ ${#missing[@]} = 0 ] && exit
if ! root_on_debian; then
	say "not root on Debian, going on without ${missing[*]}"
else
	install_packages "${missing[@]}" || say "cannot install ${missing[*]}, going on without"
fi
