package report

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/routing"
	"github.com/caddy-tally/caddy-tally/internal/watch"
	"github.com/caddy-tally/caddy-tally/internal/wording"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// Reporter reports verdicts: to metrics and the history, to logs, to events and streams, and to spans.
type Reporter struct {
	Decisions *DecisionLog // nil if there is none
}

var _ enforce.Reporter = (*Reporter)(nil)

// Report implements enforce.Reporter.
func (r *Reporter) Report(v *enforce.Verdict, err error) {
	count(v, err)
	countRequest(v, err)
	if err != nil {
		return
	}
	switch v.Outcome {
	case enforce.Passed, enforce.Counted:
		countPlaces(v)
		if v.Outcome == enforce.Counted {
			r.Decisions.passed(v, v.Response)
			addToSpan(v)
		}
	case enforce.Refused, enforce.Challenged:
		r.refused(v)
	}
}

// refused reports a refusal.
func (r *Reporter) refused(v *enforce.Verdict) {
	h, refusal := v.Handler, v.Refusal
	zone := refusal.Policy.Zone
	refusal.Note(v.Http)
	h.NotePeer(v.Http)
	h.NoteHandshake(v, time.Now)
	log := zone.Log.Load()
	if log == nil {
		log = h.Config.Refusals(zone.Name)
		zone.Log.Store(log)
	}
	log.Refused.Add(1)
	switch {
	case !refusal.Fresh || !log.Admits(time.Now()):
	case refusal.Policy == h.Banned:
		h.Log.Info("client banned", banDetails(v)...)
	default:
		h.Log.Info("rate limit exceeded", details(v)...)
	}
	r.Decisions.refused(v, refusal, time.Now)
	addToAccessLog(v)
	addToSpan(v)
	if routing.MayObserve(h.Events, exceededEvent) {
		client := v.ClientIP()
		if v.IsClaimed() {
			client = ""
		}
		h.Events.Emit(h.Ctx, exceededEvent, map[string]any{
			"zone":      zone.Name,
			"wait":      refusal.Retry,
			"remote_ip": remoteIP(v.Http),
			"client_ip": client,
			"initiator": enforce.HintsOf(v.Http).Initiator.String(),
		})
	}
}

const exceededEvent = "rate_limit_exceeded"

// sampleVar is the request variable with what the sample has of a request that was let in.
const sampleVar = "rate_limit.sampled"

// sample adds a request to the sample. If an earlier handler has let it in, what this one decides goes with that.
func sample(v *enforce.Verdict, why engine.Reason, again bool) {
	watchers, refused := &v.Handler.Config.Watchers, meter.IsRefusal(why) && why != 0
	if why != 0 && !refused {
		return
	}
	if again {
		if before, ok := v.Vars[sampleVar].(*watch.Request); ok {
			watchers.Later(before, refused, countedBy(v))
		}
	}
	if refused || !again {
		if r := watchers.Add(time.Now(), refused, func() watch.Request { return sampled(v, why) }); r != nil &&
			!refused {
			v.Vars[sampleVar] = r
		}
	}
}

// Withdraw takes a request out of the sample if handlers have let it in.
func Withdraw(r *http.Request) {
	if before, ok := caddyhttp.GetVar(r.Context(), sampleVar).(*watch.Request); ok {
		before.Withdraw()
	}
}

// sampled returns the request of a verdict for the sample.
func sampled(v *enforce.Verdict, why engine.Reason) watch.Request {
	in, cfg, sent := v.Http, v.Handler.Config, v.Http
	if original := matcher.Original(in); original != nil {
		sent = original
	}
	r := watch.Request{
		Path: sent.URL.Path, Agent: httpfield.First(in.Header["User-Agent"]), Host: in.Host, Counted: countedBy(v),
		Network: matcher.LookUp(in, maskedNetwork), Country: matcher.LookUp(in, cfg.Networks.Country),
		ASN: matcher.LookUp(in, cfg.Networks.ASN),
		Address: matcher.LookUp(in, func(addr netip.Addr) string {
			ipv4, ipv6 := cfg.Prefixes(0, 0)
			network, _ := identity.Prefix(addr.String(), ipv4, ipv6)
			return string(identity.AppendPrefix([]byte{identity.TagNetwork}, network))
		}),
	}
	switch by := v.Refusal; {
	case by != nil:
		r.Refusal = &watch.Refusal{Zone: by.Policy.Zone.Name, Limit: by.Policy.Name, Reason: meter.Outcomes[by.Reason],
			Retry: by.Retry}
		r.Counted = slices.Insert(r.Counted, 0, counted(v, by.Policy.Zone, by.Key))
	case why == meter.Denied:
		r.Refusal = &watch.Refusal{Reason: "denied", Retry: limiter.Never}
		if len(v.Declining) > 0 {
			r.Refusal.Zone = v.Declining[0].Name
		}
	}
	return r
}

