package dashboard_test

import (
	"context"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/dashboard"
	"github.com/caddy-tally/caddy-tally/internal/testing/sample"
)

// The token works once, and the cookie from then on.
func TestDoor(t *testing.T) {
	door := dashboard.NewDoor(newSite(t, sample.New(time.Now)).handler)
	server := httptest.NewServer(door)
	t.Cleanup(server.Close)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	address := door.URL(port)
	page, _, _ := strings.Cut(address, "?")
	status := func(client *http.Client, method, url string) int {
		t.Helper()
		r, err := http.NewRequest(method, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		for _, cookie := range response.Cookies() {
			if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || len(cookie.Path) < 20 || !strings.HasPrefix(page, server.URL+cookie.Path) {
				t.Errorf("the cookie is %s", cookie)
			}
		}
		return response.StatusCode
	}
	jar, _ := cookiejar.New(nil)
	ours, others := &http.Client{Jar: jar}, &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for _, wrong := range []string{server.URL, page, page + "?token=", page + "?token=x", page + "clients", strings.Replace(address, "token=", "token=x&token=", 1)} {
		if got := status(others, http.MethodGet, wrong); got != http.StatusForbidden {
			t.Errorf("%s without the token: got %d, want 403", wrong, got)
		}
	}
	if got := status(others, http.MethodHead, address); got != http.StatusForbidden { // a preview of the link
		t.Errorf("HEAD: got %d, want 403", got)
	}
	if got := status(ours, http.MethodGet, address); got != http.StatusOK {
		t.Errorf("with the token: got %d, want 200", got)
	}
	for _, again := range []string{address, page, page + "clients", page + "style.css"} {
		if got := status(ours, http.MethodGet, again); got != http.StatusOK {
			t.Errorf("%s with the cookie: got %d, want 200", again, got)
		}
		if got := status(others, http.MethodGet, again); got != http.StatusForbidden {
			t.Errorf("%s, when the token is used: got %d, want 403", again, got)
		}
	}
}

// A name that another site points to this machine is rejected.
func TestDoorAgainstRebinding(t *testing.T) {
	door := dashboard.NewDoor(newSite(t, sample.New(time.Now)).handler)
	for host, want := range map[string]int{
		"127.0.0.1:8042": 303, "localhost:9000": 303, "[::1]:80": 303, "LOCALHOST": 303,
		"evil.example": 421, "evil.example:8042": 421, "127.0.0.1.evil.example": 421, "localhost.evil.example:80": 421, "192.168.0.1": 421, "": 421, "0.0.0.0:8042": 421,
	} {
		door := dashboard.NewDoor(door)
		r := httptest.NewRequest(http.MethodGet, door.URL("8042"), nil)
		r.Host = host
		w := httptest.NewRecorder()
		door.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("the host %q: got %d, want %d", host, w.Code, want)
		}
		if w.Header().Get("X-Frame-Options") != "DENY" || w.Header().Get("Referrer-Policy") == "" {
			t.Errorf("the host %q: got the header %v", host, w.Header())
		}
	}
}

// Live updates don't prevent it from ending.
func TestDoorEnds(t *testing.T) {
	door := dashboard.NewDoor(newSite(t, sample.New(time.Now)).handler)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- door.Serve(ctx, listener) }()
	jar, _ := cookiejar.New(nil)
	client := &http.Client{Jar: jar}
	address := door.URL(port)
	for _, path := range []string{address, strings.Replace(address, "?", "events?x=", 1)} {
		response, err := client.Get(path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			t.Fatalf("%s: got %d", path, response.StatusCode)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
