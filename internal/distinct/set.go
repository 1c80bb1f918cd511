package distinct

import (
	"math/bits"
	"sync/atomic"
)

const (
	indexBits = 11
	registers = 1 << indexBits
	maxRank   = 31 // the most that 5 bits hold; enough for 2^41 values
	perWord   = 4  // registers
)

// Set counts different values by their hashes. The zero value is empty. It is safe for
// concurrent use.
type Set struct {
	words [registers / perWord]atomic.Uint32
}

// Add counts a value by its hash, 64 uniformly distributed bits.
func (s *Set) Add(hash uint64) {
	i, rank := place(hash)
	word, shift := &s.words[i/perWord], i%perWord*8
	for {
		was := word.Load()
		if was>>shift&0xff >= rank {
			return
		}
		if word.CompareAndSwap(was, was&^(0xff<<shift)|rank<<shift) {
			return
		}
	}
}

// place returns the register of a hash, and the least rank of the register.
func place(hash uint64) (register, rank uint32) {
	zeros := bits.LeadingZeros64(hash<<indexBits | 1<<(indexBits-1))
	return uint32(hash >> (64 - indexBits)), uint32(min(zeros+1, maxRank))
}

// Take returns the sketch of the values since the last call, and empties the set. A value that is
// added concurrently is in this sketch or in the next.
func (s *Set) Take() Sketch {
	var ranks [registers]byte
	for i := range s.words {
		if s.words[i].Load() == 0 {
			continue
		}
		word := s.words[i].Swap(0)
		for j := range perWord {
			ranks[i*perWord+j] = byte(word >> (8 * j))
		}
	}
	return pack(&ranks)
}
