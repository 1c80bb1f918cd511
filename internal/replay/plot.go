package replay

import (
	"fmt"
	"math"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// plot is a bar chart of height 100.
type plot struct {
	Width   int
	Bars    []bar
	Axis    []string // labels of the axis, evenly spaced
	Caption string
	Label   string // description for users of screen readers
}

type bar struct {
	Class      string
	X, Y, W, H string
}

// barRoom is the width of a bar with its margin.
const barRoom = 10

// add adds a bar to a column, on top of height above.
func (p *plot) add(column int, class string, above, height float64) {
	if height <= 0 {
		return
	}
	p.Bars = append(p.Bars, bar{class, fmt.Sprint(column*barRoom + 1), fmt.Sprintf("%.2f", 100-above-height), fmt.Sprint(barRoom - 2), fmt.Sprintf("%.2f", height)})
	p.Width = max(p.Width, (column+1)*barRoom)
}

// plotTimeline plots passed and refused requests over time.
func plotTimeline(l LimitReport) *plot {
	t := l.Timeline
	if t == nil || len(t.Steps) < 2 {
		return nil
	}
	most := int64(1)
	for _, m := range t.Steps {
		most = max(most, m.Passed+m.Refused)
	}
	p := &plot{Width: len(t.Steps) * barRoom}
	for i, m := range t.Steps {
		passed := 100 * float64(m.Passed) / float64(most)
		p.add(i, "passed", 0, passed)
		p.add(i, "refused", passed, 100*float64(m.Refused)/float64(most))
	}
	end := t.From.Add(t.step * time.Duration(len(t.Steps)))
	p.Axis = []string{clockText(&t.From), clockText(&end)}
	p.Caption = fmt.Sprintf("Requests over time: green passes, red would be refused. The highest bar is %s in %s.", wording.Number(most), t.Step)
	p.Label = fmt.Sprintf("Requests over time, at most %s in %s, %s of all refused", wording.Number(most), t.Step, percent(l.Refused, l.Requests))
	return p
}

// plotPeaks plots the distribution of clients' peaks. The heights are logarithmic, so that one
// client is visible beside a million.
func plotPeaks(l LimitReport) *plot {
	if l.Peaks == nil || len(l.Peaks.Steps) == 0 {
		return nil
	}
	most := int64(1)
	for _, s := range l.Peaks.Steps {
		most = max(most, s.Clients)
	}
	p := new(plot)
	for i, s := range l.Peaks.Steps {
		class := "bar"
		if s.UpTo > l.Amount {
			class = "refused"
		}
		p.addLog(i, class, s.Clients, most)
	}
	p.Axis = ends(len(l.Peaks.Steps), func(i int) string { return wording.Number(l.Peaks.Steps[i].UpTo) })
	p.Caption = fmt.Sprintf("Clients by their peak, the most that each wanted in one window (logarithmic heights). 99 %% of clients want at most %s, 99.9 %% at most %s; the highest peak is %s.",
		wording.Number(l.Peaks.P99), wording.Number(l.Peaks.P999), wording.Number(l.Peaks.Max))
	p.Label = fmt.Sprintf("Clients by their peak: half want at most %s, 99 %% at most %s, all at most %s", wording.Number(l.Peaks.P50), wording.Number(l.Peaks.P99), wording.Number(l.Peaks.Max))
	return p
}

// plotAmounts plots how many clients smaller and larger limits would refuse.
func plotAmounts(l LimitReport) *plot {
	if len(l.Amounts) == 0 {
		return nil
	}
	most := int64(1)
	for _, a := range l.Amounts {
		most = max(most, a.Clients)
	}
	p := new(plot)
	for i, a := range l.Amounts {
		class := "bar"
		if a.Own {
			class = "own"
		}
		p.addLog(i, class, a.Clients, most)
	}
	p.Axis = ends(len(l.Amounts), func(i int) string { return wording.Number(l.Amounts[i].Amount) })
	p.Caption = fmt.Sprintf("Clients that a limit of so many would refuse (logarithmic heights); blue is the configured %s. The table has the numbers.", wording.Number(l.Amount))
	p.Label = "Clients that smaller and larger limits would refuse; the table below has the numbers"
	return p
}

// addLog adds a bar for n, whose height is logarithmic relative to one for most.
func (p *plot) addLog(column int, class string, n, most int64) {
	if p.Width = (column + 1) * barRoom; n > 0 {
		p.add(column, class, 0, 4+96*math.Log1p(float64(n))/math.Log1p(float64(most)))
	}
}

// ends returns the text of the first, the middle and the last of some columns.
func ends(n int, text func(int) string) []string {
	switch {
	case n == 1:
		return []string{text(0)}
	case n < 5:
		return []string{text(0), text(n - 1)}
	}
	return []string{text(0), text(n / 2), text(n - 1)}
}
