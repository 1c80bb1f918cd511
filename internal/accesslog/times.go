package accesslog

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"time"
)

// layouts are the time formats in logs, the most frequent ones first. Times without a time zone are
// taken as UTC, which is Caddy's default.
var layouts = []string{
	"2006-01-02T15:04:05.999999999Z07:00", // RFC 3339
	"2006-01-02T15:04:05.999999999Z0700",  // ISO 8601
	"2006/01/02 15:04:05.999999999",       // Caddy's wall format
	commonLayout,
	"02/Jan/2006:15:04:05.999999999", // HAProxy
	"2006-01-02 15:04:05.999999999Z07:00",
	"2006-01-02 15:04:05.999999999 Z07:00",
	"2006-01-02 15:04:05.999999999 -0700",
	"2006-01-02 15:04:05.999999999",
	"2006-01-02T15:04:05.999999999",
	time.RFC1123, time.RFC1123Z, time.ANSIC, time.UnixDate, time.RubyDate, time.RFC850,
}

// commonLayout is the time of the Common Log Format.
const commonLayout = "02/Jan/2006:15:04:05 -0700"

// clock parses times. It tries the layout of the last time first.
type clock struct{ last int }

// parse parses a time in one of the layouts, or a number. It returns the nanoseconds since the Unix
// epoch, and reports whether they are rounded to seconds.
func (c *clock) parse(text []byte) (at int64, rounded, ok bool) {
	if at, rounded, ok = parseEpoch(text); ok {
		return at, rounded, ok
	}
	if len(text) > maxTime {
		return 0, false, false
	}
	word := string(text)
	for i := range layouts {
		i = (i + c.last) % len(layouts)
		t, err := time.Parse(layouts[i], word)
		if err != nil {
			continue
		}
		c.last = i
		if t.Year() < firstYear || t.Year() > lastYear {
			return 0, false, false
		}
		return t.UnixNano(), t.Nanosecond() == 0 && bytes.IndexByte(text, '.') < 0, true
	}
	return 0, false, false
}

const (
	maxTime   = 64            // bytes of the longest time
	firstYear = 1980          // the earliest plausible year
	lastYear  = 2200          // the latest plausible year; nanoseconds since the epoch end in 2262
	hour      = int64(3.6e12) // nanoseconds
)

// parseEpoch parses a number of seconds, milliseconds, microseconds or nanoseconds since the Unix
// epoch. Its size determines the unit: seconds of this century have ten digits.
func parseEpoch(text []byte) (at int64, rounded, ok bool) {
	if len(text) == 0 || text[0] < '0' || text[0] > '9' || len(text) > maxTime {
		return 0, false, false
	}
	head, rest, _ := strings.Cut(string(text), ".")
	whole, err := strconv.ParseUint(head, 10, 64)
	if err != nil {
		return parseFloatEpoch(text)
	}
	unit, places := int64(1e9), 9
	switch {
	case len(head) > 17:
		unit, places = 1, 0
	case len(head) > 14:
		unit, places = 1e3, 3
	case len(head) > 11:
		unit, places = 1e6, 6
	}
	if len(head) > 19 || whole > math.MaxInt64/uint64(unit) {
		return 0, false, false
	}
	if strings.Trim(rest, "0123456789") != "" {
		return parseFloatEpoch(text)
	}
	part, _ := strconv.ParseInt("0"+(rest + "000000000")[:places], 10, 64)
	return checkEpoch(int64(whole)*unit+part, unit == 1e9 && rest == "")
}

// parseFloatEpoch parses seconds with an exponent, such as 1.7e9.
func parseFloatEpoch(text []byte) (at int64, rounded, ok bool) {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(f >= 0 && f < math.MaxInt64/1e9) {
		return 0, false, false
	}
	return checkEpoch(int64(f*1e9), false)
}

func checkEpoch(at int64, rounded bool) (int64, bool, bool) {
	year := time.Unix(0, at).UTC().Year()
	if at < 0 || year < firstYear || year > lastYear {
		return 0, false, false
	}
	return at, rounded, true
}

// maxDuration is the longest plausible duration of a request.
const maxDuration = 24 * hour

// parseSeconds parses a number of seconds, such as 0.004.
func parseSeconds(text []byte) (int64, bool) { return parseUnits(text, 1e9) }

// parseUnits parses a number of units, given in nanoseconds.
func parseUnits(text []byte, unit float64) (int64, bool) {
	if len(text) == 0 || len(text) > maxTime {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(f >= 0) {
		return 0, false
	}
	return int64(min(f*unit, float64(maxDuration))), true
}
