//go:build unix

package sqlite

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

func BenchmarkClaim(b *testing.B) {
	storagetest.BenchmarkClaim(b, func(b *testing.B) storage.Store {
		return opened(b, Options{Path: filepath.Join(b.TempDir(), "tally.db")})
	}, cpuTime)
}

// cpuTime returns the processor time used by the process, with checkpoints and garbage collection.
// Other work on the machine disturbs it less than the elapsed time.
func cpuTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkClaimBusy measures claims of keys with units in each of the 60 slots of their window.
func BenchmarkClaimBusy(b *testing.B) {
	const batch = 64
	s := opened(b, Options{Path: filepath.Join(b.TempDir(), "tally.db")})
	l := newLimit(b, limiter.Params{Amount: 1 << 30, Window: time.Minute})
	claims, grants := make([]storage.Claim, batch), make([]limiter.Grant, batch)
	now := start
	send := func() {
		for i := range claims {
			claims[i] = storage.Claim{ID: 1 << 63, Key: key(uint64(i)), Limit: l, Claim: limiter.Claim{Now: now, Min: 1, Want: 1}}
		}
		if err := s.Claim(context.Background(), storagetest.At(now), claims, grants); err != nil {
			b.Fatal(err)
		}
		now += int64(time.Second)
	}
	for range 61 {
		send()
	}
	b.ReportAllocs()
	cpu := cpuTime(b)
	b.ResetTimer()
	for range b.N {
		send()
	}
	b.StopTimer()
	b.ReportMetric(float64(cpuTime(b)-cpu)/float64(b.N)/batch, "cpu-ns/claim")
}

// BenchmarkSweep measures the deletion of expired rows.
func BenchmarkSweep(b *testing.B) {
	s := opened(b, Options{Path: filepath.Join(b.TempDir(), "tally.db")})
	var rows, steps int64
	var cpu, longest time.Duration
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		mustFill(b, s, 0, 20_000)
		if err := s.log.checkpoint(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		before := cpuTime(b)
		for more := true; more; steps++ {
			began := time.Now()
			swept, err := s.Sweep(context.Background(), storagetest.At(start+int64(time.Hour)))
			if err != nil {
				b.Fatal(err)
			}
			longest = max(longest, time.Since(began))
			rows += swept.Rows
			more = swept.More
		}
		cpu += cpuTime(b) - before
	}
	b.ReportMetric(float64(cpu)/float64(rows), "cpu-ns/row")
	b.ReportMetric(float64(b.Elapsed())/float64(steps), "ns/step")
	b.ReportMetric(float64(longest), "longest-ns")
}
