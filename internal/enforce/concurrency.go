package enforce

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/gate"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// Concurrency bounds how many requests of a key of a zone may be in flight at a time.
type Concurrency struct {
	gate.Rule
	Policy *Policy // stands for a limit when it refuses a request
	// Ceiling times Policy's bound is that of all unverified clients of a network; 0 in zones that don't count per
	// client.
	Ceiling int64
	Gate    *gate.Gate
}

// NewConcurrency returns the bound on a zone's requests in flight. Its limit has a name and an ID.
func NewConcurrency(z *Zone, countedAs, name string, limit engine.Limit, rule gate.Rule, ceiling int64) *Concurrency {
	p := NewPolicy(name, limit)
	p.Shadow = z.RefusesNothing
	p.Join(z, new(LimitSet))
	c := &Concurrency{rule, p, ceiling, gate.Named(countedAs)}
	c.SetMost(rule.Most)
	return c
}

// SetMost changes the number of requests, before any is served.
func (c *Concurrency) SetMost(most int64) {
	c.Most = most
	c.Policy.Field = fmt.Sprintf("%s;q=%d;qu=\"concurrent-requests\"", httpfield.String(c.Policy.Name), most)
	c.Policy.Item.Set.Field = c.Policy.Field
}

// busyRetry is the Retry-After of a request that finds no free place. It isn't known when one
// becomes free.
const busyRetry = time.Second

// place is a place that a request takes, or wants to take.
type place struct {
	*Concurrency
	rule gate.Rule
	key  string
	left int64 // places left when it was taken
}

// wantPlaces notes the places that the request needs in a zone that counts it by a key.
func (z *Zone) wantPlaces(e *Evaluation, key []byte) {
	c := z.Concurrency
	if c == nil {
		return
	}
	site := ""
	if z.Sites != nil {
		site = z.site(e.Http.Host) + "\x00"
	}
	to := &e.places
	if z.RefusesNothing {
		to = &e.tried
	}
	*to = append(*to, place{c, c.Rule, site + string(key), 0})
	if z.Per == PerClient && e.Client.usesNetwork() {
		ceiling := c.Rule
		ceiling.Times = c.Ceiling
		*to = append(*to, place{c, ceiling, site + string(e.Client.networkSubject.Key), 0})
	}
}

// tryPlaces takes the places of zones in shadow, for a request that passes. If one isn't free, the
// zone would refuse the request, or make it wait; it passes without a place, as if it weren't there.
func (e *Evaluation) tryPlaces(v *ShadowVerdicts, report func(*ShadowDecision)) {
	for i := 0; i < len(e.tried); {
		from, c := i, e.tried[i].Concurrency
		for i < len(e.tried) && e.tried[i].Concurrency == c {
			i++
		}
		if tryZone(e.Http.Context(), e.tried[from:i]) {
			e.places, e.entered = append(e.places, e.tried[from:i]...), true
			continue
		}
		reportShadow(report, v,
			ShadowDecision{Decision: engine.Decision{Retry: busyRetry}, Policies: []*Policy{c.Policy}})
	}
}

// tryZone takes all places of one zone that are free now, or none.
func tryZone(ctx context.Context, places []place) bool {
	for i, p := range places {
		now := p.rule
		now.Wait = 0
		if _, err := p.Gate.Enter(ctx, p.key, nil, now, nil); err != nil {
			leave(places[:i])
			return false
		}
	}
	return true
}

// enter takes all places that the request needs, or none. It returns an error if the client has gone.
func (e *Evaluation) enter() error {
	for i := range e.places {
		p := &e.places[i]
		n, err := e.awaitPlace(p.Policy.Zone, p.Gate, p.key, p.rule)
		if err == nil {
			p.left = n
			continue
		}
		if e.places = e.places[:i]; !e.forecasts {
			e.leave()
		}
		switch {
		case err != gate.ErrFull:
			return e.breakOff()
		case n > 0 && e.Handler.Answer.ShowsPage(e.Http):
			e.Outcome, e.Waiting = Postponed, n
			return nil
		}
		e.refuseBusy(p.Concurrency)
		return nil
	}
	e.entered = len(e.places) > 0 && !e.forecasts
	return nil
}

// leave gives back the places of a request that goes no further.
func (v *Verdict) leave() {
	leave(v.places)
	v.places, v.entered = v.places[:0], false
}

func leave(places []place) {
	for _, p := range places {
		p.Gate.Leave(p.key)
	}
}

// Entered returns the bounds in which a passing request has taken a place.
func (v *Verdict) Entered(yield func(*Concurrency) bool) {
	if !v.entered {
		return
	}
	for i, p := range v.places {
		if i > 0 && p.Concurrency == v.places[i-1].Concurrency {
			continue // the bound of its network
		}
		if !yield(p.Concurrency) {
			return
		}
	}
}

// takePlaces returns the places of a passing request, which leaves them when it returns.
func (v *Verdict) takePlaces() []place {
	if !v.entered {
		return nil
	}
	v.entered = false
	return slices.Clone(v.places)
}

// Counts reports whether a limit of a zone counts the request.
func (v *Verdict) Counts(z *Zone) bool {
	isOfZone := func(p *Policy) bool { return p.Zone == z }
	return slices.ContainsFunc(v.Policies, isOfZone) || slices.ContainsFunc(v.Shadows.Policies, isOfZone)
}

// refuseBusy refuses a request that finds no free place, and charges nothing else for it.
func (e *Evaluation) refuseBusy(by *Concurrency) {
	e.Busy, e.Decision = by, engine.Decision{Reason: engine.OverLimit, Debit: -1, Retry: busyRetry}
	e.refuse(Refusal{Policy: by.Policy, Retry: e.Handler.Spread(busyRetry, &by.Policy.Rate), Reason: engine.OverLimit,
		Fresh: true})
	e.Response.Add(answer.Status{Item: &by.Policy.Item, Quota: limiter.Quota{Reset: busyRetry}, Used: by.Most})
}

// addPlaces adds the number of places left in each zone. It doesn't tell when places become free.
func addPlaces(to *answer.Response, places []place) {
	for i, at := range places {
		if i == 0 || at.Concurrency != places[i-1].Concurrency {
			left := min(at.left, at.Most)
			to.Add(answer.Status{Item: &at.Policy.Item, Quota: limiter.Quota{Remaining: left, Reset: limiter.Never},
				Used: at.Most - left})
		}
	}
}
