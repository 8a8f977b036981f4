#!/bin/bash
# Runs each test of a package with the race detector, in a process of its own.
#
#	./scripts/race-alone.sh ./internal/sim
set -euo pipefail
retry=$(realpath "$(dirname "$0")")/race-retry.sh
cd "$(dirname "$0")/../$1"

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go test -race -c -o "$dir/test" .
tests=$("$dir/test" -test.list .)
[ -n "$tests" ] || { echo "race-alone: $1 has no tests" >&2 && exit 1; }
for test in $tests; do
	echo "$test"
	"$retry" "$dir/test" -test.run "^$test\$"
done
