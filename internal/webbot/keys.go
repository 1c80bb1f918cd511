package webbot

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/caddy-tally/caddy-tally/internal/textfile"
)

// Keys is a file of public keys. It may be used from any number of goroutines, and need not be
// closed.
type Keys struct{ file *textfile.File[keySet] }

// keySet maps thumbprints (RFC 7638) to keys.
type keySet map[string]key

type key struct {
	public ed25519.PublicKey
	names  []string
}

// The bounds of a file.
const (
	maxKeys = 1000
	maxFile = 1 << 20 // bytes
)

// Open reads a file, which must exist. It is read again after it changes. Then changed is called,
// with an error if the previous keys stay in force.
func Open(path string, changed func(error)) (*Keys, error) {
	file, err := textfile.Open(textfile.Options[keySet]{
		Prefix: "keys", Path: path, MaxSize: maxFile, Required: true, Parse: parseKeys,
		Changed: func(_ *keySet, err error) { changed(err) },
	})
	return &Keys{file}, err
}

// Has reports whether a key in the file has a name.
func (k *Keys) Has(name string) bool {
	for _, key := range *k.file.Value() {
		if slices.Contains(key.names, name) {
			return true
		}
	}
	return false
}

// jwk is a JSON Web Key (RFC 7517, RFC 8037).
type jwk struct {
	Kty, Crv, X string
	Kid, Name   string
}

// expected ends errors about files.
const expected = `expected a JWK Set, such as {"keys": [{"kty": "OKP", "crv": "Ed25519", "x": "…"}]}`

// parseKeys reads a JWK Set, as bots publish it. It skips keys of other types.
func parseKeys(text []byte) (*keySet, error) {
	var file struct{ Keys []jwk }
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("%w: %s", err, expected)
	}
	if len(file.Keys) > maxKeys {
		return nil, fmt.Errorf("got %d keys: expected at most %d", len(file.Keys), maxKeys)
	}
	keys := make(keySet)
	for i, k := range file.Keys {
		if k.Kty != "OKP" || k.Crv != "Ed25519" {
			continue
		}
		if err := keys.add(k); err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("there are no Ed25519 keys: " + expected)
	}
	return &keys, nil
}

func (s keySet) add(k jwk) error {
	public, err := base64.RawURLEncoding.DecodeString(k.X)
	if err != nil || len(public) != ed25519.PublicKeySize {
		return fmt.Errorf("x: got %.60q: expected %d bytes in base64url, without padding", k.X, ed25519.PublicKeySize)
	}
	id := thumbprint(public)
	names := slices.DeleteFunc([]string{k.Kid, k.Name}, func(name string) bool { return name == "" })
	s[id] = key{public, append(s[id].names, names...)}
	return nil
}

// thumbprint returns the `keyid` of a key: its JWK thumbprint (RFC 7638, RFC 8037 section 2).
func thumbprint(public ed25519.PublicKey) string {
	sum := sha256.Sum256(fmt.Appendf(nil, `{"crv":"Ed25519","kty":"OKP","x":"%s"}`,
		base64.RawURLEncoding.EncodeToString(public)))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
