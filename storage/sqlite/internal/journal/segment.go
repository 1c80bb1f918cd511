package journal

import "sync/atomic"

// Segment is one use of a segment of the file, with one generation.
type Segment struct {
	j          *Journal
	slot       int // the index of the segment in the file
	generation uint32
	id         int64  // of the file's contents
	token      uint64 // of the period in which it is written; 0 for a past segment

	written atomic.Int64 // how many places have been written, from the first on
	sealed  atomic.Bool
	erased  atomic.Bool // its records must not be read any more
}

func (j *Journal) newSegmentLocked(slot int, generation uint32) *Segment {
	return &Segment{j: j, slot: slot, generation: generation, id: j.header.id}
}

// pastSegmentLocked returns a segment that was written before this period.
func (j *Journal) pastSegmentLocked(slot int, generation uint32) *Segment {
	s := j.newSegmentLocked(slot, generation)
	s.written.Store(int64(s.capacity()))
	s.sealed.Store(true)
	return s
}

// Generation returns the generation of the segment's records.
func (s *Segment) Generation() uint32 { return s.generation }

// Len returns the number of written places. For a past segment these are all places.
func (s *Segment) Len() int { return int(s.written.Load()) }

// Sealed reports whether no more records are added to the segment.
func (s *Segment) Sealed() bool { return s.sealed.Load() || s.Len() == s.capacity() }

// past reports whether the segment was written before this Journal became the owner. No more records that count are
// added to it.
func (s *Segment) past() bool { return s.token == 0 }

func (s *Segment) capacity() int { return int(s.j.shape.records) }

// offset returns where a place begins in the file.
func (s *Segment) offset(i int) int64 {
	return headerSize + (int64(s.slot)*int64(s.capacity())+int64(i))*recordSize
}

// seatOf returns the seat of the record at a place.
func (s *Segment) seatOf(i int) seat {
	return seat{id: s.id, generation: s.generation, index: uint32(s.slot*s.capacity() + i)}
}
