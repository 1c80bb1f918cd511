package regions

import (
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/exchange"
)

// state is the state that the loop publishes to other goroutines.
type state struct {
	began   time.Time
	met     time.Time // the last contact with other regions
	synced  time.Time // when the last complete exchange began
	failing time.Time // the beginning of a failure; zero without one
	cause   error
	polled  int // rows collected in the last turn

	me        exchange.Member // at that contact
	neighbors []exchange.Neighbor
}

// Stats describe the exchange of counts at one moment.
type Stats struct {
	// Region is the name of this region.
	Region string
	// Lag is the time since the last complete exchange began.
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
	// Regions are all known regions, including this one, in the order of their names.
	Regions []Region
}

// Region describes the machines of a region.
type Region struct {
	Name string
	// Machines is the number of machines that use the exchange, and Gone the number of those that have
	// gone within a day without a word.
	Machines, Gone int
	// Lag is the time since the exchange heard of one of them.
	Lag time.Duration
	// Ahead is how far the clock of a machine is ahead of the exchange's: of those that use it, the one
	// that differs most.
	Ahead time.Duration
	// Faults are what keeps the region from counting with this one.
	Faults []Fault
}

// Fault is something that keeps two regions from counting together.
type Fault uint8

// The faults.
const (
	// OtherSecret means that machines of the region have another secret, and so other names for keys.
	OtherSecret Fault = iota
	// OtherDatabase means that this region has several databases, which count on their own.
	OtherDatabase
	// SameDatabase means that another region has, or had within a day, the database of this one, and that
	// units count twice.
	SameDatabase
	// OtherClock means that a clock of the region differs by more than maxApart from the exchange's.
	OtherClock
	// Silent means that all machines of the region have gone without a word.
	Silent
	// Faults is the number of faults.
	Faults
)

// maxApart is the largest difference of clocks that isn't a fault.
const maxApart = 5 * time.Second

// String returns the name of the fault.
func (f Fault) String() string {
	return [...]string{"secret", "database", "same_database", "clock", "silent"}[f]
}

// regionsOf describes the regions of neighbors, as member sees them.
func regionsOf(neighbors []exchange.Neighbor, me exchange.Member) (list []Region) {
	for _, n := range neighbors {
		if last := len(list) - 1; last < 0 || list[last].Name != n.Region {
			list = append(list, Region{Name: n.Region, Lag: n.Lag})
		}
		r := &list[len(list)-1]
		r.Machines, r.Gone, r.Lag = r.Machines+n.Machines, r.Gone+n.Gone, min(r.Lag, n.Lag)
		if n.Ahead.Abs() > r.Ahead.Abs() {
			r.Ahead = n.Ahead
		}
		isHome, isUsed := n.Region == me.Region, n.Machines > 0
		r.note(OtherSecret, isUsed && differ(n.Secret, me.Secret))
		r.note(OtherDatabase, isUsed && isHome && differ(n.Database, me.Database))
		r.note(SameDatabase, !isHome && n.Database == me.Database && me.Database != (storage.Key{}))
	}
	for i := range list {
		r := &list[i]
		r.note(OtherClock, r.Ahead.Abs() > maxApart)
		r.note(Silent, r.Machines == 0 && r.Gone > 0)
	}
	return list
}

// note adds a fault if it is present.
func (r *Region) note(fault Fault, present bool) {
	if present && !slices.Contains(r.Faults, fault) {
		r.Faults = append(r.Faults, fault)
	}
}

// differ reports whether two marks are known to differ.
func differ(a, b storage.Key) bool {
	return a != b && a != (storage.Key{}) && b != (storage.Key{})
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
	s.Regions = regionsOf(st.neighbors, st.me)
	for i := range s.Regions {
		s.Regions[i].Lag += now.Sub(st.met)
	}
	return s
}
