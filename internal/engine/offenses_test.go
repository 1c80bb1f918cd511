package engine

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
)

// A client that waits for the returned retry time is admitted then, even if the refusal itself was
// a violation.
func TestRetryIsTrueForWhoIsPunished(t *testing.T) {
	for _, test := range []struct {
		name   string
		points int
		ban    reputation.Ban
	}{
		{"ban", 0, reputation.Ban{After: 1, Within: time.Hour, For: 3 * time.Hour}},
		{"level", 100, reputation.Ban{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, scaling := newFixture(t), newScaling(t, 10, time.Hour, test.points)
			scaling.Ban = test.ban
			for range 2 {
				if got := f.passing(5, "a", scaling); got != 5 {
					t.Fatalf("%d of 5 passed", got)
				}
				f.fake.advance(20 * time.Minute)
			}
			d := f.from("a", scaling)
			if d.Allowed || d.Retry <= 0 {
				t.Fatalf("one more: %+v", d)
			}
			f.fake.advance(d.Retry)
			if then := f.from("a", scaling); !then.Allowed {
				t.Errorf("was told to wait %v, and then %+v", d.Retry, then)
			}
		})
	}
}

// A fall to a lower level raises the threshold of the next violation, but there is none in the same
// window.
func TestViolationsAreOncePerWindowWhateverTheLevel(t *testing.T) {
	f, scaling := newFixture(t), newScaling(t, 100, time.Hour, 30)
	scaling.Ban = reputation.Ban{}
	for range 200 {
		f.from("a", scaling)
		f.fake.advance(minBetween)
	}
	f.from("b", scaling) // goes through the committer, and so all earlier work is done
	f.score("a", 1)
}

// punished counts the noted offenses.
type punished struct {
	noObserver
	offenses atomic.Int64
}

func (p *punished) Punished(reputation.Reason) { p.offenses.Add(1) }

// Requests of a banned client have no consequences, and so are not recorded.
func TestBannedClientMakesNoWrites(t *testing.T) {
	var seen punished
	f := newFixture(t, func(o *Options) { o.Observer = &seen })
	trap := reputation.Offense{
		Violation: reputation.Violation{Reason: reputation.Trapped},
		Ban:       reputation.Ban{After: 1, Within: time.Hour, For: time.Hour},
	}
	scaling := newScaling(t, 10, time.Hour, 0)
	f.from("a", scaling)
	for range 100 {
		f.Punish(&Client{Key: []byte("a")}, trap)
		f.fake.advance(2 * minBetween)
	}
	if got := seen.offenses.Load(); got != 1 {
		t.Errorf("%d offenses of a client that the first one banned were noted", got)
	}
}

// While the store can't be read no client is known, and still no client can fill up the queue for
// the offenses of all.
func TestOffensesOfAnUnknownClientAreOneASecond(t *testing.T) {
	inBubble(t, func(t *testing.T, e *faulty) {
		e.broken.Store(true)
		e.ask(debit(sliding(t, 10, time.Hour), "x", 1)) // reveals the fault
		for range 3 {
			for range 1000 {
				e.Punish(&Client{Key: []byte("a")}, reputation.Offense{Violation: reputation.Violation{Reason: reputation.Trapped}, Points: 1})
			}
			time.Sleep(minBetween)
		}
		if got := len(e.committer.offenses.first(maxOffenses)); got != 3 {
			t.Errorf("%d offenses of one client in three seconds wait", got)
		}
		e.broken.Store(false)
		time.Sleep(time.Minute)
		if r := e.disk.record("a", e.clock.Now()); len(r.Past) != 3 {
			t.Errorf("the store has heard of %+v, want 3 violations", r)
		}
	})
}

