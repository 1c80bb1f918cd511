package caddytest

import (
	"fmt"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// crowd is how many requests come at once.
var crowd = proof.Times(300, 1000)

// Windows are so long in these tests that nothing is forgotten while they run,
// however slow the machine. Where it matters they are the longest there are, so
// that next to never a window ends, or a slot of it, which is at midnight.

func TestBurstPassesExactlyTheLimit(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config(`
		zone sliding {
			match /sliding
			limit 100/1h
		}
		zone fixed {
			match /fixed
			limit 100/366d fixed
		}
		zone bucket {
			match /bucket
			limit 100/366d token_bucket
		}
		zone burst {
			match /burst
			limit 10/30d burst 100
		}`))
	for _, path := range []string{"/sliding", "/fixed", "/bucket", "/burst"} {
		if passed := s.passedOfBurst(crowd, path); passed != 100 {
			t.Errorf("of %d requests at once for %s, %d passed, want 100", crowd, path, passed)
		}
	}
}

// What the second zone refuses costs nothing in the first.
func TestBurstThroughTwoZonesCostsOnlyWhatPasses(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config(`
		zone wide {
			limit 100/1h
		}
		zone narrow {
			match /both
			limit 10/1h
		}`))
	if passed := s.passedOfBurst(crowd, "/both"); passed != 10 {
		t.Errorf("%d passed, want 10", passed)
	}
	s.wantPassed(90, 91, "/wide")
}

// The order of the zones makes no difference to what is charged.
func TestBurstThroughTwoZonesInTheOtherOrder(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config(`
		zone narrow {
			match /both
			limit 10/1h
		}
		zone wide {
			limit 100/1h
		}`))
	if passed := s.passedOfBurst(crowd, "/both"); passed != 10 {
		t.Errorf("%d passed, want 10", passed)
	}
	if passed := s.passedOfBurst(crowd, "/wide"); passed != 90 {
		t.Errorf("%d passed, want 90", passed)
	}
}

// Several handlers of one request are not decided together, but a zone is one
// zone wherever its name is used.
func TestZoneIsSharedByHandlersAndSites(t *testing.T) {
	t.Parallel()
	zone := "rate_limit {\nzone shared {\nlimit 100/1h\n}\n}\nrespond hello"
	s := startCaddy(t, options(patient)+site("route /a {\n"+zone+"\n}\nroute /b {\n"+zone+"\n}")+
		"http://:{$OTHER} {\n"+zone+"\n}\n")
	passed := s.passedOfBurst(200, "/a")
	s.port = s.other
	passed += s.passedOfBurst(200, "/")
	if passed != 100 {
		t.Errorf("%d passed, want 100", passed)
	}
	s.wantPassed(0, 10, "/b")
}

func TestBurstOfManyClientsPassesTheLimitOfEach(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config(`
		zone each {
			limit 5/1h
		}`))
	passed, clients := make(chan int), proof.Times(10, 20)
	for i := range clients {
		go func() { passed <- s.passedOfBurst(50, "/", fmt.Sprintf("X-Forwarded-For: 192.0.2.%d", i)) }()
	}
	for range clients {
		if n := <-passed; n != 5 {
			t.Errorf("%d requests of a client passed, want 5", n)
		}
	}
}
