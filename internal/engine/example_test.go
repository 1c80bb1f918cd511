package engine_test

import (
	"context"
	"fmt"
	"log"
	"math"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/memory"
)

// noon is a clock that has stopped, so that the example always prints the same.
type noon struct{}

func (noon) Read() (storage.Reading, int64) {
	return storage.Reading{Wall: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC).UnixNano(), Source: storage.Source{1}}, 0
}

func (noon) Elapsed() int64 { return 0 }

// nameKeys names keys for the store. Here a name begins with the text of the key. A real
// one is a keyed hash.
func nameKeys(_ storage.LimitID, key string, _ time.Duration, _ int64) (n engine.Name, err error) {
	copy(n.Key[:], key)
	return n, nil
}

// An engine on a store in memory lets two of three requests pass, and says when the third
// may come again.
func ExampleEngine() {
	e := engine.New(engine.Options{
		Open:         memory.New().Opener(memory.Options{}),
		Name:         nameKeys,
		Clock:        noon{},
		StoreTimeout: time.Minute, // enough for a busy machine
	})
	defer e.Close(context.Background())
	<-e.Ready()

	perMinute, err := limiter.New(limiter.Params{Amount: 2, Window: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	limit := &engine.Limit{ID: 1, Rate: perMinute}
	for range 3 {
		debits := []engine.Debit{{Limit: limit, Key: []byte("192.0.2.1"), Cost: 1}}
		d := e.Decide(context.Background(), nil, debits)
		if d.Allowed {
			fmt.Println("allowed,", debits[0].Quota.Remaining, "remaining")
			continue
		}
		fmt.Println("refused, Retry-After:", math.Ceil(d.Retry.Seconds()))
	}
	// Output:
	// allowed, 1 remaining
	// allowed, 0 remaining
	// refused, Retry-After: 61
}