// Refusals by the reduced limit of an outage are no violations, however often they happen.
func TestNobodyIsToBlameForAnOutage(t *testing.T) {
	inBubble(t, func(t *testing.T, e *faulty) {
		scaling := newScaling(t, 10, time.Hour, 25)
		e.from("a", scaling)
		e.broken.Store(true)
		e.ask(debit(sliding(t, 10, time.Hour), "x", 1)) // reveals the fault
		if got := e.passing(9, "a", scaling); got != 3 {
			t.Errorf("%d passed, want 3 of the 4 that are 40 %%", got)
		}
		if r := e.CachedRecord(Client{Key: []byte("a")}); r == nil || len(r.Past) > 0 {
			t.Errorf("a client that has sent no more than it may is known for %+v", r)
		}
		e.broken.Store(false)
		time.Sleep(time.Minute)
		if got := e.passing(9, "a", scaling); got != 6 {
			t.Errorf("%d passed after the outage, want the 6 that are left", got)
		}
		if r := e.CachedRecord(Client{Key: []byte("a")}); r == nil || len(r.Past) != 1 {
			t.Errorf("a client that has sent more than it may is known for %+v", r)
		}
	})
}

// slowJustice counts the offenses that a store receives before each batch of claims, and accepts
// none before the test is ready.
type slowJustice struct {
	storage.Store
	ready    chan struct{}
	recorded *atomic.Int64
	read     func() // runs after clients were read; may be nil
}

func (s *slowJustice) Records(ctx context.Context, term *storage.Term, clients []storage.Client, records []reputation.Record) error {
	err := s.Store.Records(ctx, term, clients, records)
	if s.read != nil {
		s.read()
	}
	return err
}

func (s *slowJustice) Punish(ctx context.Context, term *storage.Term, offenses []storage.Offense, records []reputation.Record) error {
	<-s.ready
	s.recorded.Add(int64(len(offenses)))
	return s.Store.Punish(ctx, term, offenses, records)
}

// Claims are answered between offenses, regardless of the number of concurrently punished clients.
func TestClaimsDoNotWaitForAllOffenses(t *testing.T) {
	const clients = 10 * offenseBatch
	f, s := startJustice(t)
	var before atomic.Int64
	f.store.before = func([]storage.Claim) error { before.CompareAndSwap(0, s.recorded.Load()); return nil }
	for i := range clients {
		f.Punish(&Client{Key: fmt.Append(nil, i)}, reputation.Offense{Points: 1})
	}
	allowed := make(chan bool)
	go func() { allowed <- f.ask(debit(sliding(t, 10, time.Hour), "x", 1)).Allowed }()
	eventually(t, func() bool {
		f.committer.queue.mu.Lock()
		defer f.committer.queue.mu.Unlock()
		return f.committer.queue.batch != nil
	})
	close(s.ready)
	if !<-allowed {
		t.Error("was refused")
	}
	if got := before.Load(); got > 2*offenseBatch {
		t.Errorf("a claim waited for %d offenses", got)
	}
	eventually(t, func() bool { return s.recorded.Load() == clients })
}

// The state of a client doesn't keep its batch in memory, and with it all other clients of that
// batch.
func TestClientsDoNotKeepBatches(t *testing.T) {
	f, scaling := newFixture(t), newScaling(t, 10, time.Hour, 0)
	var batches []weak.Pointer[batch]
	<-f.Ready()
	for i := range 3 {
		client := &Client{Key: fmt.Append(nil, i)}
		f.table.ensureClient(client)
		b := f.committer.queue.join(func(b *batch) { b.readLocked(client) })
		<-b.done
		batches = append(batches, weak.Make(b))
	}
	f.from("b", scaling) // the committer has no more references to the others
	runtime.GC()
	if i := slices.IndexFunc(batches, func(w weak.Pointer[batch]) bool { return w.Value() != nil }); i >= 0 {
		t.Errorf("batch %d is kept", i)
	}
	if keys := f.table.Len(); keys != 5 {
		t.Errorf("%d keys are in memory, want 5", keys)
	}
}

