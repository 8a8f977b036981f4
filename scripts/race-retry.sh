#!/bin/bash
# Runs a command that runs tests with the race detector.
#
#	./scripts/race-retry.sh command [argument...]
#
# The detector's own run time fails now and then, and ends the process, the more likely the
# longer that lives: by a check (ThreadSanitizer: CHECK failed: tsan_rtl.cpp), or by a signal
# outside of Go code, of which there is no other here. Then this runs the command again,
# three times at most, unless a test had failed or a race was found.
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
