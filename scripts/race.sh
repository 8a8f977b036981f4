#!/bin/bash
# Runs go test with the race detector.
#
#	./scripts/race.sh [flags] [packages]
exec "$(dirname "$0")/race-retry.sh" go test -race -count=1 "$@"
