// Package table finds keys in memory, and decides which stay there. It knows no policy: what it holds of a key
// belongs to its [Owner], as far as the [Entry] at the beginning. It touches nothing of its owner's,
// asks no store and reads no clock.
//
// Looking up a key takes no lock. Buckets as long as a cache line with a byte of each hash are those of CLHT
// (David, Guerraoui and Trigonakis, Asynchronized Concurrency, ASPLOS 2015), in the form that they have in
// Go's xsync and in otter. Entries in chunks without pointers, and their moves, are this package's (decision 1).
package table

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
	bucketSize   = 12 // so that a bucket fills a cache line
	maxFill      = 8  // entries per bucket, on average
	clockSteps   = 16 // entries inspected for one eviction, or a few more
)

// MaxEntries is the most entries that a table may be asked to hold. A shard has numbers for twice its part of them.
const MaxEntries = shardCount << (numberBits - 1)

// Table finds entries by limit and key. Looking one up takes no lock; adding and
// removing them locks one of its shards.
//
// An entry stays in its place until it is removed. A shard that grows or shrinks gets new buckets.
// A reader who finds something in the old ones begins again. So a reader finds every entry that was
// there before it began and is not removed meanwhile. It may miss an entry that is added meanwhile,
// and then looks again under the lock. It may find a removed or moved entry, which is dead. Then its next
// look-up finds the present one, or a later one.
//
// A hash with a seed per process chooses the shard and the bucket, so that clients can't choose
// keys that share a bucket.
type Table struct {
	Max    atomic.Int64  // the most entries
	Unused atomic.Uint32 // after how many sweeps without use a key is removed

	seed    maphash.Seed
	kinds   [4]Kind // by their numbers
	owner   Owner
	count   atomic.Int64
	evicted atomic.Int64 // to make room, in total
	shards  [shardCount]shard
}

// Owner is what the entries of a table belong to. The methods are called with a locked entry in a locked
// shard. They must neither wait nor call the table.
type Owner interface {
	// Rank returns the rank of an entry: [Idle], [Pinned], or one between [Active] and that.
	Rank(*Entry) Rank
	// Release is called before an entry is removed. It returns a channel that is closed when what the
	// entry held is safe, or nil if it held nothing.
	Release(*Entry) <-chan struct{}
	// Copy copies what follows an entry in memory to a new one of the same key.
	Copy(from, to *Entry)
	// Drop is called with the number of an entry that was removed or moved, and can't be found any more.
	Drop(number uint32)
}

type shard struct {
	buckets atomic.Pointer[buckets] // written under mu

	mu     sync.Mutex
	count  int    // guarded by mu: the number of entries
	hand   int    // guarded by mu: the next bucket of the clock hand
	chunks chunks // guarded by mu: the memory of entries

	_ [64]byte
}

// buckets are the buckets of a shard. They have no pointers, which the garbage collector would follow
// one by one.
type buckets struct {
	all  []bucket // main ones by the last bits of hashes, a power of two, and behind them spare ones
	main int
	used int // buckets in use, spare ones among them; guarded by the lock of the shard
}

// bucket holds entries with the same last bits of their hashes. It is changed under the lock of the
// shard, and read without.
type bucket struct {
	tags    [bucketSize / 4]atomic.Uint32 // byte i%4 of word i/4 is the tag of entry i, so that few others are inspected
	entries [bucketSize]atomic.Uint32     // their addresses; 0 where there is none
	more    atomic.Uint32                 // the index of a spare bucket if the entries don't fit, or 0; never removed
}

// Init makes an empty table of at most max entries of some kinds, which are numbered in their order.
func (t *Table) Init(max int, owner Owner, kinds ...Kind) {
	t.seed, t.owner = maphash.MakeSeed(), owner
	copy(t.kinds[:], kinds)
	t.Unused.Store(1)
	t.Max.Store(int64(max))
	for i := range t.shards {
		t.shards[i].buckets.Store(newBuckets(firstBuckets, 1))
	}
}

// Len returns the number of entries.
func (t *Table) Len() int64 { return t.count.Load() }

// Evicted returns how many entries were removed to make room.
func (t *Table) Evicted() int64 { return t.evicted.Load() }

