package journal

import (
	"bytes"
	"sync/atomic"
)

// Erase overwrites the records of a segment with zeros, so that their keys are forgotten. The segment must be sealed,
// and no other Journal may be the owner: this one is the owner, or an [Open] has revoked all others.
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

// erase overwrites places, from the last to the first. It doesn't touch pages without records.
func erase(places []place) {
	for i := len(places) - 1; i >= 0; i-- {
		if there := &places[i]; *there != (place{}) {
			atomic.StoreUint64(&there[0], 0)
			clear(there[1:])
		}
	}
}

// eraseUnusedLocked overwrites segments without pending records that weren't erased, because a process died after it
// had folded them. It recognizes them by their first places, which it reads from the file, because untouched pages of
// the mapping take no memory. Overwriting touches the mapping.
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

// firstPlaces is how many places eraseUnusedLocked reads. Fewer Adds run at once, so one of them is written.
const firstPlaces = 4096 / recordSize
