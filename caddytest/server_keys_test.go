package caddytest

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// byTenant is a Caddyfile that counts by a header field.
func byTenant(more string) string {
	return config("zone z {\nper key {http.request.header.X-Tenant}\nlimit 2/1h\n" + more + "\n}")
}

func from(client int) string { return fmt.Sprintf("X-Forwarded-For: 192.0.2.%d", client) }

func TestEmptyKeyDoesNotLumpStrangersTogether(t *testing.T) {
	t.Parallel()
	for name, conf := range map[string]string{
		"default": byTenant(""),
		"ip":      byTenant("on_empty_key ip"),
		"peer":    config("zone z {\nkey {http.request.header.X-Tenant}\nevents 2\nwindow 1h\n}"),
		"several": config("zone z {\nper key {http.request.header.X-Tenant}-{http.request.cookie.id}\nlimit 2/1h\n}"),
	} {
		t.Run(name, func(t *testing.T) {
			s := startCaddy(t, conf)
			s.wantPassed(2, 3, "/", from(1))
			s.wantPassed(2, 3, "/", from(2), "X-Tenant: ")
			s.wantPassed(0, 1, "/", from(2))
			// A tenant is one count from wherever it comes.
			s.wantPassed(1, 1, "/", from(1), "X-Tenant: a")
			s.wantPassed(1, 2, "/", from(3), "X-Tenant: a")
			s.wantPassed(2, 3, "/", from(3), "X-Tenant: b")
			s.wantPassed(2, 3, "/", from(3))
			// One who is named like an address is not that address.
			s.wantPassed(2, 3, "/", from(4), "X-Tenant: 192.0.2.1")
		})
	}
}

func TestEmptyKeyIsShared(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, byTenant("on_empty_key share"))
	s.wantPassed(2, 3, "/", from(1))
	s.wantPassed(0, 1, "/", from(2))
	s.wantPassed(2, 3, "/", from(2), "X-Tenant: a")
}

func TestEmptyKeyIsSkipped(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, byTenant("on_empty_key skip"))
	s.wantPassed(10, 10, "/", from(1))
	if a := s.get("/", from(1)); len(a.header.Values("RateLimit")) > 0 {
		t.Errorf("a request that is not counted is told of a limit: %v", a.header)
	}
	s.wantPassed(2, 3, "/", from(1), "X-Tenant: a")
}

func TestEmptyKeyIsDenied(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, byTenant("on_empty_key deny"))
	a := s.get("/", from(1))
	if a.status != http.StatusTooManyRequests {
		t.Errorf("status is %d, want 429", a.status)
	}
	if retry := a.header.Values("Retry-After"); len(retry) > 0 {
		t.Errorf("Retry-After is %q although no waiting helps", retry)
	}
	s.wantPassed(2, 3, "/", from(1), "X-Tenant: a")
}

// All of these keys work, no two of them are one, and none is longer than
// another in the database.
func TestLongAndStrangeKeysNeitherFailNorGrowTheDatabase(t *testing.T) {
	t.Parallel()
	many := proof.Times(10, 40)
	long := strings.Repeat("x", 64<<10)
	s := startCaddy(t, strings.Replace(byTenant(""), "trusted_proxies", "max_header_size 1MB\n\t\ttrusted_proxies", 1))
	kinds := []func(int) string{
		func(i int) string { return long + fmt.Sprint(i) },
		func(i int) string { return "\xff\xfe\xc0\x80" + string([]byte{0x80 + byte(i)}) },
		func(i int) string { return strings.Repeat("\xc3\x28", 20<<10) + fmt.Sprint(i) },
		func(i int) string { return `'";--{}%s` + fmt.Sprint(i) },
	}
	for _, key := range kinds {
		for i := range many {
			s.wantPassed(2, 3, "/", "X-Tenant: "+key(i))
		}
	}
	s.stop()
	info, err := os.Stat(s.database())
	if err != nil {
		t.Fatal(err)
	}
	const most = 128 << 10 // long keys would take more than 1 MiB
	if info.Size() > most {
		t.Errorf("the database takes %d bytes, want %d at most", info.Size(), most)
	}
	s.start()
	for _, key := range kinds {
		for i := range many {
			s.wantPassed(0, 1, "/", "X-Tenant: "+key(i))
		}
	}
}

func TestCost(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config("zone z {\nlimit 10/1h\ncost {http.request.header.X-Batch}\n}"))
	s.wantPassed(1, 1, "/", "X-Batch: 7")
	s.wantPassed(0, 1, "/", "X-Batch: 4")
	s.wantPassed(3, 3, "/", "X-Batch: 0")
	s.wantPassed(1, 1, "/")
	s.wantPassed(1, 1, "/", "X-Batch: ")
	s.wantPassed(1, 1, "/")
	if a := s.get("/", "X-Batch: 11"); a.status != http.StatusForbidden || a.header.Get("Retry-After") != "" {
		t.Errorf("a cost that can never be had: status %d, Retry-After %q", a.status, a.header.Get("Retry-After"))
	}
	if a := s.get("/", from(9), "X-Batch: 99999999999999999999"); a.status != http.StatusForbidden {
		t.Errorf("a cost beyond all numbers: status %d", a.status)
	}
	s.wantPassed(1, 1, "/", from(9), "X-Batch: 10")
}

// An upstream may read any number from what isn't a whole one, so it costs as much as the limits allow,
// and is refused with a true Retry-After, since it passes later.
func TestMalformedCost(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config(`zone z {
			limit 10/1h
			limit 100/24h
			cost {http.request.header.X-Batch}
			match path /z
		}
		zone capped {
			limit 10/1h
			cost {http.request.header.X-Batch}
			max_cost 5
			match path /capped
		}`))
	for i, text := range []string{"100.0", "1e2", "0x64", "1_00", "-5", "1,2", "100 ", "１００", "five"} {
		one := []string{from(100 + i), "X-Batch: " + text}
		if text == "100 " { // which is a whole number, above the limit
			if a := s.get("/z", one...); a.status != http.StatusForbidden {
				t.Errorf("%q: status %d", text, a.status)
			}
			continue
		}
		s.wantPassed(1, 1, "/z", one...)
		if a := s.get("/z", one...); a.status != http.StatusTooManyRequests || a.retryAfter() < 3600 {
			t.Errorf("%q: status %d, Retry-After %d", text, a.status, a.retryAfter())
		}
		s.wantPassed(0, 1, "/z", from(100+i)) // it has cost all of the smaller limit
		s.wantPassed(2, 3, "/capped", one...)
	}
}
