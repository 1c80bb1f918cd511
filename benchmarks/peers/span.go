//go:build linux

package main

import (
	"slices"
	"time"
)

// A span is a time from one moment to another.
type span struct{ from, to time.Time }

// spans are several times. Methods that look for some expect that they are merged.
type spans []span

// merged sorts spans, and makes one of those that meet.
func (s spans) merged() (merged spans) {
	slices.SortFunc(s, func(a, b span) int { return a.from.Compare(b.from) })
	for _, next := range s {
		if n := len(merged); n > 0 && !next.from.After(merged[n-1].to) {
			if next.to.After(merged[n-1].to) {
				merged[n-1].to = next.to
			}
			continue
		}
		merged = append(merged, next)
	}
	return merged
}

// first returns the index of the first span that doesn't end before a moment.
func (s spans) first(moment time.Time) int {
	i, _ := slices.BinarySearchFunc(s, moment, func(e span, moment time.Time) int { return e.to.Compare(moment) })
	return i
}

// meet reports whether one of the spans has a moment in common with another span.
func (s spans) meet(other span) bool {
	i := s.first(other.from)
	return i < len(s) && !s[i].from.After(other.to)
}

// split returns those of the times that have a moment in common with other, merged
// spans, and the rest.
func (s spans) split(others spans) (inside, outside spans) {
	for _, e := range s {
		if others.meet(e) {
			inside = append(inside, e)
		} else {
			outside = append(outside, e)
		}
	}
	return inside, outside
}

// extent returns the time from the begin of the first span to the end of the last.
func (s spans) extent() (whole span) {
	for i, e := range s {
		if i == 0 || e.from.Before(whole.from) {
			whole.from = e.from
		}
		if e.to.After(whole.to) {
			whole.to = e.to
		}
	}
	return whole
}

// until returns the spans, each prolonged until the requests that came in it are
// answered: others wait behind them. Requests are the times from when they were due until
// they were answered.
func (s spans) until(requests spans) spans {
	longer := slices.Clone(s)
	for _, request := range requests {
		for i := s.first(request.from); i < len(s) && !s[i].from.After(request.to); i++ {
			if request.to.After(longer[i].to) {
				longer[i].to = request.to
			}
		}
	}
	return longer.merged()
}

// share returns which part of a time the spans cover.
func (s spans) share(whole span) float64 {
	var covered time.Duration
	for _, e := range s {
		from, to := e.from, e.to
		if from.Before(whole.from) {
			from = whole.from
		}
		if to.After(whole.to) {
			to = whole.to
		}
		covered += max(0, to.Sub(from))
	}
	return float64(covered) / float64(whole.to.Sub(whole.from))
}
