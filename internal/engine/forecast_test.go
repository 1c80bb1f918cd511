package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/reputation"
	"github.com/caddy-tally/caddy-tally/storage/memory"
)

// traffic is two processes on one database, and clients that send them random requests.
type traffic struct {
	engines  []*Engine
	random   *rand.Rand
	limits   []*Limit
	scalings []*Scaling
}

func newTraffic(t *testing.T, seed uint64) *traffic {
	db := memory.New()
	w := &traffic{random: rand.New(rand.NewPCG(seed, 1)), engines: []*Engine{onDatabase(t, db), onDatabase(t, db)}}
	for i, algorithm := range algorithms {
		w.limits = append(w.limits, newLimit(t, limiter.Params{Algorithm: algorithm, Amount: int64(3 + 40*i), Window: 10 * time.Minute}))
		w.scalings = append(w.scalings, newScaling(t, 10, time.Hour, 30))
	}
	w.scalings[0].Ban = reputation.Ban{After: 2, Within: 24 * time.Hour, For: 3 * time.Hour}
	return w
}

func (t *traffic) close() {
	for _, e := range t.engines {
		e.Close(context.Background())
	}
}

// step is one request or another event.
type step struct {
	engine int
	client string // "" for none
	cross  bool   // the request is from a part of the client
	debits []stepDebit
	sleeps time.Duration
	offend bool
}

type stepDebit struct {
	limit  int
	scaled bool
	key    string
	cost   int64
}

func (t *traffic) next() step {
	s := step{engine: t.random.IntN(2)}
	if t.random.IntN(3) > 0 {
		s.client, s.cross = string(rune('a'+t.random.IntN(3))), t.random.IntN(4) == 0
	}
	switch t.random.IntN(20) {
	case 0:
		s.sleeps = time.Duration(t.random.Int64N(int64(20 * time.Minute)))
	case 1:
		s.offend = s.client != ""
	}
	for range 1 + t.random.IntN(3) {
		s.debits = append(s.debits, stepDebit{
			limit: t.random.IntN(len(t.limits)), scaled: s.client != "" && t.random.IntN(2) == 0,
			key: fmt.Sprint("key ", t.random.IntN(3)), cost: t.random.Int64N(5),
		})
	}
	return s
}

// request returns the request of a step.
func (t *traffic) request(s step) (client *Client, debits []Debit) {
	if s.client != "" {
		client = &Client{Key: []byte(s.client)}
		if s.cross {
			client = &Client{Key: []byte(s.client + " of others"), Parent: client}
		}
	}
	for _, d := range s.debits {
		debit := Debit{Limit: t.limits[d.limit], Key: []byte(d.key), Cost: d.cost}
		if d.scaled {
			debit = Debit{Limit: t.scalings[d.limit].Levels[0], Key: []byte(s.client), Cost: d.cost, Client: client, Scaling: t.scalings[d.limit]}
		}
		debits = append(debits, debit)
	}
	return client, debits
}

// answer is a decision and the results in its debits.
type answer struct {
	Decision
	known []bool
	quota []limiter.Quota
	limit []*Limit
}

func answerOf(d Decision, debits []Debit) answer {
	d.Waited, d.Fresh = 0, false
	a := answer{Decision: d}
	for i := range debits {
		a.known = append(a.known, debits[i].Known)
		a.limit = append(a.limit, debits[i].Limit)
		if debits[i].Known {
			a.quota = append(a.quota, debits[i].Quota)
		}
	}
	return a
}

// advance shortens retry times by a duration, but not below zero.
func (a *answer) advance(by time.Duration) {
	a.Retry = sooner(a.Retry, by)
	for i := range a.quota {
		a.quota[i].Reset = sooner(a.quota[i].Reset, by)
	}
}

func sooner(wait, by time.Duration) time.Duration {
	if wait == limiter.Never || wait == 0 {
		return wait
	}
	return max(wait-by, 0)
}

