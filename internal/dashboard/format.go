package dashboard

import (
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// functions are the functions of templates.
var functions = template.FuncMap{
	"asset":     assetURL,
	"links":     func() []link { return links },
	"methods":   func() []string { return methods },
	"add":       func(a, b int) int { return a + b },
	"num":       number,
	"short":     short,
	"perSecond": func(minute int64) float64 { return float64(minute) / 60 },
	"share":     share,
	"bytes":     wording.Bytes,
	"iso":       func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	"at":        func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
	"ago":       ago,
	"soon":      soon,
	"whole":     sentence,
	"wait":      func(s operator.Seconds) string { return wording.Wait(s.Duration()) },
	"per":       func(per string) string { return cmp.Or(perTexts[per], strings.TrimPrefix(per, "key ")) },
	"reason":    func(reason string) string { return cmp.Or(reasonTexts[reason], strings.ReplaceAll(reason, "_", " ")) },
	"action":    func(action string) string { return cmp.Or(actionTexts[action], action) },
	"by":        func(by string) string { return cmp.Or(byTexts[by], by) },
	"what": func(r operator.Refused) string {
		return strings.Join([]string{r.Zone, r.Limit, masked(named(r.Text, r.Client)), r.Tag}, "\n")
	},
	"dict":    dict,
	"percent": percent,
	"int64":   func(n int) int64 { return int64(n) },
	"num64":   func(n int) string { return number(int64(n)) },
	"totalOf": func(c operator.Counts) int64 { return c.Allowed + c.Refused },
	"okClass": func(ok bool) string { return map[bool]string{true: "ok", false: "no"}[ok] },
}

// number formats a count with separated thousands, and a typographic minus if it is negative.
func number(n int64) string { return strings.Replace(wording.Number(n), "-", "−", 1) }

// short formats a count in a few characters: 1.2 M.
func short(f float64) string {
	for _, unit := range []struct {
		size float64
		text string
	}{{1e9, " G"}, {1e6, " M"}, {1e3, " k"}} {
		if f >= unit.size {
			return strconv.FormatFloat(math.Round(f/unit.size*10)/10, 'f', -1, 64) + unit.text
		}
	}
	return strconv.FormatFloat(math.Round(f*10)/10, 'f', -1, 64)
}

// percent returns part as a percentage of whole, from 0 to 100.
func percent(part, whole int64) float64 {
	if whole <= 0 || part <= 0 {
		return 0
	}
	return min(100, 100*float64(part)/float64(whole))
}

// share formats part as a percentage of part and rest: 12 %, <0.1 %.
func share(part, rest int64) string {
	p := percent(part, part+rest)
	switch {
	case p == 0:
		return "0 %"
	case p < 0.1:
		return "<0.1 %"
	case p < 10:
		return strconv.FormatFloat(p, 'f', 1, 64) + " %"
	}
	return strconv.FormatFloat(p, 'f', 0, 64) + " %"
}

// ago formats a time relative to now: in 4 minutes, 2 hours ago.
func ago(t, now time.Time) string {
	switch d := t.Sub(now); {
	case d > time.Second:
		return "in " + wording.Wait(d)
	case d < -time.Second:
		return wording.Wait(floor(-d)) + " ago"
	}
	return "now"
}

// sentence turns a message into a sentence, with an initial capital and a full stop.
func sentence(message string) string {
	if message == "" {
		return ""
	}
	first, size := utf8.DecodeRuneInString(message)
	message = string(unicode.ToUpper(first)) + message[size:]
	if !strings.HasSuffix(message, ".") {
		message += "."
	}
	return message
}

// floor rounds a duration down to its displayed unit, while wording.Wait rounds up.
func floor(d time.Duration) time.Duration {
	switch {
	case d <= 90*time.Second:
		return d.Truncate(time.Second)
	case d <= 90*time.Minute:
		return d.Truncate(time.Minute)
	case d <= 48*time.Hour:
		return d.Truncate(time.Hour)
	}
	return d.Truncate(24 * time.Hour)
}

// soon formats a time that ends a refusal, which holds until then: in 4 minutes, in a moment.
func soon(t, now time.Time) string {
	if t.Sub(now) <= time.Second {
		return "in a moment"
	}
	return ago(t, now)
}

var perTexts = map[string]string{
	"ip": "address", "client": "client", "api_key": "API key", "everyone": "everybody together", "asn": "provider",
}

var reasonTexts = map[string]string{
	"over_limit": "over the limit", "blocked": "was blocked already", "too_costly": "costs more than the limit",
	"banned": "banned", "denied": "denied: its API key or tier",
}

var actionTexts = map[string]string{
	"ban": "Banned", "unban": "Lifted the ban of", "allow": "Allowed", "disallow": "Ended the allowance of",
	"raise": "Raised the limits of", "unraise": "Ended the raise of",
	"reset": "Set to zero", "reveal": "Looked at the addresses in the list", "reload": "Loaded a config",
	operator.KeyMade: "Made a key for", operator.KeyTier: "Changed the tier of", operator.KeyRevoked: "Revoked keys of",
}

var byTexts = map[string]string{
	"rules": "an operator, in the file of this machine", "store": "an operator, for all machines",
	"list": "a block list", "conduct": "its violations",
}

// dict makes a map from names and values, for a template with several parameters.
func dict(pairs ...any) (map[string]any, error) {
	if len(pairs)%2 != 0 {
		return nil, errors.New("dict: expected pairs of a name and a value")
	}
	m := make(map[string]any)
	for pair := range slices.Chunk(pairs, 2) {
		m[fmt.Sprint(pair[0])] = pair[1]
	}
	return m, nil
}
