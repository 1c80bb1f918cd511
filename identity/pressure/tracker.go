package pressure

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"
)

// Squeeze is the squeezing of a network.
type Squeeze struct {
	Until time.Time
	Times int // how often in a row it was squeezed, this time included
}

// Verdict is what there is to know about a network when a client comes from it.
type Verdict struct {
	// Squeeze is the one that goes on. Its zero value: there is none.
	Squeeze

	// Began tells that this client made it begin: it is to be saved.
	Began bool

	// Recall tells that a squeeze may have been saved for this network under one of
	// its names: call Recall with them.
	Recall bool
}

// Squeezed tells whether the network is being squeezed.
func (v Verdict) Squeezed() bool { return !v.Until.IsZero() }

// shards is how many parts the networks are in, each with its own lock.
const shards = 16

// Tracker watches networks. It may be used from any number of goroutines.
type Tracker struct {
	o      Options
	seed   maphash.Seed
	shards [shards]shard
	saved  savedSqueezes
}

type shard struct {
	mu       sync.Mutex
	networks map[netip.Prefix]*network // guarded by mu
	_        [64]byte                  // keeps the locks of two shards apart
}

// network is what is known of a network. It is guarded by its shard's mu.
type network struct {
	set      []sighting
	seen     time.Duration // when a client came last, since 1970
	until    time.Duration // when the last squeeze ends or ended; 0: there was none
	times    int           // how often in a row it was squeezed
	recalled uint64        // up to which import
}

// sighting is a fingerprint and when it was last seen, since 1970.
type sighting struct {
	hash uint64
	at   time.Duration
}

// New returns a tracker that knows no network.
func New(o Options) (*Tracker, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	t := &Tracker{o: o, seed: maphash.MakeSeed()}
	for i := range t.shards {
		t.shards[i].networks = make(map[netip.Prefix]*network)
	}
	return t, nil
}

func since1970(t time.Time) time.Duration { return time.Duration(t.UnixNano()) }

func (t *Tracker) shard(prefix netip.Prefix) *shard {
	return &t.shards[maphash.Comparable(t.seed, prefix)%shards]
}

// Seen notes that an unverified client came from a network, and tells whether it
// is being squeezed. While it is, fingerprints don't count.
func (t *Tracker) Seen(now time.Time, prefix netip.Prefix, fingerprint []byte) Verdict {
	at, hash := since1970(now), maphash.Bytes(t.seed, fingerprint)
	recall := t.saved.newest()
	s := t.shard(prefix)
	s.mu.Lock()
	defer s.mu.Unlock()
	n := t.networkLocked(s, prefix, at)
	v := Verdict{Recall: n.recalled != recall}
	if !n.squeezed(at, t.o) && n.note(at, hash, t.o) > t.o.Fingerprints {
		n.squeeze(at, t.o)
		v.Began = true
	}
	v.Squeeze = n.current(at, t.o)
	return v
}

// networkLocked returns what is known of a network, which is seen now.
func (t *Tracker) networkLocked(s *shard, prefix netip.Prefix, at time.Duration) *network {
	n := s.networks[prefix]
	if n == nil {
		if len(s.networks) >= t.o.MaxPrefixes/shards {
			s.evictLocked(at, t.o)
		}
		n = new(network)
		s.networks[prefix] = n
	}
	n.seen = at
	return n
}

// squeezed tells whether a network is being squeezed. An end that lies further
// ahead than any squeeze lasts is none: the clock was set back.
func (n *network) squeezed(at time.Duration, o Options) bool {
	return at < n.until && n.until-at <= o.MaxSqueeze
}

func (n *network) current(at time.Duration, o Options) Squeeze {
	if !n.squeezed(at, o) {
		return Squeeze{}
	}
	return Squeeze{time.Unix(0, int64(n.until)), n.times}
}

// note notes a fingerprint and returns how many there were of late.
func (n *network) note(at time.Duration, hash uint64, o Options) int {
	kept := n.set[:0]
	known := false
	for _, s := range n.set {
		if s.hash == hash {
			s.at, known = at, true
		}
		if age := at - s.at; age < o.Within && age > -o.Within {
			kept = append(kept, s)
		}
	}
	if !known {
		kept = append(kept, sighting{hash, at})
	}
	n.set = kept
	return len(kept)
}

// squeeze begins a squeeze.
func (n *network) squeeze(at time.Duration, o Options) {
	if n.forgiven(at, o) {
		n.times = 0
	}
	n.times++
	n.until = at + o.squeeze(n.times)
	n.set = nil
}

// forgiven tells whether the last squeeze is so long ago that it doesn't count
// any more.
func (n *network) forgiven(at time.Duration, o Options) bool {
	return at-n.until >= o.MaxSqueeze || n.until-at > o.MaxSqueeze
}

// evictions is how many networks are looked at to forget one of them.
const evictions = 8

// evictLocked forgets a network: of a few, the one that nobody came from for
// longest and that is not being squeezed; if all are, the one whose squeeze ends
// first.
func (s *shard) evictLocked(at time.Duration, o Options) {
	var victim netip.Prefix
	var of *network
	looked := 0
	for prefix, n := range s.networks { // begins anywhere
		if of == nil || n.forgottenBefore(of, at, o) {
			victim, of = prefix, n
		}
		if looked++; looked == evictions {
			break
		}
	}
	delete(s.networks, victim)
}

func (n *network) forgottenBefore(other *network, at time.Duration, o Options) bool {
	squeezed, otherSqueezed := n.squeezed(at, o), other.squeezed(at, o)
	switch {
	case squeezed != otherSqueezed:
		return otherSqueezed
	case squeezed:
		return n.until < other.until
	}
	return n.seen < other.seen
}

// Sweep forgets the networks about which there is nothing left to know, and saved
// squeezes that don't count any more. It returns how many networks it forgot.
func (t *Tracker) Sweep(now time.Time) (forgotten int) {
	at := since1970(now)
	t.saved.sweep(at, t.o)
	for i := range t.shards {
		forgotten += t.shards[i].sweep(at, t.o)
	}
	return forgotten
}

func (s *shard) sweep(at time.Duration, o Options) (forgotten int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for prefix, n := range s.networks {
		if at-n.seen >= o.Within && n.forgiven(at, o) {
			delete(s.networks, prefix)
			forgotten++
		}
	}
	return forgotten
}
