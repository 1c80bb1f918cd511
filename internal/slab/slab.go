// Package slab keeps many small records of bytes in few large blocks. The blocks hold no pointers,
// so the garbage collector doesn't scan them, and a million records cost it no more than a few (decision 50).
//
// # Invariants
//
//   - A record has the bytes of its class: 8, 16, 24 and so on to 64, then 80, 96, 112, 128, 160
//     and so on, four for each doubling.
//   - A block holds records of one class. An empty block gives its memory back, except one of each
//     class, so that a record that comes and goes doesn't allocate every time.
package slab

import "encoding/binary"

// Slab keeps records. The zero value is empty. It is for one goroutine at a time.
type Slab struct {
	classes [classes]class
	bytes   int64
}

// Ref identifies a record of a slab, until it is replaced or freed. The zero value identifies none.
type Ref uint64

// maxRecord is the largest size of a record in bytes.
const maxRecord = 64 << 20

const (
	classes    = 88
	classBits  = 7
	blockBytes = 32 << 10
)

// class holds the records of one size.
type class struct {
	blocks []block
	room   []uint32 // numbers of blocks that aren't full; the last one is filled first
	empty  int      // number of blocks with memory and no record: 0 or 1
}

// block is memory for as many records as fit, at least one.
type block struct {
	data  []byte // nil if it has no records
	live  uint32 // number of records
	fresh uint32 // number of the first record that was never used
	free  uint32 // number of a free record, counted from 1, which begins with that of the next one; 0 for none
}

const (
	smallStep    = 8 // bytes between the classes of small records
	smallClasses = 8
	largeClasses = 4 // for each doubling beyond
)

// sizeOf returns the size in bytes of a class's records.
func sizeOf(class int) int {
	if class < smallClasses {
		return smallStep * (class + 1)
	}
	class -= smallClasses
	double := smallStep * smallClasses << (class / largeClasses)
	return double + double/largeClasses*(class%largeClasses+1)
}

// classFor returns the smallest class whose records hold so many bytes.
func classFor(bytes int) (class int) {
	if bytes <= smallStep*smallClasses {
		return max(bytes-1, 0) / smallStep
	}
	for class = smallClasses; sizeOf(class) < bytes; {
		class++
	}
	return class
}

// perBlock returns the number of records in a block of a class.
func perBlock(class int) uint32 { return uint32(max(blockBytes/sizeOf(class), 1)) }

// at returns the position of a record.
func (r Ref) at() (class int, block, record uint32) {
	r--
	class = int(r & (1<<classBits - 1))
	number, per := uint64(r)>>classBits, uint64(perBlock(class))
	return class, uint32(number / per), uint32(number % per)
}

// Size returns how many bytes the record takes, at least as many as were put.
func (r Ref) Size() int {
	if r == 0 {
		return 0
	}
	return sizeOf(int((r - 1) & (1<<classBits - 1)))
}

// Get returns the bytes of a record, valid until the slab is changed. They begin with the bytes
// that were put; the rest is undefined.
func (s *Slab) Get(r Ref) []byte {
	if r == 0 {
		return nil
	}
	class, block, record := r.at()
	size := uint32(sizeOf(class))
	return s.classes[class].blocks[block].data[record*size:][:size:size]
}

// Put stores a copy of at most 64 MiB. It replaces a record, or adds one if r is 0, and
// returns its reference.
func (s *Slab) Put(r Ref, bytes []byte) Ref {
	if r.Size() != sizeOf(classFor(len(bytes))) {
		s.Free(r)
		r = s.add(classFor(len(bytes)))
	}
	copy(s.Get(r), bytes)
	return r
}

// add adds a record of a class.
func (s *Slab) add(class int) Ref {
	c, size, per := &s.classes[class], sizeOf(class), perBlock(class)
	if len(c.room) == 0 {
		c.room = append(c.room, uint32(len(c.blocks)))
		c.blocks = append(c.blocks, block{})
	}
	number := c.room[len(c.room)-1]
	b := &c.blocks[number]
	switch {
	case b.data == nil:
		b.data = make([]byte, int(per)*size)
	case b.live == 0:
		c.empty--
	}
	record := b.fresh
	if b.free > 0 {
		record = b.free - 1
		b.free = binary.LittleEndian.Uint32(b.data[int(record)*size:])
	} else {
		b.fresh++
	}
	if b.live++; b.live == per {
		c.room = c.room[:len(c.room)-1]
	}
	s.bytes += int64(size)
	return Ref((uint64(number)*uint64(per)+uint64(record))<<classBits|uint64(class)) + 1
}

// Free frees a record.
func (s *Slab) Free(r Ref) {
	if r == 0 {
		return
	}
	class, number, record := r.at()
	c, size := &s.classes[class], sizeOf(class)
	b := &c.blocks[number]
	binary.LittleEndian.PutUint32(b.data[int(record)*size:], b.free)
	b.free = record + 1
	if b.live == perBlock(class) {
		c.room = append(c.room, number)
	}
	if b.live--; b.live == 0 {
		if c.empty++; c.empty > 1 || perBlock(class) == 1 {
			*b = block{}
			c.empty--
		}
	}
	s.bytes -= int64(size)
}

// Bytes returns the size of all records.
func (s *Slab) Bytes() int64 { return s.bytes }
