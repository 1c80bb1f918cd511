// Package wording formats values for people on pages and terminals.
package wording

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// Unit is the unit of a waiting time.
type Unit int

// The units, the shortest first.
const (
	Second Unit = iota
	Minute
	Hour
	Day
)

var unitNames = [...]string{Second: "second", Minute: "minute", Hour: "hour", Day: "day"}

// Span returns a waiting time as a number of a unit, rounded up. A unit is used for up to 90 of it:
// 90 seconds, 2 minutes; hours for up to 48, except for a day. It returns 0 if there is no waiting
// time.
func Span(d time.Duration) (n int64, unit Unit) {
	hours := math.Ceil(d.Hours())
	switch {
	case d <= 0:
		return 0, Second
	case d <= 90*time.Second:
		return int64(math.Ceil(d.Seconds())), Second
	case d <= 90*time.Minute:
		return int64(math.Ceil(d.Minutes())), Minute
	case hours == 24 || hours > 48:
		return int64(math.Ceil(hours / 24)), Day
	}
	return int64(hours), Hour
}

// Wait formats a waiting time, rounded up: "45 seconds", "2 minutes", "1 day". It returns "" if
// there is none.
func Wait(d time.Duration) string {
	switch n, unit := Span(d); n {
	case 0:
		return ""
	case 1:
		return "1 " + unitNames[unit]
	default:
		return fmt.Sprintf("%d %ss", n, unitNames[unit])
	}
}

// Number formats a number with separated thousands: 1,234,567 (decision 184).
func Number(n int64) string { return humanize.Comma(n) }

// Counted returns a number with its noun: 1 ban, 2 bans.
func Counted[N int | int64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return Number(int64(n)) + " " + one + "s"
}

// Bytes formats a size: 4.2 MiB.
func Bytes(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

// Duration returns a duration without trailing zero parts: 24h, not 24h0m0s.
func Duration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
