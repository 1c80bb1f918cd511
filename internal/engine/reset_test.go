package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine/table"
	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/memory"
)

// onDatabase returns an engine on a database that others may use as well.
func onDatabase(t *testing.T, db *memory.Database) *Engine {
	t.Helper()
	e := New(Options{Open: db.Opener(memory.Options{}), Name: testNames, StoreTimeout: time.Minute, CleanupInterval: 400 * 24 * time.Hour})
	<-e.Ready()
	return e
}

func take(e *Engine, limit *Limit, key string, cost int64) Decision {
	return e.Decide(context.Background(), nil, []Debit{{Limit: limit, Key: []byte(key), Cost: cost}})
}

// exhaust takes single units concurrently on many goroutines until each is refused, and returns how
// many were admitted.
func exhaust(engines []*Engine, limit *Limit, key string) int64 {
	var admitted atomic.Int64
	var all sync.WaitGroup
	for _, e := range engines {
		for range 16 {
			all.Go(func() {
				for take(e, limit, key, 1).Allowed {
					admitted.Add(1)
				}
			})
		}
	}
	all.Wait()
	return admitted.Load()
}

// A reset of a key in great demand grants exactly one more limit, regardless of the number of
// processes.
func TestAResetGrantsOneMoreLimit(t *testing.T) {
	const amount, resets = 40, 5
	for _, algorithm := range algorithms {
		for processes := 1; processes <= 3; processes++ {
			bubble.Test(t, func(t *testing.T) {
				db, engines := memory.New(), []*Engine(nil)
				for range processes {
					engines = append(engines, onDatabase(t, db))
				}
				limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: amount, Window: 365 * 24 * time.Hour})
				admitted := exhaust(engines, limit, "a")
				for n := range resets {
					var hammering sync.WaitGroup
					var more atomic.Int64
					stop := make(chan struct{})
					for range 4 {
						hammering.Go(func() {
							for !isClosed(stop) {
								for _, e := range engines {
									if take(e, limit, "a", 1).Allowed {
										more.Add(1)
									}
								}
								time.Sleep(time.Millisecond)
							}
						})
					}
					r := []Reset{{Limit: limit, Key: "a"}}
					if err := engines[n%processes].Reset(context.Background(), r); err != nil || !r[0].Found {
						t.Errorf("reset: %v, %+v", err, r)
					}
					time.Sleep(2 * resetInterval) // every process knows of it then
					close(stop)
					hammering.Wait()
					admitted += more.Load() + exhaust(engines, limit, "a")
					if admitted > amount*int64(n+2) {
						t.Fatalf("%v, %d processes: %d are admitted after %d resets of %d", algorithm, processes, admitted, n+1, amount)
					}
				}
				for _, e := range engines {
					e.Close(context.Background()) // gives back its lease
				}
				last := onDatabase(t, db)
				defer last.Close(context.Background())
				if admitted += exhaust([]*Engine{last}, limit, "a"); processes == 1 && admitted != amount*(resets+1) || admitted > amount*(resets+1) {
					t.Errorf("%v, %d processes: %d are admitted in all, want %d", algorithm, processes, admitted, amount*(resets+1))
				}
			})
		}
	}
}

// A process that has blocked a key, and receives no other requests, admits it within a second of a
// reset in another.
func TestAResetReachesProcessesThatOnlyRefuse(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db := memory.New()
		one, other := onDatabase(t, db), onDatabase(t, db)
		defer one.Close(context.Background())
		defer other.Close(context.Background())
		limit := newLimit(t, limiter.Params{Amount: 1, Window: 24 * time.Hour})
		if !take(one, limit, "a", 1).Allowed || take(one, limit, "a", 1).Allowed || take(other, limit, "a", 1).Allowed {
			t.Fatal("one of three must be admitted")
		}
		if err := other.Reset(context.Background(), []Reset{{Limit: limit, Name: testName(limit.ID, "a")}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if !take(one, limit, "a", 1).Allowed || take(other, limit, "a", 1).Allowed {
			t.Error("one more must be admitted, and no other")
		}
	})
}

