package config

import (
	"encoding/json"
	"slices"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// need is a placeholder that a part of a handler's config depends on.
type need struct {
	zone  *Zone  // nil outside of zones
	where string // the option
	name  string // without braces
	mild  bool   // a config in which it can't work is accepted
}

// needs returns the placeholders that the handler's config depends on.
func (p *place) needs(keys *APIKeys) (needs []need) {
	for _, z := range p.zones {
		needs = append(needs, z.needs()...)
	}
	if keys != nil && slices.ContainsFunc(p.zones, (*Zone).looksAtKeys) {
		for _, from := range keys.From {
			for _, n := range needsOfTexts(nil, "api_keys", from.Name) {
				n.mild = len(keys.From) > 1 // the key may be in another place
				needs = append(needs, n)
			}
		}
	}
	if p.handler == nil {
		return needs
	}
	return append(needs, p.handler.matcherNeeds()...)
}

// matcherNeeds returns the placeholders in the handler's own matchers.
func (h *Handler) matcherNeeds() (needs []need) {
	needs = needsOfMatchers(nil, "exempt", h.ExemptRaw)
	for _, t := range h.Traps {
		if t != nil {
			needs = append(needs, needsOfMatchers(nil, "trap", t.MatcherSetsRaw)...)
		}
	}
	return needs
}

// looksAtKeys reports whether the zone counts by API keys or takes limits from them.
func (z *Zone) looksAtKeys() bool {
	return z.Tiers || z.Per == enforce.PerAPIKey || z.Per == enforce.PerClient
}

func (z *Zone) needs() (needs []need) {
	needs = append(z.matcherNeeds(), z.textNeeds()...)
	for i := range needs {
		needs[i].mild = z.isPeerForm() // configs of mholt/caddy-ratelimit must be accepted
	}
	return needs
}

func (z *Zone) matcherNeeds() (needs []need) {
	for _, c := range z.Costs {
		needs = append(needs, needsOfMatchers(z, "cost", c.MatcherSetsRaw)...)
	}
	return append(needs, needsOfMatchers(z, "match", z.MatcherSetsRaw)...)
}

func (z *Zone) textNeeds() []need {
	needs := append(needsOfTexts(z, "per key", z.Key), needsOfTexts(z, "tier", z.Tier)...)
	for _, c := range append([]Cost{{Cost: z.Cost}}, z.Costs...) {
		needs = append(needs, needsOfTexts(z, "cost", c.Cost)...)
	}
	return needs
}

func needsOfTexts(z *Zone, where string, texts ...string) (needs []need) {
	for _, text := range texts {
		for _, name := range routing.PlaceholderNames(text) {
			needs = append(needs, need{zone: z, where: where, name: name})
		}
	}
	return needs
}

// needsOfMatchers returns the placeholders that matchers depend on: those in their texts, and those
// of the header fields that they use.
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

// namesIn appends the placeholders in the texts of a JSON value, and those equivalent to the header
// fields and variables in its matchers.
func namesIn(value any, names []string) []string {
	switch value := value.(type) {
	case string:
		names = append(names, routing.PlaceholderNames(value)...)
	case []any:
		for _, element := range value {
			names = namesIn(element, names)
		}
	case map[string]any:
		for key, element := range value {
			names = append(names, routing.PlaceholderNames(key)...)
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

// hasMatcher reports whether matcher sets contain a matcher with a name.
func hasMatcher(sets caddyhttp.RawMatcherSets, name string) bool {
	return slices.ContainsFunc(sets, func(set caddy.ModuleMap) bool {
		var negated caddyhttp.RawMatcherSets
		if set["not"] != nil {
			_ = json.Unmarshal(set["not"], &negated) // loading reports any error
		}
		return set[name] != nil || hasMatcher(negated, name)
	})
}
