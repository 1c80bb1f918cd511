package engine // operators

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Stats describes an engine at one moment.
type Stats struct {
	// Keys is the number of keys in memory, counted once per limit.
	Keys int64
	// Claims is the number of claims answered by the store, and AtOnce the number of these that
	// needed no transaction.
	Claims, AtOnce int64
	// Evicted is the number of keys dropped from memory to make room.
	Evicted int64
	// Clients is the number of clients of each level in memory, as counted in the last cleanup.
	Clients [reputation.Levels]int64
	// Degraded reports whether the store can't be used. A store on a network is asked.
	Degraded bool
	// Since is when the store failed, and Cause is its last error; both are zero while it can be
	// used.
	Since time.Time
	Cause error
	// Store describes the store; unknown values are zero.
	Store storage.Stats
	// Processes is the number of processes on the store as of the last cleanup; 0 if unknown.
	Processes int
	// Ahead is how far the wall clock of this machine is ahead of the store's last known time;
	// negative if it is behind.
	Ahead time.Duration
	// ServerAhead is how far the clock of the store's server is ahead of that of this machine, as of the last known
	// time; negative if it is behind.
	ServerAhead time.Duration
	// RoundTrip is the approximate duration of a call of a store on a network; 0 for other stores.
	RoundTrip time.Duration
	// LostWrites is how many times the store has lost acknowledged writes, as far as this process
	// has noticed.
	LostWrites int64
	// Unsettled is how many times this process could not learn whether its last calls took effect.
	// It then charged its known usage again, so some units may be charged twice.
	Unsettled int64
}

// Stats measures the engine and its store.
func (e *Engine) Stats(ctx context.Context) Stats {
	atOnce := e.table.claims.sum()
	ahead, server := e.clock.Ahead()
	s := Stats{
		Keys:     e.table.Len(),
		Claims:   e.committer.writer.claimed.Load() + atOnce,
		AtOnce:   atOnce,
		Evicted:  e.table.Evicted(),
		Degraded: e.committer.degraded.Load(),

		Ahead: time.Duration(ahead), ServerAhead: time.Duration(server - ahead),
		Processes:  int(e.committer.conn.processes()),
		RoundTrip:  time.Duration(e.committer.conn.roundTrip()),
		LostWrites: e.committer.losses.lost.Load(),
		Unsettled:  e.committer.losses.unsettled.Load(),
	}
	if counted := e.janitor.clients.Load(); counted != nil {
		s.Clients = *counted
	}
	if s.Degraded {
		s.Since, s.Cause = e.committer.outage.last()
	}
	if store := e.committer.conn.store.Load(); store != nil {
		var err error
		s.Store, err = store.Stats(ctx)
		if away := net.Error(nil); !s.Degraded && store.network != nil && errors.As(err, &away) {
			s.Degraded, s.Since, s.Cause = true, time.Now(), err // no claim has noticed it yet
		}
	}
	return s
}

// Degraded reports whether the store can't be used at the moment.
func (e *Engine) Degraded() bool { return e.committer.degraded.Load() }
