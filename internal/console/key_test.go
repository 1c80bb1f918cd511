package console

import (
	"strings"
	"testing"
	"time"
)

func TestExpiry(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 5, time.UTC)
	for word, want := range map[string]string{
		"":                     "0001-01-01T00:00:00Z",
		"90d":                  "2027-02-20T12:00:00Z",
		"1h30m":                "2026-11-22T13:30:00Z",
		"2026-12-01":           "2026-12-01T00:00:00Z",
		"2026-12-01T10:00:00Z": "2026-12-01T10:00:00Z",
	} {
		if got, err := expiry(word, now); err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%q: got %v, %v, want %s", word, got, err, want)
		}
	}
	for word, says := range map[string]string{"tomorrow": "or a duration such as 90d", "-1h": "not in the future", "0s": "not in the future", "2026-11-22": "not in the future"} {
		if _, err := expiry(word, now); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: got %v, want %s", word, err, says)
		}
	}
}
