package engine // cells

import (
	"math"
	"sync"
	"sync/atomic"
)

// limits numbers the different limits of a table's cells.
type limits struct {
	list atomic.Pointer[[]*Limit] // the limit with number i is at i-1; written under mu

	mu      sync.RWMutex
	numbers map[Limit]uint16 // guarded by mu
}

// otherLimit is the number of limits beyond the first 65534. Limits that are lowered by their usage
// elsewhere are very many.
const otherLimit = math.MaxUint16

// at returns the limit with a number, or nil for 0.
func (ls *limits) at(number uint16) *Limit {
	if number == 0 {
		return nil
	}
	return (*ls.list.Load())[number-1]
}

// number returns the number of a limit.
func (ls *limits) number(limit *Limit) uint16 {
	ls.mu.RLock()
	number := ls.numbers[*limit]
	ls.mu.RUnlock()
	if number != 0 {
		return number
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if number = ls.numbers[*limit]; number != 0 {
		return number
	}
	var list []*Limit
	if known := ls.list.Load(); known != nil {
		list = *known
	} else {
		ls.numbers = make(map[Limit]uint16)
	}
	if len(list)+1 == otherLimit {
		return otherLimit
	}
	own := *limit             // the caller's may be a part of a config
	list = append(list, &own) // readers of the shorter list don't see it
	ls.list.Store(&list)
	number = uint16(len(list))
	ls.numbers[*limit] = number
	return number
}
