package table

import (
	"cmp"
	"math/bits"
	"slices"
	"unsafe"

	"github.com/caddy-tally/caddy-tally/storage"
)

// chunks are the memory of the entries of a shard. Entries of kinds with pointers, of long keys, and of the
// first keys of the shard are allocated by themselves.
//
// The garbage collector marks every object in use, and for a small one it waits for memory. So
// entries lie side by side in chunks, which are few large objects. The memory of a dead entry is never
// used again, because requests without a lock may still read it. The garbage collector keeps a chunk
// as long as anybody has a pointer into it, also after it has left the list.
//
// Invariant: the size of all chunks is at most twice the size of their entries in use, and four chunks
// more, and one for each entry that is pinned, or was when the shard was last compacted. When they
// exceed this less two chunks, insertions and sweeps move entries out of sparse chunks
// (compactLocked). So nobody fills memory by keeping one key of each chunk in use.
//
// Entries are found by addresses, which aren't pointers: the garbage collector would follow those of all
// of them.
type chunks struct {
	objects Numbered[Entry] // the first entry of each chunk, and each entry alone
	all     []*chunk        // in the order of their addresses
	open    *chunk          // the chunk that new entries go to, or nil
	hand    int             // the place of the chunk that is looked at for compaction
	size    uintptr         // bytes of all
	live    uintptr         // bytes of their entries in use, which aren't dead
}

// address says where an entry is: the number of an object, and how many words of 8 bytes from its beginning, in the
// last placeBits. It is not 0.
type address uint32

const (
	placeBits  = 12 // maxChunk has as many words
	numberBits = 32 - placeBits
)

func addressOf(number uint32, bytes uintptr) address {
	return address(number<<placeBits | uint32(bytes/8))
}

func (a address) number() uint32 { return uint32(a >> placeBits) }

// in returns the entry at an address. first is the first entry of the object.
func (a address) in(first *Entry) *Entry {
	return (*Entry)(unsafe.Add(unsafe.Pointer(first), a%(1<<placeBits)*8))
}

// entry returns the entry at an address. The shard is locked, and the entry isn't dead.
func (cs *chunks) entry(a address) *Entry { return a.in(cs.objects.At(a.number()).Load()) }

// chunk is one of them. It has no pointers.
type chunk struct {
	words  []uint64
	number uint32
	used   uintptr // bytes, of all entries so far
	live   uintptr // bytes of the entries in use
	looked uintptr // the part of used that compaction has looked at
}

const (
	maxChunk    = 8 << placeBits // bytes: 32 KiB
	maxInChunk  = 1 << 10        // bytes of an entry
	entryShare  = 16             // bytes of a chunk for each entry of its shard, at most: a seventh of a small one
	leastInside = 8              // entries that a chunk has room for
)

// chunkSize returns the size of the next chunk of a shard, which grows with the shard.
func (s *shard) chunkSize() uintptr {
	return min(maxChunk, uintptr(1)<<bits.Len(uint(entryShare*s.count))>>1)
}

// newEntryLocked makes an entry of the shard for a key, of which it keeps a copy. It also returns the address.
func (t *Table) newEntryLocked(s *shard, kind uint8, id storage.LimitID, key []byte, hash uint32) (*Entry, address) {
	k, size := &t.kinds[kind], t.size(kind, len(key))
	var e *Entry
	var at address
	switch {
	case k.New != nil:
		e = k.New(append([]byte(nil), key...))
	case size > maxInChunk || size*leastInside > s.chunkSize():
		e = (*Entry)(unsafe.Pointer(unsafe.SliceData(make([]uint64, size/8)))) // without pointers
	default:
		e, at = s.chunks.take(size, s.chunkSize())
	}
	if at == 0 {
		at = addressOf(s.chunks.objects.Add(e), 0)
	}
	e.ID, e.hash, e.text = id, hash, uint32(len(key))<<kindBits|uint32(kind)
	if k.New == nil {
		copy(t.Text(e), key)
	}
	return e, at
}