// countedBy returns the zones that count a request, or would, with its keys.
func countedBy(v *enforce.Verdict) (list []watch.Counted) {
	for _, charges := range []*enforce.Charges{&v.Charges, &v.Shadows} {
		for i, p := range charges.Policies {
			if i == 0 || p.Zone != charges.Policies[i-1].Zone {
				list = append(list, counted(v, p.Zone, charges.Debits[i].Key))
			}
		}
	}
	return list
}

// counted returns a zone with a key, without an address that the client may have written.
func counted(v *enforce.Verdict, z *enforce.Zone, key []byte) watch.Counted {
	if v.IsClaimed() && identity.IsAddress(string(key)) {
		key = nil
	}
	return watch.Counted{Zone: z.Name, Key: string(key)}
}

// maskedNetwork returns the masked network of an address.
func maskedNetwork(addr netip.Addr) string {
	addr = addr.Unmap().WithZone("")
	return wording.MaskPrefix(netip.PrefixFrom(addr, addr.BitLen())).String()
}

// details returns the log fields of a refusal. They identify the client only if the operator asks
// for that.
func details(v *enforce.Verdict) []zap.Field {
	fields := []zap.Field{
		zap.String("zone", v.Refusal.Policy.Zone.Name),
		zap.String("limit", v.Refusal.Policy.Name),
		zap.Duration("wait", v.Refusal.Retry),
		initiatorForLog(v.Http),
	}
	return append(fields, identityOf(v, keyOf(v, v.Refusal.Policy))...)
}

// banDetails returns the log fields of a ban: the violation that caused it, its zone, and how long
// the ban lasts.
func banDetails(v *enforce.Verdict) (fields []zap.Field) {
	if record := v.Client.Record(); record != nil && len(record.Past) > 0 {
		last := record.Past[len(record.Past)-1]
		fields = append(fields, zap.Stringer("reason", last.Reason))
		if zone := v.Handler.Config.ZoneNames[last.Zone]; zone != "" {
			fields = append(fields, zap.String("zone", zone))
		}
	}
	fields = append(fields, zap.Duration("wait", v.Refusal.Retry), initiatorForLog(v.Http))
	return append(fields, identityOf(v, v.Subject.Key)...)
}

// identityOf returns the addresses and the key of a request's sender, if the operator asks for them.
func identityOf(v *enforce.Verdict, key []byte) []zap.Field {
	h := v.Handler
	var fields []zap.Field
	if h.LogsKey || h.LogsIP {
		fields = append(fields, zap.String("remote_ip", remoteIP(v.Http)))
		if !v.IsClaimed() {
			fields = append(fields, zap.String("client_ip", v.ClientIP()))
		}
	}
	if h.LogsKey {
		fields = append(fields, zap.String("key", identity.FullText(key)))
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

// keyOf returns the request's key for a policy, or nil.
func keyOf(v *enforce.Verdict, p *enforce.Policy) []byte {
	if i := slices.Index(v.Policies, p); i >= 0 {
		return v.Debits[i].Key
	}
	return nil
}

// logField is the field for a refused request in Caddy's access log.
const logField = "rate_limit"

// addToAccessLog adds a refusal to the request's line in the access log.
func addToAccessLog(v *enforce.Verdict) {
	if !v.Handler.LogsAccess {
		return
	}
	if extra, ok := v.Http.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields); ok {
		extra.Set(zap.Object(logField, loggedRefusal{v.Refusal, enforce.HintsOf(v.Http).Initiator}))
	}
}

// loggedRefusal is a refusal in access logs. It makes its fields when the line is written.
type loggedRefusal struct {
	*enforce.Refusal
	initiator identity.Initiator
}

// MarshalLogObject implements zapcore.ObjectMarshaler.
func (l loggedRefusal) MarshalLogObject(to zapcore.ObjectEncoder) error {
	to.AddString("zone", l.Policy.Zone.Name)
	to.AddString("limit", l.Policy.Name)
	to.AddString("outcome", meter.Outcomes[l.Reason])
	to.AddString("reference", l.ID())
	to.AddString("initiator", l.initiator.String())
	return nil
}

// addToSpan adds the decision to the request's span, if there is one that is recorded.
func addToSpan(v *enforce.Verdict) {
	if !v.Handler.Traced {
		return
	}
	span := trace.SpanFromContext(v.Http.Context())
	if !span.IsRecording() {
		return
	}
	tightest, ok := v.Response.Tightest()
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