// shardOf returns the shard of a key, and the hash that finds the key in it.
func (t *Table) shardOf(id storage.LimitID, key []byte) (*shard, uint32) {
	const spread = 0x9E3779B97F4A7C15 // 2^64 over the golden ratio
	hash := maphash.Bytes(t.seed, key) ^ uint64(id)*spread
	return &t.shards[hash>>(64-shardBits)], uint32(hash)
}

// tagOf returns a part of a hash that is independent of the bucket, unless there are very many
// buckets.
func tagOf(hash uint32) byte { return byte(hash >> 24) }

// Find returns the entry of a key, or nil. It takes no lock.
func (t *Table) Find(id storage.LimitID, key []byte) *Entry {
	s, hash := t.shardOf(id, key)
	return t.find(s, id, key, hash)
}

// find is Find in a shard.
func (t *Table) find(s *shard, id storage.LimitID, key []byte, hash uint32) *Entry {
	for {
		if e, ok := t.findIn(s, s.buckets.Load(), id, key, hash); ok {
			return e
		}
	}
}

// findIn is find in some buckets of the shard. ok is false if they, or an entry, have changed
// meanwhile.
func (t *Table) findIn(s *shard, bs *buckets, id storage.LimitID, key []byte, hash uint32) (found *Entry, ok bool) {
	for b := bs.of(hash); b != nil; b = bs.next(b) {
		for i := range b.tags {
			for same := sameBytes(b.tags[i].Load(), tagOf(hash)); same != 0; same &= same - 1 {
				e, ok := s.read(bs, &b.entries[4*i+bits.TrailingZeros32(same)/8])
				if !ok {
					return nil, false
				}
				if e != nil && t.is(e, id, key, hash) {
					return e, true
				}
			}
		}
	}
	return nil, true
}

// sameBytes returns a word with the first bit set of each byte of a word that is the same as another byte, and of few
// others.
func sameBytes(word uint32, other byte) uint32 {
	const ones = 0x01010101
	word ^= uint32(other) * ones
	return (word - ones) &^ word & (ones << 7)
}

// read returns the entry whose address is at a place in some buckets of the shard, or nil if there is
// none. ok is false if something has changed meanwhile. Addresses leave the present buckets before
// their number is used again. So if the buckets are the present ones, with the address still there, and
// the number stood for one object all the time, the entry is in it.
func (s *shard) read(bs *buckets, place *atomic.Uint32) (e *Entry, ok bool) {
	at := address(place.Load())
	if at == 0 {
		return nil, true
	}
	object := s.chunks.objects.At(at.number())
	first := object.Load()
	if address(place.Load()) != at || s.buckets.Load() != bs || object.Load() != first {
		return nil, false
	}
	return at.in(first), true
}

