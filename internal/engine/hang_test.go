package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// hanging is an engine whose store takes as long as the test says.
type hanging struct {
	*fixture
	takes  atomic.Int64 // the duration of each claim in nanoseconds
	events eventLog
}

func whileHanging(t *testing.T, f func(t *testing.T, h *hanging)) {
	bubble.Test(t, func(t *testing.T) {
		h, d := new(hanging), newDisk()
		h.fixture = newFixture(t, func(o *Options) {
			o.Clock, o.StoreTimeout, o.Observer = nil, 100*time.Millisecond, &h.events
			o.Open = func(context.Context) (storage.Store, error) {
				return &hookedStore{disk: d, before: func([]storage.Claim) error {
					time.Sleep(time.Duration(h.takes.Load()))
					return nil
				}}, nil
			}
		})
		h.disk = d
		synctest.Wait()
		f(t, h)
	})
}

// longest sends n requests with a pause in between, each for another key, and returns the longest
// duration of a decision.
func (h *hanging) longest(n int, pause time.Duration, limit *Limit) (took time.Duration) {
	for i := range n {
		start := time.Now()
		h.ask(debit(limit, fmt.Sprint(i), 1))
		took = max(took, time.Since(start))
		time.Sleep(pause)
	}
	return took
}

func TestCommitsOfTwoSecondsDelayByTheTimeoutOnly(t *testing.T) {
	limit := sliding(t, 10, time.Hour)
	whileHanging(t, func(t *testing.T, h *hanging) {
		h.takes.Store(int64(2 * time.Second))
		if took := h.longest(10_000, 10*time.Millisecond, limit); took > 120*time.Millisecond {
			t.Errorf("a request took %v while commits took 2s", took)
		}
		// The outage ends and begins anew with each probe that a slow store answers.
		if began, reports := h.events.degraded.Load(), h.events.degraded.Load()+h.events.reminded.Load(); began == 0 || reports > 2 {
			t.Errorf("told %d times in a minute and a half that limits are degraded, want once a minute", reports)
		}
		h.takes.Store(int64(time.Millisecond))
		time.Sleep(time.Minute)
		if h.committer.degraded.Load() {
			t.Fatal("degraded a minute after commits are fast again")
		}
		if took := h.longest(1000, time.Millisecond, limit); took > 5*time.Millisecond {
			t.Errorf("a request took %v while commits take 1ms again", took)
		}
		h.Close(t.Context())
	})
}

// A store that answers nothing at all is reported once a minute, for as long as that lasts.
func TestHangIsToldOfOnceAMinute(t *testing.T) {
	whileHanging(t, func(t *testing.T, h *hanging) {
		h.takes.Store(int64(10 * time.Minute))
		h.longest(2, 0, sliding(t, 10, time.Hour))
		h.takes.Store(0)
		time.Sleep(5*time.Minute + time.Second)
		if began, on := h.events.degraded.Load(), h.events.reminded.Load(); began != 1 || on != 5 {
			t.Errorf("in five minutes told %d times that it began and %d times that it goes on, want 1 and 5", began, on)
		}
		time.Sleep(6 * time.Minute)
		if recovered := h.events.recovered.Load(); recovered != 1 || h.committer.degraded.Load() {
			t.Errorf("told %d times that it is over, want once; degraded: %v", recovered, h.committer.degraded.Load())
		}
		h.Close(t.Context())
	})
}

// A store that hangs delays neither a close for longer than its context allows, nor a request that
// comes while the engine closes.
func TestCloseWhileTheStoreHangs(t *testing.T) {
	limit := sliding(t, 10, time.Hour)
	whileHanging(t, func(t *testing.T, h *hanging) {
		passed := int64(h.count(1, debit(limit, "a", 1)))
		h.takes.Store(int64(10 * time.Minute))
		go h.ask(debit(limit, "b", 20_000)) // refused at once
		go h.ask(debit(limit, "b", 1))
		synctest.Wait()

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		start, closed := time.Now(), make(chan error, 1)
		go func() { closed <- h.Close(ctx) }()
		synctest.Wait()
		if took := h.longest(20, time.Second, limit); took > 120*time.Millisecond {
			t.Errorf("a request took %v while the engine was being closed", took)
		}
		if err := <-closed; !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("closed: %v, want %v", err, context.DeadlineExceeded)
		}
		h.takes.Store(0)
		if err := h.Close(t.Context()); err != nil { // waits for the end
			t.Fatal(err)
		}
		if took := time.Since(start); took > 11*time.Minute {
			t.Errorf("closed after %v", took)
		}
		if reminders := h.events.reminded.Load(); reminders != 0 {
			t.Errorf("told %d times that the store of a closed engine can't be used", reminders)
		}
		if used := h.disk.used(limit, "a", h.clock.Now()); used != passed {
			t.Errorf("%d charged in the end, want the %d admitted", used, passed)
		}
	})
}

