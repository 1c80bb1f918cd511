package caddytest

import (
	"strings"
	"testing"
)

// What only provisioning finds wrong is reported with the line of the Caddyfile, also
// where the config reaches Caddy as JSON, as it does by `caddy reload`.
func TestErrorsOfProvisioningNameTheLine(t *testing.T) {
	noData(t)
	for _, tt := range []struct{ name, input, want string }{
		{"zone", ":9080 {\n\trate_limit {\n\t\tzone a {\n\t\t\tper api_key\n\t\t\tlimit 5/1m\n\t\t}\n\t}\n}\n",
			`zone "a": per: no API keys are configured`},
		{"zone in mholt's words", ":9080 {\n\trate_limit {\n\t\tzone a {\n\t\t\tevents -1\n\t\t\twindow 1m\n\t\t}\n\t}\n}\n",
			`setting up rate limit a: max_events must be at least zero`},
		{"trap", ":9080 {\n\trate_limit {\n\t\ttrap ban 1000d path /a\n\t}\n}\n", `trap: ban: for must be between`},
		{"handler", ":9080 {\n\n\trate_limit {\n\t\tjitter -1\n\t}\n}\n", `jitter must be at least zero`},
		{"app", "{\n\n\trate_limit {\n\t\tapi_keys {\n\t\t\tmissing default free\n\t\t}\n\t}\n}\n", `there is no tier "free"`},
		{"tier", "{\n\trate_limit {\n\t\ttier a {\n\t\t\tlimit 5/1m\n\t\t\tservice_header X-A short\n\t\t}\n\t}\n}\n", `tier "a": service_header`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			raw, _, err := adaptCaddyfile([]byte(tt.input), map[string]any{"filename": "/etc/caddy/Caddyfile"})
			if err != nil {
				t.Fatalf("the adapter found it already: %v", err)
			}
			err = validate(raw)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error is %v, want in it %q", err, tt.want)
			}
			if at := ", at /etc/caddy/Caddyfile:3"; !strings.HasSuffix(err.Error(), at) || strings.Count(err.Error(), ", at ") != 1 {
				t.Errorf("error is\n%v\nwant %q at its end", err, at)
			}
		})
	}
}
