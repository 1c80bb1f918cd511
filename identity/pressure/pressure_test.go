package pressure

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"
)

var (
	t0    = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	here  = netip.MustParsePrefix("192.0.2.1/32")
	there = netip.MustParsePrefix("2001:db8::/64")
)

func newTracker(t testing.TB, o Options) *Tracker {
	t.Helper()
	tracker, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return tracker
}

// come has n different clients come from a network, and returns the last verdict.
func come(t *Tracker, now time.Time, prefix netip.Prefix, n int) (v Verdict) {
	for i := range n {
		v = t.Seen(now, prefix, fmt.Append(nil, now.Unix(), " ", i))
	}
	return v
}

func TestTooManyFingerprintsSqueeze(t *testing.T) {
	tracker := newTracker(t, Options{})
	for range 3 { // the same ones again change nothing
		if v := come(tracker, t0, here, DefaultFingerprints); v != (Verdict{}) {
			t.Fatalf("%+v after %d fingerprints", v, DefaultFingerprints)
		}
	}
	want := Squeeze{t0.Add(time.Hour), 1}
	if v := tracker.Seen(t0, here, []byte("one more")); !v.Began || !v.Squeezed() || !v.Until.Equal(want.Until) || v.Times != 1 {
		t.Fatalf("%+v after one more, want %+v", v, want)
	}
	if v := come(tracker, t0.Add(time.Hour-1), here, 100); v.Began || !v.Until.Equal(want.Until) {
		t.Errorf("%+v while it goes on, want %+v", v, want)
	}
	if v := tracker.Seen(t0, there, []byte("one")); v.Squeezed() {
		t.Errorf("another network: %+v", v)
	}
	if v := tracker.Seen(t0.Add(time.Hour), here, []byte("one")); v.Squeezed() {
		t.Errorf("%+v when it is over", v)
	}
}

func TestFingerprintsAreForgotten(t *testing.T) {
	tracker := newTracker(t, Options{})
	for i := range 200 { // 20 in any 10 minutes
		now := t0.Add(time.Duration(i) * 30 * time.Second)
		if v := tracker.Seen(now, here, fmt.Append(nil, i)); v.Squeezed() {
			t.Fatalf("%+v at the fingerprint %d", v, i)
		}
	}
}

func TestRepeatsLastLonger(t *testing.T) {
	tracker := newTracker(t, Options{})
	now := t0
	for times, want := range []time.Duration{1, 2, 4, 8, 16, 24, 24} {
		v := come(tracker, now, here, DefaultFingerprints+1)
		if got := v.Until.Sub(now); got != want*time.Hour || v.Times != times+1 {
			t.Fatalf("number %d lasts %v, want %v; %+v", times+1, got, want*time.Hour, v)
		}
		now = v.Until.Add(DefaultMaxSqueeze - 1)
	}
	now = now.Add(2)
	if v := come(tracker, now.Add(DefaultMaxSqueeze), here, DefaultFingerprints+1); v.Times != 1 {
		t.Errorf("after a long time: %+v", v)
	}
}

func TestClockSetBack(t *testing.T) {
	tracker := newTracker(t, Options{})
	come(tracker, t0.Add(1000*time.Hour), here, DefaultFingerprints+1)
	if v := tracker.Seen(t0, here, []byte("one")); v.Squeezed() {
		t.Errorf("squeezed until %v", v.Until)
	}
	come(tracker, t0.Add(1000*time.Hour), there, DefaultFingerprints)
	if v := tracker.Seen(t0, there, []byte("one")); v.Squeezed() {
		t.Errorf("fingerprints of the future count: %+v", v)
	}
}

func TestSavedSqueezesAreFoundByName(t *testing.T) {
	today, yesterday := [16]byte{1}, [16]byte{2}
	for name, names := range map[string][][16]byte{"today": {yesterday, {3}}, "yesterday": {{3}, yesterday}} {
		tracker := newTracker(t, Options{})
		tracker.Import(t0, []Saved{
			{yesterday, Squeeze{t0.Add(2 * time.Hour), 2}},
			{today, Squeeze{t0.Add(-24 * time.Hour), 9}},         // long over
			{today, Squeeze{t0.Add(1000 * time.Hour), 9}},        // no squeeze lasts so long
			{today, Squeeze{time.Time{}, 0}}, {today, Squeeze{}}, // nonsense
		})
		if v := tracker.Seen(t0, here, []byte("one")); !v.Recall || v.Squeezed() {
			t.Fatalf("%s: %+v before its names are told", name, v)
		}
		if v := tracker.Recall(t0, here, names...); !v.Until.Equal(t0.Add(2*time.Hour)) || v.Times != 2 {
			t.Errorf("%s: %+v", name, v)
		}
		if v := tracker.Seen(t0, here, []byte("one")); v.Recall || !v.Squeezed() {
			t.Errorf("%s: %+v afterwards", name, v)
		}
		if v := come(tracker, t0.Add(3*time.Hour), here, DefaultFingerprints+1); v.Times != 3 || v.Recall {
			t.Errorf("%s: %+v the next time", name, v)
		}
		if v := tracker.Recall(t0, there, today); v.Squeezed() {
			t.Errorf("%s: another network: %+v", name, v)
		}
	}
}

