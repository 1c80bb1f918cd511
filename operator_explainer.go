package tally

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// explainer collects what is known of a target.
type explainer struct {
	*target
	now  time.Time
	told operator.Explanation
}

// in returns the time after a wait of the engine.
func (x *explainer) in(wait time.Duration) *time.Time {
	if wait <= 0 || wait == limiter.Never {
		return nil
	}
	at := x.now.Add(wait).UTC().Truncate(time.Second)
	return &at
}

// maxExplained bounds the limits of an explanation.
const maxExplained = 100

// refusedByDebit returns the forecast of a request that one of its debits refuses.
func (x *explainer) refusedByDebit(d engine.Decision, p *enforce.Policy, cost int64) operator.Forecast {
	f := x.refuses(meter.Outcomes[d.Reason], p.Zone.Name, p.Name, d.Retry, "by limit "+p.Name+" of zone "+p.Zone.Name)
	if r := (&enforce.Refusal{Policy: p, Cost: cost}); r.NeverPasses() {
		f.Status = r.Status()
		f.Text += fmt.Sprintf(": it costs %d, and the limit is %d, so it never passes", cost, p.Capacity())
	}
	return f
}

// refuses returns the forecast of a refusal.
func (x *explainer) refuses(outcome, zone, limit string, retry time.Duration, why string) operator.Forecast {
	f := operator.Forecast{Outcome: outcome, Status: http.StatusTooManyRequests, Zone: zone, Limit: limit, Text: "is refused " + why}
	if retry > 0 && retry != limiter.Never {
		f.Retry = operator.SecondsOf(retry)
	}
	return f
}

// explainLimit adds how a debit stands with a limit, and returns what would be decided if it
// were the only one.
func (x *explainer) explainLimit(ctx context.Context, p *enforce.Policy, debit engine.Debit) engine.Decision {
	cost := debit.Cost
	debits := []engine.Debit{debit}
	d := x.instance.Forecast(ctx, nil, debits)
	limit := debits[0].Whole()
	state := operator.LimitState{
		Zone: p.Zone.Name, Limit: p.Name, Text: enforce.LimitText(p.Limit.Limit), Counts: cmp.Or(identity.KeyText(debit.Key), "all together"),
		Amount: limit.Capacity(), Cost: cost, Refuses: !d.Allowed, FreeAt: x.in(d.Retry), Shadow: p.Shadow,
	}
	switch {
	case debits[0].Known && d.Allowed && debit.Counting == engine.Always:
		state.Left = debits[0].Quota.Remaining + cost
	case debits[0].Known:
		state.Left = debits[0].Quota.Remaining
	default:
		state.Left = limit.Capacity()
	}
	state.Left = min(state.Left, state.Amount)
	state.Used = state.Amount - state.Left
	x.told.Limits = append(x.told.Limits, state)
	return d
}

// addShadows adds to a forecast of a request that passes which shadow limits would refuse it.
func addShadows(f operator.Forecast, by []*enforce.Policy) operator.Forecast {
	for i, p := range by {
		if i == 0 {
			f.Text += "; in shadow, it would be refused by "
		} else {
			f.Text += ", and by "
		}
		f.Text += "limit " + p.Name + " of zone " + p.Zone.Name
		f.WouldRefuse = append(f.WouldRefuse, p.Zone.Name+": "+p.Name)
	}
	return f
}
