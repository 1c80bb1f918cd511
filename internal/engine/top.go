package engine // operators

import "slices"

// firstOf returns the first n results of look for the cells of a table, in order. Once there are n results, look
// is passed the last one so far, and need not return results after it.
func firstOf[T any](t *cells, n int, compare func(a, b *T) int, look func(c cell, last *T) (T, bool)) []T {
	first := top[T]{n: n, compare: compare}
	t.each(func(c cell) {
		if v, ok := look(c, first.last()); ok {
			first.add(v)
		}
	})
	return first.list()
}

// top keeps the first n of many values.
type top[T any] struct {
	n       int
	compare func(a, b *T) int
	kept    []T  // fewer than 2*n
	cut     bool // the first n are in order, and no dropped value comes before them
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
