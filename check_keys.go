package tally

// This file finds keys that hardly count what was meant.

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/caddy-tally/caddy-tally/internal/enforce"
	"github.com/caddy-tally/caddy-tally/internal/placeholder"
)

// fleeting are placeholders that change from one request or connection to the next, so
// that nobody who is counted by them is ever limited.
var fleeting = []string{
	"http.request.remote", "http.request.remote.port", "http.request.uuid", "http.request.duration", "http.request.duration_ms",
	"time.now", "time.now.common_log", "time.now.http", "time.now.rfc3339", "time.now.unix", "time.now.unix_ms",
}

// checkKeyMeant returns an error about a key that can't be meant, and warns of one that
// hardly is.
func (z *zoneSetup) checkKeyMeant() error {
	if err := z.checkKey(); err != nil {
		return z.mistake(err)
	}
	if problem, write := z.doubtfulKey(); problem != "" {
		z.warn(problem, write)
	}
	return nil
}

// checkKey returns an error about a key that hardly counts what was meant.
func (z *Zone) checkKey() error {
	names := placeholder.Names(z.Key)
	for _, name := range names {
		switch {
		case name == "http.request.remote":
			return fmt.Errorf("key: {%s} has the port in it, which is another for every connection, so that nobody is limited: write per ip, or key {http.request.remote.host}", name)
		case slices.Contains(fleeting, name):
			return fmt.Errorf("key: {%s} changes from one request or connection to the next, so that nobody is limited: write per ip", name)
		}
	}
	if len(names) > 0 {
		return nil
	}
	switch key := strings.ToLower(z.Key); {
	case strings.ContainsAny(key, "{}$") && !strings.Contains(key, `\`):
		return fmt.Errorf("key: %q has no placeholder in it, so that everybody shares one count: is a brace missing? write key {http.request.header.X-Tenant}, or per ip", z.Key)
	case slices.Contains([]string{"ip", "client", "api_key", "remote", "remote_ip", "remote_host", "remote_addr", "client_ip", "address", "user", "session", "header", "host", "path", "uri", "method"}, key),
		isAddress(key):
		return fmt.Errorf("key: %q has no placeholder in it, so that everybody shares one count: write %s", z.Key, keyInsteadOf(key))
	}
	return nil
}

func isAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// keyInsteadOf returns what was probably meant by a key that is a bare word.
func keyInsteadOf(word string) string {
	if write := insteadOfPer([]string{word}); !strings.Contains(write, "<value>") {
		return write
	}
	return "per ip, or a placeholder such as key {http.request.header.X-Tenant}"
}

// addressFields are header fields in which proxies say who a client is, and clients
// say whatever they like.
var addressFields = []string{"X-Forwarded-For", "X-Real-Ip", "X-Client-Ip", "True-Client-Ip", "Cf-Connecting-Ip", "Fastly-Client-Ip", "Forwarded"}

// asSent are placeholders of which a client can make up as many values as it likes that
// mean the same to a backend.
var asSent = []string{
	"http.request.uri", "http.request.uri.query", "http.request.uri.prefixed_query", "http.request.orig_uri",
	"http.request.orig_uri.query", "http.request.body", "http.request.body_base64",
}

// doubtfulKey returns what is doubtful about a key that may be meant all the same, and
// what to write instead; or "".
func (z *Zone) doubtfulKey() (problem, write string) {
	for _, name := range placeholder.Names(z.Key) {
		if slices.Contains(asSent, name) {
			return fmt.Sprintf("key: {%s} is what the client sends: it gets another limit with every ?x=1 that it adds", name),
				"key {http.request.uri.path} with a second zone per ip, or per ip alone"
		}
		field, ok := strings.CutPrefix(name, "http.request.header.")
		if ok && slices.ContainsFunc(addressFields, func(f string) bool { return strings.EqualFold(f, field) }) {
			return fmt.Sprintf("key: {%s} is what the client sends: it gets another limit with every other value that it makes up", name),
				"per ip, and trusted_proxies in the global option servers"
		}
	}
	if z.Per == enforce.PerKey && len(placeholder.Names(z.Key)) == 0 {
		return fmt.Sprintf("key: %q has no placeholder in it: everybody shares one count", z.Key), "per everyone"
	}
	return "", ""
}
