package caddytest

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/admissions"
)

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

// admission returns what is held against limits.
func (o observed) admission() admissions.Admission {
	return admissions.Admission{Sent: o.sent, Answered: o.answered, Cost: o.cost}
}

// earliest and latest return the bounds of the time as of which a request was
// decided.
func (o observed) earliest() int64 { return o.admission().Earliest() }
func (o observed) latest() int64   { return o.admission().Latest() }

// admitted returns the requests of a log that were admitted.
func admitted(log []observed) (a []admissions.Admission) {
	for _, o := range log {
		if o.admitted {
			a = append(a, o.admission())
		}
	}
	return a
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
// rounded up to seconds and made longer by up to a tenth, so the client may be admitted earlier.
func (o observed) tell(blocks map[block]told) {
	until := o.earliest() + (o.retry-1-min(o.retry/10, int64(longestSpread/time.Second)))*int64(time.Second)
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
