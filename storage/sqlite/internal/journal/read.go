package journal

import (
	"cmp"
	"runtime/debug"
	"slices"
	"sync/atomic"
)

// Newest returns the highest generation that a segment has, or 0.
func (j *Journal) Newest() (newest uint32) {
	j.mu.Lock()
	defer j.mu.Unlock()
	_ = j.guard(func() { newest = j.newestLocked() })
	return newest
}

func (j *Journal) newestLocked() (newest uint32) {
	for slot := range int(j.header.segments) {
		newest = max(newest, decodeEntry(j.header.id, slot, j.mem.loadEntry(slot)))
	}
	return newest
}

// Segments returns the segments with a generation after the given one, in ascending order. They include the owner's
// present segment, also after the owner was revoked. If it returns none because the mapping faults, Err then returns
// an error.
func (j *Journal) Segments(after uint32) (segments []*Segment) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.period == nil {
		_ = j.guard(func() { segments = j.pendingLocked(after) })
		return segments
	}
	for _, s := range j.period.slots {
		if s != nil && s.generation > after {
			segments = append(segments, s)
		}
	}
	return ascending(segments)
}

// pendingLocked returns the segments after a generation: those that this Journal has written, and others in the table.
// It touches the mapping.
func (j *Journal) pendingLocked(after uint32) (segments []*Segment) {
	for slot := range int(j.mem.segments) {
		if slot < len(j.past) && j.past[slot] != nil && j.past[slot].generation > after {
			segments = append(segments, j.past[slot])
		} else if slot >= int(j.header.segments) {
			continue // the contents are foreign
		} else if generation := decodeEntry(j.header.id, slot, j.mem.loadEntry(slot)); generation > after {
			segments = append(segments, j.pastSegmentLocked(slot, generation))
		}
	}
	return ascending(segments)
}

func ascending(segments []*Segment) []*Segment {
	slices.SortFunc(segments, func(a, b *Segment) int { return cmp.Compare(a.generation, b.generation) })
	return segments
}

// Read sets r to the record at a place, counted from 0, and reports whether there is one. In a segment that is not
// settled there may be one later. An error means that the mapping faults, that the journal is closed, or that a record
// of this Journal is missing; the journal is broken then. After this Journal was revoked, a missing record is no
// error, because another one may have erased the segment.
func (s *Segment) Read(i int, r *Record) (ok bool, err error) { return s.read(i, r, false) }

// ReadPending is Read for a segment that is known not to be erased: a missing record is an error, also after this
// Journal was revoked.
func (s *Segment) ReadPending(i int, r *Record) (ok bool, err error) { return s.read(i, r, true) }

func (s *Segment) read(i int, r *Record, pending bool) (ok bool, err error) {
	if i < 0 || i >= s.capacity() || s.erased.Load() {
		return false, nil
	}
	if s.j.closed.Load() {
		return false, errClosed // instead of a fault
	}
	defer s.j.recovered(debug.SetPanicOnFault(true), &err)
	complete := s.complete(i) // first: if it is complete, nothing is written any more
	there := &s.places[i]
	w := place{atomic.LoadUint64(&there[0])}
	if generationOf(w[0]) == s.generation { // otherwise another goroutine may be writing the rest
		*(*[7]uint64)(w[1:]) = [7]uint64(there[1:])
		ok = r.decode(&w, s.seatOf(i))
	}
	if complete && !ok && !s.erased.Load() && (pending || atomic.LoadUint64(s.j.mem.owner()) == s.token) {
		err = s.j.breakWith("a record that was written is damaged: another process has written to the file")
	}
	return ok, err
}

// IsDamaged reports whether a place of a past segment has a damaged record. A record's first word is written last, so
// a record with a first word was complete, however its writer ended.
func (s *Segment) IsDamaged(i int) (damaged bool) {
	if !s.Past() || i < 0 || i >= s.capacity() || s.erased.Load() || s.j.closed.Load() {
		return false
	}
	var fault error
	defer s.j.recovered(debug.SetPanicOnFault(true), &fault)
	var r Record
	w := s.places[i]
	return generationOf(w[0]) == s.generation && !r.decode(&w, s.seatOf(i))
}

// complete reports whether this Journal has finished writing a record to a place.
func (s *Segment) complete(i int) bool {
	if s.written == nil {
		return false
	}
	n, sealed := s.reserved()
	return sealed && i < n && s.settled()
}
