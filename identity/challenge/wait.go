package challenge

import (
	"encoding/binary"
	"errors"
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
// with the time at which it is ready in the field "expires".
func (s *Setter) SetWait(now time.Time, site string, network []byte, wait time.Duration) Wait {
	ready := time.Unix(now.Add(wait).Add(time.Second-1).Unix(), 0) // rounded up
	return Wait{s.seal(versionWait, ready, 0, site, network), int(math.Ceil(ready.Sub(now).Seconds()))}
}

// CheckWait checks a token that was made for a client of a network: it must be ready and not expired. It returns one of
// the errors of this package.
func (s *Setter) CheckWait(now time.Time, site string, network []byte, token string) (n Nonce, err error) {
	p, err := s.open(versionWait, token, site, network)
	switch ready := p.time(); {
	case err != nil:
		return n, err
	case now.Before(ready):
		return n, ErrEarly
	case !now.Before(ready.Add(waitLasts)):
		return n, ErrExpired
	}
	return Nonce(p[nonceAt:]), nil
}

// seal makes the text of a puzzle or a token with a new nonce.
func (s *Setter) seal(version byte, at time.Time, difficulty byte, site string, network []byte) string {
	var p sealed
	p[0] = version
	copy(p[keyAt:], s.ring[0].ID[:])
	binary.BigEndian.PutUint32(p[expiresAt:], uint32(at.Unix()))
	p[difficultyAt] = difficulty
	_, _ = io.ReadFull(s.random, p[nonceAt:macAt]) // never fails: see crypto/rand
	sum := p.sign(s.ring[0], site, network)
	copy(p[macAt:], sum[:])
	return encoding.EncodeToString(p[:])
}
