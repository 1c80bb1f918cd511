package matcher

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/endpoint"
)

// unambiguous matches requests that all programs read alike, as far as the matchers of a set use
// them. If a request was rewritten, the set must match the original request, too.
type unambiguous struct {
	set     caddyhttp.MatcherSet
	method  bool     // whether the set uses the method
	target  bool     // whether it uses the path or the query
	query   bool     // whether it has Caddy's matcher of queries
	current bool     // whether it reads placeholders, which hold the rewritten request only
	texts   []string // of the paths that it is written for, in lower case
}

func newUnambiguous(set caddyhttp.MatcherSet) unambiguous {
	return unambiguous{
		set: slices.Clone(set), method: readsMethod(set), target: readsTarget(set), query: readsQuery(set),
		current: readsCurrent(set),
		texts:   pathsOf(set),
	}
}

// pathsOf returns the paths and patterns of a matcher set.
func pathsOf(set caddyhttp.MatcherSet) (texts []string) {
	for _, m := range set {
		switch m := m.(type) {
		case *caddyhttp.MatchPath:
			texts = append(texts, *m...)
		case *caddyhttp.MatchPathRE:
			texts = append(texts, strings.ReplaceAll(m.Pattern, `\.`, "."))
		case *Endpoint:
			texts = append(texts, m.Paths...)
		}
	}
	for i := range texts {
		texts[i] = strings.ToLower(texts[i])
	}
	return texts
}

// runsElsewhere reports whether a server may run a program in the middle of the path, whatever the path
// ends with, and the set isn't written for that program: `path *.css` isn't for /wp-login.php/x.css.
func (u unambiguous) runsElsewhere(r *endpoint.Request) bool {
	return slices.ContainsFunc(r.Scripts(), func(script string) bool {
		segment := "/" + strings.ToLower(script)
		return !slices.ContainsFunc(u.texts, func(text string) bool { return strings.Contains(text, segment) })
	})
}

// MatchWithError implements [caddyhttp.RequestMatcherWithError].
func (u unambiguous) MatchWithError(r *http.Request) (bool, error) {
	if !u.isUnambiguous(r) {
		return false, nil
	}
	original := Original(r)
	if original == nil {
		return true, nil
	}
	if u.current || !u.isUnambiguous(original) {
		return false, nil
	}
	return u.set.MatchWithError(original)
}

func (u unambiguous) isUnambiguous(r *http.Request) bool {
	received := received(r)
	return (!u.method || !received.OverridesMethod()) &&
		(!u.target || received.IsCanonical() && !u.runsElsewhere(&received)) &&
		(!u.query || received.HasCanonicalQuery())
}

// readsMethod reports whether the result of a matcher set may depend on the method.
func readsMethod(set caddyhttp.MatcherSet) bool {
	return slices.ContainsFunc(set, func(m any) bool {
		switch m := m.(type) {
		case *caddyhttp.MatchMethod:
			return true
		case *caddyhttp.MatchNot:
			return slices.ContainsFunc(m.MatcherSets, readsMethod)
		case *caddyhttp.MatchExpression:
			return strings.Contains(m.Expr, "method")
		}
		return false
	})
}

// readsTarget reports whether the result of a matcher set may depend on the spelling of a path or
// query. It is true for unknown matchers.
func readsTarget(set caddyhttp.MatcherSet) bool {
	return slices.ContainsFunc(set, func(m any) bool {
		switch m := m.(type) {
		case *caddyhttp.MatchHost, *caddyhttp.MatchMethod, *caddyhttp.MatchHeader, *caddyhttp.MatchHeaderRE,
			*caddyhttp.MatchProtocol, *caddyhttp.MatchTLS, *caddyhttp.MatchRemoteIP, *caddyhttp.MatchClientIP,
			*VerifiedBot, *SignedBot, unclaimed: // a signature covers the original target, in one spelling
			return false
		case *caddyhttp.MatchNot:
			return slices.ContainsFunc(m.MatcherSets, readsTarget)
		case *caddyhttp.MatchExpression:
			return mentionsTarget(m.Expr)
		}
		return true
	})
}

// mentionsTarget reports whether an expression may use the target of a request.
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

// readsCurrent reports whether a matcher set reads placeholders of the method or the target, so
// that it can't be applied to the original request.
func readsCurrent(set caddyhttp.MatcherSet) bool {
	return slices.ContainsFunc(set, func(m any) bool {
		switch m := m.(type) {
		case *caddyhttp.MatchNot:
			return slices.ContainsFunc(m.MatcherSets, readsCurrent)
		case *caddyhttp.MatchExpression:
			return strings.Contains(m.Expr, "{") && (mentionsTarget(m.Expr) || strings.Contains(m.Expr, "method"))
		case *caddyhttp.VarsMatcher:
			return slices.ContainsFunc(slices.Collect(maps.Keys(*m)), isPlaceholderKey)
		case *caddyhttp.MatchVarsRE:
			return slices.ContainsFunc(slices.Collect(maps.Keys(*m)), isPlaceholderKey)
		case caddy.Module:
			return m.CaddyModule().ID == "http.matchers.file"
		}
		return false
	})
}

func isPlaceholderKey(key string) bool { return strings.HasPrefix(key, "{") }

// Original returns the request with the method and the target that the client sent, or nil if no
// handler has rewritten them. Directives such as `rewrite`, `try_files`, `uri`, `method` and
// `handle_path` run before this one, but upstreams such as PHP may route by the original target.
func Original(r *http.Request) *http.Request {
	sent, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request)
	if !ok || sent.URL == nil || sent.Method == r.Method && sent.URL.Path == r.URL.Path &&
		sent.URL.RawPath == r.URL.RawPath &&
		sent.URL.RawQuery == r.URL.RawQuery && sent.URL.Host == r.URL.Host && sent.URL.Opaque == r.URL.Opaque {
		return nil
	}
	original := *r
	original.Method, original.URL, original.RequestURI = sent.Method, sent.URL, sent.RequestURI
	return &original
}
