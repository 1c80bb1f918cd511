//go:build linux

package main

import "testing"

func TestRefusedAnswersAreWrongWithoutALimiterOnly(t *testing.T) {
	for _, c := range []struct {
		side side
		kase kase
		want int64
	}{{limited, refused, 7}, {without, refused, 93}, {limited, oneKey, 93}, {without, oneKey, 93}} {
		o := outcome{side: c.side, kase: c.kase}
		o.count(7, 93)
		if o.wrong != c.want {
			t.Errorf("%s, %s: got %d wrong answers, want %d", c.kase.name, c.side, o.wrong, c.want)
		}
	}
}

func TestLimitsPerMinute(t *testing.T) {
	for _, c := range []struct {
		limit limit
		want  int
	}{{usual, 1000}, {roomy, 6_000_000}, {shut, 1}} {
		if got := c.limit.perMinute(); got != c.want {
			t.Errorf("%v: got %d, want %d", c.limit, got, c.want)
		}
	}
}
