package report

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
)

// Refusals are logged without addresses and keys unless the operator asks for them.
func TestLogsNameNobodyUnasked(t *testing.T) {
	for _, c := range []struct {
		h    enforce.Handler
		want []string
	}{
		{enforce.Handler{}, nil},
		{enforce.Handler{LogsIP: true}, []string{"remote_ip", "client_ip"}},
		{enforce.Handler{LogsKey: true}, []string{"remote_ip", "client_ip", "key"}},
	} {
		r := caddyhttp.PrepareRequest(httptest.NewRequest(http.MethodGet, "/", nil), caddy.NewReplacer(), httptest.NewRecorder(), new(caddyhttp.Server))
		vars, _ := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
		var got []string
		for _, field := range identityOf(&enforce.Verdict{Handler: &c.h, Http: r, Vars: vars}, []byte("i192.0.2.1")) {
			got = append(got, field.Key)
		}
		if len(got) != len(c.want) {
			t.Errorf("log_ip %v, log_key %v: the log has %v, want %v", c.h.LogsIP, c.h.LogsKey, got, c.want)
		}
	}
}
