package matcher

import (
	"slices"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// A request that is spelled in another way must not get around a limit, and not
// into an exemption. So matchers mean something else by what they are for: a limit
// takes every spelling that a backend may accept, an exemption takes what all
// programs read alike. Inside `not` it is the other way round.

// ForLimit makes matcher sets match what is to be counted.
func ForLimit(sets caddyhttp.MatcherSets) {
	for _, set := range sets {
		for _, m := range set {
			if not, ok := m.(*caddyhttp.MatchNot); ok {
				ForExemption(not.MatcherSets)
			}
		}
	}
}

// ForExemption makes matcher sets match what is not to be counted: those that look
// at the method or the target of requests match what all programs read alike.
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

// ForTrap makes matcher sets match what no honest client sends: guesses would harm
// those who did nothing.
func ForTrap(sets caddyhttp.MatcherSets) {
	for _, set := range sets {
		for _, m := range set {
			if m, ok := m.(*Endpoint); ok {
				m.reading = anyEncoding
			}
		}
	}
}
