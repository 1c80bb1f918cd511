package tally

import (
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

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
// at the target of requests match canonical ones only.
func forExemption(sets caddyhttp.MatcherSets) {
	for i, set := range sets {
		if readsTarget(set) {
			sets[i] = append(slices.Clone(set), canonicalTarget{query: readsQuery(set)})
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

// canonicalTarget matches requests whose target all programs read alike.
type canonicalTarget struct {
	query bool // whether that holds for its query, too
}

// MatchWithError implements [caddyhttp.RequestMatcherWithError].
func (c canonicalTarget) MatchWithError(r *http.Request) (bool, error) {
	received := received(r)
	return received.IsCanonical() && (!c.query || received.HasCanonicalQuery()), nil
}

// readsTarget reports whether the outcome of a matcher set may depend on how a path
// or query is spelled. Matchers that aren't known are taken to.
func readsTarget(set caddyhttp.MatcherSet) bool {
	return slices.ContainsFunc(set, func(m any) bool {
		switch m := m.(type) {
		case *caddyhttp.MatchHost, *caddyhttp.MatchMethod, *caddyhttp.MatchHeader, *caddyhttp.MatchHeaderRE,
			*caddyhttp.MatchProtocol, *caddyhttp.MatchTLS, *caddyhttp.MatchRemoteIP, *caddyhttp.MatchClientIP:
			return false
		case *caddyhttp.MatchNot:
			return slices.ContainsFunc(m.MatcherSets, readsTarget)
		case *caddyhttp.MatchExpression:
			return mentionsTarget(m.Expr)
		}
		return true
	})
}

// mentionsTarget reports whether an expression may look at the target of a request.
func mentionsTarget(expression string) bool {
	return slices.ContainsFunc([]string{"path", "uri", "query", "endpoint", "file", "vars"}, func(word string) bool {
		return strings.Contains(expression, word)
	})
}

// readsQuery reports whether a matcher set has Caddy's matcher of queries.
func readsQuery(set caddyhttp.MatcherSet) bool {
	return slices.ContainsFunc(set, func(m any) bool {
		_, ok := m.(*caddyhttp.MatchQuery)
		return ok
	})
}

// missedSpellings says what Caddy's matchers don't match that backends accept.
const missedSpellings = "path and query miss spellings that a backend may accept, such as /login/, /login.json, /login;x or ?a=%zz&mode=heavy, and what they miss isn't counted"

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
			m.Methods = *matcher
		case *caddyhttp.MatchQuery:
			unsafe = true
			m.addQuery(*matcher)
		case *caddyhttp.MatchExpression:
			unsafe = unsafe || strings.Contains(matcher.Expr, "path") || strings.Contains(matcher.Expr, "query") || strings.Contains(matcher.Expr, "uri")
			alone = false
		default:
			alone = false
		}
	}
	if !unsafe {
		return ""
	}
	if len(m.Paths) == 0 && len(m.Query) > 0 {
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
	m.Query = make(map[string]string)
	for key, values := range query {
		m.Query[key] = strings.Join(values, "&") // of which several are no endpoint
	}
}

// warnOfSpellings warns of matchers of the zone that miss spellings of what is to be
// limited.
func (z *Zone) warnOfSpellings(log *zap.Logger, option string, sets caddyhttp.MatcherSets) {
	for _, set := range sets {
		if words := safeWords(option, set); words != "" {
			z.warn(log, option+": "+missedSpellings, words)
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
