package store

import (
	"context"
	"testing"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

func BenchmarkClaim(b *testing.B) {
	storagetest.BenchmarkClaim(b, func(b *testing.B) storage.Store { return opened(b, newPlace(b)) }, nil)
}

// BenchmarkInTerm measures claims as engines make them: one of a key that is used again and again,
// in a round trip.
func BenchmarkInTerm(b *testing.B) {
	s, l := opened(b, newPlace(b)), yearly(b)
	term := &storage.Term{Clock: steadyClock{1}}
	in, grants := s.Within(term), make([]limiter.Grant, 1)
	claims := []storage.Claim{{ID: 1, Key: storage.Key{1}, Limit: l, Claim: limiter.Claim{Min: 1, Want: 1}}}
	for b.Loop() {
		if err := in.Claim(context.Background(), claims, grants); err != nil {
			b.Fatal(err)
		}
	}
}
