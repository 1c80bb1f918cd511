package caddytest

import (
	"net/http"
	"testing"
)

// A zone that counts each site on its own has as many counts as the config names
// sites, and not as many as clients make up.
func TestScopeSiteCountsEachSiteOnItsOwn(t *testing.T) {
	t.Parallel()
	const block = `{
		import limited
		respond hello
	}
	`
	sites := `(limited) {
		rate_limit {
			zone login {
				limit 2/1h
				scope site
			}
		}
	}
	` + "http://a.test:{$PORT} " + block + "http://*.b.test:{$PORT} " + block + "http://:{$PORT} " + block
	s := startCaddy(t, options(patient)+sites)
	allowed := func(host string) bool {
		t.Helper()
		r, err := http.NewRequest(http.MethodGet, "http://127.0.0.1:"+s.port+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		a, err := insist(func() (answer, error) { return do(s.client, r) })
		if err != nil {
			t.Fatal(err)
		}
		return a.isAllowed(t)
	}
	for _, site := range [][]string{{"a.test", "A.TEST:80", "a.test"}, {"x.b.test", "y.b.test", "z.b.test"}, {"one.example", "two.example", "c.a.test"}} {
		for i, host := range site {
			if got, want := allowed(host), i < 2; got != want {
				t.Errorf("request %d of %q is allowed: %t, want %t", i+1, site, got, want)
			}
		}
	}
	if allowed("a.test") {
		t.Error("a site counts from zero")
	}
}
