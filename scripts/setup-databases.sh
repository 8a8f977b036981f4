#!/bin/bash
# Installs PostgreSQL, MariaDB and nginx, on which `make test-all PARTS=fence` tests package fence. If they
# are there, it prints nothing. It installs packages only as root on Debian. If it cannot, it fails.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/debian.sh

missing=()
compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null || missing+=(postgresql)
[ -x /usr/sbin/mariadbd ] || missing+=(mariadb-server)
[ -x /usr/sbin/nginx ] || missing+=(nginx-light)
# Debian's packages start servers of their own, except in this run level.
RUNLEVEL=1 need "${missing[@]}"
