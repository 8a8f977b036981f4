#!/bin/bash
# Runs all tests, in parts. Each part can run on a machine of its own. All but the first are
# left out by make test.
#
#	./scripts/test-all.sh [part...]
#
#	test        make test
#	programs    zkr, and the steps of a release: they run programs, and wait for them
#	race        all packages with the race detector, and some seeds of each simulation
#	real        all tests of the recipes on a real server (ZK_VERSION chooses another one)
#	long        tests that take minutes each, on real servers, and all versions of ZooKeeper
#	bench       the benchmarks, with the race detector; trees and groups beside Curator on a real server
#	prometheus  the alert rules and the dashboard, with promtool
#	sasl        Kerberos on an MIT KDC, and SASL beside kazoo
#	fence       package fence on PostgreSQL, MariaDB and nginx, also while connections fail at random
#	            (MINUTES_FENCE), and what a fence costs there
#	page        the page of zkr serve in chromium (PICTURES=1 writes docs/pictures)
#	fuzz        the decoders
#	sim         10,000 seeds of each simulation
#	mutants     all of them
#	soak        three servers that fail at random
#	losses      three servers that lose their last transactions
#	stress      each test of the recipes a thousand times beside a load (RUN: a regexp of names)
#	lint        golangci-lint, known vulnerabilities, and the tests about the repository
set -euo pipefail
cd "$(dirname "$0")/.."
GOLANGCI=github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
GOVULNCHECK=golang.org/x/vuln/cmd/govulncheck@v1.9.0

all=(test programs race real long bench prometheus sasl fence page fuzz sim mutants soak losses stress lint)

race() {
	./scripts/setup.sh
	for group in inside programs servers; do ./scripts/packages.sh $group; done | xargs ./scripts/race.sh
}

programs() { ./scripts/packages.sh programs | ZK_HARNESS=zktest xargs go test -timeout 20m -skip '^Test(Real|Long)'; }

real() {
	./scripts/setup.sh
	./scripts/packages.sh recipes | xargs go test -count=1 -timeout 30m -p 1
}

long() {
	./scripts/setup.sh
	grep -l 'NeedsLong(t)' ./*_test.go internal/*/*_test.go | xargs -n 1 dirname | sort -u |
		xargs -I {} go test -count=1 -timeout 60m -v -run '^TestLong' {} -long
	go test -count=1 -timeout 15m ./internal/conformance -long
}

bench() {
	./scripts/setup.sh
	./scripts/setup-bench.sh
	./scripts/race.sh ./bench/...
	go test -C bench -count=1 -run Curator .
}

prometheus() {
	./scripts/setup-prometheus.sh
	go test -count=1 ./zkprom/internal/promtest
}

sasl() {
	./scripts/setup-sasl.sh
	go test -count=1 ./zkkrb5
}

fence() {
	./scripts/setup-databases.sh
	go test -count=1 -timeout 45m -bench . -benchtime 3000x ./fence/internal/dbtest/servertest -storm "${MINUTES_FENCE:-1}m"
}

page() {
	./scripts/setup-chromium.sh
	cd cmd/zkr/pagetest
	# shellcheck disable=SC2086 # two flags or none
	go test -count=1 . ${PICTURES:+-timeout 15m -pictures}
}

lint() {
	./scripts/packages.sh checks | xargs go test
	mkdir -p bin
	GOBIN=$PWD/bin go install $GOLANGCI
	for module in $(go list -m -f '{{.Dir}}'); do
		(cd "$module" && "$OLDPWD/bin/golangci-lint" run ./...)
	done
	for module in . cmd/zkr fence/fencegrpc zkkrb5 zkotel zkprom; do # those that are published
		(cd "$module" && go run $GOVULNCHECK ./...)
	done
}

test() { make test; }
fuzz() { make fuzz; }
sim() { make sim; }
mutants() { make mutants; }
soak() { make soak; }
losses() { make soak ARGS='-losses 8'; }
stress() { ./scripts/stress.sh "${RUN:-}"; }

for part in "${@:-${all[@]}}"; do
	[[ " ${all[*]} " == *" $part "* ]] || { echo "test-all: no part $part; parts: ${all[*]}" >&2; exit 2; }
done
for part in "${@:-${all[@]}}"; do
	echo "test-all: $part"
	(set -e; "$part")
done
