package sqlite

import (
	"context"
	"encoding/binary"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// jumpingClock is a clock that a test advances.
type jumpingClock struct{ ahead atomic.Int64 }

func (c *jumpingClock) Read() (r storage.Reading, elapsed int64) {
	now := c.Elapsed()
	return storage.Reading{Wall: now, Steady: now, Source: storage.Source{1}, Shared: true}, now
}

func (c *jumpingClock) Elapsed() int64 { return time.Now().UnixNano() + c.ahead.Load() }

// recoveries is an observer that reports when a store is in use again.
type recoveries struct {
	*site
	again chan<- struct{}
}

func (r recoveries) Recovered(time.Duration) {
	select {
	case r.again <- struct{}{}:
	default:
	}
}

// A database full of keys is used again once they have expired, without an operator. A journal
// takes what the database has no room for, until it is full, too. A sweep must make room before
// that is folded.
func TestFullDatabaseRecovers(t *testing.T) {
	for name, o := range map[string]Options{
		"with a journal":       {journalSizes: []journalSize{{8, 1024}}},
		"with a small journal": {journalSizes: []journalSize{{2, 256}}},
		"without":              {NoJournal: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o.Path, o.MaxSize = filepath.Join(t.TempDir(), "tally.db"), MinMaxSize
			testFullDatabaseRecovers(t, o)
		})
	}
}

func testFullDatabaseRecovers(t *testing.T, o Options) {
	clock, again := new(jumpingClock), make(chan struct{}, 1)
	e := engine.New(engine.Options{
		Open: func(ctx context.Context) (storage.Store, error) {
			return Open(ctx, o)
		},
		Name: func(_ storage.LimitID, key string, _ time.Duration, _ int64) (name engine.Name, err error) {
			copy(name.Key[:], key)
			return name, nil
		},
		StoreTimeout: time.Minute,
		Clock:        clock,
		Observer:     recoveries{new(site), again},
	})
	defer e.Close(context.Background())
	arithmetic, err := limiter.New(limiter.Params{Amount: 10, Window: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	limit := &engine.Limit{ID: 1, Rate: arithmetic}

	n := uint64(0)
	ask := func(keys int) engine.Decision {
		debits := make([]engine.Debit, keys)
		for i := range debits {
			n++
			debits[i] = engine.Debit{Limit: limit, Key: binary.BigEndian.AppendUint64(nil, n*0x9E3779B97F4A7C15), Cost: 1}
		}
		return e.Decide(context.Background(), nil, debits)
	}
	for !ask(500).Degraded {
		if n > 1_000_000 {
			t.Fatal("a million keys fit into 1 MiB")
		}
	}
	clock.ahead.Add(int64(time.Hour))
	for e.Stats(context.Background()).Degraded {
		<-again
	}
	if d := ask(1); !d.Allowed || d.Degraded {
		t.Errorf("a new key afterwards: %+v", d)
	}
}
