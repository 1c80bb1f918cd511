package tally

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/identity/challenge"
	"github.com/caddy-tally/caddy-tally/identity/session"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// Session says how clients are known again that have passed a challenge: by a
// signed cookie, which gives each of them limits of its own in zones that count
// per `client`, whoever else is in its network. The cookie is called `__Host-rl`,
// or `rl` over plain HTTP. It is taken out of requests before other handlers and
// upstreams see them.
type Session struct {
	// How long a session lasts that is not used, from 1m to 400 days. One that is
	// used in the network that it was issued to is renewed after half of this time.
	// Default: 7 days.
	Lifetime caddy.Duration `json:"lifetime,omitempty"`

	// How many sessions are issued to one network per hour, from 1 to 100000.
	// Default: 20.
	MaxPerPrefix int `json:"max_sessions_per_prefix,omitempty"`

	// How many sessions of one network are valid at a time, from 1 to 1000000. One that
	// is in use all the time counts twice: when it is issued, or issued anew, it counts
	// for a lifetime. Beyond that none is issued, and those that end aren't issued anew.
	// Default: ten times `max_sessions_per_prefix`.
	MaxLivePerPrefix int `json:"max_live_sessions_per_prefix,omitempty"`

	// What earns a session. Default: a puzzle that the browser solves.
	Challenge *Challenge `json:"challenge,omitempty"`

	// The path where handlers serve the challenge, before they look at zones. It
	// begins and ends with a slash. Default: `/.well-known/rate-limit/`.
	Path string `json:"path,omitempty"`

	run *enforce.Sessions
}

const (
	defaultSessionPath = "/.well-known/rate-limit/"
	defaultPerPrefix   = 20
	maxPerPrefix       = 100_000
	liveFactor         = 10 // hours' worth of sessions that a network has by default
	maxLivePerPrefix   = liveFactor * maxPerPrefix
)

// provision checks the option.
func (s *Session) provision() error {
	if err := s.check(); err != nil {
		return err
	}
	s.Path = cmp.Or(s.Path, defaultSessionPath)
	hourly := cmp.Or(s.MaxPerPrefix, defaultPerPrefix)
	lifetime := cmp.Or(time.Duration(s.Lifetime), session.DefaultLifetime)
	s.run = &enforce.Sessions{Path: s.Path, Lifetime: time.Duration(s.Lifetime), Difficulty: s.Challenge.difficulty(), WithoutScript: s.Challenge.withoutScript()}
	s.run.Limits = enforce.NewSessionLimits(int64(hourly), int64(cmp.Or(s.MaxLivePerPrefix, liveFactor*hourly)), lifetime)
	if s.Challenge == nil {
		return nil
	}
	var err error
	if s.run.Verifier, err = s.Challenge.provision(); err != nil {
		return fmt.Errorf("challenge: %w", err)
	}
	return nil
}

// check returns an error about the first setting that is out of its range.
func (s *Session) check() error {
	lifetime := cmp.Or(time.Duration(s.Lifetime), session.DefaultLifetime)
	if lifetime < session.MinLifetime || lifetime > session.MaxLifetime {
		return fmt.Errorf("lifetime: must be between %v and 400d, got %v", wording.Duration(session.MinLifetime), lifetime)
	}
	if s.MaxPerPrefix < 0 || s.MaxPerPrefix > maxPerPrefix {
		return fmt.Errorf("max_sessions_per_prefix: must be between 1 and %d, got %d", maxPerPrefix, s.MaxPerPrefix)
	}
	if s.MaxLivePerPrefix < 0 || s.MaxLivePerPrefix > maxLivePerPrefix {
		return fmt.Errorf("max_live_sessions_per_prefix: must be between 1 and %d, got %d", maxLivePerPrefix, s.MaxLivePerPrefix)
	}
	path := cmp.Or(s.Path, defaultSessionPath)
	if path == "/" || !strings.HasSuffix(path, "/") || strings.ContainsAny(path, "?%") || challenge.Target(path) != path {
		return fmt.Errorf("path: must begin and end with a slash and lie below the root, such as %s, got %q", defaultSessionPath, path)
	}
	return nil
}
