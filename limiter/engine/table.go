package engine

import (
	"hash/maphash"
	"math"
	"sync"
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/storage"
)

const (
	shardBits    = 6
	shardCount   = 1 << shardBits
	firstBuckets = 8
	clockSteps   = 16 // cells looked at for one eviction
)

// table finds cells by limit and key. Looking one up takes no lock; adding and
// removing them locks one of its shards.
//
// Within a bucket, cells form a chain that readers walk while writers change
// it. A reader that is carried into another chain by a writer finds at worst
// nothing, and then looks again under the lock. Chains are always free of
// cycles: a link is only ever set to a cell that was linked later.
//
// The shard and the bucket are chosen by a hash that is seeded per process, so
// that nobody outside can choose keys that meet in one.
type table struct {
	seed    maphash.Seed
	max     int64
	give    func(*cell) *batch // gives back what a locked cell holds that is to be removed
	count   atomic.Int64
	evicted atomic.Int64 // to make room, ever
	shards  [shardCount]shard
}

type shard struct {
	buckets atomic.Pointer[[]atomic.Pointer[cell]] // a power of two of them

	mu   sync.Mutex
	ring []*cell // guarded by mu: all cells, in the order the clock hand passes
	hand int     // guarded by mu

	claims atomic.Int64 // that were granted at once, ever
	_      [64]byte
}

func newTable(max int, give func(*cell) *batch) *table {
	t := &table{seed: maphash.MakeSeed(), max: int64(max), give: give}
	for i := range t.shards {
		buckets := make([]atomic.Pointer[cell], firstBuckets)
		t.shards[i].buckets.Store(&buckets)
	}
	return t
}

// place returns the shard a key belongs to, and its hash.
func (t *table) place(id storage.LimitID, key []byte) (*shard, uint64) {
	const spread = 0x9E3779B97F4A7C15 // 2^64 over the golden ratio
	hash := maphash.Bytes(t.seed, key) ^ uint64(id)*spread
	return &t.shards[hash>>(64-shardBits)], hash
}

// find returns the cell of a key, or nil. It takes no lock.
func (t *table) find(id storage.LimitID, key []byte) *cell {
	s, hash := t.place(id, key)
	return s.find(id, key, hash)
}

// countClaim counts a claim that was granted at once.
func (t *table) countClaim(of *cell) { t.shards[of.hash>>(64-shardBits)].claims.Add(1) }

// claims returns how many claims were granted at once.
func (t *table) claims() (n int64) {
	for i := range t.shards {
		n += t.shards[i].claims.Load()
	}
	return n
}

func (s *shard) find(id storage.LimitID, key []byte, hash uint64) *cell {
	buckets := *s.buckets.Load()
	c := buckets[hash&uint64(len(buckets)-1)].Load()
	for ; c != nil; c = c.next.Load() {
		if c.hash == hash && c.id == id && c.key == string(key) {
			return c
		}
	}
	return nil
}

