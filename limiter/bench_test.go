package limiter_test

import (
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// warm returns a limit of an algorithm, and the state of a key that has used
// some of it in every slot.
func warm(t testing.TB, algorithm limiter.Algorithm) (limiter.Limit, limiter.State) {
	l := mustNew(t, limiter.Params{Algorithm: algorithm, Amount: limiter.MaxAmount, Window: time.Minute})
	var s limiter.State
	for i := range int64(62) {
		l.Claim(&s, limiter.Claim{Now: noon - i*second, Min: 1, Want: 1})
	}
	s.Trim(&l, noon)
	l.Claim(&s, limiter.Claim{Now: noon, Min: 1, Want: 1})
	return l, s
}

func TestAllocations(t *testing.T) {
	for _, algorithm := range algorithms {
		l, s := warm(t, algorithm)
		refusing := mustNew(t, limiter.Params{Algorithm: algorithm, Amount: 1, Window: time.Minute})
		lease := l.Claim(&s, limiter.Claim{Now: noon, Min: 1000, Want: 1_000_000}).Lease
		grant := lease
		now := noon
		for name, run := range map[string]func(){
			"Claim":         func() { l.Claim(&s, limiter.Claim{Now: noon, Min: 1, Want: 2, Extra: 8}) },
			"refused Claim": func() { refusing.Claim(&s, limiter.Claim{Now: noon, Min: 1, Want: 1}) },
			"Return": func() {
				l.Claim(&s, limiter.Claim{Now: noon, Min: 1, Want: 1, Return: limiter.Lease{Units: 1, At: lease.At, Used: 1}})
			},
			"Spend": func() { now++; lease.Spend(&l, now, 1) },
			"Worth": func() { lease.Worth(&l, now) },
			"Quota": func() { lease.Quota(&l, now) },
			"Join":  func() { lease.Join(&l, grant) },
			"Trim":  func() { s.Trim(&l, noon) },
		} {
			if got := testing.AllocsPerRun(100, run); got != 0 {
				t.Errorf("%v: %s allocates %v times, want none", algorithm, name, got)
			}
		}
	}
}

func BenchmarkClaim(b *testing.B) {
	for _, algorithm := range algorithms {
		b.Run(algorithm.String(), func(b *testing.B) {
			l, s := warm(b, algorithm)
			b.ReportAllocs()
			for b.Loop() {
				l.Claim(&s, limiter.Claim{Now: noon, Min: 1, Want: 1})
			}
		})
	}
}

func BenchmarkClaimRefused(b *testing.B) {
	for _, algorithm := range algorithms {
		b.Run(algorithm.String(), func(b *testing.B) {
			_, s := warm(b, algorithm)
			l := mustNew(b, limiter.Params{Algorithm: algorithm, Amount: 1, Window: time.Minute})
			b.ReportAllocs()
			for b.Loop() {
				l.Claim(&s, limiter.Claim{Now: noon, Min: 1, Want: 1})
			}
		})
	}
}

func BenchmarkSpend(b *testing.B) {
	for _, algorithm := range algorithms {
		b.Run(algorithm.String(), func(b *testing.B) {
			l, s := warm(b, algorithm)
			full := l.Claim(&s, limiter.Claim{Now: noon, Min: 1, Want: limiter.MaxAmount}).Lease
			lease, now := full, noon
			b.ReportAllocs()
			for b.Loop() {
				now += 100
				if !lease.Spend(&l, now, 1) {
					lease, now = full, noon
				}
			}
		})
	}
}
