package engine

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// A moved cell keeps its state, and the old body holds nothing.
func TestMovesKeepTheStateOfCells(t *testing.T) {
	table, rng := newCells(math.MaxInt, nil), rand.New(rand.NewPCG(1, 2))
	limit := newLimit(t, limiter.Params{Amount: 10, Window: time.Hour})
	for i, kind := range []uint8{ofSlots, ofBucket} {
		c, to := table.add(kind, 1, fmt.Append(nil, i)), table.add(kind, 2, fmt.Append(nil, i))
		lease := limiter.Lease{Units: rng.Int64(), At: 1, Used: rng.Int64(), Spent: 3}
		if kind == ofBucket {
			lease.Part, lease.HeldPart, lease.SpentPart = rng.Int64(), rng.Int64(), rng.Int64()
		} else {
			lease.Span, lease.Lapsed = 17, 18
			c.slotsLocked().ahead, c.slotsLocked().phase = 19, 20
		}
		c.setLeaseLocked(lease)
		c.known = knowledge{period: rng.Uint32(), until: rng.Uint32(), name: testName(1, "a")}
		c.headroom = headroom{uint16(rng.Uint32()), uint16(rng.Uint32())}
		c.refused.add()
		c.setLimitLocked(limit)
		c.setBlocksLocked(&block{until: math.MaxInt64})
		c.setLocalLocked(new(local))
		c.changeRareLocked(func(r *busy) { r.open, r.shares = &entry{cell: c}, true })
		was, known, room := c.rare().copied(nil), c.known, c.headroom
		table.Copy(&c.Entry, &to.Entry)
		r := to.rare()
		if to.leaseLocked() != lease || to.known != known || to.headroom != room || to.refused.count() != 1 || *to.limit() != *limit ||
			to.blocks() != was.newest.Load() || r.local != was.local || r.open != was.open || !r.shares {
			t.Errorf("kind %d: %+v with %+v, want the lease %+v and %+v", kind, to.body, r, lease, was)
		}
		if kind == ofSlots && (to.slotsLocked().ahead != 19 || to.slotsLocked().phase != 20) {
			t.Errorf("%+v", to.slotsLocked())
		}
		if c.leaseLocked() != (limiter.Lease{}) {
			t.Errorf("kind %d: the old body holds %+v", kind, c.leaseLocked())
		}
	}
}

// Among requests whose cells are moved all the time, exactly the limit is admitted, and everything
// that is admitted or charged is in the store.
func TestMovesAmongRequestsLoseNothing(t *testing.T) {
	for _, atOnce := range []bool{false, true} {
		for _, algorithm := range algorithms {
			t.Run(fmt.Sprintf("%v/atOnce=%v", algorithm, atOnce), func(t *testing.T) {
				f := newFixture(t, func(o *Options) { o.MaxKeys = shards * 150 })
				if atOnce {
					f, _ = atOnceFixture(t, func(o *Options) { o.MaxKeys = shards * 150 })
				}
				checkMoves(t, f, algorithm)
			})
		}
	}
}

func checkMoves(t *testing.T, f *fixture, algorithm limiter.Algorithm) {
	const clients, keys, few, elsewhere = 8, 6, 500, 100
	rounds := int64(proof.Sample(40, 100))
	wide := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 1_000_000, Window: 24 * time.Hour})
	narrow := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: few, Window: 24 * time.Hour})
	var admitted, last, settled, charged [keys]atomic.Int64
	var moves atomic.Int64
	var requests, disturbers sync.WaitGroup
	for i := range clients {
		requests.Go(func() {
			for n := range int(rounds) * keys {
				key := (i + n) % keys
				name := fmt.Sprint(key)
				if f.ask(debit(wide, name, 1)).Allowed {
					admitted[key].Add(1)
				}
				if f.move(wide.ID, name) { // others ask for it meanwhile
					moves.Add(1)
				}
				if f.ask(debit(narrow, name, 1), debit(narrow, name, 0), debit(narrow, name, 1)).Allowed {
					last[key].Add(2)
				}
				debits := []Debit{{Limit: wide, Key: []byte("held" + name), Cost: 2, Counting: Held}}
				if f.ask(debits...); debits[0].Pending != nil {
					debits[0].Pending.SettleAt(int64(n % 4))
					settled[key].Add(int64(n % 4))
				}
				if n%16 == 0 && charged[key].Add(1) <= elsewhere {
					charge := limiter.Charge{Units: 1}
					if wide.CountsSlots() {
						charge.At = wide.Slot(f.clock.Now())
					}
					f.Charge(wide, []byte("charged"+name), charge)
					f.ask(debit(wide, "charged"+name, 1))
				}
			}
		})
	}
	stop := make(chan struct{})
	f.disturb(&disturbers, stop, func() {
		for key := range keys {
			for _, limit := range []*Limit{wide, narrow} {
				for _, prefix := range []string{"", "held", "charged"} {
					if f.move(limit.ID, prefix+fmt.Sprint(key)) {
						moves.Add(1)
					}
				}
			}
		}
	})
	requests.Wait()
	close(stop)
	disturbers.Wait()
	f.Close(t.Context())
	now := f.clock.Now()
	for key := range keys {
		name := fmt.Sprint(key)
		if n := admitted[key].Load(); n != clients*rounds || f.disk.used(wide, name, now) != n {
			t.Errorf("%d admitted of key %d, want %d; charged %d", n, key, clients*rounds, f.disk.used(wide, name, now))
		}
		if n := last[key].Load(); n != few || f.disk.used(narrow, name, now) != n {
			t.Errorf("%d admitted of key %d, want the limit of %d; charged %d", n, key, few, f.disk.used(narrow, name, now))
		}
		if used := f.disk.used(wide, "held"+name, now); used != settled[key].Load() {
			t.Errorf("%d charged for held requests of key %d, want %d", used, key, settled[key].Load())
		}
		if used, want := f.disk.used(wide, "charged"+name, now), 2*min(charged[key].Load(), elsewhere); used != want {
			t.Errorf("%d charged to key %d here and elsewhere, want %d", used, key, want)
		}
	}
	if moves.Load() < rounds {
		t.Errorf("only %d moves", moves.Load())
	}
}

// disturb floods the table with other keys, and calls move and Keys, until stop is closed.
func (f *fixture) disturb(disturbers *sync.WaitGroup, stop <-chan struct{}, move func()) {
	until := func(f func(i uint32)) func() {
		return func() {
			for i := uint32(0); ; i++ {
				select {
				case <-stop:
					return
				default:
					f(i)
				}
			}
		}
	}
	disturbers.Go(until(func(uint32) { move() }))
	disturbers.Go(until(func(i uint32) { f.table.add(ofSlots, math.MaxUint32, binary.BigEndian.AppendUint32(nil, i)) }))
	disturbers.Go(until(func(uint32) {
		f.Keys(KeysQuery{N: 10})
		time.Sleep(time.Millisecond)
	}))
}

// move moves a cell, if it can be moved.
func (f *fixture) move(id storage.LimitID, key string) bool {
	s, _ := shardOf(&f.table.Table, id, []byte(key))
	mu := shardLocks(f.table)[s]
	mu.Lock()
	defer mu.Unlock()
	c := f.table.find(id, []byte(key))
	return c.exists() && moveLocked(&f.table.Table, s, &c.Entry)
}
