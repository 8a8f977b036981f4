#!/bin/bash
# Runs go mod tidy in each module of go.work. It does not read go.work, so that for its time
# a module that requires others of the repository gets replace directives.
set -euo pipefail
cd "$(dirname "$0")/.."
root=github.com/zkrecipes/zkrecipes
for dir in $(go list -m -f '{{.Dir}}'); do
	(
		cd "$dir"
		for other in "" /zkkrb5; do
			if grep -q "$root$other v" go.mod; then
				go mod edit -replace "$root$other=$OLDPWD$other"
			fi
		done
		trap 'go mod edit -dropreplace "$root" -dropreplace "$root/zkkrb5"' EXIT
		go mod tidy
	)
done
