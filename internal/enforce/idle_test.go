package enforce_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/config"
	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

// Operators are told once of zones that see no requests, and of keys that are always empty, when their site has let in
// 10,000 requests, or some in three days; not before, and not of zones that wait for load.
func TestZonesThatDoNothing(t *testing.T) {
	const zones = `
		zone all {
			limit 1000000/1h
		}
		zone elsewhere {
			match POST /never
			limit 5/1m
		}
		zone tried {
			match POST /never
			shadow
			limit 5/1m
		}
		zone tenants {
			key {http.request.header.X-Tenant}
			limit 1000000/1h
		}
		zone skipping {
			key {http.request.header.X-Tenant}
			on_empty_key skip
			limit 1000000/1h
		}
		zone loaded {
			when everyone over 1000000/1s
			limit 5/1m
		}`
	start := func(t *testing.T) (h *enforce.Handler, told func() []string) {
		h = handlertest.Start(t, new(config.App), handlertest.Parse(t, zones))
		return h, func() (names []string) {
			for _, a := range h.Config.Advice.All() {
				if strings.Contains(a.Problem, "no request, ") || strings.Contains(a.Problem, "was empty in each request") {
					names = append(names, a.Zone)
				}
			}
			return names
		}
	}
	for name, tt := range map[string]struct {
		n      int
		tenant string // of the last one
		want   []string
	}{
		"10,000":                {10_000, "", []string{"elsewhere", "tried", "tenants", "skipping"}},
		"9,999":                 {9_999, "", nil},
		"30,000":                {30_000, "", []string{"elsewhere", "tried", "tenants", "skipping"}},
		"one of them has a key": {10_000, "a", []string{"elsewhere", "tried"}},
	} {
		t.Run(name, func(t *testing.T) {
			h, told := start(t)
			for i := range tt.n {
				fields := []string{"X-Tenant", tt.tenant}
				if i > 0 {
					fields = nil
				}
				if _, w, err := handlertest.Get(h, "/", "192.0.2.1", handlertest.Answering(200), fields...); err != nil || w.Code != 200 {
					t.Fatal(w.Code, err)
				}
			}
			if got := told(); !slices.Equal(got, tt.want) {
				t.Errorf("told of %v, want %v", got, tt.want)
			}
		})
	}
	for name, tt := range map[string]struct {
		n     int
		apart time.Duration
		want  bool
	}{
		"some in three days":  {256, 20 * time.Minute, true},
		"a few in three days": {255, 20 * time.Minute, false},
		"some in two days":    {512, 6 * time.Minute, false},
	} {
		t.Run(name, func(t *testing.T) {
			h, told := start(t)
			now := time.Unix(1e9, 0)
			for range tt.n {
				h.NoteLetIn(func() time.Time { return now })
				now = now.Add(tt.apart)
			}
			if got := told(); slices.Contains(got, "elsewhere") != tt.want {
				t.Errorf("told of %v", got)
			}
		})
	}
}
