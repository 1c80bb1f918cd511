package tally

import (
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// Trap is a place that no honest client visits, such as the login page of a
// program that is not installed. A client that visits it loses points, or is banned.
type Trap struct {
	// What leads into the trap: a list of matcher sets, of which one must match.
	// Required.
	MatcherSetsRaw caddyhttp.RawMatcherSets `json:"match,omitempty" caddy:"namespace=http.matchers"`

	// Ban a client at once, for this long, from 1s to 366 days; one that is not
	// verified by a session or an API key for an hour at most, because other people may
	// send the same header fields. Default: the visit costs points, as the `reputation` of the
	// `rate_limit` app says, and counts as a violation.
	Ban caddy.Duration `json:"ban,omitempty"`

	// Where the trap is in a config file, such as `Caddyfile:12`, for messages. The
	// Caddyfile adapter notes it.
	Source string `json:"source,omitempty"`

	run *enforce.Trap
}

// maxUnverifiedBan is the longest ban of an unverified client for a visit to a trap: it also
// bans everybody in its network who sends the same header fields.
const maxUnverifiedBan = time.Hour

// provision gets the trap ready for use.
func (t *Trap) provision(ctx caddy.Context, app *App) error {
	if len(t.MatcherSetsRaw) == 0 {
		return errors.New("trap: a matcher is missing: write `trap /wp-login.php`")
	}
	if err := matcher.CheckSets(t.MatcherSetsRaw); err != nil {
		return fmt.Errorf("trap: %w", err)
	}
	matchers, err := loadMatchers(ctx, t)
	if err != nil {
		return fmt.Errorf("trap: %w", err)
	}
	matcher.ForTrap(matchers)
	rule := app.Ban
	if t.Ban != 0 {
		rule = &Ban{After: 1, Within: caddy.Duration(leastBan), For: t.Ban, UpTo: t.Ban}
		if err := rule.check(); err != nil {
			return fmt.Errorf("trap: %w", err)
		}
	}
	t.run = &enforce.Trap{Matchers: matchers, Bans: t.Ban != 0, Offense: reputation.Offense{
		Violation: reputation.Violation{Reason: reputation.Trapped},
		Points:    app.Reputation.points(reputation.Trapped),
		Ban:       rule.rule(""),
	}}
	t.run.Excused = t.run.Offense
	t.run.Excused.Ban.For = min(t.run.Excused.Ban.For, maxUnverifiedBan)
	t.run.Excused.Ban.Most = min(t.run.Excused.Ban.Most, maxUnverifiedBan)
	return nil
}
