package journal

import (
	"sync/atomic"
	"unsafe"
)

// mapping is a file's contents in memory. Every access may fault: see guard.
type mapping struct {
	segments, records uint32
	bytes             []byte   // the whole of it; its memory is not Go's
	words             []uint64 // the same
}

func newMapping(bytes []byte, shape header) *mapping {
	// A mapping begins at a page's beginning, so its words are aligned, as 64-bit atomics
	// need it on 32-bit machines.
	words := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(bytes))), len(bytes)/8)
	return &mapping{segments: shape.segments, records: shape.records, bytes: bytes, words: words}
}

// holds reports whether an address is in the mapping.
func (m *mapping) holds(address uintptr) bool {
	begin := uintptr(m.address())
	return address >= begin && address-begin < uintptr(len(m.bytes))
}

func (m *mapping) address() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(m.bytes)) }

func (m *mapping) owner() *uint64 { return &m.words[ownerAt] }

func (m *mapping) loadHead() (w [headWords]uint64) {
	for i := range w {
		w[i] = atomic.LoadUint64(&m.words[i])
	}
	return w
}

func (m *mapping) storeHead(i int, word uint64) { atomic.StoreUint64(&m.words[i], word) }

func (m *mapping) loadEntry(slot int) uint64 { return atomic.LoadUint64(&m.words[tableAt+slot]) }

func (m *mapping) storeEntry(slot int, entry uint64) {
	atomic.StoreUint64(&m.words[tableAt+slot], entry)
}

// segment returns the words of the records of a segment.
func (m *mapping) segment(slot int) []uint64 {
	n := int(m.records) * recordWords
	return m.words[headerSize/8+slot*n:][:n:n]
}
