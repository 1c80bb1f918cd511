package enforce

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/meter"
)

// report reports a refusal to logs, events and metrics.
func (h *Handler) report(e *Evaluation, p *Response) {
	zone := p.Refusal.Policy.Zone
	p.Refusal.Note(e.Http)
	log := zone.log.Load()
	if log == nil {
		log = h.App.refusals(zone.Name)
		zone.log.Store(log)
	}
	log.Refused.Add(1)
	switch {
	case !p.Refusal.Fresh || !log.Admits(time.Now()):
	case p.Refusal.Policy == h.Banned:
		h.Log.Info("client banned", h.banDetails(e, p)...)
	default:
		h.Log.Info("rate limit exceeded", h.details(e, p)...)
	}
	h.App.Watchers.Refused(time.Now(), func(now time.Time) SampledRefusal { return p.Refusal.Sample(e.Http, now) })
	h.App.DecisionLog.Refused(e, p.Refusal, time.Now)
	h.addLogField(e.Http, p.Refusal)
	h.trace(e.Http, p)
	if h.Events.ShouldEmit(exceededEvent) {
		client := e.clientIP()
		if e.isClaimed() {
			client = ""
		}
		h.Events.Emit(h.Ctx, exceededEvent, map[string]any{
			"zone":      zone.Name,
			"wait":      p.Refusal.Retry,
			"remote_ip": remoteIP(e.Http),
			"client_ip": client,
			"initiator": hintsOf(e.Http).Initiator.String(),
		})
	}
}

const exceededEvent = "rate_limit_exceeded"

// Sample returns a refusal for the sample. It keeps no reference to the request, and doesn't block.
func (r *Refusal) Sample(of *http.Request, now time.Time) SampledRefusal {
	return SampledRefusal{
		At: now.UTC(), Zone: r.Policy.Zone.Name, limit: r.Policy.Name, Key: string(r.Key), reason: meter.Outcomes[r.Reason], retry: r.Retry,
		Path: PathClass(r.path), Agent: strings.Clone(shortened(first(of.Header["User-Agent"]), MaxAgent)),
	}
}

// details returns the log fields of a refusal. They identify the client only if the operator asks
// for that.
func (h *Handler) details(e *Evaluation, p *Response) []zap.Field {
	fields := []zap.Field{
		zap.String("zone", p.Refusal.Policy.Zone.Name),
		zap.String("limit", p.Refusal.Policy.Name),
		zap.Duration("wait", p.Refusal.Retry),
		initiatorForLog(e.Http),
	}
	return append(fields, h.Identity(e, e.keyOf(p.Refusal.Policy))...)
}

// banDetails returns the log fields of a ban: the violation that caused it, its zone, and how long
// the ban lasts.
func (h *Handler) banDetails(e *Evaluation, p *Response) (fields []zap.Field) {
	if record := e.Client.record(); record != nil && len(record.Past) > 0 {
		last := record.Past[len(record.Past)-1]
		fields = append(fields, zap.Stringer("reason", last.Reason))
		if zone := h.App.ZoneNames[last.Zone]; zone != "" {
			fields = append(fields, zap.String("zone", zone))
		}
	}
	fields = append(fields, zap.Duration("wait", p.Refusal.Retry), initiatorForLog(e.Http))
	return append(fields, h.Identity(e, e.Subject.Key)...)
}

// Identity returns the addresses and the key of a request's sender, if the operator asks for them.
func (h *Handler) Identity(e *Evaluation, key []byte) []zap.Field {
	var fields []zap.Field
	if h.LogsKey || h.LogsIP {
		fields = append(fields, zap.String("remote_ip", remoteIP(e.Http)))
		if !e.isClaimed() {
			fields = append(fields, zap.String("client_ip", e.clientIP()))
		}
	}
	if h.LogsKey {
		fields = append(fields, zap.String("key", identity.KeyText(key)))
	}
	return fields
}

// remoteIP returns the address of the peer, which may be a proxy.
func remoteIP(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// count counts a decision.
func (e *Evaluation) count(d *engine.Decision) {
	e.remember(d)
	var last *Zone
	for i, p := range e.Policies {
		if p.Zone != last {
			last = p.Zone
			last.Meter.Requests.Inc()
			last.Meter.Waited(d.Waited)
			if d.Degraded {
				last.Meter.ByMemory.Inc()
			}
		}
		switch {
		case d.Allowed:
			p.Meter.Allowed.Inc()
		case d.Reason == engine.Banned:
			p.Meter.Refuse(d.Reason)
		case i == d.Debit:
			p.Meter.Refuse(d.Reason)
			if d.Reason != engine.Abandoned {
				p.Zone.Meter.Declined.Inc()
			}
		}
	}
}

// countByKind counts a decision by the kind of its client, and notes the client for the
// pressure of its network.
func (h *Handler) countByKind(e *Evaluation, d *engine.Decision) {
	c := e.Client
	if c == nil || !c.identified {
		return
	}
	if h.Metrics {
		meter.Client(c.Kind, d)
	}
	h.App.notePressure(c, d, d.Reason == engine.Blocked && e.Policies[d.Debit].Of != nil)
}

// keyOf returns the request's key for a policy, or nil.
func (e *Evaluation) keyOf(p *Policy) []byte {
	if i := slices.Index(e.Policies, p); i >= 0 {
		return e.Debits[i].Key
	}
	return nil
}

// logField is the field for a refused request in Caddy's access log.
const logField = "rate_limit"

// WritesAccessLogs reports whether the server of a handler that is being provisioned writes
// access logs, at least for some hosts.
func WritesAccessLogs(ctx caddy.Context) bool {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	return ok && server.Logs != nil
}

// addLogField adds a refusal to the request's line in the access log.
func (h *Handler) addLogField(r *http.Request, by *Refusal) {
	if !h.LogsAccess {
		return
	}
	if extra, ok := r.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields); ok {
		by.initiator = hintsOf(r).Initiator
		extra.Set(zap.Object(logField, loggedRefusal{by}))
	}
}

// loggedRefusal is a refusal in access logs. It makes its fields when the line is written.
type loggedRefusal struct{ *Refusal }

// MarshalLogObject implements zapcore.ObjectMarshaler.
func (l loggedRefusal) MarshalLogObject(to zapcore.ObjectEncoder) error {
	to.AddString("zone", l.Policy.Zone.Name)
	to.AddString("limit", l.Policy.Name)
	to.AddString("outcome", meter.Outcomes[l.Reason])
	to.AddString("reference", l.id())
	to.AddString("initiator", l.initiator.String())
	return nil
}

// trace adds the decision to the request's span, if there is one that is recorded.
func (h *Handler) trace(r *http.Request, p *Response) {
	if !h.Traced {
		return
	}
	span := trace.SpanFromContext(r.Context())
	if !span.IsRecording() {
		return
	}
	if p.Refusal != nil {
		span.SetAttributes(traced(p.Refusal.Policy, meter.Outcomes[p.Refusal.Reason])...)
	} else if len(p.statuses) > 0 {
		span.SetAttributes(traced(p.statuses[0].Policy, meter.Outcomes[0])...)
	}
	if len(p.statuses) > 0 {
		span.SetAttributes(attribute.Int64("rate_limit.remaining", p.statuses[0].Remaining))
	}
}

// traced returns the attributes of a decision.
func traced(p *Policy, outcome string) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("rate_limit.zone", p.Zone.Name),
		attribute.String("rate_limit.limit", p.Name),
		attribute.String("rate_limit.outcome", outcome),
	}
}
