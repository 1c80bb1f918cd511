package report

import (
	"time"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
)

const DecisionsPerSecond = decisionsPerSecond

func (r *Reporter) Refused(v *enforce.Verdict, of *enforce.Refusal, now func() time.Time) {
	r.Decisions.refused(v, of, now)
}
