package dashboard

import (
	"cmp"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// span is a selectable period.
type span struct {
	Name, Text string
	length     time.Duration
	resolution time.Duration
	Per        string // the unit of a point
}

// spans are the selectable periods; the first is the default.
var spans = []span{
	{"1h", "1 hour", time.Hour, time.Minute, "minute"},
	{"6h", "6 hours", 6 * time.Hour, time.Minute, "minute"},
	{"24h", "24 hours", 24 * time.Hour, time.Hour, "hour"},
	{"7d", "7 days", 7 * 24 * time.Hour, time.Hour, "hour"},
	{"30d", "30 days", 30 * 24 * time.Hour, time.Hour, "hour"},
	{"1y", "1 year", 365 * 24 * time.Hour, 24 * time.Hour, "day"},
}

// historyPage shows past decisions.
type historyPage struct {
	sorting
	On       bool // the history is kept
	Zones    []string
	Zone     string
	Spans    []span
	Span     span
	Totals   operator.Counts
	Plot     Plot
	Points   []operator.HistoryPoint // the newest first
	Heaviest []operator.Heavy
}

func loadHistory(v *visit) (any, error) {
	ctx, service := v.r.Context(), v.d.options.Service
	status, err := service.Status(ctx)
	if err != nil {
		return nil, err
	}
	zones, err := service.Zones(ctx)
	if err != nil {
		return nil, err
	}
	q := v.r.URL.Query()
	p := historyPage{sorting: sortingOf("history", q, "units", "refused"), On: status.History, Zones: zoneNames(zones),
		Zone: q.Get("zone"), Spans: spans, Span: spanNamed(q.Get("range"))}
	if !p.On {
		return p, nil
	}
	to := v.Now.Truncate(p.Span.resolution).Add(p.Span.resolution)
	from := to.Add(-p.Span.length)
	h, err := service.History(ctx,
		operator.HistoryQuery{Zone: p.Zone, From: from, To: to, Resolution: operator.SecondsOf(p.Span.resolution)})
	if err != nil {
		return nil, err
	}
	p.fill(h, from, to)
	p.Plot.Marks = v.marks(from, to)
	return p, nil
}

func spanNamed(name string) span {
	return spans[max(slices.IndexFunc(spans, func(s span) bool { return s.Name == name }), 0)]
}

// maxRows bounds the rows of the table below the plot.
const maxRows = 200

func (p *historyPage) fill(h operator.History, from, to time.Time) {
	complete := to.Add(-p.Span.resolution) // an incomplete point would look like a drop
	p.Plot = Plot{Per: p.Span.Per, Points: densePoints(h, from, complete)}
	slices.SortStableFunc(h.Heaviest, func(a, b operator.Heavy) int {
		if p.By == "refused" {
			return cmp.Compare(b.Refused, a.Refused)
		}
		return cmp.Compare(b.Units, a.Units)
	})
	p.Heaviest = h.Heaviest[:min(len(h.Heaviest), 20)]
	for i := len(h.Points) - 1; i >= 0; i-- {
		p.Totals.Add(h.Points[i].Counts)
		if len(p.Points) < maxRows {
			p.Points = append(p.Points, h.Points[i])
		}
	}
}

// Estimates reports whether some keys' numbers are estimates.
func (p historyPage) Estimates() bool {
	return slices.ContainsFunc(p.Heaviest, func(h operator.Heavy) bool { return !h.Exact })
}
