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
	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/history"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/meter"
)

// report reports a refusal to logs, events and metrics.
func (h *Handler) report(v *Verdict, p *answer.Response) {
	zone := v.Refusal.Policy.Zone
	v.Refusal.Note(v.Http)
	log := zone.log.Load()
	if log == nil {
		log = h.App.refusals(zone.Name)
		zone.log.Store(log)
	}
	log.Refused.Add(1)
	switch {
	case !v.Refusal.Fresh || !log.Admits(time.Now()):
	case v.Refusal.Policy == h.Banned:
		h.Log.Info("client banned", h.banDetails(v, p)...)
	default:
		h.Log.Info("rate limit exceeded", h.details(v, p)...)
	}
	h.App.Watchers.Refused(time.Now(), func(now time.Time) SampledRefusal { return v.Refusal.Sample(v.Http, now) })
	h.App.DecisionLog.Refused(v, v.Refusal, time.Now)
	h.addLogField(v.Http, v.Refusal)
	h.trace(v, p)
	if h.Events.ShouldEmit(exceededEvent) {
		client := v.clientIP()
		if v.isClaimed() {
			client = ""
		}
		h.Events.Emit(h.Ctx, exceededEvent, map[string]any{
			"zone":      zone.Name,
			"wait":      v.Refusal.Retry,
			"remote_ip": remoteIP(v.Http),
			"client_ip": client,
			"initiator": hintsOf(v.Http).Initiator.String(),
		})
	}
}

const exceededEvent = "rate_limit_exceeded"

// Sample returns a refusal for the sample. It keeps no reference to the request, and doesn't block.
func (r *Refusal) Sample(of *http.Request, now time.Time) SampledRefusal {
	return SampledRefusal{
		At: now.UTC(), Zone: r.Policy.Zone.Name, limit: r.Policy.Name, Key: string(r.Key), reason: meter.Outcomes[r.Reason], retry: r.Retry,
		Path: PathClass(r.path), Agent: strings.Clone(shortened(httpfield.First(of.Header["User-Agent"]), MaxAgent)),
	}
}

// details returns the log fields of a refusal. They identify the client only if the operator asks
// for that.
func (h *Handler) details(v *Verdict, p *answer.Response) []zap.Field {
	fields := []zap.Field{
		zap.String("zone", v.Refusal.Policy.Zone.Name),
		zap.String("limit", v.Refusal.Policy.Name),
		zap.Duration("wait", v.Refusal.Retry),
		initiatorForLog(v.Http),
	}
	return append(fields, h.Identity(v, v.keyOf(v.Refusal.Policy))...)
}

// banDetails returns the log fields of a ban: the violation that caused it, its zone, and how long
// the ban lasts.
func (h *Handler) banDetails(v *Verdict, p *answer.Response) (fields []zap.Field) {
	if record := v.Client.record(); record != nil && len(record.Past) > 0 {
		last := record.Past[len(record.Past)-1]
		fields = append(fields, zap.Stringer("reason", last.Reason))
		if zone := h.App.ZoneNames[last.Zone]; zone != "" {
			fields = append(fields, zap.String("zone", zone))
		}
	}
	fields = append(fields, zap.Duration("wait", v.Refusal.Retry), initiatorForLog(v.Http))
	return append(fields, h.Identity(v, v.Subject.Key)...)
}

// Identity returns the addresses and the key of a request's sender, if the operator asks for them.
func (h *Handler) Identity(v *Verdict, key []byte) []zap.Field {
	var fields []zap.Field
	if h.LogsKey || h.LogsIP {
		fields = append(fields, zap.String("remote_ip", remoteIP(v.Http)))
		if !v.isClaimed() {
			fields = append(fields, zap.String("client_ip", v.clientIP()))
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

// count counts the verdict in the metrics and for the history.
func (v *Verdict) count() {
	h := v.Handler
	for i, z := range v.declining {
		z.Meter.Requests.Inc()
		if i == 0 {
			z.Meter.Declined.Inc()
			z.Past.Refuse(history.Key{}, history.OverLimit)
		}
	}
	if v.unzoned {
		h.None.Requests.Inc()
	}
	switch {
	case v.decided:
		v.countDecision(&v.Decision)
		v.countByKind()
	case v.trapBans:
		v.countByKind()
	case v.busy != nil:
		v.countDecision(&v.Decision)
		v.countBusy()
	case v.Outcome == Refused && v.RefusedBy != nil:
		by := v.RefusedBy
		by.Zone.Meter.Requests.Inc()
		by.Zone.Meter.Declined.Inc()
		by.Zone.Past.Refuse(history.Key{}, history.OverLimit)
		by.past.Refuse(history.Key{}, history.OverLimit)
	case v.Outcome == Refused:
		h.RuleMeter.Banned.Inc()
	case v.Allowed && v.Passes():
		h.RuleMeter.Allowed.Inc()
	}
}

// countBusy counts a request that finds no free place.
func (v *Verdict) countBusy() {
	z := v.busy.Policy.Zone
	if !v.isCounted(z) {
		z.Meter.Requests.Inc()
	}
	z.Meter.Declined.Inc()
	v.busy.Policy.Meter.Refuse(engine.OverLimit)
	z.Past.Refuse(history.Key{}, history.OverLimit)
}

// countDecision counts a decision of the engine by zones and limits.
func (v *Verdict) countDecision(d *engine.Decision) {
	v.remember(d)
	var last *Zone
	for i, p := range v.Policies {
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

// countByKind counts a decision of the engine by the kind of its client.
func (v *Verdict) countByKind() {
	if c := v.Client; c != nil && c.identified && v.Handler.Metrics {
		meter.Client(c.Kind, &v.Decision)
	}
}

// keyOf returns the request's key for a policy, or nil.
func (v *Verdict) keyOf(p *Policy) []byte {
	if i := slices.Index(v.Policies, p); i >= 0 {
		return v.Debits[i].Key
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
	to.AddString("reference", l.ID())
	to.AddString("initiator", l.initiator.String())
	return nil
}

// trace adds the decision to the request's span, if there is one that is recorded.
func (h *Handler) trace(v *Verdict, p *answer.Response) {
	if !h.Traced {
		return
	}
	span := trace.SpanFromContext(v.Http.Context())
	if !span.IsRecording() {
		return
	}
	tightest, ok := p.Tightest()
	if v.Refusal != nil {
		span.SetAttributes(traced(&v.Refusal.Policy.Item, meter.Outcomes[v.Refusal.Reason])...)
	} else if ok {
		span.SetAttributes(traced(tightest.Item, meter.Outcomes[0])...)
	}
	if ok {
		span.SetAttributes(attribute.Int64("rate_limit.remaining", tightest.Remaining))
	}
}

// traced returns the attributes of a decision.
func traced(i *answer.Item, outcome string) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("rate_limit.zone", i.Zone),
		attribute.String("rate_limit.limit", i.Name),
		attribute.String("rate_limit.outcome", outcome),
	}
}
