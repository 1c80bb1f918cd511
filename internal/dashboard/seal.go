package dashboard

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// sealer makes the tokens of forms, and the handles that name a row's client without showing it.
// Both are valid for one user only.
type sealer struct {
	tokenKey []byte
	handles  cipher.AEAD
}

func newSealer(key []byte) (*sealer, error) {
	if len(key) != KeySize {
		return nil, fmt.Errorf("dashboard: expected a key of %d bytes, got %d", KeySize, len(key))
	}
	block, err := aes.NewCipher(mac(key, "handles"))
	if err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	handles, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("dashboard: %w", err)
	}
	return &sealer{tokenKey: mac(key, "tokens"), handles: handles}, nil
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

// saltSize is the length of a token's random prefix, which differs on each page. It makes the size
// of a compressed page independent of the token (BREACH).
const saltSize = 16

// token returns the token for a user's forms.
func (s *sealer) token(user string) string {
	salt := make([]byte, saltSize, saltSize+sha256.Size)
	_, _ = rand.Read(salt) // never fails
	return base64.RawURLEncoding.EncodeToString(append(salt, s.sign(salt, user)...))
}

func (s *sealer) sign(salt []byte, user string) []byte {
	return mac(s.tokenKey, string(salt)+user)
}

// verify reports whether a token is the user's. Its time doesn't depend on the content.
func (s *sealer) verify(user, token string) bool {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	return err == nil && len(raw) > saltSize && hmac.Equal(raw[saltSize:], s.sign(raw[:saltSize], user))
}

// handleStep is what the length of a sealed client is a multiple of: the lengths of addresses would tell their digits.
const handleStep = 64

// seal returns a handle of a client for a user; "" for "".
func (s *sealer) seal(user, client string) string {
	if client == "" {
		return ""
	}
	padded := append([]byte(client), 1) // after which there are only zeros
	padded = append(padded, make([]byte, (handleStep-len(padded)%handleStep)%handleStep)...)
	// #nosec G407 -- it takes a random nonce by itself
	return base64.RawURLEncoding.EncodeToString(s.handles.Seal(nil, nil, padded, []byte(user)))
}

// open returns the client of a handle.
func (s *sealer) open(user, handle string) (client string, err error) {
	sealed, err := base64.RawURLEncoding.DecodeString(handle)
	if err == nil {
		sealed, err = s.handles.Open(nil, nil, sealed, []byte(user))
	}
	if err != nil {
		return "", operator.Errorf(http.StatusBadRequest,
			"This page is out of date. Go back, reload it, and try it again.")
	}
	return strings.TrimSuffix(strings.TrimRight(string(sealed), "\x00"), "\x01"), nil
}
