package tally

import (
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/endpoint"
)

// A request that is spelled in another way must not get around a limit, and not
// into an exemption. So matchers mean something else by what they are for: a limit
// takes every spelling that a backend may accept, an exemption takes what all
// programs read alike. Inside `not` it is the other way round.

// forLimit makes matcher sets match what is to be counted.
func forLimit(sets caddyhttp.MatcherSets) {
	for _, set := range sets {
		for _, m := range set {
			if not, ok := m.(*caddyhttp.MatchNot); ok {
				forExemption(not.MatcherSets)
			}
		}
	}
}

// forExemption makes matcher sets match what is not to be counted: those that look
// at the method or the target of requests match what all programs read alike.
func forExemption(sets caddyhttp.MatcherSets) {
	for i, set := range sets {
		if m := newUnambiguous(set); m.method || m.target {
			sets[i] = append(slices.Clone(set), m)
		}
		for _, m := range set {
			switch m := m.(type) {
			case *MatchEndpoint:
				m.reading = exactlyAsWas
			case *caddyhttp.MatchNot:
				forLimit(m.MatcherSets)
			}
		}
	}
}

// forTrap makes matcher sets match what no honest client sends: guesses would harm
// those who did nothing.
func forTrap(sets caddyhttp.MatcherSets) {
	for _, set := range sets {
		for _, m := range set {
			if m, ok := m.(*MatchEndpoint); ok {
				m.reading = anyEncoding
			}
		}
	}
}

// missedSpellings says what Caddy's matchers don't match that backends accept.
const missedSpellings = "path, query and method miss spellings that a backend may accept, such as /login/, /login.json, /login;x, ?a=%zz&mode=heavy, X-HTTP-Method-Override: POST or a WebSocket over HTTP/3, which is a GET to the backend, and see a request only as it was rewritten; what they miss isn't counted"

// safeWords returns what to write in the place of a matcher set in an option that
// limits something, if the set has matchers that miss spellings; or "".
func safeWords(option string, set caddyhttp.MatcherSet) string {
	var m MatchEndpoint
	unsafe, alone := false, true
	for _, matcher := range set {
		switch matcher := matcher.(type) {
		case *caddyhttp.MatchPath:
			unsafe = unsafe || !slices.Contains(*matcher, "*") && !slices.Contains(*matcher, "/*")
			m.Paths = append(m.Paths, *matcher...)
		case *caddyhttp.MatchMethod:
			unsafe = true
			m.Methods = append(m.Methods, *matcher...)
		case *caddyhttp.MatchQuery:
			unsafe = true
			m.addQuery(*matcher)
		case *MatchEndpoint:
			m.Methods, m.Paths = append(m.Methods, matcher.Methods...), append(m.Paths, matcher.Paths...)
			m.mergeQuery(matcher.Query)
		case *caddyhttp.MatchExpression:
			unsafe = unsafe || slices.ContainsFunc([]string{"path", "query", "uri", "method"}, func(word string) bool { return strings.Contains(matcher.Expr, word) })
			alone = false
		default:
			alone = false
		}
	}
	if !unsafe {
		return ""
	}
	if len(m.Paths) == 0 && (len(m.Query) > 0 || len(m.Methods) > 0) {
		m.Paths = []string{"/*"}
	}
	for i, path := range m.Paths {
		if strings.HasPrefix(path, "*") {
			m.Paths[i] = "/" + path
		}
	}
	if _, err := endpoint.New(m.Methods, m.Paths, m.Query); err != nil {
		return "endpoint [<methods>] <paths> [<key>=<value>] in the place of path, query and method, in a set of matchers for each alternative"
	}
	if alone {
		return option + " " + m.line()
	}
	return "endpoint " + m.line() + " in the place of path, query and method, beside the other matchers"
}

// addQuery adds what Caddy's matcher of queries demands, as far as that can be said.
func (m *MatchEndpoint) addQuery(query caddyhttp.MatchQuery) {
	for key, values := range query {
		m.mergeQuery(map[string]string{key: strings.Join(values, "&")}) // of which several are no endpoint
	}
}

func (m *MatchEndpoint) mergeQuery(query map[string]string) {
	if m.Query == nil {
		m.Query = make(map[string]string)
	}
	maps.Copy(m.Query, query)
}

// warnOfSpellings warns of matchers of the zone that miss spellings of what is to be
// limited.
func (z *zoneSetup) warnOfSpellings(option string, sets caddyhttp.MatcherSets) {
	for _, set := range sets {
		if words := safeWords(option, set); words != "" {
			z.warn(option+": "+missedSpellings, words)
		}
	}
}

// warnOfExemptions warns of exempt extensions: a backend that takes the format of an
// answer from the extension has the same action under it.
func (h *Handler) warnOfExemptions() {
	for _, set := range h.exempt {
		for _, m := range set {
			path, ok := m.(*caddyhttp.MatchPath)
			if !ok {
				continue
			}
			if i := slices.IndexFunc(*path, func(p string) bool { return strings.HasPrefix(p, "*.") }); i >= 0 {
				h.warn("exempt: path "+(*path)[i]+" also exempts /login"+(*path)[i][1:]+", which some backends take for /login", "the folder that the files are in, such as exempt /static/*")
			}
		}
	}
}
