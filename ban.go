package tally

import (
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/cespare/xxhash/v2"

	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

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
