package rows

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/distinct"
	"github.com/caddy-tally/caddy-tally/internal/outcomes"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Counts from a damaged database are added to without overflow.
func TestDamagedCountsDoNotOverflow(t *testing.T) {
	p := &point{Tally: storage.Tally{Counts: outcomes.Counts{Allowed: math.MaxInt64, Refused: math.MinInt64}}}
	p.addTally(storage.Tally{Counts: outcomes.Counts{Allowed: math.MaxInt64, Refused: 3}, Units: -1})
	if p.Allowed != math.MaxInt64/2 || p.Refused != 3 || p.Units != 0 {
		t.Errorf("got %+v", p.Tally)
	}
	keys := addHeaviest([]storage.HeavyKey{{Units: math.MaxInt64}}, []storage.HeavyKey{{Units: math.MaxInt64, Refused: -5}, {Key: storage.Key{1}, Units: -1}})
	if len(keys) != 2 || keys[0].Units != math.MaxInt64/2 || keys[0].Refused != 0 || keys[1].Units != 0 {
		t.Errorf("got %+v", keys)
	}
}

// A report that comes after the sketch of its period was dropped doesn't lower the estimate.
func TestLateReportsKeepTheEstimate(t *testing.T) {
	var few distinct.Set
	few.Add(1)
	m := &storage.Minute{Keys: few.Take()}
	for _, c := range []struct {
		point point
		open  bool
		want  int64
		keeps bool // a sketch
	}{
		{point{}, true, 1, true},
		{point{}, false, 1, true},
		{point{keys: 40}, false, 40, false},
		{point{keys: 40}, true, 40, true},
	} {
		p := c.point
		if p.add(m, c.open); p.keys != c.want || (p.sketch != nil) != c.keeps {
			t.Errorf("%+v, open %v: got %d keys and the sketch %x", c.point, c.open, p.keys, p.sketch)
		}
	}
}

func TestRowsAsBytes(t *testing.T) {
	p := point{Tally: storage.Tally{Counts: outcomes.Counts{Allowed: 1, Refused: -2, Blocked: 3, Banned: 4, WouldRefuse: 5}, Units: 1 << 62}, keys: 7}
	if got := parsePoint(appendPoint(&p)); !reflect.DeepEqual(got, p) {
		t.Errorf("%+v comes back as %+v", p, got)
	}
	series := storage.Series{Zone: "login", Limit: "é'\"\x00"}
	keys := []storage.HeavyKey{{Key: storage.Key{1}, Units: 1, Refused: 2}, {Key: storage.Key{15: 9}, Units: 1 << 62}}
	if again, got := parseHeaviest(appendHeaviest(series, keys)); again != series || !reflect.DeepEqual(got, keys) {
		t.Errorf("%+v come back as %+v of %+v", keys, got, again)
	}
	act := storage.Act{At: -5, By: "admin", Action: "ban", Target: "\x00é", Reason: "because"}
	if got := parseAct(nameOf(ofActs, act.At, ""), appendAct(&act)); got != act {
		t.Errorf("%+v comes back as %+v", act, got)
	}
}

// What is read from damaged bytes can be added to, counted and written again.
func FuzzRows(f *testing.F) {
	f.Add([]byte{1, 'z', 1, 'l', 2, 4, 6, 8, 10, 12, 1, 2, 3})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, from []byte) {
		p := parsePoint(from)
		if again := parsePoint(appendPoint(&p)); !reflect.DeepEqual(again, p) {
			t.Fatalf("%x is read as %+v, and that as %+v", from, p, again)
		}
		p.sketch = distinct.Sketch(from).Merge(nil)
		p.add(&storage.Minute{Keys: from}, true)
		series, keys := parseHeaviest(from)
		if parsed, again := parseHeaviest(appendHeaviest(series, keys)); parsed != series || !reflect.DeepEqual(again, keys) {
			t.Fatalf("%x is read as %+v, and that as %+v", from, keys, again)
		}
		act := parseAct(nameOf(ofActs, 1, ""), from)
		if again := parseAct(nameOf(ofActs, 1, ""), appendAct(&act)); again != act {
			t.Fatalf("%x is read as %+v, and that as %+v", from, act, again)
		}
	})
}

// Names sort as their times do, and each kind has a range of its own.
func TestNamesAreInOrder(t *testing.T) {
	times := []int64{math.MinInt64, -int64(storage.Day), -1, 0, 1, 1_800_000_000e9, 1_800_000_060e9, math.MaxInt64}
	for letter, k := range kinds {
		last := ""
		for _, at := range times {
			period := storage.Period(at, k.unit)
			name, all := nameOf(letter, period, ""), allOf(letter)
			if name < last || name < all.From || name >= all.End {
				t.Errorf("%q at %d is %x, after %x", letter, at, name, last)
			}
			if k.unit != time.Nanosecond && periodOf(name) != period {
				t.Errorf("%q at %d is of period %d, want %d", letter, at, periodOf(name), period)
			}
			last = name
		}
	}
}

