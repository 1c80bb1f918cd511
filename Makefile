.DEFAULT_GOAL := help
.PHONY: help run test race fuzz simulations crowds kill come-and-go regions fleets fleet-faults replay faults bench bench-go bench-rivals bench-scale bench-memory bench-e2e bench-peers bench-fleet cuts lint fmt golden reference screenshots accessibility release ci

FUZZTIME  ?= 30s
BENCHTIME ?= 1s
CROWDS    ?= 100000
KILLS     ?= 300
EVENTS    ?= 500
SEEDS     ?= 5000
FLEETS    ?= 5000
HAMMER    ?= 1m
ROWS      ?= 10000000
LINES     ?= 10000000
PEERS     ?=
RESULT    ?= benchmarks/results/peers-$(shell date -u +%F).txt
FLEET     ?= benchmarks/results/fleet-$(shell date -u +%F).txt

help: ## say what there is
	@grep -E '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## (.*)/\1\t\2/' | expand -t 14

run: ## serve the example at http://localhost:8080
	go run ./cmd/caddy run --config examples/Caddyfile

test: ## run all tests
	go test ./...

race: ## run the tests of the engine, the stores and what they stand on with the race detector
	.ci/run race

fuzz: ## run each fuzz target for FUZZTIME (30s)
	FUZZTIME=$(FUZZTIME) FUZZ=./... .ci/run fuzz

crowds: ## send CROWDS (100,000) crowds of 200 requests to an engine on SQLite, and a hundredth of that under the race detector
	go test ./storage/sqlite -run TestCrowdsLeaveNoLimitShut -v -count 1 -timeout 6h -crowds $(CROWDS)
	CGO_ENABLED=1 go test -race ./storage/sqlite -run TestCrowdsLeaveNoLimitShut -v -count 1 -timeout 6h -crowds $$(($(CROWDS) / 100))

kill: ## kill KILLS (300) Caddys and hold what their clients were answered against the limits
	benchmarks/machine.sh
	go test ./caddytest -run LimitsHoldOverKills -v -count 1 -timeout 2h -kill.kills $(KILLS)

come-and-go: ## let EVENTS (500) happen to processes on one database, in each of four ways: closed, also killed, also stopped for seconds, with files damaged
	go test ./storage/sqlite -run TestProcessesComeAndGo -v -count 1 -timeout 6h -comeandgo.events $(EVENTS)

simulations: ## simulate SEEDS (5,000) worlds of each kind, and compare forecasts with decisions in a thirtieth as many
	go test ./limiter/engine -run 'TestSimulation|TestForecastsAreTrue' -v -count 1 -timeout 6h -sim.seeds $(SEEDS)

fleets: ## simulate FLEETS (5,000) fleets of machines on a store that loses, delays and doubles what it is sent
	go test ./limiter/engine -run TestSimulationOfFleets -v -count 1 -timeout 2h -fleet.seeds $(FLEETS)

fleet-faults: ## kill, cut off and set the clocks of four Caddys on a Redis, a Postgres and a MariaDB, and of these servers; takes about half an hour
	benchmarks/machine.sh
	go test ./caddytest -run TestFleetOfFour -v -count 1 -timeout 2h -faults.long

regions: ## hammer three regions for HAMMER (1m), and hold what they admit together against the bound
	go test ./caddytest -run TestRegions -v -count 1 -regions.hammer $(HAMMER)

replay: ## replay a log of LINES (ten million) lines with known bursts, with a limit per minute and one per day, in 300 MB
	benchmarks/machine.sh
	for window in 1m 1d; do GOMAXPROCS=1 go test . -run TestReplayFindsAllBursts -v -count 1 -timeout 2h \
		-replay.lines $(LINES) -replay.clients $$(($(LINES) / 10)) -replay.window $$window -replay.memory 300 || exit 1; done

faults: ## break disks, rights, locks and clocks under real Caddys for longer, and send five million keys
	go test ./caddytest -run 'Database|Disk|WriteLimit|Stop|Reload|RapidReset|ClientsThat|Flood|Zones|Clock' -v -count 1 -timeout 1h -faults.long

bench: bench-go bench-rivals bench-scale bench-memory ## run all of the following but bench-e2e, bench-peers and bench-fleet; takes about an hour

bench-go: ## run the Go benchmarks for BENCHTIME (1s) each
	benchmarks/machine.sh
	go test -run '^$$' -bench . -benchmem -benchtime $(BENCHTIME) -timeout 1h ./...

bench-rivals: ## run the engine beside other rate limiters for Go
	benchmarks/machine.sh
	cd benchmarks/rivals && go test -run '^$$' -bench . -benchtime $(BENCHTIME) -timeout 1h

bench-scale: ## measure the store with up to ROWS (ten million) rows; needs 2 GB of disk
	benchmarks/machine.sh
	go run ./benchmarks/scale -rows $(ROWS)

bench-memory: ## measure heap per key, and the memory of a Caddy
	benchmarks/machine.sh
	go run ./benchmarks/memory

bench-e2e: ## measure requests per second with wrk, with and without the limiter
	benchmarks/e2e/run.sh

bench-peers: ## measure this limiter beside those of other servers, with the flags PEERS, into RESULT; takes about 25 minutes
	(benchmarks/machine.sh && go run ./benchmarks/peers $(PEERS)) > $(RESULT)

bench-fleet: ## measure what it costs to share limits by a Redis, beside one script per request, into FLEET; takes about 8 minutes
	(benchmarks/machine.sh && go run ./benchmarks/fleet) > $(FLEET)

cuts: ## cut off batches to Postgres and MariaDB a thousand times each
	go test ./storage/internal/sqlstore/postgres ./storage/internal/sqlstore/mysql -run Cuts -count 1 -cuts 1000

failovers: ## have replicas that lag take over, and a slot of a cluster move, five times each
	go test ./storage/internal/sqlstore/postgres ./storage/internal/sqlstore/mysql ./storage/redis/internal/store -run 'Failover|SlotMigration' -count 5

lint: ## run golangci-lint, in the version that CI runs
	.ci/run lint

fmt: ## format Go files and Caddyfiles
	gofmt -w .
	@for f in examples/*Caddyfile; do go run ./cmd/caddy fmt --overwrite "$$f" || exit 1; done

reference: ## write docs/json.md from the config structs, and docs/commands.md from the commands; look at the difference before you commit
	go test . -run 'JSONReference|CommandReference' -reference.update

golden: ## write the golden files of caddytest; look at the difference before you commit
	go test ./caddytest -run Adapt -update

screenshots: ## take the pictures of the documents anew; needs Chromium, and better has pngquant and the font Roboto
	go test ./internal/dashboard ./caddytest -run 'TestScreenshots|TestPictures' -count 1 -screenshots.update

accessibility: ## look at all pages with axe, in both color schemes and nine widths, with and without scripts
	.ci/run accessibility

release: ## build static binaries for all platforms into dist/, and check them
	.ci/release

ci: ## run what CI runs
	.ci/run
