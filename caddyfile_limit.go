package tally

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
)

func (z *Zone) unmarshalLimit(d *caddyfile.Dispenser) error {
	limit, err := parseLimit(d.RemainingArgs())
	if err != nil {
		return d.Errf("limit: %w", err)
	}
	z.Limits = append(z.Limits, limit)
	return nil
}

// parseLimit parses what stands behind the word `limit`.
func parseLimit(args []string) (Limit, error) {
	if len(args) == 0 {
		return Limit{}, errors.New("amount and window are missing: 5/1m would do")
	}
	limit, err := parseRate(args[0])
	for rest := args[1:]; err == nil && len(rest) > 0; {
		rest, err = limit.parseWord(rest)
	}
	if err == nil {
		_, err = limit.compile()
	}
	return limit, err
}

// parseRate parses `<n>/<duration>`.
func parseRate(s string) (Limit, error) {
	amount, window, ok := strings.Cut(s, "/")
	if !ok {
		return Limit{}, fmt.Errorf("a window is missing in %q: %s/1m would do", s, s)
	}
	n, err := parseCount(amount)
	if err != nil {
		return Limit{}, fmt.Errorf("amount must be a whole number, got %q: 5/1m would do", amount)
	}
	duration, err := caddy.ParseDuration(window)
	if err != nil {
		return Limit{}, fmt.Errorf("window must be a duration such as 10s, 1m, 24h or 1d, got %q", window)
	}
	return Limit{Amount: n, Window: caddy.Duration(duration)}, nil
}

// parseWord parses the first of the words behind a rate, with its value if it
// takes one, and returns the words left.
func (l *Limit) parseWord(words []string) ([]string, error) {
	word := words[0]
	switch {
	case slices.Contains([]string{"sliding", "fixed", "token_bucket"}, word):
		if l.Algorithm != "" {
			return nil, fmt.Errorf("%s after %s: a limit has one algorithm", word, l.Algorithm)
		}
		l.Algorithm = word
		return words[1:], nil
	case !slices.Contains([]string{"burst", "slots", "timezone", "name"}, word):
		return nil, fmt.Errorf("unknown word %q: burst <n>, sliding, fixed, token_bucket, slots <n>, timezone <name> or name <name> would do", word)
	case len(words) < 2:
		return nil, fmt.Errorf("%s lacks its value", word)
	}
	return words[2:], l.setValue(word, words[1])
}

// setValue sets what word stands for. Zero values are refused because in the
// struct they mean the default.
func (l *Limit) setValue(word, value string) error {
	if l.hasValue(word) {
		return fmt.Errorf("%s is given twice: once would do", word)
	}
	switch {
	case word == "name":
		l.Name = value
		return l.checkNameGiven()
	case word == "timezone" && value == "":
		return errors.New("timezone must not be empty: Europe/Berlin would do")
	case word == "timezone":
		l.Timezone = value
		return nil
	}
	n, err := parseCount(value)
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

// hasValue tells whether what word stands for is set.
func (l *Limit) hasValue(word string) bool {
	return word == "burst" && l.Burst != 0 || word == "slots" && l.Slots != 0 ||
		word == "timezone" && l.Timezone != "" || word == "name" && l.Name != ""
}

func (l *Limit) checkNameGiven() error {
	if l.Name == "" {
		return errors.New("name must not be empty")
	}
	return nil
}
