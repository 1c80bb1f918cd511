//go:build unix

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/lab"
	"github.com/caddy-tally/caddy-tally/benchmarks/internal/stats"
	"github.com/caddy-tally/caddy-tally/internal/engine"
)

const (
	// costClaims is how many claims a round has: five segments of the journal.
	costClaims = 40_000
	// costRounds is how often each database is measured.
	costRounds = 3
)

// keyKind is which keys the claims of a round are about.
type keyKind string

const (
	knownKeys keyKind = "known" // at random of those with a row
	newKeys   keyKind = "new"
)

// cost compares the processor time of a claim with 10^4, 10^5 … rows: all that an engine does from
// the first of many claims to the end of Close, so that what the journal leaves for later is in it.
func (s settings) cost(ctx context.Context, noJournal bool) error {
	var databases []*database
	for rows := smallest; rows <= s.rows; rows *= 10 {
		d, err := filled(ctx, s, rows)
		if err != nil {
			return err
		}
		databases = append(databases, d)
	}
	for _, kind := range []keyKind{knownKeys, newKeys} {
		costs := make([][]float64, len(databases)) // in µs
		for round := range costRounds {
			for _, i := range lab.Turns(len(databases), round) {
				took, err := databases[i].claimCost(ctx, s, kind, noJournal)
				if err != nil {
					return err
				}
				costs[i] = append(costs[i], took)
			}
		}
		for i, d := range databases {
			ratios := make([]float64, costRounds)
			for round := range ratios {
				ratios[round] = costs[i][round] / costs[0][round]
			}
			fmt.Printf("cost rows=%d %s keys, journal %s: %s µs of processor time; %s times that with %d (target 1.3)\n",
				d.rows, kind, onOff(!noJournal), stats.Spread(costs[i]), stats.Spread(ratios), smallest)
		}
	}
	for _, d := range databases {
		if err := d.remove(); err != nil {
			return err
		}
	}
	return nil
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}

// claimCost measures claims on a copy of the database, in µs of processor time for each.
func (d *database) claimCost(ctx context.Context, s settings, kind keyKind, noJournal bool) (float64, error) {
	c, err := d.copy(s)
	if err != nil {
		return 0, err
	}
	c.NoJournal = noJournal
	e, err := c.start(engine.Options{})
	if err != nil {
		return 0, err
	}
	limit, err := lab.NewLimit(live)
	if err != nil {
		return 0, err
	}
	if kind == newKeys {
		c.rows = 0
	}
	settle()
	asked := &decisions{engine: e, limit: limit, keys: c.keys()}
	asked.keys.onlyKnown = kind == knownKeys
	claims, before := e.Stats(ctx).Claims, lab.CPU()
	if err := asked.ask(ctx, costClaims); err != nil {
		return 0, err
	}
	claims = e.Stats(ctx).Claims - claims
	if err := e.Close(ctx); err != nil {
		return 0, err
	}
	took := lab.CPU() - before
	if claims < costClaims*9/10 {
		return 0, fmt.Errorf("%d decisions were only %d claims", costClaims, claims)
	}
	return stats.Micros(took) / float64(claims), c.remove()
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