func TestSqueezesThatAreOverAreNotRecalled(t *testing.T) {
	tracker := newTracker(t, Options{})
	tracker.Import(t0, []Saved{
		{[16]byte{1}, Squeeze{t0.Add(-DefaultMaxSqueeze), 1}}, {[16]byte{2}, Squeeze{t0.Add(DefaultMaxSqueeze + 1), 1}}, {},
	})
	if v := tracker.Seen(t0, here, nil); v.Recall {
		t.Errorf("%+v", v)
	}
}

// Another process on the same files may squeeze a network that is known here.
func TestLaterImportIsRecalled(t *testing.T) {
	tracker := newTracker(t, Options{})
	name := [16]byte{1}
	rows := []Saved{{name, Squeeze{t0.Add(time.Hour), 1}}}
	tracker.Seen(t0, here, nil)
	for range 3 {
		tracker.Import(t0, rows)
		if v := tracker.Seen(t0, here, nil); v.Recall {
			tracker.Recall(t0, here, name)
		}
	}
	tracker.Import(t0, rows)
	if v := tracker.Seen(t0, here, nil); v.Recall || !v.Squeezed() {
		t.Errorf("after the same rows: %+v", v)
	}
	tracker.Import(t0, []Saved{{name, Squeeze{t0.Add(2 * time.Hour), 2}}})
	if v := tracker.Seen(t0, here, nil); !v.Recall {
		t.Errorf("after a new row: %+v", v)
	}
	if v := tracker.Recall(t0, here, name); !v.Until.Equal(t0.Add(2 * time.Hour)) {
		t.Errorf("recalled %+v", v)
	}
}

// What is saved and imported is squeezed as before.
func TestSqueezesSurvive(t *testing.T) {
	tracker := newTracker(t, Options{})
	come(tracker, t0, here, DefaultFingerprints+1)
	come(tracker, t0.Add(-time.Hour), there, DefaultFingerprints+1) // over, and still one before
	tracker.Seen(t0, netip.MustParsePrefix("198.51.100.1/32"), nil)
	var rows []Saved
	names := make(map[netip.Prefix][16]byte)
	for _, s := range tracker.Squeezes(t0) {
		names[s.Prefix] = [16]byte{byte(len(names) + 1)}
		rows = append(rows, Saved{names[s.Prefix], s.Squeeze})
	}
	if len(rows) != 2 {
		t.Fatalf("%d squeezes, want 2", len(rows))
	}
	next := newTracker(t, Options{})
	next.Import(t0, rows)
	if v := next.Recall(t0, here, names[here]); !v.Until.Equal(t0.Add(time.Hour)) {
		t.Errorf("after the start: %+v", v)
	}
	next.Recall(t0, there, names[there])
	if v := come(next, t0, there, DefaultFingerprints+1); v.Times != 2 {
		t.Errorf("repeated: %+v", v)
	}
}

func TestNetworksAreBounded(t *testing.T) {
	tracker := newTracker(t, Options{MaxPrefixes: 10 * shards})
	come(tracker, t0, here, DefaultFingerprints+1)
	for i := range uint32(10_000) {
		now := t0.Add(time.Duration(i) * time.Millisecond)
		tracker.Seen(now, netip.PrefixFrom(netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, i))), 32), nil)
	}
	held := 0
	for i := range tracker.shards {
		held += len(tracker.shards[i].networks)
	}
	if held > 10*shards {
		t.Errorf("%d networks are held, want at most %d", held, 10*shards)
	}
	if v := tracker.Seen(t0.Add(time.Minute), here, nil); !v.Squeezed() {
		t.Error("the squeezed network was forgotten for others that are not")
	}
}

