package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// askShadow decides shadow limits, and waits for late decisions.
func (f *fixture) askShadow(debits ...Debit) Decision {
	f.t.Helper()
	if d, decided := f.Shadow(debits); decided {
		return d
	}
	later := make(chan Decision, 1)
	f.ShadowLater(debits, func(_ []Debit, d Decision) { later <- d })
	return <-later
}

// A shadow limit decides every request like the same limit when enforced on the requests that other
// limits admit, and changes nothing for these.
func TestShadowDecidesAsIfEnforced(t *testing.T) {
	wouldRefuse, seeds := 0, uint64(30)
	if testing.Short() {
		seeds = 6
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) { wouldRefuse += testShadow(t, seed) })
		})
	}
	if wouldRefuse < 15*int(seeds) {
		t.Errorf("shadow limits would have refused %d requests, too few to say anything", wouldRefuse)
	}
}

// testShadow returns how often a shadow limit would have refused a request.
func testShadow(t *testing.T, seed uint64) (wouldRefuse int) {
	random := rand.New(rand.NewPCG(seed, 4))
	one := func() *fixture { return newFixture(t) }
	if seed%2 == 0 { // claims are granted at once
		one = func() *fixture { f, _ := atOnceFixture(t); return f }
	}
	both, alone := one(), one() // with shadow limits, and without
	var enforced, shadows []*Limit
	for _, algorithm := range algorithms {
		some := func() *Limit {
			window := []time.Duration{time.Second, 10 * time.Second, time.Minute, time.Hour}[random.IntN(4)]
			return newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 1 + random.Int64N(12), Window: window})
		}
		enforced, shadows = append(enforced, some()), append(shadows, some(), some())
	}
	enforced = enforced[:1+random.IntN(3)]
	oracles := make([]*fixture, len(shadows))
	for i := range oracles {
		oracles[i] = one()
	}
	all := append([]*fixture{both, alone}, oracles...)
	for _, f := range all {
		<-f.Ready()
	}
	for n := range 400 {
		synctest.Wait() // all background work is done as of the same time everywhere
		switch random.IntN(12) {
		case 0:
			by := time.Duration(random.Int64N(int64(30 * time.Second)))
			for _, f := range all {
				f.fake.advance(by)
			}
		case 1, 2, 3, 4:
			by := time.Duration(random.Int64N(int64(300 * time.Millisecond)))
			for _, f := range all {
				f.fake.advance(by)
			}
		}
		key, cost := fmt.Sprint("key ", random.IntN(3)), []int64{0, 1, 1, 1, 1, 2, 3, 13}[random.IntN(8)]
		request := func(limits ...*Limit) (debits []Debit) {
			for _, l := range limits {
				debits = append(debits, debit(l, key, cost))
			}
			return debits
		}
		d, want := both.ask(request(enforced...)...), alone.ask(request(enforced...)...)
		if d.Allowed != want.Allowed || d.Reason != want.Reason || d.Retry != want.Retry {
			t.Fatalf("request %d: %+v beside shadow limits, and %+v without", n, d, want)
		}
		if !d.Allowed {
			continue
		}
		for i, l := range shadows {
			got, want := both.askShadow(request(l)...), oracles[i].ask(request(l)...)
			if got.Allowed != want.Allowed || got.Reason != want.Reason || got.Retry != want.Retry {
				t.Fatalf("request %d, %v %d/%v: %+v in shadow, and %+v enforced", n, l.Algorithm(), l.Amount(), l.Window(), got, want)
			}
			if !got.Allowed {
				wouldRefuse++
			}
		}
	}
	for i, l := range shadows {
		for k := range 3 {
			key := fmt.Sprint("key ", k)
			if got, want := both.disk.used(l, key, both.clock.Now()), oracles[i].disk.used(l, key, oracles[i].clock.Now()); got != want {
				t.Errorf("%v %d/%v: %d charged in shadow, and %d enforced", l.Algorithm(), l.Amount(), l.Window(), got, want)
			}
		}
	}
	for _, f := range all {
		f.Close(context.Background())
	}
	return wouldRefuse
}

// Shadow does not wait: a decision that needs the store is made when the store has answered.
func TestShadowDoesNotWait(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFixture(t)
		<-f.Ready()
		goOn := make(chan struct{})
		f.store.before = hold(goOn)
		limit := sliding(t, 1, time.Hour)
		var mu sync.Mutex
		var decisions []Decision // guarded by mu
		for range 3 {
			debits := []Debit{debit(limit, "a", 1)}
			if d, decided := f.Shadow(debits); decided {
				t.Fatalf("%+v without the store", d)
			}
			f.ShadowLater(debits, func(copies []Debit, d Decision) {
				if &copies[0] == &debits[0] || string(copies[0].Key) != "a" {
					t.Errorf("decided about %+v, want a copy", copies)
				}
				mu.Lock()
				defer mu.Unlock()
				decisions = append(decisions, d)
			})
			clear(debits[0].Key) // it belongs to the caller again
			synctest.Wait()
		}
		if len(decisions) > 0 {
			t.Fatalf("decided %+v before the store answered", decisions)
		}
		close(goOn)
		time.Sleep(time.Second)
		synctest.Wait()
		allowed := 0
		for _, d := range decisions {
			if d.Allowed {
				allowed++
			}
		}
		if len(decisions) != 3 || allowed != 1 {
			t.Errorf("decided %+v, want one of three allowed", decisions)
		}
		f.Close(context.Background())
	})
}

