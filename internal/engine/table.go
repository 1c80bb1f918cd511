package engine

import (
	"hash/maphash"
	"iter"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"

	"github.com/caddy-tally/caddy-tally/storage"
)

const (
	shardBits    = 6
	shardCount   = 1 << shardBits
	firstBuckets = 2
	bucketCells  = 6  // so that a bucket fills a cache line
	maxFill      = 4  // cells per bucket, on average
	clockSteps   = 16 // cells inspected for one eviction, or a few more
)

// table finds cells by limit and key. Looking one up takes no lock; adding and
// removing them locks one of its shards.
//
// A cell stays in its place until it is removed. A shard that grows or shrinks gets new buckets.
// A reader who finds something in the old ones begins again. So a reader finds every cell that was
// there before it began and is not removed meanwhile. It may miss a cell that is added meanwhile,
// and then looks again under the lock. It may find a removed cell, which is dead, or the dead body of
// a moved one. Then its next look-up finds the present body, or a later one.
//
// A hash with a seed per process chooses the shard and the bucket, so that clients can't choose
// keys that share a bucket.
type table struct {
	seed    maphash.Seed
	max     atomic.Int64      // the most cells
	unused  atomic.Uint32     // after how many sweeps without use a key is removed
	give    func(cell) *batch // gives back the lease of a locked cell that is to be removed
	count   atomic.Int64
	evicted atomic.Int64   // to make room, in total
	rares   numbered[rare] // the rare fields of cells
	limits  limits
	shards  [shardCount]shard
}

type shard struct {
	buckets atomic.Pointer[buckets] // written under mu

	mu     sync.Mutex
	cells  int    // guarded by mu: the number of cells
	hand   int    // guarded by mu: the next bucket of the clock hand
	chunks chunks // guarded by mu: the memory of cells

	claims atomic.Int64 // granted at once, in total: each shard counts a part of them
	_      [64]byte
}

// buckets are the buckets of a shard. They have no pointers, which the garbage collector would follow
// one by one.
type buckets struct {
	all  []bucket // main ones by the last bits of hashes, a power of two, and behind them spare ones
	main int
	used int // buckets in use, spare ones among them; guarded by the lock of the shard
}

// bucket holds cells with the same last bits of their hashes. It is changed under the lock of the
// shard, and read without.
type bucket struct {
	tags  atomic.Uint64              // byte i is the tag of cell i, so that few other cells are inspected
	cells [bucketCells]atomic.Uint64 // the addresses of bodies; 0 where there is none
	more  atomic.Uint64              // the index of a spare bucket if the cells don't fit, or 0; never removed
}

// spot is the place of a cell in a bucket.
type spot struct {
	bucket *bucket
	slot   int
}

func newTable(max int, give func(cell) *batch) *table {
	t := &table{seed: maphash.MakeSeed(), give: give}
	t.unused.Store(1)
	t.max.Store(int64(max))
	for i := range t.shards {
		t.shards[i].buckets.Store(newBuckets(firstBuckets, 1))
	}
	return t
}

// shardOf returns the shard of a key, and the hash that finds the key in it.
func (t *table) shardOf(id storage.LimitID, key []byte) (*shard, uint32) {
	const spread = 0x9E3779B97F4A7C15 // 2^64 over the golden ratio
	hash := maphash.Bytes(t.seed, key) ^ uint64(id)*spread
	return &t.shards[hash>>(64-shardBits)], uint32(hash)
}

// tagOf returns a part of a hash that is independent of the bucket, unless there are very many
// buckets.
func tagOf(hash uint32) byte { return byte(hash >> 24) }

// find returns the cell of a key, if there is one. It takes no lock.
func (t *table) find(id storage.LimitID, key []byte) cell {
	s, hash := t.shardOf(id, key)
	return cell{s.find(id, key, hash), t}
}

// countClaim counts a claim that was granted at once.
func (t *table) countClaim(c cell) { t.shards[c.hash%shardCount].claims.Add(1) }

// claims returns how many claims were granted at once.
func (t *table) claims() (n int64) {
	for i := range t.shards {
		n += t.shards[i].claims.Load()
	}
	return n
}

