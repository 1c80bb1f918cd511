package caddytest

import (
	"strings"
	"testing"
)

// A zone applies once another zone has too many requests. Operators see that it does, and before, that
// it doesn't.
func TestZoneAppliesByTheLoadOfAnother(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, options(patient+trusting)+site(`rate_limit {
		zone strict {
			match /search
			per ip
			limit 1/1h
			when pages over 20/1h
		}
		zone pages {
			per everyone
			limit 1000/1h
		}
	}
	respond hello`))
	for n := range 20 {
		if a := s.get("/search"); a.status != 200 {
			t.Fatalf("request %d is answered with %d", n, a.status)
		}
	}
	explain := []string{"explain", "127.0.0.1", "--url", "http://127.0.0.1:" + s.port + "/search"}
	s.wantCommand(t, 0, explain, "zone strict doesn't apply, only when pages over 20/1h")
	s.wantCommand(t, 0, []string{"zones"}, "strict (when pages over 20/1h)")
	s.get("/") // the 21st
	if a := s.get("/search"); a.status != 200 {
		t.Errorf("the first request under load is answered with %d", a.status)
	}
	if a := s.get("/search"); a.status != 429 {
		t.Errorf("the second request under load is answered with %d", a.status)
	}
	s.wantCommand(t, 0, []string{"status"}, "Applied because of the load: strict.")
	s.wantCommand(t, 0, []string{"zones"}, "strict (applies now, when pages over 20/1h)")
	s.wantCommand(t, 0, explain, "refused")
	if logs := s.logs(); strings.Count(logs, "the zone applies: there is much load") != 1 {
		t.Errorf("the log doesn't say once that the zone applies: %s", logs)
	}
}
