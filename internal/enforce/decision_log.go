package enforce

import (
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/caddy-tally/caddy-tally/internal/answer"
	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/instance"
	"github.com/caddy-tally/caddy-tally/internal/matcher"
	"github.com/caddy-tally/caddy-tally/internal/meter"
)

// The most bytes of a client's values in a line.
const (
	maxLoggedMethod = 32
	maxLoggedHost   = 255
	maxLoggedPath   = 512
	maxLoggedAgent  = 256
)

// Refused logs that a request is refused now.
func (l *DecisionLog) Refused(v *Verdict, r *Refusal, now func() time.Time) {
	if l == nil {
		return
	}
	kind := &l.repeated
	if r.Fresh {
		kind = &l.first
	}
	if !kind.Admits(now(), DecisionsPerSecond) {
		return
	}
	l.Log.Info("refused", append(append(v.describeForLog(kind), r.units()...),
		zap.String("zone", r.Policy.Zone.Name),
		zap.String("limit", r.Policy.Name),
		zap.String("outcome", meter.Outcomes[r.Reason]),
		zap.Int("status", r.Status()),
		zap.Duration("wait", max(r.Retry, 0)),
		zap.String("reference", r.ID()))...)
}

// units returns the request's cost and the units left, as far as they were examined.
func (r *Refusal) units() []zap.Field {
	switch {
	case r.Cost == 0:
		return nil
	case r.Reason == engine.TooCostly:
		return []zap.Field{zap.Int64("cost", r.Cost)}
	}
	return []zap.Field{zap.Int64("cost", r.Cost), zap.Int64("remaining", r.left)}
}

// passed logs that a request is allowed, if it is in the sample.
func (l *DecisionLog) passed(v *Verdict, p *answer.Response) {
	if l == nil || l.Sample == 0 {
		return
	}
	tightest, ok := p.Tightest()
	if !ok || v.Handler.Random()*float64(l.Sample) >= 1 {
		return
	}
	if !l.allowed.Admits(time.Now(), DecisionsPerSecond) {
		return
	}
	l.Log.Info("allowed", append(v.describeForLog(&l.allowed),
		zap.String("zone", tightest.Zone),
		zap.String("limit", tightest.Name),
		zap.String("outcome", meter.Outcomes[0]),
		zap.Int64("remaining", tightest.Remaining))...)
}

// wouldRefuse logs that a shadow limit would have refused a request. describe returns the request's
// fields.
func (l *DecisionLog) wouldRefuse(describe func() []zap.Field, by *Policy, d engine.Decision) {
	if l == nil || !l.shadow.Admits(time.Now(), DecisionsPerSecond) {
		return
	}
	l.Log.Info("would refuse", append(l.shadow.Complete(describe()),
		zap.String("zone", by.Zone.Name),
		zap.String("limit", by.Name),
		zap.String("outcome", meter.WouldRefuse),
		zap.Bool("first", d.Fresh),
		zap.Duration("wait", max(d.Retry, 0)))...)
}

// describeForLog returns the request's fields for a line of a kind.
func (v *Verdict) describeForLog(kind *instance.PerSecond) []zap.Field {
	return kind.Complete(v.describe())
}

// describe returns the request's fields for logs. The address and the initiator come first, so that
// no text that a client chooses precedes them.
func (v *Verdict) describe() []zap.Field {
	sent := v.Http
	if original := matcher.Original(sent); original != nil {
		sent = original
	}
	return []zap.Field{
		v.addressForLog(),
		initiatorForLog(v.Http),
		zap.String("method", shortened(sent.Method, maxLoggedMethod)),
		zap.String("host", shortened(sent.Host, maxLoggedHost)),
		zap.String("uri", shortened(sent.URL.EscapedPath(), maxLoggedPath)),
		zap.String("user_agent", shortened(httpfield.First(sent.Header["User-Agent"]), maxLoggedAgent)),
	}
}

// addressForLog returns the client's address, or the peer's if the client may have chosen its
// address: programs that ban by logs read client_ip.
func (v *Verdict) addressForLog() zap.Field {
	if v.isClaimed() {
		return zap.String("remote_ip", remoteIP(v.Http))
	}
	return zap.String("client_ip", v.clientIP())
}

// initiatorForLog returns who caused a request. A page elsewhere can have its visitors' browsers send
// requests that are refused, so programs that ban addresses count these apart.
func initiatorForLog(r *http.Request) zap.Field {
	return zap.String("initiator", hintsOf(r).Initiator.String())
}

// shortened returns at most the first `most` bytes of a text, without cutting a character.
func shortened(text string, most int) string {
	if len(text) > most {
		text = text[:most]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// DecisionsPerSecond bounds the lines of each kind.
const DecisionsPerSecond = 1000
