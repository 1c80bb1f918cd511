package config

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
)

func (z *Zone) unmarshalLimit(d *caddyfile.Dispenser) error {
	words := d.RemainingArgs()
	if isConcurrent(words) {
		return z.unmarshalConcurrent(d, words)
	}
	limit, err := parseLimit(words)
	if err != nil {
		return d.Errf("limit: %w", err)
	}
	z.Limits = append(z.Limits, limit)
	return nil
}

// parseLimit parses the words after `limit`.
func parseLimit(args []string) (Limit, error) {
	if len(args) == 0 {
		return Limit{}, errors.New("amount and window are missing: write limit 5/1m")
	}
	if args[0] == limitShadow && len(args) > 1 {
		return Limit{}, fmt.Errorf("shadow stands behind the limit: write limit %s shadow", strings.Join(args[1:], " "))
	}
	if lines, found := strings.CutSuffix(strings.Join(args, " ")+" ", ", "); strings.Contains(lines, ", ") || strings.Contains(lines, " and ") || found {
		return Limit{}, fmt.Errorf("a line has one limit: write limit %s, each on a line of its own", strings.NewReplacer(", ", " and limit ", " and ", " and limit ").Replace(strings.TrimSpace(lines)))
	}
	limit, rest, err := parseRate(args)
	for err == nil && len(rest) > 0 {
		rest, err = limit.parseWord(rest)
	}
	if err == nil {
		_, err = limit.compile()
	}
	return limit, err
}

// parseWord parses the first of the words after a rate, with its value if it takes one, and returns
// the remaining words.
func (l *Limit) parseWord(words []string) ([]string, error) {
	word := words[0]
	switch {
	case word == limitShadow:
		if l.Shadow {
			return nil, errors.New("shadow is given twice: write it once")
		}
		l.Shadow = true
		return words[1:], nil
	case slices.Contains(limitAlgorithms, word):
		if l.Algorithm != "" {
			return nil, fmt.Errorf("%s after %s: a limit has one algorithm", word, l.Algorithm)
		}
		l.Algorithm = word
		return words[1:], nil
	case !slices.Contains(limitValues, word):
		return nil, fmt.Errorf("unknown word %q: %s", word, insteadOfWord(word))
	case len(words) < 2:
		return nil, fmt.Errorf("%s lacks its value", word)
	}
	return words[2:], l.setValue(word, words[1])
}

// limitShadow is the word of a limit that refuses nothing.
const limitShadow = "shadow"

// The words after a rate: those without a value, and those with one.
var (
	limitAlgorithms = []string{"sliding", "fixed", "token_bucket"}
	limitValues     = []string{"burst", "slots", "timezone", "name"}
)

// insteadOfWord returns a replacement for an unknown word after a rate.
func insteadOfWord(word string) string {
	plain := strings.ReplaceAll(strings.ToLower(word), "-", "_")
	name, value, given := strings.Cut(plain, "=")
	switch {
	case given && name == "burst":
		return "write burst " + value + ", or 1 more for nginx's " + plain + ", which doesn't count the first request"
	case given && slices.Contains(limitValues, name):
		return "write " + name + " " + value
	case plain == "nodelay" || plain == "delay":
		return "leave it out: burst says how many may pass at once, 21 for nginx's burst=20; for others to wait, write on_exceeded delay 2s into a line of its own"
	case plain == "per" || plain == "key":
		return "write it into a line of its own, such as per ip"
	case slices.Contains([]string{"dry_run", "dryrun", "limit_req_dry_run", "report_only", "log_only", "observe", "test"}, plain):
		return "write shadow"
	case plain == "concurrent" || plain == "wait" || plain == "queue":
		return "write it into a line of its own, limit 4 concurrent wait 5s queue 100"
	case strings.Contains(plain, "/"):
		return "a line has one limit: write another line, limit " + word
	}
	for _, known := range slices.Concat(limitAlgorithms, limitValues, []string{limitShadow}) {
		if plain == known || plain == known+"_window" || known == "token_bucket" && strings.HasSuffix(plain, "bucket") {
			return "write " + known
		}
	}
	return "write burst <n>, sliding, fixed, token_bucket, slots <n>, timezone <name>, name <name> or shadow"
}

// setValue sets the field of a word. It rejects zero values, because in the struct they mean the
// default.
func (l *Limit) setValue(word, value string) error {
	if l.hasValue(word) {
		return fmt.Errorf("%s is given twice: write it once", word)
	}
	switch {
	case word == "name" && value == "":
		return errors.New("name must not be empty")
	case word == "name":
		l.Name = value
		return nil
	case word == "timezone" && value == "":
		return errors.New("timezone must not be empty: expected a name such as Europe/Berlin")
	case word == "timezone":
		l.Timezone = value
		return nil
	}
	parse := caddyconf.ParseCount
	if word == "burst" {
		parse = caddyconf.ParseUnits
	}
	n, err := parse(value)
	if err != nil {
		return fmt.Errorf("%s must be a whole number, got %q", word, value)
	}
	if n < 1 {
		return fmt.Errorf("%s must be at least 1, got %d", word, n)
	}
	if word == "burst" {
		l.Burst = n
	} else {
		l.Slots = int(n)
	}
	return nil
}

