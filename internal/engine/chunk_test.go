package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/engine/clock"
	"github.com/caddy-tally/caddy-tally/limiter"
	"github.com/caddy-tally/caddy-tally/storage"
)

// A shard of random keys, that are added, used, pinned, blocked and removed, keeps the bound of its
// chunks. All keys are found with their state, and bodies they have left hold nothing.
func TestChunksOfRandomKeys(t *testing.T) {
	for range 2 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			m := newChunkModel(t, seed)
			for step := range 40 {
				switch grows := 1 + m.rng.IntN(1500); {
				case step%20 == 19:
					m.unpinAll()
					m.sweep(1 + m.rng.IntN(3))
				case step%20 == 9:
					m.sweep(1)
				default:
					m.table.max.Store(int64(1 + m.rng.IntN(4000)))
					for range grows {
						m.add()
						m.change()
					}
				}
				m.checkAll()
			}
			if m.moved < 1000 {
				t.Errorf("only %d cells were moved", m.moved)
			}
		})
	}
}

// chunkModel is one shard of a table, and what should be in it.
type chunkModel struct {
	t      *testing.T
	rng    *rand.Rand
	table  *table
	shard  *shard
	limits []*Limit
	keys   map[string]*chunkKey
	names  []string // of keys, and of some that were removed
	last   uint32
	pinned int
	freed  int // of pinned keys, since the shard was compacted
	moved  int
}

// chunkKey is a key with its last known body, and the state it should have.
type chunkKey struct {
	cell
	addedAs      kind
	lease        limiter.Lease
	known        knowledge
	limit        *Limit
	headroom     headroom
	refused      uint32
	ahead, phase uint8
	blocks       *block
	local        *local
	open         *entry
	claims       int32
	wasClient    *clientState
}

const modelID = 7

func newChunkModel(t *testing.T, seed uint64) *chunkModel {
	m := &chunkModel{t: t, rng: rand.New(rand.NewPCG(seed, 1)), keys: make(map[string]*chunkKey)}
	m.table = newTable(math.MaxInt, func(c cell) *batch {
		delete(m.keys, c.key())
		return nil
	})
	m.shard = &m.table.shards[0]
	for amount := range int64(5) {
		m.limits = append(m.limits, newLimit(t, limiter.Params{Amount: 10 + amount, Window: time.Hour}))
	}
	return m
}

// newKey returns a new key of the shard, of any length.
func (m *chunkModel) newKey() []byte {
	length := m.rng.IntN(40)
	if m.rng.IntN(20) == 0 {
		length = m.rng.IntN(3 * maxInChunk)
	}
	for {
		m.last++
		key := append(binary.BigEndian.AppendUint32(nil, m.last), bytes.Repeat([]byte{byte(m.last)}, length)...)
		if s, _ := m.table.shardOf(modelID, key); s == m.shard {
			return key
		}
	}
}

func (m *chunkModel) add() {
	key := m.newKey()
	c := m.table.add(kind(m.rng.IntN(int(ofClient)+1)), modelID, key)
	m.keys[string(key)] = &chunkKey{cell: c, addedAs: c.kind, wasClient: c.client()}
	m.names = append(m.names, string(key))
	m.checkBound()
}

// change changes a key.
func (m *chunkModel) change() {
	i := m.rng.IntN(len(m.names))
	k := m.keys[m.names[i]]
	if k == nil {
		m.names = slices.Delete(m.names, i, i+1)
		return
	}
	m.check(k)
	c := m.table.lock(k.cell)
	defer c.mu.Unlock()
	c.touch()
	m.changeLocked(k, c)
	m.checkBound()
}

func (m *chunkModel) changeLocked(k *chunkKey, c cell) {
	switch m.rng.IntN(8) {
	case 0:
		if k.lease = (limiter.Lease{Units: m.rng.Int64(), At: 1, Used: m.rng.Int64(), Spent: 3}); k.addedAs == ofBucket {
			k.lease.Part, k.lease.HeldPart, k.lease.SpentPart = m.rng.Int64(), m.rng.Int64(), m.rng.Int64()
		}
		c.setLeaseLocked(k.lease)
	case 1:
		k.known = knowledge{period: m.rng.Uint32(), until: m.rng.Uint32(), name: testName(1, fmt.Sprint(m.rng.Uint32()))}
		c.known = k.known
	case 2:
		k.limit = m.limits[m.rng.IntN(len(m.limits))]
		c.setLimitLocked(k.limit)
	case 3:
		k.headroom = headroom{uint16(m.rng.Uint32()), uint16(m.rng.Uint32())}
		c.headroom = k.headroom
		if slots := c.slotsLocked(); slots != nil {
			k.ahead, k.phase = uint8(m.rng.Uint32()), uint8(m.rng.Uint32())
			slots.ahead, slots.phase = k.ahead, k.phase
		}
		k.refused++
		c.refused.add()
	case 4:
		if k.blocks = nil; m.rng.IntN(2) == 0 {
			k.blocks = &block{until: math.MaxInt64}
		}
		c.setBlocksLocked(k.blocks)
	case 5:
		if k.local = nil; m.rng.IntN(2) == 0 {
			k.local = new(local)
		}
		c.setLocalLocked(k.local)
	case 6:
		if k.open = nil; m.rng.IntN(2) == 0 {
			k.open = &entry{cell: c}
		}
		c.changeRareLocked(func(r *rare) { r.open = k.open })
	case 7:
		m.pinLocked(k, c)
	}
}

