package engine

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// numbered are values that are found by numbers, without a lock. A number is used again after its value
// was removed.
type numbered[T any] struct {
	pages [26]atomic.Pointer[[]atomic.Pointer[T]] // page i has firstPage<<i places; set once

	mu   sync.Mutex
	last uint32   // guarded by mu: the highest number given so far
	free []uint32 // guarded by mu: lower numbers without values
}

const (
	pageBits  = 6
	firstPage = 1 << pageBits
)

// at returns the place with a number from 1.
func (ns *numbered[T]) at(number uint32) *atomic.Pointer[T] {
	number += firstPage - 1 // page i has the numbers with pageBits+i digits after the first
	page := bits.Len32(number) - 1 - pageBits
	return &(*ns.pages[page].Load())[number-firstPage<<page]
}

// add returns a number for a value.
func (ns *numbered[T]) add(value *T) (number uint32) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	if n := len(ns.free); n > 0 {
		number, ns.free = ns.free[n-1], ns.free[:n-1]
	} else {
		ns.last++
		number = ns.last
		if page := bits.Len32(number+firstPage-1) - 1 - pageBits; ns.pages[page].Load() == nil {
			places := make([]atomic.Pointer[T], firstPage<<page)
			ns.pages[page].Store(&places)
		}
	}
	ns.at(number).Store(value)
	return number
}

// remove removes a value.
func (ns *numbered[T]) remove(number uint32) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.at(number).Store(nil)
	ns.free = append(ns.free, number)
}
