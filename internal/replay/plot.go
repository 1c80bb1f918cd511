package replay

import (
	"fmt"
	"math"
	"slices"
	"sort"
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
	Limit   *movable
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
	p.Bars = append(p.Bars, bar{class, fmt.Sprint(column*barRoom + 1), fmt.Sprintf("%.2f", 100-above-height),
		fmt.Sprint(barRoom - 2), fmt.Sprintf("%.2f", height)})
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
	p.Caption = fmt.Sprintf("Requests over time: green passes, red would be refused. The highest bar is %s in %s.",
		wording.Number(most), t.Step)
	p.Label = fmt.Sprintf("Requests over time, at most %s in %s, %s of all refused", wording.Number(most), t.Step,
		percent(l.Refused, l.Requests))
	return p
}

// plotPeaks plots the distribution of clients' peaks, honest ones below the others, with the limit as a
// line that can be moved. The heights are logarithmic, so that one client is visible beside a million.
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
		over := ""
		if s.UpTo > l.Amount {
			over = " over"
		}
		all, part := p.logHeight(i, s.Clients, most), float64(s.Honest)/float64(max(s.Clients, 1))
		p.add(i, "honest"+over, 0, all*part)
		p.add(i, "others"+over, all*part, all*(1-part))
	}
	p.Limit = l.limitLine()
	p.Axis = ends(len(l.Peaks.Steps), func(i int) string { return wording.Number(l.Peaks.Steps[i].UpTo) })
	p.Caption = fmt.Sprintf("Clients by their peak, the most that each wanted in one window (logarithmic heights); below in green are those that weren't mostly answered with 400, 401, 403 or 404. Right of the line they would be refused. 99 %% of clients want at most %s, 99.9 %% at most %s; the highest peak is %s.",
		wording.Number(l.Peaks.P99), wording.Number(l.Peaks.P999), wording.Number(l.Peaks.Max))
	p.Label = fmt.Sprintf("Clients by their peak: half want at most %s, 99 %% at most %s, all at most %s",
		wording.Number(l.Peaks.P50), wording.Number(l.Peaks.P99), wording.Number(l.Peaks.Max))
	return p
}

// movable is the line of a limit, which is at one of several amounts.
type movable struct {
	Steps []movedTo
	At    int // the configured one
}

// movedTo is an amount of a limit: the place of its line, its name and its effect.
type movedTo struct {
	X      float64 `json:"x"`
	Name   string  `json:"name"`
	Effect string  `json:"effect"`
}

// limitLine returns the line of the limit in the plot of its peaks.
func (l *LimitReport) limitLine() *movable {
	m := new(movable)
	for i, a := range l.moves {
		if a.Own {
			m.At = i
		}
		x := float64(len(l.Peaks.Steps) * barRoom)
		if a.Clients > 0 {
			x = l.placeOf(a.Amount)
		}
		m.Steps = append(m.Steps, movedTo{x, wording.Number(a.Amount), l.effect(a)})
	}
	return m
}

// placeOf returns where an amount that refuses clients is in the plot of peaks: in the column of the peaks up to it, as
// far right as the amount is between those of the columns.
func (l *LimitReport) placeOf(amount int64) float64 {
	steps := l.Peaks.Steps
	column := sort.Search(len(steps)-1, func(i int) bool { return steps[i].UpTo >= amount })
	upTo, above := steps[column].UpTo, int64(0)
	if at, _ := slices.BinarySearch(round, upTo); at > 0 {
		above = round[at-1]
	}
	part := max(float64(amount-above)/float64(upTo-above), 0)
	return math.Round((float64(column)+part)*barRoom*10) / 10
}

// effect describes what another amount would refuse.
func (l *LimitReport) effect(a Amount) string {
	text := fmt.Sprintf("A limit of %s would refuse %s of %s", wording.Number(a.Amount), wording.Number(a.Clients),
		wording.Counted(l.Clients, "client"))
	if a.Clients == 0 {
		return text + "."
	}
	return text + fmt.Sprintf("; %s of these weren't mostly answered with 400, 401, 403 or 404.",
		wording.Number(a.Honest))
}

// logHeight returns the height of a bar for n, and makes room for it.
func (p *plot) logHeight(column int, n, most int64) float64 {
	if p.Width = (column + 1) * barRoom; n == 0 {
		return 0
	}
	return 4 + 96*math.Log1p(float64(n))/math.Log1p(float64(most))
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
