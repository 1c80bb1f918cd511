package engine

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
)

// firstOf returns the first n results of look for the cells of a table, in order. It visits the
// table on all processors: several goroutines call look at a time, and have ended when firstOf
// returns. Once there are n results, look is passed the last one so far, and need not return
// results after it.
func firstOf[T any](t *table, n int, compare func(a, b *T) int, look func(c cell, last *T) (T, bool)) []T {
	first := make([]top[T], min(runtime.GOMAXPROCS(0), shardCount))
	var walks sync.WaitGroup
	var taken atomic.Int32
	for i := range first {
		first[i] = top[T]{n: n, compare: compare}
		walks.Go(func() {
			for next := taken.Add(1) - 1; next < shardCount; next = taken.Add(1) - 1 {
				first[i].addAll(t, &t.shards[next], look)
			}
		})
	}
	walks.Wait()
	all := first[0]
	for _, other := range first[1:] {
		for _, v := range other.kept {
			all.add(v)
		}
	}
	return all.list()
}

// top keeps the first n of many values.
type top[T any] struct {
	n       int
	compare func(a, b *T) int
	kept    []T  // fewer than 2*n
	cut     bool // the first n are in order, and no dropped value comes before them
}

// addAll adds the results of look for the cells of a shard of a table.
func (t *top[T]) addAll(in *table, s *shard, look func(c cell, last *T) (T, bool)) {
	for b := range s.all() {
		if v, ok := look(cell{b, in}, t.last()); ok {
			t.add(v)
		}
	}
}

// last returns the last of the first n, or nil if there are fewer.
func (t *top[T]) last() *T {
	if !t.cut {
		return nil
	}
	return &t.kept[t.n-1]
}

func (t *top[T]) add(v T) {
	if t.n <= 0 {
		return
	}
	t.kept = append(t.kept, v)
	last := len(t.kept) - 1
	switch {
	case t.cut && t.compare(t.last(), &t.kept[last]) <= 0:
		t.kept = t.kept[:last]
	case last+1 == 2*t.n:
		t.kept, t.cut = t.list(), true
	}
}

// list returns the first n, in order.
func (t *top[T]) list() []T {
	slices.SortFunc(t.kept, func(a, b T) int { return t.compare(&a, &b) })
	return t.kept[:min(max(t.n, 0), len(t.kept))]
}
