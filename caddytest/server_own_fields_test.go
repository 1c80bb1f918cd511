package caddytest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/caddy-tally/caddy-tally/internal/testing/browser"
	"github.com/caddy-tally/caddy-tally/internal/testing/proof"
)

// unfit are header fields that a site means for its own pages, and that keep a browser from showing or running
// another one.
var unfit = []string{
	`Content-Security-Policy "default-src 'self'; frame-ancestors https://partner.test; require-trusted-types-for 'script'; sandbox"`,
	`Content-Security-Policy-Report-Only "default-src 'none'; report-uri /reports"`,
	"Content-Type application/wasm", "Content-Encoding gzip", "Content-Disposition attachment", "Content-Language tlh", "X-Content-Type-Options x",
	"Clear-Site-Data `\"*\"`", "Cross-Origin-Embedder-Policy require-corp", "Cross-Origin-Opener-Policy same-origin",
	"Cross-Origin-Resource-Policy same-site", "Document-Policy sync-script=?0", "Integrity-Policy blocked-destinations=(script)",
	"Link `</style.css>; rel=preload; as=style`", "Refresh \"0; url=/elsewhere\"", "Speculation-Rules `\"/rules.json\"`",
	"Referrer-Policy no-referrer", "X-Frame-Options SAMEORIGIN", "Vary Cookie", "Location /elsewhere",
}

// fieldsOf are the ways in which a site sets header fields on all its pages.
func fieldsOf(fields []string) map[string]string {
	block := strings.Join(fields, "\n")
	encodable := strings.Replace(block, "Content-Encoding gzip\n", "", 1) // no page of the site could be read with it
	return map[string]string{
		"at once":          "header {\n" + block + "\n}",
		"later values":     "header {\n>" + strings.Join(fields, "\n>") + "\n}",
		"defer":            "header {\ndefer\n" + block + "\n}",
		"a removed field":  "header {\n-Server\n" + block + "\n}",
		"two directives":   "header {\n-Server\n" + block + "\n}\nheader {\n-X-Powered-By\n" + block + "\n}",
		"added values":     "header {\ndefer\n+" + strings.Join(fields, "\n+") + "\n}",
		"by status":        "header {\nmatch status 4xx 2xx 3xx\n" + block + "\n}",
		"no other fields":  "header -*\n",
		"with compression": "header {\n-Server\n" + encodable + "\n}\nencode {\nminimum_length 1\n}\n",
		"around them all":  "encode {\nminimum_length 1\n}\nheader {\n-Server\n" + block + "\n}\n",
	}
}

// Whatever a site's header directive does to its pages, at once or when an answer is written: answers of ours have the
// header fields that they need, and none that would keep a browser from showing or running them. The site's other
// fields stay.
func TestSitesFieldsBreakNoAnswerOfOurs(t *testing.T) {
	t.Parallel()
	sites := make(map[string]string)
	for name, header := range fieldsOf(unfit) {
		sites[name] = site("route {\n" + header + `
				handle_path /board/* {
					rate_limit_dashboard {
						allow remote_ip 127.0.0.1
					}
				}
				rate_limit {
					zone puzzle {
						match /page*
						per client
						limit 1/1h
						on_exceeded challenge
					}
					zone refused {
						match /limited*
						limit 1/1h
					}
				}
				respond hello
			}`)
	}
	eachSite(t, "rate_limit {\nstore_timeout 1m\nsession {\nchallenge proof_of_work 8\n}\n}\norder encode before header\n", sites, func(t *testing.T, s *server, name string) {
		s.get("/page")
		s.get("/limited")
		check := func(what string, a answer, wantStatus int, wantType, wantPolicy string) {
			t.Helper()
			if a.status != wantStatus || a.header.Get("Content-Type") != wantType || !strings.HasPrefix(a.header.Get("Content-Security-Policy"), wantPolicy) {
				t.Errorf("%s: status %d with %v", what, a.status, a.header)
			}
			for _, field := range []string{"Clear-Site-Data", "Content-Disposition", "Content-Encoding", "Content-Security-Policy-Report-Only", "Document-Policy", "Integrity-Policy", "Link", "Refresh", "Speculation-Rules"} {
				if value := a.header.Get(field); value != "" && strings.HasPrefix(wantType, "text/html") {
					t.Errorf("%s: it has %s: %s", what, field, value)
				}
			}
			if nosniff := a.header["X-Content-Type-Options"]; wantType != "" && len(nosniff) != 1 || nosniff != nil && nosniff[0] != "nosniff" {
				t.Errorf("%s: X-Content-Type-Options is %q", what, nosniff)
			}
			if name != "no other fields" && !strings.Contains(name, "added") && a.header.Get("Cross-Origin-Resource-Policy") != "same-site" && !strings.HasPrefix(what, "/board") {
				t.Errorf("%s: a field of the site's is gone: %v", what, a.header)
			}
		}
		const html = "text/html; charset=utf-8"
		puzzle := s.get("/page", navigation...)
		check("/page", puzzle, http.StatusTooManyRequests, html, "default-src 'none'; script-src 'sha256-")
		check(endpoint, s.get(endpoint), http.StatusOK, html, "default-src 'none'; script-src 'sha256-")
		check("/limited", s.get("/limited", navigation...), http.StatusTooManyRequests, html, "default-src 'none'; script-src 'sha256-")
		check("/limited as text", s.get("/limited"), http.StatusTooManyRequests, "text/plain; charset=utf-8", "")
		check("/limited as JSON", s.get("/limited", "Accept: application/json"), http.StatusTooManyRequests, "application/problem+json", "")
		check("/board/", s.get("/board/"), http.StatusOK, html, "default-src 'none'; script-src 'nonce-")
		check("/board/style.css", s.get("/board/style.css"), http.StatusOK, "text/css; charset=utf-8", "")
		check("/board/live.js", s.get("/board/live.js"), http.StatusOK, "text/javascript; charset=utf-8", "")
		if sent := s.get("/page", append([]string{"Accept-Encoding: identity"}, navigation...)...); !strings.Contains(sent.body, "data-puzzle") {
			t.Errorf("the page is %.200q with %v", sent.body, sent.header)
		}
		passed := s.post(solve(t, puzzle.body, "/page?x=1"))
		if passed.status != http.StatusSeeOther || passed.header.Get("Location") != "/page?x=1" || passed.header.Get("Clear-Site-Data") != "" {
			t.Errorf("a solution is answered with %d and %v", passed.status, passed.header)
		}
		cookieOf(t, passed)
	})
}

