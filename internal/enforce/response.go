package enforce

import (
	"cmp"

	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/engine"
)

// This file makes the response of a verdict, for package answer.

// refusedResponse is the response to a refused request, in one allocation.
type refusedResponse struct {
	answer.Response
	answer answer.Refusal
	why    Refusal
}

// newResponse returns the response to a request that may pass.
func (e *Evaluation) newResponse() *answer.Response {
	p := new(answer.Response)
	e.fill(p)
	if e.entered {
		addPlaces(p, e.places)
	}
	return p
}

// refuseFor refuses the request: it makes the response.
func (e *Evaluation) refuseFor(p *refusedResponse) {
	p.answer = p.why.tell()
	p.Response.Refusal = &p.answer
	e.Outcome, e.Response, e.Refusal = Refused, &p.Response, &p.why
}

// fill adds the remaining units of each debit's limit to an empty response.
func (e *Evaluation) fill(r *answer.Response) {
	e.begin(r)
	for i := range e.Debits {
		if e.Debits[i].Known && !e.Charges.isRedundant(i) {
			r.Add(statusOf(e.Policies[i], &e.Debits[i]))
		}
	}
}

// begin begins a response to the client.
func (e *Evaluation) begin(r *answer.Response) {
	if e.Client == nil {
		r.Begin(e.Handler.Answer.Style, nil)
	} else {
		r.Begin(e.Handler.Answer.Style, e.Client)
	}
}

// isRedundant reports whether a debit is from a shared limit although the client's own limit is as
// tight, or from another key of a limit that is as tight. The answer omits it then.
func (c *Charges) isRedundant(nth int) bool {
	p := c.Policies[nth]
	for i, other := range c.Policies {
		if left := c.Debits[nth].Quota.Remaining - c.Debits[i].Quota.Remaining; c.Debits[i].Known &&
			(other == p.Of && left >= 0 || other == p && (left > 0 || left == 0 && i < nth)) {
			return true
		}
	}
	return false
}

// statusOf returns the units that a debit leaves its client. The deciding limit may be a
// share of the policy's, which the used units are counted from.
func statusOf(p *Policy, d *engine.Debit) answer.Status {
	left := d.Quota
	if p.Zone != nil && p.Zone.Settle != nil && d.Pending != nil {
		left = d.Pending.Counted // what it holds is taken until it ends
	}
	s := answer.Status{Item: &p.Item, Quota: left, Used: max(cmp.Or(d.Reduced, d.Limit.Capacity())-left.Remaining, 0)}
	if whole := d.Whole(); cmp.Or(d.Reduced, whole.Capacity()) != p.Capacity() || whole.Amount() != p.Amount() {
		s.Capacity = cmp.Or(d.Reduced, whole.Capacity())
		s.Amount = int64(float64(whole.Amount()) * float64(s.Capacity) / float64(whole.Capacity()))
		s.InForce = &whole.Rate
	}
	return s
}
