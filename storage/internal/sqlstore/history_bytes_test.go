package sqlstore

import (
	"reflect"
	"testing"

	"github.com/caddy-tally/caddy-tally/storage"
)

func TestHistoryAsBytes(t *testing.T) {
	series := storage.Series{Zone: "login", Limit: "é'\"\x00"}
	p := point{Series: series, Tally: storage.Tally{Allowed: 1, Refused: -2, Blocked: 3, Banned: 4, WouldRefuse: 5, Units: 1 << 62}, sketch: []byte{1, 2, 3}}
	if got := parsePoint(p.append(nil)); !reflect.DeepEqual(got, p) {
		t.Errorf("%+v comes back as %+v", p, got)
	}
	h := heavies{Series: series, keys: []storage.HeavyKey{{Key: storage.Key{1}, Units: 1, Refused: 2}, {Key: storage.Key{15: 9}, Units: 1 << 62}}}
	if got := parseHeavies(h.append(nil)); !reflect.DeepEqual(got, h) {
		t.Errorf("%+v comes back as %+v", h, got)
	}
}

// What is read from damaged bytes can be added to, counted and written again.
func FuzzHistory(f *testing.F) {
	f.Add([]byte{1, 'z', 1, 'l', 2, 4, 6, 8, 10, 12, 1, 2, 3})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, from []byte) {
		p := parsePoint(from)
		p.sketch = p.sketch.Merge(nil)
		if again := parsePoint(p.append(nil)); again.Series != p.Series || again.Tally != p.Tally || again.sketch.Count() != p.sketch.Count() {
			t.Fatalf("%x is read as %+v, and that as %+v", from, p, again)
		}
		h := parseHeavies(from)
		if again := parseHeavies(h.append(nil)); !reflect.DeepEqual(again, h) {
			t.Fatalf("%x is read as %+v, and that as %+v", from, h, again)
		}
	})
}
