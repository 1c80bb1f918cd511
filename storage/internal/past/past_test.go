package past

import (
	"math"
	"testing"

	"github.com/caddy-tally/caddy-tally/internal/distinct"
	"github.com/caddy-tally/caddy-tally/internal/outcomes"
	"github.com/caddy-tally/caddy-tally/storage"
)

// Counts from a damaged database are added to without overflow.
func TestDamagedCountsDoNotOverflow(t *testing.T) {
	p := &Point{Tally: storage.Tally{Counts: outcomes.Counts{Allowed: math.MaxInt64, Refused: math.MinInt64}}}
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
		point Point
		open  bool
		want  int64
		keeps bool // a sketch
	}{
		{Point{}, true, 1, true},
		{Point{}, false, 1, true},
		{Point{Keys: 40}, false, 40, false},
		{Point{Keys: 40}, true, 40, true},
	} {
		p := c.point
		if p.add(m, c.open); p.Keys != c.want || (p.Sketch != nil) != c.keeps {
			t.Errorf("%+v, open %v: got %d keys and the sketch %x", c.point, c.open, p.Keys, p.Sketch)
		}
	}
}
