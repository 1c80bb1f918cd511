package engine

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/storage"
)

// slowSweeps is a store whose sweeps take a second.
type slowSweeps struct{ storage.Store }

func (s slowSweeps) Sweep(ctx context.Context, term *storage.Term) (storage.Swept, error) {
	time.Sleep(time.Second)
	return s.Store.Sweep(ctx, term)
}

// sweptObserver notes how long the last sweep took.
type sweptObserver struct {
	noObserver
	took time.Duration
}

func (o *sweptObserver) Swept(_ int64, _ int, took time.Duration, _ error) { o.took = took }

func TestObserverLearnsHowLongASweepTook(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var seen sweptObserver
		f := newFixture(t, func(o *Options) {
			o.CleanupInterval = 1000 * time.Hour
			o.Observer = &seen
			open := o.Open
			o.Open = func(ctx context.Context) (storage.Store, error) {
				store, err := open(ctx)
				return slowSweeps{store}, err
			}
		})
		f.count(1, debit(sliding(t, 10, time.Minute), "a", 1)) // the store is open
		f.janitor.clean()
		if seen.took != time.Second {
			t.Errorf("got %v, want 1s", seen.took)
		}
	})
}

// manyRows is a store with many expired rows. A step removes 1000 of them in some seconds.
type manyRows struct {
	storage.Store
	rows *atomic.Int64
}

func (s manyRows) Sweep(ctx context.Context, _ *storage.Term) (storage.Swept, error) {
	time.Sleep(5 * time.Second)
	if err := ctx.Err(); err != nil {
		return storage.Swept{}, err
	}
	return storage.Swept{Rows: 1000, More: s.rows.Add(-1000) > 0}, nil
}

// More rows than a cleanup can remove in its interval go away in the next ones. That isn't an error.
func TestSweepLongerThanTheIntervalGoesOn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var rows atomic.Int64
		rows.Store(30_000)
		var seen countingObserver
		f := newFixture(t, func(o *Options) {
			o.CleanupInterval, o.Observer = time.Minute, &seen
			open := o.Open
			o.Open = func(ctx context.Context) (storage.Store, error) {
				store, err := open(ctx)
				return manyRows{store, &rows}, err
			}
		})
		f.count(1, debit(sliding(t, 10, time.Minute), "a", 1))
		time.Sleep(7 * time.Minute)
		if left, n := rows.Load(), seen.sweeps.Load(); left > 0 || n < 3 {
			t.Errorf("%d rows are left after %d cleanups, want none after several", left, n)
		}
		if n := seen.failed.Load(); n > 0 {
			t.Errorf("%d cleanups failed", n)
		}
	})
}

// The janitor lets requests in between: it never looks at more than restAfter cells, and those of
// 64 buckets of six, without a rest.
func TestTheJanitorRests(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var seen sweptObserver
		f := newFixture(t, func(o *Options) { o.CleanupInterval, o.Observer = 1000*time.Hour, &seen })
		const keys = 10 * restAfter
		limit := sliding(t, 10, time.Minute)
		for i := range keys {
			f.count(1, debit(limit, fmt.Sprint(i), 1))
		}
		f.janitor.clean()
		least := 2 * (keys/(restAfter+64*6) - 1) * restFor // it sweeps them, and visits them
		if seen.took < least || seen.took > time.Second {
			t.Errorf("cleaning took %v, want %v at least", seen.took, least)
		}
	})
}

// A store is swept at any configured interval. Memory still keeps a key for a minute: if it forgot
// keys that still count, the next request for each would be read from the store.
func TestShortIntervalsForgetNoKeySooner(t *testing.T) {
	for interval, kept := range map[time.Duration]int{5 * time.Second: 12, time.Minute: 1, time.Hour: 1} {
		f := newFixture(t, func(o *Options) { o.CleanupInterval = interval })
		limit := sliding(t, 10, time.Minute)
		f.count(1, debit(limit, "a", 1))
		for range kept {
			if f.table.sweep(f.clock.Now(), func(<-chan struct{}) {}, func(int) {}); !f.table.find(limit.ID, []byte("a")).exists() {
				t.Fatalf("with an interval of %v, the key is forgotten after less than %d sweeps", interval, kept)
			}
		}
		if f.table.sweep(f.clock.Now(), func(<-chan struct{}) {}, func(int) {}); f.table.find(limit.ID, []byte("a")).exists() {
			t.Errorf("with an interval of %v, the key is not forgotten after %d sweeps", interval, kept+1)
		}
	}
}

// Options that change more often than the cleanup comes, at reloads, don't put it off.
func TestChangedOptionsPutOffNoCleanup(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var seen countingObserver
		f := newFixture(t, func(o *Options) { o.CleanupInterval, o.Observer = time.Minute, &seen })
		f.count(1, debit(sliding(t, 10, time.Minute), "a", 1))
		for i := range 20 {
			time.Sleep(30 * time.Second)
			changed := *f.opts.now()
			changed.MaxKeys = 1000 + i
			if err := f.Change(context.Background(), changed, false); err != nil {
				t.Fatal(err)
			}
		}
		if n := seen.sweeps.Load(); n < 8 || n > 10 {
			t.Errorf("%d cleanups in ten minutes, want about ten", n)
		}
	})
}

// countingObserver counts sweeps, and those that failed.
type countingObserver struct {
	noObserver
	sweeps, failed atomic.Int64
}

func (o *countingObserver) Swept(_ int64, _ int, _ time.Duration, err error) {
	if o.sweeps.Add(1); err != nil {
		o.failed.Add(1)
	}
}
