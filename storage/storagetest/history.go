package storagetest

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/distinct"
	"github.com/caddy-tally/caddy-tally/internal/outcomes"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/storage"
)

// The tests of stores that keep what was decided.

// historian opens a store that keeps the history of decisions.
func historian(t *testing.T, open storage.Opener) storage.Historian {
	t.Helper()
	return must(t, open).(storage.Historian)
}

func report(t *testing.T, s storage.Historian, now int64, r storage.Report) {
	t.Helper()
	if err := s.Report(context.Background(), now, r); err != nil {
		t.Fatalf("report: %v", err)
	}
}

func historyOf(t *testing.T, s storage.Historian, q storage.HistoryQuery) []storage.Point {
	t.Helper()
	points, err := s.History(context.Background(), q)
	if err != nil {
		t.Fatalf("history: %v", err)
	}
	return points
}

// reports makes random reports, and adds them up in a slow and simple way.
type reports struct {
	*rand.Rand
	sent  map[int64]int64 // the number of each writer's last report
	sums  map[storage.HistoryQuery]*sum
	heavy map[storage.Series]map[storage.Key]*storage.HeavyKey
}

type sum struct {
	storage.Tally
	keys map[storage.Series]*distinct.Set // of all that was reported, which sketches merge to
}

var reported = []storage.Series{{Zone: "login"}, {Zone: "login", Limit: "5/1m"}, {Zone: "api"},
	{Zone: "api", Limit: "1000/1d"}, {Zone: "ApI", Limit: "é'\""}}

// next returns a report about a few minutes that end at a time.
func (r *reports) next(writer, end int64) storage.Report {
	r.sent[writer]++
	made := storage.Report{Writer: writer, Number: r.sent[writer]}
	for range 1 + r.IntN(4) {
		m := storage.Minute{At: end - r.Int64N(int64(4*time.Minute)), Series: reported[r.IntN(len(reported))]}
		m.Tally = storage.Tally{Counts: outcomes.Counts{Allowed: r.Int64N(100), Refused: r.Int64N(50),
			Blocked: r.Int64N(20), Banned: r.Int64N(5), WouldRefuse: r.Int64N(3)}, Units: r.Int64N(1000)}
		var keys distinct.Set
		var hashes []uint64
		for range r.IntN(30) {
			hash := rand.New(rand.NewPCG(r.Uint64N(200), 0)).Uint64()
			hashes = append(hashes, hash)
			keys.Add(hash)
		}
		m.Keys = keys.Take()
		for n := range r.IntN(4) { // so few that all of them are among the heaviest
			m.Heaviest = append(m.Heaviest, storage.HeavyKey{Key: key(n), Units: r.Int64N(1e6), Refused: r.Int64N(1e6)})
		}
		r.add(&m, hashes)
		made.Minutes = append(made.Minutes, m)
	}
	return made
}

// add adds a minute to all sums that it belongs to.
func (r *reports) add(m *storage.Minute, hashes []uint64) {
	all := []storage.Series{m.Series}
	if m.Limit == "" {
		all = append(all, storage.Series{})
	}
	for _, series := range all {
		for _, rollup := range storage.Rollups {
			q := storage.HistoryQuery{Series: series, Resolution: rollup.Resolution,
				From: storage.Period(m.At, rollup.Resolution)}
			to := r.sums[q]
			if to == nil {
				to = &sum{keys: make(map[storage.Series]*distinct.Set)}
				r.sums[q] = to
			}
			to.Add(m.Tally)
			if to.keys[m.Series] == nil {
				to.keys[m.Series] = new(distinct.Set)
			}
			for _, hash := range hashes {
				to.keys[m.Series].Add(hash)
			}
		}
	}
	if r.heavy[m.Series] == nil {
		r.heavy[m.Series] = make(map[storage.Key]*storage.HeavyKey)
	}
	for _, k := range m.Heaviest {
		if r.heavy[m.Series][k.Key] == nil {
			r.heavy[m.Series][k.Key] = &storage.HeavyKey{Key: k.Key}
		}
		r.heavy[m.Series][k.Key].Units += k.Units
		r.heavy[m.Series][k.Key].Refused += k.Refused
	}
}

