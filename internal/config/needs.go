package config

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// optionSet is a matcher set of an option.
type optionSet struct {
	caddy.ModuleMap
	option string // exempt, trap, match or cost
	cost   string // of a cost
	zone   *Zone  // nil outside of zones
	source string
}

// in returns the sets of an option, which is described by o.
func (o optionSet) in(sets caddyhttp.RawMatcherSets) (all []optionSet) {
	for _, set := range sets {
		o.ModuleMap = set
		all = append(all, o)
	}
	return all
}

// sets returns the matcher sets of the zone's options.
func (z *Zone) sets() (all []optionSet) {
	for _, c := range z.Costs {
		all = append(all, optionSet{option: "cost", cost: c.Cost, zone: z, source: z.Source}.in(c.MatcherSetsRaw)...)
	}
	return append(all, optionSet{option: "match", zone: z, source: z.Source}.in(z.MatcherSetsRaw)...)
}

// sets returns the matcher sets of the handler's options and of those of zones.
func (h *Handler) sets(zones []*Zone) (all []optionSet) {
	for _, z := range zones {
		all = append(all, z.sets()...)
	}
	all = append(all, optionSet{option: "exempt", source: h.Source}.in(h.ExemptRaw)...)
	for _, t := range h.Traps {
		if t != nil {
			all = append(all, optionSet{option: "trap", source: t.Source}.in(t.MatcherSetsRaw)...)
		}
	}
	return all
}

// sets returns the matcher sets of the options at the place; none for a dashboard.
func (p *place) sets() []optionSet {
	if p.handler == nil {
		return nil
	}
	return p.handler.sets(p.zones)
}

// advice returns advice about the option.
func (o optionSet) advice(problem, fix string) Advice {
	a := Advice{Problem: problem, Fix: fix, Source: o.source}
	if o.zone != nil {
		a.Zone = o.zone.Name
	}
	return a
}

// withNegated returns a matcher set and those inside its `not`.
func withNegated(set caddy.ModuleMap) []caddy.ModuleMap {
	sets := []caddy.ModuleMap{set}
	for _, inner := range negated(set) {
		sets = append(sets, withNegated(inner)...)
	}
	return sets
}

// negated returns the matcher sets of `not`.
func negated(set caddy.ModuleMap) (sets []caddy.ModuleMap) {
	_ = json.Unmarshal(set["not"], &sets) // loading reports any error
	return sets
}

// hasMatcher reports whether a matcher set or one inside its `not` contains a matcher with a name.
func hasMatcher(set caddy.ModuleMap, name string) bool {
	return slices.ContainsFunc(withNegated(set), func(s caddy.ModuleMap) bool { return s[name] != nil })
}

// need is a placeholder that a part of a handler's config depends on.
type need struct {
	zone   *Zone  // nil outside of zones
	source string // the option's place in a config file
	where  string // the option
	name   string // without braces
	mild   bool   // a config in which it can't work is accepted
}

// needs returns the placeholders that the options at the place depend on.
func (p *place) needs(keys *APIKeys) (needs []need) {
	for _, o := range p.sets() {
		for _, name := range namesOfSet(o.ModuleMap) {
			needs = append(needs, need{zone: o.zone, source: o.source, where: o.option, name: name, mild: o.zone != nil && o.zone.isPeerForm()})
		}
	}
	for _, z := range p.zones {
		needs = append(needs, z.textNeeds()...)
	}
	if keys == nil || !slices.ContainsFunc(p.zones, (*Zone).looksAtKeys) {
		return needs
	}
	for _, from := range keys.From {
		for _, name := range routing.PlaceholderNames(from.Name) {
			needs = append(needs, need{source: p.handler.Source, where: "api_keys", name: name, mild: len(keys.From) > 1}) // the key may be in another place
		}
	}
	return needs
}

// looksAtKeys reports whether the zone counts by API keys or takes limits from them.
func (z *Zone) looksAtKeys() bool {
	return z.Tiers || z.Per == enforce.PerAPIKey || z.Per == enforce.PerClient
}