// equals compares answers, except for the milliseconds that pass while claims are gathered.
func (a answer) equals(b answer) bool {
	const near = 25 * time.Millisecond
	same := len(a.quota) == len(b.quota) && (a.Retry-b.Retry).Abs() <= near
	for i := range a.quota {
		same = same && a.quota[i].Remaining == b.quota[i].Remaining && (a.quota[i].Reset-b.quota[i].Reset).Abs() <= near
	}
	a.Retry, a.quota, b.Retry, b.quota = 0, nil, 0, nil
	return same && reflect.DeepEqual(a, b)
}

// A forecast equals the following decision, in random states: leases held here and there, blocks,
// violations, levels, bans. Forecasts change nothing: without them the decisions are the same.
func TestForecastsAreTrue(t *testing.T) {
	steps := proof.Times(500, 1000)
	seeds := proof.Times(2, 166)
	if testing.Short() {
		seeds = 1
	}
	const slot = 10 * time.Second // the slots of all limits are multiples of it
	for seed := range seeds {
		var with, without []answer
		for _, forecasting := range []bool{true, false} {
			bubble.Test(t, func(t *testing.T) {
				w := newTraffic(t, uint64(seed))
				defer w.close()
				for i := range steps {
					s := w.next()
					e := w.engines[s.engine]
					time.Sleep(s.sleeps + 10100*time.Microsecond) // returned units are in the store then
					if time.Duration(time.Now().UnixNano())%slot > slot-time.Second {
						time.Sleep(2 * time.Second) // no slot ends between forecast and decision
					}
					if s.offend {
						e.Punish(&Client{Key: []byte(s.client)}, reputation.Offense{Points: 20, Violation: reputation.Violation{Reason: reputation.Forged}})
					}
					var foretold answer
					at := time.Now()
					if forecasting {
						client, debits := w.request(s)
						foretold = answerOf(e.Forecast(context.Background(), client, debits), debits)
					}
					time.Sleep(5*time.Millisecond - time.Since(at)) // with forecasts or without, the time is the same then
					client, debits := w.request(s)
					got := answerOf(e.Decide(context.Background(), client, debits), debits)
					if forecasting {
						with = append(with, got)
						foretold.advance(time.Since(at))
						if !foretold.equals(got) {
							t.Fatalf("seed %d, step %d: %+v\nforetold %+v\ndecided  %+v", seed, i, s, foretold, got)
						}
					} else {
						without = append(without, got)
					}
				}
			})
		}
		for i := range with {
			with[i].limit, without[i].limit = nil, nil // each world has its own
			if !with[i].equals(without[i]) {
				t.Fatalf("seed %d, step %d: with forecasts %+v, without %+v", seed, i, with[i], without[i])
			}
		}
	}
}

// While the store can't be used, a forecast is the decision of memory.
func TestForecastsInAnOutage(t *testing.T) {
	limit := newLimit(t, limiter.Params{Amount: 10, Window: time.Hour})
	inBubble(t, func(t *testing.T, f *faulty) {
		f.broken.Store(true)
		f.committer.degrade(errDisk)
		for i := range 10 {
			debits := []Debit{{Limit: limit, Key: []byte("a"), Cost: 1}}
			foretold := f.Forecast(context.Background(), nil, debits)
			if got := f.ask(debit(limit, "a", 1)); foretold.Allowed != got.Allowed || foretold.Retry != got.Retry || foretold.Degraded != got.Degraded {
				t.Errorf("%d: foretold %+v, decided %+v", i, foretold, got)
			}
		}
	})
}

// After its context has ended, a forecast no longer changes the request, which its caller may
// continue to use.
func TestAForecastInTheBackgroundLeavesTheRequest(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		e := onDatabase(t, memory.New())
		defer e.Close(context.Background())
		release := holdUp(e)
		ended, end := context.WithCancel(context.Background())
		end()
		client := &Client{Key: []byte("c")}
		debits := []Debit{{Limit: newLimit(t, limiter.Params{Amount: 1, Window: time.Hour}), Key: []byte("a"), Cost: 1}}
		if d := e.Forecast(ended, client, debits); d.Reason != Abandoned {
			t.Errorf("got %+v", d)
		}
		e.table.ensureClient(client) // the next request is from the same client
		release()
		if !client.cell.exists() {
			t.Error("the forecast has taken the client's cell away")
		}
	})
}
