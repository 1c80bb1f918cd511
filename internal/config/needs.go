package config

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/advice"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/routing"
)

// OptionSet is a matcher set of an option.
type OptionSet struct {
	caddy.ModuleMap
	Option string // exempt, trap, match or cost
	Cost   string // of a cost
	Zone   *Zone  // nil outside of zones
	Source string
}

// in returns the sets of an option, which is described by o.
func (o OptionSet) in(sets caddyhttp.RawMatcherSets) (all []OptionSet) {
	for _, set := range sets {
		o.ModuleMap = set
		all = append(all, o)
	}
	return all
}

// sets returns the matcher sets of the zone's options.
func (z *Zone) sets() (all []OptionSet) {
	for _, c := range z.Costs {
		all = append(all, OptionSet{Option: "cost", Cost: c.Cost, Zone: z, Source: z.Source}.in(c.MatcherSetsRaw)...)
	}
	return append(all, OptionSet{Option: "match", Zone: z, Source: z.Source}.in(z.MatcherSetsRaw)...)
}

// sets returns the matcher sets of the handler's options and of those of zones.
func (h *Handler) sets(zones []*Zone) (all []OptionSet) {
	for _, z := range zones {
		all = append(all, z.sets()...)
	}
	all = append(all, OptionSet{Option: "exempt", Source: h.Source}.in(h.ExemptRaw)...)
	for _, t := range h.Traps {
		if t != nil {
			all = append(all, OptionSet{Option: "trap", Source: t.Source}.in(t.MatcherSetsRaw)...)
		}
	}
	return all
}

// Sets returns the matcher sets of the options at the place; none for a dashboard.
func (p *Place) Sets() []OptionSet {
	if p.Handler == nil {
		return nil
	}
	return p.Handler.sets(p.Zones)
}

// Advice returns advice about the option.
func (o OptionSet) Advice(problem, fix string) advice.Advice {
	a := advice.Advice{Problem: problem, Fix: fix, Source: o.Source}
	if o.Zone != nil {
		a.Zone = o.Zone.Name
	}
	return a
}

// WithNegated returns a matcher set and those inside its `not`.
func WithNegated(set caddy.ModuleMap) []caddy.ModuleMap {
	sets := []caddy.ModuleMap{set}
	for _, inner := range negated(set) {
		sets = append(sets, WithNegated(inner)...)
	}
	return sets
}

// negated returns the matcher sets of `not`.
func negated(set caddy.ModuleMap) (sets []caddy.ModuleMap) {
	_ = json.Unmarshal(set["not"], &sets) // loading reports any error
	return sets
}

// HasMatcher reports whether a matcher set or one inside its `not` contains a matcher with a name.
func HasMatcher(set caddy.ModuleMap, name string) bool {
	return slices.ContainsFunc(WithNegated(set), func(s caddy.ModuleMap) bool { return s[name] != nil })
}

// Need is a placeholder that a part of a handler's config depends on.
type Need struct {
	Zone   *Zone  // nil outside of zones
	Source string // the option's place in a config file
	Where  string // the option
	Name   string // without braces
	Mild   bool   // a config in which it can't work is accepted
}

// Needs returns the placeholders that the options at the place depend on.
func (p *Place) Needs(keys *APIKeys) (needs []Need) {
	for _, o := range p.Sets() {
		for _, name := range NamesOfSet(o.ModuleMap) {
			needs = append(needs, Need{Zone: o.Zone, Source: o.Source, Where: o.Option, Name: name,
				Mild: o.Zone != nil && o.Zone.IsPeerForm()})
		}
	}
	for _, z := range p.Zones {
		needs = append(needs, z.textNeeds()...)
	}
	if keys == nil || !slices.ContainsFunc(p.Zones, (*Zone).LooksAtKeys) {
		return needs
	}
	for _, from := range keys.From {
		for _, name := range routing.PlaceholderNames(from.Name) {
			// the key may be in another place
			needs = append(needs,
				Need{Source: p.Handler.Source, Where: "api_keys", Name: name, Mild: len(keys.From) > 1})
		}
	}
	return needs
}

// LooksAtKeys reports whether the zone counts by API keys or takes limits from them.
func (z *Zone) LooksAtKeys() bool {
	return z.Tiers || z.Per == enforce.PerAPIKey || z.Per == enforce.PerClient
}

// textNeeds returns the placeholders that the zone depends on besides those of its matchers. Configs of
// mholt/caddy-ratelimit must be accepted.
func (z *Zone) textNeeds() (needs []Need) {
	texts := [][2]string{{"per key", z.Key}, {"tier", z.Tier}}
	for _, cost := range z.CostTexts() {
		texts = append(texts, [2]string{"cost", cost})
	}
	for _, text := range texts {
		for _, name := range routing.PlaceholderNames(text[1]) {
			needs = append(needs, Need{Zone: z, Source: z.Source, Where: text[0], Name: name, Mild: z.IsPeerForm()})
		}
	}
	return needs
}

// namesOf returns the placeholders that options depend on.
func namesOf(needs []Need) (names []string) {
	for _, n := range needs {
		names = append(names, n.Name)
	}
	return names
}

// namesOfSets returns the placeholders that matcher sets of options depend on.
func namesOfSets(sets []OptionSet) (names []string) {
	for _, o := range sets {
		names = append(names, NamesOfSet(o.ModuleMap)...)
	}
	return names
}

// NamesOfSet returns the placeholders that matchers depend on: those in their texts, and those
// of the header fields that they use.
func NamesOfSet(set caddy.ModuleMap) []string {
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
				switch isPlaceholder := strings.HasPrefix(field, "{") && strings.HasSuffix(field, "}") &&
					strings.Count(field, "{") == 1; {
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
	patternInExpression     = regexp.MustCompile(
		`\b(header|vars)_regexp\s*\(\s*(?:[rR]?["'][^"']*["']\s*,\s*)?[rR]?["']([^"']+)["']\s*,`)
)

// namesInExpression returns the placeholders that an expression matcher depends on, with those equivalent to header
// fields and variables. A name that is computed is empty.
func namesInExpression(matcher any) (names []string) {
	if named, ok := matcher.(map[string]any); ok {
		matcher = named["expr"]
	}
	text, _ := matcher.(string)
	for _, found := range slices.Concat(placeholderInExpression.FindAllStringSubmatch(text, -1),
		phInExpression.FindAllStringSubmatch(text, -1)) {
		names = append(names, found[1])
	}
	give := func(function, name string) {
		if !strings.Contains(name, "{") { // it is among the placeholders
			names = append(names, map[string]string{"header": "http.request.header.", "vars": "http.vars."}[function]+
				name)
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
