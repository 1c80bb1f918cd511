package dashboard

import (
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// nowPage shows the current state.
type nowPage struct {
	Status     operator.Status
	Zones      []operator.Zone
	Zone       string // the plotted zone; "" for all
	Refused    operator.Refusals
	Properties []property // some of those that refused requests share
	Totals     operator.Counts
	Blocked    []operator.Key
	Missing    string // why the blocked clients are unknown; "" if they are known
	Plot       Plot
	Minute     operator.Counts // the last whole one
	Known      bool            // Minute is set
}

const (
	blockedShown = 10
	refusedShown = 8 // as in live.js
)

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
	p.Blocked, err = service.Keys(ctx, operator.KeysQuery{Blocked: true, By: operator.ByRefused, N: blockedShown})
	if known, ok := errors.AsType[*operator.Error](err); ok {
		p.Missing = known.Message
	} else if err != nil {
		return nil, err
	}
	p.Totals = p.Status.Requests
	for _, zone := range p.Zones {
		if zone.Name == v.r.URL.Query().Get("zone") {
			p.Zone = zone.Name
		}
	}
	if p.Missing == "" {
		if p.Refused, err = service.Refusals(ctx, operator.RefusalsQuery{Zone: p.Zone}); err != nil {
			return nil, err
		}
		p.Refused.Latest = p.Refused.Latest[:min(len(p.Refused.Latest), refusedShown)]
		query := url.Values{}
		if p.Zone != "" {
			query.Set("zone", p.Zone)
		}
		for _, shared := range v.propertiesOf(&p.Refused, query) {
			shared.Shares = slices.DeleteFunc(shared.Shares, func(s shareRow) bool { return s.Refused == 0 })
			if len(shared.Shares) > 0 && (shared.Name == "path" || shared.Name == "agent") {
				p.Properties = append(p.Properties, shared)
			}
		}
	}
	p.Plot = Plot{Per: "second", Zone: p.Zone, Live: true}
	if p.Status.History {
		v.lastMinutes(&p)
	}
	return p, nil
}

// lastMinutes fills in the last quarter of an hour, per second, which the live plot continues. It
// does nothing if there is no history.
func (v *visit) lastMinutes(p *nowPage) {
	to := v.Now.Truncate(time.Minute)
	from := to.Add(-15 * time.Minute)
	h, err := v.d.options.Service.History(v.r.Context(),
		operator.HistoryQuery{Zone: p.Zone, From: from, To: to, Resolution: 60})
	if err != nil {
		return
	}
	p.Plot.Points = densePoints(h, from, to)
	p.Plot.Marks = v.marks(from, v.Now)
	if p.Zone != "" {
		h, err = v.d.options.Service.History(v.r.Context(), operator.HistoryQuery{From: from, To: to, Resolution: 60})
	}
	for i := range p.Plot.Points {
		p.Plot.Points[i].Allowed /= 60
		p.Plot.Points[i].Refused /= 60
	}
	if n := len(h.Points); err == nil && n > 0 && h.Points[n-1].At.After(to.Add(-3*time.Minute)) &&
		!h.Points[n-1].At.Before(p.Status.Started) {
		p.Minute, p.Known = h.Points[n-1].Counts, true
	}
}
