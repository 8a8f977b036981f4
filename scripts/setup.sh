#!/bin/bash
# Installs what `make test` and demos on a real server need: a C compiler for the race
# detector, procps for tests of zkr, jq for the runbook of docs/zkr.md, redis-server for
# docs/fencing.md, and a way to run ZooKeeper. If all is there, it prints nothing. It installs
# packages only as root on Debian. Elsewhere it goes on without, and internal/zkserver/prepare reports
# what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

. scripts/debian.sh

engine_answers() { command -v docker >/dev/null && timeout 10 docker version >/dev/null 2>&1; }

# With DOCKER_HOST set, the user has chosen an engine, and starting another one
# here does not help.
may_start_engine() { root_on_debian && [ -z "${DOCKER_HOST:-}" ]; }

start_engine() {
	if ! command -v dockerd >/dev/null || ! command -v docker >/dev/null; then
		install_packages docker.io ca-certificates || return 1
		engine_answers && return 0 # the package may have started dockerd
	fi
	say "starting dockerd"
	local log=/var/log/dockerd.log pid
	# In a session of its own, so that it outlives this script.
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
	install_packages gcc libc6-dev || say "cannot install a C compiler: go test -race will fail"
fi

if ! command -v pkill >/dev/null && root_on_debian; then
	install_packages procps || say "cannot install procps: some tests of zkr will fail"
fi
if ! command -v jq >/dev/null && root_on_debian; then
	install_packages jq || say "cannot install jq: the test of the runbook will fail"
fi

if ! command -v redis-server >/dev/null && root_on_debian; then
	RUNLEVEL=1 install_packages redis-server || say "cannot install redis-server: the test of the fence in Redis will fail"
fi

if [ -z "${ZK_SERVERS:-}" ] && [ "${ZK_HARNESS:-docker}" = docker ] && ! engine_answers; then
	if may_start_engine; then
		start_engine || say "cannot start Docker, going on without it"
	fi
fi

# This chooses how to run ZooKeeper, as the tests do, and fetches or builds what
# that needs, so that no test has to wait for it.
go run ./internal/zkserver/prepare
