package journal

import "bytes"

// Erase overwrites the records of a segment with zeros, so that their keys are forgotten. The segment must be sealed,
// and no other Journal may be the owner: this one is the owner, or an [Open] has revoked all others.
func (j *Journal) Erase(s *Segment) error {
	if err := j.Settle(s); err != nil {
		return err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	s.erased.Store(true)
	entry, err := j.readWords(tableAt+s.slot, 1)
	if err != nil {
		return err
	}
	if decodeEntry(s.id, s.slot, entry[0]) > s.generation {
		return nil // its place is used again
	}
	return s.eraseLocked(s.Len())
}

// chunkRecords is how many records are read, or erased, with one system call.
const chunkRecords = 512

var zeros [chunkRecords * recordSize]byte

// eraseLocked overwrites the first n places, from the last to the first. It doesn't write where nothing was written.
func (s *Segment) eraseLocked(n int) error {
	b := make([]byte, min(n, chunkRecords)*recordSize)
	for to := n; to > 0; {
		from := max(to-chunkRecords, 0)
		b, none := b[:(to-from)*recordSize], zeros[:(to-from)*recordSize]
		if err := s.j.read(b, s.offset(from)); err != nil {
			return err
		}
		if !bytes.Equal(b, none) {
			if err := s.j.write(none, s.offset(from)); err != nil {
				return err
			}
		}
		to = from
	}
	return nil
}

// eraseUnusedLocked overwrites segments without pending records that weren't erased, because a process died after it
// had folded them. It recognizes them by their first record: that is written first, and erased last.
func (j *Journal) eraseUnusedLocked(slots []*Segment) error {
	b := make([]byte, recordSize)
	for slot, pending := range slots {
		if pending != nil {
			continue
		}
		s := j.newSegmentLocked(slot, 0)
		if err := j.read(b, s.offset(0)); err != nil {
			return err
		}
		if !bytes.Equal(b, zeros[:recordSize]) {
			if err := s.eraseLocked(s.capacity()); err != nil {
				return err
			}
		}
	}
	return nil
}
