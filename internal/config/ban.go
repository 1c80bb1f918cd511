package config

import (
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/cespare/xxhash/v2"

	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"

	"github.com/caddy-tally/caddy-tally/internal/grammar"
)

// Ban configures when a client is banned. Every `rate_limit` handler that identifies clients
// refuses all requests of a banned client until the ban ends. A ban survives a restart.
type Ban struct {
	// The number of violations that cause a ban, from 1 to 32. Required.
	After int `json:"after,omitempty"`

	// The time within which the violations must occur, from 1s to 366 days. Required.
	Within caddy.Duration `json:"within,omitempty"`

	// How long a ban lasts, from 1s to 366 days. A ban that begins within a day of the end of the
	// previous one lasts twice as long as that one. Required.
	For caddy.Duration `json:"for,omitempty"`

	// The longest duration of a ban. Default: 24h, or the value of `for` if that is longer.
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
			return fmt.Errorf("ban: %s must be between %v and %v, got %v", d.name, leastBan,
				wording.Duration(reputation.MaxBan), time.Duration(d.Duration))
		}
	}
	if b.UpTo != 0 && b.UpTo < b.For {
		return fmt.Errorf("ban: up to must be at least as long as for, got %v and %v", time.Duration(b.UpTo),
			time.Duration(b.For))
	}
	return nil
}

// rule returns the ban for the engine. A non-empty zone is the name of the ban's zone.
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

// zoneHash returns the name of a zone in a client's record.
func zoneHash(name string) uint32 { return max(uint32(xxhash.Sum64String(name)), 1) }

// banRule is the syntax of `ban`, in the global option and in a zone.
func banRule(field **Ban) grammar.Rule {
	ban := new(Ban)
	return grammar.Line("ban after <n> violations in <duration> for <duration> [up to <duration>]", &ban.After, &ban.Within, &ban.For, &ban.UpTo).Then(func() error {
		*field = ban
		return ban.check()
	})
}