// textNeeds returns the placeholders that the zone depends on besides those of its matchers. Configs of
// mholt/caddy-ratelimit must be accepted.
func (z *Zone) textNeeds() (needs []need) {
	texts := [][2]string{{"per key", z.Key}, {"tier", z.Tier}}
	for _, cost := range z.costs() {
		texts = append(texts, [2]string{"cost", cost})
	}
	for _, text := range texts {
		for _, name := range routing.PlaceholderNames(text[1]) {
			needs = append(needs, need{zone: z, source: z.Source, where: text[0], name: name, mild: z.isPeerForm()})
		}
	}
	return needs
}

// namesOf returns the placeholders that options depend on.
func namesOf(needs []need) (names []string) {
	for _, n := range needs {
		names = append(names, n.name)
	}
	return names
}

// namesOfSets returns the placeholders that matcher sets of options depend on.
func namesOfSets(sets []optionSet) (names []string) {
	for _, o := range sets {
		names = append(names, namesOfSet(o.ModuleMap)...)
	}
	return names
}

// namesOfSet returns the placeholders that matchers depend on: those in their texts, and those
// of the header fields that they use.
func namesOfSet(set caddy.ModuleMap) []string {
	var value any
	raw, _ := json.Marshal(set) // loading reports any error
	_ = json.Unmarshal(raw, &value)
	return slices.Sorted(slices.Values(namesIn(value, nil)))
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
			if key == "expression" {
				names = append(names, namesInExpression(element)...)
				continue
			}
			names = append(names, routing.PlaceholderNames(key)...)
			fields, _ := element.(map[string]any)
			for field := range fields {
				switch isPlaceholder := strings.HasPrefix(field, "{") && strings.HasSuffix(field, "}") && strings.Count(field, "{") == 1; {
				case key == "header" || key == "header_regexp":
					names = append(names, "http.request.header."+field)
				case (key == "vars" || key == "vars_regexp") && !isPlaceholder:
					names = append(names, "http.vars."+field)
				}
			}
			names = namesIn(element, names)
		}
	}
	return names
}

// What an expression reads: placeholders, as Caddy finds them and by its function, and header fields and variables by
// functions with the names of their matchers.
var (
	placeholderInExpression = regexp.MustCompile(`\{([a-zA-Z][\w.-]+)\}`)
	phInExpression          = regexp.MustCompile(`\bph\s*\((?:\s*req\s*,\s*["']([^"']*)["']\s*\))?`)
	mapInExpression         = regexp.MustCompile(`\b(header|vars)\s*\(\s*\{((?:[^"'}]|"[^"]*"|'[^']*')*)`)
	keyInExpression         = regexp.MustCompile(`[rR]?["']([^"']+)["']\s*:`)
	patternInExpression     = regexp.MustCompile(`\b(header|vars)_regexp\s*\(\s*(?:[rR]?["'][^"']*["']\s*,\s*)?[rR]?["']([^"']+)["']\s*,`)
)

// namesInExpression returns the placeholders that an expression matcher depends on, with those equivalent to header
// fields and variables. A name that is computed is empty.
func namesInExpression(matcher any) (names []string) {
	if named, ok := matcher.(map[string]any); ok {
		matcher = named["expr"]
	}
	text, _ := matcher.(string)
	for _, found := range slices.Concat(placeholderInExpression.FindAllStringSubmatch(text, -1), phInExpression.FindAllStringSubmatch(text, -1)) {
		names = append(names, found[1])
	}
	give := func(function, name string) {
		if !strings.Contains(name, "{") { // it is among the placeholders
			names = append(names, map[string]string{"header": "http.request.header.", "vars": "http.vars."}[function]+name)
		}
	}
	for _, found := range mapInExpression.FindAllStringSubmatch(text, -1) {
		for _, key := range keyInExpression.FindAllStringSubmatch(found[2], -1) {
			give(found[1], key[1])
		}
	}
	for _, found := range patternInExpression.FindAllStringSubmatch(text, -1) {
		give(found[1], found[2])
	}
	return names
}
