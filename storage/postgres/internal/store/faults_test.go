package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/internal/testing/testserver"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

// clock is the clock of a process.
type clock struct{ began time.Time }

func (c clock) Read() storage.Reading {
	return storage.Reading{Wall: time.Now().UnixNano(), Steady: int64(time.Since(c.began)), Source: storage.Source{1}}
}

// large is a limit that no test uses up, and whose window is longer than a test.
func large(t testing.TB) limiter.Limit {
	t.Helper()
	l, err := limiter.New(limiter.Params{Algorithm: limiter.TokenBucket, Amount: 1, Window: time.Hour, Burst: 100_000})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// term returns a term with the store's time.
func term(t testing.TB, s storage.Store, c storage.Clock) *storage.Term {
	t.Helper()
	now, err := s.Time(c, 0)
	if err != nil {
		t.Fatalf("time: %v", err)
	}
	return &storage.Term{Clock: c, Shift: now.Shift, Era: now.Era, Resets: now.Resets}
}

// claimOf returns a claim for units of a key that gives nothing back.
func claimOf(l limiter.Limit, key byte, units int64) []storage.Claim {
	return []storage.Claim{{ID: 1, Key: storage.Key{key}, Limit: l, Claim: limiter.Claim{Min: units, Want: units}}}
}

// take charges a unit of a key in the store's time.
func take(s storage.Store, l limiter.Limit, key byte) error {
	c := clock{}
	grants := make([]limiter.Grant, 1)
	err := s.Claim(context.Background(), &storage.Term{Clock: c}, claimOf(l, key, 1), grants)
	if err == nil && grants[0].Units != 1 {
		return fmt.Errorf("the claim is refused: %+v", grants[0])
	}
	return err
}

// used returns the units in use of a key.
func used(t testing.TB, s storage.Store, l limiter.Limit, key byte) int64 {
	t.Helper()
	grants := make([]limiter.Grant, 1)
	if err := s.Claim(context.Background(), term(t, s, clock{}), claimOf(l, key, 0), grants); err != nil {
		t.Fatalf("claim: %v", err)
	}
	if grants[0].Part > 0 {
		return grants[0].Used + 1
	}
	return grants[0].Used
}

// TestCuts has a proxy end connections in the middle of batches: before a message reaches the server,
// before its answer returns, and while the server may be executing it. Every batch takes effect
// once: no unit is charged twice, and no granted unit is uncharged.
func TestCuts(t *testing.T) {
	server := sharedServer(t)
	proxy := newProxy(t, server)
	o := newOptions()
	direct := openStore(t, opener(t, server, server.Port, o))
	s, l := openStore(t, opener(t, server, proxy.Port, o)), large(t)
	var cuts atomic.Int64
	proxy.SetCut(func() testserver.Cut {
		if rand.IntN(6) != 0 {
			return testserver.Pass
		}
		cuts.Add(1)
		return []testserver.Cut{testserver.Instead, testserver.Unheard, testserver.AtOnce}[rand.IntN(3)]
	})
	taken, failed := int64(0), int64(0)
	for cuts.Load() < int64(proof.Times(40, 1000)) {
		switch err := take(s, l, 1); {
		case err == nil:
			taken++
		case errors.Is(err, storage.ErrUnknownOutcome):
			t.Fatalf("after %d cuts: %v", cuts.Load(), err)
		default:
			failed++ // and had no effect
		}
	}
	proxy.SetCut(func() testserver.Cut { return testserver.Pass })
	if got := used(t, direct, l, 1); got != taken {
		t.Errorf("%d units were granted, %d are charged, after %d cuts and %d failures", taken, got,
			cuts.Load(), failed)
	}
	if failed > taken {
		t.Errorf("%d batches failed, %d took effect", failed, taken)
	}
}

// TestAtomic has machines claim at the same time through a proxy that delays messages and ends connections.
// An order of atomic claims explains what they are answered.
func TestAtomic(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	proxy, o := newProxy(t, server), newOptions()
	proxy.SetCut(proxy.Random(40))
	storagetest.Atomic(t, func() storage.Opener { return opener(t, server, proxy.Port, o) }, true)
}

// TestTerminated has the server end all sessions again and again while a store claims. That costs no units.
func TestTerminated(t *testing.T) {
	server := sharedServer(t)
	s, l := openStore(t, opener(t, server, server.Port, newOptions())), large(t)
	ended := make(chan error, 1)
	go func() {
		for range proof.Times(8, 20) {
			if err := execOn(server.DSN(server.Port), endSessions); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	taken := int64(0)
	for {
		if err := take(s, l, 1); err == nil {
			taken++
		} else if errors.Is(err, storage.ErrUnknownOutcome) {
			t.Fatal(err)
		}
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			if got := used(t, s, l, 1); got != taken {
				t.Errorf("%d units were granted, %d are charged", taken, got)
			}
			return
		default:
		}
	}
}

func newProxy(t testing.TB, s *testserver.Server) *testserver.Proxy {
	t.Helper()
	p, err := testserver.NewProxy(s.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// TestLate delays a message of a batch until the call has ended and another store was opened. The call ends in time, and the
// message has no effect. A call can't know that of a commit. Calls may fail for other reasons on a slow machine, so there
// are calls until one says what is expected.
func TestLate(t *testing.T) {
	t.Parallel()
	server := sharedServer(t)
	o := newOptions()
	direct := openStore(t, opener(t, server, server.Port, o))
	o.Timeout = time.Second // less than the server waits for the second message
	l := large(t)
	for trip := range int64(2) {
		for deadline, expected := time.Now().Add(patience), false; !expected; {
			if time.Now().After(deadline) {
				t.Fatalf("round trip %d: no claim says what is expected", trip+1)
			}
			proxy, taken := newProxy(t, server), used(t, direct, l, 1)
			open := opener(t, server, proxy.Port, o)
			s := openStore(t, open)
			var messages atomic.Int64
			proxy.SetCut(func() testserver.Cut {
				if messages.Add(1) == trip+1 {
					return testserver.Late
				}
				return testserver.Pass
			})
			err := take(s, l, 1)
			unknown := errors.Is(err, storage.ErrUnknownOutcome)
			expected = unknown == (trip == 1)
			if err == nil {
				taken++ // it is sent again, if there is time, because it can't have taken effect
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if next := reopened(t, open); !next.Continues(s) {
				t.Error("nothing was lost, and the next store doesn't continue the one before")
			}
			proxy.Release()
			if got := used(t, direct, l, 1); got != taken && !(unknown && !expected && got == taken+1) {
				t.Errorf("round trip %d: %d units are charged, want %d (the claim says %v)", trip+1, got, taken, err)
			}
		}
	}
}

// reopened opens a store as an engine does after a fault: it tries until it succeeds.
func reopened(t *testing.T, open storage.Opener) storage.Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		s, err := open(ctx)
		if err == nil {
			t.Cleanup(func() { _ = s.Close() })
			return s
		}
		if ctx.Err() != nil {
			t.Fatalf("open: %v", err)
		}
	}
}

// TestKilled kills the server during many claims, and starts it again. Either all acknowledged claims
// are there, or the next store doesn't continue the previous one.
func TestKilled(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	open, l := opener(t, server, server.Port, newOptions()), large(t)
	type claimer struct {
		*Store
		taken int64
		err   error
	}
	claimers := make([]claimer, 4)
	var group, busy sync.WaitGroup
	stop := make(chan struct{})
	for i := range claimers {
		c := &claimers[i]
		c.Store = openStore(t, open)
		busy.Add(1)
		group.Go(func() {
			for n := 0; c.err == nil && !isClosed(stop); n++ {
				if c.err = take(c, l, byte(i)); c.err == nil {
					c.taken++
				}
				if n == 50 {
					busy.Done()
				}
			}
		})
	}
	busy.Wait()
	server.Kill()
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	close(stop)
	group.Wait()
	for i := range claimers {
		c := &claimers[i]
		if errors.Is(c.err, storage.ErrUnknownOutcome) {
			t.Errorf("claim: %v", c.err)
		}
		next := reopened(t, open)
		got, continues := used(t, next, l, byte(i)), next.Continues(c.Store)
		if continues && (got != c.taken || errors.Is(c.err, storage.ErrLostWrites)) || got > c.taken+1 {
			t.Errorf("%d units were acknowledged and then %v, %d are charged, and the next store continues: %v",
				c.taken, c.err, got, continues)
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
