package console

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// printable returns a text that is safe for a terminal.
func printable(text string) string { return wording.Printable(text, "") }

// inert escapes the characters of a Go string that some shell reads between quotes.
var inert = strings.NewReplacer(`\\`, `\x5c`, `\"`, `\x22`, "'", `\x27`, "$", `\x24`, "`", `\x60`, "!", `\x21`,
	"%", `\x25`)

// pasted returns a client's name as a word to paste into a shell, in ASCII so that it looks like no
// other. [operator.ParseTarget] reads it. Quotes in quotes keep it a word also where completion
// removes the outer ones.
func pasted(client string) string {
	if operator.IsWord(client) {
		return client
	}
	kind, value, _ := strings.Cut(client, ":")
	if quoted, err := strconv.Unquote(value); err == nil && value[0] == '"' {
		value = quoted
	}
	return "'" + kind + ":" + inert.Replace(strconv.QuoteToASCII(value)) + "'"
}

// named returns a cell with a client's name to paste, or a text about it if it has none.
func named(client, about string) cell {
	if client == "" {
		return text(about)
	}
	return text(pasted(client))
}

// span formats a duration in its largest unit, and the next one for small values: 45s, 4m, 1h 30m,
// 3d 4h. It rounds up, so that waiting that long is enough.
func span(d time.Duration) string {
	seconds := int64(d / time.Second)
	if d%time.Second > 0 {
		seconds++
	}
	units := []struct {
		name    string
		seconds int64
	}{{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}}
	for i, u := range units {
		n := seconds / u.seconds
		if n == 0 {
			continue
		}
		rest := ""
		if i+1 < len(units) && n < 10 {
			if m := seconds % u.seconds / units[i+1].seconds; m > 0 {
				rest = fmt.Sprintf(" %d%s", m, units[i+1].name)
			}
		}
		return fmt.Sprintf("%d%s%s", n, u.name, rest)
	}
	return "0s"
}

// fromNow formats a time relative to now: in 4m, 3h ago.
func fromNow(at, now time.Time) string {
	switch d := at.Sub(now); {
	case d > 0:
		return "in " + span(d)
	case d > -time.Second:
		return "now"
	default:
		return span(-d) + " ago"
	}
}

// moment formats a time in the terminal's time zone, and relative to now unless it is centuries
// away.
func moment(at, now time.Time) string {
	text := at.Local().Format("2006-01-02 15:04:05")
	if d := at.Sub(now); d == math.MaxInt64 || d == math.MinInt64 {
		return text
	}
	return text + " (" + fromNow(at, now) + ")"
}

// until formats the end of a ban or an allowance.
func until(end *time.Time, now time.Time) string {
	if end == nil {
		return "until it is lifted"
	}
	return "until " + moment(*end, now)
}
