package matcher

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/endpoint"
)

// Safer returns what a matcher set in an option for a limit misses, if it has matchers that miss
// spellings which backends accept, and its replacement; or "".
func Safer(option string, set caddyhttp.MatcherSet) (problem, replacement string) {
	m, example := Endpoint{}, ""
	unsafe, alone, unclear := false, true, false
	if len(set) == 1 {
		if adapted, ok := set[0].(orNowhere); ok {
			set = adapted.set
		}
	}
	for _, matcher := range set {
		switch matcher := matcher.(type) {
		case *caddyhttp.MatchPath:
			m.Paths = append(m.Paths, *matcher...)
			if !slices.Contains(*matcher, "*") && !slices.Contains(*matcher, "/*") {
				unsafe, example = true, pathExample
			}
		case *caddyhttp.MatchMethod:
			unsafe = true
			m.Methods = append(m.Methods, *matcher...)
			for _, method := range *matcher {
				example = cmp.Or(example, fmt.Sprintf(", such as %s or ?_method=%s", strings.ToLower(method), method))
			}
		case *caddyhttp.MatchQuery:
			unsafe = true
			m.addQuery(*matcher)
			example = cmp.Or(example, ", such as ?mode[]=heavy for mode=heavy")
		case *Endpoint:
			m.Methods, m.Paths = append(m.Methods, matcher.Methods...), append(m.Paths, matcher.Paths...)
			m.mergeQuery(matcher.Query)
		case *caddyhttp.MatchPathRE:
			unsafe, unclear, example = true, true, pathExample
		case *caddyhttp.VarsMatcher:
			unsafe, alone = unsafe || asksTarget(slices.Collect(maps.Keys(*matcher))...), false
		case *caddyhttp.MatchVarsRE:
			unsafe, alone = unsafe || asksTarget(slices.Collect(maps.Keys(*matcher))...), false
		case *caddyhttp.MatchExpression:
			unsafe, alone = unsafe || asksTarget(matcher.Expr), false
		default:
			alone = false
			// since Caddy 2.11.5
			if module, ok := matcher.(caddy.Module); ok && module.CaddyModule().ID == "http.matchers.url_pattern" {
				unsafe, unclear, example = true, true, pathExample
			}
		}
	}
	if !unsafe {
		return "", ""
	}
	problem = "matchers of the target miss spellings that backends accept" + example + ": these aren't counted"
	if len(m.Paths) == 0 && (len(m.Query) > 0 || len(m.Methods) > 0) {
		m.Paths = []string{"/*"}
	}
	for i, path := range m.Paths {
		if strings.HasPrefix(path, "*") {
			m.Paths[i] = "/" + path
		}
	}
	if _, err := endpoint.New(m.Methods, m.Paths, m.Query); err != nil || unclear {
		return problem, "endpoint [<methods>] <paths> [<key>=<value>] in the place of path, query and method, in a set of matchers for each alternative"
	}
	if alone {
		return problem, option + " " + m.line()
	}
	return problem, "endpoint " + m.line() + " in the place of path, query and method, beside the other matchers"
}

const pathExample = ", such as /login/ or /login;x"

// asksTarget reports whether texts with placeholders or functions ask for the method or the target of
// requests.
func asksTarget(texts ...string) bool {
	text := fieldsOfBodies.ReplaceAllString(strings.Join(texts, " "), "")
	return slices.ContainsFunc([]string{"path", "query", "uri", "method", "url_pattern"},
		func(word string) bool { return strings.Contains(text, word) })
}

var fieldsOfBodies = regexp.MustCompile(`\{http\.rate_limit\.[^}]*\}`)

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
