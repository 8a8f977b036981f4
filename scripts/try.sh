#!/bin/bash
# Runs what judges a change of a package: its tests, what each call costs, what the documents say of
# log records, the simulations that use it, and some of its mutants, others at each commit. It needs
# neither Docker nor Java.
#
#	./scripts/try.sh line    internal/line; also: internal/line, zktest, cmd/zkr, . (the root)
set -euo pipefail
cd "$(dirname "$0")/.."
export ZK_HARNESS=zktest GOGC=${GOGC:-400}

package=${1:-}
[ -n "$package" ] || { sed -n 's/^#	//p' "$0" >&2 && exit 2; }
[ -d "internal/$package" ] && [ "$package" != . ] && package=internal/$package
[ -d "$package" ] || { echo "try: no package $package" >&2 && exit 2; }

case $package in
internal/keep) worlds=Kept ;;
internal/queue*) worlds=Queue ;;
internal/barrier) worlds=Barrier ;;
internal/semaphore) worlds=Semaphore ;;
internal/election) worlds=Election ;;
internal/group) worlds=Group ;;
internal/watch) worlds='Watch|Group' ;;
internal/counter) worlds=Counter ;;
internal/shards) worlds=Shards ;;
internal/line) worlds='Mutex|Delay|RWLock|Gate' ;;
*) worlds=. ;;
esac

set -x
go test -parallel 8 -skip '^Test(Real|Long)' "./$package" ./internal/costs
go run ./internal/floors && go test -run 'Logs|Documents' .
go test -count=1 ./internal/sim -run "$worlds"
go run ./internal/mutants -in "$package" -most 5
