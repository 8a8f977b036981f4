#!/bin/bash
# Runs each test of the recipes many times on zktest, eight processes side by side, which is
# a load by itself, and on 1, 2 and 4 processors. Prints a line for each test that failed,
# with the number of its runs and of its failures, and fails if there are any.
#
#	./scripts/stress.sh [regexp of the tests]
#
# RUNS is how often each test runs (1000), SECONDS_EACH how long at most (30): slow tests run
# less often. PACKAGES are those whose tests run (all that scripts/packages.sh recipes prints).
set -euo pipefail
cd "$(dirname "$0")/.."
export RUNS=${RUNS:-1000} SECONDS_EACH=${SECONDS_EACH:-30} ZK_HARNESS=zktest

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
export dir

stress() { # a package's directory and the name of a test in it
	local test=$2 bin=$dir/${1//\//_}.test runs=0 failed=0 end=$((SECONDS + SECONDS_EACH)) n=1
	local log="$dir/$test.log"
	cd "$1"
	while [ "$runs" -lt "$RUNS" ] && [ "$SECONDS" -lt "$end" ]; do
		if ! "$bin" -test.run "^$test\$" -test.count "$n" -test.cpu 1,2,4 >"$log" 2>&1; then
			local fails
			fails=$(grep -c "^--- FAIL: $test" "$log" || true)
			[ "$fails" -gt 0 ] || fails=1 # it crashed
			failed=$((failed + fails))
			[ -e "$dir/$test.failed" ] || cp "$log" "$dir/$test.failed"
		fi
		runs=$((runs + 3 * n))
		n=10
	done
	[ "$failed" = 0 ] || echo "$test: $failed of $runs"
	echo "$runs" >>"$dir/runs"
}
export -f stress

tests=
for p in ${PACKAGES:-$(./scripts/packages.sh recipes)}; do
	bin=$dir/${p//\//_}.test
	go test -c -o "$bin" "$p"
	names=$(cd "$p" && "$bin" -test.list "${1:-.}" 2>/dev/null | grep '^Test' | grep -v -e '^TestLong' -e 'Process$' || true)
	[ -z "$names" ] || tests+=$(sed "s|^|$p |" <<<"$names")$'\n'
done
tests=${tests%$'\n'}
[ -n "$tests" ] || { echo "stress: no test is named ${1:-.}" >&2; exit 1; }
echo "$tests" | xargs -P 8 -L 1 bash -c 'stress "$@"' - | tee "$dir/result"
awk -v n="$(wc -l <<<"$tests")" '{ s += $1 } END { print "stress: " n " tests, " s " runs" }' "$dir/runs"
[ ! -s "$dir/result" ] || { tail -n 40 "$dir"/*.failed; exit 1; }
