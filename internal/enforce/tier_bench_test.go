package enforce_test

import (
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

// BenchmarkTiers measures one warm client: the cost of a second limit, of an API key, and of tiers.
// The limits are so large that none is ever near.
func BenchmarkTiers(b *testing.B) {
	const most = 1 << 40
	burst := config.Limit{Amount: 1000, Window: caddy.Duration(time.Second), Burst: most}
	daily := config.Limit{Amount: most, Window: caddy.Duration(24 * time.Hour), Name: "daily"}
	berlin := config.Limit{Amount: most, Window: caddy.Duration(24 * time.Hour), Algorithm: "fixed", Timezone: "Europe/Berlin"}
	for _, bb := range []struct {
		name string
		zone *config.Zone
	}{
		{"key/burst", &config.Zone{Per: enforce.PerKey, Limits: []config.Limit{burst}}},
		{"key/daily", &config.Zone{Per: enforce.PerKey, Limits: []config.Limit{daily}}},
		{"key/fixed_timezone", &config.Zone{Per: enforce.PerKey, Limits: []config.Limit{berlin}}},
		{"key/both", &config.Zone{Per: enforce.PerKey, Limits: []config.Limit{burst, daily}}},
		{"api_key/both", &config.Zone{Per: enforce.PerAPIKey, Limits: []config.Limit{burst, daily}}},
		{"tiers/both", &config.Zone{Per: enforce.PerAPIKey, Tiers: true}},
		{"tiers/both/reputation_off", &config.Zone{Per: enforce.PerAPIKey, Tiers: true, DisableReputation: true}},
		{"tiers/both/ban", &config.Zone{Per: enforce.PerAPIKey, Tiers: true, Ban: &config.Ban{After: 5, Within: caddy.Duration(time.Minute), For: caddy.Duration(time.Hour)}}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			zone := &config.Zone{Name: "bench", Per: bb.zone.Per, Limits: bb.zone.Limits, Tiers: bb.zone.Tiers, Ban: bb.zone.Ban, DisableReputation: bb.zone.DisableReputation}
			if zone.Per == enforce.PerKey {
				zone.Key = "{http.request.header.X-Api-Key}"
			}
			benchTier(b, zone, config.Tier{Name: "free", Limits: []config.Limit{burst, daily}})
		})
	}
}

func benchTier(b *testing.B, zone *config.Zone, tier config.Tier) {
	file := filepath.Join(b.TempDir(), "api_keys")
	key, err := apikeys.New(file, apikeys.Holder{Name: "acme", Tier: tier.Name})
	if err != nil {
		b.Fatal(err)
	}
	h := handlertest.Start(b, &config.App{Tiers: []*config.Tier{&tier}, APIKeys: &config.APIKeys{File: file}}, &config.Handler{Zones: []*config.Zone{zone}})
	r, vars, w := benchRequest()
	r.Header.Set("X-Api-Key", key)
	repl := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	empty := *repl
	b.ReportAllocs()
	for b.Loop() {
		*repl = empty
		delete(vars, handlertest.ResponseVar)
		clear(w.header)
		if err := h.ServeHTTP(w, r, nothing{}); err != nil {
			b.Fatal(err)
		}
	}
	if w.Header().Get("Retry-After") != "" || w.Header()[http.CanonicalHeaderKey("RateLimit")] == nil {
		b.Fatal("the requests were refused, or not counted")
	}
}
