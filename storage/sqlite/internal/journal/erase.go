package journal

import (
	"bytes"
	"sync/atomic"
)

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
// a process died after it had folded them. Their beginning tells. It is read from the file: pages of
// the mapping that are never touched take no memory. The overwriting touches the mapping.
func (j *Journal) eraseUnusedLocked(slots []*Segment) {
	var none, begin [firstPlaces * recordSize]byte
	for slot, pending := range slots {
		places := j.mem.segment(slot)
		first := begin[:min(len(places), firstPlaces)*recordSize]
		if pending != nil {
			continue
		}
		_, err := j.file.ReadAt(first, headerSize+int64(slot)*int64(len(places))*recordSize)
		if err != nil || !bytes.Equal(first, none[:len(first)]) {
			erase(places)
		}
	}
}

// firstPlaces are the places of a segment whose records a process has begun with: at most so many
// Adds run at once.
const firstPlaces = 4096 / recordSize
