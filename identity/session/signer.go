package session

import (
	"cmp"
	"crypto/rand"
	"errors"
	"io"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/identity/internal/keyed"
)

// The lifetimes of sessions that aren't renewed. Browsers keep no cookie longer than 400 days.
const (
	DefaultLifetime = 7 * 24 * time.Hour
	MinLifetime     = time.Minute
	MaxLifetime     = 400 * 24 * time.Hour
)

// Skew is the permitted difference between the clocks of machines with one secret: a token is valid from this long
// before it was issued.
const Skew = time.Minute

// Errors of [Signer.Verify]. Only ErrForged is a sign of an attack: secrets change, and cookies are kept.
var (
	ErrMalformed = errors.New("session: not a token of this version")
	ErrForeign   = errors.New("session: not signed by a key in use")
	ErrForged    = errors.New("session: signed by a key in use, but not this token, or not for this site and cookie")
	ErrExpired   = errors.New("session: expired")
	ErrFuture    = errors.New("session: issued in the future")
)

// Audience is where a token is valid. A token for another audience is refused.
type Audience struct {
	Site   string // see [Site]
	Cookie string // the name of the cookie
}

// Session identifies a returning client.
type Session struct {
	ID      [IDSize]byte // the key of its counts; not for logs
	Expires time.Time

	// Elsewhere reports whether the session is used from another network than it was issued to: the person
	// moves around, or the cookie was stolen.
	Elsewhere bool

	// Renewable reports whether the session should be renewed with Renew: half of its lifetime is over, or
	// its key is an older one. It is never renewable elsewhere, so a stolen session ends.
	Renewable bool
}

// Signer issues and verifies sessions. It may be used from any number of
// goroutines.
type Signer struct {
	ring     keyed.Ring
	lifetime time.Duration
	random   io.Reader
}

// New returns a signer under keys that are derived from a secret. The lifetime is at least MinLifetime and at most
// MaxLifetime; 0 is DefaultLifetime. A shorter one also applies to tokens issued before.
func New(secret *identity.Secret, lifetime time.Duration) *Signer {
	return &Signer{
		ring: keyed.NewRing(secret.Derive("sessions")), lifetime: cmp.Or(lifetime, DefaultLifetime), random: rand.Reader,
	}
}

// Issue makes a session for a client of a network and returns it with its token. The network has the form of
// [identity.AppendPrefix], and is empty if there is none.
func (s *Signer) Issue(now time.Time, a Audience, network []byte) (Session, string) {
	var id [IDSize]byte
	_, _ = io.ReadFull(s.random, id[:]) // never fails: see crypto/rand
	return s.Renew(now, a, network, id)
}

// Renew issues a session again to a client of a network. The ID stays the same, and so does the usage.
func (s *Signer) Renew(now time.Time, a Audience, network []byte, id [IDSize]byte) (Session, string) {
	var t token
	origin := originOf(s.ring[0], id, network)
	copy(t[idAt:], id[:])
	copy(t[originAt:], origin[:])
	t.setTimes(now.Unix(), now.Add(s.lifetime).Unix())
	t.sign(s.ring[0], a)
	return Session{ID: id, Expires: time.Unix(t.expires(), 0)}, t.String()
}

// Verify returns the session of a token, or one of the errors of this package.
func (s *Signer) Verify(now time.Time, a Audience, network []byte, value string) (Session, error) {
	t, ok := parse(value)
	if !ok {
		return Session{}, ErrMalformed
	}
	nth, err := s.signer(&t, a)
	if err != nil {
		return Session{}, err
	}
	issued := time.Unix(t.issued(), 0)
	expires := time.Unix(min(t.expires(), issued.Add(s.lifetime).Unix()), 0)
	switch {
	case issued.After(now.Add(Skew)):
		return Session{}, ErrFuture
	case !now.Before(expires):
		return Session{}, ErrExpired
	}
	session := Session{ID: t.id(), Expires: expires}
	session.Elsewhere = t.origin() != originOf(s.ring[nth], session.ID, network)
	session.Renewable = !session.Elsewhere && (nth > 0 || expires.Sub(now) <= s.lifetime/2)
	return session, nil
}

// signer returns the index of the key that made a token, or an error.
func (s *Signer) signer(t *token, a Audience) (nth int, err error) {
	err = ErrForeign
	for i, key := range s.ring {
		if key.ID != t.key() {
			continue
		}
		if t.signedBy(key, a) {
			return i, nil
		}
		err = ErrForged
	}
	return -1, err
}
