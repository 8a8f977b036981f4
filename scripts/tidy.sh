#!/bin/bash
# Runs go mod tidy in each module of go.work. It does not read go.work, so that for its time
# a module that requires the root gets a replace directive.
set -euo pipefail
cd "$(dirname "$0")/.."
root=github.com/zkrecipes/zkrecipes
for dir in $(go list -m -f '{{.Dir}}'); do
	(
		cd "$dir"
		if grep -q "$root v" go.mod; then
			go mod edit -replace "$root=$OLDPWD"
			trap 'go mod edit -dropreplace '"$root" EXIT
		fi
		go mod tidy
	)
done
