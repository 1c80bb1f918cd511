package regions

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine"
	"github.com/caddy-tally/caddy-tally/internal/testing/bubble"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/limiter/region"
	"github.com/caddy-tally/caddy-tally/storage"
	"github.com/caddy-tally/caddy-tally/storage/exchange"
	"github.com/caddy-tally/caddy-tally/storage/exchange/exchangetest"
	"github.com/caddy-tally/caddy-tally/storage/memory"
)

var scalePage = flag.String("scale", "", "the `page` whose table of regions at scale TestRegionsAtScale writes")

// The load of TestRegionsAtScale.
const (
	scaleMachines, scaleRegions = 33, 10
	scaleOverlap                = 0.05 // of the keys are used in three regions
	scaleBursting               = 0.01 // of the keys come in bursts
	scaleSteady                 = 5    // requests of any other key in a minute
	scaleBursts, scaleBurst     = 10, 30
	scaleAmount                 = 100 // a minute
	scaleWarm, scaleTime        = time.Minute, 2 * time.Minute
	scaleTick                   = 100 * time.Millisecond
)

// scaleResult is what TestRegionsAtScale found out about a number of keys.
type scaleResult struct {
	keys                int
	requests, refused   int64
	written, read       int64 // rows
	behind, heap        int64 // ns, bytes
	fullest, beforeLast int64 // units of a window, and without those of its last turns
}

// 33 machines in ten regions have the load that a fleet of that size may have, and ten times that, in virtual
// time. Counts arrive in time, and all regions together keep their bound.
func TestRegionsAtScale(t *testing.T) {
	proof.Only(t)
	sizes := []int{2_400}
	if *scalePage != "" {
		sizes = []int{24_000, 240_000}
	}
	var table bytes.Buffer
	fmt.Fprintln(&table, "| keys in use | requests/s, refused | rows written/s, read/s | the oldest count | heap of a machine | in a minute, limit 100 |")
	fmt.Fprintln(&table, "|---|---|---|---|---|---|")
	for _, keys := range sizes {
		r := runScale(t, keys)
		const seconds = int64(scaleTime / time.Second)
		fmt.Fprintf(&table, "| %s | %s, %.0f %% | %s, %s | %.1f s | %d MiB | at most %d; %d without the last 12 s |\n", grouped(int64(keys)),
			grouped(r.requests/seconds), 100*float64(r.refused)/float64(r.requests), grouped(r.written/seconds), grouped(r.read/seconds),
			time.Duration(r.behind).Seconds(), r.heap>>20, r.fullest, r.beforeLast)
		if r.behind > int64(turns) {
			t.Errorf("%d keys: a count came after %v, want %v at most", keys, time.Duration(r.behind), turns)
		}
		if r.beforeLast > scaleAmount*5/4 {
			t.Errorf("%d keys: %d units of a limit of %d were admitted, without those of the last turns; want a quarter more at most", keys, r.beforeLast, scaleAmount)
		}
	}
	t.Logf("\n%s", &table)
	if *scalePage != "" {
		writeScale(t, table.String())
	}
}

// grouped writes a number with separators.
func grouped(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", grouped(n/1000), n%1000)
}

