package journal

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// Add adds a record, and reports whether whoever opens the journal later will find it. If
// not, because this Journal doesn't own the journal, or that is full or broken, it is unknown
// whether the record counts. It waits for nobody, and r stays with the caller.
func (j *Journal) Add(r *Record) bool {
	for {
		s := j.writing.Load()
		if s == nil {
			return false
		}
		if i := s.tail.Add(1) - 1; i < uint64(s.capacity()) {
			return s.add(int(i), r)
		}
		if !j.follow(s) {
			return false
		}
	}
}

// add writes a record to a place that was reserved for it. The order is what the protocol is
// built on: see the package's comment.
func (s *Segment) add(i int, r *Record) bool {
	defer s.added(i, debug.SetPanicOnFault(true)) // after a fault, add returns false
	var w place
	r.encode(&w, s.at(i))
	there := &s.places[i]
	*(*[7]uint64)(there[1:]) = [7]uint64(w[1:])
	atomic.StoreUint64(&there[0], w[0])
	return atomic.LoadUint64(s.j.mem.owner()) == s.token
}

// added is deferred by add, and is as recovered. The place counts as written, whether it was
// or a fault came between.
func (s *Segment) added(i int, before bool) {
	p := recover()
	debug.SetPanicOnFault(before)
	defer s.written[i%shards].n.Add(1)
	if p != nil {
		_ = s.j.fault(p)
	}
}

// follow has Adds go on after a segment that has become full or was sealed, and reports
// whether they can.
func (j *Journal) follow(s *Segment) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if now := j.writing.Load(); now != s {
		return now != nil
	}
	select {
	case j.full <- struct{}{}:
	default:
	}
	return j.startLocked()
}

// startLocked has Adds go to the first segment that is free, and reports whether there is one
// and this Journal still the owner. If not, Adds fail.
func (j *Journal) startLocked() bool {
	var next *Segment
	err := j.guard(func() {
		if p := j.period; atomic.LoadUint64(j.mem.owner()) == p.token && p.next <= maxGeneration {
			next = j.nextSegmentLocked()
		}
	})
	if err != nil {
		next = nil
	}
	j.writing.Store(next)
	if j.broken.Load() != nil { // perhaps since the guard: a fault doesn't wait for the lock
		j.writing.Store(nil)
		return false
	}
	return next != nil
}

// nextSegmentLocked gives the first segment that is free the next generation. It returns nil if
// there is none. It touches the mapping.
func (j *Journal) nextSegmentLocked() *Segment {
	p := j.period
	for slot, used := range p.slots {
		if used != nil && used.generation > p.freed {
			continue
		}
		if used != nil {
			used.erased.Store(true) // its records are about to be written over
		}
		s := j.newSegmentLocked(slot, p.next)
		s.token, s.written = p.token, new([shards]counter)
		j.mem.storeEntry(slot, encodeEntry(s.id, slot, s.generation))
		p.slots[slot] = s
		p.next++
		return s
	}
	return nil
}

// Seal makes further records go to another segment. It does nothing if there is
// nothing in the current one. If no segment is free, Adds fail until Free.
func (j *Journal) Seal() {
	j.mu.Lock()
	defer j.mu.Unlock()
	s := j.writing.Load()
	if s == nil || s.Len() == 0 {
		return
	}
	j.startLocked()
	s.seal()
}

// Settle waits until every record of a sealed segment is written that was reserved. It returns
// an error if the segment isn't sealed, or if the journal is broken, in which case some may be
// missing.
func (j *Journal) Settle(s *Segment) error {
	if !s.Sealed() {
		return fmt.Errorf("journal %q: generation %d is not sealed", j.path, s.generation)
	}
	s.wait()
	return j.Err()
}

// Free has segments up to a generation be written over, but not one that is not sealed yet. It
// waits for Adds that are still writing there. It does nothing for a Journal that isn't the
// owner.
func (j *Journal) Free(upto uint32) {
	for _, s := range j.Segments(0) {
		if s.generation <= upto && s.Sealed() {
			s.wait() // not under the lock: Adds need it to go on to another segment
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.period
	if p == nil {
		return
	}
	for _, s := range p.slots {
		// One that is sealed by now, but wasn't above, isn't meant either.
		if s != nil && (!s.Sealed() || !s.settled()) {
			upto = min(upto, s.generation-1)
		}
	}
	p.freed = max(p.freed, min(upto, p.next-1))
	if j.writing.Load() == nil && j.Err() == nil {
		j.startLocked()
	}
}
