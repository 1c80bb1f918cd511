.DEFAULT_GOAL := help
.PHONY: help run test race fuzz kill bench bench-e2e lint fmt golden ci

FUZZTIME  ?= 30s
BENCHTIME ?= 1s
KILLS     ?= 220

help: ## say what there is
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/\1\t\2/' | expand -t 12

run: ## serve the example at http://localhost:8080
	go run ./cmd/caddy run --config examples/Caddyfile

test: ## run all tests
	go test ./...

race: ## run the tests of the engine, the stores and what they stand on with the race detector
	.ci/run race

fuzz: ## run each fuzz target for FUZZTIME (30s)
	FUZZTIME=$(FUZZTIME) FUZZ=./... .ci/run fuzz

kill: ## kill KILLS (220) Caddys and hold what their clients were answered against the limits
	@echo "machine: $$(nproc) cores, $$(sed -n 's/^model name.*: //p' /proc/cpuinfo | head -1), $$(go version | cut -d' ' -f3-4), commit $$(git rev-parse --short HEAD), $$(date -u +%F)"
	go test ./caddytest -run LimitsHoldOverKills -v -count 1 -timeout 2h -kill.kills $(KILLS)

bench: ## run all benchmarks for BENCHTIME (1s) each
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) ./...

bench-e2e: ## measure requests per second with wrk, with and without the limiter
	benchmarks/e2e/run.sh

lint: ## run golangci-lint
	golangci-lint run

fmt: ## format Go files and Caddyfiles
	gofmt -w .
	@for f in examples/*Caddyfile; do go run ./cmd/caddy fmt --overwrite "$$f" || exit 1; done

golden: ## write the golden files of caddytest anew; look at the difference before you commit
	go test ./caddytest -run Adapt -update

ci: ## run what CI runs
	.ci/run
