package challenge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// Bounds of the time that a browser waits if it can't solve puzzles.
const (
	MinWait = 5 * time.Second
	MaxWait = time.Minute
)

// waitLasts is how long a [Wait] can be submitted after it is ready.
const waitLasts = 2 * time.Minute

// ErrEarly says that a [Wait] was submitted before it was ready.
var ErrEarly = errors.New("challenge: submitted before the time was over")

// Wait is a token that a browser submits after a time, which is sealed in the token.
type Wait struct {
	Token   string // PuzzleSize characters
	Seconds int    // until it is ready, rounded up
}

// SetWait makes a token for a client of a network, which is ready after wait. It has the form of a puzzle of version 3,
// with the time at which it is ready in the field "expires". It returns errors of the random source.
func (s *Setter) SetWait(now time.Time, site string, network []byte, wait time.Duration) (Wait, error) {
	ready := now.Add(wait).Add(time.Second - 1).Unix() // rounded up
	token, err := s.seal(versionWait, uint32(ready), 0, site, network)
	seconds := math.Ceil(time.Unix(ready, 0).Sub(now).Seconds())
	return Wait{token, int(seconds)}, err
}

// CheckWait checks a token that was made for a client of a network: it must be ready and not expired. It returns one of
// the errors of this package. Accept each token only once: keep the nonce until it expires.
func (s *Setter) CheckWait(now time.Time, site string, network []byte, token string) (Solved, error) {
	p, err := s.open(versionWait, token, site, network)
	if err != nil {
		return Solved{}, err
	}
	ready := time.Unix(int64(binary.BigEndian.Uint32(p[expiresAt:])), 0)
	expires := ready.Add(waitLasts)
	switch {
	case now.Before(ready):
		return Solved{}, ErrEarly
	case !now.Before(expires):
		return Solved{}, ErrExpired
	}
	return Solved{[NonceSize]byte(p[nonceAt:]), expires}, nil
}

// seal makes the text of a puzzle or a token with a new nonce.
func (s *Setter) seal(version byte, expires uint32, difficulty byte, site string, network []byte) (string, error) {
	var p [puzzleSize]byte
	p[0] = version
	copy(p[keyAt:], s.ring[0].ID[:])
	binary.BigEndian.PutUint32(p[expiresAt:], expires)
	p[difficultyAt] = difficulty
	if _, err := io.ReadFull(s.o.Random, p[nonceAt:macAt]); err != nil {
		return "", fmt.Errorf("challenge: random nonce: %w", err)
	}
	sum := sign(s.ring[0], &p, site, network)
	copy(p[macAt:], sum[:])
	return encoding.EncodeToString(p[:]), nil
}
