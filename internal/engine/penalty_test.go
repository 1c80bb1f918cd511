package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// penal returns a debit of one unit from a limit with a penalty.
func penal(l *Limit, key string, lasts time.Duration) Debit {
	d := debit(l, key, 1)
	d.Penalty = &Penalty{Scope: l.ID, For: lasts}
	return d
}

func TestPenaltyOutlastsTheWindow(t *testing.T) {
	f, l := newFixture(t), sliding(t, 3, time.Minute)
	d := penal(l, "key", time.Hour)
	if n := f.count(4, d); n != 3 {
		t.Fatalf("%d of 4 passed a limit of 3", n)
	}
	if over := f.ask(d); over.Reason != Blocked || over.Retry != time.Hour {
		t.Errorf("the next one is decided as %+v, want a retry time of an hour", over)
	}
	f.fake.advance(59 * time.Minute)
	if over := f.ask(d); over.Reason != Blocked || over.Retry != time.Minute {
		t.Errorf("59 minutes later: %+v, want a retry time of a minute: a refused request lengthens nothing", over)
	}
	if !f.ask(penal(l, "other", time.Hour)).Allowed {
		t.Error("another key is refused")
	}
	f.fake.advance(time.Minute)
	if n := f.count(3, d); n != 3 {
		t.Errorf("%d of 3 passed when it was over", n)
	}
	f.count(1, d)
	f.fake.advance(2 * time.Minute)
	if !f.ask(debit(l, "key", 1)).Allowed {
		t.Error("refused by a penalty that the config has no more")
	}
}

// The store has a penalty before the request that begins it is answered.
func TestPenaltySurvivesACrash(t *testing.T) {
	f, l := newFixture(t), sliding(t, 1, time.Minute)
	d := penal(l, "key", time.Hour)
	f.count(2, d)
	f.fake.advance(10 * time.Minute)
	after := startOn(t, f.disk, f.fake)
	for range 2 { // the first one reads the record, with a claim that gets the unit
		if over := after.ask(d); over.Reason != Blocked || over.Retry != 50*time.Minute {
			t.Errorf("after a crash: %+v, want 50 minutes more", over)
		}
	}
	if d := after.ask(debit(l, "key", 1)); !d.Allowed {
		t.Errorf("a refused request has used up a unit: %+v", d)
	}
}

// A client that is told that it waits for its units has not gone over the limit yet.
func TestPenaltyWaitsForTheLastDecision(t *testing.T) {
	f, l := newFixture(t), sliding(t, 1, time.Minute)
	d := penal(l, "key", time.Hour)
	d.Waits = true
	f.count(1, d)
	if over := f.ask(d); over.Allowed || over.Retry > 2*time.Minute {
		t.Errorf("a request that waits: %+v", over)
	}
	d.Waits = false
	if over := f.ask(d); over.Retry != time.Hour {
		t.Errorf("one that doesn't: %+v", over)
	}
}

// Requests that came a moment ago and may give their units back put no key over its limit: of seven right passwords at
// once, five of which pass, none leads to a penalty or to a violation. Once the units are used up, or the requests
// take too long, the next refusal does.
func TestRequestsUnderWayBeginNoPenalty(t *testing.T) {
	for _, slow := range []bool{false, true} {
		f, scaling := newFixture(t), newScaling(t, 5, time.Minute, 5)
		debit := func() Debit {
			d := penal(scaling.Levels[0], "key", time.Hour)
			d.Counting, d.Client, d.Scaling = Held, &Client{Key: []byte("client")}, scaling
			return d
		}
		ask := func() (Debit, Decision) {
			debits := []Debit{debit()}
			decision := f.Decide(context.Background(), debits[0].Client, debits)
			return debits[0], decision
		}
		for _, wrong := range []bool{false, true} {
			var underWay []*Pending
			for range 5 {
				d, got := ask()
				if !got.Allowed {
					t.Fatalf("one of five is refused: %+v", got)
				}
				underWay = append(underWay, d.Pending)
			}
			for range 2 {
				if next := f.Forecast(context.Background(), nil, []Debit{debit()}); next.Allowed || next.Retry > 2*time.Minute {
					t.Errorf("while five are under way, the forecast is %+v, want no penalty", next)
				}
				if _, over := ask(); over.Allowed || over.Retry > 2*time.Minute {
					t.Errorf("while five are under way, another one is decided as %+v, want no penalty", over)
				}
			}
			if record := f.CachedRecord(Client{Key: []byte("client")}); len(record.Past) > 0 {
				t.Errorf("a violation: %+v", record)
			}
			if slow && wrong {
				f.fake.advance(undecidedFor)
				break
			}
			for _, p := range underWay {
				p.Settle(wrong)
			}
		}
		if _, over := ask(); over.Retry != time.Hour {
			t.Errorf("after five that count or are slow (%v): %+v, want a penalty", slow, over)
		}
		if record := f.CachedRecord(Client{Key: []byte("client")}); len(record.Past) != 1 {
			t.Errorf("no violation: %+v", record)
		}
	}
}