// find returns the body of a key, or nil. It takes no lock.
func (s *shard) find(id storage.LimitID, key []byte, hash uint32) *body {
	for {
		if b, ok := s.findIn(s.buckets.Load(), id, key, hash); ok {
			return b
		}
	}
}

// findIn is find in some buckets of the shard. ok is false if they, or a cell, have changed
// meanwhile.
func (s *shard) findIn(bs *buckets, id storage.LimitID, key []byte, hash uint32) (found *body, ok bool) {
	for b := bs.of(hash); b != nil; b = bs.next(b) {
		tags := b.tags.Load()
		for i := range b.cells {
			if byte(tags>>(8*i)) != tagOf(hash) {
				continue
			}
			c, ok := s.read(bs, &b.cells[i])
			if !ok {
				return nil, false
			}
			if c != nil && c.is(id, key, hash) {
				return c, true
			}
		}
	}
	return nil, true
}

// read returns the body whose address is at a place in some buckets of the shard, or nil if there is
// none. ok is false if something has changed meanwhile. Addresses leave the present buckets before
// their number is used again. So if the buckets are the present ones, with the address still there, and
// the number stood for one object all the time, the body is in it.
func (s *shard) read(bs *buckets, place *atomic.Uint64) (b *body, ok bool) {
	at := address(place.Load())
	if at == 0 {
		return nil, true
	}
	object := s.chunks.objects.at(at.number())
	first := object.Load()
	if address(place.Load()) != at || s.buckets.Load() != bs || object.Load() != first {
		return nil, false
	}
	return at.in(first), true
}

