package replay

import (
	"encoding/binary"

	"github.com/caddy-tally/caddy-tally/internal/slab"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// client is what is known of a client of a limit.
type client struct {
	requests int64
	errors   int64 // of these, with an answer as attackers get
	peak     int64 // the most units that it wanted within a window
	refused  bool  // whether it was, ever
	wanted   usage // within the last window
	passed   []usage
}

// usage is units in slots, ascending.
type usage struct {
	slots []limiter.Slot
	sum   int64
}

// clients are the clients of a limit, by the hashes of their keys. Each one is a record of some
// 16 bytes. Those that came last are held as they are read.
type clients struct {
	refs    map[uint64]slab.Ref
	records slab.Slab
	hot     []hot
	room    []byte // for a record, which is put from there
	slot    int64  // some slot near those of the clients, so that their distances to it are small
}

// hot is a client that came lately. Its record may be older.
type hot struct {
	client
	hash uint64
	used bool
}

// maxHot is how many clients are held as they are read, a power of 2.
const maxHot = 1 << 10

// get returns the client with a hash, which is added if there is none. It may be changed until
// the next call.
func (cs *clients) get(hash uint64) *client {
	if cs.refs == nil {
		cs.refs, cs.hot = make(map[uint64]slab.Ref), make([]hot, maxHot)
	}
	h := &cs.hot[hash%maxHot]
	if h.used && h.hash == hash {
		return &h.client
	}
	cs.store(h)
	h.hash, h.used = hash, true
	h.reset()
	if ref := cs.refs[hash]; ref != 0 {
		h.read(cs.records.Get(ref), cs.slot)
	} else {
		cs.refs[hash] = cs.records.Put(0, nil)
	}
	return &h.client
}

// len returns how many clients there are.
func (cs *clients) len() int { return len(cs.refs) }

// store brings the record of a client up to date.
func (cs *clients) store(h *hot) {
	if !h.used {
		return
	}
	before := cs.refs[h.hash]
	cs.room = h.append(cs.room[:0], cs.slot)
	if ref := cs.records.Put(before, cs.room); ref != before {
		cs.refs[h.hash] = ref
	}
}

// each calls f for every client, which f may change.
func (cs *clients) each(f func(hash uint64, c *client)) {
	for i := range cs.hot {
		cs.store(&cs.hot[i])
		cs.hot[i].used = false
	}
	h := hot{used: true}
	for hash, ref := range cs.refs {
		h.hash = hash
		h.reset()
		h.read(cs.records.Get(ref), cs.slot)
		f(hash, &h.client)
		cs.store(&h)
	}
}

// slotBytes returns how many bytes the records take beyond the smallest that they can be.
func (cs *clients) slotBytes() int64 { return cs.records.Bytes() - leastRecord*int64(len(cs.refs)) }

// leastRecord is how many bytes the record takes of a client with usage in one slot.
const leastRecord = 8

// reset makes the client one that nothing is known of. It keeps its memory.
func (c *client) reset() {
	*c = client{wanted: usage{slots: c.wanted.slots[:0]}, passed: c.passed[:0]}
}

// apart begins to keep apart what one more amount lets pass: until now that is all.
func (c *client) apart() {
	c.addPassed()
	last := &c.passed[len(c.passed)-1]
	last.slots, last.sum = append(last.slots, c.wanted.slots...), c.wanted.sum
}

// addPassed adds an empty usage to what amounts let pass. It uses memory that there is.
func (c *client) addPassed() {
	if n := len(c.passed); n < cap(c.passed) {
		c.passed = c.passed[:n+1]
		c.passed[n] = usage{slots: c.passed[n].slots[:0]}
		return
	}
	c.passed = append(c.passed, usage{})
}

// append appends the record of a client: its numbers and its usages, all of them varints. It must be
// read with the same slot that is near.
func (c *client) append(b []byte, near int64) []byte {
	requests := uint64(c.requests) << 1
	if c.refused {
		requests++
	}
	b = binary.AppendUvarint(b, requests)
	b = binary.AppendUvarint(b, uint64(c.errors))
	b = binary.AppendUvarint(b, uint64(c.peak))
	b = binary.AppendUvarint(b, uint64(len(c.passed)))
	b = c.wanted.append(b, near)
	for i := range c.passed {
		b = c.passed[i].append(b, c.firstSlot())
	}
	return b
}

// read reads a record into a client of which nothing is known.
func (c *client) read(record []byte, near int64) {
	r := reader(record)
	requests := r.next()
	c.requests, c.refused = int64(requests>>1), requests&1 != 0
	c.errors, c.peak = int64(r.next()), int64(r.next())
	passed := r.next()
	c.wanted.read(&r, near)
	for range passed {
		c.addPassed()
		c.passed[len(c.passed)-1].read(&r, c.firstSlot())
	}
}

// firstSlot returns the first slot in which the client wanted something within the last window.
func (c *client) firstSlot() int64 {
	if len(c.wanted.slots) == 0 {
		return 0
	}
	return c.wanted.slots[0].Index
}

// append appends how many slots there are, and for each its distance to the one before, and its
// units. Before the first one is a slot that is near.
func (u *usage) append(b []byte, before int64) []byte {
	b = binary.AppendUvarint(b, uint64(len(u.slots)))
	for _, s := range u.slots {
		b = binary.AppendVarint(b, s.Index-before)
		b = binary.AppendUvarint(b, uint64(s.Used))
		before = s.Index
	}
	return b
}

func (u *usage) read(r *reader, before int64) {
	for range r.next() {
		distance := r.next()
		before += int64(distance>>1) ^ -int64(distance&1)
		s := limiter.Slot{Index: before, Used: int64(r.next())}
		u.slots, u.sum = append(u.slots, s), u.sum+s.Used
	}
}

// reader is what is left to be read of a record.
type reader []byte

func (r *reader) next() uint64 {
	value, n := binary.Uvarint(*r)
	*r = (*r)[n:]
	return value
}
