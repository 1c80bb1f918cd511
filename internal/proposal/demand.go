package proposal

import (
	"maps"
	"slices"

	"github.com/caddy-tally/caddy-tally/internal/accesslog"
	"github.com/caddy-tally/caddy-tally/internal/replay"
)

// limit is a proposed limit; of a zone's limits, the amounts differ.
type limit struct {
	zone   string
	amount int64
}

// peaks are the most that clients wanted within a window of a limit.
type peaks map[int]int64

// demand is what people want of a limit.
type demand struct {
	honest []int64 // ascending peaks of those who decide
	others int     // clients that don't: no people, or far above most of them
	bound  int64   // what nobody who decides is above: farAbove times what most want, or notFar
}

// watch returns a function that notes the peaks of a replay.
func watch(wants map[limit]peaks, p *people) func(*replay.Limit, *accesslog.Record, int64) {
	return func(l *replay.Limit, r *accesslog.Record, peak int64) {
		key := limit{l.Zone, l.Amount}
		if wants[key] == nil {
			wants[key] = make(peaks)
		}
		id := p.id(r)
		wants[key][id] = max(wants[key][id], peak)
	}
}

// demand returns what people want. Who wants far more than most is left aside, and then who wants far more than
// most of the rest, so that no ladder of clients leads up to a limit.
func (w peaks) demand(p *people) (d demand) {
	deciding := maps.Clone(w)
	maps.DeleteFunc(deciding, func(id int, _ int64) bool { return !p.is(id) })
	for n := -1; n != len(deciding); {
		n = len(deciding)
		d.bound = max(farAbove*deciding.ofMost(p), notFar)
		maps.DeleteFunc(deciding, func(_ int, peak int64) bool { return peak > d.bound })
	}
	d.honest = slices.Sorted(maps.Values(deciding))
	d.others = len(w) - len(d.honest)
	return d
}

// ofMost returns the most that is wanted by all but few clients, and in all but few networks.
func (w peaks) ofMost(p *people) (most int64) {
	for i := range (groups{}) {
		highest := make(map[int]int64)
		for id, peak := range w {
			group := p.known[id].groups[i]
			highest[group] = max(highest[group], peak)
		}
		sorted := slices.Sorted(maps.Values(highest))
		if n := len(sorted); n > 0 && (i == 0 || sorted[n-1-few(n)] < most) {
			most = sorted[n-1-few(n)]
		}
	}
	return most
}
