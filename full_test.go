package tally

import (
	"context"
	"encoding/binary"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/sqlite"
)

// jumpingClock is a clock that a test sets forward.
type jumpingClock struct{ ahead atomic.Int64 }

func (c *jumpingClock) Read() (r storage.Reading, elapsed int64) {
	now := c.Elapsed()
	return storage.Reading{Wall: now, Steady: now, Source: storage.Source{1}, Shared: true}, now
}

func (c *jumpingClock) Elapsed() int64 { return time.Now().UnixNano() + c.ahead.Load() }

// A database that keys have filled is used again once they have expired, with
// nobody's help.
func TestFullDatabaseRecovers(t *testing.T) {
	clock := new(jumpingClock)
	e, err := engine.New(engine.Options{
		Open: func(ctx context.Context) (storage.Store, error) {
			return sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(t.TempDir(), "tally.db"), MaxSize: sqlite.MinMaxSize})
		},
		Name: func(_ storage.LimitID, key string, _ time.Duration, _ int64) (name engine.Name, err error) {
			copy(name.Key[:], key)
			return name, nil
		},
		StoreTimeout: time.Minute,
		Clock:        clock,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close(context.Background())
	arithmetic, err := limiter.New(limiter.Params{Amount: 10, Window: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	limit := &engine.Limit{ID: 1, Limit: arithmetic}

	n := uint64(0)
	ask := func(keys int) engine.Decision {
		debits := make([]engine.Debit, keys)
		for i := range debits {
			n++
			debits[i] = engine.Debit{Limit: limit, Key: binary.BigEndian.AppendUint64(nil, n*0x9E3779B97F4A7C15), Cost: 1}
		}
		return e.Decide(context.Background(), nil, debits)
	}
	for !ask(50).Degraded {
		if n > 1_000_000 {
			t.Fatal("a million keys fit into 1 MiB")
		}
	}
	clock.ahead.Add(int64(time.Hour))
	for deadline := time.Now().Add(time.Minute); e.Stats(context.Background()).Degraded; {
		if time.Now().After(deadline) {
			t.Fatal("degraded for a minute after all keys have expired")
		}
		runtime.Gosched()
	}
	if d := ask(1); !d.Allowed || d.Degraded {
		t.Errorf("a new key afterwards: %+v", d)
	}
}
