// Package admissions checks limits from outside, by the answers to clients: how many units a limit
// has certainly admitted in a window. It knows nothing of the limiter's implementation.
package admissions

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Slack is how far the time of a request's decision may lie outside of the time from its sending to
// its answer: the engine's clock may be a millisecond behind the system's, and the client's is read
// in between.
const Slack = 2 * time.Millisecond

// Limit is a limit in the view of clients.
type Limit struct {
	Algorithm string // sliding, fixed or token_bucket
	Amount    int64
	Window    time.Duration
	Burst     int64 // of a token bucket; 0 means Amount
}

// Sliding, Fixed and TokenBucket return limits of these algorithms.
func Sliding(amount int64, window time.Duration) Limit {
	return Limit{Algorithm: "sliding", Amount: amount, Window: window}
}
func Fixed(amount int64, window time.Duration) Limit {
	return Limit{Algorithm: "fixed", Amount: amount, Window: window}
}
func TokenBucket(amount int64, window time.Duration, burst int64) Limit {
	return Limit{Algorithm: "token_bucket", Amount: amount, Window: window, Burst: burst}
}

// String returns the limit as in a Caddyfile.
func (l Limit) String() string {
	s := fmt.Sprintf("%d/%v %s", l.Amount, l.Window, l.Algorithm)
	if l.Burst > 0 {
		s += fmt.Sprintf(" burst %d", l.Burst)
	}
	return s
}

// Capacity returns the most units that can be admitted at once.
func (l Limit) Capacity() int64 { return cmp.Or(l.Burst, l.Amount) }

// Admission is an admitted request in the view of its client. The times are nanoseconds since the
// Unix epoch.
type Admission struct {
	Sent, Answered int64
	Cost           int64
}

// Earliest and Latest return the bounds of the time of a request's decision.
func (a Admission) Earliest() int64 { return a.Sent - int64(Slack) }
func (a Admission) Latest() int64   { return a.Answered + int64(Slack) }

// Fullest returns the highest usage of a limit, counting only certain usage: the most units of
// requests that were sent and answered within one window; for a token bucket, within any time, less
// the units refilled in that time. More than the capacity is a broken promise, regardless of when
// each request was decided in between.
func (l Limit) Fullest(log []Admission) int64 {
	log = slices.Clone(log)
	slices.SortFunc(log, func(a, b Admission) int { return cmp.Compare(a.Sent, b.Sent) })
	switch l.Algorithm {
	case "sliding":
		return l.fullestSliding(log)
	case "fixed":
		return l.fullestFixed(log)
	case "token_bucket":
		return l.fullestBucket(log)
	}
	panic("no such algorithm: " + l.Algorithm)
}

// fullestSliding examines the windows that begin with each request.
func (l Limit) fullestSliding(log []Admission) (most int64) {
	for i, first := range log {
		end, units := first.Earliest()+int64(l.Window), int64(0)
		for _, a := range log[i:] {
			if a.Earliest() >= end {
				break
			}
			if a.Latest() < end {
				units += a.Cost
			}
		}
		most = max(most, units)
	}
	return most
}

// fullestFixed examines each window.
func (l Limit) fullestFixed(log []Admission) (most int64) {
	units := make(map[int64]int64)
	for _, a := range log {
		window := a.Earliest() / int64(l.Window)
		if a.Latest()/int64(l.Window) == window {
			units[window] += a.Cost
			most = max(most, units[window])
		}
	}
	return most
}

// fullestBucket examines the times from the sending of each request to the answer to each other.
func (l Limit) fullestBucket(log []Admission) (most int64) {
	var since []Admission // sent since some time, by the time of the answer
	for _, first := range slices.Backward(log) {
		at, _ := slices.BinarySearchFunc(since, first, func(a, b Admission) int { return cmp.Compare(a.Answered, b.Answered) })
		since = slices.Insert(since, at, first)
		units := int64(0)
		for _, a := range since {
			units += a.Cost
			refilled := (a.Latest() - first.Earliest()) * l.Amount / int64(l.Window)
			most = max(most, units-refilled)
		}
	}
	return most
}
