package journal

import (
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
)

// maxGeneration is the last generation; the first is 1.
const maxGeneration = 1<<31 - 1

// seat is where a record lies: the id of the file's contents, the use of its segment, and the
// record's place among all of the file.
type seat struct {
	id         int64
	generation uint32
	index      uint64
}

// encode returns the words of a record, to be written to its seat.
func (r *Record) encode(at seat) [recordWords]uint64 {
	w := [recordWords]uint64{
		uint64(at.generation) << 33,
		uint64(r.Limit),
		binary.NativeEndian.Uint64(r.Key[:8]),
		binary.NativeEndian.Uint64(r.Key[8:]),
		uint64(r.N[0]), uint64(r.N[1]), uint64(r.N[2]), uint64(r.N[3]),
	}
	if r.Bucket {
		w[0] |= 1 << 32
	}
	w[0] |= uint64(checksum(&w, at))
	return w
}

// decode sets the record to what words found at a seat say, if they are a record that was
// written there.
func (r *Record) decode(w *[recordWords]uint64, at seat) bool {
	if uint32(w[0]>>33) != at.generation || uint32(w[0]) != checksum(w, at) {
		return false
	}
	r.Limit = int64(w[1])
	binary.NativeEndian.PutUint64(r.Key[:8], w[2])
	binary.NativeEndian.PutUint64(r.Key[8:], w[3])
	r.Bucket = w[0]>>32&1 != 0
	for i := range r.N {
		r.N[i] = int64(w[4+i])
	}
	return true
}

// checksum returns the checksum of a record's words, but for the checksum itself, and of its
// seat.
func checksum(w *[recordWords]uint64, at seat) uint32 {
	var b [recordSize + 16]byte
	binary.NativeEndian.PutUint64(b[0:], w[0]>>32)
	for i := 1; i < recordWords; i++ {
		binary.NativeEndian.PutUint64(b[8*i:], w[i])
	}
	binary.NativeEndian.PutUint64(b[recordSize:], uint64(at.id))
	binary.NativeEndian.PutUint64(b[recordSize+8:], at.index)
	return uint32(xxhash.Sum64(b[:]))
}

// encodeEntry returns a segment's entry in the table: its generation, and a checksum.
func encodeEntry(id int64, slot int, generation uint32) uint64 {
	var b [24]byte
	binary.NativeEndian.PutUint64(b[0:], uint64(id))
	binary.NativeEndian.PutUint64(b[8:], uint64(slot))
	binary.NativeEndian.PutUint64(b[16:], uint64(generation))
	return uint64(generation)<<32 | uint64(uint32(xxhash.Sum64(b[:])))
}

// decodeEntry returns the generation that an entry holds, or 0.
func decodeEntry(id int64, slot int, entry uint64) uint32 {
	generation := uint32(entry >> 32)
	if generation > maxGeneration || entry != encodeEntry(id, slot, generation) {
		return 0
	}
	return generation
}
