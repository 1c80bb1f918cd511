package tally

// This file finds limits that are never reached, because another one beside them always is
// before.

import (
	"fmt"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// checkLimits finds limits of zones and tiers that are never reached.
func checkLimits(s *survey) (found []Advice) {
	seen := make(map[string]bool) // a snippet is in several sites
	for _, z := range s.zones {
		if problem, fix := neverReached(z.Limits); problem != "" && !seen[z.Source+problem] {
			seen[z.Source+problem] = z.Source != ""
			found = append(found, z.advice(problem, fix))
		}
	}
	for _, t := range s.app.Tiers {
		if problem, fix := neverReached(t.Limits); problem != "" {
			found = append(found, Advice{Problem: fmt.Sprintf("tier %q: %s", t.Name, problem), Fix: fix, Source: t.Source})
		}
	}
	return found
}

// neverReached says which limit is never reached, and what to write; or "".
func neverReached(limits []Limit) (problem, fix string) {
	for i, one := range limits {
		for j, other := range limits {
			a, errA := one.compile()
			b, errB := other.compile()
			if i == j || errA != nil || errB != nil || one.Shadow || other.Shadow || one.Timezone != other.Timezone || !contains(a, b) || i < j && contains(b, a) {
				continue
			}
			first, second := enforce.LimitText(a), enforce.LimitText(b)
			return fmt.Sprintf("limit: %s is never reached, because %s beside it always refuses before", first, second),
				"limit " + second + " alone, or a larger amount for it"
		}
	}
	return "", ""
}

// contains reports whether whatever b lets pass is within a. It is false where that depends on
// more than amounts and windows.
func contains(a, b limiter.Limit) bool {
	if a.Algorithm() != b.Algorithm() || a.Algorithm() == limiter.Fixed && a.Window() != b.Window() {
		return false
	}
	if a.Algorithm() == limiter.TokenBucket {
		return b.Capacity() <= a.Capacity() && perSecondOf(b) <= perSecondOf(a)
	}
	return b.Capacity() <= a.Capacity() && (b.Window() == a.Window() && b.Slots() == a.Slots() || b.Window() >= 2*a.Window())
}

func perSecondOf(l limiter.Limit) float64 { return float64(l.Amount()) / l.Window().Seconds() }
