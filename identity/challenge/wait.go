package challenge

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// Bounds of how long a browser that can't solve puzzles waits instead.
const (
	MinWait = 5 * time.Second
	MaxWait = time.Minute
)

// waitLasts is how long a [Wait] can be handed in, from when it is ready.
const waitLasts = 2 * time.Minute

// ErrEarly is why a [Wait] is not accepted before its time is over.
var ErrEarly = errors.New("challenge: handed in before the time was over")

// Wait is a token that a browser hands in when a time is over, which the token has sealed in it.
type Wait struct {
	Token   string // PuzzleSize characters
	Seconds int    // until it is ready, rounded up
}

// SetWait makes a token for a client of a network, which is ready after a time to wait. It has
// the form of a puzzle of version 3, with the time when it is ready in the place of that when it
// expires. An error is one of the random source.
func (s *Setter) SetWait(now time.Time, site string, network []byte, wait time.Duration) (Wait, error) {
	ready := now.Add(wait).Add(time.Second - 1).Unix() // rounded up
	token, err := s.seal(versionWait, uint32(ready), 0, site, network)
	seconds := math.Ceil(time.Unix(ready, 0).Sub(now).Seconds())
	return Wait{token, int(seconds)}, err
}

// CheckWait returns a token that was made for a client of a network, is ready and has not
// expired, or why it isn't: one of the errors of this package. Each token is to be accepted once:
// keep the nonce until it expires.
func (s *Setter) CheckWait(now time.Time, site string, network []byte, token string) (Solved, error) {
	var p [puzzleSize]byte
	if !decode(&p, token, versionWait) {
		return Solved{}, ErrMalformed
	}
	if !s.signed(&p, site, network) {
		return Solved{}, ErrForeign
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
func (s *Setter) seal(version byte, at uint32, difficulty byte, site string, network []byte) (string, error) {
	var p [puzzleSize]byte
	p[0] = version
	copy(p[keyAt:], s.ring[0].ID[:])
	binary.BigEndian.PutUint32(p[expiresAt:], at)
	p[difficultyAt] = difficulty
	if _, err := io.ReadFull(s.o.Random, p[nonceAt:macAt]); err != nil {
		return "", fmt.Errorf("challenge: random nonce: %w", err)
	}
	sum := sign(s.ring[0], &p, site, network)
	copy(p[macAt:], sum[:])
	return encoding.EncodeToString(p[:]), nil
}
