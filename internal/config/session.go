package config

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/identity/challenge"
	"github.com/caddy-tally/caddy-tally/identity/session"
	"github.com/caddy-tally/caddy-tally/identity/siteverify"
	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/wording"

	"github.com/caddy-tally/caddy-tally/internal/grammar"
)

// Session configures sessions, which identify clients that have passed a challenge. A session is a
// signed cookie. In zones that count per `client`, it gives each client limits of its own,
// independent of other clients in its network. The cookie is called `__Host-rl`, or `rl` over plain
// HTTP. It is removed from requests before other handlers and upstreams see them.
type Session struct {
	// How long an unused session lasts, from 1m to 400 days. A session that is used in its own
	// network is renewed after half of this time. Default: 7 days.
	Lifetime caddy.Duration `json:"lifetime,omitempty"`

	// The number of sessions issued to one network per hour, from 1 to 100000. Default: 20. A
	// network has at most ten times as many valid sessions: beyond that none is issued or renewed.
	// A session counts for a lifetime when it is issued or renewed, so one in constant use counts
	// twice.
	MaxPerPrefix int `json:"max_sessions_per_prefix,omitempty"`

	// The challenge that earns a session. Default: a puzzle that the browser solves.
	Challenge *Challenge `json:"challenge,omitempty"`

	// The path where handlers serve the challenge, before they evaluate zones. It begins and ends
	// with a slash. Default: `/.well-known/rate-limit/`.
	Path string `json:"path,omitempty"`
}

const (
	DefaultSessionPath = "/.well-known/rate-limit/"
	defaultPerPrefix   = 20
	maxPerPrefix       = 100_000
	liveFactor         = 10 // the most valid sessions of a network, in hours of issuing
)

// compile checks the option and compiles it.
func (s *Session) compile() (*enforce.Sessions, error) {
	if err := s.check(); err != nil {
		return nil, err
	}
	hourly := cmp.Or(s.MaxPerPrefix, defaultPerPrefix)
	lifetime := cmp.Or(time.Duration(s.Lifetime), session.DefaultLifetime)
	run := &enforce.Sessions{Path: cmp.Or(s.Path, DefaultSessionPath), Lifetime: time.Duration(s.Lifetime)}
	run.Limits = enforce.NewSessionLimits(int64(hourly), int64(liveFactor*hourly), lifetime)
	if s.Challenge == nil {
		return run, nil
	}
	run.Difficulty, run.WithoutScript = s.Challenge.Difficulty, time.Duration(s.Challenge.WithoutScript)
	var err error
	if run.Verifier, err = s.Challenge.verifier(); err != nil {
		return nil, fmt.Errorf("challenge: %w", err)
	}
	return run, nil
}

// check returns an error about the first setting that is out of range.
func (s *Session) check() error {
	lifetime := cmp.Or(time.Duration(s.Lifetime), session.DefaultLifetime)
	if lifetime < session.MinLifetime || lifetime > session.MaxLifetime {
		return fmt.Errorf("lifetime: must be between %v and 400d, got %v",
			wording.Duration(session.MinLifetime), lifetime)
	}
	if s.MaxPerPrefix < 0 || s.MaxPerPrefix > maxPerPrefix {
		return fmt.Errorf("max_sessions_per_prefix: must be between 1 and %d, got %d", maxPerPrefix, s.MaxPerPrefix)
	}
	path := cmp.Or(s.Path, DefaultSessionPath)
	if path == "/" || !strings.HasSuffix(path, "/") || strings.ContainsAny(path, "?%") ||
		challenge.Target(path) != path {
		return fmt.Errorf("path: must begin and end with a slash and lie below the root, such as %s, got %q",
			DefaultSessionPath, path)
	}
	return nil
}

