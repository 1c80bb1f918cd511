package journal

import (
	"sync/atomic"
	"unsafe"
)

// mapping is a file's contents in memory. Every access may fault: see guard.
type mapping struct {
	segments, records uint32 // of each segment
	bytes             []byte // the whole mapping; Go doesn't manage its memory
	head              *[headerSize / 8]uint64
	places            []place // of all segments
}

// place is the memory of a record.
type place [recordSize / 8]uint64

func newMapping(bytes []byte, shape header) *mapping {
	// A mapping begins at the beginning of a page, so its words are aligned, as 64-bit atomics require on
	// 32-bit machines.
	m := &mapping{segments: shape.segments, records: shape.records, bytes: bytes}
	m.head = (*[headerSize / 8]uint64)(m.address())
	m.places = unsafe.Slice((*place)(unsafe.Add(m.address(), headerSize)), int(shape.segments)*int(shape.records))
	return m
}

// holds reports whether an address is in the mapping.
func (m *mapping) holds(address uintptr) bool {
	begin := uintptr(m.address())
	return address >= begin && address-begin < uintptr(len(m.bytes))
}

func (m *mapping) address() unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(m.bytes)) }

func (m *mapping) owner() *uint64 { return &m.head[ownerAt] }

func (m *mapping) loadHead() (w [headWords]uint64) {
	for i := range w {
		w[i] = atomic.LoadUint64(&m.head[i])
	}
	return w
}

func (m *mapping) storeHead(i int, word uint64) { atomic.StoreUint64(&m.head[i], word) }

func (m *mapping) loadEntry(slot int) uint64 { return atomic.LoadUint64(&m.head[tableAt+slot]) }

func (m *mapping) storeEntry(slot int, entry uint64) {
	atomic.StoreUint64(&m.head[tableAt+slot], entry)
}

func (m *mapping) segment(slot int) []place {
	n := int(m.records)
	return m.places[slot*n:][:n:n]
}