// hasValue reports whether the field of a word is set.
func (l *Limit) hasValue(word string) bool {
	return word == "burst" && l.Burst != 0 || word == "slots" && l.Slots != 0 ||
		word == "timezone" && l.Timezone != "" || word == "name" && l.Name != ""
}

// parseRate parses the amount and the window at the beginning of words, and returns the remaining
// words. The form is `5/1m`, or any unambiguous one: `10r/s`, `5/min`, `100 requests per minute`.
func parseRate(words []string) (Limit, []string, error) {
	amount, window, rest := splitRate(words)
	if window == "" {
		return Limit{}, nil, fmt.Errorf("a window is missing in %q: write %s", amount, guessRate(words))
	}
	n, err := caddyconf.ParseUnits(amount)
	if err != nil {
		return Limit{}, nil, fmt.Errorf("amount must be a whole number, got %q: write %s", amount, guessRate(words))
	}
	duration, ok := parseWindow(window)
	if !ok {
		return Limit{}, nil, fmt.Errorf("window must be a duration such as 10s, 1m, 24h or 1d, got %q: write %s", window, guessRate(words))
	}
	return Limit{Amount: n, Window: caddy.Duration(duration)}, rest, nil
}

// splitRate finds the amount and the window, and returns the remaining words. A missing part is "".
func splitRate(words []string) (amount, window string, rest []string) {
	amount, window, slash := strings.Cut(words[0], "/")
	rest = words[1:]
	next := func() (word string) {
		if len(rest) > 0 {
			word, rest = rest[0], rest[1:]
		}
		return word
	}
	if !slash {
		word := next()
		if isRequests(word) {
			word = next()
		}
		if before, after, ok := strings.Cut(word, "/"); ok && (before == "" || isRequests(before)) {
			window = after
		} else if word != "per" {
			return amount, "", rest
		}
	}
	if window == "" {
		window = next()
	}
	if _, err := caddyconf.ParseCount(window); err == nil && len(rest) > 0 && unitOf(rest[0]) != 0 { // 1 minute
		window += next()
	}
	if number := strings.TrimRight(amount, "abcdefghijklmnopqrstuvwxyz"); isRequests(amount[len(number):]) {
		amount = number
	}
	return amount, window, rest
}

func isRequests(word string) bool {
	switch word {
	case "r", "req", "reqs", "request", "requests":
		return true
	}
	return false
}

// parseWindow parses a duration. It may be a unit alone, or spelled out.
func parseWindow(s string) (time.Duration, bool) {
	if duration, err := caddy.ParseDuration(s); err == nil {
		return duration, true
	}
	word := strings.TrimLeft(s, "0123456789_")
	n, err := int64(1), error(nil)
	if number := s[:len(s)-len(word)]; number != "" {
		n, err = caddyconf.ParseCount(number)
	}
	unit := unitOf(word)
	if err != nil || unit == 0 || n > math.MaxInt64/int64(unit) {
		return 0, false
	}
	return time.Duration(n) * unit, true
}

// unitOf returns the duration of a unit, or 0.
func unitOf(word string) time.Duration {
	switch word {
	case "s", "sec", "secs", "second", "seconds":
		return time.Second
	case "m", "min", "mins", "minute", "minutes": // as everywhere in a Caddyfile; not a month
		return time.Minute
	case "h", "hr", "hrs", "hour", "hours":
		return time.Hour
	case "d", "day", "days":
		return 24 * time.Hour
	case "w", "week", "weeks":
		return 7 * 24 * time.Hour
	}
	return 0
}

// guessRate returns the probably intended rate for words, or an example.
func guessRate(words []string) string {
	text := strings.ToLower(strings.Join(words[:min(len(words), 4)], " "))
	amount, _, _ := strings.Cut(text, "/")
	digits := strings.IndexAny(amount, "0123456789")
	if digits < 0 || strings.HasPrefix(text[digits:], "0") || strings.Contains(text, "-") && digits > 0 {
		return "5/1m"
	}
	text = strings.ReplaceAll(text[digits:], ",", "_")
	end := len(text) - len(strings.TrimLeft(text, "0123456789_"))
	amount = strings.TrimRight(text[:end], "_")
	behind := text[end:]
	if after, ok := strings.CutPrefix(behind, "k"); ok {
		amount, behind = amount+"_000", after
	}
	if strings.HasPrefix(behind, ".") { // half a request
		return "5/1m"
	}
	return amount + "/" + guessWindow(behind)
}

// guessWindow returns the probably intended window for the text after an amount.
func guessWindow(text string) string {
	number, unit := "1", ""
	for _, word := range strings.FieldsFunc(text, func(c rune) bool { return strings.ContainsRune(" /-=", c) }) {
		letters := strings.TrimLeft(word, "0123456789")
		if digits := word[:len(word)-len(letters)]; digits != "" {
			number, unit = digits, "s"
		}
		switch letters {
		case "month", "months", "mo":
			return "30d"
		case "rps", "qps":
			return "1s"
		case "rpm":
			return "1m"
		case "rph":
			return "1h"
		}
		if u := unitOf(letters); u != 0 {
			return number + letters[:1]
		}
	}
	if unit == "" {
		return "1m"
	}
	return number + unit
}
