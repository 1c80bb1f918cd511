package store

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/outcomes"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/storage"
)

// TestSideCuts has machines report and record acts at the same time, about the same series and times, through a proxy
// that ends connections, while another one sweeps. Each report that was repeated until it was answered is counted
// once, and each act that was answered is there once.
func TestSideCuts(t *testing.T) {
	server := sharedServer(t)
	proxy, o := newProxy(t, server), newOptions()
	direct := openStore(t, opener(t, server, server.Port, o))
	present, err := direct.Time(clock{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	now := present.Now - present.Now%int64(time.Hour)
	var machines []*Store
	for range 3 {
		machines = append(machines, openStore(t, opener(t, server, proxy.Port, o)))
	}
	var cuts, answered atomic.Int64
	proxy.SetCut(func() testserver.Cut {
		if rand.IntN(8) != 0 {
			return testserver.Pass
		}
		cuts.Add(1)
		return []testserver.Cut{testserver.Instead, testserver.Unheard, testserver.AtOnce}[rand.IntN(3)]
	})
	times, ctx := proof.Times(5, 300), context.Background()
	var all sync.WaitGroup
	for i, s := range machines {
		all.Go(func() {
			for n := range times {
				report := storage.Report{Writer: int64(i), Number: int64(n + 1)}
				for z := range 8 {
					m := storage.Minute{At: now + int64(n%3)*int64(time.Minute),
						Series: storage.Series{Zone: fmt.Sprint(rand.IntN(3))},
						Tally:  storage.Tally{Counts: outcomes.Counts{Allowed: 1}}}
					m.Heaviest = []storage.HeavyKey{{Key: storage.Key{byte(z)}, Units: 1}}
					report.Minutes = append(report.Minutes, m)
				}
				for s.Report(ctx, now, report) != nil {
				}
				act := storage.Act{At: now, Target: fmt.Sprint(i, n)}
				if s.Audit(ctx, storage.Audit, &act) == nil {
					answered.Add(1)
				}
			}
		})
	}
	all.Go(func() {
		for range times {
			if _, err := direct.Sweep(ctx, term(t, direct, clock{})); err != nil {
				t.Errorf("sweep: %v", err)
			}
		}
	})
	all.Wait()
	proxy.SetCut(func() testserver.Cut { return testserver.Pass })
	reported := int64(len(machines)) * int64(times) * 8
	for _, r := range storage.Rollups {
		points, err := direct.History(ctx,
			storage.HistoryQuery{From: now, To: now + int64(time.Hour), Resolution: r.Resolution})
		sum := int64(0)
		for _, p := range points {
			sum += p.Allowed
		}
		if err != nil || sum != reported {
			t.Errorf("per %v: %d requests are counted (%v), want %d, after %d cuts", r.Resolution, sum, err, reported,
				cuts.Load())
		}
	}
	heavy, err := direct.Heaviest(ctx, storage.HistoryQuery{From: now, To: now + int64(time.Hour)}, 1000)
	sum := int64(0)
	for _, h := range heavy {
		sum += h.Units
	}
	if err != nil || sum != reported {
		t.Errorf("%d units of the heaviest keys are counted (%v), want %d", sum, err, reported)
	}
	acts, err := direct.Acts(ctx, storage.Audit, math.MaxInt64, storage.MaxActs)
	found := make(map[string]bool)
	for _, a := range acts {
		if found[a.Target] {
			t.Errorf("the act %s is there twice", a.Target)
		}
		found[a.Target] = true
	}
	if err != nil || int64(len(acts)) < answered.Load() {
		t.Errorf("there are %d acts (%v), and %d were answered", len(acts), err, answered.Load())
	}
}
