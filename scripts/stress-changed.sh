#!/bin/bash
# Runs scripts/stress.sh on the tests of the recipes in files that have changed since SINCE (by
# default the commit before the last one), for a minute in all. A file that has only moved
# has not changed. Of more than 120 tests it takes a share, another one at each commit.
set -euo pipefail
cd "$(dirname "$0")/.."

files=
packages=
for p in $(./scripts/recipes.sh); do
	dir=${p#.}
	dir=${dir#/}
	changed=$(git diff --name-only --diff-filter=d -M "${SINCE:-HEAD~1}" -- '*_test.go' | grep "^${dir:+$dir/}[^/]*$" || true)
	[ -z "$changed" ] || { files+=" $changed"; packages+=" $p"; }
done
[ -n "$files" ] || { echo "stress: no test of the recipes has changed"; exit 0; }
# shellcheck disable=SC2086 # several files
tests=$(sed -n 's/^func \(Test[A-Za-z0-9_]*\)(t \*testing.T.*/\1/p' $files | grep -v -e '^TestLong' -e 'Process$' || true)
[ -n "$tests" ] || { echo "stress: no test of the recipes has changed"; exit 0; }
n=$(wc -l <<<"$tests")
shares=$(((n + 119) / 120))
if [ "$shares" -gt 1 ]; then
	tests=$(awk -v k="$shares" -v turn="$(git rev-list --count HEAD)" 'NR % k == turn % k' <<<"$tests")
	echo "stress: $(wc -l <<<"$tests") of $n tests that have changed; make stress takes all"
	n=$(wc -l <<<"$tests")
fi
each=$((60 * 8 / n))
export SECONDS_EACH=$((each < 1 ? 1 : each > 20 ? 20 : each)) PACKAGES=$packages
exec ./scripts/stress.sh "^($(tr '\n' '|' <<<"$tests" | sed 's/|$//'))\$"
