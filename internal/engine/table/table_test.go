package table

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"
	"unsafe"

	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// The kinds of entries in tests.
const (
	small uint8 = iota
	large
	pointed
)

type (
	smallBody struct {
		Entry
		state uint64
		stays bool // pinned
		first [7]byte
	}
	largeBody struct {
		smallBody
		more [3]uint64
	}
	pointedBody struct {
		smallBody
		own  *uint64
		text []byte
	}
)

// testOwner keeps entries whose state isn't 0.
type testOwner struct {
	table   *Table
	removed func(key []byte)
	numbers Numbered[uint64]
}

const worthy = Active + 1

func stateOf(e *Entry) *smallBody { return (*smallBody)(unsafe.Pointer(e)) }

func (o *testOwner) Rank(e *Entry) Rank {
	switch b := stateOf(e); {
	case b.stays:
		return Pinned
	case b.state != 0:
		return worthy
	}
	return Idle
}

func (o *testOwner) Release(e *Entry) <-chan struct{} {
	if o.removed != nil {
		o.removed(o.table.Text(e))
	}
	return nil
}

func (o *testOwner) Copy(from, to *Entry) {
	stateOf(to).state = stateOf(from).state
	if from.Kind() == large {
		(*largeBody)(unsafe.Pointer(to)).more = (*largeBody)(unsafe.Pointer(from)).more
	}
	if number := from.Number(); number != 0 {
		value := *o.numbers.At(number).Load()
		to.SetNumber(o.numbers.Add(&value))
	}
	stateOf(from).state = 0
}

func (o *testOwner) Drop(number uint32) { o.numbers.Remove(number) }

func newTable(max int) (*Table, *testOwner) {
	t := new(Table)
	o := &testOwner{table: t}
	t.Init(max, o,
		Kind{Text: unsafe.Offsetof(smallBody{}.first)},
		Kind{Text: unsafe.Sizeof(largeBody{})},
		Kind{Text: unsafe.Offsetof(pointedBody{}.text), New: func(text []byte) *Entry {
			return &(&pointedBody{own: new(uint64), text: text}).Entry
		}})
	return t, o
}

func (t *Table) sweepAll(between func()) {
	t.Sweep(func(*Entry) bool { return false }, func(<-chan struct{}) {}, func(int) { between() })
}

// A shard of random keys, that are added, used, pinned and removed, keeps the bound of its chunks. All keys are
// found with their state, and entries they have left hold nothing.
func TestChunksOfRandomKeys(t *testing.T) {
	for range proof.Sample(1, 2) {
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
					m.table.Max.Store(int64(1 + m.rng.IntN(4000)))
					for range grows {
						m.add()
						m.change()
					}
				}
				m.checkAll()
			}
			if m.moved < 1000 {
				t.Errorf("only %d entries were moved", m.moved)
			}
		})
	}
}

// chunkModel is one shard of a table, and what should be in it.
type chunkModel struct {
	t      *testing.T
	rng    *rand.Rand
	table  *Table
	owner  *testOwner
	shard  *shard
	keys   map[string]*chunkKey
	names  []string // of keys, and of some that were removed
	last   uint32
	pinned int
	freed  int // of pinned keys, since the shard was compacted
	moved  int
}

// chunkKey is a key with its last known entry, and the state it should have.
type chunkKey struct {
	*Entry
	kind   uint8
	state  uint64
	more   [3]uint64
	number uint64 // the value with the entry's number, or 0
	stays  bool
	own    *uint64
}

const modelID = 7

func newChunkModel(t *testing.T, seed uint64) *chunkModel {
	m := &chunkModel{t: t, rng: rand.New(rand.NewPCG(seed, 1)), keys: make(map[string]*chunkKey)}
	m.table, m.owner = newTable(math.MaxInt)
	m.owner.removed = func(key []byte) { delete(m.keys, string(key)) }
	m.shard = &m.table.shards[0]
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
	k := &chunkKey{kind: uint8(m.rng.IntN(int(pointed) + 1))}
	k.Entry = m.table.Add(k.kind, modelID, key)
	if k.kind == pointed {
		k.own = (*pointedBody)(unsafe.Pointer(k.Entry)).own
	}
	m.keys[string(key)] = k
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
	e := m.table.LockAdded(k.Entry)
	defer e.Unlock()
	e.Touch()
	switch m.rng.IntN(4) {
	case 0:
		k.state = uint64(m.rng.IntN(2)) * m.rng.Uint64()
		stateOf(e).state = k.state
	case 1:
		if k.kind == large {
			k.more = [3]uint64{m.rng.Uint64(), m.rng.Uint64(), m.rng.Uint64()}
			(*largeBody)(unsafe.Pointer(e)).more = k.more
		}
	case 2:
		m.number(k, e)
	case 3:
		m.pinLocked(k, e)
	}
	m.checkBound()
}