func TestPenaltyFromTheLast(t *testing.T) {
	f, l := newFixture(t), sliding(t, 1, time.Minute)
	d := penal(l, "key", time.Hour)
	d.Penalty.FromLast = true
	f.count(2, d)
	for range 5 {
		f.fake.advance(50 * time.Minute)
		if over := f.ask(d); over.Allowed || over.Retry < time.Hour || over.Retry > 61*time.Minute {
			t.Fatalf("a refused request is told to wait for %v, want an hour", over.Retry)
		}
		before := f.committer.writer.answers.Load()
		f.count(100, d)
		if n := f.committer.writer.answers.Load() - before; n > 0 {
			t.Errorf("100 more made %d calls", n)
		}
	}
	after := startOn(t, f.disk, f.fake)
	if over := after.ask(d); over.Retry < time.Hour {
		t.Errorf("after a crash: %+v", over)
	}
	f.fake.advance(61 * time.Minute)
	if !f.ask(d).Allowed {
		t.Error("refused when it was over")
	}
}

// In an outage limits are smaller, so that none begins. Those that have begun go on.
func TestPenaltyInAnOutage(t *testing.T) {
	f, l := newFixture(t), sliding(t, 10, time.Minute)
	known, fresh := penal(l, "known", time.Hour), penal(l, "fresh", time.Hour)
	f.count(11, known)
	f.store.before = func([]storage.Claim) error { return errDisk }
	f.count(20, fresh)
	if !f.Degraded() {
		t.Fatal("the engine still uses the store")
	}
	f.fake.advance(30 * time.Minute)
	if over := f.ask(known); over.Reason != Blocked || over.Retry != 30*time.Minute {
		t.Errorf("of one before the outage: %+v", over)
	}
	if over := f.ask(fresh); !over.Allowed {
		t.Errorf("of one that reached the reduced limit: %+v", over)
	}
}

// A shadow limit has penalties of its own: none is left when it becomes an enforced one.
func TestPenaltyOfAShadow(t *testing.T) {
	named := func(o *Options) {
		o.Name = func(id storage.LimitID, key string, _ time.Duration, _ int64) (Name, error) {
			return Name{Key: testName(0, fmt.Sprint(id%1000, key))}, nil
		}
	}
	f, l := newFixture(t, named), sliding(t, 1, time.Minute)
	shadow := penal(l, "key", time.Hour)
	shadow.Penalty.Scope = l.ID + 1<<40
	for range 3 {
		done := make(chan struct{})
		if _, ok := f.Shadow([]Debit{shadow}); ok {
			continue
		}
		f.ShadowLater([]Debit{shadow}, func([]Debit, Decision) { close(done) })
		<-done
	}
	f.fake.advance(10 * time.Minute)
	if d, ok := f.Shadow([]Debit{shadow}); !ok || d.Retry != 50*time.Minute {
		t.Errorf("the shadow: %+v", d)
	}
	if d := f.ask(penal(l, "key", time.Hour)); !d.Allowed {
		t.Errorf("the enforced limit: %+v", d)
	}
}

func TestPenaltyInForecasts(t *testing.T) {
	f, l := newFixture(t), sliding(t, 1, time.Minute)
	d := penal(l, "key", time.Hour)
	f.count(1, d)
	for range 2 {
		if next := f.Forecast(context.Background(), nil, []Debit{d}); next.Retry != time.Hour {
			t.Errorf("the forecast of one that would begin it: %+v", next)
		}
	}
	f.fake.advance(2 * time.Minute)
	if n := f.count(2, d); n != 1 {
		t.Errorf("%d of 2 passed after forecasts", n)
	}
	f.fake.advance(10 * time.Minute)
	if next := f.Forecast(context.Background(), nil, []Debit{d}); next.Reason != Blocked || next.Retry != 50*time.Minute {
		t.Errorf("the forecast of one that it refuses: %+v", next)
	}
}

func TestResetLiftsPenalties(t *testing.T) {
	f, l := newFixture(t), sliding(t, 1, time.Minute)
	d := penal(l, "key", time.Hour)
	other := startOn(t, f.disk, f.fake)
	f.count(2, d)
	other.count(1, d)
	resets := []Reset{{Limit: l, Key: "key"}, {Limit: l, Penalty: d.Penalty, Key: "key"}}
	if err := f.Reset(context.Background(), resets); err != nil || !resets[1].Found {
		t.Fatalf("reset: %+v, %v", resets, err)
	}
	if n := f.count(2, d); n != 1 {
		t.Errorf("%d of 2 passed after a reset", n)
	}
	// by the name of the key at rest, where another process must find out which key that is
	if err := f.Reset(context.Background(), []Reset{{Limit: l, Name: testName(l.ID, "key")}, {Limit: l, Penalty: d.Penalty, Name: testName(l.ID, "key")}}); err != nil {
		t.Fatal(err)
	}
	if err := other.committer.queue.run(context.Background(), func() error { return other.committer.eraser.takeResets(nil) }); err != nil {
		t.Fatal(err)
	}
	if n := other.count(2, d); n != 1 {
		t.Errorf("%d of 2 passed elsewhere", n)
	}
}

