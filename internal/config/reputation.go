package config

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"

	"github.com/caddy-tally/caddy-tally/internal/grammar"
)

// Reputation configures the cost of violations. Each client has a score. It begins at 100, falls
// with violations, and regains half of the missing points every six hours. A client below 75 points
// has 60 % of its limits, one below 50 has 30 %, and one below 25 has 10 %, but at least 1.
//
// Clients are those of zones that count per `client` or per `api_key`. An address alone is no
// client, because different people can share it.
type Reputation struct {
	// Don't change limits by scores. Bans are not affected.
	Disabled bool `json:"disabled,omitempty"`

	// The cost of exceeding the full limit, once for each limit and window, from 0 to 100. Default:
	// 5.
	OverLimit *int `json:"over_limit,omitempty"`

	// The cost of a forged session cookie, or of sending a solved challenge again, from 0 to 100.
	// Default: 25.
	Forged *int `json:"forged,omitempty"`

	// The cost of a visit to a trap, from 0 to 100. Default: 25.
	Trap *int `json:"trap,omitempty"`
}

// The default costs of violations in points.
const (
	defaultOverLimit = 5
	defaultForged    = 25
	defaultTrap      = 25
)

// points returns the cost of a violation in points. A nil r has the defaults.
func (r *Reputation) points(reason reputation.Reason) int {
	var given *int
	var def int
	if r == nil {
		r = new(Reputation)
	}
	switch reason {
	case reputation.OverLimit:
		given, def = r.OverLimit, defaultOverLimit
	case reputation.Forged:
		given, def = r.Forged, defaultForged
	case reputation.Trapped:
		given, def = r.Trap, defaultTrap
	}
	switch {
	case r.Disabled:
		return 0
	case given != nil:
		return *given
	}
	return def
}

// isOff reports whether scores don't change limits.
func (r *Reputation) isOff() bool { return r != nil && r.Disabled }

func (r *Reputation) check() error {
	if r == nil {
		return nil
	}
	for _, p := range []struct {
		name   string
		points *int
	}{{"over_limit", r.OverLimit}, {"forged", r.Forged}, {"trap", r.Trap}} {
		if p.points != nil && (*p.points < 0 || *p.points > reputation.Best) {
			return fmt.Errorf("reputation: %s must be between 0 and %d points, got %d", p.name,
				reputation.Best, *p.points)
		}
	}
	return nil
}

// scalingOf returns how the records of clients scale a limit of the zone, and the cost of its
// violations. It returns nil if neither applies: then no records are kept.
func (z *zoneCompiler) scalingOf(limit *engine.Limit) *engine.Scaling {
	if !z.run.CountsClients() {
		return nil
	}
	scaling := &engine.Scaling{Zone: zoneHash(z.Name), Ban: z.app.Ban.rule("")}
	if z.Ban != nil {
		scaling.Ban = z.Ban.rule(z.Name)
	}
	scaled := !z.DisableReputation && (z.EnableReputation || z.run.Per != enforce.PerAPIKey) &&
		!z.app.Reputation.isOff()
	if scaled {
		scaling.Points = z.app.Reputation.points(reputation.OverLimit)
	}
	for level := range scaling.Levels {
		scaling.Levels[level] = limit
		if share := reputation.Level(level).Share(); scaled && share < 100 {
			scaling.Levels[level] = new(z.app.limit(limit.ID, limit.Scale(share)))
		}
	}
	if !scaled && scaling.Ban.After == 0 {
		return nil
	}
	return scaling
}

// checkBan checks the zone's ban.
func (z *zoneCompiler) checkBan() error {
	if (z.Ban != nil || z.DisableReputation || z.EnableReputation) && !z.run.CountsClients() {
		return errors.New("reputation and ban are for zones that count per client or per api_key: different clients can share any other key")
	}
	return z.Ban.check()
}

// reputationRules are the syntax of `reputation` in the global option.
func reputationRules(field **Reputation) grammar.Rules {
	r := new(Reputation)
	return offOr("reputation", func(off bool) { *field, r.Disabled = r, off },
		grammar.Block{Check: r.check, Rules: func() grammar.Rules {
			return grammar.Rules{
				grammar.Line("over_limit <points>", points(&r.OverLimit)),
				grammar.Line("forged <points>", points(&r.Forged)),
				grammar.Line("trap <points>", points(&r.Trap)),
			}
		}})
}

// points returns the function for a number of points.
func points(field **int) func(string) error {
	return func(word string) error {
		n, err := strconv.Atoi(word)
		if err != nil || n < 0 || n > 100 {
			return fmt.Errorf("must be a number of points from 0 to 100, got %q", word)
		}
		*field = &n
		return nil
	}
}
