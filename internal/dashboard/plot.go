package dashboard

import (
	"encoding/json"
	"math"
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
		path.WriteString(command + strconv.FormatFloat(round2(x), 'f', -1, 64) + " " + strconv.FormatFloat(round2(y), 'f', -1, 64))
	}
	return path.String()
}
