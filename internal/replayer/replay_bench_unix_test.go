//go:build unix

package replayer_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/accesslog"
	"github.com/caddy-tally/caddy-tally/internal/replay"
	"github.com/caddy-tally/caddy-tally/internal/replayer"
)

// BenchmarkReplay measures lines per second of Caddy's JSON, for a site with two zones and so many
// clients.
func BenchmarkReplay(b *testing.B) {
	for _, clients := range []int{1000, 1_000_000} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			config, err := replayer.Load(writeFile(b, "Caddyfile", replayCaddyfile), "")
			if err != nil {
				b.Fatal(err)
			}
			defer config.Close()
			log := filepath.Join(b.TempDir(), "access.log")
			file, err := os.Create(log)
			if err != nil {
				b.Fatal(err)
			}
			for i := range b.N {
				fmt.Fprintln(file, caddyLine(replayStart.Add(time.Duration(i)*time.Millisecond), i%clients))
			}
			if err := file.Close(); err != nil {
				b.Fatal(err)
			}
			parser, err := accesslog.NewParser("")
			if err != nil {
				b.Fatal(err)
			}
			merger, err := accesslog.NewMerger(parser, []string{log}, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			b.ResetTimer()
			before := cpuSeconds()
			report, err := config.Replay(context.Background(), merger, replay.Options{})
			if err != nil || report.Requests != int64(b.N) {
				b.Fatal(report, err)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
			b.ReportMetric((cpuSeconds()-before)*1e6/float64(b.N), "cpu-µs/line")
		})
	}
}

// cpuSeconds returns the process's CPU time. On a busy machine that is more accurate than the
// elapsed time.
func cpuSeconds() float64 {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return float64(used.Utime.Nano()+used.Stime.Nano()) / 1e9
}
