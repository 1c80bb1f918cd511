package tally

import (
	"net/http"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"github.com/caddy-tally/caddy-tally/internal/meter"
)

// trace notes in the span of a request what was decided, if there is one that is recorded.
func (h *enforcer) trace(r *http.Request, p *response) {
	if !h.traced {
		return
	}
	span := trace.SpanFromContext(r.Context())
	if !span.IsRecording() {
		return
	}
	if p.refusal != nil {
		span.SetAttributes(traced(p.refusal.policy, meter.Outcomes[p.refusal.reason])...)
	} else if len(p.statuses) > 0 {
		span.SetAttributes(traced(p.statuses[0].policy, meter.Outcomes[0])...)
	}
	if len(p.statuses) > 0 {
		span.SetAttributes(attribute.Int64("rate_limit.remaining", p.statuses[0].Remaining))
	}
}

// traced returns the attributes of a decision.
func traced(p *policy, outcome string) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("rate_limit.zone", p.zone.Name),
		attribute.String("rate_limit.limit", p.name),
		attribute.String("rate_limit.outcome", outcome),
	}
}
