package regions

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/region"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/exchange"
	"github.com/caddy-tally/caddy-tally/storage/exchange/exchangetest"
	"github.com/caddy-tally/caddy-tally/storage/memory"
)

var errGone = errors.New("test: the exchange is gone")

// testName names keys identically in all regions.
func testName(limit storage.LimitID, key []byte, period int64) (storage.Key, bool) {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %s %d", limit, key, period))
	return storage.Key(sum[:16]), true
}

// site is a region with an engine on a store in memory.
type site struct {
	*Regions
	t      *testing.T
	engine *engine.Engine
	heard  heard
}

// heard counts the observer's events.
type heard struct {
	published, applied, made, failed, recovered atomic.Int64

	erred [4]atomic.Int64 // by step
}

var steps = []string{"open", "meet", "publish", "collect"}

func (h *heard) Published(rows int)          { h.published.Add(int64(rows)) }
func (h *heard) Failed(time.Duration, error) { h.failed.Add(1) }
func (h *heard) Recovered(time.Duration)     { h.recovered.Add(1) }
func (h *heard) Erred(step string)           { h.erred[slices.Index(steps, step)].Add(1) }
func (h *heard) Collected(_, applied, made int) {
	h.applied.Add(int64(applied))
	h.made.Add(int64(made))
}

// relay notifies a site of the bans of its engine.
type relay struct {
	engine.Observer
	to atomic.Pointer[Regions]
}

func (r *relay) Banned(client []byte, reason reputation.Reason, until int64) {
	r.to.Load().Banned(client, reason, until)
}
func (*relay) Committed(int, time.Duration)           {}
func (*relay) Swept(int64, int, time.Duration, error) {}
func (*relay) Punished(reputation.Reason)             {}
func (*relay) Degraded(time.Duration, error)          {}
func (*relay) Recovered(time.Duration)                {}

// open opens a region on an exchange. Its store may be shared with another one.
func open(t *testing.T, name string, at *exchangetest.Memory, counts *memory.Database, change ...func(*Options)) *site {
	t.Helper()
	return openApart(t, name, at, counts, nil, change...)
}

// openApart opens a region with a clock of its own, unless it is nil.
func openApart(t *testing.T, name string, at *exchangetest.Memory, counts *memory.Database, clock engine.Clock, change ...func(*Options)) *site {
	t.Helper()
	r, s := new(relay), &site{t: t}
	s.engine = engine.New(engine.Options{
		Open: counts.Opener(memory.Options{}), Observer: r, Clock: clock,
		Name: func(id storage.LimitID, key string, _ time.Duration, _ int64) (engine.Name, error) {
			name, _ := testName(id, []byte(key), 0)
			return engine.Name{Key: name}, nil
		},
	})
	options := Options{
		Region: name, Engine: s.engine, Name: testName, Observer: &s.heard,
		Database: func() (unknown storage.Key) { return unknown },
		Open:     func(context.Context) (exchange.Exchange, error) { return at, nil },
	}
	for _, c := range change {
		c(&options)
	}
	s.Regions = New(options)
	r.to.Store(s.Regions)
	return s
}

func (s *site) close() {
	s.t.Helper()
	if err := errors.Join(s.Close(context.Background()), s.engine.Close(context.Background())); err != nil {
		s.t.Error(err)
	}
}

func (s *site) ask(client *engine.Client, l *engine.Limit, key string) (engine.Decision, engine.Debit) {
	debits := []engine.Debit{{Limit: l, Key: []byte(key), Cost: 1}}
	return s.Decide(context.Background(), client, debits), debits[0]
}

// count sends n requests and returns how many were allowed.
func (s *site) count(n int, l *engine.Limit, key string) (allowed int) {
	for range n {
		if d, _ := s.ask(nil, l, key); d.Allowed {
			allowed++
		}
	}
	return allowed
}

func limitOf(t *testing.T, p limiter.Params) *engine.Limit {
	t.Helper()
	l, err := limiter.New(p)
	if err != nil {
		t.Fatal(err)
	}
	return &engine.Limit{ID: storage.LimitID(1 + p.Algorithm), Rate: l}
}

// inBubble runs f with regions on one exchange, in virtual time.
func inBubble(t *testing.T, f func(at *exchangetest.Memory, eu, us, ap *site), change ...func(*Options)) {
	bubble.Test(t, func(t *testing.T) {
		at := new(exchangetest.Memory)
		var sites []*site
		for _, region := range []string{"eu", "us", "ap"} {
			sites = append(sites, open(t, region, at, memory.New(), change...))
		}
		synctest.Wait()
		time.Sleep(12 * time.Second) // all have met
		f(at, sites[0], sites[1], sites[2])
		for _, s := range sites {
			s.close()
		}
	})
}

// turns is the longest time until all regions know the units that one has admitted.
const turns = 12*time.Second + time.Millisecond

var everyAlgorithm = []limiter.Algorithm{limiter.Sliding, limiter.Fixed, limiter.TokenBucket}

