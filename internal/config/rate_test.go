package config

import (
	"strings"
	"testing"
	"time"
)

// All texts after `limit` are parsed or rejected with a replacement, and the replacement is a valid
// limit.
func FuzzRate(f *testing.F) {
	for _, s := range []string{"5/1m", "10r/s burst 5", "500MB/1h burst 1GiB", "99999999999999EB/1h", "100 per 1 minute", "1k/1m", "5-M", "5/", "/1m", "5 / 1", "9999999999999999999/9999999999999w", "5/99999w", "60s/1h", "0.5/1s"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		words := strings.Fields(s)
		if len(words) == 0 {
			return
		}
		limit, rest, err := parseRate(words)
		if err == nil && (len(rest) >= len(words) || time.Duration(limit.Window) < 0) {
			t.Errorf("%q is %+v, with %q left", words, limit, rest)
		}
		if err == nil {
			return
		}
		guess := guessRate(words)
		if guess == "" && !strings.HasSuffix(err.Error(), expectedRate) && !strings.HasSuffix(err.Error(), " concurrent") {
			t.Errorf("%q: error is %v, want %q at its end", words, err, expectedRate)
		}
		if guess == "" {
			return
		}
		if !strings.HasSuffix(err.Error(), ": write "+guess) {
			t.Errorf("%q: error is %v, want %q at its end", words, err, guess)
		}
		if _, err := parseLimit(strings.Fields(guess)); err != nil {
			t.Errorf("%q: told to write %q, which is refused: %v", words, guess, err)
		}
	})
}
