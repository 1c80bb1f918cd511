package keyed

// IDSize is the length of a key's id in bytes.
const IDSize = 4

// Key is a key with the ID in its tokens.
type Key struct {
	ID [IDSize]byte
	*MAC
}

// Ring is a list of rotating keys. The first makes tokens; all of them verify.
type Ring []Key

// NewRing returns a ring of at least one key. A key's ID depends only on the key, so it doesn't change when
// another key becomes the first.
func NewRing(keys [][]byte) Ring {
	ring := make(Ring, len(keys))
	for i, key := range keys {
		mac := New(key)
		sum := mac.Start().Text("id").Sum()
		ring[i] = Key{ID: [IDSize]byte(sum[:IDSize]), MAC: mac}
	}
	return ring
}
