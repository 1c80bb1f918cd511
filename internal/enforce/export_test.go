package enforce

import (
	"net/http"
	"time"

	"github.com/caddy-tally/caddy-tally/identity/challenge"
	"github.com/caddy-tally/caddy-tally/identity/session"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/rules"
)

// The tests compile configs by package handlertest, which imports this one, so they are in another package.

type (
	ChallengeExchange = challengeExchange
	Evidence          = evidence
)

const (
	ClientVar  = clientVar
	MaxBodies  = maxBodies
	MaxJitter  = maxJitter
	MaxSpread  = maxSpread
	TokenSize  = tokenSize
	UsedBefore = usedBefore
)

var (
	Bodies        = bodies
	Notices       = notices
	NewEvaluation = newEvaluation
	OwnLimit      = ownLimit
)

func (e *Evaluation) Collect() error                                  { return e.collect() }
func (e *Evaluation) IsExempt() (bool, error)                         { return e.isExempt() }
func (e *Evaluation) Identify() *Client                               { return e.identify() }
func (e *Evaluation) AttachClient(cfg *Config, named bool)            { e.attachClient(cfg, named) }
func (e *Evaluation) BannedFor(ban *rules.Rule) time.Duration         { return e.bannedFor(ban) }
func (z *Zone) Matches(e *Evaluation) (bool, error)                   { return z.matches(e) }
func (c *Client) LocateFrom(e *Evaluation)                            { c.locateFrom(e) }
func (c *Client) Issue(keys *sessionKeys) (session.Session, string)   { return c.issue(keys) }
func (r *Refusal) Recent() (key []byte, held instance.Recent)         { return r.recent() }
func (v *ShadowVerdicts) Placeholder(key string) (value any, ok bool) { return v.placeholder(key) }

func (z *Zone) CostOf(r *http.Request) (int64, error) {
	return z.costOf(&Evaluation{Verdict: Verdict{Http: r, Handler: new(Handler)}}, nil)
}

func (c *challengeExchange) Accept() error                { return c.accept() }
func (c *challengeExchange) AcceptWait(text string) error { return c.acceptWait(text) }
func (c *challengeExchange) Issue(token [challenge.NonceSize]byte, more ...engine.Debit) error {
	return c.issue(token, more...)
}

func (cfg *Config) Note(n *Never, happens bool) { cfg.note(n, happens) }
func (n *Never) Age(d time.Duration)            { n.since = n.since.Add(-d) }
func (c *challengeExchange) Grant() error       { return c.grant() }