func TestWhatOneRegionAdmitsCountsInOthers(t *testing.T) {
	for _, algorithm := range everyAlgorithm {
		t.Run(algorithm.String(), func(t *testing.T) {
			l := limitOf(t, limiter.Params{Algorithm: algorithm, Amount: 1000, Window: 2400 * time.Hour})
			inBubble(t, func(_ *exchangetest.Memory, eu, us, ap *site) {
				if got := eu.count(600, l, "key"); got != 600 {
					t.Fatalf("%d of 600 passed", got)
				}
				us.count(1, l, "key") // it knows of it from before
				time.Sleep(turns)
				if got := us.count(1000, l, "key"); got != 399 {
					t.Errorf("us admits %d more of a limit of 1000, of which eu has admitted 600 and us 1", got)
				}
				time.Sleep(turns)
				if got := ap.count(100, l, "key"); got != 0 {
					t.Errorf("ap admits %d of a limit that is used up", got)
				}
				if got := ap.count(100, l, "another"); got != 100 {
					t.Errorf("ap admits %d of 100 of a key that nobody else knows", got)
				}
			})
		})
	}
}

// A client that waits as long as Retry-After says is admitted.
func TestRetryIsTrueAcrossRegions(t *testing.T) {
	l := limitOf(t, limiter.Params{Amount: 100, Window: time.Minute})
	inBubble(t, func(_ *exchangetest.Memory, eu, us, _ *site) {
		eu.count(70, l, "key")
		time.Sleep(turns)
		us.count(100, l, "key")
		time.Sleep(turns)
		for _, s := range []*site{eu, us} {
			d, debit := s.ask(nil, l, "key")
			if d.Allowed || d.Retry <= 0 || d.Retry > 68*time.Second || debit.Quota.Remaining != 0 {
				t.Fatalf("%s: %+v, %+v", s.me.Region, d, debit.Quota)
			}
			time.Sleep(d.Retry)
			if d, _ := s.ask(nil, l, "key"); !d.Allowed {
				t.Errorf("%s: refused after that wait: %+v", s.me.Region, d)
			}
		}
	})
}

// The same after a restart, including the region's own earlier counts.
func TestRetryIsTrueAfterARestart(t *testing.T) {
	l := limitOf(t, limiter.Params{Amount: 100, Window: time.Minute})
	inBubble(t, func(at *exchangetest.Memory, eu, _, _ *site) {
		counts := memory.New()
		first := open(t, "again", at, counts)
		time.Sleep(turns)
		eu.count(40, l, "key")
		time.Sleep(20 * time.Second)
		first.count(60, l, "key")
		first.close()
		again := open(t, "again", at, counts)
		defer again.close()
		time.Sleep(turns)
		ask := func() engine.Decision {
			return again.Decide(context.Background(), nil, []engine.Debit{{Limit: l, Key: []byte("key"), Cost: 70}})
		}
		d := ask()
		if d.Allowed || d.Retry <= 0 {
			t.Fatalf("70 more of 100 that are used up: %+v", d)
		}
		time.Sleep(d.Retry)
		if d := ask(); !d.Allowed {
			t.Errorf("refused after that wait: %+v", d)
		}
	})
}

// A key with little usage everywhere is not published. With more usage every change is.
func TestLittleUseIsNotPublished(t *testing.T) {
	l := limitOf(t, limiter.Params{Amount: 1000, Window: time.Hour})
	inBubble(t, func(at *exchangetest.Memory, eu, us, _ *site) {
		eu.count(125, l, "key") // 1/(4·2) of the limit
		time.Sleep(turns)
		if got := at.Rows(); got != 0 {
			t.Fatalf("%d rows were published of a key of which an eighth is used", got)
		}
		us.count(126, l, "key")
		time.Sleep(turns)
		eu.count(1, l, "other")
		time.Sleep(turns)
		if got := at.Rows(); got != 2 {
			t.Errorf("%d rows, want one of each region that uses the key", got)
		}
		if got := us.count(1000, l, "key"); got != 1000-126-125 {
			t.Errorf("us admits %d more, want %d", got, 1000-126-125)
		}
	})
}

// Without the exchange each region continues alone, and requests are not affected. When it is back,
// all counts that are still valid are exchanged.
func TestTheExchangeIsAway(t *testing.T) {
	l := limitOf(t, limiter.Params{Amount: 100, Window: 10 * time.Minute})
	inBubble(t, func(at *exchangetest.Memory, eu, us, ap *site) {
		at.Fail(func(string) error { return errGone })
		for range 7 { // 70 minutes
			for _, s := range []*site{eu, us, ap} {
				began := time.Now()
				if got := s.count(200, l, "key"); got > 100 || got < 80 {
					t.Errorf("%s admits %d of 100", s.me.Region, got)
				}
				if time.Since(began) > 10*time.Millisecond {
					t.Errorf("requests waited for %v", time.Since(began))
				}
			}
			time.Sleep(10*time.Minute + 10*time.Second)
		}
		if s := eu.Stats(); !errors.Is(s.Cause, errGone) || time.Since(s.Since) < time.Hour || s.Lag < time.Hour {
			t.Errorf("the state is %+v", s)
		}
		if got := eu.heard.failed.Load(); got < 30 || got > 75 {
			t.Errorf("it was reported %d times in 70 minutes", got)
		}
		at.Fail(nil)
		eu.count(60, l, "key")
		time.Sleep(2*maxPause + turns)
		if got := us.count(100, l, "key"); got != 40 {
			t.Errorf("us admits %d of the 40 that eu has left", got)
		}
		if s := eu.Stats(); s.Cause != nil || s.Lag > turns || eu.heard.recovered.Load() != 1 {
			t.Errorf("the state is %+v", s)
		}
	})
}

