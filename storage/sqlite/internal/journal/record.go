package journal

import (
	"encoding/binary"
	"math"

	"github.com/cespare/xxhash/v2"
)

// maxGeneration is the last generation; the first is 1.
const maxGeneration = 1<<31 - 1

// seat identifies the place of a record: the ID of the file's contents, the generation of its segment, and the index
// of the record in the file.
type seat struct {
	id         int64
	generation uint32
	index      uint32
}

// encode sets w to the words of a record at a seat.
func (r *Record) encode(w *words, pos seat) {
	w[0] = uint64(pos.generation) << 33
	if r.Bucket {
		w[0] |= 1 << 32
	}
	w[1] = uint64(r.Limit)
	w[2] = binary.NativeEndian.Uint64(r.Key[:8])
	w[3] = binary.NativeEndian.Uint64(r.Key[8:])
	w[4], w[5], w[6], w[7] = uint64(r.N[0]), uint64(r.N[1]), uint64(r.N[2]), uint64(r.N[3])
	w[0] |= uint64(checksum(w, pos))
}

// generationOf returns the generation in the first word of a record.
func generationOf(first uint64) uint32 { return uint32(first >> 33) }

// decode sets the record from the words at a seat, and reports whether they are a record that was written there.
func (r *Record) decode(w *words, pos seat) bool {
	if generationOf(w[0]) != pos.generation || uint32(w[0]) != checksum(w, pos) {
		return false
	}
	r.Bucket = w[0]>>32&1 != 0
	r.Limit = int64(w[1])
	binary.NativeEndian.PutUint64(r.Key[:8], w[2])
	binary.NativeEndian.PutUint64(r.Key[8:], w[3])
	r.N = [4]int64{int64(w[4]), int64(w[5]), int64(w[6]), int64(w[7])}
	return true
}

// checksum returns the checksum of a record's words and of its seat. The index takes the place of the checksum itself,
// so that only 64 bytes are hashed.
func checksum(w *words, pos seat) uint32 {
	var b [recordSize]byte
	binary.NativeEndian.PutUint64(b[0:], w[0]&^math.MaxUint32|uint64(pos.index))
	binary.NativeEndian.PutUint64(b[8:], w[1])
	binary.NativeEndian.PutUint64(b[16:], w[2])
	binary.NativeEndian.PutUint64(b[24:], w[3])
	binary.NativeEndian.PutUint64(b[32:], w[4])
	binary.NativeEndian.PutUint64(b[40:], w[5])
	binary.NativeEndian.PutUint64(b[48:], w[6])
	binary.NativeEndian.PutUint64(b[56:], w[7])
	return uint32((xxhash.Sum64(b[:]) ^ uint64(pos.id)) >> 32)
}

// encodeEntry returns a segment's entry in the table: its generation and a checksum.
func encodeEntry(id int64, slot int, generation uint32) uint64 {
	var b [24]byte
	binary.NativeEndian.PutUint64(b[0:], uint64(id))
	binary.NativeEndian.PutUint64(b[8:], uint64(slot))
	binary.NativeEndian.PutUint64(b[16:], uint64(generation))
	return uint64(generation)<<32 | uint64(uint32(xxhash.Sum64(b[:])))
}

// decodeEntry returns the generation in an entry, or 0 if the entry is invalid.
func decodeEntry(id int64, slot int, entry uint64) uint32 {
	generation := uint32(entry >> 32)
	if entry != encodeEntry(id, slot, generation) {
		return 0
	}
	return generation
}
