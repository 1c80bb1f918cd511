//go:build linux

package main

import (
	"slices"
	"testing"
	"time"
)

// at returns a moment, in seconds from some other.
func at(seconds float64) time.Time {
	return time.Unix(1_000_000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

func TestNumbersThatWrkPrints(t *testing.T) {
	const text = `Running 3s test @ http://127.0.0.1:18080/
  1 threads and 64 connections
  60321 requests in 3.00s, 9.92MB read
  Socket errors: connect 1, read 2, write 0, timeout 4
  Non-2xx or 3xx responses: 321
Requests/sec:  20107.43
Transfer/sec:      3.31MB`
	got, err := parseWrk(text)
	if want := (answers{requests: 60321, rate: 20107.43, failed: 328}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if _, err := parseWrk("unable to connect"); err == nil {
		t.Error("got no error for text without numbers")
	}
}

func TestRefusedAnswersAreWrongWithoutALimiterOnly(t *testing.T) {
	for _, c := range []struct {
		side side
		kase kase
		want int
	}{{limited, refused, 7}, {without, refused, 93}, {limited, oneKey, 93}, {without, oneKey, 93}} {
		o := outcome{side: c.side, kase: c.kase}
		o.count(answers{requests: 100, failed: 93})
		if o.wrong != c.want {
			t.Errorf("%s, %s: got %d wrong answers, want %d", c.kase.name, c.side, o.wrong, c.want)
		}
	}
}

func TestSpansAreMergedAndMeasured(t *testing.T) {
	s := spans{{at(5), at(6)}, {at(1), at(3)}, {at(2), at(2.5)}, {at(6), at(7)}}.merged()
	if want := (spans{{at(1), at(3)}, {at(5), at(7)}}); !slices.Equal(s, want) {
		t.Fatalf("got %v, want %v", s, want)
	}
	if got := s.share(span{at(2), at(12)}); got != 0.3 {
		t.Errorf("got a share of %v, want 0.3", got)
	}
	for _, c := range []struct {
		from, to float64
		want     bool
	}{{0, 0.9, false}, {0, 1, true}, {0, 9, true}, {2, 2.1, true}, {3, 4, true}, {3.1, 4.9, false}, {7.1, 8, false}} {
		if got := s.meet(span{at(c.from), at(c.to)}); got != c.want {
			t.Errorf("%v to %v: got %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

func TestUpkeepLastsUntilWhatCameInItIsAnswered(t *testing.T) {
	s := spans{{at(1), at(2)}, {at(2.5), at(3)}, {at(8), at(9)}}
	got := s.until(spans{{at(0), at(0.5)}, {at(1.5), at(2.7)}, {at(2.6), at(2.9)}, {at(4), at(7)}, {at(8.5), at(8.6)}})
	if want := (spans{{at(1), at(3)}, {at(8), at(9)}}); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestWritesAreUpkeepUnlessTheyNeverEnd(t *testing.T) {
	whole := span{at(0), at(10)}
	u := upkeep{checkpoint: spans{{at(1), at(2)}}, write: spans{{at(3), at(5)}}, sweep: spans{{at(8), at(9)}}}
	if got := u.any(whole).share(whole); got != 0.4 {
		t.Errorf("got %v, want 0.4", got)
	}
	u.write = spans{{at(0), at(9)}}
	if got := u.any(whole).share(whole); got != 0.2 {
		t.Errorf("with writes all the time: got %v, want 0.2", got)
	}
}

func TestSweepsInCaddysLog(t *testing.T) {
	got, ok := parseSweep([]byte(`{"level":"debug","ts":1000012.5,"logger":"rate_limit","msg":"cleaned up","rows":3,"idle_keys":0,"took":0.5}`))
	if want := (span{at(12), at(12.5)}); !ok || !got.from.Equal(want.from) || !got.to.Equal(want.to) {
		t.Errorf("got %v, %v, want %v", got, ok, want)
	}
	for _, line := range []string{`{"msg":"serving"}`, `cleaned up`} {
		if _, ok := parseSweep([]byte(line)); ok {
			t.Errorf("%s: got a sweep", line)
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
