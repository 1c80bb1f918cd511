package table

import (
	"math"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/caddy-tally/caddy-tally/storage"
)

// Entry is the beginning of what memory holds of a key; the rest is the owner's, as its [Kind] says. Its lock
// guards the rest.
//
// There are very many entries, and most are not in the processor's caches. So they are small, and have no
// pointers: the garbage collector doesn't read them. What few keys need has a number, which the owner sets.
//
// An entry may move to other memory. The old one is then dead, and says that it was moved. Everybody who keeps
// an entry that isn't locked takes this into account.
type Entry struct {
	ID     storage.LimitID // of the limit of the key
	hash   uint32
	unused atomic.Uint32 // how many sweeps found that no request used it since the previous sweep
	sync.Mutex
	number atomic.Uint32 // of what few keys need, or 0; or evicted or moved. Written under the lock
	text   uint32        // the size of the key's text in bytes, and the number of the kind in the last kindBits
}

const (
	kindBits = 2
	// evicted and moved are the numbers of dead entries.
	evicted = math.MaxUint32 - 1
	moved   = math.MaxUint32
)

// Kind says what follows an entry in memory.
type Kind struct {
	// Text is where the text of the key begins, in bytes from the beginning of the entry.
	Text uintptr
	// New allocates an entry with pointers, which is never moved. At Text it has the text as a slice. Nil means
	// that there are no pointers.
	New func(text []byte) *Entry
}

// Kind returns the number of the kind.
func (e *Entry) Kind() uint8 { return uint8(e.text & (1<<kindBits - 1)) }

// Dead reports whether a locked entry was removed or moved.
func (e *Entry) Dead() bool { return e.number.Load() >= evicted }

// Moved reports whether an entry is dead because it was moved.
func (e *Entry) Moved() bool { return e.number.Load() == moved }

// Number returns the entry's number, or 0 if it has none.
func (e *Entry) Number() uint32 {
	if number := e.number.Load(); number < evicted {
		return number
	}
	return 0
}

// SetNumber changes the number of a locked entry. A dead one has none, and stays dead.
func (e *Entry) SetNumber(number uint32) {
	if !e.Dead() {
		e.number.Store(number)
	}
}

// Touch marks the entry as in use.
func (e *Entry) Touch() {
	if e.unused.Load() != 0 {
		e.unused.Store(0)
	}
}

// Text returns the text of the key. Callers must not change it.
func (t *Table) Text(e *Entry) []byte {
	k := &t.kinds[e.Kind()]
	at := unsafe.Add(unsafe.Pointer(e), k.Text)
	if k.New != nil {
		return *(*[]byte)(at)
	}
	return unsafe.Slice((*byte)(at), e.text>>kindBits)
}

// IsSame reports whether two entries are those of one key.
func (t *Table) IsSame(e, other *Entry) bool {
	return e == other || t.is(e, other.ID, t.Text(other), other.hash)
}

// is reports whether the entry is that of a key with a hash.
func (t *Table) is(e *Entry, id storage.LimitID, key []byte, hash uint32) bool {
	return e.hash == hash && e.ID == id && string(t.Text(e)) == string(key)
}

// size returns the size of an entry with the text of a key, unless its kind has pointers. It is a multiple of 8.
func (t *Table) size(kind uint8, text int) uintptr {
	return (t.kinds[kind].Text + uintptr(text) + 7) &^ 7
}

// sizeOf is the size of an entry.
func (t *Table) sizeOf(e *Entry) uintptr { return t.size(e.Kind(), int(e.text>>kindBits)) }

// endLocked makes a locked entry dead.
func (t *Table) endLocked(e *Entry, as uint32) {
	if number := e.number.Swap(as); number != 0 {
		t.owner.Drop(number)
	}
}
