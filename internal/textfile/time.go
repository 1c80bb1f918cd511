package textfile

import (
	"fmt"
	"time"
)

// ParseTime parses an end: a date, which means its first moment in UTC, or an RFC 3339 time. It
// drops fractions of a second.
func ParseTime(text string) (time.Time, error) {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		t, err = time.Parse(time.RFC3339, text)
	}
	if t = t.UTC().Truncate(time.Second); err != nil || t.IsZero() || CheckTime(t) != nil {
		return time.Time{}, fmt.Errorf(
			"got %.60q, expected a date such as 2026-12-01 (00:00 UTC), or a time such as 2026-12-01T14:00:00Z", text)
	}
	return t, nil
}

// FormatTime formats a time for [ParseTime], as short as possible.
func FormatTime(t time.Time) string {
	if t = t.UTC(); t.Equal(t.Truncate(24 * time.Hour)) {
		return t.Format(time.DateOnly)
	}
	return t.Format(time.RFC3339)
}

// CheckTime returns an error about an end whose year doesn't have four digits. The zero time, which
// means no end, is valid.
func CheckTime(t time.Time) error {
	if year := t.UTC().Year(); !t.IsZero() && (year < 1970 || year > 9999) {
		return fmt.Errorf("it ends in the year %d, expected 1970 to 9999", year)
	}
	return nil
}
