package engine

import (
	"context"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Stats describes an engine at one moment.
type Stats struct {
	// Keys is how many keys are held in memory, counted once per limit.
	Keys int64
	// Claims is how many claims the store has answered, and AtOnce how many of them
	// without a transaction.
	Claims, AtOnce int64
	// Evicted is how many keys were dropped from memory to make room.
	Evicted int64
	// Clients is how many clients of each level are held in memory, as counted in
	// the last round of cleaning.
	Clients [reputation.Levels]int64
	// Degraded reports whether the store can't be used.
	Degraded bool
	// Since is when the store failed, and Cause what went wrong last; both are
	// zero while it can be used.
	Since time.Time
	Cause error
	// Store describes the store; what can't be told is zero.
	Store storage.Stats
	// Processes is how many processes use the store, as it told in the last round of cleaning; 0
	// if it can't tell.
	Processes int
	// Ahead is how far the wall clock of this machine is ahead of the store's time, as it was told
	// last; negative if it is behind.
	Ahead time.Duration
	// RoundTrip is about how long a call of a store on a network takes; 0 of others.
	RoundTrip time.Duration
	// LostWrites is how many times the store has lost what it had acknowledged, as far as this
	// process has noticed.
	LostWrites int64
	// Unsettled is how many times this process could not learn whether its last calls took effect.
	// It has charged what it knew again then, so some units may be charged twice.
	Unsettled int64
}

// Stats measures the engine and its store.
func (e *Engine) Stats(ctx context.Context) Stats {
	atOnce := e.table.claims()
	s := Stats{
		Keys:     e.table.count.Load(),
		Claims:   e.committer.writer.claimed.Load() + atOnce,
		AtOnce:   atOnce,
		Evicted:  e.table.evicted.Load(),
		Degraded: e.committer.degraded.Load(),

		Processes:  int(e.committer.conn.processes()),
		RoundTrip:  time.Duration(e.committer.conn.roundTrip()),
		LostWrites: e.committer.losses.lost.Load(),
		Unsettled:  e.committer.losses.unsettled.Load(),
	}
	r, elapsed := e.clock.source.Read()
	s.Ahead = time.Duration(r.Wall - e.clock.line.Load().now(elapsed))
	if counted := e.janitor.clients.Load(); counted != nil {
		s.Clients = *counted
	}
	if s.Degraded {
		s.Since, s.Cause = e.committer.outage.last()
	}
	if store := e.committer.conn.store.Load(); store != nil {
		s.Store, _ = store.Stats(ctx)
	}
	return s
}

// Degraded reports whether the store can't be used at the moment.
func (e *Engine) Degraded() bool { return e.committer.degraded.Load() }