func TestPenaltyInLists(t *testing.T) {
	f, l := newFixture(t), sliding(t, 1, time.Minute)
	d := penal(l, "key", time.Hour)
	f.count(2, d)
	f.fake.advance(10 * time.Minute)
	q := KeysQuery{N: 10, Blocked: true}
	if keys := f.Keys(q); len(keys) != 0 {
		t.Errorf("without the penalty: %+v", keys)
	}
	q.Penalty = func(id storage.LimitID) *Penalty { return d.Penalty }
	if keys := f.Keys(q); len(keys) != 1 || keys[0].Blocked != 50*time.Minute {
		t.Errorf("with the penalty: %+v", keys)
	}
	if clients := f.Clients(ClientsQuery{N: 10}); len(clients) != 0 {
		t.Errorf("keys with a penalty are clients: %+v", clients)
	}
	f.committer.table.sweep(f.clock.Now(), func(<-chan struct{}) {}, func(int) {})
	f.committer.table.sweep(f.clock.Now(), func(<-chan struct{}) {}, func(int) {})
	if keys := f.Keys(q); len(keys) != 1 {
		t.Error("a sweep has removed a key with a penalty")
	}
	if banned, err := f.disk.raw().Banned(context.Background(), f.clock.Now(), 10); len(banned) > 0 || err != nil {
		t.Errorf("the store has bans: %v, %v", banned, err)
	}
}

// The record of a key ends with its penalty, so that a store sweeps it.
func TestRecordsOfPenaltiesAreSwept(t *testing.T) {
	f, l := newFixture(t), sliding(t, 1, time.Minute)
	for i := range 100 {
		f.count(2, penal(l, fmt.Sprint("key", i), time.Hour))
	}
	sweep := func() (rows int64) {
		for {
			swept, err := f.committer.conn.sweepStep(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if rows += swept.Rows; !swept.More {
				return rows
			}
		}
	}
	f.fake.advance(59 * time.Minute)
	f.ask(penal(l, "another", time.Hour)) // the store learns the time
	counts := sweep()
	f.fake.advance(2 * time.Minute)
	f.ask(penal(l, "another", time.Hour))
	if rows := sweep(); rows < 100 {
		t.Errorf("%d rows were swept before the penalties ended, and %d after it, want all 100 records then", counts, rows)
	}
}

// However many requests come at once: exactly the limit passes, and all others are told the same end.
func TestPenaltyUnderConcurrency(t *testing.T) {
	f, l := newFixture(t), sliding(t, 50, time.Minute)
	var mu sync.Mutex
	var allowed int
	retries := make(map[time.Duration]int)
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			d := f.ask(penal(l, "key", time.Hour))
			mu.Lock()
			defer mu.Unlock()
			if d.Allowed {
				allowed++
			} else {
				retries[d.Retry]++
			}
		})
	}
	all.Wait()
	if allowed != 50 || len(retries) != 1 || retries[time.Hour] != 150 {
		t.Errorf("%d of 200 passed a limit of 50; the others got %v", allowed, retries)
	}
	records := make([]reputation.Record, 1)
	f.disk.call(f.clock.Now(), func(raw storage.Store, term *storage.Term) error {
		return raw.Records(context.Background(), term, []storage.Client{{Key: testName(l.ID, "key")}}, records)
	})
	if end := records[0].Blocked(); end != f.clock.Now()+int64(time.Hour) {
		t.Errorf("the store has %v", time.Duration(end-f.clock.Now()))
	}
}

