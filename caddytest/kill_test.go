package caddytest

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/admissions"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

var killSeed = flag.Uint64("kill.seed", 0, "draw kinds of lives, times and requests from this seed; 0 draws one")

// TestLimitsHoldOverKills kills Caddys at random moments, and while they make a
// database, copy the log into it, or sweep it, and starts them again. At the end
// it holds what their clients were answered against the limits. A seed gives the
// same plan again, not the same moments: those are the machine's.
func TestLimitsHoldOverKills(t *testing.T) {
	t.Parallel()
	seed, kills := *killSeed, proof.Times(8, 300)
	for seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("go test ./caddytest -run TestLimitsHoldOverKills -v -kill.seed=%d", seed)
	k := newKiller(t, seed)
	began := time.Now()
	for k.killed() < kills && !t.Failed() {
		k.round()
	}
	k.last()
	wall := time.Duration(time.Now().UnixNano() - began.UnixNano())
	if set := wall - time.Since(began); set.Abs() > admissions.Slack {
		t.Errorf("the system's clock was set by %v meanwhile: nothing is proved", set)
	}
	k.prove()
	proof.Figure(t, "%d kills in %v, seed %d: %s", k.killed(), wall.Round(time.Second), seed, map[bool]string{false: "all promises kept", true: "FAILED"}[t.Failed()])
}

// killed returns how many processes were killed. What is indented is counted in
// the line above.
func (k *killer) killed() (n int) {
	for kind, kills := range k.kills {
		if !strings.HasPrefix(kind, " ") {
			n += kills
		}
	}
	return n
}

// prove holds the log against the limits, and tells what was in it.
func (k *killer) prove() {
	k.log.check(k.t)
	total, admitted := 0, 0
	for i, z := range killZones {
		s := k.proveZone(i)
		total, admitted = total+s.requests, admitted+s.admitted
		k.t.Logf("zone %-8s %v: %s", z.name, z.limits, s)
		if i != flood && (s.admitted == 0 || s.refused() == 0) {
			k.t.Errorf("zone %s: %s; both belong to a proof", z.name, s)
		}
	}
	proof.Figure(k.t, "%d requests answered, %d admitted, %d cut off", total, admitted, k.log.cutOff)
	for _, kind := range killKinds {
		k.t.Logf("%4d kills %s", k.kills[kind], kind)
		if k.kills[kind] == 0 && k.killed() >= 100 && kind != tooEarly && kind != inSweep {
			k.t.Errorf("of %d kills none fell %s", k.killed(), kind)
		}
	}
}

// tooEarly is the one kind that there need not be any of: how long a file is empty
// depends on the machine, and nothing can be lost of it.
const tooEarly = "  before there was anything in it"

// inSweep is another: rows that a process adds as it starts, from the journal of the one
// before, may hide those that it has swept.
const inSweep = "  in the middle of that"

// killKinds are the kinds of kills in the order of the report.
var killKinds = []string{
	"under load", "starting, or soon after", "beside another process", "after another process",
	"when another process came", "when it wrote to the database",
	"when a checkpoint began", "  in the middle of it", "when a sweep began", inSweep,
	"making a database", tooEarly, "  in the middle of its migration", "  when it was there",
	"with a database just made",
}

// killSum sums up what was observed in a zone.
type killSum struct {
	keys, requests, admitted int
	fullest                  []int64 // by limit: the most units in a window
	kept                     int     // processes that kept to blocks of ones before them
}

func (s killSum) refused() int { return s.requests - s.admitted }

func (s killSum) String() string {
	return fmt.Sprintf("%d keys, %d admitted, %d refused, %v at the fullest, blocks of earlier processes kept by %d", s.keys, s.admitted, s.refused(), s.fullest, s.kept)
}

// proveZone checks every key of a zone.
func (k *killer) proveZone(zone int) killSum {
	limits := killZones[zone].limits
	s := killSum{fullest: make([]int64, len(limits))}
	keys := slices.SortedFunc(maps.Keys(k.log.all), func(a, b account) int { return strings.Compare(a.key, b.key) })
	for _, key := range keys {
		if key.zone != killZones[zone].name {
			continue
		}
		log := k.log.all[key]
		s.keys, s.requests = s.keys+1, s.requests+len(log)
		for _, o := range log {
			if o.admitted {
				s.admitted++
			}
		}
		for i, l := range limits {
			fullest := l.Fullest(admitted(log))
			s.fullest[i] = max(s.fullest[i], fullest)
			if fullest > l.Capacity() {
				k.t.Errorf("zone %s, key %q: %v has admitted %d", killZones[zone].name, key.key, l, fullest)
			}
		}
		kept, err := checkBlocked(log)
		if err != nil {
			k.t.Errorf("zone %s, key %q: %v", killZones[zone].name, key.key, err)
		}
		s.kept += kept
	}
	return s
}
