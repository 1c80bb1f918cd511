package caddytest

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
)

// regional is a Caddyfile of one of several regions.
const regional = `
	rate_limit {
		store_timeout 1m
		secret_file {$SECRET}
		region {$REGION} {
			exchange postgres {env.EXCHANGE}
			interval 1s
		}
	}
	`

// startRegions starts a Postgres server and a Caddy for each region.
func startRegions(t *testing.T, regions ...string) (exchange *testserver.Server, servers []*server) {
	t.Helper()
	exchange, err := testserver.Postgres()
	if errors.Is(err, testserver.ErrMissing) {
		t.Skip("no Postgres server is installed: ", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(exchange.Close)
	secret := filepath.Join(t.TempDir(), "tally.key")
	if err := os.WriteFile(secret, []byte(strings.Repeat("a secret of all regions ", 2)), 0o600); err != nil {
		t.Fatal(err)
	}
	text := options(regional+trusting) +
		site("rate_limit {\ntrap ban 1h /.env\nzone z {\nper ip\nlimit 100/1h\n}\nzone clients {\nper client\nlimit 10000/1h\n}\n}\nrespond hello")
	for _, region := range regions {
		servers = append(servers, startCaddy(t, text, "SECRET="+secret, "REGION="+region, "EXCHANGE="+exchange.DSN(exchange.Port)))
	}
	for _, s := range servers {
		waitFor(t, "all regions to meet", func() bool {
			return strings.Count(s.metricLines(), "caddy_rate_limit_region_lag_seconds{") == len(regions)
		})
	}
	return exchange, servers
}

// applied returns how many counts of others a server has taken into account.
func (s *server) applied() (n float64) {
	for line := range strings.Lines(s.metricLines()) {
		if value, ok := strings.CutPrefix(line, "caddy_rate_limit_region_applied_rows_total "); ok {
			if _, err := fmt.Sscan(value, &n); err != nil {
				s.t.Error(err)
			}
		}
	}
	return n
}

// metricLines returns all metrics.
func (s *server) metricLines() string {
	s.t.Helper()
	text, err := s.metrics()
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// afterNews calls f, and waits until some servers have heard of all that it did: each has begun and ended an
// exchange of its counts after those that publish have.
func afterNews(servers []*server, f func()) {
	f()
	for range 2 {
		since := time.Now()
		for _, s := range servers {
			waitFor(s.t, "an exchange with other regions", func() bool { return s.lag() < time.Since(since) })
		}
	}
}

// lag returns how long ago a server last exchanged all counts.
func (s *server) lag() time.Duration {
	s.t.Helper()
	i := slices.IndexFunc(s.env, func(name string) bool { return strings.HasPrefix(name, "REGION=") })
	prefix := fmt.Sprintf("caddy_rate_limit_region_lag_seconds{region=%q} ", strings.TrimPrefix(s.env[i], "REGION="))
	for line := range strings.Lines(s.metricLines()) {
		if value, ok := strings.CutPrefix(line, prefix); ok {
			var seconds float64
			if _, err := fmt.Sscan(value, &seconds); err != nil {
				s.t.Fatal(err)
			}
			return time.Duration(seconds * float64(time.Second))
		}
	}
	s.t.Fatal("the metrics have no lag")
	return 0
}

func TestRegions(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("starts three Caddys and a Postgres server")
	}
	exchange, servers := startRegions(t, "eu", "us", "ap")
	eu, us, ap := servers[0], servers[1], servers[2]
	from := func(client string) []string { return []string{"X-Forwarded-For: " + client} }

	afterNews(servers, func() { eu.wantPassed(60, 60, "/", from("192.0.2.1")...) })
	afterNews(servers, func() { us.wantPassed(40, 60, "/", from("192.0.2.1")...) })
	ap.wantPassed(0, 5, "/", from("192.0.2.1")...)
	if a := ap.get("/", from("192.0.2.1")...); a.header.Get("Retry-After") == "" {
		t.Errorf("a refusal for what others admitted says %v", a.header)
	}
	eu.wantPassed(0, 5, "/", from("192.0.2.1")...)

	t.Run("killed and started again", func(t *testing.T) {
		eu.kill()
		eu.start()
		waitFor(t, "what others have admitted", func() bool { return eu.applied() > 0 })
		eu.wantPassed(0, 5, "/", from("192.0.2.1")...)
	})

	t.Run("a ban", func(t *testing.T) {
		us.get("/", from("192.0.2.3")...)
		ap.get("/.env", from("192.0.2.3")...)
		waitFor(t, "a ban of another region", func() bool {
			return us.get("/", from("192.0.2.3")...).status == http.StatusTooManyRequests
		})
	})

	t.Run("without the exchange", func(t *testing.T) {
		exchange.Kill()
		for i, s := range servers {
			s.wantPassed(100, 110, "/", from(fmt.Sprintf("192.0.2.1%d", i))...)
			s.wantPassed(100, 110, "/", from("192.0.2.2")...)
		}
		for _, s := range servers {
			waitFor(t, "the log", func() bool {
				return len(s.logLines("counts can't be exchanged with other regions; this region goes on alone until they can")) > 0
			})
			s.wantCommand(t, 0, words("status"), "Counts are not exchanged with other regions")
			if strings.Contains(s.logs(), testserver.Password) {
				t.Error("the log has the password")
			}
		}
		if err := exchange.Start(); err != nil {
			t.Fatal(err)
		}
		for i, s := range servers {
			waitFor(t, "the exchange", func() bool { return len(s.logLines("counts are exchanged with other regions again")) > 0 })
			for other := range servers {
				client := from(fmt.Sprintf("192.0.2.1%d", other))
				if other != i {
					waitFor(t, "what others admitted meanwhile", func() bool { return !s.get("/", client...).isAllowed(t) })
				}
			}
		}
	})
}

// A config that is only looked at connects to nothing, and warns of what stays regional.
func TestValidateOfRegions(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "tally.key")
	s := newServer(t, options(regional)+site("rate_limit {\nzone z {\nlimit 5/30s\n}\nzone long {\nlimit 100/1h\n}\n}\nrespond hello"),
		"SECRET="+secret, "REGION=eu", "EXCHANGE=postgres://tally:the-password@127.0.0.1:1/tally")
	out, err := s.run("validate", "--config", s.config)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if !strings.Contains(out, `the limit \"z\" counts in each region on its own, because its window of 30s is over before other regions hear of it`) {
		t.Errorf("it doesn't warn of a window of 30s:\n%s", out)
	}
	if strings.Contains(out, "the-password") || strings.Contains(out, "can't be exchanged") {
		t.Errorf("it connects, or shows the password:\n%s", out)
	}
	wantNoFile(t, secret)
}

// Hammered for long, all regions together admit at most the limit, a quarter of it, and what they
// admitted in the last turns. This is the long form, of which time is a part.
func TestRegionsHammered(t *testing.T) {
	t.Parallel()
	proof.Only(t)
	const amount, inTurns = 100, 2*1200*time.Millisecond + time.Second
	_, servers := startRegions(t, "eu", "us", "ap")
	var mu sync.Mutex
	var admitted []time.Time // guarded by mu
	var hammering sync.WaitGroup
	end := time.Now().Add(time.Duration(proof.Times(20, 60)) * time.Second)
	for _, s := range servers {
		hammering.Go(func() {
			for time.Now().Before(end) {
				if s.get("/", "X-Forwarded-For: 192.0.2.9").isAllowed(t) {
					mu.Lock()
					admitted = append(admitted, time.Now())
					mu.Unlock()
				}
				time.Sleep(100 * time.Millisecond)
			}
		})
	}
	hammering.Wait()
	slices.SortFunc(admitted, time.Time.Compare)
	last := 0
	for _, at := range admitted {
		if admitted[len(admitted)-1].Sub(at) <= inTurns {
			last++
		}
	}
	proof.Figure(t, "%d of %d were admitted in all, %d of them in the last %v", len(admitted), amount, last, inTurns)
	if len(admitted) > amount*5/4+last || len(admitted) < amount {
		t.Errorf("%d were admitted, want %d to %d", len(admitted), amount, amount*5/4+last)
	}
}
