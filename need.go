package tally

import (
	"encoding/json"
	"slices"

	"github.com/caddy-tally/caddy-tally/internal/placeholder"
)

// need is a placeholder that a part of a handler's config depends on.
type need struct {
	zone  *Zone  // nil for what belongs to no zone
	where string // the option
	name  string // without braces
	mild  bool   // a config in which it can't work is not refused
}

func (z *Zone) needs() (needs []need) {
	costs := []string{z.Cost}
	for _, c := range z.Costs {
		costs = append(costs, c.Cost)
		needs = append(needs, needsOfMatchers(z, "cost", c.MatcherSetsRaw)...)
	}
	needs = append(needs, needsOfMatchers(z, "match", z.MatcherSetsRaw)...)
	needs = append(needs, needsOfTexts(z, "per key", z.Key)...)
	needs = append(needs, needsOfTexts(z, "tier", z.Tier)...)
	needs = append(needs, needsOfTexts(z, "cost", costs...)...)
	for i := range needs {
		needs[i].mild = z.isPeerForm() // no config of mholt/caddy-ratelimit may be refused
	}
	return needs
}

func needsOfTexts(z *Zone, where string, texts ...string) (needs []need) {
	for _, text := range texts {
		for _, name := range placeholder.Names(text) {
			needs = append(needs, need{zone: z, where: where, name: name})
		}
	}
	return needs
}

// needsOfMatchers returns what matchers depend on: placeholders in their texts, and header
// fields that they look at.
func needsOfMatchers(z *Zone, where string, matchers any) (needs []need) {
	raw, err := json.Marshal(matchers)
	if err != nil {
		return nil
	}
	var value any
	if json.Unmarshal(raw, &value) != nil {
		return nil
	}
	for _, name := range slices.Sorted(slices.Values(namesIn(value, nil))) {
		needs = append(needs, need{zone: z, where: where, name: name})
	}
	return needs
}

// namesIn appends the placeholders in the texts of a JSON value, and those that say the same
// as the header fields and variables that matchers in it look at.
func namesIn(value any, names []string) []string {
	switch value := value.(type) {
	case string:
		names = append(names, placeholder.Names(value)...)
	case []any:
		for _, element := range value {
			names = namesIn(element, names)
		}
	case map[string]any:
		for key, element := range value {
			names = append(names, placeholder.Names(key)...)
			fields, _ := element.(map[string]any)
			for field := range fields {
				switch key {
				case "header", "header_regexp":
					names = append(names, "http.request.header."+field)
				case "vars", "vars_regexp":
					names = append(names, "http.vars."+field)
				}
			}
			names = namesIn(element, names)
		}
	}
	return names
}
