package gate

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func enter(t *testing.T, g *Gate, r Rule) (int64, error) {
	t.Helper()
	return g.Enter(t.Context(), "key", netip.Prefix{}, r, nil)
}

// allWaiting returns how many requests wait at all gates.
func allWaiting() int {
	mu.Lock()
	defer mu.Unlock()
	return waiting.n
}

func TestSoManyAreUnderWay(t *testing.T) {
	g, r := new(Gate), Rule{Most: 3}
	for left := int64(2); left >= 0; left-- {
		if got, err := enter(t, g, r); got != left || err != nil {
			t.Errorf("got %d, %v, want %d", got, err, left)
		}
	}
	if _, err := enter(t, g, r); !errors.Is(err, ErrFull) {
		t.Errorf("the fourth: got %v", err)
	}
	if _, err := g.Enter(t.Context(), "another", netip.Prefix{}, r, nil); err != nil {
		t.Errorf("another key: got %v", err)
	}
	g.Leave("key")
	if _, err := enter(t, g, r); err != nil {
		t.Errorf("after one has left: got %v", err)
	}
	for range 3 {
		g.Leave("key")
	}
	g.Leave("another")
	if n := g.Len(); n != 0 {
		t.Errorf("%d keys are left", n)
	}
}

func TestOthersWaitInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, r := new(Gate), Rule{Most: 1, Wait: time.Minute, Queue: 3}
		if _, err := enter(t, g, r); err != nil {
			t.Fatal(err)
		}
		var came []int
		for i := range 3 {
			go func() {
				if _, err := g.Enter(context.Background(), "key", netip.Prefix{}, r, nil); err != nil {
					t.Error(err)
				}
				came = append(came, i)
				time.Sleep(time.Second)
				g.Leave("key")
			}()
			synctest.Wait()
		}
		if _, err := enter(t, g, r); !errors.Is(err, ErrFull) {
			t.Errorf("the line is full: got %v", err)
		}
		g.Leave("key")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if len(came) != 3 || came[0] != 0 || came[1] != 1 || came[2] != 2 {
			t.Errorf("they came in the order %v", came)
		}
		if n := g.Len(); n != 0 {
			t.Errorf("%d keys are left", n)
		}
	})
}

func TestWaitingEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, r := new(Gate), Rule{Most: 1, Wait: time.Minute, Queue: 3}
		if _, err := enter(t, g, r); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := enter(t, g, r); !errors.Is(err, ErrFull) || time.Since(began) != time.Minute {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := g.Enter(ctx, "key", netip.Prefix{}, r, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("a client that leaves: got %v", err)
		}
		stop := make(chan struct{})
		time.AfterFunc(time.Second, func() { close(stop) })
		if _, err := g.Enter(t.Context(), "key", netip.Prefix{}, r, stop); !errors.Is(err, context.Canceled) {
			t.Errorf("Caddy stops: got %v", err)
		}
		g.Leave("key")
		if n := g.Len(); n != 0 || allWaiting() != 0 {
			t.Errorf("%d keys and %d that wait are left", n, allWaiting())
		}
	})
}

// A config with another number affects requests of the previous one.
func TestAnotherRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, wide, narrow := new(Gate), Rule{Most: 3}, Rule{Most: 1, Wait: time.Hour, Queue: 9}
		for range 3 {
			if _, err := enter(t, g, wide); err != nil {
				t.Fatal(err)
			}
		}
		var came atomic.Bool
		go func() {
			if _, err := g.Enter(context.Background(), "key", netip.Prefix{}, narrow, nil); err == nil {
				came.Store(true)
			}
		}()
		for i := range 3 {
			synctest.Wait()
			if came.Load() {
				t.Errorf("it has come with %d under way", 3-i)
			}
			g.Leave("key")
		}
		synctest.Wait()
		if !came.Load() {
			t.Error("it hasn't come")
		}
		g.Leave("key")
	})
}

func TestAllGatesTogetherAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, r := new(Gate), Rule{Most: 1, Wait: time.Minute, Queue: MaxWaiting}
		if _, err := enter(t, g, r); err != nil {
			t.Fatal(err)
		}
		for range MaxWaiting {
			go g.Enter(context.Background(), "key", netip.Prefix{}, r, nil)
		}
		synctest.Wait()
		if _, err := enter(t, new(Gate), r); err != nil {
			t.Errorf("another gate with a place: %v", err)
		}
		began := time.Now()
		if _, err := enter(t, g, Rule{Most: 1, Wait: time.Minute, Queue: 2 * MaxWaiting}); !errors.Is(err, ErrFull) || time.Since(began) > 0 {
			t.Errorf("got %v after %v", err, time.Since(began))
		}
		time.Sleep(2 * time.Minute)
		if n := allWaiting(); n != 0 {
			t.Errorf("%d wait still", n)
		}
	})
}

