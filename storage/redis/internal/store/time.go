package store

import (
	"context"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Time implements [storage.Store].
func (s *Store) Time(from storage.Clock, least int64) (storage.Time, error) {
	term := &storage.Term{Clock: from, Resets: -1}
	_, err := s.machine.inTerm(context.Background(), term, call{
		what: "time", script: timeScript, least: least,
		request: func(int64) request { return request{} },
	})
	return term.Time, err
}