// number gives the entry a number, or takes it away.
func (m *chunkModel) number(k *chunkKey, e *Entry) {
	if number := e.Number(); number != 0 {
		e.SetNumber(0)
		m.owner.Drop(number)
		k.number = 0
		return
	}
	k.number = 1 + m.rng.Uint64()/2
	value := k.number
	e.SetNumber(m.owner.numbers.Add(&value))
}

// pinLocked pins a few keys, and unpins them.
func (m *chunkModel) pinLocked(k *chunkKey, e *Entry) {
	switch {
	case k.stays:
		k.stays = false
		m.pinned--
		m.freed++
	case m.pinned < 20:
		k.stays = true
		m.pinned++
	}
	stateOf(e).stays = k.stays
}

func (m *chunkModel) unpinAll() {
	for _, k := range m.keys {
		e := m.table.LockAdded(k.Entry)
		if k.stays {
			m.pinLocked(k, e)
		}
		e.Unlock()
	}
}

func (m *chunkModel) sweep(times int) {
	for range times {
		m.table.sweepAll(m.checkBound)
		m.freed = 0
	}
}

// check checks that a key is found with its state, and what is left where it was before.
func (m *chunkModel) check(k *chunkKey) {
	m.t.Helper()
	was, e := k.Entry, m.table.Find(k.ID, m.table.Text(k.Entry))
	if e == nil {
		m.t.Fatalf("key %.20q is not found", m.table.Text(was))
	}
	if k.Entry = e; was != e {
		m.moved++
		if !was.Dead() || !was.Moved() || was.Number() != 0 || was.Kind() == pointed {
			m.t.Fatalf("the old entry is %+v", was)
		}
		if present := m.table.LockMoved(was); present != e {
			m.t.Fatal("the new entry isn't found from the old one")
		}
		e.Unlock()
	}
	same := !e.Dead() && e.Kind() == k.kind && stateOf(e).state == k.state && stateOf(e).stays == k.stays && (e.Number() != 0) == (k.number != 0)
	if k.kind == large {
		same = same && (*largeBody)(unsafe.Pointer(e)).more == k.more
	}
	if k.kind == pointed {
		same = same && (*pointedBody)(unsafe.Pointer(e)).own == k.own
	}
	if number := e.Number(); number != 0 {
		same = same && *m.owner.numbers.At(number).Load() == k.number
	}
	if !same {
		m.t.Fatalf("%+v, want %+v", stateOf(e), k)
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
		m.t.Fatalf("%d bytes of chunks for %d bytes of entries, %d pinned ones and %d that were, want at most %d", cs.size, cs.live, m.pinned, m.freed, most)
	}
}

// checkAll checks all keys, and the sums of the chunks.
func (m *chunkModel) checkAll() {
	m.t.Helper()
	if m.shard.count != len(m.keys) || m.table.Len() != int64(len(m.keys)) {
		m.t.Fatalf("%d entries of %d keys", m.shard.count, len(m.keys))
	}
	numbered := 0
	for _, k := range m.keys {
		if m.check(k); k.number != 0 {
			numbered++
		}
	}
	live, size, sizes := m.chunksByEntries()
	for i, c := range m.shard.chunks.all {
		size += c.size()
		if sizes[c] != c.live || i > 0 && m.shard.chunks.all[i-1].begin() >= c.begin() {
			m.t.Fatalf("chunk %d counts %d bytes of entries, want %d", i, c.live, sizes[c])
		}
	}
	if cs := &m.shard.chunks; cs.live != live || cs.size != size {
		m.t.Fatalf("%d of %d bytes counted, want %d of %d", cs.live, cs.size, live, size)
	}
	if used := m.owner.numbers.used(); used != numbered {
		m.t.Fatalf("%d numbers are in use, want %d", used, numbered)
	}
}

// used returns how many numbers are in use.
func (ns *Numbered[T]) used() int { return int(ns.last) - len(ns.free) }