// take returns memory for an entry of a size, and its address. If the open chunk is full, it opens one
// of chunkSize.
func (cs *chunks) take(size, chunkSize uintptr) (*Entry, address) {
	if full := cs.open; full == nil || full.used+size > full.size() {
		cs.open = &chunk{words: make([]uint64, chunkSize/8)}
		cs.open.number = cs.objects.Add(cs.open.at(0))
		i, _ := cs.search(cs.open.begin())
		cs.all = slices.Insert(cs.all, i, cs.open)
		cs.size += chunkSize
		if full != nil && full.live == 0 {
			cs.drop(full)
		}
	}
	e, at := cs.open.at(cs.open.used), addressOf(cs.open.number, cs.open.used)
	cs.open.used += size
	cs.open.live += size
	cs.live += size
	return e, at
}

// freeLocked notes that an entry is dead, and its address in no present bucket.
func (t *Table) freeLocked(s *shard, a address) {
	cs := &s.chunks
	e := cs.entry(a)
	at := uintptr(unsafe.Pointer(e))
	i, begins := cs.search(at)
	if !begins {
		i--
	}
	if i < 0 || at >= cs.all[i].begin()+cs.all[i].size() {
		cs.objects.Remove(a.number()) // it is alone
		return
	}
	c, size := cs.all[i], t.sizeOf(e)
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
	cs.objects.Remove(c.number)
	cs.size -= c.size()
	if c == cs.open {
		cs.open = nil
	}
}

// search returns the place of the first chunk from an address on, and whether it begins there.
func (cs *chunks) search(address uintptr) (i int, begins bool) {
	return slices.BinarySearchFunc(cs.all, address,
		func(c *chunk, address uintptr) int { return cmp.Compare(c.begin(), address) })
}

func (c *chunk) begin() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(c.words))) }

func (c *chunk) size() uintptr { return uintptr(len(c.words)) * 8 }

// at returns the entry at some bytes from the beginning.
func (c *chunk) at(bytes uintptr) *Entry { return (*Entry)(unsafe.Pointer(&c.words[bytes/8])) }

const (
	maxMoves = 100 // entries that a compaction moves, while new keys wait
	maxLooks = 500 // entries that it looks at
)

// compactLocked moves entries out of sparse chunks while the chunks of a shard are too large. It ends
// after maxMoves, and returns their number.
func (t *Table) compactLocked(s *shard) (moved int) {
	cs, spare := &s.chunks, 2*s.chunkSize()
	for looks, passed := 0, 0; cs.size > 2*cs.live+spare && moved < maxMoves && looks < maxLooks &&
		passed <= len(cs.all); looks++ {
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
				cs.open = nil // its entries go to smaller ones
			}
			e := c.at(c.looked)
			if c.looked += t.sizeOf(e); !e.Dead() && t.moveLocked(s, e) {
				moved++
			}
		}
	}
	return moved
}

// compact restores the invariant of a shard's chunks, as far as entries can be moved.
func (t *Table) compact(s *shard) {
	for moved := maxMoves; moved > 0; {
		s.mu.Lock()
		moved = t.compactLocked(s)
		s.mu.Unlock()
	}
}

// moveLocked moves an entry of a shard to new memory, and reports whether it could. A locked entry
// can't be moved, and a pinned one. The old one is dead and says that it was moved.
func (t *Table) moveLocked(s *shard, from *Entry) bool {
	if !from.TryLock() {
		return false
	}
	defer from.Unlock()
	if t.owner.Rank(from) == Pinned {
		return false
	}
	to, at := t.newEntryLocked(s, from.Kind(), from.ID, t.Text(from), from.hash)
	to.unused.Store(from.unused.Load())
	t.owner.Copy(from, to)
	was := s.placeOfLocked(from).Swap(uint32(at))
	t.endLocked(from, moved) // after the new one is found
	t.freeLocked(s, address(was))
	return true
}