// Close waits for shadow decisions, which are answered before the store is closed.
func TestCloseWaitsForShadows(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFixture(t)
		<-f.Ready()
		goOn := make(chan struct{})
		f.store.before = hold(goOn)
		var got *Decision
		f.ShadowLater([]Debit{debit(sliding(t, 1, time.Hour), "a", 1)}, func(_ []Debit, d Decision) { got = &d })
		synctest.Wait()
		closed := make(chan error, 1)
		go func() { closed <- f.Close(context.Background()) }()
		synctest.Wait()
		close(goOn)
		if err := <-closed; err != nil || got == nil || !got.Allowed || got.Degraded {
			t.Errorf("closed with %v after %+v, want it decided by the store", err, got)
		}
		f.ShadowLater([]Debit{debit(sliding(t, 1, time.Hour), "a", 1)}, func(_ []Debit, d Decision) { got = &d })
		if !got.Degraded {
			t.Errorf("%+v by a closed engine, want it decided from memory", got)
		}
	})
}

// While the store can't be used, memory decides about shadow limits as about others, with the same
// share, and without waiting.
func TestShadowInAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, e *faulty) {
		e.broken.Store(true)
		e.ask(debit(sliding(t, 1, time.Hour), "somebody", 1)) // detects it
		shadow, enforced := sliding(t, 10, time.Hour), sliding(t, 10, time.Hour)
		for n := range 12 {
			want := e.ask(debit(enforced, "a", 1))
			d, decided := e.Shadow([]Debit{debit(shadow, "a", 1)})
			if !decided || d.Allowed != want.Allowed || d.Degraded != want.Degraded || d.Reason != want.Reason {
				t.Errorf("request %d: %+v, %v in shadow, and %+v enforced", n, d, decided, want)
			}
		}
		e.broken.Store(false)
		time.Sleep(time.Minute)
		synctest.Wait()
		now := e.clock.Now()
		if got, want := e.disk.used(shadow, "a", now), e.disk.used(enforced, "a", now); got != want || got == 0 {
			t.Errorf("%d charged afterwards in shadow, and %d enforced", got, want)
		}
	})
}

// Only a limited number of shadow decisions wait for the store. Memory makes the others, without
// waiting.
func TestShadowsThatWaitAreBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFixture(t)
		<-f.Ready()
		goOn := make(chan struct{})
		f.store.before = hold(goOn)
		limit := sliding(t, 100, time.Hour)
		var decided, alone atomic.Int64
		for n := range maxShadows + 10 {
			f.ShadowLater([]Debit{debit(limit, fmt.Sprint(n), 1)}, func(_ []Debit, d Decision) {
				if decided.Add(1); d.Degraded {
					alone.Add(1)
				}
			})
		}
		if decided.Load() != 10 || alone.Load() != 10 {
			t.Errorf("%d decided without the store of %d, want 10", alone.Load(), decided.Load())
		}
		close(goOn)
		time.Sleep(time.Second)
		synctest.Wait()
		if waiting := f.shadows.Load(); decided.Load() != maxShadows+10 || alone.Load() != 10 || waiting != 0 {
			t.Errorf("%d decided in the end, %d without the store, and %d wait", decided.Load(), alone.Load(), waiting)
		}
		f.Close(context.Background())
	})
}

// hold holds batches until a channel is closed.
func hold(until <-chan struct{}) func([]storage.Claim) error {
	return func([]storage.Claim) error {
		<-until
		return nil
	}
}

// A client's record scales its shadow limits like others, and their refusals are no violations.
func TestShadowsOfClients(t *testing.T) {
	f := newFixture(t)
	scaling := newScaling(t, 8, time.Hour, 30)
	scaling.Ban = reputation.Ban{After: 1, Within: time.Hour, For: time.Hour}
	ask := func(client string) Decision {
		c := &Client{Key: []byte(client)}
		return f.askShadow(Debit{Limit: scaling.Levels[0], Key: c.Key, Cost: 1, Client: c, Scaling: scaling})
	}
	f.disk.spoil("bad", f.clock.Now())
	for client, want := range map[string]int{"good": 8, "bad": int(scaling.Levels[reputation.Critical].Capacity())} {
		var allowed []bool
		for range 40 {
			allowed = append(allowed, ask(client).Allowed)
		}
		if n := slices.Index(allowed, false); n != want || slices.Contains(allowed[n:], true) {
			t.Errorf("%s: %d let pass, want %d", client, n, want)
		}
	}
	if d := f.Decide(context.Background(), &Client{Key: []byte("good")}, nil); !d.Allowed {
		t.Errorf("%+v, want nobody banned", d)
	}
	f.Close(context.Background())
	if record := f.disk.record("good", f.clock.Now()); len(record.Past) > 0 || record.Until > 0 {
		t.Errorf("recorded %+v, want nothing", record)
	}
}
