#!/bin/bash
# Prints a list of packages of all modules, one a line.
#
#	./scripts/packages.sh recipes   those whose tests use a recipe on the server that
#	                                internal/harness finds or starts
#	./scripts/packages.sh servers   those whose tests need real servers
#	./scripts/packages.sh programs  those whose tests run programs: zkr, and the steps of a release
#	./scripts/packages.sh checks    those whose tests are about the repository: make lint runs them
#	./scripts/packages.sh inside    all others that make test runs, and the recipes: on zktest,
#	                                they depend on nothing outside of the repository
set -euo pipefail
cd "$(dirname "$0")/.."

servers="./docs/code/testing/realserver ./internal/conformance ./internal/zkserver ./internal/zkserver/launcher"
programs="./cmd/zkr ./cmd/zkr/internal/guard ./cmd/zkr/internal/serve ./internal/api/release"
checks="./internal/api ./internal/floors ./internal/mutants"
# What scripts/test-all.sh runs by itself: it needs chromium, Prometheus, databases, a KDC, or minutes.
apart="./cmd/zkr/pagetest ./zkprom/internal/promtest ./fence/internal/dbtest/servertest ./zkkrb5 ./bench"

case ${1:-} in
recipes) grep -l --include='*_test.go' -r 'harness\.Run(m)' . | xargs -n 1 dirname | sort -u ;;
servers) tr ' ' '\n' <<<"$servers" ;;
programs) tr ' ' '\n' <<<"$programs" ;;
checks) tr ' ' '\n' <<<"$checks" ;;
inside)
	find . -name '*_test.go' -not -path '*/testdata/*' -print0 | xargs -0 -n 1 dirname | sort -u |
		grep -vxF -f <(tr ' ' '\n' <<<"$servers $programs $checks $apart") | grep -v '^\./bench/'
	;;
*) sed -n 's/^#	//p' "$0" >&2 && exit 2 ;;
esac