func TestSavedSqueezesAreBounded(t *testing.T) {
	tracker := newTracker(t, Options{MaxPrefixes: shards})
	var rows []Saved
	for i := range 10 * shards {
		rows = append(rows, Saved{[16]byte{byte(i)}, Squeeze{t0.Add(time.Duration(i) * time.Minute), 1}})
	}
	tracker.Import(t0, rows)
	if n := len(tracker.saved.byName); n != shards {
		t.Errorf("%d are held, want %d", n, shards)
	}
	if v := tracker.Recall(t0, here, [16]byte{byte(10*shards - 1)}); !v.Squeezed() {
		t.Error("the one that ends last was left out")
	}
}

func TestSweep(t *testing.T) {
	tracker := newTracker(t, Options{})
	come(tracker, t0, here, DefaultFingerprints+1)
	tracker.Seen(t0, there, nil)
	tracker.Import(t0, []Saved{{[16]byte{1}, Squeeze{t0.Add(time.Hour), 1}}})
	for _, c := range []struct {
		age             time.Duration
		forgotten, kept int
	}{
		{DefaultWithin - 1, 0, 1}, {DefaultWithin, 1, 1}, {25*time.Hour - 1, 0, 1}, {25 * time.Hour, 1, 0},
	} {
		if n := tracker.Sweep(t0.Add(c.age)); n != c.forgotten || len(tracker.saved.byName) != c.kept {
			t.Errorf("after %v: %d forgotten and %d saved, want %d and %d", c.age, n, len(tracker.saved.byName), c.forgotten, c.kept)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{
		{Fingerprints: -1}, {Fingerprints: MaxFingerprints + 1}, {Within: -1}, {Within: 25 * time.Hour}, {Squeeze: -1}, {Squeeze: 25 * time.Hour},
		{MaxSqueeze: time.Minute}, {MaxSqueeze: 25 * time.Hour}, {MaxPrefixes: -1}, {MaxPrefixes: shards - 1},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

func TestSqueezeBeginsOnce(t *testing.T) {
	tracker := newTracker(t, Options{})
	var wg sync.WaitGroup
	began := make(chan Verdict, 1000)
	for g := range 8 {
		wg.Go(func() {
			for i := range 100 {
				if v := tracker.Seen(t0, here, fmt.Append(nil, g, i)); v.Began {
					began <- v
				}
			}
		})
	}
	wg.Wait()
	if len(began) != 1 {
		t.Errorf("it began %d times", len(began))
	}
}

// A tracker says what one says that remembers everything.
func FuzzTracker(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 0x85, 1, 2, 3, 4, 5})
	f.Add([]byte("abcdefgh\xffabcdefgh\xf0\xf0abcdefgh"))
	o := Options{Fingerprints: 4, Within: time.Minute, Squeeze: time.Minute, MaxSqueeze: 5 * time.Minute, MaxPrefixes: shards}
	f.Fuzz(func(t *testing.T, steps []byte) {
		tracker := newTracker(t, o)
		model := model{o: o, last: make(map[byte]time.Time)}
		now := t0
		for i, step := range steps {
			if step >= 0x80 {
				now = now.Add(time.Duration(step-0x7f) * 5 * time.Second)
				continue
			}
			v := tracker.Seen(now, here, []byte{step})
			until, times := model.seen(now, step)
			if v.Squeezed() == until.IsZero() || !v.Until.Equal(until) || v.Times != times {
				t.Fatalf("step %d: %+v, want %v and %d", i, v, until, times)
			}
		}
	})
}

// model remembers every fingerprint since the last squeeze.
type model struct {
	o     Options
	last  map[byte]time.Time
	until time.Time
	times int
}

func (m *model) seen(now time.Time, fingerprint byte) (time.Time, int) {
	if now.Before(m.until) {
		return m.until, m.times
	}
	m.last[fingerprint] = now
	count := 0
	for _, at := range m.last {
		if now.Sub(at) < m.o.Within {
			count++
		}
	}
	if count <= m.o.Fingerprints {
		return time.Time{}, 0
	}
	if now.Sub(m.until) >= m.o.MaxSqueeze {
		m.times = 0
	}
	m.times++
	m.until = now.Add(min(m.o.Squeeze<<(m.times-1), m.o.MaxSqueeze))
	clear(m.last)
	return m.until, m.times
}

func BenchmarkSeen(b *testing.B) {
	tracker := newTracker(b, Options{})
	fingerprint := make([]byte, 33)
	come(tracker, t0, here, DefaultFingerprints-1)
	come(tracker, t0, there, DefaultFingerprints+1)
	for name, prefix := range map[string]netip.Prefix{"watched": here, "squeezed": there} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				tracker.Seen(t0, prefix, fingerprint)
			}
		})
	}
}