// An exchange that has lost everything gets it again.
func TestTheExchangeLosesEverything(t *testing.T) {
	l := limitOf(t, limiter.Params{Amount: 100, Window: time.Hour})
	inBubble(t, func(at *exchangetest.Memory, eu, us, ap *site) {
		eu.count(60, l, "key")
		time.Sleep(turns)
		at.Lose()
		time.Sleep(2 * turns)
		late := open(t, "late", at, memory.New())
		defer late.close()
		time.Sleep(time.Second)
		if got := late.count(100, l, "key"); got != 40 {
			t.Errorf("a region that comes later admits %d of the 40 that are left", got)
		}
	})
}

// Calls that fail before or after the exchange has taken them lose nothing and count nothing
// twice.
func TestCallsThatFail(t *testing.T) {
	for _, algorithm := range everyAlgorithm {
		l := limitOf(t, limiter.Params{Algorithm: algorithm, Amount: 1000, Window: 2400 * time.Hour})
		inBubble(t, func(at *exchangetest.Memory, eu, us, _ *site) {
			calls := 0
			us.count(1, l, "key")
			for n := range 30 {
				at.Fail(func(call string) error {
					if calls++; calls%(2+n%5) == 0 {
						return errGone
					}
					return nil
				})
				eu.count(20, l, "key")
				time.Sleep(7 * time.Second)
			}
			at.Fail(func(call string) error {
				if call == "publish" {
					return errGone
				}
				return nil
			})
			eu.count(20, l, "key")
			time.Sleep(2 * maxPause)
			at.Fail(nil)
			time.Sleep(2*maxPause + turns)
			if got := us.count(1000, l, "key"); got != 379 {
				t.Errorf("%v: us admits %d more, want 379", algorithm, got)
			}
		})
	}
}

// Errors are counted by the step that failed.
func TestErrorsByStep(t *testing.T) {
	l := limitOf(t, limiter.Params{Amount: 1000, Window: 2400 * time.Hour})
	inBubble(t, func(at *exchangetest.Memory, eu, us, _ *site) {
		us.count(1, l, "key")
		for i, step := range steps[1:] {
			at.Fail(func(call string) error {
				if call == step {
					return errGone
				}
				return nil
			})
			eu.count(300, l, "key")
			time.Sleep(2 * maxPause)
			for j := range steps {
				if n := eu.heard.erred[j].Load(); n > 0 != (j <= i+1 && j > 0) {
					t.Errorf("while %s fails: %d errors of %s", step, n, steps[j])
				}
			}
			at.Fail(nil)
			time.Sleep(2 * maxPause)
		}
	})
}

// slowExchange takes half a second to meet, and counts how often.
type slowExchange struct {
	exchange.Exchange
	met *atomic.Int64
}

func (s slowExchange) Meet(ctx context.Context, m exchange.Member) (exchange.Met, error) {
	time.Sleep(time.Second / 2)
	s.met.Add(1)
	return s.Exchange.Meet(ctx, m)
}

// The time that a turn takes doesn't delay the turns after it.
func TestTurnsKeepTheirPace(t *testing.T) {
	var met atomic.Int64
	inBubble(t, func(_ *exchangetest.Memory, eu, _, _ *site) {
		before := met.Load()
		time.Sleep(300 * eu.opts.Interval)
		if turns := met.Load() - before; turns < 3*299 || turns > 3*301 {
			t.Errorf("%d turns of three regions in 300 intervals", turns)
		}
	}, func(o *Options) {
		opened := o.Open
		o.Open = func(ctx context.Context) (exchange.Exchange, error) {
			inner, err := opened(ctx)
			return slowExchange{inner, &met}, err
		}
	})
}

// A restarted region learns the counts that it has lost, and charges its bucket with nothing twice.
func TestARegionIsStartedAgain(t *testing.T) {
	for _, algorithm := range everyAlgorithm {
		for n, name := range []string{"with an empty store", "with its store", "with an empty store, asked early", "with its store, asked early"} {
			kept, early := n%2 == 1, n > 1
			t.Run(algorithm.String()+" "+name, func(t *testing.T) {
				l := limitOf(t, limiter.Params{Algorithm: algorithm, Amount: 1000, Window: 2400 * time.Hour})
				inBubble(t, func(at *exchangetest.Memory, eu, us, _ *site) {
					counts := memory.New()
					first := open(t, "again", at, counts)
					time.Sleep(turns)
					first.count(1, l, "key")
					eu.count(300, l, "key")
					time.Sleep(turns)
					first.count(1, l, "key")
					first.close()
					eu.count(200, l, "key")
					us.count(200, l, "key")
					time.Sleep(turns)
					if !kept {
						counts = memory.New()
					}
					at.Fail(func(string) error { return errGone })
					again := open(t, "again", at, counts)
					defer again.close()
					if early {
						again.count(1, l, "key")
					}
					at.Fail(nil)
					time.Sleep(2 * turns)
					if got := again.count(1000, l, "key"); got < 297 || got > 302+16 { // a lease of up to 16 units may have seemed used
						t.Errorf("it admits %d more, want 300 less what it has admitted itself", got)
					}
				})
			})
		}
	}
}

// A machine that is started again knows from its store what it used without publishing it: all regions together
// admit a quarter beyond a limit at most, however often machines start.
func TestARestartHidesNothing(t *testing.T) {
	const starts = 5
	l := limitOf(t, limiter.Params{Amount: 1000, Window: 2400 * time.Hour})
	inBubble(t, func(at *exchangetest.Memory, eu, _, _ *site) {
		const share = 1000 / 4 / 3 // of each machine but one
		counts, all := memory.New(), 0
		for range starts {
			again := open(t, "again", at, counts)
			time.Sleep(turns)
			all += again.count(share, l, "key")
			time.Sleep(turns)
			again.close()
		}
		if all != starts*share {
			t.Fatalf("%d of %d requests passed before", all, starts*share)
		}
		if all += eu.count(2000, l, "key"); all > 1000+1000/4 {
			t.Errorf("after %d starts %d are admitted, want at most %d", starts, all, 1000+1000/4)
		}
	})
}

