package identity

import (
	"bytes"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/caddy-tally/caddy-tally/identity/internal/keyfile"
	"github.com/caddy-tally/caddy-tally/internal/textfile"
)

// MinSecret is the minimum length of a line of a secret file in characters, and MaxSecrets the maximum number of
// lines.
const (
	MinSecret  = 32
	MaxSecrets = 16
)

// maxSecretFile bounds the part of a secret file that is read.
const maxSecretFile = 64 << 10

// Secret is the source of all keys of a process, including those for names. It may be used from any number of
// goroutines.
type Secret struct {
	Hasher          // under the first text
	keys   [][]byte // of hashers, in the order of texts
	texts  [][]byte // the first one is in use
}

// NewSecret returns the secret of a text, which should have at least 128 bits of entropy. The same text gives the same
// secret everywhere. Older texts only verify older signatures.
func NewSecret(text []byte, older ...[]byte) (*Secret, error) {
	s := &Secret{texts: append([][]byte{text}, older...)}
	if len(s.texts) > MaxSecrets {
		return nil, fmt.Errorf("identity: got %d secrets, expected at most %d", len(s.texts), MaxSecrets)
	}
	for i, text := range s.texts {
		if len(text) < MinSecret {
			return nil, fmt.Errorf("identity: secret number %d has %d characters, expected at least %d", i+1,
				len(text), MinSecret)
		}
		s.texts[i] = bytes.Clone(text)
	}
	s.keys = s.Derive("keys at rest")
	s.Hasher = NewHasher(s.keys[0])
	return s, nil
}

// Keys returns the keys of hashers, one derived from each text. The first is that of the secret's own.
// They must not be changed.
func (s *Secret) Keys() [][]byte { return slices.Clone(s.keys) }

// Equal reports whether two secrets have the same texts in the same order.
func (s *Secret) Equal(other *Secret) bool {
	return slices.EqualFunc(s.texts, other.texts, bytes.Equal)
}

// Derive returns a key of 32 bytes from each text, for one purpose. Keys for different purposes reveal nothing about
// each other. The first key is in use; the others only verify.
func (s *Secret) Derive(purpose string) [][]byte {
	keys := make([][]byte, len(s.texts))
	for i, text := range s.texts {
		key, err := hkdf.Key(sha256.New, text, nil, "caddy-tally: "+purpose, sha256.Size)
		if err != nil {
			panic(err) // unreachable: the text is long enough, and the key is short
		}
		keys[i] = key
	}
	return keys
}

// RandomSecret returns a new random secret without a file.
func RandomSecret() *Secret {
	s, err := NewSecret(randomText())
	if err != nil {
		panic(err) // unreachable: the text is long enough
	}
	return s
}

// OpenSecret reads the secrets in the lines of a file; the first is in use. If the file doesn't exist, it creates the
// file, with 64 random hexadecimal digits and mode 0600, and its folder. Several processes that do so at once get the
// same secret. Empty lines after the first are skipped.
func OpenSecret(path string) (*Secret, error) {
	secret, err := ReadSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := keyfile.Make(path, randomText()); err != nil {
			return nil, fmt.Errorf("identity: secret file: %w", err)
		}
		return ReadSecret(path)
	}
	return secret, err
}

// ReadSecret is [OpenSecret] for a file that must exist.
func ReadSecret(path string) (*Secret, error) {
	text, _, err := textfile.Read(path, maxSecretFile)
	if err != nil {
		return nil, fmt.Errorf("identity: secret file: %w", err)
	}
	lines := secretLines(text)
	secret, err := NewSecret(lines[0], lines[1:]...)
	if err != nil {
		return nil, fmt.Errorf("%w in %q; each line is a secret, and Caddy makes the file if there is none", err, path)
	}
	return secret, nil
}

// Keep writes the file of a secret again if it was removed.
func (s *Secret) Keep(path string) error {
	if err := keyfile.Keep(path, append(bytes.Join(s.texts, []byte{'\n'}), '\n')); err != nil {
		return fmt.Errorf("identity: secret file: %w", err)
	}
	return nil
}

// secretLines returns the first line, and later lines that are not empty.
func secretLines(text []byte) [][]byte {
	first, rest, _ := bytes.Cut(text, []byte{'\n'})
	lines := [][]byte{bytes.TrimSpace(first)}
	for line := range bytes.Lines(rest) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines = append(lines, line)
		}
	}
	return lines
}

// randomText returns the content of a new secret file.
func randomText() []byte {
	var random [sha256.Size]byte
	rand.Read(random[:]) // never fails: see crypto/rand
	return append(hex.AppendEncode(nil, random[:]), '\n')
}