// An engine may be closed while a batch fills up, which is committed before or after the committer
// notices the close: it ends either way.
func TestCloseWhileABatchFillsUp(t *testing.T) {
	limit := sliding(t, 10, time.Hour)
	for range 20 {
		whileHanging(t, func(t *testing.T, h *hanging) {
			h.takes.Store(int64(time.Millisecond))
			for _, key := range []string{"a", "b", "c"} { // the last two in one batch
				go h.ask(debit(limit, key, 1))
				synctest.Wait()
			}
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
			h.takes.Store(int64(time.Minute))
			begin := time.Now()
			go h.ask(debit(limit, "d", 1))
			synctest.Wait()
			if err := h.Close(t.Context()); err != nil {
				t.Error(err)
			}
			if took := time.Since(begin); took > 10*time.Minute {
				t.Errorf("closed after %v", took)
			}
		})
	}
}

// While the last leases are given back to a store that hangs, new requests are decided from memory
// at once.
func TestRequestsWhileTheLastBatchHangs(t *testing.T) {
	limit := sliding(t, 10, time.Hour)
	whileHanging(t, func(t *testing.T, h *hanging) {
		h.ask(debit(limit, "a", 1))
		h.committer.waiting.end() // as the committer does
		if took := h.longest(10, 0, limit); took != 0 {
			t.Errorf("a request took %v behind the committer", took)
		}
		h.Close(t.Context())
	})
}

// A bucket's late grant has drained on its way, and pays for few of the units that memory has
// admitted meanwhile.
func TestLateGrantOfABucket(t *testing.T) {
	limit := newLimit(t, limiter.Params{Algorithm: limiter.TokenBucket, Amount: 10, Window: 1000 * time.Second})
	whileHanging(t, func(t *testing.T, h *hanging) {
		h.takes.Store(int64(950 * time.Second))
		h.count(1, debit(limit, "a", 8)) // more than memory admits; the store grants it in the end
		h.takes.Store(0)
		time.Sleep(949 * time.Second)
		passed := h.count(10, debit(limit, "a", 1))
		for range 200 {
			time.Sleep(100 * time.Millisecond)
			passed += h.count(10, debit(limit, "a", 1))
		}
		if h.committer.degraded.Load() {
			t.Fatal("degraded 20 seconds after the store has answered")
		}
		if passed != 10 {
			t.Errorf("%d passed within 21 seconds, want the 10 of a burst", passed)
		}
		h.Close(t.Context())
	})
}

// A request that is decided again because of a violation does not wait for the store for a second
// full timeout.
func TestWaitsOfWhoIsPunishedAddUpToTheTimeout(t *testing.T) {
	scaling := newScaling(t, 10, time.Hour, 30)
	whileHanging(t, func(t *testing.T, h *hanging) {
		if got := h.passing(10, "a", scaling); got != 10 {
			t.Fatalf("%d of 10 passed", got)
		}
		h.takes.Store(int64(80 * time.Millisecond))
		start := time.Now()
		if d := h.from("a", scaling); d.Allowed || d.Waited <= 80*time.Millisecond {
			t.Errorf("one more: %+v, want a refusal that was decided about twice", d)
		}
		if took := time.Since(start); took > 120*time.Millisecond {
			t.Errorf("it took %v", took)
		}
		h.Close(t.Context())
	})
}

