package tally

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/identity/challenge"
	"github.com/caddy-tally/caddy-tally/identity/siteverify"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// Challenge is what a client has to do for a session.
type Challenge struct {
	// The kind:
	//
	// - `proof_of_work` (default): a puzzle that the browser solves by itself
	// - `turnstile`, `hcaptcha`, `recaptcha`: a widget of this service. It learns
	//   who visits the site's challenge, and must be reachable.
	Type string `json:"type,omitempty"`

	// How hard a puzzle is, in bits, from 1 to 28; one more takes twice as long.
	// Default: 22, which takes a
	// computer about a second and a phone two or three.
	Difficulty int `json:"difficulty,omitempty"`

	// How long a browser without JavaScript waits for a session, from 5s to 1m: the page goes
	// on by itself then. A tenth of the sessions of a network, at least one, can be earned so.
	// Default: none can, and the page asks to switch JavaScript on.
	WithoutScript caddy.Duration `json:"without_script,omitempty"`

	// What the service's widget knows the site by.
	SiteKey string `json:"site_key,omitempty"`

	// What the service knows the site by. Placeholders such as `{env.SECRET}` and
	// `{file./run/secrets/turnstile}` are replaced when the config is loaded; it is
	// an error if one of them is not set.
	Secret string `json:"secret,omitempty"`
}

// proofOfWork is the kind of challenge that needs no service.
const proofOfWork = "proof_of_work"

// provision checks the option, and returns what verifies a service's tokens.
func (c *Challenge) provision() (*siteverify.Client, error) {
	if wait := time.Duration(c.WithoutScript); wait != 0 && (wait < challenge.MinWait || wait > challenge.MaxWait) {
		return nil, fmt.Errorf("without_script: must be between %v and %v, got %v", wording.Duration(challenge.MinWait), wording.Duration(challenge.MaxWait), wait)
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
		return fmt.Errorf("difficulty: must be between %d and %d, got %d", challenge.MinDifficulty, challenge.MaxDifficulty, c.Difficulty)
	}
	return nil
}

func (c *Challenge) difficulty() int {
	if c == nil {
		return 0
	}
	return c.Difficulty
}

// withoutScript returns how long a browser without JavaScript waits, or 0 if that earns nothing.
func (c *Challenge) withoutScript() time.Duration {
	if c == nil {
		return 0
	}
	return time.Duration(c.WithoutScript)
}

// What is done with a request that is over a limit.
const (
	onExceededRefuse    = "refuse"
	onExceededChallenge = "challenge"
)

// checkOnExceeded checks that a challenge would help.
func (z *zoneSetup) checkOnExceeded() error {
	switch {
	case z.OnExceeded == "" || z.OnExceeded == onExceededRefuse:
		return nil
	case z.OnExceeded != onExceededChallenge:
		return fmt.Errorf("on_exceeded: must be refuse or challenge, got %q", z.OnExceeded)
	case z.run.Per != enforce.PerClient:
		return fmt.Errorf("on_exceeded challenge is for zones that count per client, this one counts per %s: a session would not help", z.run.Per)
	case z.app.Session == nil:
		return errors.New("on_exceeded: challenge needs sessions: write `session` into the global option rate_limit")
	}
	return nil
}
