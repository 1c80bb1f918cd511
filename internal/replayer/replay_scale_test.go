package replayer_test

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/accesslog"
	"github.com/caddy-tally/caddy-tally/internal/replay"
	"github.com/caddy-tally/caddy-tally/internal/replayer"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

const (
	burstEvery = 2000 // lines: one client sends several at once
	burstLimit = 20   // of the zone, per minute
)

// burst returns the number of lines of the n-th burst: at least one more than the limit.
func burst(n int) int { return burstLimit + 1 + n%10 }

func burstAddress(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{192, 168, byte(n >> 8), byte(n)})
}

// bursts is a log of clients that stay far below the limit, and of some that exceed it once. It is
// generated while being read.
type bursts struct {
	lines, clients, next int

	rest []byte
}

// Read implements io.Reader.
func (b *bursts) Read(p []byte) (int, error) {
	if len(b.rest) == 0 {
		if b.next == b.lines {
			return 0, io.EOF
		}
		b.rest = b.line(b.next)
		b.next++
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// line returns the n-th line. They are a millisecond apart.
func (b *bursts) line(n int) []byte {
	client := n % b.clients
	address := netip.AddrFrom4([4]byte{10, byte(client >> 16), byte(client >> 8), byte(client)})
	if n%burstEvery < burst(n/burstEvery) {
		address = burstAddress(n / burstEvery)
	}
	at := replayStart.Add(time.Duration(n) * time.Millisecond)
	return fmt.Appendf(b.rest[:0], `{"level":"info","ts":%d.%03d,"logger":"http.log.access.log0","msg":"handled request","request":{"remote_ip":"%[3]s","client_ip":"%[3]s","proto":"HTTP/2.0","method":"GET","host":"example.com","uri":"/","headers":{"User-Agent":["curl"]}},"duration":0.0001,"status":200}`+"\n",
		at.Unix(), at.Nanosecond()/1e6, address)
}

// oneBig limits a test to one processor, and resets the process's peak memory if the system
// supports that.
func oneBig(t *testing.T) {
	processors := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { runtime.GOMAXPROCS(processors) })
	runtime.GC()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0)
}

// peakMemory returns the peak memory of the process in MB, or 0 if it is unknown.
func peakMemory() (mb int64) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	if _, after, found := strings.Cut(string(status), "VmHWM:"); found {
		_, _ = fmt.Sscan(after, &mb)
	}
	return mb >> 10
}

// The clients that exceed the limit are found by their whole addresses, no others, and all their
// requests beyond it are refused. With PROOF it takes ten million lines, once with a limit per
// minute and once with one per day, in 300 MB.
func TestReplayFindsAllBursts(t *testing.T) {
	t.Run("1m", func(t *testing.T) { testReplayFindsAllBursts(t, "1m") })
	t.Run("1d", func(t *testing.T) {
		proof.Only(t)
		testReplayFindsAllBursts(t, "1d")
	})
}

func testReplayFindsAllBursts(t *testing.T, window string) {
	lines, memory := proof.Times(40_000, 10_000_000), int64(0)
	if proof.IsOn() {
		oneBig(t)
		memory = 300
	}
	config, err := replayer.Load(writeFile(t, "Caddyfile", fmt.Sprintf("{\n\tauto_https off\n}\nhttp://example.com {\n\trate_limit {\n\t\tzone all {\n\t\t\tlimit %d/%s\n\t\t}\n\t}\n}\n", burstLimit, window)), "")
	if err != nil {
		t.Fatal(err)
	}
	defer config.Close()
	parser, err := accesslog.NewParser("")
	if err != nil {
		t.Fatal(err)
	}
	log, err := accesslog.NewMerger(parser, []string{"-"}, &bursts{lines: lines, clients: lines / 10})
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	want := make(map[string]int64)
	refused := int64(0)
	for n := range (lines + burstEvery - 1) / burstEvery {
		more := int64(burst(n) - burstLimit)
		want[burstAddress(n).String()+"/32"] = more
		refused += more
	}
	begun := time.Now()
	report, err := config.Replay(context.Background(), log, replay.Options{Reveal: true, Top: len(want) + 1})
	if err != nil {
		t.Fatal(err)
	}
	all, peak := limitNamed(t, report, "all"), peakMemory()
	t.Logf("%d lines of %d clients in %v, with at most %d MB of resident memory", report.Requests, all.Clients, time.Since(begun).Round(time.Second), peak)
	if memory > 0 && peak > memory {
		t.Errorf("the process took %d MB of memory, want at most %d", peak, memory)
	}
	if all.Inexact || all.TopCut {
		t.Error("the report is not exact")
	}
	if report.Requests != int64(lines) || all.Refused != refused || all.Hit != int64(len(want)) || len(all.Top) != len(want) {
		t.Errorf("%d requests, %d refused, %d clients, %d listed; want %d, %d, %d", report.Requests, all.Refused, all.Hit, len(all.Top), lines, refused, len(want))
	}
	for _, c := range all.Top {
		if want[c.Client] != c.Refused || c.Peak != burstLimit+c.Refused {
			t.Errorf("%s: %d refused with a peak of %d, want %d", c.Client, c.Refused, c.Peak, want[c.Client])
		}
	}
	for _, a := range all.Amounts {
		if a.Own && a.Clients != int64(len(want)) {
			t.Errorf("the table has %+v, want %d clients", a, len(want))
		}
	}
}
