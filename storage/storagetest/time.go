package storagetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// The tests of stores that keep the time.

// processClock is the clock of a process, set by tests.
type processClock struct {
	wall, steady int64
	source       byte
}

func (c *processClock) Read() storage.Reading {
	return storage.Reading{Wall: c.wall, Steady: c.steady, Source: storage.Source{c.source}, Shared: true}
}

func (c *processClock) advance(d time.Duration) {
	c.wall += int64(d)
	c.steady += int64(d)
}

// termNow returns a term with the present time of the store.
func termNow(t *testing.T, s storage.Store, c storage.Clock) *storage.Term {
	t.Helper()
	now, err := s.Time(c, 0)
	if err != nil {
		t.Fatalf("time: %v", err)
	}
	return &storage.Term{Clock: c, Shift: now.Shift, Era: now.Era, Resets: now.Resets}
}

// testOneTime has processes with different clocks use a limit, with arbitrary times in their
// claims. Together they are granted exactly the limit, and the time never runs backwards, except
// for what one process has not shared yet.
func testOneTime(t *testing.T, open storage.Opener) {
	must(t, open)
	clocks := []*processClock{{wall: start, source: 1}, {wall: start - int64(time.Minute), source: 2},
		{wall: start + int64(time.Minute), source: 1}}
	var handles []storage.Store
	for range clocks {
		handles = append(handles, must(t, open))
	}
	l := newLimit(t, limiter.Params{Algorithm: limiter.Fixed, Amount: 3, Window: 10 * time.Minute})
	last, granted := make([]int64, len(clocks)), int64(0)
	for i := range 30 {
		n := i % len(clocks)
		clocks[n].advance(time.Duration(i) * time.Millisecond)
		term := termNow(t, handles[n], clocks[n])
		g := claimIn(t, handles[n], term, storage.Claim{ID: limitID(0), Key: key(1), Limit: l,
			Claim: limiter.Claim{Now: start + int64(i)*int64(100*time.Hour), Min: 1, Want: 3}})
		granted += g[0].Units
		if term.Time.Now < last[n] {
			t.Fatalf("call %d is of %d, the one before by the same process was of %d", i, term.Time.Now, last[n])
		}
		last[n] = term.Time.Now
	}
	if granted != 3 {
		t.Errorf("%d units were granted, want 3", granted)
	}
}

// testTerms makes calls whose terms don't hold. They change nothing, and set the term's time.
func testTerms(t *testing.T, open storage.Opener) {
	s, c, l := must(t, open), &processClock{wall: start, source: 1}, newLimit(t, params[0])
	claims := []storage.Claim{
		{ID: limitID(0), Key: key(1), Limit: l, Claim: limiter.Claim{Now: start, Min: 1, Want: 1}}}
	clients := []storage.Client{{Key: key(1)}}
	for what, change := range map[string]func(*storage.Term){
		"another era":   func(term *storage.Term) { term.Era++ },
		"another shift": func(term *storage.Term) { term.Shift++ },
		"too early":     func(term *storage.Term) { term.From = start + int64(time.Second) },
		"too late":      func(term *storage.Term) { term.Until = start },
	} {
		term := termNow(t, s, c)
		change(term)
		for call, err := range map[string]error{
			"claim": s.Claim(context.Background(), term, claims, make([]limiter.Grant, 1)),
			"punish": s.Punish(context.Background(), term, []storage.Offense{offense(clients[0], start, 25)},
				make([]reputation.Record, 1)),
			"standings": s.Records(context.Background(), term, clients, make([]reputation.Record, 1)),
		} {
			if !errors.Is(err, storage.ErrTerm) {
				t.Errorf("%s: %s says %v", what, call, err)
			}
		}
		if _, err := s.Sweep(context.Background(), term); !errors.Is(err, storage.ErrTerm) {
			t.Errorf("%s: sweep says %v", what, err)
		}
		if term.Time.Now != start {
			t.Errorf("%s: the time is %d, want %d", what, term.Time.Now, start)
		}
	}
	term := termNow(t, s, c)
	model{}.checkIn(t, s, term, claims...)
	if got := standing(t, s, term, clients[0]); got.At != 0 {
		t.Errorf("an offense was noted at %d", got.At)
	}
}

// testTimeSetBack sets the wall clock back by hours. The store forgets counts, and keeps the
// records of clients for as long as before.
func testTimeSetBack(t *testing.T, open storage.Opener) {
	s, c := must(t, open), &processClock{wall: start, source: 1}
	before := termNow(t, s, c)
	var claims []storage.Claim
	for i, p := range params {
		l := newLimit(t, p)
		claims = append(claims, storage.Claim{ID: limitID(i), Key: key(1), Limit: l,
			Claim: limiter.Claim{Min: l.Capacity(), Want: l.Capacity()}})
	}
	claimIn(t, s, before, claims...)
	punishIn(t, s, before, offense(storage.Client{Key: key(2)}, start, 25))

	const back = 3 * time.Hour
	c.wall -= int64(back)
	for range 3 { // it is set when the wall clock has said so for long enough
		c.advance(time.Hour)
		termNow(t, s, c)
	}
	term := termNow(t, s, c)
	if term.Era != 1 || term.Shift > -int64(back-time.Minute) {
		t.Fatalf("the time was set by %v, %d times back", time.Duration(term.Shift), term.Era)
	}
	sweepAll(t, s, term)
	for i, g := range claimIn(t, s, term, claims...) {
		if g.Units != claims[i].Want {
			t.Errorf("%v: %d units were granted of what was forgotten, want %d", params[i].Algorithm, g.Units,
				claims[i].Want)
		}
	}
	if got, want := standing(t, s, term, storage.Client{Key: key(2)}), start+term.Shift; got.At != want ||
		got.Past[0].At != want {
		t.Errorf("the offense was at %v, want %v", time.Unix(0, got.At), time.Unix(0, want))
	}
	later := offense(storage.Client{Key: key(3)}, term.Time.Now, 25)
	punishIn(t, s, term, later)
	if got := standing(t, s, term, later.Client); got.At != later.At {
		t.Errorf("an offense after that was at %v, want %v", time.Unix(0, got.At), time.Unix(0, later.At))
	}
}
