package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/identity"
	"github.com/caddy-tally/caddy-tally/internal/outcomes"
	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/memory"
)

var (
	login = storage.Series{Zone: "login"}
	five  = storage.Series{Zone: "login", Limit: "5/1m"}
)

// named names keys by themselves.
func named(_ storage.Series, key string) (k storage.Key, err error) {
	copy(k[:], key)
	return k, nil
}

// place is a store whose reports may fail.
type place struct {
	storage.Historian
	mu   sync.Mutex
	fail func(n int) (before, after error) // guarded by mu: of the n-th report
	n    int                               // guarded by mu
}

func newPlace(t *testing.T) *place {
	t.Helper()
	s, err := memory.New().Opener(memory.Options{})(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return &place{Historian: s.(storage.Historian)}
}

func (p *place) Report(ctx context.Context, now int64, r storage.Report) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n++
	var before, after error
	if p.fail != nil {
		before, after = p.fail(p.n)
	}
	if before != nil {
		return before
	}
	return errors.Join(p.Historian.Report(ctx, now, r), after)
}

func (p *place) setFail(f func(n int) (before, after error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail, p.n = f, 0
}

// points returns a place's points of a series, at a resolution.
func (p *place) points(t *testing.T, series storage.Series, resolution time.Duration) []storage.Point {
	t.Helper()
	now := time.Now().UnixNano()
	points, err := p.History(context.Background(), storage.HistoryQuery{
		Series: series, From: now - int64(24*time.Hour), To: now + int64(20*time.Hour), Resolution: resolution,
	})
	if err != nil {
		t.Fatal(err)
	}
	return points
}

// total adds up a place's points of a series, and compares the resolutions with each other.
func (p *place) total(t *testing.T, series storage.Series) (total storage.Tally) {
	t.Helper()
	for i, r := range storage.Rollups {
		var sum storage.Tally
		for _, point := range p.points(t, series, r.Resolution) {
			sum.Add(point.Tally)
		}
		if i > 0 && sum != total {
			t.Errorf("%+v: %+v per %v, and %+v with the one before", series, sum, r.Resolution, total)
		}
		total = sum
	}
	return total
}

func wallNow() int64 { return time.Now().UnixNano() }

func (p *place) options(l *Ledger) Options {
	return Options{Ledger: l, Store: func() storage.Historian { return p }, Now: wallNow, Name: named}
}

func closed(t *testing.T, r *Reporter) {
	t.Helper()
	if err := r.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// The counts of a minute are reported for that minute, the last one when the reporter is closed.
// Minutes without counts are not written.
func TestMinutes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l, p := new(Ledger), newPlace(t)
		l.SetSeed(7)
		r := Start(p.options(l))
		begin := storage.Period(wallNow(), time.Minute)
		want := make(map[int64]storage.Tally)
		for i := range 50 {
			time.Sleep(13 * time.Second)
			if i > 20 && i < 30 {
				continue
			}
			key := l.Key(fmt.Append(nil, i%3))
			l.Meter(five).Allow(key, 2)
			l.Meter(five).Refuse(key, Blocked)
			l.Meter(login).Refuse(key, Banned)
			l.Meter(login).WouldRefuse(key)
			at := storage.Period(wallNow(), time.Minute)
			sum := want[at]
			sum.Add(storage.Tally{Counts: outcomes.Counts{Allowed: 1, Refused: 1, Blocked: 1}, Units: 2})
			want[at] = sum
		}
		closed(t, r)
		got := make(map[int64]storage.Tally)
		for _, point := range p.points(t, five, time.Minute) {
			got[storage.Period(point.At, time.Minute)] = point.Tally
		}
		if !maps.Equal(got, want) {
			t.Errorf("from minute %d on: got %v, want %v", begin, got, want)
		}
		if sum := p.total(t, login); sum != (storage.Tally{Counts: outcomes.Counts{Refused: 41, Banned: 41, WouldRefuse: 41}}) {
			t.Errorf("the zone: %+v", sum)
		}
		if days := p.points(t, five, storage.Day); len(days) != 1 || days[0].Keys != 3 {
			t.Errorf("got %+v, want 3 keys in a day", days)
		}
		heavy, err := p.Heaviest(context.Background(), storage.HistoryQuery{From: 0, To: 1}, 9)
		if err != nil || len(heavy) > 0 {
			t.Errorf("got %v, %v of another time", heavy, err)
		}
		now := wallNow()
		heavy, err = p.Heaviest(context.Background(), storage.HistoryQuery{From: now - int64(time.Hour), To: now + int64(time.Hour)}, 9)
		units := int64(0)
		for _, k := range heavy {
			units += k.Units
		}
		if err != nil || len(heavy) != 3 || units != 82 {
			t.Errorf("the heaviest are %v, %v, want 3 keys with 82 units", heavy, err)
		}
	})
}

