package caddytest

import (
	"net/http"
	"strings"
	"testing"
)

// A client that adds a line of its own before the one that a proxy adds chooses
// neither whom it counts as, nor what it is exempt from.
func TestSecondLineOfAnAddressIsNoOtherClient(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		servers string
		fields  []string // before the proxy's
		own     bool     // they make it another client
	}{
		"a line before":          {"client_ip_headers X-Real-IP", []string{"X-Real-IP: 198.51.100.%d"}, false},
		"two lines before":       {"client_ip_headers X-Real-IP", []string{"X-Real-IP: 198.51.100.%d", "X-Real-IP: nonsense"}, false},
		"joined":                 {"client_ip_headers X-Real-IP", []string{"X-Real-IP: 198.51.100.%d, 198.51.100.1"}, false},
		"an exempt one":          {"client_ip_headers X-Real-IP", []string{"X-Real-IP: 10.0.0.1"}, false},
		"in another field":       {"client_ip_headers X-Real-IP X-Forwarded-For", []string{"X-Forwarded-For: 198.51.100.%d"}, false},
		"strict":                 {"client_ip_headers X-Real-IP\ntrusted_proxies_strict", []string{"X-Real-IP: 198.51.100.%d"}, false},
		"of a list, as Caddy is": {"client_ip_headers X-Forwarded-For X-Real-IP", []string{"X-Forwarded-For: 198.51.100.%d", "X-Forwarded-For: 192.0.2.9"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := options(patient + strings.Replace(trusting, "trusted_proxies", c.servers+"\ntrusted_proxies", 1))
			s := startCaddy(t, config+site("rate_limit {\nexempt client_ip 10.0.0.0/8\nzone z {\nper ip\nlimit 3/1h\n}\n}\nrespond {client_ip}"))
			passed := 0
			for i := range 8 {
				var fields []string
				for _, field := range c.fields {
					fields = append(fields, strings.ReplaceAll(field, "%d", string(rune('1'+i))))
				}
				a := s.get("/", append(fields, "X-Real-IP: 192.0.2.1")...)
				if a.status == http.StatusOK {
					passed++
				}
				if a.status == http.StatusOK && !c.own && a.body != "192.0.2.1" {
					t.Errorf("the client is %s to others", a.body)
				}
			}
			if want := map[bool]int{false: 3, true: 8}[c.own]; passed != want {
				t.Errorf("%d requests passed, want %d", passed, want)
			}
		})
	}
}
