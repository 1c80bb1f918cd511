package identity

import "github.com/caddy-tally/caddy-tally/identity/internal/keyed"

// Namer gives keys the names that they have at rest. It may be used from any
// number of goroutines.
type Namer struct{ mac *keyed.MAC }

// NewNamer returns a namer under a key of 32 random bytes.
func NewNamer(key []byte) Namer { return Namer{keyed.New(key)} }

// Name returns the name at rest of a key within a scope: HMAC-SHA-256 over both,
// each with its length in front, truncated to 128 bits.
func (n Namer) Name(scope uint64, key string) [16]byte {
	sum := n.mac.Start().Number(scope).Text(key).Sum()
	return [16]byte(sum[:16])
}
