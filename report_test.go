package tally

import (
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// Refusals are logged without addresses and keys unless the operator asks for them.
func TestLogsNameNobodyUnasked(t *testing.T) {
	for _, c := range []struct {
		h    enforcer
		want []string
	}{
		{enforcer{}, nil},
		{enforcer{logsIP: true}, []string{"remote_ip", "client_ip"}},
		{enforcer{logsKey: true}, []string{"remote_ip", "client_ip", "key"}},
	} {
		r := requestFor(t, "GET", "/")
		vars, _ := r.Context().Value(caddyhttp.VarsCtxKey).(map[string]any)
		var got []string
		for _, field := range c.h.identity(&evaluation{handler: &c.h, http: r, vars: vars}, []byte("i192.0.2.1")) {
			got = append(got, field.Key)
		}
		if len(got) != len(c.want) {
			t.Errorf("log_ip %v, log_key %v: the log has %v, want %v", c.h.logsIP, c.h.logsKey, got, c.want)
		}
	}
}
