package dashboard

import (
	"strconv"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// auditPage lists the actions of operators.
type auditPage struct {
	Acts  []operator.Act
	Older string // the query's value for older entries; "" at the end
	Newer bool   // there are newer entries
}

const actsShown = 50

func loadAudit(v *visit) (any, error) {
	q := operator.AuditQuery{N: actsShown}
	before, err := strconv.ParseInt(v.r.URL.Query().Get("before"), 10, 64)
	if err == nil && before > 0 {
		q.Before = time.UnixMilli(before)
	}
	acts, err := v.d.options.Service.Audit(v.r.Context(), q)
	p := auditPage{Acts: acts, Newer: !q.Before.IsZero()}
	if len(acts) == actsShown {
		p.Older = strconv.FormatInt(acts[len(acts)-1].At.UnixMilli(), 10)
	}
	return p, err
}
