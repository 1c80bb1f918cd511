package pressure

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	t0    = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	here  = netip.MustParsePrefix("192.0.2.1/32")
	there = netip.MustParsePrefix("2001:db8::/64")
)

// come adds n different clients of a network, and reports whether the last exceeded the limit.
func come(t *Tracker, now time.Time, prefix netip.Prefix, n int) (tooMany bool) {
	for i := range n {
		tooMany = t.Seen(now, prefix, fmt.Append(nil, now.Unix(), " ", i), DefaultFingerprints)
	}
	return tooMany
}

func TestTooManyFingerprints(t *testing.T) {
	tracker := New()
	for range 3 { // the same ones again change nothing
		if come(tracker, t0, here, DefaultFingerprints) {
			t.Fatalf("%d fingerprints are too many", DefaultFingerprints)
		}
	}
	if tracker.Seen(t0, there, []byte("one more"), DefaultFingerprints) {
		t.Error("another network's clients count")
	}
	if !tracker.Seen(t0, here, []byte("one more"), DefaultFingerprints) {
		t.Fatal("one more is not too many")
	}
	if come(tracker, t0, here, DefaultFingerprints) || !tracker.Seen(t0, here, []byte("one more"), DefaultFingerprints) {
		t.Error("counting did not start from zero")
	}
}

// A client that comes all the time is checked occasionally, and a new one at once.
func TestWhoIsNewOfLate(t *testing.T) {
	tracker := New()
	for _, c := range []struct {
		after time.Duration
		isNew bool
	}{{0, true}, {0, false}, {time.Minute, false}, {within / 2, true}, {within / 2, false}} {
		if got := tracker.IsNew(t0.Add(c.after), []byte("one")); got != c.isNew {
			t.Errorf("after %v: %v, want %v", c.after, got, c.isNew)
		}
	}
	for i := range 1000 {
		if !tracker.IsNew(t0, fmt.Append(nil, i)) {
			t.Errorf("%d is not new", i)
		}
	}
}

func TestFingerprintsAreForgotten(t *testing.T) {
	tracker := New()
	for i := range 200 { // 20 in any 10 minutes
		if tracker.Seen(t0.Add(time.Duration(i)*30*time.Second), here, fmt.Append(nil, i), DefaultFingerprints) {
			t.Fatalf("too many at the fingerprint %d", i)
		}
	}
}

func TestClockSetBack(t *testing.T) {
	tracker := New()
	come(tracker, t0.Add(1000*time.Hour), here, DefaultFingerprints)
	if tracker.Seen(t0, here, []byte("one"), DefaultFingerprints) {
		t.Error("fingerprints of the future count")
	}
	come(tracker, t0.Add(1000*time.Hour), here, DefaultFingerprints)
	if n := tracker.Sweep(t0); n != 1 {
		t.Errorf("%d networks of the future are forgotten, want 1", n)
	}
}

func TestNetworksAreBounded(t *testing.T) {
	tracker := New()
	tracker.most = 10
	for i := range uint32(10_000) {
		network := netip.PrefixFrom(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, i))), 32)
		tracker.Seen(t0.Add(time.Duration(i)*time.Millisecond), network, nil, DefaultFingerprints)
	}
	held := 0
	for i := range tracker.shards {
		held += len(tracker.shards[i].networks)
	}
	if held > 10*shards {
		t.Errorf("%d networks are held, want at most %d", held, 10*shards)
	}
}

func TestSweep(t *testing.T) {
	tracker := New()
	come(tracker, t0, here, 3)
	tracker.Seen(t0.Add(time.Minute), there, nil, DefaultFingerprints)
	for _, c := range []struct {
		age       time.Duration
		forgotten int
	}{{within - 1, 0}, {within, 1}, {within, 0}, {within + time.Minute, 1}} {
		if n := tracker.Sweep(t0.Add(c.age)); n != c.forgotten {
			t.Errorf("after %v: %d forgotten, want %d", c.age, n, c.forgotten)
		}
	}
}

func TestIsToldOnce(t *testing.T) {
	tracker := New()
	var wg sync.WaitGroup
	var reports atomic.Int64
	for i := range DefaultFingerprints + 1 {
		wg.Go(func() {
			if tracker.Seen(t0, here, fmt.Append(nil, i), DefaultFingerprints) {
				reports.Add(1)
			}
		})
	}
	wg.Wait()
	if n := reports.Load(); n != 1 {
		t.Errorf("it was told %d times", n)
	}
}

// A tracker answers like one with unlimited memory.
func FuzzTracker(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 0x85, 1, 2, 3, 4, 5})
	f.Add([]byte("abcdefgh\xffabcdefgh\xf0\xf0abcdefgh"))
	const few = 4
	f.Fuzz(func(t *testing.T, steps []byte) {
		tracker := New()
		tracker.most = 1
		last := make(map[byte]time.Time) // of every fingerprint since it was told last
		now := t0
		for i, step := range steps {
			if step >= 0x80 {
				now = now.Add(time.Duration(step-0x7f) * 50 * time.Second)
				continue
			}
			last[step] = now
			count := 0
			for _, at := range last {
				if now.Sub(at) < within {
					count++
				}
			}
			if got := tracker.Seen(now, here, []byte{step}, few); got != (count > few) {
				t.Fatalf("step %d: %v with %d fingerprints", i, got, count)
			}
			if count > few {
				clear(last)
			}
		}
	})
}

func BenchmarkSeen(b *testing.B) {
	tracker := New()
	fingerprint := make([]byte, 33)
	come(tracker, t0, here, DefaultFingerprints-1)
	b.ReportAllocs()
	for b.Loop() {
		tracker.Seen(t0, here, fingerprint, DefaultFingerprints)
	}
}
