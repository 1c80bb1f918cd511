package config

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/caddy-tally/caddy-tally/internal/networks"
)

// insteadText has what to write for texts of other programs. It describes its format.
//
//go:embed instead.txt
var insteadText string

// replacement is a line of insteadText.
type replacement struct {
	place string
	form  *regexp.Regexp
	with  string
}

var replacements = sync.OnceValue(func() (list []replacement) {
	for line := range strings.Lines(insteadText) {
		if parts := strings.Split(strings.TrimSpace(line), "\t"); len(parts) == 3 {
			list = append(list, replacement{parts[0], regexp.MustCompile("^(?i:" + parts[1] + ")$"), parts[2]})
		}
	}
	return list
})

// instead returns what to write for a text in a place, or "".
func instead(place, text string) string {
	for _, r := range replacements() {
		if m := r.form.FindStringSubmatchIndex(text); r.place == place && m != nil {
			return strings.TrimSpace(string(r.form.ExpandString(nil, r.with, text, m)))
		}
	}
	return ""
}

// leaveOut begins hints that aren't lines.
const leaveOut = "leave it out"

// withoutUnit is a duration in seconds, as other programs write it.
var withoutUnit = regexp.MustCompile(`^(limit [^/]*/|window |ban after .* for )(\d+)( .*|)$`)

// insteadOfLine returns our line for a line of another program, or "".
func insteadOfLine(line string) string {
	other := withoutUnit.ReplaceAllString(instead("line", line), "${1}${2}s$3")
	switch word, rest, _ := strings.Cut(other, " "); {
	case word == "limit" && !strings.Contains(rest, "<"):
		if guess := guessRate(strings.Fields(rest)); guess != "" {
			return "limit " + guess
		}
	case word == "per" && !slices.Contains(perKinds, rest):
		return insteadOfPer(strings.Fields(strings.Trim(rest, `[]"`)))
	}
	return other
}

// insteadOfBan returns a hint for the words after `ban` if they are a client; or "".
func insteadOfBan(words []string) string {
	if len(words) == 0 {
		return ""
	}
	if other := insteadOfTarget(words[len(words)-1]); other != "" {
		return "ban is for violations here: " + other
	}
	return ""
}

// insteadOfTarget returns how to ban a client's address, a country or an autonomous system; or "".
func insteadOfTarget(target string) string {
	if target = strings.ToUpper(target); isAddress(target) || isNetwork(target) {
		target = strings.ToLower(target)
		return "run caddy rate-limit ban " + target + ", or write ban " + target + " into the rules file"
	}
	matcher := "country " + target
	if asn, ok := networks.ParseASN(target); ok {
		matcher = "asn " + asn
	} else if !networks.IsCountry(target) {
		return ""
	}
	return "write into the site @banned " + matcher + " and respond @banned 403, each on a line of its own"
}
