package tally

import (
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/cespare/xxhash/v2"

	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// Reputation says how much violations cost. Each client has a score, which is
// 100 until it breaks rules, and comes back by half of what is missing every six
// hours. A client below 75 points has 60 % of its limits, one below 50 has 30 %,
// and one below 25 has 10 %, but at least 1.
//
// Clients are those of zones that count per `client` or per `api_key`. An
// address alone is no client: strangers share it.
type Reputation struct {
	// Leave all limits as they are, whatever clients do. Bans are not affected.
	Disabled bool `json:"disabled,omitempty"`

	// What it costs to send more than the whole limit, once for each limit and
	// window, from 0 to 100. Default: 5.
	OverLimit *int `json:"over_limit,omitempty"`

	// What a forged session cookie costs, or a solved challenge that is sent
	// again, from 0 to 100. Default: 25.
	Forged *int `json:"forged,omitempty"`

	// What a visit to a trap costs, from 0 to 100. Default: 25.
	Trap *int `json:"trap,omitempty"`
}

// Points that violations cost unless configured otherwise.
const (
	defaultOverLimit = 5
	defaultForged    = 25
	defaultTrap      = 25
)

// points returns what a violation costs that is configured as given. Nothing is
// configured if r is nil.
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

// isOff reports whether limits stay as they are, whatever clients do.
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
			return fmt.Errorf("reputation: %s must be between 0 and %d points, got %d", p.name, reputation.Best, *p.points)
		}
	}
	return nil
}

// Ban says when a client is banned, which is refused everything by every
// `rate_limit` handler that knows clients, until the ban ends. A ban survives a
// restart.
type Ban struct {
	// How many violations lead to a ban, from 1 to 32. Required.
	After int `json:"after,omitempty"`

	// The time in which they must lie, from 1s to 366 days. Required.
	Within caddy.Duration `json:"within,omitempty"`

	// How long a ban lasts, from 1s to 366 days. One that follows within a day of
	// the end of the last lasts twice as long as that. Required.
	For caddy.Duration `json:"for,omitempty"`

	// How long a ban lasts at most. Default: 24h, or what `for` says if that is
	// longer.
	UpTo caddy.Duration `json:"up_to,omitempty"`
}

// leastBan is the shortest duration in a ban.
const leastBan = time.Second

func (b *Ban) check() error {
	if b == nil {
		return nil
	}
	if b.After < 1 || b.After > reputation.MaxPast {
		return fmt.Errorf("ban: after must be between 1 and %d violations, got %d", reputation.MaxPast, b.After)
	}
	for _, d := range []struct {
		name string
		caddy.Duration
	}{{"in", b.Within}, {"for", b.For}, {"up to", b.UpTo}} {
		if d.name == "up to" && d.Duration == 0 {
			continue
		}
		if time.Duration(d.Duration) < leastBan || time.Duration(d.Duration) > reputation.MaxBan {
			return fmt.Errorf("ban: %s must be between %v and %v, got %v", d.name, leastBan, shortDuration(reputation.MaxBan), time.Duration(d.Duration))
		}
	}
	if b.UpTo != 0 && b.UpTo < b.For {
		return fmt.Errorf("ban: up to must be at least as long as for, got %v and %v", time.Duration(b.UpTo), time.Duration(b.For))
	}
	return nil
}

// checkBan checks the zone's ban.
func (z *Zone) checkBan() error {
	if (z.Ban != nil || z.DisableReputation) && !z.countsClients() {
		return errors.New("reputation and ban are for zones that count per client or per api_key: strangers can share anything else")
	}
	return z.Ban.check()
}

// countsClients tells whether the zone counts what is a single client, and not
// what strangers can share.
func (z *Zone) countsClients() bool { return z.per == perClient || z.per == perAPIKey }

// rule returns the ban as the engine takes it; of a zone if it has a name.
func (b *Ban) rule(zone string) reputation.Ban {
	if b == nil {
		return reputation.Ban{}
	}
	rule := reputation.Ban{
		After: b.After, Within: time.Duration(b.Within), For: time.Duration(b.For),
		Most: max(time.Duration(b.UpTo), time.Duration(b.For)),
	}
	if b.UpTo == 0 {
		rule.Most = max(reputation.DefaultMost, rule.For)
	}
	if zone != "" {
		rule.Zone = zoneHash(zone)
	}
	return rule
}

