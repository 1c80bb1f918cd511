package journal

import (
	"runtime"
	"sync/atomic"
	"time"
)

// Segment is one use of a segment, under one generation.
type Segment struct {
	j          *Journal
	slot       int // which segment of the file it is
	generation uint32
	id         int64  // of the file's contents
	token      uint64 // of the period in which it is written
	places     []place
	written    *[shards]counter // by place; nil if it is not this period that writes it
	erased     atomic.Bool      // nothing is read of it any more

	_    [64]byte // tail changes with each Add, the fields above don't
	tail atomic.Uint64
	_    [64]byte
}

// tail counts the places that were reserved, and attempts to after the last. Once it is
// sealed, it is the mark, then the number of places in 31 bits, then attempts.
const sealMark = 1 << 63

// Adds that are under way are counted by their places, so that those that run at once
// rarely use the same counter.
const shards = 8

type counter struct {
	n atomic.Uint64
	_ [56]byte
}

func (j *Journal) newSegmentLocked(slot int, generation uint32) *Segment {
	return &Segment{j: j, slot: slot, generation: generation, id: j.header.id, places: j.mem.segment(slot)}
}

// pastSegmentLocked is a segment that was written before.
func (j *Journal) pastSegmentLocked(slot int, generation uint32) *Segment {
	s := j.newSegmentLocked(slot, generation)
	s.tail.Store(uint64(s.capacity()))
	return s
}

// Generation returns the generation of the segment's records.
func (s *Segment) Generation() uint32 { return s.generation }

// Len returns how many places were reserved. It is all of them in a segment that was written
// before this Journal became the owner.
func (s *Segment) Len() int {
	n, _ := s.reserved()
	return n
}

// Sealed reports whether nothing is added to the segment any more.
func (s *Segment) Sealed() bool {
	_, sealed := s.reserved()
	return sealed
}

// Past reports whether the segment was written before this Journal became the owner: no records
// are added to it any more that count.
func (s *Segment) Past() bool { return s.written == nil }

func (s *Segment) capacity() int { return len(s.places) }

func (s *Segment) reserved() (n int, sealed bool) {
	t := s.tail.Load()
	if t&sealMark != 0 {
		return int(t &^ sealMark >> 32), true
	}
	n = int(min(t, uint64(s.capacity())))
	return n, n == s.capacity()
}

// seal has further reservations fail.
func (s *Segment) seal() {
	for {
		t := s.tail.Load()
		n, sealed := s.reserved() // n is t if the swap succeeds
		if sealed {
			return
		}
		if s.tail.CompareAndSwap(t, sealMark|uint64(n)<<32) {
			return
		}
	}
}

// settled reports whether each reserved place of a sealed segment was written, or given up.
func (s *Segment) settled() bool {
	if s.written == nil {
		return true
	}
	n, _ := s.reserved()
	var written uint64
	for i := range s.written {
		written += s.written[i].n.Load()
	}
	return written == uint64(n)
}

// wait returns when the segment, which is sealed, is settled. That takes as long as Adds take
// that run already: about the time that it takes to switch threads.
func (s *Segment) wait() {
	for try := 0; !s.settled(); try++ {
		if try < 100 {
			runtime.Gosched()
		} else {
			time.Sleep(50 * time.Microsecond)
		}
	}
}

// at returns the seat of the record at a place.
func (s *Segment) at(i int) seat {
	return seat{id: s.id, generation: s.generation, index: uint32(s.slot*len(s.places) + i)}
}
