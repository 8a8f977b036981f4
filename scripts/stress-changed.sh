#!/bin/bash
# Runs scripts/stress.sh on the root's tests in files that have changed since SINCE (by default
# the commit before the last one), for two minutes in all.
set -euo pipefail
cd "$(dirname "$0")/.."

files=$(git diff --name-only --diff-filter=d "${SINCE:-HEAD~1}" -- '*_test.go' | grep -v / || true)
[ -n "$files" ] || { echo "stress: no test of the root has changed"; exit 0; }
# shellcheck disable=SC2086 # several files
tests=$(sed -n 's/^func \(Test[A-Za-z0-9_]*\)(t \*testing.T.*/\1/p' $files | grep -v -e '^TestLong' -e 'Process$' || true)
[ -n "$tests" ] || { echo "stress: no test of the root has changed"; exit 0; }
n=$(wc -l <<<"$tests")
each=$((120 * 8 / n))
export SECONDS_EACH=$((each < 1 ? 1 : each > 20 ? 20 : each))
exec ./scripts/stress.sh "^($(tr '\n' '|' <<<"$tests" | sed 's/|$//'))\$"
