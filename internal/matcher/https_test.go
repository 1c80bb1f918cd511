package matcher

import (
	"crypto/tls"
	"net/http"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// A proxy that isn't trusted says nothing about the connection; of several lines Caddy believes the last.
func TestRequestsOverHTTPS(t *testing.T) {
	for _, c := range []struct {
		tls, trusted bool
		said         []string
		want         bool
	}{
		{tls: true, want: true},
		{tls: true, trusted: true, said: []string{"http"}, want: true},
		{trusted: true, said: []string{"https"}, want: true},
		{trusted: true, said: []string{"HTTPS"}, want: true},
		{trusted: true, said: []string{"http", "https"}, want: true},
		{trusted: true, said: []string{"https", "http"}},
		{trusted: true, said: []string{"https, http"}},
		{trusted: true, said: []string{"http"}},
		{trusted: true},
		{said: []string{"https"}},
		{},
	} {
		r := from(new(caddyhttp.Server), "127.0.0.1", "")
		if r.Header["X-Forwarded-Proto"] = c.said; c.tls {
			r.TLS = new(tls.ConnectionState)
		}
		caddyhttp.SetVar(r.Context(), caddyhttp.TrustedProxyVarKey, c.trusted)
		if got := IsHTTPS(r); got != c.want {
			t.Errorf("%+v: got %t", c, got)
		}
	}
	if IsHTTPS(new(http.Request)) {
		t.Error("a request that no server received is over HTTPS")
	}
}
