#!/bin/bash
# Makes sure that `make test` and `make demo-zk` find what they need: a C compiler
# for the race detector, and a way to run ZooKeeper. It says nothing when all
# is there. Packages are installed only as root on Debian; elsewhere it goes on
# with what there is, and the harness names what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "setup: $*" >&2; }

root_on_debian() { [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ]; }

install_packages() {
	say "installing $*"
	export DEBIAN_FRONTEND=noninteractive
	local wait="DPkg::Lock::Timeout=300"
	apt-get -o "$wait" -qq update &&
		apt-get -o "$wait" -qq install -y --no-install-recommends "$@" >/dev/null
}

engine_answers() { command -v docker >/dev/null && timeout 10 docker version >/dev/null 2>&1; }

# A context or DOCKER_HOST that points elsewhere is somebody's choice. There is
# no engine to start for it here.
engine_is_ours_to_start() { root_on_debian && [ -z "${DOCKER_HOST:-}" ]; }

start_engine() {
	if ! command -v dockerd >/dev/null || ! command -v docker >/dev/null; then
		install_packages docker.io ca-certificates || return 1
		engine_answers && return 0 # the package may have started it
	fi
	say "starting dockerd"
	local log=/var/log/dockerd.log pid
	# Out of this script's session: it is to outlive it.
	setsid nohup dockerd >>"$log" 2>&1 </dev/null &
	pid=$!
	for _ in $(seq 150); do
		engine_answers && return 0
		if ! kill -0 "$pid" 2>/dev/null; then
			break
		fi
		sleep 0.2
	done
	tail -n 3 "$log" >&2
	return 1
}

if ! command -v "${CC:-gcc}" >/dev/null && root_on_debian; then
	install_packages gcc libc6-dev || say "no C compiler: go test -race will not work"
fi

if [ -z "${ZK_SERVERS:-}" ] && [ "${ZK_HARNESS:-docker}" = docker ] && ! engine_answers; then
	if engine_is_ours_to_start; then
		start_engine || say "no Docker here, going on without"
	fi
fi

# The harness itself chooses the way, and fetches or builds what that needs, so
# that no test has to wait for it.
go run ./internal/zkserver/prepare
