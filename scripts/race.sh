#!/bin/bash
# Runs go test with the race detector.
#
#	./scripts/race.sh [flags] [packages]
#
# In processes that live long, a check of the detector's own run time fails now and then
# (ThreadSanitizer: CHECK failed: tsan_rtl.cpp), and ends the process. Then this runs the
# tests again, three times at most, unless a test had failed or a race was found.
set -uo pipefail

log=$(mktemp)
trap 'rm -f "$log"' EXIT
for try in 1 2 3; do
	go test -race -count=1 "$@" 2>&1 | tee "$log"
	status=${PIPESTATUS[0]}
	if [ "$status" = 0 ] || ! grep -q '^ThreadSanitizer: CHECK failed: tsan_rtl' "$log" ||
		grep -q -e '--- FAIL' -e 'DATA RACE' "$log"; then
		exit "$status"
	fi
	echo "race.sh: try $try: the race detector itself has failed" >&2
done
exit "$status"
