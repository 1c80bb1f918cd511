package gate

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func enter(t *testing.T, g *Gate, r Rule) (int64, error) {
	t.Helper()
	return g.Enter(t.Context(), "key", r, nil)
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
	if _, err := g.Enter(t.Context(), "another", r, nil); err != nil {
		t.Errorf("another key: got %v", err)
	}
	g.Leave("key", r)
	if _, err := enter(t, g, r); err != nil {
		t.Errorf("after one has left: got %v", err)
	}
	for range 3 {
		g.Leave("key", r)
	}
	g.Leave("another", r)
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
				if _, err := g.Enter(context.Background(), "key", r, nil); err != nil {
					t.Error(err)
				}
				came = append(came, i)
				time.Sleep(time.Second)
				g.Leave("key", r)
			}()
			synctest.Wait()
		}
		if _, err := enter(t, g, r); !errors.Is(err, ErrFull) {
			t.Errorf("the line is full: got %v", err)
		}
		g.Leave("key", r)
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
		if _, err := g.Enter(ctx, "key", r, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a client that leaves: got %v", err)
		}
		g.Leave("key", r)
		if n := g.Len(); n != 0 || waiting.Load() != 0 {
			t.Errorf("%d keys and %d that wait are left", n, waiting.Load())
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
			if _, err := g.Enter(context.Background(), "key", narrow, nil); err == nil {
				came.Store(true)
			}
		}()
		for i := range 3 {
			synctest.Wait()
			if came.Load() {
				t.Errorf("it has come with %d under way", 3-i)
			}
			g.Leave("key", narrow)
		}
		synctest.Wait()
		if !came.Load() {
			t.Error("it hasn't come")
		}
		g.Leave("key", narrow)
	})
}

func TestAllGatesTogetherAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, r := new(Gate), Rule{Most: 1, Wait: time.Minute, Queue: MaxWaiting}
		if _, err := enter(t, g, r); err != nil {
			t.Fatal(err)
		}
		for range MaxWaiting {
			go g.Enter(context.Background(), "key", r, nil)
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
		if n := waiting.Load(); n != 0 {
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
					if _, err := g.Enter(ctx, "key", r, nil); err == nil {
						entered.Add(1)
						if n := under.Add(1); n > r.Most {
							t.Errorf("%d are under way", n)
						}
						time.Sleep(time.Duration(random.IntN(10)) * time.Millisecond)
						under.Add(-1)
						g.Leave("key", r)
					}
					cancel()
					time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond)
				}
			})
		}
		all.Wait()
		if n := g.Len(); n != 0 || waiting.Load() != 0 || entered.Load() < 100 {
			t.Errorf("%d keys and %d that wait are left, %d have entered", n, waiting.Load(), entered.Load())
		}
	})
}

// A client that leaves with a ticket keeps its position, and its free place, for a while.
func TestTicketsKeepPositions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, r := new(Gate), Rule{Most: 1, Wait: time.Second, Queue: 3}
		if _, err := enter(t, g, r); err != nil {
			t.Fatal(err)
		}
		stand := func(ticket *Ticket, position int) {
			t.Helper()
			if _, err := g.Enter(t.Context(), "key", r, ticket); err != ErrAway || ticket.ID == "" || ticket.Position != position {
				t.Errorf("got %v, %+v, want position %d", err, ticket, position)
			}
		}
		first, second := new(Ticket), new(Ticket)
		stand(first, 1)
		stand(second, 2)
		for range 30 { // both return again and again
			time.Sleep(Away / 4)
			stand(second, 2)
			time.Sleep(Away / 4)
			stand(first, 1)
		}
		foreign := &Ticket{ID: first.ID}
		if _, err := g.Enter(t.Context(), "another", r, foreign); err != nil || foreign.ID != "" {
			t.Errorf("a ticket of another key: %v, %+v", err, foreign)
		}
		g.Leave("another", r)
		if _, err := g.Enter(t.Context(), "key", Rule{Most: 1}, nil); err != ErrFull {
			t.Errorf("somebody passes the line: %v", err)
		}
		g.Leave("key", r)
		time.Sleep(Held / 2)
		if _, err := g.Enter(t.Context(), "key", r, second); err != ErrAway || second.Position != 1 {
			t.Errorf("the second comes before the first: %v, %+v", err, second)
		}
		if _, err := g.Enter(t.Context(), "key", r, first); err != nil {
			t.Errorf("the first, whose turn it is: %v", err)
		}
		g.Leave("key", r) // it's the turn of the second, which stays away
		time.Sleep(Held - time.Millisecond)
		if _, err := g.Enter(t.Context(), "key", Rule{Most: 1}, nil); err != ErrFull {
			t.Errorf("the place of the second is given away: %v", err)
		}
		time.Sleep(time.Second)
		if n, more := g.Len(), waiting.Load(); n != 0 || more != 0 || len(g.away) != 0 {
			t.Errorf("%d keys, %d waiting and %d tickets are left", n, more, len(g.away))
		}
		if _, err := enter(t, g, r); err != nil {
			t.Errorf("after all have gone: %v", err)
		}
		g.Leave("key", r)
	})
}

// Whatever clients with and without tickets do, no place and no position is left behind, and never
// are too many in.
func TestTicketsLeaveNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, r := new(Gate), Rule{Most: 3, Wait: 300 * time.Millisecond, Queue: 20}
		var all sync.WaitGroup
		var in, admitted, away atomic.Int64
		for range 60 {
			all.Go(func() {
				var ticket *Ticket
				if rand.N(3) > 0 {
					ticket = new(Ticket)
				}
				for range 40 {
					ctx, cancel := context.WithTimeout(t.Context(), rand.N(600*time.Millisecond))
					_, err := g.Enter(ctx, "key", r, ticket)
					cancel()
					if errors.Is(err, ErrAway) {
						away.Add(1)
					}
					if err == nil {
						admitted.Add(1)
						if n := in.Add(1); n > r.Most {
							t.Errorf("%d are in", n)
						}
						time.Sleep(rand.N(200 * time.Millisecond))
						in.Add(-1)
						g.Leave("key", r)
					}
					if ticket != nil && rand.N(8) == 0 {
						ticket = new(Ticket) // never returns
					}
					time.Sleep(rand.N(3 * time.Second))
				}
			})
		}
		all.Wait()
		time.Sleep(Away + time.Second)
		if n, more := g.Len(), waiting.Load(); n != 0 || more != 0 || len(g.away) != 0 {
			t.Errorf("%d keys, %d waiting and %d tickets are left", n, more, len(g.away))
		}
		if admitted.Load() == 0 || away.Load() == 0 {
			t.Errorf("%d were let in, and %d left with a ticket", admitted.Load(), away.Load())
		}
	})
}
