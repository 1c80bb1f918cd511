//go:build unix

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
	"github.com/caddy-tally/caddy-tally/benchmarks/internal/load"
	"github.com/caddy-tally/caddy-tally/internal/engine"
)

const (
	// claims is how many a round has: five segments of the journal.
	claims = 40_000
	// rounds is how often each database is measured.
	rounds = 3
	// callers is how many ask at a time.
	callers = 64
	// fewKeys makes an engine forget keys at once, so that nearly every decision is a claim.
	fewKeys = 256
)

// Which keys the claims of a round are about.
const (
	knownKeys = "known" // at random of those with a row
	newKeys   = "new"
)

// cost compares the processor time of a claim with 10^4, 10^5 … rows: all that an engine does from
// the first of many claims to the end of Close, so that what the journal leaves for later is in it.
func (s settings) cost(ctx context.Context, databases []*database, keys, journal string) error {
	costs := make([][]float64, len(databases)) // in µs
	for round := range rounds {
		for _, i := range lab.Turns(len(databases), round) {
			took, err := databases[i].claimCost(ctx, s, keys, journal)
			if err != nil {
				return err
			}
			costs[i] = append(costs[i], took)
		}
	}
	for i, d := range databases {
		ratios := make([]float64, rounds)
		for round := range ratios {
			ratios[round] = costs[i][round] / costs[0][round]
		}
		fmt.Printf("cost rows=%d %s keys, journal %s: %s µs of processor time; %s times that with %d (target 1.3)\n",
			d.rows, keys, journal, lab.Spread(costs[i]), lab.Spread(ratios), smallest)
	}
	return nil
}

// claimCost measures claims on a copy of the database, in µs of processor time for each.
func (d *database) claimCost(ctx context.Context, s settings, keys, journal string) (float64, error) {
	c, err := d.copy(s)
	if err != nil {
		return 0, err
	}
	c.NoJournal = journal == "off"
	e := c.NewEngine(engine.Options{MaxKeys: fewKeys, StoreTimeout: time.Minute, CleanupInterval: 24 * time.Hour})
	limit, err := lab.NewLimit(live)
	if err != nil {
		return 0, err
	}
	settle()
	clients := make([]load.Client, callers)
	for i := range clients {
		random := rand.New(rand.NewPCG(1, uint64(i)))
		clients[i] = func(ctx context.Context, number int64) (load.Kind, error) {
			name := key(1<<30 + int(number))
			if keys == knownKeys {
				name = key(random.IntN(d.rows))
			}
			decision := e.Decide(ctx, nil, []engine.Debit{{Limit: limit, Key: []byte(name), Cost: 1}})
			if !decision.Allowed || decision.Degraded {
				return load.Wrong, fmt.Errorf("a decision was made without the store or refused")
			}
			return load.OK, nil
		}
	}
	made, before := e.Stats(ctx).Claims, lab.CPU()
	if _, err := load.Run(ctx, load.Load{Requests: claims}, clients); err != nil {
		return 0, err
	}
	made = e.Stats(ctx).Claims - made
	if err := e.Close(ctx); err != nil {
		return 0, err
	}
	took := lab.CPU() - before
	if made < claims*9/10 {
		return 0, fmt.Errorf("%d decisions were only %d claims", claims, made)
	}
	return lab.Micros(took) / float64(made), c.remove()
}

// settle waits until this process has nothing to do: until the engine has begun to use its
// journal, and knows which keys are in the database.
func settle() {
	time.Sleep(time.Second)
	for before := lab.CPU(); ; before = lab.CPU() {
		time.Sleep(200 * time.Millisecond)
		if lab.CPU()-before < 4*time.Millisecond {
			return
		}
	}
}
