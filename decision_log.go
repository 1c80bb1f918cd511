package tally

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
)

// DecisionLog writes a line for each refusal to the logger `http.log.rate_limit`, for
// programs that read logs, such as fail2ban and CrowdSec. The lines hold addresses of
// clients. Where they go, how they are filtered and how long they are kept is configured
// in Caddy's logging.
//
// There are at most 1000 lines a second of each of three kinds: of clients that become
// blocked, of further refusals of clients that are, and of allowed requests. What is left
// out is counted in the next line of its kind.
type DecisionLog struct {
	// Also write a line for one in so many allowed requests, chosen at random: 100 means
	// one in a hundred, 1 means all. From 1 to 1000000000. Default: none.
	Sample int `json:"sample,omitempty"`

	log                      *zap.Logger
	first, repeated, allowed perSecond
}

const (
	maxSample          = 1_000_000_000
	decisionsPerSecond = 1000 // of each kind
)

// How many bytes a line holds at most of what a client chooses.
const (
	maxLoggedMethod = 32
	maxLoggedHost   = 255
	maxLoggedPath   = 512
	maxLoggedAgent  = 256
)

// decisionLogger is what Caddy knows the logger by.
type decisionLogger struct{}

// CaddyModule implements caddy.Module.
func (decisionLogger) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.log.rate_limit", New: func() caddy.Module { return decisionLogger{} }}
}

func (l *DecisionLog) provision(ctx caddy.Context) error {
	if l == nil {
		return nil
	}
	if l.Sample < 0 || l.Sample > maxSample {
		return fmt.Errorf("decision_log: sample: must be from 1 to %d, or 0 for none, got %d", maxSample, l.Sample)
	}
	l.log = ctx.Logger(decisionLogger{})
	return nil
}

// refused writes that a request is refused now.
func (l *DecisionLog) refused(e *evaluation, r *refusal, now time.Time) {
	if l == nil {
		return
	}
	kind := &l.repeated
	if r.fresh {
		kind = &l.first
	}
	if !kind.admits(now, decisionsPerSecond) {
		return
	}
	l.log.Info("refused", append(e.describeForLog(kind),
		zap.String("zone", r.policy.zone.Name),
		zap.String("limit", r.policy.name),
		zap.String("outcome", outcomes[r.reason]),
		zap.Int("status", http.StatusTooManyRequests),
		zap.Duration("wait", max(r.retry, 0)),
		zap.String("reference", r.id()))...)
}

// passed writes that a request is allowed, if it is one of the sample.
func (l *DecisionLog) passed(e *evaluation, p *response) {
	if l == nil || l.Sample == 0 || len(p.statuses) == 0 || e.handler.random()*float64(l.Sample) >= 1 {
		return
	}
	if !l.allowed.admits(time.Now(), decisionsPerSecond) {
		return
	}
	tightest := p.statuses[0]
	l.log.Info("allowed", append(e.describeForLog(&l.allowed),
		zap.String("zone", tightest.policy.zone.Name),
		zap.String("limit", tightest.policy.name),
		zap.String("outcome", outcomes[0]),
		zap.Int64("remaining", tightest.Remaining))...)
}

// describeForLog describes the request in a line of a kind. The client's address comes
// first, so that nothing that a client chooses stands before it.
func (e *evaluation) describeForLog(kind *perSecond) []zap.Field {
	sent := e.http
	if original := originalOf(sent); original != nil {
		sent = original
	}
	fields := []zap.Field{
		zap.String("client_ip", e.clientIP()),
		zap.String("method", shortened(sent.Method, maxLoggedMethod)),
		zap.String("host", shortened(sent.Host, maxLoggedHost)),
		zap.String("uri", shortened(sent.URL.EscapedPath(), maxLoggedPath)),
		zap.String("user_agent", shortened(first(sent.Header["User-Agent"]), maxLoggedAgent)),
	}
	if omitted := kind.takeOmitted(); omitted > 0 {
		fields = append(fields, zap.Int64("left_out", omitted))
	}
	return fields
}

// shortened returns the beginning of a text, and whole characters only.
func shortened(text string, most int) string {
	if len(text) > most {
		text = text[:most]
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
