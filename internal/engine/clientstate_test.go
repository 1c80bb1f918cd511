package engine

import (
	"context"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
)

// newScaling returns the consequences of a limit for its clients: a violation costs points, and
// three in ten minutes lead to a ban of an hour.
func newScaling(t *testing.T, amount int64, window time.Duration, points int) *Scaling {
	whole := sliding(t, amount, window)
	scaling := &Scaling{
		Points: points, Zone: 7,
		Ban: reputation.Ban{After: 3, Within: 10 * time.Minute, For: time.Hour},
	}
	for level := range scaling.Levels {
		scaling.Levels[level] = &Limit{ID: whole.ID, Rate: whole.Scale(reputation.Level(level).Share())}
	}
	return scaling
}

// from decides a request of a client.
func (f *fixture) from(client string, scaling ...*Scaling) Decision {
	var debits []Debit
	c := &Client{Key: []byte(client)}
	for _, scaling := range scaling {
		debits = append(debits, Debit{Limit: scaling.Levels[0], Key: c.Key, Cost: 1, Client: c, Scaling: scaling})
	}
	return f.Decide(context.Background(), c, debits)
}

// passing returns how many of n requests of a client are allowed.
func (f *fixture) passing(n int, client string, scaling *Scaling) (allowed int) {
	for range n {
		if f.from(client, scaling).Allowed {
			allowed++
		}
	}
	return allowed
}

// score returns the score of a client on the disk, after the disk has recorded a number of
// violations.
func (f *fixture) score(client string, violations int) float64 {
	f.t.Helper()
	var score float64
	eventually(f.t, func() bool {
		r := f.disk.record(client, f.clock.Now())
		if len(r.Past) != violations {
			return false
		}
		score = r.Score(r.At)
		return true
	})
	return score
}

func TestViolationsAreOncePerWindow(t *testing.T) {
	f, scaling := newFixture(t), newScaling(t, 100, 2*time.Minute, 5)
	scaling.Ban = reputation.Ban{}
	for window := range 3 {
		if got := f.passing(5000, "a", scaling); got > 100 {
			t.Fatalf("%d of 5000 requests passed a limit of 100", got)
		}
		if got, want := f.score("a", window+1), 100-5*float64(window+1); got < want || got > want+1 {
			t.Errorf("after %d windows the score is %v, want about %v", window+1, got, want)
		}
		f.fake.advance(2*time.Minute + 4*time.Second)
	}
}

func TestLimitsFollowTheLevel(t *testing.T) {
	for _, test := range []struct{ points, amount int }{{0, 100}, {25, 100}, {26, 60}, {51, 30}, {76, 10}, {100, 10}} {
		f, scaling := newFixture(t), newScaling(t, 100, time.Hour, 5)
		f.Punish(&Client{Key: []byte("a")}, reputation.Offense{Points: test.points})
		f.score("a", 1)
		if got := f.passing(1000, "a", scaling); got != test.amount {
			t.Errorf("after a loss of %d points %d requests passed a limit of 100, want %d", test.points, got, test.amount)
		}
		if got := f.passing(1000, "b", scaling); got != 100 {
			t.Errorf("another client passed %d times, want 100", got)
		}
	}
}

// A client that stays within the limit of the best level commits no violation, however much of that
// is refused.
func TestScaledClientMayTryAsOftenAsAnInnocentOne(t *testing.T) {
	f, scaling := newFixture(t), newScaling(t, 100, time.Hour, 5)
	f.Punish(&Client{Key: []byte("a")}, reputation.Offense{Points: 95})
	f.score("a", 1)
	if got := f.passing(100, "a", scaling); got != 10 {
		t.Fatalf("%d passed, want 10", got)
	}
	f.from("b", scaling) // goes through the committer, and so all earlier work is done
	if score := f.score("a", 1); score > 5.1 {
		t.Errorf("score is %v", score)
	}
	f.from("a", scaling)
	f.score("a", 2)
}

func TestSmallestScaledLimitIsOne(t *testing.T) {
	f, scaling := newFixture(t), newScaling(t, 3, time.Hour, 0)
	f.Punish(&Client{Key: []byte("a")}, reputation.Offense{Points: 100})
	f.score("a", 1)
	if got := f.passing(20, "a", scaling); got != 1 {
		t.Errorf("%d passed, want 1", got)
	}
}

