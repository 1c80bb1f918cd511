package cells

import (
	"encoding/binary"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// A state is encoded as a byte for its kind, and varints: for slots the first index, and then the units of
// each slot and the distance to the next index; for a bucket its fields.
const (
	asSlots  = 1
	asBucket = 2
)

// Append appends the encoding of a state, which doesn't include Expires. An empty state is encoded as no
// bytes.
func (s *State) Append(to []byte) []byte {
	if len(s.Slots) > 0 {
		to = append(to, asSlots)
		last := int64(0)
		for _, slot := range s.Slots {
			to = binary.AppendVarint(to, slot.Index-last) // wraps around, and back
			to = binary.AppendVarint(to, slot.Used)
			last = slot.Index
		}
		return to
	}
	if s.Bucket == (limiter.Bucket{}) {
		return to
	}
	to = append(to, asBucket)
	to = binary.AppendVarint(to, s.Bucket.At)
	to = binary.AppendVarint(to, s.Bucket.Units)
	return binary.AppendVarint(to, s.Bucket.Part)
}

// Parse decodes a state. Of damaged bytes it uses what makes sense: slots in ascending order that hold
// units.
func (s *State) Parse(from []byte) {
	s.State = limiter.State{Slots: s.Slots[:0]}
	if len(from) == 0 {
		return
	}
	kind, from := from[0], from[1:]
	next := func() (v int64, ok bool) {
		v, n := binary.Varint(from)
		if n <= 0 {
			from = nil
			return 0, false
		}
		from = from[n:]
		return v, true
	}
	switch kind {
	case asSlots:
		index := int64(0)
		for len(from) > 0 {
			step, _ := next()
			used, ok := next()
			index += step
			if n := len(s.Slots); ok && used > 0 && (n == 0 || index > s.Slots[n-1].Index) {
				s.Slots = append(s.Slots, limiter.Slot{Index: index, Used: limiter.Clamp(used)})
			}
		}
	case asBucket:
		s.Bucket.At, _ = next()
		s.Bucket.Units, _ = next()
		s.Bucket.Part, _ = next()
	}
}
