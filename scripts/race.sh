#!/bin/bash
# Runs the tests of packages with the race detector, on zktest where they can.
#
#	./scripts/race.sh [package...]
#
# Without packages it takes those with tests that have changed since SINCE (by default the
# commit before the last one). Each simulation runs in a process of its own.
set -uo pipefail
cd "$(dirname "$0")/.."

# The race detector itself crashes now and then, more often in processes that live long:
# with a failed check (ThreadSanitizer: CHECK failed: tsan_rtl.cpp), or with SIGSEGV in its
# C code. There is no other C code here. The command then runs again, up to three times in
# all, unless a test has failed or a race was found.
retry() {
	local try status
	for try in 1 2 3; do
		"$@" 2>&1 | tee "$log"
		status=${PIPESTATUS[0]}
		if [ "$status" = 0 ] || ! grep -q -e '^ThreadSanitizer: CHECK failed: tsan_rtl' -e '^SIGSEGV: segmentation violation' "$log" ||
			grep -q -e '--- FAIL' -e 'DATA RACE' "$log"; then
			return "$status"
		fi
		echo "race: try $try: the race detector itself has failed" >&2
	done
	return "$status"
}

changed() {
	git diff --name-only --diff-filter=d "${SINCE:-HEAD~1}" -- '*.go' | xargs -r -n 1 dirname | sort -u |
		while read -r dir; do compgen -G "$dir/*_test.go" >/dev/null && echo "./$dir"; done
}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
log=$dir/log
packages=("$@")
[ $# -gt 0 ] || mapfile -t packages < <(changed)
real=() inside=() status=0
sim=
for p in "${packages[@]}"; do
	if [ "$p" = ./internal/sim ]; then
		sim=$p
	elif ./scripts/packages.sh servers | grep -qxF "$p"; then
		real+=("$p")
	else
		inside+=("$p")
	fi
done
[ ${#packages[@]} != 0 ] || echo "race: no package with tests has changed"
if [ ${#inside[@]} != 0 ]; then
	ZK_HARNESS=zktest retry go test -race -count=1 -timeout 15m -parallel 8 "${inside[@]}" || status=1
fi
if [ ${#real[@]} != 0 ]; then
	retry go test -race -count=1 -timeout 15m "${real[@]}" || status=1
fi
if [ -n "$sim" ]; then
	go test -race -c -o "$dir/sim" "$sim" || exit 1
	for test in $(cd "$sim" && "$dir/sim" -test.list .); do
		echo "$test"
		retry "$dir/sim" -test.run "^$test\$" || status=1
	done
fi
exit "$status"
