package enforce_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/identity/apikeys"
	"github.com/caddy-tally/caddy-tally/internal/operator"
	"github.com/caddy-tally/caddy-tally/internal/testing/fakeclock"
	"github.com/caddy-tally/caddy-tally/internal/testing/handlertest"
)

// The limits of a zone per API key stay whole, however often a customer tries for more, unless the zone has
// reputation on. Then the header has the amounts in force, and explain says why they are smaller.
func TestLimitsOfAnAPIKeyStayWhole(t *testing.T) {
	for _, tt := range []struct {
		option, why string
		pass        int
		policy      string
	}{
		{"", "", 20, `"api";q=20;w=60, "daily";q=1000;w=86400`},
		{"reputation off", "", 20, `"api";q=20;w=60, "daily";q=1000;w=86400`},
		{"reputation on", "60 % of each limit, because of its score", 12, `"api";q=12;w=60, "daily";q=600;w=86400`},
	} {
		t.Run(tt.option, func(t *testing.T) {
			dir := t.TempDir()
			keys, example := filepath.Join(dir, "keys"), filepath.Join(dir, "Caddyfile")
			c := &dayClient{ip: "192.0.2.1", path: "/"}
			var err error
			if c.key, err = apikeys.New(keys, apikeys.Holder{Name: "acme", Tier: "free"}); err != nil {
				t.Fatal(err)
			}
			c.prepare()
			text := "{\nrate_limit {\ntier free {\nlimit 5/1m\n}\napi_keys {\n\tfile examples/api_keys\n}\n}\n}\n" +
				":80 {\nrate_limit {\nheaders both\nzone api {\nper api_key\nlimit 20/1m\nlimit 1000/24h name daily\n" + tt.option + "\n}\n}\n}\n"
			if err := os.WriteFile(example, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			clock := fakeclock.New(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC).UnixNano())
			h := exampleHandler(t, example, keys, clock)
			for range 6 {
				for range 24 {
					c.send(t, h)
				}
				clock.Now.Add(int64(2 * time.Minute))
			}
			passed := 0
			for range 24 {
				header, ok := c.send(t, h)
				if !ok {
					continue
				}
				passed++
				if got := header.Get("RateLimit-Policy"); !hasItems(got, tt.policy) {
					t.Errorf("RateLimit-Policy is %s, want %s", got, tt.policy)
				}
				if got := header.Get("X-Quota-Limit"); got != "1000" {
					t.Errorf("X-Quota-Limit is %s, want 1000: X-Quota-Used is of the whole quota", got)
				}
			}
			if passed != tt.pass {
				t.Errorf("%d of 24 pass, want %d", passed, tt.pass)
			}
			e, err := handlertest.Operator(h).Explain(t.Context(), operator.Question{Client: "api-key:acme"})
			if err != nil {
				t.Fatal(err)
			}
			why := ""
			if e.Reputation != nil {
				why = e.Reputation.Reduces
			}
			if why != tt.why {
				t.Errorf("explain says %q, want %q", why, tt.why)
			}
		})
	}
}

// hasItems reports whether a header field has exactly some items, in any order.
func hasItems(field, items string) bool {
	for item := range strings.SplitSeq(items, ", ") {
		if !strings.Contains(", "+field+",", ", "+item+",") {
			return false
		}
	}
	return len(field) == len(items)
}
