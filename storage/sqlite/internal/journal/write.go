package journal

import (
	"fmt"
	"time"
)

// Add adds records, and reports whether all who open the journal later will find them. If not, because this Journal
// isn't the owner, or the journal is full or broken, it is unknown which of them count. Add doesn't retain records.
// Those that fit into one segment are written with one system call.
func (j *Journal) Add(records ...Record) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	begin := time.Now()
	if !j.Owned() {
		return false
	}
	for len(records) > 0 {
		s := j.writing
		if s == nil || j.broken.Load() != nil {
			return false
		}
		n := min(len(records), s.capacity()-s.Len())
		if n == 0 && !j.followLocked() || !j.writeLocked(s, records[:n]) {
			return false
		}
		records = records[n:]
	}
	return j.writing != nil && j.broken.Load() == nil && (time.Since(begin) < promptly || j.isOwner(j.period.token))
}

// writeLocked writes records to the next places of a segment. After an error these are in doubt, and the journal is
// broken.
func (j *Journal) writeLocked(s *Segment, records []Record) bool {
	first, b := s.Len(), j.buffer[:0]
	for i := range records {
		var w words
		records[i].encode(&w, s.seatOf(first+i))
		b = w.append(b)
	}
	j.buffer = b
	if len(b) > 0 && j.write(b, s.offset(first)) != nil {
		return false
	}
	s.written.Add(int64(len(records)))
	return true
}

// followLocked makes Adds continue after a segment that is full, and reports whether they can.
func (j *Journal) followLocked() bool {
	select {
	case j.full <- struct{}{}:
	default:
	}
	return j.startLocked()
}

// startLocked makes Adds use the first free segment. It reports whether there is one and this Journal is still the
// owner. If not, Adds fail.
func (j *Journal) startLocked() bool {
	j.writing = nil
	if p := j.period; p.next <= maxGeneration && j.Owned() {
		j.writing = j.nextSegmentLocked()
	}
	return j.writing != nil
}

// nextSegmentLocked gives the next generation to the first free segment. It returns nil if there is none.
func (j *Journal) nextSegmentLocked() *Segment {
	p := j.period
	for slot, used := range p.slots {
		if used != nil && used.generation > p.freed {
			continue
		}
		if used != nil {
			used.erased.Store(true) // its records are about to be overwritten
		}
		s := j.newSegmentLocked(slot, p.next)
		s.token = p.token
		if j.writeEntry(s) != nil {
			return nil
		}
		p.slots[slot] = s
		p.next++
		return s
	}
	return nil
}

// Seal makes further records go to another segment, unless the present one is empty. If no segment is free, Adds fail
// until Free.
func (j *Journal) Seal() {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.writing
	if s == nil || s.Len() == 0 {
		return
	}
	j.startLocked()
	s.sealed.Store(true)
}

// Settle returns an error if a segment isn't sealed, or if the journal is broken, so that records may be missing.
func (j *Journal) Settle(s *Segment) error {
	if !s.Sealed() {
		return fmt.Errorf("journal %q: generation %d is not sealed", j.path, s.generation)
	}
	return j.Err()
}

// Free allows segments up to a generation to be overwritten, except for one that is not sealed yet. It does nothing if
// this Journal isn't the owner.
func (j *Journal) Free(upto uint32) {
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.period
	if p == nil {
		return
	}
	for _, s := range p.slots {
		if s != nil && !s.Sealed() {
			upto = min(upto, s.generation-1)
		}
	}
	p.freed = max(p.freed, min(upto, p.next-1))
	if j.writing == nil && j.Err() == nil {
		j.startLocked()
	}
}
