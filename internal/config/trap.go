package config

import (
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// Trap is a path that no honest client visits, such as the login page of a program that is not
// installed. A client that visits it loses points, or is banned.
type Trap struct {
	// The requests that are trapped: a list of matcher sets, of which one must match. Required.
	MatcherSetsRaw caddyhttp.RawMatcherSets `json:"match,omitempty" caddy:"namespace=http.matchers"`

	// Ban a client at once, for this long, from 1s to 366 days. A client that is not verified by a
	// session or an API key is banned for an hour at most, because other people may send the same
	// header fields. Default: the visit costs points, according to the `reputation` of the
	// `rate_limit` app, and counts as a violation.
	Ban caddy.Duration `json:"ban,omitempty"`

	// The trap's place in a config file, such as `Caddyfile:12`, for messages. The Caddyfile
	// adapter sets it.
	Source string `json:"source,omitempty"`
}

// maxUnverifiedBan is the longest ban of an unverified client for a visit to a trap. It also bans
// all senders of the same header fields in its network.
const maxUnverifiedBan = time.Hour

// compile returns the trap ready for use.
func (t *Trap) compile(ctx caddy.Context, app *Compiler) (*enforce.Trap, error) {
	if len(t.MatcherSetsRaw) == 0 {
		return nil, errors.New("trap: a matcher is missing: write `trap /wp-login.php`")
	}
	if err := matcher.CheckSets(t.MatcherSetsRaw); err != nil {
		return nil, fmt.Errorf("trap: %w", err)
	}
	reads := readsOf(t.MatcherSetsRaw) // before loading, which discards it
	matchers, err := loadMatchers(ctx, t)
	if err != nil {
		return nil, fmt.Errorf("trap: %w", err)
	}
	matcher.ForTrap(matchers)
	rule := app.Ban
	if t.Ban != 0 {
		rule = &Ban{After: 1, Within: caddy.Duration(leastBan), For: t.Ban, UpTo: t.Ban}
		if err := rule.check(); err != nil {
			return nil, fmt.Errorf("trap: %w", err)
		}
	}
	run := &enforce.Trap{Matchers: matchers, Reads: reads, Bans: t.Ban != 0, Offense: reputation.Offense{
		Violation: reputation.Violation{Reason: reputation.Trapped},
		Points:    app.Reputation.points(reputation.Trapped),
		Ban:       rule.rule(""),
	}}
	run.Excused = run.Offense
	run.Excused.Ban.For = min(run.Excused.Ban.For, maxUnverifiedBan)
	run.Excused.Ban.Most = min(run.Excused.Ban.Most, maxUnverifiedBan)
	return run, nil
}

// unmarshalTrap reads `trap [ban <duration>] <matcher>`, or the same with a
// block of matchers.
func (h *Handler) unmarshalTrap(d *caddyfile.Dispenser, t *Trap, token MatcherToken) error {
	set, err := requiredMatchers(d, token, "trap", "trap /wp-login.php")
	if err != nil {
		return err
	}
	if err := matcher.CheckSet(set); err != nil {
		return d.Errf("trap: %w", err)
	}
	t.MatcherSetsRaw = caddyhttp.RawMatcherSets{set}
	h.Traps = append(h.Traps, t)
	return nil
}