// Challenge configures the challenge for a session.
type Challenge struct {
	// The kind:
	//
	// - `proof_of_work` (default): a puzzle that the browser solves by itself
	// - `turnstile`, `hcaptcha`, `recaptcha`: a widget of this service. The service sees the
	//   visitors of the site's challenge, and must be reachable.
	Type string `json:"type,omitempty"`

	// The difficulty of a puzzle in bits, from 1 to 28; one more takes twice as long. Default: 22,
	// which takes a computer about a second and a phone two or three.
	Difficulty int `json:"difficulty,omitempty"`

	// How long a browser without JavaScript waits for a session, from 5s to 1m; then the page
	// continues on its own. A tenth of the sessions of a network, at least one, can be earned by
	// waiting. Default: none, and the page asks the user to enable JavaScript.
	WithoutScript caddy.Duration `json:"without_script,omitempty"`

	// The site's public key at the service, for its widget.
	SiteKey string `json:"site_key,omitempty"`

	// The site's secret at the service. Placeholders such as `{env.SECRET}` and
	// `{file./run/secrets/turnstile}` are replaced when the config is loaded; an unset one is an
	// error.
	Secret string `json:"secret,omitempty"`
}

// proofOfWork is the kind of challenge that needs no service.
const proofOfWork = "proof_of_work"

// verifier checks the option and returns the verifier of a service's tokens.
func (c *Challenge) verifier() (*siteverify.Client, error) {
	if wait := time.Duration(c.WithoutScript); wait != 0 && (wait < challenge.MinWait || wait > challenge.MaxWait) {
		return nil, fmt.Errorf("without_script: must be between %v and %v, got %v", wording.Duration(challenge.MinWait),
			wording.Duration(challenge.MaxWait), wait)
	}
	if c.Type == "" || c.Type == proofOfWork {
		return nil, c.checkPuzzle()
	}
	if c.Difficulty != 0 {
		return nil, fmt.Errorf("difficulty belongs to proof_of_work, not to %s", c.Type)
	}
	service, err := siteverify.ByName(c.Type)
	if err != nil {
		return nil, fmt.Errorf("must be proof_of_work, turnstile, hcaptcha or recaptcha, got %q", c.Type)
	}
	secret, err := caddy.NewReplacer().ReplaceOrErr(c.Secret, true, true)
	if err != nil {
		return nil, fmt.Errorf("the secret is not set: %w", err)
	}
	return siteverify.New(siteverify.Options{
		Service: service, SiteKey: c.SiteKey, Secret: strings.TrimSpace(secret), Action: enforce.WidgetAction,
	})
}

func (c *Challenge) checkPuzzle() error {
	switch {
	case c.SiteKey != "" || c.Secret != "":
		return errors.New("site_key and secret belong to turnstile, hcaptcha and recaptcha")
	case c.Difficulty != 0 && (c.Difficulty < challenge.MinDifficulty || c.Difficulty > challenge.MaxDifficulty):
		return fmt.Errorf("difficulty: must be between %d and %d, got %d", challenge.MinDifficulty,
			challenge.MaxDifficulty, c.Difficulty)
	}
	return nil
}

// bits returns the function for the difficulty of the puzzle.
func bits(field *int) func(string) error {
	return func(word string) error {
		n, err := caddyconf.ParseCount(word)
		if err != nil || n < 1 || n > challenge.MaxDifficulty {
			return fmt.Errorf("the difficulty must be a number of bits from 1 to %d, got %q",
				challenge.MaxDifficulty, word)
		}
		*field = int(n)
		return nil
	}
}

// block is the syntax of `session`.
func (s *Session) block() grammar.Block {
	return grammar.Block{Check: s.check, Rules: func() grammar.Rules {
		c := &Challenge{Type: proofOfWork}
		kind := func(line grammar.Rule) grammar.Rule {
			return line.Then(func() error { s.Challenge = c; return nil })
		}
		withoutScript := func() grammar.Rule { return grammar.Line("without_script <duration>", &c.WithoutScript) }
		return grammar.Rules{
			grammar.Line("lifetime <duration>", &s.Lifetime),
			grammar.Line("max_sessions_per_prefix <n>", &s.MaxPerPrefix),
			grammar.Line("path <path>", &s.Path),
			kind(grammar.Line("challenge proof_of_work [<difficulty>]", bits(&c.Difficulty))).With(grammar.Block{Rules: func() grammar.Rules {
				return grammar.Rules{withoutScript()}
			}}),
			kind(grammar.Line("challenge turnstile|hcaptcha|recaptcha", &c.Type)).With(grammar.Block{Rules: func() grammar.Rules {
				return grammar.Rules{grammar.Line("site_key <key>", &c.SiteKey), grammar.Line("secret <secret>", &c.Secret), withoutScript()}
			}}),
		}
	}}
}
