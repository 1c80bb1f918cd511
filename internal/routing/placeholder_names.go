package routing

import (
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/caddy-tally/caddy-tally/internal/typo"
)

// dynamicFamilies are the namespaces whose names [CheckPlaceholders] can't know: handlers set them during a
// request, or an operator invents them.
var dynamicFamilies = []string{
	"env.",
	"file.",
	"map.", // checkName sends the destinations of the map directive here
	"http.auth.candidate.",
	"http.auth.user.",
	"http.error.",
	"http.intercept.",
	"http.matchers.",
	"http.rate_limit.",
	"http.regexp.",
	"http.response.header.",
	"http.reverse_proxy.",
	"http.vars.",
}

// requestFamilies are namespaces in which [CheckPlaceholders] knows every name; they are for suggestions.
var requestFamilies = []string{
	"http.request.cookie.",
	"http.request.header.",
	"http.request.host.labels.",
	"http.request.uri.path.",
	"http.request.uri.query.",
}

// usualPlaceholders are names that limits are often counted by, among those that Caddy provides for every request.
// They are for suggestions: [CheckPlaceholders] determines whether a name is known.
var usualPlaceholders = []string{
	"http.request.body",
	"http.request.host",
	"http.request.hostport",
	"http.request.method",
	"http.request.orig_uri",
	"http.request.remote",
	"http.request.remote.host",
	"http.request.scheme",
	"http.request.tls.client.fingerprint",
	"http.request.tls.client.serial",
	"http.request.tls.client.subject",
	"http.request.tls.server_name",
	"http.request.uri",
	"http.request.uri.path",
	"http.request.uri.query",
	"http.vars.client_ip",
}

// shorthands are names that only a Caddyfile has, where they are expanded before a directive sees
// them. Caddy determines their expansions.
var shorthands = []string{
	"client_ip", "dir", "file", "host", "hostport", "method", "orig_dir", "orig_file",
	"orig_method", "orig_path", "orig_query", "orig_uri", "path", "port", "query",
	"remote", "remote_host", "remote_port", "scheme", "tls_cipher",
	"tls_client_certificate_der_base64", "tls_client_certificate_pem",
	"tls_client_fingerprint", "tls_client_issuer", "tls_client_serial",
	"tls_client_subject", "tls_version", "upstream_hostport", "uri", "uuid",
}

// shorthandFamilies are the shorthands with a name after a dot.
var shorthandFamilies = []string{
	"cookie.", "err.", "file_match.", "header.", "labels.", "path.", "query.", "re.", "resp.", "rp.", "vars.",
}

// addressNames are other programs' names for the address of a client.
var addressNames = []string{
	"ip", "remote_ip", "remote.ip", "remote_addr", "binary_remote_addr", "real_ip", "client.ip", "client_addr",
	"client_address",
	"http.client_ip", "http.remote_ip", "http.remote_addr",
	"http.request.ip", "http.request.remote.ip", "http.request.remote_ip", "http.request.remote_addr",
	"http.request.client_ip", "http.request.real_ip",
}

// nearest returns the known name that is probably intended by an unknown one, or "".
func nearest(name string) string {
	if full := expandShorthand(name); full != name {
		return full
	}
	if slices.Contains(addressNames, name) {
		return "http.vars.client_ip"
	}
	for _, family := range []string{"http.", "http.request.", "http.auth."} {
		if full := family + name; isKnown(full) {
			return full
		}
	}
	if rest, ok := strings.CutPrefix(name, "http."); ok && isKnown("http.request."+rest) {
		return "http.request." + rest
	}
	best, least := "", 3
	for _, candidate := range candidatesFor(name) {
		if n := typo.Distance(name, candidate); n < least && n <= len(name)/3 && isKnown(expandShorthand(candidate)) {
			best, least = candidate, n
		}
	}
	return expandShorthand(best)
}

// candidatesFor returns all names that Caddy knows, including those of a family with the last part
// of name.
func candidatesFor(name string) []string {
	candidates := append(append([]string(nil), usualPlaceholders...), shorthands...)
	for _, families := range [][]string{dynamicFamilies, requestFamilies, shorthandFamilies} {
		for _, family := range families {
			if tail := behindDots(name, strings.Count(family, ".")); tail != "" {
				candidates = append(candidates, family+tail)
			}
		}
	}
	return candidates
}

// behindDots returns the text after the nth dot of s, or "".
func behindDots(s string, n int) string {
	parts := strings.SplitN(s, ".", n+1)
	if len(parts) <= n {
		return ""
	}
	return parts[n]
}

// expandShorthand returns the expansion of a Caddyfile shorthand, or the name itself. Unlike Caddy,
// it also expands a shorthand with more than a word after its dot.
func expandShorthand(name string) string {
	for _, family := range shorthandFamilies {
		if tail, ok := strings.CutPrefix(name, family); ok && tail != "" {
			return strings.TrimSuffix(caddyShorthand(family+"x"), "x") + tail
		}
	}
	return caddyShorthand(name)
}

// caddyShorthand returns Caddy's expansion of a Caddyfile shorthand, or the name itself.
func caddyShorthand(name string) string {
	if strings.ContainsAny(name, "{}") || strings.HasSuffix(name, ".") { // {a{host} is not {host}
		return name
	}
	segment := caddyfile.Segment{{Text: "{" + name + "}"}}
	httpcaddyfile.NewShorthandReplacer().ApplyToSegment(&segment)
	return strings.TrimSuffix(strings.TrimPrefix(segment[0].Text, "{"), "}")
}
