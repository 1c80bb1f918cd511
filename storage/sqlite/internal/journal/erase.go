package journal

import "sync/atomic"

// Erase overwrites the records of a segment with zeros: nobody needs them any more, and the keys
// in them are to be forgotten. The segment must be sealed, and no other Journal may own the file:
// call it as the owner, or after everybody was revoked by an [Open].
func (j *Journal) Erase(s *Segment) error {
	if err := j.Settle(s); err != nil {
		return err
	}
	s.erased.Store(true)
	return j.guard(func() {
		if decodeEntry(s.id, s.slot, j.mem.loadEntry(s.slot)) <= s.generation {
			erase(s.places[:s.Len()])
		}
	})
}

// erase overwrites places, from the last to the first. Pages without records stay as they are.
func erase(places []place) {
	for i := len(places) - 1; i >= 0; i-- {
		if there := &places[i]; *there != (place{}) {
			atomic.StoreUint64(&there[0], 0)
			clear(there[1:])
		}
	}
}

// eraseUnusedLocked overwrites the segments that hold nothing pending and weren't erased, because
// a process died after it had folded them. What is at their beginning tells. It touches the
// mapping.
func (j *Journal) eraseUnusedLocked(slots []*Segment) {
	for slot, pending := range slots {
		places := j.mem.segment(slot)
		for i := 0; pending == nil && i < min(len(places), firstPlaces); i++ {
			if places[i] != (place{}) {
				erase(places)
				break
			}
		}
	}
}

// firstPlaces are the places of a segment whose records a process has begun with: at most so many
// Adds run at once.
const firstPlaces = 4096 / recordSize