// add returns the cell of a key. It makes one if there is none, and may evict another one for it.
func (t *table) add(k kind, id storage.LimitID, key []byte) cell {
	s, hash := t.shardOf(id, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.find(id, key, hash); b != nil {
		return cell{b, t}
	}
	for range min(2, t.count.Add(1)-t.max.Load()) { // two, if the maximum was lowered
		t.evictLocked(s)
	}
	t.compactLocked(s)
	fresh, at := s.newBodyLocked(k, id, key, hash)
	s.insertLocked(hash, at)
	return cell{fresh, t}
}

// lock locks a cell and returns it. If it was moved or evicted, lock returns the present cell of its key.
func (t *table) lock(c cell) cell {
	for ; ; c = t.add(c.kind, c.id, c.text()) {
		c.mu.Lock()
		if !c.dead {
			return c
		}
		c.mu.Unlock()
	}
}

func (s *shard) insertLocked(hash uint32, at address) {
	s.cells++
	if n := s.buckets.Load().main; s.cells > maxFill*n {
		s.rebuildLocked(2 * n)
	}
	for !s.buckets.Load().link(hash, at) {
		s.rebuildLocked(s.buckets.Load().main)
	}
}

func newBuckets(main, spare int) *buckets {
	return &buckets{all: make([]bucket, main+spare), main: main, used: main}
}

// of returns the first bucket of a hash.
func (bs *buckets) of(hash uint32) *bucket { return &bs.all[hash&uint32(bs.main-1)] }

// next returns the bucket after one, or nil.
func (bs *buckets) next(b *bucket) *bucket {
	if more := b.more.Load(); more > 0 {
		return &bs.all[more]
	}
	return nil
}

// link puts a cell into its bucket, and reports whether there was room.
func (bs *buckets) link(hash uint32, at address) bool {
	b := bs.of(hash)
	for !b.put(hash, at) {
		if b.more.Load() == 0 {
			if bs.used == len(bs.all) {
				return false
			}
			b.more.Store(uint64(bs.used))
			bs.used++
		}
		b = bs.next(b)
	}
	return true
}

// put puts a cell into a bucket, and reports whether there was room.
func (b *bucket) put(hash uint32, at address) bool {
	for i := range b.cells {
		if b.cells[i].Load() == 0 {
			b.cells[i].Store(uint64(at))
			others := b.tags.Load() &^ (0xff << (8 * i))
			b.tags.Store(others | uint64(tagOf(hash))<<(8*i))
			return true
		}
	}
	return false
}

// spotOfLocked returns the spot of a body in the shard.
func (s *shard) spotOfLocked(b *body) (at spot) {
	bs := s.buckets.Load()
	for at, c := range s.chainLocked(bs.of(b.hash)) {
		if c == b {
			return at
		}
	}
	panic("a body that isn't dead is in no bucket")
}

// chainLocked returns the cells of a bucket, and of those after it, with their spots.
func (s *shard) chainLocked(b *bucket) iter.Seq2[spot, *body] {
	bs := s.buckets.Load()
	return func(yield func(spot, *body) bool) {
		for ; b != nil; b = bs.next(b) {
			for i := range b.cells {
				if at := address(b.cells[i].Load()); at != 0 && !yield(spot{b, i}, s.chunks.body(at)) {
					return
				}
			}
		}
	}
}

// all returns the cells of a shard, in the order of their hashes with the bits in reverse: that of
// the buckets of any number, so that no cell is missed or met twice while that changes. It locks the
// shard now and then. It may miss cells that are added meanwhile. Those that are removed are dead.
func (s *shard) all() iter.Seq[*body] {
	return func(yield func(*body) bool) {
		var some []*body
		for next := uint64(0); next <= math.MaxUint32; {
			some, next = s.some(some[:0], next)
			for _, b := range some {
				if !yield(b) {
					return
				}
			}
		}
	}
}

// some appends some of the cells whose hashes, with the bits in reverse, are not less than from. It
// returns from which on the others are.
func (s *shard) some(cells []*body, from uint64) ([]*body, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bs := s.buckets.Load()
	width := uint64(1<<32) / uint64(bs.main) // of the hashes of a bucket
	for range sweepBuckets {
		for _, b := range s.chainLocked(bs.of(bits.Reverse32(uint32(from)))) {
			if from%width == 0 || uint64(bits.Reverse32(b.hash)) >= from {
				cells = append(cells, b)
			}
		}
		if from = (from/width + 1) * width; from > math.MaxUint32 {
			break
		}
	}
	return cells, from
}

// rebuildLocked gives the shard n main buckets.
func (s *shard) rebuildLocked(n int) {
	for spare := n/4 + 1; ; spare *= 2 {
		bs := newBuckets(n, spare)
		if s.linkAllLocked(bs) && bs.used < n+spare {
			s.buckets.Store(bs)
			return
		}
	}
}

// linkAllLocked puts all cells of the shard into other buckets, and reports whether there was room.
func (s *shard) linkAllLocked(to *buckets) bool {
	bs := s.buckets.Load()
	for i := range bs.all[:bs.used] {
		for j := range bs.all[i].cells {
			at := address(bs.all[i].cells[j].Load())
			if at != 0 && !to.link(s.chunks.body(at).hash, at) {
				return false
			}
		}
	}
	return true
}

// rank is the priority of a cell to stay in memory.
type rank int

const (
	idle     rank = iota // no recent requests
	active               // recent requests
	indebted             // units of it are to be charged to the store
	valuable             // it is near its limit, or blocked
	pinned               // it is locked, has claims or charges in flight, or requests hold units of it
)

// evictLocked removes the cell of the lowest rank among the cells next to the clock hand, to make
// room. If all of them are pinned it removes none: the table then exceeds its maximum by at most
// one for each claim or charge in flight and each request that holds units.
func (t *table) evictLocked(s *shard) {
	var victim spot
	lowest := pinned
	bs := s.buckets.Load()
	for seen, passed := 0, 0; seen < clockSteps && passed < bs.main && lowest > idle; passed++ {
		s.hand = (s.hand + 1) % bs.main
		for at, c := range s.chainLocked(&bs.all[s.hand]) {
			seen++
			if r := t.rankOf(c); r < lowest {
				victim, lowest = at, r
			}
			if lowest == idle {
				break
			}
		}
	}
	if lowest == pinned {
		return
	}
	if _, ok := t.removeLocked(s, victim); ok {
		t.evicted.Add(1)
	}
}

// rankOf returns the rank of a cell, and marks it as idle for the next time unless it is touched
// again.
func (t *table) rankOf(b *body) rank {
	c := cell{b, t}
	touched := c.unused.CompareAndSwap(0, 1)
	if !c.mu.TryLock() {
		return pinned
	}
	defer c.mu.Unlock()
	switch {
	case c.isPinnedLocked():
		return pinned
	case c.blocks() != nil, c.isNearLimit(), c.client().hasRecord():
		return valuable
	case c.rare().admitted() != nil:
		return indebted
	case touched:
		return active
	}
	return idle
}

// removeLocked removes the cell at a spot, unless it has become pinned. It returns the batch that
// gives back the cell's lease, or nil. The lease is in the batch before another request can claim
// for the key.
func (t *table) removeLocked(s *shard, at spot) (gives *batch, ok bool) {
	place := &at.bucket.cells[at.slot]
	a := address(place.Load())
	c := cell{s.chunks.body(a), t}
	if !c.mu.TryLock() {
		return nil, false
	}
	defer c.mu.Unlock()
	if c.isPinnedLocked() {
		return nil, false
	}
	gives = t.give(c)
	c.dead = true
	c.dropRareLocked(0)
	place.Store(0)
	s.chunks.free(a)
	s.cells--
	t.count.Add(-1)
	return gives, true
}

// isPinnedLocked reports whether the cell must stay where it is.
func (c cell) isPinnedLocked() bool {
	open := c.rare().openEntry()
	return c.rare().claims() > 0 || c.rare().held() != nil || open != nil && open.charge.Units > 0
}

// isNearLimit reports whether the key of a locked cell has used half of its limit or more.
func (c cell) isNearLimit() bool {
	limit := c.limit()
	if limit == nil {
		return false
	}
	used := c.lease.used - c.lease.units
	if local := c.rare().admitted(); local != nil {
		for _, charge := range local.debts {
			used += charge.Units
		}
	}
	return used >= (limit.Capacity()+1)/2
}

// sweep removes cells that were unused for t.unused sweeps. Blocked keys stay. Whenever batches
// have given back about flushSize leases, it calls await with the last of these batches, without a
// lock. Between parts it calls rest.
func (t *table) sweep(now int64, await func(*batch), rest func(cells int)) (removed int) {
	step := sweepStep{now: now}
	for i := range t.shards {
		for left := math.MaxInt; left > 0; {
			left = t.sweepSome(&t.shards[i], left, &step)
			t.compact(&t.shards[i])
			if step.given >= flushSize {
				await(step.gives)
				step.given = 0
			}
			rest(step.looked)
			step.looked = 0
		}
	}
	return step.removed
}

// sweepStep is the progress of a sweep.
type sweepStep struct {
	now     int64
	removed int    // cells
	looked  int    // cells, since the last rest
	given   int    // leases by batches, since the last wait for one
	gives   *batch // the batch of the last of them
}

// sweepBuckets is how many buckets of a shard are swept while new keys wait for its lock.
const sweepBuckets = 64

// sweepSome sweeps the first buckets of a shard, from the last of them down. It stops after
// sweepBuckets buckets, and after flushSize returned leases. It returns how many buckets are left.
func (t *table) sweepSome(s *shard, first int, step *sweepStep) (left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bs := s.buckets.Load()
	first = min(first, bs.main)
	for left = first; left > 0 && left > first-sweepBuckets && step.given < flushSize; left-- {
		for at, b := range s.chainLocked(&bs.all[left-1]) {
			step.looked++
			c := cell{b, t}
			if c.unused.Add(1) <= t.unused.Load() || c.blocks().anyAt(step.now) || c.client().bannedAt(step.now) || c.hasDebts() {
				continue
			}
			gives, ok := t.removeLocked(s, at)
			if ok {
				step.removed++
			}
			if gives != nil {
				step.gives = gives
				step.given++
			}
		}
	}
	if left == 0 { // swept buckets are not swept again
		s.shrinkLocked()
	}
	return left
}

// hasDebts reports whether units of a cell are still to be charged.
func (c cell) hasDebts() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rare().admitted().hasDebts()
}

// shrinkLocked gives memory back when most of a shard's cells are gone.
func (s *shard) shrinkLocked() {
	if n := s.buckets.Load().main; n > firstBuckets && s.cells < n*maxFill/4 {
		s.rebuildLocked(n / 2)
	}
}

// each calls f for every cell. It may miss cells added meanwhile. Cells removed meanwhile are dead.
// Cells may be moved meanwhile, so f locks them with lockPresent.
func (t *table) each(f func(cell)) {
	for i := range t.shards {
		for b := range t.shards[i].all() {
			f(cell{b, t})
		}
	}
}