// Requests count concurrently with takes: nothing is lost or counted twice.
func TestCountAndTakeTogether(t *testing.T) {
	l := new(Ledger)
	l.SetSeed(1)
	m := l.Meter(five)
	var group sync.WaitGroup
	const workers, each = 4, 20_000
	for w := range workers {
		group.Go(func() {
			for i := range each {
				switch key := l.Key(fmt.Append(nil, w, i%100)); i % 4 {
				case 0:
					m.Allow(key, 0)
				case 1:
					m.Allow(key, 3)
				case 2:
					m.Refuse(key, OverLimit)
				case 3:
					l.Meter(five).Refuse(key, Banned)
				}
			}
		})
	}
	var sum storage.Tally
	done := make(chan struct{})
	go func() {
		defer close(done)
		group.Wait()
	}()
	take := func() {
		for _, minute := range l.take(0, named) {
			if minute.Series == five {
				sum.Add(minute.Tally)
			}
		}
	}
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		take()
	}
	const n = workers * each
	if want := (storage.Tally{Counts: outcomes.Counts{Allowed: n / 2, Refused: n / 2, Banned: n / 4}, Units: 3 * n / 4}); sum != want {
		t.Errorf("got %+v, want %+v", sum, want)
	}
}

// watcher records the observer's events.
type watcher struct {
	waits, written int
	givenUp        int
}

func (w *watcher) HistoryWaits(error) { w.waits++ }
func (w *watcher) HistoryWritten(givenUp int) {
	w.written++
	w.givenUp += givenUp
}

// Failed reports wait, whether they took effect or not, and count once in the end.
func TestReportsThatFail(t *testing.T) {
	seed := rand.Uint64()
	chance := rand.New(rand.NewPCG(seed, 0))
	t.Logf("seed %d", seed)
	l, p, w := new(Ledger), newPlace(t), new(watcher)
	o := p.options(l)
	o.Observer = w
	r := newReporter(o)
	p.setFail(func(int) (before, after error) {
		switch chance.IntN(4) {
		case 0:
			return errors.New("disk full"), nil
		case 1:
			return nil, storage.ErrUnknownOutcome
		}
		return nil, nil
	})
	want := storage.Tally{}
	for range 300 {
		l.Meter(five).Allow(l.Key([]byte("a")), 1)
		want.Add(storage.Tally{Counts: outcomes.Counts{Allowed: 1}, Units: 1})
		r.report()
	}
	p.setFail(nil)
	r.report()
	if got := p.total(t, five); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if w.waits == 0 || w.waits != w.written || w.givenUp != 0 {
		t.Errorf("the observer was told %+v", w)
	}
}

// Without a store reports wait, bounded; the newest are written once there is one.
func TestReportsWaitBounded(t *testing.T) {
	l, p, w := new(Ledger), newPlace(t), new(watcher)
	o := p.options(l)
	o.Observer = w
	var store storage.Historian
	o.Store = func() storage.Historian { return store }
	r := newReporter(o)
	const series, minutes = 100, 150
	for range minutes {
		for i := range series {
			l.Meter(storage.Series{Zone: fmt.Sprint("zone ", i)}).Allow(Key{}, 1)
		}
		r.report()
		if r.minutes > maxWaiting {
			t.Fatalf("%d minutes of series wait, want at most %d", r.minutes, maxWaiting)
		}
	}
	store = p
	r.report()
	got := p.total(t, storage.Series{})
	if got.Allowed > maxWaiting || got.Allowed < maxWaiting-perReport || int(got.Allowed)+w.givenUp != series*minutes {
		t.Errorf("%d of %d requests are counted, and %d given up", got.Allowed, series*minutes, w.givenUp)
	}
	if w.waits != 1 || w.written != 1 {
		t.Errorf("the observer was told %+v", w)
	}
}