// Clients that share a key and come in one batch are each limited by their own level.
func TestClientsOfOneKeyInOneBatch(t *testing.T) {
	atGate(t, func(t *testing.T, g *gate) {
		scaling := newScaling(t, 50, time.Hour, 0)
		g.disk.spoil("bad", g.clock.Now())
		begin := func(name string, cost int64) <-chan Decision {
			client := &Client{Key: []byte(name)}
			return g.begin(t.Context(), Debit{Limit: scaling.Levels[0], Key: []byte("all"), Cost: cost, Client: client, Scaling: scaling})
		}
		first := g.begin(t.Context(), Debit{Limit: scaling.Levels[0], Key: []byte("all"), Cost: 20})
		bad := begin("bad", 1)
		good := begin("good", 1)
		g.let() // and the first has spent its grant
		go g.letAll(t.Context())
		if d := <-first; !d.Allowed {
			t.Errorf("the first: %+v", d)
		}
		if d := <-bad; d.Allowed {
			t.Errorf("a client with a limit of 5 after 20 units were used: %+v", d)
		}
		if d := <-good; !d.Allowed {
			t.Errorf("a client with a limit of 50: %+v", d)
		}
	})
}

// banning is the offense of a visit to a banning trap.
var banning = reputation.Offense{
	Violation: reputation.Violation{Reason: reputation.Trapped},
	Ban:       reputation.Ban{After: 1, Within: time.Second, For: time.Hour},
}

// startJustice starts an engine on such a store.
func startJustice(t *testing.T) (*fixture, *slowJustice) {
	s := &slowJustice{ready: make(chan struct{}), recorded: new(atomic.Int64)}
	f := newFixture(t, func(o *Options) {
		open := o.Open
		o.Open = func(ctx context.Context) (storage.Store, error) {
			store, err := open(ctx)
			s.Store = store
			return s, err
		}
	})
	<-f.Ready()
	return f, s
}

// A ban holds from the moment of its offense on, before the store has recorded it and before the
// rest of the client's record is read.
func TestBanHoldsAtOnce(t *testing.T) {
	f, s := startJustice(t)
	defer close(s.ready)
	scaling := newScaling(t, 10, time.Hour, 0)
	f.Punish(&Client{Key: []byte("a")}, banning)
	if d := f.from("a", scaling); d.Reason != Banned || d.Retry != time.Hour || !d.Fresh || d.Waited != 0 {
		t.Fatalf("the first request after it: %+v", d)
	}
	if d := f.from("a", scaling); d.Reason != Banned || d.Fresh {
		t.Errorf("another one: %+v", d)
	}
	if r := f.CachedRecord(Client{Key: []byte("a")}); r == nil || len(r.Past) != 1 {
		t.Errorf("known of the client: %+v, want the visit", r)
	}
}

// A read of a client's record during its first offense doesn't undo the offense, neither for the
// reading request nor for later ones.
func TestBanHoldsWhileTheClientIsRead(t *testing.T) {
	f, s := startJustice(t)
	scaling := newScaling(t, 10, time.Hour, 0)
	s.read = func() { f.Punish(&Client{Key: []byte("a")}, banning) }
	if d := f.from("a", scaling); d.Reason != Banned {
		t.Errorf("a request that waited: %+v", d)
	}
	if d := f.from("a", scaling); d.Reason != Banned {
		t.Errorf("the next one: %+v", d)
	}
	close(s.ready)
	f.score("a", 1)
	if d := f.from("a", scaling); d.Reason != Banned {
		t.Errorf("once the store knows of it: %+v", d)
	}
}

// A client that commits an offense for points first is banned all the same by a banning one.
func TestOffenseThatBansCountsRightAfterAnother(t *testing.T) {
	f, scaling := newFixture(t), newScaling(t, 10, time.Hour, 0)
	f.from("a", scaling)
	trapped := reputation.Violation{Reason: reputation.Trapped}
	f.Punish(&Client{Key: []byte("a")}, reputation.Offense{Violation: trapped, Points: 25})
	f.Punish(&Client{Key: []byte("a")}, reputation.Offense{Violation: trapped, Points: 25, Ban: banning.Ban})
	if d := f.from("a", scaling); d.Reason != Banned {
		t.Errorf("after a trap that bans: %+v", d)
	}
}