// A ban applies in other regions at once, and no longer than in its own.
func TestBansSpread(t *testing.T) {
	l := limitOf(t, limiter.Params{Amount: 100, Window: time.Hour})
	client := func() *engine.Client { return &engine.Client{Key: []byte("client")} }
	inBubble(t, func(at *exchangetest.Memory, eu, us, ap *site) {
		us.ask(client(), l, "key")
		eu.engine.Punish(client(), reputation.Offense{
			Violation: reputation.Violation{Reason: reputation.Trapped},
			Ban:       reputation.Ban{After: 1, Within: time.Hour, For: time.Hour},
		})
		time.Sleep(urgentAfter + 6*time.Second) // published at once, and collected within a turn
		d, _ := us.ask(client(), l, "key")
		if d.Reason != engine.Banned || d.Retry > time.Hour || d.Retry < time.Hour-7*time.Second {
			t.Fatalf("us decides %+v about a client that eu has banned for an hour", d)
		}
		if d, _ := us.ask(&engine.Client{Key: []byte("another")}, l, "key"); !d.Allowed {
			t.Errorf("and about another one %+v", d)
		}
		ap.ask(client(), l, "key")
		time.Sleep(d.Retry)
		for _, s := range []*site{us, ap, eu} {
			if d, _ := s.ask(client(), l, "key"); !d.Allowed {
				t.Errorf("after the ban %s decides %+v", s.me.Region, d)
			}
		}
	})
}

// lift lifts the bans of a client, as an operator's command does.
func (s *site) lift(client string) {
	s.t.Helper()
	var lasts time.Duration
	if record := s.engine.CachedRecord(engine.Client{Key: []byte(client)}); record != nil {
		lasts = max(time.Duration(record.Until-s.engine.Now()), 0)
	}
	lasts = s.LiftLasts([]byte(client), lasts)
	if err := s.engine.Reset(context.Background(), []engine.Reset{{Key: client, Lifts: lasts}}); err != nil {
		s.t.Fatal(err)
	}
	s.Lifted([]byte(client), lasts)
}

// ban bans a client for a violation.
func (s *site) ban(client string, lasts time.Duration) {
	s.engine.Punish(&engine.Client{Key: []byte(client)}, reputation.Offense{
		Violation: reputation.Violation{Reason: reputation.Trapped},
		Ban:       reputation.Ban{After: 1, Within: time.Hour, For: lasts, Most: lasts},
	})
}

// What an operator has lifted in one region is lifted in all of them, also after restarts, while the exchange is
// away, and when several have banned the client. A later violation bans again.
func TestLiftedStaysLifted(t *testing.T) {
	const year = 365 * 24 * time.Hour
	l := limitOf(t, limiter.Params{Amount: 100, Window: time.Hour})
	for _, away := range []bool{false, true} {
		for _, bothBan := range []bool{false, true} {
			t.Run(fmt.Sprintf("away=%v both=%v", away, bothBan), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					at := new(exchangetest.Memory)
					counts := []*memory.Database{memory.New(), memory.New()}
					sites := []*site{open(t, "eu", at, counts[0]), open(t, "us", at, counts[1])}
					restart := func() {
						for i, s := range sites {
							s.close()
							sites[i] = open(t, s.me.Region, at, counts[i], func(o *Options) { o.Interval = 7 * time.Second })
						}
						synctest.Wait()
					}
					defer func() {
						for _, s := range sites {
							s.close()
						}
					}()
					expect := func(when string, s *site, allowed bool) {
						t.Helper()
						if d, _ := s.ask(&engine.Client{Key: []byte("client")}, l, "key"); d.Allowed != allowed {
							t.Errorf("%s, %s decides %+v", when, s.me.Region, d)
						}
					}
					time.Sleep(turns)
					sites[0].ban("client", year)
					if bothBan {
						sites[1].ban("client", year/2)
					}
					time.Sleep(turns)
					expect("banned", sites[1], false)
					restart()
					time.Sleep(turns)
					expect("banned and restarted", sites[0], false)
					expect("banned and restarted", sites[1], false)
					if away {
						at.Fail(func(string) error { return errGone })
					}
					sites[0].lift("client")
					expect("lifted", sites[0], true)
					if away {
						restart()
						expect("lifted without the exchange, and restarted", sites[0], true)
						at.Fail(nil)
						time.Sleep(2*maxPause + turns)
						expect("the exchange is back", sites[0], true)
					}
					time.Sleep(2 * turns)
					expect("a turn later", sites[1], true)
					for range 3 {
						restart()
						time.Sleep(2 * turns)
						expect("lifted and restarted", sites[1], true)
						expect("lifted and restarted", sites[0], true)
					}
					time.Sleep(time.Minute)
					sites[1].ban("client", time.Hour)
					time.Sleep(turns)
					expect("banned again", sites[0], false)
					restart()
					time.Sleep(turns)
					expect("banned again and restarted", sites[0], false)
					time.Sleep(time.Hour)
					expect("the second ban has ended", sites[0], true)
					restart()
					time.Sleep(turns)
					expect("the second ban has ended", sites[1], true)
				})
			})
		}
	}
}

