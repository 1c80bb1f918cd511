package enforce

import (
	"time"

	"github.com/caddy-tally/caddy-tally/internal/load"
)

// Load has the measurements of a zone's requests, which all zones of its name share.
type Load struct {
	Rates     []*load.Rate
	Latencies []*load.Latency
}

// isUnderLoad measures a request of a zone, and reports whether the zone applies.
func (e *Evaluation) isUnderLoad(z *Zone) bool {
	now := e.Handler.App.now()
	if z.Load != nil && !e.Dry {
		for _, rate := range z.Load.Rates {
			rate.Add(now)
		}
		if len(z.Load.Latencies) > 0 {
			if e.timing == nil {
				e.timing = &timing{began: time.Now(), now: e.Handler.App.now}
			}
			e.timing.of = append(e.timing.of, z.Load.Latencies...)
		}
	}
	applies := len(z.When) == 0
	for _, s := range z.When { // all of them, since each follows the load
		applies = (e.Dry && s.IsOn() || !e.Dry && s.On(now)) || applies
	}
	return applies
}

// now returns the time for counting.
func (t *Tenant) now() int64 {
	if h := t.Instance.Load(); h != nil {
		return h.Engine.Now()
	}
	return time.Now().UnixNano()
}

// timing measures how long later handlers take until their answer begins.
type timing struct {
	began time.Time
	of    []*load.Latency
	now   func() int64
	ended bool
}

// end notes that the answer begins. Only the first call counts. A nil timing ignores it.
func (t *timing) end() {
	if t == nil || t.ended {
		return
	}
	t.ended = true
	took, now := time.Since(t.began), t.now()
	for _, l := range t.of {
		l.Add(took, now)
	}
}
