package regions

import (
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/exchange"
)

// state is what the loop tells others.
type state struct {
	began   time.Time
	met     time.Time // when the regions were last heard of
	synced  time.Time // when everything was last published and collected
	failing time.Time // since when that fails; zero if it doesn't
	cause   error
	polled  int // rows that were collected the last time
	regions []exchange.Neighbor
}

// Stats describes the exchange of counts at one moment.
type Stats struct {
	// Region is the name of this region.
	Region string
	// Lag is for how long nothing was published and collected.
	Lag time.Duration
	// Since is when the exchange failed, and Cause what went wrong last; both are zero while it
	// works.
	Since time.Time
	Cause error
	// Polled is how many rows were collected the last time.
	Polled int
	// Keys is how many keys are shared, and Names how many names are known to have been used
	// here or elsewhere.
	Keys, Names int64
	// Untracked is how many times there was no room for a key.
	Untracked int64
	// Regions is all regions that were heard of, this one among them, as they are by now.
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