// In all sequences of arrivals, waits and cancellations, no more requests than permitted are in
// flight, and no place is lost.
func TestPlacesAreNeitherLostNorDoubled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, r := new(Gate), Rule{Most: 4, Wait: 50 * time.Millisecond, Queue: 20}
		var under, entered atomic.Int64
		var all sync.WaitGroup
		for range 200 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(rand.Uint64(), 1))
				for range 50 {
					ctx, cancel := context.WithTimeout(context.Background(), time.Duration(random.IntN(100))*time.Millisecond)
					if _, err := g.Enter(ctx, "key", netip.Prefix{}, r, nil); err == nil {
						entered.Add(1)
						if n := under.Add(1); n > r.Most {
							t.Errorf("%d are under way", n)
						}
						time.Sleep(time.Duration(random.IntN(10)) * time.Millisecond)
						under.Add(-1)
						g.Leave("key")
					}
					cancel()
					time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond)
				}
			})
		}
		all.Wait()
		if n := g.Len(); n != 0 || allWaiting() != 0 || entered.Load() < 100 {
			t.Errorf("%d keys and %d that wait are left, %d have entered", n, allWaiting(), entered.Load())
		}
	})
}

// A config with a higher number lets those in that wait already, in their order.
func TestARuleWithMoreRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, narrow := new(Gate), Rule{Most: 1, Wait: time.Hour, Queue: 9}
		if _, err := enter(t, g, narrow); err != nil {
			t.Fatal(err)
		}
		var came atomic.Int64
		for range 2 {
			go func() {
				if _, err := g.Enter(context.Background(), "key", netip.Prefix{}, narrow, nil); err == nil {
					came.Add(1)
				}
			}()
		}
		synctest.Wait()
		if _, err := enter(t, g, Rule{Most: 3}); !errors.Is(err, ErrFull) {
			t.Errorf("a request that overtakes others: got %v", err)
		}
		synctest.Wait()
		if n := came.Load(); n != 2 {
			t.Errorf("%d have come, want 2", n)
		}
		for range 3 {
			g.Leave("key")
		}
	})
}

// Nobody present waits while a place is free, whoever aborts and leaves; never are too many in; and
// clients that aborted hold nothing back.
func TestWhoeverWaitsIsPresent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, r := new(Gate), Rule{Most: 3, Wait: 5 * time.Second, Queue: 40}
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 1)) // used by one goroutine
		var in, present, admitted, aborted, late atomic.Int64
		for step := range 3000 {
			patience, stay := time.Duration(random.IntN(2000))*time.Millisecond, time.Duration(random.IntN(400))*time.Millisecond
			honest := step%4 == 0
			go func() {
				ctx := context.Background()
				if !honest {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, patience)
					defer cancel()
				}
				present.Add(1)
				n, err := g.Enter(ctx, "key", netip.Prefix{}, r, nil)
				present.Add(-1)
				switch {
				case errors.Is(err, context.Canceled):
					aborted.Add(1)
				case err != nil && n > 0:
					late.Add(1)
				case err == nil:
					admitted.Add(1)
					in.Add(1)
					time.Sleep(stay)
					in.Add(-1)
					g.Leave("key")
				}
			}()
			synctest.Wait()
			if n, waits := in.Load(), present.Load(); n > r.Most || waits > 0 && n < r.Most || int(waits) != g.Waiting() {
				t.Fatalf("seed %d, step %d: %d are in, %d are present and %d hold positions", seed, step, n, waits, g.Waiting())
			}
			time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
		}
		time.Sleep(time.Minute)
		if n, waits := g.Len(), allWaiting(); n != 0 || waits != 0 || present.Load() != 0 {
			t.Errorf("seed %d: %d keys and %d waiting are left", seed, n, waits)
		}
		if admitted.Load() < 300 || aborted.Load() < 300 {
			t.Errorf("seed %d: %d were let in, %d aborted, %d were late", seed, admitted.Load(), aborted.Load(), late.Load())
		}
	})
}
