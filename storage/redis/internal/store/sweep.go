package store

import (
	"context"
	"fmt"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Sweep implements [storage.Store]. It drops resets, acts and notes. Counts and records expire on the
// server by themselves.
func (s *Store) Sweep(ctx context.Context, term *storage.Term) (swept storage.Swept, err error) {
	if _, err := s.machine.inTerm(ctx, term,
		s.look("sweep", storage.Seen{Resets: -1, Changes: -1, Notes: -1}, "0")); err != nil {
		return swept, err
	}
	if err := s.evictions.check(ctx); err != nil {
		return swept, fmt.Errorf("redis: sweep: %w", err)
	}
	if err := s.acts.drop(ctx, term.Time.Now); err != nil {
		return swept, err
	}
	swept.Rows, err = s.notes.drop(ctx, term.Time.Now)
	swept.More = swept.Rows == maxNotesDropped
	return swept, err
}