// chunksByEntries returns the size of all entries in chunks, and that in each.
func (m *chunkModel) chunksByEntries() (live, size uintptr, sizes map[*chunk]uintptr) {
	sizes = make(map[*chunk]uintptr)
	for _, c := range m.shard.chunks.all {
		for at := uintptr(0); at < c.used; {
			e := c.at(at)
			size := m.table.sizeOf(e)
			if at += size; !e.Dead() {
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
	table, _ := newTable(room)
	open, kept := make(map[*chunk]bool), 0
	for i := range uint32(flood) {
		key := binary.BigEndian.AppendUint32(nil, i)
		e := table.Add(small, 1, key)
		if s, _ := table.shardOf(1, key); s.chunks.open != nil && !open[s.chunks.open] && kept < room/2 {
			open[s.chunks.open] = true // keeps chunks for the next ones to have other addresses
			stateOf(e).state = 1
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

// A walk through the table finds all entries that are there, while they are moved and others are
// added and removed.
func TestWalksFindMovedEntries(t *testing.T) {
	const stay, walks = 3000, 20
	table, _ := newTable(10_000)
	for i := range stay {
		stateOf(table.Add(small, 1, fmt.Append(nil, i))).state = 1
	}
	var others sync.WaitGroup
	stop := make(chan struct{})
	until := func(do func(i int)) {
		others.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
					do(i)
				}
			}
		})
	}
	until(func(int) { table.move(fmt.Append(nil, rand.IntN(stay))) })
	until(func(i int) { table.Add(small, 2, fmt.Append(nil, i)) })
	until(func(int) {
		table.Sweep(func(e *Entry) bool { return e.ID == 1 }, func(<-chan struct{}) {}, func(int) {})
	})
	for range walks {
		found := make(map[string]bool)
		table.Each(func(e *Entry) {
			if e.ID != 1 {
				return
			}
			if e = table.LockMoved(e); !e.Dead() {
				if stateOf(e).state != 1 {
					t.Errorf("key %q is found without its state", table.Text(e))
				}
				found[string(table.Text(e))] = true
			}
			e.Unlock()
		})
		if len(found) != stay {
			t.Fatalf("%d entries are found, want %d", len(found), stay)
		}
	}
	close(stop)
	others.Wait()
}

// move moves an entry, if it can be moved.
func (t *Table) move(key []byte) bool {
	s, hash := t.shardOf(1, key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := t.find(s, 1, key, hash)
	return e != nil && t.moveLocked(s, e)
}

// Keys with the same hash have separate entries.
func TestKeysOfOneHashAreApart(t *testing.T) {
	table, _ := newTable(10)
	e := table.Add(small, 1, []byte("a"))
	shard, hash := table.shardOf(1, []byte("a"))
	if again := table.Add(small, 1, []byte("a")); again != e || table.find(shard, 1, []byte("a"), hash) != e {
		t.Error("the key is not found, or has another entry when it is added again")
	}
	if table.find(shard, 1, []byte("b"), hash) != nil || table.find(shard, 2, []byte("a"), hash) != nil {
		t.Error("found in the place of another key, or of another limit's")
	}
}

// A bucket with more entries than fit finds all of them, even when one was removed and when the table
// has grown or shrunk. So does a reader that began before.
func TestBucketsHoldMoreThanFits(t *testing.T) {
	table, _ := newTable(math.MaxInt)
	s := &table.shards[0]
	var entries []*Entry
	check := func(what string) {
		t.Helper()
		for i, e := range entries {
			found := table.find(s, e.ID, table.Text(e), e.hash)
			if found != e && !e.Dead() || found != nil && e.Dead() {
				t.Fatalf("%s: entry %d, dead %v, is found as %p, want %p", what, i, e.Dead(), found, e)
			}
		}
	}
	for i := range 10 * bucketSize {
		key := fmt.Appendf(nil, "a key %0*d", 1+i, i) // short and long ones
		hash := uint32(i%2) << 31
		s.mu.Lock()
		e, at := table.newEntryLocked(s, small, 1, key, hash)
		s.insertLocked(hash, at)
		entries = append(entries, e)
		s.mu.Unlock()
		check("added")
	}
	for i := 0; i < len(entries); i += 3 {
		s.mu.Lock()
		table.removeLocked(s, s.placeOfLocked(entries[i]))
		s.mu.Unlock()
		check("removed")
	}
	for _, n := range []int{64, 1} {
		s.mu.Lock()
		s.rebuildLocked(n)
		s.mu.Unlock()
		check(fmt.Sprint("rebuilt with ", n))
	}
	seen := 0
	for e := range s.all() {
		if seen++; !slices.Contains(entries, e) {
			t.Errorf("%p is found, and was never added", e)
		}
	}
	if want := len(entries) * 2 / 3; seen != want {
		t.Errorf("%d entries are left, want %d", seen, want)
	}
}

// A reader who has found something in buckets that were replaced begins again: what the address stands for
// may have changed.
func TestOldBucketsAreNotRead(t *testing.T) {
	table, _ := newTable(10)
	key := []byte("a key")
	e := table.Add(small, 1, key)
	s, hash := table.shardOf(1, key)
	before := s.buckets.Load()
	if found, ok := table.findIn(s, before, 1, key, hash); !ok || found != e {
		t.Errorf("found %p in the present buckets (%v), want %p", found, ok, e)
	}
	s.mu.Lock()
	s.rebuildLocked(4 * firstBuckets)
	s.mu.Unlock()
	if _, ok := table.findIn(s, before, 1, key, hash); ok {
		t.Error("the old buckets are read")
	}
	if table.find(s, 1, key, hash) != e {
		t.Error("the key is not found in the new buckets")
	}
}

// A walk meets each entry once, also when the number of buckets changes while it goes on.
func TestWalksMeetEachEntryOnce(t *testing.T) {
	const entries = 20_000
	table, _ := newTable(math.MaxInt)
	for i := range entries {
		table.Add(small, 1, fmt.Append(nil, i))
	}
	met, s := make(map[*Entry]int), &table.shards[0]
	for e := range s.all() {
		if met[e]++; len(met)%10 == 0 {
			s.mu.Lock()
			s.rebuildLocked(firstBuckets << (len(met) / 10 % 9))
			s.mu.Unlock()
		}
		if met[e] > 1 {
			t.Fatalf("met %q again", table.Text(e))
		}
	}
	if len(met) != s.count {
		t.Errorf("met %d entries of %d", len(met), s.count)
	}
}

// Texts of all lengths are found again, beside what else follows an entry.
func TestTextsOfAllLengths(t *testing.T) {
	table, _ := newTable(math.MaxInt)
	keyOf := func(n int) []byte { return bytes.Repeat([]byte{byte(n)}, n) }
	const longest = 300
	for n := range longest {
		for kind := small; kind <= pointed; kind++ {
			key := keyOf(n)
			e := table.Add(kind, 1, append(key, kind))
			for i := range key {
				key[i]++ // the entry has a copy
			}
			if stateOf(e).state = math.MaxUint64; kind == large {
				(*largeBody)(unsafe.Pointer(e)).more = [3]uint64{5, 6, math.MaxUint64}
			}
		}
	}
	runtime.GC()
	for n := range longest {
		for kind := small; kind <= pointed; kind++ {
			key := append(keyOf(n), kind)
			e := table.Find(1, key)
			if e == nil || e.Kind() != kind || string(table.Text(e)) != string(key) {
				t.Fatalf("a key of %d bytes and kind %d is not found, or as %+v", n, kind, e)
			}
			if stateOf(e).state != math.MaxUint64 || kind == large && (*largeBody)(unsafe.Pointer(e)).more != [3]uint64{5, 6, math.MaxUint64} {
				t.Errorf("kind %d holds %+v", kind, stateOf(e))
			}
		}
	}
}

// Values are found by the numbers that they were given last, and numbers are used again.
func TestNumbersAreUsedAgain(t *testing.T) {
	const most, steps = 300, 20_000
	rng := rand.New(rand.NewPCG(1, 2))
	var ns Numbered[int]
	var used []uint32
	for step := range steps {
		if len(used) < most && rng.IntN(2) == 0 {
			number := ns.Add(&step)
			if slices.Contains(used, number) || number == 0 || number > most {
				t.Fatalf("number %d is given beside %d others", number, len(used))
			}
			used = append(used, number)
			if got := ns.At(number).Load(); *got != step {
				t.Fatalf("number %d stands for %d, want %d", number, *got, step)
			}
		} else if n := len(used); n > 0 {
			i := rng.IntN(n)
			ns.Remove(used[i])
			if ns.At(used[i]).Load() != nil {
				t.Fatalf("number %d still stands for something", used[i])
			}
			used[i] = used[n-1]
			used = used[:n-1]
		}
	}
}