// A ban that a process could not publish before it was killed is published when it refuses the client again.
func TestBanIsPublishedAfterKill(t *testing.T) {
	l := limitOf(t, limiter.Params{Amount: 100, Window: time.Hour})
	bubble.Test(t, func(t *testing.T) {
		at, counts := new(exchangetest.Memory), memory.New()
		eu, us := open(t, "eu", at, counts), open(t, "us", at, memory.New())
		defer us.close()
		time.Sleep(turns)
		at.Fail(func(string) error { return errGone })
		eu.ban("client", time.Hour)
		time.Sleep(time.Second)
		eu.close()
		eu = open(t, "eu", at, counts)
		defer func() { eu.close() }()
		at.Fail(nil)
		time.Sleep(2*maxPause + turns)
		client := &engine.Client{Key: []byte("client")}
		if d, _ := eu.ask(client, l, "key"); d.Reason != engine.Banned {
			t.Fatalf("its own region decides %+v", d)
		}
		time.Sleep(turns)
		if d, _ := us.ask(&engine.Client{Key: []byte("client")}, l, "key"); d.Reason != engine.Banned {
			t.Errorf("another region decides %+v", d)
		}
	})
}

// kept is an exchange that a process leaves without a word, as if it were killed: nothing is published any more.
type kept struct {
	exchange.Exchange
	dead *atomic.Bool
}

func (k kept) Publish(ctx context.Context, rows []exchange.Row, bans []exchange.Ban) error {
	if k.dead.Load() {
		return errGone
	}
	return k.Exchange.Publish(ctx, rows, bans)
}

// mortal makes a region one that can be killed.
func mortal(dead *atomic.Bool) func(*Options) {
	return func(o *Options) {
		opened := o.Open
		o.Open = func(ctx context.Context) (exchange.Exchange, error) {
			inner, err := opened(ctx)
			return kept{inner, dead}, err
		}
	}
}

// Units that a process admitted and could not publish before it was killed are known to all regions a turn after
// the key's next request.
func TestUnitsAreToldAfterKill(t *testing.T) {
	for _, algorithm := range everyAlgorithm {
		for _, window := range []time.Duration{time.Hour, 720 * time.Hour} {
			l := limitOf(t, limiter.Params{Algorithm: algorithm, Amount: 1000, Window: window})
			inBubble(t, func(at *exchangetest.Memory, eu, us, _ *site) {
				counts := memory.New()
				var dead atomic.Bool
				first := open(t, "again", at, counts, mortal(&dead))
				time.Sleep(turns)
				first.count(300, l, "key")
				time.Sleep(turns)
				dead.Store(true)
				first.count(400, l, "key")
				first.close()
				again := open(t, "again", at, counts)
				defer again.close()
				time.Sleep(time.Second)
				again.count(1, l, "key")
				again.count(1, l, "other")
				time.Sleep(turns)
				got := us.count(2000, l, "key")
				if got > 300+12 || got < 295 || got > 300 && algorithm != limiter.TokenBucket { // buckets refill
					t.Errorf("%v %v: us admits %d of the 299 that are left", algorithm, window, got)
				}
				if algorithm == limiter.Fixed {
					return
				}
				time.Sleep(turns)
				if k := again.table.find(l.ID, []byte("other")); k == nil || k.untold.Load() {
					t.Errorf("a key with no other use is still looked for: %+v", k)
				}
			})
		}
	}
}

// If more rows are written than a sweep deletes at a time, it goes on until nothing is left.
func TestSweepsKeepUp(t *testing.T) {
	l := limitOf(t, limiter.Params{Amount: 1, Window: time.Minute})
	bubble.Test(t, func(t *testing.T) {
		at := &exchangetest.Memory{SweepRows: 1}
		eu, us := open(t, "eu", at, memory.New()), open(t, "us", at, memory.New())
		defer us.close()
		defer eu.close()
		time.Sleep(turns)
		for i := range 3000 { // 300 in a minute, of which a sweep deletes one at a time
			eu.count(1, l, fmt.Sprint(i))
			time.Sleep(time.Minute / 300)
		}
		if got := at.Rows(); got > 4*300 {
			t.Errorf("the exchange has %d rows, want those of some minutes", got)
		}
	})
}

// Memory and the exchange stay bounded, and become empty when nothing counts any more.
func TestNothingIsLeft(t *testing.T) {
	l := limitOf(t, limiter.Params{Amount: 2, Window: time.Minute})
	bubble.Test(t, func(t *testing.T) {
		at := new(exchangetest.Memory)
		few := func(o *Options) { o.MaxKeys = 50 }
		eu, us := open(t, "eu", at, memory.New(), few), open(t, "us", at, memory.New(), few)
		defer us.close()
		defer eu.close()
		time.Sleep(turns)
		for i := range 500 {
			if got := eu.count(1, l, fmt.Sprint(i)); got != 1 {
				t.Fatalf("key %d was refused", i)
			}
		}
		time.Sleep(turns)
		if s := eu.Stats(); s.Keys != 50 || s.Untracked != 450 || s.Names > 50*namesPerKey {
			t.Errorf("the state is %+v", s)
		}
		if s := us.Stats(); s.Names != 50 || us.heard.made.Load() != 50 {
			t.Errorf("us: the state is %+v", s)
		}
		time.Sleep(5 * time.Minute)
		for _, s := range []*site{eu, us} {
			if s := s.Stats(); s.Keys != 0 || s.Names != 0 {
				t.Errorf("later, the state is %+v", s)
			}
		}
		if got := at.Rows(); got != 0 {
			t.Errorf("the exchange has %d rows", got)
		}
	})
}

