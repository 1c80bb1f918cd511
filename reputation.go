package tally

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/cespare/xxhash/v2"

	"github.com/caddy-tally/caddy-tally/identity/pressure"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// Reputation says how much violations cost. Each client has a score, which is
// 100 until it breaks rules, and comes back by half of what is missing every six
// hours. A client below 75 points has 60 % of its limits, one below 50 has 30 %,
// and one below 25 has 10 %, but at least 1.
//
// Clients are those of zones that count per `client` or per `api_key`. An
// address alone is no client, because different people can share it.
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

// points returns how many points a violation costs. A nil r has the defaults.
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

// isOff reports whether limits are the same for all clients, whatever they have done.
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

// scalingOf returns how the records of clients scale a limit of the zone, and what violations
// of it cost. It returns nil if neither is the case: then no records are kept.
func (z *zoneSetup) scalingOf(limit *engine.Limit) *engine.Scaling {
	if !z.run.CountsClients() {
		return nil
	}
	scaling := &engine.Scaling{Zone: zoneHash(z.Name), Ban: z.app.Ban.rule("")}
	if z.Ban != nil {
		scaling.Ban = z.Ban.rule(z.Name)
	}
	scaled := !z.DisableReputation && !z.app.Reputation.isOff()
	if scaled {
		scaling.Points = z.app.Reputation.points(reputation.OverLimit)
	}
	for level := range scaling.Levels {
		scaling.Levels[level] = limit
		if share := reputation.Level(level).Share(); scaled && share < 100 {
			scaled := z.app.limit(limit.ID, limit.Scale(share))
			scaling.Levels[level] = &scaled
		}
	}
	if !scaled && scaling.Ban.After == 0 {
		return nil
	}
	return scaling
}

// checkBan checks the zone's ban.
func (z *zoneSetup) checkBan() error {
	if (z.Ban != nil || z.DisableReputation) && !z.run.CountsClients() {
		return errors.New("reputation and ban are for zones that count per client or per api_key: different clients can share any other key")
	}
	return z.Ban.check()
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
			return fmt.Errorf("ban: %s must be between %v and %v, got %v", d.name, leastBan, wording.Duration(reputation.MaxBan), time.Duration(d.Duration))
		}
	}
	if b.UpTo != 0 && b.UpTo < b.For {
		return fmt.Errorf("ban: up to must be at least as long as for, got %v and %v", time.Duration(b.UpTo), time.Duration(b.For))
	}
	return nil
}

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

// Pressure says when too many different clients come from one network: a script
// that invents a new browser for every request, most likely. Such a network is
// squeezed: all its clients that are not verified have half of one client's
// limits together, in every zone that counts per client. Verified clients in it
// notice nothing.
type Pressure struct {
	// Squeeze no network.
	Disabled bool `json:"disabled,omitempty"`

	// More than so many clients that say different things of themselves, their
	// language aside, are too many, from 1 to 31. Default: 20.
	Fingerprints int `json:"fingerprints,omitempty"`

	// The time in which they must come, from 1s to 24h. Default: 10m.
	Within caddy.Duration `json:"within,omitempty"`

	// How long a network is squeezed, from 1s to 366 days. A squeeze that follows
	// within a day of the end of the last lasts twice as long as that. Default: 1h.
	Squeeze caddy.Duration `json:"squeeze,omitempty"`

	// How long a squeeze lasts at most. Default: 24h, or what `squeeze` says if that
	// is longer.
	UpTo caddy.Duration `json:"up_to,omitempty"`
}

const defaultSqueeze = time.Hour

func (p *Pressure) isOn() bool { return p == nil || !p.Disabled }

// rule returns when a network is crowded.
func (p *Pressure) rule() pressure.Rule {
	if p == nil {
		p = new(Pressure)
	}
	return pressure.Rule{
		Fingerprints: cmp.Or(p.Fingerprints, pressure.DefaultFingerprints),
		Within:       cmp.Or(time.Duration(p.Within), pressure.DefaultWithin),
	}
}

// squeeze returns how long a crowded network is squeezed, as a ban of the network.
func (p *Pressure) squeeze() *Ban {
	if p == nil {
		p = new(Pressure)
	}
	return &Ban{After: 1, Within: caddy.Duration(leastBan), For: cmp.Or(p.Squeeze, caddy.Duration(defaultSqueeze)), UpTo: p.UpTo}
}

func (p *Pressure) check() error {
	if err := p.rule().Check(); err != nil {
		return err
	}
	if p == nil {
		return nil
	}
	for _, d := range []struct {
		name string
		time.Duration
	}{{"squeeze", time.Duration(p.Squeeze)}, {"up_to", time.Duration(p.UpTo)}} {
		if d.Duration != 0 && (d.Duration < leastBan || d.Duration > reputation.MaxBan) {
			return fmt.Errorf("pressure: %s must be between %v and %v, got %v", d.name, leastBan, wording.Duration(reputation.MaxBan), d.Duration)
		}
	}
	if squeeze := p.squeeze(); p.UpTo != 0 && p.UpTo < squeeze.For {
		return fmt.Errorf("pressure: up_to must be at least as long as squeeze, got %v and %v", time.Duration(p.UpTo), time.Duration(squeeze.For))
	}
	return nil
}