// TestPenaltiesAgainstAModel compares engines with a model that remembers all requests: one that was refused
// refuses its key until the penalty ends, whatever is asked, reloaded, restarted or killed meanwhile.
func TestPenaltiesAgainstAModel(t *testing.T) {
	for seed := range uint64(proof.Times(50, 20_000)) {
		playPenalties(t, seed)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// penalties is the model of one key.
type penalties struct {
	until   int64   // it is refused until then
	passed  []int64 // when its requests passed
	crashed int64   // when units may have been lost
}

func playPenalties(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 7))
	disk, clock := newDisk(), newFakeClock()
	limit := newLimit(t, limiter.Params{Algorithm: algorithms[rng.IntN(3)], Amount: 1 + rng.Int64N(20), Window: time.Minute})
	lasts, fromLast := time.Duration(1+rng.IntN(10))*time.Minute, rng.IntN(3) == 0
	change := func(o *Options) { o.MaxKeys = 1 + rng.IntN(8) }
	machines := []*fixture{startOn(t, disk, clock, change), startOn(t, disk, clock, change)}
	model, start := make(map[string]*penalties), clock.wall.Load()
	for range 80 {
		i := rng.IntN(len(machines))
		switch rng.IntN(12) {
		case 0:
			if machines[i] = startOn(t, disk, clock, change); rng.IntN(2) == 0 { // the one before is killed
				machines[i].Close(context.Background())
				machines[i] = startOn(t, disk, clock, change)
			}
			for _, m := range model {
				m.crashed = clock.wall.Load()
			}
			continue
		case 1, 2:
			clock.advance(time.Duration(rng.Int64N(int64(3 * time.Minute))))
		case 3:
			clock.advance(time.Duration(rng.Int64N(int64(lasts))))
		}
		key, now := simKeys[rng.IntN(3)], clock.wall.Load()
		m := model[key]
		if m == nil {
			m = new(penalties)
			model[key] = m
		}
		d := penal(limit, key, lasts)
		d.Penalty.FromLast = fromLast
		got := machines[i].ask(d)
		switch retry := int64(got.Retry); {
		case got.Allowed:
			if m.passed = append(m.passed, now); now < m.until {
				t.Errorf("%v: %s passes %v before its penalty ends", time.Duration(now-start), key, time.Duration(m.until-now))
			}
		case now < m.until && !fromLast && now+retry > max(m.until, now+int64(2*time.Minute)):
			t.Errorf("%v: %s is refused for %v, want %v", time.Duration(now-start), key, got.Retry, time.Duration(m.until-now))
		case now < m.until && now+retry < m.until, now >= m.until && got.Retry < lasts:
			t.Errorf("%v: %s may come back after %v, want %v", time.Duration(now-start), key, got.Retry, time.Duration(m.until-now))
		case now >= m.until && m.within(now, time.Minute+time.Second) < int(limit.Amount()) && m.crashed == 0 && limit.Algorithm() == limiter.Sliding:
			t.Errorf("%v: %s is refused after %d requests in a minute", time.Duration(now-start), key, m.within(now, time.Minute+time.Second))
		default:
			if now >= m.until || fromLast {
				m.until = now + int64(lasts)
			}
			if rng.IntN(4) == 0 {
				clock.advance(got.Retry)
				for _, other := range model { // who comes back finds no one else's units
					other.crashed = clock.wall.Load()
				}
				if again := machines[i].ask(d); !again.Allowed && m.crashed == 0 {
					t.Errorf("%v: %s comes back after %v, and is refused for %v", time.Duration(now-start), key, got.Retry, again.Retry)
				} else if again.Allowed {
					m.passed = append(m.passed, clock.wall.Load())
				}
			}
		}
		if now = clock.wall.Load(); limit.Algorithm() == limiter.Sliding && m.within(now, time.Minute) > int(limit.Amount()) {
			t.Errorf("%v: %s passed %d times in a minute", time.Duration(now-start), key, m.within(now, time.Minute))
		}
	}
	for _, m := range machines {
		m.Close(context.Background())
	}
}

// within returns how many requests passed in a time up to now.
func (m *penalties) within(now int64, d time.Duration) (n int) {
	for _, at := range m.passed {
		if at > now-int64(d) {
			n++
		}
	}
	return n
}

// Machines of a fleet refuse a key soon after one of them has, and a request waits for no more than two round trips
// to be told so for the first time.
func TestPenaltyOnAllMachinesSoon(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := newFleet(t, 20*time.Millisecond)
		one, other := f.start(0), f.start(0)
		d := penal(sliding(t, 10, time.Minute), "key", time.Hour)
		if passed := other.count(1, d) + one.count(30, d); passed > 10 {
			t.Errorf("%d passed a limit of 10", passed)
		}
		time.Sleep(2 * time.Second)
		if over := other.ask(d); over.Reason != Blocked || over.Waited > 0 || over.Retry < 59*time.Minute {
			t.Errorf("the other machine, two seconds later: %+v", over)
		}
		time.Sleep(5 * time.Minute)
		third := f.start(0)
		if over := third.ask(d); over.Reason != Blocked || over.Retry < 54*time.Minute || over.Retry > 55*time.Minute {
			t.Errorf("a machine that starts later: %+v", over)
		}
		start := time.Now()
		two := penal(sliding(t, 1, time.Minute), "key", time.Hour)
		third.count(2, two)
		if took := time.Since(start); took > 120*time.Millisecond {
			t.Errorf("two requests, of which the second one begins a penalty, took %v", took)
		}
		for _, m := range []*machine{one, other, third} {
			m.Close(context.Background())
		}
	})
}
