package caddytest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// checker is an app that checks passwords. It says when an attempt has come, and waits with the
// answers to those that say so.
type checker struct {
	*httptest.Server
	came chan struct{}
	wait chan struct{} // closed to let them go on
}

func newChecker(t *testing.T) *checker {
	c := &checker{came: make(chan struct{}, 1000), wait: make(chan struct{})}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c.came <- struct{}{}
		if strings.Contains(string(body), "wait") {
			select {
			case <-c.wait:
			case <-r.Context().Done():
			}
		}
		if strings.Contains(string(body), rightPassword) {
			w.WriteHeader(http.StatusSeeOther)
		} else {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(c.Close)
	t.Cleanup(func() { close(c.wait) })
	return c
}

// await waits for an attempt to come.
func (c *checker) await(t *testing.T) {
	t.Helper()
	select {
	case <-c.came:
	case <-time.After(patience):
		t.Fatal("the attempt doesn't come to the app")
	}
}

// arrived returns how many attempts have come since it was called last.
func (c *checker) arrived() (n int) {
	for {
		select {
		case <-c.came:
			n++
		default:
			return n
		}
	}
}

// attempt tries a password from an address.
func (s *server) attempt(ctx context.Context, from, password string) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://127.0.0.1:"+s.port+"/login", strings.NewReader(password))
	if err != nil {
		return answer{}, err
	}
	return do(s.client, r, "X-Forwarded-For: "+from)
}

// Of many wrong passwords at once exactly the limit comes to the app, and right ones use up
// nothing. What is held stays used over a kill, and where clients leave before they are answered.
func TestHeldAttempts(t *testing.T) {
	app := newChecker(t)
	s := startCaddy(t, options(patient+trusting)+site(`rate_limit {
		zone login {
			match POST /login
			limit 5/1h
			count status 401 403 hold
		}
	}
	reverse_proxy {$BACKEND}`), "BACKEND="+strings.TrimPrefix(app.URL, "http://"))
	ctx := context.Background()
	wantNext := func(from, password string, want int) {
		t.Helper()
		if a, err := s.attempt(ctx, from, password); err != nil || a.status != want {
			t.Errorf("%s with %s is answered with %d, %v, want %d", from, password, a.status, err, want)
		}
	}

	for range 30 {
		wantNext(person, rightPassword, http.StatusSeeOther)
	}
	app.arrived()
	var all sync.WaitGroup
	for range 200 {
		all.Go(func() {
			if _, err := s.attempt(ctx, person, "wrong"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := app.arrived(); n != 5 {
		t.Errorf("%d of 200 wrong passwords came to the app, want 5", n)
	}
	wantNext(person, rightPassword, http.StatusTooManyRequests)
	if t.Failed() {
		t.FailNow()
	}

	for range 3 {
		all.Go(func() { s.attempt(ctx, neighbor, rightPassword+", wait") })
	}
	for range 3 {
		app.await(t)
	}
	s.kill()
	all.Wait()
	s.start()
	wantNext(neighbor, "wrong", http.StatusUnauthorized)
	wantNext(neighbor, "wrong", http.StatusUnauthorized)
	wantNext(neighbor, "wrong", http.StatusTooManyRequests)
	wantNext(person, "wrong", http.StatusTooManyRequests)

	app.arrived()
	for range 5 {
		leaving, leave := context.WithCancel(ctx)
		all.Go(func() { s.attempt(leaving, attacker, "guess, wait") })
		app.await(t)
		leave()
		all.Wait()
	}
	wantNext(attacker, "guess", http.StatusTooManyRequests)
}
