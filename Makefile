.DEFAULT_GOAL := help
.PHONY: help demo test lint rows setup

# Each release of Go wants a staticcheck that knows it: raise both together.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-7s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: setup ## run a lock against a real ZooKeeper
	go run ./examples/mutex

test: setup ## run all tests, with the race detector and real servers
	go test -race -count=1 -timeout 15m ./...

lint: ## check format, vet and staticcheck
	@unformatted=$$(gofmt -l .) && if [ -n "$$unformatted" ]; then \
		echo "gofmt -w is needed for:" >&2; echo "$$unformatted" >&2; exit 1; fi
	go vet ./...
	go run $(STATICCHECK) ./...

rows: ## check the table of recipes and their tests
	go run ./internal/rows

setup: ## fetch what demo and test need (they do so themselves)
	@./scripts/setup.sh