// banned makes a client banned and returns the end of the ban.
func banned(t *testing.T, f *fixture, client string, scaling *Scaling) (until int64) {
	t.Helper()
	for violations := 1; ; violations++ {
		f.passing(200, client, scaling)
		f.score(client, violations)
		if d := f.from(client, scaling); d.Reason == Banned {
			if violations != 3 {
				t.Fatalf("banned after %d violations", violations)
			}
			return f.clock.Now() + int64(d.Retry)
		}
		if violations == 3 {
			t.Fatal("not banned after 3 violations")
		}
		f.fake.advance(2*time.Minute + 4*time.Second)
	}
}

func TestBanIsForEverythingAndEnds(t *testing.T) {
	f, scaling := newFixture(t), newScaling(t, 10, 2*time.Minute, 0)
	until := banned(t, f, "a", scaling)
	other, nothing := newScaling(t, 10, time.Hour, 0), []*Scaling(nil)
	calls := f.store.calls.Load()
	if f.from("a", other).Allowed || f.from("a", nothing...).Allowed {
		t.Error("a banned client was let pass elsewhere")
	}
	if f.store.calls.Load() != calls {
		t.Error("a banned client had the store asked")
	}
	f.fake.advance(time.Duration(until - f.clock.Now() - 1))
	if d := f.from("a", other); d.Reason != Banned || d.Retry != 1 {
		t.Errorf("a nanosecond before the end: %+v", d)
	}
	f.fake.advance(1)
	if d := f.from("a", other); !d.Allowed {
		t.Errorf("at the end: %+v", d)
	}
}

func TestBanSurvivesACrash(t *testing.T) {
	f, scaling := newFixture(t), newScaling(t, 10, 2*time.Minute, 0)
	until := banned(t, f, "a", scaling)
	after := startOn(t, f.disk, f.fake) // the first one is gone, and has reported nothing
	d := after.from("a", newScaling(t, 10, time.Hour, 0))
	if d.Reason != Banned || after.clock.Now()+int64(d.Retry) != until {
		t.Errorf("after a crash: %+v, want a ban until %d", d, until)
	}
	if after.from("b", scaling).Reason == Banned {
		t.Error("another client is banned")
	}
}

// Another process learns of a ban with the next claim for the client.
func TestBanIsSeenByOtherProcesses(t *testing.T) {
	f, scaling := newFixture(t), newScaling(t, 10, 2*time.Minute, 0)
	other := startOn(t, f.disk, f.fake)
	other.from("a", scaling)
	banned(t, f, "a", scaling)
	for i := range 20 {
		if d := other.from("a", scaling); d.Reason == Banned {
			return
		} else if d.Reason == OverLimit && i > 10 {
			t.Fatalf("%+v", d)
		}
	}
	t.Error("the other process never learned of the ban")
}

func TestStandingCostsTheStoreNothingOnceKnown(t *testing.T) {
	f, scaling := newFixture(t), newScaling(t, 1000, time.Hour, 5)
	f.from("a", scaling)
	if calls := f.store.calls.Load(); calls != 1 {
		t.Errorf("the first request took %d batches", calls)
	}
	if got := f.passing(10, "a", scaling); got != 10 || f.store.calls.Load() != 1 {
		t.Errorf("%d of 10 passed, and the store was asked %d times", got, f.store.calls.Load())
	}
}

// Violations while the store can't be used are known to memory, and recorded in the store later.
func TestOffensesInAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, e *faulty) {
		scaling := newScaling(t, 10, time.Hour, 0)
		ask := func(fairs ...*Scaling) Decision { return (&fixture{Engine: e.Engine, t: t}).from("a", fairs...) }
		ask(scaling)
		e.broken.Store(true)
		ask(newScaling(t, 10, time.Hour, 0)) // has to be claimed for, which reveals the fault
		e.Punish(&Client{Key: []byte("a")}, reputation.Offense{Ban: reputation.Ban{After: 1, Within: time.Hour, For: 24 * time.Hour}})
		if d := ask(scaling); d.Reason != Banned {
			t.Fatalf("in the outage: %+v", d)
		}
		e.broken.Store(false)
		time.Sleep(time.Minute)
		if r := e.disk.record("a", e.clock.Now()); r.Bans != 1 {
			t.Errorf("the store has heard of %+v", r)
		}
	})
}

