.DEFAULT_GOAL := help
SHELL := /bin/bash
.PHONY: help demo test test-all try race sim soak bench fuzz lint mutants release api tidy setup pictures zkr

# Each release of Go needs a staticcheck that supports it. Update both together.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
DEADCODE := golang.org/x/tools/cmd/deadcode@v0.52.0
GOCYCLO := github.com/fzipp/gocyclo/cmd/gocyclo@v0.6.0
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

# The modules of go.work except the root.
MODULES := bench cmd/zkr cmd/zkr/pagetest docs/code/testing/realserver fence/fencegrpc fence/internal/dbtest internal/api internal/zkserver/launcher zkkrb5 zkotel zkprom

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(if $(filter -zk,$(ARGS)),setup) ## run an example: ARGS=queue, or another folder of examples; ARGS='mutex -zk': on a real ZooKeeper
	$(if $(filter -zk,$(ARGS)),go run ./internal/zkserver/with) go run ./examples/$(or $(ARGS),mutex)

test: setup ## run the tests: on zktest, and on a real ZooKeeper what only that can judge
	@./scripts/test.sh

test-all: ## run everything, in hours, or some PARTS: scripts/test-all.sh says which there are, and what make test leaves out
	@./scripts/test-all.sh $(PARTS)

try: ## run in a minute what judges a change of PKG=line or another package: its tests, the costs, simulations, mutants
	@./scripts/try.sh $(PKG)

race: ## run the tests of PKG with the race detector, by default of the packages that the last commit touches
	@./scripts/race.sh $(PKG)

SEEDS ?= 10000
FIRST ?= 1
sim: ## run SEEDS seeds of each simulation, beginning with FIRST
	go test -count=1 -timeout 0 -v ./internal/sim -seeds $(SEEDS) -first $(FIRST)

soak: setup ## run all recipes on real servers that fail, and judge them: ARGS='-minutes 60', -faults rolling, -kills 50, -losses 8
	go run ./internal/soak $(or $(ARGS),-minutes 3)

bench: setup ## compare with other libraries on a real server: tens of minutes, results in docs/bench
	@./scripts/setup-bench.sh
	cd bench && ZK_HARNESS=$${ZK_HARNESS-java} go run . -out ../docs/bench # docker's proxy has no descriptors for 9,000 sessions

# A number of inputs, not a duration: when a duration is over, go test fails now
# and then (context deadline exceeded).
FUZZTIME ?= 20000x
FUZZ := zktest:FuzzRequests zktest:FuzzHandshake zktest:FuzzDecode \
	internal/digestmd5:FuzzStep internal/jute:FuzzDecoder internal/wire:FuzzServer internal/wire:FuzzHandshake \
	fence:FuzzParse internal/zkconn:FuzzDecodeMulti internal/zkconn:FuzzDecodeNames zkkrb5:FuzzExchange
fuzz: ## fuzz the decoders, FUZZTIME inputs for each target
	@for f in $(FUZZ); do \
		nice go test -run NONE -fuzz "^$${f#*:}\$$" -fuzztime $(FUZZTIME) "./$${f%:*}" | grep -v elapsed; \
		[ "$${PIPESTATUS[0]}" = 0 ] || exit 1; done

lint: ## check format, vet, staticcheck, floors, dead code, that functions are simple, mutants apply, the API, and the workflows
	@unformatted=$$(gofmt -l .) && if [ -n "$$unformatted" ]; then \
		echo "gofmt -w is needed for:" >&2; echo "$$unformatted" >&2; exit 1; fi
	@for m in . $(MODULES); do (set -x; cd $$m && go vet ./... && go run $(STATICCHECK) ./...) || exit 1; done
	cd cmd/zkr && GOOS=darwin go vet .
	go run ./internal/floors
	./scripts/packages.sh checks | xargs go test
	@dead=$$(go run $(DEADCODE) -test -filter '/zkrecipes/.*internal/' ./... $(MODULES:%=./%/...)) && if [ -n "$$dead" ]; then \
		echo "nothing calls:" >&2; echo "$$dead" >&2; exit 1; fi
	@awk '/^```/ {code = !code; next} !code {for (i = 1; i <= NF; i++) words += $$i ~ /[[:alnum:]]/} \
		END {if (words > 15000) print "warning: the documents have " words " words, and should have 15000"}' $$(git ls-files 'docs/*.md') >&2
	go run $(GOCYCLO) -over 15 -ignore '_test.go' .
	go run -C internal/api . check
	go run -C internal/api . compat
	go run $(ACTIONLINT)

mutants: ## break the code in known ways and check that the tests notice: ARGS='-most 16': others at each commit
	go run ./internal/mutants $(ARGS)

release: ## a step of a release: STEP=check (with TAG: the tags, too), compat, sums, notes, dist
	@./scripts/release.sh $(STEP)

api: ## write the exported API to api.txt, in which each change of it can be seen
	go run -C internal/api . write

tidy: ## run go mod tidy in each module
	@./scripts/tidy.sh

setup: ## install what the tests and demos on a real server need (they call it themselves)
	@./scripts/setup.sh

pictures: ## draw the pictures in docs/pictures anew (needs Graphviz and Mscgen)
	@./scripts/pictures.sh

zkr: ## build cmd/zkr for each system, and its man pages, in bin
	@./scripts/zkr.sh
