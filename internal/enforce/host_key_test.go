package enforce

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

func TestHostKey(t *testing.T) {
	for host, want := range map[string]string{
		"example.com": "example.com", "EXAMPLE.com": "example.com", "example.com.": "example.com", "example.com..": "example.com",
		"Example.COM.:80": "example.com", "example.com:": "example.com", "example.com::1": "example.com",
		"192.0.2.1": "192.0.2.1", "192.0.2.1:80": "192.0.2.1",
		"::1": "::1", "[::1]": "::1", "[::1]:80": "::1", "[0:0::1]": "::1", "[x]:1": "x", "[x": "x", "x]": "x", "ſite.exampleK.com": "site.examplek.com", "[": "", "": "", ".": "", ":80": "",
	} {
		if got := HostKey(host); got != want {
			t.Errorf("%q is %q, want %q", host, got, want)
		}
	}
}

func FuzzHostKey(f *testing.F) {
	f.Add("Example.com.:80")
	f.Add("[[::1]]]")
	f.Fuzz(func(t *testing.T, host string) {
		if once := HostKey(host); HostKey(once) != once {
			t.Errorf("%q is %q, and that is %q", host, once, HostKey(once))
		}
	})
}

func TestHostLabel(t *testing.T) {
	for nth, want := range map[string]string{"0": "com", "1": "example", "2": "a", "3": "", "-1": "", "x": ""} {
		for _, host := range []string{"a.example.com", "A.Example.com.:443"} {
			if got := hostLabel(host, nth); got != want {
				t.Errorf("label %s of %s is %q, want %q", nth, host, got, want)
			}
		}
	}
}

// Spellings of one host or header field share one count, and different hosts have different counts.
func TestKeysHaveOneSpelling(t *testing.T) {
	for key, requests := range map[string][]*http.Request{
		"{http.request.host}":          {{Host: "a.example.com"}, {Host: "A.example.com."}, {Host: "a.EXAMPLE.com.:81"}, {Host: "b.example.com"}},
		"{http.request.host.labels.2}": {{Host: "a.example.com"}, {Host: "A.example.com."}, {Host: "a.example.net"}, {Host: "b.example.com"}},
		"t {http.request.header.X-Tenant}": {
			{Header: http.Header{"X-Tenant": {"a"}}}, {Header: http.Header{"X-Tenant": {"a "}}}, {Header: http.Header{"X-Tenant": {"\ta"}}}, {Header: http.Header{"X-Tenant": {"b"}}},
		},
	} {
		z := &Zone{Key: key, OneSpelling: NeedsOneSpelling(key)}
		var texts []string
		for _, r := range requests {
			r.URL = new(url.URL)
			e := newEvaluation(caddyhttp.PrepareRequest(r, caddy.NewReplacer(), httptest.NewRecorder(), new(caddyhttp.Server)))
			texts = append(texts, z.keyText(e))
			e.Release()
		}
		if texts[0] != texts[1] || texts[0] != texts[2] || texts[0] == texts[3] {
			t.Errorf("%s is %q, want the same three times, and another", key, texts)
		}
	}
}

// A zone with separate counts for sites counts all spellings that Caddy routes to a site on that site.
func TestSitesHaveOneSpelling(t *testing.T) {
	z := &Zone{Sites: map[string]SiteLimits{"": {}, "site.example.com": {}, "*.example.net": {}, "::1": {}}}
	for host, want := range map[string]string{
		"site.example.com": "site.example.com", "[site.example.com]": "site.example.com", "[Site.example.com": "site.example.com",
		"site.example.com]": "site.example.com", "ſite.example.com:443": "site.example.com", "[a.example.net]": "*.example.net",
		"[::1]": "::1", "[::1]:80": "::1", "b.example.com": "", "a.b.example.net": "",
	} {
		if got := z.site(host); got != want {
			t.Errorf("%q is of the site %q, want %q", host, got, want)
		}
	}
}

// A client chooses the spelling of a host, not its domain.
func TestDomainsHaveOneSpelling(t *testing.T) {
	for host, want := range map[string]string{
		"www.example.co.uk": "example.co.uk", "WWW.Example.CO.UK.:443": "example.co.uk", "example.co.uk..": "example.co.uk",
		"[example.co.uk]": "example.co.uk", "co.uk": "co.uk", "localhost:80": "localhost",
		"192.0.2.1:80": "192.0.2.1", "[2001:DB8:0::1]:80": "2001:db8::1", "2001:db8::1": "2001:db8::1",
	} {
		repl := caddy.NewReplacer()
		mapDomain(repl, &http.Request{Host: host})
		if got := repl.ReplaceAll("{"+DomainPlaceholder+"}", ""); got != want {
			t.Errorf("the domain of %q is %q, want %q", host, got, want)
		}
	}
}
