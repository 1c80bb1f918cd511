package journal

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"
)

// Add adds a record, and reports whether all who open the journal later will find it. If not, because this Journal
// isn't the owner, or the journal is full or broken, it is unknown whether the record counts. Add doesn't wait, and
// doesn't retain r.
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

// add writes a record to its reserved place. The protocol in the package comment depends on the order of the accesses.
func (s *Segment) add(i int, r *Record) bool {
	defer s.added(i, debug.SetPanicOnFault(true)) // after a fault, add returns false
	var w place
	r.encode(&w, s.seatOf(i))
	there := &s.places[i]
	*(*[7]uint64)(there[1:]) = [7]uint64(w[1:])
	atomic.StoreUint64(&there[0], w[0])
	return atomic.LoadUint64(s.j.mem.owner()) == s.token
}

// added is deferred by add, like recovered. The place counts as written even after a fault.
func (s *Segment) added(i int, before bool) {
	p := recover()
	debug.SetPanicOnFault(before)
	defer s.written[i%shards].n.Add(1)
	if p != nil {
		_ = s.j.fault(p)
	}
}

// follow makes Adds continue after a segment that is full or sealed, and reports whether they can.
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

// startLocked makes Adds use the first free segment. It reports whether there is one and this Journal is still the
// owner. If not, Adds fail.
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

// nextSegmentLocked gives the next generation to the first free segment. It returns nil if there is none. It touches
// the mapping.
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
		s.token, s.written = p.token, new([shards]counter)
		j.mem.storeEntry(slot, encodeEntry(s.id, slot, s.generation))
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
	s := j.writing.Load()
	if s == nil || s.Len() == 0 {
		return
	}
	j.startLocked()
	s.seal()
}

// Settle waits until all reserved places of a sealed segment are written. It returns an error if the segment isn't
// sealed, or if the journal is broken, so that records may be missing.
func (j *Journal) Settle(s *Segment) error {
	if !s.Sealed() {
		return fmt.Errorf("journal %q: generation %d is not sealed", j.path, s.generation)
	}
	s.wait()
	return j.Err()
}

// Free allows segments up to a generation to be overwritten, except for one that is not sealed yet. It waits for Adds
// that still write to them. It does nothing if this Journal isn't the owner.
func (j *Journal) Free(upto uint32) {
	for _, s := range j.Segments(0) {
		if s.generation <= upto && s.Sealed() {
			s.wait() // not under the lock, which Adds need to continue in another segment
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	p := j.period
	if p == nil {
		return
	}
	for _, s := range p.slots {
		// A segment that was sealed after the loop above is not freed either.
		if s != nil && (!s.Sealed() || !s.settled()) {
			upto = min(upto, s.generation-1)
		}
	}
	p.freed = max(p.freed, min(upto, p.next-1))
	if j.writing.Load() == nil && j.Err() == nil {
		j.startLocked()
	}
}
