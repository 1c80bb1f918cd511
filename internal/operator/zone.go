package operator

import (
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/outcomes"
)

// Zone is a zone of the running configuration.
type Zone struct {
	Name   string  `json:"zone"`
	Per    string  `json:"per"` // what it counts by, as in the Caddyfile: ip, client, key, …
	Limits []Limit `json:"limits"`
	Shadow bool    `json:"shadow,omitempty"` // no limit of it is enforced
	// When are the load conditions under which it applies, one of which is enough; none if it
	// always does.
	When []Condition `json:"when,omitempty"`
	Counts
}

// Condition is a load under which a zone applies.
type Condition struct {
	Text  string     `json:"text"` // as in a Caddyfile: everyone over 200/1s
	Holds bool       `json:"holds"`
	Since *time.Time `json:"since,omitempty"` // when it began or ended to hold; nil if it never held
}

// Applies reports whether the zone applies.
func (z Zone) Applies() bool {
	return len(z.When) == 0 || slices.ContainsFunc(z.When, func(c Condition) bool { return c.Holds })
}

// Limit is a limit of a zone.
type Limit struct {
	Name      string  `json:"limit"`
	Text      string  `json:"text"`           // as in a Caddyfile: 5/1m
	Tier      string  `json:"tier,omitempty"` // "" if it is the zone's own
	Algorithm string  `json:"algorithm"`
	Amount    int64   `json:"amount"`   // units in a window
	Capacity  int64   `json:"capacity"` // units that can be had at once
	Window    Seconds `json:"window_seconds"`
	// in memory; limits of tiers that differ only in their amounts share them
	Keys   int64 `json:"keys"`
	Shadow bool  `json:"shadow,omitempty"` // it refuses nothing, and counts what it would refuse
	Counts
}

// Counts are requests, each counted once, or the decisions of a zone or limit about them.
type Counts = outcomes.Counts

// IsSame reports whether two limits are the same one, regardless of their counts.
func (l Limit) IsSame(other Limit) bool {
	return l.Name == other.Name && l.Text == other.Text && l.Tier == other.Tier && l.Shadow == other.Shadow
}
