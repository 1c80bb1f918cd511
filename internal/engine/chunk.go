package engine

import (
	"cmp"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// chunks are the memory of the bodies of a shard. Bodies of clients, of long keys, and of the first
// keys of the shard are allocated by themselves.
//
// The garbage collector marks every object in use, and for a small one it waits for memory. So
// bodies lie side by side in chunks, which are few large objects. The memory of a dead body is never
// used again, because requests without a lock may still read it. The garbage collector keeps a chunk
// as long as anybody has a pointer into it, also after it has left the list.
//
// Invariant: the size of all chunks is at most twice the size of their bodies in use, and four chunks
// more, and one for each body that is pinned, or was when the shard was last compacted. When they
// exceed this less two chunks, insertions and sweeps move bodies out of sparse chunks
// (table.compactLocked). So nobody fills memory by keeping one key of each chunk in use.
//
// Bodies are found by addresses, which aren't pointers: the garbage collector would follow those of all
// cells.
type chunks struct {
	objects numbered[body] // the first body of each chunk, and each body alone
	all     []*chunk       // in the order of their addresses
	open    *chunk         // the chunk that new bodies go to, or nil
	hand    int            // the place of the chunk that is looked at for compaction
	size    uintptr        // bytes of all
	live    uintptr        // bytes of their bodies in use, which aren't dead
}

// address says where a body is: the number of an object, and how many bytes from its beginning. It
// is not 0.
type address uint64

func (a address) number() uint32 { return uint32(a >> 32) }

// in returns the body at an address. first is the first body of the object.
func (a address) in(first *body) *body { return (*body)(unsafe.Add(unsafe.Pointer(first), uint32(a))) }

// body returns the body at an address. The shard is locked, and the body isn't dead.
func (cs *chunks) body(a address) *body { return a.in(cs.objects.at(a.number()).Load()) }

// chunk is one of them. It has no pointers.
type chunk struct {
	words  []uint64
	number uint32
	used   uintptr // bytes, of all bodies so far
	live   uintptr // bytes of the bodies in use
	looked uintptr // the part of used that compaction has looked at
}

const (
	maxChunk    = 32 << 10 // bytes
	maxInChunk  = 1 << 10  // bytes of a body
	cellShare   = 16       // bytes of a chunk for each cell of its shard, at most: a seventh of a small body
	leastBodies = 8        // that a chunk has room for
)

// chunkSize returns the size of the next chunk of a shard, which grows with the shard.
func (s *shard) chunkSize() uintptr {
	return min(maxChunk, uintptr(1)<<bits.Len(uint(cellShare*s.cells))>>1)
}

// newBodyLocked is newBody for a cell of the shard. It also returns the address.
func (s *shard) newBodyLocked(k kind, id storage.LimitID, key []byte, hash uint32) (*body, address) {
	size := bodySize(k, len(key))
	if k == ofClient || size > maxInChunk || size*leastBodies > s.chunkSize() {
		b := newBody(k, id, key, hash)
		return b, address(s.chunks.objects.add(b)) << 32
	}
	b, at := s.chunks.take(size, s.chunkSize())
	b.set(k, id, key, hash)
	return b, at
}

// take returns memory for a body of a size, and its address. If the open chunk is full, it opens one
// of chunkSize.
func (cs *chunks) take(size, chunkSize uintptr) (*body, address) {
	if full := cs.open; full == nil || full.used+size > full.size() {
		cs.open = &chunk{words: make([]uint64, chunkSize/8)}
		cs.open.number = cs.objects.add(cs.open.at(0))
		i, _ := cs.search(cs.open.begin())
		cs.all = slices.Insert(cs.all, i, cs.open)
		cs.size += chunkSize
		if full != nil && full.live == 0 {
			cs.drop(full)
		}
	}
	b, at := cs.open.at(cs.open.used), address(cs.open.number)<<32|address(cs.open.used)
	cs.open.used += size
	cs.open.live += size
	cs.live += size
	return b, at
}

// free notes that a body is dead, and its address in no present bucket.
func (cs *chunks) free(a address) {
	b := cs.body(a)
	at := uintptr(unsafe.Pointer(b))
	i, begins := cs.search(at)
	if !begins {
		i--
	}
	if i < 0 || at >= cs.all[i].begin()+cs.all[i].size() {
		cs.objects.remove(a.number()) // it is alone
		return
	}
	c, size := cs.all[i], bodySize(b.kind, int(b.size))
	c.live -= size
	cs.live -= size
	if c.live == 0 && c != cs.open {
		cs.drop(c)
	}
}

// drop removes a chunk from the list.
func (cs *chunks) drop(c *chunk) {
	i, _ := cs.search(c.begin())
	cs.all = slices.Delete(cs.all, i, i+1)
	cs.objects.remove(c.number)
	cs.size -= c.size()
	if c == cs.open {
		cs.open = nil
	}
}

// search returns the place of the first chunk from an address on, and whether it begins there.
func (cs *chunks) search(address uintptr) (i int, begins bool) {
	return slices.BinarySearchFunc(cs.all, address, func(c *chunk, address uintptr) int { return cmp.Compare(c.begin(), address) })
}

func (c *chunk) begin() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(c.words))) }