// Units of a key that was dropped meanwhile are counted.
func TestAdmittedOfAKeyThatWasDropped(t *testing.T) {
	l := limitOf(t, limiter.Params{Amount: 100, Window: time.Hour})
	inBubble(t, func(_ *exchangetest.Memory, eu, us, _ *site) {
		debits := []engine.Debit{{Limit: l, Key: []byte("key"), Cost: 60}}
		eu.Lower(debits)
		time.Sleep(2 * sweepEvery)
		if got := eu.Stats().Keys; got != 0 {
			t.Fatalf("%d keys are there, want none of which nothing was admitted", got)
		}
		eu.count(30, l, "key")
		eu.admitted(debits, eu.engine.Now())
		time.Sleep(turns)
		if got := us.count(100, l, "key"); got != 10 {
			t.Errorf("us admits %d, want 10", got)
		}
	})
}

// A name is valid for a day; units under the previous name continue to count.
func TestNamesChangeEveryDay(t *testing.T) {
	inBubble(t, func(_ *exchangetest.Memory, eu, us, _ *site) {
		l := limitOf(t, limiter.Params{Amount: 100, Window: time.Hour})
		for changes := false; !changes; { // within some hours
			l = limitOf(t, limiter.Params{Amount: 100, Window: l.Window() + 10*time.Minute})
			k := newKey(&engine.Debit{Limit: l})
			changes = l.Window() > 6*time.Hour && k.periodAt(eu.engine.Now()+int64(2*time.Hour)) != k.periodAt(eu.engine.Now()+int64(time.Hour))
		}
		eu.count(30, l, "key")
		us.count(1, l, "key")
		first := us.table.find(l.ID, []byte("key")).period.Load()
		for range 20 { // these units count until the next day
			time.Sleep(15 * time.Minute)
			eu.count(2, l, "key")
		}
		time.Sleep(12 * time.Minute)
		if got := us.count(100, l, "key"); got != 29 {
			t.Errorf("us admits %d more, want 29", got)
		}
		if us.table.find(l.ID, []byte("key")).period.Load() == first {
			t.Error("the name has not changed")
		}
	}, func(o *Options) { o.Interval = 5 * time.Minute })
}

// A request whose use of units is determined later is published then.
func TestWhatIsKnownLaterToCount(t *testing.T) {
	l := limitOf(t, limiter.Params{Amount: 100, Window: time.Hour})
	inBubble(t, func(_ *exchangetest.Memory, eu, us, _ *site) {
		for _, counts := range []bool{true, false} {
			debits := []engine.Debit{{Limit: l, Key: []byte("key"), Cost: 30, Counting: engine.Afterwards}}
			if d := eu.Decide(context.Background(), nil, debits); !d.Allowed {
				t.Fatalf("%+v", d)
			}
			debits[0].Pending.Settle(counts)
		}
		time.Sleep(turns)
		if got := us.count(100, l, "key"); got != 70 {
			t.Errorf("us admits %d, want 70", got)
		}
	})
}

// Several machines of a region that share a store charge its buckets once with another region's
// units, whichever of them use the key.
func TestMachinesOfARegionChargeOnce(t *testing.T) {
	for _, algorithm := range everyAlgorithm {
		l := limitOf(t, limiter.Params{Algorithm: algorithm, Amount: 1000, Window: 2400 * time.Hour})
		for users := range 3 {
			bubble.Test(t, func(t *testing.T) {
				at, counts := new(exchangetest.Memory), memory.New()
				us := open(t, "us", at, memory.New())
				eu := []*site{open(t, "eu", at, counts), open(t, "eu", at, counts)}
				defer us.close()
				defer eu[0].close()
				defer eu[1].close()
				time.Sleep(turns)
				for _, s := range eu[:users] {
					s.count(1, l, "key")
				}
				time.Sleep(turns)
				for range 2 {
					us.count(200, l, "key")
					time.Sleep(2 * turns)
				}
				got := eu[0].count(300, l, "key") + eu[1].count(1000, l, "key")
				lease := int(l.Amount()) / 20 // of another machine, which may be given back later
				if want := 600 - users; got < want-lease || got > want {
					t.Errorf("%v, %d machines that use the key: the region admits %d more, want %d", algorithm, users, got, want)
				}
			})
		}
	}
}

// Regions that use a token bucket all the time share the refilled units, even if the burst is far
// less than the units refilled between two turns.
func TestABucketRefillsOnceForAll(t *testing.T) {
	l := limitOf(t, limiter.Params{Algorithm: limiter.TokenBucket, Amount: 600, Window: time.Minute, Burst: 10})
	inBubble(t, func(_ *exchangetest.Memory, eu, us, ap *site) {
		admitted := 0
		for range 4 * 60 * 5 {
			for _, s := range []*site{eu, us, ap} {
				admitted += s.count(4, l, "key")
			}
			time.Sleep(200 * time.Millisecond)
		}
		if most := 600*4 + 3*10 + 3*12*10; admitted > most || admitted < 600*4*3/4 {
			t.Errorf("three regions admit %d in four minutes, want at most %d", admitted, most)
		}
	})
}

