package engine

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/limiter"
)

// The garbage collector doesn't read bodies, and a body with an IPv4 address fills 112 bytes.
func TestBodiesHaveNoPointers(t *testing.T) {
	var check func(reflect.Type)
	check = func(typ reflect.Type) {
		switch typ.Kind() {
		case reflect.Struct:
			for i := range typ.NumField() {
				check(typ.Field(i).Type)
			}
		case reflect.Array:
			check(typ.Elem())
		case reflect.Pointer, reflect.UnsafePointer, reflect.Interface, reflect.Map, reflect.Slice, reflect.String, reflect.Chan, reflect.Func:
			t.Errorf("a body holds a %v", typ)
		}
	}
	check(reflect.TypeFor[slotBody]())
	check(reflect.TypeFor[bucketBody]())
	if most := 112 - textAt(ofSlots); most < uintptr(len("?\x01\x02\x03\x04")) {
		t.Errorf("%d bytes are left for the text of a key", most)
	}
}

// Texts of all lengths are found again, beside what else follows a body.
func TestTextsOfAllLengths(t *testing.T) {
	table := newTable(math.MaxInt, nil)
	keyOf := func(n int) []byte { return bytes.Repeat([]byte{byte(n)}, n) }
	const longest = 300
	for n := range longest {
		for k := ofSlots; k <= ofClient; k++ {
			key := keyOf(n)
			c := table.add(k, clientsID, append(key, byte(k)))
			for i := range key {
				key[i]++ // the cell has a copy
			}
			if k != ofClient {
				c.setLeaseLocked(limiter.Lease{Units: 1, At: 2, Used: 3, Spent: 4, Part: 5, HeldPart: 6, SpentPart: 7})
			} else {
				c.client().period.Store(math.MaxUint32)
			}
		}
	}
	runtime.GC()
	for n := range longest {
		for k := ofSlots; k <= ofClient; k++ {
			key := append(keyOf(n), byte(k))
			c := table.find(clientsID, key)
			if !c.exists() || c.kind != k || c.key() != string(key) {
				t.Fatalf("a key of %d bytes and kind %d is not found, or as %+v", n, k, c.body)
			}
			want := limiter.Lease{Units: 1, At: 2, Used: 3, Spent: 4}
			if k == ofBucket {
				want.Part, want.HeldPart, want.SpentPart = 5, 6, 7
			}
			if got := c.leaseLocked(); k != ofClient && got != want {
				t.Errorf("kind %d holds %+v, want %+v", k, got, want)
			}
			if (c.client() != nil) != (k == ofClient) || k == ofClient && c.client().period.Load() != math.MaxUint32 {
				t.Errorf("kind %d has the client %+v", k, c.client())
			}
		}
	}
}

// Limits beyond those that have numbers are kept as well.
func TestMoreLimitsThanNumbers(t *testing.T) {
	table, amount := newTable(math.MaxInt, nil), int64(0)
	next := func() *Limit {
		amount++
		return newLimit(t, limiter.Params{Amount: amount, Window: time.Hour})
	}
	c, other := table.add(ofSlots, 1, []byte("a")), table.add(ofSlots, 1, []byte("b"))
	if c.limit() != nil {
		t.Error("a new cell has a limit")
	}
	first := next()
	for limit := first; amount < otherLimit+10; limit = next() {
		c.setLimitLocked(limit)
		if got := c.limit(); got == nil || *got != *limit {
			t.Fatalf("limit %d is kept as %+v", amount, got)
		}
	}
	if c.rare() == nil || other.limit() != nil {
		t.Fatal("no number was missing, or another cell has a limit")
	}
	c.setLimitLocked(first)
	if got := c.limit(); *got != *first || c.rare() != nil {
		t.Errorf("the first limit is kept as %+v, rare fields %+v", got, c.rare())
	}
}

// Rare fields are found by the cell that has them, and by no other, while numbers are used again.
func TestRareFieldsBelongToTheirCells(t *testing.T) {
	const cells, steps = 300, 20_000
	table, rng := newTable(math.MaxInt, nil), rand.New(rand.NewPCG(1, 2))
	all, want := make([]cell, cells), make([]int32, cells)
	for i := range all {
		all[i] = table.add(ofSlots, 1, fmt.Append(nil, i))
	}
	most := 0
	for range steps {
		i := rng.IntN(cells)
		want[i] = rng.Int32N(3)
		all[i].changeRareLocked(func(r *rare) { r.inFlight = want[i] })
		used := 0
		for i, c := range all {
			if c.rare().claims() != want[i] || (c.rare() != nil) != (want[i] > 0) {
				t.Fatalf("cell %d has %+v, want %d claims", i, c.rare(), want[i])
			}
			if want[i] > 0 {
				used++
			}
		}
		most = max(most, used)
	}
	if last := int(table.rares.last); last != most {
		t.Errorf("%d numbers were given, want the %d used at a time", last, most)
	}
}

// A reader without a lock never sees the block of another cell.
func TestBlocksOfOtherCellsAreNotRead(t *testing.T) {
	table := newTable(math.MaxInt, nil)
	var cells [4]cell
	for i := range cells {
		cells[i] = table.add(ofSlots, 1, fmt.Append(nil, i))
	}
	stop := make(chan struct{})
	var readers, writers sync.WaitGroup
	for i, c := range cells {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if b := c.blocks(); b != nil && b.cost != int64(i) {
					t.Errorf("cell %d reads the block of cell %d", i, b.cost)
					return
				}
			}
		})
		writers.Go(func() {
			for range 2000 {
				c.mu.Lock()
				c.setBlocksLocked(&block{cost: int64(i)})
				c.setBlocksLocked(nil)
				c.mu.Unlock()
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
}

// A removed cell leaves nothing behind.
func TestRemovedCellsLeaveNoRareFields(t *testing.T) {
	table := newTable(10, func(cell) *batch { return nil })
	for i := range 1000 {
		c := table.add(ofSlots, 1, fmt.Append(nil, i))
		c.setBlocksLocked(&block{until: math.MaxInt64})
	}
	table.rares.mu.Lock()
	defer table.rares.mu.Unlock()
	if used := int(table.rares.last) - len(table.rares.free); int64(used) != table.count.Load() {
		t.Errorf("%d cells are left, and the rare fields of %d", table.count.Load(), used)
	}
}
