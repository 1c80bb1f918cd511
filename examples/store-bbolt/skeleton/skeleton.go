// Package skeleton is the beginning of a store of your own, as docs/stores-of-your-own.md shows it.
package skeleton

import (
	"context"
	"sync"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Mine is a module of Caddy. In a Caddyfile it is `store mine` in the global option rate_limit.
type Mine struct{}

func init() { caddy.RegisterModule(Mine{}) }

func (Mine) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "rate_limit.stores.mine", New: func() caddy.Module { return new(Mine) }}
}
func (Mine) Counts() string   { return "mine" } // where the counts are, without secrets
func (Mine) Identity() string { return "mine" } // and how they are used: settings, for example

// Open is the first that opens, creates or changes anything. It is called again after a fault.
func (Mine) Open(context.Context, time.Duration) (storage.Store, error) {
	return &mine{states: make(map[place]limiter.State)}, nil
}

// mine is an open store.
type mine struct {
	storage.Local // the methods that are not written yet: calling one panics

	mu     sync.Mutex // in the place of a transaction
	record storage.TimeRecord
	states map[place]limiter.State
}

type place struct {
	id  storage.LimitID
	key storage.Key
}

func (s *mine) Claim(ctx context.Context, term *storage.Term, claims []storage.Claim, grants []limiter.Grant) error {
	if err := storage.CheckClaims(claims, grants); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if term.Time = s.now(term.Clock); !term.Holds(term.Time) {
		return storage.ErrTerm
	}
	for i := range claims {
		c := &claims[i]
		c.Now = term.Time.Now
		at := place{c.ID, c.Key} // a former name, which moves counts, is still ignored
		state := s.states[at]
		grants[i] = c.Limit.Claim(&state, c.Claim) // the decision; a store only keeps the state
		s.states[at] = state
	}
	return nil
}

func (s *mine) Time(clock storage.Clock, least int64) (storage.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now(clock), nil
}

// now is called inside of transactions, when no other call can change the store any more.
func (s *mine) now(clock storage.Clock) storage.Time {
	reading := clock.Read()
	next, _ := s.record.Tell(reading, s.record)
	s.record = next.Measured(reading)
	return s.record.Time
}
