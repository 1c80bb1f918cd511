package engine

import (
	"context"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// fromChild asks for a request of a client that is a part of another.
func (f *fixture) fromChild(client, parent string, scaling ...*Scaling) Decision {
	var debits []Debit
	c := &Client{Key: []byte(client), Parent: &Client{Key: []byte(parent)}}
	for _, scaling := range scaling {
		debits = append(debits, Debit{Limit: scaling.Levels[0], Key: c.Key, Cost: 1, Client: c, Scaling: scaling})
	}
	return f.Decide(context.Background(), c, debits)
}

func TestParentsBanHoldsForItsPart(t *testing.T) {
	f, scaling := newFixture(t), newScaling(t, 10, time.Hour, 0)
	f.Punish(&Client{Key: []byte("parent")}, banning)
	f.score("parent", 1)
	for range 2 { // at first the part is unknown
		if d := f.fromChild("part", "parent", scaling); d.Reason != Banned || d.Retry <= 0 || d.Retry > time.Hour {
			t.Errorf("a part of a banned client: %+v", d)
		}
	}
	after := startOn(t, f.disk, f.fake)
	if d := after.fromChild("part", "parent", scaling); d.Reason != Banned {
		t.Errorf("after a crash: %+v", d)
	}
	if d := f.fromChild("part", "another", scaling); d.Reason == Banned {
		t.Errorf("a part of another client: %+v", d)
	}
}

func TestBanOfAPartIsNoneOfItsParent(t *testing.T) {
	f, scaling := newFixture(t), newScaling(t, 10, time.Hour, 0)
	f.Punish(&Client{Key: []byte("part"), Parent: &Client{Key: []byte("parent")}}, banning)
	f.score("part", 1)
	if d := f.fromChild("part", "parent", scaling); d.Reason != Banned {
		t.Errorf("the part: %+v", d)
	}
	if d := f.from("parent", scaling); !d.Allowed {
		t.Errorf("its parent: %+v", d)
	}
	if d := f.fromChild("sibling", "parent", scaling); !d.Allowed {
		t.Errorf("another part: %+v", d)
	}
}

func TestPartsLimitsFollowTheWorseLevel(t *testing.T) {
	for _, test := range []struct{ part, parent, amount int }{{0, 51, 30}, {51, 0, 30}, {26, 76, 10}, {76, 26, 10}} {
		f, scaling := newFixture(t), newScaling(t, 100, time.Hour, 0)
		f.Punish(&Client{Key: []byte("part")}, reputation.Offense{Points: test.part})
		f.Punish(&Client{Key: []byte("parent")}, reputation.Offense{Points: test.parent})
		f.score("part", 1)
		f.score("parent", 1)
		allowed := 0
		for range 200 {
			if f.fromChild("part", "parent", scaling).Allowed {
				allowed++
			}
		}
		if allowed != test.amount {
			t.Errorf("a part that lost %d points, of a client that lost %d, passed %d times, want %d", test.part, test.parent, allowed, test.amount)
		}
	}
}

// A part that breaks rules is punished itself.
func TestViolationsOfAPartAreItsOwn(t *testing.T) {
	f, scaling := newFixture(t), newScaling(t, 10, time.Hour, 0)
	scaling.Ban.After = 1
	for range 30 {
		f.fromChild("part", "parent", scaling)
	}
	if d := f.fromChild("part", "parent", scaling); d.Reason != Banned {
		t.Errorf("a part that went over its limit: %+v", d)
	}
	if d := f.from("parent", scaling); !d.Allowed {
		t.Errorf("its parent: %+v", d)
	}
}
