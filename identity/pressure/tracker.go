package pressure

import (
	"cmp"
	"hash/maphash"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// DefaultNetworks is how many networks are watched at once by default. Each takes
// up to 600 bytes.
const DefaultNetworks = 1 << 16

// shards is how many parts the networks are in, each with its own lock.
const shards = 16

// Tracker watches networks. It may be used from any number of goroutines.
type Tracker struct {
	seed   maphash.Seed
	most   int // networks in a shard
	shards [shards]shard
	recent [4096]atomic.Uint64 // hashes of recent new clients; one may displace another
}

type shard struct {
	mu       sync.Mutex
	networks map[netip.Prefix]*network // guarded by mu
	_        [64]byte                  // keeps the locks of two shards apart
}

// network is the state of a network. It is guarded by its shard's mu.
type network struct {
	set     []sighting
	seen    time.Duration // when a client came last, since 1970
	forgets time.Duration // when there is nothing left to know
}

// sighting is a fingerprint and when it was last seen, since 1970.
type sighting struct {
	hash uint64
	at   time.Duration
}

// New returns a tracker of so many networks, at least as many as it has shards; 0
// is DefaultNetworks.
func New(networks int) *Tracker {
	networks = cmp.Or(networks, DefaultNetworks)
	t := &Tracker{seed: maphash.MakeSeed(), most: max(networks/shards, 1)}
	for i := range t.shards {
		t.shards[i].networks = make(map[netip.Prefix]*network)
	}
	return t
}

func since1970(t time.Time) time.Duration { return time.Duration(t.UnixNano()) }

// Seen notes that an unverified client came from a network, and reports whether
// that is one too many. If it is, counting starts from zero, so it is reported once.
func (t *Tracker) Seen(now time.Time, prefix netip.Prefix, fingerprint []byte, rule Rule) (tooMany bool) {
	at, hash := since1970(now), maphash.Bytes(t.seed, fingerprint)
	s := &t.shards[maphash.Comparable(t.seed, prefix)%shards]
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.networks[prefix]
	if n == nil {
		if len(s.networks) >= t.most {
			s.evictLocked()
		}
		n = new(network)
		s.networks[prefix] = n
	}
	n.seen, n.forgets = at, at+rule.Within
	if n.note(at, hash, rule.Within) <= rule.Fingerprints {
		return false
	}
	n.set = n.set[:0]
	return true
}

// IsNew reports whether a client, however it is called, has not been asked about of
// late, which is a quarter of the rule's time, as far as the tracker remembers. It
// takes no lock: a client that comes often need not be noted each time.
func (t *Tracker) IsNew(now time.Time, client []byte, rule Rule) bool {
	hash := maphash.Bytes(t.seed, client)
	slot := &t.recent[hash%uint64(len(t.recent))]
	hash ^= uint64(since1970(now)/(rule.Within/4)) << 12 // the slot says what is below
	if slot.Load() == hash {
		return false
	}
	slot.Store(hash)
	return true
}

// note notes a fingerprint and returns how many there were recently.
func (n *network) note(at time.Duration, hash uint64, within time.Duration) int {
	kept := n.set[:0]
	known := false
	for _, s := range n.set {
		if s.hash == hash {
			s.at, known = at, true
		}
		if age := at - s.at; age < within && age > -within {
			kept = append(kept, s)
		}
	}
	if !known {
		kept = append(kept, sighting{hash, at})
	}
	n.set = kept
	return len(kept)
}

// evictions is how many networks are looked at to forget one of them.
const evictions = 8

// evictLocked forgets the network of a few that nobody came from for longest.
func (s *shard) evictLocked() {
	var victim netip.Prefix
	var of *network
	looked := 0
	for prefix, n := range s.networks { // begins anywhere
		if of == nil || n.seen < of.seen {
			victim, of = prefix, n
		}
		if looked++; looked == evictions {
			break
		}
	}
	delete(s.networks, victim)
}

// Sweep forgets the networks about which there is nothing left to know, and
// returns how many these are.
func (t *Tracker) Sweep(now time.Time) (forgotten int) {
	at := since1970(now)
	for i := range t.shards {
		forgotten += t.shards[i].sweep(at)
	}
	return forgotten
}

func (s *shard) sweep(at time.Duration) (forgotten int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for prefix, n := range s.networks {
		if at >= n.forgets || at < n.seen-24*time.Hour { // a clock that was set back
			delete(s.networks, prefix)
			forgotten++
		}
	}
	return forgotten
}
