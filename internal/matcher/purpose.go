package matcher

import (
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// A different spelling of a request must not bypass a limit or gain an exemption. So the meaning of
// matchers depends on their purpose: a limit matches every spelling that a backend may accept, an
// exemption only requests that all programs read alike. Inside `not` it is the other way round.

// ForLimit adapts matcher sets to limits.
func ForLimit(sets caddyhttp.MatcherSets) {
	for _, set := range sets {
		for _, m := range set {
			if not, ok := m.(*caddyhttp.MatchNot); ok {
				ForExemption(not.MatcherSets)
			}
		}
	}
}

// ForExemption adapts matcher sets to exemptions: sets that use the method or the target of
// requests match only requests that all programs read alike.
func ForExemption(sets caddyhttp.MatcherSets) {
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

// ForTrap adapts matcher sets to traps, which only match requests that no honest client sends:
// guesses would harm innocent clients.
func ForTrap(sets caddyhttp.MatcherSets) {
	for _, set := range sets {
		for _, m := range set {
			if m, ok := m.(*Endpoint); ok {
				m.reading = anyEncoding
			}
		}
	}
}