// pinLocked pins a few keys, and unpins them.
func (m *chunkModel) pinLocked(k *chunkKey, c cell) {
	switch {
	case k.claims > 0:
		k.claims--
		m.pinned--
		m.freed++
	case m.pinned < 20:
		k.claims++
		m.pinned++
	}
	c.changeRareLocked(func(r *rare) { r.inFlight = k.claims })
}

func (m *chunkModel) unpinAll() {
	for _, k := range m.keys {
		c := m.table.lock(k.cell)
		for k.claims > 0 {
			m.pinLocked(k, c)
		}
		c.mu.Unlock()
	}
}

func (m *chunkModel) sweep(times int) {
	for range times {
		m.table.sweep(0, func(*batch) {}, func(int) { m.checkBound() })
		m.freed = 0
	}
}

// check checks that a key is found with its state, and what is left where it was before.
func (m *chunkModel) check(k *chunkKey) {
	m.t.Helper()
	was, c := k.cell, m.table.find(k.id, k.text())
	if !c.exists() {
		m.t.Fatalf("key %.20q is not found", was.text())
	}
	if k.cell = c; was != c {
		m.moved++
		if !was.dead || !was.isMoved() || was.leaseLocked() != (limiter.Lease{}) || was.rare() != nil || was.kind == ofClient {
			m.t.Fatalf("the old body is %+v", was.body)
		}
		if present := was.lockPresent(); present != c || was.blocks() != c.blocks() {
			m.t.Fatal("the new body isn't found from the old one")
		}
		c.mu.Unlock()
	}
	r := c.rare()
	same := !c.dead && c.kind == k.addedAs && c.leaseLocked() == k.lease && c.known == k.known && c.headroom == k.headroom &&
		c.refused.counted.Load() == k.refused && c.client() == k.wasClient &&
		c.blocks() == k.blocks && r.admitted() == k.local && r.openEntry() == k.open && r.claims() == k.claims
	if slots := c.slotsLocked(); slots != nil {
		same = same && slots.ahead == k.ahead && slots.phase == k.phase
	}
	if limit := c.limit(); !same || (limit == nil) != (k.limit == nil) || limit != nil && *limit != *k.limit {
		m.t.Fatalf("%+v with %+v, want %+v", c.body, r, k)
	}
}

// checkBound checks the size of the chunks.
func (m *chunkModel) checkBound() {
	m.t.Helper()
	cs := &m.shard.chunks
	if cs.size <= 2*cs.live+2*m.shard.chunkSize() {
		m.freed = 0 // it is compact
	}
	if most := 2*cs.live + 4*m.shard.chunkSize() + uintptr(m.pinned+m.freed)*maxChunk; cs.size > most {
		m.t.Fatalf("%d bytes of chunks for %d bytes of bodies, %d pinned ones and %d that were, want at most %d", cs.size, cs.live, m.pinned, m.freed, most)
	}
}

// checkAll checks all keys, and the sums of the chunks.
func (m *chunkModel) checkAll() {
	m.t.Helper()
	if m.shard.cells != len(m.keys) {
		m.t.Fatalf("%d cells of %d keys", m.shard.cells, len(m.keys))
	}
	for _, k := range m.keys {
		m.check(k)
	}
	live, size, bodies := m.chunksByBodies()
	for i, c := range m.shard.chunks.all {
		size += c.size()
		if bodies[c] != c.live || i > 0 && m.shard.chunks.all[i-1].begin() >= c.begin() {
			m.t.Fatalf("chunk %d counts %d bytes of bodies, want %d", i, c.live, bodies[c])
		}
	}
	if cs := &m.shard.chunks; cs.live != live || cs.size != size {
		m.t.Fatalf("%d of %d bytes counted, want %d of %d", cs.live, cs.size, live, size)
	}
	if used := int(m.table.rares.last) - len(m.table.rares.free); used > len(m.keys) {
		m.t.Fatalf("rare fields of %d keys for %d", used, len(m.keys))
	}
}

