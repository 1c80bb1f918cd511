package tally

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/caddy-tally/caddy-tally/internal/httpfield"
	"github.com/caddy-tally/caddy-tally/internal/placeholder"
)

// What placeholders begin with whose values a client can write in several ways that
// mean the same.
const (
	hostLabels  = "http.request.host.labels."
	headerField = "http.request.header."
)

// hostPlaceholders hold the name of a host.
var hostPlaceholders = []string{"http.request.host", "http.request.tls.server_name"}

// needsOneSpelling reports whether a key has placeholders of which different values
// mean the same.
func needsOneSpelling(key string) bool {
	return slices.ContainsFunc(placeholder.Names(key), func(name string) bool {
		return slices.Contains(hostPlaceholders, name) || strings.HasPrefix(name, hostLabels) || strings.HasPrefix(name, headerField)
	})
}

// keyText returns the value of the zone's key: the same, however the client writes
// the name of a host or the white space around a header field's value.
func (e *evaluation) keyText(z *zone) string {
	if !z.oneSpelling {
		return e.repl.ReplaceAll(z.Key, "")
	}
	text, _ := e.repl.ReplaceFunc(z.Key, func(name string, value any) (any, error) { // returns no error
		text := caddy.ToString(value)
		switch labels, ok := strings.CutPrefix(name, hostLabels); {
		case ok:
			return hostLabel(e.http.Host, labels), nil
		case slices.Contains(hostPlaceholders, name):
			return hostKey(text), nil
		case strings.HasPrefix(name, headerField):
			return httpfield.TrimSpace(text), nil
		}
		return value, nil
	})
	return text
}

// hostKey returns the one spelling of a host: in lower case, without a port, and
// without the dots of a rooted name.
func hostKey(host string) string {
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return addr.String()
	}
	if strings.HasPrefix(host, "[") {
		host, _, _ = strings.Cut(host[1:], "]")
		return hostKey(host)
	}
	host, _, _ = strings.Cut(host, ":")
	return strings.ToLower(strings.TrimRight(host, "."))
}

// hostLabel returns the nth label of a host, counted from the right, or "".
func hostLabel(host, nth string) string {
	labels := strings.Split(hostKey(host), ".")
	slices.Reverse(labels)
	if n, err := strconv.Atoi(nth); err == nil && n >= 0 && n < len(labels) {
		return labels[n]
	}
	return ""
}
