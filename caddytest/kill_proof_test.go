package caddytest

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// clientSlack is how far the time as of which a request was decided may lie
// outside of the time from its sending to its answer: the engine's clock may be
// a millisecond behind the system's, and the client's is read in between.
const clientSlack = int64(2 * time.Millisecond)

// knownLimit is a limit as the clients know it.
type knownLimit struct {
	algorithm string // sliding, fixed or token_bucket
	amount    int64
	window    time.Duration
	burst     int64 // of a token bucket
}

// String returns the limit as a Caddyfile has it.
func (l knownLimit) String() string {
	s := fmt.Sprintf("%d/%v %s", l.amount, l.window, l.algorithm)
	if l.burst > 0 {
		s += fmt.Sprintf(" burst %d", l.burst)
	}
	return s
}

// capacity returns the most units that can be admitted at once.
func (l knownLimit) capacity() int64 { return max(l.amount, l.burst) }

// observed is a request that was answered, as its client saw it. Requests that
// were cut off are not among them: whether they were admitted is not known.
type observed struct {
	sent, answered int64 // nanoseconds since the Unix epoch
	cost           int64
	process        int  // that was asked, counted from 1
	alone          bool // no other used the database in the life of that one
	admitted       bool
	retry          int64 // seconds, of a refusal
}

// earliest and latest return the bounds of the time as of which a request was
// decided.
func (o observed) earliest() int64 { return o.sent - clientSlack }
func (o observed) latest() int64   { return o.answered + clientSlack }

// fullest returns how full a limit was at its fullest, counting only what is
// certain: the most units of requests that were sent and answered within one
// window; for a token bucket, within any time, less what was refilled in that
// time. More than the capacity is a broken promise, whenever exactly in
// between each of the requests was decided.
func (l knownLimit) fullest(log []observed) int64 {
	admitted := slices.DeleteFunc(slices.Clone(log), func(o observed) bool { return !o.admitted })
	slices.SortFunc(admitted, func(a, b observed) int { return cmp.Compare(a.sent, b.sent) })
	switch l.algorithm {
	case "sliding":
		return l.fullestSliding(admitted)
	case "fixed":
		return l.fullestFixed(admitted)
	case "token_bucket":
		return l.fullestBucket(admitted)
	}
	panic("no such algorithm: " + l.algorithm)
}

// fullestSliding looks at the windows that begin with each request.
func (l knownLimit) fullestSliding(admitted []observed) (most int64) {
	for i, first := range admitted {
		end, units := first.earliest()+int64(l.window), int64(0)
		for _, o := range admitted[i:] {
			if o.earliest() >= end {
				break
			}
			if o.latest() < end {
				units += o.cost
			}
		}
		most = max(most, units)
	}
	return most
}

// fullestFixed looks at each window.
func (l knownLimit) fullestFixed(admitted []observed) (most int64) {
	units := make(map[int64]int64)
	for _, o := range admitted {
		window := o.earliest() / int64(l.window)
		if o.latest()/int64(l.window) == window {
			units[window] += o.cost
			most = max(most, units[window])
		}
	}
	return most
}

// fullestBucket looks at the times from the sending of each request to the
// answer to each other.
func (l knownLimit) fullestBucket(admitted []observed) (most int64) {
	var since []observed // sent from some time on, by the time of the answer
	for _, first := range slices.Backward(admitted) {
		at, _ := slices.BinarySearchFunc(since, first, func(a, b observed) int { return cmp.Compare(a.answered, b.answered) })
		since = slices.Insert(since, at, first)
		units := int64(0)
		for _, o := range since {
			units += o.cost
			refilled := (o.latest() - first.earliest()) * l.amount / int64(l.window)
			most = max(most, units-refilled)
		}
	}
	return most
}

// block says who refuses requests from what cost on; no process is any of them.
type block struct {
	process int
	cost    int64
}

// told is until when, at least, a client is blocked, and who said so.
type told struct {
	until   int64
	process int
}

// checkBlocked returns an error if a client was admitted that certainly had
// been told to wait for longer. It is held to by the process that said so and,
// if that was alone with the database, by those that came after it was killed:
// what another process holds may be given back before its time, and is nobody's
// loss. kept is how many processes kept to what one before them had said.
func checkBlocked(log []observed) (kept int, err error) {
	log = slices.Clone(log)
	slices.SortFunc(log, func(a, b observed) int { return cmp.Compare(a.sent, b.sent) })
	refused := slices.DeleteFunc(slices.Clone(log), func(o observed) bool { return o.admitted })
	slices.SortFunc(refused, func(a, b observed) int { return cmp.Compare(a.answered, b.answered) })
	blocks, keepers := make(map[block]told), make(map[int]bool)
	for _, o := range log {
		for len(refused) > 0 && refused[0].answered < o.sent {
			refused[0].tell(blocks)
			refused = refused[1:]
		}
		b := o.blockedBy(blocks)
		switch early := time.Duration(b.until - o.latest()); {
		case early <= 0:
		case o.admitted:
			return 0, fmt.Errorf("process %d has admitted a cost of %d at least %v before the time that process %d had told", o.process, o.cost, early, b.process)
		case o.process != b.process:
			keepers[o.process] = true
		}
	}
	return len(keepers), nil
}

// tell notes what a refusal says of the time to come. Its Retry-After is
// rounded up to seconds, so the client may be admitted up to a second earlier.
func (o observed) tell(blocks map[block]told) {
	until := o.earliest() + (o.retry-1)*int64(time.Second)
	for _, process := range []int{o.process, 0} {
		b := block{process, o.cost}
		if (process != 0 || o.alone) && until > blocks[b].until {
			blocks[b] = told{until, o.process}
		}
	}
}

// blockedBy returns what refuses a request for longest.
func (o observed) blockedBy(blocks map[block]told) (longest told) {
	for cost := int64(1); cost <= o.cost; cost++ {
		for _, process := range []int{o.process, 0} {
			if b := blocks[block{process, cost}]; b.until > longest.until {
				longest = b
			}
		}
	}
	return longest
}
