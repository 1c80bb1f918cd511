package dashboard

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
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

// seals has its keys for as long as this process lives: open pages survive a reload.
var seals = func() *sealer {
	var keys [2][sha256.Size]byte
	_, _ = rand.Read(keys[0][:]) // never fails
	_, _ = rand.Read(keys[1][:])
	block, err := aes.NewCipher(keys[0][:])
	if err != nil {
		panic(err) // unreachable: the key has 32 bytes
	}
	handles, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // unreachable: the cipher is AES
	}
	return &sealer{tokenKey: keys[1][:], handles: handles}
}()

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
	h := hmac.New(sha256.New, s.tokenKey)
	h.Write(salt)
	h.Write([]byte(user))
	return h.Sum(nil)
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
