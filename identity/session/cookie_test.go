package session

import (
	"testing"
	"time"
)

func TestSetCookie(t *testing.T) {
	session := Session{Expires: t0.Add(time.Hour + time.Millisecond)}
	for https, want := range map[bool]string{
		true:  "__Host-rl=token; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax; Secure",
		false: "rl=token; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax",
	} {
		if got := SetCookie(CookieName(https), "token", t0, session); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestSite(t *testing.T) {
	for host, want := range map[string]string{
		"example.com":      "example.com",
		"EXAMPLE.com:8443": "example.com",
		"example.com.":     "example.com",
		"example.com.:80":  "example.com",
		"192.0.2.1:80":     "192.0.2.1",
		"[2001:DB8::1]":    "[2001:db8::1]",
		"[2001:db8::1]:80": "[2001:db8::1]",
		"":                 "",
		":":                "",
	} {
		if got := Site(host); got != want {
			t.Errorf("Site(%q) = %q, want %q", host, got, want)
		}
	}
}
