package caddytest

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"
)

// repeat has n goroutines call do over and over, each with its number, until it is stopped. stop waits
// for them, and may be called several times.
func repeat(n int, do func(i int)) (stop func()) {
	var group sync.WaitGroup
	stopped := make(chan struct{})
	for i := range n {
		group.Go(func() {
			for {
				select {
				case <-stopped:
					return
				default:
					do(i)
				}
			}
		})
	}
	return sync.OnceFunc(func() {
		close(stopped)
		group.Wait()
	})
}

// account is a key of a zone.
type account struct{ zone, key string }

// ledger is what clients were answered. Its methods may be called from any goroutine.
type ledger struct {
	mu     sync.Mutex
	all    map[account][]observed // guarded by mu, like all below
	cutOff int                    // requests that were sent and not answered: whether they were admitted isn't known
	odd    []string               // answers that there should not be
}

func newLedger() *ledger { return &ledger{all: make(map[account][]observed)} }

// ask sends a request of an account, at the path of its zone, and notes what is answered. note may add
// what is known of the process, after the answer.
func (l *ledger) ask(s *server, acc account, cost int64, note func(*observed)) {
	o := observed{cost: cost, sent: time.Now().UnixNano()}
	a, err := s.try(http.MethodGet, "/"+acc.zone, "X-Key: "+acc.key, fmt.Sprint("X-Cost: ", cost))
	o.answered = time.Now().UnixNano()
	if errors.Is(err, syscall.ECONNREFUSED) { // not there yet, or not any more
		time.Sleep(time.Millisecond)
		return
	}
	note(&o)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.cutOff++
		return
	case a.status == http.StatusOK:
		o.admitted = true
	case a.status == http.StatusTooManyRequests && a.retryAfter() > 0:
		o.retry = int64(a.retryAfter())
	default:
		l.odd = append(l.odd, fmt.Sprintf("%s: status %d, Retry-After %q", acc.zone, a.status, a.header.Get("Retry-After")))
		return
	}
	l.all[acc] = append(l.all[acc], o)
}

// of returns what was answered to an account so far.
func (l *ledger) of(a account) []observed {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all[a]
}

// total returns how many requests were admitted and how many refused, and how long one took at most.
func (l *ledger) total() (admitted, refused int, slowest time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, log := range l.all {
		for _, o := range log {
			if slowest = max(slowest, time.Duration(o.answered-o.sent)); o.admitted {
				admitted++
			} else {
				refused++
			}
		}
	}
	return admitted, refused, slowest
}

// check fails the test unless all requests that were answered were admitted or refused.
func (l *ledger) check(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, odd := range l.odd {
		t.Error(odd)
	}
}

// String tells what was answered.
func (l *ledger) String() string {
	admitted, refused, slowest := l.total()
	l.mu.Lock()
	defer l.mu.Unlock()
	return fmt.Sprintf("%d admitted, %d refused, %d cut off, the slowest in %v", admitted, refused, l.cutOff, slowest.Round(time.Millisecond))
}
