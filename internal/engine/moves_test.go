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

	"github.com/caddy-tally/caddy-tally/internal/engine/table"
	"github.com/caddy-tally/caddy-tally/limiter"
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
		c.changeRareLocked(func(r *rare) { r.open, r.shares = &entry{cell: c}, true })
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
				f := newFixture(t, func(o *Options) { o.MaxKeys = 1 << 20 })
				if atOnce {
					f, _ = atOnceFixture(t, func(o *Options) { o.MaxKeys = 1 << 20 })
				}
				checkMoves(t, f, algorithm, atOnce)
			})
		}
	}
}

func checkMoves(t *testing.T, f *fixture, algorithm limiter.Algorithm, atOnce bool) {
	const clients, keys, few, elsewhere = 8, 6, 500, 100
	rounds := int64(100)
	if testing.Short() {
		rounds = 60
	}
	wide := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 1_000_000, Window: 24 * time.Hour})
	narrow := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: few, Window: 24 * time.Hour})
	var asked, admitted, last, settled, charged [keys]atomic.Int64
	var moves, disturbed atomic.Int64
	var requests, disturbers sync.WaitGroup
	stop, found := make(chan struct{}), make(map[string]cell)
	f.disturb(&disturbers, stop, &disturbed, func() {
		for key := range keys {
			for _, limit := range []*Limit{wide, narrow} {
				for _, prefix := range []string{"", "held", "charged"} {
					name := fmt.Sprint(limit.ID, prefix, key)
					if was := found[name]; was.exists() && was.Moved() {
						moves.Add(1)
					}
					found[name] = f.table.find(limit.ID, fmt.Append(nil, prefix, key))
				}
			}
		}
	})
	for disturbed.Load() == 0 { // so that the cells of requests lie among others
		time.Sleep(time.Millisecond)
	}
	for i := range clients {
		requests.Go(func() {
			for n := 0; n < int(rounds)*keys || disturbed.Load() < 4 || atOnce && moves.Load() < 5 && disturbed.Load() < 100; n++ {
				key := (i + n) % keys
				name := fmt.Sprint(key)
				asked[key].Add(1)
				if f.ask(debit(wide, name, 1)).Allowed {
					admitted[key].Add(1)
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
	requests.Wait()
	close(stop)
	disturbers.Wait()
	f.Close(t.Context())
	now := f.clock.Now()
	for key := range keys {
		name := fmt.Sprint(key)
		if n := admitted[key].Load(); n != asked[key].Load() || f.disk.used(wide, name, now) != n {
			t.Errorf("%d admitted of key %d, want %d; charged %d", n, key, asked[key].Load(), f.disk.used(wide, name, now))
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
	if atOnce && moves.Load() < 5 { // otherwise a claim is in flight most of the time, and the cell stays
		t.Errorf("only %d moves", moves.Load())
	}
}

// disturb makes the table move cells: it adds many other keys and removes most of them, so that few are left of
// each chunk. It counts how often it has done so, calls look each time, and calls Keys, until stop is closed.
func (f *fixture) disturb(disturbers *sync.WaitGroup, stop <-chan struct{}, times *atomic.Int64, look func()) {
	const others, perShard, stay = math.MaxUint32, 800, 8
	until := func(do func()) {
		disturbers.Go(func() {
			for !isClosed(stop) {
				do()
			}
		})
	}
	f.table.Unused.Store(0)
	until(func() {
		round := times.Load()
		for n := range uint64(shards * perShard) {
			f.table.add(ofSlots, others, binary.BigEndian.AppendUint64(nil, uint64(round)<<32|n))
		}
		look()
		f.table.Sweep(func(e *table.Entry) bool {
			text := f.table.Text(e)
			return e.ID != others || text[3] == byte(round) && text[7]%stay == 0
		}, func(<-chan struct{}) {}, func(int) {})
		look()
		times.Add(1)
	})
	until(func() {
		f.Keys(KeysQuery{N: 10})
		time.Sleep(time.Millisecond)
	})
}
