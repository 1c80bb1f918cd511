package caddytest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/operator"
)

// A quota of a month begins anew at the month's end in its time zone, also over a restart, and the usage of a
// key has the same months.
func TestMonths(t *testing.T) {
	t.Parallel()
	zone, err := time.LoadLocation("Pacific/Auckland") // half a day from UTC
	if err != nil {
		t.Fatal(err)
	}
	s := newShifted(t, options("rate_limit {\nstore_timeout 10s\ntier free {\nlimit 3/month fixed timezone Pacific/Auckland\n}\napi_keys {\nmissing deny\n}\n}")+
		site("rate_limit {\nzone api {\ntiers\n}\n}\nrespond hello"))
	out, _, status := s.rateLimitProcess("key", "new", "acme", "free")
	if status != 0 {
		t.Fatal(out)
	}
	acme := "X-Api-Key: " + strings.TrimSpace(out)
	now := time.Now().In(zone)
	end := time.Date(now.Year(), now.Month()+1, 1, 0, 0, 0, 0, zone)
	s.step(end.Add(-20 * time.Minute).Sub(now))
	s.start()
	s.wantPassed(3, 5, "/", acme)
	if a := s.get("/", acme); a.retryAfter() < 19*60 || a.retryAfter() > 23*60 {
		t.Errorf("20 minutes before the end, Retry-After is %d", a.retryAfter())
	}
	s.stop()
	s.pass(25 * time.Minute)
	s.start()
	s.wantPassed(2, 2, "/", acme)
	s.stop()
	s.start()
	s.wantPassed(1, 3, "/", acme)
	s.stop()
	s.start()
	units := func(month time.Time, zone string) (sum int64) {
		used, err := s.operator().Usage(context.Background(), operator.UsageQuery{Client: "api-key:acme", Month: month.Format("2006-01"), Timezone: zone})
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range used.Days {
			sum += d.Units
			if day := month.Format("2006-01"); !strings.HasPrefix(d.Day, day) {
				t.Errorf("%s has the day %s", day, d.Day)
			}
		}
		return sum
	}
	if before, after := units(end.AddDate(0, 0, -1), zone.String()), units(end, zone.String()); before != 3 || after != 3 {
		t.Errorf("the months have %d and %d units, want 3 and 3", before, after)
	}
	if all := units(end.UTC(), ""); all != 6 {
		t.Errorf("the month of UTC has %d units, want 6", all)
	}
	s.wantCommand(t, 0, words("usage --key acme --timezone Pacific/Auckland"), end.Format("2006-01-02"))
	s.wantCommand(t, 1, words("usage --key acme --timezone Nowhere/City"), `unknown "Nowhere/City": expected a name such as Europe/Berlin`)
	s.wantCommand(t, 1, words("usage --key acme --timezone Pacific/Auckland --month "+now.AddDate(0, -8, 0).Format("2006-01")), "the history of keys begins on")
}
