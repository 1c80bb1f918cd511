package reference

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"encoding/binary"
	"errors"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/internal/keyed"
)

// Errors of [Sealer.Open].
var (
	ErrMalformed = errors.New("reference: expected 10 or 64 letters and digits")
	ErrForeign   = errors.New("reference: not sealed under a secret in use, or changed since")
)

// Sealer makes and opens references. It may be used from any number of goroutines.
type Sealer struct{ keys []key } // the first one seals

// key is the key of one secret.
type key struct {
	mac   *keyed.MAC
	block cipher.Block
}

// New returns a sealer under keys that are derived from a secret. Older secrets still open
// the references sealed under them.
func New(secret *identity.Secret) *Sealer {
	macs, ciphers := secret.Derive("references: authentication"), secret.Derive("references: encryption")
	s := &Sealer{keys: make([]key, len(macs))}
	for i := range s.keys {
		block, err := aes.NewCipher(ciphers[i])
		if err != nil {
			panic(err) // unreachable: the key has 32 bytes
		}
		s.keys[i] = key{mac: keyed.New(macs[i]), block: block}
	}
	return s
}

// Seal returns the reference of a refusal. Each call returns another one.
func (s *Sealer) Seal(r Refusal) string {
	var nonce [4]byte
	rand.Read(nonce[:]) // never fails: see crypto/rand
	var t token
	t.write(r, binary.BigEndian.Uint32(nonce[:]))
	iv := s.keys[0].ivOf(&t)
	copy(t[:], iv[:])
	s.keys[0].crypt(&t)
	return t.String()
}

// Open returns the refusal in a reference. The error is ErrMalformed or ErrForeign.
func (s *Sealer) Open(text string) (Refusal, error) {
	sealed, ok := parse(text)
	if !ok {
		return Refusal{}, ErrMalformed
	}
	for _, k := range s.keys {
		t := sealed
		k.crypt(&t)
		if iv := k.ivOf(&t); hmac.Equal(iv[:], t[:ivSize]) {
			return t.refusal(), nil
		}
	}
	return Refusal{}, ErrForeign
}

// ivOf returns the synthetic IV of a decrypted token.
func (k key) ivOf(t *token) [ivSize]byte {
	sum := k.mac.Start().Fixed(t[ivSize:]).Sum()
	return [ivSize]byte(sum[:ivSize])
}

// crypt encrypts or decrypts the fields of a token under its IV.
func (k key) crypt(t *token) {
	var iv [aes.BlockSize]byte // the rest of it counts blocks
	copy(iv[:], t[:ivSize])
	cipher.NewCTR(k.block, iv[:]).XORKeyStream(t[ivSize:], t[ivSize:])
}