// chunksByBodies returns the size of all bodies in chunks, and that in each.
func (m *chunkModel) chunksByBodies() (live, size uintptr, sizes map[*chunk]uintptr) {
	sizes = make(map[*chunk]uintptr)
	for _, c := range m.shard.chunks.all {
		for at := uintptr(0); at < c.used; {
			b := c.at(at)
			size := bodySize(b.kind, int(b.size))
			if at += size; !b.dead {
				sizes[c] += size
				live += size
			}
		}
	}
	return live, 0, sizes
}

// A flood of new keys that leaves one key of each chunk in use doesn't make the chunks use up
// memory.
func TestOneKeyOfEachChunkInUse(t *testing.T) {
	const room, flood = 20_000, 400_000
	table := newTable(room, func(cell) *batch { return nil })
	open, kept := make(map[*chunk]bool), 0
	for i := range uint32(flood) {
		c := table.add(ofSlots, 1, binary.BigEndian.AppendUint32(nil, i))
		if s, _ := table.shardOf(1, c.text()); s.chunks.open != nil && !open[s.chunks.open] && kept < room/2 {
			open[s.chunks.open] = true // keeps chunks for the next ones to have other addresses
			c.setBlocksLocked(&block{until: math.MaxInt64})
			kept++
		}
	}
	size, most := uintptr(0), uintptr(0)
	for i := range table.shards {
		s := &table.shards[i]
		size += s.chunks.size
		most += 2*s.chunks.live + 4*s.chunkSize()
	}
	t.Logf("%d bytes of chunks for %d keys, %d of them kept", size, room, kept)
	if size > most {
		t.Errorf("%d bytes of chunks, want at most %d", size, most)
	}
	if kept < room/10 {
		t.Errorf("only %d keys kept", kept)
	}
}

// Among requests whose cells are moved all the time, exactly the limit is admitted, and everything
// that is admitted or charged is in the store.
func TestMovesAmongRequestsLoseNothing(t *testing.T) {
	for _, atOnce := range []bool{false, true} {
		for _, algorithm := range algorithms {
			t.Run(fmt.Sprintf("%v/atOnce=%v", algorithm, atOnce), func(t *testing.T) {
				f := newFixture(t, func(o *Options) { o.MaxKeys = shardCount * 150 })
				if atOnce {
					f, _ = atOnceFixture(t, func(o *Options) { o.MaxKeys = shardCount * 150 })
				}
				checkMoves(t, f, algorithm)
			})
		}
	}
}

func checkMoves(t *testing.T, f *fixture, algorithm limiter.Algorithm) {
	const clients, keys, few, elsewhere = 8, 6, 500, 100
	rounds := int64(100)
	if testing.Short() {
		rounds = 60
	}
	wide := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: 1_000_000, Window: 24 * time.Hour})
	narrow := newLimit(t, limiter.Params{Algorithm: algorithm, Amount: few, Window: 24 * time.Hour})
	var admitted, last, settled, charged [keys]atomic.Int64
	var requests, disturbers sync.WaitGroup
	for i := range clients {
		requests.Go(func() {
			for n := range int(rounds) * keys {
				key := (i + n) % keys
				name := fmt.Sprint(key)
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
	stop, moves := make(chan struct{}), new(atomic.Int64)
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
	if moves.Load() < 100 {
		t.Errorf("only %d moves", moves.Load())
	}
	t.Logf("%d moves", moves.Load())
}

// A walk through the table finds all cells that are there, while they are moved and others are
// added and removed.
func TestWalksFindMovedCells(t *testing.T) {
	const stay, walks = 3000, 20
	f := &fixture{Engine: &Engine{clock: clock.New(newFakeClock()), table: newTable(math.MaxInt, func(cell) *batch { return nil })}}
	for i := range stay {
		c := f.table.add(ofSlots, 1, fmt.Append(nil, i))
		c.setBlocksLocked(&block{until: math.MaxInt64})
	}
	var others sync.WaitGroup
	stop := make(chan struct{})
	f.disturb(&others, stop, func() { f.move(1, fmt.Sprint(rand.IntN(stay))) })
	others.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				f.table.sweep(0, func(*batch) {}, func(int) {})
			}
		}
	})
	for range walks {
		found := make(map[string]bool)
		f.table.each(func(c cell) {
			if c.id != 1 {
				return
			}
			if c.blocks() == nil {
				t.Errorf("key %q is found without its block", c.text())
			}
			if c = c.lockPresent(); !c.dead {
				found[c.key()] = true
			}
			c.mu.Unlock()
		})
		if len(found) != stay {
			t.Fatalf("%d cells are found, want %d", len(found), stay)
		}
	}
	close(stop)
	others.Wait()
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
	s, hash := f.table.shardOf(id, []byte(key))
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.find(id, []byte(key), hash)
	return b != nil && f.table.moveLocked(s, b)
}
