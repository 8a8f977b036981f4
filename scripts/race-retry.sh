#!/bin/bash
# Runs a command that runs tests with the race detector.
#
#	./scripts/race-retry.sh command [argument...]
#
# The race detector itself crashes now and then, more often in processes that live long:
# with a failed check (ThreadSanitizer: CHECK failed: tsan_rtl.cpp), or with SIGSEGV in its
# C code. There is no other C code here. This script then runs the command again, up to three
# times in all, unless a test has failed or a race was found.
set -uo pipefail

log=$(mktemp)
trap 'rm -f "$log"' EXIT
for try in 1 2 3; do
	"$@" 2>&1 | tee "$log"
	status=${PIPESTATUS[0]}
	if [ "$status" = 0 ] || ! grep -q -e '^ThreadSanitizer: CHECK failed: tsan_rtl' -e '^SIGSEGV: segmentation violation' "$log" ||
		grep -q -e '--- FAIL' -e 'DATA RACE' "$log"; then
		exit "$status"
	fi
	echo "race-retry: try $try: the race detector itself has failed" >&2
done
exit "$status"
