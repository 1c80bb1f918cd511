package caddytest

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/caddyserver/caddy/v2"
)

// A refusal reaches the error routes of a subroute, which only JSON has.
func TestSubrouteHandlesRefusals(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	port := freePort(t)
	config := fmt.Sprintf(`{"admin": {"disabled": true, "config": {"persist": false}}, "apps": {
		"rate_limit": {"store_timeout": "1m"}, "tls": {"disable_storage_clean": true}, "http": {"servers": {"s": {
		"listen": ["127.0.0.1:%s"], "automatic_https": {"disable": true},
		"routes": [{"handle": [{"handler": "subroute",
			"routes": [{"handle": [
				{"handler": "rate_limit", "zones": [{"name": "sub", "limits": [{"amount": 1, "window": "1h"}]}]},
				{"handler": "static_response", "body": "served"}]}],
			"errors": {"routes": [{"handle": [{"handler": "static_response", "status_code": 429,
				"body": "{http.rate_limit.exceeded.name} is over"}]}]}
		}]}]}}}}}`, port)
	if err := caddy.Load([]byte(config), true); err != nil {
		t.Fatal(err)
	}
	defer caddy.Stop()
	for _, want := range []string{"served", "sub is over"} {
		res, err := http.Get(fmt.Sprintf("http://127.0.0.1:%s/", port))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		res.Body.Close()
		if err != nil || string(body) != want {
			t.Errorf("%s %q, %v; want %q", res.Status, body, err, want)
		}
	}
}