func (c *chunk) size() uintptr { return uintptr(len(c.words)) * 8 }

// at returns the body at some bytes from the beginning.
func (c *chunk) at(bytes uintptr) *body { return (*body)(unsafe.Pointer(&c.words[bytes/8])) }

const (
	maxMoves = 100 // bodies that a compaction moves, while new keys wait
	maxLooks = 500 // bodies that it looks at
)

// compactLocked moves bodies out of sparse chunks while the chunks of a shard are too large. It ends
// after maxMoves, and returns their number.
func (t *table) compactLocked(s *shard) (moved int) {
	cs, spare := &s.chunks, 2*s.chunkSize()
	for looks, passed := 0, 0; cs.size > 2*cs.live+spare && moved < maxMoves && looks < maxLooks && passed <= len(cs.all); looks++ {
		if cs.hand >= len(cs.all) {
			cs.hand = 0
		}
		c := cs.all[cs.hand]
		switch {
		case c.live == 0 && c.size() > spare: // the open chunk of a shard that was larger
			cs.drop(c)
		case c.looked == c.used, 2*c.live > c.size(), c == cs.open && c.size() <= spare:
			c.looked = 0
			cs.hand++
			passed++
		default:
			if c == cs.open {
				cs.open = nil // its bodies go to smaller ones
			}
			b := c.at(c.looked)
			if c.looked += bodySize(b.kind, int(b.size)); !b.dead && t.moveLocked(s, b) {
				moved++
			}
		}
	}
	return moved
}

// compact restores the invariant of a shard's chunks, as far as bodies can be moved.
func (t *table) compact(s *shard) {
	for moved := maxMoves; moved > 0; {
		s.mu.Lock()
		moved = t.compactLocked(s)
		s.mu.Unlock()
	}
}

// moveLocked moves a cell of a shard to a new body, and reports whether it could. A locked cell
// can't be moved, and a pinned one. The old body is dead and says that it was moved.
func (t *table) moveLocked(s *shard, b *body) bool {
	old := cell{b, t}
	if !old.mu.TryLock() {
		return false
	}
	defer old.mu.Unlock()
	if old.isPinnedLocked() {
		return false
	}
	to, at := s.newBodyLocked(old.kind, old.id, old.text(), old.hash)
	fresh := cell{to, t}
	fresh.unused.Store(old.unused.Load())
	fresh.setLeaseLocked(old.leaseLocked())
	fresh.known, fresh.headroom, fresh.limitIs = old.known, old.headroom, old.limitIs
	if slots := old.slotsLocked(); slots != nil {
		fresh.slotsLocked().ahead, fresh.slotsLocked().phase = slots.ahead, slots.phase
	}
	fresh.refused.counted.Store(old.refused.counted.Load())
	if r := old.rare(); r != nil {
		fresh.rareNumber.Store(t.rares.add(r.copied(fresh.body)))
	}
	spot := s.spotOfLocked(b)
	from := spot.bucket.cells[spot.slot].Swap(uint64(at))

	old.setLeaseLocked(limiter.Lease{})
	old.dead = true
	old.dropRareLocked(wasMoved) // after the new body is found
	s.chunks.free(address(from))
	return true
}