// After a reset a client is not banned any more, in any process, and its violations no longer
// count.
func TestAResetOfAClient(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		db := memory.New()
		engines := []*Engine{onDatabase(t, db), onDatabase(t, db)}
		for _, e := range engines {
			defer e.Close(context.Background())
		}
		client := func() *Client { return &Client{Key: []byte("c")} }
		engines[0].Punish(client(), reputation.Offense{
			Violation: reputation.Violation{Reason: reputation.Trapped}, Points: 50,
			Ban: reputation.Ban{After: 1, Within: time.Hour, For: 10 * time.Hour},
		})
		synctest.Wait()
		for _, e := range engines {
			if d := e.Decide(context.Background(), client(), nil); d.Reason != Banned {
				t.Fatalf("of a banned client: %+v", d)
			}
		}
		r := []Reset{{Key: "c"}}
		if err := engines[1].Reset(context.Background(), r); err != nil || !r[0].Found {
			t.Fatalf("%v, %+v", err, r)
		}
		time.Sleep(time.Second)
		for i, e := range engines {
			d := e.Decide(context.Background(), client(), nil)
			if record := e.CachedRecord(*client()); !d.Allowed || record == nil || record.Expires() != 0 {
				t.Errorf("process %d after the reset: %+v, %+v", i, d, record)
			}
		}
	})
}

// Offenses of a client that wait to be recorded are dropped when the client is reset.
func TestAResetDropsOffensesThatWait(t *testing.T) {
	f := newFixture(t)
	client := &Client{Key: []byte("c")}
	f.table.ensureClient(client)
	stored := make(chan struct{})
	f.committer.offenses.add(offense{cell: client.cell, stored: stored})
	other := &Client{Key: []byte("other")}
	f.table.ensureClient(other)
	f.committer.offenses.add(offense{cell: other.cell})
	f.committer.eraser.forgetClient(client.cell)
	if left := f.committer.offenses.first(maxOffenses); len(left) != 1 || left[0].cell != other.cell {
		t.Errorf("%d offenses are left", len(left))
	}
	select {
	case <-stored:
	default:
		t.Error("who waits for a dropped offense waits on")
	}
}

// Many keys, several processes, random resets, returned leases: no key ever gets more than one
// limit for each reset of it in addition to the first, and gets all of it in the end.
func TestResetsAtRandom(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		bubble.Test(t, func(t *testing.T) {
			db := memory.New()
			engines := []*Engine{onDatabase(t, db), onDatabase(t, db)}
			limit := newLimit(t, limiter.Params{Algorithm: algorithms[seed%uint64(len(algorithms))], Amount: 200, Window: 365 * 24 * time.Hour})
			admitted, granted := map[string]int64{}, map[string]int64{}
			for range 3000 {
				i := random.IntN(2)
				key := string(rune('a' + random.IntN(3)))
				granted[key] = max(granted[key], 200)
				switch n := random.IntN(200); {
				case n == 0:
					if err := engines[i].Reset(context.Background(), []Reset{{Limit: limit, Key: key}}); err != nil {
						t.Fatal(err)
					}
					granted[key] += 200
				case n == 1:
					engines[i].Close(context.Background())
					engines[i] = onDatabase(t, db)
				case n < 5:
					time.Sleep(time.Duration(random.IntN(int(2 * time.Second))))
				default:
					if cost := 1 + random.Int64N(5); take(engines[i], limit, key, cost).Allowed {
						admitted[key] += cost
					}
				}
				if admitted[key] > granted[key] {
					t.Fatalf("seed %d: %d units of %q, of which resets grant %d", seed, admitted[key], key, granted[key])
				}
			}
			for _, e := range engines {
				e.Close(context.Background())
			}
		})
	}
}

func TestResetsThatCannotBe(t *testing.T) {
	limit := newLimit(t, limiter.Params{Amount: 1, Window: time.Hour})
	broken := New(Options{Name: testNames, Open: func(context.Context) (storage.Store, error) { return nil, errDisk }})
	<-broken.Ready()
	if err := broken.Reset(context.Background(), []Reset{{Limit: limit, Key: "a"}}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("without a store: %v", err)
	}
	broken.Close(context.Background())
	if err := broken.Reset(context.Background(), []Reset{{Limit: limit, Key: "a"}}); !errors.Is(err, ErrUnavailable) {
		t.Errorf("after it was closed: %v", err)
	}
}

