//go:build linux

package main

import (
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/benchmarks/internal/load"
)

func TestRefusedAnswersAreWrongWithoutALimiterOnly(t *testing.T) {
	for _, c := range []struct {
		kase    string
		limited bool
		want    int64
	}{{refused, true, 7}, {refused, false, 93}, {"one-key", true, 93}, {"one-key", false, 93}} {
		s := side{kase: kase{name: c.kase}, limited: c.limited}
		var r load.Report
		r.Answers[load.OK], r.Answers[load.Other] = 7, 93
		if s.count(r); s.wrong != c.want {
			t.Errorf("%s, limited %v: got %d wrong answers, want %d", c.kase, c.limited, s.wrong, c.want)
		}
	}
}

func TestLimitsPerMinute(t *testing.T) {
	for _, c := range []struct {
		limit limit
		want  int
	}{{limit{1000, time.Minute}, 1000}, {limit{1_000_000, 10 * time.Second}, 6_000_000}, {limit{1, 24 * time.Hour}, 1}} {
		if got := c.limit.perMinute(); got != c.want {
			t.Errorf("%v: got %d, want %d", c.limit, got, c.want)
		}
	}
}