// Add returns the entry of a key. It makes one if there is none, and may evict another one for it.
func (t *Table) Add(kind uint8, id storage.LimitID, key []byte) *Entry {
	s, hash := t.shardOf(id, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := t.find(s, id, key, hash); e != nil {
		return e
	}
	for range min(2, t.count.Add(1)-t.Max.Load()) { // two, if the maximum was lowered
		t.evictLocked(s)
	}
	t.compactLocked(s)
	fresh, at := t.newEntryLocked(s, kind, id, key, hash)
	s.insertLocked(hash, at)
	return fresh
}

// LockAdded locks the present entry of a key, of which another one is known, and returns it. It adds one if the
// key was evicted.
func (t *Table) LockAdded(e *Entry) *Entry {
	for ; ; e = t.Add(e.Kind(), e.ID, t.Text(e)) {
		e.Lock()
		if !e.Dead() {
			return e
		}
		e.Unlock()
	}
}

// LockMoved locks an entry, or the present one if it was moved, and returns it. It is dead if it was evicted.
func (t *Table) LockMoved(e *Entry) *Entry {
	for {
		e.Lock()
		if !e.Moved() {
			return e
		}
		present := t.Find(e.ID, t.Text(e))
		if present == nil {
			return e // evicted after the move
		}
		e.Unlock()
		e = present
	}
}

func (s *shard) insertLocked(hash uint32, at address) {
	s.count++
	if n := s.buckets.Load().main; s.count > maxFill*n {
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

// link puts an entry into its bucket, and reports whether there was room.
func (bs *buckets) link(hash uint32, at address) bool {
	b := bs.of(hash)
	for !b.put(hash, at) {
		if b.more.Load() == 0 {
			if bs.used == len(bs.all) {
				return false
			}
			b.more.Store(uint32(bs.used))
			bs.used++
		}
		b = bs.next(b)
	}
	return true
}

// put puts an entry into a bucket, and reports whether there was room.
func (b *bucket) put(hash uint32, at address) bool {
	for i := range b.entries {
		if b.entries[i].Load() == 0 {
			b.entries[i].Store(uint32(at))
			tags, shift := &b.tags[i/4], i%4*8
			tags.Store(tags.Load()&^(0xff<<shift) | uint32(tagOf(hash))<<shift)
			return true
		}
	}
	return false
}

// placeOfLocked returns the place of an entry's address in the shard.
func (s *shard) placeOfLocked(e *Entry) *atomic.Uint32 {
	bs := s.buckets.Load()
	for place, other := range s.chainLocked(bs.of(e.hash)) {
		if other == e {
			return place
		}
	}
	panic("an entry that isn't dead is in no bucket")
}

// chainLocked returns the entries of a bucket, and of those after it, with the places of their addresses.
func (s *shard) chainLocked(b *bucket) iter.Seq2[*atomic.Uint32, *Entry] {
	bs := s.buckets.Load()
	return func(yield func(*atomic.Uint32, *Entry) bool) {
		for ; b != nil; b = bs.next(b) {
			for i := range b.entries {
				if at := address(b.entries[i].Load()); at != 0 && !yield(&b.entries[i], s.chunks.entry(at)) {
					return
				}
			}
		}
	}
}

// all returns the entries of a shard, in the order of their hashes with the bits in reverse: that of
// the buckets of any number, so that no entry is missed or met twice while that changes. It locks the
// shard now and then. It may miss entries that are added meanwhile. Those that are removed are dead.
func (s *shard) all() iter.Seq[*Entry] {
	return func(yield func(*Entry) bool) {
		var some []*Entry
		for next := uint64(0); next <= math.MaxUint32; {
			some, next = s.some(some[:0], next)
			for _, e := range some {
				if !yield(e) {
					return
				}
			}
		}
	}
}

// some appends some of the entries whose hashes, with the bits in reverse, are not less than from. It
// returns from which on the others are.
func (s *shard) some(entries []*Entry, from uint64) ([]*Entry, uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bs := s.buckets.Load()
	width := uint64(1<<32) / uint64(bs.main) // of the hashes of a bucket
	for range sweepBuckets {
		for _, e := range s.chainLocked(bs.of(bits.Reverse32(uint32(from)))) {
			if from%width == 0 || uint64(bits.Reverse32(e.hash)) >= from {
				entries = append(entries, e)
			}
		}
		if from = (from/width + 1) * width; from > math.MaxUint32 {
			break
		}
	}
	return entries, from
}

// rebuildLocked gives the shard n main buckets.
func (s *shard) rebuildLocked(n int) {
	for spare := n/8 + 1; ; spare *= 2 {
		bs := newBuckets(n, spare)
		if s.linkAllLocked(bs) && bs.used < n+spare {
			s.buckets.Store(bs)
			return
		}
	}
}

// linkAllLocked puts all entries of the shard into other buckets, and reports whether there was room.
func (s *shard) linkAllLocked(to *buckets) bool {
	bs := s.buckets.Load()
	for i := range bs.all[:bs.used] {
		for j := range bs.all[i].entries {
			at := address(bs.all[i].entries[j].Load())
			if at != 0 && !to.link(s.chunks.entry(at).hash, at) {
				return false
			}
		}
	}
	return true
}

// Rank is the priority of an entry to stay in memory.
type Rank int

// The ranks that the table knows. Those between Active and Pinned are the owner's.
const (
	Idle   Rank = 0             // no recent use
	Active Rank = 1             // recent use, see [Entry.Touch]
	Pinned Rank = math.MaxInt32 // it is locked, or the owner needs it where it is
)

// evictLocked removes the entry of the lowest rank among those next to the clock hand, to make
// room. If all of them are pinned it removes none: the table then exceeds its maximum.
func (t *Table) evictLocked(s *shard) {
	var victim *atomic.Uint32
	lowest := Pinned
	bs := s.buckets.Load()
	for seen, passed := 0, 0; seen < clockSteps && passed < bs.main && lowest > Idle; passed++ {
		s.hand = (s.hand + 1) % bs.main
		for place, e := range s.chainLocked(&bs.all[s.hand]) {
			seen++
			if r := t.rankOf(e); r < lowest {
				victim, lowest = place, r
			}
			if lowest == Idle {
				break
			}
		}
	}
	if lowest == Pinned {
		return
	}
	if _, ok := t.removeLocked(s, victim); ok {
		t.evicted.Add(1)
	}
}

// rankOf returns the rank of an entry, and marks it as idle for the next time unless it is touched
// again.
func (t *Table) rankOf(e *Entry) Rank {
	touched := e.unused.CompareAndSwap(0, 1)
	if !e.TryLock() {
		return Pinned
	}
	defer e.Unlock()
	rank := t.owner.Rank(e)
	if rank == Idle && touched {
		return Active
	}
	return rank
}

// removeLocked removes the entry whose address is at a place, unless it has become pinned. It returns what
// [Owner.Release] returned. What the entry held has left it before another one of its key is added.
func (t *Table) removeLocked(s *shard, place *atomic.Uint32) (released <-chan struct{}, ok bool) {
	a := address(place.Load())
	e := s.chunks.entry(a)
	if !e.TryLock() {
		return nil, false
	}
	defer e.Unlock()
	if t.owner.Rank(e) == Pinned {
		return nil, false
	}
	released = t.owner.Release(e)
	t.endLocked(e, evicted)
	place.Store(0)
	t.freeLocked(s, a)
	s.count--
	t.count.Add(-1)
	return released, true
}

// Sweep removes entries that were unused for t.Unused sweeps, except pinned ones and those that keep returns
// true for, which it calls with unlocked entries. Whenever [Owner.Release] has returned about maxReleased
// channels, Sweep calls await with the last of them, without a lock. Between parts it calls rest.
func (t *Table) Sweep(keep func(*Entry) bool, await func(released <-chan struct{}),
	rest func(entries int)) (removed int) {
	step := sweepStep{keep: keep}
	for i := range t.shards {
		for left := math.MaxInt; left > 0; {
			left = t.sweepSome(&t.shards[i], left, &step)
			t.compact(&t.shards[i])
			if step.released >= maxReleased {
				await(step.last)
				step.released = 0
			}
			rest(step.looked)
			step.looked = 0
		}
	}
	return step.removed
}

// sweepStep is the progress of a sweep.
type sweepStep struct {
	keep     func(*Entry) bool
	removed  int             // entries
	looked   int             // entries, since the last rest
	released int             // channels, since the last wait for one
	last     <-chan struct{} // of them
}

const (
	// sweepBuckets is how many buckets of a shard are swept while new keys wait for its lock.
	sweepBuckets = 32
	// maxReleased is after how many released entries a sweep waits.
	maxReleased = 512
)

// sweepSome sweeps the first buckets of a shard, from the last of them down. It stops after
// sweepBuckets buckets, and after maxReleased released entries. It returns how many buckets are left.
func (t *Table) sweepSome(s *shard, first int, step *sweepStep) (left int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	bs := s.buckets.Load()
	first = min(first, bs.main)
	for left = first; left > 0 && left > first-sweepBuckets && step.released < maxReleased; left-- {
		for place, e := range s.chainLocked(&bs.all[left-1]) {
			step.looked++
			if e.unused.Add(1) <= t.Unused.Load() || step.keep(e) {
				continue
			}
			released, ok := t.removeLocked(s, place)
			if ok {
				step.removed++
			}
			if released != nil {
				step.last = released
				step.released++
			}
		}
	}
	if left == 0 { // swept buckets are not swept again
		s.shrinkLocked()
	}
	return left
}

// shrinkLocked gives memory back when most of a shard's entries are gone.
func (s *shard) shrinkLocked() {
	if n := s.buckets.Load().main; n > firstBuckets && s.count < n*maxFill/4 {
		s.rebuildLocked(n / 2)
	}
}

// Each calls f for every entry. It may miss entries added meanwhile. Those removed meanwhile are dead.
// They may be moved meanwhile, so f locks them with [Table.LockMoved].
func (t *Table) Each(f func(*Entry)) {
	for i := range t.shards {
		for e := range t.shards[i].all() {
			f(e)
		}
	}
}