func writeScale(t *testing.T, table string) {
	const begin, end = "<!-- regions at scale -->\n", "<!-- end -->\n"
	page, err := os.ReadFile(*scalePage)
	before, rest, found := strings.Cut(string(page), begin)
	_, after, ended := strings.Cut(rest, end)
	if err != nil || !found || !ended {
		t.Fatalf("%s has no place between %q and %q (%v)", *scalePage, begin, end, err)
	}
	if err := os.WriteFile(*scalePage, []byte(before+begin+"\n"+table+"\n"+end+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// orderly is an exchange in memory for many rows.
type orderly struct {
	exchangetest.Memory
	mu      sync.Mutex
	first   int64           // number of the first of rows; guarded by mu, like all below
	rows    []exchange.Row  // by their numbers
	last    map[rowID]int64 // numbers of the last states
	counted bool            // whether the time that is measured has begun
	written int64
	read    int64
}

type rowID struct {
	limit storage.LimitID
	key   storage.Key
	group int64
	owner region.Component
}

func idOf(r *exchange.Row) rowID { return rowID{r.Limit, r.Key, r.Group, r.Component} }

func (o *orderly) Meet(ctx context.Context, m exchange.Member) (exchange.Met, error) {
	met, err := o.Memory.Meet(ctx, m)
	o.mu.Lock()
	defer o.mu.Unlock()
	met.Seq = o.first + int64(len(o.rows))
	return met, err
}

func (o *orderly) Publish(_ context.Context, rows []exchange.Row, _ []exchange.Ban) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range rows {
		o.rows = append(o.rows, rows[i])
		o.last[idOf(&rows[i])] = o.first + int64(len(o.rows))
	}
	if o.counted {
		o.written += int64(len(rows))
	}
	return nil
}

func (o *orderly) Collect(_ context.Context, own region.Component, after int64, limit int) (news exchange.News, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	end := o.first + int64(len(o.rows))
	for news.Seq = max(after, o.first); news.Seq < end; news.Seq++ {
		if len(news.Rows) == limit {
			news.More = true
			break
		}
		r := &o.rows[news.Seq-o.first]
		if r.Component != own && o.last[idOf(r)] == news.Seq+1 {
			news.Rows = append(news.Rows, *r)
		}
	}
	if o.counted {
		o.read += int64(len(news.Rows))
	}
	return news, nil
}

// Sweep drops what has expired for a while.
func (o *orderly) Sweep(context.Context) (bool, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	n, now := 0, time.Now().Add(-time.Minute).UnixNano()
	for n < len(o.rows) && o.rows[n].Expires < now {
		if id := idOf(&o.rows[n]); o.last[id] == o.first+int64(n)+1 {
			delete(o.last, id)
		}
		n++
	}
	o.rows, o.first = slices.Clone(o.rows[n:]), o.first+int64(n)
	return false, nil
}

// scaleMachine is a machine with its share of a region's load.
type scaleMachine struct {
	*site
	limit    *engine.Limit
	rand     *rand.Rand
	mates    int   // machines of the region
	steady   []int // keys of the region
	bursting []int
	admitted func(key int)
	requests *atomic.Int64
	refused  *atomic.Int64
}

func (m *scaleMachine) ask(key int) {
	var name [8]byte
	binary.BigEndian.PutUint64(name[:], uint64(key))
	debits := []engine.Debit{{Limit: m.limit, Key: name[:], Cost: 1}}
	m.requests.Add(1)
	if m.Decide(context.Background(), nil, debits).Allowed {
		m.admitted(key)
	} else {
		m.refused.Add(1)
	}
}

// run sends requests until the context ends.
func (m *scaleMachine) run(ctx context.Context) {
	perTick := scaleTick.Minutes() / float64(m.mates)
	var steady, bursts float64
	for ctx.Err() == nil {
		steady += perTick * scaleSteady * float64(len(m.steady))
		for ; steady >= 1; steady-- {
			m.ask(m.steady[m.rand.IntN(len(m.steady))])
		}
		bursts += perTick * scaleBursts * float64(len(m.bursting))
		for ; bursts >= 1; bursts-- {
			key := m.bursting[m.rand.IntN(len(m.bursting))]
			for range scaleBurst {
				m.ask(key)
			}
		}
		time.Sleep(scaleTick)
	}
}

func runScale(t *testing.T, keys int) (r scaleResult) {
	r.keys = keys
	bubble.Test(t, func(t *testing.T) {
		at, before := &orderly{last: make(map[rowID]int64)}, heapInUse()
		var requests, refused atomic.Int64
		var mu sync.Mutex
		admitted := make(map[int][]int64) // times of units of keys that burst in several regions; guarded by mu
		rng := rand.New(rand.NewPCG(1, uint64(keys)))
		steady, bursting, shared := make([][]int, scaleRegions), make([][]int, scaleRegions), make(map[int]bool)
		for key := range keys {
			lists, isBursting := steady, rng.Float64() < scaleBursting
			if isBursting {
				lists = bursting
			}
			regions := rng.Perm(scaleRegions)[:1]
			if rng.Float64() < scaleOverlap {
				regions = rng.Perm(scaleRegions)[:3]
				shared[key] = isBursting
			}
			for _, i := range regions {
				lists[i] = append(lists[i], key)
			}
		}
		var machines []*scaleMachine
		counts := make([]*memory.Database, scaleRegions)
		for i := range scaleMachines {
			home := i % scaleRegions
			if counts[home] == nil {
				counts[home] = memory.New()
			}
			m := &scaleMachine{
				site: open(t, fmt.Sprint("region ", home), &at.Memory, counts[home], func(o *Options) {
					o.Open = func(context.Context) (exchange.Exchange, error) { return at, nil }
				}),
				limit: limitOf(t, limiter.Params{Amount: scaleAmount, Window: time.Minute}), rand: rand.New(rand.NewPCG(2, uint64(i))),
				mates: (scaleMachines - home + scaleRegions - 1) / scaleRegions, steady: steady[home], bursting: bursting[home],
				requests: &requests, refused: &refused,
				admitted: func(key int) {
					if shared[key] {
						mu.Lock()
						defer mu.Unlock()
						admitted[key] = append(admitted[key], time.Now().UnixNano())
					}
				},
			}
			machines = append(machines, m)
		}
		time.Sleep(15 * time.Second) // all have met
		ctx, cancel := context.WithTimeout(t.Context(), scaleWarm+scaleTime)
		defer cancel()
		var running sync.WaitGroup
		for _, m := range machines {
			running.Go(func() { m.run(ctx) })
		}
		time.Sleep(scaleWarm)
		at.mu.Lock()
		at.counted = true
		at.mu.Unlock()
		requests.Store(0)
		refused.Store(0)
		for probe := 0; ctx.Err() == nil; probe++ {
			r.behind = max(r.behind, probeScale(machines, keys+probe))
		}
		running.Wait()
		at.mu.Lock()
		at.counted, at.rows, at.last = false, nil, make(map[rowID]int64)
		r.written, r.read = at.written, at.read
		at.mu.Unlock()
		r.requests, r.refused, r.heap = requests.Load(), refused.Load(), (heapInUse()-before)/scaleMachines
		for _, times := range admitted {
			all, without := fullest(times)
			r.fullest, r.beforeLast = max(r.fullest, all), max(r.beforeLast, without)
		}
		if len(admitted) == 0 {
			t.Error("no key of several regions was hammered")
		}
		for _, m := range machines {
			m.close()
		}
	})
	return r
}

// probeScale uses a new key on one machine, and returns the time until the last machine knows.
func probeScale(machines []*scaleMachine, key int) int64 {
	first, begun := machines[key%len(machines)], time.Now()
	for range 10 {
		first.ask(key)
	}
	var text [8]byte
	binary.BigEndian.PutUint64(text[:], uint64(key))
	k := first.table.find(first.limit.ID, text[:])
	for {
		time.Sleep(scaleTick)
		know := 1
		for _, m := range machines {
			if m == first {
				continue
			}
			m.table.mu.Lock()
			for _, key := range k.names {
				if m.table.names[name{m.limit.ID, key}] != nil {
					know++
					break
				}
			}
			m.table.mu.Unlock()
		}
		if past := time.Since(begun); know == len(machines) || past > time.Minute {
			return int64(past)
		}
	}
}

// fullest returns the most units of one window, and the most without those of its last turns.
func fullest(times []int64) (all, without int64) {
	slices.Sort(times)
	for i, end := range times {
		inWindow, inTurns := 0, 0
		for j := i; j >= 0 && end-times[j] < int64(time.Minute); j-- {
			inWindow++
			if end-times[j] < int64(turns) {
				inTurns++
			}
		}
		all, without = max(all, int64(inWindow)), max(without, int64(inWindow-inTurns))
	}
	return all, without
}

func heapInUse() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
