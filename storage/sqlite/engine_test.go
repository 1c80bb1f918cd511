package sqlite

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/storagetest"
)

// site is an engine on a database, with a log of its admissions.
type site struct {
	*engine.Engine
	t       *testing.T
	options Options
	limits  []*engine.Limit
	began   time.Time
	stores  atomic.Pointer[Store] // the last one opened

	mu       sync.Mutex
	admitted map[string]int64 // guarded by mu: requests, by key
	degraded int              // guarded by mu: decisions without the store
	told     []string         // guarded by mu: what an operator would read
}

// Committed implements engine.Observer.
func (s *site) Committed(int, time.Duration) {}

// Punished implements engine.Observer.
func (s *site) Punished(reputation.Reason)              {}
func (s *site) Banned([]byte, reputation.Reason, int64) {}

// Swept implements engine.Observer.
func (s *site) Swept(_ int64, _ int, _ time.Duration, err error) {
	if err != nil {
		s.tell("sweep: " + err.Error())
	}
}

// Degraded implements engine.Observer.
func (s *site) Outage()                             {}
func (s *site) Degraded(_ time.Duration, err error) { s.tell("degraded: " + err.Error()) }

// Recovered implements engine.Observer.
func (s *site) Recovered(time.Duration) { s.tell("recovered") }

func (s *site) tell(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.told = append(s.told, line)
}

// count returns the number of lines with a text.
func (s *site) count(what string) (lines int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.told {
		if strings.Contains(line, what) {
			lines++
		}
	}
	return lines
}

const siteTimeout = 100 * time.Millisecond

// newSite starts an engine in the bubble of the test, with one limit of each algorithm.
func newSite(t *testing.T, o Options, amount int64, change ...func(*engine.Options)) *site {
	t.Helper()
	s := &site{t: t, options: o, began: time.Now(), admitted: make(map[string]int64)}
	s.setLimits(amount, 24*time.Hour)
	options := engine.Options{Open: s.open, Name: namesOf, StoreTimeout: siteTimeout, Observer: s}
	for _, c := range change {
		c(&options)
	}
	s.Engine = engine.New(options)
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// setLimits makes one limit of each algorithm.
func (s *site) setLimits(amount int64, window time.Duration) {
	s.limits = nil
	for a := range limiter.Algorithm(3) {
		l := newLimit(s.t, limiter.Params{Algorithm: a, Amount: amount, Window: window})
		s.limits = append(s.limits, &engine.Limit{ID: storage.LimitID(a) + 1, Rate: l})
	}
}

func (s *site) open(ctx context.Context) (storage.Store, error) {
	o := s.options
	o.journalSizes = smallJournal
	store, err := Open(ctx, o)
	if err != nil {
		return nil, err
	}
	s.stores.Store(store)
	return store, nil
}

func namesOf(id storage.LimitID, key string, _ time.Duration, _ int64) (engine.Name, error) {
	return engine.Name{Key: nameOf(id, key)}, nil
}

func nameOf(_ storage.LimitID, key string) (name storage.Key) {
	copy(name[:], key)
	return name
}

// ask makes a request that takes one unit of every limit.
func (s *site) ask(key string) engine.Decision {
	debits := make([]engine.Debit, len(s.limits))
	for i, l := range s.limits {
		debits[i] = engine.Debit{Limit: l, Key: []byte(key), Cost: 1}
	}
	start := time.Now()
	d := s.Decide(context.Background(), nil, debits)
	if took := time.Since(start); took > siteTimeout+20*time.Millisecond {
		s.t.Errorf("a request took %v", took)
	}
	if d.Reason == engine.Abandoned || !d.Allowed && d.Retry <= 0 {
		s.t.Errorf("a request was neither allowed nor refused: %+v", d)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.Allowed {
		s.admitted[key]++
	}
	if d.Degraded {
		s.degraded++
	}
	return d
}

// load makes a number of requests from several goroutines, for a few keys.
func (s *site) load(requests int) {
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range requests / 4 {
				s.ask(fmt.Sprint("key", (g+i)%3))
				time.Sleep(time.Millisecond)
			}
		})
	}
	group.Wait()
}

