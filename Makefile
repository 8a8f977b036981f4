.DEFAULT_GOAL := help
SHELL := /bin/bash
.PHONY: help demo demo-zk demo-rw demo-barrier demo-queue demo-ids demo-election demo-members demo-fence test test-all test-zktest test-real \
	test-packages test-sim test-race test-race-packages test-race-sim test-real-all test-bench test-prometheus test-sasl test-fence test-page test-long stress stress-changed \
	fuzz sim soak soak-short soak-kills soak-loss mutants mutants-some bench pictures lint lint-more vuln \
	api api-compat rows tidy setup zkr man dist release-sums release-check

# Each release of Go needs a staticcheck that supports it. Update both together.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
DEADCODE := golang.org/x/tools/cmd/deadcode@v0.52.0
GOCYCLO := github.com/fzipp/gocyclo/cmd/gocyclo@v0.6.0
GOLANGCI := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0
CYCLONEDX := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0

# The modules of go.work except the root.
MODULES := bench cmd/zkr cmd/zkr/pagetest docs/code/testing/realserver fence/fencegrpc fence/internal/dbtest internal/api internal/zkserver/launcher zkkrb5 zkotel zkprom

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: ## run a lock between processes, on a server inside one of them
	go run ./examples/mutex

demo-zk: setup ## run the same on a real ZooKeeper
	go run ./internal/zkserver/with go run ./examples/mutex -zk

demo-rw: ## run a read/write lock: a config, one writer and some readers
	go run ./examples/rwlock

demo-barrier: ## run a barrier: processes that compute parts, and one that merges them
	go run ./examples/barrier

demo-queue: ## run a queue: producers, and consumers, one of which is killed in the middle of an item
	go run ./examples/queue

demo-ids: ## run a semaphore: workers that make unique ids, one of which is killed
	go run ./examples/ids

demo-election: ## run an election: three processes, whose leader is killed, and another one stopped
	go run ./examples/election

demo-members: ## run a group: processes that are members, one of which is killed, and another one stopped
	go run ./examples/members

demo-fence: ## run a service that refuses a process which has lost its lock and does not know it
	go run ./examples/fence

# The parts of make test, the longest first. The recipes' tests wait for real time and
# use little CPU time, so another part runs beside them.
TESTS := test-zktest test-packages test-real test-sim
JOBS ?= 2

# The packages whose tests run on a ZooKeeper server, and the others, the simulation aside.
RECIPES = $(shell ./scripts/recipes.sh)
PACKAGES = $$(go list ./... | grep -vxF -e "$$(go list $(RECIPES) ./internal/sim)")
# Those of the other modules, except what test-bench, test-page, test-prometheus, test-fence and test-sasl test.
OTHERS = $$(go list $(patsubst %,./%/...,$(filter-out bench cmd/zkr/pagetest,$(MODULES))) | grep -vE '/(promtest|servertest|zkkrb5)$$')
# Make 4.0 and later can keep the parts' output apart.
SYNC := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

test: setup ## run the tests: the recipes on zktest, what needs a real server on one, and all other packages
	@echo "test: $(JOBS) parts at a time, each prints its output when it ends: $(TESTS)"
	go build . ./internal/... ./zktest ./internal/zkserver/launcher # or two parts would build it at once
	@$(MAKE) --no-print-directory -j$(JOBS) $(SYNC) $(TESTS)

# What make test leaves out. Each part can run on a machine of its own.
MORE := test-race test-race-packages test-race-sim test-real-all test-bench test-prometheus test-sasl test-fence test-page test-long fuzz sim mutants soak-short soak-loss

test-all: test $(MORE) ## run everything: the race detector, all tests on a real server, seeds, mutants, the soak (hours)

test-zktest: ## test the recipes on zktest
	ZK_HARNESS=zktest go test -count=1 -timeout 30m -parallel 8 $(RECIPES)

test-real: setup ## run what needs a real server on one, and the examples
	go test -count=1 -timeout 30m -p 1 -parallel 4 -run '^(TestReal|Example)' $(RECIPES)

