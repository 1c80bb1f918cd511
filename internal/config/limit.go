package config

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
	_ "time/tzdata" // for machines and containers without time zones

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// Limit bounds the units that pass in a time.
type Limit struct {
	// How many units may pass per window, from 1 to 2^40.
	Amount int64 `json:"amount,omitempty"`

	// The time for the amount, from 100ms to 366 days.
	Window caddy.Duration `json:"window,omitempty"`

	// How units expire:
	//
	// - `sliding` (default): never more than the amount in any interval as long
	//   as the window
	// - `fixed`: never more than the amount in windows aligned to the clock
	//   (UTC, or the time zone in `timezone`); up to twice the amount around a
	//   change of windows
	// - `token_bucket`: bursts may pass at once and are refilled evenly over the
	//   window
	//
	// A limit with a burst is a token bucket.
	Algorithm string `json:"algorithm,omitempty"`

	// The capacity of a token bucket: how many units may pass at once, from 1
	// to 2^40. Default for a token bucket: the amount.
	Burst int64 `json:"burst,omitempty"`

	// The number of slots of a sliding window, from 1 to 10000. With more slots, units expire
	// sooner after the window has passed, and take more rows in the database. Default: 60.
	Slots int `json:"slots,omitempty"`

	// The time zone of the days or months of a fixed limit, such as `Europe/Berlin`. They begin at local
	// midnight, even when the clocks change, so that such a day has 23 or 25 hours. The window must
	// be whole days or a month. Default: the window is aligned to UTC.
	Timezone string `json:"timezone,omitempty"`

	// How long a key that goes over the limit stays refused, from its first refused request on, from 1s
	// to 366 days. Requests that are refused meanwhile don't lengthen it. It is remembered as a ban is,
	// over restarts and by all machines that share a store. Default: until units are free again.
	Block caddy.Duration `json:"block,omitempty"`

	// Count the time of `block` from the last refused request: a key that keeps sending requests stays
	// refused.
	BlockFromLast bool `json:"block_from_last,omitempty"`

	// The name of the limit in the RateLimit header fields and in metrics.
	// Default: the zone's name for the first limit without a name, and the
	// zone's name and the limit's window for others. For a limit with `shadow`,
	// the zone's name and the limit, such as `login-3/1m`.
	Name string `json:"name,omitempty"`

	// Count as if the limit were enforced, but refuse nothing: shows the effect of the limit in
	// advance. It decides alone, about the requests that all other limits of the handler pass. When
	// `shadow` is removed, the limit keeps its counts.
	Shadow bool `json:"shadow,omitempty"`
}

// Compile returns the limit ready for arithmetic, or an error with the invalid value and the
// expected ones.
func (l Limit) Compile() (limiter.Limit, error) {
	algorithm, err := l.algorithm()
	if err != nil {
		return limiter.Limit{}, err
	}
	if algorithm != limiter.Fixed && l.Window == caddy.Duration(limiter.Month) {
		return limiter.Limit{}, fmt.Errorf(
			"only fixed limits have months, as these have 28 to 31 days: write limit %s/month fixed, or %[1]s/30d",
			grouped(strconv.FormatInt(l.Amount, 10)))
	}
	location, err := l.location()
	if err != nil {
		return limiter.Limit{}, err
	}
	if block := time.Duration(l.Block); block != 0 && (block < leastBan || block > reputation.MaxBan) {
		return limiter.Limit{}, fmt.Errorf("block must be between %v and 366 days, got %v", leastBan, block)
	}
	if l.BlockFromLast && l.Block == 0 {
		return limiter.Limit{}, errors.New("block_from_last belongs to block, which is missing")
	}
	return limiter.New(limiter.Params{
		Algorithm: algorithm,
		Amount:    l.Amount,
		Window:    time.Duration(l.Window),
		Burst:     l.Burst,
		Slots:     l.Slots,
		Location:  location,
	})
}

// location returns the limit's time zone, or nil. The machine's local zone is rejected, because
// other machines may have another one.
func (l Limit) location() (*time.Location, error) {
	if l.Timezone == "" {
		return nil, nil
	}
	location, err := time.LoadLocation(l.Timezone)
	if err != nil || location == time.Local {
		return nil, fmt.Errorf("unknown timezone %q: expected a name such as Europe/Berlin or America/New_York",
			l.Timezone)
	}
	return location, nil
}

// algorithm returns the algorithm of a word; without a word, a burst makes the limit a token
// bucket.
func (l Limit) algorithm() (limiter.Algorithm, error) {
	switch {
	case l.Algorithm == "" && l.Burst != 0:
		return limiter.TokenBucket, nil
	case l.Algorithm == "":
		return limiter.Sliding, nil
	}
	return limiter.ParseAlgorithm(l.Algorithm)
}

// namedLimit is a limit ready for arithmetic, with its name in its zone.
type namedLimit struct {
	limiter.Limit
	name   string
	shadow bool
}

// compileLimits compiles the limits of a zone or a tier.
func compileLimits(owner string, limits []Limit) ([]namedLimit, error) {
	compiled := make([]namedLimit, len(limits))
	names := make(map[string]bool)
	enforced := 0
	for i, l := range limits {
		arithmetic, err := l.Compile()
		if err != nil {
			return nil, fmt.Errorf("limit: %w", err)
		}
		name := limitName(owner, enforced, l)
		if !l.Shadow {
			enforced++
		}
		if names[name] {
			return nil, fmt.Errorf("limit: two limits are named %q; name one of them otherwise with `name`", name)
		}
		names[name] = true
		compiled[i] = namedLimit{arithmetic, name, l.Shadow}
	}
	return compiled, nil
}

// limitName returns the name of a zone's limit after i enforced ones. The names of enforced limits
// don't depend on shadow limits.
func limitName(zone string, i int, l Limit) string {
	switch {
	case l.Name != "":
		return l.Name
	case l.Shadow:
		return fmt.Sprintf("%s-%d/%s", zone, l.Amount, enforce.WindowText(time.Duration(l.Window)))
	case i == 0:
		return zone
	}
	return zone + "-" + enforce.WindowText(time.Duration(l.Window))
}

// enforced returns the limits without shadow.
func enforced(limits []Limit) []Limit {
	limits = slices.Clone(limits)
	for i := range limits {
		limits[i].Shadow = false
	}
	return limits
}
