package journal

import (
	"cmp"
	"errors"
	"slices"
)

// Newest returns the highest generation that a segment has, or 0.
func (j *Journal) Newest() uint32 {
	j.mu.Lock()
	defer j.mu.Unlock()
	table, err := j.readTable()
	if err != nil {
		return 0
	}
	return slices.Max(table)
}

// Segments returns the segments with a generation after the given one, in ascending order. They include the owner's
// present segment, also after the owner was revoked. If it returns none because the file can't be read, Err then
// returns an error.
func (j *Journal) Segments(after uint32) (segments []*Segment) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.period == nil {
		table, err := j.readTable()
		if err != nil {
			return nil
		}
		return j.pendingLocked(table, after)
	}
	for _, s := range j.period.slots {
		if s != nil && s.generation > after {
			segments = append(segments, s)
		}
	}
	return ascending(segments)
}

// pendingLocked returns the segments after a generation: those that this Journal has written, and others in the table.
func (j *Journal) pendingLocked(table []uint32, after uint32) (segments []*Segment) {
	for slot, generation := range table {
		if slot < len(j.past) && j.past[slot] != nil && j.past[slot].generation > after {
			segments = append(segments, j.past[slot])
		} else if generation > after {
			segments = append(segments, j.pastSegmentLocked(slot, generation))
		}
	}
	return ascending(segments)
}

func ascending(segments []*Segment) []*Segment {
	slices.SortFunc(segments, func(a, b *Segment) int { return cmp.Compare(a.generation, b.generation) })
	return segments
}

// Read calls f with the records at the places from a first one, counted from 0, to before another one, and returns how
// many places have a damaged record. f must not retain the record. An error means that the file can't be read, that the
// journal is closed, or that a record of this Journal is missing; the journal is broken then. After this Journal was
// revoked, a missing record is no error, because another one may have erased the segment.
func (s *Segment) Read(from, to int, f func(place int, r *Record)) (damaged int, err error) {
	return s.readPlaces(from, to, false, f)
}

// ReadPending is Read for a segment that is known not to be erased: a missing record is an error, also after this
// Journal was revoked.
func (s *Segment) ReadPending(from, to int, f func(place int, r *Record)) (damaged int, err error) {
	return s.readPlaces(from, to, true, f)
}

func (s *Segment) readPlaces(from, to int, pending bool, f func(place int, r *Record)) (damaged int, err error) {
	written := to
	if !s.past() {
		written = s.Len() // first: what is written before this is complete
	}
	b := make([]byte, max(min(to-from, chunkRecords), 0)*recordSize)
	var r Record
	for ; from < to && !s.erased.Load(); from += chunkRecords {
		n := min(to-from, chunkRecords)
		if s.j.closed.Load() {
			return damaged, errClosed
		}
		if err := s.j.read(b[:n*recordSize], s.offset(from)); err != nil {
			return damaged, err
		}
		for i := range n {
			w := wordsOf(b[i*recordSize:])
			switch {
			case r.decode(&w, s.seatOf(from+i)):
				f(from+i, &r)
			case s.past():
				if generationOf(w[0]) == s.generation {
					damaged++
				}
			case from+i < written && s.misses(pending):
				return damaged, s.j.breakWith(errOverwritten)
			}
		}
	}
	return damaged, nil
}

// misses reports whether a record that this Journal has written must still be there.
func (s *Segment) misses(pending bool) bool {
	return !s.erased.Load() && (pending || s.j.hasOwner(s.token))
}

var errOverwritten = errors.New("a record that was written is damaged: another process has written to the file")
