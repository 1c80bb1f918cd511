package history

import (
	"math/rand/v2"
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/internal/distinct"
	"github.com/caddy-tally/caddy-tally/internal/outcomes"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Meter counts the decisions about the requests of a series. A nil meter counts nothing. It is safe
// for concurrent use.
type Meter struct {
	series storage.Series

	counts [stripes]stripe
	keys   distinct.Set
	heavy  heavy
	exact  exact
}

// stripes is the number of counters for each count, so that processors seldom write to the same
// one. Requests choose one at random.
const stripes = 8

// stripe holds the counts of decisions since the last take. It fills a cache line.
type stripe struct {
	counts outcomes.Counts // of requests; only by atomic operations
	units  atomic.Int64    // less one for each allowed request; aligns the counts
	spent  atomic.Int64    // decisions of Spend
	_      int64
}

func (m *Meter) stripe() *stripe { return &m.counts[rand.Uint32()%stripes] }

// take returns the counts since the last call.
func (s *stripe) take() (counted storage.Tally) {
	s.spent.Store(0)
	taken := counted.All()
	for i, n := range s.counts.All() {
		*taken[i] = atomic.SwapInt64(n, 0)
	}
	counted.Units = counted.Allowed + s.units.Swap(0)
	return counted
}

// carry leaves what is below 0 for the next minute: requests that [Meter.Retract] takes back
// although their own minute was taken, or units of a request that is counted in the next one.
func (s *stripe) carry(counted *storage.Tally) {
	allowed := min(counted.Allowed, 0)
	units := min(counted.Units-allowed, 0)
	atomic.AddInt64(&s.counts.Allowed, allowed)
	s.units.Add(units)
	counted.Allowed -= allowed
	counted.Units -= allowed + units
}

// Key is the key that a request is counted for.
type Key struct {
	Text    []byte // not retained
	Hash    uint64 // see [Ledger.Key]
	Lasting bool   // it is an API key's: its use is counted exactly
}

// Allow counts a request that was charged.
func (m *Meter) Allow(key Key, units int64) {
	if m == nil {
		return
	}
	s := m.stripe()
	n := atomic.AddInt64(&s.counts.Allowed, 1)
	if units != 1 {
		s.units.Add(units - 1)
	}
	m.see(key)
	m.count(key, n, 1, 0, units)
}

// Retract takes back an Allow without a key: a later handler didn't let the request in.
func (m *Meter) Retract() {
	if m != nil {
		atomic.AddInt64(&m.stripe().counts.Allowed, -1)
	}
}

// Spend counts units of a request that was counted before with none.
func (m *Meter) Spend(key Key, units int64) {
	if m == nil {
		return
	}
	s := m.stripe()
	s.units.Add(units)
	m.count(key, s.spent.Add(1), 0, 0, units)
}

// GiveBack takes back units that were counted before. If the minute has fewer, later ones lack the rest.
func (m *Meter) GiveBack(key Key, units int64) {
	if m != nil {
		m.stripe().units.Add(-units)
		m.exact.add(key, 0, 0, -units)
	}
}

// Refusal is the reason for a refusal. The zero value is [OverLimit].
type Refusal int

// The refusals.
const (
	OverLimit Refusal = iota
	Blocked           // still over its limit, from memory
	Banned            // regardless of counts
)

// Refuse counts a refused request.
func (m *Meter) Refuse(key Key, why Refusal) {
	if m == nil {
		return
	}
	s := m.stripe()
	n := atomic.AddInt64(&s.counts.Refused, 1)
	switch why {
	case Blocked:
		atomic.AddInt64(&s.counts.Blocked, 1)
	case Banned:
		atomic.AddInt64(&s.counts.Banned, 1)
	}
	m.see(key)
	m.count(key, n, 0, 1, 0)
}

// WouldRefuse counts a request that a shadow limit would have refused. Among the heaviest keys it
// counts as a refusal.
func (m *Meter) WouldRefuse(key Key) {
	if m == nil {
		return
	}
	n := atomic.AddInt64(&m.stripe().counts.WouldRefuse, 1)
	m.see(key)
	m.count(key, n, 0, 1, 0)
}

// count counts requests and units of a key, whose decision is the n-th of its kind in a stripe.
func (m *Meter) count(key Key, n, allowed, refused, units int64) {
	m.exact.add(key, allowed, refused, units)
	if weight := m.weightOf(n); weight > 0 {
		m.heavy.add(key.Text, weight, units, refused)
	}
}

func (m *Meter) see(key Key) {
	if key.Hash != 0 {
		m.keys.Add(key.Hash)
	}
}

// take returns the counts since the last call, if there are any. at is a time in their minute.
func (m *Meter) take(at int64, name Namer) []storage.Minute {
	counted := storage.Minute{At: at, Series: m.series}
	for i := range m.counts {
		counted.Add(m.counts[i].take())
	}
	m.counts[0].carry(&counted.Tally)
	if counted.Tally == (storage.Tally{}) {
		return nil
	}
	counted.Keys, counted.Heaviest = m.keys.Take(), m.heavy.take(m.series, name)
	return []storage.Minute{counted}
}
