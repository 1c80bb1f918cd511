package identity

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
)

// Sealer seals values that are stored where others can read them. It may be used from any number of
// goroutines.
type Sealer struct{ ciphers []cipher.AEAD } // the first one seals

// Sealer returns a sealer of values for one purpose.
func (s *Secret) Sealer(purpose string) (*Sealer, error) {
	keys, err := s.Derive(purpose)
	if err != nil {
		return nil, err
	}
	sealer := new(Sealer)
	for _, key := range keys {
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, err
		}
		sealed, err := cipher.NewGCM(block)
		if err != nil {
			return nil, err
		}
		sealer.ciphers = append(sealer.ciphers, sealed)
	}
	return sealer, nil
}

// Seal seals a value under the first line of the secret, and binds it to a name.
func (s *Sealer) Seal(name string, value []byte) []byte {
	c := s.ciphers[0]
	nonce := make([]byte, c.NonceSize(), c.NonceSize()+len(value)+c.Overhead())
	rand.Read(nonce) // never fails: see crypto/rand
	return c.Seal(nonce, nonce, value, []byte(name))
}

// Open opens a value that is sealed under any line of the secret. inUse reports whether it is the first line,
// and ok is false if no line opens it.
func (s *Sealer) Open(name string, sealed []byte) (value []byte, inUse, ok bool) {
	for i, c := range s.ciphers {
		if len(sealed) < c.NonceSize() {
			break
		}
		if value, err := c.Open(nil, sealed[:c.NonceSize()], sealed[c.NonceSize():], []byte(name)); err == nil {
			return value, i == 0, true
		}
	}
	return nil, false, false
}
