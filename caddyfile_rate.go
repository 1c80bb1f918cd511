package tally

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/caddyconf"
)

// parseRate parses the amount and the window that words begin with, and returns
// the words left. They are written `5/1m`, or in any way that can mean one thing
// only: `10r/s`, `5/min`, `100 requests per minute`.
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

// splitRate finds what says how many and in how much time, which is "" if it isn't
// there, and returns the words left.
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

// parseWindow parses a duration, which may be a unit alone, or spelt out.
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

// unitOf returns the duration that a word stands for, or 0.
func unitOf(word string) time.Duration {
	switch word {
	case "s", "sec", "secs", "second", "seconds":
		return time.Second
	case "m", "min", "mins", "minute", "minutes": // as everywhere else in a Caddyfile; not a month
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

// guessRate returns how what was probably meant by words is written, or an example.
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

// guessWindow returns the window that is probably meant by what stands behind an
// amount.
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
