package tally

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// This file reads what metrics have counted, so that operators see the same numbers and
// requests count once.

// counts returns the decisions of a limit since the process began.
func (m limitMeter) counts() operator.Counts {
	c := operator.Counts{
		Allowed: valueOf(m.allowed),
		Blocked: valueOf(m.refused[engine.Blocked]),
		Banned:  valueOf(m.refused[engine.Banned]),

		WouldRefuse: valueOf(m.wouldRefuse),
	}
	c.Refused = c.Blocked + c.Banned + valueOf(m.refused[engine.OverLimit]) + valueOf(m.refused[engine.TooCostly])
	return c
}

// counts returns what statements have decided since the process began.
func (m statementMeter) counts() operator.Counts {
	banned := valueOf(m.banned)
	return operator.Counts{Allowed: valueOf(m.allowed), Refused: banned, Banned: banned}
}

// refused returns how many requests a zone has refused since the process began, those of
// banned clients aside.
func (m zoneMeter) refused() int64 { return valueOf(m.declined) }

// wouldHaveRefused returns how many requests shadow limits of a zone would have refused since the
// process began.
func (m zoneMeter) wouldHaveRefused() int64 { return valueOf(m.wouldRefuse) }

// valueOf returns what a counter has counted, or 0 if there is none.
func valueOf(c prometheus.Counter) int64 {
	if c == nil {
		return 0
	}
	var metric dto.Metric
	if c.Write(&metric) != nil {
		return 0
	}
	return int64(metric.GetCounter().GetValue())
}
