package caddytest

import (
	"net/http"
	"strings"
	"testing"
)

// The dashboard is for users, below whatever path it stands, and for nobody else.
func TestDashboardIsForUsers(t *testing.T) {
	for name, body := range map[string]string{
		"handle_path": "handle_path /limits/* {\n" + basicAuth + "rate_limit_dashboard\n}\n",
		"handle":      "handle /limits/* {\nrate_limit_dashboard\n" + basicAuth + "}\n",
		"route":       "route /limits/* {\n" + basicAuth + "rate_limit_dashboard\n}\n",
		"directive":   "rate_limit_dashboard /limits/*\n" + basicAuth,
		"cut":         "handle_path /limits* {\n" + basicAuth + "rate_limit_dashboard\n}\n",
	} {
		t.Run(name, func(t *testing.T) {
			s := startCaddy(t, options("")+site(body+"rate_limit {\nzone all {\nlimit 1000/1h\n}\n}\n"+"respond hello\n"))
			for _, path := range []string{"/limits/", "/limits/clients", "/limits/style.css", "/limits/events"} {
				if a := s.get(path); a.status != http.StatusUnauthorized {
					t.Errorf("%s without a password: got %d, want 401", path, a.status)
				}
			}
			a := s.get("/limits/", alice)
			if a.status != http.StatusOK || !strings.Contains(a.body, "<h1>Now</h1>") || !strings.Contains(a.body, "alice") || !strings.Contains(a.body, "reads only") {
				t.Errorf("alice is answered with %d:\n%s", a.status, a.body)
			}
			if a := s.get("/limits/health", alice); a.status != http.StatusOK || !strings.Contains(a.body, "sqlite") {
				t.Errorf("the health is answered with %d:\n%s", a.status, a.body)
			}
			if name == "cut" {
				if a := s.get("/limits", alice); a.status != http.StatusPermanentRedirect || a.header.Get("Location") != "./limits/" {
					t.Errorf("without the slash: got %d and Location %q", a.status, a.header.Get("Location"))
				}
			}
		})
	}
}

// Without a user only a matcher lets somebody in, and a config that lets nobody in is warned of.
func TestDashboardWithoutUsers(t *testing.T) {
	s := startCaddy(t, options(trusting)+site("rate_limit_dashboard /limits/* {\nwritable\nallow 192.0.2.7\n}\nrate_limit_dashboard /shut/*\nrespond hello\n"))
	if a := s.get("/limits/", "X-Forwarded-For: 192.0.2.7"); a.status != http.StatusOK || strings.Contains(a.body, "reads only") {
		t.Errorf("who is allowed is answered with %d", a.status)
	}
	for _, path := range []string{"/limits/", "/limits/clients", "/shut/"} {
		if a := s.get(path, "X-Forwarded-For: 192.0.2.8"); a.status != http.StatusForbidden || strings.Contains(a.body, "<h1") {
			t.Errorf("%s: got %d, want 403", path, a.status)
		}
	}
	if n := strings.Count(s.logs(), "everybody is answered with 403"); n != 1 {
		t.Errorf("%d warnings that nobody gets in, want 1 for /shut/*:\n%s", n, s.logs())
	}
}
