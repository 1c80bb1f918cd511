package store

import (
	"context"
	"encoding/binary"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

func BenchmarkClaim(b *testing.B) {
	storagetest.BenchmarkClaim(b, func(b *testing.B) storage.Store { return opened(b, newPlace(b)) }, serverCPU)
}

// serverCPU returns the processor time used by the server.
func serverCPU(b *testing.B) (sum time.Duration) {
	for line := range strings.Lines(common.server.MustInfo(b, "cpu")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			seconds, err := strconv.ParseFloat(value, 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += time.Duration(seconds * float64(time.Second))
		}
	}
	return sum
}

// BenchmarkInTerm measures batches of claims as engines make them, in one round trip, with known
// keys and with new ones.
func BenchmarkInTerm(b *testing.B) {
	l, err := limiter.New(limiter.Params{Amount: 1000, Window: time.Minute})
	if err != nil {
		b.Fatal(err)
	}
	for _, size := range []int{1, 64} {
		for _, keys := range []string{"same", "fresh"} {
			b.Run("batch="+strconv.Itoa(size)+"/"+keys+"keys", func(b *testing.B) {
				s := opened(b, newPlace(b))
				term := &storage.Term{Clock: steadyClock{1}}
				claims, grants, next := make([]storage.Claim, size), make([]limiter.Grant, size), uint64(0)
				cpu := serverCPU(b)
				for b.Loop() {
					for i := range claims {
						claims[i] = storage.Claim{ID: 1 << 63, Limit: l, Claim: limiter.Claim{Min: 1, Want: 1, Extra: 15, Return: grants[i].Lease}}
						if keys == "fresh" {
							claims[i].Return = limiter.Lease{}
							next++
						}
						binary.BigEndian.PutUint64(claims[i].Key[:], next+uint64(i)<<32)
					}
					if err := s.Claim(context.Background(), term, claims, grants); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed())/float64(b.N*size), "ns/claim")
				b.ReportMetric(float64(serverCPU(b)-cpu)/float64(b.N*size), "server-ns/claim")
			})
		}
	}
}