// A region that has not used a bucket for long is charged when it uses the bucket again.
func TestABucketThatWasNotUsedForLong(t *testing.T) {
	l := limitOf(t, limiter.Params{Algorithm: limiter.TokenBucket, Amount: 100, Window: time.Hour})
	inBubble(t, func(_ *exchangetest.Memory, eu, us, _ *site) {
		eu.count(1, l, "key")
		for range 8 { // so that it still knows the key when its own unit doesn't count any more
			us.count(20, l, "key")
			time.Sleep(10 * time.Minute)
		}
		time.Sleep(30 * time.Minute)
		us.count(60, l, "key")
		time.Sleep(turns)
		if got := eu.count(100, l, "key"); got < 39 || got > 41 {
			t.Errorf("eu admits %d, want 40", got)
		}
	})
}

// Regions count a raised client together, up to what it is raised to, although one of them knew it before the raise: they
// agree on slots, and charge buckets by the rate in force. A client with less is published sooner.
func TestRaisedClientsAreSharedByRegions(t *testing.T) {
	for _, algorithm := range everyAlgorithm {
		for _, percent := range []int{1000, 10} {
			t.Run(fmt.Sprint(algorithm, percent), func(t *testing.T) {
				p := limiter.Params{Algorithm: algorithm, Amount: 300, Window: 2400 * time.Hour}
				if algorithm == limiter.TokenBucket {
					p.Burst = 301 // rounded, a raised one refills in another time
				}
				l := limitOf(t, p)
				inBubble(t, func(_ *exchangetest.Memory, eu, us, ap *site) {
					raise := &engine.Raise{Percent: percent, Limit: l}
					count := func(s *site, n int) (allowed int) {
						for range n {
							debits := []engine.Debit{{Limit: l.Raise(percent), Raise: raise, Key: []byte("key"), Cost: 1}}
							if s.Decide(context.Background(), nil, debits).Allowed {
								allowed++
							}
						}
						return allowed
					}
					us.count(1, l, "key")
					count(us, 1)
					most := int(l.Raise(percent).Capacity())
					if got := count(eu, most/2); got != most/2 {
						t.Fatalf("%d of %d passed", got, most/2)
					}
					time.Sleep(turns)
					if got, want := count(us, 4000), most-most/2-2; got < want-2 || got > want {
						t.Errorf("us admits %d more of %d, of which eu has admitted %d and us 2", got, most, most/2)
					}
					time.Sleep(turns)
					if got := count(ap, 100); got > 2 {
						t.Errorf("ap admits %d of a limit that is used up", got)
					}
				})
			})
		}
	}
}

// What keeps regions from counting together is a fault: clocks, secrets and databases that differ, a region with
// another one's database, and one that is silent. It ends with its cause.
func TestFaults(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		at, home := new(exchangetest.Memory), storage.Key{1}
		eu := open(t, "eu", at, memory.New(), func(o *Options) { o.Database = func() storage.Key { return home } })
		defer eu.close()
		synctest.Wait()
		secret, _ := testName(0, nil, markPeriod)
		right := exchange.Member{Component: region.Component{Region: "us", Machine: 7}, Secret: secret, Database: storage.Key{2}, Patience: time.Hour}
		for _, c := range []struct {
			change func(m *exchange.Member)
			want   string
		}{
			{func(m *exchange.Member) {}, "[]"},
			{func(m *exchange.Member) { m.Now -= int64(10 * time.Minute) }, "[clock]"},
			{func(m *exchange.Member) { m.Now += int64(maxApart + time.Second) }, "[clock]"},
			{func(m *exchange.Member) { m.Now += int64(maxApart - time.Second) }, "[]"},
			{func(m *exchange.Member) { m.Secret = storage.Key{3} }, "[secret]"},
			{func(m *exchange.Member) { m.Database = home }, "[same_database]"},
			{func(m *exchange.Member) { m.Database, m.Secret = storage.Key{}, storage.Key{} }, "[]"}, // they aren't known yet
			{func(m *exchange.Member) { m.Region, m.Database = "eu", storage.Key{4} }, "[database]"},
		} {
			m := right
			m.Now = time.Now().UnixNano()
			c.change(&m)
			if _, err := at.Meet(context.Background(), m); err != nil {
				t.Fatal(err)
			}
			time.Sleep(turns)
			found := []Fault{}
			for _, r := range eu.Stats().Regions {
				found = append(found, r.Faults...)
			}
			if got := fmt.Sprint(found); got != c.want {
				t.Errorf("%+v: the faults are %s, want %s", m, got, c.want)
			}
			if err := at.Leave(context.Background(), m); err != nil {
				t.Fatal(err)
			}
			if c.want == "[same_database]" { // a region that had it is noticed for a day
				time.Sleep(25 * time.Hour)
			}
		}
		m := right
		m.Now = time.Now().UnixNano()
		if _, err := at.Meet(context.Background(), m); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		for _, r := range eu.Stats().Regions {
			if silent := slices.Contains(r.Faults, Silent); silent != (r.Name == "us") || silent && (r.Gone != 1 || r.Machines != 0) {
				t.Errorf("ten minutes after us was killed: %+v", r)
			}
		}
		time.Sleep(25 * time.Hour)
		if got := eu.Stats().Regions; len(got) != 1 {
			t.Errorf("a day later: %+v", got)
		}
	})
}

