package enforce

import (
	"net/netip"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/notify"
	"github.com/caddy-tally/caddy-tally/internal/watch"
)

// Notifications name the site and the network of most of the refusals that they are about.
func TestNotificationsNameSiteAndNetwork(t *testing.T) {
	key := func(address string) string {
		return string(identity.AppendPrefix([]byte{identity.TagNetwork}, netip.MustParsePrefix(address)))
	}
	now, cfg := time.Now(), new(Config)
	for _, r := range []struct{ zone, key, host string }{
		{"login", key("203.0.113.9/32"), "example.com"}, {"login", key("203.0.113.77/32"), "example.com"},
		{"login", key("198.51.100.7/32"), "b.example"}, {"api", key("192.0.2.7/32"), "api.example\n"}, {"keys", "kalice", "keys.example"},
	} {
		cfg.Watchers.Add(now, true, func() watch.Request {
			return watch.Request{Counted: []watch.Counted{{Zone: r.zone, Key: r.key}}, Host: r.host, Refusal: &watch.Refusal{Zone: r.zone}}
		})
	}
	for range 5 { // what was let in is no part of it
		cfg.Watchers.Add(now, false, func() watch.Request {
			return watch.Request{Counted: []watch.Counted{{Zone: "login", Key: key("192.0.2.99/32")}}, Host: "let-in.example"}
		})
	}
	for _, tt := range []struct {
		event               notify.Event
		site, network, says string
	}{
		{notify.Event{Kind: notify.Refusals, Zone: "login"}, "example.com", "203.0.113.0/24", "! Site: example.com. Network: 203.0.113.0/24."},
		{notify.Event{Kind: notify.Refusals, Zone: "keys"}, "keys.example", "", "! Site: keys.example."},
		{notify.Event{Kind: notify.Refusals, Zone: "other"}, "", "", "!"},
		{notify.Event{Kind: notify.Ban, Address: "192.0.2.7/32"}, `api.example\n`, "192.0.2.0/24", `! Site: api.example\n. Network: 192.0.2.0/24.`},
		{notify.Event{Kind: notify.Ban, Address: "2001:db8:1:2::/64 6346d10a05c3342f4c3628bdfb0edd0e"}, "", "2001:db8:1::/48", "! Network: 2001:db8:1::/48."},
		{notify.Event{Kind: notify.Ban, Address: "acme"}, "", "", "!"},
		{notify.Event{Kind: notify.Degraded, Zone: "login"}, "", "", "!"},
	} {
		e := tt.event
		e.Time, e.Text = now, "!"
		if cfg.locate(&e); e.Site != tt.site || e.Network != tt.network || e.Text != tt.says {
			t.Errorf("%+v: got %q, %q and %q", tt.event, e.Site, e.Network, e.Text)
		}
	}
}
