package pressure

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// The maximum of different clients of a network in ten minutes.
const (
	DefaultFingerprints = 20
	MaxFingerprints     = 31
)

// within is how long a client counts.
const within = 10 * time.Minute

// maxNetworks is the maximum of watched networks. Each takes up to 600 bytes.
const maxNetworks = 1 << 16

// shards is the number of parts of the networks, each with its own lock.
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
	set  []sighting
	seen time.Duration // the last client, since 1970
}

// sighting is a fingerprint and when it was last seen, since 1970.
type sighting struct {
	hash uint64
	at   time.Duration
}

// New returns a tracker.
func New() *Tracker {
	t := &Tracker{seed: maphash.MakeSeed(), most: maxNetworks / shards}
	for i := range t.shards {
		t.shards[i].networks = make(map[netip.Prefix]*network)
	}
	return t
}

func since1970(t time.Time) time.Duration { return time.Duration(t.UnixNano()) }

// Seen notes that an unverified client came from a network, and reports whether the network has more than most, which
// is at most MaxFingerprints. If so, counting starts from zero, so that it is reported once.
func (t *Tracker) Seen(now time.Time, prefix netip.Prefix, fingerprint []byte, most int) (tooMany bool) {
	moment, hash := since1970(now), maphash.Bytes(t.seed, fingerprint)
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
	n.seen = moment
	if n.note(moment, hash) <= most {
		return false
	}
	n.set = n.set[:0]
	return true
}

// IsNew reports whether there was no call with the client in the last minutes, as far as the tracker remembers. It
// takes no lock, so that the caller need not note frequent clients each time.
func (t *Tracker) IsNew(now time.Time, client []byte) bool {
	hash := maphash.Bytes(t.seed, client)
	slot := &t.recent[hash%uint64(len(t.recent))]
	hash ^= uint64(since1970(now)/(within/4)) << 12 // the lower bits select the slot
	if slot.Load() == hash {
		return false
	}
	slot.Store(hash)
	return true
}

// note notes a fingerprint and returns how many there were recently.
func (n *network) note(moment time.Duration, hash uint64) int {
	kept := n.set[:0]
	known := false
	for _, s := range n.set {
		if s.hash == hash {
			s.at, known = moment, true
		}
		if age := moment - s.at; age < within && age > -within {
			kept = append(kept, s)
		}
	}
	if !known {
		kept = append(kept, sighting{hash, moment})
	}
	n.set = kept
	return len(kept)
}

// evictions is how many networks are examined to evict one.
const evictions = 8

// evictLocked removes the least recently seen of a few networks.
func (s *shard) evictLocked() {
	var victim netip.Prefix
	var oldest *network
	looked := 0
	for prefix, n := range s.networks { // in random order
		if oldest == nil || n.seen < oldest.seen {
			victim, oldest = prefix, n
		}
		if looked++; looked == evictions {
			break
		}
	}
	delete(s.networks, victim)
}

// Sweep removes the networks without recent sightings, and returns their number.
func (t *Tracker) Sweep(now time.Time) (forgotten int) {
	moment := since1970(now)
	for i := range t.shards {
		forgotten += t.shards[i].sweep(moment)
	}
	return forgotten
}

func (s *shard) sweep(moment time.Duration) (forgotten int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for prefix, n := range s.networks {
		if moment >= n.seen+within || moment < n.seen-24*time.Hour { // the clock was set back
			delete(s.networks, prefix)
			forgotten++
		}
	}
	return forgotten
}
