package table

import (
	"math/bits"
	"sync"
	"sync/atomic"
)

// Numbered are values that are found by numbers, without a lock. A number is used again after its value
// was removed.
type Numbered[T any] struct {
	pages [26]atomic.Pointer[[]atomic.Pointer[T]] // page i has firstPage<<i places; set once

	mu   sync.Mutex
	last uint32   // guarded by mu: the highest number given so far
	free []uint32 // guarded by mu: lower numbers without values
}

const (
	pageBits  = 6
	firstPage = 1 << pageBits
)

// At returns the place with a number from 1.
func (ns *Numbered[T]) At(number uint32) *atomic.Pointer[T] {
	number += firstPage - 1 // page i has the numbers with pageBits+i digits after the first
	page := bits.Len32(number) - 1 - pageBits
	return &(*ns.pages[page].Load())[number-firstPage<<page]
}

// Add returns a number for a value.
func (ns *Numbered[T]) Add(value *T) (number uint32) {
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
	ns.At(number).Store(value)
	return number
}

// Remove removes a value.
func (ns *Numbered[T]) Remove(number uint32) {
	ns.mu.Lock()
	defer ns.mu.Unlock()
	ns.At(number).Store(nil)
	ns.free = append(ns.free, number)
}