// check compares what a store says of a time with the sums.
func (r *reports) check(t *testing.T, s storage.Historian, from, to int64) {
	t.Helper()
	for _, series := range append(reported, storage.Series{}) {
		for _, rollup := range storage.Rollups {
			found := make(map[int64]bool)
			for _, p := range historyOf(t, s,
				storage.HistoryQuery{Series: series, From: from, To: to, Resolution: rollup.Resolution}) {
				begins := storage.Period(p.At, rollup.Resolution)
				want := r.sums[storage.HistoryQuery{Series: series, Resolution: rollup.Resolution, From: begins}]
				if want == nil || p.Tally != want.Tally || found[begins] || p.At%int64(rollup.Resolution) != 0 {
					t.Fatalf("%+v at %d × %v: got %+v, want %+v", series, begins, rollup.Resolution, p, want)
				}
				found[begins] = true
				keys := int64(0)
				for _, set := range want.keys {
					keys = max(keys, set.Take().Count()) // each is looked at once
				}
				if p.Keys != keys {
					t.Errorf("%+v at %d × %v: %d keys, want %d", series, begins, rollup.Resolution, p.Keys, keys)
				}
			}
			for q := range r.sums {
				if q.Series == series && q.Resolution == rollup.Resolution && !found[q.From] {
					t.Fatalf("%+v at %d × %v is missing", series, q.From, rollup.Resolution)
				}
			}
		}
	}
	r.checkHeaviest(t, s, from, to)
}

func (r *reports) checkHeaviest(t *testing.T, s storage.Historian, from, to int64) {
	t.Helper()
	for _, series := range reported {
		var want []storage.Heavy
		for _, k := range r.heavy[series] {
			want = append(want, storage.Heavy{Series: series, HeavyKey: *k})
		}
		slices.SortFunc(want, func(a, b storage.Heavy) int { return cmp.Compare(b.Units+b.Refused, a.Units+a.Refused) })
		if series.Limit == "" {
			continue // a zone as a whole is asked for together with its limits
		}
		got, err := s.Heaviest(context.Background(), storage.HistoryQuery{Series: series, From: from, To: to}, 100)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%+v: the heaviest are %v (%v), want %v", series, got, err, want)
		}
	}
}

// testHistory has two processes report for hours, some reports twice, with sweeps in between. The
// points are the sums of the reports, at each resolution.
func testHistory(t *testing.T, open storage.Opener) {
	seed := rand.Uint64()
	r := &reports{
		Rand: rand.New(rand.NewPCG(seed, 0)), sent: make(map[int64]int64),
		sums:  make(map[storage.HistoryQuery]*sum),
		heavy: make(map[storage.Series]map[storage.Key]*storage.HeavyKey),
	}
	t.Logf("seed %d", seed)
	handles := []storage.Historian{historian(t, open), historian(t, open)}
	const hours = 30
	now := start
	minutes := 15
	if proof.IsOn() {
		minutes = 5
	}
	for range 60 * hours / minutes {
		now += int64(minutes) * int64(time.Minute)
		writer := r.IntN(2)
		made := r.next(int64(writer)-7, now)
		report(t, handles[writer], now, made)
		if r.IntN(3) == 0 {
			report(t, handles[1-writer], now, made) // its outcome was not known
		}
		if r.IntN(20) == 0 {
			sweepAll(t, handles[writer].(storage.Store), At(now))
		}
	}
	r.check(t, handles[0], start-int64(time.Hour), now)
}

// testHistoryKept expires the rows of one resolution after the other, and rows that a wrong clock
// has dated in the future.
func testHistoryKept(t *testing.T, open storage.Opener) {
	s, number := historian(t, open), int64(0)
	send := func(now int64, minutes ...storage.Minute) {
		t.Helper()
		number++
		report(t, s, now, storage.Report{Writer: 1, Number: number, Minutes: minutes})
		sweepAll(t, s.(storage.Store), At(now))
	}
	minute := storage.Minute{At: start, Series: reported[1], Tally: storage.Tally{Counts: outcomes.Counts{Allowed: 1}},
		Heaviest: []storage.HeavyKey{{Key: key(1), Units: 1}}}
	send(start, minute)
	send(start, storage.Minute{At: start + int64(400*storage.Day), Series: reported[1],
		Tally: storage.Tally{Counts: outcomes.Counts{Allowed: 1}}})
	for _, step := range []struct {
		passed                      time.Duration
		minutes, hours, days, heavy int
	}{
		{0, 1, 1, 1, 1},
		{storage.KeepMinutes - time.Minute, 1, 1, 1, 1},
		{storage.KeepMinutes + time.Minute, 0, 1, 1, 1},
		{storage.KeepHeaviest + time.Hour, 0, 1, 1, 0},
		{storage.KeepHours - time.Hour, 0, 1, 1, 0},
		{storage.KeepHours + time.Hour, 0, 0, 1, 0},
		{storage.KeepDays - storage.Day, 0, 0, 1, 0},
		{storage.KeepDays + storage.Day, 0, 0, 0, 0},
	} {
		send(start + int64(step.passed))
		for i, want := range []int{step.minutes, step.hours, step.days} {
			q := storage.HistoryQuery{Series: reported[1], Resolution: storage.Rollups[i].Resolution}
			for _, at := range []int64{start, start + int64(400*storage.Day)} {
				q.From, q.To = at-int64(q.Resolution), at+int64(q.Resolution)
				if got := len(historyOf(t, s, q)); got != want && (at == start || got != 0) {
					t.Errorf("after %v there are %d points of %v at %v, want %d", step.passed, got, q.Resolution,
						time.Duration(at-start), want)
				}
			}
		}
		q := storage.HistoryQuery{From: start - int64(time.Hour), To: start + int64(time.Hour)}
		if got, err := s.Heaviest(context.Background(), q, 10); err != nil || len(got) != step.heavy {
			t.Errorf("after %v there are %d heavy keys (%v), want %d", step.passed, len(got), err, step.heavy)
		}
	}
}