// A session's cookie reaches the browser as it was made, whatever a site does to its cookies.
func TestSitesFieldsLeaveTheCookie(t *testing.T) {
	t.Parallel()
	sites := make(map[string]string)
	for _, header := range []string{
		"header -Set-Cookie", "header >Set-Cookie lang=en", "header -*", "header >Set-Cookie (.*) `$1; Domain=example.com; Path=/app; Secure`",
		"header {\ndefer\n+Set-Cookie lang=en\n}", "header +Set-Cookie lang=en",
	} {
		sites[header] = site(header + "\nrate_limit {\nzone z {\nper client\nlimit 100/1h\non_exceeded challenge\n}\n}\nrespond hello")
	}
	eachSite(t, "rate_limit {\nstore_timeout 1m\nsession {\nchallenge proof_of_work 8\n}\n}\n", sites, func(t *testing.T, s *server, header string) {
		cookies := s.post(solve(t, s.get(endpoint).body, "/")).header["Set-Cookie"]
		last := ""
		if len(cookies) > 0 {
			last = cookies[len(cookies)-1] // what browsers keep
		}
		if !strings.HasPrefix(last, "rl=") || strings.Contains(last, "Domain") || strings.Contains(last, "/app") {
			t.Errorf("%s: the cookies are %q", header, cookies)
		}
		if want := strings.Contains(header, "lang=en"); want != strings.Contains(strings.Join(cookies, "\n"), "lang=en") {
			t.Errorf("%s: the site's own cookie: %q", header, cookies)
		}
	})
}

// A site's usual header fields, applied to every answer in every way, shut no browser out: it passes the puzzle, and the
// dashboard is alive.
func TestBrowserPassesDespiteSitesFields(t *testing.T) {
	t.Parallel()
	b := browser.Start(t, browser.Find(t))
	arrived := make(chan string, 100)
	backend := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- r.URL.RequestURI() + " " + r.Header.Get("X-Kind")
	}))
	t.Cleanup(backend.Close)
	for name, header := range fieldsOf(unfit) {
		if !proof.IsOn() && name != "later values" && name != "with compression" && name != "by status" {
			continue // TestSitesFieldsBreakNoAnswerOfOurs looks at the fields of all
		}
		s := startCaddy(t, options("rate_limit {\nstore_timeout 1m\nsession {\nchallenge proof_of_work 8\n}\n}\norder encode before header\n")+site(`route {
			`+header+`
			handle_path /board/* {
				rate_limit_dashboard {
					allow remote_ip 127.0.0.1
				}
			}
			rate_limit {
				zone puzzle {
					match /page
					per client
					limit 1/1h
					prefix_ceiling 1
					on_exceeded challenge
				}
			}
			reverse_proxy {$BACKEND} {
				header_up X-Kind {http.rate_limit.client.kind}
			}
		}`), "BACKEND="+strings.TrimPrefix(backend.URL, "http://"))
		s.wantPassed(1, 2, "/page")
		<-arrived
		page := b.Open(t, browser.View{Width: 400, Height: 700})
		page.Go("http://127.0.0.1:" + s.port + "/board/")
		page.Wait(`/^Live$/.test(document.querySelector("[data-state]").textContent)`)
		if err := page.Start("http://127.0.0.1:" + s.port + "/page?" + s.port); err != nil {
			t.Fatal(err)
		}
		timeout := time.After(patience)
		for got, want := "", "/page?"+s.port+" session"; got != want; {
			select {
			case got = <-arrived: // or something else that a browser asks for, such as an icon
			case <-timeout:
				t.Fatalf("%s: the browser does not pass the puzzle: %q %q", name, page.Troubles(), page.Requests())
			}
		}
		page.Close() // one of the fields reloads it all the time
	}
}
