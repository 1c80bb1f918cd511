package caddytest

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"testing"
	"time"
)

// The windows are short because these tests really wait.

func TestRetryAfterIsTrue(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config(`
		zone sliding {
			match /sliding
			limit 3/2s
		}
		zone slots {
			match /slots
			limit 2/1s slots 1
		}
		zone fixed {
			match /fixed
			limit 2/3s fixed
		}
		zone bucket {
			match /bucket
			limit 2/3s token_bucket
		}
		zone burst {
			match /burst
			limit 1/2s burst 3
		}
		zone several {
			match /several
			limit 3/1s
			limit 4/3s fixed
			limit 1/2s burst 4
		}
		zone costly {
			match /costly
			limit 10/2s
			cost 4
		}`))
	var waiting sync.WaitGroup                 // more at once than there are processors
	for path, longest := range map[string]int{ // the longest Retry-After there can be, in seconds
		"/sliding": 3, // the window, and a slot
		"/slots":   2,
		"/fixed":   3,
		"/bucket":  2, // for one unit
		"/burst":   2,
		"/several": 4,
		"/costly":  3,
	} {
		waiting.Go(func() {
			for range 3 {
				s.checkRetryAfter(path, longest)
			}
		})
	}
	waiting.Wait()
}

// checkRetryAfter has a client refused and come back when it is told to.
func (s *server) checkRetryAfter(path string, longest int) {
	retry, err := s.exhaust(path)
	if err != nil || retry < 1 || retry > longest {
		s.t.Errorf("Retry-After for %s is %d, want 1 to %d: %v", path, retry, longest, err)
		return
	}
	time.Sleep(time.Duration(retry) * time.Second)
	a, err := s.try(http.MethodGet, path)
	if err != nil || a.status != http.StatusOK {
		s.t.Errorf("for %s after %d s, as told, status is %d with Retry-After %q: %v", path, retry, a.status, a.header.Get("Retry-After"), err)
	}
}

// exhaust sends requests until one is refused, and returns when to retry.
func (s *server) exhaust(path string) (retry int, err error) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		a, err := s.try(http.MethodGet, path)
		if err != nil || a.status == http.StatusTooManyRequests {
			return a.retryAfter(), err
		}
	}
	return 0, errors.New("no request is refused")
}

// longestSpread is the most that is added to the Retry-After of a long wait, so that not all who
// wait for the same units come back at once.
const longestSpread = time.Minute

// retryAfter returns the seconds in Retry-After, 0 if there are none.
func (a answer) retryAfter() int {
	n, err := strconv.Atoi(a.header.Get("Retry-After"))
	if err != nil {
		return 0
	}
	return n
}

// A refused request costs nothing: somebody who keeps asking passes as soon as
// somebody who waits.
func TestRefusedRequestsDoNotExtendTheWait(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config("zone z {\nlimit 2/3s\n}"))
	retry, err := s.exhaust("/")
	if err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(time.Duration(retry) * time.Second)
	for {
		last := time.Now().After(end)
		if s.passed(1, "/") == 1 {
			return
		}
		if last {
			t.Fatalf("after %d s, as told, a client that kept asking is refused", retry)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func TestJitterOnlyMakesRetryAfterLonger(t *testing.T) {
	t.Parallel()
	s := startCaddy(t, config("zone z {\nlimit 1/1000s token_bucket\n}\njitter 0.5"))
	begin := time.Now()
	s.wantPassed(1, 1, "/")
	seen := make(map[int]bool)
	for range 20 {
		retry := s.get("/").retryAfter()
		shortest := 1000*time.Second - time.Since(begin)
		longest := 1501 * time.Second
		if wait := time.Duration(retry) * time.Second; wait < shortest || wait > longest {
			t.Errorf("Retry-After is %d, want %v to %v", retry, shortest, longest)
		}
		seen[retry] = true
	}
	if len(seen) < 2 {
		t.Errorf("Retry-After is the same for all: %v", seen)
	}
}
