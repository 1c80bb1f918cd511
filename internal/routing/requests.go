package routing

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/matcher"
)

// Requests are the requests that a matcher set matches, as far as methods, hosts and paths tell.
type Requests struct {
	Methods, Hosts, Paths []string // nil: all
	Partial               bool     // other matchers match only some of these requests

	Set     caddy.ModuleMap // the matcher set
	negated []Requests
}

// NewRequests returns the requests of a matcher set.
func NewRequests(set caddy.ModuleMap) (r Requests) {
	r.Set = set
	for _, name := range slices.Sorted(maps.Keys(set)) { // a method beside an endpoint counts
		raw := set[name]
		var err error
		switch name {
		case "method":
			err = json.Unmarshal(raw, &r.Methods)
		case "host":
			err = json.Unmarshal(raw, &r.Hosts)
		case "path":
			var paths []string
			err = json.Unmarshal(raw, &paths)
			r.Paths = append(r.Paths, paths...)
		case "endpoint":
			var e matcher.Endpoint
			err = json.Unmarshal(raw, &e)
			r.Methods, r.Paths, r.Partial = append(r.Methods, e.Methods...), append(r.Paths, e.Paths...), r.Partial ||
				len(e.Query) > 0
		case "not":
			var sets []caddy.ModuleMap
			err = json.Unmarshal(raw, &sets)
			for _, s := range sets {
				r.negated = append(r.negated, NewRequests(s))
			}
			r.Partial = true
		default:
			r.Partial = true
		}
		r.Partial = r.Partial || err != nil // loading reports it
	}
	return r
}

// requestsOf returns the requests of each of several sets.
func requestsOf(sets []caddy.ModuleMap) (all []Requests) {
	for _, set := range sets {
		all = append(all, NewRequests(set))
	}
	return all
}

// setsOf returns the matcher sets of a route as JSON, whether they are loaded or not.
func setsOf(r *caddyhttp.Route) (sets []caddy.ModuleMap) {
	for _, loaded := range r.MatcherSets {
		set := make(caddy.ModuleMap)
		for _, m := range loaded {
			if module, ok := m.(caddy.Module); ok {
				// an error leaves it empty, which NewRequests notes
				set[module.CaddyModule().ID.Name()], _ = json.Marshal(m)
			}
		}
		sets = append(sets, set)
	}
	return append(sets, r.MatcherSetsRaw...)
}

// Matchers returns the matchers of the set, with their configs only.
func (r Requests) Matchers() (set caddyhttp.MatcherSet) {
	for _, name := range slices.Sorted(maps.Keys(r.Set)) {
		if info, err := caddy.GetModule("http.matchers." + name); err == nil {
			m := info.New()
			_ = json.Unmarshal(r.Set[name], m) // loading reports errors
			set = append(set, m)
		}
	}
	return set
}

// String returns the methods and paths, as after `match`.
func (r Requests) String() string {
	words := slices.Concat(r.Methods, r.Paths)
	if r.Paths == nil {
		words = append(words, "*")
	}
	return strings.Join(append(words, r.Hosts...), " ")
}

// Excludes reports whether no request is known to be in both.
func (r Requests) Excludes(other Requests) bool {
	apart := func(a, b []string, meet func(a, b string) bool) bool {
		return a != nil && b != nil && !slices.ContainsFunc(a, func(x string) bool {
			return slices.ContainsFunc(b, func(y string) bool { return meet(x, y) })
		})
	}
	negates := func(a, b Requests) bool { return slices.ContainsFunc(a.negated, b.IsWithin) }
	return apart(r.Methods, other.Methods, strings.EqualFold) || apart(r.Hosts, other.Hosts, mayMeet) ||
		apart(r.Paths, other.Paths, mayMeet) || negates(r, other) || negates(other, r)
}

// IsWithin reports whether all requests are known to be in other, too.
func (r Requests) IsWithin(other Requests) bool {
	inside := func(a, b []string, isIn func(a, b string) bool) bool {
		return b == nil || a != nil && !slices.ContainsFunc(a, func(x string) bool {
			return !slices.ContainsFunc(b, func(y string) bool { return isIn(x, y) })
		})
	}
	return !other.Partial && inside(r.Methods, other.Methods, strings.EqualFold) &&
		inside(r.Hosts, other.Hosts, isIn) && inside(r.Paths, other.Paths, isIn)
}

// ends returns what stands before the first wildcard of a pattern and after its last one.
func ends(pattern string) (before, after string, wild bool) {
	pattern = strings.ToLower(pattern)
	first := strings.IndexAny(pattern, "*{")
	if first < 0 {
		return pattern, "", false
	}
	return pattern[:first], pattern[strings.LastIndexAny(pattern, "*}")+1:], true
}

// mayMeet reports whether two patterns may match the same text.
func mayMeet(a, b string) bool {
	beforeA, afterA, wildA := ends(a)
	beforeB, afterB, wildB := ends(b)
	either := func(has func(s, part string) bool, x, y string) bool { return has(x, y) || has(y, x) }
	switch {
	case !wildA && !wildB:
		return strings.TrimSuffix(beforeA, "/") == strings.TrimSuffix(beforeB, "/")
	case !wildA:
		return isIn(a, b) || strings.Contains(b, "{")
	case !wildB:
		return isIn(b, a) || strings.Contains(a, "{")
	}
	return either(strings.HasPrefix, beforeA, beforeB) && either(strings.HasSuffix, afterA, afterB)
}

// isIn reports whether a pattern is known to match all texts that a matches. Like backends, it takes
// /a for a path in /a/*.
func isIn(a, pattern string) bool {
	before, after, wild := ends(pattern)
	beforeA, afterA, wildA := ends(a)
	if strings.EqualFold(a, pattern) {
		return !strings.Contains(a, "{")
	}
	if !wild || strings.Contains(pattern, "{") || strings.Count(pattern, "*") > 1 {
		return false
	}
	if !wildA {
		return strings.HasPrefix(beforeA+"/", before) && strings.HasSuffix(beforeA, after) &&
			len(beforeA)+1 >= len(before)+len(after)
	}
	return strings.HasPrefix(beforeA, before) && strings.HasSuffix(afterA, after)
}