// Leases from before a reset are worth nothing after it, in any process.
func TestAResetDropsLeases(t *testing.T) {
	const amount = 500
	for _, algorithm := range algorithms {
		for resetter := range 2 {
			bubble.Test(t, func(t *testing.T) {
				db := memory.New()
				engines := []*Engine{onDatabase(t, db), onDatabase(t, db)}
				limit := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: amount, Window: 365 * 24 * time.Hour})
				for range 20 {
					take(engines[0], limit, "a", 1)
				}
				if c := engines[0].table.find(limit.ID, []byte("a")); !c.leaseLocked().Holds() {
					t.Fatal("there is no lease to drop")
				}
				if err := engines[resetter].Reset(context.Background(), []Reset{{Limit: limit, Key: "a"}}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				admitted := exhaust(engines, limit, "a")
				for _, e := range engines {
					e.Close(context.Background())
				}
				last := onDatabase(t, db)
				defer last.Close(context.Background())
				if admitted += exhaust([]*Engine{last}, limit, "a"); admitted != amount {
					t.Errorf("%v, reset by process %d: %d are admitted after the reset, want %d", algorithm, resetter, admitted, amount)
				}
			})
		}
	}
}

// Claims that are on their way to the store when a key is reset give back and charge nothing.
func TestAResetDropsWhatIsOnItsWay(t *testing.T) {
	limit := newLimit(t, limiter.Params{Amount: 10, Window: time.Hour})
	table := newCells(10, nil)
	c, other := table.add(ofSlots, limit.ID, []byte("a")), table.add(ofSlots, limit.ID, []byte("b"))
	c.setLimitLocked(limit)
	other.setLimitLocked(limit)
	give := limiter.Lease{Units: 3, Used: 3}
	entries := func() []*entry {
		return []*entry{{cell: c, give: give, given: 3}, {cell: c, charge: limiter.Charge{Units: 2}}, {cell: other, give: give, given: 3}}
	}
	m := eraser{writer: &writer{current: &batch{entries: entries()}}, queue: &queue{batch: &batch{entries: entries()}}}
	m.forgetCell(c)
	for _, b := range []*batch{m.writer.current, m.queue.batch} {
		for _, en := range b.entries {
			if kept := en.give == give || en.charge.Units > 0 || en.given > 0; kept != (en.cell == other) {
				t.Errorf("%q: %+v", en.cell.key(), en)
			}
		}
	}
}

// evict removes a key from the table, as if for lack of room.
func evict(t *testing.T, e *Engine, limit *Limit, key string) {
	t.Helper()
	c, unused := e.table.find(limit.ID, []byte(key)), e.table.Unused.Swap(0)
	defer e.table.Unused.Store(unused)
	removed := e.table.Sweep(func(other *table.Entry) bool { return other != &c.Entry }, func(<-chan struct{}) {}, func(int) {})
	if removed != 1 {
		t.Fatalf("%q: removed %d keys", key, removed)
	}
}

// The lease of an evicted key is not given back after a reset, neither by this process nor by
// another.
func TestAResetDropsWhatAnEvictedKeyGivesBack(t *testing.T) {
	const amount = 500
	for resetter := range 2 {
		bubble.Test(t, func(t *testing.T) {
			db := memory.New()
			one, other := onDatabase(t, db), onDatabase(t, db)
			limit := newLimit(t, limiter.Params{Amount: amount, Window: 365 * 24 * time.Hour})
			for range 20 {
				take(one, limit, "a", 1)
			}
			var admitted int64
			err := one.committer.queue.run(context.Background(), func() error {
				evict(t, one, limit, "a")
				reset := []Reset{{Limit: limit, Key: "a"}}
				do := one.committer.eraser.reset
				if resetter == 1 {
					do = func(r []Reset) error { return other.Reset(context.Background(), r) }
				}
				err := do(reset)
				admitted = exhaust([]*Engine{other}, limit, "a") // before the batch gives back
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			admitted += exhaust([]*Engine{one, other}, limit, "a")
			one.Close(context.Background())
			other.Close(context.Background())
			if admitted != amount {
				t.Errorf("reset by process %d: %d are admitted after the reset, want %d", resetter, admitted, amount)
			}
		})
	}
}

// A reset whose context ends continues with its own copy of the keys, which the caller can't
// change.
func TestAResetInTheBackgroundIsTheCallers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := onDatabase(t, memory.New())
		defer e.Close(context.Background())
		limit := newLimit(t, limiter.Params{Amount: 1, Window: time.Hour})
		for _, key := range []string{"a", "b"} {
			take(e, limit, key, 1)
		}
		release := holdUp(e)
		ended, end := context.WithCancel(context.Background())
		end()
		resets := []Reset{{Limit: limit, Key: "a"}}
		if err := e.Reset(ended, resets); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		resets[0].Key = "b"
		release()
		if !take(e, limit, "a", 1).Allowed || take(e, limit, "b", 1).Allowed || resets[0].Found {
			t.Error("another key was reset, or what the caller has was changed")
		}
	})
}

