package session

import (
	"strconv"
	"strings"
	"time"
)

// The names of the session cookie. Over HTTPS it has a prefix, so that browsers accept it only from this very site
// (draft-ietf-httpbis-rfc6265bis, section 4.1.3). Over plain HTTP browsers would refuse the prefix.
const (
	SecureCookie = "__Host-rl"
	PlainCookie  = "rl"
)

// CookieName returns the name of the cookie for a scheme.
func CookieName(https bool) string {
	if https {
		return SecureCookie
	}
	return PlainCookie
}

// SetCookie returns the value of a Set-Cookie field that makes a browser keep a token until the session expires.
func SetCookie(name, value string, now time.Time, session Session) string {
	var b strings.Builder
	b.WriteString(name + "=" + value + "; Path=/; Max-Age=")
	b.WriteString(strconv.FormatInt(int64(session.Expires.Sub(now)/time.Second), 10))
	b.WriteString("; HttpOnly; SameSite=Lax")
	if name == SecureCookie {
		b.WriteString("; Secure")
	}
	return b.String()
}

// Site returns the site of a Host field, for [Audience]: its host in lower case, without the port, which cookies
// ignore, and without the dot of a rooted name.
func Site(host string) string {
	if port := strings.LastIndexByte(host, ':'); port > strings.LastIndexByte(host, ']') {
		host = host[:port]
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}
