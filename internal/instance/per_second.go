package instance

import (
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
)

// PerSecond bounds how often an action happens in a second. The zero value is ready for use, by any
// number of goroutines.
type PerSecond struct {
	full    atomic.Int64 // the second that admits no more: a flood takes no lock
	omitted atomic.Int64 // actions not admitted since takeOmitted

	Mu     sync.Mutex
	second int64 // guarded by mu: the last second, since the Unix epoch
	done   int   // guarded by mu: actions in that second
}

// IsFull reports whether the second of now certainly admits no more. It counts nothing, so that processors don't
// wait for each other.
func (p *PerSecond) IsFull(now time.Time) bool { return p.full.Load() == now.Unix() }

// Admits reports whether the second of now admits another action, and counts it. most is the bound
// on actions in a second.
func (p *PerSecond) Admits(now time.Time, most int) bool {
	second := now.Unix()
	if p.full.Load() == second {
		p.omitted.Add(1)
		return false
	}
	p.Mu.Lock()
	defer p.Mu.Unlock()
	if second != p.second {
		p.second, p.done = second, 0
	}
	if p.done >= most {
		p.full.Store(second)
		p.omitted.Add(1)
		return false
	}
	p.done++
	return true
}

// takeOmitted returns the number of omitted actions since the last call.
func (p *PerSecond) takeOmitted() int64 {
	return p.omitted.Swap(0)
}

// Complete adds to a line the number of omitted lines of its kind before it.
func (p *PerSecond) Complete(fields []zap.Field) []zap.Field {
	if omitted := p.takeOmitted(); omitted > 0 {
		fields = append(fields, zap.Int64("left_out", omitted))
	}
	return fields
}
