package replay

import (
	"encoding/binary"

	"github.com/caddy-tally/caddy-tally/internal/slab"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// client holds the counts of a client of a limit.
type client struct {
	requests int64
	errors   int64 // of these, answered with an error that attackers get
	peak     int64 // the most units wanted within a window
	refused  bool  // whether it was ever refused
	wanted   usage // within the last window
}

// usage is units in slots, ascending.
type usage struct {
	slots []limiter.Slot
	sum   int64
}

// clients are the clients of a limit, by the hashes of their keys. Each takes a record of some 16
// bytes. The most recent ones are also held decoded.
type clients struct {
	refs    map[uint64]slab.Ref
	records slab.Slab
	hot     []hot
	room    []byte // scratch space for encoding a record
	slot    int64  // a slot near those of the clients, which keeps the encoded distances small
}

// hot is a recent client. Its record may be outdated.
type hot struct {
	client
	hash uint64
	used bool
}

// maxHot is how many clients are held decoded, a power of 2.
const maxHot = 1 << 10

// get returns the client with a hash, adding it if necessary. The result may be changed until the
// next call.
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

// len returns the number of clients.
func (cs *clients) len() int { return len(cs.refs) }

// store updates the record of a client.
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

// each calls f for every client. f may change the client.
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

// slotBytes returns how many bytes the records take beyond their minimum.
func (cs *clients) slotBytes() int64 { return cs.records.Bytes() - leastRecord*int64(len(cs.refs)) }

// leastRecord is the size in bytes of the record of a client with usage in one slot.
const leastRecord = 7

// reset empties the client, but keeps its memory.
func (c *client) reset() {
	*c = client{wanted: usage{slots: c.wanted.slots[:0]}}
}

// append appends the record of a client: its numbers and its usage, all of them varints. It must
// be read with the same near slot.
func (c *client) append(b []byte, near int64) []byte {
	requests := uint64(c.requests) << 1
	if c.refused {
		requests++
	}
	b = binary.AppendUvarint(b, requests)
	b = binary.AppendUvarint(b, uint64(c.errors))
	b = binary.AppendUvarint(b, uint64(c.peak))
	return c.wanted.append(b, near)
}

// read decodes a record into an empty client.
func (c *client) read(record []byte, near int64) {
	r := reader(record)
	requests := r.next()
	c.requests, c.refused = int64(requests>>1), requests&1 != 0
	c.errors, c.peak = int64(r.next()), int64(r.next())
	c.wanted.read(&r, near)
}

// append appends the number of slots, and for each its units and its distance to the one before.
// The first distance is to a near slot.
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

// reader is the unread rest of a record.
type reader []byte

func (r *reader) next() uint64 {
	value, n := binary.Uvarint(*r)
	*r = (*r)[n:]
	return value
}