test-packages: setup ## test the other packages except internal/sim
	set -eo pipefail; packages=$(PACKAGES); others=$(OTHERS); go test -count=1 -timeout 30m $$packages $$others

test-sim: ## run 100 seeds of each simulation
	go test -count=1 -timeout 30m ./internal/sim

test-race: setup ## test the recipes on zktest with the race detector
	ZK_HARNESS=zktest ./scripts/race.sh -timeout 15m -parallel 8 $(RECIPES)

test-race-packages: setup ## test the other packages with the race detector
	./scripts/race.sh -timeout 15m $(PACKAGES)
	cd fence/fencegrpc && ../../scripts/race.sh ./...
	cd fence/internal/dbtest && ../../../scripts/race.sh ./suite
	cd zkotel && ../scripts/race.sh ./...
	cd zkprom && ../scripts/race.sh $$(go list ./... | grep -v '/promtest$$')

# One process for each simulation, and few seeds: in processes that live long, the race
# detector's own run time fails more often (see scripts/race-retry.sh).
test-race-sim: setup ## run a few seeds of each simulation with the race detector
	./scripts/race-alone.sh ./internal/sim

test-real-all: setup ## run all tests of the recipes on a real server
	go test -count=1 -timeout 30m -p 1 $(RECIPES)

test-bench: setup ## test the benchmarks, with the race detector
	cd bench && ../scripts/race.sh ./...

test-prometheus: ## test the alert rules with promtool and Prometheus, which it installs
	@./scripts/setup-prometheus.sh
	cd zkprom && go test -count=1 ./internal/promtest

test-sasl: ## test Kerberos on an MIT KDC, and SASL beside kazoo, which it installs
	@./scripts/setup-sasl.sh
	cd zkkrb5 && go test -count=1 .

MINUTES_FENCE ?= 1
test-fence: ## test package fence on PostgreSQL, MariaDB and nginx, which it installs, and judge it on each database (MINUTES_FENCE)
	@./scripts/setup-databases.sh
	cd fence/internal/dbtest && go test -count=1 -timeout 15m ./servertest
	@for db in postgresql mariadb sqlite; do go run ./fence/internal/dbtest/judge -db $$db -duration $(MINUTES_FENCE)m || exit 1; done

test-page: ## test the page of zkr serve in chromium, which it installs
	@./scripts/setup-chromium.sh
	cd cmd/zkr/pagetest && go test -count=1 . $(if $(PICTURES),-timeout 15m -pictures)