// holdUp blocks the committer until release is called, which waits for the tasks given meanwhile.
func holdUp(e *Engine) (release func()) {
	held, goOn := make(chan struct{}), make(chan struct{})
	go e.committer.queue.run(context.Background(), func() error {
		close(held)
		<-goOn
		return nil
	})
	<-held
	return func() {
		close(goOn)
		e.committer.queue.run(context.Background(), func() error { return nil })
	}
}

// answering is a context that answers the only task of a committer, which then ends, in the moment
// when a caller waits for it.
type answering struct {
	context.Context
	m *committer
}

func (a answering) Done() <-chan struct{} {
	a.m.queue.takeTask().answer(nil)
	close(a.m.done)
	return nil
}

// A completed task is not reported as refused because the engine ends with it.
func TestTheLastOrderIsAnswered(t *testing.T) {
	for range 64 {
		m := &committer{queue: queue{woken: make(chan struct{}, 1)}, done: make(chan struct{})}
		if err := m.queue.run(answering{context.Background(), m}, func() error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
}

// The comparison of many keys with many resets computes one name for each key and day, because
// names are expensive.
func TestManyResetsAreComparedByOneName(t *testing.T) {
	const day, keys = int64(24 * time.Hour), 50
	limit := newLimit(t, limiter.Params{Amount: 1, Window: time.Hour})
	made := 0
	nameAt := func(_ storage.LimitID, key string, _ time.Duration, now int64) (n Name, err error) {
		made++
		today := now / day
		n.Key, n.Former = testName(0, fmt.Sprint(today, key)), testName(0, fmt.Sprint(today-1, key))
		n.From, n.Until = today*day, (today+1)*day
		return n, nil
	}
	for _, tt := range []struct {
		days int64 // the number of days with resets
		step int   // the distance between the reset keys
	}{{1, 1}, {1, 7}, {2, 7}, {3, 5}} {
		var resets []storage.Reset
		for i := 0; i < keys; i += tt.step {
			at := (10+int64(i)%tt.days)*day + int64(i)
			name, _ := nameAt(limit.ID, fmt.Sprint(i), 0, at)
			resets = append(resets, storage.Reset{Limit: limit.ID, Key: name.Key, At: at})
		}
		m := eraser{table: newCells(keys, nil), conn: &connection{name: nameAt}, queue: new(queue), writer: new(writer)}
		for i := range keys {
			c := m.table.add(ofSlots, limit.ID, []byte(fmt.Sprint(i)))
			c.setLimitLocked(limit)
			c.setBlocksLocked(new(block))
		}
		made = 0
		if !m.forgetNamed(resets) {
			t.Fatalf("%+v: the names can't be compared", tt)
		}
		for i := range keys {
			c := m.table.find(limit.ID, []byte(fmt.Sprint(i)))
			if forgotten := c.blocks() == nil; forgotten != (i%tt.step == 0) {
				t.Errorf("%+v: key %d is forgotten: %v", tt, i, forgotten)
			}
		}
		if made > keys*int(tt.days) {
			t.Errorf("%+v: %d names are made for %d keys", tt, made, keys)
		}
	}
}
