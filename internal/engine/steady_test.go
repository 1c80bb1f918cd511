package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
)

// steadyPercent is the share of a limit's amount at which no client is refused.
const steadyPercent = 97

// steadyWindows is the number of windows for which a client stays.
var steadyWindows = int64(proof.Times(3, 5))

// A fresh client with an even 97 % of a sliding limit is never refused, wherever in a slot it
// begins.
func TestSteadyClientIsNotRefused(t *testing.T) {
	withoutRaces(t)
	for _, tt := range []struct {
		amount, cost int64
		window       time.Duration
	}{
		{1000, 1, time.Minute},
		{1000, 5, time.Minute},
		{100, 1, time.Minute},
		{100, 4, time.Minute},
		{64, 1, time.Minute},
		{20, 1, time.Minute},
		{5, 1, time.Minute},
		{1, 1, time.Minute},
		{10, 1, 10 * time.Second},
		{10, 5, 10 * time.Second},
		{1000, 1, 10 * time.Second},
		{100, 1, time.Second},
		{1000, 10, time.Second},
		{5, 1, time.Second},
		{20, 1, 200 * time.Millisecond},
		{10_000, 1, time.Hour},
		{100_000, 1, time.Hour},
		{50, 1, 24 * time.Hour},
		{10_000, 100, 24 * time.Hour},
	} {
		for phase := range max(1, min(4, 20_000*tt.cost/tt.amount)) { // few of many requests
			for _, processes := range []int{1, 2} {
				t.Run(fmt.Sprintf("%d/%v cost %d/phase %d/%d processes", tt.amount, tt.window, tt.cost, phase, processes), func(t *testing.T) {
					s := newSteady(t, sliding(t, tt.amount, tt.window), tt.cost, processes)
					s.fakeClock.advance(tt.window * time.Duration(phase) / 250)
					if refused, first := s.run(steadyWindows*tt.amount/tt.cost, steadyPercent); refused > 0 {
						t.Errorf("%d requests are refused, the first after %v", refused, first)
					}
				})
			}
		}
	}
}

// A client at exactly the rate of a token bucket is never refused if the burst is at least 2 of its
// requests.
func TestSteadyClientOfATokenBucketIsNotRefused(t *testing.T) {
	withoutRaces(t)
	for _, tt := range []struct {
		amount, burst, cost int64
		window              time.Duration
	}{
		{1000, 2, 1, time.Minute},
		{1000, 1000, 1, time.Minute},
		{1000, 100, 7, time.Minute},
		{7, 2, 1, time.Second},
		{100, 20, 1, time.Second},
		{100_000, 1000, 1, time.Hour},
		{50, 2, 1, 24 * time.Hour},
	} {
		for _, processes := range []int{1, 2} {
			t.Run(fmt.Sprintf("%d/%v burst %d cost %d/%d processes", tt.amount, tt.window, tt.burst, tt.cost, processes), func(t *testing.T) {
				limit := newLimit(t, limiter.Params{Algorithm: limiter.TokenBucket, Amount: tt.amount, Window: tt.window, Burst: tt.burst})
				requests := min(steadyWindows*tt.amount/tt.cost, int64(proof.Times(10_000, 5_000_000)))
				if refused, first := newSteady(t, limit, tt.cost, processes).run(requests, 100); refused > 0 {
					t.Errorf("%d requests are refused, the first after %v", refused, first)
				}
			})
		}
	}
}

// A client that was slow for some windows and then keeps to 97 % of its limit loses at most the
// units that a lease charged ahead may have booked late.
func TestClientThatSpeedsUpLosesLittle(t *testing.T) {
	for _, amount := range []int64{64, 100, 1000, 10_000} {
		for _, percent := range []int64{1, 3, 10, 20} {
			t.Run(fmt.Sprintf("%d after %d %%", amount, percent), func(t *testing.T) {
				limit := sliding(t, amount, time.Minute)
				s := newSteady(t, limit, 1, 1)
				if refused, _ := s.run(amount*percent*33/1000, percent); refused > 0 {
					t.Errorf("%d requests at %d %% of the limit are refused", refused, percent)
				}
				if refused, first := s.run(steadyWindows*amount, steadyPercent); refused > 2*limit.MaxLate() {
					t.Errorf("%d requests are refused at %d %%, the first after %v, want at most %d", refused, steadyPercent, first, 2*limit.MaxLate())
				}
			})
		}
	}
}

// steady is a client with evenly spaced requests, to one process after the other.
type steady struct {
	*fakeClock
	t         *testing.T
	processes []*fixture
	limit     *Limit
	cost      int64
}

func newSteady(t *testing.T, limit *Limit, cost int64, processes int) *steady {
	s := &steady{fakeClock: newFakeClock(), t: t, limit: limit, cost: cost}
	for disk := newDisk(); len(s.processes) < processes; {
		s.processes = append(s.processes, startOn(t, disk, s.fakeClock))
	}
	return s
}

// run sends n requests, at a percentage of the limit's rate, and returns how many are refused and
// after how long the first is.
func (s *steady) run(n, percent int64) (refused int64, first time.Duration) {
	interval := float64(s.limit.Window()) * float64(s.cost) * 100 / float64(s.limit.Amount()*percent)
	passed := time.Duration(0)
	for i := range n {
		if !s.processes[i%int64(len(s.processes))].ask(debit(s.limit, "a", s.cost)).Allowed {
			if refused++; refused == 1 {
				first = passed
			}
		}
		at := time.Duration(float64(i+1) * interval)
		s.advance(at - passed)
		passed = at
	}
	return refused, first
}
