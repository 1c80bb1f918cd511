package memory_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/memory"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

// Two stores on one database share its counts, as two processes on one file do.
func Example() {
	open := memory.New().Opener(memory.Options{})
	limit, err := limiter.New(limiter.Params{Amount: 5, Window: time.Minute})
	if err != nil {
		log.Fatal(err)
	}
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC).UnixNano()
	for range 2 {
		store, err := open(context.Background())
		if err != nil {
			log.Fatal(err)
		}
		defer store.Close()
		claims := []storage.Claim{{
			ID: 1, Key: storage.Key{1}, Limit: limit,
			Claim: limiter.Claim{Min: 1, Want: 3},
		}}
		grants := make([]limiter.Grant, len(claims))
		if err := store.Claim(context.Background(), storagetest.At(now), claims, grants); err != nil {
			log.Fatal(err)
		}
		fmt.Println(grants[0].Units, "of 3 granted")
	}
	// Output:
	// 3 of 3 granted
	// 2 of 3 granted
}
