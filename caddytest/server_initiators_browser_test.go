package caddytest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/browser"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// hostile is a page that has its visitors' browsers send whatever they let it send
// to another site: over the limit, and into a trap.
const hostile = `<!doctype html><body><script>
const there = %q
const settled = (element, where) => new Promise(done => {
	element.onload = element.onerror = done
	where.append(element)
})
const make = (name, more) => Object.assign(document.createElement(name), more)
async function attack() {
	for (let i = 0; i < 15; i++) {
		await fetch(there + '/', {method: 'POST', mode: 'no-cors', body: 'x', headers: {'Accept-Language': 'x' + i}}).catch(() => {})
		await fetch(there + '/', {mode: 'no-cors', credentials: 'include'}).catch(() => {})
	}
	for (const policy of ['', 'no-referrer', 'unsafe-url']) {
		await settled(make('img', {referrerPolicy: policy, src: there + '/trap?' + policy}), document.body)
	}
	await settled(make('script', {src: there + '/trap?script'}), document.head)
	await settled(make('link', {rel: 'stylesheet', href: there + '/trap?style'}), document.head)
	await settled(make('iframe', {src: there + '/trap?frame'}), document.body)
	const frame = make('iframe', {name: 'sink'})
	document.body.append(frame)
	for (const method of ['get', 'post']) {
		const form = make('form', {method, target: 'sink', action: there + '/trap'})
		document.body.append(form)
		const sent = new Promise(done => frame.onload = done)
		form.submit()
		await sent
	}
	location = there + '/trap?link'
}
attack()
</script></body>`

// Whatever a page of another site has its visitors' browsers send, over plain HTTP
// or where browsers say Sec-Fetch-Site as over HTTPS: they are let in when they visit
// the site themselves. What browsers say over HTTPS is looked at with PROOF.
func TestPageElsewhereBansNoVisitors(t *testing.T) {
	t.Parallel()
	chromium := browser.Find(t)
	for name, c := range map[string]struct {
		host string
		bans string // of what pages embed, what links lead to, and what says nothing
	}{
		"plain HTTP":     {"site.test", "3"},
		"fetch metadata": {"127.0.0.1", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.host != "site.test" {
				proof.Only(t)
			}
			requests := make(chan string, 1000)
			backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests <- r.URL.RequestURI()
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprint(w, "<script>fetch('/arrived')</script>")
			}))
			t.Cleanup(backend.Close)
			s := startCaddy(t, options(`
			rate_limit {
				store_timeout 1m
				ban after 1 violations in 1h for 1h
			}`)+site(`
			rate_limit {
				trap ban 1h path /trap
				zone z {
					per client
					limit 20/1h
				}
			}
			reverse_proxy {$BACKEND}`), "BACKEND="+strings.TrimPrefix(backend.URL, "http://"))
			there := "http://" + s.host(c.host)
			evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprintf(w, hostile, there)
			}))
			t.Cleanup(evil.Close)
			at, _ := url.Parse(evil.URL)

			browser.Visit(t, chromium, "http://evil.test:"+at.Port()+"/")
			waitFor(t, "all of it to be banned", func() bool { return s.metric("caddy_rate_limit_bans_total") == c.bans })
			browser.Visit(t, chromium, there+"/visit")
			timeout := time.After(patience)
			for got := ""; got != "/arrived"; {
				select {
				case got = <-requests:
				case <-timeout:
					t.Fatal("a visitor of the site was not let in")
				}
			}
			if got := s.metric("caddy_rate_limit_bans_total"); got != c.bans {
				t.Errorf("%s bans after the visit, want %s", got, c.bans)
			}
		})
	}
}

// host returns the address of the server under a name.
func (s *server) host(name string) string { return name + ":" + s.port }

// ahead is a page that has its visitors' browsers load pages of another site ahead, with and
// without saying where it is.
const ahead = `<!doctype html><script type=speculationrules>{
"prefetch": [
	{"source": "list", "urls": %[1]s, "eagerness": "immediate"},
	{"source": "list", "urls": %[2]s, "eagerness": "immediate", "referrer_policy": "no-referrer"}
]}</script>`

// A page elsewhere has its visitors' browsers load pages ahead, which they say is a typed address:
// what these requests do isn't held against the visitors, and no trap punishes it.
func TestPagesLoadedAheadBanNoVisitors(t *testing.T) {
	t.Parallel()
	proof.Only(t)
	chromium := browser.Find(t)
	for name, c := range map[string]struct {
		path, limit string
		bans        string // of what browsers load ahead
	}{
		"trap":  {"/trap", "9/1h", "0"},
		"limit": {"/page", "4/1h", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			requests := make(chan string, 1000)
			backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				requests <- r.URL.Path
			}))
			t.Cleanup(backend.Close)
			s := startCaddy(t, options(`
			rate_limit {
				store_timeout 1m
				ban after 1 violations in 1h for 1h
			}
			auto_https disable_redirects`)+site("respond hello")+`
			https://site.test:{$TLS} {
				tls internal
				rate_limit {
					trap path /trap
					zone z {
						per client
						limit `+c.limit+`
					}
				}
				reverse_proxy {$BACKEND}
			}`, "BACKEND="+strings.TrimPrefix(backend.URL, "http://"))
			there := "https://site.test:" + s.tls
			address := func(n int) string { return fmt.Sprintf(`"%s%s?%d"`, there, c.path, n) }
			evil := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprintf(w, ahead, "["+address(1)+","+address(2)+","+address(3)+"]", "["+address(4)+","+address(5)+","+address(6)+"]")
			}))
			t.Cleanup(evil.Close)
			at, _ := url.Parse(evil.URL)
			// visit opens an address until path was loaded n times: a browser may leave out what it would load ahead.
			visit := func(address, path string, n int) {
				t.Helper()
				for timeout := time.After(patience); n > 0; {
					browser.Visit(t, chromium, address)
					for again := time.After(patience / 4); again != nil && n > 0; {
						select {
						case got := <-requests:
							if got == path {
								n--
							}
						case <-again:
							again = nil
						case <-timeout:
							t.Fatalf("%s is to be loaded %d more times", path, n)
						}
					}
				}
			}

			visit("https://evil.test:"+at.Port()+"/", c.path, 4)
			waitFor(t, "what comes of them", func() bool { return s.metric("caddy_rate_limit_bans_total") == c.bans })
			visit(there+"/visit", "/visit", 1)
			if got := s.metric("caddy_rate_limit_bans_total"); got != c.bans {
				t.Errorf("%s bans after the visit, want %s", got, c.bans)
			}
		})
	}
}
