package report

import (
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/meter"
	"github.com/caddy-tally/caddy-tally/internal/outcomes"
	"github.com/caddy-tally/caddy-tally/internal/wording"
)

// The most bytes of a client's values in a line.
const (
	maxLoggedHost  = 255
	maxLoggedPath  = 512
	maxLoggedAgent = 256
)

// DecisionLog writes lines about decisions, of four kinds.
type DecisionLog struct {
	Sample                           int // logs one in so many allowed requests; 0 for none
	Log                              *zap.Logger
	first, repeated, shadow, allowed instance.PerSecond
}

// refused logs that a request is refused now.
func (l *DecisionLog) refused(v *enforce.Verdict, r *enforce.Refusal, now func() time.Time) {
	if l == nil {
		return
	}
	kind := &l.repeated
	if r.Fresh {
		kind = &l.first
	}
	if !kind.Admits(now(), decisionsPerSecond) {
		return
	}
	l.Log.Info("refused", append(append(kind.Complete(describe(v)), unitsIn(r)...),
		zap.String("zone", r.Policy.Zone.Name),
		zap.String("limit", r.Policy.Name),
		zap.String("outcome", meter.Outcomes[r.Reason]),
		zap.Int("status", r.Status()),
		zap.Duration("wait", max(r.Retry, 0)),
		zap.String("reference", r.ID()))...)
}

// unitsIn returns the request's cost and the units left, as far as they were examined.
func unitsIn(r *enforce.Refusal) []zap.Field {
	switch {
	case r.Cost == 0:
		return nil
	case r.Reason == engine.TooCostly:
		return []zap.Field{zap.Int64("cost", r.Cost)}
	}
	return []zap.Field{zap.Int64("cost", r.Cost), zap.Int64("remaining", r.Left)}
}

// passed logs that a request is allowed, if it is in the sample.
func (l *DecisionLog) passed(v *enforce.Verdict, p *answer.Response) {
	if l == nil || l.Sample == 0 {
		return
	}
	tightest, ok := p.Tightest()
	if !ok || v.Handler.Random()*float64(l.Sample) >= 1 {
		return
	}
	if !l.allowed.Admits(time.Now(), decisionsPerSecond) {
		return
	}
	l.Log.Info("allowed", append(l.allowed.Complete(describe(v)),
		zap.String("zone", tightest.Zone),
		zap.String("limit", tightest.Name),
		zap.String("outcome", meter.Outcomes[0]),
		zap.Int64("remaining", tightest.Remaining))...)
}

// wouldRefuse logs that a shadow limit would have refused a request. describe returns the request's
// fields.
func (l *DecisionLog) wouldRefuse(describe func() []zap.Field, by *enforce.Policy, d engine.Decision) {
	if l == nil || !l.shadow.Admits(time.Now(), decisionsPerSecond) {
		return
	}
	l.Log.Info("would refuse", append(l.shadow.Complete(describe()),
		zap.String("zone", by.Zone.Name),
		zap.String("limit", by.Name),
		zap.String("outcome", outcomes.WouldRefuse),
		zap.Bool("first", d.Fresh),
		zap.Duration("wait", max(d.Retry, 0)))...)
}

// describe returns the request's fields for logs. The address and the initiator come first, so that
// no text that a client chooses precedes them.
func describe(v *enforce.Verdict) []zap.Field {
	sent := v.Http
	if original := matcher.Original(sent); original != nil {
		sent = original
	}
	return []zap.Field{
		addressForLog(v),
		initiatorForLog(v.Http),
		zap.String("method", wording.Shortened(sent.Method, enforce.MaxMethod)),
		zap.String("host", wording.Shortened(sent.Host, maxLoggedHost)),
		zap.String("uri", wording.Shortened(sent.URL.EscapedPath(), maxLoggedPath)),
		zap.String("user_agent", wording.Shortened(httpfield.First(sent.Header["User-Agent"]), maxLoggedAgent)),
	}
}

// addressForLog returns the client's address, or the peer's if the client may have chosen its
// address: programs that ban by logs read client_ip.
func addressForLog(v *enforce.Verdict) zap.Field {
	if v.IsClaimed() {
		return zap.String("remote_ip", remoteIP(v.Http))
	}
	return zap.String("client_ip", v.ClientIP())
}

// initiatorForLog returns who caused a request. A page elsewhere can have its visitors' browsers send
// requests that are refused, so programs that ban addresses count these apart.
func initiatorForLog(r *http.Request) zap.Field {
	return zap.String("initiator", enforce.HintsOf(r).Initiator.String())
}

// decisionsPerSecond bounds the lines of each kind, so that a client that hammers uses up only one budget (decision 9).
const decisionsPerSecond = 1000
