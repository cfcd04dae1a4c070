# What one does with this tree, one target each; `make` alone lists them.
#
# The tree is a Go workspace of three modules (proto, pkg, services). `go build ./...` at the root finds no module;
# the pattern `work` names every package of all three.

SHELL       := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

MODULES  := proto pkg services
CACHE    := $(CURDIR)/.cache
FUZZTIME ?= 5s
# The race detector needs cgo, and cgo a C compiler.
RACE     ?= $(if $(shell command -v $$(go env CC) 2>/dev/null),-race)
ARGS     ?=

.PHONY: help
help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: build
build: ## build bin/soonbeon
	@go build -o bin/soonbeon ./services/cmd/soonbeon

.PHONY: run
run: build ## start the whole system in one process, on the embedded log; ARGS="--help" lists its flags
	@exec bin/soonbeon standalone $(ARGS)

.PHONY: test
test: ## vet, then every test, with the race detector where there is a C compiler; needs only Go
	go vet work
	go test -count=1 $(ARGS) ./services/verify
	go test $(RACE) $(ARGS) $$(go list work | grep -v '/services/verify$$')

# The log's own tests can't import what starts a Kafka (services/e2e/realservers), and get its address by a variable.
.PHONY: test-real
test-real: ## the acceptance suite on real servers (KAFKA_BROKERS and REDIS_ADDR, else docker compose, else local Java)
	@dirs=$$(grep -rl --include='*_test.go' '^func TestReal' $(MODULES) | xargs -r -n1 dirname | sort -u | sed 's,^,./,' | grep -vx ./pkg/linelog); \
	test -n "$$dirs" || { echo "make test-real: no test named TestReal… was found" >&2; exit 1; }; \
	set -x; \
	(cd services && go run ./e2e/realservers/cmd with SOONBEON_TEST_BROKERS go test -count=1 -v -run '^TestReal' $(ARGS) ../pkg/linelog); \
	SOONBEON_REAL=1 go test -count=1 -p 1 -timeout 20m -v -run '^TestReal' $(ARGS) $$dirs

.PHONY: servers
servers: ## start a real Kafka and a real Redis on free ports until Ctrl-C; ARGS="--brokers 3"
	@cd services && go run ./e2e/realservers/cmd run $(ARGS)

.PHONY: bench
bench: ## measure against the bare parts, side by side, and print the ratios
	cd services && go run ./e2e/bench $(ARGS)

.PHONY: fuzz
fuzz: ## run every fuzz target for FUZZTIME (default 5s)
	@dirs=$$(grep -rl --include='*_test.go' '^func Fuzz' $(MODULES) | xargs -r -n1 dirname | sort -u); \
	test -n "$$dirs" || { echo "make fuzz: no fuzz target was found" >&2; exit 1; }; \
	for dir in $$dirs; do \
		list=$$(go test -list '^Fuzz' ./$$dir) || { echo "$$list"; exit 1; }; \
		for target in $$(grep '^Fuzz' <<<"$$list"); do \
			echo "== $$dir $$target for $(FUZZTIME)"; \
			go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) ./$$dir; \
		done; \
	done

.PHONY: mutate
mutate: ## break each rule of the fold and of admit in turn, and see the tests fail
	cd services && go run ./e2e/mutate $(ARGS)

.PHONY: chaos
chaos: ## break real servers and processes under a crowd, as a seed says, for 10 minutes; ARGS="-seed 7 -rounds 3", "-kills 100"
	cd services && go run ./e2e/chaos $(ARGS)

.PHONY: drill
drill: build ## rehearse an outage of Redis in 90 seconds, on a system of its own; needs redis-server; ARGS="--help"
	@exec bin/soonbeon drill $(ARGS)

.PHONY: lint
lint: $(CACHE)/staticcheck ## gofmt, go vet and staticcheck over all modules
	@unformatted=$$(gofmt -l $(MODULES)); \
	test -z "$$unformatted" || { echo "not formatted (gofmt -w $(MODULES)):" >&2; echo "$$unformatted" >&2; exit 1; }
	go vet work
	@for module in $(MODULES); do echo "staticcheck $$module"; (cd $$module && $(CACHE)/staticcheck ./...); done

# Pinned in services/tools.mod. A tool has its own module file so that its dependencies are none of ours, and a
# workspace doesn't allow -modfile, hence GOWORK=off. Built once, then run inside the workspace.
$(CACHE)/staticcheck: services/tools.mod services/tools.sum
	@mkdir -p $(CACHE)
	cd services && GOWORK=off go build -modfile=tools.mod -o $@ honnef.co/go/tools/cmd/staticcheck

# buf has hundreds of packages: the first build takes two minutes, and Go's build cache keeps it.
.PHONY: generate
generate: ## write the generated code of proto/ anew, with the tools pinned in proto/tools.mod
	cd proto && GOWORK=off go tool -modfile=tools.mod buf generate

.PHONY: verify
verify: ## generated code, go.mod files, import rules, licences, documented metrics and error codes
	go test -count=1 -v ./services/verify
	@for module in $(MODULES); do echo "go mod tidy -diff in $$module"; (cd $$module && GOWORK=off go mod tidy -diff); done
	cd proto && GOWORK=off go tool -modfile=tools.mod buf lint
	@rm -rf $(CACHE)/generated && mkdir -p $(CACHE)/generated && cp -R proto/. $(CACHE)/generated/
	@find $(CACHE)/generated -name '*.pb.go' -delete
	cd $(CACHE)/generated && GOWORK=off go tool -modfile=tools.mod buf generate
	@diff -r -u proto $(CACHE)/generated || { echo "make verify: generated code is not what proto/ says; run make generate and commit" >&2; exit 1; }
	@echo "generated code is current"
	@if command -v npm >/dev/null; then cd services/page/client && npm ci --silent --no-audit --no-fund && npm run --silent check; \
	else echo "npm is not on the PATH: the client's checked-in build is not compared with its sources"; fi