// A ban ends in all regions at once, and a lift ends it, however far clocks are apart.
func TestBansWithClocksApart(t *testing.T) {
	l := limitOf(t, limiter.Params{Amount: 1000, Window: time.Hour})
	for _, ahead := range []apart{apart(10 * time.Minute), apart(-10 * time.Minute)} {
		for _, lifted := range []bool{false, true} {
			bubble.Test(t, func(t *testing.T) {
				at := new(exchangetest.Memory)
				eu, us := openApart(t, "eu", at, memory.New(), ahead), open(t, "us", at, memory.New())
				defer us.close()
				defer eu.close()
				time.Sleep(turns)
				ask := func(s *site) bool {
					d, _ := s.ask(&engine.Client{Key: []byte("client")}, l, "key")
					return d.Allowed
				}
				eu.ban("client", 5*time.Minute)
				time.Sleep(turns)
				if ask(us) || ask(eu) {
					t.Error("the ban doesn't hold everywhere")
				}
				if lifted {
					us.lift("client")
				} else {
					time.Sleep(5 * time.Minute)
				}
				time.Sleep(turns)
				if !ask(us) || !ask(eu) {
					t.Errorf("clock ahead by %v, lifted is %v: the ban has not ended everywhere", time.Duration(ahead), lifted)
				}
			})
		}
	}
}

// apart is a clock that is ahead of that of the bubble.
type apart time.Duration

func (a apart) Read() (storage.Reading, int64) {
	now := a.Elapsed()
	return storage.Reading{Wall: now + int64(a), Steady: now, Source: storage.Source{1}, Shared: true}, now
}

func (apart) Elapsed() int64 { return time.Now().UnixNano() }

// party is a region of TestBansAtRandom, which may be cut off from the exchange.
type party struct {
	*site
	counts *memory.Database
	clock  apart
	away   atomic.Bool
}

func (p *party) open(t *testing.T, name string, at *exchangetest.Memory) {
	p.site = openApart(t, name, at, p.counts, p.clock, func(o *Options) {
		o.Open = func(context.Context) (exchange.Exchange, error) {
			if p.away.Load() {
				return nil, errGone
			}
			return cutOff{at, &p.away}, nil
		}
	})
}

// cutOff is an exchange that can't be reached at times.
type cutOff struct {
	exchange.Exchange
	away *atomic.Bool
}

func (c cutOff) Meet(ctx context.Context, m exchange.Member) (exchange.Met, error) {
	if c.away.Load() {
		return exchange.Met{}, errGone
	}
	return c.Exchange.Meet(ctx, m)
}

func (c cutOff) Publish(ctx context.Context, rows []exchange.Row, bans []exchange.Ban) error {
	if c.away.Load() {
		return errGone
	}
	return c.Exchange.Publish(ctx, rows, bans)
}

// Regions ban a client and lift its bans at random, with clocks apart, while the exchange can't be reached, and over
// restarts. When all have heard of each other, exactly the bans after the last lift hold everywhere.
func TestBansAtRandom(t *testing.T) {
	l := limitOf(t, limiter.Params{Amount: 1000, Window: time.Hour})
	for seed := range uint64(proof.Times(6, 1000)) {
		bubble.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 52))
			at, names := new(exchangetest.Memory), []string{"eu", "us", "ap"}
			parties := make([]*party, len(names))
			for i, name := range names {
				parties[i] = &party{counts: memory.New(), clock: apart(rng.Int64N(int64(20*time.Minute)) - int64(10*time.Minute))}
				parties[i].open(t, name, at)
			}
			defer func() {
				for _, p := range parties {
					p.close()
				}
			}()
			time.Sleep(turns)
			ask := func(p *party) bool {
				d, _ := p.ask(&engine.Client{Key: []byte("client")}, l, "key")
				return d.Allowed
			}
			var ends []time.Time // of the bans since the last lift
			for round := range 6 {
				for range 4 {
					i := rng.IntN(len(parties))
					p := parties[i]
					switch rng.IntN(6) {
					case 0, 1:
						if record := p.engine.CachedRecord(engine.Client{Key: []byte("client")}); record == nil || !record.Banned(p.engine.Now()) {
							lasts := time.Duration(1+rng.Int64N(100)) * time.Minute
							p.ban("client", lasts)
							ends = append(ends, time.Now().Add(lasts))
						}
					case 2, 3:
						if !ask(p) || p.BannedElsewhere([]byte("client")) {
							p.lift("client")
							ends = nil
							if !ask(p) {
								t.Errorf("seed %d, round %d: %s refuses right after its lift", seed, round, names[i])
							}
						}
					case 4:
						p.away.Store(!p.away.Load())
					case 5:
						p.close()
						p.open(t, names[i], at)
						synctest.Wait()
					}
					time.Sleep(time.Duration(1+rng.Int64N(60)) * time.Second)
				}
				for _, p := range parties {
					p.away.Store(false)
				}
				time.Sleep(2*maxPause + turns)
				for range 2 { // what only a record has is told when the client comes
					for _, p := range parties {
						ask(p)
					}
					time.Sleep(2 * turns)
				}
				left := time.Duration(math.MinInt64)
				for _, end := range ends {
					left = max(left, time.Until(end))
				}
				for i, p := range parties {
					d, _ := p.ask(&engine.Client{Key: []byte("client")}, l, "key")
					if left.Abs() > time.Minute && d.Allowed == (left > 0) { // clocks that are apart are slewed
						t.Fatalf("seed %d, round %d: the ban should last for %v, but %s decides %+v", seed, round, left, names[i], d)
					}
				}
				time.Sleep(time.Duration(rng.Int64N(30)) * time.Minute)
			}
		})
	}
}
