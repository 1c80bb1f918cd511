package matcher

import (
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// A different spelling of a request must not bypass a limit or gain an exemption, nor must an address
// that the client wrote itself. So the meaning of matchers depends on their purpose: a limit matches
// every spelling that a backend may accept, an exemption only requests that all programs read alike,
// and no claimed address. Inside `not` it is the other way round.

// ForLimit adapts matcher sets to limits.
func ForLimit(sets caddyhttp.MatcherSets) {
	for i, set := range sets {
		for _, m := range set {
			if not, ok := m.(*caddyhttp.MatchNot); ok {
				ForExemption(not.MatcherSets)
			}
		}
		if slices.ContainsFunc(set, computes) {
			sets[i] = caddyhttp.MatcherSet{orNowhere{set}}
		}
	}
}

// ForExemption adapts matcher sets to exemptions: sets that use the method or the target of
// requests match only requests that all programs read alike, and sets that may use the client's
// address no claimed one.
func ForExemption(sets caddyhttp.MatcherSets) {
	requireUnclaimed(sets)
	for i, set := range sets {
		if m := newUnambiguous(set); m.method || m.target {
			sets[i] = append(slices.Clone(set), m)
		}
		for _, m := range set {
			switch m := m.(type) {
			case *Endpoint:
				m.reading = exactlyAsWas
			case *caddyhttp.MatchNot:
				ForLimit(m.MatcherSets)
			}
		}
	}
}

// ForAdmission adapts matcher sets to the admission of users. If nothing else in a set tells who they
// are, the routes around it may have asked for the address: it must be unclaimed, too.
func ForAdmission(sets caddyhttp.MatcherSets) {
	ForExemption(sets)
	for i, set := range sets {
		if !slices.ContainsFunc(set, identifies) {
			sets[i] = append(slices.Clone(set), unclaimed{})
		}
	}
}

// present matches requests in which placeholders have values.
type present []string

// IfPresent returns a matcher set that matches only requests in which placeholders have values. Without them it
// isn't asked: its result would be that of comparisons with nothing.
func IfPresent(names []string, set caddyhttp.MatcherSet) caddyhttp.MatcherSet {
	return slices.Concat(caddyhttp.MatcherSet{present(names)}, set)
}

// MatchWithError implements [caddyhttp.RequestMatcherWithError].
func (p present) MatchWithError(r *http.Request) (bool, error) {
	repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	return !slices.ContainsFunc(p, func(name string) bool {
		if strings.HasPrefix(name, "http.request.tls.client.") && (r.TLS == nil || len(r.TLS.PeerCertificates) == 0) {
			return true // Caddy returns values of an empty certificate
		}
		value, _ := repl.Get(name)
		return caddy.ToString(value) == ""
	}), nil
}

// identifies reports whether a matcher tells users from others by more than their address.
func identifies(m any) bool {
	switch m.(type) {
	case *caddyhttp.MatchRemoteIP, *caddyhttp.MatchHeader, *caddyhttp.MatchHeaderRE:
		return true
	}
	return false
}

// ForTrap adapts matcher sets to traps, which only match requests that no honest client sends:
// guesses would harm innocent clients. A claimed address is no way past them.
func ForTrap(sets caddyhttp.MatcherSets) {
	for _, set := range sets {
		for _, m := range set {
			switch m := m.(type) {
			case *Endpoint:
				m.reading = anyEncoding
			case *caddyhttp.MatchNot:
				requireUnclaimed(m.MatcherSets)
			}
		}
	}
}
