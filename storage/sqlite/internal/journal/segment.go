package journal

import (
	"runtime"
	"sync/atomic"
	"time"
)

// Segment is one use of a segment of the file, with one generation.
type Segment struct {
	j          *Journal
	slot       int // the index of the segment in the file
	generation uint32
	id         int64  // of the file's contents
	token      uint64 // of the period in which it is written
	places     []place
	written    *[shards]counter // by place; nil for a past segment
	erased     atomic.Bool      // its records must not be read any more

	_    [64]byte // tail changes with each Add, the fields above don't
	tail atomic.Uint64
	_    [64]byte
}

// tail counts the reserved places, and failed attempts after the last. In a sealed segment it has the mark, the number
// of places in 31 bits, and the attempts.
const sealMark = 1 << 63

// shards is the number of counters of written places. Concurrent Adds rarely use the same counter.
const shards = 8

type counter struct {
	n atomic.Uint64
	_ [56]byte
}

func (j *Journal) newSegmentLocked(slot int, generation uint32) *Segment {
	return &Segment{j: j, slot: slot, generation: generation, id: j.header.id, places: j.mem.segment(slot)}
}

// pastSegmentLocked returns a segment that was written before this period.
func (j *Journal) pastSegmentLocked(slot int, generation uint32) *Segment {
	s := j.newSegmentLocked(slot, generation)
	s.tail.Store(uint64(s.capacity()))
	return s
}

// Generation returns the generation of the segment's records.
func (s *Segment) Generation() uint32 { return s.generation }

// Len returns the number of reserved places. For a past segment these are all places.
func (s *Segment) Len() int {
	n, _ := s.reserved()
	return n
}

// Sealed reports whether no more records are added to the segment.
func (s *Segment) Sealed() bool {
	_, sealed := s.reserved()
	return sealed
}

// Past reports whether the segment was written before this Journal became the owner. No more records that count are
// added to it.
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

// seal makes further reservations fail.
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

// settled reports whether all Adds to a sealed segment have ended.
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

// wait waits until a sealed segment is settled. It waits only for Adds that run already, for about as long as it takes
// to switch threads.
func (s *Segment) wait() {
	for try := 0; !s.settled(); try++ {
		if try < 100 {
			runtime.Gosched()
		} else {
			time.Sleep(50 * time.Microsecond)
		}
	}
}

// seatOf returns the seat of the record at a place.
func (s *Segment) seatOf(i int) seat {
	return seat{id: s.id, generation: s.generation, index: uint32(s.slot*len(s.places) + i)}
}
