// Package load detects high load: too many requests, slow answers, or a busy processor. A [Switch]
// turns on when a [Measure] is above its bound, and off when it has been below four fifths of the
// bound for ten seconds, so that it doesn't flap.
//
// Times are in nanoseconds and given by the caller. They may stand still or go back a little.
package load

import (
	"math"
	"sync"
	"time"
)

// Measure measures a load in relation to a bound: 1 is the bound. All methods may be called by
// several goroutines.
type Measure interface {
	Load(now int64) float64
}

const (
	// calm is how long the load must be low for a switch to turn off.
	calm = int64(10 * time.Second)
	// low is the part of the bound up to which the load is low.
	low = 0.8
)

// Switch is on during high load.
type Switch struct {
	Measure
	Text    string                       // the condition as in a Caddyfile
	Changed func(on bool, since float64) // called when it turns on or off, with the load then; may be nil

	mu    sync.Mutex
	on    bool
	since int64 // when it turned on or off; 0 if it never did
	high  int64 // when the load was last not low
}

// On reports whether the switch is on at a time.
func (s *Switch) On(now int64) bool {
	load := s.Load(now)
	s.mu.Lock()
	was := s.on
	if load >= low {
		s.high = now
	}
	s.on = load > 1 || was && now-s.high < calm
	on := s.on
	if on != was {
		s.since = now
	}
	s.mu.Unlock()
	if on != was && s.Changed != nil {
		s.Changed(on, load)
	}
	return on
}

// Since returns when the switch last turned on or off, or 0 if it was always off.
func (s *Switch) Since() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.since
}

// Inherit continues the state of the same switch in an earlier config.
func (s *Switch) Inherit(from *Switch) {
	from.mu.Lock()
	on, since, high := from.on, from.since, from.high
	from.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.on, s.since, s.high = s.on || on, max(s.since, since), max(s.high, high)
}

// None is a measure that is always zero.
type None struct{}

// Load implements [Measure].
func (None) Load(int64) float64 { return 0 }

// slots is the number of slots of a window.
const slots = 10

// ring counts in slots of a window, of which the last is the current one. Its owner's lock guards
// it.
type ring[T any] struct {
	width int64 // of a slot
	last  int64 // number of the current slot
	slots [slots]T
}

// at returns the current slot. It zeroes slots that have passed since the last call.
func (r *ring[T]) at(now int64) *T {
	slot := now / r.width
	if slot-r.last >= slots || r.last-slot >= slots {
		r.slots, r.last = [slots]T{}, slot
	}
	for r.last < slot {
		r.last++
		var zero T
		r.slots[r.last%slots] = zero
	}
	return &r.slots[r.last%slots]
}

// Rate is the number of requests in a window, in relation to a bound.
type Rate struct {
	bound float64
	mu    sync.Mutex
	ring  ring[int64]
}

// NewRate returns the rate of requests in relation to n in a window. Both must be at least 1.
func NewRate(n int64, window time.Duration) *Rate {
	return &Rate{bound: float64(n), ring: ring[int64]{width: max(int64(window)/slots, 1)}}
}

// Add counts a request.
func (r *Rate) Add(now int64) {
	r.mu.Lock()
	*r.ring.at(now)++
	r.mu.Unlock()
}

// IsLike reports whether both rates have the same window.
func (r *Rate) IsLike(other *Rate) bool { return r.ring.width == other.ring.width }

// Inherit adds the counts of a rate in an earlier config, which must have the same window.
func (r *Rate) Inherit(from *Rate) {
	from.mu.Lock()
	before := from.ring
	from.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	last := max(before.last, r.ring.last) * r.ring.width
	r.ring.at(last)
	before.at(last)
	for i, n := range before.slots {
		r.ring.slots[i] += n
	}
}

// Load implements [Measure].
func (r *Rate) Load(now int64) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ring.at(now)
	var n int64
	for _, count := range r.ring.slots {
		n += count
	}
	return float64(n) / r.bound
}

const (
	// latencyWindow is how long answers count.
	latencyWindow = 5 * time.Second
	// leastAnswers is the number of answers below which their times are not significant.
	leastAnswers = 10
	// step is the ratio of one bucket of times to the next.
	step = 1.1
	// buckets reach from a millisecond to some 20 minutes.
	buckets = 150
)

// Latency is the time within which nine of ten answers of the last five seconds began, in relation
// to a bound. It is accurate to a tenth. With fewer than ten answers it is 0.
type Latency struct {
	bound time.Duration
	mu    sync.Mutex
	ring  ring[[buckets]uint32]
}

// NewLatency returns the latency in relation to a time, which must be at least a millisecond.
func NewLatency(bound time.Duration) *Latency {
	return &Latency{bound: bound, ring: ring[[buckets]uint32]{width: int64(latencyWindow) / slots}}
}

// Add notes an answer that took d to begin.
func (l *Latency) Add(d time.Duration, now int64) {
	bucket := math.Ceil(math.Log(float64(max(d, time.Millisecond))/float64(time.Millisecond)) / math.Log(step))
	l.mu.Lock()
	l.ring.at(now)[int(min(bucket, buckets-1))]++
	l.mu.Unlock()
}

// addLeft notes that a client left after it had waited for d. That says something only about answers
// that are slow anyway.
func (l *Latency) addLeft(d time.Duration, now int64) {
	if d > l.bound {
		l.Add(d, now)
	}
}

// Load implements [Measure].
func (l *Latency) Load(now int64) float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ring.at(now)
	var sum [buckets]uint32
	var all uint32
	for _, slot := range l.ring.slots {
		for i, n := range slot {
			sum[i] += n
			all += n
		}
	}
	if all < leastAnswers {
		return 0
	}
	above := all / 10
	for i := buckets - 1; ; i-- {
		if sum[i] > above {
			return math.Pow(step, float64(i)) * float64(time.Millisecond) / float64(l.bound)
		}
		above -= sum[i]
	}
}

// sampled is the interval of reading the processors' times.
const sampled = int64(time.Second)

// Processor is the utilization of all processors of the machine, in relation to a bound.
type Processor struct {
	bound     float64
	read      func() (busy, all uint64, err error)
	mu        sync.Mutex
	next      int64
	busy, all uint64
	load      float64
}

// NewProcessor returns the utilization of the processors in relation to a share from 0 to 1. It
// returns an error if the utilization is not available.
func NewProcessor(bound float64) (*Processor, error) {
	p := &Processor{bound: bound, read: readProcessors}
	var err error
	p.busy, p.all, err = p.read()
	return p, err
}

// Load implements [Measure]. It reads the processors' times once a second at most, first a second
// after its first call: a shorter time says nothing.
func (p *Processor) Load(now int64) float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.next == 0 {
		p.next = now + sampled
	}
	if now < p.next && p.next-now <= sampled {
		return p.load
	}
	p.next = now + sampled
	if busy, all, err := p.read(); err == nil && all > p.all {
		p.load = float64(busy-p.busy) / float64(all-p.all) / p.bound
		p.busy, p.all = busy, all
	}
	return p.load
}
