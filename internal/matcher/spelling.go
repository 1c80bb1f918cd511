package matcher

import (
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/endpoint"
)

// MissedSpellings explains the gap between Caddy's matchers and backends.
const MissedSpellings = "path, query and method miss spellings that a backend may accept, such as /login/, /login.json, /login;x, ?a=%zz&mode=heavy, X-HTTP-Method-Override: POST or a WebSocket over HTTP/3, which is a GET to the backend, and see a request only as it was rewritten; what they miss isn't counted"

// Safer returns the replacement of a matcher set in an option for a limit, if the set has matchers
// that miss spellings; or "".
func Safer(option string, set caddyhttp.MatcherSet) string {
	var m Endpoint
	unsafe, alone := false, true
	if len(set) == 1 {
		if adapted, ok := set[0].(orNowhere); ok {
			set = adapted.set
		}
	}
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
		case *Endpoint:
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

// addQuery adds the conditions of Caddy's matcher of queries, as far as possible.
func (e *Endpoint) addQuery(query caddyhttp.MatchQuery) {
	for key, values := range query {
		e.mergeQuery(map[string]string{key: strings.Join(values, "&")}) // several aren't a valid endpoint
	}
}

func (e *Endpoint) mergeQuery(query map[string]string) {
	if e.Query == nil {
		e.Query = make(map[string]string)
	}
	maps.Copy(e.Query, query)
}
