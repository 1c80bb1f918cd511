package enforce_test

import (
	"context"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

// Addresses of one network share a limit: a /24 and a /48, or what the zone says.
func TestPerNetwork(t *testing.T) {
	for _, tt := range []struct {
		name   string
		ipv4   int
		client string
		passes bool
	}{
		{"the same /24", 0, "192.0.2.200", false},
		{"another /24", 0, "192.0.3.1", true},
		{"the same /16", 16, "192.0.99.1", false},
		{"another /16", 16, "192.1.2.1", true},
		{"IPv4 in IPv6", 0, "::ffff:192.0.2.9", false},
		{"the same /48", 0, "2001:db8:1:ffff::1", false},
		{"another /48", 0, "2001:db8:2::1", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := handlertest.Start(t, new(config.App), &config.Handler{Zones: []*config.Zone{
				{Name: t.Name(), Per: "network", IPv4Prefix: tt.ipv4, Limits: []config.Limit{{Amount: 1, Window: hour}}},
			}})
			for _, first := range []string{"192.0.2.1", "2001:db8:1::1"} {
				if w, err := handlertest.AskAs(context.Background(), h, first, nil, handlertest.Answering(200)); handlertest.IsRefused(w, err) {
					t.Fatalf("%s: %d, %v", first, w.Code, err)
				}
			}
			if w, err := handlertest.AskAs(context.Background(), h, tt.client, nil, handlertest.Answering(200)); handlertest.IsRefused(w, err) == tt.passes {
				t.Errorf("%s passes: %v", tt.client, !tt.passes)
			}
		})
	}
}
