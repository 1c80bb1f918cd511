package sqlstore

import (
	"encoding/hex"
	"reflect"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/distinct"
	"github.com/caddy-tally/caddy-tally/internal/outcomes"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/internal/past"
)

func TestHistoryAsBytes(t *testing.T) {
	series := storage.Series{Zone: "login", Limit: "é'\"\x00"}
	p := &past.Point{Tally: storage.Tally{Counts: outcomes.Counts{Allowed: 1, Refused: -2, Blocked: 3, Banned: 4, WouldRefuse: 5}, Units: 1 << 62}, Sketch: []byte{1, 2, 3}}
	if again, got := parsePoint(appendPoint(nil, series, p)); again != series || !reflect.DeepEqual(got, p) {
		t.Errorf("%+v comes back as %+v of %+v", p, got, again)
	}
	keys := []storage.HeavyKey{{Key: storage.Key{1}, Units: 1, Refused: 2}, {Key: storage.Key{15: 9}, Units: 1 << 62}}
	if again, got := parseHeavies(appendHeavies(nil, series, keys)); again != series || !reflect.DeepEqual(got, keys) {
		t.Errorf("%+v come back as %+v of %+v", keys, got, again)
	}
}

// What is read from damaged bytes can be added to, counted and written again.
func FuzzHistory(f *testing.F) {
	f.Add([]byte{1, 'z', 1, 'l', 2, 4, 6, 8, 10, 12, 1, 2, 3})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, from []byte) {
		series, p := parsePoint(from)
		p.Sketch = p.Sketch.Merge(nil)
		if parsed, again := parsePoint(appendPoint(nil, series, p)); parsed != series || again.Tally != p.Tally || again.Sketch.Count() != p.Sketch.Count() {
			t.Fatalf("%x is read as %+v, and that as %+v", from, p, again)
		}
		series, keys := parseHeavies(from)
		if parsed, again := parseHeavies(appendHeavies(nil, series, keys)); parsed != series || !reflect.DeepEqual(again, keys) {
			t.Fatalf("%x is read as %+v, and that as %+v", from, keys, again)
		}
	})
}

// The format of names and states is fixed, because existing tables, and machines with earlier
// versions, have them.
func TestHistoryOfEarlierVersions(t *testing.T) {
	series, seen := storage.Series{Zone: "login", Limit: "5/1m"}, distinct.Set{}
	seen.Add(0x9e3779b97f4a7c15)
	seen.Add(77)
	p := &past.Point{Tally: storage.Tally{Counts: outcomes.Counts{Allowed: 1, Refused: 2, Blocked: 3, Banned: 4, WouldRefuse: 5}, Units: 600}, Sketch: seen.Take()}
	for want, stored := range map[string]string{
		"6c01a87d9320bafa46cd8e466121b3378000000000079180":             pointName(past.PointAt{Rollup: 1, Period: 496000, Series: series}),
		"7a028000000000004e201020aa4befc243b2ed63452a5cca":             pointName(past.PointAt{Rollup: 2, Period: 20000, Series: storage.Series{Zone: "login"}}),
		"7a028000000000004e20":                                         pointName(past.PointAt{Rollup: 2, Period: 20000}),
		"688000000000079180a87d9320bafa46cd8e466121b337":               heavyName(past.HeavyAt{Hour: 496000, Series: series}),
		"77fffffffffffffffb":                                           writerName(-5),
		"056c6f67696e04352f316d020406080ab009001f9e21":                 string(appendPoint(nil, series, p)),
		"056c6f67696e04352f316d01000000000000000000000000000000d80404": string(appendHeavies(nil, series, []storage.HeavyKey{{Key: storage.Key{1}, Units: 300, Refused: 2}})),
	} {
		if got := hex.EncodeToString([]byte(stored)); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
