.DEFAULT_GOAL := help
SHELL := /bin/bash
.PHONY: help demo demo-zk demo-rw demo-barrier demo-queue test sim mutants fuzz bench lint rows setup

# Each release of Go wants a staticcheck that knows it: raise both together.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## run a lock between processes, on a server inside one of them
	go run ./examples/mutex

demo-zk: setup ## the same on a real ZooKeeper
	go run ./internal/zkserver/with go run ./examples/mutex -zk

demo-rw: ## run a read/write lock: a config, one writer and some readers
	go run ./examples/rwlock

demo-barrier: ## run a barrier: processes that compute parts, and one that merges them
	go run ./examples/barrier

demo-queue: ## run a queue: producers, and consumers, one of which is killed in the middle of an item
	go run ./examples/queue

test: setup ## run all tests, with the race detector, on zktest and on real servers
	ZK_HARNESS=zktest go test -race -count=1 -timeout 10m .
	go test -race -count=1 -timeout 15m ./...
	cd bench && go test -race -count=1 ./...
	$(MAKE) fuzz

SEEDS ?= 10000
FIRST ?= 1
sim: ## run SEEDS seeds of the simulation, beginning with FIRST
	go test -count=1 -timeout 0 -v ./internal/sim -seeds $(SEEDS) -first $(FIRST)

mutants: ## break the code in known ways, and see that the tests notice
	go run ./internal/mutants

# A count: go test fails now and then where a time runs out (context deadline
# exceeded).
FUZZTIME ?= 20000x
FUZZ := zktest:FuzzRequests zktest:FuzzHandshake zktest:FuzzDecode \
	internal/jute:FuzzDecoder internal/wire:FuzzServer internal/wire:FuzzHandshake
fuzz: ## fuzz what decodes bytes, FUZZTIME inputs for each target
	@for f in $(FUZZ); do \
		go test -run NONE -fuzz "^$${f#*:}\$$" -fuzztime $(FUZZTIME) "./$${f%:*}" | grep -v elapsed; \
		[ "$${PIPESTATUS[0]}" = 0 ] || exit 1; done

bench: setup ## measure, on a real server, beside go-zookeeper: some minutes, to docs/bench
	cd bench && go run . -out ../docs/bench

lint: ## check format, vet and staticcheck
	@unformatted=$$(gofmt -l .) && if [ -n "$$unformatted" ]; then \
		echo "gofmt -w is needed for:" >&2; echo "$$unformatted" >&2; exit 1; fi
	go vet ./...
	cd bench && go vet ./...
	go run $(STATICCHECK) ./...
	cd bench && go run $(STATICCHECK) ./...

rows: ## check the table of recipes and their tests
	go run ./internal/rows

setup: ## fetch what demo-zk and test need (they do so themselves)
	@./scripts/setup.sh