// testHeaviest reports more keys than the store keeps. The keys with the highest rates stay.
func testHeaviest(t *testing.T, open storage.Opener) {
	s := historian(t, open)
	now, number := start-start%int64(time.Hour), int64(0)
	for minute := range 70 {
		m := storage.Minute{At: now + int64(minute)*int64(time.Minute), Series: reported[1]}
		for n := range storage.MaxHeaviest + 5 { // the last ones are too many
			k := storage.HeavyKey{Key: key(n), Units: 1000 - int64(n), Refused: 3}
			if n >= storage.MaxHeaviest/2 {
				k.Key, k.Units = key(1000+minute*100+n), 1
			}
			m.Heaviest = append(m.Heaviest, k)
		}
		number++
		report(t, s, m.At, storage.Report{Writer: 1, Number: number, Minutes: []storage.Minute{m}})
	}
	got, err := s.Heaviest(context.Background(), storage.HistoryQuery{From: now, To: now + int64(time.Hour)}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != storage.MaxHeaviest {
		t.Errorf("%d keys are kept of an hour, want %d", len(got), storage.MaxHeaviest)
	}
	for n, k := range got[:min(len(got), storage.MaxHeaviest/2)] {
		if want := (storage.HeavyKey{Key: key(n), Units: 60 * (1000 - int64(n)), Refused: 180}); k.HeavyKey != want {
			t.Errorf("number %d is %+v, want %+v", n, k.HeavyKey, want)
		}
	}
	if few, err := s.Heaviest(context.Background(), storage.HistoryQuery{From: now, To: now + int64(time.Hour)},
		3); err != nil || !slices.Equal(few, got[:3]) {
		t.Errorf("asked for 3: got %v, %v", few, err)
	}
}

// testHistoryBad makes invalid queries.
func testHistoryBad(t *testing.T, open storage.Opener) {
	s := historian(t, open)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for what, q := range map[string]storage.HistoryQuery{
		"no resolution":       {From: 0, To: 1},
		"another resolution":  {From: 0, To: 1, Resolution: time.Second},
		"a limit and no zone": {Series: storage.Series{Limit: "x"}, Resolution: time.Minute},
		"too much":            {From: 0, To: int64(storage.MaxPoints+1) * int64(time.Minute), Resolution: time.Minute},
		"an end before":       {From: 2, To: 1, Resolution: time.Minute},
	} {
		if points, err := s.History(context.Background(), q); err == nil {
			t.Errorf("%s: got %v", what, points)
		}
	}
	one := storage.Report{Writer: 1, Number: 1,
		Minutes: []storage.Minute{
			{At: start, Series: reported[0], Tally: storage.Tally{Counts: outcomes.Counts{Allowed: 1}}}}}
	if err := s.Report(ctx, start, one); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context ended, report says %v", err)
	}
	q := storage.HistoryQuery{From: start - int64(time.Hour), To: start + int64(time.Hour), Resolution: time.Minute}
	if points := historyOf(t, s, q); len(points) > 0 {
		t.Errorf("a call that failed has led to %v", points)
	}
	if err := s.(storage.Store).Close(); err != nil {
		t.Fatal(err)
	}
	_, err := s.History(context.Background(), q)
	_, heavyErr := s.Heaviest(context.Background(), q, 1)
	for _, err := range []error{err, heavyErr, s.Report(context.Background(), start, one)} {
		if !errors.Is(err, storage.ErrClosed) {
			t.Errorf("a closed store says %v", err)
		}
	}
}
