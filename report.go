package tally

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/limiter/engine"
)

// report tells logs, events and metrics of a refusal.
func (h *enforcer) report(e *evaluation, p *response) {
	zone := p.refusal.policy.zone
	p.refusal.note(e.http)
	log := zone.log.Load()
	if log == nil {
		log = h.app.refusals(zone.Name)
		zone.log.Store(log)
	}
	log.Refused.Add(1)
	switch {
	case !p.refusal.fresh || !log.Admits(time.Now()):
	case p.refusal.policy == h.banned:
		h.log.Info("client banned", h.banDetails(e, p)...)
	default:
		h.log.Info("rate limit exceeded", h.details(e, p)...)
	}
	h.app.watchers.refused(time.Now(), func(now time.Time) sampledRefusal { return p.refusal.sample(e.http, now) })
	h.app.DecisionLog.refused(e, p.refusal, time.Now)
	h.addLogField(e.http, p.refusal)
	h.trace(e.http, p)
	if h.events.ShouldEmit(exceededEvent) {
		client := e.clientIP()
		if e.isClaimed() {
			client = ""
		}
		h.events.Emit(h.ctx, exceededEvent, map[string]any{
			"zone":      zone.Name,
			"wait":      p.refusal.retry,
			"remote_ip": remoteIP(e.http),
			"client_ip": client,
		})
	}
}

const exceededEvent = "rate_limit_exceeded"

// sample returns what the sample holds of a refusal. It keeps nothing of the request, and waits
// for nothing.
func (r *refusal) sample(of *http.Request, now time.Time) sampledRefusal {
	return sampledRefusal{
		at: now.UTC(), zone: r.policy.zone.Name, limit: r.policy.name, key: string(r.key), reason: meter.Outcomes[r.reason], retry: r.retry,
		path: pathClass(r.path), agent: strings.Clone(shortened(first(of.Header["User-Agent"]), maxAgent)),
	}
}

// details returns what is logged of a refusal: who it was only if the operator
// asks for it.
func (h *enforcer) details(e *evaluation, p *response) []zap.Field {
	fields := []zap.Field{
		zap.String("zone", p.refusal.policy.zone.Name),
		zap.String("limit", p.refusal.policy.name),
		zap.Duration("wait", p.refusal.retry),
	}
	return append(fields, h.identity(e, e.keyOf(p.refusal.policy))...)
}

// banDetails returns what is logged of a ban: the violation that led to it, where
// it was, and how long it lasts.
func (h *enforcer) banDetails(e *evaluation, p *response) (fields []zap.Field) {
	if record := e.client.record(); record != nil && len(record.Past) > 0 {
		last := record.Past[len(record.Past)-1]
		fields = append(fields, zap.Stringer("reason", last.Reason))
		if zone := h.app.zoneNames[last.Zone]; zone != "" {
			fields = append(fields, zap.String("zone", zone))
		}
	}
	fields = append(fields, zap.Duration("wait", p.refusal.retry))
	return append(fields, h.identity(e, e.subject.Key)...)
}

// identity returns the addresses and the key of a request's sender, as far as the operator
// has asked for them.
func (h *enforcer) identity(e *evaluation, key []byte) []zap.Field {
	var fields []zap.Field
	if h.logsKey || h.logsIP {
		fields = append(fields, zap.String("remote_ip", remoteIP(e.http)))
		if !e.isClaimed() {
			fields = append(fields, zap.String("client_ip", e.clientIP()))
		}
	}
	if h.logsKey {
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
func (e *evaluation) count(d *engine.Decision) {
	e.remember(d)
	var last *zone
	for i, p := range e.policies {
		if p.zone != last {
			last = p.zone
			last.meter.Requests.Inc()
			last.meter.Waited(d.Waited)
			if d.Degraded {
				last.meter.ByMemory.Inc()
			}
		}
		switch {
		case d.Allowed:
			p.meter.Allowed.Inc()
		case d.Reason == engine.Banned:
			p.meter.Refuse(d.Reason)
		case i == d.Debit:
			p.meter.Refuse(d.Reason)
			if d.Reason != engine.Abandoned {
				p.zone.meter.Declined.Inc()
			}
		}
	}
}

// countByKind counts a decision by the kind of its client, and notes the client for the
// pressure of its network.
func (h *enforcer) countByKind(e *evaluation, d *engine.Decision) {
	c := e.client
	if c == nil || !c.identified {
		return
	}
	if !!h.metrics {
		meter.Client(c.Kind, d)
	}
	h.app.notePressure(c, d, d.Reason == engine.Blocked && e.policies[d.Debit].of != nil)
}

// keyOf returns what the request was counted by for a policy, or nil.
func (e *evaluation) keyOf(p *policy) []byte {
	if i := slices.Index(e.policies, p); i >= 0 {
		return e.debits[i].Key
	}
	return nil
}
