package config

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
	"github.com/caddy-tally/caddy-tally/limiter"

	"github.com/caddy-tally/caddy-tally/internal/grammar"
)

// limitRule is the syntax of a `limit`. add takes it.
func limitRule(add func(Limit)) grammar.Rule {
	l := new(Limit)
	rate := func(words []string) (int, error) {
		rate, taken, err := readRate(words)
		l.Amount, l.Window = rate.Amount, rate.Window
		return taken, err
	}
	return grammar.Line("limit <n>/<duration> [burst <n>] [sliding|fixed|token_bucket] [slots <n>] [timezone <name>] [block <duration> [from the last]] [name <name>] [shadow]",
		rate, &l.Burst, &l.Algorithm, &l.Slots, &l.Timezone, &l.Block, &l.BlockFromLast, &l.Name, &l.Shadow).Then(func() error {
		add(*l)
		_, err := l.Compile()
		return err
	})
}

// The forms of a rate: `5/1m`, and others that are unambiguous, such as `10r/s`, `5/min` and `100
// requests per minute`.
var (
	rateForm = regexp.MustCompile(`^([^/ ]*?) ?(?:r|reqs?|requests?)?(?: ?/ ?| per )(\S*)(?: (.*))?$`)
	unitForm = regexp.MustCompile(`^([0-9_]*)(s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|weeks?)$`)
	// m as everywhere in a Caddyfile; not a month
	units = map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour,
		'w': 7 * 24 * time.Hour}
)

// readRate reads the amount and the window that words begin with, and returns how many words they take.
func readRate(words []string) (l Limit, taken int, err error) {
	amount, window, rest := words[0], "", []string(nil)
	if m := rateForm.FindStringSubmatch(strings.Join(words, " ")); m != nil {
		amount, window, rest = m[1], m[2], strings.Fields(m[3])
	}
	// 1 minute
	if _, err := caddyconf.ParseCount(window); err == nil && len(rest) > 0 && unitForm.MatchString(rest[0]) {
		window, rest = window+rest[0], rest[1:]
	}
	if window == "" && len(words) > 1 && words[1] == "concurrent" { // zones have a line of their own for it
		return l, 0, fmt.Errorf("concurrent limits are of zones and not of tiers: write limit %s concurrent into the zone", amount)
	}
	if window == "" {
		return l, 0, fmt.Errorf("a window is missing in %q: expected how many pass in which time, such as 5/1m",
			words[0])
	}
	if l.Amount, err = caddyconf.ParseUnits(amount); err != nil {
		return l, 0, fmt.Errorf("amount must be a whole number, got %q", amount)
	}
	length, ok := parseWindow(window)
	if window == "month" {
		length, ok = limiter.Month, true
	}
	if !ok {
		return l, 0, fmt.Errorf("window must be a duration such as 10s, 1m, 24h or 1d, got %q", window)
	}
	l.Window = caddy.Duration(length)
	return l, len(words) - len(rest), nil
}

// parseWindow parses a duration. It may be a unit alone, or spelled out.
func parseWindow(s string) (time.Duration, bool) {
	if duration, err := caddy.ParseDuration(s); err == nil {
		return duration, true
	}
	m := unitForm.FindStringSubmatch(s)
	if m == nil {
		return 0, false
	}
	n, err := caddyconf.ParseCount(cmp.Or(m[1], "1"))
	unit := units[m[2][0]]
	if err != nil || n > math.MaxInt64/int64(unit) {
		return 0, false
	}
	return time.Duration(n) * unit, true
}

// grouped puts _ between the thousands of a long number.
func grouped(digits string) string {
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "_" + digits[i:]
	}
	return digits
}
