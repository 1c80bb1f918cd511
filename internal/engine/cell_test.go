package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"
	"unsafe"

	"github.com/caddy-tally/caddy-tally/internal/engine/table"
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
	if most := 112 - unsafe.Offsetof(slotBody{}.first); most < uintptr(len("?\x01\x02\x03\x04")) {
		t.Errorf("%d bytes are left for the text of a key", most)
	}
}

// Limits beyond those that have numbers are kept as well.
func TestMoreLimitsThanNumbers(t *testing.T) {
	table, amount := newCells(math.MaxInt, nil), int64(0)
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
	if c.rare() == &noRare || other.limit() != nil {
		t.Fatal("no number was missing, or another cell has a limit")
	}
	c.setLimitLocked(first)
	if got := c.limit(); *got != *first || c.rare() != &noRare {
		t.Errorf("the first limit is kept as %+v, rare fields %+v", got, c.rare())
	}
}

// Rare fields are found by the cell that has them, and by no other, while numbers are used again.
func TestRareFieldsBelongToTheirCells(t *testing.T) {
	const cells, steps = 300, 20_000
	table, rng := newCells(math.MaxInt, nil), rand.New(rand.NewPCG(1, 2))
	all, want := make([]cell, cells), make([]int32, cells)
	for i := range all {
		all[i] = table.add(ofSlots, 1, fmt.Append(nil, i))
	}
	most := 0
	for range steps {
		i := rng.IntN(cells)
		want[i] = rng.Int32N(3)
		all[i].changeRareLocked(func(r *busy) { r.inFlight = want[i] })
		used := 0
		for i, c := range all {
			if c.rare().inFlight != want[i] || (c.rare() != &noRare) != (want[i] > 0) {
				t.Fatalf("cell %d has %+v, want %d claims", i, c.rare(), want[i])
			}
			if want[i] > 0 {
				used++
			}
		}
		most = max(most, used)
	}
	if given, _ := numbersOf(&table.rares); given != most {
		t.Errorf("%d numbers were given, want the %d used at a time", given, most)
	}
}

// A reader without a lock never sees the block of another cell.
func TestBlocksOfOtherCellsAreNotRead(t *testing.T) {
	table := newCells(math.MaxInt, nil)
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
				c.Lock()
				c.setBlocksLocked(&block{cost: int64(i)})
				c.setBlocksLocked(nil)
				c.Unlock()
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
}

// A removed cell leaves nothing behind.
func TestRemovedCellsLeaveNoRareFields(t *testing.T) {
	table := newCells(10, func(cell) *batch { return nil })
	for i := range 1000 {
		c := table.add(ofSlots, 1, fmt.Append(nil, i))
		c.setBlocksLocked(&block{until: math.MaxInt64})
	}
	if _, used := numbersOf(&table.rares); int64(used) != table.Len() {
		t.Errorf("%d cells are left, and the rare fields of %d", table.Len(), used)
	}
}

// numbersOf returns how many numbers were given, and how many of them are in use.
func numbersOf(ns *table.Numbered[rare]) (given, used int) {
	v := reflect.ValueOf(ns).Elem()
	given = int(v.FieldByName("last").Uint())
	return given, given - v.FieldByName("free").Len()
}