// add returns the cell of a key, made if there is none. Another may have to make
// room for it.
func (t *table) add(id storage.LimitID, key []byte) *cell {
	s, hash := t.place(id, key)
	fresh := &cell{hash: hash, id: id, key: string(key)}
	fresh.touched.Store(true)
	if id == clientsID {
		fresh.client = new(clientState)
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.find(id, key, hash); c != nil {
		return c
	}
	if t.count.Add(1) > t.max {
		t.evictLocked(s)
	}
	s.insertLocked(fresh)
	return fresh
}

func (s *shard) insertLocked(c *cell) {
	s.ring = append(s.ring, c)
	if buckets := *s.buckets.Load(); len(s.ring) > len(buckets) {
		s.rebuildLocked(2 * len(buckets)) // links c as well
		return
	}
	s.linkLocked(*s.buckets.Load(), c)
}

func (s *shard) linkLocked(buckets []atomic.Pointer[cell], c *cell) {
	head := &buckets[c.hash&uint64(len(buckets)-1)]
	c.next.Store(head.Load())
	head.Store(c)
}

// rebuildLocked gives the shard n buckets.
func (s *shard) rebuildLocked(n int) {
	buckets := make([]atomic.Pointer[cell], n)
	for _, c := range s.ring {
		s.linkLocked(buckets, c)
	}
	s.buckets.Store(&buckets)
}

// unlinkLocked takes the cell at index i of the ring out of the shard.
func (s *shard) unlinkLocked(i int) {
	c := s.ring[i]
	buckets := *s.buckets.Load()
	link := &buckets[c.hash&uint64(len(buckets)-1)]
	for link.Load() != c {
		link = &link.Load().next
	}
	link.Store(c.next.Load())

	last := len(s.ring) - 1
	s.ring[i], s.ring[last] = s.ring[last], nil
	s.ring = s.ring[:last]
}

// rank says how much a cell is worth keeping.
type rank int

const (
	idle     rank = iota // nobody asked for it lately
	active               // somebody did
	indebted             // something of it is to be charged to the store
	valuable             // it is near its limit, or blocked
	pinned               // it is locked or has claims in flight
)

// evictLocked removes the cell of the lowest rank among those next to the clock
// hand, to make room. If all of them are pinned it removes none: the table then
// is over its bound by one for each claim in flight at most.
func (t *table) evictLocked(s *shard) {
	victim, lowest := 0, pinned
	for range min(clockSteps, len(s.ring)) {
		i := s.hand % len(s.ring)
		s.hand = i + 1
		if r := s.ring[i].rank(); r < lowest {
			victim, lowest = i, r
		}
		if lowest == idle {
			break
		}
	}
	if lowest == pinned {
		return
	}
	if _, ok := t.removeLocked(s, victim); ok {
		t.evicted.Add(1)
	}
}

// rank ranks a cell, and lets it be idle the next time unless it is touched
// again.
func (c *cell) rank() rank {
	touched := c.touched.Swap(false)
	if !c.mu.TryLock() {
		return pinned
	}
	defer c.mu.Unlock()
	switch {
	case c.inFlight > 0:
		return pinned
	case c.block.Load() != nil, c.nearLimitLocked(), c.client.hasRecord():
		return valuable
	case c.local != nil:
		return indebted
	case touched:
		return active
	}
	return idle
}

// removeLocked removes the cell at index i of the ring, unless it has become
// pinned. It returns the batch that gives back what the cell held, which is there
// before anybody can claim for the key anew, or nil.
func (t *table) removeLocked(s *shard, i int) (gives *batch, ok bool) {
	c := s.ring[i]
	if !c.mu.TryLock() {
		return nil, false
	}
	defer c.mu.Unlock()
	if c.inFlight > 0 {
		return nil, false
	}
	gives = t.give(c)
	c.dead = true
	s.unlinkLocked(i)
	t.count.Add(-1)
	return gives, true
}

// nearLimitLocked reports whether the key had used half of its limit or more.
func (c *cell) nearLimitLocked() bool {
	if c.limit == nil {
		return false
	}
	used := c.lease.Used - c.lease.Units
	if c.local != nil {
		for _, charge := range c.local.debts {
			used += charge.Units
		}
	}
	return used >= (c.limit.Capacity()+1)/2
}

// sweep removes cells that were not touched since the last sweep. Keys that are
// blocked stay. Whenever flushSize leases were given back it calls await, without
// a lock, with the batch of the last.
func (t *table) sweep(now int64, await func(*batch)) (removed int) {
	step := sweepStep{now: now}
	for i := range t.shards {
		for left := math.MaxInt; left > 0; {
			left = t.sweepSome(&t.shards[i], left, &step)
			if step.given == flushSize {
				await(step.gives)
				step.given = 0
			}
		}
	}
	return step.removed
}

// sweepStep is how far a sweep has come.
type sweepStep struct {
	now     int64
	removed int    // cells
	given   int    // leases, since it was last waited for
	gives   *batch // the batch of the last of them
}

// sweepSome sweeps the first cells of a shard, from the last of them down, and
// stops when flushSize leases were given back. It returns how many are left.
func (t *table) sweepSome(s *shard, first int, step *sweepStep) (left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for left = min(first, len(s.ring)); left > 0 && step.given < flushSize; left-- {
		c := s.ring[left-1]
		if c.touched.Swap(false) || c.blockedAt(step.now) || c.client.bannedAt(step.now) || c.hasDebt() {
			continue
		}
		gives, ok := t.removeLocked(s, left-1)
		if ok {
			step.removed++
		}
		if gives != nil {
			step.gives = gives
			step.given++
		}
	}
	s.shrinkLocked()
	return left
}

// shrinkLocked gives memory back when most of a shard's cells are gone.
func (s *shard) shrinkLocked() {
	if n := len(*s.buckets.Load()); n > firstBuckets && len(s.ring) < n/4 {
		s.rebuildLocked(n / 2)
		s.ring = append(make([]*cell, 0, len(s.ring)), s.ring...)
	}
}

// blockedAt reports whether the cell refuses anything at now.
func (c *cell) blockedAt(now int64) bool {
	for b := c.block.Load(); b != nil; b = b.older {
		if now < b.until {
			return true
		}
	}
	return false
}

// each calls f for every cell there is. Cells added meanwhile may be missed.
func (t *table) each(f func(*cell)) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		ring := append([]*cell(nil), s.ring...)
		s.mu.Unlock()
		for _, c := range ring {
			f(c)
		}
	}
}
