package report_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/notify"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

// quotaZone returns the zone of a path, with options.
func quotaZone(name, options string) string {
	return "zone " + name + " {\nmatch path /" + name + "\n" + options + "\n}\n"
}

// A key of a quota is notified of once, by the request after which four fifths are used, or by the next one if the
// units come to light in another way.
func TestQuotasThatAreNearlyUsedUp(t *testing.T) {
	const tenant = "per key {http.request.header.X-Tenant}\n"
	zones := map[string]string{
		"day":       tenant + "limit 10/24h fixed name daily",
		"month":     tenant + "limit 10/month fixed\nlimit 1000/1m",
		"everyone":  "per everyone\nlimit 10/24h fixed",
		"jump":      tenant + "limit 10/24h fixed\ncost 7 header X-Large *",
		"settled":   tenant + "limit 10/24h fixed\ncost 1\nsettle {http.response.header.X-Used}",
		"errors":    tenant + "limit 10/24h fixed\ncount status 500",
		"penalty":   tenant + "limit 10/24h fixed block 48h",
		"hour":      tenant + "limit 10/1h fixed",
		"sliding":   tenant + "limit 10/24h",
		"addresses": "per ip\nlimit 10/24h fixed",
		"clients":   "per client\nlimit 10/24h fixed",
		"shadow":    tenant + "limit 10/24h fixed shadow",
		"quiet":     tenant + "limit 10/24h fixed",
	}
	var blocks strings.Builder
	for name, options := range zones {
		blocks.WriteString(quotaZone(name, options))
	}
	app, config := handlertest.Read(t, "{\nrate_limit {\nnotify http://127.0.0.1:9 {\non quota\n}\n}\n}\n:80 {\nrate_limit {\n"+blocks.String()+"\n}\n}")
	h := handlertest.Start(t, app, config)
	var mu sync.Mutex
	got := make(map[string][]notify.Event)
	listener := func(e notify.Event) {
		mu.Lock()
		defer mu.Unlock()
		got[e.Zone] = append(got[e.Zone], e)
	}
	h.Config.Use().Listener.Store(&listener)
	ask := func(zone, tenant string, n int, fields ...string) (notified int) {
		for range n {
			_, _, _ = handlertest.Get(h, "/"+zone, "192.0.2.1", func(w http.ResponseWriter, r *http.Request) error {
				w.Header().Set("X-Used", "5")
				w.WriteHeader(http.StatusInternalServerError)
				return nil
			}, append(fields, "X-Tenant", tenant)...)
		}
		mu.Lock()
		defer mu.Unlock()
		return len(got[zone])
	}
	for _, c := range []struct {
		zone          string
		quiet, noisy  int // requests that aren't notified of, and those after which it is
		fields        []string
		count         int64
		text, limited string
	}{
		{"day", 7, 1, nil, 8, "acme has used 80 % of the limit daily of the zone day: 8 of 10 units, until ", "daily"},
		{"month", 7, 1, nil, 8, "acme has used 80 % of the limit month of the zone month: 8 of 10 units, until ", "month"},
		{"everyone", 7, 1, nil, 8, "All together have used 80 % of the limit everyone of the zone everyone: 8 of 10 units", "everyone"},
		{"jump", 1, 1, []string{"X-Large", "yes"}, 7, "", ""},
		{"settled", 2, 1, nil, 10, "", "settled"},
		{"errors", 8, 1, nil, 8, "", "errors"},
	} {
		if n := ask(c.zone, "acme", c.quiet, c.fields...); n != 0 {
			t.Errorf("%s: it is notified of %+v after %d requests", c.zone, got[c.zone], c.quiet)
		}
		n := ask(c.zone, "acme", c.noisy, c.fields...)
		if c.zone == "jump" { // the next cost is more than the 7 that are left
			if n != 0 {
				t.Errorf("jump: a refusal with 3 units left is notified of: %+v", got[c.zone])
			}
			if n = ask(c.zone, "acme", 1); n != 1 {
				t.Errorf("jump: %d after the eighth unit", n)
			}
			continue
		}
		if n != 1 {
			t.Errorf("%s: it is notified of %d times, want once", c.zone, n)
			continue
		}
		e := got[c.zone][0]
		if e.Kind != notify.Quota || e.Count != c.count || e.Amount != 10 || e.Limit != c.limited || !strings.Contains(e.Text, c.text) ||
			e.Until == nil || e.Until.UTC().Hour() != 0 || e.Until.Minute() != 0 {
			t.Errorf("%s: got %+v", c.zone, e)
		}
		if n := ask(c.zone, "acme", 5, c.fields...); n != 1 {
			t.Errorf("%s: it is notified of %d times, want once a window", c.zone, n)
		}
	}
	for _, zone := range []string{"hour", "sliding", "addresses", "clients", "shadow"} {
		if n := ask(zone, "acme", 12); n != 0 {
			t.Errorf("%s: it is notified of %+v", zone, got[zone])
		}
	}
	// Another key of a zone waits for a minute. It is not forgotten: see TestQuotasOfAMinute.
	if n := ask("day", "other", 9); n != 1 {
		t.Errorf("%d notifications of a zone in a minute", n)
	}
	if n := ask("penalty", "acme", 12); n != 1 || got["penalty"][0].Count != 8 {
		t.Errorf("penalty: got %+v", got["penalty"])
	}
	h.Config.Webhooks = nil
	if n := ask("quiet", "acme", 9); n != 0 {
		t.Error("it is noted for nobody")
	}
}