test-long: setup ## run the tests that take seconds or minutes each, on real servers
	go test -count=1 -timeout 60m -p 1 -v -run '^TestLong' $(shell grep -l 'NeedsLong(t)' *_test.go internal/*/*_test.go | xargs -n 1 dirname | sort -u | sed 's|^|./|') -long
	go test -count=1 -timeout 15m ./internal/conformance -long

stress: ## run each test of the recipes a thousand times beside a load (RUN is a regexp of their names)
	./scripts/stress.sh '$(RUN)'

stress-changed: ## run those that the last commit touches, for a minute
	./scripts/stress-changed.sh

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

SEEDS ?= 10000
FIRST ?= 1
sim: ## run SEEDS seeds of each simulation, beginning with FIRST
	go test -count=1 -timeout 0 -v ./internal/sim -seeds $(SEEDS) -first $(FIRST)

MINUTES ?= 60
SEED ?= $(shell date +%s)
soak: setup ## run all recipes on three servers with faults for MINUTES, and judge them (SEED)
	go run ./internal/soak -minutes $(MINUTES) -seed $(SEED)

soak-short: setup ## the same for 3 minutes: for every change to what goes over the wire
	go run ./internal/soak -minutes 3 -seed $(SEED)

KILLS ?= 50
LOAD ?= all
soak-kills: setup ## kill one server KILLS times under LOAD (all, lock), and check that it starts again
	go run ./internal/soak -kills $(KILLS) -load $(LOAD) -seed $(SEED)

LOSSES ?= 8
soak-loss: setup ## let three servers lose their last transactions LOSSES times, and check that all goes on
	go run ./internal/soak -losses $(LOSSES) -seed $(SEED)

mutants: ## break the code in known ways and check that the tests notice
	go run ./internal/mutants

mutants-some: ## run a fifth of those, another one at each commit, check that all others compile
	go run ./internal/mutants -of 5

bench: setup ## compare with other libraries on a real server: tens of minutes, results in docs/bench
	@./scripts/setup-bench.sh
	cd bench && ZK_HARNESS=$${ZK_HARNESS-java} go run . -out ../docs/bench # docker's proxy has no descriptors for 9,000 sessions

pictures: ## draw the pictures in docs/pictures anew (needs Graphviz and Mscgen)
	@./scripts/pictures.sh # those of the page: make test-page PICTURES=1

lint: api-compat ## check format, vet, staticcheck, floors, dead code, that functions are simple, that api.txt is up to date, and the workflows
	@unformatted=$$(gofmt -l .) && if [ -n "$$unformatted" ]; then \
		echo "gofmt -w is needed for:" >&2; echo "$$unformatted" >&2; exit 1; fi
	@for m in . $(MODULES); do (set -x; cd $$m && go vet ./... && go run $(STATICCHECK) ./...) || exit 1; done
	cd cmd/zkr && GOOS=darwin go vet .
	go run ./internal/floors
	@dead=$$(go run $(DEADCODE) -test -filter '/zkrecipes/.*internal/' ./... $(MODULES:%=./%/...)) && if [ -n "$$dead" ]; then \
		echo "nothing calls:" >&2; echo "$$dead" >&2; exit 1; fi
	go run $(GOCYCLO) -over 15 -ignore '_test.go' .
	go run -C internal/api . check
	go run $(ACTIONLINT)

lint-more: ## check with golangci-lint what make lint does not
	@mkdir -p bin && GOBIN=$(CURDIR)/bin go install $(GOLANGCI)
	@for m in . $(MODULES); do (set -x; cd $$m && $(CURDIR)/bin/golangci-lint run ./...) || exit 1; done

vuln: ## look for known vulnerabilities in what the published modules call (needs vuln.go.dev)
	@for m in . cmd/zkr fence/fencegrpc zkkrb5 zkotel zkprom; do (set -x; cd $$m && go run $(GOVULNCHECK) ./...) || exit 1; done

ZKR := linux-amd64 linux-arm64 darwin-amd64 darwin-arm64
zkr: ## build static binaries of cmd/zkr in bin
	@for p in $(ZKR); do \
		CGO_ENABLED=0 GOOS=$${p%-*} GOARCH=$${p#*-} go build -C cmd/zkr -trimpath -ldflags '-s -w' -o ../../bin/zkr-$$p . && \
		ls -l bin/zkr-$$p || exit 1; done

man: ## write the man pages of cmd/zkr to bin/man
	@mkdir -p bin/man && go run -C cmd/zkr . man ../../bin/man

dist: zkr man ## build what a release on GitHub has: binaries of cmd/zkr with an SBOM each, its man pages, checksums
	@rm -rf bin/dist && mkdir bin/dist && cp $(ZKR:%=bin/zkr-%) bin/dist/
	@tar -C bin/man --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -c . | gzip -n > bin/dist/zkr-man.tar.gz
	@for p in $(ZKR); do \
		go run $(CYCLONEDX) bin -json -output bin/dist/zkr-$$p.cdx.json bin/dist/zkr-$$p || exit 1; done
	@cd bin/dist && sha256sum * > SHA256SUMS && cat SHA256SUMS

release-sums: ## write the hashes of the modules into the others' go.sum, for the commit of a release
	go run -C internal/api ./release sums

release-check: ## fail if this tree is not ready to be tagged or, with TAG, is not what the tags say
	go run -C internal/api ./release check $${TAG:+"$$TAG"}

api: ## write the exported API to api.txt, in which each change of it can be seen
	go run -C internal/api . write

api-compat: ## fail on changes that are incompatible with the newest release
	@go run -C internal/api . compat

rows: ## check that each row of internal/rows/rows.txt has a test
	go run ./internal/rows

tidy: ## run go mod tidy in each module
	@./scripts/tidy.sh

setup: ## install what demo-zk and the tests need (they call it themselves)
	@./scripts/setup.sh
