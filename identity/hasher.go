package identity

import "github.com/caddy-tally/caddy-tally/identity/internal/keyed"

// Hasher hashes keys before they reach a disk. It may be used from any number of
// goroutines.
type Hasher struct{ mac *keyed.MAC }

// NewHasher returns a hasher under a key of 32 random bytes.
func NewHasher(key []byte) Hasher { return Hasher{keyed.New(key)} }

// Hash returns the hash of a key within a scope: HMAC-SHA-256 over the scope and the length-prefixed key,
// truncated to 128 bits.
func (h Hasher) Hash(scope uint64, key string) [16]byte {
	sum := h.mac.Start().Number(scope).Text(key).Sum()
	return [16]byte(sum[:16])
}