// A sweep deletes exactly the rows that reports don't change any more.
func TestExpiredRowsAreNotChanged(t *testing.T) {
	now := int64(1_800_000_000e9)
	for letter, k := range kinds {
		for _, at := range []int64{now, now - int64(k.keep), now - int64(k.keep+k.unit), now - int64(k.keep+2*k.unit), now + int64(storage.Day), now + int64(storage.Day+k.unit), now + int64(storage.Day+2*k.unit), math.MinInt64, math.MaxInt64} {
			name := nameOf(letter, storage.Period(at, k.unit), "")
			expired := slices.ContainsFunc(Expired(now), func(r Range) bool { return r.From <= name && name < r.End })
			if expired == (keptName(letter, at, "", now) != "") {
				t.Errorf("%q at %v: expired is %v, and so is kept", letter, time.Duration(at-now), expired)
			}
		}
	}
}

// The format of names and values is fixed, because existing databases, and machines with earlier versions, have
// them.
func TestRowsOfEarlierVersions(t *testing.T) {
	series := storage.Series{Zone: "login", Limit: "5/1m"}
	p := &point{Tally: storage.Tally{Counts: outcomes.Counts{Allowed: 1, Refused: 2, Blocked: 3, Banned: 4, WouldRefuse: 5}, Units: 600}, keys: 2}
	written, others := writerNames(-5, 1_800_000_000e9)
	for want, stored := range map[string]string{
		"6680079180a87d9320bafa46cd":                                   nameOf(ofLimits+1, 496000, restOf(series)),
		"6380004e201020aa4befc243b2":                                   nameOf(ofZones+2, 20000, restOf(storage.Series{Zone: "login"})),
		"6d80079180a87d9320bafa46cd":                                   nameOf(ofHeaviest, 496000, restOf(series)),
		"7080000ba0fffffffffffffffb":                                   written,
		"7080000ba1fffffffffffffffb":                                   others[1],
		"7298fae27693b40000":                                           nameOf(ofActs+byte(storage.Charges), 1_800_000_000e9, ""),
		"04b009020406080a":                                             string(appendPoint(p)),
		"056c6f67696e04352f316d01000000000000000000000000000000d80404": string(appendHeaviest(series, []storage.HeavyKey{{Key: storage.Key{1}, Units: 300, Refused: 2}})),
		"01610362616e017802697000":                                     string(appendAct(&storage.Act{By: "a", Action: "ban", Target: "x", Kind: "ip"})),
	} {
		if got := hex.EncodeToString([]byte(stored)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// inMap is a backend whose rows are in a map.
type inMap map[string][]byte

func (m inMap) Update(_ context.Context, _ string, names []string, decide func(map[string][]byte)) error {
	values := make(map[string][]byte)
	for _, name := range names {
		values[name] = m[name]
	}
	decide(values)
	maps.Copy(m, values)
	return nil
}

func (m inMap) Scan(_ context.Context, _ string, r Range, f func(string, []byte)) error {
	for name, value := range m {
		if r.From <= name && name < r.End && len(value) > 0 {
			f(name, value)
		}
	}
	return nil
}

func (m inMap) Remove(context.Context, string, []Range, int) (int, error) { return 0, nil }

// At most storage.MaxSeries are counted on a day, whatever is configured. Known ones are counted further.
func TestSeriesAreBounded(t *testing.T) {
	const now, more = int64(1_800_000_000e9), 3
	s, m := New(inMap{}, inMap{}), storage.Minute{At: now, Tally: storage.Tally{Counts: outcomes.Counts{Allowed: 1}}}
	all := storage.Report{Writer: 1}
	for i := range storage.MaxSeries + more {
		m.Zone = fmt.Sprint("zone ", i)
		all.Minutes = append(all.Minutes, m)
	}
	for range 2 {
		all.Number++
		if err := s.Report(t.Context(), now, all); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range storage.Rollups {
		points, err := s.History(t.Context(), storage.HistoryQuery{From: now, To: now + 1, Resolution: r.Resolution})
		if err != nil || len(points) != 1 || points[0].Allowed != 2*storage.MaxSeries {
			t.Errorf("per %v there are %+v (%v), want %d requests", r.Resolution, points, err, 2*storage.MaxSeries)
		}
	}
	m.At += int64(storage.Day)
	if err := s.Report(t.Context(), m.At, storage.Report{Writer: 1, Number: 3, Minutes: []storage.Minute{m}}); err != nil {
		t.Fatal(err)
	}
	if points, err := s.History(t.Context(), storage.HistoryQuery{Series: m.Series, From: m.At, To: m.At + 1, Resolution: time.Minute}); err != nil || len(points) != 1 {
		t.Errorf("on the next day, one that had no room has the points %+v, %v", points, err)
	}
}

// The same act is not added twice when a transaction that took effect is repeated, and two equal acts of one time
// are two.
func TestActsAreAddedOnce(t *testing.T) {
	kept := inMap{}
	s, act := New(kept, again{kept}), storage.Act{At: 5, By: "admin"}
	for range 3 {
		added := act
		if err := s.Audit(t.Context(), storage.Audit, &added); err != nil {
			t.Fatal(err)
		}
	}
	if len(kept) != 3 {
		t.Errorf("there are %d acts, want 3: %q", len(kept), slices.Collect(maps.Keys(kept)))
	}
}

// again repeats each transaction, as after a lost answer.
type again struct{ inMap }

func (a again) Update(ctx context.Context, doing string, names []string, decide func(map[string][]byte)) error {
	if err := a.inMap.Update(ctx, doing, names, decide); err != nil {
		return err
	}
	return a.inMap.Update(ctx, doing, names, decide)
}
