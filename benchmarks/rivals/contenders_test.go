package rivals

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/throttled/throttled/v2"
	"github.com/throttled/throttled/v2/store/memstore"
	ulule "github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/sqlite"
)

// window is what every contender counts over. It is so long that next to nothing
// of what is used comes back while a benchmark runs; in a token bucket that
// refills faster than a client comes back, each of its requests would be a claim.
const window = limiter.MaxWindow

// contender is a rate limiter with one limit. start returns the function that
// decides about a request of keys[i]. What start leaves open is closed with b.
type contender struct {
	name  string
	start func(b *testing.B, amount int64, keys []string) func(i int) bool
}

var contenders = []contender{
	{"tally_sliding", func(b *testing.B, amount int64, keys []string) func(int) bool {
		return tally(b, limiter.Params{Amount: amount, Window: window}, keys)
	}},
	{"tally_token_bucket", func(b *testing.B, amount int64, keys []string) func(int) bool {
		return tally(b, limiter.Params{Algorithm: limiter.TokenBucket, Amount: amount, Window: window}, keys)
	}},
	{"sethvargo", sethvargo},
	{"throttled", gcra},
	{"x_time_rate", buckets},
	{"ulule", fixed},
}

// tally is the engine of this project with its store and its defaults, but for
// the time that warming up may wait for the store.
func tally(b *testing.B, p limiter.Params, keys []string) func(i int) bool {
	dir := b.TempDir()
	secret, err := identity.OpenSecret(filepath.Join(dir, "tally.key"))
	if err != nil {
		b.Fatal(err)
	}
	e, err := engine.New(engine.Options{
		Open: func(ctx context.Context) (storage.Store, error) {
			return sqlite.Open(ctx, sqlite.Options{Path: filepath.Join(dir, "tally.db")})
		},
		Name: func(id storage.LimitID, key string, _ time.Duration, _ int64) (engine.Name, error) {
			return engine.Name{Key: secret.Hash(uint64(id), key)}, nil
		},
		StoreTimeout: time.Minute,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := e.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	l, err := limiter.New(p)
	if err != nil {
		b.Fatal(err)
	}
	limit := &engine.Limit{ID: 1, Limit: l}
	texts := make([][]byte, len(keys))
	for i, key := range keys {
		texts[i] = []byte(key)
	}
	ctx := context.Background()
	debits := sync.Pool{New: func() any { return new([1]engine.Debit) }}
	return func(i int) bool {
		debit := debits.Get().(*[1]engine.Debit)
		debit[0] = engine.Debit{Limit: limit, Key: texts[i], Cost: 1}
		d := e.Decide(ctx, nil, debit[:])
		debits.Put(debit)
		return d.Allowed && !d.Degraded
	}
}

// sethvargo is the memory store of go-limiter: a bucket per key, refilled at once
// after each interval.
func sethvargo(b *testing.B, amount int64, keys []string) func(i int) bool {
	store, err := memorystore.New(&memorystore.Config{Tokens: uint64(amount), Interval: window, InitialAlloc: len(keys)})
	if err != nil {
		b.Fatal(err)
	}
	ctx := context.Background()
	b.Cleanup(func() { store.Close(ctx) })
	return func(i int) bool {
		_, _, _, ok, err := store.Take(ctx, keys[i])
		return ok && err == nil
	}
}

// gcra is throttled's GCRA on its memory store without a bound on keys; with a
// bound it keeps them in a list under one more lock.
func gcra(b *testing.B, amount int64, keys []string) func(i int) bool {
	store, err := memstore.NewCtx(0)
	if err != nil {
		b.Fatal(err)
	}
	quota := throttled.RateQuota{MaxRate: throttled.PerDuration(int(amount), window), MaxBurst: int(amount) - 1}
	l, err := throttled.NewGCRARateLimiterCtx(store, quota)
	if err != nil {
		b.Fatal(err)
	}
	l.SetMaxCASAttemptsLimit(1000) // by default it gives up with an error where many come at once
	ctx := context.Background()
	return func(i int) bool {
		limited, _, err := l.RateLimitCtx(ctx, keys[i], 1)
		return !limited && err == nil
	}
}

// buckets is a map of golang.org/x/time/rate limiters under a lock, as it is
// usually written. Nothing is ever removed from it.
func buckets(b *testing.B, amount int64, keys []string) func(i int) bool {
	var mu sync.RWMutex
	limiters := make(map[string]*rate.Limiter, len(keys))
	every := rate.Every(window / time.Duration(amount))
	return func(i int) bool {
		mu.RLock()
		l := limiters[keys[i]]
		mu.RUnlock()
		if l == nil {
			mu.Lock()
			if l = limiters[keys[i]]; l == nil {
				l = rate.NewLimiter(every, int(amount))
				limiters[keys[i]] = l
			}
			mu.Unlock()
		}
		return l.Allow()
	}
}

// fixed is the memory store of ulule's limiter: a window that begins with the
// first request of a key.
func fixed(_ *testing.B, amount int64, keys []string) func(i int) bool {
	l := ulule.New(memory.NewStore(), ulule.Rate{Period: window, Limit: amount})
	ctx := context.Background()
	return func(i int) bool {
		state, err := l.Get(ctx, keys[i])
		return err == nil && !state.Reached
	}
}
