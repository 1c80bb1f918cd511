package pressure

import (
	"cmp"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Saved is a squeeze as it is on disk: its network is known by a name only.
type Saved struct {
	Name [16]byte
	Squeeze
}

// savedSqueezes are squeezes of networks that are known by name, until a client
// comes from one and the name is told.
type savedSqueezes struct {
	imports atomic.Uint64 // how often there was something new

	mu     sync.Mutex
	byName map[[16]byte]Squeeze // guarded by mu
}

// newest returns the number of the last import.
func (s *savedSqueezes) newest() uint64 { return s.imports.Load() }

// Import takes squeezes over that were saved: by this process before it was
// started again, or by another. What doesn't count any more is left out, and of
// more than MaxPrefixes those that end first are. It may be called again and again
// with the same ones.
func (t *Tracker) Import(now time.Time, saved []Saved) {
	t.saved.add(since1970(now), slices.Clone(saved), t.o)
}

func (s *savedSqueezes) add(at time.Duration, saved []Saved, o Options) {
	slices.SortFunc(saved, func(a, b Saved) int { return cmp.Compare(b.Until.UnixNano(), a.Until.UnixNano()) })
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh := false
	for _, row := range saved {
		if len(s.byName) >= o.MaxPrefixes || !row.counts(at, o) {
			continue
		}
		if s.byName == nil {
			s.byName = make(map[[16]byte]Squeeze)
		}
		if known, ok := s.byName[row.Name]; !ok || row.Until.After(known.Until) {
			s.byName[row.Name] = row.Squeeze
			fresh = true
		}
	}
	if fresh {
		s.imports.Add(1)
	}
}

// counts tells whether a squeeze goes on or counts as one before.
func (q Squeeze) counts(at time.Duration, o Options) bool {
	n := network{until: since1970(q.Until), times: q.Times}
	return q.Times > 0 && !n.forgiven(at, o)
}

func (s *savedSqueezes) sweep(at time.Duration, o Options) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, q := range s.byName {
		if !q.counts(at, o) {
			delete(s.byName, name)
		}
	}
}

// last returns the squeeze of these names that ends last.
func (s *savedSqueezes) last(names [][16]byte) (last Squeeze) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		if q := s.byName[name]; q.Times > 0 && q.Until.After(last.Until) {
			last = q
		}
	}
	return last
}

// Recall tells a network's names, so that what was saved under one of them is
// found again, and then what Seen would.
func (t *Tracker) Recall(now time.Time, prefix netip.Prefix, names ...[16]byte) Verdict {
	at, newest := since1970(now), t.saved.newest()
	saved := t.saved.last(names)
	s := t.shard(prefix)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := t.networkLocked(s, prefix, at)
	n.recalled = newest
	if until := since1970(saved.Until); saved.Times > 0 && saved.counts(at, t.o) && until > n.until {
		n.until, n.times = until, max(saved.Times, n.times)
		n.set = nil
	}
	return Verdict{Squeeze: n.current(at, t.o)}
}

// Squeezed is a network that was squeezed.
type Squeezed struct {
	Prefix netip.Prefix
	Squeeze
}

// Squeezes returns the squeezes that go on or count as ones before, to be saved
// under the names that their networks have today.
func (t *Tracker) Squeezes(now time.Time) (squeezes []Squeezed) {
	at := since1970(now)
	for i := range t.shards {
		squeezes = t.shards[i].appendSqueezes(squeezes, at, t.o)
	}
	return squeezes
}

func (s *shard) appendSqueezes(squeezes []Squeezed, at time.Duration, o Options) []Squeezed {
	s.mu.Lock()
	defer s.mu.Unlock()
	for prefix, n := range s.networks {
		if n.times > 0 && !n.forgiven(at, o) {
			squeezes = append(squeezes, Squeezed{prefix, Squeeze{time.Unix(0, int64(n.until)), n.times}})
		}
	}
	return squeezes
}
