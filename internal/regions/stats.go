package regions

import (
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/storage/exchange"
)

// state is the state that the loop publishes to other goroutines.
type state struct {
	began   time.Time
	met     time.Time // the last contact with other regions
	synced  time.Time // the last complete exchange
	failing time.Time // the beginning of a failure; zero without one
	cause   error
	polled  int // rows collected in the last turn
	regions []exchange.Neighbor
}

// Stats describe the exchange of counts at one moment.
type Stats struct {
	// Region is the name of this region.
	Region string
	// Lag is the time since the last complete exchange.
	Lag time.Duration
	// Since is when the exchange began to fail, and Cause is the last error; both are zero while it
	// works.
	Since time.Time
	Cause error
	// Polled is the number of rows collected in the last turn.
	Polled int
	// Keys is the number of shared keys, and Names the number of names known to be in use here or
	// elsewhere.
	Keys, Names int64
	// Untracked is how many times there was no room for a key.
	Untracked int64
	// Regions are all known regions, including this one, in their current state.
	Regions []exchange.Neighbor
}

// Stats describes the exchange of counts.
func (r *Regions) Stats() Stats {
	s := Stats{Region: r.me.Region, Keys: r.table.count.Load(), Untracked: r.untracked.Load()}
	r.table.mu.Lock()
	s.Names = int64(len(r.table.names))
	r.table.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	st, now := &r.state, time.Now()
	s.Since, s.Cause, s.Polled = st.failing, st.cause, st.polled
	if s.Lag = now.Sub(st.synced); st.synced.IsZero() {
		s.Lag = now.Sub(st.began)
	}
	s.Regions = slices.Clone(st.regions)
	for i := range s.Regions {
		s.Regions[i].Lag += now.Sub(st.met)
	}
	return s
}
