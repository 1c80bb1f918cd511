package console

import (
	"fmt"
	"strings"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// What status tells of the last hour.
const (
	lately      = time.Hour
	usually     = 24 * time.Hour // before that, for comparison
	latelyZones = 20             // whose history is read: the first with refusals since the start
	latelyActs  = 5
	fewRefusals = 10 // are never unusual
)

// showLately shows who is over a limit at the moment, which zones have refused more than usual in the last hour,
// and what was done in it. What can't be asked, as the history of a Redis, is left out.
func (s *session) showLately(history bool) {
	if keys, err := s.Keys(s.ctx,
		operator.KeysQuery{Blocked: true, By: operator.ByRefused, N: operator.MaxItems}); err == nil {
		over := wording.Counted(len(keys), "key") + " over a limit"
		switch {
		case len(keys) == 0:
			over = "Nobody is over a limit"
		case len(keys) == operator.MaxItems:
			over = "At least " + over
		}
		s.printf("%s at the moment, as far as memory here knows.", over)
	}
	if history {
		s.showUnusual()
	}
	s.showActs()
}

// showUnusual shows the zones that have refused more than usual.
func (s *session) showUnusual() {
	zones, err := s.Zones(s.ctx)
	if err != nil {
		return
	}
	asked := 0
	for _, z := range zones {
		if z.Refused < fewRefusals || asked == latelyZones {
			continue
		}
		asked++
		now, err := s.countsOf(z.Name, s.now.Add(-lately), s.now)
		before, failed := s.countsOf(z.Name, s.now.Add(-lately-usually), s.now.Add(-lately))
		if err != nil || failed != nil || now.Refused < fewRefusals {
			continue
		}
		if share, usual := refusedShare(now), refusedShare(before); share > 2*usual {
			s.mark(red,
				fmt.Sprintf("Zone %s refused %s in the last hour, %.1f %% of its requests; in the day before %.1f %%.",
					z.Name, wording.Counted(int(now.Refused), "request"), 100*share, 100*usual))
		}
	}
}

// countsOf returns the decisions of a zone in a time, by the history.
func (s *session) countsOf(zone string, from, to time.Time) (sum operator.Counts, err error) {
	past, err := s.History(s.ctx, operator.HistoryQuery{Zone: zone, From: from, To: to})
	for _, p := range past.Points {
		sum.Add(p.Counts)
	}
	return sum, err
}

func refusedShare(c operator.Counts) float64 {
	return float64(c.Refused) / float64(max(c.Allowed+c.Refused, 1))
}

// showActs shows the last acts of operators, and reloads.
func (s *session) showActs() {
	acts, err := s.Audit(s.ctx, operator.AuditQuery{N: operator.MaxItems})
	if err != nil {
		return
	}
	recent := 0
	for recent < len(acts) && acts[recent].At.After(s.now.Add(-lately)) {
		recent++
	}
	for _, act := range acts[:min(recent, latelyActs)] {
		text := fmt.Sprintf("%s ago: %s by %s", span(s.now.Sub(act.At)),
			strings.TrimSpace(act.Action+" "+act.Target), act.By)
		if act.Reason != "" {
			text += " (" + act.Reason + ")"
		}
		s.printf("%s.", printable(text))
	}
	if recent > latelyActs {
		s.printf("%s more in the last hour: caddy rate-limit audit lists them.",
			wording.Counted(recent-latelyActs, "act"))
	}
}
