.DEFAULT_GOAL := help
.PHONY: help run quick test race fuzz proof bench-go bench-scale bench-peers bench-fleet performance weight lint fmt golden reference screenshots release ci models regions

FUZZTIME  ?= 30s
BENCHTIME ?= 1s
PROOF     ?= 1
JOBS      ?= 1
RUN       ?= .
FLAGS     ?=

help: ## say what there is
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/\1\t\2/' | expand -t 14

run: ## serve the example at http://localhost:8080
	go run ./cmd/caddy run --config examples/Caddyfile

quick: ## run the short tests of the packages that don't need Caddy
	.ci/run quick

test: ## run all tests
	go test ./...

race: ## run the tests of packages that start goroutines with the race detector
	.ci/run race

fuzz: ## run each fuzz target for FUZZTIME (30s)
	FUZZTIME=$(FUZZTIME) FUZZ=./... .ci/run fuzz

proof: ## run tests in depth, for hours: seeds, kills, faults, floods, pages in all widths; PROOF=0.1 is a tenth of it, RUN chooses tests
	benchmarks/machine.sh
	echo "# written by make proof: PROOF=$(PROOF) on $$(uname -sm)" >proof/figures.txt
	PROOF=$(PROOF) PROOF_FIGURES=$(CURDIR)/proof/figures.txt go test -run '$(RUN)' -count 1 -timeout 48h ./...
	go test -run TestProofPage -count 1 . -reference.update

regions: ## measure 33 machines in ten regions in virtual time, and write the table of docs/regions.md; takes ten minutes
	PROOF=1 GOGC=20 go test -count=1 -timeout 1h ./internal/regions -run TestRegionsAtScale -scale ../../docs/regions.md

models: ## check the models of the protocol and their mutants, and write proof/results.txt; needs SPIN, takes some minutes
	JOBS=$(JOBS) proof/check.sh

weight: ## append to benchmarks/results/weight.txt what this commit weighs beside plain Caddy, and draw the picture; takes some minutes
	cd benchmarks && go run ./weight -append results/weight.txt
	go test -run TestWeightOverTime -count 1 . -reference.update

performance: ## measure again all tables of figures in docs/performance.md and README.md, with FLAGS such as '-only memory,hotkey'; takes about an hour
	cd benchmarks && go run ./performance $(FLAGS)

bench-go: ## run the Go benchmarks for BENCHTIME (1s) each
	benchmarks/machine.sh
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) -timeout 1h ./...
	cd benchmarks && go test -run '^$$' -bench . -benchtime $(BENCHTIME) -timeout 1h ./hotkey

bench-scale: ## measure the store with up to ten million rows, with FLAGS such as '-rows 1000000'; needs 2 GB of disk
	benchmarks/machine.sh
	cd benchmarks && go run ./scale $(FLAGS)

bench-peers: ## measure this limiter beside those of other servers, with FLAGS; takes about 10 minutes
	benchmarks/machine.sh
	cd benchmarks && go run ./peers $(FLAGS)

bench-fleet: ## measure what it costs to share limits by a Redis, beside one script per request, with FLAGS; takes about 2 minutes
	benchmarks/machine.sh
	cd benchmarks && go run ./fleet $(FLAGS)

lint: ## run golangci-lint, in the version that CI runs
	.ci/run lint

fmt: ## format Go files and Caddyfiles
	gofmt -w .
	@for f in examples/*Caddyfile; do go run ./cmd/caddy fmt --overwrite "$$f" || exit 1; done

reference: ## write the reference from config structs, grammar and commands; look at the difference before you commit
	go test ./internal/config -run Syntax -syntax.update
	go test . -run Reference -reference.update

golden: ## write the golden files of caddytest; look at the difference before you commit
	go test ./caddytest -run Adapt -update

screenshots: ## take the pictures of the documents anew; needs Chromium, and better has pngquant and the font Roboto
	go test ./internal/dashboard ./caddytest -run 'TestScreenshots|TestPictures' -count 1 -screenshots.update

release: ## build static binaries for all platforms into dist/, and check them
	.ci/release

ci: ## run what CI runs
	.ci/run
