package skeleton

import (
	"context"
	"testing"
	"time"

	tally "github.com/caddy-tally/caddy-tally"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

var _ tally.Store = Mine{}

// What the skeleton has keeps a limit.
func TestLimit(t *testing.T) {
	s, err := Mine{}.Open(context.Background(), 0)
	if err != nil {
		t.Fatal(err)
	}
	limit, err := limiter.New(limiter.Params{Amount: 5, Window: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	now, granted := time.Now().UnixNano(), int64(0)
	for range 3 {
		claims := []storage.Claim{{ID: 1, Limit: limit, Claim: limiter.Claim{Min: 1, Want: 2}}}
		grants := make([]limiter.Grant, 1)
		if err := s.Claim(context.Background(), storagetest.At(now), claims, grants); err != nil {
			t.Fatal(err)
		}
		granted += grants[0].Units
	}
	if granted != 5 {
		t.Errorf("granted %d units of 5", granted)
	}
}
