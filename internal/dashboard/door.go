package dashboard

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"
)

// Door admits one browser, with a token that works once. It is for a listener on loopback, which
// all users of the machine, and all pages in its browsers, can reach.
//
// The token becomes a cookie. Cookies ignore ports, so browsers would send it to other servers on
// this machine too. Therefore the cookie is restricted to an unguessable path that contains all
// pages.
type Door struct {
	inside http.Handler
	path   string // begins and ends with a slash
	token  string
	cookie string // its value
	used   atomic.Bool
}

// NewDoor returns a door to a handler.
func NewDoor(inside http.Handler) *Door {
	return &Door{inside: inside, path: "/" + rand.Text() + "/", token: rand.Text(), cookie: rand.Text()}
}

// URL returns the URL to open in a browser, with a port of this machine.
func (d *Door) URL(port string) string {
	return "http://127.0.0.1:" + port + d.path + "?token=" + d.token
}

const cookieName = "rate_limit_dashboard"

// ServeHTTP implements http.Handler.
func (d *Door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header(), r, "")
	switch {
	case !isLoopback(r.Host):
		http.Error(w, "This is for this machine only: expected the host 127.0.0.1 or localhost.",
			http.StatusMisdirectedRequest)
	case !strings.HasPrefix(r.URL.Path, d.path):
		d.refuse(w)
	case d.hasCookie(r):
		if r.URL.Query().Has("token") {
			d.redirect(w)
			return
		}
		d.inside.ServeHTTP(w, r)
	case d.redeem(r):
		// #nosec G124 -- it is for plain HTTP on loopback
		http.SetCookie(w, &http.Cookie{Name: cookieName, Value: d.cookie, Path: d.path, HttpOnly: true,
			SameSite: http.SameSiteStrictMode})
		d.redirect(w)
	default:
		d.refuse(w)
	}
}

// redirect redirects to the first page, without the token.
func (d *Door) redirect(w http.ResponseWriter) {
	w.Header().Set("Location", d.path)
	w.WriteHeader(http.StatusSeeOther)
}

func (d *Door) refuse(w http.ResponseWriter) {
	http.Error(w, "Open the address that caddy rate-limit dashboard has printed. It works once: run the command again for another.", http.StatusForbidden)
}

func (d *Door) hasCookie(r *http.Request) bool {
	return slices.ContainsFunc(r.CookiesNamed(cookieName), func(cookie *http.Cookie) bool {
		return subtle.ConstantTimeCompare([]byte(cookie.Value), []byte(d.cookie)) == 1
	})
}

// redeem reports whether a request is the first one with the token.
func (d *Door) redeem(r *http.Request) bool {
	query, err := url.ParseQuery(r.URL.RawQuery)
	return err == nil && r.Method == http.MethodGet &&
		subtle.ConstantTimeCompare([]byte(query.Get("token")), []byte(d.token)) == 1 &&
		d.used.CompareAndSwap(false, true)
}

// isLoopback reports whether a Host field names this machine. Another site may point any other name
// here (DNS rebinding). The port may differ from the listener's, for example with `ssh -L`.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}

// Serve serves a listener until ctx ends, and closes it.
func (d *Door) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler: d, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
