package identity

import (
	"crypto/aes"
	"crypto/cipher"
)

// Sealer seals values that are stored where others can read them. It may be used from any number of
// goroutines.
type Sealer struct{ ciphers []cipher.AEAD } // the first one seals

// Sealer returns a sealer of values for one purpose.
func (s *Secret) Sealer(purpose string) *Sealer {
	sealer := new(Sealer)
	for _, key := range s.Derive(purpose) {
		block, err := aes.NewCipher(key)
		if err != nil {
			panic(err) // unreachable: the key has 32 bytes
		}
		sealed, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			panic(err) // unreachable: the cipher is AES
		}
		sealer.ciphers = append(sealer.ciphers, sealed)
	}
	return sealer
}

// Seal seals a value under the first line of the secret, and binds it to a name.
func (s *Sealer) Seal(name string, value []byte) []byte {
	return s.ciphers[0].Seal(nil, nil, value, []byte(name)) // #nosec G407 -- it takes a random nonce by itself
}

// Open opens a value that is sealed under any line of the secret. inUse reports whether it is the first line,
// and ok is false if no line opens it.
func (s *Sealer) Open(name string, sealed []byte) (value []byte, inUse, ok bool) {
	for i, c := range s.ciphers {
		if value, err := c.Open(nil, nil, sealed, []byte(name)); err == nil {
			return value, i == 0, true
		}
	}
	return nil, false, false
}