// Keys that waited in vain, for a batch that hung and for the one after it, are given back and
// forgotten like all others.
func TestKeysThatWaitedInVainAreForgotten(t *testing.T) {
	limit := sliding(t, 1000, 24*time.Hour)
	whileHanging(t, func(t *testing.T, h *hanging) {
		keys := []string{"a", "b", "c"}
		for _, key := range keys {
			h.count(1, debit(limit, key, 1))
		}
		h.takes.Store(int64(time.Hour))
		var group sync.WaitGroup
		for _, key := range keys {
			group.Go(func() { h.ask(debit(limit, key, 300)) })
			synctest.Wait()
		}
		group.Wait()
		if !h.committer.degraded.Load() {
			t.Fatal("the store hangs, and is in use")
		}
		h.takes.Store(0)
		time.Sleep(3 * time.Hour)
		if n := h.Stats(t.Context()).Keys; n != 0 {
			t.Errorf("%d keys in memory after hours without a request", n)
		}
		for _, key := range keys {
			if used := h.disk.used(limit, key, h.clock.Now()); used != 301 {
				t.Errorf("%d of key %s charged, want the 301 admitted", used, key)
			}
		}
		h.Close(t.Context())
	})
}

// A wait that times out when its batch is done is not followed by another.
func TestWaitsAddUpToTheTimeout(t *testing.T) {
	whileHanging(t, func(t *testing.T, h *hanging) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		done, never := &batch{done: make(chan struct{})}, &batch{done: make(chan struct{})}
		for range 50 { // if two are ready the choice is random
			timeout := time.NewTimer(time.Second)
			time.Sleep(time.Second)
			close(done.done)
			if err := done.await(ctx, timeout); err != nil {
				t.Fatal(err)
			}
			start := time.Now()
			if err := never.await(ctx, timeout); err != errTimeout || time.Since(start) != 0 {
				t.Fatalf("waited again for %v: %v", time.Since(start), err)
			}
			done = &batch{done: make(chan struct{})}
		}
		h.Close(t.Context())
	})
}

// A store that answers constantly, but not each request in time, is in use: requests that can't
// wait are decided by memory, and charged. None is an outage.
func TestSlowStoreThatAnswersIsInUse(t *testing.T) {
	limit := sliding(t, 100, time.Hour)
	whileHanging(t, func(t *testing.T, h *hanging) {
		h.takes.Store(int64(80 * time.Millisecond))
		const clients = 50
		var group sync.WaitGroup
		var waited, late [clients]time.Duration
		for i := range clients {
			time.Sleep(time.Millisecond)
			group.Go(func() {
				for range 20 {
					d := h.ask(debit(limit, fmt.Sprint(i), 1))
					waited[i] = max(waited[i], d.Waited)
					if d.Degraded {
						late[i] = max(late[i], d.Waited)
					}
				}
			})
		}
		group.Wait()
		if began := h.events.degraded.Load(); began > 0 {
			t.Errorf("the store couldn't be used %d times", began)
		}
		if longest := slices.Max(waited[:]); slices.Max(late[:]) == 0 || longest > 120*time.Millisecond {
			t.Errorf("one request waited for %v; decided by memory: %v", longest, late)
		}
		h.takes.Store(0)
		time.Sleep(3 * time.Hour)
		if n := h.Stats(t.Context()).Keys; n != 0 {
			t.Errorf("%d keys in memory after hours without a request", n)
		}
		h.Close(t.Context())
	})
}

// Units that memory admitted for a request without an answer in time are charged even if no further
// request comes for the key, and if its claim is refused.
func TestDebtsOfIdleKeysAreCharged(t *testing.T) {
	limit := sliding(t, 1, 24*time.Hour)
	whileHanging(t, func(t *testing.T, h *hanging) {
		h.disk.claim(limit, "b", limiter.Claim{Now: h.clock.Now(), Want: 1})
		h.takes.Store(int64(80 * time.Millisecond))
		go h.ask(debit(limit, "a", 1))
		time.Sleep(time.Millisecond)
		if d := h.ask(debit(limit, "b", 1)); !d.Allowed || !d.Degraded || h.committer.degraded.Load() {
			t.Fatalf("a request that the store doesn't answer in time: %+v; an outage: %v", d, h.committer.degraded.Load())
		}
		h.takes.Store(0)
		time.Sleep(time.Hour)
		if used := h.disk.used(limit, "b", h.clock.Now()); used != 2 {
			t.Errorf("%d units are charged, want the 2 admitted", used)
		}
		time.Sleep(26 * time.Hour)
		if n := h.Stats(t.Context()).Keys; n != 0 {
			t.Errorf("%d keys in memory after a day without a request", n)
		}
		h.Close(t.Context())
	})
}