// zoneHash names a zone in what is remembered of a client.
func zoneHash(name string) uint32 { return max(uint32(xxhash.Sum64String(name)), 1) }

// Trap is a place that no honest client visits, such as the login page of a
// program that is not installed. Whoever does loses points, or is banned.
type Trap struct {
	// What leads into the trap: a list of matcher sets, of which one must match.
	// Required.
	MatcherSetsRaw caddyhttp.RawMatcherSets `json:"match,omitempty" caddy:"namespace=http.matchers"`

	// Ban a client at once, for this long, from 1s to 366 days; one that is not
	// verified by a session or an API key for an hour at most, because strangers may
	// look the same. Default: the visit costs points, as the `reputation` of the
	// `rate_limit` app says, and counts as a violation.
	Ban caddy.Duration `json:"ban,omitempty"`

	// Where the trap stands in a config file, such as `Caddyfile:12`, for messages. The
	// Caddyfile adapter notes it.
	Source string `json:"source,omitempty"`

	matchers caddyhttp.MatcherSets
	offense  reputation.Offense // of verified clients
	excused  reputation.Offense // of others
}

// maxUnverifiedBan is how long a visit to a trap bans a client at most that is not
// verified: anybody in its network who sends the same header fields is banned with
// it.
const maxUnverifiedBan = time.Hour

// offenseOf returns what a visit of a client is.
func (t *Trap) offenseOf(c *client) reputation.Offense {
	if c.kind.Verified() {
		return t.offense
	}
	return t.excused
}

// provision gets the trap ready for use.
func (t *Trap) provision(ctx caddy.Context, app *App) error {
	if len(t.MatcherSetsRaw) == 0 {
		return errors.New("trap: a matcher is missing: `trap /wp-login.php` would do")
	}
	if err := checkMatcherSets(t.MatcherSetsRaw); err != nil {
		return fmt.Errorf("trap: %w", err)
	}
	matchers, err := loadMatchers(ctx, t)
	if err != nil {
		return fmt.Errorf("trap: %w", err)
	}
	t.matchers = matchers
	forTrap(matchers)
	rule := app.Ban
	if t.Ban != 0 {
		rule = &Ban{After: 1, Within: caddy.Duration(leastBan), For: t.Ban, UpTo: t.Ban}
		if err := rule.check(); err != nil {
			return fmt.Errorf("trap: %w", err)
		}
	}
	t.offense = reputation.Offense{
		Violation: reputation.Violation{Reason: reputation.Trapped},
		Points:    app.Reputation.points(reputation.Trapped),
		Ban:       rule.rule(""),
	}
	t.excused = t.offense
	t.excused.Ban.For = min(t.excused.Ban.For, maxUnverifiedBan)
	t.excused.Ban.Most = min(t.excused.Ban.Most, maxUnverifiedBan)
	return nil
}

// loadMatchers loads the matchers of a struct that has them as MatcherSetsRaw.
func loadMatchers(ctx caddy.Context, of any) (sets caddyhttp.MatcherSets, err error) {
	loaded, err := ctx.LoadModule(of, "MatcherSetsRaw")
	if err == nil {
		err = sets.FromInterface(loaded)
	}
	if err != nil {
		return nil, fmt.Errorf("match: %w", err)
	}
	return sets, nil
}

// fairness returns how a limit of a zone and the standing of its clients affect
// each other, or nil if they don't: then nothing is kept of them.
func (a *App) fairness(z *Zone, limit *engine.Limit) *engine.Fairness {
	if !z.countsClients() {
		return nil
	}
	fair := &engine.Fairness{Zone: zoneHash(z.Name), Ban: a.Ban.rule("")}
	if z.Ban != nil {
		fair.Ban = z.Ban.rule(z.Name)
	}
	scaled := !z.DisableReputation && !a.Reputation.isOff()
	if scaled {
		fair.Points = a.Reputation.points(reputation.OverLimit)
	}
	for level := range fair.Levels {
		fair.Levels[level] = limit
		if share := reputation.Level(level).Share(); scaled && share < 100 {
			scaled := a.limit(limit.ID, limit.Scale(share))
			fair.Levels[level] = &scaled
		}
	}
	if !scaled && fair.Ban.After == 0 {
		return nil
	}
	return fair
}
