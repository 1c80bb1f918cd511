package replay

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// Condition makes a replay fail, such as refused>0.1%.
type Condition struct {
	text    string
	zone    string // "" for all
	metric  string
	most    float64
	percent bool
}

// metrics are the metrics of conditions.
var metrics = []string{"refused", "clients", "would_refuse", "denied", "unreadable", "skipped"}

// ParseCondition parses a condition: a metric of all zones or of one, and its maximum.
func ParseCondition(text string) (c Condition, err error) {
	c.text = text
	left, right, found := strings.Cut(text, ">")
	left, right = strings.TrimSpace(left), strings.TrimSpace(right)
	if zone, metric, ofZone := strings.Cut(left, ":"); ofZone {
		c.zone, left = zone, metric
	}
	c.metric = left
	right, c.percent = strings.CutSuffix(right, "%")
	c.most, err = strconv.ParseFloat(strings.TrimSpace(right), 64)
	if !found || err != nil || !(c.most >= 0) || !slices.Contains(metrics, c.metric) || c.zone != "" && !slices.Contains([]string{"refused", "clients", "would_refuse"}, c.metric) {
		return c, fmt.Errorf("got %q: expected such as refused>0.1%%, clients>10 or login:refused>0; there are %s", text, strings.Join(metrics, ", "))
	}
	return c, nil
}

// Zone returns the condition's zone, or "" for all.
func (c Condition) Zone() string { return c.zone }

// Check returns an error if a report exceeds the condition's maximum, or nil.
func (c Condition) Check(p *Report) error {
	n, all := c.measure(p)
	value, amount := float64(n), wording.Number(n)
	if c.percent {
		value, amount = 100*float64(n)/float64(max(all, 1)), amount+" of "+wording.Number(all)+" ("+percent(n, all)+")"
	}
	if value <= c.most {
		return nil
	}
	what := c.metric
	if c.metric == "clients" {
		what = "refused clients"
	}
	if c.zone != "" {
		what += " of zone " + c.zone
	}
	return fmt.Errorf("%s: %s, which --fail-if %q doesn't allow", what, amount, c.text)
}

// measure returns the value of the condition's metric, and the total that it is a part of.
func (c Condition) measure(p *Report) (n, all int64) {
	switch c.metric {
	case "denied":
		return p.Denied, p.Requests
	case "unreadable":
		return p.Log.Bad, p.Log.Lines
	case "skipped":
		return p.Skipped, p.Requests
	}
	for _, l := range p.Limits {
		if c.zone != "" && l.Zone != c.zone || l.Shadow != (c.metric == "would_refuse") {
			continue
		}
		if c.metric == "clients" {
			n, all = n+l.Hit, max(all, l.Clients)
		} else {
			n, all = n+l.Refused, max(all, l.Requests)
		}
	}
	switch {
	case c.metric == "refused" && c.zone == "":
		return p.Refused, p.Requests
	case c.metric == "would_refuse" && c.zone == "":
		return p.Would, p.Requests
	}
	return n, all
}