// Clients that share something, such as an address, share a limit as well. A ban of the shared
// client makes the limit smaller, and refuses none of its clients by itself.
func TestSharedLimitIsSmallerWhileItsClientIsBanned(t *testing.T) {
	f, own := newFixture(t), newScaling(t, 1000, time.Hour, 0)
	shared := newScaling(t, 400, time.Hour, 0)
	shared.Points, shared.Ban = 0, reputation.Ban{}
	for level := range shared.Levels {
		shared.Levels[level] = shared.Levels[0]
	}
	shared.Banned = &Limit{ID: shared.Levels[0].ID, Rate: shared.Levels[0].Scale(10)}
	n := 0
	visit := func() bool { // of a new client every time
		n++
		c, all := &Client{Key: []byte{byte(n >> 8), byte(n)}}, &Client{Key: []byte("all")}
		return f.Decide(context.Background(), c, []Debit{
			{Limit: own.Levels[0], Key: c.Key, Cost: 1, Client: c, Scaling: own},
			{Limit: shared.Levels[0], Key: all.Key, Cost: 1, Client: all, Scaling: shared},
		}).Allowed
	}
	passing := func(visits int) (allowed int) {
		for range visits {
			if visit() {
				allowed++
			}
		}
		return allowed
	}
	if got := passing(30); got != 30 {
		t.Fatalf("%d of 30 passed", got)
	}
	f.Punish(&Client{Key: []byte("all")}, reputation.Offense{Ban: reputation.Ban{After: 1, Within: time.Second, For: 30 * time.Minute}})
	if got := passing(30); got != 10 {
		t.Errorf("%d more passed a limit of 40 while banned, want 10", got)
	}
	f.fake.advance(30 * time.Minute)
	if got := passing(1000); got != 360 {
		t.Errorf("%d more passed a limit of 400 afterwards, want 360", got)
	}
}

// A ban outlives the loss of the database, as long as one process remembers it.
func TestStoreThatForgotDoesNotMakeMemoryForget(t *testing.T) {
	f, scaling := newFixture(t), newScaling(t, 10, 2*time.Minute, 0)
	banned(t, f, "a", scaling)
	f.disk.lose()
	f.store.reopen()
	shared := newScaling(t, 10, time.Hour, 0)
	a, b := &Client{Key: []byte("a")}, &Client{Key: []byte("b")}
	f.Decide(context.Background(), b, []Debit{ // reads the record of b again
		{Limit: shared.Levels[0], Key: []byte("all"), Cost: 1, Client: a, Scaling: shared},
	})
	if d := f.from("a", scaling); d.Reason != Banned {
		t.Errorf("after the store has forgotten: %+v", d)
	}
}

// A client that repeatedly goes into a trap causes one write per second.
func TestOffensesOfAFloodAreOne(t *testing.T) {
	f, scaling := newFixture(t), newScaling(t, 10, time.Hour, 0)
	f.from("a", scaling)
	for range 3 {
		for range 1000 {
			f.Punish(&Client{Key: []byte("a")}, reputation.Offense{Violation: reputation.Violation{Reason: reputation.Trapped}, Points: 25})
		}
		f.fake.advance(time.Second)
	}
	if got := f.score("a", 3); got > 26 {
		t.Errorf("score is %v, want about 25", got)
	}
}

// Units left of the first claim for an unknown client are given back with the limit of its level,
// which drains a bucket more slowly than the whole one.
func TestLeasesAreGivenBackByTheLimitOfTheLevel(t *testing.T) {
	whole := newLimit(t, limiter.Params{Algorithm: limiter.TokenBucket, Amount: 1000, Window: time.Hour})
	scaling := new(Scaling)
	for level := range scaling.Levels {
		scaling.Levels[level] = &Limit{ID: whole.ID, Rate: whole.Scale(reputation.Level(level).Share())}
	}
	f := newFixture(t)
	f.disk.spoil("a", f.clock.Now())
	client := &Client{Key: []byte("a")}
	if d := f.Decide(t.Context(), client, []Debit{{Limit: whole, Key: client.Key, Cost: 50, Client: client, Scaling: scaling}}); !d.Allowed {
		t.Fatalf("%+v", d)
	}
	if !f.table.find(whole.ID, client.Key).leaseLocked().Holds() {
		t.Fatal("there is nothing to give back")
	}
	f.fake.advance(3 * time.Minute) // 5 of 100 per hour
	f.Close(t.Context())
	if used := f.disk.used(scaling.Levels[reputation.Critical], "a", f.clock.Now()); used < 45 {
		t.Errorf("%d of 50 units are in use, want 45 at least", used)
	}
}
