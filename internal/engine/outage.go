package engine // outage

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	firstProbe  = 100 * time.Millisecond
	lastProbe   = 10 * time.Second
	remindAfter = time.Minute
)

// outage is the time during which the store can't be used. Successive outages with short breaks are
// one: each time the next probe comes later, and the observer is notified at most once a minute.
type outage struct {
	mu       sync.Mutex
	began    time.Time     // guarded by mu, like all below
	ended    time.Time     // of the last one; zero if there was none
	reminded time.Time     // when the observer was last notified
	notified bool          // it was notified of the beginning, and not yet of the end
	backoff  time.Duration // until the next probe
	cause    error         // the last error
	reported string        // the first cause reported to the observer; "" after a second one was reported

	next atomic.Pointer[time.Time] // when the store is tried again
}

// untilProbe returns how long it is until the store is tried again, at least firstProbe.
func (o *outage) untilProbe() time.Duration {
	if next := o.next.Load(); next != nil {
		return max(time.Until(*next), firstProbe)
	}
	return firstProbe
}

// nextLocked returns how long to wait for the next probe.
func (o *outage) nextLocked() time.Duration {
	wait := jittered(o.backoff)
	next := time.Now().Add(wait)
	o.next.Store(&next)
	return wait
}

// begin returns when to probe first, when to report that the outage continues, and whether to
// report its beginning.
func (o *outage) begin(cause error, last time.Duration) (probe, remind time.Duration, tell bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.ended) > remindAfter {
		o.backoff = firstProbe
	} else {
		o.backoff = min(max(2*o.backoff, firstProbe), last)
	}
	o.began, o.cause = time.Now(), cause
	if silent := time.Since(o.reminded); silent < remindAfter {
		return o.nextLocked(), remindAfter - silent, false
	}
	o.reminded, o.notified, o.reported = o.began, true, cause.Error()
	return o.nextLocked(), remindAfter, true
}

// goOn returns when to probe next: after last at most, plus jitter. since is how long the outage
// has lasted if its cause must be reported: the first one that differs from the cause reported at
// the beginning, which often is only a timeout.
func (o *outage) goOn(cause error, last time.Duration) (probe, since time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.cause = cause
	o.backoff = min(max(2*o.backoff, firstProbe), last)
	if o.notified && o.reported != "" && o.reported != cause.Error() {
		o.reported = ""
		since = max(time.Since(o.began), 1)
	}
	return o.nextLocked(), since
}

// remind returns how long the outage has lasted, and its last error.
func (o *outage) remind() (since time.Duration, cause error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.reminded, o.notified = time.Now(), true
	return max(o.reminded.Sub(o.began), 1), o.cause
}

// end returns how long the outage has lasted, and whether to report its end.
func (o *outage) end() (lasted time.Duration, tell bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = time.Now()
	tell, o.notified = o.notified, false
	return o.ended.Sub(o.began), tell
}

// last returns when the last outage began, and its last error.
func (o *outage) last() (began time.Time, cause error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.began, o.cause
}

// jittered returns a duration of 3/4 to 5/4 of d, so that the probes of several processes spread.
func jittered(d time.Duration) time.Duration {
	return d - d/4 + rand.N(d/2)
}
