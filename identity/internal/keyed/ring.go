package keyed

// IDSize is the length of a key's id in bytes.
const IDSize = 4

// Key is a key with the id that tokens made under it bear.
type Key struct {
	ID [IDSize]byte
	*MAC
}

// Ring is the keys that rotate: the first makes tokens, all of them verify.
type Ring []Key

// NewRing returns the ring of keys, of which there must be one. A key's id
// depends on the key alone, so it stays when another is put in front of it.
func NewRing(keys [][]byte) Ring {
	ring := make(Ring, len(keys))
	for i, key := range keys {
		mac := New(key)
		sum := mac.Start().Text("id").Sum()
		ring[i] = Key{ID: [IDSize]byte(sum[:IDSize]), MAC: mac}
	}
	return ring
}