// Two processes count together. One is killed: only its unreported counts are lost.
func TestTwoProcesses(t *testing.T) {
	p := newPlace(t)
	var ledgers [2]Ledger
	var reporters [2]*Reporter
	for i := range ledgers {
		ledgers[i].SetSeed(5)
		reporters[i] = newReporter(p.options(&ledgers[i]))
	}
	for n := range 60 {
		for i := range ledgers {
			ledgers[i].Meter(five).Allow(ledgers[i].Key(fmt.Append(nil, n%20)), 1)
			if n%10 == 9 && (i == 0 || n < 50) { // the other one is killed then
				reporters[i].report()
			}
		}
	}
	if got := p.total(t, five); got != (storage.Tally{Counts: outcomes.Counts{Allowed: 110}, Units: 110}) {
		t.Errorf("got %+v", got)
	}
	if days := p.points(t, five, storage.Day); len(days) == 0 || days[0].Keys != 20 {
		t.Errorf("got %+v, want 20 keys", days)
	}
}

// A key with a hundredth of the demand is found in a flood of others, with approximately its
// weight.
func TestHeavyKeyInAFlood(t *testing.T) {
	m := new(Ledger).Meter(five)
	const requests = 400_000
	for i := range requests {
		key := fmt.Appendf(nil, "key %d", i)
		if i%100 == 0 {
			key = []byte("heavy")
		}
		m.Allow(Key{Text: key}, 1)
		if tracked := len(m.heavy.keys); tracked > maxTracked {
			t.Fatalf("%d keys are tracked, want at most %d", tracked, maxTracked)
		}
	}
	minute := m.take(0, named)[0]
	if len(minute.Heaviest) != storage.MaxHeaviest || minute.Heaviest[0].Key != (storage.Key{'h', 'e', 'a', 'v', 'y'}) {
		t.Fatalf("the heaviest is %q", minute.Heaviest[0].Key)
	}
	if units := minute.Heaviest[0].Units; units < requests/200 || units > requests/50 {
		t.Errorf("it is said to have had %d units, want about %d", units, requests/100)
	}
	if m.Allow(Key{Text: slices.Repeat([]byte("x"), maxKey+1)}, 1); len(m.heavy.keys) != 0 {
		t.Error("a key is kept that is too long")
	}
}

// The time of the store may be set back: nothing is lost.
func TestClockIsSetBack(t *testing.T) {
	l, p := new(Ledger), newPlace(t)
	now, o := wallNow(), p.options(l)
	o.Now = func() int64 { return now }
	r := newReporter(o)
	for range 20 {
		l.Meter(five).Allow(Key{}, 1)
		now -= int64(37 * time.Minute)
		r.report()
	}
	if got := p.total(t, five); got.Allowed != 20 {
		t.Errorf("got %+v, want 20 requests", got)
	}
}

// A nil meter counts nothing.
func TestNilMeter(*testing.T) {
	var m *Meter
	m.Allow(Key{}, 1)
	m.Refuse(Key{}, Blocked)
	m.WouldRefuse(Key{})
}

func BenchmarkAllow(b *testing.B) {
	l := new(Ledger)
	l.SetSeed(1)
	m := l.Meter(five)
	keys := make([][]byte, 1000)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "i\x00\x00\x00\x00%d", i)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		m.Allow(l.Key(keys[i%len(keys)]), 1)
	}
}