// recovered waits until the store is in use.
func (s *site) recovered() {
	s.t.Helper()
	for range 600 {
		if !s.Stats(context.Background()).Degraded {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	s.t.Fatal("degraded for a minute after the last fault")
}

// end closes the engine, and compares the admissions with the limits and with the database.
func (s *site) end() {
	s.t.Helper()
	if err := s.Close(context.Background()); err != nil {
		s.t.Errorf("close: %v", err)
	}
	store, err := Open(context.Background(), Options{Path: s.options.Path})
	if err != nil {
		s.t.Fatal(err)
	}
	defer store.Close()
	for key, admitted := range s.admitted {
		for _, l := range s.limits {
			if admitted > l.Amount() {
				s.t.Errorf("%s: %d of %d admitted", key, admitted, l.Amount())
			}
			c := storage.Claim{ID: l.ID, Key: nameOf(l.ID, key), Limit: l.Rate, Claim: limiter.Claim{Now: time.Now().UnixNano()}}
			grants := make([]limiter.Grant, 1)
			if err := store.Claim(context.Background(), storagetest.At(c.Now), []storage.Claim{c}, grants); err != nil {
				s.t.Fatal(err)
			}
			least := admitted
			if l.Slots() == 0 {
				least -= 1 + int64(time.Since(s.began))/(int64(l.Window())/l.Amount()) // drained
			}
			if g := grants[0]; g.Used < least {
				s.t.Errorf("%s: %v: %d charged, %d admitted", key, l.Algorithm(), g.Used, admitted)
			}
		}
	}
}

// What fails in a fold, for which no request waits, costs no counts, also if the database is damaged: neither if the site
// goes on, nor if it is stopped at once and no lease is to be given back.
func TestFaultsThatNobodyWaitsForCostNoCounts(t *testing.T) {
	const noMemory = 7
	for _, fault := range []coded{codeCorrupt, noMemory} {
		for name, set := range map[string]func(*faults, func(string) error){"before": (*faults).set, "after": (*faults).setAfter} {
			for _, stops := range []bool{false, true} {
				t.Run(fmt.Sprintf("code %d %s, stops=%v", fault, name, stops), func(t *testing.T) {
					bubble.Test(t, func(t *testing.T) {
						f := new(faults)
						s := newSite(t, Options{Path: filepath.Join(t.TempDir(), "tally.db"), connect: f.connect}, 12)
						for range 12 {
							s.ask("key")
						}
						failed := make(chan struct{})
						set(f, failOnceAnd("BEGIN IMMEDIATE", fault, func() { close(failed) }))
						<-failed
						set(f, nil)
						if !stops {
							time.Sleep(2 * time.Second)
							s.recovered()
							if s.count("degraded: ") == 1 != (fault == codeCorrupt) {
								t.Errorf("an operator reads %q", s.told)
							}
						}
						s.end()
					})
				})
			}
		}
	}
}

// A transaction that began although the caller was told otherwise doesn't stop the next one.
func TestTransactionsBeginAfterOneThatFailedToBegin(t *testing.T) {
	f := new(faults)
	s := opened(t, Options{Path: filepath.Join(t.TempDir(), "tally.db"), connect: f.connect, NoJournal: true})
	f.setAfter(failOnce("BEGIN IMMEDIATE", coded(7)))
	if _, err := s.Join(t.Context(), 1, 1, 2); err == nil {
		t.Fatal("nothing failed")
	}
	if _, err := s.Join(t.Context(), 1, 1, 2); err != nil {
		t.Error(err)
	}
}

// failNth returns a function that fails one call, counted from 1.
func failNth(n int64, err error) (fail func(string) error, failed *string) {
	var calls atomic.Int64
	failed = new(string)
	return func(query string) error {
		if calls.Add(1) == n {
			*failed = query
			return err
		}
		return nil
	}, failed
}

// If any call of the driver fails in any way, no request fails or waits for long, limits hold, and
// the database is used again without a restart.
func TestAnyCallMayFail(t *testing.T) {
	codes := []coded{10, codeFull, codeBusy, codeCorrupt, 7}
	step := int64(7) // and so with any of the codes
	if proof.IsOn() {
		step = 1
	}
	for name, set := range map[string]func(*faults, func(string) error){
		"before": (*faults).set,
		"after":  (*faults).setAfter, // it has taken effect, and nobody is told
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for n, failed := int64(1), "?"; failed != ""; n += step {
				bubble.Test(t, func(t *testing.T) {
					f := new(faults)
					s := newSite(t, Options{Path: filepath.Join(t.TempDir(), "tally.db"), connect: f.connect}, 12)
					fail, query := failNth(n, codes[n%int64(len(codes))])
					set(f, fail)
					s.load(24)
					set(f, nil)
					s.recovered()
					s.load(24)
					s.end()
					if failed = *query; t.Failed() {
						t.Fatalf("call %d failed with code %d: %s", n, codes[n%int64(len(codes))], failed)
					}
				})
				if t.Failed() {
					return
				}
			}
		})
	}
}
