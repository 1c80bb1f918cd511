package tally

import (
	"net/http"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/caddy-tally/caddy-tally/internal/meter"
)

// logField is the field that Caddy's access log has for a refused request.
const logField = "rate_limit"

// writesAccessLogs reports whether the server of a handler that is being provisioned writes
// access logs, at least for some hosts.
func writesAccessLogs(ctx caddy.Context) bool {
	server, ok := ctx.Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	return ok && server.Logs != nil
}

// addLogField adds a refusal to what the access log says of a request.
func (h *enforcer) addLogField(r *http.Request, by *refusal) {
	if !h.logsAccess {
		return
	}
	if extra, ok := r.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields); ok {
		extra.Set(zap.Object(logField, loggedRefusal{by}))
	}
}

// loggedRefusal is a refusal as access logs hold it. Its fields are made when it is written.
type loggedRefusal struct{ *refusal }

// MarshalLogObject implements zapcore.ObjectMarshaler.
func (l loggedRefusal) MarshalLogObject(to zapcore.ObjectEncoder) error {
	to.AddString("zone", l.policy.zone.Name)
	to.AddString("limit", l.policy.name)
	to.AddString("outcome", meter.Outcomes[l.reason])
	to.AddString("reference", l.id())
	return nil
}
