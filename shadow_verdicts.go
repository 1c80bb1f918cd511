package tally

import (
	"slices"
	"strings"
	"sync"

	"github.com/caddy-tally/caddy-tally/internal/history"
	"github.com/caddy-tally/caddy-tally/internal/meter"
)

// shadowVerdicts is what shadow limits have decided about a request. It may be used after the
// request has ended, by any number of goroutines.
type shadowVerdicts struct {
	mu        sync.Mutex
	zones     []*zone       // guarded by mu: whose shadow limits decide
	refusedBy []*policy     // guarded by mu: the limits that would have refused it
	waits     []shadowAwait // guarded by mu: decisions that were not made at once
	room      [2]*zone      // of zones
}

// shadowAwait is a decision that waits for the store.
type shadowAwait struct {
	zone *zone
	done chan struct{} // closed when it is made
}

// shadowVar is the request variable that holds the verdicts of all handlers.
const shadowVar = "rate_limit.shadow"

// shadowVerdicts returns the verdicts about the request, for those of its shadow limits to be
// added.
func (e *evaluation) shadowVerdicts() *shadowVerdicts {
	v, ok := e.vars[shadowVar].(*shadowVerdicts)
	if !ok {
		v = new(shadowVerdicts)
		v.zones = v.room[:0]
		e.vars[shadowVar] = v
		e.repl.Map(v.placeholder)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range e.shadows.policies {
		if n := len(v.zones); n == 0 || v.zones[n-1] != p.zone {
			v.zones = append(v.zones, p.zone)
		}
	}
	return v
}

// wouldRefuse notes that a limit would have refused the request, and counts that once for its
// zone.
func (v *shadowVerdicts) wouldRefuse(by *policy) {
	v.mu.Lock()
	first := !slices.ContainsFunc(v.refusedBy, func(p *policy) bool { return p.zone == by.zone })
	v.refusedBy = append(v.refusedBy, by)
	v.mu.Unlock()
	if first {
		by.zone.meter.WouldRefuse.Inc()
		by.zone.past.WouldRefuse(history.Key{})
	}
}

// await notes that a zone has yet to decide, until done is called.
func (v *shadowVerdicts) await(z *zone) (done func()) {
	a := shadowAwait{z, make(chan struct{})}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.waits = append(v.waits, a)
	return func() { close(a.done) }
}

// all returns the limits that would have refused the request. It waits for decisions that are yet
// to be made, at most for as long as requests wait for the store.
func (v *shadowVerdicts) all() []*policy {
	v.awaitThose(func(*zone) bool { return true })
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.refusedBy)
}

// awaitThose waits for the decisions of some zones.
func (v *shadowVerdicts) awaitThose(of func(*zone) bool) {
	v.mu.Lock()
	waits := slices.Clone(v.waits)
	v.mu.Unlock()
	for _, w := range waits {
		if of(w.zone) {
			<-w.done
		}
	}
}

// namesOf returns the names of the limits of a zone that would have refused the request, or false
// if the zone has no shadow limit for it. It waits as [shadowVerdicts.all] does.
func (v *shadowVerdicts) namesOf(name string) (names []string, decides bool) {
	is := func(z *zone) bool { return z.Name == name }
	v.awaitThose(is)
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, p := range v.refusedBy {
		if is(p.zone) {
			names = append(names, p.name)
		}
	}
	return names, slices.ContainsFunc(v.zones, is)
}

// wouldRefuseSuffix ends the name of the placeholder of a zone.
const wouldRefuseSuffix = "." + meter.WouldRefuse

// placeholder resolves `http.rate_limit.<zone>.would_refuse`: the names of the limits that would
// have refused the request.
func (v *shadowVerdicts) placeholder(key string) (any, bool) {
	zone, ours := strings.CutPrefix(key, ourPlaceholders)
	zone, asked := strings.CutSuffix(zone, wouldRefuseSuffix)
	if !ours || !asked {
		return nil, false
	}
	names, decides := v.namesOf(zone)
	return strings.Join(names, ", "), decides
}

// ourPlaceholders begins the names of our placeholders.
const ourPlaceholders = "http.rate_limit."