// The use of keys with lasting names is counted to the unit, by hour and day, however many others
// come, up to a number of keys.
func TestKeysOfOperatorsAreCountedExactly(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		l, p := new(Ledger), newPlace(t)
		r := Start(p.options(l))
		acme := l.Key([]byte(string(identity.TagAPIKey) + "acme"))
		want := storage.Tally{}
		for i := range 150 { // of minutes
			for j := range 1000 {
				l.Meter(five).Allow(l.Key(fmt.Appendf(nil, "i%d %d", i, j)), 1)
				l.Meter(five).Allow(acme, 3)
				l.Meter(five).Refuse(acme, Blocked)
			}
			l.Meter(five).Spend(acme, 7)
			l.Meter(login).Allow(acme, 1)
			want.Add(storage.Tally{Counts: outcomes.Counts{Allowed: 1000, Refused: 1000}, Units: 3007})
			time.Sleep(time.Minute)
		}
		closed(t, r)
		name, err := named(five, string(acme.Text))
		if err != nil {
			t.Fatal(err)
		}
		got := p.total(t, Of(five, name))
		if got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if hours := p.points(t, Of(five, name), time.Minute); len(hours) > 4 {
			t.Errorf("there are %d rows for 150 minutes", len(hours))
		}
		if sum := p.total(t, five); sum.Allowed != 2*want.Allowed {
			t.Errorf("the limit: %+v", sum)
		}
	})
}

func TestExactKeysAreBounded(t *testing.T) {
	l := new(Ledger)
	for i := range maxExact + 100 {
		l.Meter(five).Allow(l.Key(fmt.Appendf(nil, "%c%d", identity.TagAPIKey, i)), 1)
	}
	if n := len(l.Meter(five).exact.keys); n != maxExact {
		t.Errorf("%d keys are counted exactly, want %d", n, maxExact)
	}
	reported := l.Meter(five).exact.take(0, five, named)
	i := slices.IndexFunc(reported, func(m storage.Minute) bool { return m.Series == Of(five, Others) })
	if len(reported) != maxExact+1 || i < 0 || reported[i].Tally != (storage.Tally{Counts: outcomes.Counts{Allowed: 100}, Units: 100}) {
		t.Errorf("%d are reported, and the others at %d", len(reported), i)
	}
}

// A key's estimate is right on average, whether units are counted on arrival or when the request ends, and
// whatever they are.
func TestEstimatesAreRightOnAverage(t *testing.T) {
	for name, tt := range map[string]struct {
		requests int
		settles  bool
		cost     func() int64
	}{
		"299 requests":             {299, false, func() int64 { return 1 }},
		"3,000 that settle 7":      {3000, true, func() int64 { return 7 }},
		"3,000 of different costs": {3000, false, func() int64 { return 1 + rand.Int64N(50) }},
		"5,000 with some gigabytes": {5000, true, func() int64 {
			return 1 + rand.Int64N(2)*4_000_000_000
		}},
	} {
		t.Run(name, func(t *testing.T) {
			const trials = 300
			sum, all := 0., 0.
			for range trials {
				m, key, units := new(Ledger).Meter(five), Key{Text: []byte("alice")}, 0.
				for range tt.requests {
					cost := tt.cost()
					units += float64(cost)
					if tt.settles {
						m.Allow(key, 0)
						m.Spend(key, cost)
					} else {
						m.Allow(key, cost)
					}
				}
				sum, all = sum+float64(m.take(0, named)[0].Heaviest[0].Units), all+units
			}
			if ratio := sum / all; ratio < .96 || ratio > 1.04 {
				t.Errorf("estimates are %.3f of what was used", ratio)
			}
		})
	}
}

// A request that a later handler refuses is taken back, also when its minute is over.
func TestRetractedRequests(t *testing.T) {
	l := new(Ledger)
	m, sum := l.Meter(Requests), storage.Tally{}
	m.Allow(Key{}, 1)
	for _, change := range []func(){m.Retract, func() { m.Allow(Key{}, 1) }, func() { m.Allow(Key{}, 1) }, func() {}} {
		for _, minute := range l.take(0, named) {
			if minute.Allowed < 0 || minute.Units < 0 {
				t.Errorf("got %+v", minute.Tally)
			}
			sum.Add(minute.Tally)
		}
		change()
	}
	if sum.Allowed != 2 || sum.Units != 2 {
		t.Errorf("got %+v, want 2 requests", sum)
	}
}
