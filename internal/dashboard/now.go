package dashboard

import (
	"time"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// nowPage is what happens at the moment.
type nowPage struct {
	Status  operator.Status
	Zones   []operator.Zone
	Totals  operator.Counts
	Blocked []operator.Key
	Plot    Plot
}

const blockedShown = 10

func loadNow(v *visit) (any, error) {
	ctx, service := v.r.Context(), v.d.options.Service
	var p nowPage
	var err error
	if p.Status, err = service.Status(ctx); err != nil {
		return nil, err
	}
	if p.Zones, err = service.Zones(ctx); err != nil {
		return nil, err
	}
	if p.Blocked, err = service.Keys(ctx, operator.KeysQuery{Blocked: true, By: operator.ByRefused, N: blockedShown}); err != nil {
		return nil, err
	}
	for _, zone := range p.Zones {
		p.Totals = add(p.Totals, zone.Counts)
	}
	p.Plot = Plot{Per: "second", Live: true}
	if p.Status.History {
		p.Plot.Points = v.lastMinutes()
	}
	return p, nil
}

func add(a, b operator.Counts) operator.Counts {
	return operator.Counts{
		Allowed: a.Allowed + b.Allowed, Refused: a.Refused + b.Refused, Blocked: a.Blocked + b.Blocked,
		Banned: a.Banned + b.Banned, WouldRefuse: a.WouldRefuse + b.WouldRefuse,
	}
}

// lastMinutes returns the last quarter of an hour, per second, which the live plot goes on
// from; nothing if it can't be had.
func (v *visit) lastMinutes() []Point {
	to := v.now.Truncate(time.Minute)
	from := to.Add(-15 * time.Minute)
	h, err := v.d.options.Service.History(v.r.Context(), operator.HistoryQuery{From: from, To: to, Resolution: 60})
	if err != nil {
		return nil
	}
	points := densePoints(h, from, to)
	for i := range points {
		points[i].Allowed /= 60
		points[i].Refused /= 60
	}
	return points
}
