package caddytest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// countsApart is the message about a limit that counts apart from the one it replaced.
const countsApart = "the limits of a zone count in another way than before, and from 0. Until all machines have this config, those with the former one count apart, and a client may use both limits: load it everywhere soon. To avoid that, keep the former limit beside the new one for a window first. A change of the amount alone counts on"

// A reload that gives a limit another window warned of nothing, and machines that still had the
// former config counted apart from then on.
func TestWindowThatChangesInAFleet(t *testing.T) {
	t.Parallel()
	s := startFleet(t, newRedis(t), 1, onRedis("limit 3/1h"))[0]
	s.wantPassed(3, 4, "/", from(1))
	steps := []struct{ zone, former, changed string }{ // the fields of the line; "" if there must be none
		{zone: "limit 5/1h"}, // counts on
		{"limit 5/2h", "sliding 1h, 60 slots", "sliding 2h, 60 slots"},
		{zone: "limit 5/2h\nmatch path /*"}, // nothing about limits
		{"limit 5/2h fixed", "sliding 2h, 60 slots", "fixed 2h"},
		{zone: "limit 5/2h fixed\nlimit 9/1d"}, // one more
		{zone: "limit 9/1d"},                   // one less
		{"limit 9/1d slots 24", "sliding 24h, 60 slots", "sliding 24h, 24 slots"},
		{zone: "limit 9/1d slots 24\nlimit 5/1h shadow"},
		{zone: "limit 5/1h"}, // it was counted already
		{"limit 5/1m burst 9\nscope site", "sliding 1h, 60 slots", "token_bucket 1m, per site"},
	}
	s.wantChanges(t, nil, onRedis("limit 3/1h"))
	var want []string
	for _, step := range steps {
		if step.former != "" {
			want = append(want, fmt.Sprint("z [", step.former, "] [", step.changed, "]"))
		}
		s.wantChanges(t, want, onRedis(step.zone))
	}
}

// A tier's window is compared with that of the tier, though another tier has the same, and also if
// the reload changes settings of the limiter as a whole.
func TestWindowOfATierThatChangesInAFleet(t *testing.T) {
	t.Parallel()
	tiers := func(option, limit string) string {
		return strings.NewReplacer("store_timeout 2s", option+"\ntier free {\nlimit "+limit+"\n}\ntier paid {\nlimit 50/1h\n}").
			Replace(onRedis("tier {http.request.header.Tier} free"))
	}
	s := startFleet(t, newRedis(t), 1, tiers("store_timeout 2s", "3/1m"))[0]
	first := "z [sliding 1m, 60 slots] [sliding 1h, 60 slots]"
	s.wantChanges(t, []string{first}, tiers("store_timeout 2s", "3/1h"))
	s.wantChanges(t, []string{first, "z [sliding 1h, 60 slots] [sliding 2h, 60 slots]"}, tiers("store_timeout 3s", "3/2h"))
}

// A store of one machine has nobody who counts apart.
func TestWindowThatChangesOnOneMachine(t *testing.T) {
	t.Parallel()
	one := func(limit string) string {
		return config("zone z {\nper ip\nlimit " + limit + "\n}")
	}
	startCaddy(t, one("3/1h")).wantChanges(t, nil, one("3/2h"))
}

// wantChanges reloads, and compares what all warnings so far say of limits that have changed.
func (s *server) wantChanges(t *testing.T, want []string, config string) {
	t.Helper()
	s.mustReload(config)
	var got []string
	for _, line := range s.logLines(countsApart) {
		got = append(got, fmt.Sprint(line["zone"], " ", line["former"], " ", line["changed"]))
	}
	if !slices.Equal(got, want) {
		t.Fatalf("warnings are %q, want %q, after the reload with %s", got, want, config)
	}
}
