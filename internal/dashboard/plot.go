package dashboard

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// Plot is a plot of allowed and refused requests. Templates call its methods.
type Plot struct {
	Per    string // the unit of a point: a second, minute, hour or day
	Zone   string // the plotted zone; "" for all
	Live   bool   // it is updated while displayed
	Points []plotPoint
	Marks  []mark // what was done meanwhile, the latest first
}

// mark is something that was done, and may explain a change in a plot.
type mark struct {
	At   time.Time
	Text string
}

// maxMarks bounds the marks of a plot.
const maxMarks = 100

// marks returns what operators, reloads and automatic bans have done in a time. What can't be asked is left out.
func (v *visit) marks(from, to time.Time) (marks []mark) {
	ctx, service := v.r.Context(), v.d.options.Service
	add := func(at time.Time, text string) {
		if !at.Before(from) && at.Before(to) {
			marks = append(marks, mark{at, text})
		}
	}
	acts, err := service.Audit(ctx, operator.AuditQuery{Before: to, N: operator.MaxItems})
	for _, act := range acts {
		text := fmt.Sprintf("%s %s, by %s", cmp.Or(actionTexts[act.Action], act.Action), v.Say(act.Target), act.By)
		if act.Reason != "" {
			text += ": " + v.Say(act.Reason)
		}
		if act.Action != "reveal" && act.Action != "explain" {
			add(act.At, text)
		}
	}
	bans, failed := service.Bans(ctx)
	for _, ban := range bans {
		if ban.By == "conduct" && ban.Since != nil {
			who := v.Who(ban.Text, "", ban.Tag)
			add(*ban.Since, strings.TrimSpace("Banned for violations: "+who.Text+" "+who.Tag))
		}
	}
	if err != nil || failed != nil {
		return nil
	}
	slices.SortStableFunc(marks, func(a, b mark) int { return b.At.Compare(a.At) })
	return marks[:min(len(marks), maxMarks)]
}

// MarksJSON returns the marks as pairs of seconds since 1970 and a text, for the module.
func (p Plot) MarksJSON() (string, error) {
	pairs := [][2]any{}
	for _, m := range p.Marks {
		pairs = append(pairs, [2]any{m.At.Unix(), m.Text})
	}
	text, err := json.Marshal(pairs)
	return string(text), err
}

// MarksPath returns the marks as lines of an SVG path.
func (p Plot) MarksPath() string {
	var path strings.Builder
	if len(p.Points) > 1 {
		first, last := p.Points[0].At, p.Points[len(p.Points)-1].At
		for _, m := range p.Marks {
			if x := drawnWidth * m.At.Sub(first).Seconds() / last.Sub(first).Seconds(); x >= 0 && x <= drawnWidth {
				fmt.Fprintf(&path, "M%g 0V%d", round2(x), drawnHeight)
			}
		}
	}
	return path.String()
}

// plotPoint is the number of decisions in a unit of time.
type plotPoint struct {
	At               time.Time
	Allowed, Refused float64
}

// densePoints returns the points of a history, with zeros for gaps. It returns nil for an empty
// history. It omits up to two missing points at the end, which may not have been written yet.
func densePoints(h operator.History, from, to time.Time) []plotPoint {
	step := h.Resolution.Duration()
	if step <= 0 || to.Sub(from)/step > 4000 || len(h.Points) == 0 {
		return nil
	}
	var points []plotPoint
	next := 0
	for at := from; at.Before(to); at = at.Add(step) {
		point := plotPoint{At: at}
		for ; next < len(h.Points) && h.Points[next].At.Before(at.Add(step)); next++ {
			point.Allowed += float64(h.Points[next].Allowed)
			point.Refused += float64(h.Points[next].Refused)
		}
		points = append(points, point)
	}
	last := h.Points[len(h.Points)-1].At
	for late := 0; late < 2 && len(points) > 0 && last.Before(points[len(points)-1].At); late++ {
		points = points[:len(points)-1]
	}
	return points
}

// JSON returns the points as three arrays for the module: seconds since 1970, allowed, refused.
func (p Plot) JSON() (string, error) {
	columns := [3][]float64{{}, {}, {}}
	for _, point := range p.Points {
		columns[0] = append(columns[0], float64(point.At.Unix()))
		columns[1] = append(columns[1], round2(point.Allowed))
		columns[2] = append(columns[2], round2(point.Refused))
	}
	text, err := json.Marshal(columns)
	return string(text), err
}

func round2(f float64) float64 { return math.Round(f*100) / 100 }

// Size of the drawing for browsers without scripts.
const (
	drawnWidth  = 1000
	drawnHeight = 240
)

// Top returns the value at the upper edge of the drawing: a round number.
func (p Plot) Top() float64 {
	top := 1.0
	for _, point := range p.Points {
		top = max(top, point.Allowed, point.Refused)
	}
	magnitude := math.Pow(10, math.Floor(math.Log10(top)))
	for _, factor := range []float64{1, 2, 5} {
		if top <= factor*magnitude {
			return factor * magnitude
		}
	}
	return 10 * magnitude
}

// AllowedPath returns the line of allowed requests as an SVG path.
func (p Plot) AllowedPath() string {
	return p.path(func(point plotPoint) float64 { return point.Allowed })
}

// RefusedPath returns the line of refused requests as an SVG path.
func (p Plot) RefusedPath() string {
	return p.path(func(point plotPoint) float64 { return point.Refused })
}

func (p Plot) path(value func(plotPoint) float64) string {
	var path strings.Builder
	top := p.Top()
	for i, point := range p.Points {
		command := " L"
		if i == 0 {
			command = "M"
		}
		x := drawnWidth * float64(i) / float64(max(len(p.Points)-1, 1))
		y := drawnHeight * (1 - value(point)/top)
		path.WriteString(command + strconv.FormatFloat(round2(x), 'f', -1, 64) + " " +
			strconv.FormatFloat(round2(y), 'f', -1, 64))
	}
	return path.String()
}
